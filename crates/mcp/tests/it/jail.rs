//! F32, out of the sandbox by path: every line of its "Try this", against the real server. Guards
//! against comparing text in place of walking handles, against following links out, and against refusing what is legal.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::sandbox::{CANARY, Client, Folder, OUTSIDE, link, text};

/// Every way to use a path, both ends of a move included. `source.txt` exists in the root.
fn every_use(path: &str) -> [(&'static str, Value); 6] {
    [
        ("list_files", json!({ "path": path })),
        ("read_file", json!({ "path": path })),
        ("write_file", json!({ "path": path, "content": "written" })),
        ("move_file", json!({ "from": path, "to": "moved.txt" })),
        ("move_file", json!({ "from": "source.txt", "to": path })),
        ("delete_file", json!({ "path": path })),
    ]
}

/// Asserts that every use of each path gets the one refusal, and that nothing changes, inside or outside.
async fn all_are_outside(folder: &Folder, paths: &[&str]) {
    fs::write(folder.root.join("source.txt"), "source").unwrap();
    let client = Client::start(&folder.root).await;
    let inside = names(&folder.root);
    let surroundings = folder.surroundings();
    for path in paths {
        for (tool, arguments) in every_use(path) {
            assert_eq!(client.refused(tool, arguments.clone()).await, OUTSIDE, "{tool} {arguments}");
        }
    }
    assert_eq!(names(&folder.root), inside);
    assert_eq!(fs::read_to_string(folder.root.join("source.txt")).unwrap(), "source");
    assert_eq!(folder.surroundings(), surroundings);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn f32_a_sibling_that_shares_the_prefix_is_outside() {
    let folder = Folder::new();
    let evil = format!("{}-evil/f", folder.root.display());
    all_are_outside(&folder, &[&evil, "../root-evil/f", "../root-evil", "../root-evil/none"]).await;
}

#[tokio::test]
async fn f32_dots_that_lead_out_are_outside() {
    let folder = Folder::new();
    fs::create_dir(folder.root.join("a")).unwrap();
    let paths =
        ["..", "../", "../outside/f", "../outside/none", "a/../../outside/f", "a/../../f", "none/../../f"];
    all_are_outside(&folder, &paths).await;
    let round_about = format!("{}/../outside/f", folder.root.display());
    all_are_outside(&folder, &[&round_about, "./../outside/f", "a/./..//../outside/f", "../root/source.txt"])
        .await;
}

#[tokio::test]
async fn f32_absolute_and_home_paths_are_outside() {
    let folder = Folder::new();
    let outside = folder.outside.join("f").display().to_string();
    let inside = folder.root.join("source.txt").display().to_string();
    all_are_outside(&folder, &[&outside, &inside, "/", "/etc/passwd", "/none", "//etc/passwd", "~", "~/f"])
        .await;
}

#[tokio::test]
async fn f32_a_name_with_nul_is_outside() {
    all_are_outside(&Folder::new(), &["source.txt\0", "a\0b", "\0", "source.txt\0/../../outside/f"]).await;
}

#[tokio::test]
async fn f32_the_empty_path_and_the_dot() {
    let folder = Folder::new();
    fs::write(folder.root.join("source.txt"), "source").unwrap();
    let client = Client::start(&folder.root).await;
    for (tool, arguments) in every_use("") {
        let refusal = client.refused(tool, arguments).await;
        assert!(refusal.contains("the path is empty"), "{tool}: {refusal}");
    }
    for (tool, arguments) in every_use(".").into_iter().skip(1) {
        let refusal = client.refused(tool, arguments.clone()).await;
        assert!(refusal.starts_with("`.` "), "{tool} {arguments}: {refusal}");
    }
    let listing = client.call("list_files", json!({ "path": "." })).await.structured_content.unwrap();
    assert_eq!(listing["entries"], json!([{ "path": "source.txt", "kind": "file", "bytes": 6 }]));
    assert_eq!(names(&folder.root), ["source.txt"]);
}

#[tokio::test]
async fn f32_a_name_of_300_bytes() {
    let folder = Folder::new();
    fs::write(folder.root.join("source.txt"), "source").unwrap();
    let client = Client::start(&folder.root).await;
    for path in ["n".repeat(300), format!("sub/{}/x", "n".repeat(300)), "\u{00e9}".repeat(150)] {
        for (tool, arguments) in every_use(&path) {
            assert_eq!(client.refused(tool, arguments).await, "a name in the path is longer than 255 bytes");
        }
    }
    assert_eq!(names(&folder.root), ["source.txt"]);
    // As long as a name can be, it works: the temporary file of a write has a short name of its own.
    let longest = "n".repeat(255);
    client.done("write_file", json!({ "path": longest, "content": "long" })).await;
    assert_eq!(client.done("read_file", json!({ "path": longest })).await, "long");
    // Outside is said first.
    all_are_outside(&folder, &[&format!("../{}", "n".repeat(300))]).await;
}

#[tokio::test]
async fn f32_links_that_leave_are_outside() {
    let folder = Folder::new();
    let root = &folder.root;
    link("../outside/f", root.join("file"));
    link(folder.outside.join("f"), root.join("file-absolute"));
    link("../outside/none", root.join("dangling"));
    link("../outside", root.join("directory"));
    link(&folder.outside, root.join("directory-absolute"));
    link("directory", root.join("twice"));
    link("twice", root.join("thrice"));
    link("..", root.join("up"));
    link("/", root.join("top"));
    link("/proc/self/root", root.join("proc"));
    fs::create_dir(root.join("a")).unwrap();
    link("../../outside/f", root.join("a/file"));
    link("a/../../outside", root.join("dots"));
    // A link within, below which the text goes out by `..` on disk: `hop` is `a`, so `hop/..` is the root.
    link("a", root.join("hop"));
    link("hop/../../outside/f", root.join("through-hop"));
    let through =
        ["directory/f", "directory/none", "directory/deep/f", "directory/new/deep/f", "directory-absolute/f"];
    all_are_outside(&folder, &through).await;
    let more =
        ["twice/f", "thrice/f", "thrice/deep/none", "up/outside/f", "up/root/source.txt", "top/etc/passwd"];
    all_are_outside(&folder, &more).await;
    all_are_outside(&folder, &["proc/etc/passwd", "dots/f", "directory/", "twice/", "directory/."]).await;

    // The link itself as the last name: its target is refused to all but the deletion of the link.
    let client = Client::start(root).await;
    let surroundings = folder.surroundings();
    let links =
        ["file", "file-absolute", "dangling", "directory", "twice", "a/file", "through-hop", "up", "proc"];
    for path in links {
        for (tool, arguments) in every_use(path).into_iter().filter(|(tool, _)| *tool != "delete_file") {
            assert_eq!(client.refused(tool, arguments.clone()).await, OUTSIDE, "{tool} {arguments}");
        }
    }
    for path in links {
        assert_eq!(
            client.done("delete_file", json!({ "path": path })).await,
            format!("deleted the link `{path}`")
        );
        assert!(!root.join(path).is_symlink());
    }
    assert_eq!(folder.surroundings(), surroundings);
}

#[tokio::test]
async fn f32_the_refusal_tells_nothing_about_what_exists_outside() {
    let folder = Folder::new();
    link("../outside", folder.root.join("out"));
    fs::create_dir(folder.outside.join("locked")).unwrap();
    // A file, a directory, a missing one, a file used as a directory, one behind a missing one: all alike.
    let alike = ["out/f", "out/deep/f", "out/none", "out/f/x", "out/none/x", "../outside/f", "../none/f"];
    all_are_outside(&folder, &alike).await;
}

#[tokio::test]
async fn f32_links_that_stay_inside_work() {
    let folder = Folder::new();
    let root = &folder.root;
    fs::create_dir_all(root.join("real/deep")).unwrap();
    fs::write(root.join("real/f.txt"), "inside").unwrap();
    link("real", root.join("directory"));
    link("directory", root.join("twice"));
    link("real/f.txt", root.join("file"));
    link("../real/f.txt", root.join("real/again"));
    link("../../real", root.join("real/deep/back"));
    link(root.join("real"), root.join("absolute"));
    link(root, root.join("myself"));
    let client = Client::start(root).await;
    let paths =
        ["directory/f.txt", "twice/f.txt", "file", "real/again", "real/deep/back/f.txt", "absolute/f.txt"];
    for path in
        paths.into_iter().chain(["myself/real/f.txt", "directory/deep/../f.txt", "myself/myself/file"])
    {
        assert_eq!(client.done("read_file", json!({ "path": path })).await, "inside", "{path}");
    }
    let listing = client.call("list_files", json!({ "path": "directory" })).await.structured_content.unwrap();
    let listed: Vec<_> =
        listing["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(listed, ["directory/again", "directory/deep", "directory/f.txt"]);

    // Writing goes to where the link points and leaves the link; also to a target that is not there yet.
    client.done("write_file", json!({ "path": "file", "content": "changed" })).await;
    assert_eq!(fs::read_to_string(root.join("real/f.txt")).unwrap(), "changed");
    assert!(root.join("file").is_symlink());
    link("real/new/file", root.join("to-new"));
    client.done("write_file", json!({ "path": "to-new", "content": "new" })).await;
    assert_eq!(fs::read_to_string(root.join("real/new/file")).unwrap(), "new");
    client.done("write_file", json!({ "path": "absolute/written", "content": "w" })).await;
    client.done("move_file", json!({ "from": "twice/written", "to": "absolute/moved" })).await;
    assert_eq!(fs::read_to_string(root.join("real/moved")).unwrap(), "w");
    // A link is moved and deleted as a link.
    client.done("move_file", json!({ "from": "file", "to": "renamed" })).await;
    assert!(root.join("renamed").is_symlink() && !root.join("file").is_symlink());
    client.done("delete_file", json!({ "path": "renamed" })).await;
    assert_eq!(fs::read_to_string(root.join("real/f.txt")).unwrap(), "changed");
}

#[tokio::test]
async fn f32_links_in_a_circle_end() {
    let folder = Folder::new();
    link("b", folder.root.join("a"));
    link("a", folder.root.join("b"));
    link("c/c", folder.root.join("c"));
    let client = Client::start(&folder.root).await;
    for path in ["a", "a/x", "c"] {
        let refusal = client.refused("read_file", json!({ "path": path })).await;
        assert_eq!(refusal, "the path goes through more than 40 links");
    }
}

#[tokio::test]
async fn f32_the_root_may_be_reached_through_a_link_and_written_with_a_slash() {
    let folder = Folder::new();
    let home = folder.home.path();
    link("root", home.join("link"));
    link("link", home.join("link-to-link"));
    fs::write(folder.root.join("f.txt"), "inside").unwrap();
    link(home.join("link/f.txt"), folder.root.join("absolute-by-link"));
    for root in ["root/", "link", "link/", "link-to-link", "link/.", "root/../root", "root//"] {
        let client = Client::start(home.join(root)).await;
        assert_eq!(client.done("read_file", json!({ "path": "f.txt" })).await, "inside", "{root}");
        assert_eq!(client.refused("read_file", json!({ "path": "../outside/f" })).await, OUTSIDE, "{root}");
    }
    let client = Client::start(home.join("link")).await;
    assert_eq!(client.done("read_file", json!({ "path": "absolute-by-link" })).await, "inside");
}

#[tokio::test]
async fn f32_unusual_names_work() {
    let folder = Folder::new();
    let client = Client::start(&folder.root).await;
    let names = [
        "with space.txt",
        " leading and trailing ",
        "...",
        "..a",
        "a..",
        ".hidden",
        "~backup",
        "-rf",
        "a\\b",
        "C:",
        "%2e%2e",
        "\u{1f980}\u{200d}\u{1f980}.md",
        "\u{65e5}\u{672c}\u{8a9e}.txt",
        "\u{645}\u{631}\u{62d}\u{628}\u{627}",
        "e\u{301}",
        "line\nbreak",
        "tab\t",
        "quote\"'`",
        "$HOME",
        "*",
        "?",
        "#",
        "file:",
        "nul",
    ];
    for name in names {
        let path = format!("d/{name}");
        client.done("write_file", json!({ "path": path, "content": name })).await;
        assert_eq!(fs::read_to_string(folder.root.join("d").join(name)).unwrap(), name);
        client.done("move_file", json!({ "from": path, "to": name })).await;
        assert_eq!(client.done("read_file", json!({ "path": format!("./{name}") })).await, name);
        let listing = client.call("list_files", json!({})).await.structured_content.unwrap();
        let entries = listing["entries"].as_array().unwrap();
        assert!(
            entries.contains(&json!({ "path": name, "kind": "file", "bytes": name.len() })),
            "{entries:?}"
        );
        client.done("delete_file", json!({ "path": name })).await;
        assert!(!folder.root.join(name).exists());
    }
}

#[tokio::test]
async fn f32_what_is_missing_inside_is_said_to_be_missing() {
    let folder = Folder::new();
    fs::create_dir(folder.root.join("a")).unwrap();
    link("none", folder.root.join("dangling"));
    let client = Client::start(&folder.root).await;
    for path in ["none", "a/none", "none/deeper", "a/../none", "none/../a", "dangling"] {
        let expected = format!("`{path}` does not exist in the sandbox");
        assert_eq!(client.refused("read_file", json!({ "path": path })).await, expected);
        assert_eq!(client.refused("list_files", json!({ "path": path })).await, expected);
    }
    assert_eq!(names(&folder.root), ["a", "dangling"]);
}

/// Removes everything in `directory`, and not the directory: it is the one that the server holds.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
            .unwrap();
    }
}

/// Paths from the words that path checks have been fooled with, and plain noise.
fn hostile_path(folder: &Folder) -> impl Strategy<Value = String> + use<> {
    let root = folder.root.display().to_string();
    let outside = folder.outside.display().to_string();
    let words = prop::sample::select(vec![
        "..".to_owned(),
        ".".into(),
        String::new(),
        "a".into(),
        "f".into(),
        "deep".into(),
        "out".into(),
        "out-abs".into(),
        "out-file".into(),
        "hop".into(),
        "up".into(),
        "self".into(),
        "outside".into(),
        "root".into(),
        "root-evil".into(),
        "~".into(),
        "...".into(),
        "\0".into(),
        "%2e%2e".into(),
        "..\\..".into(),
        "\u{ff0e}\u{ff0e}".into(),
        root,
        outside,
    ]);
    let part = prop_oneof![9 => words, 1 => "\\PC{0,6}"];
    let path = (prop::collection::vec(part, 0..8), any::<bool>())
        .prop_map(|(parts, absolute)| format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")));
    prop_oneof![9 => path, 1 => any::<String>()]
}

#[test]
fn f32_arbitrary_paths_never_escape() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = Folder::new();
    let root = &folder.root;
    let client = runtime.block_on(Client::start(root));
    let surroundings = folder.surroundings();
    let paths = (hostile_path(&folder), hostile_path(&folder));
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&paths, |(path, other)| {
            // The tools may have moved or deleted these; each case begins with the same traps.
            empty(root);
            fs::create_dir_all(root.join("a/deep")).unwrap();
            fs::write(root.join("a/f"), "inside").unwrap();
            fs::write(root.join("source.txt"), "inside").unwrap();
            link("../outside", root.join("out"));
            link(&folder.outside, root.join("out-abs"));
            link("../outside/f", root.join("out-file"));
            link("a/deep", root.join("hop"));
            link("..", root.join("up"));
            link(".", root.join("self"));
            let mut calls = every_use(&path).to_vec();
            calls.push(("move_file", json!({ "from": path, "to": other })));
            for (tool, arguments) in calls {
                let answer = text(&runtime.block_on(client.call(tool, arguments.clone())));
                prop_assert!(!answer.contains(CANARY), "{} {}: {}", tool, arguments, answer);
            }
            prop_assert_eq!(folder.surroundings(), surroundings.clone());
            Ok(())
        })
        .unwrap();
}
