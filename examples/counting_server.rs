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
        let answer = match request.get("method").and_then(Value::as_str) {
            Some("initialize") => json!({"result": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "counting", "version": "1"},
            }}),
            Some("ping") => json!({"result": {}}),
            Some("tools/list") => json!({"result": {"tools": [{
                "name": "add",
                "description": "Adds one line",
                "inputSchema": {
                    "type": "object",
                    "properties": {"line": {"type": "string"}},
                    "required": ["line"],
                    "additionalProperties": false,
                },
            }]}}),
            Some("tools/call") => {
                let line =
                    request.pointer("/params/arguments/line").and_then(Value::as_str).unwrap_or_default();
                let mut counter = std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
                counter.write_all(format!("{line}\n").as_bytes())?;
                json!({"result": {"content": [{"type": "text", "text": "added"}]}})
            }
            _ => json!({"error": {"code": -32601, "message": "method not found"}}),
        };
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = id.clone();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
