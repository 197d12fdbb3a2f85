//! A shipped server is served in a process of its own and cannot be called in this one: neither its type nor its
//! operations can be named, so there is no way to them but the gate.

use sluicegate_mcp::files::Files;
use sluicegate_mcp::home::Home;

fn main() {}
