//! Signing in by a one-time link, signing out, and the session between the two.

use super::error::WebError;
use super::extract::{Form, Query};
use super::guard::CurrentUser;
use super::respond::{render, see_other};
use super::state::WebState;
use askama::Template;
use async_trait::async_trait;
use axum::extract::State;
use axum::http::header::REFERRER_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, http::Uri};
use serde::Deserialize;
use sluicegate_gateway::{PersonId, StoreError};
use sluicegate_store::{People, SignIn};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::{Expiry, Session, SessionManagerLayer, SessionStore, session_store};

/// How long a session lasts from signing in.
const SESSION_HOURS: i64 = 12;

/// The session's only field: whose it is.
const PERSON: &str = "person";

/// Failed attempts that are looked up and recorded in one [`WINDOW`]; more are refused unread, so that nobody fills
/// the trail by guessing.
const MOST_FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Sessions in our own store.
#[derive(Clone, Debug)]
pub(crate) struct Sessions(People);

/// The layer that reads and writes the session cookie.
pub(crate) fn layer(state: &WebState) -> SessionManagerLayer<Sessions> {
    SessionManagerLayer::new(Sessions(state.people.clone()))
        // Browsers do not tell ports apart: two instances on one host must not sign each other out.
        .with_name(format!("sluicegate_{}", state.hosts.port()))
        .with_secure(state.hosts.secure())
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnInactivity(time::Duration::hours(SESSION_HOURS)))
}

#[async_trait]
impl SessionStore for Sessions {
    async fn create(&self, record: &mut Record) -> session_store::Result<()> {
        // Ids are 128 random bits: a second one that is taken means that something else is wrong.
        for _ in 0..3 {
            if self
                .0
                .create_session(&record.id.to_string(), encode(record)?, expires_ms(record))
                .await
                .map_err(backend)?
            {
                return Ok(());
            }
            record.id = Id::default();
        }
        Err(session_store::Error::Backend("no free session id".to_owned()))
    }

    async fn save(&self, record: &Record) -> session_store::Result<()> {
        self.0
            .save_session(&record.id.to_string(), encode(record)?, expires_ms(record))
            .await
            .map_err(backend)
    }

    async fn load(&self, id: &Id) -> session_store::Result<Option<Record>> {
        let data = self.0.load_session(&id.to_string()).await.map_err(backend)?;
        data.map(|data| {
            serde_json::from_slice(&data).map_err(|error| session_store::Error::Decode(error.to_string()))
        })
        .transpose()
    }

    async fn delete(&self, id: &Id) -> session_store::Result<()> {
        self.0.delete_session(&id.to_string()).await.map_err(backend)
    }
}

fn encode(record: &Record) -> session_store::Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| session_store::Error::Encode(error.to_string()))
}

fn expires_ms(record: &Record) -> i64 {
    i64::try_from(record.expiry_date.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn backend(error: StoreError) -> session_store::Error {
    session_store::Error::Backend(error.to_string())
}

fn unavailable(error: impl std::fmt::Display) -> WebError {
    WebError::Unavailable(format!("the session cannot be read or written: {error}"))
}

/// Whose session it is, with the role of this moment: who was removed, or signed out elsewhere, is nobody.
pub(crate) async fn current_user(
    state: &WebState,
    session: &Session,
) -> Result<Option<CurrentUser>, WebError> {
    let Some(name) = session.get::<String>(PERSON).await.map_err(unavailable)? else { return Ok(None) };
    let Some(name) = PersonId::new(&name) else { return Ok(None) };
    let person = state.people.person(&name).await?;
    Ok(person.map(|person| CurrentUser { person: person.name, role: person.role }))
}

/// Whether a session that was read before is still in the store, and its person has the same role.
pub(crate) async fn still_stands(state: &WebState, session: &Session, user: &CurrentUser) -> bool {
    let Some(id) = session.id() else { return false };
    let stored = matches!(state.people.load_session(&id.to_string()).await, Ok(Some(_)));
    let person = state.people.person(&user.person).await;
    stored && matches!(person, Ok(Some(person)) if person.role == user.role)
}

/// Counts failed attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Option<(Instant, u32)>>);

impl Attempts {
    /// Whether another attempt may be looked at.
    fn open(&self, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failures.is_none_or(|(since, count)| now.duration_since(since) >= WINDOW || count < MOST_FAILURES)
    }

    fn failed(&self, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *failures = match *failures {
            Some((since, count)) if now.duration_since(since) < WINDOW => {
                Some((since, count.saturating_add(1)))
            }
            _ => Some((now, 1)),
        };
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    token: Option<String>,
    next: Option<String>,
    refused: Option<&'static str>,
}

#[derive(Debug, Deserialize)]
struct Asked {
    token: Option<String>,
    next: Option<String>,
}

/// `/sign-in` is public.
pub(crate) fn public() -> Router<WebState> {
    Router::new().route("/sign-in", get(show).post(sign_in))
}

/// `/sign-out` is for who is signed in.
pub(crate) fn router() -> Router<WebState> {
    Router::new().route("/sign-out", post(sign_out))
}

/// Shows a page with one button: opening the link uses nothing up, so that a preview or prefetch does no harm.
async fn show(
    State(state): State<WebState>,
    session: Session,
    Query(asked): Query<Asked>,
) -> Result<Response, WebError> {
    let next = asked.next.as_deref().and_then(own_path);
    let token = asked.token.filter(|token| !token.is_empty());
    if token.is_none() && current_user(&state, &session).await?.is_some() {
        return Ok(see_other(next.as_deref().unwrap_or("/")));
    }
    Ok(page(&SignInPage { token, next, refused: None }, StatusCode::OK))
}

async fn sign_in(
    State(state): State<WebState>,
    session: Session,
    Form(asked): Form<Asked>,
) -> Result<Response, WebError> {
    let now = Instant::now();
    if !state.attempts().open(now) {
        return Err(WebError::TooMany("failed attempts to sign in"));
    }
    match state.people.sign_in(asked.token.as_deref().unwrap_or_default()).await? {
        SignIn::SignedIn(person) => {
            // A new session under a new id: an id that somebody planted before is worth nothing.
            if let Some(earlier) = session.id() {
                session.clear().await;
                session.cycle_id().await.map_err(unavailable)?;
                state.streams().end(&earlier.to_string());
            }
            session.insert(PERSON, person.name.as_str()).await.map_err(unavailable)?;
            session.save().await.map_err(unavailable)?;
            let next = asked.next.as_deref().and_then(own_path);
            Ok(see_other(next.as_deref().unwrap_or("/")))
        }
        SignIn::Refused(why) => {
            state.attempts().failed(now);
            tracing::warn!(why, "a sign-in was refused");
            let refused = Some("That link is used up, too old or unknown. Get a fresh one.");
            Ok(page(&SignInPage { token: None, next: None, refused }, StatusCode::FORBIDDEN))
        }
    }
}

async fn sign_out(
    State(state): State<WebState>,
    user: CurrentUser,
    session: Session,
) -> Result<Response, WebError> {
    if let Some(id) = session.id() {
        state.people.sign_out(&user.person, &id.to_string()).await?;
        state.streams().end(&id.to_string());
    }
    session.flush().await.map_err(unavailable)?;
    Ok(see_other("/sign-in"))
}

fn page(page: &SignInPage, status: StatusCode) -> Response {
    let mut response = render(page);
    if response.status().is_success() {
        *response.status_mut() = status;
    }
    // The address may hold a token.
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// An address within the product, to go on to; `None` for anything that could lead elsewhere.
pub(crate) fn own_path(to: &str) -> Option<String> {
    let plain =
        to.starts_with('/') && !to.starts_with("//") && to.chars().all(|c| c.is_ascii_graphic() && c != '\\');
    let uri: Uri = to.parse().ok().filter(|_| plain)?;
    let path = uri.path_and_query()?;
    (uri.authority().is_none() && !path.path().starts_with("/sign-")).then(|| path.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_addresses_are_gone_on_to() {
        for fine in ["/", "/audit?tool=a%20b&x=1", "/agent/abc"] {
            assert_eq!(own_path(fine).as_deref(), Some(fine));
        }
        let wrong = [
            "",
            "audit",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/\t/evil",
            "/sign-out",
            "javascript:x",
            "/a b",
        ];
        for wrong in wrong {
            assert_eq!(own_path(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn guessing_is_refused_unread_after_a_while() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..MOST_FAILURES {
            assert!(attempts.open(start));
            attempts.failed(start);
        }
        assert!(!attempts.open(start));
        assert!(attempts.open(start + WINDOW));
    }
}
