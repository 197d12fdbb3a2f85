//! The tools as a model is offered them, and what its names mean. Pure.

use crate::llm::ToolDeclaration;
use crate::llm::names::ToolNames;
use sluicegate_gateway::{Catalogue, ProposedTool};
use sluicegate_policy::ToolRef;
use std::collections::BTreeMap;

/// The tools of one request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) declarations: Vec<ToolDeclaration>,
    meant: BTreeMap<String, ToolRef>,
}

impl Tools {
    /// What of a catalogue can be offered, in a stable order.
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let pairs: Vec<_> = catalogue
            .tools()
            .map(|tool| (tool.tool().server().as_str(), tool.tool().tool().as_str()))
            .collect();
        let names = ToolNames::new(&pairs);
        let mut tools = Self::default();
        for tool in catalogue.tools() {
            let pair = tool.tool();
            let Some(name) = names.short(pair.server().as_str(), pair.tool().as_str()) else { continue };
            tools.declarations.push(ToolDeclaration {
                name: name.to_owned(),
                description: tool.description().to_owned(),
                schema: tool.input_schema().clone(),
            });
            tools.meant.insert(name.to_owned(), pair.clone());
        }
        tools
    }

    /// The tool that exactly this name stands for. Any other name goes to the gate as unknown, to be recorded and
    /// refused; none is matched to a similar one.
    pub(super) fn meant(&self, name: &str) -> ProposedTool {
        match self.meant.get(name) {
            Some(tool) => ProposedTool::Known(tool.clone()),
            None => ProposedTool::Unknown(name.to_owned()),
        }
    }
}
