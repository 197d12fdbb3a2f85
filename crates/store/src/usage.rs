//! Real token usage, per conversation, caller and UTC day.

use crate::calls;
use crate::codec;
use crate::conversations::Conversations;
use crate::error::failed;
use crate::feed::Change;
use sluicegate_gateway::StoreError;
use sluicegate_policy::{CallerId, ConversationId, TokenUsage};

/// Tokens that one addition counts at most: no provider's number can make a sum overflow.
const MAX_TOKENS: u64 = 1_000_000_000_000;

/// Tokens used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageTotals {
    /// Tokens given to models.
    pub input: u64,
    /// Tokens that models produced, thinking included.
    pub output: u64,
    /// The part of both that a provider did not report and that was estimated.
    pub estimated: u64,
}

impl Conversations {
    /// Adds what one model call used, durably, to the conversation and to the caller's present UTC day.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn add_usage(
        &self,
        conversation: &ConversationId,
        caller: &CallerId,
        input: u64,
        output: u64,
        estimated: bool,
    ) -> Result<(), StoreError> {
        let (conversation, caller) = (conversation.clone(), caller.clone());
        let (input, output) = (input.min(MAX_TOKENS), output.min(MAX_TOKENS));
        let counted = if estimated { input.saturating_add(output) } else { 0 };
        self.writer()
            .run(move |tx| Box::pin(async move {
                let day = codec::day(tx.now_ms());
                sqlx::query(
                    "INSERT INTO token_usage (conversation, caller, day, input, output, estimated) \
                     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (conversation, caller, day) DO UPDATE SET \
                     input = token_usage.input + excluded.input, output = token_usage.output + excluded.output, \
                     estimated = token_usage.estimated + excluded.estimated",
                )
                .bind(conversation.as_str())
                .bind(caller.as_str())
                .bind(day)
                .bind(codec::signed(input))
                .bind(codec::signed(output))
                .bind(codec::signed(counted))
                .execute(tx.conn())
                .await
                .map_err(failed)?;
                tx.publish(Change::Conversation(conversation));
                Ok(())
            }))
            .await
    }

    /// Everything that a conversation used.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn usage_of(&self, conversation: &ConversationId) -> Result<UsageTotals, StoreError> {
        let (input, output, estimated): (i64, i64, i64) = sqlx::query_as(
            "SELECT CAST(coalesce(sum(input), 0) AS BIGINT), CAST(coalesce(sum(output), 0) AS BIGINT), \
             CAST(coalesce(sum(estimated), 0) AS BIGINT) FROM token_usage WHERE conversation = $1",
        )
        .bind(conversation.as_str())
        .fetch_one(self.reads())
        .await
        .map_err(failed)?;
        Ok(UsageTotals {
            input: codec::unsigned(input),
            output: codec::unsigned(output),
            estimated: codec::unsigned(estimated),
        })
    }

    /// The totals that budgets look at: of the conversation, and of the caller's present UTC day.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn budget_usage(
        &self,
        conversation: &ConversationId,
        caller: &CallerId,
    ) -> Result<TokenUsage, StoreError> {
        let mut conn = self.reads().acquire().await.map_err(failed)?;
        let (_, usage) = calls::present(&mut conn, caller, Some(conversation), self.now_ms()).await?;
        Ok(usage)
    }
}
