//! The dashboard: pages for people, rendered here, alive by an event stream, and whole without one.
//!
//! Each page is one file with its own `router()`; [`router`] puts them together, so that what stands before them is
//! on one screen. A request passes, outermost first: compression, security headers, the form of failures, Host and
//! Origin, cross-site protection, limits, the session; then its group's guard, and what its handler demands.

mod agent;
mod approvals;
mod arguments;
mod assets;
mod audit;
mod decision;
mod error;
mod events;
mod extract;
mod figures;
mod fragment;
mod frame;
mod guard;
mod headers;
mod health;
mod markdown;
mod overview;
mod policies;
mod respond;
mod session;
mod settings;
mod state;
mod tools;
mod ui;
mod visible_text;

pub use headers::{Hosts, NotAnAddress};
pub use state::{WebParts, WebState};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse as _;
use error::WebError;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::csrf::{ConfigError, CsrfLayer, ProtectionError};
use tower_http::timeout::TimeoutLayer;

/// All pages. `/mcp` and `/metrics` are no pages: they are mounted beside them, not below them.
///
/// # Errors
/// When one of our own origins cannot be trusted, because it is no origin.
pub fn router(state: WebState) -> Result<Router, ConfigError> {
    let public = Router::new().merge(assets::router()).merge(health::router()).merge(session::public());
    let people = Router::new()
        .merge(agent::router())
        .merge(approvals::router())
        .merge(audit::router())
        .merge(overview::router())
        .merge(policies::router())
        .merge(settings::router())
        .merge(tools::router())
        .merge(events::router())
        .merge(session::router())
        .route_layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, headers::ANSWER_LIMIT))
        .merge(agent::waiting_router())
        .route_layer(from_fn_with_state(state.clone(), guard::signed_in));

    let mut csrf = CsrfLayer::new().with_rejection_response(|_: ProtectionError| {
        WebError::Foreign("it was sent by a page of another site").into_response()
    });
    for origin in state.hosts.origins() {
        csrf = csrf.add_trusted_origin(origin)?;
    }
    Ok(Router::new()
        .merge(public)
        .merge(people)
        .fallback(|| async { WebError::NotFound })
        .layer(session::layer(&state))
        .layer(DefaultBodyLimit::max(headers::FORM_LIMIT))
        .layer(CatchPanicLayer::custom(|_| {
            WebError::Internal("a handler panicked".to_owned()).into_response()
        }))
        .layer(csrf)
        .layer(from_fn_with_state(state.hosts.clone(), headers::admit))
        .layer(from_fn_with_state(state.clone(), error::dress))
        .layer(from_fn_with_state(state.hosts.clone(), headers::secure))
        .layer(CompressionLayer::new())
        .with_state(state))
}
