//! Arguments from hostile text: one reading, or none.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sluicegate_policy::{
    Arguments, ArgumentsError, MAX_ARGUMENTS_BYTES, MAX_ARGUMENTS_DEPTH, PolicyContext, canonical_json,
};

fn canonical(text: &str) -> String {
    Arguments::from_json(text).unwrap().canonical().to_string()
}

#[test]
fn canonical_form_is_one_text_for_one_value() {
    let cases = [
        ("{}", "{}"),
        (" {\t} \r\n", "{}"),
        (r#"{"b":1,"a":[true , false,null]}"#, r#"{"a":[true,false,null],"b":1}"#),
        // Numbers: one value, one text; whole numbers of 64 bits in full.
        (r#"{"n":1e3}"#, r#"{"n":1000}"#),
        (r#"{"n":100.0}"#, r#"{"n":100}"#),
        (r#"{"n":-0}"#, r#"{"n":0}"#),
        (r#"{"n":-0.0}"#, r#"{"n":0}"#),
        (r#"{"n":0e5}"#, r#"{"n":0}"#),
        (r#"{"n":9007199254740993}"#, r#"{"n":9007199254740993}"#),
        (r#"{"n":18446744073709551615}"#, r#"{"n":18446744073709551615}"#),
        (r#"{"n":-9223372036854775808}"#, r#"{"n":-9223372036854775808}"#),
        (r#"{"n":-9223372036854775808.0}"#, r#"{"n":-9223372036854775808}"#),
        (r#"{"n":1.152921504606846976e18}"#, r#"{"n":1152921504606846976}"#),
        (r#"{"n":18446744073709551616.0}"#, r#"{"n":1.8446744073709552e+19}"#),
        (r#"{"n":1E+20}"#, r#"{"n":1e+20}"#),
        (r#"{"n":-1e300}"#, r#"{"n":-1e+300}"#),
        (r#"{"n":0.1}"#, r#"{"n":0.1}"#),
        (r#"{"n":0.000001}"#, r#"{"n":0.000001}"#),
        (r#"{"n":0.0000001}"#, r#"{"n":1e-7}"#),
        (r#"{"n":-1234.50}"#, r#"{"n":-1234.5}"#),
        (r#"{"n":5e-324}"#, r#"{"n":5e-324}"#),
        // Texts: shortest escapes, characters themselves.
        (r#"{"s":"\u00e4\/\u007f"}"#, "{\"s\":\"ä/\u{7f}\"}"),
        (r#"{"s":"\ud83d\ude00"}"#, "{\"s\":\"😀\"}"),
        (r#"{"s":"\u0000\u001f\b\f\n\r\t\"\\"}"#, r#"{"s":"\u0000\u001f\b\f\n\r\t\"\\"}"#),
        // Keys by UTF-16 units: the emoji (D83D…) comes before U+FB33, unlike by bytes.
        (r#"{"\ufb33":1,"\ud83d\ude00":2,"a":3}"#, "{\"a\":3,\"😀\":2,\"\u{fb33}\":1}"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected, "{text}");
        assert_eq!(canonical(expected), expected, "not stable: {text}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    use ArgumentsError::{DuplicateKey, NotAnObject, Number};
    let cases = [
        (r#"{"a":1,"a":1}"#, DuplicateKey("a".into())),
        (r#"{"a":1,"\u0061":2}"#, DuplicateKey("a".into())),
        (r#"{"o":[{"x":{"k":1,"b":2,"k":3}}]}"#, DuplicateKey("k".into())),
        (r#"{"\u0000":1,"\u0000":2}"#, DuplicateKey("\\0".into())),
        ("[]", NotAnObject),
        ("null", NotAnObject),
        ("\"{}\"", NotAnObject),
        ("1", NotAnObject),
        (r#"{"n":18446744073709551616}"#, Number(5)),
        (r#"{"n":-9223372036854775809}"#, Number(5)),
        (r#"{"n":123456789012345678901234567890}"#, Number(5)),
        (r#"{"n":1e400}"#, Number(5)),
        (r#"{"n":-1e400}"#, Number(5)),
        (r#"{"n":1e-400}"#, Number(5)),
    ];
    for (text, expected) in cases {
        assert_eq!(Arguments::from_json(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn what_is_not_json_is_refused() {
    let cases = [
        "",
        " ",
        "{",
        "}",
        "{]",
        "[}",
        "{}{}",
        "{} x",
        "{},",
        "\u{feff}{}",
        "\u{a0}{}",
        "{'a':1}",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":[1,]}",
        "{\"a\":[,]}",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":0x10}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":nul}",
        "{\"a\":True}",
        "{\"a\":truex}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\0\"}",
        "{\"a\":\"}",
        "{\"a\":\"\\\"}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u00g0\"}",
        "{\"a\":\"\\u+041\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800x\"}",
        "{\"a\":\"\\ud800\\n\"}",
        "{\"a\":\"\\ud800\\ud800\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":1/*c*/}",
        "{\"a\":1}//c",
        "{\"a\":1}\0",
    ];
    for text in cases {
        let error = Arguments::from_json(text).unwrap_err();
        assert!(matches!(error, ArgumentsError::Syntax { at, .. } if at <= text.len()), "{text:?}: {error}");
        // A lenient reader is no excuse: what the common reader refuses is refused here too.
        assert!(serde_json::from_str::<Map<String, Value>>(text).is_err(), "{text:?} is valid after all");
    }
}

#[test]
fn depth_and_size_are_bounded_exactly() {
    let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    assert!(Arguments::from_json(&nested(MAX_ARGUMENTS_DEPTH)).is_ok());
    assert_eq!(Arguments::from_json(&nested(MAX_ARGUMENTS_DEPTH + 1)), Err(ArgumentsError::TooDeep));
    let deep_objects = "{\"a\":".repeat(500_000 / 5);
    assert_eq!(Arguments::from_json(&deep_objects), Err(ArgumentsError::TooDeep));

    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    assert!(Arguments::from_json(&sized(MAX_ARGUMENTS_BYTES)).is_ok());
    assert_eq!(Arguments::from_json(&sized(MAX_ARGUMENTS_BYTES + 1)), Err(ArgumentsError::TooLarge));

    let value: Value = serde_json::from_str(&nested(MAX_ARGUMENTS_DEPTH)).unwrap();
    assert!(Arguments::from_value(value).is_ok());
    let value: Value = serde_json::from_str(&nested(MAX_ARGUMENTS_DEPTH + 1)).unwrap();
    assert_eq!(Arguments::from_value(value), Err(ArgumentsError::TooDeep));
    let value = json!({ "a": "x".repeat(MAX_ARGUMENTS_BYTES) });
    assert_eq!(Arguments::from_value(value), Err(ArgumentsError::TooLarge));
    // Canonical text can be longer than the text that was read: the bound holds for both.
    let grows = format!("{{\"a\":[{}1e18]}}", "1e18,".repeat(200_000));
    assert_eq!(Arguments::from_json(&grows), Err(ArgumentsError::TooLarge));
    assert_eq!(Arguments::from_value(json!([])), Err(ArgumentsError::NotAnObject));
}

#[test]
fn what_is_dispatched_is_what_is_shown() {
    let arguments = Arguments::from_json(r#"{"n":1e3,"f":2.0,"o":{"z":-0.0,"a":0.5}}"#).unwrap();
    assert_eq!(arguments.to_value(), json!({ "n": 1000, "f": 2, "o": { "a": 0.5, "z": 0 } }));
    assert_eq!(
        arguments,
        Arguments::from_value(json!({ "f": 2.0, "n": 1000.0, "o": { "z": 0, "a": 0.5 } })).unwrap()
    );
    assert_eq!(Arguments::default(), Arguments::from_json("{}").unwrap());
}

#[test]
fn arguments_stay_out_of_debug_output() {
    let context = crate::fixtures::call(json!({ "password": "hunter2" }));
    let shown = format!("{context:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("password"), "{shown}");
}

#[test]
fn a_stored_context_is_read_back_as_it_was() {
    let arguments = json!({ "n": 9_007_199_254_740_993_u64, "f": 0.1, "t": "ä\u{1}\"" });
    let mut context = crate::fixtures::call(arguments);
    context.counters.insert(crate::fixtures::id("calls"), 7);
    let text = serde_json::to_string(&context).unwrap();
    let back: PolicyContext = serde_json::from_str(&text).unwrap();
    assert_eq!(back, context);
    assert_eq!(back.arguments.canonical(), context.arguments.canonical());
}

fn json_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |d| d.is_finite()).prop_map(Value::from),
        (-1000i32..1000).prop_map(|n| Value::from(f64::from(n))),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn json_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(any::<String>(), json_value(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// From value to text and back nothing changes, and freezing twice is freezing once.
    #[test]
    fn canonical_text_and_value_agree(value in json_object()) {
        let frozen = Arguments::from_value(value.clone()).unwrap();
        let read = Arguments::from_json(frozen.canonical()).unwrap();
        prop_assert_eq!(&read, &frozen);
        prop_assert_eq!(read.canonical(), frozen.canonical());
        prop_assert_eq!(Arguments::from_value(frozen.to_value()).unwrap(), frozen.clone());
        prop_assert_eq!(canonical_json(&value), frozen.canonical());
    }

    /// The strict reader and the common one read the same from ordinary text, spaced in any way.
    #[test]
    fn ordinary_text_reads_as_elsewhere(value in json_object()) {
        let frozen = Arguments::from_value(value.clone()).unwrap();
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            // Doubles beyond 64 bits and whole in plain notation are the one thing that is refused.
            match Arguments::from_json(&text) {
                Ok(read) => prop_assert_eq!(read, frozen.clone()),
                Err(error) => prop_assert!(matches!(error, ArgumentsError::Number(_)), "{}", error),
            }
        }
    }

    /// Whatever the text, the reader returns.
    #[test]
    fn no_text_breaks_the_reader(text in any::<String>(), json in "[\\[\\]{}\",:\\\\u0-9eE+. truefalsn-]{0,60}") {
        for text in [text, format!("{{{json}}}"), json] {
            if let Ok(read) = Arguments::from_json(&text) {
                let elsewhere: Value = serde_json::from_str(&text).unwrap();
                prop_assert!(elsewhere.is_object());
                prop_assert_eq!(Arguments::from_json(read.canonical()).unwrap(), read);
            }
        }
    }
}
