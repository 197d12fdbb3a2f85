//! The chat: conversations, their transcripts, sending and stopping. It starts turns; it cannot make a tool run.

mod export;
mod transcript;
mod view;

use super::approvals::card::{Card, Place};
use super::error::WebError;
use super::events::Region;
use super::extract::{Body, Form, Path, Query};
use super::fragment::{Fragment, Swap};
use super::frame::Place as NavPlace;
use super::guard::{CurrentUser, Decider};
use super::respond::{Page, Wants, problem, see_other};
use super::state::{WebState, conversation_budget};
use crate::agent::{Entry, ModelChoice, StartError, TurnReport, TurnView, prompt, read_entry};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use sluicegate_gateway::CallId;
use sluicegate_policy::ConversationId;
use sluicegate_store::{CallRow, Conversation, ListedAfter, NewConversation};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use transcript::Sources;
use uuid::Uuid;
use view::{AgentPage, Budget, ComposerBar, ConversationList, Facts, NewPage, Transcript, TurnBadge};

/// Entries of a transcript that a page shows; earlier ones are left out, and it says so.
const MOST_ENTRIES: usize = 1_000;
/// Conversations that a list shows at once.
const LISTED: u32 = 50;
/// Longest title, in characters.
const MOST_TITLE: usize = 80;
/// How long deleting waits for the turn that runs to end.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Looking is for everyone who is signed in, at their own conversations; chatting takes a [`Decider`].
pub(crate) fn router() -> Router<WebState> {
    Router::new()
        .route("/agent", get(new_page).post(create))
        .route("/agent/{conversation}", get(show))
        .route("/agent/{conversation}/export", get(export::export))
        .route("/agent/{conversation}/stop", post(stop))
        .route("/agent/{conversation}/rename", post(rename))
        .route("/agent/{conversation}/model", post(choose_model))
        .route("/agent/{conversation}/delete", post(delete))
}

/// The one address that may wait as long as a turn takes.
pub(crate) fn waiting_router() -> Router<WebState> {
    Router::new().route("/agent/{conversation}/messages", post(send))
}

/// A conversation of this person. Somebody else's is not there for them, whatever their role.
pub(crate) async fn own(state: &WebState, user: &CurrentUser, id: &str) -> Result<Conversation, WebError> {
    let id = ConversationId::new(id).map_err(|_| WebError::NotFound)?;
    let found = state.conversations.get(&id).await?;
    found.filter(|conversation| conversation.owner == user.person).ok_or(WebError::NotFound)
}

#[derive(Debug, Default, Deserialize)]
struct Listing {
    q: Option<String>,
    after: Option<String>,
    /// A new conversation is wanted: where there is room for one pane only, not the list.
    new: Option<String>,
}

impl Listing {
    fn search(&self) -> Option<&str> {
        self.q.as_deref().map(str::trim).filter(|search| !search.is_empty())
    }

    /// `MILLISECONDS-ID`
    fn cursor(&self) -> Option<ListedAfter> {
        let (updated_ms, id) = self.after.as_deref()?.split_once('-')?;
        Some(ListedAfter { updated_ms: updated_ms.parse().ok()?, id: id.to_owned() })
    }
}

async fn new_page(
    State(state): State<WebState>,
    user: CurrentUser,
    Query(listing): Query<Listing>,
) -> Result<Response, WebError> {
    let list = list(&state, &user, None, &listing).await?;
    let frame = state.frame(&user, NavPlace::Agent, "New conversation", Region::Conversations).await?;
    let budget = state.policy().await?.and_then(|policy| conversation_budget(&policy.revision.document));
    let catalogue = state.catalogue.snapshot();
    let untouched = listing.search().is_none() && listing.after.is_none();
    Ok(Page(NewPage {
        frame,
        begin: listing.new.is_some() || (untouched && list.is_empty()),
        list,
        may_chat: user.may_decide(),
        models: view::models(state.agent.models()),
        tools: catalogue.tools().count(),
        servers: catalogue.servers().len(),
        budget: budget.map(super::figures::grouped),
    })
    .into_response())
}

#[derive(Debug, Deserialize)]
struct NewFields {
    text: Option<String>,
    provider: Option<String>,
    model: Option<String>,
}

/// Begins a conversation, and its first turn if there is a message.
async fn create(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    Form(fields): Form<NewFields>,
) -> Result<Response, WebError> {
    let text = fields.text.unwrap_or_default();
    let choice = choice(&state, fields.provider.as_deref(), fields.model.as_deref())?;
    let id = ConversationId::new(&Uuid::now_v7().to_string())
        .map_err(|error| WebError::Internal(format!("an id of ours is refused: {error}")))?;
    state
        .conversations
        .create(NewConversation {
            id: id.clone(),
            title: title_of(&text),
            owner: user.person.clone(),
            provider: choice.provider,
            model: choice.model,
            system: prompt::SYSTEM.to_owned(),
        })
        .await?;
    if !text.trim().is_empty() {
        state.agent.start(&id, &user.person, user.role, &text).await.map_err(not_started)?;
    }
    Ok(see_other(&format!("/agent/{id}")))
}

/// The provider that was chosen, or the preferred one. Names of models are data: the provider judges them.
fn choice(state: &WebState, provider: Option<&str>, model: Option<&str>) -> Result<ModelChoice, WebError> {
    let models = state.agent.models();
    let source = match provider.filter(|name| !name.is_empty()) {
        None => models.sources().first(),
        Some(name) => models.sources().iter().find(|source| source.name == name),
    };
    let source =
        source.ok_or_else(|| WebError::Invalid("that model provider is not set up here".to_owned()))?;
    let model = model.map(str::trim).filter(|model| !model.is_empty()).unwrap_or(&source.default_model);
    if model.chars().count() > 200 {
        return Err(WebError::Invalid("the name of a model has at most 200 characters".to_owned()));
    }
    Ok(ModelChoice { provider: source.name.to_owned(), model: model.to_owned() })
}

/// A title out of a first message.
fn title_of(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_TITLE) {
        _ if line.is_empty() => "New conversation".to_owned(),
        None => line,
        Some(_) => {
            format!("{}…", line.chars().take(MOST_TITLE.saturating_sub(1)).collect::<String>().trim_end())
        }
    }
}

async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    Path(id): Path<String>,
    Query(listing): Query<Listing>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    let parts = parts(&state, &user, &conversation, state.agent.running(&conversation.id)).await?;
    let list = list(&state, &user, Some(&conversation.id), &listing).await?;
    let frame = state
        .frame(&user, NavPlace::Agent, &conversation.title, Region::Agent(conversation.id.clone()))
        .await?;
    Ok(Page(AgentPage {
        frame,
        list,
        may_chat: user.may_decide(),
        models: view::models(state.agent.models()),
        conversation,
        parts,
    })
    .into_response())
}

/// What a conversation's page shows of the conversation.
#[derive(Debug)]
struct Parts {
    transcript: Transcript,
    badge: TurnBadge,
    budget: Budget,
    facts: Facts,
    bar: ComposerBar,
}

async fn parts(
    state: &WebState,
    user: &CurrentUser,
    conversation: &Conversation,
    turn: Option<TurnView>,
) -> Result<Parts, WebError> {
    let (entries, cut) = entries(state, &conversation.id).await?;
    let calls = calls(state, &conversation.id).await?;
    let now = state.clock.now();
    let held = state.calls.pending().await?;
    let cards: HashMap<CallId, Card> = held
        .iter()
        .filter(|held| held.call.conversation.as_ref() == Some(&conversation.id))
        .map(|held| (held.call.id, Card::of(held, &now, user, &state.catalogue, Place::Chat)))
        .collect();
    let usage = state.conversations.usage_of(&conversation.id).await?;
    let policy = state.policy().await?;
    let limit = policy.as_ref().and_then(|policy| conversation_budget(&policy.revision.document));
    let budget = Budget::new(&usage, limit);
    let badge = TurnBadge::of(turn.as_ref(), !cards.is_empty());
    let bar = ComposerBar {
        conversation: conversation.id.to_string(),
        running: badge.running(),
        used_up: budget.used_up(),
        says: badge.says(),
    };
    let again = user.may_decide().then_some(&conversation.id);
    let sources = Sources { entries: &entries, calls: &calls, cards: &cards, turn: turn.as_ref(), again };
    let transcript = Transcript { groups: transcript::groups(&sources), cut };
    Ok(Parts { facts: Facts::of(&conversation.id, calls.values(), &budget), transcript, badge, budget, bar })
}

/// The newest entries of a transcript, and whether earlier ones were left out.
async fn entries(state: &WebState, id: &ConversationId) -> Result<(Vec<(i64, Entry)>, bool), WebError> {
    let (mut kept, mut after, mut cut) = (VecDeque::new(), 0, false);
    loop {
        let page = state.conversations.messages(id, after, 500).await?;
        for message in page.rows {
            let entry = read_entry(message.position, &message.body)?;
            kept.push_back((message.position, entry));
        }
        while kept.len() > MOST_ENTRIES {
            kept.pop_front();
            cut = true;
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok((kept.into(), cut)),
        }
    }
}

async fn calls(state: &WebState, id: &ConversationId) -> Result<HashMap<CallId, CallRow>, WebError> {
    let (mut calls, mut after) = (HashMap::new(), None);
    loop {
        let page = state.calls.calls_of(id, after, 500).await?;
        calls.extend(page.rows.into_iter().map(|call| (call.id, call)));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(calls),
        }
    }
}

async fn list(
    state: &WebState,
    user: &CurrentUser,
    current: Option<&ConversationId>,
    listing: &Listing,
) -> Result<ConversationList, WebError> {
    let page = state.conversations.list(&user.person, listing.search(), listing.cursor(), LISTED).await?;
    let held = state.calls.pending().await?;
    let waits = |id: &ConversationId| held.iter().any(|held| held.call.conversation.as_ref() == Some(id));
    let rows = page.rows.iter().map(|conversation| {
        view::listed(
            conversation,
            current,
            state.agent.running(&conversation.id).is_some(),
            waits(&conversation.id),
        )
    });
    let older = page.next.map(|next| format!("{}-{}", next.updated_ms, next.id));
    Ok(ConversationList::new(rows.collect(), state.now_ms(), listing.search().map(str::to_owned), older))
}

/// The conversation's region, for its stream.
#[derive(Debug)]
pub(crate) struct Live {
    /// All turns at once: for a page that does not show the same ones yet.
    pub(crate) whole: Option<Fragment>,
    /// The ids of the turns, in order.
    pub(crate) turns: Vec<String>,
    /// Each turn by itself.
    pub(crate) each: Vec<Fragment>,
    /// What stands around the transcript.
    pub(crate) around: Vec<Fragment>,
}

/// The conversation's region, for its stream.
pub(crate) async fn live(
    state: &WebState,
    user: &CurrentUser,
    id: &ConversationId,
    turn: Option<TurnView>,
) -> Result<Live, WebError> {
    let conversation = own(state, user, id.as_str()).await?;
    let Parts { transcript, badge, budget, facts, bar } = parts(state, user, &conversation, turn).await?;
    let around = [
        Fragment::new("turn-state", Swap::Whole, &badge),
        Fragment::new("budget", Swap::Whole, &budget),
        Fragment::new("facts", Swap::Inside, &facts),
        Fragment::new("composer-bar", Swap::Whole, &bar),
    ];
    Ok(Live {
        whole: Fragment::new("transcript", Swap::Inside, &transcript),
        turns: transcript.groups.iter().map(|group| group.id.clone()).collect(),
        each: transcript
            .groups
            .iter()
            .filter_map(|group| Fragment::new(group.id.clone(), Swap::Whole, group))
            .collect(),
        around: around.into_iter().flatten().collect(),
    })
}

/// The list of conversations, for a stream.
pub(crate) async fn list_fragments(
    state: &WebState,
    user: &CurrentUser,
    current: Option<&ConversationId>,
) -> Result<Vec<Fragment>, WebError> {
    let list = list(state, user, current, &Listing::default()).await?;
    Ok(Fragment::new("convo-list", Swap::Inside, &list).into_iter().collect())
}

#[derive(Debug, Deserialize)]
struct Message {
    text: String,
    /// The position of an earlier message that this one takes the place of.
    instead_of: Option<i64>,
}

/// Sends a message. A page is answered at once, and sees the turn live or on its next load; a program that asks for
/// JSON waits for the turn.
async fn send(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    wants: Wants,
    Path(id): Path<String>,
    Body(message): Body<Message>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    let untitled = conversation.title == title_of("");
    let (id, agent) = (&conversation.id, &state.agent);
    let started = match message.instead_of {
        None => agent.start(id, &user.person, user.role, &message.text).await,
        Some(position) => agent.start_instead(id, &user.person, user.role, &message.text, position).await,
    };
    let started = started.map_err(not_started)?;
    if untitled && started.position == 1 {
        state.conversations.rename(&conversation.id, &title_of(&message.text)).await?;
    }
    match wants {
        Wants::Page => Ok(see_other(&format!("/agent/{}", conversation.id))),
        Wants::Fragment => Ok(StatusCode::NO_CONTENT.into_response()),
        Wants::Json => match started.finished().await {
            Some(report) => Ok(reported(report)),
            None => Err(WebError::Unavailable("a turn ended without a report".to_owned())),
        },
    }
}

fn not_started(error: StartError) -> WebError {
    match error {
        StartError::UnknownConversation => WebError::NotFound,
        StartError::NotAllowed => WebError::Forbidden("approver or admin"),
        StartError::Empty | StartError::TooLong { .. } => WebError::Invalid(error.to_string()),
        StartError::Running | StartError::NotThere => WebError::Conflict(error.to_string()),
        StartError::TooMany => WebError::TooMany("conversations being answered"),
        StartError::ShuttingDown => WebError::Unavailable(error.to_string()),
        StartError::Store(error) => error.into(),
    }
}

/// `{ reply, calls, usage }` and how it ended, or a problem document when the model failed.
fn reported(report: TurnReport) -> Response {
    match &report.error {
        None => Json(report).into_response(),
        Some(error) => {
            let id = Uuid::new_v4().simple().to_string();
            tracing::warn!(request = %id, kind = error.kind, "a turn ended because the model failed");
            problem(StatusCode::SERVICE_UNAVAILABLE, "The model failed", &error.sentence, &id)
        }
    }
}

async fn stop(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    wants: Wants,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    state.agent.stop(&conversation.id);
    Ok(match wants {
        Wants::Fragment => StatusCode::NO_CONTENT.into_response(),
        Wants::Page | Wants::Json => see_other(&format!("/agent/{}", conversation.id)),
    })
}

#[derive(Debug, Deserialize)]
struct Title {
    title: String,
}

async fn rename(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    Path(id): Path<String>,
    Form(Title { title }): Form<Title>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    if title.trim().is_empty() {
        return Err(WebError::Invalid("a title has at least one character".to_owned()));
    }
    state.conversations.rename(&conversation.id, &title_of(&title)).await?;
    Ok(see_other(&format!("/agent/{}", conversation.id)))
}

#[derive(Debug, Deserialize)]
struct ModelFields {
    provider: Option<String>,
    model: Option<String>,
}

async fn choose_model(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    Path(id): Path<String>,
    Form(fields): Form<ModelFields>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    let choice = choice(&state, fields.provider.as_deref(), fields.model.as_deref())?;
    state.conversations.choose_model(&conversation.id, &choice.provider, &choice.model).await?;
    Ok(see_other(&format!("/agent/{}", conversation.id)))
}

/// Stops what runs in the conversation, then removes it. Its calls stay in the trail.
async fn delete(
    State(state): State<WebState>,
    Decider { user, .. }: Decider,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    if state.agent.stop(&conversation.id) {
        let ended = tokio::time::timeout(STOP_WAIT, state.agent.wait(&conversation.id)).await;
        if ended.is_err() {
            return Err(WebError::Conflict(
                "the turn that runs has not ended yet; try again in a moment".to_owned(),
            ));
        }
    }
    state.conversations.delete(&conversation.id).await?;
    Ok(see_other("/agent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(title_of("  list\n the files "), "list the files");
        assert_eq!(title_of(" \n "), "New conversation");
        let long = title_of(&"word ".repeat(40));
        assert!(long.chars().count() <= MOST_TITLE && long.ends_with('…'), "{long}");
    }

    #[test]
    fn a_cursor_is_read_or_left_alone() {
        let at = |after: &str| Listing { after: Some(after.to_owned()), ..Listing::default() }.cursor();
        assert_eq!(at("12-a-b"), Some(ListedAfter { updated_ms: 12, id: "a-b".to_owned() }));
        assert_eq!(at("x-a"), None);
        assert_eq!(at(""), None);
    }
}
