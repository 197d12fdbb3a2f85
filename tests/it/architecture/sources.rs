//! What the sources may name, and where.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, product, sources};

/// Which of our own modules and crates each part of the program may name. Read as floors: nobody names one above.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("main", &["commands"]),
    (
        "commands",
        &[
            "app",
            "config",
            "rules",
            "sluicegate_gateway",
            "sluicegate_mcp",
            "sluicegate_policy",
            "sluicegate_store",
        ],
    ),
    (
        "app",
        &[
            "agent",
            "config",
            "llm",
            "mcp",
            "rules",
            "web",
            "sluicegate_gateway",
            "sluicegate_mcp",
            "sluicegate_policy",
            "sluicegate_store",
        ],
    ),
    (
        "web",
        &[
            "agent",
            "config",
            "conversation",
            "rules",
            "sluicegate_gateway",
            "sluicegate_policy",
            "sluicegate_store",
        ],
    ),
    ("mcp", &["web", "sluicegate_gateway", "sluicegate_mcp", "sluicegate_policy", "sluicegate_store"]),
    ("agent", &["conversation", "llm", "sluicegate_gateway", "sluicegate_policy"]),
    // The one file that lays the agent's port over the store.
    (
        "agent/log/store",
        &["agent", "conversation", "sluicegate_gateway", "sluicegate_policy", "sluicegate_store"],
    ),
    ("rules", &["config", "sluicegate_gateway", "sluicegate_policy", "sluicegate_store"]),
    ("llm", &["conversation"]),
    ("config", &["sluicegate_policy"]),
    ("conversation", &[]),
];

/// The names that follow `crate::`, and our crates that are named.
fn named(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, mark) in text.match_indices("crate::") {
        let rest = &text[at + mark.len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = list.split_once('}').map_or(list, |(list, _)| list);
                found.extend(list.split(',').map(|item| word(item.trim())));
            }
            None => drop(found.insert(word(rest))),
        }
    }
    for (at, _) in text.match_indices("sluicegate_") {
        let before = text[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"') {
            found.insert(word(&text[at..]));
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn nobody_names_a_floor_above() {
    let crates = ["sluicegate_gateway", "sluicegate_mcp", "sluicegate_policy", "sluicegate_store"];
    for (name, text) in product() {
        let Some(path) = name.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        if path == "lib" {
            continue;
        }
        let part = path.split('/').next().unwrap();
        let exact = MAY_NAME.iter().find(|(file, _)| *file == path);
        let rule = exact.or_else(|| MAY_NAME.iter().find(|(module, _)| *module == part));
        let (_, allowed) =
            rule.unwrap_or_else(|| panic!("{name} stands on no floor: add it to the table, with a reason"));
        for other in named(&text) {
            let ours =
                crates.contains(&other.as_str()) || MAY_NAME.iter().any(|(module, _)| *module == other);
            assert!(!ours || other == part || allowed.contains(&other.as_str()), "{name} names {other}");
        }
    }
}

#[test]
fn libraries_name_only_those_below_them() {
    for (package, below) in [
        ("policy", &[][..]),
        ("gateway", &["sluicegate_policy"]),
        ("store", &["sluicegate_gateway", "sluicegate_policy"]),
        ("mcp", &["sluicegate_gateway", "sluicegate_policy"]),
    ] {
        let own = format!("crates/{package}/src/");
        for (name, text) in product().into_iter().filter(|(name, _)| name.starts_with(&own)) {
            for other in named(&text).into_iter().filter(|other| other.starts_with("sluicegate_")) {
                let known = ["sluicegate_policy", "sluicegate_gateway", "sluicegate_store", "sluicegate_mcp"];
                let allowed = below.contains(&other.as_str()) || !known.contains(&other.as_str());
                assert!(allowed, "{name} names {other}");
            }
        }
    }
}

/// Where each of these stands, outside tests.
#[test]
fn what_may_happen_in_one_place_happens_there_alone() {
    for (what, place) in [
        ("Permit::mint(", "crates/gateway/src/gateway.rs"),
        ("ToolExecutionGateway::new(", "src/app.rs"),
        ("sluicegate_mcp::connect(", "src/app/upstreams.rs"),
        ("Store::open_server(", "src/app.rs"),
    ] {
        let found: Vec<String> =
            product().into_iter().flat_map(|(name, text)| vec![name; text.matches(what).count()]).collect();
        assert_eq!(found, [place], "{what}");
    }
}

/// The agent and what talks to models can answer no held call: they do not even say the name.
#[test]
fn the_agent_does_not_know_who_answers_held_calls() {
    for (name, text) in product() {
        if name.starts_with("src/agent") || name.starts_with("src/llm") || name.starts_with("crates/mcp/") {
            for word in ["Approvals", "Approver::", "CallStore"] {
                assert!(!text.contains(word), "{name} names {word}");
            }
        }
    }
}

/// Each ban of `clippy.toml` is opened by an `expect` with a reason, in these files and so often.
#[test]
fn every_opening_of_a_ban_is_counted() {
    let expected = BTreeMap::from(OPENINGS.map(|(file, count)| (file.to_owned(), count)));
    let mut found = BTreeMap::new();
    for (name, text) in sources() {
        let count = text.matches("clippy::disallowed_").count();
        if count > 0 {
            found.insert(name, count);
        }
    }
    assert_eq!(found, expected);
}

const OPENINGS: [(&str, usize); 8] = [
    // The wall clock.
    ("crates/gateway/src/clock.rs", 1),
    // HTTP to servers; the one tool call; starting servers.
    ("crates/mcp/src/upstream/http.rs", 1),
    ("crates/mcp/src/upstream/session.rs", 1),
    ("crates/mcp/src/upstream/stdio/child.rs", 1),
    // Test builds read which crash point to arm.
    ("src/app.rs", 1),
    // Settings: the environment.
    ("src/config/surroundings.rs", 1),
    // HTTP to models.
    ("src/llm/wire.rs", 1),
    // axum's extractors, wrapped.
    ("src/web/extract.rs", 3),
];

#[test]
fn nothing_is_left_open() {
    let mut all = sources();
    for folder in
        ["tests", "crates/policy/tests", "crates/gateway/tests", "crates/store/tests", "crates/mcp/tests"]
    {
        all.extend(files(folder, &[".rs"]));
    }
    // Put together, so that this file does not find itself.
    let marks = [["TO", "DO"], ["FIX", "ME"]].map(|parts| parts.concat());
    let allow = ["#[al", "low("].concat();
    let allow_all = ["#![al", "low("].concat();
    let ignore = ["#[ign", "ore"].concat();
    for (name, text) in all {
        for mark in marks.iter().chain([&allow, &allow_all]) {
            assert!(!text.contains(mark.as_str()), "{name} holds {mark}");
        }
        // One file alone needs more than Rust; the checks run it by a script of its own.
        assert!(name == "tests/it/real_servers.rs" || !text.contains(&ignore), "{name} holds {ignore}");
        assert!(!name.ends_with("/mod.rs"), "{name}: write foo.rs beside foo/");
    }
    let checks = std::fs::read_to_string(super::root().join(".ci/run")).unwrap();
    assert!(checks.contains("\ntests/upstreams/run\n"), "what `cargo test` leaves out is run nowhere");
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let mut all = sources();
    all.extend(files("tests", &[".rs"]));
    all.extend(files("templates", &[".html"]));
    for package in ["policy", "gateway", "store", "mcp"] {
        all.extend(files(&format!("crates/{package}/tests"), &[".rs"]));
    }
    let long: Vec<_> = all
        .iter()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > 500)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

/// SQL is written in one package, as static text.
#[test]
fn sql_stands_in_the_store_alone() {
    for (name, text) in product() {
        if !name.starts_with("crates/store/") {
            for words in ["INSERT INTO ", "DELETE FROM ", "SELECT * ", "UPDATE calls ", "UPDATE approvals "] {
                assert!(!text.contains(words), "{name} holds `{words}`");
            }
        }
        assert!(!text.contains("AssertSqlSafe"), "{name} makes SQL of a text that is not static");
    }
}
