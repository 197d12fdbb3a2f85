//! One `tools/call` on its way: its notices relayed, its wait kept alive, its hold ended before the client gives up.
//!
//! The call belongs to the answer. When the client closes the connection the answer is dropped, and the call with it:
//! whoever asked is gone.

use super::era::Era;
use super::forms::{self, Client, Form, State};
use super::message::{self, RequestId};
use super::sessions::OpenRequest;
use super::streams::{KEEP_ALIVE, comment, event};
use super::{FrontBody, Inner, answer, events, handshake, json, tasks};
use futures::StreamExt as _;
use http::Response;
use serde_json::{Map, Value, json};
use sluicegate_gateway::{CallHandle, HeldCall, Notice, Stage};
use sluicegate_policy::CallerId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long an answer may take to be sent whole. After that, or when there is something to relay, it is a stream.
const WHOLE: Duration = Duration::from_millis(500);

/// How the client asked.
pub(crate) struct Asked {
    pub(crate) id: RequestId,
    pub(crate) era: Era,
    /// The client's own token: it comes back in kind.
    pub(crate) progress: Option<Value>,
    /// From which level on it wants log lines.
    pub(crate) log_level: Option<&'static str>,
    pub(crate) opens_urls: bool,
    /// It takes tasks for answers.
    pub(crate) tasks: bool,
    pub(crate) client: String,
    pub(crate) caller: CallerId,
    /// What its state is bound to.
    pub(crate) action: String,
    /// Questions asked of it about this call before.
    pub(crate) rounds: u32,
    /// It said no to the question.
    pub(crate) declined: bool,
}

/// What happens next.
enum Next {
    /// Something to relay.
    Frame(String),
    /// The answer.
    Answer(Value),
    /// Nobody wants it any more.
    Over,
}

/// A call whose answer is being waited for.
pub(crate) struct Calling {
    inner: Arc<Inner>,
    asked: Asked,
    handle: Option<CallHandle>,
    notices: Option<mpsc::Receiver<Notice>>,
    standing: CancellationToken,
    open: Option<OpenRequest>,
    held: Option<HeldCall>,
    form: Form,
    /// It is to be answered without waiting on.
    leaving: bool,
    deadline: Option<Instant>,
    tick: Instant,
    /// Progress that the wait itself has reported; a tool's own goes on from there, since it must rise.
    waited: f64,
    first: Option<Next>,
}

impl Calling {
    pub(crate) fn new(
        inner: Arc<Inner>,
        asked: Asked,
        handle: CallHandle,
        notices: mpsc::Receiver<Notice>,
        open: Option<OpenRequest>,
    ) -> Self {
        let standing = inner.standing(&asked.caller);
        Self {
            inner,
            asked,
            handle: Some(handle),
            notices: Some(notices),
            standing,
            open,
            held: None,
            form: Form::Confirmation,
            leaving: false,
            deadline: None,
            tick: Instant::now() + KEEP_ALIVE,
            waited: 0.0,
            first: None,
        }
    }

    /// Waits for the next thing. May be dropped and called again.
    async fn next(&mut self) -> Next {
        if let Some(first) = self.first.take() {
            return first;
        }
        loop {
            if self.leaving {
                if let Some(next) = self.leave().await {
                    return next;
                }
                self.leaving = false;
                self.deadline = None;
            }
            let Some(handle) = &mut self.handle else { return Next::Over };
            let open = self.open.as_ref().map(|open| &open.cancelled);
            tokio::select! {
                biased;
                () = self.standing.cancelled() => return self.give_up(),
                () = cancelled(open) => return self.give_up(),
                Some(notice) = heard(&mut self.notices) => {
                    if let Some(frame) = self.relay(notice) {
                        return Next::Frame(frame);
                    }
                }
                stage = handle.next_stage() => match stage {
                    Stage::Ended(ended) => {
                        self.handle = None;
                        return self.answer(answer::ended(*ended, self.asked.era));
                    }
                    Stage::Held(held) => self.hold(held),
                },
                () = at(self.deadline) => self.leaving = true,
                () = sleep_until(self.tick) => return Next::Frame(self.keep_alive()),
            }
        }
    }

    fn answer(&self, result: Value) -> Next {
        Next::Answer(message::result(&self.asked.id, result))
    }

    fn give_up(&mut self) -> Next {
        if let Some(handle) = self.handle.take() {
            handle.cancel();
        }
        Next::Over
    }

    /// The call is held: decides how long the client is kept waiting.
    fn hold(&mut self, held: HeldCall) {
        if self.asked.declined {
            // The client's user does not want it: that is a cancel, not a decision.
            if let Some(handle) = &self.handle {
                handle.cancel();
            }
            return;
        }
        self.form = forms::choose(held.tier, self.client());
        self.deadline = match self.form {
            Form::Hold(limit) => Some(Instant::now() + limit),
            Form::Confirmation | Form::InputRequired | Form::Task => None,
        };
        self.leaving = !matches!(self.form, Form::Hold(_));
        self.held = Some(held);
    }

    fn client(&self) -> Client<'_> {
        let asked = &self.asked;
        Client {
            opens_urls: asked.opens_urls,
            tasks: asked.tasks,
            detached: self.handle.as_ref().is_some_and(CallHandle::is_detached),
            name: &asked.client,
            rounds: asked.rounds,
        }
    }

    /// Answers without an end: from here on the call does not need its caller. `None` if it has moved on meanwhile, so
    /// that its end is near.
    async fn leave(&mut self) -> Option<Next> {
        let held = self.held.clone()?;
        let handle = self.handle.as_mut()?;
        match handle.detach().await {
            Ok(true) => {}
            Ok(false) => return None,
            // What cannot be recorded is not promised: the call stays attached, and goes with its caller.
            Err(error) => {
                tracing::error!(%error, call = %held.call, "a call could not be detached from its caller");
                handle.cancel();
                return None;
            }
        }
        self.handle = None;
        let public = &self.inner.public;
        if self.form == Form::Task {
            return Some(self.answer(tasks::created(&held, public)));
        }
        let state = if forms::asks_again(self.client()) { self.state() } else { None };
        let result = match state {
            Some(state) => answer::input_required(&held, public, &state),
            None => answer::pending(&held, public, self.asked.era),
        };
        Some(self.answer(result))
    }

    fn state(&self) -> Option<String> {
        self.inner.states.give(State {
            caller: self.asked.caller.clone(),
            action: self.asked.action.clone(),
            rounds: self.asked.rounds.saturating_add(1),
        })
    }

    fn relay(&self, notice: Notice) -> Option<String> {
        match notice {
            Notice::Progress(value) => {
                let token = self.asked.progress.as_ref()?;
                Some(event(&message::notification("notifications/progress", self.progress(token, value)?)))
            }
            Notice::Log(value) => {
                let rank = |word: &str| handshake::LEVELS.iter().position(|level| *level == word);
                let least = rank(self.asked.log_level?)?;
                let level = rank(value.get("level")?.as_str()?)?;
                (level >= least).then(|| event(&message::notification("notifications/message", value)))
            }
        }
    }

    /// A tool's progress under the client's own token, raised by what the wait has reported.
    fn progress(&self, token: &Value, value: Value) -> Option<Value> {
        let Value::Object(mut progress) = value else { return None };
        if self.waited > 0.0 {
            for name in ["progress", "total"] {
                if let Some(number) = progress.get(name).and_then(Value::as_f64) {
                    progress.insert(name.to_owned(), (number + self.waited).into());
                }
            }
        }
        progress.insert("progressToken".to_owned(), token.clone());
        Some(Value::Object(progress))
    }

    fn keep_alive(&mut self) -> String {
        self.tick = Instant::now() + KEEP_ALIVE;
        match (&self.asked.progress, &self.held) {
            (Some(token), Some(held)) => {
                self.waited += 1.0;
                let mut progress = Map::new();
                progress.insert("progressToken".to_owned(), token.clone());
                progress.insert("progress".to_owned(), self.waited.into());
                let text = format!("waiting for a person until {}", held.expires_at);
                progress.insert("message".to_owned(), text.into());
                event(&message::notification("notifications/progress", Value::Object(progress)))
            }
            _ => comment(),
        }
    }
}

async fn heard(notices: &mut Option<mpsc::Receiver<Notice>>) -> Option<Notice> {
    match notices {
        Some(receiver) => match receiver.recv().await {
            Some(notice) => Some(notice),
            None => {
                *notices = None;
                std::future::pending().await
            }
        },
        None => std::future::pending().await,
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Answers a call: whole if that is soon, else as a stream.
pub(crate) async fn answer(mut calling: Calling, takes_events: bool) -> Response<FrontBody> {
    if !takes_events {
        return match whole(calling).await {
            Some(message) => json(message),
            None => events(futures::stream::empty().boxed()),
        };
    }
    match timeout(WHOLE, calling.next()).await {
        Ok(Next::Answer(message)) => return json(message),
        Ok(Next::Over) => return events(futures::stream::empty().boxed()),
        Ok(frame @ Next::Frame(_)) => calling.first = Some(frame),
        // So that the client sees at once that it is being served.
        Err(_) => calling.first = Some(Next::Frame(comment())),
    }
    let stream = futures::stream::unfold(Some(calling), |calling| async move {
        let mut calling = calling?;
        match calling.next().await {
            Next::Frame(frame) => Some((frame, Some(calling))),
            Next::Answer(message) => Some((event(&message), None)),
            Next::Over => None,
        }
    });
    events(stream.boxed())
}

/// Waits for the whole answer. `None`: it was cancelled, which wants no answer.
pub(crate) async fn whole(mut calling: Calling) -> Option<Value> {
    loop {
        match calling.next().await {
            Next::Frame(_) => {}
            Next::Answer(message) => return Some(message),
            Next::Over => return None,
        }
    }
}

/// The progress token that a request gives: a text or a number.
pub(crate) fn progress_token(meta: Option<&Map<String, Value>>) -> Option<Value> {
    meta.and_then(|meta| meta.get("progressToken"))
        .filter(|token| token.is_string() || token.is_number())
        .cloned()
}

/// What a state is bound to, as far as this server is concerned.
pub(crate) fn action(server: &str, tool: &str, arguments: &Value) -> String {
    json!([server, tool, arguments]).to_string()
}
