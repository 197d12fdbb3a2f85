//! Names of tools at `/mcp`, where those of all servers stand side by side. Each maps back by table to one pair.

use sluicegate_gateway::{Catalogue, Digest};
use sluicegate_policy::ToolRef;
use std::collections::BTreeMap;

/// Longest name: the shortest limit of the common clients.
const MAX_NAME: usize = 64;
/// Digits of the pair's digest in a name that would otherwise not be unique or not be allowed.
const DIGITS: usize = 8;

/// The table. It is made of the whole catalogue, so that a name does not depend on who asks.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tools: BTreeMap<String, ToolRef>,
    names: BTreeMap<ToolRef, String>,
}

impl Names {
    pub(crate) fn of(catalogue: &Catalogue) -> Self {
        Self::new(catalogue.tools().map(|tool| tool.tool().clone()))
    }

    fn new(all: impl Iterator<Item = ToolRef>) -> Self {
        let mut wanted: BTreeMap<String, Vec<ToolRef>> = BTreeMap::new();
        for tool in all {
            wanted.entry(format!("{}__{}", tool.server(), tool.tool())).or_default().push(tool);
        }
        let mut table = Self::default();
        for (name, tools) in wanted {
            let plain = tools.len() == 1 && fits(&name);
            for tool in tools {
                let name = if plain { name.clone() } else { marked(&name, &tool) };
                table.names.insert(tool.clone(), name.clone());
                table.tools.insert(name, tool);
            }
        }
        table
    }

    /// The pair of a name, exactly.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolRef> {
        self.tools.get(name)
    }

    /// The name of a pair.
    pub(crate) fn name(&self, tool: &ToolRef) -> Option<&str> {
        self.names.get(tool).map(String::as_str)
    }
}

fn fits(name: &str) -> bool {
    name.len() <= MAX_NAME && name.chars().all(allowed)
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The name with what is not allowed replaced, cut, and marked with the pair's digest: unique, and the same at every
/// start.
fn marked(name: &str, tool: &ToolRef) -> String {
    let digest = Digest::of(
        "sluicegate/name/1",
        &[tool.server().as_str().as_bytes(), tool.tool().as_str().as_bytes()],
    );
    let mut out: String =
        name.chars().map(|c| if allowed(c) { c } else { '_' }).take(MAX_NAME - DIGITS - 1).collect();
    out.push('_');
    out.extend(digest.to_string().chars().take(DIGITS));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_policy::{ServerName, ToolName};
    use std::collections::BTreeSet;

    fn pair(server: &str, tool: &str) -> ToolRef {
        ToolRef::new(ServerName::new(server).unwrap(), ToolName::new(tool).unwrap())
    }

    #[test]
    fn every_name_leads_to_one_pair_whatever_the_pairs_are_called() {
        let long = "t".repeat(100);
        let pairs = [
            pair("a", "b__c"),
            pair("a__b", "c"),
            pair("files", "read"),
            pair("files", "read file"),
            pair("files", "read.file"),
            pair("files", "διάβασε"),
            pair("files", &long),
            pair("files", &format!("{long}2")),
            pair("files.x", "read"),
        ];
        let table = Names::new(pairs.iter().cloned());
        let mut seen = BTreeSet::new();
        for tool in &pairs {
            let name = table.name(tool).unwrap();
            assert!(fits(name) && seen.insert(name.to_owned()), "{name}");
            assert_eq!(table.tool(name), Some(tool));
        }
        assert_eq!(table.name(&pair("files", "read")), Some("files__read"));
        assert_eq!(table.tool("a__b__c"), None, "an ambiguous name leads nowhere");
        assert_eq!(table.tool("files__READ"), None);
        // What stands beside it changes no name that was unique.
        let alone = Names::new([pair("files", "read.file")].into_iter());
        assert_eq!(alone.name(&pair("files", "read.file")), table.name(&pair("files", "read.file")));
    }
}
