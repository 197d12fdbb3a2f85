//! A call and its evaluations, as stored.

use crate::codec;
use crate::error::failed;
use sluicegate_gateway::{
    ActionDigest, CallId, CallState, Caller, Digest, PersonId, ReasonCode, RevisionId, StoreError,
};
use sluicegate_policy::{ConversationId, Decision, Effect, Origin, PolicyContext, Principal, RuleId, Tier};
use sqlx::sqlite::SqliteConnection;

/// A call as stored.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// Its id.
    pub id: CallId,
    /// Where it stands.
    pub state: CallState,
    /// Server as named; empty if the name fitted no tool.
    pub server: String,
    /// Tool as named.
    pub tool: String,
    /// Its tier when it was last judged; `None` if it never reached the rules.
    pub tier: Option<Tier>,
    /// What the rules said first; `deny` if it never reached them.
    pub decision: Effect,
    /// Who asked, and who answers for it.
    pub caller: Caller,
    /// By which surface.
    pub origin: Origin,
    /// In which conversation.
    pub conversation: Option<ConversationId>,
    /// The arguments as JSON text (as they came, if they were no JSON); `None` if they were erased.
    pub arguments: Option<String>,
    /// Identity of the server entry; `None` if the call could not be frozen.
    pub server_identity: Option<Digest>,
    /// Digest of the tool definition; `None` if the call could not be frozen.
    pub definition: Option<Digest>,
    /// What an approval of it is bound to; `None` if the call could not be frozen.
    pub action: Option<ActionDigest>,
    /// Why it did not run or did not end well; `None` while that is not so.
    pub code: Option<ReasonCode>,
    /// The deciding rules of the last evaluation.
    pub rules: Vec<RuleId>,
    /// One sentence of why, for people.
    pub sentence: String,
    /// Injection phrases seen in its result: for people's eyes only.
    pub flags: Vec<String>,
    /// The trail's row of the request: the order of calls.
    pub requested_seq: i64,
    /// When it was asked for; wall clock in milliseconds.
    pub requested_ms: i64,
    /// When it was decided that it runs, or that it does not.
    pub decided_ms: Option<i64>,
    /// When its intent was written.
    pub started_ms: Option<i64>,
    /// When it came to its end.
    pub ended_ms: Option<i64>,
    /// What an admin said of an unknown outcome.
    pub resolution: Option<Resolution>,
}

/// What an admin said of an unknown outcome. The note is in the trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Whether the tool did what it was asked.
    pub happened: bool,
    /// Who said so.
    pub by: PersonId,
    /// When; wall clock in milliseconds.
    pub at_ms: i64,
}

/// One evaluation of a call.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Counting from 1.
    pub n: i64,
    /// The trail's row of the decision.
    pub seq: i64,
    /// The revision that was evaluated; `None` if there was none.
    pub revision: Option<RevisionId>,
    /// What the rules said; `deny` if the call never reached them.
    pub effect: Effect,
    /// The rules that decided.
    pub rules: Vec<RuleId>,
    /// One sentence of why.
    pub sentence: String,
    /// When; wall clock in milliseconds.
    pub at_ms: i64,
    /// The whole evaluated context; `None` if the call never reached the rules, if it was erased, or if a version of
    /// the program wrote it whose facts this one does not know.
    pub context: Option<PolicyContext>,
    /// The engine's decision; `None` for the same reasons.
    pub decision: Option<Decision>,
}

/// The columns of a call, from `calls c` and its arguments `a`.
macro_rules! select_calls {
    ($($rest:literal),* $(,)?) => {
        concat!(
            "SELECT c.id, c.state, c.server, c.tool, c.tier, c.decision, c.caller, c.role, c.owner, c.origin, ",
            "c.conversation, a.text AS arguments, c.server_identity, c.definition, c.action, c.code, c.rules, c.sentence, c.flags, ",
            "c.requested_seq, c.requested_ms, c.decided_ms, c.started_ms, c.ended_ms, c.resolution, c.resolved_by, ",
            "c.resolved_ms FROM calls c LEFT JOIN audit_payloads a ON a.seq = c.requested_seq AND a.name = 'arguments' ",
            $($rest),*
        )
    };
}
pub(crate) use select_calls;

/// A row as the database gives it.
#[derive(sqlx::FromRow)]
pub(crate) struct RawCall {
    id: String,
    state: String,
    server: String,
    tool: String,
    tier: Option<String>,
    decision: String,
    caller: String,
    role: String,
    owner: String,
    origin: String,
    conversation: Option<String>,
    arguments: Option<String>,
    server_identity: Option<String>,
    definition: Option<String>,
    action: Option<String>,
    code: Option<String>,
    rules: String,
    sentence: String,
    flags: String,
    requested_seq: i64,
    requested_ms: i64,
    decided_ms: Option<i64>,
    started_ms: Option<i64>,
    ended_ms: Option<i64>,
    resolution: Option<String>,
    resolved_by: Option<String>,
    resolved_ms: Option<i64>,
}

impl RawCall {
    pub(crate) fn read(self) -> Result<CallRow, StoreError> {
        let resolution = match (self.resolution, self.resolved_by, self.resolved_ms) {
            (Some(word), Some(by), Some(at_ms)) => {
                Some(Resolution { happened: word == HAPPENED, by: codec::person(&by)?, at_ms })
            }
            _ => None,
        };
        Ok(CallRow {
            id: codec::call_id(&self.id)?,
            state: codec::call_state(&self.state)?,
            server: self.server,
            tool: self.tool,
            tier: codec::maybe(self.tier.as_deref(), codec::tier)?,
            decision: codec::effect(&self.decision)?,
            caller: Caller {
                principal: Principal { caller: codec::caller(&self.caller)?, role: codec::role(&self.role)? },
                owner: codec::person(&self.owner)?,
            },
            origin: codec::origin(&self.origin)?,
            conversation: codec::maybe(self.conversation.as_deref(), codec::conversation)?,
            arguments: self.arguments,
            server_identity: codec::maybe(self.server_identity.as_deref(), codec::digest)?,
            definition: codec::maybe(self.definition.as_deref(), codec::digest)?,
            action: codec::maybe(self.action.as_deref(), codec::action)?,
            code: codec::maybe(self.code.as_deref(), codec::reason_code)?,
            rules: codec::from_json(&self.rules)?,
            sentence: self.sentence,
            flags: codec::from_json(&self.flags)?,
            requested_seq: self.requested_seq,
            requested_ms: self.requested_ms,
            decided_ms: self.decided_ms,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            resolution,
        })
    }
}

/// The database's words of a resolution.
pub(crate) const HAPPENED: &str = "happened";
/// See [`HAPPENED`].
pub(crate) const DID_NOT_HAPPEN: &str = "did_not_happen";

#[derive(sqlx::FromRow)]
struct RawEvaluation {
    n: i64,
    seq: i64,
    revision: Option<i64>,
    effect: String,
    rules: String,
    sentence: String,
    at_ms: i64,
    context: Option<String>,
    decision: Option<String>,
}

impl RawEvaluation {
    fn read(self) -> Result<Evaluation, StoreError> {
        Ok(Evaluation {
            n: self.n,
            seq: self.seq,
            revision: self.revision.map(RevisionId),
            effect: codec::effect(&self.effect)?,
            rules: codec::from_json(&self.rules)?,
            sentence: self.sentence,
            at_ms: self.at_ms,
            // A payload of an older version of the types is still there to be read as text.
            context: self.context.and_then(|text| serde_json::from_str(&text).ok()),
            decision: self.decision.and_then(|text| serde_json::from_str(&text).ok()),
        })
    }
}

/// The evaluations of a call, in order.
pub(crate) async fn evaluations(
    conn: &mut SqliteConnection,
    call: CallId,
) -> Result<Vec<Evaluation>, StoreError> {
    let rows: Vec<RawEvaluation> = sqlx::query_as(
        "SELECT e.n, e.seq, e.revision, e.effect, e.rules, e.sentence, e.at_ms, x.text AS context, d.text AS decision \
         FROM evaluations e \
         LEFT JOIN audit_payloads x ON x.seq = e.seq AND x.name = 'context' \
         LEFT JOIN audit_payloads d ON d.seq = e.seq AND d.name = 'decision' \
         WHERE e.call = $1 ORDER BY e.n",
    )
    .bind(call.to_string())
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    rows.into_iter().map(RawEvaluation::read).collect()
}
