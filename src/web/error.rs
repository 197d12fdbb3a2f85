//! What goes wrong at a page, and how it is told: as a page, as a fragment for a live page, or as a problem document.
//! The only place that knows status codes of failures.

use super::respond::{Wants, render};
use super::state::WebState;
use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sluicegate_gateway::StoreError;
use uuid::Uuid;

/// Where an htmx request is sent instead of getting a fragment.
pub(crate) const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");

/// Why a request gets no answer of its own.
#[derive(Debug)]
pub(crate) enum WebError {
    /// Nothing is at this address, or nothing that this person may know of.
    NotFound,
    /// Nobody is signed in.
    SignIn,
    /// The role does not allow it; says which role does.
    Forbidden(&'static str),
    /// The request comes from elsewhere; says what shows it.
    Foreign(&'static str),
    /// What was sent cannot be used; says why.
    Invalid(String),
    /// What was sent has another form than a form.
    NotAForm,
    /// What was sent is longer than is read.
    TooLarge,
    /// As it stands now it cannot be done; says why.
    Conflict(String),
    /// Too much at once; says of what.
    TooMany(&'static str),
    /// Something this needs does not answer; the text is for the log.
    Unavailable(String),
    /// A fault of ours; the text is for the log.
    Internal(String),
}

impl From<StoreError> for WebError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.to_string()),
            StoreError::Corrupt(_) => Self::Internal(error.to_string()),
        }
    }
}

/// A failure on its way to the layer that gives it a form.
#[derive(Clone, Debug)]
struct Failure {
    headline: &'static str,
    what: String,
    advice: &'static str,
    id: String,
    sign_in: bool,
}

impl WebError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::SignIn => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::Foreign(_) => StatusCode::FORBIDDEN,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::NotAForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn headline(&self) -> &'static str {
        match self {
            Self::NotFound => "There is nothing here",
            Self::SignIn => "Sign in first",
            Self::Forbidden(_) => "Your role does not allow this",
            Self::Foreign(_) => "This request came from somewhere else",
            Self::Invalid(_) => "That cannot be used as it is",
            Self::NotAForm => "That is not a form",
            Self::TooLarge => "That is too long",
            Self::Conflict(_) => "That is not possible any more",
            Self::TooMany(_) => "Too much at once",
            Self::Unavailable(_) => "Nothing gets through right now",
            Self::Internal(_) => "Something broke on our side",
        }
    }

    fn what(&self) -> String {
        match self {
            Self::NotFound => "The address leads to no page, call or conversation. It may have been deleted.".to_owned(),
            Self::SignIn => "This page is for people who are signed in. Sessions last 12 hours.".to_owned(),
            Self::Forbidden(who) => format!("Only people with the role {who} may do this. Nothing was changed."),
            Self::Foreign(why) => format!("It was refused before anything was read: {why}."),
            Self::Invalid(why) | Self::Conflict(why) => format!("{}.", super::ui::sentence(why)),
            Self::NotAForm => "The request is no form (`application/x-www-form-urlencoded`). Nothing was changed.".to_owned(),
            Self::TooLarge => "More was sent than is read at once (1 MiB). Nothing was changed.".to_owned(),
            Self::TooMany(of) => format!("There are too many {of} at the moment."),
            Self::Unavailable(_) => "The store did not answer in time. Sluicegate fails closed: calls are denied, held calls stay \
                                     held, and nothing that was asked here has been done."
                .to_owned(),
            Self::Internal(_) => "The request could not be completed, and nothing was executed because of it.".to_owned(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::NotFound | Self::Conflict(_) => "Go back, or start from the overview.",
            Self::SignIn => "Use the sign-in link, then come back.",
            Self::Forbidden(_) => "Ask an admin for the role, or for the change.",
            Self::Foreign(_) => "Open Sluicegate by its own address, the one that it prints at start.",
            Self::Invalid(_) | Self::NotAForm | Self::TooLarge => "Go back, correct it and send it again.",
            Self::TooMany(_) => "Close a few pages and try again.",
            Self::Unavailable(_) => {
                "Try again in a moment. If it lasts, give the request number to an admin."
            }
            Self::Internal(_) => "Try again. If it lasts, give the request number to an admin.",
        }
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let status = self.status();
        let id = Uuid::new_v4().simple().to_string();
        match &self {
            Self::Unavailable(why) => {
                tracing::error!(request = %id, why, "a page could not be answered: unavailable")
            }
            Self::Internal(why) => {
                tracing::error!(request = %id, why, "a page could not be answered: internal fault")
            }
            Self::Foreign(why) => tracing::warn!(request = %id, why, "a foreign request was refused"),
            _ => {}
        }
        let failure = Failure {
            headline: self.headline(),
            what: self.what(),
            advice: self.advice(),
            id,
            sign_in: matches!(self, Self::SignIn),
        };
        let mut response = status.into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response.extensions_mut().insert(failure);
        response
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    status: u16,
    headline: &'static str,
    what: String,
    advice: &'static str,
    id: String,
    at: super::figures::Moment,
    retry: Option<String>,
}

#[derive(Template)]
#[template(path = "error_toast.html")]
struct ErrorToast {
    headline: &'static str,
    what: String,
    id: String,
}

/// Gives every failure the form that the request can take. The outermost layer but for the security headers.
pub(crate) async fn dress(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let wants = Wants::of(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let open_page = request.headers().get("hx-current-url").and_then(|url| url.to_str().ok()?.parse().ok());
    let mut response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let failure = match response.extensions_mut().remove::<Failure>() {
        Some(failure) => failure,
        // A body of its own (a refused form with its fields) is left as it is.
        None if response.headers().contains_key(CONTENT_TYPE) => return response,
        None => bare(status),
    };
    let kept: Vec<_> = [ALLOW, RETRY_AFTER]
        .into_iter()
        .filter_map(|name| response.headers().get(&name).cloned().map(|value| (name, value)))
        .collect();
    let back =
        if wants == Wants::Fragment { open_page } else { (method == Method::GET).then(|| uri.clone()) };
    let retry = (method == Method::GET && status.is_server_error()).then(|| uri.path().to_owned());
    let mut dressed = form(failure, status, wants, back.as_ref(), retry, state.now_ms());
    dressed.headers_mut().extend(kept);
    dressed
}

/// A failure that a layer below gave no words: a method that an address does not take, a body over the limit, a time limit.
fn bare(status: StatusCode) -> Failure {
    let id = Uuid::new_v4().simple().to_string();
    let (headline, what, advice) = match status {
        StatusCode::METHOD_NOT_ALLOWED => (
            "That is not how this works",
            "The address does not take this method. Nothing is ever changed by opening a link.",
            "Use the button on the page.",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => (
            "That is too long",
            "More was sent than is read at once (1 MiB). Nothing was changed.",
            "Shorten it and send it again.",
        ),
        StatusCode::FORBIDDEN => (
            "This request came from somewhere else",
            "It was refused before anything was read: it was sent by a page of another origin.",
            "Open Sluicegate by its own address, the one that it prints at start.",
        ),
        _ if status.is_client_error() => (
            "That cannot be used as it is",
            "The request could not be read. Nothing was changed.",
            "Go back and try again.",
        ),
        _ => (
            "Nothing gets through right now",
            "The answer took too long. Sluicegate fails closed: calls are denied and held calls stay held.",
            "Try again in a moment. If it lasts, give the request number to an admin.",
        ),
    };
    Failure { headline, what: what.to_owned(), advice, id, sign_in: false }
}

/// `back` is where signing in leads, `retry` what can be opened once more.
fn form(
    failure: Failure,
    status: StatusCode,
    wants: Wants,
    back: Option<&Uri>,
    retry: Option<String>,
    now_ms: i64,
) -> Response {
    let Failure { headline, what, advice, id, sign_in } = failure;
    match wants {
        Wants::Json => super::respond::problem(status, headline, &what, &id),
        Wants::Page if sign_in => {
            (StatusCode::SEE_OTHER, [(LOCATION, sign_in_address(back))]).into_response()
        }
        Wants::Fragment if sign_in => (status, [(HX_REDIRECT, sign_in_address(back))]).into_response(),
        Wants::Fragment => (status, render(&ErrorToast { headline, what, id })).into_response(),
        Wants::Page => {
            let at = super::figures::Moment::at_ms(now_ms);
            (status, render(&ErrorPage { status: status.as_u16(), headline, what, advice, id, at, retry }))
                .into_response()
        }
    }
}

/// The sign-in page, with the address to come back to.
fn sign_in_address(from: Option<&Uri>) -> String {
    let Some(path) = from.and_then(Uri::path_and_query).map(|path| path.as_str()).filter(|path| *path != "/")
    else {
        return "/sign-in".to_owned();
    };
    let mut to = "/sign-in?next=".to_owned();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                to.push(char::from(byte))
            }
            _ => {
                use std::fmt::Write as _;
                // Writing to a string cannot fail.
                write!(to, "%{byte:02X}").unwrap_or_default();
            }
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_kept_and_encoded() {
        let uri: Uri = "/audit?tool=a%20b&x=1".parse().unwrap();
        assert_eq!(sign_in_address(Some(&uri)), "/sign-in?next=/audit%3Ftool%3Da%2520b%26x%3D1");
        assert_eq!(sign_in_address(Some(&"/".parse().unwrap())), "/sign-in");
        assert_eq!(sign_in_address(None), "/sign-in");
    }
}
