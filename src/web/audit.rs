//! The trail: calls by filters in the address, one call's story, other events.

mod call;
mod events;

pub(super) use events::facts;

use super::error::WebError;
use super::events::Region;
use super::extract::Query;
use super::figures::{Moment, grouped, took};
use super::frame::{Frame, Place};
use super::guard::CurrentUser;
use super::respond::render;
use super::state::WebState;
use super::ui::{Badge, Icon, Marked, ToolName, call_state};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use sluicegate_gateway::CallState;
use sluicegate_policy::CallerId;
use sluicegate_store::{CallFilter, CallRow, Verified};

const PAGE: usize = 50;
/// Calls that are read at once where a text is looked for, and how often at most for one page.
const CHUNK: u32 = 200;
const CHUNKS: usize = 10;

/// Everyone who is signed in may look; settling an unknown outcome takes an admin.
pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/audit", get(list))
        .route("/audit/events", get(events::list))
        .route("/audit/calls/{id}", get(call::show))
        .route("/audit/calls/{id}/resolve", post(call::resolve))
}

/// What is looked for, as it stands in the address. Empty means everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    state: String,
    server: String,
    tool: String,
    caller: String,
    q: String,
    from: String,
    until: String,
    before: Option<i64>,
    verify: Option<String>,
}

impl Asked {
    fn filter(&self) -> Result<CallFilter, WebError> {
        let some = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let state = match self.state.as_str() {
            "" => None,
            word => Some(CallState::parse(word).ok_or_else(|| {
                WebError::Invalid("The address asks for a state that no call can have".to_owned())
            })?),
        };
        let caller = match some(&self.caller) {
            None => None,
            Some(caller) => {
                Some(CallerId::new(&caller).map_err(|error| WebError::Invalid(error.to_string()))?)
            }
        };
        Ok(CallFilter {
            server: some(&self.server),
            tool: some(&self.tool),
            state,
            caller,
            conversation: None,
            from_ms: moment(&self.from)?,
            until_ms: moment(&self.until)?,
        })
    }

    fn is_empty(&self) -> bool {
        [&self.state, &self.server, &self.tool, &self.caller, &self.q, &self.from, &self.until]
            .iter()
            .all(|text| text.trim().is_empty())
    }

    /// The address of the calls before one.
    fn older(&self, before: i64) -> String {
        let (mut fields, before) = (Vec::new(), before.to_string());
        for (name, value) in [
            ("state", &self.state),
            ("server", &self.server),
            ("tool", &self.tool),
            ("caller", &self.caller),
            ("q", &self.q),
            ("from", &self.from),
            ("until", &self.until),
            ("before", &before),
        ] {
            fields.push((name, value.as_str()));
        }
        address("/audit", &fields)
    }
}

/// An address with these fields as its query; empty ones are left out.
pub(super) fn address(path: &str, fields: &[(&str, &str)]) -> String {
    let mut to = path.to_owned();
    for (n, (name, value)) in fields.iter().filter(|(_, value)| !value.is_empty()).enumerate() {
        to.push(if n == 0 { '?' } else { '&' });
        to.push_str(name);
        to.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    to.push(char::from(byte))
                }
                _ => to.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    to
}

/// A moment as the browser's field for date and time writes it, in the server's zone.
fn moment(text: &str) -> Result<Option<i64>, WebError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let local: Option<DateTime> = text.parse().ok();
    let stamp = local.and_then(|local| TimeZone::system().to_timestamp(local).ok());
    stamp.map(|stamp| Some(stamp.as_millisecond())).ok_or_else(|| {
        WebError::Invalid(
            "The address holds a time that cannot be read; write it like 2026-11-30T14:05".to_owned(),
        )
    })
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    asked: Asked,
    calls: Vec<Line>,
    older: Option<String>,
    /// How far a search for a text came without filling the page.
    stopped: bool,
    rows: String,
    head: String,
    verified: Option<Result<String, String>>,
}

/// A call in the list.
#[derive(Debug)]
struct Line {
    id: String,
    at: Moment,
    tool: ToolName,
    caller: Marked,
    state: CallState,
    badge: Badge,
    why: Marked,
    took: String,
}

fn line(call: &CallRow) -> Line {
    let (tone, icon, word) = call_state(call.state);
    Line {
        id: call.id.to_string(),
        at: Moment::at_ms(call.requested_ms),
        tool: ToolName::new(&call.server, &call.tool),
        caller: Marked::of(call.caller.principal.caller.as_str()),
        state: call.state,
        badge: Badge { tone, icon, word: word.to_owned(), plain: true },
        why: Marked::of(&call.sentence),
        took: call.ended_ms.map(|end| took(end.saturating_sub(call.requested_ms))).unwrap_or_default(),
    }
}

async fn list(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let asked = asked.0;
    let (calls, next, stopped) = find(&state, &asked).await?;
    let verified = match asked.verify {
        None => None,
        Some(_) => Some(match state.audit.verify(|_, _| {}).await? {
            Verified::Whole(head) => Ok(grouped(u64::try_from(head.seq).unwrap_or_default())),
            Verified::Broken(broken) => Err(broken.to_string()),
        }),
    };
    let head = state.audit.head().await?;
    Ok(render(&AuditPage {
        frame: state.frame(&user, Place::Audit, "Audit", Region::Frame).await?,
        calls: calls.iter().map(line).collect(),
        older: next.map(|before| asked.older(before)),
        asked,
        stopped,
        rows: grouped(u64::try_from(head.seq).unwrap_or_default()),
        head: head.hash,
        verified,
    }))
}

/// The calls that are asked for, where the next page begins, and whether a search ended before the page was full. A text
/// is looked for in what people read of a call: tool, reason and caller.
async fn find(state: &WebState, asked: &Asked) -> Result<(Vec<CallRow>, Option<i64>, bool), WebError> {
    let filter = asked.filter()?;
    let wanted = asked.q.trim().to_lowercase();
    if wanted.is_empty() {
        let page = state.calls.list(&filter, asked.before, u32::try_from(PAGE).unwrap_or(CHUNK)).await?;
        return Ok((page.rows, page.next, false));
    }
    let (mut found, mut before) = (Vec::new(), asked.before);
    for _ in 0..CHUNKS {
        let page = state.calls.list(&filter, before, CHUNK).await?;
        for call in page.rows {
            let place = call.requested_seq;
            let name = format!("{}/{}", call.server, call.tool);
            let texts = [&name, &call.sentence, call.caller.principal.caller.as_str()];
            if texts.iter().any(|text| text.to_lowercase().contains(&wanted)) {
                found.push(call);
            }
            if found.len() >= PAGE {
                return Ok((found, Some(place), false));
            }
        }
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok((found, None, false)),
        }
    }
    Ok((found, before, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_from_the_address_and_kept_in_it() {
        let asked = Asked {
            state: "denied".to_owned(),
            tool: "a&b".to_owned(),
            q: "é".to_owned(),
            ..Asked::default()
        };
        assert_eq!(asked.filter().unwrap().state, Some(CallState::Denied));
        assert_eq!(asked.older(7), "/audit?state=denied&tool=a%26b&q=%C3%A9&before=7");
        for bad in [
            Asked { state: "maybe".to_owned(), ..Asked::default() },
            Asked { caller: "two words".to_owned(), ..Asked::default() },
            Asked { from: "yesterday".to_owned(), ..Asked::default() },
        ] {
            assert!(matches!(bad.filter(), Err(WebError::Invalid(_))), "{bad:?}");
        }
        assert!(moment("2026-11-30T14:05").unwrap().is_some());
    }
}
