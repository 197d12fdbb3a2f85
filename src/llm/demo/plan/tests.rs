use super::*;
use crate::conversation::{Ending, ModelCall, ModelTurn};
use serde_json::json;

fn declared(name: &str, properties: Value) -> ToolDeclaration {
    ToolDeclaration {
        name: name.into(),
        description: String::new(),
        schema: json!({"type":"object","properties":properties}),
    }
}

fn files() -> Vec<ToolDeclaration> {
    let text = json!({"type":"string"});
    vec![
        declared("sandbox-files__list_files", json!({"path":text})),
        declared("sandbox-files__read_file", json!({"path":text})),
        declared("sandbox-files__write_file", json!({"path":text,"content":text})),
        declared("sandbox-files__move_file", json!({"from":text,"to":text})),
        declared("sandbox-files__delete_file", json!({"path":text})),
    ]
}

fn home() -> Vec<ToolDeclaration> {
    let text = json!({"type":"string"});
    vec![
        declared("home__list_reminders", json!({})),
        declared("home__create_reminder", json!({"text":text})),
        declared("home__delete_reminder", json!({"id":text})),
        declared("home__send_message", json!({"to":text,"text":text})),
        declared("home__list_devices", json!({})),
        declared("home__set_device", json!({"device":text,"on":{"type":"boolean"}})),
        declared("home__lock_door", json!({})),
        declared("home__unlock_door", json!({})),
    ]
}

/// Plays a whole turn: what was said in each step, and every call as `name {arguments}`.
fn play(
    message: &str,
    tools: &[ToolDeclaration],
    mut answer: impl FnMut(&str, &Value) -> Result<Value, Value>,
) -> (Vec<String>, Vec<String>) {
    let mut history = vec![
        Message::User { text: "list the files".into() },
        Message::Model(turn("earlier", vec![])),
        Message::User { text: message.into() },
    ];
    let (mut said, mut called) = (Vec::new(), Vec::new());
    for step_number in 0..40 {
        let step = step(&history, tools);
        assert!(!step.text.is_empty());
        said.push(step.text.clone());
        if step.calls.is_empty() {
            return (said, called);
        }
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for (at, Proposed { name, arguments }) in step.calls.into_iter().enumerate() {
            let key = format!("{step_number}-{at}");
            called.push(format!("{name} {arguments}"));
            let (output, is_error) = match answer(&name, &arguments) {
                Ok(output) => (output, false),
                Err(output) => (output, true),
            };
            results.push(CallResult { key: key.clone(), name: name.clone(), output, is_error });
            calls.push(ModelCall { key, provider_id: None, name, arguments: Some(arguments.to_string()) });
        }
        history.push(Message::Model(turn(&step.text, calls)));
        history.push(Message::ToolResults { results });
    }
    panic!("the turn does not end: {called:?}");
}

fn turn(text: &str, calls: Vec<ModelCall>) -> ModelTurn {
    ModelTurn { text: text.into(), thinking: String::new(), calls, ending: Ending::Stop, provider: None }
}

#[test]
fn requests_are_done_one_after_the_other_and_each_result_is_told_once() {
    let (said, called) = play(
        "list the files, write notes.txt: hello, then read it and delete old.txt",
        &files(),
        |name, _| match name {
            "sandbox-files__list_files" => Ok(json!(
                r#"{"path":".","entries":[{"path":"old.txt","kind":"file","bytes":3},{"path":"docs","kind":"directory"}],"total":2,"cut":false}"#
            )),
            "sandbox-files__read_file" => Ok(json!("hello")),
            "sandbox-files__delete_file" => {
                Err(json!({"code":"rule","message":"A rule forbids this; it did not run.","retryable":false}))
            }
            _ => Ok(json!("wrote `notes.txt`")),
        },
    );
    assert_eq!(
        called,
        [
            "sandbox-files__list_files {}",
            r#"sandbox-files__write_file {"content":"hello","path":"notes.txt"}"#,
            r#"sandbox-files__read_file {"path":"notes.txt"}"#,
            r#"sandbox-files__delete_file {"path":"old.txt"}"#,
        ]
    );
    assert_eq!(
        said,
        [
            "I will list the files.",
            "In the sandbox there is old.txt (bytes 3, file) and docs (directory). I will write notes.txt.",
            "Done: I wrote notes.txt. The tool says: wrote `notes.txt`. I will read notes.txt.",
            "notes.txt says: “hello” I will delete old.txt.",
            "I could not delete old.txt: A rule forbids this; it did not run (rule).",
        ]
    );
}

#[test]
fn an_id_is_looked_up_before_it_is_used_and_again_after_a_change() {
    let mut reminders = vec![json!({"id":"r-1","text":"water the plants"})];
    let (said, called) = play(
        "list reminders, add a reminder: call home, delete the reminder about call home, delete reminder 99",
        &home(),
        |name, arguments| match name {
            "home__list_reminders" => Ok(json!({ "reminders": reminders })),
            "home__create_reminder" => {
                reminders.push(json!({"id":"r-2","text":arguments["text"]}));
                Ok(json!("added r-2"))
            }
            _ => Ok(json!("")),
        },
    );
    assert_eq!(
        called,
        [
            "home__list_reminders {}",
            r#"home__create_reminder {"text":"call home"}"#,
            "home__list_reminders {}",
            r#"home__delete_reminder {"id":"r-2"}"#,
            "home__list_reminders {}",
        ]
    );
    assert_eq!(said[0], "I will list the reminders.");
    assert_eq!(said[1], "The reminders are water the plants (r-1). I will add the reminder “call home”.");
    assert!(said[2].ends_with("I will look up the reminders first."), "{}", said[2]);
    assert_eq!(said[5], "I found nothing that is called “99”.");
}

#[test]
fn devices_are_found_by_words_and_asked_about_if_several_fit() {
    let (said, called) =
        play("turn on the hall light, turn off the light, lock the door", &home(), |name, _| match name {
            "home__list_devices" => Ok(json!([
                {"id":"l1","name":"Hall light","on":false},
                {"id":"l2","name":"Kitchen light","on":true},
            ])),
            _ => Ok(json!({"content":[{"type":"text","text":"ok"}]})),
        });
    assert_eq!(
        called,
        ["home__list_devices {}", r#"home__set_device {"device":"l1","on":true}"#, "home__lock_door {}",]
    );
    assert!(
        said.iter().any(|text| text.contains("may mean any of these: Hall light, Kitchen light")),
        "{said:?}"
    );
    assert_eq!(said.last().unwrap(), "Done: I locked the door. The tool says: ok.");
}

#[test]
fn a_tool_that_is_not_offered_is_said_to_be_missing_and_the_rest_is_done() {
    let (said, called) =
        play("unlock the door and list the files", &files(), |_, _| Ok(json!({"entries":[]})));
    assert_eq!(called, ["sandbox-files__list_files {}"]);
    assert_eq!(
        said,
        [
            "I cannot unlock the door: the tool home/unlock_door is not offered to me here. I will list the files.",
            "There are no files in the sandbox.",
        ]
    );
}

#[test]
fn anything_else_is_answered_with_what_it_can_do() {
    for message in ["sing a song", "", "hello", "\u{202e}…", "what can you do?"] {
        let (said, called) = play(message, &files(), |_, _| Ok(json!("")));
        assert!(called.is_empty());
        assert!(said[0].contains("not a language model"), "{said:?}");
    }
    let (said, called) = play("read a.txt and sing a song", &files(), |_, _| Ok(json!("la")));
    assert_eq!(called.len(), 1);
    assert!(said[1].contains("a.txt says: “la” I did not understand “sing a song”."), "{said:?}");
    assert_eq!(step(&[], &files()).text, say::HELP);
}

#[test]
fn many_requests_fit_the_steps_of_a_turn_and_dependent_ones_stay_in_order() {
    let message: Vec<String> = (0..12).map(|n| format!("delete f{n}.txt")).collect();
    let (said, called) = play(&message.join(", "), &files(), |_, _| Ok(json!("gone")));
    assert_eq!(called.len(), 12);
    assert!(said.len() <= 5, "{} steps", said.len());

    let message =
        "write a.txt: 1, read a.txt, write a.txt: 2, read a.txt, read b.txt, delete a.txt, list the files";
    let mut running = Vec::new();
    play(message, &files(), |name, _| {
        running.push(name.trim_start_matches("sandbox-files__").to_owned());
        Ok(json!("x"))
    });
    assert_eq!(
        running,
        ["write_file", "read_file", "write_file", "read_file", "read_file", "delete_file", "list_files"]
    );
}

#[test]
fn the_same_request_twice_is_two_calls() {
    let (_, called) = play("read a.txt, then read a.txt", &files(), |_, _| Ok(json!("x")));
    assert_eq!(called.len(), 2);
}

#[test]
fn a_call_without_an_answer_and_a_tool_that_went_away_do_not_lead_to_false_words() {
    let call = ModelCall {
        key: "k".into(),
        provider_id: None,
        name: "sandbox-files__delete_file".into(),
        arguments: Some(r#"{"path":"a.txt"}"#.into()),
    };
    let history = [
        Message::User { text: "delete a.txt, read b.txt".into() },
        Message::Model(turn("I will delete a.txt.", vec![call])),
        Message::ToolResults { results: vec![] },
    ];
    let next = step(&history, &files());
    assert!(next.text.starts_with("I do not know whether I could delete a.txt"), "{}", next.text);
    assert_eq!(next.calls[0].arguments, json!({"path":"b.txt"}));
    let without_delete: Vec<_> = files().into_iter().filter(|tool| !tool.name.contains("delete")).collect();
    let next = step(&history, &without_delete);
    assert_eq!(next.calls.len(), 1);
    assert!(!next.text.contains("b.txt says"), "{}", next.text);
}
