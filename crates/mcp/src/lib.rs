//! Everything that speaks MCP.

mod bridge;
mod files;
mod front;
mod home;
mod lines;
mod servers;
mod shipped;
mod upstream;

pub use bridge::{BridgeError, bridge};
pub use files::{RootError, ServeFilesError, check_root, serve_files};
pub use front::{
    Events, Front, FrontBody, FrontParts, FrontRequest, Holder, MAX_BODY, Trail, TrailPage, TrailQuery,
};
pub use home::{
    Device, DeviceState, HomeStateError, House, Message, Reminder, ServeHomeError, look_at_home, serve_home,
};
pub use servers::{ServerEntry, ServersError};
pub use shipped::SessionError;
pub use upstream::{PoolOptions, UpstreamControl, connect, end_leftovers};
