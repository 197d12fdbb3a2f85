//! What a server may say to us unasked. Notices wake the supervisor; requests are refused, since nothing that a
//! server asks of a client is offered.

use crate::upstream::connection::Signals;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData,
    Implementation, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::sync::Arc;

/// The client side of one connection. It declares no capability.
#[derive(Clone, Debug)]
pub(crate) struct Handler(pub(crate) Arc<Signals>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("sluicegate", env!("CARGO_PKG_VERSION"));
        // The version of the older era: the newer one has no handshake that could name it.
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.changed.notify_one();
    }

    #[expect(deprecated, reason = "servers of the older era can still ask for it")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(not_offered("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(not_offered("elicitation/create"))
    }
}

fn not_offered(method: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}
