//! Serves one directory as the sandbox file server on stdin and stdout: `serve_files DIR`.
//! The tests start it as a real child process.

use std::error::Error;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args_os().nth(1).ok_or("usage: serve_files DIR")?;
    Ok(sluicegate_mcp::serve_files(Path::new(&root)).await?)
}
