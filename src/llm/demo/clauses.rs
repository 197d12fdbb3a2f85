//! A message taken apart: clauses, and the words of each, with their places in the message, so that free text can be
//! taken out of it letter by letter.

use std::ops::Range;

/// A word, or a quoted text, of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Without quotes and without the punctuation after it.
    pub(super) text: String,
    /// The same in lower case.
    pub(super) lower: String,
    /// It stood in quotes.
    pub(super) quoted: bool,
    /// A colon follows.
    pub(super) colon: bool,
    /// Where it stands in the message, quotes and punctuation included.
    pub(super) place: Range<usize>,
}

impl Word {
    /// Whether it is one of these, in any case, and not quoted.
    pub(super) fn is(&self, any: &[&str]) -> bool {
        !self.quoted && any.contains(&self.lower.as_str())
    }
}

/// A part of a message that may hold one request: its words, of which there is at least one.
pub(super) type Clause = Vec<Word>;

const QUOTES: [(char, char); 7] =
    [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('„', '“'), ('‘', '’'), ('«', '»')];

/// Words that may stand between two requests.
const JOINS: [&str; 5] = ["and", "then", "&", "plus", "afterwards"];

/// Punctuation after a word that may stand between two requests.
const ENDS: [char; 5] = ['.', ',', '!', '?', ';'];

/// The clauses of a message. A quoted text is never split.
pub(super) fn clauses(message: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = vec![Vec::new()];
    let mut at = 0;
    while let Some((rest, first)) = message.get(at..).and_then(|rest| Some((rest, rest.chars().next()?))) {
        if first.is_whitespace() {
            at += first.len_utf8();
            if first == '\n' {
                clauses.push(Vec::new());
            }
            continue;
        }
        let (body, length, quoted) = match quoted(rest) {
            Some((inner, length)) => (inner, length, true),
            None => {
                let body = bare(rest);
                (body, body.len(), false)
            }
        };
        let marks = marks(rest.get(length..).unwrap_or_default());
        let end = at + (length + marks.len()).max(first.len_utf8());
        let word = Word {
            text: body.to_owned(),
            lower: body.to_lowercase(),
            quoted,
            colon: marks.contains(':'),
            place: at..end,
        };
        at = end;
        let joins = marks.is_empty() && word.is(&JOINS);
        if let Some(clause) = clauses.last_mut().filter(|_| !joins) {
            match clause.last_mut().filter(|_| word.text.is_empty() && !quoted) {
                // A colon that stands alone belongs to the word before it.
                Some(before) => before.colon |= word.colon,
                None if quoted || !word.text.is_empty() => clause.push(word),
                None => {}
            }
        }
        if joins || marks.contains(ENDS) {
            clauses.push(Vec::new());
        }
    }
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

/// The quoted text that `rest` begins with, and its length with the quotes. An apostrophe within a word ends nothing.
fn quoted(rest: &str) -> Option<(&str, usize)> {
    let mut characters = rest.char_indices();
    let (_, open) = characters.next()?;
    let (_, close) = QUOTES.into_iter().find(|(begin, _)| *begin == open)?;
    let (end, _) = characters.find(|(at, c)| {
        let after = rest.get(at + c.len_utf8()..).and_then(|after| after.chars().next());
        *c == close && !after.is_some_and(char::is_alphanumeric)
    })?;
    Some((rest.get(open.len_utf8()..end)?, end + close.len_utf8()))
}

/// The word that `rest` begins with, without the punctuation after it.
fn bare(rest: &str) -> &str {
    let end = rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(rest.len());
    let whole = rest.get(..end).unwrap_or_default();
    // `notes.txt:text`: a name ends at its colon. A time or a web address does not.
    let name = whole.split_once(':').map(|(before, _)| before).filter(|before| before.contains('.'));
    name.unwrap_or(whole).trim_end_matches(ENDS).trim_end_matches(':')
}

fn marks(rest: &str) -> &str {
    let end = rest.find(|c: char| c != ':' && !ENDS.contains(&c)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(message: &str) -> Vec<Vec<String>> {
        clauses(message)
            .into_iter()
            .map(|clause| clause.into_iter().map(|word| word.text).collect())
            .collect()
    }

    #[test]
    fn requests_come_apart_and_names_stay_whole() {
        assert_eq!(
            shape(
                "List the files, then read a.txt and b/c.md. Delete \"my, notes and more.txt\"; what's on?"
            ),
            [
                vec!["List", "the", "files"],
                vec!["read", "a.txt"],
                vec!["b/c.md"],
                vec!["Delete", "my, notes and more.txt"],
                vec!["what's", "on"],
            ]
        );
        assert_eq!(shape("write notes.txt:hello at 9:30"), [["write", "notes.txt", "hello", "at", "9:30"]]);
        let words = clauses("write notes.txt : 'x'").remove(0);
        assert!(words[1].colon && words[2].quoted);
        assert_eq!(shape(" \n ,; . "), Vec::<Vec<String>>::new());
    }

    proptest! {
        #[test]
        fn every_word_lies_where_it_says(message in "(\\PC|[a-z .,:;\"'“”\n]| and ){0,40}") {
            let mut before = 0;
            for word in clauses(&message).into_iter().flatten() {
                prop_assert!(word.place.start >= before);
                prop_assert!(message.get(word.place.clone()).is_some_and(|text| text.contains(&word.text)));
                before = word.place.end;
            }
        }
    }
}
