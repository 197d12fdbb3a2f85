//! Where the first rules come from.

use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::PoisonError;

use sluicegate_gateway::{RevisionId, StoreError};

use super::{Change, MAX_POLICY_BYTES, Rules, RulesError, digest_of, first};
use crate::config::Named;

/// The rules as shipped.
pub const SHIPPED: &str = include_str!("../../policy_rules.yaml");

/// Where the rules came from at this start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeded {
    /// The store has rules; no file was looked at.
    Kept(RevisionId),
    /// From the file.
    File(RevisionId),
    /// No file was named, and none is there: the rules as shipped.
    Shipped(RevisionId),
    /// The file is absent or no policy, for this reason: there are no rules, and every call is denied.
    Refused(String),
}

const AT_START: Change<'static> =
    Change { author: "sluicegate", reason: "first start", despite_tests: false };

impl Rules {
    /// Gives an empty store its first rules. A store that has rules keeps them, whatever the file says. A file that
    /// cannot be used seeds nothing: then no call runs, until somebody imports a policy.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn seed(&self, file: &Named) -> Result<Seeded, StoreError> {
        if let Some(entry) = self.current().await? {
            return Ok(Seeded::Kept(entry.revision.id));
        }
        let named = file.path.display().to_string();
        let (yaml, source, seeded): (_, _, fn(RevisionId) -> Seeded) = match read_file(&file.path) {
            Ok(Some(yaml)) => (yaml, named.as_str(), Seeded::File),
            Ok(None) if !file.given => (SHIPPED.to_owned(), "the rules as shipped", Seeded::Shipped),
            Ok(None) => return self.refused(file, None, "there is no such file").await,
            Err(why) => return self.refused(file, None, &why).await,
        };
        let (document, rules) = match super::parse(&yaml, self.defaults) {
            Ok(parsed) => parsed,
            Err(problems) => return self.refused(file, Some(&yaml), &first(&problems)).await,
        };
        match self.append(document, rules, Some(RevisionId(0)), source, AT_START).await {
            Ok(revision) => Ok(seeded(revision)),
            // A command was faster.
            Err(RulesError::Conflict(now)) => Ok(Seeded::Kept(now)),
            Err(RulesError::Store(error)) => Err(error),
            Err(other) => self.refused(file, Some(&yaml), &other.to_string()).await,
        }
    }

    async fn refused(&self, file: &Named, yaml: Option<&str>, why: &str) -> Result<Seeded, StoreError> {
        let source = file.path.display().to_string();
        self.policies.rejected(AT_START.author, &source, yaml.map(digest_of), why).await?;
        let why = format!("{source}: {why}");
        *self.refused_seed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        Ok(Seeded::Refused(why))
    }
}

/// The text of a policy file, at most a little more than a policy may be; `None` if there is no such file.
///
/// # Errors
/// Why it cannot be read, in words.
pub fn read_file(path: &Path) -> Result<Option<String>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("it cannot be read ({error})")),
    };
    let failed = |error| format!("it cannot be read ({error})");
    let state = || file.metadata().and_then(|found| Ok((found.len(), found.modified()?))).map_err(failed);
    let before = state()?;
    let mut bytes = Vec::new();
    let limit = MAX_POLICY_BYTES as u64 + 1;
    (&file).take(limit).read_to_end(&mut bytes).map_err(failed)?;
    // A text cut short can be a policy that has lost its last rules.
    if state()? != before {
        return Err("it is being written at this moment; try again".to_owned());
    }
    if bytes.len() > MAX_POLICY_BYTES {
        return Err(format!("it is larger than {} KiB, the most a policy may be", MAX_POLICY_BYTES / 1024));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(format!("it is not UTF-8 text (byte {})", error.utf8_error().valid_up_to())),
    }
}
