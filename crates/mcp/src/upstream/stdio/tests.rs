use super::*;
use crate::servers::ServerEntry;
use crate::upstream::masking::Masks;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestId};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};

struct Far {
    output: DuplexStream,
    input: DuplexStream,
}

fn pipes(room: usize) -> (Pipes, Far, Arc<Ledger>) {
    let (output, ours_read) = tokio::io::duplex(room);
    let (ours_write, input) = tokio::io::duplex(room);
    let noise = Noise::new(Arc::new(Masks::of(&ServerEntry::stdio("s", "x", &[]).unwrap())));
    let ledger = Arc::new(Ledger::default());
    let pipes = Pipes::new(ours_read, ours_write, Arc::clone(&ledger), Arc::new(noise), Ended::default());
    (pipes, Far { output, input }, ledger)
}

fn call(id: i64, text: &str) -> ClientJsonRpcMessage {
    let arguments = serde_json::json!({ "text": text }).as_object().cloned().unwrap();
    let request = CallToolRequest::new(CallToolRequestParams::new("t").with_arguments(arguments));
    ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), RequestId::Number(id))
}

#[tokio::test]
async fn messages_are_whole_lines_in_the_order_of_sending() {
    let (mut pipes, far, _ledger) = pipes(16);
    let mut sends = Vec::new();
    for id in 0..5 {
        sends.push(pipes.send(call(id, "a\nb")));
    }
    let sends = futures::future::join_all(sends);
    let read = async {
        let mut lines = BufReader::new(far.input).lines();
        let mut ids = Vec::new();
        while ids.len() < 5 {
            let line: serde_json::Value =
                serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            ids.push(line["id"].as_i64().unwrap());
        }
        ids
    };
    let (sent, ids) = tokio::join!(sends, read);
    assert!(sent.into_iter().all(|sent| sent.is_ok()));
    assert_eq!(ids, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn f12_a_process_that_reads_no_more_has_not_been_sent_the_call() {
    let (mut pipes, far, _ledger) = pipes(64);
    drop(far.input);
    assert!(matches!(pipes.send(call(1, "a")).await, Err(StdioFault::Unwritten)));
}

#[tokio::test]
async fn f12_a_call_cut_while_it_was_written_may_have_been_read() {
    let (mut pipes, mut far, ledger) = pipes(64);
    let send = tokio::spawn(pipes.send(call(1, &"x".repeat(1000))));
    let mut start = [0; 10];
    far.input.read_exact(&mut start).await.unwrap();
    drop(far.input);
    assert!(matches!(send.await.unwrap(), Err(StdioFault::Torn)));
    assert!(!ledger.withdraw(&RequestId::Number(1)));
    // What comes after it does not leave at all.
    assert!(matches!(pipes.send(call(2, "a")).await, Err(StdioFault::Unwritten)));
}

#[tokio::test]
async fn f12_a_call_that_waits_behind_a_full_pipe_can_be_withdrawn() {
    let (mut pipes, mut far, ledger) = pipes(64);
    let first = tokio::spawn(pipes.send(call(1, &"x".repeat(1000))));
    let second = tokio::spawn(pipes.send(call(2, "never")));
    let mut start = [0; 10];
    far.input.read_exact(&mut start).await.unwrap();
    assert!(!ledger.withdraw(&RequestId::Number(1)));
    assert!(ledger.withdraw(&RequestId::Number(2)));
    let mut lines = BufReader::new(far.input).lines();
    assert!(lines.next_line().await.unwrap().unwrap().ends_with('}'));
    assert!(first.await.unwrap().is_ok());
    assert!(matches!(second.await.unwrap(), Err(StdioFault::Withdrawn)));
    pipes.close().await.unwrap();
    assert_eq!(lines.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn closing_closes_the_pipe_even_behind_a_stuck_write() {
    let (mut pipes, mut far, _ledger) = pipes(8);
    let stuck = tokio::spawn(pipes.send(call(1, &"x".repeat(1000))));
    let mut start = [0; 4];
    far.input.read_exact(&mut start).await.unwrap();
    pipes.close().await.unwrap();
    let mut rest = Vec::new();
    far.input.read_to_end(&mut rest).await.unwrap();
    assert!(matches!(stuck.await.unwrap(), Err(StdioFault::Closed)));
    assert!(pipes.send(call(2, "a")).await.is_err());
}

#[tokio::test]
async fn f10_a_last_message_without_its_line_end_is_delivered() {
    let (mut pipes, mut far, _ledger) = pipes(1024);
    far.output
        .write_all(b"bye\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}")
        .await
        .unwrap();
    drop(far.output);
    assert!(matches!(pipes.receive().await, Some(ServerJsonRpcMessage::Notification(_))));
    assert!(pipes.receive().await.is_none());
}
