//! For operations: is it alive, is it ready.

use super::state::WebState;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Router, routing::get};

/// Public without a session.
pub(crate) fn router() -> Router<WebState> {
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready))
}

/// Ready when store and policy are; start-up has reconciled before the first request is accepted. Upstreams do not
/// count: a server that is down denies its own calls, not the others'.
async fn ready(State(state): State<WebState>) -> (StatusCode, &'static str) {
    match state.policy().await {
        Ok(Some(_)) => (StatusCode::OK, "ready\n"),
        Ok(None) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: there is no readable policy, every call is denied\n",
        ),
        Err(error) => {
            tracing::error!(%error, "not ready: the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: the store does not answer\n")
        }
    }
}
