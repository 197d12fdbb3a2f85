//! A stdio server for tests: it does what the JSON object in its first argument says, well or badly.
//!
//! - `era`: `legacy` (default), `modern`, or `mute` (never answers)
//! - `start`: what to print before anything else, each item a line
//! - `die`: `start`, `hello` or `discover`: exit with code 3 at that point
//! - `pages`: pages of tools to list instead of the built-in ones; `pages_file`: a file that holds them
//! - `linger`: stay alive after standard input closes
//! - `hold`: an address to connect to and hold open for as long as the process lives

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a fake that fails loudly"
)]

use serde_json::{Map, Value, json};
use std::io::{BufRead, Write};
use std::net::TcpStream;
use std::time::Duration;

struct Server {
    script: Value,
    pages: Vec<Value>,
    /// Messages received, in order.
    received: Vec<Value>,
    /// Calls that are answered together, last first.
    gathered: Vec<(Value, Value)>,
    subscription: Option<Value>,
}

fn main() {
    let script: Value =
        std::env::args().nth(1).map_or(json!({}), |text| serde_json::from_str(&text).unwrap());
    let held = script["hold"].as_str().map(|address| TcpStream::connect(address).unwrap());
    for line in script["start"].as_array().into_iter().flatten() {
        raw(format!("{}\n", line.as_str().unwrap()).as_bytes());
    }
    if script["die"] == "start" {
        eprintln!("cannot go on");
        std::process::exit(3);
    }
    let mut pages = script["pages"].as_array().cloned().unwrap_or_else(|| vec![built_in_tools()]);
    if let Some(file) = script["pages_file"].as_str() {
        pages = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    let mut server = Server { script, pages, received: Vec::new(), gathered: Vec::new(), subscription: None };
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        server.received.push(message.clone());
        server.handle(&message);
    }
    if server.script["linger"] == true {
        loop {
            std::thread::park();
        }
    }
    drop(held);
}

fn built_in_tools() -> Value {
    let names = [
        "echo", "env", "received", "crash", "silent", "gather", "raw", "noise", "flood", "endless", "retool",
        "pid", "refuse", "close",
    ];
    names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect()
}

impl Server {
    fn handle(&mut self, message: &Value) {
        if self.script["era"] == "mute" {
            return;
        }
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") if self.script["die"] == "hello" => std::process::exit(3),
            Some("server/discover") if self.script["die"] == "discover" => std::process::exit(3),
            Some("initialize") if self.script["era"] != "modern" => answer(
                id,
                json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "scripted", "version": "1.0" },
                }),
            ),
            Some("server/discover") if self.script["era"] == "modern" => answer(
                id,
                json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": { "listChanged": true } },
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "2.0" } },
                }),
            ),
            Some("ping") => answer(id, json!({})),
            Some("tools/list") => self.list(id, message["params"]["cursor"].as_str()),
            Some("tools/call") => self.call(id, &message["params"]),
            Some("subscriptions/listen") => {
                self.subscription = Some(id.clone());
                let accepted = json!({ "notifications": { "toolsListChanged": true } });
                self.notify("notifications/subscriptions/acknowledged", accepted);
            }
            Some(_) if !id.is_null() => {
                send(
                    &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } }),
                );
            }
            _ => {}
        }
    }

    fn list(&self, id: &Value, cursor: Option<&str>) {
        let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let mut result = json!({ "tools": self.pages[page] });
        if page + 1 < self.pages.len() {
            result["nextCursor"] = json!((page + 1).to_string());
        }
        if self.script["circle"] == true {
            result["nextCursor"] = json!("0");
        }
        answer(id, self.typed(result));
    }

    fn call(&mut self, id: &Value, params: &Value) {
        let arguments = &params["arguments"];
        match params["name"].as_str().unwrap() {
            "echo" => self.text(id, &arguments.to_string()),
            "env" => {
                let env: Map<String, Value> =
                    std::env::vars().map(|(name, value)| (name, json!(value))).collect();
                self.text(id, &Value::Object(env).to_string());
            }
            "received" => self.text(id, &json!(self.received).to_string()),
            "pid" => self.text(id, &std::process::id().to_string()),
            "crash" => {
                self.effect(arguments);
                eprintln!("out of luck");
                std::process::exit(3);
            }
            "silent" => {}
            "close" => {
                self.effect(arguments);
                // Stops answering for good, but lives on.
                self.script["era"] = json!("mute");
            }
            "refuse" => {
                let error = json!({ "code": -32602, "message": arguments["message"] });
                send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            "gather" => {
                self.gathered.push((id.clone(), arguments.clone()));
                if self.gathered.len() as u64 == arguments["of"].as_u64().unwrap() {
                    for (id, arguments) in std::mem::take(&mut self.gathered).into_iter().rev() {
                        self.text(&id, &arguments["n"].to_string());
                    }
                }
            }
            "raw" => {
                let fill = "x".repeat(arguments["fill"].as_u64().unwrap_or(0) as usize);
                let line = arguments["line"]
                    .as_str()
                    .unwrap()
                    .replace("$ID", &id.to_string())
                    .replace("$FILL", &fill);
                raw(format!("{line}\n").as_bytes());
            }
            "noise" => {
                junk();
                raw(b"{\"jsonrpc\":\"2.0\",\"id\":");
                std::thread::sleep(Duration::from_millis(50));
                raw(format!(
                    "{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"clear\"}}]}}}}\r\n"
                )
                .as_bytes());
                junk();
            }
            "flood" => {
                for _ in 0..1024 {
                    eprintln!("{}", "x".repeat(1023));
                }
                self.text(id, "done");
            }
            "endless" => {
                let block = vec![b'x'; 1024 * 1024];
                for _ in 0..30 {
                    raw(&block);
                }
                raw(b"\n");
            }
            "retool" => {
                self.pages = vec![arguments["tools"].clone()];
                for _ in 0..arguments["notices"].as_u64().unwrap() {
                    self.notify("notifications/tools/list_changed", json!({}));
                }
                self.text(id, "done");
            }
            other => panic!("no tool {other}"),
        }
    }

    /// Leaves a mark on disk that says that the tool has run.
    fn effect(&self, arguments: &Value) {
        if let Some(path) = arguments["effect"].as_str() {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.write_all(b"x").unwrap();
        }
    }

    fn text(&self, id: &Value, text: &str) {
        answer(id, self.typed(json!({ "content": [{ "type": "text", "text": text }] })));
    }

    fn typed(&self, mut result: Value) -> Value {
        if self.script["era"] == "modern" {
            result["resultType"] = json!("complete");
        }
        result
    }

    fn notify(&self, method: &str, mut params: Value) {
        if let Some(subscription) = &self.subscription {
            params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
        }
        send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }
}

fn junk() {
    raw(b"Scripted server ready!\n\n\xef\xbb\xbf\n\r\n\x1b[32mgreen\x1b[0m\n\xff\xfe\xfd\n{\"level\":\"info\"}\n[1,2]\n");
    raw(b"{\"jsonrpc\":\"2.0\"}\n");
}

fn answer(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn send(message: &Value) {
    raw(format!("{message}\n").as_bytes());
}

fn raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    // The reader may have gone; then there is nobody to tell.
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
