//! Held calls: the inbox, one call's card, and the two forms that answer it.

pub(crate) mod card;

use super::error::WebError;
use super::events::Region;
use super::extract::{Form, Path};
use super::fragment::{self, Fragment, Swap, Toast};
use super::frame::{Frame, Place as NavPlace};
use super::guard::{CurrentUser, Decider};
use super::respond::{Page, Wants, render, see_other};
use super::state::WebState;
use super::ui::{Icon, Tone, components};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use card::{Card, Decided, Place, outcome};
use serde::Deserialize;
use sluicegate_gateway::{ApprovalId, ResolveError, Resolved, StoredApproval, Verdict};
use sluicegate_policy::Origin;
use sluicegate_store::PendingCall;
use std::collections::HashMap;

/// Decided calls that the page lists.
const DECIDED: u32 = 20;

/// Longest reason of a denial, in characters.
const MOST_REASON: usize = 500;

/// Everyone who is signed in may look; answering takes a [`Decider`].
pub(crate) fn router() -> Router<WebState> {
    Router::new()
        .route("/approvals", get(list))
        .route("/approvals/{id}", get(show))
        .route("/approvals/{id}/approve", post(approve))
        .route("/approvals/{id}/deny", post(deny))
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    pending: Pending,
    decided: DecidedList,
}

/// The cards, or the empty state.
#[derive(Debug, Template)]
#[template(path = "approvals/pending.html")]
struct Pending {
    cards: Vec<Card>,
}

/// The sentence that counts them.
#[derive(Debug, Template)]
#[template(
    source = r#"<span id="pending-count">{% if self.0 == 0 %}Nothing is waiting.{% else if self.0 == 1 %}1 call is waiting.{% else %}{{ self.0 }} calls are waiting.{% endif %}</span>"#,
    ext = "html"
)]
struct PendingCount(usize);

#[derive(Debug, Template)]
#[template(path = "approvals/decided.html")]
struct DecidedList {
    calls: Vec<Decided>,
}

components!(Pending, PendingCount, DecidedList);

#[derive(Template)]
#[template(path = "approvals/one.html")]
struct OnePage {
    frame: Frame,
    card: Card,
}

async fn list(State(state): State<WebState>, user: CurrentUser) -> Result<Response, WebError> {
    let (pending, decided) = region(&state, &user).await?;
    let frame = state.frame(&user, NavPlace::Approvals, "Approvals", Region::Approvals).await?;
    Ok(Page(ApprovalsPage { frame, pending, decided }).into_response())
}

async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let held = find(&state, &id).await?;
    let card = card(&state, &user, &held, Place::Inbox);
    one(&state, &user, card, StatusCode::OK).await
}

async fn one(
    state: &WebState,
    user: &CurrentUser,
    card: Card,
    status: StatusCode,
) -> Result<Response, WebError> {
    let frame =
        state.frame(user, NavPlace::Approvals, "Held call", Region::Approval(card.id.clone())).await?;
    let mut response = render(&OnePage { frame, card });
    if response.status().is_success() {
        *response.status_mut() = status;
    }
    Ok(response)
}

async fn find(state: &WebState, id: &str) -> Result<PendingCall, WebError> {
    let id = ApprovalId::parse(id).ok_or(WebError::NotFound)?;
    state.calls.held(id).await?.ok_or(WebError::NotFound)
}

fn card(state: &WebState, user: &CurrentUser, held: &PendingCall, place: Place) -> Card {
    Card::of(held, &state.clock.now(), user, &state.catalogue, place)
}

async fn region(state: &WebState, user: &CurrentUser) -> Result<(Pending, DecidedList), WebError> {
    let cards =
        state.calls.pending().await?.iter().map(|held| card(state, user, held, Place::Inbox)).collect();
    let calls = state.calls.decided(DECIDED).await?.iter().map(Decided::of).collect();
    Ok((Pending { cards }, DecidedList { calls }))
}

/// The page's region, for its stream, and the cards in it.
pub(crate) async fn fragments(
    state: &WebState,
    user: &CurrentUser,
) -> Result<(Vec<Fragment>, Vec<Card>), WebError> {
    let (pending, decided) = region(state, user).await?;
    let fragments = [
        Fragment::new("pending-count", Swap::Whole, &PendingCount(pending.cards.len())),
        Fragment::new("pending", Swap::Inside, &pending),
        Fragment::new("decided", Swap::Inside, &decided),
    ];
    Ok((fragments.into_iter().flatten().collect(), pending.cards))
}

/// One card, for the stream of its own page.
pub(crate) async fn card_fragment(
    state: &WebState,
    user: &CurrentUser,
    id: &str,
) -> Result<Option<Fragment>, WebError> {
    let held = find(state, id).await?;
    Ok(Fragment::new(format!("approval-{id}"), Swap::Whole, &card(state, user, &held, Place::Inbox)))
}

/// One sentence for screen readers on what is new since `known`.
pub(crate) fn announcement(known: Option<&[String]>, waiting: &[Card]) -> Option<Fragment> {
    let known = known?;
    let mut new = waiting.iter().filter(|card| !known.contains(&card.id));
    let first = new.next()?;
    let more = new.count();
    let sentence = first.announcement();
    let sentence = if more == 0 { sentence } else { format!("{sentence} And {more} more.") };
    Some(Fragment::text("announce", Swap::Inside, &sentence))
}

/// The fields of both forms. The version shows what the person saw.
#[derive(Debug, Deserialize)]
struct Answer {
    version: String,
    reason: Option<String>,
    back: Option<String>,
    /// Boxes, by name.
    #[serde(flatten)]
    boxes: HashMap<String, String>,
}

impl Answer {
    fn version(&self) -> Result<i64, WebError> {
        self.version.parse().map_err(|_| WebError::Invalid("the form's version is not a number".to_owned()))
    }

    fn place(&self) -> Place {
        if self.back.as_deref() == Some("chat") { Place::Chat } else { Place::Inbox }
    }

    fn ticked(&self) -> Vec<String> {
        self.boxes.iter().filter(|(_, value)| *value == "yes").map(|(name, _)| name.clone()).collect()
    }
}

async fn approve(
    state: State<WebState>,
    decider: Decider,
    wants: Wants,
    id: Path<String>,
    answer: Form<Answer>,
) -> Result<Response, WebError> {
    let held = find(&state, &id.0).await?;
    let ticked = answer.0.ticked();
    // The browser demands the ticks as well; this is for what comes without one.
    if card(&state, &decider.user, &held, Place::Inbox).with_ticked(&ticked).lacks_a_tick() {
        let refused = Answered {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            notice: "Nothing was approved: tick each box first, once you have read what it says.".to_owned(),
            held,
            place: answer.0.place(),
            ticked,
        };
        return refused.respond(&state, &decider.user, wants).await;
    }
    resolve(&state, &decider, wants, &id.0, Verdict::Approve, answer.0).await
}

async fn deny(
    state: State<WebState>,
    decider: Decider,
    wants: Wants,
    id: Path<String>,
    answer: Form<Answer>,
) -> Result<Response, WebError> {
    resolve(&state, &decider, wants, &id.0, Verdict::Deny, answer.0).await
}

async fn resolve(
    state: &WebState,
    decider: &Decider,
    wants: Wants,
    id: &str,
    verdict: Verdict,
    answer: Answer,
) -> Result<Response, WebError> {
    let approval = ApprovalId::parse(id).ok_or(WebError::NotFound)?;
    let (place, version) = (answer.place(), answer.version()?);
    let reason = answer.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > MOST_REASON) {
        return Err(WebError::Invalid(format!("a reason has at most {MOST_REASON} characters")));
    }
    let resolved = state
        .approvals
        .resolve(&decider.approver, approval, version, verdict, reason.map(str::to_owned))
        .await;
    let (status, notice) = match resolved {
        Ok(Resolved::Decided(stored)) => (StatusCode::OK, sentence("This call was", &stored)),
        Ok(Resolved::Counted(stored)) => {
            let need = stored.terms.approvers;
            (StatusCode::OK, format!("Your yes was counted. {need} people have to agree."))
        }
        Err(ResolveError::NotFound) => return Err(WebError::NotFound),
        Err(ResolveError::Store(error)) => return Err(error.into()),
        Err(ResolveError::AlreadyDecided(stored)) => {
            (StatusCode::CONFLICT, format!("{} Your answer changed nothing.", sentence("Already", &stored)))
        }
        Err(ResolveError::Expired(_)) => (
            StatusCode::CONFLICT,
            "Its time was over before your answer; it was denied by itself.".to_owned(),
        ),
        Err(ResolveError::Stale(_)) => (
            StatusCode::CONFLICT,
            "What is asked has changed since the page was shown. Your answer was not counted; look again."
                .to_owned(),
        ),
        Err(ResolveError::NotAllowed(_, why)) => {
            (StatusCode::FORBIDDEN, format!("Your answer was not counted: {why}."))
        }
    };
    let held = state.calls.held(approval).await?.ok_or(WebError::NotFound)?;
    Answered { status, notice, held, place, ticked: Vec::new() }.respond(state, &decider.user, wants).await
}

/// An answer to a held call that has been given, and what became of it.
struct Answered {
    status: StatusCode,
    notice: String,
    held: PendingCall,
    place: Place,
    /// Boxes that stay ticked.
    ticked: Vec<String>,
}

impl Answered {
    async fn respond(self, state: &WebState, user: &CurrentUser, wants: Wants) -> Result<Response, WebError> {
        match wants {
            Wants::Fragment => self.fragments(state, user).await,
            Wants::Page | Wants::Json if self.status == StatusCode::OK => Ok(see_other(&self.back())),
            Wants::Page | Wants::Json => {
                let card = card(state, user, &self.held, Place::Inbox).with_ticked(&self.ticked);
                one(state, user, card.with_notice(self.notice), self.status).await
            }
        }
    }

    /// Where a browser without script goes on.
    fn back(&self) -> String {
        match (&self.held.call.conversation, self.place) {
            (Some(conversation), Place::Chat) if self.held.call.origin == Origin::Chat => {
                format!("/agent/{conversation}")
            }
            _ => "/approvals".to_owned(),
        }
    }

    /// The parts of the open page that the answer changes.
    async fn fragments(self, state: &WebState, user: &CurrentUser) -> Result<Response, WebError> {
        let (ok, id) = (self.status == StatusCode::OK, self.held.approval.id);
        let mut fragments = super::events::around(state).await?;
        // In the chat the stream puts the row of the call in the card's place.
        if self.place == Place::Inbox && ok {
            fragments.extend(self::fragments(state, user).await?.0);
        }
        let card = card(state, user, &self.held, self.place).with_ticked(&self.ticked);
        let card = if ok { card } else { card.with_notice(self.notice.clone()) };
        fragments.extend(Fragment::new(format!("approval-{id}"), Swap::Whole, &card));
        let (tone, icon) = if ok { (Tone::Neutral, Icon("check")) } else { (Tone::Info, Icon("info")) };
        fragments.extend(Fragment::toast(&Toast { tone, icon, text: self.notice, alert: !ok }));
        Ok(fragment::answer(self.status, fragments))
    }
}

/// `Already approved by … at ….`
fn sentence(start: &str, approval: &StoredApproval) -> String {
    match outcome(approval) {
        Some(outcome) => format!("{start} {outcome}."),
        None => format!("{start} answered."),
    }
}
