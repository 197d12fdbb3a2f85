//! One rule as compiled.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::pattern::{Names, Pattern, any_fits};
use crate::condition::{Question, Truth, Why};
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
    pub(super) names: Names,
    pub(super) tiers: Option<Vec<Tier>>,
    pub(super) callers: Option<Vec<Pattern>>,
    pub(super) roles: Option<Vec<Role>>,
    pub(super) origins: Option<Vec<Origin>>,
    pub(crate) when: Vec<Question>,
    pub(crate) window: Option<Box<Window>>,
    /// What a match of the rule does.
    pub(crate) effect: Effect,
    pub(crate) hold: HoldTerms,
    pub(crate) limiter: Option<Limiter>,
    pub(super) written: Box<Rule>,
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

    /// Whether its patterns for callers fit.
    fn is_for(&self, caller: &CallerId) -> bool {
        any_fits(self.callers.as_deref(), caller.as_str())
    }

    /// Whether the rule is about calls like this one, beyond server and tool.
    pub(crate) fn selects(&self, tier: Tier, principal: &Principal, origin: Origin) -> Result<(), Because> {
        if !self.tiers.as_ref().is_none_or(|tiers| tiers.contains(&tier)) {
            Err(Because::Tier)
        } else if !self.is_for(&principal.caller) {
            Err(Because::Caller)
        } else if !self.roles.as_ref().is_none_or(|roles| roles.contains(&principal.role)) {
            Err(Because::Role)
        } else if !self.origins.as_ref().is_none_or(|origins| origins.contains(&origin)) {
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
