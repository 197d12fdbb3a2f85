//! Performs the effects of a turn: asks the model, proposes calls to the gate, writes the transcript.
//!
//! It holds the gate's proposing handle, the read-only catalogue, a model and the log, and nothing else: it has no
//! way to answer a held call or to run one.

mod model;
mod tools;

use crate::agent::entry::{Entry, as_message};
use crate::agent::live::Place;
use crate::agent::report::{CallReport, TurnError, TurnReport};
use crate::agent::result::Answer;
use crate::agent::turn::{Effect, Event, TurnEnd, TurnState};
use crate::agent::{Parts, budget::Reserved};
use crate::conversation::{Message, ModelCall, Usage};
use crate::llm::LlmProvider;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use model::{Asking, Question};
use sluicegate_gateway::{CallAnswer, Caller, Notices, ProposedArguments, ProposedCall, Scope, StoreError};
use sluicegate_policy::{ConversationId, Origin};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;

/// A turn on its way.
pub(crate) struct Driver {
    parts: Arc<Parts>,
    place: Place,
    turn: Turn,
    conversation: ConversationId,
    caller: Caller,
    provider: Result<Arc<dyn LlmProvider>, TurnError>,
    system: Arc<str>,
    history: Vec<Message>,
    /// What the model will be asked, or is being asked; its names are those of the present calls.
    question: Arc<Question>,
    reserved: Option<Reserved>,
    asking: Option<Asking>,
    calls: FuturesUnordered<BoxFuture<'static, (String, CallAnswer)>>,
    stop: Stop,
    reply: String,
    reports: Vec<(String, CallReport)>,
    usage: Usage,
    note: Option<String>,
    error: Option<TurnError>,
}

/// A turn as the transcript knows it.
pub(crate) struct Turn {
    /// Its id.
    pub(crate) id: String,
    /// Position of the last entry of the transcript.
    pub(crate) last: i64,
}

/// What a turn begins with.
pub(crate) struct Opening {
    pub(crate) conversation: ConversationId,
    pub(crate) caller: Caller,
    pub(crate) provider: Result<Arc<dyn LlmProvider>, TurnError>,
    pub(crate) system: String,
    pub(crate) history: Vec<Message>,
}

/// How far Stop has come.
#[derive(Clone, Copy)]
enum Stop {
    NotPressed,
    Told { overdue: Instant },
    Overdue,
}

/// What an effect led to.
enum Done {
    Nothing,
    Events(Vec<Event>),
    Finished(TurnEnd),
}

impl Driver {
    /// A turn whose person's message is the last of the history.
    pub(crate) fn new(parts: Arc<Parts>, place: Place, turn: Turn, opening: Opening) -> Self {
        let Opening { conversation, caller, provider, system, history } = opening;
        Self {
            parts,
            place,
            turn,
            conversation,
            caller,
            provider,
            system: system.into(),
            history,
            question: Arc::default(),
            reserved: None,
            asking: None,
            calls: FuturesUnordered::new(),
            stop: Stop::NotPressed,
            reply: String::new(),
            reports: Vec::new(),
            usage: Usage::default(),
            note: None,
            error: None,
        }
    }

    /// Runs the turn to its end. Bounded by the number of steps, by the time limits of the models and by those of
    /// the gate; Stop shortens each of them.
    pub(crate) async fn run(mut self) {
        let mut state = TurnState::new(self.parts.settings.most_steps);
        let mut effects: VecDeque<Effect> = state.on(Event::Started).into();
        loop {
            while let Some(effect) = effects.pop_front() {
                match self.perform(effect, state.steps()).await {
                    Ok(Done::Nothing) => {}
                    Ok(Done::Events(events)) => {
                        effects.extend(events.into_iter().flat_map(|event| state.on(event)));
                    }
                    Ok(Done::Finished(end)) => return self.finish(end).await,
                    // What was to follow may rest on what could not be written: none of it is done.
                    Err(error) => effects = self.log_failed(&mut state, &error),
                }
            }
            match self.next().await {
                Ok(event) => effects.extend(state.on(event)),
                Err(error) => effects = self.log_failed(&mut state, &error),
            }
        }
    }

    fn log_failed(&mut self, state: &mut TurnState, error: &StoreError) -> VecDeque<Effect> {
        tracing::error!(%error, conversation = %self.conversation, "the store failed; the turn ends");
        self.note = Some(
            "The store could not be read or written, so the turn ended. Nothing more will run.".to_owned(),
        );
        state.on(Event::LogFailed).into()
    }

    async fn perform(&mut self, effect: Effect, step: u32) -> Result<Done, StoreError> {
        match effect {
            Effect::CheckBudget => Ok(Done::Events(vec![Event::BudgetChecked(self.check_budget().await?)])),
            Effect::AskModel => self.ask_model(step).await,
            Effect::CancelModel => {
                // Stop has cancelled it: the model watches the same token. After a fault of the store it is dropped.
                if !self.place.stop.is_cancelled() {
                    self.asking = None;
                }
                Ok(Done::Nothing)
            }
            Effect::Propose(calls) => Ok(Done::Events(self.propose(calls).await?)),
            Effect::CancelCalls => {
                // As above: each call watches the token of Stop, and dropping it withdraws it.
                if !self.place.stop.is_cancelled() {
                    self.calls.clear();
                }
                Ok(Done::Nothing)
            }
            Effect::Append(entry) => {
                self.append(vec![entry]).await?;
                Ok(Done::Nothing)
            }
            Effect::Finish(end) => Ok(Done::Finished(end)),
        }
    }

    async fn append(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let first = self.turn.last.saturating_add(1);
        self.turn.last = self.parts.log.append(&self.conversation, self.turn.last, &entries).await?;
        for (position, entry) in (first..).zip(&entries) {
            self.place.room.appended(position, entry);
            match entry {
                Entry::Said(Message::Model(turn)) => self.reply.clone_from(&turn.text),
                Entry::Note(note) => self.note = Some(note.text.clone()),
                Entry::Said(_) | Entry::Proposed { .. } | Entry::Replaced { .. } => {}
            }
            self.history.extend(as_message(entry));
        }
        Ok(())
    }

    /// Proposes calls to the gate, then writes down which card is whose, at once for all.
    async fn propose(&mut self, calls: Vec<ModelCall>) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        let mut cards = Vec::new();
        for ModelCall { key, name, arguments, .. } in calls {
            if self.place.stop.is_cancelled() {
                events.push(Event::CallAnswered { key, answer: Answer::NotProposed });
                continue;
            }
            let handle = self.parts.gateway.execute_tool(ProposedCall {
                tool: self.question.tools.meant(&name),
                arguments: arguments.map_or(ProposedArguments::Absent, ProposedArguments::Text),
                caller: self.caller.clone(),
                origin: Origin::Chat,
                conversation: Some(self.conversation.clone()),
                scope: Scope::default(),
                notices: Notices::default(),
            });
            let call = handle.id();
            self.reports.push((key.clone(), CallReport { call, name, state: None, code: None }));
            cards.push(Entry::Proposed { key: key.clone(), call });
            let stop = self.place.stop.clone();
            self.calls.push(Box::pin(async move { (key, handle.outcome_or_cancel(stop.cancelled()).await) }));
        }
        // After a failure here the turn ends, which drops the handles and so withdraws the calls.
        self.append(cards).await?;
        Ok(events)
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self) -> Result<Event, StoreError> {
        let Self { asking, calls, place, stop, .. } = self;
        let overdue = match *stop {
            Stop::Told { overdue } => Some(overdue),
            Stop::NotPressed | Stop::Overdue => None,
        };
        tokio::select! {
            biased;
            () = place.stop.cancelled(), if matches!(*stop, Stop::NotPressed) => {
                *stop = Stop::Told { overdue: Instant::now() + self.parts.settings.stop_grace };
                Ok(Event::Stopped)
            }
            answer = async { match asking { Some(asking) => asking.answer().await, None => std::future::pending().await } },
                if asking.is_some() =>
            {
                self.model_answered(answer).await
            }
            Some((key, answer)) = calls.next(), if !calls.is_empty() => {
                self.place.room.ended(&key, answer.call);
                if let Some((_, report)) = self.reports.iter_mut().find(|(of, _)| *of == key) {
                    report.state = Some(answer.state);
                    report.code = answer.refusal.as_ref().map(|refusal| refusal.code);
                }
                Ok(Event::CallAnswered { key, answer: Answer::Gate(Box::new(answer)) })
            }
            () = async { match overdue { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } },
                if overdue.is_some() =>
            {
                *stop = Stop::Overdue;
                if self.asking.is_some() { self.model_abandoned().await } else { Ok(Event::StopOverdue) }
            }
            // Nothing is open and nothing will happen: a fault of ours must not leave the turn hanging.
            else => Ok(Event::LogFailed),
        }
    }

    async fn finish(self, end: TurnEnd) {
        if end == TurnEnd::StoreFailed {
            self.parts.broken.add(&self.conversation);
        }
        if let Err(error) = self.parts.log.turn_ended(&self.conversation, &self.turn.id, end.word()).await {
            // The next start will find it without an end, and look whether there is anything to mend.
            tracing::error!(%error, conversation = %self.conversation, "the end of a turn could not be recorded");
        }
        let report = TurnReport {
            reply: self.reply,
            calls: self.reports.into_iter().map(|(_, report)| report).collect(),
            usage: self.usage,
            end,
            note: self.note.filter(|_| end != TurnEnd::Answered),
            error: self.error.filter(|_| end == TurnEnd::ModelFailed),
        };
        self.place.finish(report);
    }
}
