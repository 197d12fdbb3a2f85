//! What came of a turn, for whoever waited for it.

use crate::agent::turn::TurnEnd;
use crate::conversation::Usage;
use crate::llm::{LlmError, LlmErrorKind};
use serde::{Serialize, Serializer};
use sluicegate_gateway::{CallId, CallState, ReasonCode};

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnReport {
    /// The model's last words in this turn; empty if it said nothing.
    pub reply: String,
    /// The calls it proposed, in order.
    pub calls: Vec<CallReport>,
    /// Tokens used by this turn.
    pub usage: Usage,
    /// How it ended.
    #[serde(serialize_with = "word")]
    pub end: TurnEnd,
    /// The line that says why it ended, unless the model had said all. May hold text from outside: escape it.
    pub note: Option<String>,
    /// Present if the model failed.
    pub error: Option<TurnError>,
}

/// A call of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallReport {
    /// The gate's id.
    pub call: CallId,
    /// The tool's name as the model said it.
    pub name: String,
    /// Its end; `None` if the turn ended before it was known.
    pub state: Option<CallState>,
    /// Why it did not run or did not end well.
    pub code: Option<ReasonCode>,
}

/// Why a model failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnError {
    /// [`LlmErrorKind::word`].
    pub kind: &'static str,
    /// What happened and what to do. May hold text from outside: escape it.
    pub sentence: String,
    /// Whether the same message may succeed later.
    pub retryable: bool,
}

impl From<&LlmError> for TurnError {
    fn from(error: &LlmError) -> Self {
        Self { kind: error.kind.word(), sentence: error.sentence(), retryable: error.retryable() }
    }
}

impl TurnError {
    /// The conversation's model cannot be asked at all.
    pub(crate) fn no_provider(sentence: String) -> Self {
        Self { kind: LlmErrorKind::Key.word(), sentence, retryable: false }
    }
}

fn word<S: Serializer>(end: &TurnEnd, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(end.word())
}
