//! F11, F16: processes are started with little, watched, and ended whole.

use crate::support::{FAR, House, Lives, launched, scripted};
use serde_json::{Value, json};
use sluicegate_gateway::ServerState;
use sluicegate_mcp::{PoolOptions, ServerEntry};
use std::time::Duration;

/// The process is gone and reaped.
fn is_gone(pid: &str) -> bool {
    !std::path::Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn f11_a_process_ends_when_its_input_closes_and_is_reaped() {
    let lives = Lives::new().await;
    let house = House::ready(vec![scripted("s", &json!({ "hold": lives.address() }))]).await;
    let mut life = lives.born().await;
    let pid = house.text("s", "pid", json!({})).await;
    assert!(!is_gone(&pid));
    assert!(house.control.shutdown(FAR).await);
    life.over().await;
    assert!(is_gone(&pid));
}

#[tokio::test]
async fn f11_the_true_server_behind_a_launcher_goes_with_it() {
    let lives = Lives::new().await;
    // It does not end when its input closes, and its launcher waits for it.
    let script = json!({ "hold": lives.address(), "linger": true });
    let house = House::ready(vec![launched("s", ":", &script)]).await;
    let mut life = lives.born().await;
    assert_eq!(house.text("s", "echo", json!({})).await, "{}");
    assert!(house.control.shutdown(FAR).await);
    life.over().await;
}

#[tokio::test]
async fn f11_a_server_that_outlives_its_launcher_and_every_polite_word_is_killed() {
    let lives = Lives::new().await;
    let script = json!({ "hold": lives.address(), "linger": true });
    // Ignored signals stay ignored in what the shell starts.
    let house = House::ready(vec![launched("s", "trap '' TERM", &script)]).await;
    let mut life = lives.born().await;
    assert!(house.control.shutdown(FAR).await);
    life.over().await;
}

#[tokio::test]
async fn f11_what_does_not_end_in_time_is_killed() {
    let lives = Lives::new().await;
    let script = json!({ "hold": lives.address(), "linger": true });
    let house = House::ready(vec![launched("s", "trap '' TERM", &script)]).await;
    let mut life = lives.born().await;
    assert!(!house.control.shutdown(Duration::from_millis(50)).await);
    life.over().await;
}

#[tokio::test]
async fn f11_dropping_the_control_ends_the_servers_too() {
    let lives = Lives::new().await;
    let house = House::ready(vec![scripted("s", &json!({ "hold": lives.address() }))]).await;
    let mut life = lives.born().await;
    drop(house.control);
    life.over().await;
}

#[tokio::test]
async fn f11_a_runtime_that_ends_leaves_no_process() {
    let lives = Lives::new().await;
    let script = json!({ "hold": lives.address(), "linger": true });
    // As when the product's main function returns without an orderly end.
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let house = House::ready(vec![launched("s", "trap '' TERM", &script)]).await;
            std::mem::forget(house.control);
        });
    })
    .join()
    .unwrap();
    lives.born().await.over().await;
}

#[tokio::test]
async fn f11_a_crash_loop_backs_off_and_shows_its_count_and_last_words() {
    let entries = vec![
        scripted("start", &json!({ "die": "start" })),
        scripted("hello", &json!({ "die": "hello" })),
        scripted("well", &json!({})),
    ];
    let began = tokio::time::Instant::now();
    let house = House::ready(entries).await;
    for server in ["start", "hello"] {
        let status = house
            .until(server, |status| {
                status.note.as_ref().is_some_and(|note| note.contains("3 times in a row"))
            })
            .await;
        assert!(status.note.as_deref().unwrap().contains("exit code 3"), "{status:?}");
    }
    // Half a second, then a second, each at least four fifths of it.
    assert!(began.elapsed() >= Duration::from_millis(1200));
    assert!(house.status("start").noise.contains(&"cannot go on".to_owned()));
    assert_eq!(house.text("well", "echo", json!({})).await, "{}");
    assert!(house.control.shutdown(FAR).await);
}

#[tokio::test(start_paused = true)]
async fn f11_a_command_that_is_not_there_is_tried_ever_less_often() {
    let entry = ServerEntry::stdio("s", "no-such-program-anywhere", &[]).unwrap();
    let (_pool, control) = sluicegate_mcp::connect(vec![entry], PoolOptions::default()).unwrap();
    let mut catalogue = sluicegate_gateway::Invoke::catalogue(&_pool);
    let began = tokio::time::Instant::now();
    loop {
        let note = catalogue.snapshot().servers()[0].note.clone().unwrap_or_default();
        if note.contains("9 times in a row") {
            break;
        }
        assert!(catalogue.changed().await);
    }
    // 0.5 + 1 + 2 + 4 + 8 + 16 + 30 + 30 s, give or take a fifth.
    let waited = began.elapsed().as_secs_f64();
    assert!((73.0..=110.0).contains(&waited), "{waited}");
    assert!(control.shutdown(FAR).await);
}

#[tokio::test]
async fn f11_a_server_that_dies_of_the_newer_era_s_question_is_asked_the_older_one_s() {
    let house = House::new(vec![scripted("s", &json!({ "die": "discover" }))]).await;
    let status = house.until_state("s", ServerState::Ready).await;
    assert_eq!(status.about.as_deref(), Some("scripted 1.0"));
    assert_eq!(house.text("s", "echo", json!({})).await, "{}");
}

#[tokio::test]
async fn f11_a_mute_server_is_given_up_in_bounded_time() {
    let lives = Lives::new().await;
    let script = json!({ "era": "mute", "hold": lives.address() });
    let options = PoolOptions { handshake_timeout: Duration::from_millis(300), ..PoolOptions::default() };
    let house = House::with(vec![scripted("s", &script)], options).await;
    let mut life = lives.born().await;
    assert!(house.control.ready(FAR).await);
    life.over().await;
    let note = house.until_state("s", ServerState::Unavailable).await.note.unwrap();
    assert!(note.contains("did not answer the handshake"), "{note}");
}

#[tokio::test]
async fn f11_a_server_that_ends_is_started_again() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let first = house.text("s", "pid", json!({})).await;
    house.call("s", "crash", json!({})).await;
    // Its tools stay listed while it is away.
    let down = house.until("s", |status| status.state != ServerState::Ready).await;
    assert!(!house.tools("s").is_empty(), "{down:?}");
    house.until_state("s", ServerState::Ready).await;
    assert_ne!(house.text("s", "pid", json!({})).await, first);
    assert!(is_gone(&first));
    assert!(house.status("s").noise.contains(&"out of luck".to_owned()));
}

#[tokio::test]
async fn f16_a_child_sees_a_short_base_list_and_what_its_entry_names() {
    let mut environment: Vec<_> = ["GEMINI_API_KEY", "SLUICEGATE_KEY", "DATABASE_URL", "CANARY"]
        .iter()
        .map(|name| (name.into(), "CANARY-VALUE".into()))
        .collect();
    environment.extend([("PATH".into(), "/usr/bin:/bin".into()), ("LC_ALL".into(), "C".into())]);
    let entry = scripted("s", &json!({})).with_env("EXTRA", "given").unwrap();
    let shown = format!("{entry:?}");
    assert!(shown.contains("EXTRA") && !shown.contains("given\""), "{shown}");
    let options = PoolOptions { environment, ..PoolOptions::default() };
    assert!(!format!("{options:?}").contains("CANARY"));
    let house = House::with(vec![entry], options).await;
    assert!(house.control.ready(FAR).await);
    let seen: Value = serde_json::from_str(&house.text("s", "env", json!({})).await).unwrap();
    assert_eq!(seen, json!({ "PATH": "/usr/bin:/bin", "LC_ALL": "C", "EXTRA": "given" }));
    // What the process list shows of it holds no value of its environment.
    let pid = house.text("s", "pid", json!({})).await;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("given"));
}
