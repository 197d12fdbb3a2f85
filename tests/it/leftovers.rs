//! F11: what becomes of server processes when the product is killed and cannot end them.

use crate::harness::page::Browser;
use crate::harness::server::Setup;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tells its number, and ends when its input closes.
const WELL: &str = "echo $$ > well.pid; cat > /dev/null";
/// Does not look at its input, and ignores the polite signal.
const DEAF: &str = "trap '' TERM; echo $$ > deaf.pid; while true; do sleep 1000; done";
/// Ends with its input, but what it started has a session of its own, as daemons have.
const DAEMON: &str = "setsid sh -c 'echo $$ > daemon.pid; exec sleep 1000' & cat > /dev/null";

fn lives(process: &Path) -> bool {
    // A process that has ended and was not yet waited for has no command line.
    std::fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty())
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let mut pause = tokio::time::interval(Duration::from_millis(10));
    let waiting = async {
        while !done() {
            pause.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

fn three_servers() -> Setup {
    let shell = |script: &str| json!({"command": "sh", "args": ["-c", script]});
    let servers = json!({"mcpServers": {"well": shell(WELL), "deaf": shell(DEAF), "daemon": shell(DAEMON)}});
    Setup::new().file("mcp_servers.json", servers.to_string()).env("PATH", "/usr/bin:/bin")
}

/// Waits until each of the three runs.
async fn processes(folder: &Path) -> [PathBuf; 3] {
    let names = ["well", "deaf", "daemon"];
    let number = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.pid")));
    let told = |name: &str| number(name).is_ok_and(|number| number.ends_with('\n'));
    until("the servers start", || names.iter().all(|name| told(name))).await;
    let processes = names.map(|name| PathBuf::from("/proc").join(number(name).unwrap().trim()));
    assert!(processes.iter().all(|process| lives(process)));
    processes
}

/// The kind: processes that gather with each hard kill of their parent.
#[tokio::test]
async fn f11_servers_of_a_killed_product_end_by_themselves_or_at_the_next_start() {
    let server = three_servers().start().await;
    let folder = server.shared_folder();
    let [well, deaf, daemon] = processes(folder.path()).await;
    let page = Browser::signed_in(&server).await.get("/settings").await;
    assert!(page.text("main").contains("found no server process of an earlier run"), "{}", page.text("main"));

    let setup = Setup::new();
    server.kill().await;
    until("a server that reads its input ends with it", || !lives(&well)).await;
    assert!(lives(&deaf) && lives(&daemon), "else there would be nothing to show");
    // Without the servers, so that every process found is of the first run.
    std::fs::remove_file(folder.path().join("mcp_servers.json")).unwrap();
    let server = setup.start_in(folder.clone()).await;
    assert!(!lives(&deaf) && !lives(&daemon), "they are ended before the product is ready");
    assert!(server.log().contains("server processes of an earlier run"), "{}", server.log());
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/settings").await;
    assert!(page.text("main").contains("that had outlived an earlier run"), "{}", page.text("main"));
    let trail = browser.get("/audit/events?kind=server_changed").await;
    assert!(trail.text("main").contains("processes ended"), "{}", trail.text("main"));
    // Another start has nothing to end, the shipped server's process included: a stop ends all.
    assert_eq!(server.stop().await.code(), Some(0));
    let server = Setup::new().start_in(folder).await;
    assert!(!server.log().contains("earlier run were still there"), "{}", server.log());
}

/// The kind: processes that remain after an orderly stop, by either signal.
#[tokio::test]
async fn f11_a_stop_leaves_no_process_wherever_it_went() {
    for signal in ["TERM", "INT"] {
        let server = three_servers().start().await;
        let folder = server.shared_folder();
        let processes = processes(folder.path()).await;
        server.signal(signal).await;
        let ended = server.ended().await;
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(!processes.iter().any(|process| lives(process)), "after SIG{signal}: {ended:?}");
    }
}
