//! Exact comparison of JSON numbers.

use core::cmp::Ordering;

use serde_json::Number;

/// A JSON number: every whole number that fits 64 bits is held exactly, all others as a finite double.
#[derive(Debug, Clone, Copy)]
pub(super) enum Num {
    Whole(i128),
    /// Finite.
    Double(f64),
}

impl Num {
    pub(super) fn new(number: &Number) -> Option<Self> {
        if let Some(n) = number.as_u64() {
            return Some(Self::Whole(n.into()));
        }
        if let Some(n) = number.as_i64() {
            return Some(Self::Whole(n.into()));
        }
        number.as_f64().filter(|d| d.is_finite()).map(Self::Double)
    }

    pub(super) fn cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (Self::Whole(a), Self::Double(b)) => whole_to_double(a, b),
            (Self::Double(a), Self::Whole(b)) => whole_to_double(b, a).reverse(),
            // Finite doubles are always comparable.
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        }
    }
}

/// Compares without rounding either: first the whole part, then the fraction. `whole` is within 64 bits, and a double
/// beyond `i128` saturates on conversion, which keeps the order.
fn whole_to_double(whole: i128, double: f64) -> Ordering {
    let truncated = double as i128;
    // Where a fraction exists the double is below 2^53, so `truncated as f64` is exact.
    whole.cmp(&truncated).then_with(|| (truncated as f64).partial_cmp(&double).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_doubles_compare_by_value() {
        let cases = [
            (Num::Whole(1), Num::Double(1.5), Ordering::Less),
            (Num::Whole(-1), Num::Double(-1.5), Ordering::Greater),
            (Num::Whole(0), Num::Double(-0.5), Ordering::Greater),
            (Num::Whole(0), Num::Double(0.5), Ordering::Less),
            (Num::Whole(3), Num::Double(3.0), Ordering::Equal),
            (Num::Whole(9_007_199_254_740_993), Num::Double(9_007_199_254_740_992.0), Ordering::Greater),
            (Num::Whole(u64::MAX.into()), Num::Double(18_446_744_073_709_551_616.0), Ordering::Less),
            (Num::Whole(u64::MAX.into()), Num::Double(1e300), Ordering::Less),
            (Num::Whole(i64::MIN.into()), Num::Double(-1e300), Ordering::Greater),
        ];
        for (a, b, expected) in cases {
            assert_eq!(a.cmp(b), expected, "{a:?} {b:?}");
            assert_eq!(b.cmp(a), expected.reverse(), "{b:?} {a:?}");
        }
    }
}
