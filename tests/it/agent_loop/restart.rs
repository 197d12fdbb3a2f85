//! A process that dies in the middle of a turn, and the one that follows.

use super::house::{House, call, calls, responses, text};
use super::note;
use crate::harness::model::Answer;
use sluicegate::agent::{AgentSettings, Entry, NoteKind, TurnEnd, TurnView};
use sluicegate_policy::ConversationId;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a house in a runtime of its own as far as `until` goes, then takes everything away at once, as a crash does.
fn crash<F>(script: Vec<Answer>, until: impl FnOnce(House) -> F) -> (tempfile::TempDir, ConversationId)
where
    F: Future<Output = (House, ConversationId)>,
{
    let runtime = runtime();
    let (house, id) = runtime.block_on(async { until(House::new(script).await).await });
    let House { folder, store, agent, running, approvals, .. } = house;
    // The tasks go first: none of them can write down anything any more.
    runtime.shutdown_timeout(std::time::Duration::from_secs(20));
    drop((store, agent, running, approvals));
    (folder, id)
}

#[test]
fn f03_open_calls_are_answered_after_a_restart_and_the_transcript_says_so() {
    let asked = calls(&[call("files__read", "a"), call("files__write", "b"), call("files__delete", "c")]);
    let (folder, id) = crash(vec![asked], async |house| {
        let id = house.conversation().await;
        let _turn = house.begin(&id, "three things").await;
        house.held(1).await;
        let ended =
            |view: &TurnView| view.calls.iter().filter(|call| call.ended && call.call.is_some()).count();
        house.seen(&id, |view| ended(view) == 2 && view.calls.iter().all(|call| call.call.is_some())).await;
        (house, id)
    });
    runtime().block_on(async {
        let house = House::at(folder, AgentSettings::default(), [text("I see.")]).await;
        let entries = house.entries(&id).await;
        assert_eq!(note(&entries), Some(NoteKind::Restarted), "{entries:?}");
        assert_eq!(house.agent.recover().await.unwrap(), 0, "mended once");
        assert_eq!(house.say(&id, "go on").await.reply, "I see.");
        assert_eq!(house.entries(&id).await.len(), entries.len() + 2);

        let answered: Vec<String> =
            responses(&house.last_contents()).iter().map(ToString::to_string).collect();
        assert!(answered.iter().all(|said| said.contains("the product restarted while this call was open")));
        assert!(answered[0].contains("ran to its end"), "{}", answered[0]);
        assert!(answered[1].contains("orphaned") && answered[1].contains("did not run"), "{}", answered[1]);
        assert!(answered[2].contains("did not run"), "{}", answered[2]);
        assert_eq!(house.store.call_reader().pending().await.unwrap().len(), 0);
    });
}

#[test]
fn a_turn_that_died_while_the_model_was_asked_is_said() {
    let mute = Answer::pieces([&b": \r\n\r\n"[..]]).then(crate::harness::model::After::Silence);
    let (folder, id) = crash(vec![mute], async |house| {
        let id = house.conversation().await;
        let _turn = house.begin(&id, "hello").await;
        while house.model.received().is_empty() {
            tokio::task::yield_now().await;
        }
        (house, id)
    });
    runtime().block_on(async {
        let house = House::at(folder, AgentSettings::default(), [text("Hello.")]).await;
        let entries = house.entries(&id).await;
        let [Entry::Said(_), Entry::Note(said)] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!(said.kind, NoteKind::Restarted);
        let report = house.say(&id, "hello?").await;
        assert_eq!((report.end, report.reply.as_str()), (TurnEnd::Answered, "Hello."));
        house.last_contents();
    });
}
