//! Gemini by `streamGenerateContent`.
//!
//! The model's turn is stored part by part as received and replayed so: signatures sit on the exact part they
//! came on, and a history that lacks or changes one is refused.

mod answer;
mod request;

use super::retry::{self, Attempt};
use super::wire::{Asked, Broken, Wire, classify};
use super::{LlmError, LlmErrorKind, LlmProvider, Reply, Request, Service, Sink};
use crate::conversation::{CutBy, Ending};
use answer::{Answer, Fault};
use reqwest::Url;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

/// Google's own address.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com";

const NAME: &str = "gemini";
const KEY_HEADER: &str = "x-goog-api-key";
const DEFAULT_VERSION: &str = "v1beta";
static SERVICE: Service =
    Service { label: "Gemini", key_setting: "GEMINI_API_KEY", model_setting: "GEMINI_MODEL" };

/// A Gemini model.
#[derive(Clone, Debug)]
pub struct Gemini {
    wire: Wire,
    endpoint: Url,
    key: SecretString,
    model: String,
}

impl Gemini {
    /// A model at an address. `base` may end with the version of the interface (`/v1`, `/v1beta`); without one it
    /// is `v1beta`. Any text is a model name: the provider judges it.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unreachable`] if `base` is no web address.
    pub fn new(wire: Wire, base: &str, key: SecretString, model: &str) -> Result<Self, LlmError> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let endpoint = endpoint(base, model).ok_or_else(|| {
            LlmError::new(LlmErrorKind::Unreachable, &SERVICE, model, "its address is not a web address")
        })?;
        Ok(Self { wire, endpoint, key, model: model.to_owned() })
    }

    fn asked(&self) -> Asked<'_> {
        Asked { service: &SERVICE, model: &self.model, key: &self.key }
    }

    /// The error for an answer that did not end well, with what had arrived.
    fn failure(&self, fault: Fault, reply: Box<Reply>) -> LlmError {
        let (kind, said) = match &reply.turn.ending {
            Ending::CutOff { by: CutBy::TokenLimit } => {
                (LlmErrorKind::CutOff, "the limit on tokens was reached")
            }
            Ending::CutOff { .. } => (LlmErrorKind::CutOff, "it ended before it was whole"),
            Ending::Blocked { .. } => (LlmErrorKind::Blocked, ""),
            Ending::Stop | Ending::ToolCalls | Ending::Malformed => (LlmErrorKind::Malformed, ""),
            Ending::Other(_) => (LlmErrorKind::Malformed, "it ended in a way unknown here"),
        };
        let message: Vec<&str> = [said, &fault.message].into_iter().filter(|part| !part.is_empty()).collect();
        let asked = self.asked();
        LlmError {
            code: fault.code.map(|code| asked.without_key(&code)),
            partial: Some(reply),
            ..asked.fault(kind, &message.join("; "))
        }
    }

    /// The error for an answer that broke off, with what had arrived.
    fn broken(&self, broken: Broken, answer: Answer) -> LlmError {
        let Broken { by, error } = broken;
        LlmError { partial: Some(Box::new(answer.broken_off(Ending::CutOff { by }))), ..error }
    }
}

fn endpoint(base: &str, model: &str) -> Option<Url> {
    let mut url = Url::parse(base).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let versioned = url.path().trim_end_matches('/').rsplit('/').next().is_some_and(|last| {
        last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty();
    if !versioned {
        path.push(DEFAULT_VERSION);
    }
    path.extend(["models", &format!("{model}:streamGenerateContent")]);
    drop(path);
    url.set_query(Some("alt=sse"));
    Some(url)
}

#[async_trait::async_trait]
impl LlmProvider for Gemini {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    async fn stream(
        &self,
        request: Request<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, LlmError> {
        retry::answer(self, &request, sink, cancel, self.wire.limits().backoff).await
    }
}

#[async_trait::async_trait]
impl Attempt for Gemini {
    async fn attempt(
        &self,
        request: &Request<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, LlmError> {
        let asked = self.asked();
        let body = request::body(request, &self.model)
            .map_err(|error| asked.fault(LlmErrorKind::BadRequest, &error.to_string()))?;
        let mut events = self.wire.post(asked, self.endpoint.clone(), KEY_HEADER, body, cancel).await?;
        let mut answer = Answer::new(&self.model);
        loop {
            let data = match events.next().await {
                Ok(Some(data)) => data,
                Ok(None) => break,
                Err(broken) => return Err(self.broken(broken, answer)),
            };
            match answer.take(&data) {
                Ok(deltas) => deltas.into_iter().for_each(&mut *sink),
                Err(answer::Unusable::Error) => {
                    let error = classify(&asked, None, &data);
                    return Err(self.broken(Broken { by: CutBy::Connection, error }, answer));
                }
                Err(answer::Unusable::NotUnderstood(why)) => {
                    let error = asked.fault(LlmErrorKind::Malformed, &format!("not understood: {why}"));
                    return Err(LlmError {
                        partial: Some(Box::new(answer.broken_off(Ending::Malformed))),
                        ..error
                    });
                }
            }
        }
        answer.end().map_err(|(fault, reply)| self.failure(fault, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_holds_the_version_and_no_model_name_can_change_it() {
        let at = |base: &str, model: &str| endpoint(base, model).map(String::from).unwrap();
        assert_eq!(
            at(BASE_URL, "gemini-3.8-flash"),
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
        );
        assert_eq!(at("http://h/x/v1/", "m"), "http://h/x/v1/models/m:streamGenerateContent?alt=sse");
        assert_eq!(
            at("http://h", "../a?key=b#c"),
            "http://h/v1beta/models/..%2Fa%3Fkey=b%23c:streamGenerateContent?alt=sse"
        );
        for wrong in ["", "h", "file:///etc", "data:x"] {
            assert_eq!(endpoint(wrong, "m"), None, "{wrong}");
        }
    }
}
