//! Model-side tool names: `[A-Za-z_][A-Za-z0-9_-]{0,62}`, which every provider takes.
//!
//! A name depends on its (server, tool) pair alone, so it stays the same across restarts and whatever else is on
//! offer. A pair that `server__tool` says unmistakably has that name; any other gets a tail of ten hash digits.
//! Names are read back by table, never taken apart.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Most tools that are offered to a model at once; the limit of several providers.
pub const MOST_TOOLS: usize = 128;

const LONGEST_NAME: usize = 63;
const JOIN: &str = "__";
const HASH_DIGITS: usize = 10;

/// The names of one set of tools, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    pairs: BTreeMap<String, (String, String)>,
    names: BTreeMap<String, BTreeMap<String, String>>,
    left_out: Vec<LeftOut>,
}

/// A tool that is not offered to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its server.
    pub server: String,
    /// Its name there.
    pub tool: String,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why a tool is not offered to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// There are more than [`MOST_TOOLS`]. Servers take turns in alphabetical order, each offering its next tool in
    /// alphabetical order, until the list is full: so a server with many tools cannot push out the others.
    TooMany,
    /// Its name and another tool's come out the same even with the hash. Neither is offered.
    SameName,
}

impl ToolNames {
    /// Names the tools. Order and repetition of the pairs make no difference.
    #[must_use]
    pub fn new<S: AsRef<str>, T: AsRef<str>>(tools: &[(S, T)]) -> Self {
        let mut by_server: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (server, tool) in tools {
            by_server.entry(server.as_ref()).or_default().insert(tool.as_ref());
        }
        let mut claims: BTreeMap<String, usize> = BTreeMap::new();
        for (server, tools) in &by_server {
            for tool in tools {
                *claims.entry(short_name(server, tool)).or_default() += 1;
            }
        }

        let mut all = Self::default();
        let mut servers: Vec<_> =
            by_server.into_iter().map(|(server, tools)| (server, tools.into_iter())).collect();
        while !servers.is_empty() {
            servers.retain_mut(|(server, tools)| {
                let Some(tool) = tools.next() else { return false };
                all.add(server, tool, &claims);
                true
            });
        }
        all
    }

    fn add(&mut self, server: &str, tool: &str, claims: &BTreeMap<String, usize>) {
        let name = short_name(server, tool);
        let why = if claims.get(&name).is_some_and(|count| *count > 1) {
            WhyLeftOut::SameName
        } else if self.pairs.len() >= MOST_TOOLS {
            WhyLeftOut::TooMany
        } else {
            self.names.entry(server.to_owned()).or_default().insert(tool.to_owned(), name.clone());
            self.pairs.insert(name, (server.to_owned(), tool.to_owned()));
            return;
        };
        self.left_out.push(LeftOut { server: server.to_owned(), tool: tool.to_owned(), why });
    }

    /// The model-side name of a tool; `None` if it is not on offer.
    #[must_use]
    pub fn short(&self, server: &str, tool: &str) -> Option<&str> {
        self.names.get(server)?.get(tool).map(String::as_str)
    }

    /// The (server, tool) pair that a model means; `None` for any name that is not exactly one of ours.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<(&str, &str)> {
        self.pairs.get(name).map(|(server, tool)| (server.as_str(), tool.as_str()))
    }

    /// The tools that are not offered, in the order of the rule.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// How many tools are offered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether no tool is offered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// The model-side name of a pair.
pub(super) fn short_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}{JOIN}{tool}");
    if speaks_for_itself(server, &plain) {
        return plain;
    }
    let mut name: String = plain
        .chars()
        .map(|c| if is_name_character(c) { c } else { '_' })
        .take(LONGEST_NAME - HASH_DIGITS - 1)
        .collect();
    if !name.starts_with(is_first_character) {
        name.insert(0, '_');
        name.truncate(LONGEST_NAME - HASH_DIGITS - 1);
    }
    name.push('_');
    name.push_str(&hash(server, tool));
    name
}

/// Whether no other pair can have this joined name: the first join ends the server's name, nothing had to be
/// changed, and the end does not look like one of our hashes.
fn speaks_for_itself(server: &str, joined: &str) -> bool {
    joined.len() <= LONGEST_NAME
        && joined.starts_with(is_first_character)
        && joined.chars().all(is_name_character)
        && joined.split_once(JOIN).is_some_and(|(before, after)| before == server && !after.is_empty())
        && !ends_like_a_hash(joined)
}

fn ends_like_a_hash(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, tail)| {
        tail.len() == HASH_DIGITS && tail.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_first_character(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Ten hex digits over both names; the length first, so that a border shifted between them changes the hash.
fn hash(server: &str, tool: &str) -> String {
    let digest = Sha256::new()
        .chain_update(server.len().to_be_bytes())
        .chain_update(server.as_bytes())
        .chain_update(tool.as_bytes())
        .finalize();
    digest.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(name: &str) -> bool {
        name.len() <= LONGEST_NAME
            && name.starts_with(is_first_character)
            && name.chars().all(is_name_character)
    }

    #[test]
    fn plain_pairs_keep_their_names() {
        assert_eq!(short_name("sandbox-files", "list_files"), "sandbox-files__list_files");
        assert_eq!(short_name("home", "_x"), "home___x");
    }

    #[test]
    fn f05_awkward_names_fit_stay_apart_and_map_back() {
        let alias = "a".repeat(40);
        let long = "t".repeat(69);
        let pairs = [
            (alias.as_str(), format!("{long}x")),
            (alias.as_str(), format!("{long}y")),
            ("fs", "files/read".to_owned()),
            ("fs", "files.read".to_owned()),
            ("fs", "files_read".to_owned()),
            ("2fa", "2fa-check".to_owned()),
            ("ελ", "διάβασε".to_owned()),
            ("a__b", "c".to_owned()),
            ("a", "b__c".to_owned()),
            ("a_", "b".to_owned()),
            ("a", "_b".to_owned()),
            ("", "x".to_owned()),
            ("x", String::new()),
        ];
        let names = ToolNames::new(&pairs);
        assert_eq!(names.len(), pairs.len());
        assert!(names.left_out().is_empty());
        for (server, tool) in &pairs {
            let short = names.short(server, tool).unwrap();
            assert!(fits(short), "{short}");
            assert_eq!(names.resolve(short), Some((*server, tool.as_str())));
        }
        assert_eq!(names.resolve("fs__files/read"), None);
        assert_eq!(names.resolve("fs__files_rea"), None);
        assert_eq!(names.resolve("FS__files_read"), None);
    }

    #[test]
    fn f05_a_tool_named_like_anothers_hashed_name_does_not_take_it() {
        let target = short_name("fs.", "read");
        let (server, tool) = target.split_once(JOIN).unwrap();
        let names = ToolNames::new(&[("fs.", "read"), (server, tool)]);
        assert_eq!(names.resolve(&target), Some(("fs.", "read")));
        assert_ne!(names.short(server, tool), Some(target.as_str()));
    }

    #[test]
    fn f05_of_600_tools_128_are_offered_and_no_server_is_pushed_out() {
        let mut pairs: Vec<(String, String)> =
            (0..600).map(|n| ("big".to_owned(), format!("tool-{n:03}"))).collect();
        pairs.push(("small".to_owned(), "only".to_owned()));
        let names = ToolNames::new(&pairs);
        assert_eq!(names.len(), MOST_TOOLS);
        assert_eq!(names.left_out().len(), 601 - MOST_TOOLS);
        assert!(names.short("small", "only").is_some());
        assert!(names.short("big", "tool-126").is_some());
        assert_eq!(
            names.left_out()[0],
            LeftOut { server: "big".into(), tool: "tool-127".into(), why: WhyLeftOut::TooMany }
        );
        assert_eq!(names.short("big", "tool-127"), None);
    }

    /// Pairs that provoke clashes: few letters, the join itself, characters that are replaced.
    fn awkward() -> impl Strategy<Value = (String, String)> {
        ("[ab_.é]{0,4}|[a-c]{30,70}", "[ab_/é]{0,4}|[a-c]{30,70}|b_[0-9a-f]{10}")
    }

    proptest! {
        #[test]
        fn names_are_valid_injective_reversible_and_independent_of_order(
            pairs in prop::collection::vec(awkward(), 0..60),
            seed in any::<u64>(),
        ) {
            let names = ToolNames::new(&pairs);
            let distinct: BTreeSet<_> = pairs.iter().cloned().collect();
            let mut seen = BTreeSet::new();
            for (server, tool) in &distinct {
                let short = names.short(server, tool).unwrap();
                prop_assert!(fits(short), "{}", short);
                prop_assert!(seen.insert(short.to_owned()), "two tools share {}", short);
                prop_assert_eq!(names.resolve(short), Some((server.as_str(), tool.as_str())));
                let alone = ToolNames::new(&[(server, tool)]);
                prop_assert_eq!(alone.short(server, tool), Some(short));
            }
            prop_assert!(names.left_out().is_empty());

            let mut other = pairs.clone();
            if !other.is_empty() {
                let middle = usize::try_from(seed % other.len() as u64).unwrap();
                other.rotate_left(middle);
                other.reverse();
            }
            prop_assert_eq!(ToolNames::new(&other), names);
        }
    }
}
