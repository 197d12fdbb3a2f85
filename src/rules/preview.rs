//! What an edit would do, before it is made: to recorded calls, to calls made up from both sets of rules, and to the tests
//! that are kept with the rules.

use std::collections::BTreeSet;

use sluicegate_gateway::{ToolDefinition, local_times};
use sluicegate_policy::{
    Comparison, Finding, Hints, KnownCall, Offered, PolicyDocument, RuleSet, RuleTest, TestFailure, ToolRef,
    ZoneName, compare, findings, probes,
};
use sluicegate_store::{PolicyRemarks, RecordedCall};

/// Recorded calls that are judged again.
pub(super) const MOST_CALLS: u32 = 1_000;
/// Loosened calls that are told of a revision.
const MOST_EXAMPLES: usize = 5;

/// What an edit would do.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The recorded calls, oldest first.
    pub calls: Vec<RecordedCall>,
    /// How they are decided, before and after.
    pub backtest: Comparison,
    /// The calls made up from both sets of rules, and how they are decided.
    pub made_up: Vec<KnownCall>,
    /// How these are decided, before and after.
    pub probed: Comparison,
    /// Tests of the edited document that fail.
    pub failing: Vec<TestFailure>,
    /// Tests of the edited document.
    pub tests: usize,
    /// What is probably wrong with the edited rules.
    pub findings: Vec<Finding>,
}

/// What is known of the world besides the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) calls: Vec<RecordedCall>,
    pub(super) offered: Vec<Offered>,
}

impl Preview {
    /// Judges everything by both sets of rules. Pure, and as much work as there are calls.
    pub(super) fn of(before: &RuleSet, after: &RuleSet, document: &PolicyDocument, known: Known) -> Self {
        let zones: BTreeSet<ZoneName> = before.zones().into_iter().chain(after.zones()).collect();
        let tools: Vec<(ToolRef, Hints)> =
            known.offered.iter().map(|one| (one.tool.clone(), one.hints)).collect();
        let replayed: Vec<KnownCall> = known.calls.iter().map(|call| replay(call, &zones, &tools)).collect();
        let backtest = compare(&replayed, before, after);
        let made_up = probes(&[before, after], &tools);
        let probed = compare(&made_up, before, after);
        Self {
            backtest,
            made_up,
            probed,
            failing: failing(&document.tests, after),
            tests: document.tests.len(),
            findings: findings(after, &known.offered),
            calls: known.calls,
        }
    }

    /// Whether it lets a call through that is now stopped, or stopped harder.
    #[must_use]
    pub fn loosens(&self) -> bool {
        self.backtest.looser().chain(self.probed.looser()).next().is_some()
    }

    /// What is kept with the revision.
    pub(super) fn remarks(&self) -> PolicyRemarks {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let recorded = self
            .backtest
            .looser()
            .filter_map(|change| Some((&self.calls.get(change.call)?.context.tool, change)));
        let made_up = self
            .probed
            .looser()
            .filter_map(|change| Some((&self.made_up.get(change.call)?.context.tool, change)));
        let mut examples: Vec<String> = Vec::new();
        for (tool, change) in recorded.chain(made_up) {
            let example = format!("{tool}: {}, before {}", change.after.sentence, change.before.sentence);
            if !examples.contains(&example) {
                examples.push(example);
            }
            if examples.len() == MOST_EXAMPLES {
                break;
            }
        }
        PolicyRemarks {
            judged: count(self.backtest.calls + self.probed.calls),
            looser: count(self.backtest.looser().count() + self.probed.looser().count()),
            examples,
            ..overridden(&self.failing)
        }
    }
}

/// The remark that these tests fail.
pub(super) fn overridden(failing: &[TestFailure]) -> PolicyRemarks {
    let overridden = failing.iter().map(|failure| failure.name.clone()).collect();
    PolicyRemarks { overridden, ..PolicyRemarks::default() }
}

/// The tests that fail.
#[must_use]
pub fn failing(tests: &[RuleTest], rules: &RuleSet) -> Vec<TestFailure> {
    tests.iter().filter_map(|test| test.run(rules).err()).collect()
}

/// A recorded call, with the local time in every zone that is asked for now.
fn replay(call: &RecordedCall, zones: &BTreeSet<ZoneName>, tools: &[(ToolRef, Hints)]) -> KnownCall {
    let mut context = call.context.clone();
    let missing = zones.iter().filter(|zone| !call.context.local_times.contains_key(*zone));
    context.local_times.extend(local_times(missing, context.now));
    let stated = tools.iter().find(|(tool, _)| *tool == context.tool).map(|(_, hints)| *hints);
    KnownCall { context, hints: stated.unwrap_or_default(), ran: call.ran }
}

/// What findings and probes want to know of a tool on offer.
pub(super) fn offered(definition: &ToolDefinition) -> Offered {
    let schema = definition.input_schema();
    let closed = schema.get("additionalProperties").is_none_or(|more| more.as_bool() == Some(false));
    let named = schema.get("properties").and_then(serde_json::Value::as_object);
    let composed =
        ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"].iter().any(|key| schema.get(key).is_some());
    Offered {
        tool: definition.tool().clone(),
        hints: definition.hints(),
        arguments: named
            .filter(|_| closed && !composed)
            .map(|properties| properties.keys().cloned().collect()),
    }
}
