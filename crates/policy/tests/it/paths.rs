//! `path_within`, against paths that try to get out.

use crate::fixtures::{call, decide};
use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_policy::{Arguments, Condition, Truth, Why};

pub(crate) fn within(root: &str, path: &Value) -> Truth {
    let condition: Condition =
        serde_json::from_value(json!({ "argument": "path", "op": "path_within", "value": root })).unwrap();
    Arguments::from_value(json!({ "path": path })).unwrap().ask(&condition.compile().unwrap())
}

const REFUSED: Truth = Truth::Unevaluable(Why::Unparseable);

#[test]
fn f32_a_path_is_judged_by_components() {
    let long = "n".repeat(300);
    let cases = [
        // Within the root.
        (".", ".", Truth::True),
        (".", "./", Truth::True),
        (".", "notes.txt", Truth::True),
        (".", "./notes.txt", Truth::True),
        (".", "a/b/c", Truth::True),
        (".", "a//b", Truth::True),
        (".", "a/./b/", Truth::True),
        (".", "...", Truth::True),
        (".", "..a", Truth::True),
        (".", "a..b/.hidden", Truth::True),
        (".", "my notes/für später 😀.txt", Truth::True),
        (".", "日本語/メモ", Truth::True),
        (".", "100%", Truth::True),
        (".", "50%off/a", Truth::True),
        (".", "a~/b", Truth::True),
        (".", "10:30.txt", Truth::True),
        (".", "a/C:", Truth::True),
        (".", long.as_str(), Truth::True),
        // Within a directory: whole components, by case.
        ("docs", "docs", Truth::True),
        ("docs", "docs/", Truth::True),
        ("docs", "./docs/a", Truth::True),
        ("./docs/", "docs/a", Truth::True),
        ("docs", "docs-evil/f", Truth::False),
        ("docs", "docsx", Truth::False),
        ("docs", "doc", Truth::False),
        // The same or not, as the file system sees it.
        ("docs", "Docs/a", REFUSED),
        ("docs", "DOCS", REFUSED),
        ("docs", "docs./a", REFUSED),
        ("docs", "docs /a", REFUSED),
        ("docs", "ｄｏｃｓ/a", REFUSED),
        ("caf\u{e9}", "cafe\u{301}/a", REFUSED),
        ("cafe\u{301}", "caf\u{e9}/a", REFUSED),
        ("caf\u{e9}", "caf\u{e9}/a", Truth::True),
        ("straße", "STRASSE/a", REFUSED),
        ("Docs", "Docs/a", Truth::True),
        ("Docs/Ü", "Docs/Ü", Truth::True),
        ("docs", "DocsX/a", Truth::False),
        ("docs", "dócs/a", Truth::False),
        ("docs", "ﬁles/a", Truth::False),
        (".", "notes….txt", Truth::True),
        (".", "½/①", Truth::True),
        // Letters that become dots or separators in a compatible form.
        (".", "．．/x", REFUSED),
        (".", "‥/x", REFUSED),
        (".", "a／..／x", REFUSED),
        (".", "a／b", REFUSED),
        (".", "a＼b", REFUSED),
        (".", "～/x", REFUSED),
        (".", "％2e％2e/x", REFUSED),
        ("docs", "a/docs", Truth::False),
        ("docs", ".", Truth::False),
        ("docs/drafts", "docs/drafts/x", Truth::True),
        ("docs/drafts", "docs", Truth::False),
        ("docs/drafts", "docs/draftsx", Truth::False),
        ("docs/drafts", "docs//drafts", Truth::True),
        // An absolute directory and absolute paths; never one against the other.
        ("/srv/files", "/srv/files", Truth::True),
        ("/srv/files", "/srv/files/", Truth::True),
        ("/srv/files/", "/srv//files/./a", Truth::True),
        ("/srv/files", "/srv/files-evil/f", Truth::False),
        ("/srv/files", "/srv", Truth::False),
        ("/srv/files", "/", Truth::False),
        ("/", "/etc/passwd", Truth::True),
        ("/srv/files", "srv/files/a", REFUSED),
        ("/srv/files", "a", REFUSED),
        ("/srv/files", ".", REFUSED),
        ("/srv/files", "/srv/files/../other/f", REFUSED),
        ("/srv/files", "//srv/files/a", REFUSED),
        ("/srv/files", "/srv/files\\..\\x", REFUSED),
        ("/", "/C:/x", REFUSED),
        ("srv/files", "/srv/files/a", REFUSED),
        // What different programs read differently.
        (".", "", REFUSED),
        (".", "..", REFUSED),
        (".", "../x", REFUSED),
        (".", "a/../../f", REFUSED),
        (".", "a/../b", REFUSED),
        (".", "a/..", REFUSED),
        (".", "./..", REFUSED),
        ("docs", "docs/../other/f", REFUSED),
        ("docs", "docs/..", REFUSED),
        (".", "/", REFUSED),
        (".", "/etc/passwd", REFUSED),
        (".", "//server/share", REFUSED),
        (".", "~", REFUSED),
        (".", "~/f", REFUSED),
        (".", "~root/f", REFUSED),
        (".", "./~/f", REFUSED),
        (".", "C:", REFUSED),
        (".", "C:/Windows", REFUSED),
        (".", "c:notes", REFUSED),
        (".", "./C:/x", REFUSED),
        (".", "file:///etc/passwd", REFUSED),
        (".", "file:/etc/passwd", REFUSED),
        (".", "a\\b", REFUSED),
        (".", "..\\..\\x", REFUSED),
        (".", "\\\\server\\share", REFUSED),
        (".", "a\0b", REFUSED),
        (".", "a\nb", REFUSED),
        (".", "a\u{7f}", REFUSED),
        (".", "a\u{85}", REFUSED),
        (".", "%2e%2e/x", REFUSED),
        (".", "%2E%2e%2Fx", REFUSED),
        (".", "a%2fb", REFUSED),
        (".", "a%5Cb", REFUSED),
        (".", "a%00", REFUSED),
        (".", "%252e%252e/x", REFUSED),
    ];
    for (root, path, expected) in cases {
        assert_eq!(within(root, &json!(path)), expected, "{path:?} within {root:?}");
    }
}

#[test]
fn f30_a_path_of_another_shape_is_not_judged_as_a_path() {
    for (path, why) in [
        (json!(7), Why::WrongType),
        (json!(true), Why::WrongType),
        (json!(null), Why::Null),
        (json!({ "path": "x" }), Why::WrongType),
        (json!([]), Why::EmptyList),
        (json!(["ok", "../../x"]), Why::Unparseable),
        (json!(["ok", 7]), Why::WrongType),
        (json!(["ok", null]), Why::Null),
        (json!([["ok"], []]), Why::EmptyList),
    ] {
        assert_eq!(within(".", &path), Truth::Unevaluable(why), "{path}");
    }
    assert_eq!(within(".", &json!(["ok", ["deeper", "still"]])), Truth::True);
    assert_eq!(within("docs", &json!(["a", "b"])), Truth::False);
    assert_eq!(within("docs", &json!(["docs/a", "b"])), Truth::Unevaluable(Why::Mixed));
}

/// An allow rule never lets a refused path in, and a block rule never lets one out.
#[test]
fn f32_neither_allow_nor_block_is_loosened() {
    let allow = |root| json!([{ "id": "a", "kind": "allow_tool", "when": [{ "argument": "path", "op": "path_within", "value": root }] }]);
    let block = json!([
        { "id": "a", "kind": "allow_tool" },
        { "id": "b", "kind": "block_tool", "when": [{ "argument": "path", "op": "path_within", "value": "secret" }] },
    ]);
    for path in ["/secret/x", "a/../secret/x", "..", "", "secret\\x", "%73ecret%2fx", "~/secret", "secret/\0"]
    {
        assert_eq!(decide(allow("."), &call(json!({ "path": path }))), "deny/no_rule", "{path:?}");
        assert_eq!(
            decide(block.clone(), &call(json!({ "path": path }))),
            "deny/unevaluable by b",
            "{path:?}"
        );
    }
    for path in ["secret", "secret/x", "./secret/x", "secret//x"] {
        assert_eq!(decide(allow("public"), &call(json!({ "path": path }))), "deny/no_rule", "{path:?}");
        assert_eq!(decide(block.clone(), &call(json!({ "path": path }))), "deny/rule by b", "{path:?}");
    }
    // A harmless path beside a forbidden one hides it from neither.
    let both = call(json!({ "path": ["public/a", "secret/x"] }));
    assert_eq!(decide(allow("public"), &both), "deny/no_rule");
    assert_eq!(decide(block.clone(), &both), "deny/unevaluable by b");
    assert_eq!(decide(block, &call(json!({ "path": "public/a" }))), "allow/rule by a");
}

#[test]
fn f31_a_root_that_is_no_plain_path_is_a_mistake() {
    for root in ["", "//srv", "/srv/..", "..", "a/../b", "a\\b", "~/x", "C:/x", "%2e", "a\0"] {
        let rule = json!([{ "id": "a", "kind": "allow_tool", "when": [{ "argument": "path", "op": "path_within", "value": root }] }]);
        let found = crate::fixtures::faults(rule);
        assert_eq!(found[0].field, "rules[0].when[0].value", "{root:?}");
    }
}

/// What a file server would open: a stack of components, refusing to leave the root.
fn opened(path: &str) -> Option<Vec<&str>> {
    let mut stack = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                stack.pop()?;
            }
            name => stack.push(name),
        }
    }
    Some(stack)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Where the text alone says yes or no, following the path without links says the same.
    #[test]
    fn a_judged_path_names_what_it_seems_to(
        path in prop::collection::vec(prop::sample::select(vec!["a", "ab", "a b", "..", ".", "", "b", "~", "C:", "%2e", "x:"]), 1..6)
            .prop_map(|parts| parts.join("/")),
        root in prop::sample::select(vec![".", "a", "a/b", "ab"]),
    ) {
        match within(root, &json!(path)) {
            Truth::Unevaluable(_) => {}
            answer => {
                prop_assert!(!path.starts_with('/'));
                let there = opened(&path);
                let inside = there.is_some_and(|there| there.starts_with(&opened(root).unwrap()));
                prop_assert_eq!(answer, Truth::from(inside), "{}", path);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_judgement(path in any::<String>()) {
        let _answer: Truth = within("a/b", &json!(path));
    }
}
