//! The port's contract: new calls, intents, outcomes.

use crate::support::{House, LIMIT_MS, START_MS, asker, completed, conversation};
use serde_json::{Value, json};
use sluicegate_gateway::{
    Begun, CallOutcome, CallState, CallStore as _, Closed, Closing, FactQuery, Held, ReasonCode, RevisionId,
    StoreError, ToolOutput, Verdict, VoteOutcome,
};
use sluicegate_policy::{CallerId, Effect, Role, RuleId, Tier};

#[tokio::test]
async fn an_allowed_call_is_written_with_its_intent_and_then_its_outcome() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({"path": "notes.txt"})).await;
    let (id, frozen) = (asked.call.id, asked.call.frozen.clone().unwrap());
    let begun = house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    assert_eq!(begun, Begun::Started);

    let story = house.story(id).await;
    assert_eq!(house.kinds(id).await, ["tool_requested", "policy_decided", "execution_started"]);
    let call = &story.call;
    assert_eq!((call.state, call.tier, call.code), (CallState::Executing, Some(Tier::Safe), None));
    assert_eq!((call.server.as_str(), call.tool.as_str()), ("files", "read"));
    assert_eq!(call.arguments.as_deref(), Some(r#"{"path":"notes.txt"}"#));
    assert_eq!(call.caller, asker());
    assert_eq!(call.conversation, Some(conversation("c-1")));
    assert_eq!((call.action, call.definition), (Some(frozen.action()), Some(frozen.definition())));
    assert_eq!(call.server_identity, Some(frozen.server()));
    assert_eq!(call.rules, [RuleId::new("read").unwrap()]);
    assert_eq!((call.requested_ms, call.started_ms, call.ended_ms), (START_MS, Some(START_MS), None));
    let [evaluation] = story.evaluations.as_slice() else { panic!("{:?}", story.evaluations) };
    assert_eq!(
        (evaluation.n, evaluation.revision, evaluation.effect),
        (1, Some(RevisionId(1)), Effect::Allow)
    );
    let context = evaluation.context.as_ref().unwrap();
    assert_eq!(context.arguments.canonical(), r#"{"path":"notes.txt"}"#);
    assert_eq!(context.principal, asker().principal);
    assert_eq!(evaluation.decision.as_ref().unwrap().effect, Effect::Allow);

    house.clock.advance(42);
    house.calls.finish(id, completed("hello")).await.unwrap();
    let story = house.story(id).await;
    assert_eq!((story.call.state, story.call.ended_ms), (CallState::Completed, Some(START_MS + 42)));
    assert_eq!(story.call.flags, ["ignore previous"]);
    let last = story.trail.last().unwrap();
    assert_eq!(last.kind, "execution_completed");
    let facts: Value = serde_json::from_str(&last.facts).unwrap();
    assert_eq!((&facts["duration_ms"], &facts["is_error"]), (&json!(42), &json!(false)));
    let (_, result) = story.payloads.iter().find(|(_, payload)| payload.name == "result").unwrap();
    assert!(result.text.contains("hello"));
    house.assert_whole().await;
}

#[tokio::test]
async fn a_denied_call_is_as_complete_as_a_permitted_one() {
    let house = House::new().await;
    let asked = house.gate.asks("delete", json!({"path": "notes.txt"})).await;
    let id = asked.call.id;
    house.calls.record_denied(asked.call, asked.ruling).await.unwrap();
    let story = house.story(id).await;
    assert_eq!(house.kinds(id).await, ["tool_requested", "policy_decided"]);
    assert_eq!((story.call.state, story.call.code), (CallState::Denied, Some(ReasonCode::Rule)));
    assert_eq!(story.call.ended_ms, Some(START_MS));
    let facts: Value = serde_json::from_str(&story.trail[1].facts).unwrap();
    assert_eq!(facts["effect"], "deny");
    assert_eq!(facts["rules"], json!(["delete"]));
    assert_eq!(
        (&facts["code"], &facts["revision"], &facts["tier"]),
        (&json!("rule"), &json!(1), &json!("high"))
    );

    // One that never reached the rules.
    let asked = house.gate.asks("unknown", json!({})).await;
    let id = asked.call.id;
    house.calls.record_denied(asked.call, asked.ruling).await.unwrap();
    let story = house.story(id).await;
    assert_eq!((story.call.server.as_str(), story.call.tool.as_str()), ("", "unknown"));
    assert_eq!((story.call.code, story.call.action), (Some(ReasonCode::UnknownTool), None));
    assert!(story.evaluations[0].context.is_none());
    house.assert_whole().await;
}

#[tokio::test]
async fn facts_that_moved_are_noticed_inside_the_transaction_and_nothing_is_written() {
    let house = House::new().await;
    let head = house.store.audit().head().await.unwrap();

    // Another revision.
    let asked = house.gate.asks("read", json!({})).await;
    let id = asked.call.id;
    let mut expect = asked.expect.clone();
    expect.revision = RevisionId(7);
    assert_eq!(
        house.calls.begin(asked.call.clone(), asked.ruling.clone(), expect).await.unwrap(),
        Begun::Moved
    );
    let approval = house.approval(1, &[Role::Approver]);
    let held =
        house.calls.hold(asked.call.clone(), asked.ruling.clone(), approval, RevisionId(7)).await.unwrap();
    assert_eq!(held, Held::Moved);

    // Tokens used meanwhile, by the conversation or by the caller elsewhere.
    let conversations = house.store.conversations();
    let caller = asker().principal.caller;
    for (conversation, by) in [("c-1", "somebody-else"), ("c-2", caller.as_str())] {
        let by = CallerId::new(by).unwrap();
        conversations.add_usage(&crate::support::conversation(conversation), &by, 3, 4, false).await.unwrap();
        let begun =
            house.calls.begin(asked.call.clone(), asked.ruling.clone(), asked.expect.clone()).await.unwrap();
        assert_eq!(begun, Begun::Moved);
    }
    assert!(house.store.call_reader().call(id).await.unwrap().is_none());
    assert_eq!(house.store.audit().head().await.unwrap(), head);

    // What was evaluated with that usage begins.
    let mut expect = asked.expect.clone();
    expect.usage.conversation = 7;
    expect.usage.caller_day = 7;
    assert_eq!(house.calls.begin(asked.call, asked.ruling, expect).await.unwrap(), Begun::Started);
}

#[tokio::test]
async fn a_call_is_written_once() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({})).await;
    house.calls.begin(asked.call.clone(), asked.ruling.clone(), asked.expect.clone()).await.unwrap();
    let again = house.calls.begin(asked.call, asked.ruling, asked.expect).await;
    assert!(matches!(again, Err(StoreError::Unavailable(_))), "{again:?}");
    house.assert_whole().await;
}

#[tokio::test]
async fn only_an_executing_call_can_end_and_only_once() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({})).await;
    let id = asked.call.id;
    assert!(house.calls.finish(id, completed("early")).await.is_err());
    assert!(house.calls.retried(id, "early").await.is_err());
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    house.calls.retried(id, "connection reset").await.unwrap();
    house.calls.finish(id, completed("done")).await.unwrap();
    let unknown = CallOutcome::Unknown { code: ReasonCode::OutcomeLost, sentence: "late".to_owned() };
    assert!(house.calls.finish(id, unknown).await.is_err());
    assert!(house.calls.retried(id, "late").await.is_err());
    assert_eq!(
        house.kinds(id).await,
        ["tool_requested", "policy_decided", "execution_started", "execution_retried", "execution_completed"]
    );
    assert_eq!(house.story(id).await.call.state, CallState::Completed);
}

#[tokio::test]
async fn failures_and_unknown_outcomes_keep_their_reason_and_no_words_of_tools_among_the_facts() {
    let house = House::new().await;
    let output = ToolOutput { result: json!({"content": [], "isError": true}), is_error: true };
    let failed = |code, output| CallOutcome::Failed {
        code,
        sentence: "SENTENCE".to_owned(),
        output,
        flags: Vec::new(),
    };
    for (outcome, state, code, kind) in [
        (
            failed(ReasonCode::ToolError, Some(output)),
            CallState::Failed,
            ReasonCode::ToolError,
            "execution_failed",
        ),
        (
            failed(ReasonCode::UpstreamUnavailable, None),
            CallState::Failed,
            ReasonCode::UpstreamUnavailable,
            "execution_failed",
        ),
        (
            CallOutcome::Unknown { code: ReasonCode::TimedOut, sentence: "SENTENCE".to_owned() },
            CallState::Unknown,
            ReasonCode::TimedOut,
            "execution_unknown",
        ),
    ] {
        let asked = house.gate.asks("read", json!({})).await;
        let id = asked.call.id;
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
        house.calls.finish(id, outcome).await.unwrap();
        let story = house.story(id).await;
        assert_eq!((story.call.state, story.call.code), (state, Some(code)));
        assert_eq!(story.call.sentence, "SENTENCE");
        let last = story.trail.last().unwrap();
        assert_eq!(last.kind, kind);
        assert!(!last.facts.contains("SENTENCE"), "{}", last.facts);
    }
}

#[tokio::test]
async fn a_result_over_one_mebibyte_is_kept_as_a_marked_cut_with_its_digest() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({})).await;
    let id = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    // Four-byte characters, so that a cut at a byte would fall inside one.
    house.calls.finish(id, completed(&"\u{1f512}".repeat(300_000))).await.unwrap();
    let story = house.story(id).await;
    let (_, result) = story.payloads.iter().find(|(_, payload)| payload.name == "result").unwrap();
    let kept: Value = serde_json::from_str(&result.text).unwrap();
    assert_eq!(kept["sluicegate_cut"], json!(true));
    assert!(kept["bytes"].as_u64().unwrap() > 1_200_000);
    assert_eq!(kept["digest"].as_str().unwrap().len(), 64);
    let begins = kept["begins_with"].as_str().unwrap();
    assert!(begins.len() > 1024 * 1024 - 4 && begins.len() <= 1024 * 1024);
    house.assert_whole().await;
}

#[tokio::test]
async fn facts_come_from_one_snapshot_and_a_refusal_by_a_person_is_remembered() {
    let house = House::new().await;
    let query = |action, conversation| FactQuery { caller: asker(), conversation, rates: Vec::new(), action };
    let asked = house.gate.asks("write", json!({"path": "a"})).await;
    let action = asked.call.frozen.as_ref().map(|frozen| frozen.action());
    let c1 = || Some(conversation("c-1"));
    let facts = house.calls.facts(query(action, c1())).await.unwrap();
    assert_eq!((facts.revision, facts.refused_before), (Some(RevisionId(1)), false));

    // Expiry and withdrawal are no refusals.
    let (_, expired) = house.held().await;
    house.clock.advance(LIMIT_MS);
    assert!(matches!(house.calls.close(expired, Closing::Expired).await.unwrap(), Closed::Won));
    let (_, withdrawn) = house.held().await;
    assert!(matches!(house.calls.close(withdrawn, Closing::Withdrawn).await.unwrap(), Closed::Won));
    assert!(!house.calls.facts(query(action, c1())).await.unwrap().refused_before);

    let (_, refused) = house.held().await;
    let no = crate::support::vote(refused, 1, "boss", Role::Admin, Verdict::Deny);
    assert!(matches!(house.calls.vote(no).await.unwrap(), VoteOutcome::Decided(_)));
    assert!(house.calls.facts(query(action, c1())).await.unwrap().refused_before);
    // In another conversation it is another question; with no conversation the caller's history counts.
    assert!(!house.calls.facts(query(action, Some(conversation("c-2")))).await.unwrap().refused_before);
    assert!(house.calls.facts(query(action, None)).await.unwrap().refused_before);
    let other =
        house.gate.asks("write", json!({"path": "b"})).await.call.frozen.map(|frozen| frozen.action());
    assert!(!house.calls.facts(query(other, c1())).await.unwrap().refused_before);
    assert!(!house.calls.facts(query(None, c1())).await.unwrap().refused_before);
}

#[tokio::test]
async fn usage_counts_for_the_conversation_and_for_the_callers_utc_day() {
    let house = House::new().await;
    let conversations = house.store.conversations();
    let caller = asker().principal.caller;
    conversations.add_usage(&conversation("c-1"), &caller, 100, 20, false).await.unwrap();
    conversations.add_usage(&conversation("c-1"), &caller, 5, 5, true).await.unwrap();
    conversations.add_usage(&conversation("c-2"), &caller, 1_000, 0, false).await.unwrap();
    let query = FactQuery {
        caller: asker(),
        conversation: Some(conversation("c-1")),
        rates: Vec::new(),
        action: None,
    };
    let usage = house.calls.facts(query.clone()).await.unwrap().usage;
    assert_eq!((usage.conversation, usage.caller_day), (130, 1_130));
    assert_eq!(conversations.budget_usage(&conversation("c-1"), &caller).await.unwrap(), usage);
    let totals = conversations.usage_of(&conversation("c-1")).await.unwrap();
    assert_eq!((totals.input, totals.output, totals.estimated), (105, 25, 10));

    house.clock.advance(86_400_000);
    let usage = house.calls.facts(query).await.unwrap().usage;
    assert_eq!((usage.conversation, usage.caller_day), (130, 0));

    // No number that a provider may claim breaks the sums.
    for _ in 0..3 {
        conversations.add_usage(&conversation("c-3"), &caller, u64::MAX, u64::MAX, true).await.unwrap();
    }
    let usage = conversations.budget_usage(&conversation("c-3"), &caller).await.unwrap();
    assert!(usage.conversation > 1_000_000_000);
}

#[tokio::test]
async fn a_rate_counts_within_its_window_and_future_events_after_a_stepped_clock_too() {
    let house = House::new().await;
    let asked = house.gate.asks("ping", json!({})).await;
    let rates = asked.expect.rates.clone();
    assert_eq!(rates.len(), 1, "the engine asks for the counter to be reserved");
    let query = FactQuery { caller: asker(), conversation: None, rates: rates.clone(), action: None };
    let rule = RuleId::new("ping-rate").unwrap();
    let counted = async || house.calls.facts(query.clone()).await.unwrap().counters[&rule];
    for n in 0..10 {
        assert_eq!(counted().await, n);
        let asked = house.gate.asks("ping", json!({})).await;
        assert_eq!(house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap(), Begun::Started);
    }
    let begin = async || {
        let asked = house.gate.asks("ping", json!({})).await;
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap()
    };
    assert_eq!(begin().await, Begun::Moved);
    house.clock.step_wall(-7_200_000);
    assert_eq!(begin().await, Begun::Moved, "a clock set back frees nothing");
    house.clock.step_wall(7_200_000 + 3_599_999);
    assert_eq!(begin().await, Begun::Moved, "one millisecond before the window has passed");
    house.clock.step_wall(1);
    assert_eq!(begin().await, Begun::Started);
    assert_eq!(counted().await, 1);
}
