//! The gate's own time per call over the day, as two lines. Pure but for reading it.

use super::chart::scale;
use crate::web::figures::{Moment, grouped, milliseconds};
use crate::web::ui::components;
use askama::Template;
use sluicegate_gateway::{GateTime, GateTimes};

const HEIGHT: f64 = 127.0;
const BASE: f64 = 142.0;
const LEFT: f64 = 12.0;
const WIDTH: f64 = 78.0;

/// One half hour in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    label: String,
    calls: String,
    p50: String,
    p99: String,
}

/// The chart.
#[derive(Clone, Debug, Template)]
#[template(path = "overview/gate.html")]
pub(super) struct GateChart {
    whole: Option<Row>,
    rows: Vec<Row>,
    /// Lines of the axis: what they say, and where.
    grid: Vec<(String, String)>,
    /// Points of the two curves, in a box of the data's own units.
    p50: String,
    p99: String,
    view: String,
    labels: Vec<(String, String)>,
    ends: (String, String),
}

components!(GateChart);

impl GateChart {
    pub(super) fn of(times: &GateTimes) -> Self {
        Self::draw(times.whole(), &times.spans())
    }

    fn draw(whole: Option<GateTime>, spans: &[GateTime]) -> Self {
        // Bounds of the axis in microseconds, so that small figures have lines of their own.
        let top = scale(spans.iter().map(|span| span.p99_us).max().unwrap_or_default());
        let (first, last) =
            (spans.first().map_or(0, |span| span.from_ms), spans.last().map_or(0, |span| span.from_ms));
        let wide = last.saturating_sub(first).max(GateTimes::SPAN_MS);
        let points = |of: fn(&GateTime) -> u64| {
            let at = |span: &GateTime| {
                format!("{},{}", span.from_ms.saturating_sub(first), top.saturating_sub(of(span)))
            };
            let mut points: Vec<String> = spans.iter().map(at).collect();
            // A line needs two ends.
            if let [only] = spans {
                points.push(format!("{wide},{}", top.saturating_sub(of(only))));
            }
            points.join(" ")
        };
        let end =
            |of: fn(&GateTime) -> u64| spans.last().map_or(BASE, |span| BASE - HEIGHT * share(of(span), top));
        // The two words at the ends of the lines never cover each other.
        let low = end(|span| span.p50_us);
        let high = end(|span| span.p99_us).min(low - 12.0);
        Self {
            whole: whole.map(|whole| row(&whole)),
            rows: spans.iter().map(row).collect(),
            grid: [0, top / 2, top]
                .iter()
                .map(|us| (milliseconds(*us), format!("{:.1}", BASE - HEIGHT * share(*us, top))))
                .collect(),
            p50: points(|span| span.p50_us),
            p99: points(|span| span.p99_us),
            view: format!("0 0 {wide} {top}"),
            labels: labels(first, wide, spans.len()),
            ends: (format!("{low:.1}"), format!("{high:.1}")),
        }
    }
}

/// Times below the axis: at its begin and its end.
fn labels(first: i64, wide: i64, spans: usize) -> Vec<(String, String)> {
    if spans == 0 {
        return Vec::new();
    }
    let at = |ms: i64, x: f64| (format!("{x:.1}%"), Moment::at_ms(ms).short);
    vec![at(first, LEFT), at(first.saturating_add(wide), LEFT + WIDTH)]
}

fn row(span: &GateTime) -> Row {
    Row {
        label: Moment::at_ms(span.from_ms).short,
        calls: grouped(span.calls),
        p50: milliseconds(span.p50_us),
        p99: milliseconds(span.p99_us),
    }
}

#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_table_say_the_same() {
        let span =
            |n: i64, p50_us, p99_us| GateTime { from_ms: n * GateTimes::SPAN_MS, calls: 3, p50_us, p99_us };
        let chart =
            GateChart::draw(Some(span(0, 1_800, 8_600)), &[span(0, 2_000, 9_000), span(2, 1_000, 4_000)]);
        assert_eq!(chart.p50, "0,8000 3600000,9000", "the axis ends at 10 ms");
        assert_eq!(chart.p99, "0,1000 3600000,6000");
        assert_eq!(chart.rows.len(), 2);
        assert_eq!(chart.whole.map(|row| (row.p50, row.p99)), Some(("1.8".to_owned(), "8.6".to_owned())));
        let one = GateChart::draw(None, &[span(0, 5, 5)]);
        assert_eq!(one.p50.split(' ').count(), 2, "one point is a line all the same");
        let none = GateChart::draw(None, &[]);
        assert!(none.p50.is_empty() && none.rows.is_empty() && none.whole.is_none());
    }
}
