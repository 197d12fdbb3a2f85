//! Everything that speaks MCP.

mod files;
mod home;
mod servers;
mod shipped;
mod upstream;

pub use files::{RootError, ServeFilesError, check_root, serve_files};
pub use home::{
    Device, DeviceState, HomeStateError, House, Message, Reminder, ServeHomeError, look_at_home, serve_home,
};
pub use servers::{ServerEntry, ServersError};
pub use shipped::SessionError;
pub use upstream::{PoolOptions, UpstreamControl, connect, end_leftovers};
