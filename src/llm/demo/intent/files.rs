//! Requests about files.

use super::{IT, Intent, Reading, joined, split_at_word, without};
use crate::llm::demo::clauses::Word;

const LIST: [&str; 14] = [
    "list", "show", "ls", "dir", "display", "see", "what", "which", "are", "give", "what's", "tell", "do",
    "get",
];
const READ: [&str; 10] = ["read", "open", "cat", "show", "display", "print", "view", "see", "type", "get"];
const WRITE: [&str; 6] = ["write", "save", "create", "put", "store", "make"];
const MOVE: [&str; 3] = ["move", "rename", "mv"];
const DELETE: [&str; 6] = ["delete", "remove", "erase", "trash", "rm", "del"];
const QUESTION: [&str; 5] = ["what", "what's", "whats", "tell", "how"];
const FOLDER: [&str; 3] = ["folder", "directory", "subfolder"];
const ARTICLES: [&str; 6] = ["the", "a", "an", "my", "this", "that"];
const TO: [&str; 7] = ["to", "into", "as", "->", "→", "under", "in"];

pub(super) fn read(clause: &[Word]) -> Option<Reading> {
    let (verb, rest) = clause.split_first()?;
    if let Some(reading) = verb.is(&WRITE).then(|| write(verb, rest)).flatten() {
        return Some(reading);
    }
    if about_home(clause) {
        return None;
    }
    let whole = |intents: Vec<Intent>| (!intents.is_empty()).then_some(Reading::Whole(intents));
    if verb.is(&MOVE) {
        return move_file(rest).and_then(|intent| whole(vec![intent]));
    }
    if verb.is(&DELETE) {
        return whole(names(rest).map(|path| Intent::DeleteFile { path }).collect());
    }
    if asks_for_a_list(clause) {
        return whole(vec![Intent::ListFiles { folder: folder(rest) }]);
    }
    if verb.is(&READ) || verb.is(&["contents", "content"]) || is_question_about_content(clause) {
        return whole(names(rest).map(|path| Intent::ReadFile { path }).collect());
    }
    None
}

pub(super) fn more_of_the_same(last: &Intent, clause: &[Word]) -> Option<Intent> {
    let [name] = without(clause, &["the", "file"])[..] else { return None };
    let path = is_name(name).then(|| name.text.clone())?;
    match last {
        Intent::ReadFile { .. } => Some(Intent::ReadFile { path }),
        Intent::DeleteFile { .. } => Some(Intent::DeleteFile { path }),
        _ => None,
    }
}

fn about_home(clause: &[Word]) -> bool {
    clause.iter().any(|word| word.is(&["reminder", "reminders", "message", "devices", "device"]))
}

/// `write NAME: TEXT`, `write NAME with TEXT`, `write TEXT to NAME`, `create an empty file NAME`.
fn write(verb: &Word, rest: &[Word]) -> Option<Reading> {
    let lead = rest.iter().take_while(|word| !is_name(word) && word.is(&WRITE_FILLERS)).count();
    match rest.get(lead).filter(|word| is_name(word) || (lead > 0 && named_by(rest, lead))) {
        Some(name) if name.quoted && !name.colon => text_first(rest).or_else(|| name_first(verb, rest, lead)),
        Some(_) => name_first(verb, rest, lead),
        None => text_first(rest),
    }
}

fn name_first(verb: &Word, rest: &[Word], lead: usize) -> Option<Reading> {
    let name = rest.get(lead)?;
    let after = rest.get(lead + 1..)?;
    let path = name.text.clone();
    let markers = if name.colon { 0 } else { after.iter().take_while(|word| word.is(&TEXT_MARKERS)).count() };
    let text = after.get(markers..)?;
    let from = match text.first() {
        Some(first) if name.colon || markers > 0 || first.quoted || verb.is(&["write"]) => first.place.start,
        // The text may stand in the lines below.
        None if name.colon => name.place.end,
        None if rest.iter().any(|word| word.is(&["empty", "new", "file", "called", "named"])) => {
            return Some(Reading::Whole(vec![Intent::WriteFile { path, content: String::new() }]));
        }
        _ => return None,
    };
    Some(Reading::Open {
        from,
        make: Box::new(move |content| Intent::WriteFile { path: path.clone(), content }),
    })
}

fn text_first(rest: &[Word]) -> Option<Reading> {
    let to = rest.iter().rposition(|word| word.is(&["to", "into", "in"]))?;
    let [name] = without(rest.get(to + 1..)?, &NAME_FILLERS)[..] else { return None };
    let text = rest.get(..to)?;
    let content = match without(text, &["the", "text", "words", "line"])[..] {
        [] => return None,
        [only] if only.quoted => only.text.clone(),
        _ => joined(&text.iter().collect::<Vec<_>>()),
    };
    is_name(name).then(|| Reading::Whole(vec![Intent::WriteFile { path: name.text.clone(), content }]))
}

const WRITE_FILLERS: [&str; 14] =
    ["the", "a", "an", "my", "new", "empty", "text", "file", "called", "named", "to", "into", "in", "as"];
const NAME_FILLERS: [&str; 8] = ["the", "a", "an", "my", "new", "file", "called", "named"];
const TEXT_MARKERS: [&str; 12] = [
    "with",
    "containing",
    "saying",
    "that",
    "says",
    "the",
    "text",
    "content",
    "contents",
    "contains",
    "following",
    "which",
];

fn move_file(rest: &[Word]) -> Option<Intent> {
    let (before, after) = split_at_word(rest, &TO)
        .unwrap_or((rest.get(..rest.len().checked_sub(1)?)?, rest.get(rest.len() - 1..)?));
    let from = names(before).next()?;
    let is_folder = after.iter().any(|word| word.is(&FOLDER));
    let mut fillers = NAME_FILLERS.to_vec();
    fillers.extend(FOLDER);
    let [target] = without(after, &fillers)[..] else { return None };
    let to = if is_folder || target.text.ends_with('/') {
        let name = from.rsplit('/').next().unwrap_or(&from);
        format!("{}/{name}", target.text.trim_end_matches('/'))
    } else {
        target.text.clone()
    };
    Some(Intent::MoveFile { from, to })
}

/// `list the files`, `what files are there in docs`, `ls`, `show me the folder docs`.
fn asks_for_a_list(clause: &[Word]) -> bool {
    let Some((verb, rest)) = clause.split_first() else { return false };
    let about = rest.iter().any(|word| word.is(&["files", "sandbox", "documents"]) || word.is(&FOLDER));
    let alone = rest.is_empty() && verb.is(&["ls", "dir"]);
    let path = verb.is(&["list", "ls", "dir"]) && names(rest).next().is_some();
    verb.is(&LIST) && (about || path) || alone
}

fn folder(rest: &[Word]) -> Option<String> {
    let after = split_at_word(rest, &["in", "of", "inside", "from", "under", "within"])
        .map_or(rest, |(_, after)| after);
    let mut fillers = ARTICLES.to_vec();
    fillers.extend(FOLDER);
    fillers.extend([
        "called", "named", "files", "all", "me", "us", "there", "here", "sandbox", "root", "top", "list",
        "is", "are",
    ]);
    let is_folder = after.iter().any(|word| word.is(&FOLDER)) || after.len() < rest.len();
    match without(after, &fillers)[..] {
        [name] if is_folder || is_name(name) => {
            Some(name.text.trim_end_matches('/').to_owned()).filter(|name| !name.is_empty())
        }
        _ => None,
    }
}

/// `what is in NAME`, `what does NAME say`, `tell me what NAME contains`.
fn is_question_about_content(clause: &[Word]) -> bool {
    let asks = clause.first().is_some_and(|word| word.is(&QUESTION));
    let content = ["in", "inside", "say", "says", "contain", "contains", "content", "contents", "is", "of"];
    asks && clause.iter().any(|word| word.is(&content) || word.is(&["what's", "whats"]))
}

/// The files that are named, in order. After `file`, `called` and `named` any word is a name.
fn names(words: &[Word]) -> impl Iterator<Item = String> + '_ {
    words
        .iter()
        .enumerate()
        .filter(|(at, word)| is_name(word) || word.is(&[IT]) || named_by(words, *at))
        .map(|(_, word)| word.text.trim_end_matches("'s").to_owned())
}

fn named_by(words: &[Word], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let plain = words.get(at).is_some_and(|word| {
        !word.is(&TEXT_MARKERS)
            && !word.is(&NAME_FILLERS)
            && !word.is(&TO)
            && !word.is(&["is", "of", "from", "say"])
    });
    plain && before.is_some_and(|word| word.is(&["file", "called", "named"]))
}

/// Whether a word looks like the name of a file: quoted, with a dot or a slash within, or all capitals (`README`).
fn is_name(word: &Word) -> bool {
    let text = word.text.as_str();
    if word.quoted {
        return !text.is_empty();
    }
    let has_letter = text.chars().any(char::is_alphanumeric);
    let dotted = text.char_indices().any(|(at, c)| {
        c == '.'
            && text.get(at + 1..).and_then(|after| after.chars().next()).is_some_and(char::is_alphanumeric)
    });
    let capitals = text.len() > 2 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let is_number = text.parse::<f64>().is_ok();
    let path = text.contains('/') && !text.contains("://");
    has_letter && !is_number && (dotted && !text.contains("://") || path || capitals)
}
