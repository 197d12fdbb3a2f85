//! The one function that makes a tool run.
//!
//! Everything here serves one distinction: what is certainly not run may be tried again by whoever asked; what may
//! have run is never repeated by guesswork (field case F12).

use crate::upstream::http::{Fault, HttpFault};
use crate::upstream::ledger::Ledger;
use crate::upstream::server::{Link, Server};
use crate::upstream::stdio::StdioFault;
use crate::upstream::wire;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;
use sluicegate_gateway::{Attempts, InvokeError, Notices, Permit, ToolOutput};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a call waits for a link that is being made.
const LINK_WAIT: Duration = Duration::from_secs(10);
/// How long telling a server of a cancelled call may take.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// What came of sending a call once.
enum Attempt {
    Answered(ToolOutput),
    /// The server said no; the tool did not run.
    Refused(String),
    /// It certainly did not reach the tool.
    NotSent(String),
    /// The caller cancelled before it was sent.
    Withdrawn,
    /// The server does not know the session: proof that the call was not run.
    SessionUnknown,
    /// It was sent, and the answer is lost.
    Lost(String),
    TimedOut(Duration),
    Cancelled,
}

/// Runs the permitted call: once, or once more where that is safe and has been recorded.
pub(crate) async fn call(
    server: &Server,
    permit: Permit,
    attempts: &dyn Attempts,
    cancel: &CancellationToken,
) -> Result<ToolOutput, InvokeError> {
    let name = server.entry.name().to_string();
    let not_sent = |why: String| InvokeError::NotSent { server: name.clone(), why };
    let link = match cancel.run_until_cancelled(server.link(LINK_WAIT)).await {
        Some(link) => link.map_err(not_sent)?,
        None => return Err(InvokeError::Withdrawn { server: name }),
    };
    let notices = attempts.notices();
    let first = attempt(server, &link, &permit, &notices, cancel).await;
    let again = match &first {
        Attempt::SessionUnknown => {
            server.renew(link.generation);
            Some("the server had forgotten its session, so the call was not run")
        }
        Attempt::Lost(_) if permit.call().read_only() => Some("the answer was lost, and the tool only reads"),
        Attempt::TimedOut(_) if permit.call().read_only() => {
            Some("the server was too slow, and the tool only reads")
        }
        _ => None,
    };
    let last = match again {
        Some(why) if !cancel.is_cancelled() => {
            // A session that cannot be made again is no reason to keep the caller waiting; a lost answer is.
            let patient = !matches!(first, Attempt::SessionUnknown);
            let next = Next { server, link: &link, patient, why };
            second(next, &permit, attempts, cancel).await.unwrap_or(first)
        }
        _ => first,
    };
    drop(permit);
    conclude(server, last)
}

/// What a second sending starts from.
struct Next<'a> {
    server: &'a Server,
    link: &'a Arc<Link>,
    patient: bool,
    why: &'static str,
}

/// The second sending. `None`: it did not come to that, so the first one's end stands.
async fn second(
    Next { server, link, patient, why }: Next<'_>,
    permit: &Permit,
    attempts: &dyn Attempts,
    cancel: &CancellationToken,
) -> Option<Attempt> {
    let is_current =
        matches!(server.link(Duration::ZERO).await, Ok(now) if now.generation == link.generation);
    let usable =
        is_current && !link.peer.is_transport_closed() && *server.outdated.borrow() < link.generation;
    let link = if usable {
        Arc::clone(link)
    } else {
        cancel.run_until_cancelled(server.next_link(link.generation, patient, LINK_WAIT)).await?.ok()?
    };
    if let Err(error) = attempts.retrying(why).await {
        tracing::warn!(server = %server.entry.name(), %error, "a second attempt could not be recorded; it is not made");
        return None;
    }
    match attempt(server, &link, permit, &attempts.notices(), cancel).await {
        // What is known of the first sending is not undone by the second not leaving.
        Attempt::NotSent(_) | Attempt::Withdrawn => None,
        second => Some(second),
    }
}

/// Sends the call once.
#[expect(clippy::disallowed_methods, reason = "the one place that sends a tool call, with a permit for it")]
async fn attempt(
    server: &Server,
    link: &Link,
    permit: &Permit,
    notices: &Notices,
    cancel: &CancellationToken,
) -> Attempt {
    let call = permit.call();
    let tool = call.tool().tool();
    if call.server() != server.identity || link.tools.get(tool) != Some(&call.definition()) {
        return Attempt::NotSent(
            "the tool is not offered any more as it was when the call was judged".to_owned(),
        );
    }
    let Value::Object(arguments) = call.arguments().to_value() else {
        return Attempt::NotSent("the arguments are not an object".to_owned());
    };
    let limit = server.entry.timeout_of(tool.as_str(), server.general_timeout);
    let deadline = Instant::now() + limit;
    let params = CallToolRequestParams::new(tool.as_str().to_owned()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sending = link.peer.send_cancellable_request(request, options(notices));
    let mut handle = tokio::select! {
        biased;
        () = cancel.cancelled() => return Attempt::Withdrawn,
        sent = sending => match sent {
            Ok(handle) => handle,
            Err(_) => return Attempt::NotSent("the connection has ended".to_owned()),
        },
        () = sleep_until(deadline) => return Attempt::NotSent("too many calls are waiting for it".to_owned()),
    };
    link.ledger.listen(&handle.id, &handle.progress_token, notices.clone());
    let open = OpenCall { ledger: &link.ledger, id: handle.id.clone() };
    tokio::select! {
        biased;
        answer = &mut handle.rx => match answer {
            Ok(Ok(result)) => answered(server, result),
            Ok(Err(error)) => failed(server, &open, &error),
            Err(_) => open.unsent_or(Attempt::Lost("the connection ended".to_owned())),
        },
        () = cancel.cancelled() => {
            if open.withdraw() {
                return Attempt::Withdrawn;
            }
            tell_cancelled(handle, "the caller cancelled").await;
            Attempt::Cancelled
        }
        () = sleep_until(deadline) => {
            if open.withdraw() {
                return Attempt::NotSent("it did not take the call in time".to_owned());
            }
            tell_cancelled(handle, "time-out").await;
            Attempt::TimedOut(limit)
        }
    }
}

/// In the newer era a server logs only for those who ask for it, call by call.
fn options(notices: &Notices) -> PeerRequestOptions {
    let options = PeerRequestOptions::no_options();
    let Some(level) = notices.log_level() else { return options };
    let mut meta = RequestMetaObject::default();
    meta.0.0.insert("io.modelcontextprotocol/logLevel".to_owned(), level.into());
    options.with_meta(meta)
}

/// A call that has been handed to the transport; its entry in the ledger goes with it.
struct OpenCall<'a> {
    ledger: &'a Ledger,
    id: RequestId,
}

impl OpenCall<'_> {
    /// `true`: it was not written and never will be.
    fn withdraw(&self) -> bool {
        self.ledger.withdraw(&self.id)
    }

    fn unsent_or(&self, otherwise: Attempt) -> Attempt {
        if self.withdraw() {
            return Attempt::NotSent("the connection ended before the call was sent".to_owned());
        }
        otherwise
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.ledger.end(&self.id);
    }
}

/// Tells the server, under the id that it knows the call by. Bounded, and a failure changes nothing.
async fn tell_cancelled(handle: RequestHandle<RoleClient>, reason: &str) {
    timeout(CANCEL_WAIT, handle.cancel(Some(reason.to_owned()))).await.ok();
}

fn answered(server: &Server, result: ServerResult) -> Attempt {
    let result = wire::as_sent(result);
    if !result.is_object() {
        return Attempt::Lost("its answer is no result".to_owned());
    }
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {
            let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
            Attempt::Answered(ToolOutput { result, is_error })
        }
        Some("input_required") => {
            Attempt::Refused("it asks for more input, which is not offered here".to_owned())
        }
        Some("task") => Attempt::Refused("it answers with a task, which is not offered here".to_owned()),
        Some(other) => {
            Attempt::Lost(server.masks.show(&format!("it answers in a way that is not known: `{other}`")))
        }
    }
}

fn failed(server: &Server, open: &OpenCall<'_>, error: &ServiceError) -> Attempt {
    let transport = match error {
        ServiceError::McpError(error) => return Attempt::Refused(server.masks.show(&error.message)),
        ServiceError::TransportSend(error) => &error.error,
        _ => return open.unsent_or(Attempt::Lost("the connection ended".to_owned())),
    };
    if let Some(fault) = transport.downcast_ref::<StdioFault>() {
        return match fault {
            StdioFault::Unwritten | StdioFault::Withdrawn => Attempt::NotSent(fault.to_string()),
            StdioFault::Torn | StdioFault::Closed => open.unsent_or(Attempt::Lost(fault.to_string())),
        };
    }
    match transport.downcast_ref::<Fault>() {
        Some(StreamableHttpError::SessionExpired) => Attempt::SessionUnknown,
        Some(StreamableHttpError::AuthRequired(_)) => {
            Attempt::Refused("it asks for authorization".to_owned())
        }
        Some(StreamableHttpError::Client(fault)) => match fault {
            HttpFault::NotConnected(_) | HttpFault::Withdrawn => Attempt::NotSent(fault.to_string()),
            HttpFault::Status(status) if says_not_accepted(*status) => Attempt::Refused(fault.to_string()),
            HttpFault::Status(_) | HttpFault::Broken(_) => Attempt::Lost(fault.to_string()),
        },
        Some(StreamableHttpError::ResponseBodyTooLarge { .. }) => {
            Attempt::Lost("its answer is larger than 16 MiB".to_owned())
        }
        _ => open.unsent_or(Attempt::Lost("the connection ended".to_owned())),
    }
}

/// A client error says that the request was not accepted. Not so 408 and 499, which proxies send for requests that
/// they have passed on.
fn says_not_accepted(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 499)
}

fn conclude(server: &Server, last: Attempt) -> Result<ToolOutput, InvokeError> {
    let name = server.entry.name().to_string();
    Err(match last {
        Attempt::Answered(output) => return Ok(output),
        Attempt::Refused(why) => InvokeError::Refused { server: name, why },
        Attempt::NotSent(why) => InvokeError::NotSent { server: name, why },
        Attempt::Withdrawn => InvokeError::Withdrawn { server: name },
        Attempt::SessionUnknown => {
            InvokeError::NotSent { server: name, why: "it does not know its own sessions".to_owned() }
        }
        Attempt::Lost(why) => InvokeError::AnswerLost { server: name, why },
        Attempt::TimedOut(limit) => InvokeError::TimedOut { server: name, seconds: limit.as_secs() },
        Attempt::Cancelled => InvokeError::Cancelled { server: name },
    })
}
