//! One text for one value. The rule is stated on [`Arguments`](super::Arguments).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Number, Value};

use super::ArgumentsError;

/// 2^63 and 2^64 are exact as doubles; the largest integers below them are not.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// The canonical number of a finite double: an integer where the value is one and fits 64 bits.
pub(super) fn number(double: f64) -> Option<Number> {
    if (0.0..TWO_64).contains(&double) {
        let whole = double as u64;
        // Casting back tells a whole number from one with a fraction, without loss in either direction.
        if whole as f64 == double {
            return Some(Number::from(whole));
        }
    } else if (-TWO_63..0.0).contains(&double) {
        let whole = double as i64;
        if whole as f64 == double {
            return Some(Number::from(whole));
        }
    }
    Number::from_f64(double)
}

/// Brings every number into canonical form and refuses what is nested deeper than `levels`.
pub(super) fn normalise(value: Value, levels: usize) -> Result<Value, ArgumentsError> {
    let inner = || levels.checked_sub(1).ok_or(ArgumentsError::TooDeep);
    Ok(match value {
        Value::Array(items) => {
            let levels = inner()?;
            Value::Array(items.into_iter().map(|item| normalise(item, levels)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let levels = inner()?;
            let entries = map.into_iter().map(|(key, item)| Ok((key, normalise(item, levels)?)));
            Value::Object(entries.collect::<Result<Map<_, _>, ArgumentsError>>()?)
        }
        Value::Number(n) if n.is_f64() => {
            Value::Number(n.as_f64().and_then(number).ok_or(ArgumentsError::Number(0))?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    })
}

/// The canonical text of a value, as stated on [`Arguments`](crate::Arguments): one text for one value, whatever the order
/// of its keys and the notation of its numbers.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(n) => write_number(n, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (nth, item) in items.iter().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (nth, (key, item)) in entries.into_iter().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_number(n: &Number, out: &mut String) {
    if let Some(whole) = n.as_u64() {
        out.push_str(&format!("{whole}"));
    } else if let Some(whole) = n.as_i64() {
        out.push_str(&format!("{whole}"));
    } else if let Some(double) = n.as_f64() {
        match number(double).filter(|canonical| !canonical.is_f64()) {
            Some(whole) => write_number(&whole, out),
            None => write_double(double, out),
        }
    }
}

/// A double that is no 64-bit integer: shortest digits that read back as the same double, placed as ECMAScript does.
fn write_double(double: f64, out: &mut String) {
    let scientific = format!("{double:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Whole numbers from 2^64 keep an exponent: in plain digits they would look like an integer that does not fit.
    let plain = (-6..0).contains(&exponent) || (exponent >= 0 && double.abs() < TWO_63);
    if plain {
        out.push_str(&format!("{double}"));
    } else {
        out.push_str(mantissa);
        out.push_str(if exponent < 0 { "e" } else { "e+" });
        out.push_str(&format!("{exponent}"));
    }
}
