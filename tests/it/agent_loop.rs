//! The agent's loop over the real gate and the real store.

mod budget;
mod faults;
mod house;
mod restart;
mod stop;

use crate::harness::model::{After, Answer};
use house::{House, ann, answer, call, calls, responses, text, usage};
use serde_json::{Value, json};
use sluicegate::agent::{AgentSettings, Entry, Live, NoteKind, StartError, TurnEnd};
use sluicegate::conversation::Message;
use sluicegate_gateway::{CallState, PersonId, ReasonCode, Verdict};
use sluicegate_policy::{ConversationId, Role};

fn note(entries: &[Entry]) -> Option<NoteKind> {
    match entries.last() {
        Some(Entry::Note(note)) => Some(note.kind),
        _ => None,
    }
}

#[tokio::test]
async fn a_call_runs_through_the_gate_and_its_answer_is_told_as_data() {
    let house = House::new([calls(&[call("files__read", "notes.txt")]), text("It says hello.")]).await;
    let id = house.conversation().await;
    let report = house.say(&id, "what is in notes.txt?").await;
    assert_eq!((report.reply.as_str(), report.end), ("It says hello.", TurnEnd::Answered));
    assert_eq!((report.note, report.error), (None, None));
    assert_eq!(report.usage.total, 30);
    assert_eq!(report.calls[0].state, Some(CallState::Completed));
    assert_eq!(house.tools.ran(), [r#"read {"path":"notes.txt"}"#]);

    let answered = responses(&house.last_contents());
    let said = serde_json::to_string(&answered).unwrap();
    assert!(said.contains(r#""data":"hello""#) && said.contains(r#""tool":"files__read""#), "{said}");

    // The card of the call is found by the transcript, and the call by the gate's record.
    let entries = house.entries(&id).await;
    let ids = sluicegate::agent::entry::call_ids(&entries);
    let story = house.store.call_reader().call(report.calls[0].call).await.unwrap().unwrap();
    assert_eq!(ids.into_values().collect::<Vec<_>>(), [story.call.id]);
    assert_eq!(story.call.caller.principal.caller.as_str(), "chat:ann");
    assert_eq!(story.call.caller.owner, ann());
    assert_eq!(story.call.conversation, Some(id));
}

#[tokio::test]
async fn f03_four_parallel_calls_with_mixed_decisions_give_four_answers_in_order() {
    let asked = [
        call("files__read", "list.json"),
        call("files__delete", "notes.txt"),
        call("files__write", "notes.txt"),
        call("files__read", "missing.txt"),
    ];
    let house = House::new([calls(&asked), text("I could not do all of it."), text("Fine.")]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "do four things").await;

    let held = house.held(1).await;
    let view = house.seen(&id, |view| view.calls.iter().all(|call| call.call.is_some())).await;
    let names: Vec<_> = view.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["files__read", "files__delete", "files__write", "files__read"]);
    assert!(!view.calls[2].ended);
    house.decide(&held[0], Verdict::Deny, Some("use the copy instead")).await.unwrap();

    let report = turn.finished().await.unwrap();
    let states: Vec<_> = report.calls.iter().map(|call| call.state.unwrap()).collect();
    assert_eq!(states, [CallState::Completed, CallState::Denied, CallState::Denied, CallState::Failed]);
    let answered = responses(&house.last_contents());
    let said: Vec<String> = answered.iter().map(Value::to_string).collect();
    assert!(said[0].contains("[1,2,3]"), "{}", said[0]);
    assert!(said[1].contains(r#""code":"rule""#), "{}", said[1]);
    assert!(said[2].contains("denied_by_person") && said[2].contains("use the copy instead"), "{}", said[2]);
    assert!(said[3].contains("tool_error") && said[3].contains("no such file"), "{}", said[3]);
    assert_eq!(house.tools.ran().len(), 2);

    house.say(&id, "thanks").await;
    house.last_contents();
}

#[tokio::test]
async fn f02_what_the_model_said_is_replayed_byte_for_byte_after_an_approval() {
    let parts = [
        json!({ "text": "Writing.", "thoughtSignature": "c2lnLXRleHQ=" }),
        json!({
            "functionCall": { "id": "x1", "name": "files__write", "args": { "path": "a" }, "novel": [1.0, null] },
            "thoughtSignature": "c2lnLWNhbGw=",
        }),
        json!({ "functionCall": { "name": "files__write", "args": { "path": "b" } } }),
    ];
    let house = House::new([calls(&parts), text("Done."), text("Hi.")]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "write both").await;
    for held in house.held(2).await {
        house.decide(&held, Verdict::Approve, None).await.unwrap();
    }
    assert_eq!(turn.finished().await.unwrap().reply, "Done.");
    house.say(&id, "hello").await;
    let raw = serde_json::to_string(&parts).unwrap();
    for request in &house.model.received()[1..] {
        assert!(request.body.contains(&raw), "{} is not in {}", raw, request.body);
    }
    house.last_contents();
    // Nothing of a signature is where people look.
    for (facts, payloads) in house.audit("tool_requested").await {
        assert!(!format!("{facts}{payloads:?}").contains("c2ln"));
    }
}

#[tokio::test]
async fn f03_a_long_conversation_is_trimmed_in_whole_turns() {
    let settings = AgentSettings { history_bytes: 600, ..AgentSettings::default() };
    let script =
        (0..12).flat_map(|_| [calls(&[call("files__read", "a"), call("files__read", "b")]), text("Read.")]);
    let house = House::with(house::rules(), settings, script).await;
    let id = house.conversation().await;
    for turn in 0..12 {
        let report = house.say(&id, &format!("read both, {turn}")).await;
        assert_eq!(report.end, TurnEnd::Answered);
    }
    let received = house.model.received();
    let lengths: Vec<_> =
        received.iter().map(|request| request.json()["contents"].as_array().unwrap().len()).collect();
    assert!(lengths.iter().max().unwrap() < &20, "nothing was trimmed: {lengths:?}");
    for request in &received {
        let first = &request.json()["contents"][0];
        assert!(first["parts"][0]["text"].as_str().unwrap().starts_with("read both"), "{first}");
    }
    house.last_contents();
}

#[tokio::test]
async fn f04_a_model_that_fails_is_one_line_and_an_audit_row_and_the_next_message_works() {
    let cases = [
        (
            Answer::status(
                400,
                json!({ "error": { "code": 400, "message": "no", "status": "INVALID_ARGUMENT" } }),
            ),
            "bad_request",
        ),
        (Answer::events([json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } })]), "blocked"),
        (answer(&[json!({ "text": "Half a sen" })], Some("SOMETHING_NEW"), None), "malformed"),
    ];
    for (fault, kind) in cases {
        let house = House::new([fault, text("Better now.")]).await;
        let id = house.conversation().await;
        let report = house.say(&id, "hello").await;
        let error = report.error.unwrap();
        assert_eq!((report.end, error.kind), (TurnEnd::ModelFailed, kind));
        let entries = house.entries(&id).await;
        assert_eq!(note(&entries), Some(NoteKind::ModelFailed));
        assert!(matches!(&entries[0], Entry::Said(Message::User { text }) if text == "hello"));
        let replies = entries.iter().filter(|entry| matches!(entry, Entry::Said(Message::Model(_)))).count();
        assert_eq!(replies, usize::from(kind == "malformed"), "no phantom reply: {entries:?}");
        let rows = house.audit("model_failed").await;
        assert_eq!(rows.len(), 1);
        assert_eq!((&rows[0].0["kind"], &rows[0].0["conversation"]), (&json!(kind), &json!(id.as_str())));
        assert_eq!(house.say(&id, "again").await.reply, "Better now.");
        house.last_contents();
    }
}

#[tokio::test]
async fn f07_a_cut_off_call_never_runs_and_the_model_is_told() {
    let cut = answer(&[call("files__write", "notes.txt")], Some("MAX_TOKENS"), Some(usage(10, 5, 0)));
    let house = House::new([cut, text("It was too long.")]).await;
    let id = house.conversation().await;
    let report = house.say(&id, "write a long file").await;
    assert_eq!((report.reply.as_str(), report.end), ("It was too long.", TurnEnd::Answered));
    assert_eq!(report.calls, []);
    assert_eq!(house.tools.ran(), [""; 0]);
    assert_eq!(house.store.call_reader().pending().await.unwrap().len(), 0, "no approver is asked");
    let told = house.last_contents().last().unwrap().to_string();
    assert!(told.contains("was cut off") && told.contains("files__write"), "{told}");
    let rows = house.audit("model_failed").await;
    let (facts, payloads) = &rows[0];
    assert_eq!(facts["ending"], "cut off by the token limit");
    assert!(
        payloads.iter().any(|(name, text)| name == "cut_off_call" && text.contains("notes.txt")),
        "{payloads:?}"
    );
}

#[tokio::test]
async fn f07_a_call_of_a_broken_connection_never_runs() {
    let broken =
        || answer(&[json!({ "text": "I will" }), call("files__read", "a")], None, None).then(After::Cut);
    let house = House::new([broken(), broken(), broken()]).await;
    let id = house.conversation().await;
    let report = house.say(&id, "read a").await;
    assert_eq!(report.end, TurnEnd::ModelFailed);
    assert!(report.error.unwrap().retryable);
    assert_eq!((report.calls.len(), house.tools.ran().len()), (0, 0));
    assert_eq!(report.reply, "I will", "what was shown is kept");
}

#[tokio::test]
async fn f29_a_call_that_a_person_refused_is_not_asked_again_and_the_loop_is_broken() {
    let again = || calls(&[call("files__write", "notes.txt")]);
    let house = House::new([again(), again(), again(), again()]).await;
    let id = house.conversation().await;
    let turn = house.begin(&id, "write it").await;
    let held = house.held(1).await;
    house.decide(&held[0], Verdict::Deny, Some("not today")).await.unwrap();
    let report = turn.finished().await.unwrap();
    assert_eq!(report.end, TurnEnd::RepeatedDenial);
    let codes: Vec<_> = report.calls.iter().map(|call| call.code.unwrap()).collect();
    assert_eq!(codes, [ReasonCode::DeniedByPerson, ReasonCode::RepeatedDenial, ReasonCode::RepeatedDenial]);
    assert_eq!(house.model.received().len(), 3);
    assert_eq!(house.store.call_reader().pending().await.unwrap().len(), 0, "the person was asked once");
    assert_eq!(note(&house.entries(&id).await), Some(NoteKind::RepeatedDenial));
}

#[tokio::test]
async fn an_invented_tool_is_recorded_and_refused_and_matches_nothing_similar() {
    let invented = ["files_read", "files__READ", "read", "files__read ", "files__reads"];
    let house =
        House::new([calls(&invented.map(|name| call(name, "a"))), text("There is no such tool.")]).await;
    let id = house.conversation().await;
    let report = house.say(&id, "read it").await;
    assert_eq!(report.end, TurnEnd::Answered);
    assert_eq!(house.tools.ran(), [""; 0]);
    for (call, name) in report.calls.iter().zip(invented) {
        assert_eq!((call.state, call.code), (Some(CallState::Denied), Some(ReasonCode::UnknownTool)));
        let story = house.store.call_reader().call(call.call).await.unwrap().unwrap();
        assert_eq!(story.call.tool, name);
    }
    assert_eq!(report.calls.len(), invented.len());
}

#[tokio::test]
async fn the_step_limit_is_one_clear_line() {
    let settings = AgentSettings { most_steps: 3, ..AgentSettings::default() };
    let script = (0..5).map(|n| calls(&[call("files__read", &format!("{n}"))]));
    let house = House::with(house::rules(), settings, script).await;
    let id = house.conversation().await;
    let report = house.say(&id, "go on for ever").await;
    assert_eq!(report.end, TurnEnd::StepLimit);
    assert_eq!((house.model.received().len(), house.tools.ran().len()), (3, 3));
    let entries = house.entries(&id).await;
    let notes = entries.iter().filter(|entry| matches!(entry, Entry::Note(_))).count();
    assert_eq!((notes, note(&entries)), (1, Some(NoteKind::StepLimit)));
}

#[tokio::test]
async fn what_a_page_sees_has_no_gap_and_nothing_twice() {
    let pieces: Vec<Value> = (0..200)
        .map(|n| {
            json!({ "candidates": [{ "content": { "role": "model",
        "parts": [{ "text": format!("{n} ") }] }, "index": 0 }] })
        })
        .collect();
    let mut end = pieces.last().unwrap().clone();
    end["candidates"][0]["finishReason"] = "STOP".into();
    let whole: String = (0..200).map(|n| format!("{n} ")).chain(["199 ".to_owned()]).collect();
    let house = House::new([Answer::events(pieces.into_iter().chain([end]))]).await;
    let id = house.conversation().await;
    let mut early = house.agent.live(&id);
    let turn = house.begin(&id, "count").await;
    // A page that comes in the middle: what it is given, and what follows.
    let mut first = None;
    while first.is_none() {
        if let Live::Delta { .. } = early.recv().await.unwrap() {
            first = Some(());
        }
    }
    let (view, mut late) = house.agent.watch(&id);
    let mut seen = view.map(|view| view.text_so_far).unwrap_or_default();
    let mut appended = 0;
    let report = turn.finished().await.unwrap();
    assert_eq!(report.reply, whole);
    loop {
        match late.try_recv() {
            Ok(Live::Delta { text }) => seen.push_str(&text),
            Ok(Live::MessageAppended { .. }) => appended += 1,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    // The message may have been whole when the page came: then it is in the transcript and not in the view.
    assert!(seen == whole || (seen.is_empty() && appended == 0), "{seen}");
}

#[tokio::test]
async fn a_turn_begins_only_where_it_may() {
    let house = House::new([calls(&[call("files__write", "a")]), text("Done.")]).await;
    let id = house.conversation().await;
    let (ann, bob) = (ann(), PersonId::new("bob").unwrap());
    let start = async |id: &ConversationId, person: &PersonId, role, text: &str| {
        house.agent.start(id, person, role, text).await.err()
    };
    assert!(matches!(start(&id, &ann, Role::Viewer, "x").await, Some(StartError::NotAllowed)));
    assert!(matches!(start(&id, &ann, Role::Client, "x").await, Some(StartError::NotAllowed)));
    assert!(matches!(start(&id, &ann, Role::Approver, " \n").await, Some(StartError::Empty)));
    let long = "x".repeat(sluicegate::agent::MOST_TEXT + 1);
    assert!(matches!(start(&id, &ann, Role::Approver, &long).await, Some(StartError::TooLong { .. })));
    let other = ConversationId::new("nowhere").unwrap();
    assert!(matches!(start(&other, &ann, Role::Approver, "x").await, Some(StartError::UnknownConversation)));
    assert!(matches!(start(&id, &bob, Role::Admin, "x").await, Some(StartError::UnknownConversation)));
    assert_eq!(house.entries(&id).await, []);

    let turn = house.begin(&id, "write").await;
    let held = house.held(1).await;
    assert!(matches!(start(&id, &ann, Role::Approver, "x").await, Some(StartError::Running)));
    house.decide(&held[0], Verdict::Approve, None).await.unwrap();
    assert_eq!(turn.finished().await.unwrap().reply, "Done.");
    assert_eq!(house.tools.ran(), [r#"write {"path":"a"}"#]);
}

#[tokio::test]
async fn no_more_turns_run_at_once_than_may() {
    let settings = AgentSettings { most_running: 2, ..AgentSettings::default() };
    let script = (0..2).map(|_| calls(&[call("files__write", "a")]));
    let house = House::with(house::rules(), settings, script).await;
    let (a, b, c) = (house.conversation().await, house.conversation().await, house.conversation().await);
    let turns = [house.begin(&a, "x").await, house.begin(&b, "x").await];
    house.held(2).await;
    let refused = house.agent.start(&c, &ann(), Role::Approver, "x").await.err();
    assert!(matches!(refused, Some(StartError::TooMany)), "{refused:?}");
    assert!(house.agent.stop(&a));
    for turn in turns.into_iter().take(1) {
        turn.finished().await.unwrap();
    }
    house.model.push(text("Room again."));
    assert_eq!(house.say(&c, "x").await.reply, "Room again.");
}

#[tokio::test]
async fn a_conversation_whose_provider_is_gone_says_so() {
    let house = House::new([]).await;
    let id = house.conversation().await;
    house.store.conversations().choose_model(&id, "elsewhere", "m").await.unwrap();
    let report = house.say(&id, "hello").await;
    assert_eq!(report.end, TurnEnd::ModelFailed);
    assert!(report.error.unwrap().sentence.contains("`elsewhere`"));
    assert_eq!(house.audit("model_failed").await.len(), 1);
    assert_eq!(note(&house.entries(&id).await), Some(NoteKind::ModelFailed));
}
