//! The page's event stream: the region as it is now, then whatever changes in it.
//!
//! Nothing is stored for replay: on every connect the present state is rendered, so that a page that was away shows
//! neither a stale card nor one card twice. Who falls behind gets the present state again. Every page works without.

use super::agent;
use super::approvals;
use super::audit;
use super::error::WebError;
use super::extract::Query;
use super::fragment::{Fragment, Sent, Swap};
use super::frame::{GateStatus, NavPending};
use super::guard::CurrentUser;
use super::session;
use super::state::WebState;
use crate::agent::Live;
use axum::extract::State;
use axum::http::HeaderName;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use futures::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use sluicegate_gateway::ApprovalId;
use sluicegate_policy::ConversationId;
use sluicegate_store::Change;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tower_sessions::Session;

/// Streams that one session may have open. Browsers open six connections to a host; hidden pages close theirs.
const MOST_PER_SESSION: usize = 8;
/// Streams that may be open in all.
const MOST: usize = 512;
/// How long changes are gathered before the page is told.
const GATHER: Duration = Duration::from_millis(40);
/// The same where every call changes the page.
const GATHER_CALLS: Duration = Duration::from_secs(1);
/// How often a stream looks whether its session still stands, and sends a comment if nothing else was sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The open streams, by session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<String, Open>>>);

/// The open streams of one session.
#[derive(Debug, Default)]
struct Open {
    count: usize,
    ended: CancellationToken,
}

/// An open stream's place; gives it back when dropped.
#[derive(Debug)]
struct Place {
    streams: Streams,
    session: String,
    ended: CancellationToken,
}

impl Streams {
    fn take(&self, session: String) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().map(|open| open.count).sum::<usize>() >= MOST {
            return None;
        }
        let mine = open.entry(session.clone()).or_default();
        if mine.count >= MOST_PER_SESSION {
            return None;
        }
        mine.count = mine.count.saturating_add(1);
        let ended = mine.ended.clone();
        Some(Place { streams: self.clone(), session, ended })
    }

    /// Ends the streams of a session that was signed out.
    pub(crate) fn end(&self, session: &str) {
        if let Some(open) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(session) {
            open.ended.cancel();
        }
    }

    /// Ends every stream.
    pub(crate) fn end_all(&self) {
        for open in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            open.ended.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = open.get_mut(&self.session) {
            mine.count = mine.count.saturating_sub(1);
            if mine.count == 0 {
                open.remove(&self.session);
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Asked {
    page: Option<String>,
    conversation: Option<String>,
    approval: Option<String>,
}

/// What a stream keeps alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    /// What stands around every page: the number of held calls, the state of the gate.
    Frame,
    /// The approvals page.
    Approvals,
    /// One held call's page.
    Approval(String),
    /// One conversation and the list of them.
    Agent(ConversationId),
    /// The list of conversations alone.
    Conversations,
    /// The latest calls of the trail.
    Trail,
}

impl Region {
    /// The address of its stream.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Frame => "/events".to_owned(),
            Self::Approvals => "/events?page=approvals".to_owned(),
            Self::Approval(id) => format!("/events?page=approval&approval={id}"),
            Self::Agent(conversation) => format!("/events?page=agent&conversation={conversation}"),
            Self::Conversations => "/events?page=agent".to_owned(),
            Self::Trail => "/events?page=audit".to_owned(),
        }
    }

    async fn of(asked: &Asked, state: &WebState, user: &CurrentUser) -> Result<Self, WebError> {
        match (asked.page.as_deref(), asked.conversation.as_deref(), asked.approval.as_deref()) {
            (None, None, None) => Ok(Self::Frame),
            (Some("approvals"), None, None) => Ok(Self::Approvals),
            (Some("approval"), None, Some(id)) => match ApprovalId::parse(id) {
                Some(id) => Ok(Self::Approval(id.to_string())),
                None => Err(WebError::NotFound),
            },
            (Some("agent"), None, None) => Ok(Self::Conversations),
            (Some("audit"), None, None) => Ok(Self::Trail),
            (Some("agent"), Some(id), None) => Ok(Self::Agent(agent::own(state, user, id).await?.id)),
            _ => Err(WebError::NotFound),
        }
    }

    /// Whether a change can be seen in it. When in doubt, yes: what does not differ is not sent.
    fn shows(&self, change: &Change) -> bool {
        match change {
            Change::Approval { .. } | Change::Policy(_) | Change::Elsewhere => true,
            Change::Call { conversation, .. } => match self {
                Self::Agent(mine) => conversation.as_ref() == Some(mine),
                Self::Approvals | Self::Approval(_) | Self::Trail => true,
                Self::Frame | Self::Conversations => false,
            },
            Change::Conversation(_) => matches!(self, Self::Agent(_) | Self::Conversations),
            Change::Audit(_) | Change::People | Change::Keys => false,
        }
    }
}

/// `/events`
pub(crate) fn router() -> Router<WebState> {
    Router::new().route("/events", get(events))
}

async fn events(
    State(state): State<WebState>,
    user: CurrentUser,
    session: Session,
    Query(asked): Query<Asked>,
) -> Result<Response, WebError> {
    let region = Region::of(&asked, &state, &user).await?;
    let key = session.id().ok_or(WebError::SignIn)?.to_string();
    let place = state.streams().take(key).ok_or(WebError::TooMany("open pages with a live connection"))?;
    let (shutdown, ended) = (state.shutdown.clone(), place.ended.clone());
    // Before anything is rendered: what changes from here on is not missed.
    let feed = state.feed.subscribe();
    let live = match &region {
        Region::Agent(conversation) => Some(state.agent.live(conversation)),
        _ => None,
    };
    let reader = Reader {
        state,
        user,
        session,
        region,
        feed,
        live,
        sent: Sent::default(),
        known: None,
        turns: None,
        check_at: Instant::now() + KEEP_ALIVE,
        fresh: true,
        _place: place,
    };
    let stream = reader.into_stream().take_until(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = ended.cancelled() => {}
        }
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    Ok(([(HeaderName::from_static("x-accel-buffering"), "no")], Sse::new(stream).keep_alive(keep_alive))
        .into_response())
}

/// One stream.
struct Reader {
    state: WebState,
    user: CurrentUser,
    session: Session,
    region: Region,
    feed: Receiver<Change>,
    live: Option<Receiver<Live>>,
    sent: Sent,
    /// Held calls that the page has been told of.
    known: Option<Vec<String>>,
    /// The turns that the page shows.
    turns: Option<Vec<String>>,
    check_at: Instant,
    fresh: bool,
    _place: Place,
}

/// Why a stream goes on.
enum Wake {
    /// Something may look different now.
    Changed,
    /// A piece of text that is being written.
    Piece(Fragment),
    /// Time to look whether the session still stands.
    Check,
    /// The product stops.
    Over,
}

impl Reader {
    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut reader| async move {
            let fragments = reader.next().await?;
            let data: String = fragments.iter().map(ToString::to_string).collect();
            Some((Ok(Event::default().data(data)), reader))
        })
    }

    /// The next fragments; `None` when the stream is to end.
    async fn next(&mut self) -> Option<Vec<Fragment>> {
        loop {
            let wake = if std::mem::take(&mut self.fresh) { Wake::Changed } else { self.wake().await };
            match wake {
                Wake::Over => return None,
                Wake::Piece(piece) => return Some(vec![piece]),
                Wake::Check => {
                    self.check_at = Instant::now() + KEEP_ALIVE;
                    if !self.still_signed_in().await {
                        return None;
                    }
                }
                Wake::Changed => match self.present().await {
                    Ok(fragments) if fragments.is_empty() => {}
                    Ok(fragments) => return Some(fragments),
                    // The page connects again, and is then told in full.
                    Err(error) => {
                        tracing::warn!(?error, "a live page could not be refreshed");
                        return None;
                    }
                },
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let wake = loop {
            let live = async {
                match &mut self.live {
                    Some(live) => live.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = self.feed.recv() => match change {
                    Ok(change) if self.region.shows(&change) => break Wake::Changed,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => break Wake::Changed,
                    Err(RecvError::Closed) => break Wake::Over,
                },
                change = live => match change {
                    Ok(Live::Delta { text }) => break Wake::Piece(Fragment::text("stream-text", Swap::Append, &text)),
                    Ok(Live::Thinking { text }) => {
                        break Wake::Piece(Fragment::text("stream-thinking", Swap::Append, &text));
                    }
                    Ok(Live::MessageAppended { .. } | Live::CallChanged { .. } | Live::TurnChanged)
                    | Err(RecvError::Lagged(_)) => break Wake::Changed,
                    Err(RecvError::Closed) => break Wake::Over,
                },
                () = sleep_until(self.check_at) => break Wake::Check,
            }
        };
        if matches!(wake, Wake::Changed) {
            sleep(if self.region == Region::Trail { GATHER_CALLS } else { GATHER }).await;
            // What else has changed meanwhile is covered by the present state.
            self.feed = self.feed.resubscribe();
        }
        wake
    }

    /// From the store: the session may have been ended, or the role changed, elsewhere.
    async fn still_signed_in(&self) -> bool {
        session::still_stands(&self.state, &self.session, &self.user).await
    }

    /// What the page should show now and does not yet.
    async fn present(&mut self) -> Result<Vec<Fragment>, WebError> {
        let mut fragments = around(&self.state).await?;
        match &self.region {
            Region::Frame => {}
            Region::Trail => fragments.extend(audit::live(&self.state).await?),
            Region::Approvals => {
                let (page, waiting) = approvals::fragments(&self.state, &self.user).await?;
                fragments.extend(page);
                fragments.extend(approvals::announcement(self.known.as_deref(), &waiting));
                self.known = Some(waiting.into_iter().map(|held| held.id).collect());
            }
            Region::Approval(id) => {
                fragments.extend(approvals::card_fragment(&self.state, &self.user, id).await?)
            }
            Region::Conversations => {
                fragments.extend(agent::list_fragments(&self.state, &self.user, None).await?)
            }
            Region::Agent(conversation) => {
                // View and stream from one moment: text that is in the view does not come again as a piece.
                let (turn, live) = self.state.agent.watch(conversation);
                self.live = Some(live);
                let agent::Live { whole, turns, each, around } =
                    agent::live(&self.state, &self.user, conversation, turn).await?;
                fragments.extend(around);
                if self.turns.as_ref() == Some(&turns) {
                    fragments.extend(each);
                } else {
                    // What is sent as a whole counts as sent turn by turn.
                    self.sent.news(each);
                    fragments.extend(whole);
                    self.turns = Some(turns);
                }
                fragments.extend(agent::list_fragments(&self.state, &self.user, Some(conversation)).await?);
            }
        }
        Ok(self.sent.news(fragments))
    }
}

/// What stands around every page.
pub(crate) async fn around(state: &WebState) -> Result<Vec<Fragment>, WebError> {
    let pending = NavPending(state.calls.pending_count().await?);
    let gate = GateStatus::under(state.policy().await?.map(|policy| policy.revision.id.0));
    Ok([
        Fragment::new("nav-pending", Swap::Whole, &pending),
        Fragment::new("gate-status", Swap::Whole, &gate),
    ]
    .into_iter()
    .flatten()
    .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f36_streams_are_bounded_and_places_come_back() {
        let streams = Streams::default();
        let mut places: Vec<_> =
            (0..MOST_PER_SESSION).map(|_| streams.take("a".to_owned()).unwrap()).collect();
        assert!(streams.take("a".to_owned()).is_none());
        assert!(streams.take("b".to_owned()).is_some());
        places.pop();
        assert!(streams.take("a".to_owned()).is_some());
        streams.end("b");
        assert!(places.iter().all(|place| !place.ended.is_cancelled()));
        streams.end("a");
        assert!(places.iter().all(|place| place.ended.is_cancelled()));
        drop(places);
        assert!(streams.0.lock().unwrap().is_empty());
        let many: Vec<_> = (0..MOST).filter_map(|n| streams.take(n.to_string())).collect();
        assert_eq!(many.len(), MOST);
        assert!(streams.take("one more".to_owned()).is_none());
    }
}
