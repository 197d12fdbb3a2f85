//! An MCP server for tests whose one tool has an effect that can be counted from outside: each call of `add` appends one
//! line to the file named by its argument. It speaks plain JSON-RPC lines, so it shares no code with the product.

use serde_json::{Value, json};
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().ok_or_else(|| std::io::Error::other("usage: counting_server FILE"))?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
        let Some(id) = request.get("id") else { continue };
        let (key, body) = match request.get("method").and_then(Value::as_str) {
            Some("initialize") => (
                "result",
                json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "counting", "version": "1"},
                }),
            ),
            Some("ping") => ("result", json!({})),
            Some("tools/list") => (
                "result",
                json!({"tools": [{
                    "name": "add",
                    "description": "Adds one line",
                    "inputSchema": {
                        "type": "object",
                        "properties": {"line": {"type": "string"}},
                        "required": ["line"],
                        "additionalProperties": false,
                    },
                }]}),
            ),
            Some("tools/call") => {
                let line =
                    request.pointer("/params/arguments/line").and_then(Value::as_str).unwrap_or_default();
                let mut counter = std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
                counter.write_all(format!("{line}\n").as_bytes())?;
                ("result", json!({"content": [{"type": "text", "text": "added"}]}))
            }
            _ => ("error", json!({"code": -32601, "message": "method not found"})),
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, (key): body}))?;
        out.flush()?;
    }
    Ok(())
}
