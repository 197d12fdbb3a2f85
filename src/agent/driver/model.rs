//! The driver's side of a model call: the budget before it, the usage after it.

use super::tools::Tools;
use super::{Done, Driver};
use crate::agent::budget;
use crate::agent::entry::window;
use crate::agent::prompt;
use crate::agent::report::TurnError;
use crate::agent::turn::{Budget, Event, Failure};
use crate::conversation::{CutBy, Ending, Message, ModelTurn, Usage};
use crate::llm::{LlmError, LlmErrorKind, Reply, Request, estimate};
use futures::future::BoxFuture;
use sluicegate_gateway::StoreError;
use sluicegate_gateway::audit::{AuditEvent, EventKind};
use sluicegate_policy::TokenUsage;
use std::sync::Arc;

/// Most characters of a provider's word in a record.
const WORD: usize = 100;

/// What a model is asked.
#[derive(Debug, Default)]
pub(super) struct Question {
    system: Arc<str>,
    history: Vec<Message>,
    pub(super) tools: Tools,
    max_output_tokens: u32,
}

impl Question {
    fn request(&self) -> Request<'_> {
        Request {
            system: &self.system,
            history: &self.history,
            tools: &self.tools.declarations,
            max_output_tokens: self.max_output_tokens,
        }
    }

    /// Tokens of the request and `turn`, by the rule of [`estimate`].
    fn estimate(&self, turn: &ModelTurn) -> Usage {
        estimate(&self.request(), turn)
    }
}

/// A model call on its way.
pub(super) struct Asking(BoxFuture<'static, Result<Reply, LlmError>>);

impl Asking {
    pub(super) async fn answer(&mut self) -> Result<Reply, LlmError> {
        (&mut self.0).await
    }
}

fn nothing_said(by: CutBy) -> ModelTurn {
    ModelTurn {
        text: String::new(),
        thinking: String::new(),
        calls: Vec::new(),
        ending: Ending::CutOff { by },
        provider: None,
    }
}

impl Driver {
    /// Makes the next question, sets its tokens aside, and asks the rules whether there is budget for it.
    pub(super) async fn check_budget(&mut self) -> Result<Budget, StoreError> {
        let settings = &self.parts.settings;
        let history = window(&self.history, settings.history_bytes);
        let scripted = self.provider.as_ref().is_ok_and(|provider| provider.is_demo());
        self.question = Arc::new(Question {
            system: Arc::clone(&self.system),
            // The demo model is no language model: it takes no instruction from a tool, and reads answers bare.
            history: if scripted { history.to_vec() } else { prompt::marked(history) },
            tools: Tools::of(&self.parts.gateway.catalogue().snapshot()),
            max_output_tokens: settings.most_output_tokens,
        });
        let request = self.question.estimate(&nothing_said(CutBy::Cancelled)).total;
        let reserved = self.parts.reservations.reserve(self.caller.principal.caller.as_str(), request);
        let log = &self.parts.log;
        let read = log.rules().await;
        let (rules, stored) = match (read, log.usage(&self.conversation, &self.caller).await) {
            (Ok(rules), Ok(stored)) => (rules, stored),
            (Err(error), _) | (_, Err(error)) => return Ok(unreadable(&error)),
        };
        let caller_day = stored.caller_day.saturating_add(reserved.earlier());
        let usage = TokenUsage { conversation: stored.conversation, caller_day };
        let Some(rules) = rules else {
            // No rules means that no call may run, not that nobody may talk.
            self.reserved = Some(reserved);
            return Ok(Budget::Within);
        };
        match budget::reached(&rules, &self.conversation, &self.caller.principal, usage) {
            Err(error) => Ok(unreadable(&error)),
            Ok(reached) if reached.is_empty() => {
                self.reserved = Some(reserved);
                Ok(Budget::Within)
            }
            Ok(reached) => {
                let names: Vec<_> = reached.iter().map(|rule| rule.as_str()).collect();
                let event = self
                    .event(EventKind::BudgetReached)
                    .fact("rules", names.clone())
                    .fact("conversation_tokens", usage.conversation)
                    .fact("caller_day_tokens", usage.caller_day);
                self.parts.log.record(event).await?;
                Ok(Budget::Reached(budget::line(&rules, &reached, usage)))
            }
        }
    }

    /// Asks the model; its pieces go to the pages as they come.
    pub(super) async fn ask_model(&mut self, step: u32) -> Result<Done, StoreError> {
        self.place.room.asking(step);
        let provider = match &self.provider {
            Ok(provider) => Arc::clone(provider),
            Err(error) => {
                let error = error.clone();
                let event = self.event(EventKind::ModelFailed).fact("kind", error.kind);
                self.parts.log.record(event.payload("sentence", error.sentence.clone())).await?;
                let sentence = error.sentence.clone();
                self.error = Some(error);
                let failure = Failure { sentence, partial: None, unfinished: Vec::new() };
                return Ok(Done::Events(vec![Event::ModelFailed(failure)]));
            }
        };
        let question = Arc::clone(&self.question);
        let room = Arc::clone(&self.place.room);
        let stop = self.place.stop.clone();
        self.asking = Some(Asking(Box::pin(async move {
            let mut sink = |delta| room.delta(delta);
            provider.stream(question.request(), &mut sink, &stop).await
        })));
        Ok(Done::Nothing)
    }

    /// Counts the tokens of an answer, before anything that follows from it.
    pub(super) async fn model_answered(
        &mut self,
        answer: Result<Reply, LlmError>,
    ) -> Result<Event, StoreError> {
        self.asking = None;
        match answer {
            Ok(reply) => {
                let usage = reply.usage.unwrap_or_else(|| self.question.estimate(&reply.turn));
                self.count(usage).await?;
                Ok(Event::ModelReplied(reply.turn))
            }
            Err(error) => {
                match &error.partial {
                    Some(reply) => {
                        self.count(reply.usage.unwrap_or_else(|| self.question.estimate(&reply.turn)))
                            .await?;
                    }
                    None if may_have_cost(error.kind) => {
                        self.count(self.question.estimate(&nothing_said(CutBy::Connection))).await?;
                    }
                    None => self.reserved = None,
                }
                if error.kind != LlmErrorKind::Cancelled {
                    let event = self.failure_event(&error);
                    self.parts.log.record(event).await?;
                    self.error = Some(TurnError::from(&error));
                }
                let sentence = error.sentence();
                let (partial, unfinished) = error.partial.map(|reply| (reply.turn, reply.unfinished)).unzip();
                Ok(Event::ModelFailed(Failure {
                    sentence,
                    partial,
                    unfinished: unfinished.unwrap_or_default(),
                }))
            }
        }
    }

    /// The model did not end in time after Stop: it is dropped, and what was shown of it is kept and counted.
    pub(super) async fn model_abandoned(&mut self) -> Result<Event, StoreError> {
        self.asking = None;
        let (text, thinking) = self.place.room.so_far();
        let partial = ModelTurn { text, thinking, ..nothing_said(CutBy::Cancelled) };
        self.count(self.question.estimate(&partial)).await?;
        let sentence = "The answer was stopped.".to_owned();
        Ok(Event::ModelFailed(Failure { sentence, partial: Some(partial), unfinished: Vec::new() }))
    }

    async fn count(&mut self, usage: Usage) -> Result<(), StoreError> {
        self.usage = self.usage.plus(usage);
        self.parts.log.add_usage(&self.conversation, &self.caller, &usage).await?;
        // Only now: between the two, the tokens count twice rather than not at all.
        self.reserved = None;
        Ok(())
    }

    fn failure_event(&self, error: &LlmError) -> AuditEvent {
        let mut event = self
            .event(EventKind::ModelFailed)
            .fact("kind", error.kind.word())
            .fact("model", cut(&error.model))
            .fact("status", error.status)
            .payload("sentence", error.sentence());
        if let Some(reply) = &error.partial {
            event = event.fact("ending", ending(&reply.turn.ending));
            if let Some(call) = reply.unfinished.first() {
                event = event.payload("cut_off_call", format!("{} {}", call.name, call.arguments));
            }
        }
        event
    }

    fn event(&self, kind: EventKind) -> AuditEvent {
        let provider = self.provider.as_ref().ok().map(|provider| provider.name().to_owned());
        AuditEvent::new(kind, None, self.caller.principal.caller.as_str())
            .fact("conversation", self.conversation.as_str())
            .fact("provider", provider)
    }
}

/// Whether a request that failed without a word may have been read and charged.
fn may_have_cost(kind: LlmErrorKind) -> bool {
    match kind {
        LlmErrorKind::Blocked
        | LlmErrorKind::CutOff
        | LlmErrorKind::Malformed
        | LlmErrorKind::TimedOut
        | LlmErrorKind::Cancelled => true,
        LlmErrorKind::Key
        | LlmErrorKind::Quota
        | LlmErrorKind::RateLimited
        | LlmErrorKind::Overloaded
        | LlmErrorKind::Unreachable
        | LlmErrorKind::ModelNotFound
        | LlmErrorKind::BadRequest => false,
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Budget {
    tracing::error!(%error, "the token budget could not be read; the model is not asked");
    Budget::Unreadable(
        "The token budget could not be read, so the model was not asked. Try again later.".to_owned(),
    )
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Stop => "stop".to_owned(),
        Ending::ToolCalls => "tool_calls".to_owned(),
        Ending::CutOff { by: CutBy::TokenLimit } => "cut off by the token limit".to_owned(),
        Ending::CutOff { by: CutBy::Connection } => "cut off by the connection".to_owned(),
        Ending::CutOff { by: CutBy::OurLimit } => "cut off by our limit".to_owned(),
        Ending::CutOff { by: CutBy::Cancelled } => "stopped".to_owned(),
        Ending::Blocked { reason } => format!("blocked: {}", cut(reason)),
        Ending::Malformed => "malformed".to_owned(),
        Ending::Other(name) => cut(name),
    }
}

fn cut(word: &str) -> String {
    word.chars().take(WORD).collect()
}
