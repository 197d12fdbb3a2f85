//! Held calls by what they do, so that a repeat finds the one that is open; and the results of detached ones, until they
//! are collected.

use super::flight::{CallHandle, Flight, HeldCall};
use crate::action::ActionDigest;
use crate::call::CallId;
use crate::clock::Clocks;
use crate::core::Core;
use crate::facts::refusal;
use crate::outcome::{CallAnswer, ReasonCode};
use sluicegate_policy::CallerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long the result of a detached call is kept to be collected.
const KEEP: Duration = Duration::from_secs(600);
/// Results that are kept at once; the oldest goes first.
const MAX_KEPT: usize = 256;
/// Largest result that is kept.
const MAX_KEPT_BYTES: usize = 1024 * 1024;
/// Calls of one caller that may wait for a person at once, so that a flood cannot bury the one that matters.
const MAX_HELD: usize = 50;

/// A call that a repeat can find.
enum Entry {
    /// It is held, or was approved and runs.
    Open { flight: Arc<Flight>, caller: CallerId },
    /// It has ended and nobody has collected it.
    Kept { kept: Kept, since: Instant },
}

/// The end of a detached call, until it is collected.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What its caller is to be told.
    pub answer: Box<CallAnswer>,
    /// Who asked.
    pub caller: CallerId,
    /// When it was asked for; RFC 3339.
    pub asked_at: String,
    /// When it ended; RFC 3339.
    pub ended_at: String,
}

/// A detached call, as its caller finds it by its id.
#[derive(Clone, Debug)]
pub enum Detached {
    /// It waits for a person, or was approved and runs.
    Open(HeldCall),
    /// It has ended.
    Ended(Kept),
}

/// What a repeat finds.
pub(super) enum Found {
    Open(CallHandle),
    /// Taken out: it is given once.
    Kept(Box<CallAnswer>),
}

/// Whether a call is the one that later repeats will find.
pub(super) enum Led {
    Leads,
    Follows(CallHandle),
    TooMany,
}

/// Held calls by what they do, and results of detached ones that wait to be collected.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<ActionDigest, Entry>>);

impl Flights {
    fn entries(&self) -> MutexGuard<'_, HashMap<ActionDigest, Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| match entry {
            Entry::Open { .. } => true,
            Entry::Kept { since, .. } => since.elapsed() < KEEP,
        });
        entries
    }

    /// A handle is made under the lock, so that what it waits for cannot end unseen.
    pub(super) fn find(&self, core: &Arc<Core>, action: ActionDigest) -> Option<Found> {
        let mut entries = self.entries();
        match entries.get(&action)? {
            Entry::Open { flight, .. } => Some(Found::Open(CallHandle::of(core, flight))),
            Entry::Kept { .. } => match entries.remove(&action)? {
                Entry::Kept { kept, .. } => Some(Found::Kept(kept.answer)),
                Entry::Open { .. } => None,
            },
        }
    }

    /// The detached call of this caller with this id. Anybody else's is as unknown as one that never was.
    pub(super) fn detached(&self, caller: &CallerId, call: CallId) -> Option<Detached> {
        let entries = self.entries();
        entries.values().find_map(|entry| match entry {
            Entry::Open { flight, caller: owner } if owner == caller && flight.id == call => {
                let held = flight.held().filter(|_| flight.is_detached())?;
                Some(Detached::Open(held))
            }
            Entry::Kept { kept, .. } if kept.caller == *caller && kept.answer.call == call => {
                Some(Detached::Ended(kept.clone()))
            }
            Entry::Open { .. } | Entry::Kept { .. } => None,
        })
    }

    /// Takes the kept result of this caller's call: it is given once.
    pub(super) fn take(&self, caller: &CallerId, call: CallId) -> Option<Box<CallAnswer>> {
        let mut entries = self.entries();
        let action = entries.iter().find_map(|(action, entry)| match entry {
            Entry::Kept { kept, .. } if kept.caller == *caller && kept.answer.call == call => Some(*action),
            Entry::Open { .. } | Entry::Kept { .. } => None,
        })?;
        match entries.remove(&action)? {
            Entry::Kept { kept, .. } => Some(kept.answer),
            Entry::Open { .. } => None,
        }
    }

    /// Withdraws an open detached call of this caller. `false`: there is none of this id.
    pub(super) fn withdraw(&self, caller: &CallerId, call: CallId) -> bool {
        let entries = self.entries();
        let open = entries.values().find_map(|entry| match entry {
            Entry::Open { flight, caller: owner } if owner == caller && flight.id == call => Some(flight),
            Entry::Open { .. } | Entry::Kept { .. } => None,
        });
        match open.filter(|flight| flight.is_detached()) {
            Some(flight) => {
                flight.cancel.cancel();
                true
            }
            None => false,
        }
    }

    /// Makes a call about to be held the one that repeats find, unless there is one.
    pub(super) fn lead(
        &self,
        core: &Arc<Core>,
        action: ActionDigest,
        flight: &Arc<Flight>,
        caller: &CallerId,
    ) -> Led {
        let mut entries = self.entries();
        if let Some(Entry::Open { flight, .. }) = entries.get(&action) {
            return Led::Follows(CallHandle::of(core, flight));
        }
        let own = |entry: &&Entry| matches!(entry, Entry::Open { caller: other, .. } if other == caller);
        if entries.values().filter(own).count() >= MAX_HELD {
            return Led::TooMany;
        }
        // Set once: a call does one thing.
        flight.action.set(action).ok();
        entries.insert(action, Entry::Open { flight: Arc::clone(flight), caller: caller.clone() });
        Led::Leads
    }

    /// The call is over, or was not held after all.
    pub(super) fn land(
        &self,
        action: ActionDigest,
        flight: &Arc<Flight>,
        answer: Option<&CallAnswer>,
        now: &Clocks,
    ) {
        let mut entries = self.entries();
        let caller = match entries.get(&action) {
            Some(Entry::Open { flight: other, caller }) if Arc::ptr_eq(flight, other) => caller.clone(),
            _ => return,
        };
        entries.remove(&action);
        // A call that was not held after all may still be.
        let detached = flight.land(answer.is_some());
        if let Some(answer) = answer
            && detached
        {
            let kept = Kept {
                answer: Box::new(kept(answer)),
                caller,
                asked_at: flight.held().map(|held| held.asked_at).unwrap_or_default(),
                ended_at: now.text(),
            };
            keep(&mut entries, action, kept, Instant::now());
        }
    }

    /// A kept result has been given.
    pub(super) fn give_away(&self, action: ActionDigest, call: CallId) {
        let mut entries = self.entries();
        if matches!(entries.get(&action), Some(Entry::Kept { kept, .. }) if kept.answer.call == call) {
            entries.remove(&action);
        }
    }

    /// Keeps what an earlier process ended so long ago.
    pub(super) fn restore(&self, action: ActionDigest, kept: Kept, age: Duration) {
        if let Some(since) = Instant::now().checked_sub(age) {
            keep(&mut self.entries(), action, kept, since);
        }
    }
}

fn keep(entries: &mut HashMap<ActionDigest, Entry>, action: ActionDigest, kept: Kept, since: Instant) {
    let aged = |entry: &Entry| match entry {
        Entry::Kept { since, .. } => Some(*since),
        Entry::Open { .. } => None,
    };
    if entries.values().filter_map(aged).count() >= MAX_KEPT {
        let oldest = entries.iter().filter_map(|(action, entry)| Some((*action, aged(entry)?)));
        if let Some((oldest, _)) = oldest.min_by_key(|(_, since)| *since) {
            entries.remove(&oldest);
        }
    }
    entries.insert(action, Entry::Kept { kept, since });
}

/// What is kept of an answer: all of it, unless it is too large.
fn kept(answer: &CallAnswer) -> CallAnswer {
    let large = answer.output.as_ref().is_some_and(|output| output.result.to_string().len() > MAX_KEPT_BYTES);
    if large { too_large(answer.clone()) } else { answer.clone() }
}

/// The tool ran and its result cannot be given: it must not be run again to get it.
pub(super) fn too_large(answer: CallAnswer) -> CallAnswer {
    let sentence = "the tool ran, and its result was too large to be kept; a person can read its beginning on the call's page";
    CallAnswer { output: None, refusal: Some(refusal(ReasonCode::OutcomeLost, sentence, false)), ..answer }
}
