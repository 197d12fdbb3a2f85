//! A policy as YAML text: read strictly, written so that reading it gives the same document.

use jiff::tz::TimeZone;
use sluicegate_policy::{ApprovalDefaults, PolicyDocument, RuleSet};

use super::outline::Outline;
use super::problem::PolicyProblem;

/// The longest policy text, in bytes.
pub const MAX_POLICY_BYTES: usize = 1024 * 1024;

/// Reads a policy: strictly, as a whole, or not at all.
///
/// # Errors
/// Every mistake that could be found, with its line; never none. Mistakes of form (an unknown key, a missing bracket) are
/// found one at a time, those of meaning all at once.
pub fn parse(
    yaml: &str,
    defaults: ApprovalDefaults,
) -> Result<(PolicyDocument, RuleSet), Vec<PolicyProblem>> {
    if yaml.len() > MAX_POLICY_BYTES {
        let message =
            format!("the file is larger than {} KiB, the most a policy may be", MAX_POLICY_BYTES / 1024);
        return Err(vec![PolicyProblem::at(None, message)]);
    }
    let document = read(yaml).map_err(|problem| vec![problem])?;
    let outline: Outline = serde_saphyr::from_str_with_options(yaml, options())
        .map_err(|error| vec![PolicyProblem::from_yaml(&error)])?;
    let compiled = document.compile(defaults);
    let mut problems: Vec<PolicyProblem> = unknown_zones(&document)
        .map(|(path, message)| PolicyProblem::at(Some(outline.place(&path)), message))
        .collect();
    match compiled {
        Ok(rules) if problems.is_empty() => Ok((document, rules)),
        Ok(_) => Err(problems),
        Err(errors) => {
            problems.extend(
                errors.iter().map(|error| PolicyProblem::from_rule(error, Some(outline.place(&error.field)))),
            );
            problems.sort_by_key(|problem| (problem.line, problem.column));
            Err(problems)
        }
    }
}

/// The document as written, its meaning unchecked.
pub(super) fn read(yaml: &str) -> Result<PolicyDocument, PolicyProblem> {
    serde_saphyr::from_str_with_options(yaml, options()).map_err(|error| PolicyProblem::from_yaml(&error))
}

/// Time zones that do not exist, each with its path. Only this side of the engine knows the zones.
pub(super) fn unknown_zones(document: &PolicyDocument) -> impl Iterator<Item = (String, String)> {
    document.rules.iter().enumerate().filter_map(|(place, rule)| {
        let zone = &rule.hours.as_ref()?.zone;
        match TimeZone::get(zone.as_str()) {
            Ok(_) => None,
            Err(_) => Some((
                format!("rules[{place}].hours.zone"),
                format!(
                    "rule `{}`: there is no time zone `{zone}`; write one such as Europe/Berlin or UTC",
                    rule.id
                ),
            )),
        }
    })
}

/// Writes a policy as YAML that [`parse`] reads back as the same document. Comments are not part of a document.
///
/// # Errors
/// If it cannot be written as YAML.
pub fn to_yaml(document: &PolicyDocument) -> Result<String, serde_saphyr::SerializeError> {
    let options = serde_saphyr::ser_options! { compact_list_indent: false, prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(document, options)
}

/// No aliases (so no alias bombs), no merge keys, no foreign tags, one document, and bounds far above any real policy.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 32,
            flow_nesting_limit: 32,
            max_aliases: 0,
            max_anchors: 0,
            max_documents: 1,
            max_merge_keys: 0,
            max_events: 400_000,
            max_nodes: 200_000,
            max_total_scalar_bytes: MAX_POLICY_BYTES,
        },
        merge_keys: serde_saphyr::MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        reject_tagged_field_names: true,
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}
