//! The rules in force: the revision is read on every call, and compiled only when it differs.

use crate::store::{CallStore, RevisionId, StoreError};
use sluicegate_policy::{ApprovalDefaults, RuleSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A compiled revision.
pub(crate) struct Book {
    pub(crate) revision: RevisionId,
    pub(crate) rules: RuleSet,
}

/// Why there are no rules to ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BookError {
    /// The revision does not compile.
    #[error("revision {revision} of the policy cannot be used: {why}")]
    Unreadable { revision: i64, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) struct RuleBook {
    defaults: ApprovalDefaults,
    last: Mutex<Option<Arc<Book>>>,
}

impl RuleBook {
    pub(crate) fn new(defaults: ApprovalDefaults) -> Self {
        Self { defaults, last: Mutex::new(None) }
    }

    /// The last compiled revision; whether it is the current one only the store knows.
    pub(crate) fn last(&self) -> Option<Arc<Book>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The given revision, compiled.
    pub(crate) async fn open(&self, store: &dyn CallStore, id: RevisionId) -> Result<Arc<Book>, BookError> {
        if let Some(book) = self.last().filter(|book| book.revision == id) {
            return Ok(book);
        }
        let revision = store.policy(id).await?;
        let rules = revision.document.compile(self.defaults).map_err(|errors| {
            let first = errors.first().map(ToString::to_string).unwrap_or_default();
            BookError::Unreadable { revision: id.0, why: first }
        })?;
        let book = Arc::new(Book { revision: id, rules });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A slower task must not put an older revision back.
        if last.as_ref().is_none_or(|held| held.revision < id) {
            *last = Some(Arc::clone(&book));
        }
        Ok(book)
    }
}
