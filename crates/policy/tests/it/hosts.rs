//! `host_is` and `host_within`, against URLs that look like others.

use crate::fixtures::{call, decide, faults};
use proptest::prelude::*;
use serde_json::json;
use sluicegate_policy::{Arguments, Condition, Truth, Why};

fn host(op: &str, value: &str, url: &str) -> Truth {
    let condition: Condition =
        serde_json::from_value(json!({ "argument": "url", "op": op, "value": value })).unwrap();
    Arguments::from_value(json!({ "url": url })).unwrap().ask(&condition.compile().unwrap())
}

const REFUSED: Truth = Truth::Unevaluable(Why::Unparseable);

#[test]
fn a_host_has_one_form() {
    let cases = [
        ("example.com", "https://example.com", Truth::True),
        ("example.com", "https://example.com/", Truth::True),
        ("example.com", "HTTPS://EXAMPLE.COM:8443/a?b#c", Truth::True),
        ("Example.COM", "https://example.com", Truth::True),
        ("example.com.", "https://example.com", Truth::True),
        ("example.com", "https://example.com./a", Truth::True),
        ("example.com", "ws://example.com", Truth::True),
        ("example.com", "https://example.com?@evil.com", Truth::True),
        ("example.com", "https://example.com#@evil.com", Truth::True),
        ("example.com", "https://example.com/@evil.com", Truth::True),
        ("example.com", "https://example.com/https://evil.com", Truth::True),
        ("bücher.example", "https://xn--bcher-kva.example", Truth::True),
        ("xn--bcher-kva.example", "https://BÜCHER.example", Truth::True),
        ("example.com", "https://www.example.com", Truth::False),
        ("example.com", "https://example.com.evil.com", Truth::False),
        ("example.com", "https://evil.com/example.com", Truth::False),
        ("example.com", "https://evil.com?example.com", Truth::False),
        ("example.com", "https://evil.com#https://example.com", Truth::False),
        ("example.com", "https://exаmple.com", Truth::False), // with a Cyrillic letter
        ("example.com", "https://127.0.0.1", Truth::False),
        // Addresses, in every notation.
        ("127.0.0.1", "http://127.0.0.1:80/", Truth::True),
        ("127.0.0.1", "http://2130706433", Truth::True),
        ("127.0.0.1", "http://0x7f.1", Truth::True),
        ("127.0.0.1", "http://0177.0.0.01", Truth::True),
        ("127.0.0.1", "http://127.1", Truth::True),
        ("127.0.0.1", "http://127.0.0.1.", Truth::True),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]", Truth::True),
        ("127.0.0.1", "http://[::ffff:7f00:1]", Truth::True),
        ("127.0.0.1", "http://[::127.0.0.1]", Truth::True),
        ("127.0.0.1", "http://[64:ff9b::7f00:1]", Truth::True),
        ("64:ff9b::127.0.0.1", "http://127.0.0.1", Truth::True),
        ("::", "http://[::]", Truth::True),
        ("0.0.0.1", "http://[::1]", Truth::False),
        ("127.0.0.1", "http://[64:ff9b:1::7f00:1]", Truth::False),
        ("0x7f000001", "http://127.0.0.1", Truth::True),
        ("::ffff:127.0.0.1", "http://127.0.0.1", Truth::True),
        ("::1", "http://[::1]:8080", Truth::True),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]", Truth::True),
        ("::1", "http://[::2]", Truth::False),
        ("127.0.0.1", "http://127.0.0.2", Truth::False),
        // What different programs read differently, or what is no URL.
        ("example.com", "https://example.com@evil.com", REFUSED),
        ("example.com", "https://user:pass@example.com", REFUSED),
        ("example.com", "https://@example.com", REFUSED),
        ("example.com", "https://evil.com\\@example.com", REFUSED),
        ("example.com", "https://evil.com\\.example.com", REFUSED),
        ("example.com", "https:\\\\example.com", REFUSED),
        ("example.com", "https:example.com", REFUSED),
        ("example.com", "https:/example.com", REFUSED),
        ("example.com", "https:///example.com", REFUSED),
        ("example.com", "https:////example.com", REFUSED),
        ("example.com", "https:evil.com?://example.com", REFUSED),
        ("example.com", "//example.com", REFUSED),
        ("example.com", "example.com", REFUSED),
        ("example.com", "example.com/a", REFUSED),
        ("example.com", "", REFUSED),
        ("example.com", "https://", REFUSED),
        ("example.com", "https:///", REFUSED),
        ("example.com", "https://?", REFUSED),
        ("example.com", " https://example.com", REFUSED),
        ("example.com", "https://example.com ", REFUSED),
        ("example.com", "https://exam ple.com", REFUSED),
        ("example.com", "ht\ntps://example.com", REFUSED),
        ("example.com", "https://exa\tmple.com", REFUSED),
        ("example.com", "https://example.com\r\n.evil.com", REFUSED),
        ("example.com", "https://example.com\0", REFUSED),
        ("example.com", "https://ex%61mple.com", REFUSED),
        ("example.com", "https://example.com%2eevil.com", REFUSED),
        ("example.com", "https://example.com%00.evil.com", REFUSED),
        ("example.com", "https://example..com", REFUSED),
        ("example.com", "https://.example.com", REFUSED),
        ("example.com", "https://example.com..", REFUSED),
        ("example.com", "https://example.com:99999", REFUSED),
        ("example.com", "https://[::1", REFUSED),
        ("example.com", "http://1.2.3.4.5", REFUSED),
        ("example.com", "http://256.256.256.256", REFUSED),
        ("example.com", "file://example.com/a", REFUSED),
        ("example.com", "gopher://example.com", REFUSED),
        ("example.com", "data:text/plain,https://example.com", REFUSED),
        ("example.com", "javascript://example.com/%0aalert(1)", REFUSED),
    ];
    for (value, url, expected) in cases {
        assert_eq!(host("host_is", value, url), expected, "{url:?} is {value:?}");
    }
}

#[test]
fn below_a_name_is_below_a_whole_label() {
    let cases = [
        ("example.com", "https://example.com", Truth::True),
        ("example.com", "https://a.example.com", Truth::True),
        ("example.com", "https://a.b.EXAMPLE.com.", Truth::True),
        ("example.com", "https://evilexample.com", Truth::False),
        ("example.com", "https://example.com.evil.com", Truth::False),
        ("example.com", "https://com", Truth::False),
        ("com", "https://example.com", Truth::True),
        ("127.0.0.1", "http://127.0.0.1", Truth::True),
        ("0.0.1", "http://127.0.0.1", Truth::False),
        ("127.0.0.1", "http://1.127.0.0.1.example", Truth::False),
        ("example.com", "https://x@a.example.com", REFUSED),
    ];
    for (value, url, expected) in cases {
        assert_eq!(host("host_within", value, url), expected, "{url:?} within {value:?}");
    }
}

#[test]
fn a_blocked_host_is_not_reached_by_another_spelling() {
    let rules = json!([
        { "id": "a", "kind": "allow_tool" },
        { "id": "b", "kind": "block_tool", "when": [{ "argument": "url", "op": "host_within", "value": "evil.com" }] },
        { "id": "c", "kind": "block_tool", "when": [{ "argument": "url", "op": "host_is", "value": "169.254.169.254" }] },
    ]);
    for url in [
        "https://evil.com",
        "https://EVIL.com.",
        "https://a.evil.com",
        "https://x@evil.com",
        "https:evil.com",
        "https:\\\\evil.com",
        "https://ev%69l.com",
        "https://ｅvil.com",
        "ftp://evil.com",
        "evil.com",
        "http://169.254.169.254/latest",
        "http://2852039166",
        "http://0xa9fea9fe",
        "http://[::ffff:a9fe:a9fe]",
        "http://0251.0376.0251.0376",
    ] {
        let made = decide(rules.clone(), &call(json!({ "url": url })));
        assert!(made.starts_with("deny/"), "{url}: {made}");
    }
    assert_eq!(decide(rules, &call(json!({ "url": "https://good.com" }))), "allow/rule by a");
}

#[test]
fn f31_an_operand_that_is_no_bare_host_is_a_mistake() {
    for value in [
        "",
        " ",
        "https://example.com",
        "example.com/a",
        "example.com:443",
        "*.example.com",
        "a@b",
        "exa mple.com",
        "a..b",
        ".com",
        "%61.com",
        "[::1",
        "a\\b",
        "1.2.3.4.5",
    ] {
        for op in ["host_is", "host_within"] {
            let rule = json!([{ "id": "a", "kind": "allow_tool", "when": [{ "argument": "url", "op": op, "value": value }] }]);
            assert_eq!(faults(rule)[0].field, "rules[0].when[0].value", "{op} {value:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A URL counts as being at a host only if that host stands, whole, right after the scheme.
    #[test]
    fn a_true_answer_means_the_host_is_there(
        url in "(https?|ftp|x):/{0,3}[a-c.@\\\\%/:?#\\[\\]0-9 -]{0,12}(a\\.b)?[/@:.?#a-c]{0,4}",
    ) {
        if host("host_is", "a.b", &url) == Truth::True {
            let after = url.split_once("://").unwrap().1;
            let rest = after.strip_prefix("a.b").unwrap();
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            prop_assert!(rest.is_empty() || rest.starts_with(['/', '?', '#', ':']), "{}", url);
        }
    }

    #[test]
    fn no_text_breaks_the_judgement(url in any::<String>(), tail in any::<String>()) {
        let _answers = [host("host_is", "a.b", &url), host("host_within", "a.b", &format!("https://{tail}"))];
    }
}
