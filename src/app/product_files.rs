//! The files of the product itself: none of them may lie in the folder that the sandbox file server serves, or a tool
//! could read keys and rewrite rules.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::config::Config;

/// Refuses a sandbox root that holds a file of the product; makes the root if it is not there.
///
/// # Errors
/// One line that names the file.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    let mut files = vec![
        std::env::current_exe().context("the program's own file cannot be found")?,
        config.policy.path.clone(),
        config.servers.path.clone(),
        config.home_state.clone(),
        PathBuf::from(".env"),
    ];
    files.extend(config.key_files.iter().cloned());
    if let Some(database) = config.database_url.strip_prefix("sqlite://") {
        files.extend(["", "-wal", "-shm", ".lock"].map(|end| PathBuf::from(format!("{database}{end}"))));
    }
    sluicegate_mcp::check_root(&config.sandbox_root, &files)
        .context("SANDBOX_ROOT cannot be served, give another with --sandbox-root")
}
