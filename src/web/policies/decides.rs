//! Which rule decides a call: the box beside the rules. It asks the same evaluation as the gate, and runs nothing.

use crate::rules::{Explained, RulesError};
use crate::web::decision::{self as words, MatchLine};
use crate::web::error::WebError;
use crate::web::state::WebState;
use crate::web::ui::{Badge, Marked, Risk};
use sluicegate_gateway::Hints;
use sluicegate_policy::{
    Arguments, Given, Moment, Origin, PolicyDocument, Role, ServerName, TimeOfDay, TokenUsage, ToolName,
    ToolRef, Weekday,
};
use std::collections::BTreeMap;

/// What was typed into the box.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// `server/tool`.
    pub(crate) tool: String,
    /// A JSON object; empty for none.
    pub(crate) arguments: String,
    /// Where the call comes from; the chat if nothing was chosen.
    pub(crate) mcp: bool,
    /// Tokens that the conversation has used.
    pub(crate) tokens: String,
    /// Day of the week, if a moment was given.
    pub(crate) day: Option<Weekday>,
    /// Time of that day.
    pub(crate) time: String,
}

/// The answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The decision.
    pub(crate) badge: Badge,
    /// Why, in one sentence.
    pub(crate) sentence: Marked,
    /// The tier that was judged.
    pub(crate) risk: Risk,
    /// The considered rules.
    pub(crate) lines: Vec<MatchLine>,
    /// The tool is offered at present.
    pub(crate) known: bool,
}

impl Question {
    /// Reads the fields of the box.
    pub(crate) fn read(fields: &[(String, String)]) -> Self {
        let text = |name: &str| {
            fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        Self {
            tool: text("tool").trim().to_owned(),
            arguments: text("arguments").replace("\r\n", "\n"),
            mcp: text("origin") == Origin::Mcp.as_str(),
            tokens: text("tokens").trim().to_owned(),
            day: Weekday::from_word(&text("day")),
            time: text("time").trim().to_owned(),
        }
    }

    /// The call; says what cannot be read of it.
    pub(crate) fn given(&self) -> Result<(Given, ToolRef), String> {
        let (server, tool) = self.tool.split_once('/').ok_or("write the tool as server/tool")?;
        let server = ServerName::new(server).map_err(|error| error.to_string())?;
        let tool = ToolName::new(tool).map_err(|error| error.to_string())?;
        let typed = if self.arguments.trim().is_empty() { "{}" } else { self.arguments.as_str() };
        let arguments = Arguments::from_json(typed).map_err(|error| error.to_string())?;
        let serde_json::Value::Object(arguments) = arguments.to_value() else {
            return Err("the arguments are not a JSON object".to_owned());
        };
        let tokens = match self.tokens.replace(',', "").as_str() {
            "" => None,
            digits => {
                let conversation =
                    digits.parse().map_err(|_| format!("`{}` is no number of tokens", self.tokens))?;
                Some(TokenUsage { conversation, caller_day: conversation })
            }
        };
        let at = match (self.day, self.time.as_str()) {
            (None, _) => None,
            (Some(day), "") => Some(Moment { day, time: noon()? }),
            (Some(day), time) => {
                Some(Moment { day, time: time.parse::<TimeOfDay>().map_err(|error| error.to_string())? })
            }
        };
        let origin = if self.mcp { Origin::Mcp } else { Origin::Chat };
        let given = Given {
            server: server.clone(),
            tool: tool.clone(),
            arguments,
            caller: None,
            role: if self.mcp { Some(Role::Client) } else { None },
            origin: Some(origin),
            tokens,
            calls: BTreeMap::new(),
            at,
        };
        Ok((given, ToolRef::new(server, tool)))
    }

    /// Asks the rules in force.
    ///
    /// # Errors
    /// The inner one is for the person: what they typed cannot be judged, and why.
    pub(crate) async fn ask(
        &self,
        state: &WebState,
        document: &PolicyDocument,
    ) -> Result<Result<Answer, String>, WebError> {
        let (given, tool) = match self.given() {
            Ok(given) => given,
            Err(why) => return Ok(Err(why)),
        };
        let catalogue = state.catalogue.snapshot();
        let definition = catalogue.get(&tool);
        let hints = definition.map_or_else(Hints::default, |definition| definition.hints());
        match state.rules.explain(&given, hints).await {
            Ok(explained) => Ok(Ok(answer(&explained, document, definition.is_some()))),
            Err(RulesError::Store(error)) => Err(error.into()),
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

fn noon() -> Result<TimeOfDay, String> {
    "12:00".parse().map_err(|error: sluicegate_policy::TimeOfDayError| error.to_string())
}

fn answer(explained: &Explained, document: &PolicyDocument, known: bool) -> Answer {
    let rule = |id: &sluicegate_policy::RuleId| document.rules.iter().find(|rule| rule.id == *id);
    Answer {
        badge: words::badge(explained.decision.effect),
        sentence: Marked::of(&explained.sentence),
        risk: Risk(explained.context.tier),
        lines: words::lines(&explained.decision, rule),
        known,
    }
}
