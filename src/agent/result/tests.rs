use super::*;
use proptest::prelude::*;
use sluicegate_gateway::{CallId, Refusal};

fn call() -> ModelCall {
    ModelCall { key: "k".into(), provider_id: None, name: "files__read".into(), arguments: None }
}

fn output(result: Value) -> ToolOutput {
    ToolOutput { is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false), result }
}

fn gate(state: CallState, refusal: Option<Refusal>, result: Option<Value>) -> Answer {
    Answer::Gate(Box::new(CallAnswer { call: CallId::random(), state, refusal, output: result.map(output) }))
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

#[test]
fn a_completed_call_gives_its_text_alone() {
    let given = result(&call(), &gate(CallState::Completed, None, Some(text("hello"))));
    assert_eq!((given.output, given.is_error), (json!("hello"), false));
    assert_eq!((given.key.as_str(), given.name.as_str()), ("k", "files__read"));
}

#[test]
fn every_refusal_says_code_sentence_and_whether_to_try_again() {
    for code in ReasonCode::ALL {
        let refusal = Refusal {
            code: *code,
            sentence: "denied by bob: use the copy instead".into(),
            retryable: *code == ReasonCode::OverRate,
            rules: Vec::new(),
        };
        let given = result(&call(), &gate(CallState::Denied, Some(refusal), None));
        assert!(given.is_error);
        let retryable = *code == ReasonCode::OverRate;
        assert_eq!(
            given.output,
            json!({ "code": code.as_str(), "message": "denied by bob: use the copy instead", "retryable": retryable })
        );
    }
}

#[test]
fn a_failed_tools_own_words_are_kept_apart_from_ours() {
    let refusal = Refusal {
        code: ReasonCode::ToolError,
        sentence: "the tool reported an error".into(),
        retryable: false,
        rules: Vec::new(),
    };
    let said = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
    let given = result(&call(), &gate(CallState::Failed, Some(refusal), Some(said)));
    assert_eq!(given.output["tool_said"], "no such file");
    assert_eq!(given.output["code"], "tool_error");
}

#[test]
fn an_end_without_a_reason_is_no_success() {
    for state in [CallState::Denied, CallState::Unknown, CallState::Withdrawn] {
        let given = result(&call(), &gate(state, None, None));
        assert!(given.is_error, "{state}");
        assert_eq!(given.output["code"], "outcome_lost");
    }
}

#[test]
fn what_is_no_text_shows_as_a_stand_in() {
    let result = json!({ "content": [
        { "type": "text", "text": "see" },
        { "type": "image", "mimeType": "image/png", "data": "AAAAAA==" },
        { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
        { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "x/y", "blob": "AAAA" } },
        { "type": "resource_link", "name": "c", "uri": "file:///c" },
        { "type": "something_new", "n": 1 },
    ]});
    assert_eq!(
        readable(&output(result)),
        json!(
            "see\n[image, image/png, 4 bytes: not shown as text]\n[audio, audio/wav, 3 bytes: not shown as text]\n\
             [resource file:///a]\ninside\n[resource file:///b, x/y, 3 bytes: not shown as text]\n\
             [link to a resource: c file:///c]\n{\"n\":1,\"type\":\"something_new\"}"
        )
    );
}

#[test]
fn structured_content_counts_where_there_is_no_text() {
    let bare = json!({ "content": [], "structuredContent": { "n": [1, 2] } });
    assert_eq!(readable(&output(bare)), json!({ "n": [1, 2] }));
    let both = json!({ "content": [{ "type": "text", "text": "two" }], "structuredContent": { "n": 2 } });
    assert_eq!(readable(&output(both)), json!("two"));
    assert_eq!(readable(&output(json!({ "content": [] }))), json!(""));
    assert_eq!(readable(&output(json!([1]))), json!("[1]"));
}

#[test]
fn f03_a_call_that_was_open_at_a_restart_says_what_is_known_of_it() {
    let said = |state| broken_off(&call(), BrokenBy::Restart, state).output;
    assert_eq!(said(Some(CallState::Denied))["code"], "orphaned");
    assert!(said(Some(CallState::Denied))["message"].as_str().unwrap().ends_with("it did not run"));
    assert_eq!(said(Some(CallState::Unknown))["code"], "outcome_lost");
    assert_eq!(said(None)["retryable"], false);
    assert!(said(Some(CallState::Completed))["message"].as_str().unwrap().contains("do not repeat it"));
    for state in CallState::ALL {
        let message = said(Some(*state));
        let message = message["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("the product restarted while this call was open"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any text is cut at whole characters, stays bounded, and says that it was cut.
    #[test]
    fn long_output_is_cut_and_says_so(unit in "\\PC{1,3}", times in 1_usize..40_000) {
        let whole = unit.repeat(times);
        let Value::String(seen) = readable(&output(text(&whole))) else { panic!("not a text") };
        if whole.len() <= MOST_BYTES {
            prop_assert_eq!(seen, whole);
        } else {
            let (kept, mark) = seen.rsplit_once('\n').unwrap();
            prop_assert!(whole.starts_with(kept));
            prop_assert!(kept.len() <= MOST_BYTES && kept.len() > MOST_BYTES - 4);
            let whole_length = whole.len().to_string();
            prop_assert!(mark.starts_with("[cut by Sluicegate: ") && mark.contains(&whole_length));
        }
    }
}
