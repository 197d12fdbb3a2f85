//! Requests about reminders, messages, devices and doors.

use super::{Intent, Reading, joined, split_at_word, without};
use crate::llm::demo::clauses::Word;

const LIST: [&str; 15] = [
    "list", "show", "what", "what's", "which", "see", "display", "read", "tell", "do", "any", "are", "is",
    "give", "get",
];
const ADD: [&str; 8] = ["add", "create", "make", "set", "new", "put", "schedule", "save"];
const DELETE: [&str; 6] = ["delete", "remove", "erase", "cancel", "clear", "drop"];
const ARTICLES: [&str; 9] = ["the", "a", "an", "my", "our", "all", "this", "that", "its"];
const ABOUT: [&str; 8] = ["to", "for", "about", "that", "saying", "called", "named", "of"];
const SAYING: [&str; 5] = ["saying", "says", "say", "that", "reading"];

pub(super) fn read(clause: &[Word]) -> Option<Reading> {
    let (verb, rest) = clause.split_first()?;
    let has = |any: &[&str]| clause.iter().any(|word| word.is(any));
    if verb.is(&["remind"]) {
        return remind(rest);
    }
    if has(&["reminder", "reminders"]) {
        return reminder(verb, rest);
    }
    if verb.is(&["send", "message", "text", "tell", "write"]) {
        return message(verb, rest);
    }
    let whole = |intent| Some(Reading::Whole(vec![intent]));
    if verb.is(&["lock"]) {
        return has(&["door", "doors", "house", "home", "gate", "garage"])
            .then(|| thing(rest))
            .and_then(|door| whole(Intent::LockDoor { door }));
    }
    if verb.is(&["unlock"]) {
        return has(&["door", "doors", "house", "home", "gate", "garage"])
            .then(|| thing(rest))
            .and_then(|door| whole(Intent::UnlockDoor { door }));
    }
    let devices = ["devices", "device", "lights", "appliances", "lamps"];
    let state = verb.is(&["is", "are"]) && has(&["light", "lamp", "door", "locked", "unlocked"]);
    if verb.is(&LIST) && has(&devices) || state {
        return whole(Intent::ListDevices);
    }
    whole(switch(clause)?)
}

pub(super) fn more_of_the_same(last: &Intent, clause: &[Word]) -> Option<Intent> {
    let names_a = |any: &[&str]| clause.last().is_some_and(|word| word.is(any)) && clause.len() < 6;
    match last {
        Intent::SwitchDevice { on, .. } if names_a(&["light", "lights", "lamp", "lamps", "on", "off"]) => {
            let (device, said) = without_on_off(clause);
            Some(Intent::SwitchDevice { device, on: said.unwrap_or(*on) })
        }
        Intent::LockDoor { .. } if names_a(&["door"]) => Some(Intent::LockDoor { door: thing(clause) }),
        Intent::UnlockDoor { .. } if names_a(&["door"]) => Some(Intent::UnlockDoor { door: thing(clause) }),
        _ => None,
    }
}

/// `remind me to TEXT`, `remind me at 9 to TEXT`.
fn remind(rest: &[Word]) -> Option<Reading> {
    let rest = rest.strip_prefix_while(|word| word.is(&["me", "us"]));
    let text = rest.strip_prefix_while(|word| word.is(&["to", "about", "that", "of"]));
    new_reminder(text)
}

fn reminder(verb: &Word, rest: &[Word]) -> Option<Reading> {
    let at = rest.iter().position(|word| word.is(&["reminder", "reminders"]));
    let (before, after) = match at {
        Some(at) => (rest.get(..at)?, rest.get(at + 1..)?),
        None => (&[][..], rest),
    };
    if verb.is(&DELETE) {
        let numbered = after.strip_prefix_while(|word| {
            word.is(&ABOUT) || word.is(&["number", "no", "nr", "#", "with", "id", "the"])
        });
        let between = without(before, &ARTICLES);
        let which =
            if numbered.is_empty() { joined(&between) } else { joined(&numbered.iter().collect::<Vec<_>>()) };
        let intent = Intent::DeleteReminder { which: which.trim_start_matches('#').to_owned() };
        return (!which.is_empty()).then_some(Reading::Whole(vec![intent]));
    }
    if verb.is(&ADD) {
        let text = after.strip_prefix_while(|word| word.is(&ABOUT) || word.is(&["me", "us"]));
        if !text.is_empty() {
            return new_reminder(text);
        }
        // `add TEXT to my reminders`
        let to = before.iter().rposition(|word| word.is(&["to", "as"]))?;
        let text = joined(&before.get(..to)?.iter().collect::<Vec<_>>());
        return (!text.is_empty()).then_some(Reading::Whole(vec![Intent::AddReminder { text }]));
    }
    if verb.is(&["reminder"]) && verb.colon {
        return new_reminder(rest);
    }
    let lists = verb.is(&LIST) || verb.is(&["my", "the", "reminders"]);
    lists.then_some(Reading::Whole(vec![Intent::ListReminders]))
}

fn new_reminder(text: &[Word]) -> Option<Reading> {
    let from = text.first()?.place.start;
    Some(Reading::Open { from, make: Box::new(|text| Intent::AddReminder { text }) })
}

/// `send a message to X: TEXT`, `send X a message saying TEXT`, `send "TEXT" to X`, `text X: TEXT`, `tell X that TEXT`.
fn message(verb: &Word, rest: &[Word]) -> Option<Reading> {
    let fillers = ["a", "the", "message", "text", "note", "to", "short", "this"];
    let name = |words: &[Word]| -> Option<String> {
        let after_to = split_at_word(words, &["to"]).map_or(words, |(_, after)| after);
        let name =
            joined(&without(after_to, &fillers).into_iter().filter(|word| !word.quoted).collect::<Vec<_>>());
        (!name.is_empty()).then_some(name)
    };
    let says_message = verb.is(&["message"]) || rest.iter().any(|word| word.is(&["message", "text", "note"]));
    let colon = rest.iter().position(|word| word.colon);
    let saying = rest.iter().position(|word| word.is(&SAYING));
    let quote = rest.iter().position(|word| word.quoted);
    let mark = [colon.map(|at| at + 1), saying].into_iter().flatten().min();
    if let Some(mark) = mark.filter(|mark| quote.is_none_or(|quote| quote >= *mark)) {
        if verb.is(&["tell"])
            && name(rest.get(..mark)?)
                .as_deref()
                .is_some_and(|name| ["me", "us"].contains(&name.to_lowercase().as_str()))
        {
            return None;
        }
        if verb.is(&["write"]) && !says_message && !rest.first().is_some_and(|word| word.is(&["to"])) {
            return None;
        }
        let to = name(rest.get(..mark)?)?;
        let text = rest.get(mark..)?.strip_prefix_while(|word| word.is(&SAYING));
        let from = text.first()?.place.start;
        let make = Box::new(move |text| Intent::SendMessage { to: to.clone(), text });
        return Some(Reading::Open { from, make });
    }
    if !verb.is(&["send", "message", "text"]) {
        return None;
    }
    if let Some(quote) = quote {
        let text = rest.get(quote)?.text.clone();
        let after = rest.get(quote + 1..)?;
        let to =
            if after.iter().any(|word| word.is(&["to"])) { name(after)? } else { name(rest.get(..quote)?)? };
        return Some(Reading::Whole(vec![Intent::SendMessage { to, text }]));
    }
    // `send hello to X`
    let to = rest.iter().rposition(|word| word.is(&["to"]))?;
    let text = joined(&without(rest.get(..to)?, &["a", "the", "message", "text"]));
    let to = name(rest.get(to + 1..)?)?;
    (verb.is(&["send"]) && !text.is_empty()).then_some(Reading::Whole(vec![Intent::SendMessage { to, text }]))
}

/// `turn on the kitchen light`, `switch the hall lamp off`, `lights off`.
fn switch(clause: &[Word]) -> Option<Intent> {
    let verb = clause.first()?.is(&["turn", "switch", "put"]);
    let short = clause.len() < 5 && clause.iter().any(|word| word.is(&["light", "lights", "lamp"]));
    let (device, on) = without_on_off(clause);
    let on = on.filter(|_| verb || short && clause.last().is_some_and(|word| word.is(&["on", "off"])))?;
    (!device.is_empty()).then_some(Intent::SwitchDevice { device, on })
}

fn without_on_off(clause: &[Word]) -> (String, Option<bool>) {
    let on = clause.iter().find(|word| word.is(&["on", "off"])).map(|word| word.is(&["on"]));
    let mut fillers = ARTICLES.to_vec();
    fillers.extend(["turn", "switch", "put", "on", "off"]);
    (joined(&without(clause, &fillers)), on)
}

fn thing(words: &[Word]) -> String {
    joined(&without(words, &ARTICLES))
}

/// Words without those at the beginning that fit.
trait StripPrefixWhile {
    fn strip_prefix_while(&self, fits: impl Fn(&Word) -> bool) -> &[Word];
}

impl StripPrefixWhile for [Word] {
    fn strip_prefix_while(&self, fits: impl Fn(&Word) -> bool) -> &[Word] {
        let at = self.iter().take_while(|word| fits(word)).count();
        self.get(at..).unwrap_or_default()
    }
}
