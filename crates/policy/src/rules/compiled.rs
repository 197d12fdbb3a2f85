//! One rule as compiled.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::pattern::{Names, Pattern, any_fits, covers_all};
use crate::condition::{Truth, Why};
use crate::context::{LocalTimes, Origin, Principal, Role, Tier, Weekday};
use crate::decision::{Because, Effect, RateQuery, RateSubject};
use crate::document::{Mode, Rule, RuleKind};
use crate::names::{CallerId, RuleId, ServerName, ToolRef, ZoneName};

/// A rule, checked and ready.
#[derive(Debug, Clone)]
pub struct CompiledRule {
    pub(crate) id: RuleId,
    pub(crate) kind: RuleKind,
    pub(crate) enabled: bool,
    pub(crate) mode: Mode,
    /// What a match of the rule does.
    pub(crate) effect: Effect,
    pub(super) tiers: Words,
    pub(super) roles: Words,
    pub(super) origins: Words,
    /// Where its conditions stand in the rule set's list.
    pub(crate) when: Range<u32>,
    pub(super) callers: Option<Box<[Pattern]>>,
    pub(crate) window: Option<Box<Window>>,
    pub(crate) hold: HoldTerms,
    pub(crate) limiter: Option<Limiter>,
    pub(super) names: Box<Names>,
    pub(super) written: Box<Rule>,
}

/// A set of words of a small closed list, by their places in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words(u8);

impl Words {
    pub(super) fn of(places: impl IntoIterator<Item = u8>) -> Self {
        Self(places.into_iter().fold(0, |bits, place| bits | Self::bit(place)))
    }

    fn has(self, place: u8) -> bool {
        self.0 & Self::bit(place) != 0
    }

    /// Whether all words of the other set are in this one.
    fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    fn bit(place: u8) -> u8 {
        1u8.checked_shl(place.into()).unwrap_or(0)
    }
}

/// The rule's own terms of a hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldTerms {
    pub(crate) timeout_s: Option<u32>,
    pub(crate) role: Option<Role>,
    pub(crate) approvers: u32,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limiter {
    ConversationTokens { limit: u64 },
    CallerDayTokens { limit: u64 },
    Calls { limit: u64, window_ms: u64, per: PerCalls },
}

/// Whose calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PerCalls {
    Caller,
    Tool,
    Server,
}

/// When a rule is in force.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// Minutes of the day.
    pub(super) from: u16,
    pub(super) to: u16,
    /// The days on which a window begins.
    pub(super) days: Vec<Weekday>,
    pub(crate) zone: ZoneName,
}

impl CompiledRule {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &RuleId {
        &self.id
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> RuleKind {
        self.kind
    }

    /// Its description, for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.written.description
    }

    /// Whether it is switched on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether it decides or only records.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What it does where it matches.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// The rule as written.
    #[must_use]
    pub fn written(&self) -> &Rule {
        &self.written
    }

    /// Whether its server and tool patterns fit.
    #[must_use]
    pub fn is_about(&self, tool: &ToolRef) -> bool {
        self.names.fit(tool)
    }

    /// Whether a tool of this server could fit: a rule for which this is false of every known server is about nothing.
    #[must_use]
    pub fn is_about_server(&self, server: &ServerName) -> bool {
        any_fits(self.names.servers.as_deref(), server.as_str())
    }

    /// Whether it is about calls of that tier.
    #[must_use]
    pub fn is_for_tier(&self, tier: Tier) -> bool {
        self.tiers.has(tier as u8)
    }

    /// Whether each call that the other rule selects is one that this rule selects.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        covers_all(self.names.servers.as_deref(), other.names.servers.as_deref())
            && covers_all(self.names.tools.as_deref(), other.names.tools.as_deref())
            && covers_all(self.callers.as_deref(), other.callers.as_deref())
            && self.tiers.covers(other.tiers)
            && self.roles.covers(other.roles)
            && self.origins.covers(other.origins)
    }

    /// Whether it is about every tool there can be.
    pub(crate) fn names_every_tool(&self) -> bool {
        covers_all(self.names.servers.as_deref(), None) && covers_all(self.names.tools.as_deref(), None)
    }

    /// Whether its roles never ask from its origins: people ask from the chat, keys through MCP.
    pub(crate) fn selects_nobody(&self) -> bool {
        let people =
            [Role::Viewer, Role::Approver, Role::Admin].iter().any(|role| self.roles.has(*role as u8));
        let client = self.roles.has(Role::Client as u8);
        !(people && self.origins.has(Origin::Chat as u8) || client && self.origins.has(Origin::Mcp as u8))
    }

    /// Whether its patterns for callers fit.
    fn is_for(&self, caller: &CallerId) -> bool {
        any_fits(self.callers.as_deref(), caller.as_str())
    }

    /// Whether the rule is about calls like this one, beyond server and tool.
    pub(crate) fn selects(&self, tier: Tier, principal: &Principal, origin: Origin) -> Result<(), Because> {
        if !self.tiers.has(tier as u8) {
            Err(Because::Tier)
        } else if !self.is_for(&principal.caller) {
            Err(Because::Caller)
        } else if !self.roles.has(principal.role as u8) {
            Err(Because::Role)
        } else if !self.origins.has(origin as u8) {
            Err(Because::Origin)
        } else {
            Ok(())
        }
    }

    /// What a rate_limit counts for this call; `None` for the other kinds.
    pub(crate) fn rate_query(&self, tool: &ToolRef, principal: &Principal) -> Option<RateQuery> {
        let Some(Limiter::Calls { limit, window_ms, per }) = self.limiter else { return None };
        let subject = match per {
            PerCalls::Caller => RateSubject::Caller(principal.caller.clone()),
            PerCalls::Tool => RateSubject::Tool(tool.clone()),
            PerCalls::Server => RateSubject::Server(tool.server().clone()),
        };
        Some(RateQuery { rule: self.id.clone(), subject, window_ms, limit, mode: self.mode })
    }
}

impl Window {
    /// Whether the rule is in force at this local time.
    pub(crate) fn is_open(&self, times: &LocalTimes) -> Truth {
        let Some(local) = times.get(&self.zone).filter(|local| local.minute_of_day < 1440) else {
            return Truth::Unevaluable(Why::Missing);
        };
        let minute = local.minute_of_day;
        let (today, yesterday) = (local.weekday, local.weekday.previous());
        let open = if self.from < self.to {
            self.days.contains(&today) && (self.from..self.to).contains(&minute)
        } else {
            (self.days.contains(&today) && minute >= self.from)
                || (self.days.contains(&yesterday) && minute < self.to)
        };
        open.into()
    }
}
