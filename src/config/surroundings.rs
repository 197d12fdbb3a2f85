//! What the process finds around it: its environment and the `.env` file. The one place that reads them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

use secrecy::SecretString;

/// Every variable that the product itself reads. Others are there for entries of the server list that name them, and for
/// the few that every child process needs.
const VARIABLES: &[&str] = &[
    "APPROVAL_TIMEOUT_SECONDS",
    "CONTEXT7_API_KEY",
    "CONTEXT7_API_KEY_FILE",
    "DATABASE_URL",
    "GEMINI_API_KEY",
    "GEMINI_API_KEY_FILE",
    "GEMINI_BASE_URL",
    "GEMINI_MODEL",
    "HOME_STATE",
    "LISTEN",
    "LOG_FILTER",
    "MAX_AGENT_STEPS",
    "MCP_SERVERS_PATH",
    "POLICY_RULES_PATH",
    "PUBLIC_URL",
    "SANDBOX_ROOT",
];

/// The one variable of the bridge for stdio clients.
const BRIDGE_KEY: &str = "SLUICEGATE_KEY";

/// Variables that were given, by name.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// From the environment, those that are text.
    pub environment: BTreeMap<String, String>,
    /// From the `.env` file in the working directory.
    pub dotenv: BTreeMap<String, String>,
    /// The environment as it is.
    pub process: Vec<(OsString, OsString)>,
}

/// Names only: values may be secrets.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Surroundings")
            .field("environment", &names(&self.environment))
            .field("dotenv", &names(&self.dotenv))
            .finish()
    }
}

/// The environment or the `.env` file cannot be read. The text of a line is never shown: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum DotEnvError {
    /// The file is there and cannot be read.
    #[error("`.env` cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// A line is not `NAME=value`.
    #[error(
        "`.env` line {line} cannot be read; write NAME=value, with quotes around a value that holds spaces"
    )]
    Line {
        /// Counting from 1.
        line: usize,
    },
    /// A variable is not text.
    #[error("{0} in the environment is not valid UTF-8; set it again")]
    NotText(&'static str),
}

impl Surroundings {
    /// Reads the environment, and `.env` in the working directory if it is there.
    ///
    /// # Errors
    /// [`DotEnvError`] when either holds what cannot be read.
    pub fn read() -> Result<Self, DotEnvError> {
        let process = process();
        let mut environment = BTreeMap::new();
        for (name, value) in &process {
            let Some(name) = name.to_str() else { continue };
            match (value.to_str(), VARIABLES.iter().find(|ours| **ours == name)) {
                (Some(value), _) => {
                    environment.insert(name.to_owned(), value.to_owned());
                }
                (None, Some(ours)) => return Err(DotEnvError::NotText(ours)),
                (None, None) => {}
            }
        }
        let dotenv = match std::fs::read_to_string(Path::new(".env")) {
            Ok(text) => parse_dotenv(&text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(DotEnvError::Unreadable(error)),
        };
        Ok(Self { environment, dotenv, process })
    }

    /// What entries of the server list can name: the environment, and what `.env` adds to it.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let mut all = self.dotenv.clone();
        all.extend(self.environment.clone());
        all
    }
}

/// The key that the bridge for stdio clients sends. Read from the environment alone: the bridge runs in whatever folder
/// its client runs in, and a `.env` there is not the product's.
///
/// # Errors
/// When it is not text.
pub fn bridge_key() -> Result<Option<SecretString>, DotEnvError> {
    let found = process().into_iter().find(|(name, _)| name == BRIDGE_KEY);
    let Some((_, key)) = found else { return Ok(None) };
    let key = key.into_string().map_err(|_| DotEnvError::NotText(BRIDGE_KEY))?;
    Ok((!key.is_empty()).then(|| key.into()))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn process() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// The variables of a `.env` file; the first line of a name counts.
pub(super) fn parse_dotenv(text: &str) -> Result<BTreeMap<String, String>, DotEnvError> {
    let mut found = BTreeMap::new();
    for entry in dotenvy::from_read_iter(text.as_bytes()) {
        let (name, value) = entry.map_err(|error| DotEnvError::Line { line: line_of(text, &error) })?;
        found.entry(name).or_insert(value);
    }
    Ok(found)
}

fn line_of(text: &str, error: &dotenvy::Error) -> usize {
    let place = match error {
        dotenvy::Error::LineParse(wrong, _) => text.lines().position(|line| line.trim() == wrong.trim()),
        _ => None,
    };
    place.map_or_else(|| text.lines().count().max(1), |place| place + 1)
}

/// The names of all variables, for the test that compares them with `.env.example`.
#[cfg(test)]
pub(super) fn variables() -> &'static [&'static str] {
    VARIABLES
}
