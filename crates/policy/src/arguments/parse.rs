//! A strict JSON reader for arguments.
//!
//! Own code, because what matters here is what other readers let pass: a duplicate key (the last one wins silently), and
//! a number that no double or 64-bit integer holds (rounded silently). What a person approves must be what was asked.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Number, Value};

use super::{ArgumentsError, MAX_ARGUMENTS_DEPTH, canonical};
use crate::names::shown;

/// Reads one object and nothing else.
pub(super) fn object(text: &str) -> Result<Value, ArgumentsError> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_whitespace();
    let value = reader.value(MAX_ARGUMENTS_DEPTH)?;
    reader.skip_whitespace();
    if reader.peek().is_some() {
        return Err(reader.syntax("the end"));
    }
    if value.is_object() { Ok(value) } else { Err(ArgumentsError::NotAnObject) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn syntax(&self, expected: &'static str) -> ArgumentsError {
        ArgumentsError::Syntax { at: self.at, expected }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ArgumentsError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.syntax(expected))
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, ArgumentsError> {
        if self.rest().starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.syntax("a value"))
        }
    }

    /// One value; `levels` is how many more objects or lists may be opened.
    fn value(&mut self, levels: usize) -> Result<Value, ArgumentsError> {
        match self.peek() {
            Some(b'{') => self.map(levels.checked_sub(1).ok_or(ArgumentsError::TooDeep)?),
            Some(b'[') => self.list(levels.checked_sub(1).ok_or(ArgumentsError::TooDeep)?),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            _ => Err(self.syntax("a value")),
        }
    }

    fn map(&mut self, levels: usize) -> Result<Value, ArgumentsError> {
        let mut map = Map::new();
        self.at += 1;
        self.skip_whitespace();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_whitespace();
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in double quotes"));
            }
            let key = self.string()?;
            if map.contains_key(&key) {
                return Err(ArgumentsError::DuplicateKey(shown(&key)));
            }
            self.skip_whitespace();
            self.expect(b':', "`:`")?;
            self.skip_whitespace();
            let value = self.value(levels)?;
            map.insert(key, value);
            self.skip_whitespace();
            if self.peek() == Some(b',') {
                self.at += 1;
            } else {
                self.expect(b'}', "`,` or `}`")?;
                return Ok(Value::Object(map));
            }
        }
    }

    fn list(&mut self, levels: usize) -> Result<Value, ArgumentsError> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_whitespace();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_whitespace();
            items.push(self.value(levels)?);
            self.skip_whitespace();
            if self.peek() == Some(b',') {
                self.at += 1;
            } else {
                self.expect(b']', "`,` or `]`")?;
                return Ok(Value::Array(items));
            }
        }
    }

    fn string(&mut self) -> Result<String, ArgumentsError> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let rest = self.rest();
            let plain = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(rest.len());
            out.push_str(rest.get(..plain).unwrap_or(""));
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                _ => return Err(self.syntax("a closing quote, or an escaped control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ArgumentsError> {
        let at = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(at),
            _ => return Err(self.syntax("an escape")),
        };
        self.at += 1;
        Ok(simple)
    }

    /// `\uXXXX`, or a pair of them for a character beyond the first plane. Half a pair is no character.
    fn unicode_escape(&mut self, at: usize) -> Result<char, ArgumentsError> {
        let half = ArgumentsError::Syntax { at, expected: "an escape that is a whole character" };
        let first = self.hex()?;
        let code = match first {
            0xD800..=0xDBFF => {
                self.expect(b'\\', "the second half of a character")?;
                if self.peek() != Some(b'u') {
                    return Err(half);
                }
                let second = self.hex()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(half);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            other => other,
        };
        char::from_u32(code).ok_or(half)
    }

    /// `uXXXX`, from the `u`.
    fn hex(&mut self) -> Result<u32, ArgumentsError> {
        self.at += 1;
        let digits = self.rest().get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let code = code.ok_or_else(|| self.syntax("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> Result<(), ArgumentsError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.syntax("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Number, ArgumentsError> {
        let start = self.at;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.syntax("no digit after a leading zero"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or("");
        let number = if whole { integer(text) } else { double(text) };
        number.ok_or(ArgumentsError::Number(start))
    }
}

/// An integer literal, if 64 bits hold it. `-0` is `0`.
fn integer(text: &str) -> Option<Number> {
    if let Ok(n) = text.parse::<u64>() {
        return Some(Number::from(n));
    }
    match text.parse::<i64>() {
        Ok(0) => Some(Number::from(0u64)),
        Ok(n) => Some(Number::from(n)),
        Err(_) => None,
    }
}

/// A literal with a fraction or an exponent: the nearest double, unless that is infinite, or zero without saying so.
fn double(text: &str) -> Option<Number> {
    let value: f64 = text.parse().ok().filter(|v: &f64| v.is_finite())?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    if value == 0.0 && mantissa.bytes().any(|b| matches!(b, b'1'..=b'9')) {
        return None;
    }
    canonical::number(value)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn reads_every_escape() {
        let value = object(r#"{"k":"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00"}"#).unwrap();
        assert_eq!(value.get("k").and_then(Value::as_str).unwrap(), "\"\\/\u{8}\u{c}\n\r\tä😀");
        assert_eq!(value.get("k").unwrap().to_string(), r#""\"\\/\b\f\n\r\tä😀""#);
    }
}
