//! From a proposed call to its end, without a person.

use crate::support::{House, Script, proposed, rules, tool};
use serde_json::json;
use sluicegate_gateway::{CallAnswer, CallState, ProposedArguments, ProposedTool, ReasonCode};
use sluicegate_policy::RuleId;

fn code(answer: &CallAnswer) -> Option<ReasonCode> {
    answer.refusal.as_ref().map(|refusal| refusal.code)
}

#[tokio::test]
async fn an_allowed_call_runs_once_and_its_story_is_complete() {
    let house = House::new().await;
    let answer = house.call("read", json!({"path": "notes.txt"})).outcome().await;
    assert_eq!((answer.state, code(&answer)), (CallState::Completed, None));
    assert_eq!(answer.output.unwrap().result["content"][0]["text"], r#"did {"path":"notes.txt"}"#);
    assert_eq!(house.world.effects(), 1);

    let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
    let kinds: Vec<&str> = story.trail.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["tool_requested", "policy_decided", "execution_started", "execution_completed"]);
    let context = story.evaluations[0].context.as_ref().unwrap();
    assert_eq!(context.tool, tool("read"));
    assert_eq!(context.arguments.canonical(), r#"{"path":"notes.txt"}"#);
}

#[tokio::test]
async fn deny_beats_hold_and_no_rule_is_no() {
    let house = House::new().await;
    let delete = house.call("delete", json!({"path": "notes.txt"})).outcome().await;
    assert_eq!((delete.state, code(&delete)), (CallState::Denied, Some(ReasonCode::Rule)));
    assert_eq!(delete.refusal.unwrap().rules, [RuleId::new("delete-blocked").unwrap()]);
    let moved = house.call("move", json!({})).outcome().await;
    assert_eq!((moved.state, code(&moved)), (CallState::Denied, Some(ReasonCode::NoRule)));
    assert_eq!(house.world.effects(), 0);
}

#[tokio::test]
async fn an_unknown_tool_is_recorded_and_refused_and_never_a_near_match() {
    let house = House::new().await;
    for name in ["raed", "files/read", "Read", "read "] {
        let call = proposed(ProposedTool::Unknown(name.to_owned()), ProposedArguments::Absent);
        let answer = house.gateway.execute_tool(call).outcome().await;
        assert_eq!((answer.state, code(&answer)), (CallState::Denied, Some(ReasonCode::UnknownTool)));
        let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
        assert_eq!((story.call.server.as_str(), story.call.tool.as_str()), ("", name));
    }
    let gone =
        house.gateway.execute_tool(proposed(ProposedTool::Known(tool("erase")), ProposedArguments::Absent));
    assert_eq!(code(&gone.outcome().await), Some(ReasonCode::UnknownTool));
    assert_eq!(house.world.effects(), 0);
}

/// The kind: absent, null and empty arguments are three different things.
#[tokio::test]
async fn f17_absent_and_null_arguments_are_empty_and_other_shapes_are_refused() {
    let house = House::new().await;
    let known = || ProposedTool::Known(tool("read"));
    for arguments in [
        ProposedArguments::Absent,
        ProposedArguments::Json(json!(null)),
        ProposedArguments::Json(json!({})),
        ProposedArguments::Text("{}".to_owned()),
    ] {
        let answer = house.gateway.execute_tool(proposed(known(), arguments)).outcome().await;
        assert_eq!(answer.output.unwrap().result["content"][0]["text"], "did {}");
    }
    for arguments in [
        ProposedArguments::Json(json!("")),
        ProposedArguments::Json(json!([])),
        ProposedArguments::Json(json!(7)),
        ProposedArguments::Json(json!({"path": null})),
        ProposedArguments::Json(json!({"path": "a", "extra": 1})),
        ProposedArguments::Text(String::new()),
        ProposedArguments::Text(r#"{"path":"a","path":"b"}"#.to_owned()),
        ProposedArguments::Text(r#"{"path":"half"#.to_owned()),
    ] {
        let answer = house.gateway.execute_tool(proposed(known(), arguments)).outcome().await;
        assert_eq!((answer.state, code(&answer)), (CallState::Denied, Some(ReasonCode::InvalidArguments)));
    }
    assert_eq!(house.world.effects(), 4);
}

#[tokio::test]
async fn each_way_of_losing_an_answer_has_its_own_end() {
    let house = House::new().await;
    let mut rules = rules();
    rules["rules"][1] =
        json!({"id": "write", "kind": "allow_tool", "match": {"server": "files", "tool": "write"}});
    house.set_rules(rules).await;
    for (script, name, state, reason) in [
        (Script::ToolError, "write", CallState::Failed, ReasonCode::ToolError),
        (Script::NotSent, "write", CallState::Failed, ReasonCode::UpstreamUnavailable),
        (Script::Withdrawn, "write", CallState::Failed, ReasonCode::Withdrawn),
        (Script::AnswerLost, "write", CallState::Unknown, ReasonCode::OutcomeLost),
        (Script::TimedOut, "write", CallState::Unknown, ReasonCode::TimedOut),
        (Script::Panic, "write", CallState::Unknown, ReasonCode::OutcomeLost),
        (Script::TimedOut, "read", CallState::Failed, ReasonCode::TimedOut),
    ] {
        house.world.script(script);
        let answer = house.call(name, json!({})).outcome().await;
        assert_eq!((answer.state, code(&answer)), (state, Some(reason)), "{script:?}");
        let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
        assert_eq!(story.call.state, state, "{script:?}");
    }
}

#[tokio::test]
async fn a_second_attempt_is_in_the_trail() {
    let house = House::new().await;
    house.world.script(Script::RetryOnce);
    let answer = house.call("read", json!({})).outcome().await;
    let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
    assert!(story.trail.iter().any(|row| row.kind == "execution_retried"));
    assert_eq!(house.world.effects(), 2);
}

#[tokio::test]
async fn a_caller_who_leaves_while_the_tool_runs_leaves_an_unknown_outcome() {
    let house = House::new().await;
    house.world.script(Script::HangUntilCancelled);
    let handle = house.call("read", json!({}));
    let id = handle.id();
    house.world.running.notified().await;
    let mut feed = house.store.feed().subscribe();
    drop(handle);
    loop {
        let story = house.store.call_reader().call(id).await.unwrap().unwrap();
        if story.call.state.is_end() {
            assert_eq!(story.call.state, CallState::Unknown);
            break;
        }
        feed.recv().await.unwrap();
    }
}

/// The kind: a mistake in the policy, or its absence, must not open the door.
#[tokio::test]
async fn f31_without_rules_no_call_runs_and_it_is_recorded() {
    let house = House::at(tempfile::tempdir().unwrap()).await;
    let answer = house.call("read", json!({})).outcome().await;
    assert_eq!((answer.state, code(&answer)), (CallState::Denied, Some(ReasonCode::PolicyUnreadable)));
    assert!(house.store.call_reader().call(answer.call).await.unwrap().is_some());

    house.set_rules(json!({"version": 1, "rules": []})).await;
    let answer = house.call("read", json!({})).outcome().await;
    assert_eq!(code(&answer), Some(ReasonCode::NoRule));
    assert_eq!(house.world.effects(), 0);
}

#[tokio::test]
async fn an_edit_of_the_rules_applies_to_the_very_next_call() {
    let house = House::new().await;
    assert_eq!(house.call("read", json!({})).outcome().await.state, CallState::Completed);
    let mut stricter = rules();
    stricter["rules"][0]["kind"] = json!("block_tool");
    house.set_rules(stricter).await;
    assert_eq!(house.call("read", json!({})).outcome().await.state, CallState::Denied);
    house.set_rules(rules()).await;
    assert_eq!(house.call("read", json!({})).outcome().await.state, CallState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_parallel_calls_against_a_limit_of_ten_let_ten_through() {
    let house = House::new().await;
    let mut limited = rules();
    limited["rules"].as_array_mut().unwrap().push(json!({
        "id": "ten", "kind": "rate_limit", "match": {"server": "files", "tool": "read"},
        "limit": {"calls": 10, "window": "1h", "per": "caller"},
    }));
    house.set_rules(limited).await;
    let calls: Vec<_> =
        (0..50).map(|n| house.call("read", json!({"path": format!("{n}")})).outcome()).collect();
    let answers = futures::future::join_all(calls).await;
    let ran = answers.iter().filter(|answer| answer.state == CallState::Completed).count();
    let over = answers.iter().filter(|answer| code(answer) == Some(ReasonCode::OverRate)).count();
    assert_eq!((ran, over, house.world.effects()), (10, 40, 10));
    house.clock.advance(3_600_001);
    assert_eq!(house.call("read", json!({})).outcome().await.state, CallState::Completed);
}

#[tokio::test]
async fn shutdown_withdraws_what_is_held_and_ends_what_runs() {
    let house = House::new().await;
    let held = house.call("write", json!({"path": "a"}));
    house.held().await;
    assert!(house.running.shutdown(std::time::Duration::from_secs(30)).await);
    let answer = held.outcome().await;
    assert_eq!((answer.state, house.world.effects()), (CallState::Withdrawn, 0));
}

/// The kind: a check that does not apply counts as passed. Under a rule that looks at arguments, other shapes of the
/// argument and arguments beside it are refused, as long as no rule allows them all the same.
#[tokio::test]
async fn f30_arguments_that_a_rule_cannot_have_looked_at_are_refused() {
    let house = House::new().await;
    let rule = |when: serde_json::Value| {
        json!({"version": 1, "rules": [
            {"id": "open", "kind": "allow_tool", "match": {"server": "files", "tool": "open"}, "when": when},
        ]})
    };
    house.set_rules(rule(json!([{"argument": "path", "op": "starts_with", "value": "ok"}]))).await;
    let fine =
        json!({"path": "ok/a", "options": {"depth": 1}, "labels": {"any": "thing"}, "parts": [{"name": 1}]});
    assert_eq!(house.call("open", fine).outcome().await.state, CallState::Completed);
    let mut many: Vec<String> = (0..10_000).map(|n| format!("ok/{n}")).collect();
    many.push("elsewhere".to_owned());
    for shape in [
        json!({"path": ["ok", "../../x"]}),
        json!({"path": {"path": "ok"}}),
        json!({"path": 7}),
        json!({"path": true}),
        json!({"path": null}),
        json!({"path": []}),
        json!({"path": many}),
        json!({}),
    ] {
        let answer = house.call("open", shape.clone()).outcome().await;
        assert_eq!(
            answer.state,
            CallState::Denied,
            "{}",
            shape.to_string().chars().take(80).collect::<String>()
        );
    }
    for (extra, named) in [
        (json!({"path": "ok", "paths": ["../../x"]}), "`paths`"),
        (json!({"path": "ok", "destination": "/"}), "`destination`"),
        (json!({"path": "ok", "Path": "/"}), "`Path`"),
        (json!({"path": "ok", "path ": "/"}), "`path `"),
        (json!({"path": "ok", "options": {"depth": 1, "path": "/"}}), "`options.path`"),
        (json!({"path": "ok", "parts": [{"name": 1}, {"path": "/"}]}), "`parts.path`"),
    ] {
        let answer = house.call("open", extra.clone()).outcome().await;
        assert_eq!(
            (answer.state, code(&answer)),
            (CallState::Denied, Some(ReasonCode::InvalidArguments)),
            "{extra}"
        );
        let sentence = answer.refusal.expect("a refusal").sentence;
        assert!(sentence.contains(named), "{sentence}");
    }
    assert_eq!(house.world.effects(), 1);
    // Where no rule looks at arguments, the tool's own schema alone decides.
    house.set_rules(rule(json!([]))).await;
    let extra = json!({"path": "x", "paths": []});
    assert_eq!(house.call("open", extra).outcome().await.state, CallState::Completed);
}
