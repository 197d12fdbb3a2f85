//! Name patterns: `*` for any run of characters, everything else itself, the whole name, case-sensitive.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::names::{ServerName, ToolName, ToolRef};

/// One pattern. Matching takes time linear in the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    Any,
    Exact(Box<str>),
    /// What stands before, between and after the stars.
    Stars {
        first: Box<str>,
        middle: Vec<Box<str>>,
        last: Box<str>,
    },
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let mut parts = text.split('*');
        let first = parts.next().unwrap_or("");
        let Some(last) = parts.next_back() else { return Self::Exact(first.into()) };
        let middle: Vec<Box<str>> = parts.filter(|part| !part.is_empty()).map(Box::from).collect();
        if first.is_empty() && middle.is_empty() && last.is_empty() {
            Self::Any
        } else {
            Self::Stars { first: first.into(), middle, last: last.into() }
        }
    }

    pub(crate) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => **text == *name,
            Self::Stars { first, middle, last } => {
                let inner = name.strip_prefix(&**first).and_then(|rest| rest.strip_suffix(&**last));
                // The leftmost place of each part leaves the most room for those after it.
                let found = inner.and_then(|inner| {
                    middle
                        .iter()
                        .try_fold(inner, |rest, part| rest.split_once(&**part).map(|(_, after)| after))
                });
                found.is_some()
            }
        }
    }
}

impl Pattern {
    /// Whether every name that the other fits is one that this fits.
    fn covers(&self, other: &Self) -> bool {
        match other {
            Self::Any => *self == Self::Any,
            Self::Exact(name) => self.fits(name),
            // No name that could be written in a pattern holds a star, so only a star of this one takes in one of the
            // other, and then it takes in whatever stands for it.
            Self::Stars { first, middle, last } => {
                let mut written = String::from(&**first);
                for part in middle {
                    written.push('*');
                    written.push_str(part);
                }
                written.push('*');
                written.push_str(last);
                self.fits(&written)
            }
        }
    }
}

/// Whether each name that fits one of the others fits one of these; no list means all names.
pub(super) fn covers_all(patterns: Option<&[Pattern]>, others: Option<&[Pattern]>) -> bool {
    let any = [Pattern::Any];
    let others = others.unwrap_or(&any);
    patterns.is_none_or(|patterns| others.iter().all(|other| patterns.iter().any(|own| own.covers(other))))
}

/// Whether a name fits a pattern: `*` for any run of characters, everything else itself, the whole name, case-sensitive.
#[must_use]
pub fn name_fits(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).fits(name)
}

/// Whether one of the patterns fits; no list means all names.
pub(super) fn any_fits(patterns: Option<&[Pattern]>, name: &str) -> bool {
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.fits(name)))
}

/// Which tools a rule or tier line is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Names {
    pub(super) servers: Option<Vec<Pattern>>,
    pub(super) tools: Option<Vec<Pattern>>,
}

impl Names {
    pub(crate) fn fit(&self, tool: &ToolRef) -> bool {
        any_fits(self.servers.as_deref(), tool.server().as_str())
            && any_fits(self.tools.as_deref(), tool.tool().as_str())
    }

    /// The tools, if each is named without a star and they are few enough to index.
    pub(super) fn exact(&self) -> Option<Vec<ToolRef>> {
        const MAX: usize = 256;
        let (servers, tools) = (self.servers.as_ref()?, self.tools.as_ref()?);
        if servers.len().saturating_mul(tools.len()) > MAX {
            return None;
        }
        let mut pairs = Vec::new();
        for server in servers {
            for tool in tools {
                let (Pattern::Exact(server), Pattern::Exact(tool)) = (server, tool) else { return None };
                let pair = ToolRef::new(ServerName::new(server).ok()?, ToolName::new(tool).ok()?);
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        Some(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_fits_no_name_beyond_it() {
        for (own, other, expected) in [
            ("*", "a*b", true),
            ("*", "*", true),
            ("a*", "*", false),
            ("read_*", "read_file", true),
            ("read_*", "read_f*", true),
            ("read_f*", "read_*", false),
            ("*e", "a*e", true),
            ("a*c", "a*b*c", true),
            ("a*b*c", "a*c", false),
            ("a", "a*", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern::new(own).covers(&Pattern::new(other)), expected, "{own} covers {other}");
        }
    }

    #[test]
    fn stars_match_whole_names_only() {
        let cases = [
            ("*", "", true),
            ("*", "anything", true),
            ("read_*", "read_", true),
            ("read_*", "read_file", true),
            ("read_*", "READ_x", false),
            ("read_*", "bread_x", false),
            ("*_file", "read_file", true),
            ("*_file", "read_file2", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "ac", false),
            ("a*bc*c", "abcc", true),
            ("a*bc*c", "abc", false),
            ("**", "x", true),
            ("a.c", "abc", false),
            ("ä*ö", "äxö", true),
            ("", "", true),
            ("", "x", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).fits(name), expected, "{pattern} on {name}");
        }
    }
}
