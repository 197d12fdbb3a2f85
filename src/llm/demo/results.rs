//! Reading what tools answered.

use serde_json::Value;

/// Something that a list names: a reminder, a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// Its id, for further calls.
    pub(super) id: Value,
    /// Its name for people.
    pub(super) label: String,
    words: Vec<String>,
}

/// What a search in a list found.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'a> {
    /// Nothing fits.
    None,
    /// This one is meant.
    One(&'a Item),
    /// Several fit equally well.
    Several(Vec<&'a Item>),
}

/// The plain text of an answer.
pub(super) fn text(output: &Value) -> String {
    if let Value::String(text) = output {
        return text.clone();
    }
    match output.get("content").and_then(Value::as_array) {
        Some(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        None => output.to_string(),
    }
}

/// The structure of an answer: its own, or the JSON that its text is.
pub(super) fn structure(output: &Value) -> Option<Value> {
    if let Some(inner) = output.get("structuredContent") {
        return Some(inner.clone());
    }
    if output.is_array() || (output.is_object() && output.get("content").is_none()) {
        return Some(output.clone());
    }
    serde_json::from_str(&text(output)).ok().filter(|value: &Value| value.is_array() || value.is_object())
}

/// Why a call failed or did not run, as the answer says it.
pub(super) fn reason(output: &Value) -> String {
    let Some(structure) = structure(output).filter(Value::is_object) else { return text(output) };
    let field = |name: &str| structure.get(name).and_then(Value::as_str);
    let Some(message) = field("message").or_else(|| field("error")) else { return text(output) };
    let mut reason = message.trim_end_matches('.').to_owned();
    if let Some(code) = field("code") {
        reason.push_str(&format!(" ({code})"));
    }
    if let Some(said) = structure.get("tool_said") {
        reason.push_str(&format!("; the tool said: {}", text(said)));
    }
    reason
}

/// The rows of an answer that is a list, or holds one.
pub(super) fn rows(output: &Value) -> Option<Vec<Value>> {
    match structure(output)? {
        Value::Array(rows) => Some(rows),
        Value::Object(fields) => fields.into_iter().find_map(|(_, value)| match value {
            Value::Array(rows) => Some(rows),
            _ => None,
        }),
        _ => None,
    }
}

/// The things that an answer lists: rows with an id, or else lines that begin with one.
pub(super) fn items(output: &Value) -> Vec<Item> {
    match rows(output) {
        Some(rows) => rows.iter().filter_map(item).collect(),
        None => text(output).lines().filter_map(line).collect(),
    }
}

fn item(row: &Value) -> Option<Item> {
    let id = ["id", "device", "name"].iter().find_map(|name| row.get(name))?.clone();
    let label = ["name", "text", "title", "message"].iter().find_map(|name| row.get(name)?.as_str());
    let label = label.map_or_else(|| plain(&id), str::to_owned);
    let texts = row.as_object()?.values().map(plain).collect::<Vec<_>>().join(" ");
    Some(Item { id, label, words: words(&texts) })
}

fn line(line: &str) -> Option<Item> {
    let line = line.trim_start_matches(['-', '*', '•', ' ']).trim();
    let id = line.split_whitespace().next()?.trim_matches(|c: char| !c.is_alphanumeric());
    (!id.is_empty()).then(|| Item { id: id.into(), label: line.to_owned(), words: words(line) })
}

/// A value as people read it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The item that is meant: by its id, by its whole name, or as the only one that has all the words.
pub(super) fn find<'a>(items: &'a [Item], meant: &str) -> Found<'a> {
    let same = |text: &str| text.to_lowercase() == meant.to_lowercase();
    if let Some(item) = items.iter().find(|item| same(&plain(&item.id)) || same(&item.label)) {
        return Found::One(item);
    }
    let wanted = words(meant);
    let fitting: Vec<&Item> = items
        .iter()
        .filter(|item| !wanted.is_empty() && wanted.iter().all(|word| item.words.contains(word)))
        .collect();
    match fitting[..] {
        [] => Found::None,
        [only] => Found::One(only),
        _ => Found::Several(fitting),
    }
}

/// The words of a text that tell things apart; `lights` counts as `light`.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !["the", "a", "an", "in", "of", "my", "to"].contains(word))
        .map(|word| word.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(word).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(output: &Value, meant: &str) -> String {
        match find(&items(output), meant) {
            Found::None => "none".into(),
            Found::One(item) => plain(&item.id),
            Found::Several(items) => format!("{} of them", items.len()),
        }
    }

    #[test]
    fn things_are_found_in_structures_and_in_lines() {
        let devices = json!({"devices":[{"id":"hall-light","name":"Hall light","on":false},{"id":"k1","name":"Light","room":"kitchen"}]});
        let as_text = Value::String(devices.to_string());
        let wrapped = json!({"content":[{"type":"text","text":"x"}],"structuredContent":devices});
        for output in [&devices, &as_text, &wrapped] {
            assert_eq!(found(output, "the hall lights"), "hall-light");
            assert_eq!(found(output, "kitchen light"), "k1");
            assert_eq!(found(output, "light"), "k1");
            assert_eq!(found(output, "lamp"), "none");
            assert_eq!(found(output, ""), "none");
        }
        let lines = json!("1: buy milk\n- 2 call home\n\n3: buy bread");
        assert_eq!(found(&lines, "2"), "2");
        assert_eq!(found(&lines, "milk"), "1");
        assert_eq!(found(&lines, "buy"), "2 of them");
    }

    #[test]
    fn reasons_are_read_from_refusals_and_from_plain_text() {
        let refusal = json!({"code":"rule","message":"A rule denies it.","retryable":false,"tool_said":"no"});
        assert_eq!(reason(&refusal), "A rule denies it (rule); the tool said: no");
        assert_eq!(reason(&json!("went wrong")), "went wrong");
        assert_eq!(reason(&json!({"content":[{"type":"text","text":"{\"error\":\"gone\"}"}]})), "gone");
    }
}
