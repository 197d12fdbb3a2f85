//! Whether the trail is whole: checked in the background, when somebody asks for it.

use crate::web::error::WebError;
use crate::web::figures::{Moment, grouped};
use crate::web::guard::CurrentUser;
use crate::web::respond::{Wants, render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Icon, Tone, components};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use sluicegate_store::Verified;
use std::sync::{Arc, Mutex, PoisonError};

/// How the last check stands. One runs at a time; it ends by itself, or when the product stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainCheck(Arc<Mutex<Checked>>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Checked {
    /// Nobody has asked since the start.
    #[default]
    Never,
    /// Rows done, and rows in all.
    Running(i64, i64),
    /// Every row was as it was written, up to this one.
    Whole { upto: i64, at_ms: i64 },
    /// The first thing wrong.
    Broken { why: String, at_ms: i64 },
    /// It could not be read to its end.
    Failed { at_ms: i64 },
}

impl ChainCheck {
    fn get(&self) -> Checked {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, checked: Checked) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = checked;
    }

    /// For the list of what is well and what is not.
    pub(crate) fn health(&self) -> (Tone, &'static str, String) {
        let on = |at_ms| {
            let at = Moment::at_ms(at_ms);
            format!("{}, {}", at.date, at.time)
        };
        match self.get() {
            Checked::Never => {
                (Tone::Neutral, "not checked", "not since the start; the audit page checks it".to_owned())
            }
            Checked::Running(done, of) => (Tone::Info, "checking", format!("{done} of {of} events")),
            Checked::Whole { upto, at_ms } => {
                (Tone::Allow, "whole", format!("up to #{upto}, on {}", on(at_ms)))
            }
            Checked::Broken { why, at_ms } => {
                (Tone::Deny, "broken", format!("{why}; found on {}", on(at_ms)))
            }
            Checked::Failed { at_ms } => {
                (Tone::Hold, "not checked", format!("it could not be read on {}", on(at_ms)))
            }
        }
    }

    /// Begins a check, unless one runs.
    fn begin(&self, state: &WebState) {
        {
            let mut checked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*checked, Checked::Running(..)) {
                return;
            }
            *checked = Checked::Running(0, 0);
        }
        let (check, state) = (self.clone(), state.clone());
        tokio::spawn(async move {
            let progress = |done, of| check.set(Checked::Running(done, of));
            let found = state.shutdown.run_until_cancelled(state.audit.verify(progress)).await;
            let at_ms = state.now_ms();
            check.set(match found {
                None => Checked::Failed { at_ms },
                Some(Ok(Verified::Whole(head))) => Checked::Whole { upto: head.seq, at_ms },
                Some(Ok(Verified::Broken(broken))) => {
                    tracing::error!(%broken, "the audit trail is not whole");
                    Checked::Broken { why: broken.to_string(), at_ms }
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "the audit trail could not be checked");
                    Checked::Failed { at_ms }
                }
            });
        });
    }
}

/// The state of the chain, as the page shows it.
#[derive(Debug, Template)]
#[template(path = "audit/chain.html")]
pub(super) struct Chain {
    checked: Checked,
    rows: i64,
    hash: String,
}

components!(Chain);

impl Chain {
    pub(super) async fn of(state: &WebState) -> Result<Self, WebError> {
        let head = state.audit.head().await?;
        Ok(Self { checked: state.chain().get(), rows: head.seq, hash: head.hash })
    }

    pub(super) fn running(&self) -> bool {
        matches!(self.checked, Checked::Running(..))
    }

    /// The beginning of the last hash; the list of events has it whole.
    fn short(&self) -> String {
        self.hash.chars().take(12).collect()
    }

    fn figure(rows: &i64) -> String {
        grouped(u64::try_from(*rows).unwrap_or_default())
    }

    fn since(&self, upto: &i64) -> String {
        Self::figure(&self.rows.saturating_sub(*upto))
    }

    fn share(done: &i64, of: &i64) -> i64 {
        done.saturating_mul(100) / (*of).max(1)
    }

    fn moment(at_ms: &i64) -> Moment {
        Moment::at_ms(*at_ms)
    }
}

pub(super) async fn show(
    State(state): State<WebState>,
    _: CurrentUser,
    wants: Wants,
) -> Result<Response, WebError> {
    answer(&state, wants).await
}

/// Begins a check. It reads only, so everyone who may look may ask for it.
pub(super) async fn verify(
    State(state): State<WebState>,
    _: CurrentUser,
    wants: Wants,
) -> Result<Response, WebError> {
    state.chain().begin(&state);
    answer(&state, wants).await
}

async fn answer(state: &WebState, wants: Wants) -> Result<Response, WebError> {
    match wants {
        Wants::Fragment => Ok(render(&Chain::of(state).await?)),
        Wants::Page | Wants::Json => Ok(see_other("/audit")),
    }
}
