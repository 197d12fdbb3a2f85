//! Who may come in. The layer [`signed_in`] stands before every page; what a role may do, the handler demands by
//! taking [`Decider`] or [`Admin`]. A handler that takes [`CurrentUser`] outside the layer gets nobody, and answers nothing.

use super::error::WebError;
use super::session;
use super::state::WebState;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sluicegate_gateway::{Approver, PersonId};
use sluicegate_policy::Role;
use tower_sessions::Session;

/// The person who is signed in, with the role that the store knows at this moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CurrentUser {
    /// Who.
    pub(crate) person: PersonId,
    /// With which role.
    pub(crate) role: Role,
}

impl CurrentUser {
    /// Whether they may chat and decide held calls.
    pub(crate) fn may_decide(&self) -> bool {
        matches!(self.role, Role::Approver | Role::Admin)
    }
}

/// A signed-in person who may decide held calls, and chat.
#[derive(Clone, Debug)]
pub(crate) struct Decider {
    /// Who.
    pub(crate) user: CurrentUser,
    /// Their key to held calls.
    pub(crate) approver: Approver,
}

/// A signed-in admin.
#[derive(Clone, Debug)]
pub(crate) struct Admin(pub(crate) CurrentUser);

/// Lets signed-in people through.
pub(crate) async fn signed_in(
    State(state): State<WebState>,
    session: Session,
    mut request: Request,
    next: Next,
) -> Response {
    match session::current_user(&state, &session).await {
        Ok(Some(user)) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Ok(None) => WebError::SignIn.into_response(),
        Err(error) => error.into_response(),
    }
}

impl<S: Sync> FromRequestParts<S> for CurrentUser {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, WebError> {
        parts.extensions.get::<Self>().cloned().ok_or(WebError::SignIn)
    }
}

impl<S: Sync> FromRequestParts<S> for Decider {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, WebError> {
        let user = CurrentUser::from_request_parts(parts, state).await?;
        match Approver::new(user.person.clone(), user.role) {
            Ok(approver) => Ok(Self { user, approver }),
            Err(_) => Err(WebError::Forbidden("approver or admin")),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Admin {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, WebError> {
        let user = CurrentUser::from_request_parts(parts, state).await?;
        if user.role == Role::Admin { Ok(Self(user)) } else { Err(WebError::Forbidden("admin")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::routing::get;
    use axum::{Extension, Router};
    use tower::ServiceExt as _;

    async fn status(role: Option<Role>, path: &str) -> StatusCode {
        let router = Router::new()
            .route("/look", get(|_: CurrentUser| async {}))
            .route("/decide", get(|_: Decider| async {}))
            .route("/change", get(|_: Admin| async {}));
        let router = match role {
            Some(role) => router.layer(Extension(CurrentUser { person: PersonId::new("p").unwrap(), role })),
            None => router,
        };
        router.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap().status()
    }

    /// What each role may do; an MCP key (`client`) may do nothing here.
    #[tokio::test]
    async fn roles_open_what_they_are_for() {
        const OK: u16 = 200;
        for (role, look, decide, change) in [
            (None, 401, 401, 401),
            (Some(Role::Client), OK, 403, 403),
            (Some(Role::Viewer), OK, 403, 403),
            (Some(Role::Approver), OK, OK, 403),
            (Some(Role::Admin), OK, OK, OK),
        ] {
            for (path, expected) in [("/look", look), ("/decide", decide), ("/change", change)] {
                assert_eq!(status(role, path).await.as_u16(), expected, "{role:?} {path}");
            }
        }
    }
}
