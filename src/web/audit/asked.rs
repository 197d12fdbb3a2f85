//! What is looked for, as it stands in the address.

use crate::web::error::WebError;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use sluicegate_gateway::{CallState, ReasonCode};
use sluicegate_policy::{CallerId, ConversationId, Effect};
use sluicegate_store::CallFilter;

/// Spans up to now that can be asked for by a word: in the address, on the page, in milliseconds.
pub(super) const TIMES: [(&str, &str, i64); 4] = [
    ("1h", "Last hour", 3_600_000),
    ("24h", "Last 24 hours", 24 * 3_600_000),
    ("7d", "Last 7 days", 7 * 24 * 3_600_000),
    ("30d", "Last 30 days", 30 * 24 * 3_600_000),
];

/// What is looked for. Empty means everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) time: String,
    pub(super) decision: String,
    pub(super) state: String,
    pub(super) code: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) caller: String,
    pub(super) conversation: String,
    /// `1`: only calls whose results were flagged.
    pub(super) flagged: String,
    pub(super) q: String,
    pub(super) from: String,
    pub(super) until: String,
    pub(super) before: Option<i64>,
}

impl Asked {
    pub(super) fn filter(&self, now_ms: i64) -> Result<CallFilter, WebError> {
        let some = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let caller = match some(&self.caller) {
            None => None,
            Some(caller) => {
                Some(CallerId::new(&caller).map_err(|error| WebError::Invalid(error.to_string()))?)
            }
        };
        let conversation = match some(&self.conversation) {
            None => None,
            Some(id) => Some(ConversationId::new(&id).map_err(|error| WebError::Invalid(error.to_string()))?),
        };
        let since = match self.time.as_str() {
            "" => None,
            word => Some(now_ms.saturating_sub(
                TIMES.iter().find(|(name, ..)| *name == word).map(|(.., ms)| *ms).ok_or_else(|| {
                    WebError::Invalid("The address asks for a span of time that is not offered".to_owned())
                })?,
            )),
        };
        Ok(CallFilter {
            server: some(&self.server),
            tool: some(&self.tool),
            state: word(&self.state, "state", CallState::parse)?,
            decision: word(&self.decision, "decision", decision)?,
            code: word(&self.code, "reason", ReasonCode::parse)?,
            caller,
            conversation,
            flagged: self.flagged == "1",
            from_ms: since.max(moment(&self.from)?),
            until_ms: moment(&self.until)?,
            text: some(&self.q),
        })
    }

    fn fields(&self) -> [(&'static str, &str); 12] {
        [
            ("time", &self.time),
            ("decision", &self.decision),
            ("state", &self.state),
            ("code", &self.code),
            ("server", &self.server),
            ("tool", &self.tool),
            ("caller", &self.caller),
            ("conversation", &self.conversation),
            ("flagged", &self.flagged),
            ("q", &self.q),
            ("from", &self.from),
            ("until", &self.until),
        ]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields().iter().all(|(_, text)| text.trim().is_empty())
    }

    /// Whether one of the filters that are folded away is in use.
    pub(super) fn has_more(&self) -> bool {
        [&self.code, &self.conversation, &self.flagged, &self.from, &self.until]
            .iter()
            .any(|text| !text.trim().is_empty())
    }

    /// The address of the latest of these calls.
    pub(super) fn latest(&self) -> String {
        address("/audit", &self.fields())
    }

    /// The address of the calls before one.
    pub(super) fn older(&self, before: i64) -> String {
        let before = before.to_string();
        let mut fields = self.fields().to_vec();
        fields.push(("before", &before));
        address("/audit", &fields)
    }
}

/// A word of a closed list; none if it is empty.
fn word<T>(text: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, WebError> {
    match text {
        "" => Ok(None),
        word => parse(word)
            .map(Some)
            .ok_or_else(|| WebError::Invalid(format!("The address asks for a {what} that no call can have"))),
    }
}

fn decision(word: &str) -> Option<Effect> {
    [Effect::Allow, Effect::RequireApproval, Effect::Deny].into_iter().find(|effect| effect.as_str() == word)
}

/// An address with these fields as its query; empty ones are left out.
pub(in crate::web) fn address(path: &str, fields: &[(&str, &str)]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_from_the_address_and_kept_in_it() {
        let asked = Asked {
            state: "denied".to_owned(),
            tool: "a&b".to_owned(),
            q: "é".to_owned(),
            time: "1h".to_owned(),
            ..Asked::default()
        };
        let filter = asked.filter(3_600_001).unwrap();
        assert_eq!((filter.state, filter.from_ms), (Some(CallState::Denied), Some(1)));
        assert_eq!(filter.text.as_deref(), Some("é"));
        assert_eq!(asked.older(7), "/audit?time=1h&state=denied&tool=a%26b&q=%C3%A9&before=7");
        assert_eq!(asked.latest(), "/audit?time=1h&state=denied&tool=a%26b&q=%C3%A9");
        assert_eq!(Asked::default().latest(), "/audit");
        for bad in [
            Asked { state: "maybe".to_owned(), ..Asked::default() },
            Asked { decision: "maybe".to_owned(), ..Asked::default() },
            Asked { code: "maybe".to_owned(), ..Asked::default() },
            Asked { time: "ages".to_owned(), ..Asked::default() },
            Asked { caller: "two words".to_owned(), ..Asked::default() },
            Asked { from: "yesterday".to_owned(), ..Asked::default() },
        ] {
            assert!(matches!(bad.filter(0), Err(WebError::Invalid(_))), "{bad:?}");
        }
        for decision in [Effect::Allow, Effect::RequireApproval, Effect::Deny] {
            let asked = Asked { decision: decision.as_str().to_owned(), ..Asked::default() };
            assert_eq!(asked.filter(0).unwrap().decision, Some(decision));
        }
        assert!(moment("2026-11-30T14:05").unwrap().is_some());
    }
}
