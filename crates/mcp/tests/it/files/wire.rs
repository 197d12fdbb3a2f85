//! What no client library would send, line by line on the pipe; and how the process ends.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::sandbox::{Folder, command, in_time};

struct Wire {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Wire {
    fn start(folder: &Folder) -> Self {
        let mut child = command(&folder.root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    async fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = in_time(self.output.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" },
        });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string(),
        )
        .await;
        let answer = self.receive().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(answer["result"]["serverInfo"]["name"], "sandbox-files");
        assert_eq!(answer["result"]["capabilities"], json!({ "tools": {} }));
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
    }

    /// Ends the input and returns what else came out, and the exit code.
    async fn end(mut self) -> (Vec<String>, String, Option<i32>) {
        drop(self.input.take());
        let mut lines = Vec::new();
        while let Some(line) = in_time(self.output.next_line()).await.unwrap() {
            lines.push(line);
        }
        let mut noise = String::new();
        in_time(self.child.stderr.take().unwrap().read_to_string(&mut noise)).await.unwrap();
        (lines, noise, in_time(self.child.wait()).await.unwrap().code())
    }
}

fn call(id: u32, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

#[tokio::test]
async fn f17_arguments_null_are_absent_and_other_shapes_are_refused() {
    let folder = Folder::new();
    let mut wire = Wire::start(&folder);
    wire.initialize().await;
    wire.send(&call(1, "list_files", "null")).await;
    assert_eq!(wire.receive().await["result"]["structuredContent"]["total"], 0);
    for (id, arguments) in [(2, "\"\""), (3, "[]"), (4, "\"{}\""), (5, "7")] {
        wire.send(&call(id, "list_files", arguments)).await;
        let answer = wire.receive().await;
        assert!(answer.get("result").is_none(), "{answer}");
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("object"), "{answer}");
    }
    wire.send(&call(6, "list_files", "{}")).await;
    assert_eq!(wire.receive().await["id"], 6);
}

#[tokio::test]
async fn noise_on_the_input_does_not_end_the_server() {
    let folder = Folder::new();
    let mut wire = Wire::start(&folder);
    wire.initialize().await;
    for noise in ["", "hello", "{", "\u{feff}", "[1,2", r#"{"jsonrpc":"2.0","method":"notifications/none"}"#]
    {
        wire.send(noise).await;
    }
    // A lone surrogate is no text: the call is not done, and nothing half-written is left.
    wire.send(&call(7, "write_file", r#"{"path":"f","content":"\ud800"}"#)).await;
    // Longer than any line that is taken in.
    wire.send(&call(8, "write_file", &format!(r#"{{"path":"f","content":"{}"}}"#, "x".repeat(17 << 20))))
        .await;
    wire.send(&call(9, "list_files", "{}")).await;
    loop {
        let answer = wire.receive().await;
        if answer["id"] == 9 {
            assert_eq!(answer["result"]["structuredContent"]["total"], 0);
            break;
        }
        assert!(answer.get("result").is_none(), "{answer}");
    }
}

#[tokio::test]
async fn the_process_ends_with_its_input_and_finishes_what_it_began() {
    let folder = Folder::new();
    let mut wire = Wire::start(&folder);
    wire.initialize().await;
    wire.send(&call(1, "write_file", &format!(r#"{{"path":"f","content":"{}"}}"#, "x".repeat(1 << 20))))
        .await;
    let (lines, noise, code) = wire.end().await;
    assert_eq!(code, Some(0), "{noise}");
    assert_eq!(noise, "");
    assert_eq!(lines.len(), 1);
    assert_eq!(serde_json::from_str::<Value>(&lines[0]).unwrap()["id"], 1);
    assert_eq!(fs::metadata(folder.root.join("f")).unwrap().len(), 1 << 20);

    // Also when nothing was said at all.
    let (lines, noise, code) = Wire::start(&folder).end().await;
    assert_eq!((lines, noise.as_str(), code), (vec![], "", Some(0)));
}

#[tokio::test]
async fn killed_in_the_middle_of_writes_it_leaves_whole_files() {
    let folder = Folder::new();
    let versions = ["a".repeat(1 << 20), "b".repeat(1 << 19)];
    fs::write(folder.root.join("f"), &versions[0]).unwrap();
    for round in 0..6 {
        let mut wire = Wire::start(&folder);
        wire.initialize().await;
        let writes = versions.iter().cycle().take(6).enumerate();
        for (id, version) in writes {
            wire.send(&call(
                id as u32 + 1,
                "write_file",
                &format!(r#"{{"path":"f","content":"{version}"}}"#),
            ))
            .await;
        }
        for _ in 0..round {
            wire.receive().await;
        }
        wire.child.kill().await.unwrap();
        let content = fs::read_to_string(folder.root.join("f")).unwrap();
        assert!(versions.contains(&content), "{} bytes in round {round}", content.len());
    }
}
