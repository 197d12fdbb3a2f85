//! The program: reads its command line and does one thing.

use std::process::ExitCode;

fn main() -> ExitCode {
    // One TLS provider for every client of the process; without it none can be made. A second one is refused: fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    sluicegate::commands::main()
}
