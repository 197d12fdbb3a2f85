//! How answers leave: pages, fragments for a live page, problem documents.

use super::error::WebError;
use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, CONTENT_TYPE, LOCATION, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::convert::Infallible;

/// What the request can take as an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wants {
    /// A whole page: a browser without script, or a link.
    Page,
    /// Fragments for the page that is open: htmx.
    Fragment,
    /// JSON: a program.
    Json,
}

impl Wants {
    /// Reads it off the headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.get("hx-request").is_some_and(|value| value == "true") {
            return Self::Fragment;
        }
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accept.contains("application/json") && !accept.contains("text/html") {
            Self::Json
        } else {
            Self::Page
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Wants {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// A template as an answer of status 200.
#[derive(Debug)]
pub(crate) struct Page<T>(pub(crate) T);

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        render(&self.0)
    }
}

/// Renders a template; one that cannot be rendered is a fault of ours.
pub(crate) fn render(template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => {
            ([(CONTENT_TYPE, "text/html; charset=utf-8"), (VARY, "hx-request, accept")], html).into_response()
        }
        Err(error) => WebError::Internal(format!("a template cannot be rendered: {error}")).into_response(),
    }
}

/// Sends the browser on after a form: it loads the page by GET, so that a reload repeats nothing.
pub(crate) fn see_other(to: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

/// A problem document (RFC 9457).
pub(crate) fn problem(status: StatusCode, title: &str, detail: &str, id: &str) -> Response {
    let body = json!({
        "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail,
        "instance": format!("urn:uuid:{id}"),
    });
    (status, [(CONTENT_TYPE, "application/problem+json"), (VARY, "hx-request, accept")], body.to_string())
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_what_they_can_take() {
        let table = [
            (&[][..], Wants::Page),
            (&[("accept", "text/html,application/xhtml+xml")], Wants::Page),
            (&[("accept", "*/*")], Wants::Page),
            (&[("accept", "application/json")], Wants::Json),
            (&[("accept", "text/html, application/json")], Wants::Page),
            (&[("hx-request", "true"), ("accept", "text/html, text/event-stream")], Wants::Fragment),
            (&[("hx-request", "no")], Wants::Page),
        ];
        for (headers, wants) in table {
            let map: HeaderMap =
                headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(Wants::of(&map), wants, "{headers:?}");
        }
    }
}
