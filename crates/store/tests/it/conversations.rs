//! Conversations, messages, turns.

use crate::support::{House, conversation, person};
use sluicegate_policy::ConversationId;
use sluicegate_store::{Appended, NewConversation, NewMessage};

fn new(id: &ConversationId, title: &str, owner: &str) -> NewConversation {
    NewConversation {
        id: id.clone(),
        title: title.to_owned(),
        owner: person(owner),
        provider: "demo".to_owned(),
        model: "demo".to_owned(),
        system: "be brief".to_owned(),
    }
}

fn said(body: &str) -> NewMessage {
    NewMessage { kind: "user".to_owned(), body: body.to_owned() }
}

#[tokio::test]
async fn messages_are_appended_in_order_and_two_writers_cannot_interleave() {
    let house = House::new().await;
    let conversations = house.store.conversations();
    let id = conversation("c-1");
    assert_eq!(conversations.append(&id, 0, vec![said("1")]).await.unwrap(), Appended::NotFound);
    conversations.create(new(&id, "First", "admin")).await.unwrap();
    assert!(conversations.create(new(&id, "Again", "admin")).await.is_err());
    assert_eq!(conversations.append(&id, 0, vec![said("1"), said("2")]).await.unwrap(), Appended::Done(2));
    let (one, two) = tokio::join!(
        conversations.append(&id, 2, vec![said("a1"), said("a2")]),
        conversations.append(&id, 2, vec![said("b1"), said("b2")]),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(matches!(
        (one, two),
        (Appended::Done(4), Appended::Conflict(4)) | (Appended::Conflict(4), Appended::Done(4))
    ));
    let page = conversations.messages(&id, 0, 3).await.unwrap();
    assert_eq!(page.rows.iter().map(|message| message.position).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(page.next, Some(3));
    let page = conversations.messages(&id, 3, 3).await.unwrap();
    assert_eq!((page.rows.len(), page.next), (1, None));
}

#[tokio::test]
async fn a_list_is_of_ones_own_conversations_the_last_changed_first_in_pages_and_by_title() {
    let house = House::new().await;
    let conversations = house.store.conversations();
    for n in 0..7 {
        let title = if n == 3 { "100% of the Order".to_owned() } else { format!("Talk {n}") };
        conversations.create(new(&conversation(&format!("c-{n}")), &title, "admin")).await.unwrap();
        // Two at the same moment, so that the id decides.
        house.clock.advance(i64::from(n % 2));
    }
    conversations.create(new(&conversation("other"), "Talk of others", "boss")).await.unwrap();
    house.clock.advance(10);
    conversations.append(&conversation("c-0"), 0, vec![said("hello")]).await.unwrap();
    let owner = person("admin");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = conversations.list(&owner, None, after, 2).await.unwrap();
        seen.extend(page.rows.iter().map(|row| row.id.to_string()));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
    assert_eq!(seen[0], "c-0", "the one that changed last");
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 7);
    let found = async |text: &str| {
        let page = conversations.list(&owner, Some(text), None, 10).await.unwrap();
        page.rows.into_iter().map(|row| row.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("ORDER").await, ["c-3"]);
    assert_eq!(found("0%").await, ["c-3"]);
    assert_eq!(found("T%k").await, Vec::<String>::new());
    assert_eq!(found("others").await, Vec::<String>::new());
    // Also by what was said, as it was said; results of tools are not searched.
    let said = |kind: &str, text: &str| NewMessage {
        kind: kind.to_owned(),
        body: serde_json::json!({ "text": text }).to_string(),
    };
    let messages = vec![said("user", "say \"Hi\"\nto Åsa"), said("tool_results", "secret")];
    conversations.append(&conversation("c-5"), 0, messages).await.unwrap();
    for text in ["SAY \"hi\"\nTO", "to Åsa"] {
        assert_eq!(found(text).await, ["c-5"], "{text}");
    }
    assert_eq!(found("secret").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_conversation_can_be_renamed_given_another_model_and_deleted_but_its_calls_and_usage_stay() {
    let house = House::new().await;
    let conversations = house.store.conversations();
    let id = conversation("c-1");
    conversations.create(new(&id, "First", "admin")).await.unwrap();
    assert!(conversations.rename(&id, "Second").await.unwrap());
    assert!(conversations.choose_model(&id, "ollama", "any").await.unwrap());
    let stored = conversations.get(&id).await.unwrap().unwrap();
    assert_eq!(
        (stored.title.as_str(), stored.provider.as_str(), stored.model.as_str()),
        ("Second", "ollama", "any")
    );
    assert_eq!((stored.owner.as_str(), stored.system.as_str()), ("admin", "be brief"));
    let (call, _) = house.held().await;
    let caller = crate::support::asker().principal.caller;
    conversations.add_usage(&id, &caller, 1, 2, false).await.unwrap();
    conversations.append(&id, 0, vec![said("hello")]).await.unwrap();
    conversations.turn_started(&id, "t-1").await.unwrap();
    assert!(conversations.delete(&id).await.unwrap());
    assert!(!conversations.delete(&id).await.unwrap());
    assert!(!conversations.rename(&id, "Third").await.unwrap());
    assert!(conversations.get(&id).await.unwrap().is_none());
    assert!(conversations.messages(&id, 0, 10).await.unwrap().rows.is_empty());
    assert!(conversations.unfinished_turns().await.unwrap().is_empty());
    assert_eq!(house.story(call).await.call.conversation, Some(id.clone()));
    assert_eq!(conversations.usage_of(&id).await.unwrap().output, 2);
}

#[tokio::test]
async fn f27_a_restart_finds_the_turns_that_were_cut_off() {
    let house = House::new().await;
    let conversations = house.store.conversations();
    let id = conversation("c-1");
    assert!(conversations.turn_started(&id, "t-0").await.is_err(), "there is no such conversation");
    conversations.create(new(&id, "First", "admin")).await.unwrap();
    for turn in ["t-1", "t-2"] {
        conversations.turn_started(&id, turn).await.unwrap();
    }
    assert!(conversations.turn_ended(&id, "t-1", "answered").await.unwrap());
    assert!(!conversations.turn_ended(&id, "t-1", "again").await.unwrap());
    assert!(!conversations.turn_ended(&id, "t-9", "never began").await.unwrap());
    let House { store, folder, clock, calls, .. } = house;
    drop((store, calls, conversations));
    let house = House::at(folder, clock).await;
    let cut = house.store.conversations().unfinished_turns().await.unwrap();
    assert_eq!(cut.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t-2"]);
    assert_eq!(cut[0].conversation, id);
}
