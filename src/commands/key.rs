//! `sluicegate key …`: keys of MCP clients, on the local store, beside a running server too.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use sluicegate_gateway::{PersonId, Scope, SystemClock};
use sluicegate_policy::Tier;
use sluicegate_store::{Key, KeyName, KeyOutcome, Keys, NewKey, Store, StoreOptions};

use super::{Answer, runtime, say};
use crate::config::Config;

/// Who made or revoked a key, in the trail.
const BY: &str = "command line";

/// What a new key is for, as the command line says it.
#[derive(Debug, clap::Args)]
pub(super) struct New {
    /// The key's name: 1 to 64 of a-z, 0-9, `.`, `_` and `-`; a name is never given twice
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The person who answers for its calls
    #[arg(long, value_name = "PERSON", default_value = "admin")]
    owner: String,
    /// A server that it reaches, by name or pattern; may be given several times [default: all]
    #[arg(long = "server", value_name = "SERVER")]
    servers: Vec<String>,
    /// A tool that it reaches, by name or pattern; may be given several times [default: all]
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    /// A tier that it reaches: safe, moderate or high; may be given several times [default: all]
    #[arg(long = "tier", value_name = "TIER")]
    tiers: Vec<String>,
    /// It may read everybody's part of the audit trail, not only that of its own calls
    #[arg(long)]
    audit_read: bool,
}

impl New {
    fn read(&self) -> anyhow::Result<NewKey> {
        let tier = |word: &String| {
            Tier::from_word(word).ok_or_else(|| anyhow!("`{word}` is no tier; give safe, moderate or high"))
        };
        Ok(NewKey {
            name: name(&self.name)?,
            owner: PersonId::new(&self.owner)
                .ok_or_else(|| anyhow!("there is no person `{}`", self.owner))?,
            scope: Scope {
                servers: self.servers.clone(),
                tools: self.tools.clone(),
                tiers: self.tiers.iter().map(tier).collect::<Result<_, _>>()?,
            },
            audit_read: self.audit_read,
        })
    }
}

fn name(text: &str) -> anyhow::Result<KeyName> {
    KeyName::new(text)
        .ok_or_else(|| anyhow!("`{text}` cannot be a key's name: 1 to 64 of a-z, 0-9, `.`, `_` and `-`"))
}

/// Prints the key alone on the last line.
pub(super) fn create(new: &New, config: &Config) -> anyhow::Result<Answer> {
    let new = new.read()?;
    let (name, owner) = (new.name.clone(), new.owner.clone());
    let outcome = on_store(config, async |keys| Ok(keys.create(new, BY).await?))?;
    match outcome {
        KeyOutcome::Created(made) => {
            say(&format!("The key `{name}` is made. It is shown this once:"))?;
            say(&made.token)?;
            Ok(Answer::Yes)
        }
        KeyOutcome::NameTaken => bail!("there is or was a key `{name}` already; take another name"),
        KeyOutcome::NoSuchOwner => bail!("there is no person `{owner}`"),
    }
}

pub(super) fn list(config: &Config) -> anyhow::Result<Answer> {
    let keys = on_store(config, async |keys| Ok(keys.list().await?))?;
    for key in keys {
        say(&line(&key))?;
    }
    Ok(Answer::Yes)
}

pub(super) fn revoke(text: &str, config: &Config) -> anyhow::Result<Answer> {
    let name = name(text)?;
    if on_store(config, async |keys| Ok(keys.revoke(&name, BY).await?))? {
        say(&format!("the key `{text}` is revoked; no call of it begins from now on"))?;
        return Ok(Answer::Yes);
    }
    say(&format!("there is no key `{text}` that could be revoked"))?;
    Ok(Answer::No)
}

fn line(key: &Key) -> String {
    let state = if key.revoked_ms.is_some() { "revoked" } else { "good" };
    let all = |names: &[String]| if names.is_empty() { "all".to_owned() } else { names.join(",") };
    let tiers: Vec<String> = key.scope.tiers.iter().map(ToString::to_string).collect();
    let audit = if key.audit_read { "\taudit:read" } else { "" };
    format!(
        "{}\t{state}\towner {}\tservers {}\ttools {}\ttiers {}{audit}",
        key.name,
        key.owner,
        all(&key.scope.servers),
        all(&key.scope.tools),
        all(&tiers),
    )
}

fn on_store<T>(config: &Config, work: impl AsyncFnOnce(Keys) -> anyhow::Result<T>) -> anyhow::Result<T> {
    runtime()?.block_on(async {
        let store =
            Store::open_tool(&config.database_url, Arc::new(SystemClock::new()), StoreOptions::default())
                .await?;
        let done = work(store.keys()).await;
        store.close().await;
        done
    })
}
