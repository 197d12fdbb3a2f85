//! The command line: answers, exit codes, and what is refused.

use std::sync::Arc;

use super::harness::server::{Ended, command};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> Arc<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    Arc::new(folder)
}

/// One line on standard error that begins as errors do; nothing on standard output.
fn assert_refused(ended: &Ended, words: &str) {
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert_eq!(ended.output, "", "{ended:?}");
    let lines: Vec<&str> = ended.log.lines().collect();
    assert!(
        matches!(lines.as_slice(), [one] if one.starts_with("error: ") && one.contains(words)),
        "{ended:?}"
    );
}

const BROKEN: &str =
    "version: 1\nrules:\n  - id: a\n    kind: require_approval\n    aproval: { timeout: 60s }\n";

#[tokio::test]
async fn the_shipped_policy_is_a_policy() {
    let files = folder(&[("p.yaml", sluicegate::rules::SHIPPED)]);
    let ended = command(files, &["policy", "check", "p.yaml"]).await;
    assert_eq!(
        (ended.code(), ended.output.as_str()),
        (Some(0), "p.yaml: a policy with 10 rules\n"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn f31_check_names_line_column_and_what_was_meant() {
    let ended = command(folder(&[("p.yaml", BROKEN)]), &["policy", "check", "p.yaml"]).await;
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let expected = "p.yaml: line 5, column 5: unknown key `aproval`; did you mean `approval`?\n";
    assert!(ended.output.starts_with(expected), "{ended:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_and_not_an_answer() {
    let files = folder(&[]);
    std::fs::create_dir(files.path().join("d")).unwrap();
    std::fs::write(files.path().join("binary"), [0xff, 0xfe, 0x00]).unwrap();
    for (file, words) in [("nowhere.yaml", "no file"), ("d", "cannot be read"), ("binary", "UTF-8")] {
        assert_refused(&command(files.clone(), &["policy", "check", file]).await, words);
    }
}

#[tokio::test]
async fn f31_an_import_makes_a_revision_and_a_broken_one_changes_nothing() {
    let files = folder(&[("good.yaml", sluicegate::rules::SHIPPED), ("broken.yaml", BROKEN)]);
    let import =
        async |file| command(files.clone(), &["policy", "import", file, "--reason", "because"]).await;
    let first = import("good.yaml").await;
    assert_eq!(
        (first.code(), first.output.as_str()),
        (Some(0), "revision 1 is in force from the next call on\n")
    );
    let broken = import("broken.yaml").await;
    assert_eq!(broken.code(), Some(1), "{broken:?}");
    assert!(broken.output.ends_with("nothing was changed\n"), "{broken:?}");
    let second = import("good.yaml").await;
    assert_eq!(second.output, "revision 2 is in force from the next call on\n");
    let verified = command(files, &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{verified:?}");
    // The first person, two revisions, one refusal.
    assert!(verified.output.starts_with("the trail is whole: 4 rows"), "{verified:?}");
}

#[tokio::test]
async fn the_tests_of_a_file_are_run_and_a_failing_one_stops_its_import() {
    let wrong = sluicegate::rules::SHIPPED.replace("path: ../notes.txt", "path: notes.txt");
    let files = folder(&[
        ("good.yaml", sluicegate::rules::SHIPPED),
        ("wrong.yaml", &wrong),
        ("broken.yaml", BROKEN),
        ("none.yaml", "version: 1\nrules: []\n"),
    ]);
    let test = async |file| command(files.clone(), &["policy", "test", file]).await;
    let good = test("good.yaml").await;
    assert_eq!((good.code(), good.output.as_str()), (Some(0), "4 of 4 tests pass\n"), "{good:?}");
    let wrong = test("wrong.yaml").await;
    let expected = "wrong.yaml: test `nothing is written outside the sandbox`: expected deny, came require_approval: \
                    held for a person by rule `writes-are-held`";
    assert_eq!(wrong.code(), Some(1), "{wrong:?}");
    assert!(wrong.output.starts_with(expected) && wrong.output.ends_with("1 of 4 tests fail\n"), "{wrong:?}");
    assert_eq!(test("broken.yaml").await.code(), Some(1));
    assert_eq!(test("none.yaml").await.output, "there are no tests\n");

    let import = async |more: &[&str]| {
        command(files.clone(), &[&["policy", "import", "wrong.yaml"], more].concat()).await
    };
    let refused = import(&[]).await;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.output.contains("nothing was changed"), "{refused:?}");
    let insisted = import(&["--despite-failing-tests"]).await;
    assert_eq!(insisted.output, "revision 1 is in force from the next call on\n", "{insisted:?}");
}

#[tokio::test]
async fn a_call_is_explained_by_a_file_or_by_the_rules_in_force() {
    let files = folder(&[("p.yaml", sluicegate::rules::SHIPPED)]);
    let explain =
        async |line: &[&str]| command(files.clone(), &[&["policy", "explain"], line].concat()).await;
    let call = ["sandbox-files/write_file", r#"{"path":"a.txt","content":"x"}"#];
    let held = explain(&[&call[..], &["--file", "p.yaml"]].concat()).await;
    assert_eq!(held.code(), Some(0), "{held:?}");
    for line in [
        "require_approval: held for a person by rule `writes-are-held`: A person looks at every file",
        "reason rule, tier moderate, by p.yaml",
        "300 s to decide, 1 to approve, by approver",
        "  writes-are-held decides: all that it asks is true",
        "  writes-stay-inside does not match: all that it asks is true",
        "  conversation-budget does not match: 0 of 120000 are used",
    ] {
        assert!(held.output.lines().any(|found| found.starts_with(line)), "{line}\n{}", held.output);
    }
    let spent =
        explain(&[&call[..], &["--file", "p.yaml", "--usage", "120000", "--origin", "mcp"]].concat()).await;
    assert!(spent.output.starts_with("deny: denied by rule `conversation-budget`"), "{spent:?}");

    assert_refused(&explain(&call).await, "no rules");
    assert_eq!(command(files.clone(), &["policy", "import", "p.yaml"]).await.code(), Some(0));
    let in_force = explain(&call).await;
    assert!(in_force.output.contains("tier moderate, by revision 1\n"), "{in_force:?}");
    let unknown = explain(&["elsewhere/x"]).await;
    assert!(unknown.output.starts_with("deny: denied: no rule allows this call"), "{unknown:?}");

    for (line, words) in [
        (&["move_file"][..], "server/tool"),
        (&["a/b", "[]"], "JSON object"),
        (&["a/b", "{}", "--role", "boss"], "`boss` is none of viewer, approver, admin, client"),
        (&["a/b", "{}", "--at", "noon"], "mon 08:00"),
    ] {
        assert_refused(&explain(&[line, &["--file", "p.yaml"]].concat()).await, words);
    }
}

#[tokio::test]
async fn a_changed_row_of_the_trail_is_named() {
    let files = folder(&[("good.yaml", sluicegate::rules::SHIPPED)]);
    assert_eq!(command(files.clone(), &["policy", "import", "good.yaml"]).await.code(), Some(0));
    // As somebody with access to the file would: the author of the change becomes another.
    let path = files.path().join("sluicegate.db");
    for file in [path.clone(), files.path().join("sluicegate.db-wal")] {
        let Ok(mut bytes) = std::fs::read(&file) else { continue };
        let (from, to) = (b"command line", b"somebody els");
        for at in 0..bytes.len().saturating_sub(from.len()) {
            if &bytes[at..at + from.len()] == from {
                bytes[at..at + from.len()].copy_from_slice(to);
            }
        }
        std::fs::write(&file, bytes).unwrap();
    }
    let ended = command(files, &["audit", "verify"]).await;
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.output.contains("row 2"), "{ended:?}");
}

#[tokio::test]
async fn verifying_creates_no_store() {
    let files = folder(&[]);
    assert_refused(&command(files.clone(), &["audit", "verify"]).await, "sluicegate.db");
    assert_eq!(std::fs::read_dir(files.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_sign_in_link_is_printed_for_the_public_address() {
    let files = folder(&[]);
    let public = ["sign-in-link", "--public-url", "https://gate.example.org"];
    let ended = command(files.clone(), &public).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let token = ended.output.strip_prefix("Sign in: https://gate.example.org/sign-in?token=").unwrap();
    assert_eq!(token.trim_end().len(), 64, "{ended:?}");
    std::fs::write(files.path().join(".env"), "LISTEN=127.0.0.1:0\n").unwrap();
    assert_refused(&command(files, &["sign-in-link"]).await, "--public-url");
}

#[tokio::test]
async fn every_command_explains_itself_and_mistakes_of_usage_end_with_2() {
    let none = folder(&[]);
    for line in [
        &["--help"][..],
        &["serve", "--help"],
        &["sandbox-files", "--help"],
        &["policy", "--help"],
        &["policy", "check", "--help"],
        &["policy", "test", "--help"],
        &["policy", "explain", "--help"],
        &["policy", "schema", "--help"],
        &["policy", "import", "--help"],
        &["audit", "verify", "--help"],
        &["sign-in-link", "--help"],
        &["--version"],
    ] {
        let ended = command(none.clone(), line).await;
        assert_eq!(ended.code(), Some(0), "{line:?} {ended:?}");
        assert!(!ended.output.is_empty() && ended.log.is_empty(), "{line:?} {ended:?}");
    }
    for line in
        [&["policy"][..], &["policy", "chek"], &["--gemini-api-key", "x"], &["audit", "verify", "--what"]]
    {
        let ended = command(none.clone(), line).await;
        assert_eq!(ended.code(), Some(2), "{line:?} {ended:?}");
    }
    assert_eq!(std::fs::read_dir(none.path()).unwrap().count(), 0, "asking for help left something behind");
}
