//! Tools: which ones a key sees, under which names, and calls of them.

use super::calling::{self, Asked, Calling};
use super::era::{self, Era, meta};
use super::message::{INVALID_PARAMS, Request, RpcError};
use super::sessions::{OpenRequest, Session};
use super::{FrontBody, Visit, forms, handshake, refused, tasks};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use sluicegate_gateway::{
    Notices, ProposedArguments, ProposedCall, ProposedTool, ToolDefinition, audit::canonical_json,
};
use sluicegate_policy::{Origin, Tier, ToolRef};
use std::collections::BTreeMap;

/// How long a list may be kept by a client, in milliseconds. Change notices come sooner.
const LIST_MS: u32 = 1_000;

/// How a call is asked for, apart from what it asks.
struct Manner {
    era: Era,
    log_level: Option<&'static str>,
    opens_urls: bool,
    tasks: bool,
    client: String,
}

impl Visit {
    /// The tools within reach, under the names of this address, in a stable order.
    pub(super) async fn list_tools(&self, era: Era) -> Value {
        let tiers = self.inner.gateway.tiers(&self.holder.caller).await.unwrap_or_default();
        let (catalogue, names) = self.inner.names();
        let tools: Vec<Value> = catalogue
            .tools()
            .filter(|tool| self.sees(tool.tool(), &tiers))
            .filter_map(|tool| {
                let name = match &self.server {
                    Some(_) => tool.tool().tool().as_str(),
                    None => names.name(tool.tool())?,
                };
                Some(listed(tool, name, tier(tool.tool(), &tiers)))
            })
            .collect();
        let mut result = json!({ "tools": tools });
        if let (Era::SelfDescribing, Some(result)) = (era, result.as_object_mut()) {
            result.insert("resultType".to_owned(), "complete".into());
            result.insert("ttlMs".to_owned(), LIST_MS.into());
            result.insert("cacheScope".to_owned(), "private".into());
            result.insert("_meta".to_owned(), json!({ meta!("serverInfo"): handshake::server_info() }));
        }
        result
    }

    fn sees(&self, tool: &ToolRef, tiers: &BTreeMap<ToolRef, Tier>) -> bool {
        self.server.as_ref().is_none_or(|server| server == tool.server())
            && self.holder.scope.names(tool)
            && self.holder.scope.reaches(tier(tool, tiers))
    }

    /// What a name stands for at this address. What is not seen is as unknown as what is not there; the gate records and
    /// refuses both alike.
    fn meant(&self, name: &str) -> ProposedTool {
        let (catalogue, names) = self.inner.names();
        let found = match &self.server {
            Some(server) => catalogue
                .tools()
                .map(|tool| tool.tool())
                .find(|tool| tool.server() == server && tool.tool().as_str() == name),
            None => names.tool(name),
        };
        match found {
            Some(tool) if self.holder.scope.names(tool) => ProposedTool::Known(tool.clone()),
            _ => ProposedTool::Unknown(name.to_owned()),
        }
    }

    pub(super) async fn call_described(self, request: Request) -> Response<FrontBody> {
        let meta = request.meta();
        let client = meta.and_then(|meta| meta.get(meta!("clientInfo")));
        let manner = Manner {
            era: Era::SelfDescribing,
            log_level: meta
                .and_then(|meta| meta.get(meta!("logLevel")))
                .and_then(Value::as_str)
                .and_then(handshake::level),
            opens_urls: forms::opens_urls(request.capabilities()),
            tasks: tasks::taken(request.capabilities()),
            client: client
                .and_then(|client| client.get("name"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        };
        match self.propose(&request, manner, None) {
            Ok(calling) => calling::answer(calling, self.takes_events()).await,
            Err(error) => refused(&error, Some(&request.id)),
        }
    }

    /// A call in a session.
    pub(super) fn calling(
        &self,
        session: &Session,
        open: OpenRequest,
        request: &Request,
    ) -> Result<Calling, RpcError> {
        let manner = Manner {
            era: Era::Handshake,
            // Before a client has set a level, the server chooses: everything.
            log_level: Some(session.log_level().unwrap_or("debug")),
            opens_urls: false,
            tasks: false,
            client: session.client().to_owned(),
        };
        self.propose(request, manner, Some(open))
    }

    fn propose(
        &self,
        request: &Request,
        manner: Manner,
        open: Option<OpenRequest>,
    ) -> Result<Calling, RpcError> {
        let name = request.text("name").ok_or_else(|| {
            RpcError::new(INVALID_PARAMS, "Invalid params: `name` is missing").status(StatusCode::BAD_REQUEST)
        })?;
        let tool = self.meant(name);
        let arguments = request.params.get("arguments");
        let (server, own) = match &tool {
            ProposedTool::Known(tool) => (tool.server().as_str(), tool.tool().as_str()),
            ProposedTool::Unknown(name) => ("", name.as_str()),
        };
        if let (Era::SelfDescribing, ProposedTool::Known(known)) = (manner.era, &tool)
            && let Some(definition) = self.inner.catalogue.snapshot().get(known)
        {
            era::check_parameters(definition.input_schema(), arguments, &self.headers)?;
        }
        let given = arguments.unwrap_or(&Value::Null);
        let action = calling::action(server, own, &Value::String(canonical_json(given)));
        let caller = self.holder.caller.principal.caller.clone();
        let (rounds, declined) = self.asked_before(request, &action)?;
        let (notices, heard) = Notices::listened(manner.log_level);
        let handle = self.inner.gateway.execute_tool(ProposedCall {
            tool,
            arguments: arguments.cloned().map_or(ProposedArguments::Absent, ProposedArguments::Json),
            caller: self.holder.caller.clone(),
            origin: Origin::Mcp,
            conversation: Some(self.holder.conversation.clone()),
            scope: self.holder.scope.clone(),
            notices,
        });
        let asked = Asked {
            id: request.id.clone(),
            era: manner.era,
            progress: calling::progress_token(request.meta()),
            log_level: manner.log_level,
            opens_urls: manner.opens_urls,
            tasks: manner.tasks,
            client: manner.client,
            caller,
            action,
            rounds,
            declined,
        };
        Ok(Calling::new(self.inner.clone(), asked, handle, heard, open))
    }

    /// How often the client was asked about this call, by the state that it gives back, and whether its user declined.
    fn asked_before(&self, request: &Request, action: &str) -> Result<(u32, bool), RpcError> {
        let Some(state) = request.params.get("requestState") else { return Ok((0, false)) };
        let state = state.as_str().and_then(|state| self.inner.states.take(state, self.caller(), action));
        let state = state.ok_or_else(|| {
            let why = "Invalid params: `requestState` is not one of this call, or was used before; repeat the call without it";
            RpcError::new(INVALID_PARAMS, why).status(StatusCode::BAD_REQUEST)
        })?;
        let answered = request.params.get("inputResponses").and_then(|responses| responses.get("approval"));
        let said = answered.and_then(|answer| answer.get("action")).and_then(Value::as_str);
        Ok((state.rounds, matches!(said, Some("decline" | "cancel"))))
    }
}

/// A tool whose tier is not known is taken for one of the high tier.
fn tier(tool: &ToolRef, tiers: &BTreeMap<ToolRef, Tier>) -> Tier {
    tiers.get(tool).copied().unwrap_or(Tier::High)
}

/// The definition as its server gave it, under the name of this address, with its tier.
fn listed(tool: &ToolDefinition, name: &str, tier: Tier) -> Value {
    let Value::Object(mut definition) = tool.as_received().clone() else { return Value::Null };
    definition.insert("name".to_owned(), name.into());
    // Tasks of upstreams are not offered, so nobody may be told to ask for one.
    definition.remove("execution");
    let meta = definition.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert("sluicegate/tier".to_owned(), tier.as_str().into());
        if tier == Tier::High {
            // Defence in depth: some clients then ask their user even where they ask nothing else.
            meta.insert("anthropic/requiresUserInteraction".to_owned(), true.into());
        }
    }
    Value::Object(definition)
}
