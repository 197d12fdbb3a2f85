//! Checking arguments against a tool's own schema: always the original one.

use crate::catalogue::DefinitionError;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::fmt;

/// Complaints listed at most, so that a hostile schema cannot flood an answer.
const MAX_COMPLAINTS: usize = 5;
/// Characters of one complaint.
const MAX_COMPLAINT: usize = 200;

/// A compiled schema. Remote references are never fetched; patterns run on a linear-time engine.
pub(crate) struct Schema(Validator);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    pub(crate) fn compile(schema: Option<&Value>) -> Result<Self, DefinitionError> {
        let schema = schema
            .filter(|schema| schema.is_object())
            .ok_or_else(|| DefinitionError::Schema("it is not a JSON object".to_owned()))?;
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| DefinitionError::Schema(cut(&error.to_string())))
    }

    /// `Err` with what does not fit, as one sentence.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        let complaints: Vec<String> = self
            .0
            .iter_errors(arguments)
            .take(MAX_COMPLAINTS)
            .map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { "the arguments".to_owned() } else { format!("`{at}`") };
                cut(&format!("{at}: {}", error.masked_with("the value")))
            })
            .collect();
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
    }
}

/// The first argument that a schema does not name, as a path. An object whose properties a schema lists has no others,
/// also as an element of a list; one that it leaves open is named as a whole.
pub(crate) fn unnamed(schema: &Value, arguments: &Value) -> Option<String> {
    let named = schema.get("properties").and_then(Value::as_object);
    for (key, value) in arguments.as_object()? {
        let Some(inner) = named.and_then(|named| named.get(key)) else { return Some(key.clone()) };
        if let Some(rest) = unnamed_within(inner, value) {
            return Some(format!("{key}.{rest}"));
        }
    }
    None
}

fn unnamed_within(schema: &Value, value: &Value) -> Option<String> {
    match value {
        Value::Object(_) if schema.get("properties").is_some() => unnamed(schema, value),
        Value::Array(elements) => {
            let items = schema.get("items")?;
            elements.iter().find_map(|element| unnamed_within(items, element))
        }
        _ => None,
    }
}

fn cut(text: &str) -> String {
    let mut out: String = text.chars().take(MAX_COMPLAINT).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
