//! Calls by decision over time as stacked bars, with the same numbers as a table. Pure.

use super::span::Span;
use crate::web::figures::{Moment, grouped};
use crate::web::ui::{Tone, components};
use askama::Template;
use sluicegate_policy::Effect;
use sluicegate_store::SlotCount;

/// Height of the bars, in pixels, and where they stand.
const HEIGHT: f64 = 176.0;
const BASE: f64 = 184.0;
/// Where the bars begin, in per cent of the width.
const LEFT: f64 = 6.0;

/// Bars of one slot.
#[derive(Clone, Debug)]
struct Slot {
    label: String,
    allowed: u64,
    held: u64,
    denied: u64,
}

impl Slot {
    fn all(&self) -> u64 {
        self.allowed.saturating_add(self.held).saturating_add(self.denied)
    }
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
    span: Span,
    slots: Vec<Slot>,
    bars: Vec<Bar>,
    grid: Vec<(u64, String)>,
    labels: Vec<(String, String)>,
    gist: String,
}

components!(Chart);

impl Chart {
    /// Draws the slots of a span that begins at `first_ms`.
    pub(super) fn of(counts: &[SlotCount], span: Span, first_ms: i64) -> Self {
        let slots: Vec<Slot> = (0..span.count())
            .map(|n| {
                let start = first_ms.saturating_add(n.saturating_mul(span.slot_ms()));
                let label = span.label(&Moment::at_ms(start));
                let mut slot = Slot { label, allowed: 0, held: 0, denied: 0 };
                for found in counts.iter().filter(|found| found.slot == n) {
                    let part = match found.decision {
                        Effect::Allow => &mut slot.allowed,
                        Effect::RequireApproval => &mut slot.held,
                        Effect::Deny => &mut slot.denied,
                    };
                    *part = part.saturating_add(found.count);
                }
                slot
            })
            .collect();
        let top = scale(slots.iter().map(Slot::all).max().unwrap_or_default());
        let step = (100.0 - LEFT) / f64::from(i32::try_from(span.count()).unwrap_or(i32::MAX));
        let mut bars = Vec::new();
        let mut labels = Vec::new();
        let mut x = LEFT;
        for (n, slot) in slots.iter().enumerate() {
            let mut below = 0.0;
            for (tone, part) in
                [(Tone::Allow, slot.allowed), (Tone::Hold, slot.held), (Tone::Deny, slot.denied)]
            {
                let height = share(part, top);
                if part > 0 {
                    bars.push(Bar {
                        tone,
                        x: format!("{:.2}%", x + step * 0.08),
                        y: format!("{:.1}", BASE - below - height),
                        width: format!("{:.2}%", step * 0.84),
                        height: format!("{:.1}", (height - 1.0).max(1.0)),
                    });
                }
                below += height;
            }
            if n % span.labelled() == 0 {
                labels.push((format!("{:.2}%", x + step / 2.0), slot.label.clone()));
            }
            x += step;
        }
        let lines = [0, top / 2, top];
        let grid = lines.iter().map(|value| (*value, format!("{:.1}", BASE - share(*value, top)))).collect();
        Self { gist: gist(&slots, span), span, slots, bars, grid, labels }
    }
}

/// What the chart shows, in a sentence.
fn gist(slots: &[Slot], span: Span) -> String {
    let sum = |part: fn(&Slot) -> u64| slots.iter().map(part).fold(0, u64::saturating_add);
    let all = sum(Slot::all);
    if all == 0 {
        return format!("No calls in the {}", span.says());
    }
    let most = slots.iter().max_by_key(|slot| slot.all());
    let peak =
        most.map_or_else(String::new, |slot| format!("; most, {}, from {}", grouped(slot.all()), slot.label));
    format!(
        "{} calls in the {}: {} allowed, {} held, {} denied{peak}",
        grouped(all),
        span.says(),
        grouped(sum(|slot| slot.allowed)),
        grouped(sum(|slot| slot.held)),
        grouped(sum(|slot| slot.denied)),
    )
}

/// The next even round number: the top of the axis.
pub(super) fn scale(most: u64) -> u64 {
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
    use sluicegate_gateway::CallState;

    #[test]
    fn the_axis_ends_at_a_round_number_above_everything() {
        assert_eq!([0, 1, 2, 3, 9, 11, 21, 199, 201].map(scale), [2, 2, 2, 4, 10, 20, 40, 200, 400]);
        assert!(scale(u64::MAX) >= u64::MAX / 10 * 9);
    }

    #[test]
    fn bars_and_table_say_the_same() {
        let count = |slot, decision, count| SlotCount {
            slot,
            decision,
            state: CallState::Completed,
            code: None,
            count,
        };
        let counts = [
            count(5, Effect::Allow, 3),
            count(5, Effect::Deny, 1),
            count(7, Effect::RequireApproval, 2),
            count(99, Effect::Deny, 7),
        ];
        let chart = Chart::of(&counts, Span::Day, 0);
        assert_eq!((chart.slots.len(), chart.bars.len()), (24, 3));
        assert_eq!(chart.bars[0].height, "131.0", "three of four, and a pixel between the bars");
        assert_eq!((chart.slots[5].allowed, chart.slots[5].denied, chart.slots[7].held), (3, 1, 2));
        assert!(
            chart.gist.starts_with("6 calls in the last 24 hours: 3 allowed, 2 held, 1 denied; most, 4,")
        );
        let empty = Chart::of(&[], Span::Hour, 0);
        assert_eq!((empty.bars.len(), empty.gist.as_str()), (0, "No calls in the last hour"));
    }
}
