//! What is wrong with a document, and what was probably meant.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::names::RuleId;

/// One mistake in a policy document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The rule that it is in, if it is in one.
    pub rule: Option<RuleId>,
    /// Where, as a path from the document: `rules[3].approval.timeout`. Places count from 0.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = &self.rule {
            write!(f, "rule `{rule}`: ")?;
        }
        write!(f, "`{}`: {}", self.field, self.message)?;
        match &self.suggestion {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for RuleError {}

/// The candidate that a misspelt word most likely stands for: the same in another case, or a few edits away, or the one
/// of which it is the beginning. `None` if nothing is close.
#[must_use]
pub fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let allowed = (word.len() / 3).clamp(1, 3);
    candidates
        .iter()
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.chars().take(64).flat_map(char::to_lowercase).collect();
            let distance = edits(&word, &other);
            let begins = word.len() >= 3 && other.starts_with(&word);
            if distance <= allowed || begins { Some((distance, *candidate)) } else { None }
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many characters must be inserted, removed or replaced to make one word of the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        let mut left = i + 1;
        next.push(left);
        for (to, pair) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            let replaced = diagonal + usize::from(from != to);
            left = replaced.min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let kinds = [
            "allow_tool",
            "block_tool",
            "require_approval",
            "input_validation",
            "token_budget",
            "rate_limit",
        ];
        assert_eq!(closest("alow_tool", &kinds), Some("allow_tool"));
        assert_eq!(closest("Block_Tool", &kinds), Some("block_tool"));
        assert_eq!(closest("Block", &kinds), Some("block_tool"));
        assert_eq!(closest("requires_aproval", &kinds), Some("require_approval"));
        assert_eq!(closest("xyz", &kinds), None);
        assert_eq!(closest("", &kinds), None);
        assert_eq!(closest("aproval", &["approval", "limit"]), Some("approval"));
    }
}
