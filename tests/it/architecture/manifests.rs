//! What each package lists. A crate cannot name what it does not list.

use std::collections::BTreeSet;
use std::process::Command;

use super::root;

#[expect(clippy::disallowed_methods, reason = "cargo is asked what the manifests say")]
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The crates that a package lists for its product, not for its tests.
fn listed(package: &str) -> BTreeSet<String> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|found| found["name"] == package).unwrap();
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies.filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap().to_owned()).collect()
}

const PACKAGES: [&str; 5] =
    ["sluicegate", "sluicegate-gateway", "sluicegate-mcp", "sluicegate-policy", "sluicegate-store"];

/// The policy's list is complete: nothing here reads a clock, a file or the network.
#[test]
fn the_policy_lists_pure_crates_alone() {
    let expected = ["icu_normalizer", "regex-automata", "serde", "serde_json", "thiserror", "url"];
    assert_eq!(listed("sluicegate-policy"), expected.map(str::to_owned).into());
}

#[test]
fn one_package_alone_can_name_each_dangerous_crate() {
    for (dangerous, holder) in [
        ("rmcp", "sluicegate-mcp"),
        ("cap-std", "sluicegate-mcp"),
        ("sqlx", "sluicegate-store"),
        ("axum", "sluicegate"),
        ("askama", "sluicegate"),
        ("clap", "sluicegate"),
    ] {
        let holders: Vec<_> =
            PACKAGES.into_iter().filter(|package| listed(package).contains(dangerous)).collect();
        assert_eq!(holders, [holder], "who lists {dangerous}");
    }
}

#[test]
fn packages_list_only_those_below_them() {
    for (package, below) in [
        ("sluicegate-policy", &[][..]),
        ("sluicegate-gateway", &["sluicegate-policy"]),
        ("sluicegate-store", &["sluicegate-gateway", "sluicegate-policy"]),
        ("sluicegate-mcp", &["sluicegate-gateway", "sluicegate-policy"]),
        ("sluicegate", &["sluicegate-gateway", "sluicegate-mcp", "sluicegate-policy", "sluicegate-store"]),
    ] {
        let own: Vec<_> = listed(package).into_iter().filter(|name| name.starts_with("sluicegate")).collect();
        assert_eq!(own, below, "{package}");
    }
}

/// A build for use cannot be told to die; the build of the tests can, or they would show nothing.
#[test]
fn crash_points_are_in_test_builds_alone() {
    let tree = |edges| cargo(&["tree", "--offline", "--locked", "--package", "sluicegate", "--edges", edges]);
    const FEATURE: &str = "feature \"crash-points\"";
    assert!(!tree("features,no-dev").contains(FEATURE), "a normal build has crash points");
    assert!(tree("features").contains(FEATURE), "test builds have none: this test shows nothing");
}

/// One TLS provider, and none that needs a C compiler and an assembler.
#[test]
fn there_is_one_tls_provider() {
    let tree = cargo(&[
        "tree",
        "--offline",
        "--locked",
        "--package",
        "sluicegate",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains("ring") && names.contains("rustls"));
    for unwanted in ["aws-lc-sys", "aws-lc-rs", "openssl", "openssl-sys", "native-tls"] {
        assert!(!names.contains(unwanted), "{unwanted} came in");
    }
}
