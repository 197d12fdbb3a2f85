//! Token budgets in the middle of a turn.

use super::house::{House, answer, budget, call, text, usage};
use super::note;
use crate::harness::model::After;
use serde_json::json;
use sluicegate::agent::{AgentSettings, NoteKind, TurnEnd};
use sluicegate_gateway::ReasonCode;

#[tokio::test]
async fn f08_usage_is_counted_before_the_calls_of_the_same_answer() {
    // Mostly thinking: it counts like the rest.
    let first = answer(&[call("files__read", "a")], Some("STOP"), Some(usage(300, 200, 9_600)));
    let house =
        House::with(budget(10_000, "conversation"), AgentSettings::default(), [first, text("never asked")])
            .await;
    let id = house.conversation().await;
    let report = house.say(&id, "read a").await;
    assert_eq!(report.calls[0].code, Some(ReasonCode::OverBudget), "the gate sees the usage mid-turn");
    assert_eq!(house.tools.ran(), [""; 0]);
    assert_eq!(report.end, TurnEnd::BudgetReached);
    assert_eq!(house.model.received().len(), 1, "the model is not asked again");
    assert!(report.note.unwrap().contains("rule `budget`: 10100 of 10000 tokens"));
    let rows = house.audit("budget_reached").await;
    assert_eq!((rows.len(), &rows[0].0["rules"]), (1, &json!(["budget"])));
    assert_eq!(note(&house.entries(&id).await), Some(NoteKind::BudgetReached));
}

#[tokio::test]
async fn f08_the_count_survives_a_restart() {
    let first = answer(&[json!({ "text": "ok" })], Some("STOP"), Some(usage(9_000, 1_000, 0)));
    let house = House::with(budget(10_000, "conversation"), AgentSettings::default(), [first]).await;
    let id = house.conversation().await;
    assert_eq!(house.say(&id, "hello").await.end, TurnEnd::Answered);
    let House { agent, running, store, folder, .. } = house;
    drop((agent, running));
    store.close().await;

    let house = House::at(folder, AgentSettings::default(), [text("never asked")]).await;
    assert_eq!(house.say(&id, "hello again").await.end, TurnEnd::BudgetReached);
    assert_eq!(house.model.received().len(), 0);
}

#[tokio::test]
async fn f08_usage_that_is_not_told_is_estimated_marked_and_counted() {
    let silent = answer(&[json!({ "text": "word ".repeat(600) })], Some("STOP"), None);
    let house = House::with(budget(1_500, "conversation"), AgentSettings::default(), [silent]).await;
    let id = house.conversation().await;
    let report = house.say(&id, "hello").await;
    assert!(report.usage.estimated && report.usage.output >= 1_000, "{:?}", report.usage);
    let totals = house.store.conversations().usage_of(&id).await.unwrap();
    assert_eq!(totals.estimated, totals.input + totals.output);
    assert_eq!(totals.input + totals.output, report.usage.total);
    assert_eq!(house.say(&id, "more").await.end, TurnEnd::BudgetReached);
}

#[tokio::test]
async fn f08_an_answer_that_breaks_off_is_counted_too() {
    let told = answer(&[json!({ "text": "half" })], None, Some(usage(4_000, 5_000, 0))).then(After::Cut);
    let untold = answer(&[json!({ "text": "half" })], None, None).then(After::Cut);
    for (broken, least) in [(told, 9_000), (untold, 500)] {
        let house = House::new([broken]).await;
        let id = house.conversation().await;
        let report = house.say(&id, "hello").await;
        assert_eq!(report.end, TurnEnd::ModelFailed);
        let totals = house.store.conversations().usage_of(&id).await.unwrap();
        assert!(totals.input + totals.output >= least, "{totals:?}");
    }
}

#[tokio::test]
async fn f08_a_budget_of_zero_means_none() {
    let house = House::with(budget(0, "conversation"), AgentSettings::default(), [text("never asked")]).await;
    let id = house.conversation().await;
    assert_eq!(house.say(&id, "hello").await.end, TurnEnd::BudgetReached);
    assert_eq!(house.model.received().len(), 0);
}

#[tokio::test]
async fn f08_twenty_chats_that_start_at_once_do_not_share_one_rest() {
    // The first answer uses all but a thousand; of twenty further chats one may be asked, and its answer hangs.
    let first = answer(&[json!({ "text": "ok" })], Some("STOP"), Some(usage(49_000, 0, 0)));
    let hanging = || answer(&[json!({ "text": "thinking" })], None, None).then(After::Silence);
    let script = std::iter::once(first).chain((0..20).map(|_| hanging()));
    let house = House::with(budget(50_000, "caller_day"), AgentSettings::default(), script).await;
    let id = house.conversation().await;
    house.say(&id, "use it up").await;

    let mut chats = Vec::new();
    for _ in 0..20 {
        chats.push(house.conversation().await);
    }
    let begun = futures::future::join_all(chats.iter().map(|id| house.begin(id, "me first"))).await;
    let ends = futures::stream::FuturesUnordered::new();
    for turn in begun {
        ends.push(turn.finished());
    }
    let ended: Vec<_> = futures::StreamExt::collect(futures::StreamExt::take(ends, 19)).await;
    assert!(ended.iter().all(|report| report.as_ref().unwrap().end == TurnEnd::BudgetReached), "{ended:?}");
    let still: Vec<_> = chats.iter().filter(|id| house.agent.running(id).is_some()).collect();
    assert_eq!(still.len(), 1);
    assert_eq!(house.model.received().len(), 2);
    assert!(house.agent.stop(still[0]));
}
