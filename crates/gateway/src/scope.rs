//! What a caller can reach at all, whatever the rules allow. It only ever narrows.

use serde::{Deserialize, Serialize};
use sluicegate_policy::{ServerName, Tier, ToolRef, name_fits};
use std::collections::BTreeSet;

/// The tools within a caller's reach. An empty list stands for all.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// Servers, by name or pattern (`*` for any run of characters).
    pub servers: Vec<String>,
    /// Tools, by their own name or pattern.
    pub tools: Vec<String>,
    /// Tiers.
    pub tiers: BTreeSet<Tier>,
}

impl Scope {
    /// Whether the tool's name is within reach.
    #[must_use]
    pub fn names(&self, tool: &ToolRef) -> bool {
        fits(&self.servers, tool.server().as_str()) && fits(&self.tools, tool.tool().as_str())
    }

    /// Whether any tool of the server may be within reach.
    #[must_use]
    pub fn reaches_server(&self, server: &ServerName) -> bool {
        fits(&self.servers, server.as_str())
    }

    /// Whether tools of this tier are within reach.
    #[must_use]
    pub fn reaches(&self, tier: Tier) -> bool {
        self.tiers.is_empty() || self.tiers.contains(&tier)
    }
}

fn fits(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| name_fits(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_policy::ToolName;

    #[test]
    fn an_empty_list_is_all_and_every_list_narrows() {
        let tool = |server: &str, tool: &str| {
            ToolRef::new(ServerName::new(server).unwrap(), ToolName::new(tool).unwrap())
        };
        let all = Scope::default();
        assert!(all.names(&tool("files", "read")) && all.reaches(Tier::High));
        let some = Scope {
            servers: vec!["files".to_owned(), "home*".to_owned()],
            tools: vec!["read*".to_owned()],
            tiers: [Tier::Safe].into(),
        };
        assert!(some.names(&tool("files", "read_file")) && some.names(&tool("home-2", "read")));
        for (server, name) in [("files", "write"), ("file", "read"), ("FILES", "read"), ("files2", "read")] {
            assert!(!some.names(&tool(server, name)), "{server}/{name}");
        }
        assert!(some.reaches(Tier::Safe) && !some.reaches(Tier::Moderate) && !some.reaches(Tier::High));
        assert!(
            serde_json::from_str::<Scope>(r#"{"server":["files"]}"#).is_err(),
            "a misspelt list is not all"
        );
    }
}
