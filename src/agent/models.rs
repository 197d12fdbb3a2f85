//! Which models can be asked: the configured providers, and what a conversation chose.

use crate::llm::{LlmError, LlmProvider};
use std::fmt;
use std::sync::Arc;

/// Makes a provider for a model's name.
pub type Make = Box<dyn Fn(&str) -> Result<Arc<dyn LlmProvider>, LlmError> + Send + Sync>;

/// A configured provider.
pub struct Source {
    /// Its name, as stored with conversations.
    pub name: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// The model that a new conversation gets.
    pub default_model: String,
    /// Makes it for any model's name: names are data, and the provider judges them.
    pub make: Make,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("default_model", &self.default_model)
            .finish()
    }
}

/// What a conversation chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// [`Source::name`].
    pub provider: String,
    /// The model's name.
    pub model: String,
}

/// The configured providers, the preferred one first.
#[derive(Clone, Debug)]
pub struct Models(Arc<[Source]>);

impl Models {
    /// The first source is what a new conversation gets.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Self {
        Self(sources.into())
    }

    /// The configured providers, the preferred one first.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.0
    }

    /// What a new conversation gets; `None` if no provider is configured.
    #[must_use]
    pub fn preferred(&self) -> Option<ModelChoice> {
        let source = self.0.first()?;
        Some(ModelChoice { provider: source.name.to_owned(), model: source.default_model.clone() })
    }

    /// The provider for a conversation's choice.
    ///
    /// # Errors
    /// One line for the chat: the provider is not configured, or cannot be set up.
    pub fn provider(&self, provider: &str, model: &str) -> Result<Arc<dyn LlmProvider>, NoProvider> {
        let source = self
            .0
            .iter()
            .find(|source| source.name == provider)
            .ok_or_else(|| NoProvider::NotConfigured(provider.to_owned()))?;
        (source.make)(model).map_err(|error| NoProvider::NotUsable(Box::new(error)))
    }
}

/// Why a conversation's model cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoProvider {
    /// Its provider is not configured here.
    #[error(
        "This conversation uses the model provider `{0}`, which is not set up. Set its key, or start a new conversation."
    )]
    NotConfigured(String),
    /// Its provider cannot be set up.
    #[error("{0}")]
    NotUsable(Box<LlmError>),
}
