//! Which models the chat agent can ask.

use std::sync::Arc;

use secrecy::SecretString;

use crate::agent::{Models, Source};
use crate::config::Config;
use crate::llm::LlmProvider;
use crate::llm::demo::Demo;
use crate::llm::gemini::Gemini;
use crate::llm::wire::{Limits, Wire};

/// Gemini if there is a key, and always the demo model, so that the chat works on a fresh machine.
///
/// # Errors
/// When no HTTP client can be made.
pub(super) fn configured(config: &Config) -> anyhow::Result<Models> {
    let wire = Wire::new(Limits::default())?;
    let mut sources = Vec::new();
    if let Some(key) = &config.gemini_api_key {
        sources.push(gemini(wire, config.gemini_base_url.as_str().to_owned(), key.clone(), config));
    }
    sources.push(Source {
        name: "demo",
        label: "Demo model (a script, not an LLM)",
        default_model: "demo".to_owned(),
        make: Box::new(|_| Ok(Arc::new(Demo) as Arc<dyn LlmProvider>)),
    });
    Ok(Models::new(sources))
}

fn gemini(wire: Wire, base: String, key: SecretString, config: &Config) -> Source {
    Source {
        name: "gemini",
        label: "Gemini",
        default_model: config.gemini_model.clone(),
        make: Box::new(move |model| {
            let provider = Gemini::new(wire.clone(), &base, key.clone(), model)?;
            Ok(Arc::new(provider) as Arc<dyn LlmProvider>)
        }),
    }
}
