use super::*;
use proptest::prelude::*;
use scraper::{Html, Selector};

fn html(text: &str) -> String {
    Markdown::of(text).render().unwrap()
}

#[test]
fn what_models_write_is_laid_out() {
    for (text, expected) in [
        ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
        ("# Title", "<p class=\"msg__heading\">Title</p>"),
        ("- a\n- **b**", "<ul><li>a</li><li><strong>b</strong></li></ul>"),
        ("3. a\n4. _b_", "<ol start=\"3\"><li>a</li><li><em>b</em></li></ol>"),
        ("`x < y`", "<p><code>x &#60; y</code></p>"),
        ("```sh\nls -l\n```", "<pre class=\"code\" tabindex=\"0\"><code>ls -l</code></pre>"),
        ("> said\n\n---", "<blockquote><p>said</p></blockquote><hr>"),
        ("~~no~~", "<p><del>no</del></p>"),
    ] {
        assert_eq!(html(text), expected, "{text}");
    }
    let table = html("| a | b |\n|---|---|\n| 1 | 2 |");
    assert!(
        table.contains("<thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead>"),
        "{table}"
    );
    assert!(table.contains("<tr><td>1</td><td>2</td></tr>"), "{table}");
    assert!(Markdown::of(" \n").is_empty());
}

#[test]
fn f35_a_link_shows_where_it_leads_and_leads_to_the_web_alone() {
    let shown = html("[the bank](https://evil.example/bank?q=1)");
    assert!(
        shown.contains("href=\"https://evil.example/bank?q=1\"")
            && shown.contains("(https://evil.example/bank?q=1)"),
        "{shown}"
    );
    // A name that looks like another one is shown as what it is.
    let shown = html("[paypal.com](https://p\u{0430}ypal.com/)");
    assert!(shown.contains("xn--"), "{shown}");
    let shown = html("<https://example.com/>");
    assert_eq!(
        shown.matches("example.com").count(),
        2,
        "an address that says itself is not said again: {shown}"
    );
    for bad in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "/approvals/1/approve",
        "//evil.example",
        "vbscript:x",
        "https://user:pw@evil.example/",
    ] {
        let shown = html(&format!("[x]({bad})"));
        assert!(!shown.contains("<a") && shown.contains("not a link"), "{bad}: {shown}");
    }
    let picture = html("![a cat](https://evil.example/track.png?secret=1)");
    assert!(
        !picture.contains("<img") && picture.contains("not loaded") && picture.contains("a cat"),
        "{picture}"
    );
}

#[test]
fn f28_what_cannot_be_seen_is_marked() {
    let shown = html("a\u{202E}b `c\u{200B}d`");
    assert!(!shown.contains('\u{202E}') && !shown.contains('\u{200B}') && shown.contains("RLO"), "{shown}");
}

#[test]
fn depth_is_bounded_and_no_text_is_lost() {
    let deep = format!("{}end", "> ".repeat(5_000));
    let shown = html(&deep);
    assert!(shown.contains("end") && shown.matches("<blockquote>").count() <= MOST_DEPTH, "{}", shown.len());
    let list = format!("{}- end", (0..200).map(|n| format!("{}- a\n", "  ".repeat(n))).collect::<String>());
    assert!(html(&list).contains("end"));
}

const TAGS: [&str; 27] = [
    "html",
    "head",
    "body",
    "p",
    "blockquote",
    "ul",
    "ol",
    "li",
    "hr",
    "br",
    "em",
    "strong",
    "del",
    "section",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "a",
    "span",
    "pre",
    "code",
    "mark",
    "small",
    "abbr",
];

/// Only our own elements come out, links lead to the web alone, and no attribute is anybody else's.
fn assert_harmless(text: &str) {
    let shown = html(text);
    let page = Html::parse_document(&shown);
    for element in page.select(&Selector::parse("*").unwrap()) {
        let name = element.value().name();
        assert!(TAGS.contains(&name), "<{name}> of {text:?} in {shown}");
        for (attribute, value) in element.value().attrs() {
            match attribute {
                "href" => assert!(value.starts_with("http://") || value.starts_with("https://"), "{value}"),
                "class" | "rel" | "target" | "start" | "tabindex" | "aria-label" | "scope" | "title" => {}
                other => panic!("{other}={value} of {text:?} in {shown}"),
            }
        }
    }
}

#[test]
fn f35_hostile_answers_are_text() {
    for text in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<a href=\"javascript:alert(1)\" hx-get=\"/x\" hx-trigger=\"load\">x</a>",
        "[a](https://x.example/\"onmouseover=alert(1))",
        "[a](<https://x.example/\" hx-get=\"/x>)",
        "![x](x\" onerror=\"alert(1))",
        "```\"><script>\n</code></pre><script>alert(1)</script>\n```",
        "| <script> | b |\n|---|---|\n| <img src=x> | </td><script> |",
        "[x]: javascript:alert(1)\n\n[x]",
        "<div hx-on:click=\"x\">\n\n*a*\n\n</div>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<svg><style>@import 'x'</style></svg>",
    ] {
        assert_harmless(text);
    }
}

proptest! {
    #[test]
    fn f35_no_text_becomes_markup(parts in prop::collection::vec(prop::sample::select(vec![
        "<", ">", "\"", "'", "`", "```", "\n", "\n\n", " ", "*", "**", "_", "[", "](", ")", "![", "(", "javascript:", "https://e.x/",
        "script", "<img src=x onerror=", "hx-get=\"/x\"", "&#60;", "&lt;", "|", "|---|", "> ", "- ", "1. ", "#", "~~", "<!--",
        "-->", "]]>", "<![CDATA[", "<?", "\u{202E}", "\u{0}", "\\", ":", "[x]: ", "a",
    ]), 0..40)) {
        assert_harmless(&parts.concat());
    }
}
