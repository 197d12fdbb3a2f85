//! Tiers and marks of tools: part of the rules, edited as one form.

use super::backtest::Panel;
use super::{no_policy, reason_of, required, with_status};
use crate::rules::{Change, Edit, RulesError};
use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::Form;
use crate::web::frame::{Frame, Place};
use crate::web::guard::{Admin, CurrentUser};
use crate::web::respond::{Wants, render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Icon, ToolName};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use sluicegate_gateway::RevisionId;
use sluicegate_policy::{Label, OneOrMany, Role, RuleSet, Tier, ToolMark};

/// Marks that an operator may set: the fourth is the anomaly detector's.
const MARKS: [Label; 3] = [Label::UntrustedContent, Label::SensitiveData, Label::ReachesOutside];

#[derive(Template)]
#[template(path = "policies/tiers.html")]
struct TiersPage {
    frame: Frame,
    admin: bool,
    revision: i64,
    lines: Vec<Line>,
    /// Tools on offer that stand on no line.
    unlisted: Vec<ToolName>,
    reason: String,
    notice: Vec<String>,
    panel: Panel,
    overridable: bool,
}

/// A tier line as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    server: String,
    tools: String,
    tier: Tier,
    read_only: bool,
    idempotent: bool,
    marks: Vec<Label>,
}

impl Line {
    fn of(mark: &ToolMark) -> Self {
        Self {
            server: mark.server.0.join(", "),
            tools: mark.tool.0.join(", "),
            tier: mark.tier,
            read_only: mark.read_only,
            idempotent: mark.idempotent,
            marks: mark.marks.iter().copied().collect(),
        }
    }

    fn mark(&self) -> ToolMark {
        let names = |text: &str| {
            let each = text.split([',', '\n']).map(str::trim).filter(|name| !name.is_empty());
            OneOrMany(each.map(str::to_owned).collect())
        };
        ToolMark {
            server: names(&self.server),
            tool: names(&self.tools),
            tier: self.tier,
            read_only: self.read_only,
            idempotent: self.idempotent,
            marks: self.marks.iter().copied().collect(),
        }
    }
}

/// What was typed: lines are numbered, since a box that is not ticked is not sent.
#[derive(Debug, Default)]
struct Typed {
    lines: Vec<Line>,
    revision: i64,
    reason: String,
    despite_tests: bool,
    add: bool,
    remove: Option<usize>,
    preview: bool,
}

impl Typed {
    fn read(fields: &[(String, String)]) -> Self {
        let mut typed = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "revision" => typed.revision = value.parse().unwrap_or_default(),
                "reason" => typed.reason = value.trim().to_owned(),
                "despite_tests" => typed.despite_tests = value == "yes",
                "add" => typed.add = true,
                "remove" => typed.remove = value.parse().ok(),
                "preview" => typed.preview = true,
                // The first field of each line opens it.
                "server" => typed.lines.push(Line {
                    server: value.clone(),
                    tools: String::new(),
                    tier: Tier::High,
                    read_only: false,
                    idempotent: false,
                    marks: Vec::new(),
                }),
                _ => {
                    if let Some(line) = typed.lines.last_mut() {
                        match name.as_str() {
                            "tool" => line.tools = value.clone(),
                            "tier" => line.tier = Tier::from_word(value).unwrap_or(Tier::High),
                            "says" if value == "read_only" => line.read_only = true,
                            "says" if value == "idempotent" => line.idempotent = true,
                            "says" => line.marks.extend(Label::from_word(value)),
                            _ => {}
                        }
                    }
                }
            }
        }
        typed
    }

    fn edit(&self) -> Edit {
        Edit::Tiers(self.lines.iter().map(Line::mark).collect())
    }
}

impl TiersPage {
    async fn new(state: &WebState, user: &CurrentUser, typed: Option<Typed>) -> Result<Self, WebError> {
        let entry = required(state).await?;
        let rules = state.rules.compiled(&entry.revision.document).unwrap_or_default();
        let typed = typed.unwrap_or_else(|| Typed {
            lines: entry.revision.document.tiers.iter().map(Line::of).collect(),
            revision: entry.revision.id.0,
            ..Typed::default()
        });
        Ok(Self {
            frame: state.frame(user, Place::Policies, "Tiers", Region::Frame).await?,
            admin: user.role == Role::Admin,
            revision: typed.revision,
            lines: typed.lines,
            unlisted: unlisted(state, &rules),
            reason: typed.reason,
            notice: Vec::new(),
            panel: Panel::idle(),
            overridable: false,
        })
    }

    fn marks() -> [Label; 3] {
        MARKS
    }

    fn mark_word(mark: &Label) -> &'static str {
        match mark {
            Label::UntrustedContent => "source of untrusted content",
            Label::SensitiveData => "source of sensitive data",
            Label::ReachesOutside => "reaches outside",
            Label::Anomalous => "anomalous",
        }
    }
}

fn unlisted(state: &WebState, rules: &RuleSet) -> Vec<ToolName> {
    let tools = state.catalogue.snapshot();
    let on_no_line = tools.tools().filter(|tool| !rules.is_listed(tool.tool()));
    on_no_line.map(|tool| ToolName::new(tool.tool().server().as_str(), tool.tool().tool().as_str())).collect()
}

pub(super) async fn show(State(state): State<WebState>, user: CurrentUser) -> Result<Response, WebError> {
    Ok(render(&TiersPage::new(&state, &user, None).await?))
}

pub(super) async fn save(
    State(state): State<WebState>,
    admin: Admin,
    wants: Wants,
    fields: Form<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    let mut typed = Typed::read(&fields.0);
    if wants == Wants::Fragment && typed.preview {
        return Ok(render(&Panel::of(&state, typed.edit()).await?));
    }
    if typed.add {
        typed.lines.push(Line {
            server: String::new(),
            tools: String::new(),
            tier: Tier::High,
            read_only: false,
            idempotent: false,
            marks: Vec::new(),
        });
        return Ok(render(&TiersPage::new(&state, &admin.0, Some(typed)).await?));
    }
    if let Some(n) = typed.remove {
        if n < typed.lines.len() {
            typed.lines.remove(n);
        }
        return Ok(render(&TiersPage::new(&state, &admin.0, Some(typed)).await?));
    }
    let edit = typed.edit();
    if typed.preview {
        let mut page = TiersPage::new(&state, &admin.0, Some(typed)).await?;
        page.panel = Panel::of(&state, edit).await?;
        page.overridable = page.panel.failing() > 0;
        return Ok(render(&page));
    }
    let reason = reason_of(&typed.reason)?.to_owned();
    let change =
        Change { author: admin.0.person.as_str(), reason: &reason, despite_tests: typed.despite_tests };
    let (status, notice) = match state.rules.save(edit.clone(), RevisionId(typed.revision), change).await {
        Ok(_) => return Ok(see_other("/policies/tiers")),
        Err(RulesError::Store(error)) => return Err(error.into()),
        Err(RulesError::NoPolicy) => return Err(no_policy()),
        Err(RulesError::Conflict(now)) => {
            typed.revision = now.0;
            let told = format!(
                "The rules were changed meanwhile: revision {} is in force now. Your input is still here; save it once \
                 more if it still fits.",
                now.0
            );
            (StatusCode::CONFLICT, vec![told])
        }
        Err(RulesError::Rule(errors)) => {
            (StatusCode::UNPROCESSABLE_ENTITY, errors.iter().map(ToString::to_string).collect())
        }
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, vec![error.to_string()]),
    };
    let mut page = TiersPage::new(&state, &admin.0, Some(typed)).await?;
    page.panel = Panel::of(&state, edit).await?;
    page.overridable = page.panel.failing() > 0;
    page.notice = notice;
    Ok(with_status(render(&page), status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_shown() {
        let mark: ToolMark = serde_json::from_value(serde_json::json!({
            "server": "s", "tool": ["a", "b*"], "tier": "moderate", "read_only": true, "marks": ["reaches_outside"],
        }))
        .unwrap();
        let line = Line::of(&mark);
        assert_eq!(line.mark(), mark);
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let sent = [
            field("server", "s"),
            field("tool", "a, b*"),
            field("tier", "moderate"),
            field("says", "read_only"),
            field("says", "reaches_outside"),
            field("server", "t"),
            field("tool", "c"),
            field("tier", "nonsense"),
            field("says", "anomalous"),
        ];
        let typed = Typed::read(&sent);
        assert_eq!(typed.lines[0], line);
        assert_eq!((typed.lines[1].tier, typed.lines[1].read_only), (Tier::High, false));
    }
}
