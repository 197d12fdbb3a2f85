//! Everything that speaks MCP.

mod files;
mod servers;
mod upstream;

pub use files::{RootError, ServeError, check_root, serve_files};
pub use servers::{ServerEntry, ServersError};
pub use upstream::{PoolOptions, UpstreamControl, connect, end_leftovers};
