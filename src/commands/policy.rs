//! `sluicegate policy …`.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use sluicegate_gateway::SystemClock;
use sluicegate_policy::ApprovalDefaults;
use sluicegate_store::{Store, StoreOptions};

use super::{Answer, runtime, say};
use crate::config::Config;
use crate::rules::{self, Change, PolicyProblem, Rules, RulesError};

/// They fill in times, and change nothing of whether a text is a policy.
pub(super) const ANY_DEFAULTS: ApprovalDefaults =
    ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };

pub(super) fn check(file: &Path) -> anyhow::Result<Answer> {
    match rules::parse(&read(file)?, ANY_DEFAULTS) {
        Ok((document, _)) => {
            say(&format!("{}: a policy with {}", file.display(), count(document.rules.len())))?;
            Ok(Answer::Yes)
        }
        Err(problems) => refused(file, &problems),
    }
}

pub(super) fn test(file: &Path) -> anyhow::Result<Answer> {
    let (document, rules) = match rules::parse(&read(file)?, ANY_DEFAULTS) {
        Ok(parsed) => parsed,
        Err(problems) => return refused(file, &problems),
    };
    let failing = rules::failing(&document.tests, &rules);
    for failure in &failing {
        say(&format!("{}: {failure}", file.display()))?;
    }
    let all = document.tests.len();
    match (all, failing.len()) {
        (0, _) => say("there are no tests")?,
        (_, 0) => say(&format!("{all} of {all} tests pass"))?,
        (_, failed) => say(&format!("{failed} of {all} tests fail"))?,
    }
    Ok(if failing.is_empty() { Answer::Yes } else { Answer::No })
}

pub(super) fn schema() -> anyhow::Result<Answer> {
    say(&serde_json::to_string_pretty(&rules::schema())?)?;
    Ok(Answer::Yes)
}

pub(super) fn import(
    file: &Path,
    reason: &str,
    despite_tests: bool,
    config: &Config,
) -> anyhow::Result<Answer> {
    let yaml = read(file)?;
    runtime()?.block_on(async {
        let store =
            Store::open_tool(&config.database_url, Arc::new(SystemClock::new()), StoreOptions::default())
                .await?;
        let rules = Rules::new(store.policies(), store.call_reader(), config.approval_defaults());
        let change = Change { author: "command line", reason, despite_tests };
        let imported = rules.import(&yaml, &file.display().to_string(), change).await;
        store.close().await;
        match imported {
            Ok(revision) => {
                say(&format!("revision {} is in force from the next call on", revision.0))?;
                Ok(Answer::Yes)
            }
            Err(RulesError::Text(problems)) => refused(file, &problems),
            Err(RulesError::Tests(failing)) => {
                for failure in failing {
                    say(&format!("{}: {failure}", file.display()))?;
                }
                say("tests fail; nothing was changed (--despite-failing-tests imports all the same)")?;
                Ok(Answer::No)
            }
            Err(error) => Err(error.into()),
        }
    })
}

pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    match rules::read_file(file) {
        Ok(Some(yaml)) => Ok(yaml),
        Ok(None) => bail!("there is no file `{}`", file.display()),
        Err(why) => bail!("`{}`: {why}", file.display()),
    }
}

pub(super) fn refused(file: &Path, problems: &[PolicyProblem]) -> anyhow::Result<Answer> {
    for problem in problems {
        say(&format!("{}: {problem}", file.display()))?;
    }
    say("not a policy; nothing was changed")?;
    Ok(Answer::No)
}

fn count(rules: usize) -> String {
    match rules {
        0 => "no rules: every call would be denied".to_owned(),
        1 => "1 rule".to_owned(),
        n => format!("{n} rules"),
    }
}
