//! Definitions of tools. Schemas are written out by hand: those who use a tool pin the digest of its definition, so it
//! changes only on purpose.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

pub(crate) fn tool(
    name: &'static str,
    title: &str,
    description: impl Into<String>,
    input: JsonObject,
) -> Tool {
    Tool::new_with_raw(name, Some(description.into().into()), input).with_title(title)
}

/// The tool reaches nothing but what its server holds.
pub(crate) fn closed_world() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false)
}
