//! A held call as a card: what is asked, by whom, why it is held, how long, and the two forms that answer it.

use crate::web::arguments::ArgumentList;
use crate::web::figures::{self, Moment};
use crate::web::guard::CurrentUser;
use crate::web::ui::{Badge, Icon, Marked, Risk, Tone, ToolName, call_state, components, sentence};
use askama::Template;
use sluicegate_gateway::{ApprovalStatus, CallState, Clocks, StoredApproval, ToolCatalogue, Verdict};
use sluicegate_policy::{Origin, ServerName, Tier, ToolName as PolicyToolName, ToolRef};
use sluicegate_store::PendingCall;

/// Where a card stands; its forms lead back there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On the approvals page.
    Inbox,
    /// In the transcript of its conversation.
    Chat,
}

/// A held call.
#[derive(Clone, Debug, Template)]
#[template(path = "approvals/card.html")]
pub(crate) struct Card {
    /// The approval's id.
    pub(crate) id: String,
    call: String,
    state: CallState,
    tone: Tone,
    icon: Icon,
    heading: &'static str,
    tool: ToolName,
    title: Option<Marked>,
    risk: Option<Risk>,
    waiting: &'static str,
    quorum: Option<(u32, u32)>,
    ring: Option<Ring>,
    arguments: ArgumentList,
    asked_by: String,
    conversation: Option<String>,
    rules: Vec<String>,
    why: String,
    deadline: Option<(Moment, String)>,
    votes: Vec<String>,
    answer: Answer,
    outcome: Option<String>,
    note: Option<Marked>,
    notice: Option<String>,
    place: Place,
}

components!(Card, Ring);

/// Time left.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "approvals/ring.html")]
pub(crate) struct Ring {
    id: String,
    tone: Tone,
    left_ms: i64,
    limit_ms: i64,
}

impl Ring {
    fn left(&self) -> String {
        figures::clock(self.left_ms)
    }

    /// The share that is used, 0 to 100, with one decimal.
    fn used(&self) -> String {
        let limit = self.limit_ms.max(1);
        let used = limit.saturating_sub(self.left_ms).clamp(0, limit);
        let tenths = used.saturating_mul(1_000) / limit;
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// What the reader can do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    /// Answer, with these to be ticked before approving.
    Forms { version: i64, ticks: Vec<Tick>, effect: &'static str },
    /// Only look.
    NotYours,
    /// Nothing: it is over.
    Over,
}

/// Something to be ticked before approving.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Tick {
    name: String,
    says: String,
    target: Option<Marked>,
    ticked: bool,
}

impl Card {
    /// The card of a held call, as it stands at `now`, for this reader.
    pub(crate) fn of(
        held: &PendingCall,
        now: &Clocks,
        user: &CurrentUser,
        catalogue: &ToolCatalogue,
        place: Place,
    ) -> Self {
        let PendingCall { approval, call, evaluation } = held;
        let tier = call.tier.unwrap_or(Tier::High);
        let over = approval.stamp.passed(now);
        let open = approval.is_open();
        let arguments = ArgumentList::of(call.arguments.as_deref().unwrap_or("{}"));
        let limit_ms = approval.stamp.limit_ms;
        let urgent = limit_ms <= 60_000;
        let (tone, icon, _) = call_state(call.state);
        let tone = if open && urgent { Tone::Deny } else { tone };
        let ring = open.then(|| Ring {
            id: approval.id.to_string(),
            tone,
            left_ms: approval.stamp.left_ms(now),
            limit_ms,
        });
        let mine = call.caller.owner == user.person;
        let answer = match (open && !over, user.may_decide()) {
            (false, _) => Answer::Over,
            (true, false) => Answer::NotYours,
            (true, true) => Answer::Forms {
                version: approval.version,
                ticks: ticks(call.server.as_str(), call.tool.as_str(), tier, &arguments),
                effect: match call.origin {
                    Origin::Chat => {
                        "Runs once, with exactly these arguments; the turn goes on with the result."
                    }
                    Origin::Mcp if approval.detached => {
                        "The client is not waiting: this runs once, at your click, with exactly these arguments, and the \
                         client can collect the result for 10 minutes."
                    }
                    Origin::Mcp => "Runs once, with exactly these arguments; the client gets the result.",
                },
            },
        };
        Self {
            id: approval.id.to_string(),
            call: call.id.to_string(),
            state: call.state,
            tone,
            icon,
            heading: if open { "Approval needed" } else { "Held call" },
            tool: ToolName::new(&call.server, &call.tool),
            title: title(catalogue, &call.server, &call.tool),
            risk: call.tier.map(Risk),
            waiting: match (open, over, call.origin, urgent) {
                (true, true, ..) => "Its time is over",
                (true, false, _, true) => "Must be confirmed within 60 s",
                (true, false, Origin::Chat, false) => "Waiting for a person, the turn is paused",
                (true, false, Origin::Mcp, false) => "Waiting for a person, the client is waiting too",
                (false, ..) => "Decided",
            },
            quorum: (approval.terms.approvers > 1).then(|| (given(approval), approval.terms.approvers)),
            ring,
            arguments,
            asked_by: match call.origin {
                Origin::Chat => format!("the chat agent, for {}", call.caller.owner),
                Origin::Mcp => {
                    format!("MCP client {}, of {}", call.caller.principal.caller, call.caller.owner)
                }
            },
            conversation: call
                .conversation
                .as_ref()
                .filter(|_| mine && call.origin == Origin::Chat)
                .map(ToString::to_string),
            rules: call.rules.iter().map(ToString::to_string).collect(),
            why: sentence(evaluation.as_ref().map_or(&call.sentence, |evaluation| &evaluation.sentence)),
            deadline: open.then(|| {
                let left = figures::left(approval.stamp.left_ms(now));
                (Moment::at_ms(approval.stamp.deadline_ms()), left)
            }),
            votes: approval
                .votes
                .iter()
                .filter(|vote| open && vote.verdict == Verdict::Approve)
                .map(|vote| {
                    format!("Approved by {} ({}). More people have to agree.", vote.person, vote.role)
                })
                .collect(),
            answer,
            outcome: outcome(approval),
            note: approval.note.as_deref().map(Marked::of),
            notice: None,
            place,
        }
    }

    /// The same card with a line that says what became of an answer.
    pub(crate) fn with_notice(mut self, notice: impl Into<String>) -> Self {
        self.notice = Some(notice.into());
        self
    }

    /// The same card with these boxes ticked already.
    pub(crate) fn with_ticked(mut self, ticked: &[String]) -> Self {
        if let Answer::Forms { ticks, .. } = &mut self.answer {
            for tick in ticks {
                tick.ticked = ticked.contains(&tick.name);
            }
        }
        self
    }

    /// Whether a box that approving asks for is not ticked.
    pub(crate) fn lacks_a_tick(&self) -> bool {
        self.forms().is_some_and(|(_, ticks, _)| ticks.iter().any(|tick| !tick.ticked))
    }

    /// One sentence for who cannot see it come.
    pub(crate) fn announcement(&self) -> String {
        let left = self.ring.as_ref().map(|ring| figures::left(ring.left_ms)).unwrap_or_default();
        format!("New: {} from {}, {left} to decide.", self.tool.plain(), self.asked_by)
    }

    fn forms(&self) -> Option<(i64, &[Tick], &'static str)> {
        match &self.answer {
            Answer::Forms { version, ticks, effect } => Some((*version, ticks, effect)),
            Answer::NotYours | Answer::Over => None,
        }
    }

    fn not_yours(&self) -> bool {
        self.answer == Answer::NotYours
    }
}

/// People who said yes.
fn given(approval: &StoredApproval) -> u32 {
    let yes = approval.votes.iter().filter(|vote| vote.verdict == Verdict::Approve).count();
    u32::try_from(yes).unwrap_or(u32::MAX)
}

/// The server's own title, where it differs from the true name.
fn title(catalogue: &ToolCatalogue, server: &str, tool: &str) -> Option<Marked> {
    let pair = ToolRef::new(ServerName::new(server).ok()?, PolicyToolName::new(tool).ok()?);
    let snapshot = catalogue.snapshot();
    let title = snapshot.get(&pair)?.title().filter(|title| *title != tool)?;
    Some(Marked::of(title))
}

/// What has to be ticked: high-risk calls name their target, and what is folded must have been opened.
fn ticks(server: &str, tool: &str, tier: Tier, arguments: &ArgumentList) -> Vec<Tick> {
    let mut ticks = Vec::new();
    if tier == Tier::High {
        let (says, target) = match arguments.target() {
            Some(target) => (format!("I have read the arguments, and {tool} may act on"), Some(target)),
            None => (format!("I have read the arguments, and {server} may run"), Some(Marked::of(tool))),
        };
        ticks.push(Tick { name: "confirmed".to_owned(), says, target, ticked: false });
    }
    let opened = arguments.must_open().into_iter().enumerate();
    ticks.extend(opened.map(|(at, what)| Tick {
        name: format!("opened-{at}"),
        says: format!("I have opened and read {what}"),
        target: None,
        ticked: false,
    }));
    ticks
}

/// Who or what decided it and when, in words; `None` while it is open.
pub(crate) fn outcome(approval: &StoredApproval) -> Option<String> {
    let at = approval.decided_at_ms.map(Moment::at_ms);
    let at = at.map(|at| format!(" at {}", at.time)).unwrap_or_default();
    let by = match approval.decided_by.as_deref() {
        None => String::new(),
        Some("timer") => " because nobody decided in time".to_owned(),
        Some("caller") => " because whoever asked went away".to_owned(),
        Some("restart") => " because the product restarted".to_owned(),
        Some("policy") => " by the rules of the moment of running".to_owned(),
        Some(person) => format!(" by {person}"),
    };
    let what = match approval.status {
        ApprovalStatus::Pending => return None,
        ApprovalStatus::Approved | ApprovalStatus::Consumed => "approved",
        ApprovalStatus::Denied => "denied",
        ApprovalStatus::Expired => "expired",
        ApprovalStatus::Withdrawn => "withdrawn",
        ApprovalStatus::Void => "approved, but not run",
    };
    Some(format!("{what}{by}{at}"))
}

/// A line of the list of decided calls.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) href: String,
    pub(crate) tool: ToolName,
    pub(crate) badge: Badge,
    pub(crate) by: String,
    pub(crate) note: Option<Marked>,
    pub(crate) took: String,
    pub(crate) at: Moment,
}

impl Decided {
    /// The line of a decided call.
    pub(crate) fn of(held: &PendingCall) -> Self {
        let approval = &held.approval;
        let (tone, icon, word) = match approval.status {
            ApprovalStatus::Approved | ApprovalStatus::Consumed => (Tone::Allow, "check-circle", "Approved"),
            ApprovalStatus::Denied => (Tone::Deny, "deny", "Denied"),
            ApprovalStatus::Expired => (Tone::Neutral, "expired", "Expired"),
            ApprovalStatus::Withdrawn => (Tone::Neutral, "x", "Withdrawn"),
            ApprovalStatus::Void => (Tone::Deny, "lock", "Approved, not run"),
            ApprovalStatus::Pending => (Tone::Hold, "hold", "Waiting"),
        };
        let decided_ms = approval.decided_at_ms.unwrap_or(approval.stamp.began.wall_ms);
        let by = match approval.decided_by.as_deref() {
            None | Some("timer") => "nobody".to_owned(),
            Some("caller") => "who asked".to_owned(),
            Some("restart") => "restart".to_owned(),
            Some("policy") => "policy".to_owned(),
            Some(person) => person.to_owned(),
        };
        Self {
            href: format!("/approvals/{}", approval.id),
            tool: ToolName::new(&held.call.server, &held.call.tool),
            badge: Badge { tone, icon: Icon(icon), word: word.to_owned(), plain: true },
            by,
            note: approval.note.as_deref().map(Marked::of),
            took: figures::clock(decided_ms.saturating_sub(approval.stamp.began.wall_ms)),
            at: Moment::at_ms(decided_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(tier: Tier, arguments: &serde_json::Value) -> Vec<String> {
        let arguments = ArgumentList::of(&arguments.to_string());
        let target =
            |tick: &Tick| tick.target.as_ref().map(|target| format!(" {}", target.0)).unwrap_or_default();
        ticks("home", "send_message", tier, &arguments)
            .iter()
            .map(|tick| tick.says.clone() + &target(tick))
            .collect()
    }

    /// F28: the tick of a high-risk call names where it goes; what is folded away must have been opened.
    #[test]
    fn f28_ticks_name_the_target_and_what_must_be_opened() {
        let to_ana = serde_json::json!({ "to": "Ana\u{200B}", "body": "x".repeat(5_000) });
        assert_eq!(
            said(Tier::High, &to_ana),
            [
                "I have read the arguments, and send_message may act on Ana[ZWSP]",
                "I have opened and read all of body (5,000 characters)"
            ]
        );
        assert_eq!(
            said(Tier::High, &serde_json::json!({})),
            ["I have read the arguments, and home may run send_message"]
        );
        assert!(said(Tier::Moderate, &serde_json::json!({ "to": "Ana" })).is_empty());
    }

    #[test]
    fn the_ring_shows_the_share_that_is_used() {
        let ring = |left_ms| Ring { id: "x".to_owned(), tone: Tone::Hold, left_ms, limit_ms: 300_000 };
        assert_eq!((ring(204_000).used(), ring(204_000).left()), ("32.0".to_owned(), "3:24".to_owned()));
        assert_eq!((ring(0).used(), ring(400_000).used()), ("100.0".to_owned(), "0.0".to_owned()));
    }
}
