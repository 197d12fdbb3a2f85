//! Servers and tools: how each server does, which tools it offers, and what the rules make of them.

use super::decision as words;
use super::error::WebError;
use super::events::Region;
use super::extract::Query;
use super::frame::{Frame, Place};
use super::guard::CurrentUser;
use super::respond::render;
use super::state::WebState;
use super::ui::{Badge, Icon, Marked, Risk, Tone, ToolName};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use sluicegate_gateway::{Catalogue, ServerState, ServerStatus, ToolDefinition};
use sluicegate_policy::{
    Arguments, Because, Counters, Effect, Labels, LocalTimes, Origin, Part, PolicyContext, Principal, Role,
    RuleId, RuleSet, Timestamp, TokenUsage, Verdict, evaluate,
};

/// Everyone who is signed in may look.
pub(super) fn router() -> Router<WebState> {
    Router::new().route("/tools", get(show))
}

#[derive(Debug, Deserialize)]
struct Asked {
    server: Option<String>,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    servers: Vec<ServerLine>,
    shown: Option<Server>,
    governed: bool,
}

/// A server in the list.
#[derive(Debug)]
struct ServerLine {
    name: String,
    tone: Tone,
    tools: usize,
    sub: String,
    current: bool,
}

/// The server that is shown.
#[derive(Debug)]
struct Server {
    name: String,
    tone: Tone,
    state: &'static str,
    transport: &'static str,
    about: Option<Marked>,
    note: Option<Marked>,
    noise: Vec<Marked>,
    given: Vec<Marked>,
    left_out: Vec<(Marked, Marked)>,
    tools: Vec<Tool>,
}

#[derive(Debug)]
struct Tool {
    name: ToolName,
    title: Option<Marked>,
    description: Marked,
    digest: String,
    claims: Vec<&'static str>,
    read_only: bool,
    /// A tier line names it; else it is of tier high.
    listed: bool,
    fate: Option<Fate>,
}

/// What the rules make of a tool, whatever its arguments.
#[derive(Debug)]
struct Fate {
    risk: Risk,
    badge: Badge,
    by: Vec<RuleId>,
    depends: Vec<RuleId>,
}

async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let frame = state.frame(&user, Place::Tools, "Tools", Region::Frame).await?;
    let catalogue = state.catalogue.snapshot();
    let rules = state
        .policy()
        .await?
        .and_then(|entry| entry.revision.document.compile(RuleSet::default().defaults()).ok());
    let wanted = asked.0.server.as_deref();
    let status = match wanted {
        Some(name) => Some(
            catalogue
                .servers()
                .iter()
                .find(|server| server.name.as_str() == name)
                .ok_or(WebError::NotFound)?,
        ),
        None => catalogue.servers().first(),
    };
    let current = status.map(|status| &status.name);
    let servers = catalogue
        .servers()
        .iter()
        .map(|server| line(server, &catalogue, current == Some(&server.name)))
        .collect();
    let shown = status.map(|status| server(status, &catalogue, rules.as_ref()));
    Ok(render(&ToolsPage { frame, servers, shown, governed: rules.is_some() }))
}

fn state_of(status: &ServerStatus) -> (Tone, &'static str) {
    match status.state {
        ServerState::Connecting => (Tone::Info, "Connecting"),
        ServerState::Ready => (Tone::Allow, "Connected"),
        ServerState::Unavailable => (Tone::Hold, "Unavailable"),
    }
}

fn tools_of<'a>(
    catalogue: &'a Catalogue,
    server: &'a ServerStatus,
) -> impl Iterator<Item = &'a ToolDefinition> {
    catalogue.tools().filter(|tool| *tool.tool().server() == server.name).map(AsRef::as_ref)
}

fn line(server: &ServerStatus, catalogue: &Catalogue, current: bool) -> ServerLine {
    let (tone, state) = state_of(server);
    ServerLine {
        name: server.name.to_string(),
        tone,
        tools: tools_of(catalogue, server).count(),
        sub: match server.state {
            ServerState::Ready => server.transport.to_owned(),
            ServerState::Connecting | ServerState::Unavailable => {
                format!("{}, {}", server.transport, state.to_lowercase())
            }
        },
        current,
    }
}

fn server(status: &ServerStatus, catalogue: &Catalogue, rules: Option<&RuleSet>) -> Server {
    let (tone, state) = state_of(status);
    Server {
        name: status.name.to_string(),
        tone,
        state,
        transport: status.transport,
        about: status.about.as_deref().map(Marked::of),
        note: status.note.as_deref().map(Marked::of),
        noise: status.noise.iter().map(|line| Marked::of(line)).collect(),
        given: status.given.iter().map(|name| Marked::of(name)).collect(),
        left_out: status.left_out.iter().map(|(name, why)| (Marked::of(name), Marked::of(why))).collect(),
        tools: tools_of(catalogue, status).map(|definition| tool(definition, rules)).collect(),
    }
}

fn tool(definition: &ToolDefinition, rules: Option<&RuleSet>) -> Tool {
    let hints = definition.hints();
    let claims = [
        (hints.read_only == Some(true)).then_some("read only"),
        (hints.read_only == Some(false)).then_some("changes things"),
        (hints.destructive == Some(true)).then_some("destructive"),
    ];
    Tool {
        name: ToolName::new(definition.tool().server().as_str(), definition.tool().tool().as_str()),
        title: definition.title().map(Marked::of),
        description: Marked::of(definition.description()),
        digest: definition.digest().to_string(),
        claims: claims.into_iter().flatten().collect(),
        read_only: rules.is_some_and(|rules| rules.is_read_only(definition.tool())),
        listed: rules.is_some_and(|rules| rules.is_listed(definition.tool())),
        fate: rules.and_then(|rules| fate(definition, rules)),
    }
}

/// A call of an approver from the chat, with nothing said of its arguments: what matches whatever they are, and which
/// rules look at them first. `None` only if nobody can ask.
fn fate(definition: &ToolDefinition, rules: &RuleSet) -> Option<Fate> {
    let caller = sluicegate_policy::CallerId::new("someone").ok()?;
    let tier = rules.tier(definition.tool(), definition.hints());
    let principal = Principal { caller, role: Role::Approver };
    let counted = rules.rate_rules(definition.tool(), tier, &principal, Origin::Chat);
    let context = PolicyContext {
        tool: definition.tool().clone(),
        tier,
        arguments: Arguments::default(),
        principal,
        origin: Origin::Chat,
        conversation: None,
        token_usage: TokenUsage::default(),
        counters: counted.into_iter().map(|query| (query.rule, 0)).collect::<Counters>(),
        labels: Labels::new(),
        now: Timestamp(0),
        local_times: LocalTimes::new(),
    };
    let decision = evaluate(&context, rules);
    let (mut effect, mut by, mut depends) = (None::<Effect>, Vec::new(), Vec::new());
    for considered in decision.considered.iter() {
        let open = matches!(
            considered.because,
            Because::Unevaluable { part: Part::Condition(_) | Part::Hours, .. } | Because::ConditionFalse(_)
        );
        match considered.verdict {
            Verdict::Matched(_) | Verdict::NotMatched if open => depends.push(considered.rule.clone()),
            Verdict::Matched(of) if effect.is_none_or(|held| of > held) => {
                effect = Some(of);
                by = vec![considered.rule.clone()];
            }
            Verdict::Matched(of) if effect == Some(of) => by.push(considered.rule.clone()),
            Verdict::Matched(_) | Verdict::NotMatched | Verdict::Shadow(_) | Verdict::Disabled => {}
        }
    }
    Some(Fate { risk: Risk(tier), badge: words::badge(effect.unwrap_or(Effect::Deny)), by, depends })
}
