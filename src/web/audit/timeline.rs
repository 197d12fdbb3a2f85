//! One call's life, event by event, and where its time went. Pure.

use super::events::facts;
use crate::web::figures::{Moment, took};
use crate::web::ui::{Marked, Tone};
use serde_json::Value;
use sluicegate_gateway::StoredApproval;
use sluicegate_gateway::audit::{AuditRow, EventKind, Payload};
use sluicegate_store::CallRow;

/// One event.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) tone: Tone,
    pub(super) kind: Marked,
    pub(super) at: String,
    pub(super) iso: String,
    pub(super) text: Marked,
    pub(super) note: Option<Marked>,
    pub(super) hash: String,
    pub(super) seq: i64,
}

/// A part of a call's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spent {
    pub(super) tone: Tone,
    pub(super) what: &'static str,
    pub(super) took: String,
    /// Where its piece of the bar begins and how wide it is, in per cent.
    pub(super) x: String,
    pub(super) width: String,
}

/// The rows of a call's trail, each with the time since the one before.
pub(super) fn timeline(trail: &[AuditRow], payloads: &[(i64, Payload)]) -> Vec<Step> {
    let mut last = None;
    trail
        .iter()
        .map(|row| {
            let moment = Moment::at_ms(row.at_ms);
            let at = match last.replace(row.at_ms) {
                None => format!("{}{}", moment.time, moment.fraction),
                Some(before) => format!("+{}", took(row.at_ms.saturating_sub(before))),
            };
            let note = payloads.iter().find(|(seq, payload)| *seq == row.seq && payload.name == "note");
            Step {
                tone: tone(row),
                kind: Marked::of(&row.kind),
                at,
                iso: moment.iso,
                text: Marked::of(&told(row)),
                note: note.map(|(_, payload)| Marked::of(&payload.text)),
                hash: row.hash.clone(),
                seq: row.seq,
            }
        })
        .collect()
}

/// Where the time of a call that has ended went: waiting for a person, running, and what the gate took for itself.
pub(super) fn spent(call: &CallRow, approval: Option<&StoredApproval>) -> Vec<Spent> {
    let Some(ended) = call.ended_ms else { return Vec::new() };
    let all = ended.saturating_sub(call.requested_ms).max(0);
    let waited = approval.map_or(0, |held| {
        held.decided_at_ms.unwrap_or(ended).saturating_sub(held.stamp.began.wall_ms).clamp(0, all)
    });
    let ran = call.started_ms.map_or(0, |started| ended.saturating_sub(started).clamp(0, all));
    let gate = all.saturating_sub(waited).saturating_sub(ran).max(0);
    let mut from = 0_i64;
    let parts = [
        (Tone::Hold, "waiting for a person", waited, approval.is_some()),
        (Tone::Info, "at the gate", gate, true),
        (Tone::Allow, "running", ran, call.started_ms.is_some()),
    ];
    parts
        .into_iter()
        .filter(|(.., there)| *there)
        .map(|(tone, what, ms, _)| {
            let begins = from;
            from = from.saturating_add(ms);
            Spent { tone, what, took: took(ms), x: share(begins, all), width: share(ms, all) }
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "per cent of a bar")]
fn share(part: i64, of: i64) -> String {
    format!("{:.2}", 100.0 * part as f64 / of.max(1) as f64)
}

/// What happened, as a sentence; an event that this version has no sentence for is told by its facts.
pub(super) fn told(row: &AuditRow) -> String {
    let value: Value = serde_json::from_str(&row.facts).unwrap_or_default();
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| value.get(name).and_then(Value::as_i64).unwrap_or_default();
    let list = |name: &str| {
        let items = value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let by = &row.actor;
    match EventKind::parse(&row.kind) {
        Some(EventKind::ToolRequested) => format!("Asked for by {by}, from {}.", text("origin")),
        Some(EventKind::PolicyDecided) => {
            let says = match text("effect") {
                "allow" => "Allow",
                "require_approval" => "Require approval",
                _ => "Deny",
            };
            let rules = list("rules");
            let because = match (rules.is_empty(), text("code")) {
                (false, _) => format!(", by {rules}"),
                (true, "") => String::new(),
                (true, code) => format!(", {}", code.replace('_', " ")),
            };
            let under = value
                .get("revision")
                .and_then(Value::as_i64)
                .map_or_else(String::new, |revision| format!(", revision {revision} of the rules"));
            let tier =
                if text("tier").is_empty() { String::new() } else { format!(", {} tier", text("tier")) };
            format!("{says}{because}{tier}{under}.")
        }
        Some(EventKind::ApprovalRequired) => {
            let (need, until) = (number("approvers"), Moment::at_ms(number("deadline_ms")).time);
            let people = if need == 1 { "1 person".to_owned() } else { format!("{need} people") };
            format!("Held for {people} with the role {}, at most until {until}.", list("roles"))
        }
        Some(EventKind::ApprovalDecided) => match (text("verdict"), text("status"), text("code")) {
            ("", status, "") => format!("{} by {by}.", capital(status)),
            ("", status, code) => format!("{} by {by}: {}.", capital(status), code.replace('_', " ")),
            (verdict, "pending", _) => {
                format!("{} by {by} ({}); more are needed.", past(verdict), text("role"))
            }
            (verdict, ..) => format!("{} by {by} ({}).", past(verdict), text("role")),
        },
        Some(EventKind::ExecutionStarted) => "The intent was recorded, then it was sent.".to_owned(),
        Some(EventKind::ExecutionRetried) => "Sent once more: it only reads.".to_owned(),
        Some(EventKind::ExecutionCompleted) => {
            format!("Answered after {}, with {} bytes.", took(number("duration_ms")), number("bytes"))
        }
        Some(EventKind::ExecutionFailed) => {
            format!("Failed after {}: {}.", took(number("duration_ms")), text("code").replace('_', " "))
        }
        Some(EventKind::ExecutionUnknown) => {
            format!("What came of it is not known ({}), noticed by {by}.", text("code").replace('_', " "))
        }
        Some(EventKind::ExecutionResolved) => {
            let found = value.get("happened").and_then(Value::as_bool).unwrap_or_default();
            format!("{by} found that it {}.", if found { "happened" } else { "did not happen" })
        }
        _ => format!("By {by}. {}", facts(&row.facts)).trim_end().to_owned(),
    }
}

fn past(verdict: &str) -> &'static str {
    if verdict == "approve" { "Approved" } else { "Denied" }
}

fn capital(word: &str) -> String {
    crate::web::ui::sentence(word)
}

fn tone(row: &AuditRow) -> Tone {
    let facts: Value = serde_json::from_str(&row.facts).unwrap_or_default();
    let says = |name: &str, value: &str| facts.get(name).and_then(Value::as_str) == Some(value);
    match EventKind::parse(&row.kind) {
        Some(EventKind::PolicyDecided) if says("effect", "allow") => Tone::Allow,
        Some(EventKind::PolicyDecided) if says("effect", "require_approval") => Tone::Hold,
        Some(EventKind::PolicyDecided) => Tone::Deny,
        Some(EventKind::ApprovalRequired) => Tone::Hold,
        Some(EventKind::ApprovalDecided) if says("status", "denied") => Tone::Deny,
        Some(EventKind::ApprovalDecided) if says("status", "approved") => Tone::Allow,
        Some(EventKind::ExecutionCompleted) => Tone::Allow,
        Some(EventKind::ToolRequested | EventKind::ExecutionStarted | EventKind::ExecutionRetried) => {
            Tone::Info
        }
        _ => Tone::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(kind: EventKind, actor: &str, facts: &Value) -> AuditRow {
        AuditRow {
            seq: 1,
            version: 1,
            at_ms: 0,
            kind: kind.as_str().to_owned(),
            call: None,
            actor: actor.to_owned(),
            facts: facts.to_string(),
            commitments: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        }
    }

    #[test]
    fn every_event_of_a_call_is_a_sentence() {
        let table = [
            (EventKind::ToolRequested, json!({"origin": "chat"}), "Asked for by x, from chat."),
            (
                EventKind::PolicyDecided,
                json!({"effect": "allow", "rules": ["a", "b"], "tier": "safe", "revision": 3}),
                "Allow, by a, b, safe tier, revision 3 of the rules.",
            ),
            (EventKind::PolicyDecided, json!({"effect": "deny", "code": "no_rule"}), "Deny, no rule."),
            (
                EventKind::ApprovalDecided,
                json!({"status": "pending", "verdict": "approve", "role": "admin"}),
                "Approved by x (admin); more are needed.",
            ),
            (
                EventKind::ApprovalDecided,
                json!({"status": "denied", "verdict": "deny", "role": "admin"}),
                "Denied by x (admin).",
            ),
            (
                EventKind::ApprovalDecided,
                json!({"status": "withdrawn", "code": "withdrawn"}),
                "Withdrawn by x: withdrawn.",
            ),
            (EventKind::ExecutionResolved, json!({"happened": false}), "x found that it did not happen."),
            (
                EventKind::ExecutionFailed,
                json!({"code": "timed_out", "duration_ms": 30}),
                "Failed after 30 ms: timed out.",
            ),
            (EventKind::SignedOut, json!({"person": "p"}), "By x. person: p"),
        ];
        for (kind, facts, sentence) in table {
            assert_eq!(told(&row(kind, "x", &facts)), sentence);
        }
        // What cannot be read is no reason to fail.
        let broken =
            AuditRow { facts: "no JSON".to_owned(), ..row(EventKind::PolicyDecided, "x", &json!({})) };
        assert_eq!(told(&broken), "Deny.");
    }
}
