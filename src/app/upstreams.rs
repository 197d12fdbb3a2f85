//! Which MCP servers there are: those that are shipped, and those of the server list.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use secrecy::ExposeSecret as _;
use sluicegate_gateway::Invoke;
use sluicegate_mcp::{PoolOptions, ServerEntry, UpstreamControl};

use crate::config::{Config, Named, Surroundings};

const SANDBOX_FILES: &str = "sandbox-files";
const HOME: &str = "home";
const CONTEXT7: &str = "context7";
const CONTEXT7_URL: &str = "https://mcp.context7.com/mcp";
/// The header that context7 reads its key from.
const CONTEXT7_HEADER: &str = "CONTEXT7_API_KEY";
/// The longest server list, in bytes.
const MAX_LIST: u64 = 1024 * 1024;

/// Starts and dials every server. Returns at once.
///
/// # Errors
/// When the server list cannot be used; it names the entry.
pub(super) fn connect(
    config: &Config,
    around: &Surroundings,
    mark: &str,
) -> anyhow::Result<(impl Invoke, UpstreamControl)> {
    let entries = entries(config, around)?;
    let options = PoolOptions {
        environment: around.process.clone(),
        mark: Some(mark.into()),
        ..PoolOptions::default()
    };
    Ok(sluicegate_mcp::connect(entries, options)?)
}

/// The shipped servers, then the listed ones. A listed one takes the place of a shipped one of the same name.
fn entries(config: &Config, around: &Surroundings) -> anyhow::Result<Vec<ServerEntry>> {
    let listed = match read(&config.servers)? {
        Some(json) => ServerEntry::read_list(&json, &around.variables())
            .with_context(|| format!("the server list `{}` cannot be used", config.servers.path.display()))?,
        None => Vec::new(),
    };
    let mut entries = vec![
        itself(SANDBOX_FILES, "--root", ("SANDBOX_ROOT", &config.sandbox_root))?,
        itself(HOME, "--state", ("HOME_STATE", &config.home_state))?,
        context7(config)?,
    ];
    entries.retain(|shipped| listed.iter().all(|entry| entry.name() != shipped.name()));
    entries.extend(listed);
    Ok(entries)
}

/// The program itself, as a child process: its command of the server's name, on a folder.
fn itself(name: &str, flag: &str, (setting, folder): (&str, &Path)) -> anyhow::Result<ServerEntry> {
    let program = std::env::current_exe().context("the program's own file cannot be found")?;
    let folder = std::path::absolute(folder).with_context(|| format!("{setting} has no absolute path"))?;
    let (Some(program), Some(folder)) = (program.to_str(), folder.to_str()) else {
        bail!("the paths of the program and of {setting} must be UTF-8");
    };
    Ok(ServerEntry::stdio(name, program, &[name, flag, folder])?)
}

fn context7(config: &Config) -> anyhow::Result<ServerEntry> {
    let key = config.context7_api_key.as_ref().map(|key| (CONTEXT7_HEADER, key.expose_secret()));
    Ok(ServerEntry::http(CONTEXT7, CONTEXT7_URL, key.as_slice())?)
}

fn read(list: &Named) -> anyhow::Result<Option<String>> {
    let path = list.path.display();
    let file = match std::fs::File::open(&list.path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && !list.given => return Ok(None),
        Err(error) => return Err(anyhow!("the server list `{path}` cannot be read ({error})")),
    };
    let mut json = String::new();
    file.take(MAX_LIST + 1)
        .read_to_string(&mut json)
        .with_context(|| format!("the server list `{path}` cannot be read"))?;
    if json.len() as u64 > MAX_LIST {
        bail!("the server list `{path}` is larger than {} KiB", MAX_LIST / 1024);
    }
    Ok(Some(json))
}
