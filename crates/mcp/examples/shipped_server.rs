//! Serves one of the shipped servers on stdin and stdout: `shipped_server sandbox-files|home DIR`.
//! The tests start it as a real child process.

use std::error::Error;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(server), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: shipped_server sandbox-files|home DIR".into());
    };
    match server.to_str() {
        Some("sandbox-files") => Ok(sluicegate_mcp::serve_files(Path::new(&folder)).await?),
        Some("home") => Ok(sluicegate_mcp::serve_home(Path::new(&folder)).await?),
        _ => Err("there is no such server".into()),
    }
}
