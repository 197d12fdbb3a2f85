//! `sluicegate stdio`: a bridge for MCP clients that speak nothing else.

use std::path::Path;

use anyhow::{Context as _, bail};
use secrecy::{ExposeSecret as _, SecretString};

use super::{Answer, log_to_stderr, runtime};
use crate::config::bridge_key;

pub(super) fn run(url: &str, key_file: Option<&Path>) -> anyhow::Result<Answer> {
    // Standard output belongs to the protocol.
    log_to_stderr("warn")?;
    let key = key(key_file)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(sluicegate_mcp::bridge(url, key.expose_secret()));
    // A read of standard input cannot be taken back; it must not keep the process.
    runtime.shutdown_background();
    ended?;
    Ok(Answer::Yes)
}

fn key(file: Option<&Path>) -> anyhow::Result<SecretString> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("the key file `{}` cannot be read", file.display()))?;
        return Ok(text.trim().to_owned().into());
    }
    match bridge_key()? {
        Some(key) => Ok(key),
        None => bail!(
            "there is no key: set SLUICEGATE_KEY or give --key-file; people make keys on the Settings page"
        ),
    }
}
