//! Which tools a server offers: all pages, within bounds, each definition pinned.

use crate::upstream::http::Fault;
use crate::upstream::masking::Masks;
use crate::upstream::wire;
use rmcp::model::{ErrorCode, PaginatedRequestParams};
use rmcp::service::{Peer, RoleClient, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;
use sluicegate_gateway::{Digest, ToolDefinition};
use sluicegate_policy::{ServerName, ToolName, ToolRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const MAX_PAGES: usize = 500;
const MAX_TOOLS: usize = 2000;
/// Bytes of all definitions of a server, and of one, as JSON.
const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_DEFINITION: usize = 256 * 1024;
/// Tools left out that are listed one by one.
const MAX_LEFT_OUT: usize = 100;
/// Marks parameters that travel as headers too.
const HEADER_ANNOTATION: &str = "\"x-mcp-header\"";
/// Time for all pages together.
const LIMIT: Duration = Duration::from_secs(60);

/// The tools of one server, by name.
pub(crate) type Tools = BTreeMap<ToolName, Arc<ToolDefinition>>;

/// What discovery found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) tools: Tools,
    /// Tools that cannot be offered, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// What was not looked at, and why.
    pub(crate) notes: Vec<String>,
}

/// Why the tools could not be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error("its tools could not be listed: {0}")]
    Refused(String),
    #[error("it did not list its tools within {} s", LIMIT.as_secs())]
    Slow,
    #[error("its tools could not be listed: {0}")]
    Lost(String),
    #[error("it does not know its session any more")]
    SessionUnknown,
    #[error("its list of tools cannot be understood")]
    Unreadable,
}

/// The pages as they were sent.
#[derive(Debug, Default)]
struct Listing {
    tools: Vec<Value>,
    /// Names of tools that the client library accepted: it sends their header annotations.
    accepted: BTreeSet<String>,
    bytes: usize,
    notes: Vec<String>,
}

/// Lists and pins the tools. Definitions that have not changed since `known` are kept as they are.
pub(crate) async fn discover(
    peer: &Peer<RoleClient>,
    server: &ServerName,
    identity: Digest,
    known: &Tools,
    masks: &Arc<Masks>,
) -> Result<Found, DiscoveryError> {
    let listing = timeout(LIMIT, list(peer, masks)).await.map_err(|_| DiscoveryError::Slow)??;
    let (server, known, masks) = (server.clone(), known.clone(), Arc::clone(masks));
    // Compiling thousands of schemas takes a while, and must not hold up everything else.
    tokio::task::spawn_blocking(move || pin_all(listing, &server, identity, &known, &masks))
        .await
        .map_err(|_| DiscoveryError::Unreadable)
}

async fn list(peer: &Peer<RoleClient>, masks: &Masks) -> Result<Listing, DiscoveryError> {
    let mut listing = Listing::default();
    let mut cursor: Option<String> = None;
    let mut seen = BTreeSet::new();
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = match peer.list_tools(Some(params)).await {
            Ok(page) => page,
            // It offers no tools at all, which is no failure.
            Err(ServiceError::McpError(error))
                if error.code == ErrorCode::METHOD_NOT_FOUND && cursor.is_none() =>
            {
                return Ok(listing);
            }
            Err(ServiceError::McpError(error)) => {
                return Err(DiscoveryError::Refused(masks.show(&error.message)));
            }
            Err(ServiceError::UnexpectedResponse) => return Err(DiscoveryError::Unreadable),
            Err(ServiceError::TransportSend(error)) => {
                return Err(match error.error.downcast_ref::<Fault>() {
                    Some(StreamableHttpError::SessionExpired) => DiscoveryError::SessionUnknown,
                    Some(StreamableHttpError::Client(fault)) => DiscoveryError::Lost(fault.to_string()),
                    _ => DiscoveryError::Lost("the connection ended".to_owned()),
                });
            }
            Err(_) => return Err(DiscoveryError::Lost("the connection ended".to_owned())),
        };
        let next = page.next_cursor.clone();
        let (tools, accepted) = wire::page_as_sent(page);
        listing.accepted.extend(accepted);
        for tool in tools {
            listing.bytes = listing.bytes.saturating_add(tool.to_string().len());
            if listing.tools.len() >= MAX_TOOLS || listing.bytes > MAX_BYTES {
                let note =
                    format!("it lists more than {MAX_TOOLS} tools or 16 MiB of them; the rest is left out");
                listing.notes.push(note);
                return Ok(listing);
            }
            listing.tools.push(tool);
        }
        match next {
            None => return Ok(listing),
            Some(next) if !seen.insert(next.clone()) => {
                listing.notes.push("its pages of tools go in a circle; what came before is used".to_owned());
                return Ok(listing);
            }
            Some(next) => cursor = Some(next),
        }
    }
    listing.notes.push(format!("it lists more than {MAX_PAGES} pages of tools; the rest is left out"));
    Ok(listing)
}

/// Pins each definition. Of two different ones with one name neither is chosen.
fn pin_all(listing: Listing, server: &ServerName, identity: Digest, known: &Tools, masks: &Masks) -> Found {
    let mut found = Found { notes: listing.notes, ..Found::default() };
    let mut twice = BTreeSet::new();
    let mut by_name: BTreeMap<String, Value> = BTreeMap::new();
    for tool in listing.tools {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match by_name.get(&name) {
            None => {
                by_name.insert(name, tool);
            }
            // The very same definition again is no second tool.
            Some(first) if *first == tool => {}
            Some(_) => {
                twice.insert(name);
            }
        }
    }
    let mut left_out = BTreeMap::new();
    for (name, tool) in by_name {
        let text = tool.to_string();
        let pinned = if twice.contains(&name) {
            Err("its server lists this name twice, and neither is chosen".to_owned())
        } else if text.len() > MAX_DEFINITION {
            Err("its definition is larger than 256 KiB".to_owned())
        } else if text.contains(HEADER_ANNOTATION) && !listing.accepted.contains(&name) {
            Err("its header annotations (`x-mcp-header`) are not valid".to_owned())
        } else {
            pin(tool, &name, server, identity, known)
        };
        match pinned {
            Ok(definition) => {
                found.tools.insert(definition.tool().tool().clone(), definition);
            }
            Err(reason) => {
                left_out.insert(masks.show(&name), masks.show(&reason));
            }
        }
    }
    let more = left_out.len().saturating_sub(MAX_LEFT_OUT);
    found.left_out = left_out.into_iter().take(MAX_LEFT_OUT).collect();
    if more > 0 {
        found.notes.push(format!("{more} more tools are left out"));
    }
    found
}

fn pin(
    tool: Value,
    name: &str,
    server: &ServerName,
    identity: Digest,
    known: &Tools,
) -> Result<Arc<ToolDefinition>, String> {
    let name = ToolName::new(name).map_err(|error| error.to_string())?;
    if let Some(same) = known.get(&name).filter(|known| known.as_received() == &tool) {
        return Ok(Arc::clone(same));
    }
    let tool_ref = ToolRef::new(server.clone(), name);
    ToolDefinition::pin(tool_ref, identity, tool).map(Arc::new).map_err(|error| error.to_string())
}
