//! The pool leaves its file as an opaque `Invoke`: neither its type nor its sessions can be named.
use sluicegate_mcp::upstream::session::call;

fn main() {
    let _ = call;
}
