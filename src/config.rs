//! Settings: flags, environment, `.env`, defaults, in this order, read once at start.
//!
//! Secrets never come by flag, and their values are in no error, log line or page. Resolving is a pure function of what was
//! read, so each rule below is tested without touching the process's environment.

mod surroundings;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use reqwest::Url;
use secrecy::SecretString;
use sluicegate_policy::ApprovalDefaults;

pub use surroundings::{DotEnvError, Surroundings, bridge_key};

/// Settings that can be given as flags. Every flag has an environment variable of the same meaning.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Address and port to listen on; loopback only. Port 0 takes a free one [env: LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address under which people reach the pages, if another than the one listened on: for links, the Host and Origin
    /// checks, and https-only cookies [env: PUBLIC_URL]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// The store [env: DATABASE_URL] [default: sqlite://sluicegate.db]
    #[arg(long, value_name = "URL", global = true)]
    pub database_url: Option<String>,
    /// File that seeds the rules of an empty store, once [env: POLICY_RULES_PATH] [default: policy_rules.yaml]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// File that lists further MCP servers, in the `mcpServers` form of other clients [env: MCP_SERVERS_PATH]
    /// [default: mcp_servers.json, if it is there]
    #[arg(long, value_name = "FILE")]
    pub servers: Option<String>,
    /// Folder in which the demo smart home keeps its state; made if it is not there [env: HOME_STATE] [default: ./home]
    #[arg(long, value_name = "DIR")]
    pub home_state: Option<String>,
    /// Folder that the sandbox file server serves; made if it is not there [env: SANDBOX_ROOT] [default: ./sandbox]
    #[arg(long, value_name = "DIR")]
    pub sandbox_root: Option<String>,
    /// Seconds a held call waits for a person, where its rule names no time [env: APPROVAL_TIMEOUT_SECONDS]
    /// [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub approval_timeout_seconds: Option<String>,
    /// Most steps the chat agent takes in one turn [env: MAX_AGENT_STEPS] [default: 10]
    #[arg(long, value_name = "STEPS")]
    pub max_agent_steps: Option<String>,
    /// Model of the chat agent at Gemini; needs GEMINI_API_KEY [env: GEMINI_MODEL] [default: gemini-3.8-flash]
    #[arg(long, value_name = "MODEL")]
    pub gemini_model: Option<String>,
    /// Address of the Gemini interface [env: GEMINI_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub gemini_base_url: Option<String>,
    /// What to log, such as `info` or `warn,sluicegate=debug` [env: LOG_FILTER]
    /// [default: info,rmcp=off]
    #[arg(long, value_name = "FILTER")]
    pub log_filter: Option<String>,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A flag on the command line.
    Flag,
    /// The environment.
    Environment,
    /// The `.env` file.
    DotEnv,
    /// Nobody gave it.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::DotEnv => ".env",
            Self::Default => "default",
        })
    }
}

/// One setting as the Settings page shows it. A secret shows whether it is set, never its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The value in force.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// A file that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Where it is.
    pub path: PathBuf,
    /// Somebody named it: then its absence is a mistake.
    pub given: bool,
}

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen: a loopback address.
    pub listen: SocketAddr,
    /// Under which address people reach the pages; `None`: the one listened on.
    pub public_url: Option<Url>,
    /// The store's address.
    pub database_url: String,
    /// The file that seeds the rules.
    pub policy: Named,
    /// The file that lists further MCP servers.
    pub servers: Named,
    /// The folder that the sandbox file server serves.
    pub sandbox_root: PathBuf,
    /// The folder in which the home server keeps its state.
    pub home_state: PathBuf,
    /// Seconds a held call waits where its rule names no time.
    pub approval_timeout_s: u32,
    /// Most steps of one turn of the chat agent.
    pub max_agent_steps: u32,
    /// Key of the Gemini interface, if there is one.
    pub gemini_api_key: Option<SecretString>,
    /// Model at Gemini.
    pub gemini_model: String,
    /// Address of the Gemini interface.
    pub gemini_base_url: Url,
    /// Key of context7, if there is one.
    pub context7_api_key: Option<SecretString>,
    /// Files that hold keys.
    pub key_files: Vec<PathBuf>,
    /// What to log.
    pub log_filter: String,
    /// All of them, for the Settings page.
    pub settings: Vec<Setting>,
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value does not fit.
    #[error("{name} is `{value}` ({source_of}): {why}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Where it came from.
        source_of: Source,
        /// What is wrong, and what to write.
        why: String,
    },
    /// A secret cannot be read. Its value is not in the message.
    #[error("{name} cannot be read: {why}")]
    Secret {
        /// The variable.
        name: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The `.env` file or the environment cannot be read.
    #[error(transparent)]
    DotEnv(#[from] DotEnvError),
}

const NOT_LOOPBACK: &str = "other machines could reach it, and there are no accounts with passwords yet; listen on a \
                            loopback address such as 127.0.0.1:8080, and let a tunnel or proxy with a login of its own \
                            lead there";
const MAX_APPROVAL_SECONDS: u32 = 31 * 86_400;
const MAX_STEPS: u32 = 1_000;
const HIGH_TIER_SECONDS: u32 = 60;
/// The MCP library reports as errors what the pool of servers tries again and shows on the Tools page.
const LOG_FILTER: &str = "info,rmcp=off";
const DATABASE: &str = "sqlite://sluicegate.db";

impl Config {
    /// Settings from flags and from what the process found around it.
    ///
    /// # Errors
    /// [`ConfigError`] names the first value that cannot be used and says what to write.
    pub fn resolve(flags: &Flags, around: &Surroundings) -> Result<Self, ConfigError> {
        let mut values = Values { around, settings: Vec::new(), key_files: Vec::new() };
        let config = Self {
            listen: values.read("LISTEN", flags.listen.as_ref(), "127.0.0.1:8080", listen)?,
            public_url: values.read("PUBLIC_URL", flags.public_url.as_ref(), "", public_url)?,
            database_url: values.read("DATABASE_URL", flags.database_url.as_ref(), DATABASE, text)?,
            policy: values.file("POLICY_RULES_PATH", flags.policy.as_ref(), "policy_rules.yaml")?,
            servers: values.file("MCP_SERVERS_PATH", flags.servers.as_ref(), "mcp_servers.json")?,
            sandbox_root: values.file("SANDBOX_ROOT", flags.sandbox_root.as_ref(), "./sandbox")?.path,
            home_state: values.file("HOME_STATE", flags.home_state.as_ref(), "./home")?.path,
            approval_timeout_s: values.read(
                "APPROVAL_TIMEOUT_SECONDS",
                flags.approval_timeout_seconds.as_ref(),
                "300",
                |text| whole_number(text, MAX_APPROVAL_SECONDS),
            )?,
            max_agent_steps: values.read(
                "MAX_AGENT_STEPS",
                flags.max_agent_steps.as_ref(),
                "10",
                |text| whole_number(text, MAX_STEPS),
            )?,
            gemini_api_key: values.secret("GEMINI_API_KEY", "GEMINI_API_KEY_FILE")?,
            gemini_model: values.read(
                "GEMINI_MODEL",
                flags.gemini_model.as_ref(),
                "gemini-3.8-flash",
                text,
            )?,
            gemini_base_url: values.read(
                "GEMINI_BASE_URL",
                flags.gemini_base_url.as_ref(),
                "https://generativelanguage.googleapis.com",
                provider_url,
            )?,
            context7_api_key: values.secret("CONTEXT7_API_KEY", "CONTEXT7_API_KEY_FILE")?,
            log_filter: values.read("LOG_FILTER", flags.log_filter.as_ref(), LOG_FILTER, log_filter)?,
            key_files: Vec::new(),
            settings: Vec::new(),
        };
        Ok(Self { settings: values.settings, key_files: values.key_files, ..config })
    }
}

impl Config {
    /// The time limits of held calls whose rule names none: high-tier calls wait no longer than a minute.
    #[must_use]
    pub fn approval_defaults(&self) -> ApprovalDefaults {
        let timeout_s = self.approval_timeout_s;
        ApprovalDefaults { timeout_s, high_tier_timeout_s: timeout_s.min(HIGH_TIER_SECONDS) }
    }

    /// The address that links begin with, without a slash at the end.
    #[must_use]
    pub fn origin(&self, listening: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{listening}"),
        }
    }
}

struct Values<'a> {
    around: &'a Surroundings,
    settings: Vec<Setting>,
    key_files: Vec<PathBuf>,
}

impl Values<'_> {
    /// Flag, environment, `.env`, default; an empty value counts as none.
    fn find(&self, name: &'static str, flag: Option<&String>, default: &str) -> (String, Source) {
        let given = [
            (flag, Source::Flag),
            (self.around.environment.get(name), Source::Environment),
            (self.around.dotenv.get(name), Source::DotEnv),
        ];
        let found = given.into_iter().find_map(|(value, source)| {
            value.filter(|value| !value.is_empty()).map(|value| (value.clone(), source))
        });
        found.unwrap_or_else(|| (default.to_owned(), Source::Default))
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        flag: Option<&String>,
        default: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let (value, source) = self.find(name, flag, default);
        let parsed = parse(&value).map_err(|why| ConfigError::Invalid {
            name,
            value: value.clone(),
            source_of: source,
            why,
        })?;
        self.settings.push(Setting { name, value, source });
        Ok(parsed)
    }

    fn file(
        &mut self,
        name: &'static str,
        flag: Option<&String>,
        default: &str,
    ) -> Result<Named, ConfigError> {
        let (_, source) = self.find(name, flag, default);
        let path = self.read(name, flag, default, |text| Ok(PathBuf::from(text)))?;
        Ok(Named { path, given: source != Source::Default })
    }

    /// A secret by its own variable, or in a file that another variable names.
    fn secret(
        &mut self,
        name: &'static str,
        name_of_file: &'static str,
    ) -> Result<Option<SecretString>, ConfigError> {
        let (value, source) = self.find(name, None, "");
        let (path, file_source) = self.find(name_of_file, None, "");
        let unreadable = |why: String| ConfigError::Secret { name, why };
        let (value, source) = match (value.is_empty(), path.is_empty()) {
            (false, false) => {
                return Err(unreadable(format!("{name_of_file} is set as well; set one of the two")));
            }
            (true, false) => {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| unreadable(format!("{name_of_file} names `{path}`: {error}")))?;
                self.key_files.push(path.into());
                (text.trim().to_owned(), file_source)
            }
            (_, true) => (value, source),
        };
        let bad = value.chars().any(|c| c.is_control() || c.is_whitespace());
        if bad {
            return Err(unreadable("it holds a space or a control character; copy it again".into()));
        }
        let shown = if value.is_empty() { "not set" } else { "set" };
        self.settings.push(Setting { name, value: shown.into(), source });
        Ok((!value.is_empty()).then(|| SecretString::from(value)))
    }
}

fn text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

fn listen(value: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = value
        .parse()
        .map_err(|_| "not an address and port; write one such as 127.0.0.1:8080 or [::1]:8080".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err(NOT_LOOPBACK.into()) }
}

fn public_url(value: &str) -> Result<Option<Url>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let wanted = "write scheme, host and perhaps a port, such as https://gate.example.org";
    let url = Url::parse(value).map_err(|error| format!("not a URL ({error}); {wanted}"))?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if plain { Ok(Some(url)) } else { Err(format!("more than the address of a site; {wanted}")) }
}

/// A provider is sent a key: only over TLS, or to this machine.
fn provider_url(value: &str) -> Result<Url, String> {
    let url = Url::parse(value).map_err(|error| format!("not a URL ({error})"))?;
    let here = match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if here => Ok(url),
        _ => Err("the key would travel unprotected; write an https address".into()),
    }
}

fn whole_number(value: &str, max: u32) -> Result<u32, String> {
    let number = value.parse::<u32>().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| format!("not a whole number from 1 to {max}"))
}

fn log_filter(value: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::builder().parse(value) {
        Ok(_) => Ok(value.to_owned()),
        Err(error) => {
            Err(format!("not a log filter ({error}); write one such as info or warn,sluicegate=debug"))
        }
    }
}

#[cfg(test)]
mod tests;
