use super::*;
use crate::conversation::{CallResult, CutBy, Ending, ModelTurn};
use serde_json::json;

fn user(text: &str) -> Entry {
    Entry::Said(Message::User { text: text.into() })
}

fn model(text: &str, keys: &[&str]) -> Entry {
    let calls: Vec<_> = keys
        .iter()
        .map(|key| ModelCall { key: (*key).into(), provider_id: None, name: "t".into(), arguments: None })
        .collect();
    let ending = if calls.is_empty() { Ending::Stop } else { Ending::ToolCalls };
    Entry::Said(Message::Model(ModelTurn {
        text: text.into(),
        thinking: String::new(),
        calls,
        ending,
        provider: None,
    }))
}

fn results(keys: &[&str]) -> Entry {
    let results = keys
        .iter()
        .map(|key| CallResult { key: (*key).into(), name: "t".into(), output: json!("ok"), is_error: false })
        .collect();
    Entry::Said(Message::ToolResults { results })
}

#[test]
fn entries_survive_storage() {
    let entries = [
        user("hi"),
        model("yes", &["a"]),
        Entry::Proposed { key: "a".into(), call: CallId::random() },
        results(&["a"]),
        Entry::note(NoteKind::Stopped, "Stopped."),
    ];
    for entry in entries {
        let stored = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&stored).unwrap(), entry, "{stored}");
    }
}

#[test]
fn f03_open_calls_are_answered_after_a_restart_with_what_is_known_of_them() {
    let (ran, held) = (CallId::random(), CallId::random());
    let mut entries = vec![
        user("hi"),
        model("", &["a", "b", "c"]),
        Entry::Proposed { key: "a".into(), call: ran },
        Entry::Proposed { key: "b".into(), call: held },
    ];
    let states = BTreeMap::from([(ran, CallState::Completed), (held, CallState::Denied)]);
    let missing = repair(&entries, BrokenBy::Restart, &states);
    let [Entry::Said(Message::ToolResults { results }), Entry::Note(note)] = missing.as_slice() else {
        panic!("{missing:?}")
    };
    let keys: Vec<_> = results.iter().map(|result| result.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    assert!(results.iter().all(|result| result.is_error));
    assert!(results[0].output["message"].as_str().unwrap().contains("ran to its end"));
    assert!(results[1].output["message"].as_str().unwrap().contains("did not run"));
    assert!(results[2].output["message"].as_str().unwrap().contains("not known"));
    assert_eq!(note.kind, NoteKind::Restarted);
    assert!(note.text.contains("3 calls were open"), "{}", note.text);
    entries.extend(missing);
    assert_eq!(repair(&entries, BrokenBy::Restart, &states), [], "mended once");
}

#[test]
fn a_turn_that_died_without_open_calls_is_said_once() {
    let cut = Entry::Said(Message::Model(ModelTurn {
        text: "Half".into(),
        thinking: String::new(),
        calls: Vec::new(),
        ending: Ending::CutOff { by: CutBy::Connection },
        provider: None,
    }));
    let unfinished = [
        vec![user("hi")],
        vec![user("hi"), model("", &["a"]), results(&["a"])],
        vec![user("hi"), cut],
        vec![user("hi"), Entry::note(NoteKind::CallCutOff, "again")],
    ];
    for mut entries in unfinished {
        assert!(!turn_is_over(&entries));
        let missing = repair(&entries, BrokenBy::Restart, &BTreeMap::new());
        assert!(
            matches!(missing.as_slice(), [Entry::Note(Note { kind: NoteKind::Restarted, .. })]),
            "{missing:?}"
        );
        entries.extend(missing);
        assert!(turn_is_over(&entries));
    }
    let over = [
        vec![],
        vec![user("hi"), model("yes", &[])],
        vec![user("hi"), Entry::note(NoteKind::ModelFailed, "no")],
    ];
    for entries in over {
        assert_eq!(repair(&entries, BrokenBy::Restart, &BTreeMap::new()), []);
    }
}

#[test]
fn a_cut_off_call_is_told_to_the_model_as_ours_and_other_notes_are_not() {
    let entries = [
        user("hi"),
        Entry::note(NoteKind::CallCutOff, "A call was cut off."),
        Entry::note(NoteKind::Stopped, "Stopped."),
        Entry::Proposed { key: "a".into(), call: CallId::random() },
    ];
    let seen = history(&entries);
    assert_eq!(
        seen,
        [
            Message::User { text: "hi".into() },
            Message::User {
                text: "[Notice from Sluicegate, not from the person: A call was cut off.]".into()
            }
        ]
    );
}

#[test]
fn f03_trimming_takes_whole_turns() {
    let long = "x".repeat(100);
    let mut entries = Vec::new();
    for turn in 0..5 {
        let key = format!("k{turn}");
        entries.extend([user(&long), model(&long, &[&key]), results(&[&key]), model(&long, &[])]);
    }
    let all = history(&entries);
    for most in 0..2_000 {
        let kept = window(&all, most);
        assert!(matches!(kept.first(), Some(Message::User { .. })), "cut in the middle of a turn at {most}");
        assert_eq!(kept.len() % 4, 0);
        let bytes: usize = kept.iter().map(size).sum();
        assert!(bytes <= most || kept.len() == 4, "more than fits, and more than one turn, at {most}");
    }
    assert_eq!(window(&all, usize::MAX).len(), all.len());
    assert_eq!(window(&[], 10), []);
}

#[test]
fn a_store_failure_is_not_called_a_restart() {
    let entries = [user("hi"), model("", &["a"])];
    let missing = repair(&entries, BrokenBy::Store, &BTreeMap::new());
    let said = serde_json::to_string(&missing).unwrap();
    assert!(said.contains("the store failed while this call was open"), "{said}");
    assert!(!said.contains("restarted"), "{said}");
}

#[test]
fn what_was_said_again_takes_the_place_of_what_was_said_first() {
    let user = |text: &str| Entry::Said(Message::User { text: text.to_owned() });
    let entries = [
        user("one"),
        Entry::note(NoteKind::Stopped, "stopped"),
        user("two"),
        Entry::note(NoteKind::Stopped, "stopped"),
        Entry::Replaced { from: 3 },
        user("two, better"),
        Entry::Replaced { from: 6 },
        user("two, best"),
    ];
    let told: Vec<_> = history(&entries)
        .into_iter()
        .map(|message| match message {
            Message::User { text } => text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["one", "two, best"]);
    let may: Vec<i64> = (0..10).filter(|position| can_be_replaced(&entries, *position)).collect();
    assert_eq!(may, [1, 8], "neither a note, nor what was replaced, nor what is not there");
    assert_eq!(history(&[user("one"), Entry::Replaced { from: 1 }, user("new")]).len(), 1);
    assert!(turn_is_over(&entries[..5]));
}
