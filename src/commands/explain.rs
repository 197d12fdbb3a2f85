//! `sluicegate policy explain`.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use sluicegate_gateway::SystemClock;
use sluicegate_policy::{
    Arguments, Decision, Given, Hints, Moment, Origin, PolicyContext, PolicyDocument, Role, Rule, RuleId,
    TokenUsage, Verdict, Weekday,
};
use sluicegate_store::{Store, StoreOptions};

use super::policy::{ANY_DEFAULTS, read, refused};
use super::{Answer, Explain, runtime, say};
use crate::rules::{self, Rules};

/// Prints the decision, why, and what became of each rule about the tool.
pub(super) fn run(asked: &Explain) -> anyhow::Result<Answer> {
    let given = given(asked)?;
    let found = match &asked.file {
        Some(file) => {
            let (document, rules) = match rules::parse(&read(file)?, ANY_DEFAULTS) {
                Ok(parsed) => parsed,
                Err(problems) => return refused(file, &problems),
            };
            let (context, decision) = rules::decide(&given, Hints::default(), &rules)?;
            let sentence = decision.sentence(&rules);
            Found { by: file.display().to_string(), context, decision, sentence, document }
        }
        None => in_force(asked, &given)?,
    };
    for line in found.lines() {
        say(&line)?;
    }
    Ok(Answer::Yes)
}

struct Found {
    /// By which rules.
    by: String,
    context: PolicyContext,
    decision: Decision,
    sentence: String,
    document: PolicyDocument,
}

fn in_force(asked: &Explain, given: &Given) -> anyhow::Result<Found> {
    let config = asked.store.config()?;
    runtime()?.block_on(async {
        let clock = Arc::new(SystemClock::new());
        let store = Store::open_tool(&config.database_url, clock, StoreOptions::default()).await?;
        let rules = Rules::new(store.policies(), store.call_reader(), config.approval_defaults());
        // The servers are not asked: what they state of a tool may raise its tier at the gate.
        let explained = rules.explain(given, Hints::default()).await;
        let current = rules.current().await;
        store.close().await;
        let (explained, current) = (explained?, current?.context("the rules have gone")?);
        Ok(Found {
            by: format!("revision {}", explained.revision.0),
            context: explained.context,
            decision: explained.decision,
            sentence: explained.sentence,
            document: current.revision.document,
        })
    })
}

impl Found {
    fn rule(&self, id: &RuleId) -> Option<&Rule> {
        self.document.rules.iter().find(|rule| rule.id == *id)
    }

    fn lines(&self) -> Vec<String> {
        let effect = self.decision.effect;
        let mut lines = vec![
            format!("{effect}: {}", self.sentence),
            format!("reason {}, tier {}, by {}", self.decision.reason, self.context.tier, self.by),
        ];
        if let Some(hold) = &self.decision.hold {
            let roles: Vec<&str> = hold.roles.iter().map(|role| role.as_str()).collect();
            let (people, time) = (hold.approvers, hold.timeout_s);
            lines.push(format!("{time} s to decide, {people} to approve, by {}", roles.join(" and ")));
        }
        if self.decision.considered.is_empty() {
            lines.push("no rule is about this tool".to_owned());
        }
        lines.extend(self.decision.considered.iter().map(|considered| {
            let verdict = match considered.verdict {
                Verdict::Matched(_) if self.decision.deciding.contains(considered.rule) => {
                    "decides".to_owned()
                }
                Verdict::Matched(effect) => format!("says {effect}, and a stricter rule decides"),
                Verdict::Shadow(effect) => format!("would have said {effect}"),
                Verdict::NotMatched | Verdict::Disabled => "does not match".to_owned(),
            };
            let why = considered.because.in_words(self.rule(considered.rule));
            format!("  {} {verdict}: {why}", considered.rule)
        }));
        lines
    }
}

fn given(asked: &Explain) -> anyhow::Result<Given> {
    let (server, tool) = asked.tool.split_once('/').context("write the tool as server/tool")?;
    let arguments = Arguments::from_json(&asked.arguments).context("the arguments are no JSON object")?;
    let serde_json::Value::Object(arguments) = arguments.to_value() else {
        return Err(anyhow!("the arguments are no JSON object"));
    };
    Ok(Given {
        server: server.parse()?,
        tool: tool.parse()?,
        arguments,
        caller: asked.caller.as_deref().map(str::parse).transpose()?,
        role: asked.role.as_deref().map(|text| word(text, Role::from_word, Role::ALL)).transpose()?,
        origin: asked.origin.as_deref().map(|text| word(text, Origin::from_word, Origin::ALL)).transpose()?,
        tokens: Some(TokenUsage { conversation: asked.usage, caller_day: asked.usage }),
        calls: std::collections::BTreeMap::new(),
        at: asked.at.as_deref().map(moment).transpose()?,
    })
}

fn moment(text: &str) -> anyhow::Result<Moment> {
    let (day, time) = text.split_once(' ').context("write the moment as day and time: `mon 08:00`")?;
    Ok(Moment { day: word(day, Weekday::from_word, Weekday::ALL)?, time: time.parse()? })
}

/// A word of a closed list.
fn word<T: Copy + ToString>(text: &str, read: impl Fn(&str) -> Option<T>, all: &[T]) -> anyhow::Result<T> {
    read(text).ok_or_else(|| {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        anyhow!("`{text}` is none of {}", all.join(", "))
    })
}
