//! One-time sign-in links, made by an admin for another device of their own.

use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::figures::Moment;
use crate::web::frame::{Frame, Place};
use crate::web::guard::Admin;
use crate::web::respond::render;
use crate::web::state::WebState;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;

/// A link signs in whoever has it, so making one takes an [`Admin`].
pub(super) fn router() -> Router<WebState> {
    Router::new().route("/settings/sign-in-link", post(create))
}

#[derive(Template)]
#[template(path = "settings/link.html")]
struct LinkPage {
    frame: Frame,
    address: String,
    until: Moment,
}

/// The link stands in this answer alone; the store keeps its digest.
async fn create(State(state): State<WebState>, admin: Admin) -> Result<Response, WebError> {
    let link = state.people.create_link(&admin.0.person).await?.ok_or(WebError::NotFound)?;
    let frame = state.frame(&admin.0, Place::Settings, "Sign-in link", Region::Frame).await?;
    let address = format!("{}/sign-in?token={}", state.hosts.public(), link.token);
    Ok(render(&LinkPage { frame, address, until: Moment::at_ms(link.expires_ms) }))
}
