//! The built-in demo model: a small script, no language model. It makes the whole product usable on a machine
//! without a key and without a network.

mod clauses;
mod intent;
mod plan;
mod results;
mod say;
mod tools;

use super::{Delta, LlmError, LlmErrorKind, LlmProvider, Reply, Request, Service, Sink, estimate};
use crate::conversation::{CutBy, Ending, ModelCall, ModelTurn};
use plan::Step;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const NAME: &str = "demo";
static SERVICE: Service = Service { label: "The demo model", key_setting: "", model_setting: "" };

/// The demo model. It understands plain requests about the shipped servers, and says what it can do if asked for
/// anything else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demo;

#[async_trait::async_trait]
impl LlmProvider for Demo {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        NAME
    }

    fn is_demo(&self) -> bool {
        true
    }

    async fn stream(
        &self,
        request: Request<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, LlmError> {
        let Step { text, calls } = plan::step(request.history, request.tools);
        let mut turn = ModelTurn {
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            ending: if calls.is_empty() { Ending::Stop } else { Ending::ToolCalls },
            provider: None,
        };
        for piece in text.split_inclusive(' ') {
            if cancel.is_cancelled() {
                turn.ending = Ending::CutOff { by: CutBy::Cancelled };
                let partial = Some(Box::new(reply(&request, turn)));
                return Err(LlmError {
                    partial,
                    ..LlmError::new(LlmErrorKind::Cancelled, &SERVICE, NAME, "")
                });
            }
            turn.text.push_str(piece);
            sink(Delta::Text(piece.to_owned()));
            tokio::task::yield_now().await;
        }
        turn.calls = calls
            .into_iter()
            .map(|call| ModelCall {
                key: Uuid::new_v4().to_string(),
                provider_id: None,
                name: call.name,
                arguments: Some(call.arguments.to_string()),
            })
            .collect();
        Ok(reply(&request, turn))
    }
}

fn reply(request: &Request<'_>, turn: ModelTurn) -> Reply {
    let usage = Some(estimate(request, &turn));
    Reply { turn, usage, model_version: Some(NAME.to_owned()), unfinished: Vec::new() }
}
