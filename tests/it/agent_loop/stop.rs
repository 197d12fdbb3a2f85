//! Stop, at every moment of a turn.

use super::house::{House, answer, call, calls, responses, text};
use super::note;
use crate::harness::model::After;
use serde_json::json;
use sluicegate::agent::{AgentSettings, Entry, Live, NoteKind, TurnEnd};
use sluicegate::conversation::{CutBy, Ending, Message};
use sluicegate_gateway::{ApprovalStatus, CallState, ResolveError, Verdict};
use std::time::Duration;

#[tokio::test]
async fn f21_stop_while_a_call_is_held_withdraws_it_and_the_next_message_is_legal() {
    let asked = [call("files__read", "a"), call("files__write", "b"), call("files__write", "c")];
    let house = House::new([calls(&asked), text("Here I am.")]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "write two files").await;
    let held = house.held(2).await;
    assert!(house.agent.stop(&id));
    let report = turn.finished().await.unwrap();
    assert_eq!((report.end, report.note.as_deref()), (TurnEnd::Stopped, Some("Stopped.")));
    let states: Vec<_> = report.calls.iter().map(|call| call.state.unwrap()).collect();
    assert_eq!(states, [CallState::Completed, CallState::Withdrawn, CallState::Withdrawn]);
    for held in &held {
        let refused = house.decide(held, Verdict::Approve, None).await.err();
        let Some(ResolveError::AlreadyDecided(record)) = refused else { panic!("{refused:?}") };
        assert_eq!(record.status, ApprovalStatus::Withdrawn);
    }
    assert_eq!(house.tools.ran(), [r#"read {"path":"a"}"#]);

    assert_eq!(house.say(&id, "and now?").await.reply, "Here I am.");
    let answered = responses(&house.last_contents());
    assert_eq!(answered.len(), 3);
    assert!(answered[1].to_string().contains("withdrawn"), "{}", answered[1]);
}

#[tokio::test]
async fn f21_stop_races_with_approve_and_exactly_one_wins() {
    for _ in 0..20 {
        let house = House::new([calls(&[call("files__write", "b")]), text("Written.")]).await;
        let id = house.conversation().await;
        let turn = house.begin(&id, "write").await;
        let held = house.held(1).await;
        let stop = async { house.agent.stop(&id) };
        let (decided, _) = tokio::join!(house.decide(&held[0], Verdict::Approve, None), stop);
        let report = turn.finished().await.unwrap();
        let state = report.calls[0].state.unwrap();
        match state {
            CallState::Withdrawn | CallState::Denied => assert_eq!(house.tools.ran().len(), 0),
            CallState::Completed | CallState::Unknown => {
                assert!(decided.is_ok());
                assert_eq!(house.tools.ran().len(), 1);
            }
            other => panic!("{other}"),
        }
        house.model.push(text("Next."));
        house.say(&id, "next").await;
        house.last_contents();
    }
}

#[tokio::test]
async fn f21_stop_while_a_tool_runs_cancels_it_and_says_that_its_effect_is_not_known() {
    let house = House::new([calls(&[call("files__move", "a")]), text("I do not know.")]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "move a").await;
    house.tools.hanging.notified().await;
    assert!(house.agent.stop(&id));
    let report = turn.finished().await.unwrap();
    assert_eq!((report.end, report.calls[0].state), (TurnEnd::Stopped, Some(CallState::Unknown)));
    house.say(&id, "did it move?").await;
    let answered = responses(&house.last_contents());
    assert!(answered[0].to_string().contains("outcome_lost"), "{}", answered[0]);
}

#[tokio::test]
async fn stop_while_the_model_writes_keeps_and_marks_what_it_wrote() {
    let half = answer(&[json!({ "text": "Once upon a time" })], None, None).then(After::Silence);
    let house = House::new([half, text("As I said.")]).await;
    let id = house.conversation().await;
    let mut live = house.agent.live(&id);
    let turn = house.begin(&id, "a story").await;
    while !matches!(live.recv().await.unwrap(), Live::Delta { .. }) {}
    assert!(house.agent.stop(&id));
    let report = turn.finished().await.unwrap();
    assert_eq!((report.end, report.reply.as_str()), (TurnEnd::Stopped, "Once upon a time"));
    assert_eq!(report.error, None);
    let entries = house.entries(&id).await;
    let [Entry::Said(Message::User { .. }), Entry::Said(Message::Model(kept)), Entry::Note(note)] =
        entries.as_slice()
    else {
        panic!("{entries:?}")
    };
    assert_eq!(kept.ending, Ending::CutOff { by: CutBy::Cancelled });
    assert_eq!(note.kind, NoteKind::Stopped);
    assert!(report.usage.total > 0, "what was read and written counts");
    assert_eq!(house.audit("model_failed").await, [], "stopping is no failure");
    assert_eq!(house.say(&id, "go on").await.reply, "As I said.");
    house.last_contents();
}

#[tokio::test]
async fn stop_before_the_model_says_anything_and_after_the_end() {
    let mute = answer(&[json!({ "text": "x" })], None, None).then(After::Silence);
    let house = House::new([mute]).await;
    let id = house.conversation().await;
    assert!(!house.agent.stop(&id), "nothing runs yet");
    let turn = house.begin(&id, "hello").await;
    assert!(house.agent.stop(&id));
    assert!(house.agent.stop(&id) || house.agent.running(&id).is_none(), "twice is no fault");
    assert_eq!(turn.finished().await.unwrap().end, TurnEnd::Stopped);
    assert!(!house.agent.stop(&id), "nothing runs any more");
    assert_eq!(note(&house.entries(&id).await), Some(NoteKind::Stopped));
}

#[tokio::test]
async fn shutting_down_ends_every_turn_and_lets_none_begin() {
    let house = House::new([calls(&[call("files__write", "b")])]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "write").await;
    house.held(1).await;
    assert!(house.agent.shutdown(Duration::from_secs(20)).await);
    let report = turn.finished().await.unwrap();
    assert_eq!((report.end, report.calls[0].state), (TurnEnd::Stopped, Some(CallState::Withdrawn)));
    let refused = house.agent.start(&id, &super::ann(), sluicegate_policy::Role::Admin, "x").await.err();
    assert!(matches!(refused, Some(sluicegate::agent::StartError::ShuttingDown)), "{refused:?}");
}

#[tokio::test]
async fn a_transcript_that_cannot_be_written_ends_the_turn_and_runs_nothing_more() {
    let house = House::with(
        super::house::rules(),
        AgentSettings::default(),
        [calls(&[call("files__write", "b")]), text("never asked")],
    )
    .await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "write").await;
    let held = house.held(1).await;
    // Somebody deletes the conversation while its call is held.
    assert!(house.store.conversations().delete(&id).await.unwrap());
    house.decide(&held[0], Verdict::Deny, None).await.unwrap();
    let report = turn.finished().await.unwrap();
    assert_eq!(report.end, TurnEnd::StoreFailed);
    assert_eq!((house.model.received().len(), house.tools.ran().len()), (1, 0));
}
