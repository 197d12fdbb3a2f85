//! What became of each rule that was considered. There may be thousands per decision, so each takes a few bytes: the rules
//! are named by their places in a list that all decisions of one rule set share.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Because, Verdict};
use crate::document::RuleKind;
use crate::names::RuleId;

/// One rule, considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Considered<'a> {
    /// Which.
    pub rule: &'a RuleId,
    /// Of which kind.
    pub kind: RuleKind,
    /// What became of it.
    pub verdict: Verdict,
    /// Why.
    pub because: Because,
}

/// All rules that were considered, by id. In serialised form a list of [`Considered`].
#[derive(Clone)]
pub struct Considerations {
    ids: Arc<[RuleId]>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Place in the list of ids.
    pub(crate) place: u32,
    pub(crate) kind: RuleKind,
    pub(crate) verdict: Verdict,
    pub(crate) because: Because,
}

impl Considerations {
    pub(crate) fn new(ids: Arc<[RuleId]>, lines: Vec<Line>) -> Self {
        Self { ids, lines }
    }

    /// The rules, by id.
    pub fn iter(&self) -> impl Iterator<Item = Considered<'_>> {
        self.lines.iter().filter_map(|line| {
            let rule = self.ids.get(usize::try_from(line.place).ok()?)?;
            Some(Considered { rule, kind: line.kind, verdict: line.verdict, because: line.because })
        })
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether no rule was about the call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl PartialEq for Considerations {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Considerations {}

impl fmt::Debug for Considerations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Considerations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Considerations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Owned {
            rule: RuleId,
            kind: RuleKind,
            verdict: Verdict,
            because: Because,
        }
        let owned: Vec<Owned> = Vec::deserialize(deserializer)?;
        let line = |(place, one): (u32, &Owned)| Line {
            place,
            kind: one.kind,
            verdict: one.verdict,
            because: one.because,
        };
        let lines = (0..).zip(&owned).map(line).collect();
        Ok(Self { ids: owned.into_iter().map(|one| one.rule).collect(), lines })
    }
}
