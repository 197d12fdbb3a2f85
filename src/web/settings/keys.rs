//! Keys of MCP clients: made and revoked by an admin, and how to set up the common clients with one.

use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::{Form, Path};
use crate::web::figures::Moment;
use crate::web::frame::{Frame, Place};
use crate::web::guard::Admin;
use crate::web::respond::{render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Badge, Icon, Marked, Tone};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;
use serde_json::json;
use sluicegate_gateway::Scope;
use sluicegate_policy::Tier;
use sluicegate_store::{Key, KeyName, KeyOutcome, NewKey};

/// What stands in a configuration where the key belongs, once it cannot be shown any more.
const PLACEHOLDER: &str = "YOUR_KEY";
/// Names or patterns that one key may list.
const MAX_NAMES: usize = 50;
const MAX_NAME: usize = 256;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/settings/keys", post(create)).route("/settings/keys/{name}/revoke", post(revoke))
}

/// A key in the list.
#[derive(Debug)]
pub(super) struct KeyLine {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) reaches: Marked,
    pub(super) used: String,
    pub(super) revoked: Option<String>,
    pub(super) badge: Badge,
}

impl KeyLine {
    pub(super) fn of(key: &Key, now_ms: i64) -> Self {
        let day = |ms: i64| {
            let at = Moment::at_ms(ms);
            format!("{}, {}", Moment::day(ms, now_ms), at.short)
        };
        let revoked = key.revoked_ms.map(day);
        let (tone, icon, word) = match revoked {
            Some(_) => (Tone::Neutral, Icon("deny"), "Revoked"),
            None => (Tone::Allow, Icon("check"), "Good"),
        };
        Self {
            name: key.name.to_string(),
            owner: key.owner.to_string(),
            reaches: Marked::of(&reaches(key)),
            used: key.last_used_ms.map_or_else(|| "never".to_owned(), day),
            revoked,
            badge: Badge { tone, icon, word: word.to_owned(), plain: true },
        }
    }
}

/// What a key reaches, in words.
fn reaches(key: &Key) -> String {
    let list =
        |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    let tiers: Vec<String> = key.scope.tiers.iter().map(ToString::to_string).collect();
    let parts = [list("servers", &key.scope.servers), list("tools", &key.scope.tools), list("tiers", &tiers)];
    let mut words: Vec<String> = parts.into_iter().flatten().collect();
    if words.is_empty() {
        words.push("all tools".to_owned());
    }
    if key.audit_read {
        words.push("the whole audit trail".to_owned());
    }
    words.join("; ")
}

/// How one client is set up.
#[derive(Debug)]
pub(super) struct ClientSetup {
    pub(super) id: &'static str,
    pub(super) client: &'static str,
    pub(super) place: &'static str,
    pub(super) text: String,
}

/// Configurations for the common clients, with a key or with a word in its place.
pub(super) fn setups(state: &WebState, token: Option<&str>) -> Vec<ClientSetup> {
    let url = format!("{}/mcp", state.hosts.public());
    let key = token.unwrap_or(PLACEHOLDER);
    let bearer = format!("Bearer {key}");
    let pretty = |value: serde_json::Value| format!("{value:#}");
    let http = json!({ "type": "http", "url": url, "headers": { "Authorization": bearer } });
    vec![
        ClientSetup {
            id: "claude-code",
            client: "Claude Code",
            place: "in a terminal",
            text: format!(
                "claude mcp add --transport http sluicegate {url} --header \"Authorization: {bearer}\""
            ),
        },
        ClientSetup {
            id: "claude-desktop",
            client: "Claude Desktop",
            place: "claude_desktop_config.json",
            text: pretty(json!({ "mcpServers": { "sluicegate": {
                "command": "sluicegate", "args": ["stdio", "--url", url], "env": { "SLUICEGATE_KEY": key }
            } } })),
        },
        ClientSetup {
            id: "vs-code",
            client: "VS Code",
            place: ".vscode/mcp.json",
            text: pretty(json!({ "servers": { "sluicegate": http } })),
        },
        ClientSetup {
            id: "cursor",
            client: "Cursor",
            place: ".cursor/mcp.json",
            text: pretty(json!({ "mcpServers": { "sluicegate": {
                "url": url, "headers": { "Authorization": bearer }
            } } })),
        },
        ClientSetup {
            id: "plain",
            client: "Other clients",
            place: "mcpServers JSON",
            text: pretty(json!({ "mcpServers": { "sluicegate": http } })),
        },
    ]
}

#[derive(Template)]
#[template(path = "settings/key_created.html")]
struct CreatedPage {
    frame: Frame,
    name: String,
    token: String,
    reaches: Marked,
    setups: Vec<ClientSetup>,
}

#[derive(Debug, Deserialize)]
struct NewKeyForm {
    name: String,
    #[serde(default)]
    servers: String,
    #[serde(default)]
    tools: String,
    #[serde(default)]
    safe: Option<String>,
    #[serde(default)]
    moderate: Option<String>,
    #[serde(default)]
    high: Option<String>,
    #[serde(default)]
    audit_read: Option<String>,
}

impl NewKeyForm {
    fn scope(&self) -> Result<Scope, WebError> {
        let ticked = [(Tier::Safe, &self.safe), (Tier::Moderate, &self.moderate), (Tier::High, &self.high)];
        let tiers: std::collections::BTreeSet<Tier> =
            ticked.into_iter().filter(|(_, ticked)| ticked.is_some()).map(|(tier, _)| tier).collect();
        if tiers.is_empty() {
            return Err(WebError::Invalid("A key reaches at least one tier; tick one".to_owned()));
        }
        // All of them is no limit: a tier that is added later is not left out by accident of the form.
        let tiers = if tiers.len() == ticked.len() { std::collections::BTreeSet::new() } else { tiers };
        Ok(Scope { servers: names(&self.servers)?, tools: names(&self.tools)?, tiers })
    }
}

/// Names between commas or spaces.
fn names(text: &str) -> Result<Vec<String>, WebError> {
    let names: Vec<String> =
        text.split([',', ' ', '\n', '\r', '\t']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.len() > MAX_NAMES || names.iter().any(|name| name.len() > MAX_NAME) {
        return Err(WebError::Invalid(format!(
            "At most {MAX_NAMES} names of at most {MAX_NAME} letters can be listed"
        )));
    }
    Ok(names)
}

/// The key is in this answer and nowhere else.
async fn create(
    State(state): State<WebState>,
    Admin(user): Admin,
    Form(form): Form<NewKeyForm>,
) -> Result<Response, WebError> {
    let name = KeyName::new(&form.name).ok_or_else(|| {
        WebError::Invalid("A key's name is 1 to 64 of a-z, 0-9, `.`, `_` and `-`".to_owned())
    })?;
    let new = NewKey {
        name: name.clone(),
        owner: user.person.clone(),
        scope: form.scope()?,
        audit_read: form.audit_read.is_some(),
    };
    let made = match state.keys.create(new, user.person.as_str()).await? {
        KeyOutcome::Created(made) => made,
        KeyOutcome::NameTaken => {
            return Err(WebError::Conflict(format!(
                "There is or was a key `{name}` already; take another name"
            )));
        }
        KeyOutcome::NoSuchOwner => {
            return Err(WebError::Conflict("You are no longer in the list of people".to_owned()));
        }
    };
    let frame = state.frame(&user, Place::Settings, "New key", Region::Frame).await?;
    let setups = setups(&state, Some(&made.token));
    let reaches = Marked::of(&reaches(&made.key));
    Ok(render(&CreatedPage { frame, name: name.to_string(), token: made.token, reaches, setups }))
}

async fn revoke(
    State(state): State<WebState>,
    Admin(user): Admin,
    Path(name): Path<String>,
) -> Result<Response, WebError> {
    let name = KeyName::new(&name).ok_or(WebError::NotFound)?;
    state.keys.revoke(&name, user.person.as_str()).await?;
    Ok(see_other("/settings#keys"))
}
