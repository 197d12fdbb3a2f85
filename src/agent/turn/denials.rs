//! Counts denials in a turn, to break a loop of asking for what was denied.

use crate::conversation::ModelCall;
use sluicegate_gateway::ReasonCode;
use sluicegate_gateway::audit::canonical_json;
use std::collections::BTreeMap;

/// So many denials of the same tool with the same arguments end the turn.
const IDENTICAL: u32 = 3;

/// So many calls of one tool that people denied end the turn, whatever the arguments.
const VARIANTS: u32 = 5;

/// Denials so far.
#[derive(Debug, Default)]
pub(super) struct Denials {
    identical: BTreeMap<(String, String), u32>,
    by_person: BTreeMap<String, u32>,
}

impl Denials {
    /// Counts one.
    pub(super) fn count(&mut self, call: &ModelCall, code: ReasonCode) {
        let same =
            self.identical.entry((call.name.clone(), same_arguments(call.arguments.as_deref()))).or_default();
        *same = same.saturating_add(1);
        if matches!(code, ReasonCode::DeniedByPerson | ReasonCode::RepeatedDenial) {
            let person = self.by_person.entry(call.name.clone()).or_default();
            *person = person.saturating_add(1);
        }
    }

    /// The line that ends the turn, if the model is in a loop.
    pub(super) fn loop_line(&self) -> Option<String> {
        let identical = self.identical.iter().find(|(_, times)| **times >= IDENTICAL).map(|((tool, _), times)| {
            format!(
                "The agent was stopped: `{tool}` was denied {times} times in this turn with the same arguments, and \
                 asking again does not change that."
            )
        });
        identical.or_else(|| {
            self.by_person.iter().find(|(_, times)| **times >= VARIANTS).map(|(tool, times)| {
                format!(
                    "The agent was stopped: people denied `{tool}` {times} times in this turn. Say what it should do \
                     instead."
                )
            })
        })
    }
}

/// One text for one set of arguments, whatever order and spacing they came in.
fn same_arguments(text: Option<&str>) -> String {
    let text = text.unwrap_or("{}");
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Null) => "{}".to_owned(),
        Ok(value) => canonical_json(&value),
        Err(_) => text.to_owned(),
    }
}
