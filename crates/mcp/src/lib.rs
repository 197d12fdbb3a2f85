mod files;

pub use files::{RootError, ServeError, check_root, serve_files};
