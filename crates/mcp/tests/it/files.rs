//! The file server's tools, and which root it serves.

mod root;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rmcp::model::{CallToolResult, ErrorCode, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ServiceError};
use serde_json::{Value, json};

use crate::sandbox::{CANARY, Client, Folder, in_time, link, text};

const MIB: usize = 1024 * 1024;

async fn list(client: &Client, path: &str) -> Value {
    client.call("list_files", json!({ "path": path })).await.structured_content.unwrap()
}

#[tokio::test]
async fn the_tools_are_described_for_a_model_and_marked_truthfully() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let tools = in_time(client.service().list_all_tools()).await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["list_files", "read_file", "write_file", "move_file", "delete_file"]);
    let again = in_time(client.service().list_all_tools()).await.unwrap();
    assert_eq!(serde_json::to_value(&tools).unwrap(), serde_json::to_value(&again).unwrap());

    let hints: BTreeMap<_, _> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.clone().unwrap();
            assert_eq!(hints.open_world_hint, Some(false), "{}", tool.name);
            (tool.name.to_string(), (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint))
        })
        .collect();
    let expected = [
        ("list_files", (Some(true), None, None)),
        ("read_file", (Some(true), None, None)),
        // Absent means destructive by the protocol, which is true of both; said aloud it would raise their tier
        // from moderate to high.
        ("write_file", (Some(false), None, Some(true))),
        ("move_file", (Some(false), None, Some(true))),
        ("delete_file", (Some(false), Some(true), Some(true))),
    ];
    assert_eq!(hints, expected.map(|(name, hints)| (name.to_owned(), hints)).into());

    for tool in &tools {
        let schema = tool.schema_as_json_value();
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{} {name}",
                tool.name
            );
        }
        assert!(tool.title.is_some() && tool.description.is_some(), "{}", tool.name);
        jsonschema::meta::validate(&schema).unwrap();
    }
}

#[tokio::test]
async fn both_lifecycles_of_the_protocol_are_served() {
    let folder = Folder::new();
    fs::write(folder.root.join("f"), "inside").unwrap();
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    for lifecycle in [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }] {
        let client = Client::start_with(&folder.root, lifecycle).await;
        assert_eq!(in_time(client.service().list_all_tools()).await.unwrap().len(), 5);
        assert_eq!(client.done("read_file", json!({ "path": "f" })).await, "inside");
        assert_eq!(list(&client, ".").await["total"], 1);
    }
}

#[tokio::test]
async fn a_file_is_written_read_moved_and_deleted() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let content = "first line\nsecond \u{1f980}\r\n\0\u{feff}";
    let said = client.done("write_file", json!({ "path": "a/b/notes.txt", "content": content })).await;
    assert_eq!(said, format!("wrote {} bytes to `a/b/notes.txt`", content.len()));
    assert_eq!(fs::read_to_string(folder.root.join("a/b/notes.txt")).unwrap(), content);
    assert_eq!(client.done("read_file", json!({ "path": "a/b/notes.txt" })).await, content);
    client.done("write_file", json!({ "path": "a/b/notes.txt", "content": "" })).await;
    assert_eq!(client.done("read_file", json!({ "path": "a/b/notes.txt" })).await, "");

    client.done("move_file", json!({ "from": "a/b/notes.txt", "to": "c/d/notes.md" })).await;
    assert!(!folder.root.join("a/b/notes.txt").exists() && folder.root.join("c/d/notes.md").is_file());
    client.done("delete_file", json!({ "path": "c/d/notes.md" })).await;
    assert!(!folder.root.join("c/d/notes.md").exists());
    // No temporary file is left by any of it.
    assert_eq!(list(&client, "a/b").await["total"], 0);
}

#[tokio::test]
async fn a_move_overwrites_nothing() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    for (name, content) in [("one", "1"), ("two", "2")] {
        fs::write(folder.root.join(name), content).unwrap();
    }
    fs::create_dir(folder.root.join("directory")).unwrap();
    link("none", folder.root.join("dangling"));
    link("one", folder.root.join("link"));
    for to in ["two", "directory", "directory/", "link", "one"] {
        let refusal = client.refused("move_file", json!({ "from": "one", "to": to })).await;
        assert!(refusal.starts_with(&format!("`{to}` already exists")), "{refusal}");
    }
    let refusal = client.refused("move_file", json!({ "from": "one", "to": "dangling" })).await;
    assert!(refusal.starts_with("`dangling` already exists"), "{refusal}");
    let refusal = client.refused("move_file", json!({ "from": "directory", "to": "new" })).await;
    assert!(refusal.starts_with("`directory` names a directory"), "{refusal}");
    let refusal = client.refused("move_file", json!({ "from": "none", "to": "x/y" })).await;
    assert_eq!(refusal, "`none` does not exist in the sandbox");
    let refusal = client.refused("move_file", json!({ "from": "one", "to": "two/x" })).await;
    assert!(refusal.starts_with("`two/x` is not a directory"), "{refusal}");
    assert_eq!(fs::read_to_string(folder.root.join("one")).unwrap(), "1");
    assert_eq!(fs::read_to_string(folder.root.join("two")).unwrap(), "2");
    assert_eq!(list(&client, ".").await["total"], 5);
}

#[tokio::test]
async fn of_many_moves_to_one_place_one_wins_and_nothing_is_lost() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    for round in 0..10 {
        for number in 0..8 {
            fs::write(folder.root.join(format!("from-{number}")), number.to_string()).unwrap();
        }
        let to = format!("to-{round}");
        let moves = (0..8)
            .map(|number| client.call("move_file", json!({ "from": format!("from-{number}"), "to": to })));
        let won: Vec<_> = futures::future::join_all(moves)
            .await
            .iter()
            .enumerate()
            .filter_map(|(number, result)| (result.is_error != Some(true)).then_some(number))
            .collect();
        assert_eq!(won.len(), 1);
        assert_eq!(fs::read_to_string(folder.root.join(to)).unwrap(), won[0].to_string());
        let left = (0..8).filter(|number| folder.root.join(format!("from-{number}")).exists()).count();
        assert_eq!(left, 7);
    }
}

#[tokio::test]
async fn directories_are_not_files() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    fs::create_dir(folder.root.join("d")).unwrap();
    fs::write(folder.root.join("f"), "f").unwrap();
    for (tool, arguments) in [
        ("read_file", json!({ "path": "d" })),
        ("write_file", json!({ "path": "d", "content": "x" })),
        ("delete_file", json!({ "path": "d" })),
    ] {
        let refusal = client.refused(tool, arguments).await;
        assert_eq!(refusal, "`d` names a directory; this tool takes a file", "{tool}");
    }
    for (tool, path) in [
        ("list_files", "f"),
        ("list_files", "f/"),
        ("read_file", "f/"),
        ("read_file", "f/x"),
        ("read_file", "f/.."),
    ] {
        let refusal = client.refused(tool, json!({ "path": path })).await;
        assert!(refusal.starts_with(&format!("`{path}` is not a directory")), "{tool}: {refusal}");
    }
    client.refused("write_file", json!({ "path": "new/", "content": "x" })).await;
    client.refused("write_file", json!({ "path": "f/new/x", "content": "x" })).await;
    assert_eq!(list(&client, ".").await["total"], 2);
}

#[tokio::test]
async fn listings_keep_their_promised_shape() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    fs::create_dir_all(folder.root.join("d/e")).unwrap();
    fs::write(folder.root.join("d/b.txt"), "12345").unwrap();
    link("b.txt", folder.root.join("d/a"));
    std::os::unix::net::UnixListener::bind(folder.root.join("d/socket")).unwrap();
    // A name that is no text can be seen, though not used.
    let no_text = std::ffi::OsStr::from_bytes(b"z\xff");
    fs::create_dir(folder.root.join("d").join(no_text)).unwrap();
    let expected = json!({
        "path": "d",
        "entries": [
            { "path": "d/a", "kind": "link" },
            { "path": "d/b.txt", "kind": "file", "bytes": 5 },
            { "path": "d/e", "kind": "directory" },
            { "path": "d/socket", "kind": "other" },
            { "path": "d/z\u{fffd}", "kind": "directory" },
        ],
        "total": 5,
        "cut": false,
    });
    let tools = in_time(client.service().list_all_tools()).await.unwrap();
    let schema = Value::Object(tools[0].output_schema.as_deref().unwrap().clone());
    let schema = jsonschema::validator_for(&schema).unwrap();
    for path in ["d", "d/", "./d//.", "d/e/../../d"] {
        let result = client.call("list_files", json!({ "path": path })).await;
        let listing = result.structured_content.clone().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text(&result)).unwrap(), listing);
        schema.validate(&listing).unwrap();
        if path != "d/e/../../d" {
            assert_eq!(listing, expected);
        }
        // What is listed can be read under the listed path.
        let file = listing["entries"][1]["path"].clone();
        assert_eq!(client.done("read_file", json!({ "path": file })).await, "12345");
    }
    assert_eq!(list(&client, "d/e").await, json!({ "path": "d/e", "entries": [], "total": 0, "cut": false }));
}

#[tokio::test]
async fn f15_a_large_directory_is_cut_and_says_so() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    for number in 0..1000 {
        fs::write(folder.root.join(format!("{number:04}")), "").unwrap();
    }
    let whole = list(&client, ".").await;
    assert_eq!((&whole["total"], &whole["cut"]), (&json!(1000), &json!(false)));
    for number in 1000..1003 {
        fs::write(folder.root.join(format!("{number:04}")), "").unwrap();
    }
    let cut = list(&client, ".").await;
    assert_eq!((&cut["total"], &cut["cut"]), (&json!(1003), &json!(true)));
    let entries = cut["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1000);
    assert_eq!((&entries[0]["path"], &entries[999]["path"]), (&json!("0000"), &json!("0999")));
}

fn parts(result: &CallToolResult) -> Vec<&str> {
    result.content.iter().map(|block| block.as_text().unwrap().text.as_str()).collect()
}

#[tokio::test]
async fn f15_a_large_file_is_cut_at_a_whole_character_and_says_so() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let read = async |content: &str| {
        fs::write(folder.root.join("f"), content).unwrap();
        client.call("read_file", json!({ "path": "f" })).await
    };
    let fits = "x".repeat(MIB);
    assert_eq!(parts(&read(&fits).await), [fits.as_str()]);
    let over = "x".repeat(MIB + 1);
    let note = "[cut here: these are the first 1048576 of 1048577 bytes of `f`; the rest cannot be read with this tool]";
    assert_eq!(parts(&read(&over).await), [fits.as_str(), note]);
    // Four bytes, of which the limit takes only one.
    let split = format!("{}\u{1f980}", "x".repeat(MIB - 1));
    let note = "[cut here: these are the first 1048575 of 1048579 bytes of `f`; the rest cannot be read with this tool]";
    assert_eq!(parts(&read(&split).await), ["x".repeat(MIB - 1).as_str(), note]);
    // The worst case for the size of the answer: each byte is six in JSON.
    let control = "\u{1}".repeat(MIB);
    assert_eq!(parts(&read(&control).await), [control.as_str()]);
    let large = "x".repeat(8 * MIB);
    assert_eq!(parts(&read(&large).await)[0], fits);
}

#[tokio::test]
async fn f15_what_is_not_text_is_a_tool_error() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let mut broken_at_the_cut = vec![b'x'; MIB - 1];
    broken_at_the_cut.extend([0xff; 4]);
    let samples: [&[u8]; 5] =
        [b"\xff\xfe", b"abc\x80", b"half \xf0\x9f\xa6", b"\xed\xa0\x80", &broken_at_the_cut];
    for content in samples {
        fs::write(folder.root.join("f"), content).unwrap();
        let refusal = client.refused("read_file", json!({ "path": "f" })).await;
        assert_eq!(refusal, "`f` is not UTF-8 text, so it cannot be read as text");
    }
}

#[tokio::test]
async fn content_has_a_limit_and_a_refused_write_changes_nothing() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let fits = "\u{1}".repeat(MIB);
    client.done("write_file", json!({ "path": "f", "content": fits })).await;
    assert_eq!(fs::metadata(folder.root.join("f")).unwrap().len(), MIB as u64);
    for path in ["f", "new/g"] {
        let refusal =
            client.refused("write_file", json!({ "path": path, "content": "x".repeat(MIB + 1) })).await;
        assert!(refusal.contains("1048577 bytes"), "{refusal}");
    }
    assert_eq!(fs::read_to_string(folder.root.join("f")).unwrap(), fits);
    assert_eq!(list(&client, ".").await["total"], 1);
}

#[tokio::test]
async fn whoever_reads_during_writes_finds_one_whole_file() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let versions = ["a".repeat(300_000), "b".repeat(200_000)];
    client.done("write_file", json!({ "path": "f", "content": versions[0] })).await;
    for _ in 0..10 {
        let writes = versions
            .iter()
            .map(|version| client.call("write_file", json!({ "path": "f", "content": version })));
        let reads = (0..4).map(|_| client.call("read_file", json!({ "path": "f" })));
        let (written, read) =
            tokio::join!(futures::future::join_all(writes), futures::future::join_all(reads));
        assert!(written.iter().all(|result| result.is_error != Some(true)));
        for result in read {
            assert!(versions.contains(&text(&result)));
        }
    }
    assert_eq!(list(&client, ".").await["total"], 1);
}

#[tokio::test]
async fn a_replaced_file_keeps_its_permissions_and_a_protected_one_its_content() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let path = folder.root.join("f");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    client.done("write_file", json!({ "path": "f", "content": "new" })).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let refusal = client.refused("write_file", json!({ "path": "f", "content": "newer" })).await;
    assert_eq!(refusal, "`f` is write-protected, so it was not changed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[tokio::test]
async fn writing_a_hard_link_leaves_its_other_name_alone() {
    let folder = Folder::new();
    fs::hard_link(folder.outside.join("f"), folder.root.join("f")).unwrap();
    let client = Client::start(&folder.root).await;
    client.done("write_file", json!({ "path": "f", "content": "inside" })).await;
    assert_eq!(fs::read_to_string(folder.outside.join("f")).unwrap(), CANARY);
}

#[tokio::test]
async fn a_pipe_without_a_writer_holds_nobody_up() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, folder.root.join("pipe"), fifo, mode, 0).unwrap();
    for _ in 0..8 {
        for (tool, arguments) in [
            ("read_file", json!({ "path": "pipe" })),
            ("write_file", json!({ "path": "pipe", "content": "x" })),
        ] {
            let refusal = client.refused(tool, arguments).await;
            assert!(refusal.starts_with("`pipe` is neither a file nor a directory"), "{refusal}");
        }
    }
    client.done("delete_file", json!({ "path": "pipe" })).await;
}

#[tokio::test]
async fn too_many_calls_at_once_are_turned_away_and_the_rest_is_done() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let calls = (0..500).map(|number| {
        client.call("write_file", json!({ "path": format!("{number}"), "content": "x".repeat(1000) }))
    });
    let results = futures::future::join_all(calls).await;
    let (mut done, mut turned_away) = (0, 0);
    for (number, result) in results.iter().enumerate() {
        let exists = folder.root.join(number.to_string()).exists();
        if result.is_error == Some(true) {
            assert_eq!(text(result), "too many calls at the same time; nothing was done, try again later");
            assert!(!exists);
            turned_away += 1;
        } else {
            assert!(exists);
            done += 1;
        }
    }
    assert!(done >= 64, "{done} done, {turned_away} turned away");
    client.done("read_file", json!({ "path": "0" })).await;
}

#[tokio::test]
async fn the_callers_mistakes_are_protocol_errors() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let mistakes = [
        ("no_such_tool", json!({}), "no_such_tool"),
        ("read_file", json!({}), "path"),
        ("read_file", json!({ "path": 3 }), "string"),
        ("read_file", json!({ "path": null }), "string"),
        ("read_file", json!({ "path": "f", "encoding": "utf-8" }), "encoding"),
        ("list_files", json!({ "path": [] }), "string"),
        ("list_files", json!({ "recursive": true }), "recursive"),
        ("write_file", json!({ "path": "f" }), "content"),
        ("write_file", json!({ "path": "f", "content": { "a": 1 } }), "string"),
        ("move_file", json!({ "from": "f" }), "to"),
        ("delete_file", json!({ "path": "f", "force": true }), "force"),
    ];
    for (tool, arguments, named) in mistakes {
        match client.try_call(tool, Some(arguments)).await {
            Err(ServiceError::McpError(error)) => {
                assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{tool}");
                assert!(error.message.contains(named), "{tool}: {}", error.message);
            }
            other => panic!("{tool}: {other:?}"),
        }
    }
    assert_eq!(list(&client, ".").await["total"], 0);
}

#[tokio::test]
async fn f17_absent_and_null_arguments_list_the_root() {
    let folder = Folder::new();
    fs::write(folder.root.join("f"), "1").unwrap();
    let client = Client::start(&folder.root).await;
    for arguments in [None, Some(json!({})), Some(json!({ "path": null }))] {
        let result = client.try_call("list_files", arguments).await.unwrap();
        assert_eq!(result.structured_content.unwrap()["entries"][0]["path"], "f");
    }
}

#[tokio::test]
async fn the_served_directory_is_the_one_that_was_opened() {
    let folder = Folder::new();
    fs::write(folder.root.join("f"), "inside").unwrap();
    let client = Client::start(&folder.root).await;
    let inode = fs::metadata(&folder.root).unwrap().ino();
    // Another directory takes the root's path: the handle stays with the old one.
    let moved = folder.home.path().join("moved");
    fs::rename(&folder.root, &moved).unwrap();
    link("outside", &folder.root);
    assert_eq!(client.done("read_file", json!({ "path": "f" })).await, "inside");
    client.done("write_file", json!({ "path": "deep/new", "content": "x" })).await;
    assert_eq!(fs::metadata(&moved).unwrap().ino(), inode);
    assert!(moved.join("deep/new").is_file() && !folder.outside.join("deep/new").exists());
}
