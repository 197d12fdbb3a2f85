//! Every operator, on values of every shape.

use crate::fixtures::{call, decide, faults};
use serde_json::{Value, json};
use sluicegate_policy::{Arguments, Condition, Truth, Why};

fn ask(condition: Value, arguments: Value) -> Truth {
    let condition: Condition = serde_json::from_value(condition).unwrap();
    Arguments::from_value(arguments).unwrap().ask(&condition.compile().unwrap())
}

/// `op value` on the argument `a`.
fn on(op: &str, value: &Value, argument: &Value) -> Truth {
    let condition = match value {
        Value::Null => json!({ "argument": "a", "op": op }),
        value => json!({ "argument": "a", "op": op, "value": value }),
    };
    ask(condition, json!({ "a": argument }))
}

const WRONG: Truth = Truth::Unevaluable(Why::WrongType);

#[test]
fn f30_each_operator_answers_by_type_and_value() {
    use Truth::{False, True};
    let cases = [
        ("equals", json!("x"), json!("x"), True),
        ("equals", json!("x"), json!("X"), False),
        ("equals", json!("x"), json!("x "), False),
        ("equals", json!("7"), json!(7), WRONG),
        ("equals", json!(7), json!("7"), WRONG),
        ("equals", json!(7), json!(7.0), True),
        ("equals", json!(7.0), json!(7), True),
        ("equals", json!(0), json!(-0.0), True),
        ("equals", json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), False),
        ("equals", json!(true), json!(true), True),
        ("equals", json!(true), json!(false), False),
        ("equals", json!(true), json!("true"), WRONG),
        ("equals", json!(true), json!(1), WRONG),
        ("equals", json!("x"), json!({ "a": "x" }), WRONG),
        ("one_of", json!(["x", "y"]), json!("y"), True),
        ("one_of", json!(["x", "y"]), json!("z"), False),
        ("one_of", json!(["x", 1]), json!(1), True),
        ("one_of", json!(["x", 1]), json!(2), False),
        ("one_of", json!(["x", "y"]), json!(1), WRONG),
        ("starts_with", json!("/srv/"), json!("/srv/a"), True),
        ("starts_with", json!("/srv/"), json!("/srv"), False),
        ("starts_with", json!("a"), json!("A"), False),
        ("starts_with", json!("1"), json!(12), WRONG),
        ("matches", json!("[a-z]+"), json!("abc"), True),
        ("matches", json!("[a-z]+"), json!("abc1"), False),
        ("matches", json!("[a-z]+"), json!("1abc"), False),
        ("matches", json!("[a-z]+"), json!("abc\n"), False),
        ("matches", json!("a|b"), json!("ab"), False),
        ("matches", json!("a|ab"), json!("ab"), True),
        ("matches", json!("(?m)^a$"), json!("a\nb"), False),
        ("matches", json!("(?i)abc"), json!("ABC"), True),
        ("matches", json!("a*"), json!(""), True),
        ("matches", json!(r"\d+"), json!("١٢"), True),
        ("matches", json!("[0-9]+"), json!("١٢"), False),
        ("matches", json!("1"), json!(1), WRONG),
        ("length", json!({ "max": 3 }), json!("abc"), True),
        ("length", json!({ "max": 3 }), json!("abcd"), False),
        ("length", json!({ "max": 3 }), json!("äöü"), True),
        ("length", json!({ "max": 3 }), json!("😀😀😀"), True),
        ("length", json!({ "max": 2 }), json!("😀😀😀"), False),
        ("length", json!({ "min": 4 }), json!("😀"), False),
        ("length", json!({ "min": 1 }), json!(""), False),
        ("length", json!({ "max": 0 }), json!(""), True),
        ("length", json!({ "max": 0 }), json!("a"), False),
        ("length", json!({ "min": 1, "max": 1 }), json!(["abc"]), True),
        ("length", json!({ "min": 1, "max": 1 }), json!([]), False),
        ("length", json!({ "max": 3 }), json!(123), WRONG),
        ("length", json!({ "max": 3 }), json!({ "a": 1 }), WRONG),
        ("range", json!({ "min": 0, "max": 100 }), json!(0), True),
        ("range", json!({ "min": 0, "max": 100 }), json!(100), True),
        ("range", json!({ "min": 0, "max": 100 }), json!(100.0), True),
        ("range", json!({ "min": 0, "max": 100 }), json!(1e3), False),
        ("range", json!({ "min": 0, "max": 100 }), json!(-0.0), True),
        ("range", json!({ "min": 0, "max": 100 }), json!(-1e-300), False),
        ("range", json!({ "min": 0, "max": 100 }), json!(100.000_000_000_000_02), False),
        ("range", json!({ "min": 0, "max": 100 }), json!("50"), WRONG),
        ("range", json!({ "min": 0, "max": 100 }), json!(true), WRONG),
        ("range", json!({ "max": 0 }), json!(1), False),
        ("range", json!({ "max": 0 }), json!(0), True),
        ("range", json!({ "min": 0 }), json!(0), True),
        ("range", json!({ "min": 0 }), json!(-1), False),
        ("range", json!({ "min": 15, "max": 25 }), json!("NaN"), WRONG),
        ("range", json!({ "min": 0.5 }), json!(1), True),
        ("range", json!({ "max": 9_007_199_254_740_992_u64 }), json!(9_007_199_254_740_993_u64), False),
        ("range", json!({ "max": u64::MAX }), json!(18_446_744_073_709_551_616.0), False),
        ("present", Value::Null, json!(""), True),
        ("present", Value::Null, json!([]), True),
        ("present", Value::Null, json!(false), True),
        ("present", Value::Null, json!(null), Truth::Unevaluable(Why::Null)),
        ("absent", Value::Null, json!(0), False),
        ("absent", Value::Null, json!([]), False),
        ("absent", Value::Null, json!(null), Truth::Unevaluable(Why::Null)),
    ];
    for (op, value, argument, expected) in cases {
        assert_eq!(on(op, &value, &argument), expected, "{op} {value} on {argument}");
    }
}

#[test]
fn f30_what_is_missing_or_null_is_unevaluable_except_for_presence() {
    for op in ["equals", "starts_with", "matches", "path_within", "host_is", "host_within"] {
        let condition = json!({ "argument": "a", "op": op, "value": "x" });
        assert_eq!(ask(condition.clone(), json!({})), Truth::Unevaluable(Why::Missing), "{op}");
        assert_eq!(ask(condition, json!({ "a": null })), Truth::Unevaluable(Why::Null), "{op}");
    }
    for op in ["length", "range"] {
        let condition = json!({ "argument": "a", "op": op, "value": { "min": 0 } });
        assert_eq!(ask(condition, json!({})), Truth::Unevaluable(Why::Missing), "{op}");
    }
    assert_eq!(ask(json!({ "argument": "a", "op": "present" }), json!({})), Truth::False);
    assert_eq!(ask(json!({ "argument": "a", "op": "absent" }), json!({})), Truth::True);
}

#[test]
fn f30_only_the_very_name_is_the_argument() {
    let present = json!({ "argument": "path", "op": "present" });
    for arguments in [
        json!({ "paths": "x" }),
        json!({ "Path": "x" }),
        json!({ "path ": "x" }),
        json!({ " path": "x" }),
        json!({ "options": { "path": "x" } }),
        json!({ "path\u{200b}": "x" }),
    ] {
        assert_eq!(ask(present.clone(), arguments.clone()), Truth::False, "{arguments}");
    }
}

#[test]
fn argument_paths_go_into_objects_and_through_lists() {
    let condition = |path: &str| json!({ "argument": path, "op": "equals", "value": "x" });
    let cases = [
        ("options.path", json!({ "options": { "path": "x" } }), Truth::True),
        ("options.path", json!({ "options.path": "x" }), Truth::Unevaluable(Why::Missing)),
        (r"options\.path", json!({ "options.path": "x" }), Truth::True),
        (r"a\\b", json!({ r"a\b": "x" }), Truth::True),
        ("options.path", json!({ "options": "x" }), WRONG),
        ("options.path", json!({ "options": null }), Truth::Unevaluable(Why::Null)),
        ("options.path", json!({ "options": [] }), Truth::Unevaluable(Why::EmptyList)),
        ("options.path", json!({ "options": [{ "path": "x" }, { "path": "x" }] }), Truth::True),
        (
            "options.path",
            json!({ "options": [{ "path": "x" }, { "path": "y" }] }),
            Truth::Unevaluable(Why::Mixed),
        ),
        ("options.path", json!({ "options": [{ "path": "x" }, {}] }), Truth::Unevaluable(Why::Missing)),
        ("options.path", json!({ "options": [{ "path": "x" }, 1] }), WRONG),
        ("options.0", json!({ "options": ["x"] }), WRONG),
        ("a.b.c", json!({ "a": [{ "b": [{ "c": ["x"] }] }] }), Truth::True),
    ];
    for (path, arguments, expected) in cases {
        assert_eq!(ask(condition(path), arguments.clone()), expected, "{path} in {arguments}");
    }
    let presence = |op: &str, arguments| ask(json!({ "argument": "o.p", "op": op }), arguments);
    assert_eq!(presence("absent", json!({})), Truth::True);
    assert_eq!(presence("absent", json!({ "o": {} })), Truth::True);
    assert_eq!(presence("absent", json!({ "o": "x" })), WRONG);
    assert_eq!(presence("present", json!({ "o": [{ "p": 1 }, {}] })), Truth::Unevaluable(Why::Mixed));
}

#[test]
fn f30_a_list_satisfies_a_condition_only_as_a_whole() {
    use Truth::{False, True, Unevaluable};
    let cases = [
        (json!(["x", "x"]), True, True),
        (json!(["y", "z"]), False, False),
        (json!(["x", "y"]), Unevaluable(Why::Mixed), True),
        (json!(["x", 1]), WRONG, True),
        (json!(["y", 1]), WRONG, WRONG),
        (json!([1, null]), WRONG, WRONG),
        (json!([]), Unevaluable(Why::EmptyList), Unevaluable(Why::EmptyList)),
        (json!([[]]), Unevaluable(Why::EmptyList), Unevaluable(Why::EmptyList)),
        (json!([["x"], ["x"]]), True, True),
        (json!([["x", "y"], ["x"]]), Unevaluable(Why::Mixed), True),
        (json!("x"), True, True),
    ];
    for (argument, every, any) in cases {
        let condition =
            |elements| json!({ "argument": "a", "op": "equals", "value": "x", "elements": elements });
        assert_eq!(ask(condition("every"), json!({ "a": argument })), every, "every of {argument}");
        assert_eq!(ask(condition("any"), json!({ "a": argument })), any, "any of {argument}");
        assert_eq!(on("equals", &json!("x"), &argument), every, "by default of {argument}");
    }
    let mut many = vec![json!("docs/a"); 10_000];
    assert_eq!(on("path_within", &json!("docs"), &json!(many)), True);
    many[9_999] = json!("etc/passwd");
    assert_eq!(on("path_within", &json!("docs"), &json!(many)), Unevaluable(Why::Mixed));
}

#[test]
fn f30_a_constrained_argument_of_another_shape_is_not_allowed() {
    let allow = json!([{ "id": "a", "kind": "allow_tool", "when": [{ "argument": "path", "op": "starts_with", "value": "ok" }] }]);
    assert_eq!(decide(allow.clone(), &call(json!({ "path": "ok/x" }))), "allow/rule by a");
    for arguments in [
        json!({ "path": ["ok", "../../x"] }),
        json!({ "path": { "path": "ok" } }),
        json!({ "path": 7 }),
        json!({ "path": true }),
        json!({ "path": null }),
        json!({ "path": [] }),
        json!({}),
        json!({ "paths": "ok" }),
        json!({ "Path": "ok" }),
        json!({ "path ": "ok" }),
        json!({ "options": { "path": "ok" } }),
        json!({ "destination": "ok" }),
    ] {
        assert_eq!(decide(allow.clone(), &call(arguments.clone())), "deny/no_rule", "{arguments}");
    }
}

#[test]
fn a_pattern_is_bounded_and_quick() {
    // Patterns that take other engines exponential time.
    assert_eq!(on("matches", &json!("(a+)+b"), &json!("a".repeat(50_000))), Truth::False);
    assert_eq!(on("matches", &json!("(a|aa)*c"), &json!("a".repeat(50_000))), Truth::False);
    // A plain pattern is tried on the longest texts, a large one on short texts only.
    assert_eq!(on("matches", &json!("[ -~]*"), &json!("a".repeat(1_000_000))), Truth::True);
    let large = json!(r"[\w.-]{1,64}@example\.com");
    assert_eq!(on("matches", &large, &json!("ada.b@example.com")), Truth::True);
    assert_eq!(on("matches", &large, &json!("ada.b@example.com.evil.com")), Truth::False);
    assert_eq!(on("matches", &large, &json!("a".repeat(1_000_000))), Truth::Unevaluable(Why::TooLong));
}

#[test]
fn f31_a_broken_condition_is_a_mistake_with_its_place() {
    let cases = [
        (json!({ "argument": "", "op": "present" }), "argument"),
        (json!({ "argument": "a..b", "op": "present" }), "argument"),
        (json!({ "argument": ".a", "op": "present" }), "argument"),
        (json!({ "argument": "a.", "op": "present" }), "argument"),
        (json!({ "argument": "a\\b", "op": "present" }), "argument"),
        (json!({ "argument": "a\\", "op": "present" }), "argument"),
        (json!({ "argument": "a", "op": "present", "value": true }), "value"),
        (json!({ "argument": "a", "op": "absent", "value": "x" }), "value"),
        (json!({ "argument": "a", "op": "equals" }), "value"),
        (json!({ "argument": "a", "op": "equals", "value": null }), "value"),
        (json!({ "argument": "a", "op": "equals", "value": ["x"] }), "value"),
        (json!({ "argument": "a", "op": "equals", "value": {} }), "value"),
        (json!({ "argument": "a", "op": "one_of", "value": "x" }), "value"),
        (json!({ "argument": "a", "op": "one_of", "value": [] }), "value"),
        (json!({ "argument": "a", "op": "one_of", "value": ["x", null] }), "value"),
        (json!({ "argument": "a", "op": "starts_with", "value": "" }), "value"),
        (json!({ "argument": "a", "op": "starts_with", "value": 1 }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "(" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "a)|(b" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "(?x)a # )" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "(a)\\1" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "(?=a)" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "((a{1000}){1000}){1000}" }), "value"),
        (json!({ "argument": "a", "op": "matches", "value": "(".repeat(100_000) }), "value"),
        (json!({ "argument": "a", "op": "length", "value": 3 }), "value"),
        (json!({ "argument": "a", "op": "length", "value": {} }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "max": -1 } }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "max": 1.5 } }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "max": "3" } }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "maximum": 3 } }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "max": 3, "mim": 1 } }), "value"),
        (json!({ "argument": "a", "op": "length", "value": { "min": 2, "max": 1 } }), "value"),
        (json!({ "argument": "a", "op": "range", "value": { "min": 2, "max": 1.5 } }), "value"),
        (json!({ "argument": "a", "op": "range", "value": { "min": "0" } }), "value"),
        (json!({ "argument": "a", "op": "range", "value": { "min": null } }), "value"),
        (json!({ "argument": "a", "op": "range", "value": [0, 1] }), "value"),
    ];
    for (condition, field) in cases {
        let shown = condition.to_string();
        let fine = json!({ "argument": "a", "op": "present" });
        let found = faults(json!([
            { "id": "fine", "kind": "allow_tool" },
            { "id": "wrong", "kind": "allow_tool", "when": [fine, condition] },
        ]));
        assert_eq!(found.len(), 1, "{shown}");
        assert_eq!(found[0].field, format!("rules[1].when[1].{field}"), "{shown}");
        assert_eq!(found[0].rule.as_ref().unwrap().as_str(), "wrong");
        assert!(!found[0].message.contains('\n'), "{}", found[0].message);
    }
}

#[test]
fn negation_keeps_what_cannot_be_judged() {
    assert_eq!(!Truth::True, Truth::False);
    assert_eq!(!Truth::False, Truth::True);
    for why in Why::ALL {
        assert_eq!(!Truth::Unevaluable(*why), Truth::Unevaluable(*why));
        assert_eq!(Truth::True.and(Truth::Unevaluable(*why)), Truth::Unevaluable(*why));
        assert_eq!(Truth::Unevaluable(*why).and(Truth::False), Truth::False);
    }
}
