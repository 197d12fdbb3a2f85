//! The gateway's port on SQLite. Each change is one command of the writer: conditional updates inside one durable
//! transaction, audit rows included.

mod approval;
mod approved;
mod detached;
mod facts;
mod outcome;
mod reconcile;
mod record;

use crate::error::failed;
use crate::policies;
use crate::writer::Writer;
use async_trait::async_trait;
use sluicegate_gateway::{
    ActionDigest, ApprovalId, ApprovalTerms, Begun, CallId, CallOutcome, CallStore, Clock, Closed, Closing,
    DetachedCalls, Expect, FactQuery, Held, NewApproval, NewCall, PolicyRevision, Reconciled, RevisionId,
    Ruling, StoreError, StoredApproval, StoredFacts, VoteCast, VoteOutcome,
};
use sqlx::sqlite::SqlitePool;
use std::sync::Arc;

pub(crate) use approval::{load as load_approval, load_if_any as find_approval};
pub(crate) use facts::present;

/// The only handle that can change a call or an approval. Moved into the gateway; the contract is [`CallStore`]'s.
#[derive(Debug)]
pub struct Calls {
    writer: Writer,
    reads: SqlitePool,
    clock: Arc<dyn Clock>,
}

impl Calls {
    pub(crate) fn new(writer: Writer, reads: SqlitePool, clock: Arc<dyn Clock>) -> Self {
        Self { writer, reads, clock }
    }
}

#[async_trait]
impl CallStore for Calls {
    async fn facts(&self, query: FactQuery) -> Result<StoredFacts, StoreError> {
        let now = self.clock.now();
        // One read transaction is one snapshot.
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let read = facts::read(&mut snapshot, &query, now.wall_ms).await;
        snapshot.commit().await.map_err(failed)?;
        read
    }

    async fn policy(&self, revision: RevisionId) -> Result<PolicyRevision, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        policies::revision(&mut conn, revision).await
    }

    async fn record_denied(&self, call: NewCall, ruling: Ruling) -> Result<(), StoreError> {
        self.writer.run(move |tx| Box::pin(async move { record::denied(tx, &call, &ruling).await })).await
    }

    async fn begin(&self, call: NewCall, ruling: Ruling, expect: Expect) -> Result<Begun, StoreError> {
        self.writer
            .run(move |tx| Box::pin(async move { record::begin(tx, &call, &ruling, &expect).await }))
            .await
    }

    async fn hold(
        &self,
        call: NewCall,
        ruling: Ruling,
        approval: NewApproval,
        revision: RevisionId,
    ) -> Result<Held, StoreError> {
        self.writer
            .run(move |tx| {
                Box::pin(async move { record::hold(tx, &call, &ruling, &approval, revision).await })
            })
            .await
    }

    async fn approval(&self, id: ApprovalId) -> Result<StoredApproval, StoreError> {
        // Status and votes from one snapshot.
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let read = approval::load(&mut snapshot, id).await;
        snapshot.commit().await.map_err(failed)?;
        read.map(|held| held.approval)
    }

    async fn vote(&self, cast: VoteCast) -> Result<VoteOutcome, StoreError> {
        self.writer.run(move |tx| Box::pin(async move { approval::vote(tx, &cast).await })).await
    }

    async fn close(&self, id: ApprovalId, closing: Closing) -> Result<Closed, StoreError> {
        self.writer.run(move |tx| Box::pin(async move { approval::close(tx, id, closing).await })).await
    }

    async fn begin_approved(
        &self,
        approval: ApprovalId,
        action: ActionDigest,
        ruling: Ruling,
        expect: Expect,
    ) -> Result<Begun, StoreError> {
        self.writer
            .run(move |tx| {
                Box::pin(async move { approved::begin(tx, approval, action, &ruling, &expect).await })
            })
            .await
    }

    async fn refuse_approved(&self, approval: ApprovalId, ruling: Ruling) -> Result<(), StoreError> {
        self.writer
            .run(move |tx| Box::pin(async move { approved::refuse(tx, approval, &ruling).await }))
            .await
    }

    async fn ask_again(
        &self,
        approval: ApprovalId,
        ruling: Ruling,
        terms: ApprovalTerms,
    ) -> Result<Held, StoreError> {
        self.writer
            .run(move |tx| Box::pin(async move { approved::ask_again(tx, approval, &ruling, &terms).await }))
            .await
    }

    async fn retried(&self, call: CallId, why: &str) -> Result<(), StoreError> {
        let why = why.to_owned();
        self.writer.run(move |tx| Box::pin(async move { outcome::retried(tx, call, &why).await })).await
    }

    async fn finish(&self, call: CallId, outcome: CallOutcome) -> Result<(), StoreError> {
        self.writer.run(move |tx| Box::pin(async move { outcome::finish(tx, call, &outcome).await })).await
    }

    async fn detach(&self, approval: ApprovalId) -> Result<bool, StoreError> {
        self.writer.run(move |tx| Box::pin(async move { detached::detach(tx, approval).await })).await
    }

    async fn collected(&self, call: CallId) -> Result<(), StoreError> {
        self.writer.run(move |tx| Box::pin(async move { detached::collected(tx, call).await })).await
    }

    async fn detached(&self) -> Result<DetachedCalls, StoreError> {
        let now = self.clock.now();
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let left = detached::left(&mut snapshot, now.wall_ms).await;
        snapshot.commit().await.map_err(failed)?;
        left
    }

    async fn reconcile(&self) -> Result<Reconciled, StoreError> {
        self.writer.run(|tx| Box::pin(async move { reconcile::reconcile(tx).await })).await
    }
}
