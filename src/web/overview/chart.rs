//! Calls per hour as stacked bars, with the same numbers as a table. Pure.

use crate::web::figures::Moment;
use crate::web::ui::{Tone, components};
use askama::Template;
use sluicegate_gateway::CallState;
use sluicegate_store::HourCount;

/// Height of the bars, in pixels, and where they stand.
const HEIGHT: f64 = 176.0;
const BASE: f64 = 184.0;
/// Where the bars begin, in per cent of the width.
const LEFT: f64 = 6.0;

/// Bars of one hour.
#[derive(Clone, Debug)]
struct Hour {
    at: Moment,
    ran: u64,
    open: u64,
    refused: u64,
}

/// A rectangle: left, top, width, height.
#[derive(Clone, Debug)]
struct Bar {
    tone: Tone,
    x: String,
    y: String,
    width: String,
    height: String,
}

/// The chart.
#[derive(Clone, Debug, Template)]
#[template(path = "overview/chart.html")]
pub(super) struct Chart {
    hours: Vec<Hour>,
    bars: Vec<Bar>,
    grid: Vec<(u64, String)>,
    labels: Vec<(String, String)>,
    total: u64,
}

components!(Chart);

impl Chart {
    /// Draws `count` hours from `first_ms` on.
    pub(super) fn of(counts: &[HourCount], first_ms: i64, count: i64, hour_ms: i64) -> Self {
        let hours: Vec<Hour> = (0..count)
            .map(|n| {
                let start = first_ms.saturating_add(n.saturating_mul(hour_ms));
                let mut hour = Hour { at: Moment::at_ms(start), ran: 0, open: 0, refused: 0 };
                for found in counts.iter().filter(|found| found.hour_ms == start) {
                    let part = match found.state {
                        CallState::Completed | CallState::Failed | CallState::Unknown => &mut hour.ran,
                        CallState::Denied | CallState::Expired | CallState::Withdrawn => &mut hour.refused,
                        CallState::Proposed
                        | CallState::Pending
                        | CallState::Approved
                        | CallState::Executing => &mut hour.open,
                    };
                    *part = part.saturating_add(found.count);
                }
                hour
            })
            .collect();
        let sum = |hour: &Hour| hour.ran.saturating_add(hour.open).saturating_add(hour.refused);
        let top = scale(hours.iter().map(sum).max().unwrap_or_default());
        let step = (100.0 - LEFT) / f64::from(i32::try_from(count.max(1)).unwrap_or(i32::MAX));
        let mut bars = Vec::new();
        let mut labels = Vec::new();
        let mut x = LEFT;
        for (n, hour) in hours.iter().enumerate() {
            let mut below = 0.0;
            for (tone, part) in [(Tone::Allow, hour.ran), (Tone::Hold, hour.open), (Tone::Deny, hour.refused)]
            {
                let height = share(part, top);
                if part > 0 {
                    bars.push(Bar {
                        tone,
                        x: format!("{:.2}%", x + step * 0.08),
                        y: format!("{:.1}", BASE - below - height),
                        width: format!("{:.2}%", step * 0.84),
                        height: format!("{height:.1}"),
                    });
                }
                below += height;
            }
            if n % 3 == 0 {
                labels.push((format!("{:.2}%", x + step / 2.0), hour.at.short.clone()));
            }
            x += step;
        }
        let lines = [0, top / 2, top];
        let grid = lines.iter().map(|value| (*value, format!("{:.1}", BASE - share(*value, top)))).collect();
        let total = hours.iter().map(sum).fold(0, u64::saturating_add);
        Self { hours, bars, grid, labels, total }
    }
}

/// The next even round number: the top of the axis.
fn scale(most: u64) -> u64 {
    let mut top = 2_u64;
    loop {
        for step in [1, 2, 4, 5] {
            let round = top.saturating_mul(step);
            if round >= most {
                return round;
            }
        }
        top = top.saturating_mul(10);
    }
}

#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn share(part: u64, of: u64) -> f64 {
    HEIGHT * part as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_round_number_above_everything() {
        assert_eq!([0, 1, 2, 3, 9, 11, 21, 199, 201].map(scale), [2, 2, 2, 4, 10, 20, 40, 200, 400]);
        assert!(scale(u64::MAX) >= u64::MAX / 10 * 9);
    }

    #[test]
    fn bars_and_table_say_the_same() {
        let hour = 3_600_000;
        let count = |n, state, count| HourCount { hour_ms: n * hour, state, count };
        let counts = [
            count(5, CallState::Completed, 3),
            count(5, CallState::Denied, 1),
            count(99, CallState::Denied, 7),
        ];
        let chart = Chart::of(&counts, 4 * hour, 3, hour);
        assert_eq!((chart.total, chart.hours.len(), chart.bars.len()), (4, 3, 2));
        assert_eq!(chart.bars[0].height, "132.0", "three of four");
        assert_eq!((chart.hours[1].ran, chart.hours[1].refused), (3, 1));
    }
}
