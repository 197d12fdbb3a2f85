//! What a message asks for. Pure: text in, a list of requests out, in the order in which they were written.

mod files;
mod home;

use super::clauses::{Word, clauses};

/// One request to one of the shipped servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// Which files there are, in a folder or at the top.
    ListFiles { folder: Option<String> },
    /// What a file holds.
    ReadFile { path: String },
    /// A file with this text.
    WriteFile { path: String, content: String },
    /// Another place or name for a file.
    MoveFile { from: String, to: String },
    /// A file gone.
    DeleteFile { path: String },
    /// Which reminders there are.
    ListReminders,
    /// A new reminder.
    AddReminder { text: String },
    /// A reminder gone, by its number or by words of its text.
    DeleteReminder { which: String },
    /// A message to somebody.
    SendMessage { to: String, text: String },
    /// Which devices there are, and how they stand.
    ListDevices,
    /// A device on or off, by words of its name.
    SwitchDevice { device: String, on: bool },
    /// A door locked.
    LockDoor { door: String },
    /// A door unlocked.
    UnlockDoor { door: String },
}

/// A message, understood as far as it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Understood {
    /// The requests.
    pub(super) intents: Vec<Intent>,
    /// The parts that were not understood, as written.
    pub(super) rest: Vec<String>,
}

/// A clause, understood.
enum Reading {
    /// It says all itself.
    Whole(Vec<Intent>),
    /// Its last part is free text, which begins there and may go on in the clauses after it.
    Open { from: usize, make: Box<dyn Fn(String) -> Intent> },
}

/// Reads a message. A free text (of a file, a message, a reminder) goes on until a clause that is a request itself;
/// quotes keep everything within them.
pub(super) fn understand(message: &str) -> Understood {
    let clauses = clauses(message);
    let mut understood = Understood::default();
    let mut left = clauses.as_slice();
    while let Some((clause, after)) = left.split_first() {
        left = after;
        let plain = plain(clause);
        if plain.is_empty() {
            continue;
        }
        match read(plain) {
            Some(Reading::Whole(intents)) => understood.intents.extend(intents),
            Some(Reading::Open { from, make }) => {
                let more = after.iter().take_while(|clause| read(self::plain(clause)).is_none()).count();
                let (text, others) = after.split_at_checked(more).unwrap_or((&[], after));
                left = others;
                let end = text.last().unwrap_or(clause).last().map_or(from, |word| word.place.end);
                understood.intents.push(make(free_text(message, clause, from, end, others.is_empty())));
            }
            None => match understood.intents.last().and_then(|last| more_of_the_same(last, plain)) {
                Some(intent) => understood.intents.push(intent),
                None => understood.rest.push(as_written(message, plain)),
            },
        }
    }
    name_what_it_means(&mut understood);
    understood
}

fn read(clause: &[Word]) -> Option<Reading> {
    files::read(clause).or_else(|| home::read(clause))
}

/// `read a.txt and b.txt`: a clause that only names another thing repeats the request before it.
fn more_of_the_same(last: &Intent, clause: &[Word]) -> Option<Intent> {
    files::more_of_the_same(last, clause).or_else(|| home::more_of_the_same(last, clause))
}

fn free_text(message: &str, clause: &[Word], from: usize, end: usize, is_last: bool) -> String {
    let mut inside = clause.iter().filter(|word| word.place.start >= from);
    if let (Some(word), None) = (inside.next(), inside.next())
        && word.quoted
        && word.place.end == end
    {
        return word.text.clone();
    }
    let text = message.get(from..end).unwrap_or_default().trim();
    // The punctuation before another request is not part of the text.
    if is_last { text } else { text.trim_end_matches([',', ';', '.']) }.to_owned()
}

fn as_written(message: &str, clause: &[Word]) -> String {
    let start = clause.first().map_or(0, |word| word.place.start);
    let end = clause.last().map_or(start, |word| word.place.end);
    message.get(start..end).unwrap_or_default().trim_end_matches([',', ';', '.']).to_owned()
}

/// `write a.txt: x, then read it`: the file named last. Without one the request is not understood.
fn name_what_it_means(understood: &mut Understood) {
    let mut last: Option<String> = None;
    let Understood { intents, rest } = understood;
    intents.retain_mut(|intent| {
        let (named, then) = match intent {
            Intent::ReadFile { path } | Intent::DeleteFile { path } | Intent::WriteFile { path, .. } => {
                (path, None)
            }
            Intent::MoveFile { from, to } => (from, Some(to)),
            _ => return true,
        };
        if named == IT {
            let Some(last) = &last else {
                rest.push(IT.to_owned());
                return false;
            };
            named.clone_from(last);
        }
        last = Some(then.unwrap_or(named).clone());
        true
    });
}

/// How a request names the file of the request before it.
const IT: &str = "it";

/// Words of courtesy and order at the beginning of a clause.
const OPENERS: [&str; 36] = [
    "please", "kindly", "also", "now", "next", "first", "firstly", "second", "secondly", "third", "finally",
    "lastly", "so", "just", "hi", "hello", "hey", "ok", "okay", "thanks", "thank", "you", "can", "could",
    "would", "will", "i", "want", "need", "like", "to", "let's", "lets", "then", "after", "that",
];

/// The same at its end.
const CLOSERS: [&str; 9] = ["please", "now", "thanks", "again", "too", "aloud", "thank", "you", "afterwards"];

/// The clause without courtesies and list marks.
fn plain(clause: &[Word]) -> &[Word] {
    let is_mark = |word: &Word| {
        let text = word.text.trim_end_matches(')');
        !word.quoted
            && (text.chars().all(|c| c.is_ascii_digit())
                || ["-", "*", "•", "–"].contains(&word.text.as_str()))
    };
    let start = clause.iter().take_while(|word| word.is(&OPENERS) || is_mark(word)).count();
    let plain = clause.get(start..).unwrap_or_default();
    let closers = plain.iter().rev().take_while(|word| word.is(&CLOSERS)).count();
    plain.get(..plain.len() - closers).unwrap_or_default()
}

/// The words without these.
fn without<'a>(words: &'a [Word], fillers: &[&str]) -> Vec<&'a Word> {
    words.iter().filter(|word| !word.is(fillers)).collect()
}

fn joined(words: &[&Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// The words after the first one of these, and those before it.
fn split_at_word<'a>(words: &'a [Word], any: &[&str]) -> Option<(&'a [Word], &'a [Word])> {
    let at = words.iter().position(|word| word.is(any))?;
    Some((words.get(..at)?, words.get(at + 1..)?))
}

#[cfg(test)]
mod tests;
