//! A log that fails when a test says so, in front of the real one.

use super::house::{House, call, calls, responses, text};
use async_trait::async_trait;
use sluicegate::agent::log::{Transcript, UnfinishedTurn};
use sluicegate::agent::{
    AgentSettings, Conversation, ConversationLog, Entry, NoteKind, StartError, StoreLog, TurnEnd, TurnReport,
};
use sluicegate::conversation::Usage;
use sluicegate_gateway::audit::AuditEvent;
use sluicegate_gateway::{CallId, CallState, Caller, StoreError, Verdict};
use sluicegate_policy::{ConversationId, PolicyDocument, Role, TokenUsage};
use std::sync::atomic::{AtomicI64, Ordering};

/// Passes everything on, until its operations are used up.
#[derive(Debug)]
pub(super) struct Faults {
    log: StoreLog,
    left: AtomicI64,
}

impl Faults {
    pub(super) fn new(log: StoreLog) -> Self {
        Self { log, left: AtomicI64::new(i64::MAX) }
    }

    /// So many more operations work.
    fn fail_after(&self, operations: i64) {
        self.left.store(operations, Ordering::SeqCst);
    }

    fn heal(&self) {
        self.fail_after(i64::MAX);
    }

    fn step(&self) -> Result<(), StoreError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(StoreError::Unavailable("scripted".into()))
    }
}

#[async_trait]
impl ConversationLog for Faults {
    async fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.step()?;
        self.log.conversation(id).await
    }

    async fn transcript(&self, id: &ConversationId) -> Result<Transcript, StoreError> {
        self.step()?;
        self.log.transcript(id).await
    }

    async fn append(&self, id: &ConversationId, last: i64, entries: &[Entry]) -> Result<i64, StoreError> {
        self.step()?;
        self.log.append(id, last, entries).await
    }

    async fn turn_started(&self, id: &ConversationId, turn: &str) -> Result<(), StoreError> {
        self.step()?;
        self.log.turn_started(id, turn).await
    }

    async fn turn_ended(&self, id: &ConversationId, turn: &str, ending: &str) -> Result<(), StoreError> {
        self.step()?;
        self.log.turn_ended(id, turn, ending).await
    }

    async fn unfinished_turns(&self) -> Result<Vec<UnfinishedTurn>, StoreError> {
        self.step()?;
        self.log.unfinished_turns().await
    }

    async fn add_usage(&self, id: &ConversationId, caller: &Caller, usage: &Usage) -> Result<(), StoreError> {
        self.step()?;
        self.log.add_usage(id, caller, usage).await
    }

    async fn usage(&self, id: &ConversationId, caller: &Caller) -> Result<TokenUsage, StoreError> {
        self.step()?;
        self.log.usage(id, caller).await
    }

    async fn rules(&self) -> Result<Option<PolicyDocument>, StoreError> {
        self.step()?;
        self.log.rules().await
    }

    async fn call_state(&self, call: CallId) -> Result<Option<CallState>, StoreError> {
        self.step()?;
        self.log.call_state(call).await
    }

    async fn record(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.step()?;
        self.log.record(event).await
    }
}

/// Sends a message, approves what is held, and waits for the turn's end; `None` if it did not begin.
async fn say_and_approve(house: &House, id: &ConversationId, text: &str) -> Option<TurnReport> {
    let turn = match house.agent.start(id, &super::ann(), Role::Approver, text).await {
        Ok(turn) => turn,
        Err(error) => {
            assert!(matches!(error, StartError::Store(_)), "{error}");
            return None;
        }
    };
    let mut finished = std::pin::pin!(turn.finished());
    tokio::select! {
        report = &mut finished => report,
        held = house.held(1) => {
            // The turn may have failed meanwhile: then the call is withdrawn, and this comes too late.
            house.decide(&held[0], Verdict::Approve, None).await.ok();
            finished.await
        }
    }
}

/// The log fails at the n-th operation of a turn, for every n. The turn ends, nothing runs twice, no held call is left
/// behind, and the next message is legal.
#[tokio::test]
async fn a_log_that_fails_at_any_step_ends_the_turn_and_leaves_a_conversation_that_goes_on() {
    let mut ends = Vec::new();
    while ends.last() != Some(&Some(TurnEnd::Answered)) {
        let n = i64::try_from(ends.len()).unwrap();
        let asked = [calls(&[call("files__read", "a"), call("files__write", "b")]), text("Both done.")];
        let house = House::new(asked).await;
        let id = house.conversation().await;
        house.faults.fail_after(n);
        let report = say_and_approve(&house, &id, "read and write").await;
        let begun = report.is_some();
        assert!(
            report.as_ref().is_none_or(|report| report.end == TurnEnd::Answered || report.note.is_some())
        );
        ends.push(report.map(|report| report.end));
        house.held(0).await;
        let ran = house.tools.ran();
        assert!(ran.len() <= 2 && (begun || ran.is_empty()), "{ran:?}");

        house.faults.heal();
        assert!(begun || house.entries(&id).await.is_empty(), "a refused message is not in the transcript");
        // After what is left of the script.
        house.model.push(text("Here again."));
        let report = say_and_approve(&house, &id, "and now?").await.unwrap();
        assert_eq!(report.end, TurnEnd::Answered, "at {n}");
        house.last_contents();
        let entries = house.entries(&id).await;
        let restarted = entries
            .iter()
            .any(|entry| matches!(entry, Entry::Note(note) if note.kind == NoteKind::Restarted));
        assert!(!restarted, "a failing store is not called a restart, at {n}: {entries:?}");
    }
    let failed = ends.iter().filter(|end| **end == Some(TurnEnd::StoreFailed)).count();
    let refused = ends.iter().filter(|end| end.is_none()).count();
    assert!(failed >= 8 && refused == 4, "{ends:?}");
    assert_eq!(failed + refused + 1, ends.len(), "{ends:?}");
}

#[tokio::test]
async fn what_a_failed_store_left_open_is_answered_by_what_the_gate_knows() {
    let house = House::with(super::house::rules(), AgentSettings::default(), []).await;
    let id = house.conversation().await;
    house.model.push(calls(&[call("files__read", "a"), call("files__write", "b")]));
    let turn = house.begin(&id, "read and write").await;
    let held = house.held(1).await;
    house.seen(&id, |view| view.calls.iter().filter(|call| call.ended).count() == 1).await;
    house.faults.fail_after(0);
    house.decide(&held[0], Verdict::Approve, None).await.unwrap();
    assert_eq!(turn.finished().await.unwrap().end, TurnEnd::StoreFailed);
    house.faults.heal();
    house.model.push(text("I see."));
    house.say(&id, "and?").await;
    let answered: Vec<String> = responses(&house.last_contents()).iter().map(ToString::to_string).collect();
    for said in &answered {
        assert!(said.contains("the store failed while this call was open; it ran to its end"), "{said}");
    }
    assert_eq!(answered.len(), 2);
}
