//! From a proposal to a call that cannot change any more.

use crate::call::{CallId, FrozenCall, ProposedArguments, ProposedCall, ProposedTool};
use crate::core::Core;
use crate::facts::{Subject, unknown_tool};
use crate::outcome::{ReasonCode, Refusal};
use crate::store::NewCall;
use sluicegate_policy::Arguments;

/// Longest name and argument text kept of a call that could not be frozen.
const MAX_NAME: usize = 256;
const MAX_RAW_ARGUMENTS: usize = 64 * 1024;

/// Finds the tool, reads the arguments once and strictly, checks them against the tool's own schema, and binds it
/// all into a call that cannot change any more.
pub(super) fn freeze(
    core: &Core,
    id: CallId,
    proposed: ProposedCall,
) -> Result<(Subject, NewCall), (Box<NewCall>, Refusal)> {
    let ProposedCall { tool, arguments, caller, origin, conversation, scope, notices } = proposed;
    let (server, name) = match &tool {
        ProposedTool::Known(tool) => (tool.server().to_string(), tool.tool().to_string()),
        ProposedTool::Unknown(name) => (String::new(), name.chars().take(MAX_NAME).collect()),
    };
    let mut call = NewCall {
        id,
        server,
        tool: name,
        caller: caller.clone(),
        origin,
        conversation: conversation.clone(),
        arguments: raw(&arguments),
        frozen: None,
    };
    let definition = match &tool {
        // What is out of reach is answered like what is not there.
        ProposedTool::Known(tool) if scope.names(tool) => core.catalogue.snapshot().get(tool).cloned(),
        ProposedTool::Known(_) | ProposedTool::Unknown(_) => None,
    };
    let Some(definition) = definition else {
        return Err((Box::new(call), unknown_tool()));
    };
    let parsed = match arguments {
        ProposedArguments::Absent | ProposedArguments::Json(serde_json::Value::Null) => {
            Arguments::from_json("{}")
        }
        ProposedArguments::Json(value) => Arguments::from_value(value),
        ProposedArguments::Text(text) => Arguments::from_json(&text),
    };
    let invalid = |why: String| Refusal {
        code: ReasonCode::InvalidArguments,
        sentence: format!("the arguments do not fit the tool: {why}"),
        retryable: true,
        rules: Vec::new(),
    };
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return Err((Box::new(call), invalid(error.to_string()))),
    };
    arguments.canonical().clone_into(&mut call.arguments);
    let frozen = FrozenCall::freeze(
        id,
        &caller,
        definition.tool().clone(),
        definition.server(),
        definition.digest(),
        arguments,
    );
    call.frozen = Some(frozen.clone());
    if let Err(why) = definition.schema().check(&frozen.arguments().to_value()) {
        return Err((Box::new(call), invalid(why)));
    }
    Ok((Subject { frozen, definition, caller, origin, conversation, scope, notices }, call))
}

/// Arguments as they came, for the record of a call that could not be frozen.
fn raw(arguments: &ProposedArguments) -> String {
    let text = match arguments {
        ProposedArguments::Absent => String::new(),
        ProposedArguments::Json(value) => value.to_string(),
        ProposedArguments::Text(text) => text.clone(),
    };
    if text.len() <= MAX_RAW_ARGUMENTS {
        text
    } else {
        text.chars().take(MAX_RAW_ARGUMENTS / 4).chain(['…']).collect()
    }
}
