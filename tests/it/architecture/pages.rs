//! What templates and static files may hold.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::{files, root};

fn templates() -> Vec<(String, String)> {
    let all = files("templates", &[".html"]);
    assert!(all.len() > 10, "only {} templates were found", all.len());
    all
}

/// The opening tags of a template, each from `<` to its `>`; expressions of the template language are part of them.
fn tags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if !rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            rest = &rest[1..];
            continue;
        }
        let mut quote = None;
        let mut inside = 0_i32;
        let end = rest.char_indices().find(|(at, c)| {
            if rest[*at..].starts_with("{{") || rest[*at..].starts_with("{%") {
                inside += 1;
            } else if rest[..*at].ends_with("}}") || rest[..*at].ends_with("%}") {
                inside -= 1;
            }
            match (inside, quote, c) {
                (1.., _, _) => false,
                (_, None, '"' | '\'') => {
                    quote = Some(*c);
                    false
                }
                (_, Some(open), c) if open == *c => {
                    quote = None;
                    false
                }
                (_, None, '>') => true,
                _ => false,
            }
        });
        let end = end.map_or(rest.len(), |(at, _)| at + 1);
        found.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    found
}

#[test]
fn the_reader_of_tags_reads_tags() {
    let text =
        "<p class=\"a>b\">x < y</p>{% if a < b %}<form action=\"{{ \"/\" }}\" method=post>{% endif %}<br>";
    let names: Vec<_> =
        tags(text).iter().map(|tag| tag.split([' ', '>']).next().unwrap().to_owned()).collect();
    assert_eq!(names, ["<p", "<form", "<br"]);
}

/// Nothing switches escaping off: neither the filter, nor a block, nor a type that counts as safe.
#[test]
fn f35_everything_is_escaped() {
    for (name, text) in templates() {
        let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        for hole in ["|safe", "|escape(\"none\")", "{%autoescape", "|e(\"none\")"] {
            assert!(!dense.contains(hole), "{name} holds {hole}");
        }
    }
    for (name, text) in files("src", &[".rs"]) {
        for hole in ["filters::Safe", "escape = \"none\"", "MarkupDisplay"] {
            assert!(!text.contains(hole), "{name} holds {hole}");
        }
        // Rendered templates, and an icon of a closed list, may stand in other templates as they are.
        let renders = ["src/web/fragment.rs", "src/web/ui.rs"].contains(&name.as_str());
        assert!(renders || !text.contains("HtmlSafe"), "{name} makes something count as markup");
    }
}

#[test]
fn there_is_no_inline_script_style_or_handler() {
    for (name, text) in templates() {
        let lower = text.to_ascii_lowercase();
        assert!(!lower.contains("<style"), "{name} holds a style element");
        assert!(!lower.contains("javascript:"), "{name} holds a script address");
        for tag in tags(&text) {
            let attributes = tag.to_ascii_lowercase();
            for word in attributes.split_whitespace() {
                assert!(!word.starts_with("style="), "{name}: {tag}");
                assert!(!word.starts_with("hx-on") && !word.starts_with("hx-vals=\"js"), "{name}: {tag}");
                let handler = word.strip_prefix("on").and_then(|rest| rest.split_once('='));
                let handler = handler.is_some_and(|(event, _)| event.chars().all(|c| c.is_ascii_lowercase()));
                assert!(!handler, "{name}: {tag}");
            }
        }
        for (at, _) in lower.match_indices("<script") {
            let script = &lower[at..];
            let (opening, content) = script.split_once('>').unwrap();
            assert!(opening.contains(" src="), "{name} holds an inline script");
            assert!(content.trim_start().starts_with("</script>"), "{name} holds a script with content");
        }
    }
}

/// Everything a page loads and leads to is the product's own.
#[test]
fn addresses_are_relative_to_the_product() {
    for (name, text) in templates() {
        for tag in tags(&text) {
            for foreign in ["=\"http:", "=\"https:", "=\"//", "='http", "='//"] {
                assert!(!tag.contains(foreign), "{name}: {tag}");
            }
        }
    }
    for (name, text) in files("static", &["sluicegate.css"]) {
        for foreign in ["@import", "http://", "https://", "url(//", "url(\"//"] {
            assert!(!text.contains(foreign), "{name} holds {foreign}");
        }
    }
}

/// Every form works without a script: it says where it goes and how.
#[test]
fn every_form_has_an_action_and_a_method() {
    let mut forms = 0;
    for (name, text) in templates() {
        for form in tags(&text).iter().filter(|tag| tag.starts_with("<form")) {
            assert!(form.contains("action=") && form.contains("method="), "{name}: {form}");
            forms += 1;
        }
    }
    assert!(forms > 3, "only {forms} forms were found");
}

/// Vendored files are what their list says, and nothing else is vendored.
#[test]
fn vendored_files_are_unchanged() {
    let list = std::fs::read_to_string(root().join("static/VENDORED.md")).unwrap();
    let mut listed = Vec::new();
    for row in list.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let (name, digest) = (cells[1], cells[cells.len() - 2]);
        let bytes = std::fs::read(root().join("static").join(name)).unwrap();
        let found = Sha256::digest(&bytes).iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        assert_eq!(found, digest, "{name} is not the file that was vendored");
        listed.push(name.to_owned());
    }
    for (name, _) in files("static", &[".min.js"]) {
        let name = name.strip_prefix("static/").unwrap();
        assert!(listed.iter().any(|known| known == name), "{name} is on no list");
    }
    assert!(listed.len() >= 2);
}
