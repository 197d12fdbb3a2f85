//! The arguments of a call, laid out for a person who decides: flat, complete, destinations first. Pure.

use super::ui::{Marked, components};
use super::visible_text::{Oddity, VisibleText};
use askama::Template;
use serde_json::Value;
use sluicegate_policy::Arguments;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Characters of a long text that are shown at once: at its beginning, and at its end.
const HEAD: usize = 800;
const TAIL: usize = 200;

/// Rows that are shown at once; the rest must be opened.
const ROWS: usize = 60;

/// All arguments of one call.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "ui/arguments.html")]
pub(crate) struct ArgumentList {
    rows: Vec<Row>,
    more: Vec<Row>,
    /// Text that is not a JSON object: shown as it came.
    raw: Option<Shown>,
    /// What there is to warn of in any of them.
    oddities: BTreeSet<Oddity>,
}

components!(ArgumentList);

#[derive(Clone, Debug)]
struct Row {
    path: Marked,
    plain_path: String,
    value: Shown,
    length: Option<String>,
    oddities: BTreeSet<Oddity>,
    destination: bool,
}

#[derive(Clone, Debug)]
enum Shown {
    Whole(Marked),
    Split { head: Marked, middle: Marked, tail: Marked, length: String },
}

impl Shown {
    fn of(text: VisibleText) -> Self {
        match text.split(HEAD, TAIL) {
            None => Self::Whole(Marked(text)),
            Some((head, middle, tail)) => Self::Split {
                head: Marked(head),
                middle: Marked(middle),
                tail: Marked(tail),
                length: text.length(),
            },
        }
    }
}

impl ArgumentList {
    /// Lays out arguments as recorded.
    pub(crate) fn of(recorded: &str) -> Self {
        let Ok(arguments) = Arguments::from_json(recorded) else {
            let text = VisibleText::of(recorded);
            return Self { oddities: text.oddities.clone(), raw: Some(Shown::of(text)), ..Self::default() };
        };
        let mut rows = Vec::new();
        if let Value::Object(fields) = arguments.to_value() {
            for (key, value) in &fields {
                flatten(&step(key, true), key, value, &mut rows);
            }
        }
        let oddities = rows.iter().flat_map(|row| row.oddities.iter().copied()).collect();
        // A stable sort: destinations first, otherwise in the order of the canonical text.
        rows.sort_by_key(|row| !row.destination);
        let more = rows.split_off(rows.len().min(ROWS));
        Self { rows, more, raw: None, oddities }
    }

    /// What a person must open before all of it can be seen, in words.
    pub(crate) fn must_open(&self) -> Vec<String> {
        let long = self.rows.iter().filter_map(|row| match &row.value {
            Shown::Split { length, .. } => Some(format!("all of {} ({length})", row.plain_path)),
            Shown::Whole(_) => None,
        });
        let raw = match &self.raw {
            Some(Shown::Split { length, .. }) => Some(format!("all of the arguments ({length})")),
            _ => None,
        };
        let more = (!self.more.is_empty()).then(|| format!("the other {} arguments", self.more.len()));
        long.chain(raw).chain(more).collect()
    }

    /// The value that says where the call goes, if one does and it is short.
    pub(crate) fn target(&self) -> Option<Marked> {
        self.rows.iter().find(|row| row.destination).and_then(|row| match &row.value {
            Shown::Whole(text) if text.0.chars <= 120 => Some(text.clone()),
            _ => None,
        })
    }

    /// One sentence for each kind of thing that a reader would not notice.
    fn warnings(&self) -> impl Iterator<Item = &'static str> {
        self.oddities.iter().map(|oddity| oddity.warning())
    }
}

impl Row {
    fn warnings(&self) -> String {
        self.oddities.iter().map(|oddity| oddity.warning()).collect::<Vec<_>>().join(", ")
    }
}

/// One step of a path: `name`, `.name`, or `["odd name"]`.
fn step(key: &str, first: bool) -> String {
    let simple = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match (simple, first) {
        (true, true) => key.to_owned(),
        (true, false) => format!(".{key}"),
        (false, _) => format!("[{}]", Value::from(key)),
    }
}

fn flatten(path: &str, key: &str, value: &Value, rows: &mut Vec<Row>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (inner, value) in fields {
                flatten(&format!("{path}{}", step(inner, false)), inner, value, rows);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                let mut path = path.to_owned();
                // Writing to a string cannot fail.
                write!(path, "[{at}]").unwrap_or_default();
                flatten(&path, key, item, rows);
            }
        }
        Value::String(text) => {
            let destination = is_destination(key, text);
            let shown = if destination { VisibleText::of_address(text) } else { VisibleText::of(text) };
            let long = shown.chars > 80 || shown.lines > 1 || shown.is_odd();
            let length =
                if text.is_empty() { Some("empty text".to_owned()) } else { long.then(|| shown.length()) };
            rows.push(row(path, shown, length, destination));
        }
        other => rows.push(row(path, VisibleText::of(&other.to_string()), None, false)),
    }
}

fn row(path: &str, value: VisibleText, length: Option<String>, destination: bool) -> Row {
    let path = VisibleText::of_address(path);
    let oddities = path.oddities.union(&value.oddities).copied().collect();
    Row {
        plain_path: path.to_string(),
        path: Marked(path),
        value: Shown::of(value),
        length,
        oddities,
        destination,
    }
}

/// Whether a field says where a call goes: a path, an address, a recipient.
fn is_destination(key: &str, text: &str) -> bool {
    const WHOLE: [&str; 24] = [
        "to",
        "cc",
        "bcc",
        "path",
        "file",
        "filename",
        "source",
        "destination",
        "dest",
        "target",
        "url",
        "uri",
        "href",
        "link",
        "host",
        "hostname",
        "domain",
        "recipient",
        "recipients",
        "email",
        "address",
        "phone",
        "channel",
        "device",
    ];
    const ENDS: [&str; 8] = ["_path", "_file", "_url", "_uri", "_host", "_to", "_email", "_address"];
    let key = key.to_lowercase();
    WHOLE.contains(&key.as_str())
        || ENDS.iter().any(|end| key.ends_with(end))
        || ["http://", "https://", "file://", "mailto:"].iter().any(|scheme| text.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(json: &str) -> Vec<(String, String)> {
        let list = ArgumentList::of(json);
        list.rows
            .iter()
            .chain(&list.more)
            .map(|row| {
                let value = match &row.value {
                    Shown::Whole(text) => text.0.to_string(),
                    Shown::Split { head, middle, tail, .. } => format!("{}{}{}", head.0, middle.0, tail.0),
                };
                (row.plain_path.clone(), value)
            })
            .collect()
    }

    #[test]
    fn f28_every_leaf_is_a_row_and_destinations_come_first() {
        let rows = laid_out(
            r#"{"body":"hi","to":["a@example.org","b@example.org"],"meta":{"n":12345678901234567,"x y":[],"path":"/etc"},"dry":false}"#,
        );
        let expected = [
            ("meta.path", "/etc"),
            ("to[0]", "a@example.org"),
            ("to[1]", "b@example.org"),
            ("body", "hi"),
            ("dry", "false"),
            ("meta.n", "12345678901234567"),
            (r#"meta["x y"]"#, "[]"),
        ];
        assert_eq!(rows, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    }

    #[test]
    fn f28_a_twin_key_with_a_hidden_character_is_seen() {
        let list = ArgumentList::of("{\"path\":\"a\",\"path\u{200B}\":\"b\"}");
        let html = list.render().unwrap();
        assert!(list.oddities.contains(&Oddity::Invisible));
        assert!(html.contains("zero-width space"), "{html}");
    }

    #[test]
    fn f28_nothing_is_cut_and_what_is_folded_must_be_opened() {
        let long = format!("{}{}", "x".repeat(200_000), "TARGET");
        let list = ArgumentList::of(&serde_json::json!({ "content": long, "path": "a.txt" }).to_string());
        let html = list.render().unwrap();
        let shorter = long.replacen('x', "", 100_000);
        let shorter =
            ArgumentList::of(&serde_json::json!({ "content": shorter, "path": "a.txt" }).to_string());
        assert_eq!(html.matches('x').count() - shorter.render().unwrap().matches('x').count(), 100_000);
        assert!(html.contains("TARGET"));
        assert_eq!(list.must_open(), ["all of content (200,006 characters)"]);
        assert_eq!(list.target().map(|target| target.0.to_string()).as_deref(), Some("a.txt"));

        let many: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("k{n}"), Value::from(n))).collect();
        let list = ArgumentList::of(&Value::Object(many).to_string());
        assert_eq!(list.must_open(), ["the other 440 arguments"]);
        assert!(list.render().unwrap().contains("k499"));
    }

    #[test]
    fn f35_hostile_arguments_are_text() {
        let hostile =
            r#"</textarea><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}} javascript:x"#;
        let html = ArgumentList::of(&serde_json::json!({ hostile: hostile }).to_string()).render().unwrap();
        assert!(
            !html.contains("<script") && !html.contains("<img") && !html.contains("</textarea"),
            "{html}"
        );
        assert!(html.contains("hx-ignore"));
    }

    #[test]
    fn what_is_no_object_is_shown_as_it_came() {
        let list = ArgumentList::of("{\"a\":1,\"a\":2}\u{202E}");
        assert!(list.render().unwrap().contains("{&#34;a&#34;:1,&#34;a&#34;:2}"));
        assert!(list.oddities.contains(&Oddity::Bidirectional));
    }
}
