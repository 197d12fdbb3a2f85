//! One call's whole story, and the word of an admin on an outcome that is not known.

use super::super::arguments::ArgumentList;
use super::super::decision::{self, MatchLine};
use super::super::error::WebError;
use super::super::events::Region;
use super::super::extract::{Form, Path};
use super::super::figures::{Moment, took};
use super::super::frame::{Frame, Place};
use super::super::guard::{Admin, CurrentUser};
use super::super::respond::{render, see_other};
use super::super::state::WebState;
use super::super::ui::{Badge, Icon, Marked, Risk, ToolName, call_state};
use super::timeline::{Spent, Step, spent, timeline};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use sluicegate_gateway::{CallId, CallState};
use sluicegate_policy::{Origin, PolicyDocument, Role, RuleId};
use sluicegate_store::{CallRow, CallStory, Evaluation, ResolutionOutcome};

const MOST_NOTE: usize = 1_000;

#[derive(Template)]
#[template(path = "audit_call.html")]
struct CallPage {
    frame: Frame,
    id: String,
    tool: ToolName,
    badge: Badge,
    risk: Option<Risk>,
    sentence: Marked,
    facts: Vec<(&'static str, Marked)>,
    /// Its conversation, and whether the one who looks may open it.
    conversation: Option<(String, bool)>,
    timeline: Vec<Step>,
    spent: Vec<Spent>,
    evaluations: Vec<Judged>,
    arguments: Option<ArgumentList>,
    result: Option<Marked>,
    approval: Option<Held>,
    flags: Vec<String>,
    resolution: Option<Marked>,
    resolvable: bool,
    before: String,
    after: String,
    total: String,
    printed: Moment,
}

#[derive(Debug)]
struct Judged {
    n: i64,
    at: Moment,
    badge: Badge,
    sentence: Marked,
    revision: Option<i64>,
    lines: Vec<MatchLine>,
    would: Vec<RuleId>,
}

#[derive(Debug)]
struct Held {
    id: String,
    status: &'static str,
    by: Marked,
    note: Option<Marked>,
    need: u32,
    votes: Vec<Marked>,
}

pub(super) async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    id: Path<String>,
) -> Result<Response, WebError> {
    let id = CallId::parse(&id.0).ok_or(WebError::NotFound)?;
    let story = state.calls.call(id).await?.ok_or(WebError::NotFound)?;
    let policy = state.policy().await?;
    let document = policy.as_ref().map(|policy| &policy.revision.document);
    let frame = state.frame(&user, Place::Audit, "Call", Region::Frame).await?;
    Ok(render(&page(frame, &user, &story, document, state.now_ms())))
}

fn page(
    frame: Frame,
    user: &CurrentUser,
    story: &CallStory,
    document: Option<&PolicyDocument>,
    now_ms: i64,
) -> CallPage {
    let call = &story.call;
    let (tone, icon, word) = call_state(call.state);
    let result = story.payloads.iter().rev().find(|(_, payload)| payload.name == "result");
    CallPage {
        frame,
        id: call.id.to_string(),
        tool: ToolName::new(&call.server, &call.tool),
        badge: Badge { tone, icon, word: word.to_owned(), plain: false },
        risk: call.tier.map(Risk),
        sentence: Marked::of(&call.sentence),
        facts: about(call),
        conversation: call
            .conversation
            .as_ref()
            .map(|id| (id.to_string(), call.origin == Origin::Chat && call.caller.owner == user.person)),
        timeline: timeline(&story.trail, &story.payloads),
        spent: spent(call, story.approval.as_ref()),
        evaluations: story.evaluations.iter().map(|evaluation| judged(evaluation, document)).collect(),
        arguments: call.arguments.as_deref().map(ArgumentList::of),
        result: result.map(|(_, payload)| Marked::of(&readable(&payload.text))),
        approval: story.approval.as_ref().map(|held| Held {
            id: held.id.to_string(),
            status: held.status.as_str(),
            by: Marked::of(held.decided_by.as_deref().unwrap_or("nobody yet")),
            note: held.note.as_deref().map(Marked::of),
            need: held.terms.approvers,
            votes: held
                .votes
                .iter()
                .map(|vote| Marked::of(&format!("{} by {} ({})", vote.verdict, vote.person, vote.role)))
                .collect(),
        }),
        flags: call.flags.clone(),
        resolution: call.resolution.as_ref().map(|found| {
            let said = if found.happened { "it happened" } else { "it did not happen" };
            Marked::of(&format!("{} said on {}: {said}", found.by, Moment::at_ms(found.at_ms).date))
        }),
        resolvable: call.state == CallState::Unknown && call.resolution.is_none() && user.role == Role::Admin,
        before: story.trail.first().map(|row| row.prev_hash.clone()).unwrap_or_default(),
        after: story.trail.last().map(|row| row.hash.clone()).unwrap_or_default(),
        printed: Moment::at_ms(now_ms),
        total: call.ended_ms.map(|end| took(end.saturating_sub(call.requested_ms))).unwrap_or_default(),
    }
}

fn about(call: &CallRow) -> Vec<(&'static str, Marked)> {
    let asked = Moment::at_ms(call.requested_ms);
    let mut facts = vec![
        ("Asked", Marked::of(&format!("{}, {}", asked.date, asked.time))),
        ("By", Marked::of(&format!("{} ({})", call.caller.principal.caller, call.caller.principal.role))),
        ("Owner", Marked::of(call.caller.owner.as_str())),
        ("From", Marked::of(call.origin.as_str())),
    ];
    let more = [
        ("Reason code", call.code.map(|code| code.to_string())),
        ("Action", call.action.map(|digest| digest.to_string())),
        ("Tool definition", call.definition.map(|digest| digest.to_string())),
        ("Server identity", call.server_identity.map(|digest| digest.to_string())),
    ];
    facts.extend(more.into_iter().filter_map(|(name, value)| Some((name, Marked::of(&value?)))));
    facts
}

fn judged(evaluation: &Evaluation, document: Option<&PolicyDocument>) -> Judged {
    // Conditions are named in the words of the rule as it is now; a rule that is gone names them by number.
    let rule = |id: &RuleId| document.and_then(|document| document.rules.iter().find(|rule| rule.id == *id));
    Judged {
        n: evaluation.n,
        at: Moment::at_ms(evaluation.at_ms),
        badge: decision::badge(evaluation.effect),
        sentence: Marked::of(&evaluation.sentence),
        revision: evaluation.revision.map(|revision| revision.0),
        lines: evaluation.decision.as_ref().map(|found| decision::lines(found, rule)).unwrap_or_default(),
        would: evaluation
            .decision
            .iter()
            .flat_map(|found| found.would_allow().map(|considered| considered.rule.clone()))
            .collect(),
    }
}

/// A result as people read it: the text of its text blocks if it has nothing else, else indented JSON.
fn readable(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let blocks = value.get("content").and_then(Value::as_array);
    let texts: Option<Vec<&str>> = blocks
        .map(|blocks| blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect());
    match (texts, blocks) {
        (Some(texts), Some(blocks))
            if texts.len() == blocks.len() && value.get("structuredContent").is_none() =>
        {
            texts.join("\n")
        }
        _ => serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned()),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Word {
    happened: String,
    #[serde(default)]
    note: String,
}

pub(super) async fn resolve(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<String>,
    word: Form<Word>,
) -> Result<Response, WebError> {
    let call = CallId::parse(&id.0).ok_or(WebError::NotFound)?;
    let happened = match word.0.happened.as_str() {
        "yes" => true,
        "no" => false,
        _ => return Err(WebError::Invalid("Say whether it happened".to_owned())),
    };
    let note = word.0.note.trim();
    if note.is_empty() || note.chars().count() > MOST_NOTE {
        return Err(WebError::Invalid(format!("Say in 1 to {MOST_NOTE} characters how you know")));
    }
    match state.resolutions.resolve_unknown(call, happened, note, &admin.0.person).await? {
        ResolutionOutcome::Recorded => Ok(see_other(&format!("/audit/calls/{call}"))),
        ResolutionOutcome::NotFound => Err(WebError::NotFound),
        ResolutionOutcome::AlreadyResolved => {
            Err(WebError::Conflict("Somebody else has already said what became of this call".to_owned()))
        }
        ResolutionOutcome::NotUnknown(now) => {
            Err(WebError::Conflict(format!("The outcome of this call is known: it is {now}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_as_what_they_say() {
        assert_eq!(
            readable(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#),
            "a\nb"
        );
        assert!(readable(r#"{"content":[{"type":"image","data":"x"}]}"#).contains("\"image\""));
        assert_eq!(readable("<b>"), "<b>");
    }
}
