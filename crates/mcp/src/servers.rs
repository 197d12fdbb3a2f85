//! Which servers there are: checked entries, built in or read from the common `mcpServers` JSON.

mod expand;
mod ordered;
mod parse;

use http::{HeaderName, HeaderValue};
use reqwest::Url;
use sluicegate_gateway::Digest;
use sluicegate_policy::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Headers that the protocol itself sets, or that frame the message; an entry cannot set them.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Shortest and longest time-out that an entry can set.
const TIMEOUT_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// What is wrong with a list of servers. It names the server and the field, and never shows a value of an
/// environment variable or header.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServersError {
    /// The text is not JSON, or not of the expected outer shape.
    #[error("the server list cannot be read: {0}")]
    Unreadable(String),
    /// A name is not usable.
    #[error("a server of the list cannot have its name: {0}")]
    Name(String),
    /// One entry is wrong.
    #[error("server `{server}`: `{field}` {why}")]
    Entry {
        /// The entry's name.
        server: String,
        /// Which of its fields.
        field: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Two entries have one name.
    #[error("the server list names `{0}` twice; give each server a name of its own")]
    Duplicate(ServerName),
}

/// A value that may be a secret: it shows itself nowhere.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hidden(String);

impl Hidden {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub(crate) enum Reach {
    /// A child process that speaks on its standard input and output.
    Stdio { command: String, args: Vec<String>, env: BTreeMap<String, Hidden>, cwd: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: Url, headers: Vec<(HeaderName, HeaderValue)> },
}

/// One configured server.
#[derive(Clone, PartialEq)]
pub struct ServerEntry {
    name: ServerName,
    reach: Reach,
    timeout: Option<Duration>,
    tool_timeouts: BTreeMap<String, Duration>,
    notes: Vec<String>,
}

/// Names only: arguments and addresses can hold secrets too.
impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEntry")
            .field("name", &self.name)
            .field("transport", &self.transport())
            .field("given", &self.given())
            .finish_non_exhaustive()
    }
}

impl ServerEntry {
    /// A server that is started as a child process.
    ///
    /// # Errors
    /// When the name or the command cannot be one.
    pub fn stdio(name: &str, command: &str, args: &[&str]) -> Result<Self, ServersError> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let reach = Reach::Stdio { command: command.to_owned(), args, env: BTreeMap::new(), cwd: None };
        Self::checked(name, reach)
    }

    /// A server that is reached over Streamable HTTP, with these headers and no others beside the protocol's own.
    ///
    /// # Errors
    /// When the name, the address or a header cannot be one.
    pub fn http(name: &str, url: &str, headers: &[(&str, &str)]) -> Result<Self, ServersError> {
        let url = read_url(url).map_err(|why| wrong(name, "url", why))?;
        let mut entry = Self::checked(name, Reach::Http { url, headers: Vec::new() })?;
        for (header, value) in headers {
            entry.add_header(header, value)?;
        }
        Ok(entry)
    }

    /// Reads the JSON file format that MCP clients share: `{ "mcpServers": { "name": { … } } }`, in the file's order.
    /// `variables` are what `${NAME}` in values of `env` and `headers` may stand for. Entries marked `disabled` are
    /// left out. What is not read, or would loosen, becomes a note that the Tools page shows.
    ///
    /// # Errors
    /// Naming the server and the field; nothing is read in part.
    pub fn read_list(json: &str, variables: &BTreeMap<String, String>) -> Result<Vec<Self>, ServersError> {
        parse::read_list(json, variables)
    }

    /// Sets a variable of the child's environment.
    ///
    /// # Errors
    /// When the entry starts no process, or the variable cannot be one.
    pub fn with_env(mut self, name: &str, value: &str) -> Result<Self, ServersError> {
        self.add_env(name, value)?;
        Ok(self)
    }

    /// Limits one call of this server, instead of the general limit.
    ///
    /// # Errors
    /// When it is not between 1 s and 1 h.
    pub fn with_timeout(mut self, limit: Duration) -> Result<Self, ServersError> {
        self.timeout = Some(self.check_timeout("timeout", limit)?);
        Ok(self)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// What makes it this server and no other: transport, command, arguments, folder and names of variables, or
    /// address and names of headers. Values of variables and headers do not count, so a rotated key changes nothing.
    #[must_use]
    pub fn identity(&self) -> Digest {
        let list = |names: &[String]| serde_json::Value::from(names.to_vec()).to_string();
        let given = list(&self.given());
        let parts: [String; 5] = match &self.reach {
            Reach::Stdio { command, args, cwd, .. } => {
                let cwd = cwd.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
                ["stdio".to_owned(), command.clone(), list(args), cwd, given]
            }
            Reach::Http { url, .. } => {
                ["http".to_owned(), url.to_string(), String::new(), String::new(), given]
            }
        };
        Digest::of("sluicegate/server/1", &parts.each_ref().map(|part| part.as_bytes()))
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The limit of one call of a tool, given the general one.
    pub(crate) fn timeout_of(&self, tool: &str, general: Duration) -> Duration {
        self.tool_timeouts.get(tool).copied().or(self.timeout).unwrap_or(general)
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.reach {
            Reach::Stdio { .. } => "stdio",
            Reach::Http { .. } => "http",
        }
    }

    /// Names of the variables or headers that the entry gives, in order.
    pub(crate) fn given(&self) -> Vec<String> {
        match &self.reach {
            Reach::Stdio { env, .. } => env.keys().cloned().collect(),
            Reach::Http { headers, .. } => {
                let names: BTreeSet<_> = headers.iter().map(|(name, _)| name.to_string()).collect();
                names.into_iter().collect()
            }
        }
    }

    /// Values that must show nowhere.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match &self.reach {
            Reach::Stdio { env, .. } => env.values().map(Hidden::reveal).collect(),
            Reach::Http { url, headers } => {
                let headers = headers.iter().filter_map(|(_, value)| value.to_str().ok());
                headers.chain(url.query()).collect()
            }
        }
    }

    fn checked(name: &str, reach: Reach) -> Result<Self, ServersError> {
        let entry_name = ServerName::new(name).map_err(|error| ServersError::Name(error.to_string()))?;
        if let Reach::Stdio { command, args, .. } = &reach {
            if command.trim().is_empty() {
                return Err(wrong(name, "command", "is empty; name the program to start"));
            }
            if command.contains('\0') {
                return Err(wrong(name, "command", "holds a NUL character"));
            }
            if args.iter().any(|arg| arg.contains('\0')) {
                return Err(wrong(name, "args", "holds a NUL character"));
            }
        }
        Ok(Self { name: entry_name, reach, timeout: None, tool_timeouts: BTreeMap::new(), notes: Vec::new() })
    }

    fn add_env(&mut self, name: &str, value: &str) -> Result<(), ServersError> {
        let field = format!("env.{name}");
        let Reach::Stdio { env, .. } = &mut self.reach else {
            return Err(wrong(
                self.name.as_str(),
                &field,
                "is for servers with a `command`; use `headers` for a `url`",
            ));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(wrong(
                self.name.as_str(),
                &field,
                "cannot be a variable: no name, or `=` or NUL in it",
            ));
        }
        env.insert(name.to_owned(), Hidden(value.to_owned()));
        Ok(())
    }

    fn add_header(&mut self, name: &str, value: &str) -> Result<(), ServersError> {
        let field = format!("headers.{name}");
        let Reach::Http { headers, .. } = &mut self.reach else {
            return Err(wrong(
                self.name.as_str(),
                &field,
                "is for servers with a `url`; use `env` for a `command`",
            ));
        };
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(wrong(self.name.as_str(), &field, "is not a header name"));
        };
        if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-") {
            return Err(wrong(self.name.as_str(), &field, "is set by the protocol; take it out"));
        }
        if headers.iter().any(|(known, _)| *known == header) {
            return Err(wrong(self.name.as_str(), &field, "is given twice"));
        }
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(wrong(self.name.as_str(), &field, "has a value that no header can carry"));
        };
        value.set_sensitive(true);
        headers.push((header, value));
        Ok(())
    }

    fn check_timeout(&self, field: &str, limit: Duration) -> Result<Duration, ServersError> {
        if TIMEOUT_RANGE.contains(&limit) {
            return Ok(limit);
        }
        Err(wrong(self.name.as_str(), field, "is not between 1 second and 1 hour"))
    }
}

/// An http(s) address without a user part: a password in an address ends up in logs on the way.
fn read_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is not an address such as `https://example.com/mcp`")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is not an `http` or `https` address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password; give it as a header in `headers`");
    }
    if url.fragment().is_some() {
        return Err("holds a `#` part, which no server ever sees; take it out");
    }
    Ok(url)
}

fn wrong(server: &str, field: &str, why: impl Into<String>) -> ServersError {
    ServersError::Entry { server: server.to_owned(), field: field.to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests;
