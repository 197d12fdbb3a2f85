//! In which form a held call is answered: decided from what the client declares and how long such clients wait.

use serde_json::{Map, Value};
use sluicegate_policy::{CallerId, Tier};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a client that is not known is kept waiting: some give up at 60 s, and few say so.
const UNKNOWN: Duration = Duration::from_secs(45);
/// Clients that are known to wait longer, by how they name themselves.
const PATIENT: [(&str, Duration); 2] =
    [("claude-code", Duration::from_secs(240)), ("gemini-cli", Duration::from_secs(300))];
/// Questions of one call that a client answers by asking again; then it gets the confirmation id instead. The client
/// libraries stop after about ten.
const MAX_ROUNDS: u32 = 6;
/// States that are kept at once, and for how long.
const MAX_STATES: usize = 10_000;
const STATE_LIFE: Duration = Duration::from_secs(3600);

/// The form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Wait on the open connection, at most so long; then the confirmation id.
    Hold(Duration),
    /// The confirmation id at once.
    Confirmation,
    /// A question to the client: open the page, then ask again.
    InputRequired,
    /// A task that the client asks about.
    Task,
}

/// What decides the form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// Whether it opens addresses for its user.
    pub(crate) opens_urls: bool,
    /// Whether it takes tasks for answers.
    pub(crate) tasks: bool,
    /// Whether the call was answered without an end before, so that waiting for it promises nothing new.
    pub(crate) detached: bool,
    /// How it names itself.
    pub(crate) name: &'a str,
    /// Questions that were asked of it about this call before.
    pub(crate) rounds: u32,
}

/// Decides. A call of the high tier is never waited for on the first time.
pub(crate) fn choose(tier: Tier, client: Client<'_>) -> Form {
    match (client.opens_urls, client.rounds) {
        (true, 0) => Form::InputRequired,
        _ if client.tasks => Form::Task,
        (true, 1..MAX_ROUNDS) => Form::Hold(UNKNOWN),
        (true, _) => Form::Confirmation,
        (false, _) if client.detached => Form::Hold(UNKNOWN),
        (false, _) => match tier {
            Tier::High => Form::Confirmation,
            Tier::Safe | Tier::Moderate => Form::Hold(patience(client.name)),
        },
    }
}

/// Whether a client that was kept waiting in vain is asked again.
pub(crate) fn asks_again(client: Client<'_>) -> bool {
    client.opens_urls && client.rounds < MAX_ROUNDS
}

fn patience(name: &str) -> Duration {
    PATIENT.iter().find(|(known, _)| *known == name).map_or(UNKNOWN, |(_, limit)| *limit)
}

/// Whether the client declares that it opens addresses: an empty declaration means forms alone.
pub(crate) fn opens_urls(capabilities: Option<&Map<String, Value>>) -> bool {
    capabilities
        .and_then(|capabilities| capabilities.get("elicitation"))
        .and_then(|elicitation| elicitation.get("url"))
        .is_some_and(Value::is_object)
}

/// 64 hexadecimal digits that nobody can guess.
pub(crate) fn secret() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    }))
}

/// What a state given to a client stands for. The client holds only a name for it that it cannot guess; the rest stays
/// here, so there is nothing to forge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// Whose it is.
    pub(crate) caller: CallerId,
    /// The tool and arguments that it was given for.
    pub(crate) action: String,
    /// Questions asked so far.
    pub(crate) rounds: u32,
}

/// States that are out, each good once.
#[derive(Debug, Default)]
pub(crate) struct States(Mutex<HashMap<String, (Instant, State)>>);

impl States {
    /// Keeps a state and gives its name; `None` if there are too many, or no random numbers.
    pub(crate) fn give(&self, state: State) -> Option<String> {
        let name = secret()?;
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() >= MAX_STATES {
            states.retain(|_, (given, _)| given.elapsed() < STATE_LIFE);
        }
        if states.len() >= MAX_STATES {
            return None;
        }
        states.insert(name.clone(), (Instant::now(), state));
        Some(name)
    }

    /// Takes a state back, for its own caller and action alone. A second time there is none.
    pub(crate) fn take(&self, name: &str, caller: &CallerId, action: &str) -> Option<State> {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (given, state) = states.get(name)?;
        let good = given.elapsed() < STATE_LIFE && state.caller == *caller && state.action == action;
        if good { states.remove(name).map(|(_, state)| state) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn client(opens_urls: bool, name: &str, rounds: u32) -> Client<'_> {
        Client { opens_urls, name, rounds, tasks: false, detached: false }
    }

    #[test]
    fn f19_an_unknown_client_is_never_kept_longer_than_45_s() {
        for name in ["", "claude-ai", "Visual Studio Code", "mcp", "claude-code2"] {
            assert_eq!(choose(Tier::Moderate, client(false, name, 0)), Form::Hold(UNKNOWN), "{name}");
        }
        assert!(UNKNOWN <= Duration::from_secs(45));
        assert_eq!(
            choose(Tier::Moderate, client(false, "claude-code", 0)),
            Form::Hold(Duration::from_secs(240))
        );
    }

    #[test]
    fn a_call_of_the_high_tier_is_answered_at_once() {
        assert_eq!(choose(Tier::High, client(false, "claude-code", 0)), Form::Confirmation);
        assert_eq!(choose(Tier::High, client(true, "x", 0)), Form::InputRequired);
    }

    #[test]
    fn a_repeat_of_what_was_answered_before_waits_a_while_and_tasks_go_to_those_who_take_them() {
        let repeat = Client { detached: true, ..client(false, "claude-code", 0) };
        assert_eq!(choose(Tier::High, repeat), Form::Hold(UNKNOWN));
        let takes = Client { tasks: true, ..client(false, "", 0) };
        assert_eq!((choose(Tier::High, takes), choose(Tier::Moderate, takes)), (Form::Task, Form::Task));
        let both = Client { tasks: true, ..client(true, "", 0) };
        assert_eq!(choose(Tier::High, both), Form::InputRequired, "the person is led to the page first");
        assert_eq!(choose(Tier::High, Client { rounds: 1, ..both }), Form::Task);
    }

    #[test]
    fn questions_to_the_client_end() {
        for tier in [Tier::Safe, Tier::Moderate, Tier::High] {
            assert_eq!(choose(tier, client(true, "", 0)), Form::InputRequired);
            assert_eq!(choose(tier, client(true, "", MAX_ROUNDS)), Form::Confirmation);
            assert!(
                !asks_again(client(true, "", MAX_ROUNDS)) && asks_again(client(true, "", MAX_ROUNDS - 1))
            );
        }
    }

    #[test]
    fn only_a_declared_url_mode_counts() {
        let declared = |value: Value| opens_urls(value.as_object());
        assert!(declared(json!({ "elicitation": { "url": {} } })));
        for not in [
            json!({}),
            json!({ "elicitation": {} }),
            json!({ "elicitation": { "form": {} } }),
            json!({ "url": {} }),
        ] {
            assert!(!declared(not));
        }
    }

    #[test]
    fn a_state_is_good_once_for_its_caller_and_action_alone() {
        let states = States::default();
        let (a, b) = (CallerId::new("key:a").unwrap(), CallerId::new("key:b").unwrap());
        let state = State { caller: a.clone(), action: "x".to_owned(), rounds: 1 };
        let name = states.give(state.clone()).unwrap();
        assert_eq!(states.take(&name, &b, "x"), None, "another caller");
        assert_eq!(states.take(&name, &a, "y"), None, "another action");
        assert_eq!(states.take("forged", &a, "x"), None);
        assert_eq!(states.take(&name, &a, "x"), Some(state));
        assert_eq!(states.take(&name, &a, "x"), None, "replayed");
    }
}
