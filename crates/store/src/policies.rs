//! Policy revisions: the whole document each time, only ever added.

use crate::codec;
use crate::error::failed;
use crate::events::{self, PolicyChange, PolicyDifference};
use crate::feed::Change;
use crate::page::{Page, rows_to_read};
use crate::writer::{Tx, Writer};
use serde::{Deserialize, Serialize};
use sluicegate_gateway::audit::canonical_json;
use sluicegate_gateway::{Digest, PolicyRevision, RevisionId, StoreError};
use sluicegate_policy::{PolicyDocument, Rule, RuleId};
use sqlx::sqlite::{SqliteConnection, SqlitePool};
use std::collections::BTreeMap;

/// Reads and adds policy revisions.
#[derive(Clone, Debug)]
pub struct Policies {
    writer: Writer,
    reads: SqlitePool,
}

/// Whether a revision was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyAppended {
    /// It is the current one, from the very next call on.
    Appended(RevisionId),
    /// Another revision is current than the one that was edited. Nothing was written.
    Conflict(Option<RevisionId>),
}

/// What was found when a revision was made, compared with the one before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyRemarks {
    /// How many calls were judged by both, recorded ones and made-up ones.
    pub judged: u64,
    /// How many of these the revision lets through more easily than the one before.
    pub looser: u64,
    /// Some of them, in words.
    pub examples: Vec<String>,
    /// Tests of the document that fail and were overridden, by name.
    pub overridden: Vec<String>,
}

/// A revision in the history.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// The revision, with its document.
    pub revision: PolicyRevision,
    /// Digest of the document in canonical form.
    pub digest: String,
    /// Where it came from, in the words of whoever added it: a file, the dashboard, the seed.
    pub source: String,
    /// Who added it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When; wall clock in milliseconds.
    pub at_ms: i64,
    /// What was found when it was made.
    pub remarks: PolicyRemarks,
}

#[derive(sqlx::FromRow)]
struct RawRevision {
    id: i64,
    document: String,
    digest: String,
    source: String,
    author: String,
    reason: String,
    at_ms: i64,
    remarks: String,
}

impl RawRevision {
    /// A document that was changed by hand is not the policy that somebody decided on.
    fn read(self) -> Result<PolicyEntry, StoreError> {
        let corrupt = |why: &str| StoreError::Corrupt(format!("revision {} of the policy {why}", self.id));
        let document: PolicyDocument = serde_json::from_str(&self.document)
            .map_err(|error| corrupt(&format!("cannot be read: {error}")))?;
        if digest_of(&document)? != self.digest {
            return Err(corrupt("was changed in the store: it does not give its digest"));
        }
        Ok(PolicyEntry {
            revision: PolicyRevision { id: RevisionId(self.id), document },
            digest: self.digest,
            source: self.source,
            author: self.author,
            reason: self.reason,
            at_ms: self.at_ms,
            // They explain and decide nothing: ones that cannot be read are none.
            remarks: serde_json::from_str(&self.remarks).unwrap_or_default(),
        })
    }
}

fn digest_of(document: &PolicyDocument) -> Result<String, StoreError> {
    let value = serde_json::to_value(document).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(Digest::of("sluicegate/policy/1", &[canonical_json(&value).as_bytes()]).to_string())
}

/// One revision that must be there.
pub(crate) async fn revision(
    conn: &mut SqliteConnection,
    id: RevisionId,
) -> Result<PolicyRevision, StoreError> {
    let entry = entry(conn, id).await?;
    let entry =
        entry.ok_or_else(|| StoreError::Corrupt(format!("there is no revision {} of the policy", id.0)))?;
    Ok(entry.revision)
}

async fn entry(conn: &mut SqliteConnection, id: RevisionId) -> Result<Option<PolicyEntry>, StoreError> {
    let raw: Option<RawRevision> = sqlx::query_as(
        "SELECT id, document, digest, source, author, reason, at_ms, remarks FROM policy_revisions WHERE id = $1",
    )
    .bind(id.0)
    .fetch_optional(conn)
    .await
    .map_err(failed)?;
    raw.map(RawRevision::read).transpose()
}

async fn current(conn: &mut SqliteConnection) -> Result<Option<RevisionId>, StoreError> {
    let id: Option<i64> =
        sqlx::query_scalar("SELECT max(id) FROM policy_revisions").fetch_one(conn).await.map_err(failed)?;
    Ok(id.map(RevisionId))
}

impl Policies {
    pub(crate) fn new(writer: Writer, reads: SqlitePool) -> Self {
        Self { writer, reads }
    }

    /// The revision in force; `None` while there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn current(&self) -> Result<Option<PolicyEntry>, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        match current(&mut conn).await? {
            Some(id) => entry(&mut conn, id).await,
            None => Ok(None),
        }
    }

    /// The number of the revision in force; `None` while there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn current_id(&self) -> Result<Option<RevisionId>, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        current(&mut conn).await
    }

    /// One revision; `None` if there is no such.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn get(&self, id: RevisionId) -> Result<Option<PolicyEntry>, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        entry(&mut conn, id).await
    }

    /// Revisions, the latest first; the next page begins before [`Page::next`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Page<PolicyEntry>, StoreError> {
        let raw: Vec<RawRevision> = sqlx::query_as(
            "SELECT id, document, digest, source, author, reason, at_ms, remarks FROM policy_revisions WHERE id < $1 \
             ORDER BY id DESC LIMIT $2",
        )
        .bind(before.unwrap_or(i64::MAX))
        .bind(rows_to_read(limit))
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        let rows = raw.into_iter().map(RawRevision::read).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(rows, limit, |last| last.revision.id.0))
    }

    /// Adds a revision of which nothing is remarked: see [`append_remarked`](Self::append_remarked).
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn append(
        &self,
        document: PolicyDocument,
        expected_current: Option<RevisionId>,
        author: &str,
        reason: &str,
        source: &str,
    ) -> Result<PolicyAppended, StoreError> {
        let remarks = PolicyRemarks::default();
        self.append_remarked(document, expected_current, author, reason, source, remarks).await
    }

    /// Adds a revision, if the current one is still the expected one: `None` expects nothing, and revision 0 that there
    /// is none yet. The document must have been checked: one that does not compile denies every call.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn append_remarked(
        &self,
        document: PolicyDocument,
        expected_current: Option<RevisionId>,
        author: &str,
        reason: &str,
        source: &str,
        remarks: PolicyRemarks,
    ) -> Result<PolicyAppended, StoreError> {
        let (author, reason, source) = (author.to_owned(), reason.to_owned(), source.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let new = New {
                        document: &document,
                        author: &author,
                        reason: &reason,
                        source: &source,
                        remarks: &remarks,
                    };
                    append(tx, &new, expected_current).await
                })
            })
            .await
    }

    /// Records that a document was refused, and why; `refused` is the digest of its text, where it could be read. The policy
    /// in force stays.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn rejected(
        &self,
        author: &str,
        source: &str,
        refused: Option<Digest>,
        why: &str,
    ) -> Result<(), StoreError> {
        let (author, source, why) = (author.to_owned(), source.to_owned(), why.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let kept: Option<(i64, String)> =
                        sqlx::query_as("SELECT id, digest FROM policy_revisions ORDER BY id DESC LIMIT 1")
                            .fetch_optional(tx.conn())
                            .await
                            .map_err(failed)?;
                    let kept = kept.map(|(id, digest)| (RevisionId(id), digest));
                    let event = events::policy_rejected(&source, &author, refused.as_ref(), kept, &why);
                    tx.record(&event).map(|_| ())
                })
            })
            .await
    }
}

struct New<'a> {
    document: &'a PolicyDocument,
    author: &'a str,
    reason: &'a str,
    source: &'a str,
    remarks: &'a PolicyRemarks,
}

async fn append(
    tx: &mut Tx,
    new: &New<'_>,
    expected: Option<RevisionId>,
) -> Result<PolicyAppended, StoreError> {
    let present = current(tx.conn()).await?;
    let number = present.map_or(0, |id| id.0);
    if expected.is_some_and(|expected| expected.0 != number) {
        return Ok(PolicyAppended::Conflict(present));
    }
    let previous = match present {
        // One that cannot be read any more must not keep a good one from replacing it.
        Some(id) => entry(tx.conn(), id).await.ok().flatten(),
        None => None,
    };
    let id = RevisionId(number.saturating_add(1));
    let digest = digest_of(new.document)?;
    let now = tx.now_ms();
    sqlx::query(
        "INSERT INTO policy_revisions (id, document, digest, source, author, reason, at_ms, remarks) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(id.0)
    .bind(codec::json(new.document)?)
    .bind(digest.clone())
    .bind(new.source.to_owned())
    .bind(new.author.to_owned())
    .bind(new.reason.to_owned())
    .bind(now)
    .bind(codec::json(new.remarks)?)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    let difference = difference(previous.as_ref().map(|entry| &entry.revision.document), new.document);
    tx.record(&events::policy_changed(&PolicyChange {
        revision: id,
        digest: &digest,
        previous: previous.as_ref().map(|entry| entry.digest.as_str()),
        difference: &difference,
        source: new.source,
        author: new.author,
        reason: new.reason,
        remarks: new.remarks,
    }))?;
    tx.publish(Change::Policy(id));
    Ok(PolicyAppended::Appended(id))
}

fn difference(old: Option<&PolicyDocument>, new: &PolicyDocument) -> PolicyDifference {
    let rules = |document: &'_ PolicyDocument| -> BTreeMap<RuleId, Rule> {
        document.rules.iter().map(|rule| (rule.id.clone(), rule.clone())).collect()
    };
    let (before, after) = (old.map(rules).unwrap_or_default(), rules(new));
    PolicyDifference {
        added: after.keys().filter(|id| !before.contains_key(*id)).cloned().collect(),
        removed: before.keys().filter(|id| !after.contains_key(*id)).cloned().collect(),
        changed: after
            .iter()
            .filter(|(id, rule)| before.get(*id).is_some_and(|earlier| earlier != *rule))
            .map(|(id, _)| id.clone())
            .collect(),
        tiers_changed: old.map(|old| old.tiers.as_slice()).unwrap_or_default() != new.tiers.as_slice(),
        tests_changed: old.map(|old| old.tests.as_slice()).unwrap_or_default() != new.tests.as_slice(),
    }
}
