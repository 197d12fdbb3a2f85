//! The command line. One file per command; what a command answers goes to standard output, all else to standard error.
//!
//! Exit codes: 0 yes or done, 1 no (an invalid policy, a broken trail), 2 it could not be found out or done.

mod audit;
mod explain;
mod home;
mod key;
mod policy;
mod sandbox_files;
mod serve;
mod sign_in_link;
mod stdio;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::config::{Config, Flags, Surroundings};

/// A gate between AI agents and their MCP tools: rules, approvals by people, and a trail of what happened.
///
/// Without a command it serves. Every setting can also stand in the environment or in a `.env` file; keys can stand only
/// there.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gate, its pages and its agent (the default)
    Serve(Box<Flags>),
    /// The shipped file server: MCP on standard input and output, confined to one folder
    SandboxFiles {
        /// Folder to serve; made if it is not there
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
    },
    /// The shipped demo smart home: MCP on standard input and output
    Home {
        /// Folder that keeps its state; made if it is not there
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
    },
    /// Check, test and explain rules, or make a file the rules in force
    #[command(subcommand)]
    Policy(Policy),
    /// Verify the audit trail
    #[command(subcommand)]
    Audit(Audit),
    /// Carry the lines of an MCP client that speaks only stdio to a running product
    Stdio {
        /// The product's MCP address, such as http://127.0.0.1:8080/mcp
        #[arg(long, value_name = "URL")]
        url: String,
        /// File that holds the key; without it the key is taken from SLUICEGATE_KEY
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Make, list and revoke the keys of MCP clients, beside a running server too
    #[command(subcommand)]
    Key(Key),
    /// Print a new one-time link that signs in the first person, good for 10 minutes
    SignInLink {
        #[command(flatten)]
        store: AtStore,
        /// Address under which people reach the pages [env: PUBLIC_URL] [default: the address listened on]
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
enum Policy {
    /// Say whether a file is a policy; each mistake with its line and what was probably meant. Changes nothing
    Check {
        /// The policy file
        file: PathBuf,
    },
    /// Run the tests that stand in a file against its rules. Changes nothing
    Test {
        /// The policy file
        file: PathBuf,
    },
    /// Say which rule decides a call, and why, by the same evaluation as the gate. Nothing is run
    Explain(Explain),
    /// Print the JSON Schema of policy files, for editors
    Schema,
    /// Make a file the rules in force, from the very next call on, as a new revision. One that is no policy changes
    /// nothing
    Import {
        /// The policy file
        file: PathBuf,
        /// Why; stands in the history and the audit trail
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        /// Import although tests of the file fail; which ones is recorded
        #[arg(long)]
        despite_failing_tests: bool,
        #[command(flatten)]
        store: AtStore,
    },
}

/// A call to explain. What is left out is usual: an approver's first call from the chat.
#[derive(Debug, Args)]
struct Explain {
    /// The tool, as server/tool
    tool: String,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}")]
    arguments: String,
    /// Ask this policy file [default: the rules in force in the store]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Who asks
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// With which role: viewer, approver, admin or client
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// From where: chat or mcp
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// Tokens used so far
    #[arg(long, value_name = "N", default_value_t = 0)]
    usage: u64,
    /// When, in every zone, such as `mon 08:00`; if left out, hours cannot be judged
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    #[command(flatten)]
    store: AtStore,
}

#[derive(Debug, Subcommand)]
enum Audit {
    /// Recompute the chain of the whole trail, beside a running server too; name the first bad row
    Verify {
        #[command(flatten)]
        store: AtStore,
    },
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Make a key. It is printed once, alone on the last line
    Create {
        #[command(flatten)]
        new: key::New,
        #[command(flatten)]
        store: AtStore,
    },
    /// List all keys with what they reach, revoked ones too
    List {
        #[command(flatten)]
        store: AtStore,
    },
    /// Revoke a key: no call of it begins any more
    Revoke {
        /// The key's name
        name: String,
        #[command(flatten)]
        store: AtStore,
    },
}

/// Which store a command works on.
#[derive(Debug, Args)]
struct AtStore {
    /// The store [env: DATABASE_URL] [default: sqlite://sluicegate.db]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
}

/// A command's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

/// Runs the command that the command line names.
#[must_use]
pub fn main() -> ExitCode {
    match run(CommandLine::parse()) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) => {
            // Standard error may be closed; there is nobody left to tell then.
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(line: CommandLine) -> anyhow::Result<Answer> {
    match line.command {
        None => serve::run(&line.serve),
        Some(Command::Serve(flags)) => serve::run(&flags),
        Some(Command::SandboxFiles { root }) => sandbox_files::run(&root),
        Some(Command::Home { state }) => home::run(&state),
        Some(Command::Stdio { url, key_file }) => stdio::run(&url, key_file.as_deref()),
        Some(Command::Policy(Policy::Check { file })) => policy::check(&file),
        Some(Command::Policy(Policy::Test { file })) => policy::test(&file),
        Some(Command::Policy(Policy::Explain(asked))) => explain::run(&asked),
        Some(Command::Policy(Policy::Schema)) => policy::schema(),
        Some(Command::Policy(Policy::Import { file, reason, despite_failing_tests, store })) => {
            policy::import(&file, &reason, despite_failing_tests, &store.config()?)
        }
        Some(Command::Audit(Audit::Verify { store })) => audit::verify(&store.config()?),
        Some(Command::Key(Key::Create { new, store })) => key::create(&new, &store.config()?),
        Some(Command::Key(Key::List { store })) => key::list(&store.config()?),
        Some(Command::Key(Key::Revoke { name, store })) => key::revoke(&name, &store.config()?),
        Some(Command::SignInLink { store, public_url }) => {
            let flags = Flags { public_url, ..store.flags() };
            sign_in_link::run(&settings(&flags)?.0)
        }
    }
}

impl AtStore {
    fn flags(&self) -> Flags {
        Flags { database_url: self.database_url.clone(), ..Flags::default() }
    }

    fn config(&self) -> anyhow::Result<Config> {
        Ok(settings(&self.flags())?.0)
    }
}

fn settings(flags: &Flags) -> anyhow::Result<(Config, Surroundings)> {
    let around = Surroundings::read()?;
    Ok((Config::resolve(flags, &around)?, around))
}

fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime cannot be started")
}

/// The one writer of standard output. A line is out when this returns.
///
/// # Errors
/// When nobody reads it any more.
pub(crate) fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Logs go to standard error, as lines.
fn log_to_stderr(filter: &str) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::builder().parse(filter)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init()
        .map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_every_option_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(check);
        }
        let mut command = CommandLine::command();
        command.build();
        command.clone().debug_assert();
        check(&command);
    }

    #[test]
    fn no_option_takes_a_secret() {
        fn names(command: &clap::Command) -> Vec<String> {
            let own = command.get_arguments().map(|argument| argument.get_id().to_string());
            own.chain(command.get_subcommands().flat_map(names)).collect()
        }
        // A file that holds one is none.
        for name in names(&CommandLine::command()).into_iter().filter(|name| name != "key_file") {
            assert!(!name.contains("key") && !name.contains("secret") && !name.contains("token"), "{name}");
        }
    }
}
