//! The parts of the chat's pages.

use super::Parts;
use super::transcript::Group;
use crate::agent::{Models, TurnView};
use crate::web::figures::{self, Moment};
use crate::web::frame::Frame;
use crate::web::ui::{Badge, Icon, Tone, ToolName, call_state, components};
use askama::Template;
use sluicegate_gateway::CallState;
use sluicegate_policy::ConversationId;
use sluicegate_store::{CallRow, Conversation, UsageTotals};

/// Calls that are listed beside a transcript: the latest.
const MOST_SIDE_CALLS: usize = 8;

#[derive(Template)]
#[template(path = "agent.html")]
pub(super) struct AgentPage {
    pub(super) frame: Frame,
    pub(super) list: ConversationList,
    pub(super) may_chat: bool,
    pub(super) models: Vec<ModelOption>,
    pub(super) conversation: Conversation,
    pub(super) parts: Parts,
}

#[derive(Template)]
#[template(path = "agent/new.html")]
pub(super) struct NewPage {
    pub(super) frame: Frame,
    pub(super) list: ConversationList,
    /// On a small screen the composer is shown, not the list.
    pub(super) begin: bool,
    pub(super) may_chat: bool,
    pub(super) models: Vec<ModelOption>,
    pub(super) tools: usize,
    pub(super) servers: usize,
    pub(super) budget: Option<String>,
}

/// A provider that can be chosen.
#[derive(Clone, Debug)]
pub(super) struct ModelOption {
    pub(super) provider: &'static str,
    pub(super) label: &'static str,
    pub(super) model: String,
}

pub(super) fn models(models: &Models) -> Vec<ModelOption> {
    models
        .sources()
        .iter()
        .map(|source| ModelOption {
            provider: source.name,
            label: source.label,
            model: source.default_model.clone(),
        })
        .collect()
}

/// The turns of a conversation.
#[derive(Debug, Template)]
#[template(path = "agent/transcript.html")]
pub(super) struct Transcript {
    pub(super) groups: Vec<Group>,
    pub(super) cut: bool,
}

/// What the turn does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Template)]
#[template(
    source = r#"<span class="badge badge--plain {{ self.parts().0 }}" id="turn-state" data-turn="{{ self.parts().3 }}"{% if !self.running() %} hidden{% endif %}>{{ self.parts().1 }}{{ self.parts().2 }}</span>"#,
    ext = "html"
)]
pub(super) struct TurnBadge(Doing);

/// What a turn does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Idle,
    Writing,
    Calling,
    Paused,
    Retrying,
    Stopping,
}

impl TurnBadge {
    /// Of the turn that runs, if one does.
    pub(super) fn of(turn: Option<&TurnView>, held: bool) -> Self {
        Self(match turn {
            None => Doing::Idle,
            Some(turn) if turn.stopping => Doing::Stopping,
            Some(_) if held => Doing::Paused,
            Some(turn) if turn.waiting.is_some() => Doing::Retrying,
            Some(turn) if turn.calls.iter().any(|call| !call.ended) => Doing::Calling,
            Some(_) => Doing::Writing,
        })
    }

    pub(super) fn running(self) -> bool {
        self.0 != Doing::Idle
    }

    fn parts(self) -> (Tone, Icon, &'static str, &'static str) {
        match self.0 {
            Doing::Idle => (Tone::Neutral, Icon("check"), "Done", "idle"),
            Doing::Writing => (Tone::Info, Icon("spin"), "Writing", "writing"),
            Doing::Calling => (Tone::Info, Icon("spin"), "Running a tool", "calling"),
            Doing::Paused => (Tone::Hold, Icon("hold"), "Turn paused", "paused"),
            Doing::Retrying => (Tone::Hold, Icon("spin"), "Waiting for the model", "retrying"),
            Doing::Stopping => (Tone::Neutral, Icon("spin"), "Stopping", "stopping"),
        }
    }

    /// What the composer says beside its buttons.
    pub(super) fn says(self) -> &'static str {
        match self.0 {
            Doing::Idle => "",
            Doing::Writing | Doing::Retrying => "Writing. You can stop it at any time.",
            Doing::Calling => "A tool is running. You can stop it at any time.",
            Doing::Paused => "Waiting for a decision on the call above",
            Doing::Stopping => "Stopping",
        }
    }
}

/// Tokens against the limit.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "agent/budget.html")]
pub(super) struct Budget {
    used: u64,
    limit: Option<u64>,
    estimated: bool,
}

impl Budget {
    pub(super) fn new(usage: &UsageTotals, limit: Option<u64>) -> Self {
        let used = usage.input.saturating_add(usage.output);
        Self { used, limit, estimated: usage.estimated > 0 }
    }

    pub(super) fn used_up(&self) -> bool {
        self.limit.is_some_and(|limit| self.used >= limit)
    }

    fn figure(&self) -> String {
        let about = if self.estimated { "about " } else { "" };
        match self.limit {
            Some(limit) => format!("{about}{} of {}", figures::grouped(self.used), figures::grouped(limit)),
            None => format!("{about}{}", figures::grouped(self.used)),
        }
    }

    /// The marks of the meter: amber from the first, red from the second.
    fn marks(&self, limit: &u64) -> (u64, u64) {
        (limit / 4 * 3, limit / 10 * 9)
    }

    fn share(&self) -> Option<u64> {
        let limit = self.limit.filter(|limit| *limit > 0)?;
        self.used.saturating_mul(100).checked_div(limit)
    }
}

/// What the conversation has done.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "agent/facts.html")]
pub(super) struct Facts {
    conversation: String,
    counts: Vec<(&'static str, usize)>,
    calls: Vec<SideCall>,
    share: Option<u64>,
    estimated: bool,
    used_up: bool,
}

/// A call beside the transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SideCall {
    id: String,
    tool: ToolName,
    badge: Badge,
}

impl Facts {
    pub(super) fn of<'a>(
        conversation: &ConversationId,
        calls: impl Iterator<Item = &'a CallRow>,
        budget: &Budget,
    ) -> Self {
        let mut rows: Vec<&CallRow> = calls.collect();
        rows.sort_by_key(|call| std::cmp::Reverse(call.requested_seq));
        let (mut proposed, mut ran, mut waiting, mut denied, mut other) =
            (0_usize, 0_usize, 0_usize, 0_usize, 0_usize);
        for call in &rows {
            proposed = proposed.saturating_add(1);
            let count = match call.state {
                CallState::Completed | CallState::Executing | CallState::Failed | CallState::Unknown => {
                    &mut ran
                }
                CallState::Pending | CallState::Proposed | CallState::Approved => &mut waiting,
                CallState::Denied => &mut denied,
                CallState::Expired | CallState::Withdrawn => &mut other,
            };
            *count = count.saturating_add(1);
        }
        let counts = vec![
            ("Proposed", proposed),
            ("Ran", ran),
            ("Waiting", waiting),
            ("Denied", denied),
            ("Expired, withdrawn", other),
        ];
        let calls = rows.iter().take(MOST_SIDE_CALLS).map(|call| {
            let (tone, icon, word) = call_state(call.state);
            SideCall {
                id: call.id.to_string(),
                tool: ToolName::new(&call.server, &call.tool),
                badge: Badge { tone, icon, word: word.to_owned(), plain: true },
            }
        });
        Self {
            conversation: conversation.to_string(),
            calls: calls.collect(),
            counts,
            share: budget.share(),
            estimated: budget.estimated,
            used_up: budget.used_up(),
        }
    }
}

/// What stands under the message: what goes on, Stop, Send.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "agent/composer_bar.html")]
pub(super) struct ComposerBar {
    pub(super) conversation: String,
    pub(super) running: bool,
    pub(super) used_up: bool,
    pub(super) says: &'static str,
}

/// A line of the list of conversations.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    id: String,
    title: String,
    current: bool,
    badge: Option<Badge>,
    at: Moment,
    updated_ms: i64,
}

pub(super) fn listed(
    conversation: &Conversation,
    current: Option<&ConversationId>,
    running: bool,
    held: bool,
) -> Listed {
    let badge = |tone, icon, word: &str| Badge { tone, icon: Icon(icon), word: word.to_owned(), plain: true };
    Listed {
        id: conversation.id.to_string(),
        title: conversation.title.clone(),
        current: current == Some(&conversation.id),
        badge: match (held, running) {
            (true, _) => Some(badge(Tone::Hold, "hold", "Waiting for approval")),
            (false, true) => Some(badge(Tone::Info, "spin", "Running")),
            (false, false) => None,
        },
        at: Moment::at_ms(conversation.updated_ms),
        updated_ms: conversation.updated_ms,
    }
}

/// The list of conversations, by day.
#[derive(Clone, Debug, Template)]
#[template(path = "agent/list.html")]
pub(super) struct ConversationList {
    days: Vec<(String, Vec<Listed>)>,
    pub(super) search: Option<String>,
    older: Option<String>,
}

impl ConversationList {
    pub(super) fn new(rows: Vec<Listed>, now_ms: i64, search: Option<String>, older: Option<String>) -> Self {
        let mut days: Vec<(String, Vec<Listed>)> = Vec::new();
        for row in rows {
            let day = Moment::day(row.updated_ms, now_ms);
            match days.last_mut() {
                Some((last, listed)) if *last == day => listed.push(row),
                _ => days.push((day, vec![row])),
            }
        }
        Self { days, search, older }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.days.is_empty()
    }
}

components!(Transcript, TurnBadge, Budget, Facts, ComposerBar, ConversationList);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_says_how_much_is_used_and_whether_it_is_a_guess() {
        let usage = UsageTotals { input: 40_000, output: 1_286, estimated: 12 };
        let budget = Budget::new(&usage, Some(120_000));
        assert_eq!(budget.figure(), "about 41,286 of 120,000");
        assert_eq!((budget.share(), budget.used_up()), (Some(34), false));
        assert!(Budget::new(&usage, Some(41_286)).used_up());
        assert!(Budget::new(&usage, Some(0)).used_up());
        let html = Budget::new(&UsageTotals::default(), None).render().unwrap();
        assert!(!html.contains("<meter"), "{html}");
    }

    #[test]
    fn a_turn_shows_what_it_waits_for() {
        let turn = TurnView::default();
        assert_eq!(TurnBadge::of(None, true).0, Doing::Idle);
        assert_eq!(TurnBadge::of(Some(&turn), false).0, Doing::Writing);
        assert_eq!(TurnBadge::of(Some(&turn), true).0, Doing::Paused);
        assert_eq!(TurnBadge::of(Some(&TurnView { stopping: true, ..turn }), true).0, Doing::Stopping);
    }
}
