//! A text that a simple pattern matches. Not every pattern is understood: for the others no text is made up.

use alloc::string::String;

use crate::arguments::Arguments;
use crate::condition::{Condition, Elements, Op, Truth};

/// A short text that the whole pattern matches, if one is found.
pub(super) fn witness(pattern: &str) -> Option<String> {
    let mut reader = Reader { rest: pattern.chars().collect(), at: 0 };
    let text = reader.alternatives()?;
    // What was read is checked against the pattern itself.
    let condition = Condition {
        argument: "t".into(),
        op: Op::Matches,
        value: Some(pattern.into()),
        elements: Elements::Every,
    };
    let arguments = Arguments::from_value(serde_json::json!({ "t": text })).ok()?;
    (arguments.ask(&condition.compile().ok()?) == Truth::True).then_some(text)
}

struct Reader {
    rest: alloc::vec::Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn take(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    /// The first of alternatives; the others are passed over.
    fn alternatives(&mut self) -> Option<String> {
        let first = self.sequence()?;
        while self.take('|') {
            self.sequence()?;
        }
        Some(first)
    }

    fn sequence(&mut self) -> Option<String> {
        let mut text = String::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            let part = self.part()?;
            for _ in 0..self.times()? {
                text.push_str(&part);
            }
        }
        Some(text)
    }

    fn part(&mut self) -> Option<String> {
        match self.next()? {
            '(' => {
                if self.take('?') && !self.take(':') {
                    return None;
                }
                let inner = self.alternatives()?;
                self.take(')').then_some(inner)
            }
            '[' => {
                if self.peek() == Some('^') {
                    return None;
                }
                let first = match self.next()? {
                    '\\' => self.escaped()?,
                    c => c.into(),
                };
                while self.next()? != ']' {}
                Some(first)
            }
            '\\' => self.escaped(),
            '.' => Some("x".into()),
            '^' | '$' => Some(String::new()),
            '*' | '+' | '?' | '{' => None,
            c => Some(c.into()),
        }
    }

    fn escaped(&mut self) -> Option<String> {
        Some(match self.next()? {
            'd' => '1'.into(),
            'w' => 'x'.into(),
            's' => ' '.into(),
            c if c.is_alphanumeric() => return None,
            c => c.into(),
        })
    }

    /// How often the part before must stand there: once, or as a quantifier says at least.
    fn times(&mut self) -> Option<usize> {
        let least = match self.peek() {
            Some('*' | '?') => {
                self.at += 1;
                0
            }
            Some('+') => {
                self.at += 1;
                1
            }
            Some('{') => {
                self.at += 1;
                let mut digits = String::new();
                loop {
                    match self.next()? {
                        '}' => break,
                        ',' => {
                            while self.next()? != '}' {}
                            break;
                        }
                        digit => digits.push(digit),
                    }
                }
                digits.parse().ok().filter(|least| *least <= 1_000)?
            }
            _ => return Some(1),
        };
        self.take('?');
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::witness;

    #[test]
    fn a_witness_is_matched_by_its_pattern() {
        for (pattern, expected) in [
            ("abc", Some("abc")),
            ("[a-z]{3,5}-\\d+", Some("aaa-1")),
            ("(ab|cd)?e*", Some("")),
            ("(?:ab|cd)+\\.txt", Some("ab.txt")),
            ("^x$", Some("x")),
            ("\\w{2}", Some("xx")),
            ("[^a]", None),
            ("\\bx", None),
        ] {
            assert_eq!(witness(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
