//! F32, rename during use: names inside become links to the outside, and back, while they are used.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::jail::Jail;
use super::operations::Operation;

const CANARY: &str = "CANARY: from outside";
/// Each outcome is waited for this often, and no longer than this many tries.
const ENOUGH: usize = 200;
const TRIES: usize = 200_000;

fn run(jail: &Jail, tool: &str, arguments: &Value) -> (bool, String) {
    let result = Operation::parse(tool, arguments.clone()).unwrap().run(jail);
    (result.is_error != Some(true), serde_json::to_string(&result).unwrap())
}

/// Exchanges `one` and `other` in a single step, over and over, while `body` runs.
fn while_exchanging<T>(one: &Path, other: &Path, body: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the calls again and again until each has been seen to be done and to be refused often enough.
fn until_both_outcomes(jail: &Jail, calls: &[(&str, Value)], mut check: impl FnMut()) {
    let (mut done, mut refused) = (0, 0);
    for _ in 0..TRIES {
        for (tool, arguments) in calls {
            let (ok, answer) = run(jail, tool, arguments);
            assert!(!answer.contains("CANARY"), "{tool}: {answer}");
            if ok { done += 1 } else { refused += 1 }
        }
        check();
        if done >= ENOUGH && refused >= ENOUGH {
            return;
        }
    }
    panic!("the race was not run: {done} done, {refused} refused");
}

#[test]
fn f32_a_directory_that_becomes_a_link_to_outside_during_use() {
    let home = tempfile::tempdir().unwrap();
    let (root, outside) = (home.path().join("root"), home.path().join("outside"));
    for directory in [&root.join("d"), &outside] {
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("f"), if directory == &outside { CANARY } else { "inside" }).unwrap();
    }
    std::os::unix::fs::symlink("../outside", root.join("evil")).unwrap();
    let jail = Jail::open(&root).unwrap();
    let calls = [
        ("read_file", json!({ "path": "d/f" })),
        ("list_files", json!({ "path": "d" })),
        ("write_file", json!({ "path": "d/new", "content": "written" })),
        ("write_file", json!({ "path": "d/sub/deep/er/new", "content": "written" })),
        ("move_file", json!({ "from": "d/new", "to": "d/sub/moved" })),
        ("delete_file", json!({ "path": "d/sub/moved" })),
        ("delete_file", json!({ "path": "d/sub/deep/er/new" })),
    ];
    let untouched = || {
        let mut names: Vec<_> =
            fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["f", "sub"]);
        assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), CANARY);
        assert_eq!(fs::read_dir(outside.join("sub")).unwrap().count(), 0);
    };
    while_exchanging(&root.join("d"), &root.join("evil"), || until_both_outcomes(&jail, &calls, untouched));
}

#[test]
fn f32_a_file_that_becomes_a_link_to_outside_during_use() {
    let home = tempfile::tempdir().unwrap();
    let (root, outside) = (home.path().join("root"), home.path().join("outside"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("f"), CANARY).unwrap();
    fs::write(root.join("f"), "inside").unwrap();
    std::os::unix::fs::symlink(outside.join("f"), root.join("evil")).unwrap();
    let jail = Jail::open(&root).unwrap();
    let calls = [("read_file", json!({ "path": "f" }))];
    let untouched = || assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), CANARY);
    while_exchanging(&root.join("f"), &root.join("evil"), || until_both_outcomes(&jail, &calls, untouched));
    // A write replaces whatever stands there in that instant, at worst the link, never what it points to.
    let calls = [("write_file", json!({ "path": "f", "content": "written" }))];
    for _ in 0..ENOUGH {
        run(&jail, "delete_file", &json!({ "path": "f" }));
        run(&jail, "delete_file", &json!({ "path": "evil" }));
        fs::write(root.join("f"), "inside").unwrap();
        std::os::unix::fs::symlink(outside.join("f"), root.join("evil")).unwrap();
        while_exchanging(&root.join("f"), &root.join("evil"), || {
            for (tool, arguments) in &calls {
                run(&jail, tool, arguments);
            }
            untouched();
        });
    }
}
