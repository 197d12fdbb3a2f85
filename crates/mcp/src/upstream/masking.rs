//! Text from servers, made fit to be shown: without configured secrets, control characters and endless lines.

use crate::servers::ServerEntry;

/// Longest line shown, in characters.
const MAX_SHOWN: usize = 300;
/// Shorter values are not masked: `1`, `true` or `info` are no secrets, and masking them would garble every line.
const MIN_SECRET: usize = 6;
const MASK: &str = "•••";

/// The secrets of one server entry.
pub(crate) struct Masks(Vec<String>);

impl Masks {
    pub(crate) fn of(entry: &ServerEntry) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for value in entry.secrets() {
            // `Bearer x` and `token=x`: the part alone is as secret as the whole.
            let parts = value.split([' ', '=', '&', ',', ';']);
            for part in std::iter::once(value).chain(parts) {
                if part.len() >= MIN_SECRET && part != "Bearer" && !secrets.iter().any(|known| known == part)
                {
                    secrets.push(part.to_owned());
                }
            }
        }
        // The longest first, so that no rest of a longer one stays behind.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// One line that is safe to show.
    pub(crate) fn show(&self, text: &str) -> String {
        let masked = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK));
        let clean = without_control(&masked);
        let mut shown: String = clean.trim().chars().take(MAX_SHOWN).collect();
        if clean.trim().chars().nth(MAX_SHOWN).is_some() {
            shown.push('…');
        }
        shown
    }
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({})", self.0.len())
    }
}

/// Drops terminal escapes, turns line ends and tabs into spaces and other control characters into U+FFFD.
fn without_control(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    // A control sequence ends with its first character from @ to ~.
                    for c in chars.by_ref() {
                        if matches!(c, '@'..='~') {
                            break;
                        }
                    }
                }
            }
            '\n' | '\r' | '\t' => out.push(' '),
            // A byte-order mark in the middle of anything is invisible junk.
            '\u{feff}' => {}
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Masks {
        let entry = ServerEntry::http(
            "s",
            "https://example.com/mcp?token=CANARY-QUERY",
            &[("authorization", "Bearer CANARY-HEADER"), ("x-level", "info")],
        );
        Masks::of(&entry.unwrap())
    }

    #[test]
    fn secrets_of_the_entry_are_masked_and_short_values_are_not() {
        let shown =
            masks().show("refused: Bearer CANARY-HEADER, token=CANARY-QUERY; also CANARY-HEADER; level info");
        assert!(!shown.contains("CANARY"), "{shown}");
        assert!(shown.ends_with("level info"), "{shown}");
    }

    #[test]
    fn colours_and_control_characters_do_not_survive_and_the_cut_is_marked() {
        assert_eq!(masks().show("\u{1b}[31mred\u{1b}[0m\tand\u{7}\r\n"), "red and\u{fffd}");
        assert_eq!(masks().show(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }
}
