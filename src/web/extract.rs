//! Our own extractors: whatever cannot be read ends in a page that says so, never in a bare status.

use super::error::WebError;
use super::headers::{ANSWER_LIMIT, FORM_LIMIT};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Bytes that are read of what is too long, before the connection is given up.
const READ_LIMIT: usize = 16 * FORM_LIMIT;

/// The fields of a form, sent as forms are sent.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

/// The fields of a form, or the same as a JSON object: for what programs send as well.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// The fields of a query.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// The variable parts of an address.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = WebError;

    #[expect(clippy::disallowed_types, reason = "wrapped here, to answer with our pages")]
    async fn from_request(request: Request, state: &S) -> Result<Self, WebError> {
        if !is_of_kind(&request, "application/x-www-form-urlencoded") {
            return Err(WebError::NotAForm);
        }
        let (parts, body) = request.into_parts();
        let bytes = whole(body).await?;
        readable(&bytes)?;
        let request = Request::from_parts(parts, bytes.into());
        match axum::Form::from_request(request, state).await {
            Ok(axum::Form(fields)) => Ok(Self(fields)),
            Err(rejection) => {
                Err(WebError::Invalid(format!("the form cannot be read: {}", rejection.body_text())))
            }
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = WebError;

    async fn from_request(request: Request, state: &S) -> Result<Self, WebError> {
        if !is_of_kind(&request, "application/json") {
            return Form::from_request(request, state).await.map(|Form(fields)| Self(fields));
        }
        let bytes = whole(request.into_body()).await?;
        match serde_json::from_slice(&bytes) {
            Ok(fields) => Ok(Self(fields)),
            Err(error) => Err(WebError::Invalid(format!("the JSON cannot be read: {error}"))),
        }
    }
}

fn is_of_kind(request: &Request, kind: &str) -> bool {
    let named = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    named.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// The body, if it is no longer than a form may be. What is too long is read to its end, within reason, and dropped:
/// a client that is still writing would otherwise see a broken connection in place of the answer.
async fn whole(body: axum::body::Body) -> Result<Vec<u8>, WebError> {
    let read = async {
        let (mut stream, mut kept, mut length) = (body.into_data_stream(), Vec::new(), 0_usize);
        while let Some(piece) = stream.next().await {
            let piece =
                piece.map_err(|_| WebError::Invalid("what was sent did not arrive whole".to_owned()))?;
            length = length.saturating_add(piece.len());
            if length <= FORM_LIMIT {
                kept.extend_from_slice(&piece);
            } else if length > READ_LIMIT {
                break;
            }
        }
        if length > FORM_LIMIT { Err(WebError::TooLarge) } else { Ok(kept) }
    };
    match timeout(ANSWER_LIMIT, read).await {
        Ok(read) => read,
        Err(_) => Err(WebError::Invalid("what was sent did not arrive in time".to_owned())),
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = WebError;

    #[expect(clippy::disallowed_types, reason = "wrapped here, to answer with our pages")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, WebError> {
        readable(parts.uri.query().unwrap_or_default().as_bytes())?;
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(fields)) => Ok(Self(fields)),
            Err(rejection) => {
                Err(WebError::Invalid(format!("the address cannot be read: {}", rejection.body_text())))
            }
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = WebError;

    #[expect(clippy::disallowed_types, reason = "wrapped here, to answer with our pages")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, WebError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(fields)) => Ok(Self(fields)),
            Err(_) => Err(WebError::NotFound),
        }
    }
}

/// Whether percent-encoded text is UTF-8. Checked, because the parser behind would silently replace what is not.
fn readable(encoded: &[u8]) -> Result<(), WebError> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'%', [high, low, tail @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high.wrapping_mul(16).wrapping_add(low));
                    tail
                }
                _ => after,
            },
            (byte, after) => {
                decoded.push(*byte);
                after
            }
        };
    }
    match std::str::from_utf8(&decoded) {
        Ok(_) => Ok(()),
        Err(error) => Err(WebError::Invalid(format!(
            "what was sent is not UTF-8 text (byte {} of {})",
            error.valid_up_to().saturating_add(1),
            decoded.len()
        ))),
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_refused_and_not_repaired() {
        for fine in ["", "a=b", "a=%C3%A9&b=%", "a=%zz", "a=caf\u{e9}"] {
            assert!(readable(fine.as_bytes()).is_ok(), "{fine}");
        }
        for broken in [&b"a=%C3"[..], b"a=%FF", b"a=\xFF", b"a=%ED%A0%80"] {
            assert!(matches!(readable(broken), Err(WebError::Invalid(_))), "{broken:?}");
        }
    }
}
