//! Fills the policy's input: the one place where facts of the operator, the store and the protocol meet the call.
//! A server's descriptions and the model's words have no way in.

use crate::call::{Caller, FrozenCall};
use crate::catalogue::ToolDefinition;
use crate::core::Core;
use crate::notice::Notices;
use crate::outcome::{ReasonCode, Refusal};
use crate::rule_book::{Book, BookError};
use crate::schema::unnamed;
use crate::scope::Scope;
use crate::store::{Expect, FactQuery, Ruling, StoreError, StoredFacts};
use sluicegate_policy::{
    ConversationId, Decision, Effect, Labels, LocalTime, LocalTimes, Origin, PolicyContext, RateQuery, Tier,
    Timestamp, ToolRef, Weekday, ZoneName, evaluate,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Readings of the revision before giving up on rules that change faster than they can be read.
const MAX_READS: usize = 8;

/// Characters shown of an argument's name.
const MAX_SHOWN: usize = 100;

/// The call that is judged, with what is known of it.
pub(crate) struct Subject {
    pub(crate) frozen: FrozenCall,
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) caller: Caller,
    pub(crate) origin: Origin,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) scope: Scope,
    pub(crate) notices: Notices,
}

/// A judgement and what must still hold when it is acted upon.
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    pub(crate) ruling: Ruling,
    pub(crate) expect: Expect,
    pub(crate) read_only: bool,
    pub(crate) refused_before: bool,
}

/// Reads facts and asks the rules of this moment. `Err` is a refusal with its own reason: nothing runs.
pub(crate) async fn judge(core: &Core, subject: &Subject) -> Result<Judged, Refusal> {
    let mut book = core.rules.last();
    for _ in 0..MAX_READS {
        let rates = book.as_ref().map(|book| rates(book, subject)).unwrap_or_default();
        let query = FactQuery {
            caller: subject.caller.clone(),
            conversation: subject.conversation.clone(),
            rates: rates.clone(),
            action: Some(subject.frozen.action()),
        };
        let facts = core.store().facts(query).await.map_err(|error| store_refusal(&error))?;
        if facts.caller_gone {
            return Err(refusal(
                ReasonCode::Withdrawn,
                "the key that the call was made with has been revoked",
                false,
            ));
        }
        let Some(revision) = facts.revision else {
            return Err(unreadable("there are no rules yet, so no call may run"));
        };
        match book.filter(|book| book.revision == revision) {
            Some(book) => return decide(core, subject, &book, facts, &rates),
            None => book = Some(core.rules.open(core.store(), revision).await.map_err(book_refusal)?),
        }
    }
    Err(refusal(
        ReasonCode::PolicyFailed,
        "the rules changed faster than they could be read; the call was not run",
        true,
    ))
}

/// The tier of each tool by the rules in force.
pub(crate) async fn tiers(core: &Core, caller: &Caller) -> Result<BTreeMap<ToolRef, Tier>, Refusal> {
    let query = FactQuery { caller: caller.clone(), conversation: None, rates: Vec::new(), action: None };
    let facts = core.store().facts(query).await.map_err(|error| store_refusal(&error))?;
    let revision = facts.revision.ok_or_else(|| unreadable("there are no rules yet"))?;
    let book = core.rules.open(core.store(), revision).await.map_err(book_refusal)?;
    let snapshot = core.catalogue.snapshot();
    Ok(snapshot
        .tools()
        .map(|tool| (tool.tool().clone(), book.rules.tier(tool.tool(), tool.hints())))
        .collect())
}

fn decide(
    core: &Core,
    subject: &Subject,
    book: &Book,
    facts: StoredFacts,
    rates: &[RateQuery],
) -> Result<Judged, Refusal> {
    let tier = tier(book, subject);
    if !subject.scope.reaches(tier) {
        return Err(unknown_tool());
    }
    let clocks = core.clock.now();
    let context = PolicyContext {
        tool: subject.frozen.tool().clone(),
        tier,
        arguments: subject.frozen.arguments().clone(),
        principal: subject.caller.principal.clone(),
        origin: subject.origin,
        conversation: subject.conversation.clone(),
        token_usage: facts.usage,
        counters: facts.counters,
        labels: Labels::default(),
        now: clocks.timestamp(),
        local_times: local_times(&book.rules.zones(), clocks.timestamp()),
    };
    // The engine is total; should it ever fail all the same, the answer is no.
    let decision = catch_unwind(AssertUnwindSafe(|| evaluate(&context, &book.rules))).map_err(|_| {
        tracing::error!(tool = %subject.frozen.tool(), "the policy engine failed");
        refusal(ReasonCode::PolicyFailed, "the policy engine failed; the call was not run", false)
    })?;
    if decision.effect != Effect::Deny
        && book.rules.inspects_arguments(subject.frozen.tool())
        && let Some(extra) =
            unnamed(subject.definition.input_schema(), &subject.frozen.arguments().to_value())
    {
        let sentence = format!(
            "a rule looks at the arguments of this tool, so none may be given that its schema does not name: `{}`",
            extra.chars().take(MAX_SHOWN).collect::<String>()
        );
        return Err(refusal(ReasonCode::InvalidArguments, &sentence, true));
    }
    let sentence = decision.sentence(&book.rules);
    let refusal = (decision.effect == Effect::Deny).then(|| Refusal {
        code: decision.reason.into(),
        sentence: sentence.clone(),
        retryable: decision.reason == sluicegate_policy::Reason::OverRate,
        rules: decision.deciding.clone(),
    });
    let reserve = rates
        .iter()
        .filter(|rate| decision.reserve.iter().any(|kept| kept.rule == rate.rule))
        .cloned()
        .collect();
    Ok(Judged {
        read_only: book.rules.is_read_only(subject.frozen.tool()),
        refused_before: facts.refused_before,
        expect: Expect { revision: book.revision, usage: facts.usage, rates: reserve },
        ruling: Ruling {
            revision: Some(book.revision),
            context: Some(context),
            decision: Some(decision.clone()),
            refusal,
            sentence,
        },
        decision,
    })
}

fn tier(book: &Book, subject: &Subject) -> Tier {
    book.rules.tier(subject.frozen.tool(), subject.definition.hints())
}

fn rates(book: &Book, subject: &Subject) -> Vec<RateQuery> {
    book.rules.rate_rules(
        subject.frozen.tool(),
        tier(book, subject),
        &subject.caller.principal,
        subject.origin,
    )
}

/// The local time in each zone that a rule names. A zone that cannot be read is left out: conditions on it are then
/// unevaluable, which never loosens.
pub fn local_times<'a>(zones: impl IntoIterator<Item = &'a ZoneName>, now: Timestamp) -> LocalTimes {
    let Ok(now) = jiff::Timestamp::from_millisecond(now.0) else { return LocalTimes::default() };
    zones
        .into_iter()
        .filter_map(|zone| {
            let local = now.in_tz(zone.as_str()).ok()?;
            let minutes = i32::from(local.hour()) * 60 + i32::from(local.minute());
            let weekday = match local.weekday() {
                jiff::civil::Weekday::Monday => Weekday::Monday,
                jiff::civil::Weekday::Tuesday => Weekday::Tuesday,
                jiff::civil::Weekday::Wednesday => Weekday::Wednesday,
                jiff::civil::Weekday::Thursday => Weekday::Thursday,
                jiff::civil::Weekday::Friday => Weekday::Friday,
                jiff::civil::Weekday::Saturday => Weekday::Saturday,
                jiff::civil::Weekday::Sunday => Weekday::Sunday,
            };
            Some((zone.clone(), LocalTime { weekday, minute_of_day: u16::try_from(minutes).ok()? }))
        })
        .collect()
}

pub(crate) fn refusal(code: ReasonCode, sentence: &str, retryable: bool) -> Refusal {
    Refusal { code, sentence: sentence.to_owned(), retryable, rules: Vec::new() }
}

/// The same words whether it is not there or out of the caller's reach.
pub(crate) fn unknown_tool() -> Refusal {
    refusal(
        ReasonCode::UnknownTool,
        "there is no such tool; use one of the tools that are listed, by its exact name",
        false,
    )
}

fn unreadable(sentence: &str) -> Refusal {
    refusal(ReasonCode::PolicyUnreadable, sentence, false)
}

pub(crate) fn store_refusal(error: &StoreError) -> Refusal {
    tracing::error!(%error, "the store failed; the call was not run");
    refusal(
        ReasonCode::StoreUnavailable,
        "the gate could not read or write its records, so the call was not run; try again later",
        true,
    )
}

fn book_refusal(error: BookError) -> Refusal {
    match error {
        BookError::Store(error @ StoreError::Unavailable(_)) => store_refusal(&error),
        BookError::Store(StoreError::Corrupt(_)) | BookError::Unreadable { .. } => {
            tracing::error!(%error, "the rules cannot be used; the call was not run");
            unreadable("the rules cannot be read, so no call may run until an admin has mended them")
        }
    }
}

impl Ruling {
    /// A refusal that did not come from the rules.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self {
            revision: None,
            context: None,
            decision: None,
            sentence: refusal.sentence.clone(),
            refusal: Some(refusal),
        }
    }

    /// The same facts and decision, refused for another reason.
    pub(crate) fn refused_as(mut self, refusal: Refusal) -> Self {
        self.sentence.clone_from(&refusal.sentence);
        self.refusal = Some(refusal);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_follows_the_zone_and_an_unknown_zone_is_left_out() {
        // 2026-03-29T00:30Z: Berlin is about to skip from 02:00 to 03:00.
        let zone = |name: &str| ZoneName::new(name).unwrap();
        let zones = [zone("Europe/Berlin"), zone("Nowhere/Land"), zone("UTC")];
        let times = local_times(&zones, Timestamp(1_774_744_200_000));
        let berlin = times.iter().find(|(z, _)| z.as_str() == "Europe/Berlin").unwrap().1;
        assert_eq!((berlin.weekday, berlin.minute_of_day), (Weekday::Sunday, 90));
        assert!(times.iter().all(|(z, _)| z.as_str() != "Nowhere/Land"));
    }
}
