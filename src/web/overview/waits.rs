//! How long held calls waited for a decision, as bars. Pure.

use crate::web::figures::took;
use crate::web::ui::{Tone, components};
use askama::Template;
use sluicegate_gateway::ApprovalStatus;
use sluicegate_store::DecisionTime;

const HEIGHT: f64 = 115.0;
const BASE: f64 = 142.0;
/// Upper ends of the bars, in milliseconds, and what stands below them.
const ENDS: [(i64, &str, &str); 7] = [
    (10_000, "10 s", "up to 10 s"),
    (30_000, "30 s", "10 to 30 s"),
    (60_000, "1 m", "30 s to 1 min"),
    (120_000, "2 m", "1 to 2 min"),
    (180_000, "3 m", "2 to 3 min"),
    (300_000, "5 m", "3 to 5 min"),
    (i64::MAX, "more", "more than 5 min"),
];

/// Decisions that took about the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Bar {
    tone: Tone,
    label: &'static str,
    says: &'static str,
    count: u64,
    x: String,
    middle: String,
    y: String,
    height: String,
    above: String,
}

/// The chart.
#[derive(Clone, Debug, Template)]
#[template(path = "overview/waits.html")]
pub(super) struct Waits {
    bars: Vec<Bar>,
    /// Of the decisions of people: half took no longer, and 95 of 100 took no longer.
    median: Option<(String, String)>,
    decided: usize,
}

components!(Waits);

impl Waits {
    pub(super) fn of(decisions: &[DecisionTime]) -> Self {
        let by_people = |decision: &&DecisionTime| decision.status != ApprovalStatus::Expired;
        let mut times: Vec<i64> =
            decisions.iter().filter(by_people).map(|decision| decision.took_ms).collect();
        times.sort_unstable();
        let mut counts: Vec<(Tone, &'static str, &'static str, u64)> = Vec::new();
        let mut from = i64::MIN;
        for (end, label, says) in ENDS {
            let within = times.iter().filter(|took| **took > from && **took <= end).count();
            counts.push((Tone::Hold, label, says, u64::try_from(within).unwrap_or_default()));
            from = end;
        }
        let expired = decisions.len().saturating_sub(times.len());
        counts.push((Tone::Neutral, "expired", "nobody decided", u64::try_from(expired).unwrap_or_default()));
        let most = counts.iter().map(|(.., count)| *count).max().unwrap_or_default().max(1);
        let step = 100.0 / f64::from(u32::try_from(counts.len()).unwrap_or(1));
        let mut x = 0.0;
        let bars = counts
            .into_iter()
            .map(|(tone, label, says, count)| {
                let height = share(count, most);
                let bar = Bar {
                    tone,
                    label,
                    says,
                    count,
                    x: format!("{:.2}%", x + step * 0.06),
                    middle: format!("{:.2}%", x + step / 2.0),
                    y: format!("{:.1}", BASE - height),
                    height: format!("{height:.1}"),
                    above: format!("{:.1}", BASE - height - 5.0),
                };
                x += step;
                bar
            })
            .collect();
        let at = |hundredths: usize| {
            let place = times.len().saturating_mul(hundredths).div_ceil(100).saturating_sub(1);
            times.get(place).map(|ms| took(*ms))
        };
        Self { bars, median: at(50).zip(at(95)), decided: decisions.len() }
    }
}

#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn share(part: u64, of: u64) -> f64 {
    HEIGHT * part as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_in_one_bar_and_what_nobody_decided_in_its_own() {
        let decision = |status, took_ms| DecisionTime { status, took_ms };
        let decisions = [
            decision(ApprovalStatus::Consumed, 0),
            decision(ApprovalStatus::Denied, 10_000),
            decision(ApprovalStatus::Approved, 10_001),
            decision(ApprovalStatus::Void, 900_000),
            decision(ApprovalStatus::Expired, 60_000),
        ];
        let waits = Waits::of(&decisions);
        let counts: Vec<u64> = waits.bars.iter().map(|bar| bar.count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!(waits.median, Some(("10.0 s".to_owned(), "15 min".to_owned())));
        assert_eq!(waits.decided, 5);
        let none = Waits::of(&[]);
        assert_eq!((none.median, none.decided), (None, 0));
    }
}
