//! `${NAME}` in configured values.

use std::collections::BTreeMap;

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}` by the variables given. Anything else that starts with
/// `${` is an error: a secret half-expanded would be sent to a stranger as it stands.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, tail)) = after.split_once('}') else {
            return Err("has a `${` without its `}`".to_owned());
        };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if !is_variable_name(name) {
            return Err(
                "holds a `${…}` that is none of `${NAME}`, `${env:NAME}` and `${NAME:-default}`".to_owned()
            );
        }
        match (variables.get(name).filter(|value| !value.is_empty()), default) {
            (Some(value), _) => out.push_str(value),
            (None, Some(default)) => out.push_str(default),
            (None, None) => return Err(format!("needs the variable `{name}`, which is not set")),
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
