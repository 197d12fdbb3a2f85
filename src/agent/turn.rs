//! One turn as a pure state machine: event in, effects out. It reads no clock and does no I/O.
//!
//! ```text
//! ready ── budget ── asking ─┬─ ended                    (answered, failed, stopped)
//!             ▲              └─ calling ─┬─ ended        (step limit, repeated denial, stopped)
//!             └──────────────────────────┘
//! ```
//!
//! It holds for every order of events: a model turn with calls is followed by exactly one message of results, with
//! the same keys in the same order; nothing is proposed after Stop; the model is asked at most `steps` times.

mod denials;

use crate::agent::entry::{Entry, NoteKind};
use crate::agent::result::{Answer, result};
use crate::conversation::{CallResult, Message, ModelCall, ModelTurn};
use crate::llm::UnfinishedCall;
use denials::Denials;

/// Most calls of one model turn that are open at once; the others wait their turn.
const PARALLEL: usize = 16;

/// How often in a turn the model is asked again because a call of it was cut off.
const CUT_OFF_TRIES: u32 = 2;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The turn begins; the person's message is in the transcript.
    Started,
    /// The budget was looked at.
    BudgetChecked(Budget),
    /// The model answered, and ended well.
    ModelReplied(ModelTurn),
    /// The model did not answer, or did not end well.
    ModelFailed(Failure),
    /// A call came to its end.
    CallAnswered {
        /// The [`ModelCall::key`].
        key: String,
        /// How.
        answer: Answer,
    },
    /// Stop was pressed.
    Stopped,
    /// Stop was pressed a while ago, and what was open has not ended.
    StopOverdue,
    /// The transcript or the usage could not be written.
    LogFailed,
}

/// Whether the model may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Yes.
    Within,
    /// No: a budget is used up, with a line that names it.
    Reached(String),
    /// No: it could not be read, with a line that says so.
    Unreadable(String),
}

/// An answer of a model that did not come or did not end well.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What happened and what to do, in a line.
    pub sentence: String,
    /// What had arrived, to be kept and marked as cut.
    pub partial: Option<ModelTurn>,
    /// Calls that were cut off. They are never run.
    pub unfinished: Vec<UnfinishedCall>,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look at the budget; answered by [`Event::BudgetChecked`].
    CheckBudget,
    /// Ask the model; answered by [`Event::ModelReplied`] or [`Event::ModelFailed`].
    AskModel,
    /// Tell the model call to end; it is still answered.
    CancelModel,
    /// Propose these calls, all at once; each is answered by [`Event::CallAnswered`].
    Propose(Vec<ModelCall>),
    /// Withdraw all open calls; they are still answered.
    CancelCalls,
    /// Append to the transcript, durably, before anything that follows.
    Append(Entry),
    /// The turn is over.
    Finish(TurnEnd),
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model had said all.
    Answered,
    /// The model could not answer.
    ModelFailed,
    /// A token budget is used up.
    BudgetReached,
    /// The limit of steps.
    StepLimit,
    /// The model kept asking for what was denied.
    RepeatedDenial,
    /// Stop was pressed.
    Stopped,
    /// The store failed.
    StoreFailed,
}

impl TurnEnd {
    /// The word used in answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ModelFailed => "model_failed",
            Self::BudgetReached => "budget_reached",
            Self::StepLimit => "step_limit",
            Self::RepeatedDenial => "repeated_denial",
            Self::Stopped => "stopped",
            Self::StoreFailed => "store_failed",
        }
    }
}

/// The state of one turn.
#[derive(Debug)]
pub struct TurnState {
    most_steps: u32,
    steps: u32,
    cut_offs: u32,
    denials: Denials,
    stopped: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Ready,
    Budget,
    Asking,
    Calling(Vec<Slot>),
    Ended,
}

/// A call of the present model turn.
#[derive(Debug)]
struct Slot {
    call: ModelCall,
    stand: Stand,
}

#[derive(Debug)]
enum Stand {
    Waiting,
    Open,
    Done(CallResult),
}

impl TurnState {
    /// A turn that may ask the model at most `most_steps` times.
    #[must_use]
    pub fn new(most_steps: u32) -> Self {
        Self {
            most_steps: most_steps.max(1),
            steps: 0,
            cut_offs: 0,
            denials: Denials::default(),
            stopped: false,
            phase: Phase::Ready,
        }
    }

    /// How often the model has been asked.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Takes an event; gives what is to be done now. An event that does not fit the state changes nothing.
    #[must_use]
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Started => self.started(),
            Event::BudgetChecked(budget) => self.budget_checked(budget),
            Event::ModelReplied(turn) => self.replied(turn),
            Event::ModelFailed(failure) => self.failed(failure),
            Event::CallAnswered { key, answer } => self.call_answered(&key, &answer),
            Event::Stopped => self.stop(),
            Event::StopOverdue => self.stop_overdue(),
            // Said even if the turn had ended: what was to be done last may not have been done.
            Event::LogFailed => {
                self.phase = Phase::Ended;
                vec![Effect::CancelModel, Effect::CancelCalls, Effect::Finish(TurnEnd::StoreFailed)]
            }
        }
    }

    fn started(&mut self) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Ready) {
            return Vec::new();
        }
        self.phase = Phase::Budget;
        vec![Effect::CheckBudget]
    }

    fn budget_checked(&mut self, budget: Budget) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Budget) {
            return Vec::new();
        }
        match budget {
            Budget::Within => {
                self.steps = self.steps.saturating_add(1);
                self.phase = Phase::Asking;
                vec![Effect::AskModel]
            }
            Budget::Reached(line) => {
                self.end(Vec::new(), NoteKind::BudgetReached, line, TurnEnd::BudgetReached)
            }
            Budget::Unreadable(line) => {
                self.end(Vec::new(), NoteKind::StoreFailed, line, TurnEnd::StoreFailed)
            }
        }
    }

    fn replied(&mut self, turn: ModelTurn) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Asking) {
            return Vec::new();
        }
        let calls = turn.calls.clone();
        let mut effects = vec![Effect::Append(Entry::Said(Message::Model(turn)))];
        if calls.is_empty() {
            // Stop came too late to change anything: the answer is whole.
            self.phase = Phase::Ended;
            effects.push(Effect::Finish(TurnEnd::Answered));
            return effects;
        }
        self.phase =
            Phase::Calling(calls.into_iter().map(|call| Slot { call, stand: Stand::Waiting }).collect());
        if self.stopped {
            self.drop_waiting();
        }
        effects.extend(self.go_on());
        effects
    }

    fn failed(&mut self, failure: Failure) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Asking) {
            return Vec::new();
        }
        let mut effects = Vec::new();
        if let Some(mut partial) = failure.partial {
            // An answer that ended badly has no calls; were there any, they would need results.
            partial.calls.clear();
            if !partial.text.is_empty() || !partial.thinking.is_empty() {
                effects.push(Effect::Append(Entry::Said(Message::Model(partial))));
            }
        }
        if self.stopped {
            return self.end_stopped(effects);
        }
        let again = self.cut_offs < CUT_OFF_TRIES && self.steps < self.most_steps;
        match failure.unfinished.first() {
            Some(cut) if again => {
                self.cut_offs = self.cut_offs.saturating_add(1);
                self.phase = Phase::Budget;
                effects.push(Effect::Append(Entry::note(NoteKind::CallCutOff, cut_off_line(cut))));
                effects.push(Effect::CheckBudget);
                effects
            }
            Some(_) | None => {
                self.end(effects, NoteKind::ModelFailed, failure.sentence, TurnEnd::ModelFailed)
            }
        }
    }

    fn call_answered(&mut self, key: &str, answer: &Answer) -> Vec<Effect> {
        let Phase::Calling(slots) = &mut self.phase else { return Vec::new() };
        let open = |slot: &&mut Slot| matches!(slot.stand, Stand::Open) && slot.call.key == key;
        let Some(slot) = slots.iter_mut().find(open) else { return Vec::new() };
        slot.stand = Stand::Done(result(&slot.call, answer));
        if let Some(code) = answer.denial() {
            self.denials.count(&slot.call, code);
        }
        self.go_on()
    }

    fn stop(&mut self) -> Vec<Effect> {
        if std::mem::replace(&mut self.stopped, true) {
            return Vec::new();
        }
        match &self.phase {
            Phase::Ended => Vec::new(),
            Phase::Ready | Phase::Budget => self.end_stopped(Vec::new()),
            Phase::Asking => vec![Effect::CancelModel],
            Phase::Calling(_) => {
                self.drop_waiting();
                let mut effects = vec![Effect::CancelCalls];
                effects.extend(self.go_on());
                effects
            }
        }
    }

    fn stop_overdue(&mut self) -> Vec<Effect> {
        if !self.stopped {
            return Vec::new();
        }
        match &mut self.phase {
            Phase::Ready | Phase::Budget | Phase::Ended => Vec::new(),
            Phase::Asking => self.end_stopped(Vec::new()),
            Phase::Calling(slots) => {
                for slot in slots.iter_mut().filter(|slot| matches!(slot.stand, Stand::Open)) {
                    slot.stand = Stand::Done(result(&slot.call, &Answer::NoAnswer));
                }
                self.go_on()
            }
        }
    }

    /// Answers the calls that were not proposed yet: after Stop none will be.
    fn drop_waiting(&mut self) {
        let Phase::Calling(slots) = &mut self.phase else { return };
        for slot in slots.iter_mut().filter(|slot| matches!(slot.stand, Stand::Waiting)) {
            slot.stand = Stand::Done(result(&slot.call, &Answer::NotProposed));
        }
    }

    /// Proposes what may be proposed; when every call is answered, goes on to the next step or ends.
    fn go_on(&mut self) -> Vec<Effect> {
        let Phase::Calling(slots) = &mut self.phase else { return Vec::new() };
        let open = slots.iter().filter(|slot| matches!(slot.stand, Stand::Open)).count();
        let next: Vec<ModelCall> = slots
            .iter_mut()
            .filter(|slot| matches!(slot.stand, Stand::Waiting))
            .take(PARALLEL.saturating_sub(open))
            .map(|slot| {
                slot.stand = Stand::Open;
                slot.call.clone()
            })
            .collect();
        let mut effects = Vec::new();
        if !next.is_empty() {
            effects.push(Effect::Propose(next));
        }
        let results: Option<Vec<CallResult>> = slots
            .iter()
            .map(|slot| match &slot.stand {
                Stand::Done(result) => Some(result.clone()),
                Stand::Waiting | Stand::Open => None,
            })
            .collect();
        let Some(results) = results else { return effects };
        effects.push(Effect::Append(Entry::Said(Message::ToolResults { results })));
        if self.stopped {
            return self.end_stopped(effects);
        }
        if let Some(line) = self.denials.loop_line() {
            return self.end(effects, NoteKind::RepeatedDenial, line, TurnEnd::RepeatedDenial);
        }
        if self.steps >= self.most_steps {
            let line = format!(
                "The agent stopped after {} steps, the limit for one turn. Send another message to let it go on.",
                self.most_steps
            );
            return self.end(effects, NoteKind::StepLimit, line, TurnEnd::StepLimit);
        }
        self.phase = Phase::Budget;
        effects.push(Effect::CheckBudget);
        effects
    }

    fn end_stopped(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.end(effects, NoteKind::Stopped, "Stopped.".to_owned(), TurnEnd::Stopped)
    }

    fn end(&mut self, mut effects: Vec<Effect>, kind: NoteKind, line: String, end: TurnEnd) -> Vec<Effect> {
        self.phase = Phase::Ended;
        effects.push(Effect::Append(Entry::note(kind, line)));
        effects.push(Effect::Finish(end));
        effects
    }
}

/// What the model and the person are told of a call that was cut off.
fn cut_off_line(cut: &UnfinishedCall) -> String {
    let name: String = cut.name.chars().take(100).collect();
    format!(
        "A call of `{name}` was cut off before it was whole, so it did not run. Send it again, whole; if it is too \
         long for one answer, do it in smaller steps."
    )
}

#[cfg(test)]
mod tests;
