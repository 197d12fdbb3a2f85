use super::*;
use proptest::prelude::*;

fn list(folder: Option<&str>) -> Intent {
    Intent::ListFiles { folder: folder.map(Into::into) }
}
fn read(path: &str) -> Intent {
    Intent::ReadFile { path: path.into() }
}
fn write(path: &str, content: &str) -> Intent {
    Intent::WriteFile { path: path.into(), content: content.into() }
}
fn moved(from: &str, to: &str) -> Intent {
    Intent::MoveFile { from: from.into(), to: to.into() }
}
fn delete(path: &str) -> Intent {
    Intent::DeleteFile { path: path.into() }
}
fn remind(text: &str) -> Intent {
    Intent::AddReminder { text: text.into() }
}
fn forget(which: &str) -> Intent {
    Intent::DeleteReminder { which: which.into() }
}
fn send(to: &str, text: &str) -> Intent {
    Intent::SendMessage { to: to.into(), text: text.into() }
}
fn switch(device: &str, on: bool) -> Intent {
    Intent::SwitchDevice { device: device.into(), on }
}
fn lock(door: &str) -> Intent {
    Intent::LockDoor { door: door.into() }
}
fn unlock(door: &str) -> Intent {
    Intent::UnlockDoor { door: door.into() }
}

fn one(message: &str) -> Intent {
    let Understood { intents, rest } = understand(message);
    assert!(rest.is_empty() && intents.len() == 1, "`{message}`: {intents:?}, left {rest:?}");
    intents.into_iter().next().unwrap()
}

#[test]
fn files_are_listed_in_many_words() {
    for message in [
        "list the files",
        "List files",
        "list all files please",
        "ls",
        "dir",
        "show me the files",
        "what files are there?",
        "which files do you have",
        "Could you list the files in the sandbox?",
        "what is in the sandbox",
        "show me all my files",
        "hi! can you please list the files now",
        "are there any files?",
        "tell me which files there are",
        "1. list files",
        "do I have any files?",
        "list the folder",
    ] {
        assert_eq!(one(message), list(None), "{message}");
    }
    for message in [
        "list the files in docs",
        "list files in the folder docs",
        "show the files in the docs folder",
        "ls docs/",
        "what files are in the directory docs?",
        "list the folder docs",
        "what is in the folder docs?",
    ] {
        assert_eq!(one(message), list(Some("docs")), "{message}");
    }
}

#[test]
fn files_are_read_in_many_words() {
    for message in [
        "read notes.txt",
        "Read the file notes.txt.",
        "what is in notes.txt?",
        "What's in notes.txt",
        "open notes.txt",
        "show me notes.txt",
        "show me the contents of notes.txt",
        "please read \"notes.txt\"",
        "cat notes.txt",
        "tell me what notes.txt says",
        "what does the file notes.txt contain?",
        "contents of notes.txt",
        "read me notes.txt",
        "can you read `notes.txt` for me?",
        "I would like to see notes.txt",
        "What does notes.txt say?",
        "display 'notes.txt'!",
        "read notes.txt aloud",
    ] {
        assert_eq!(one(message), read("notes.txt"), "{message}");
    }
    assert_eq!(one("read the file called notes"), read("notes"));
    assert_eq!(one("read README"), read("README"));
    assert_eq!(one("read \"my notes, old and new.txt\""), read("my notes, old and new.txt"));
    assert_eq!(one("read “über uns.md”"), read("über uns.md"));
    assert_eq!(one("read ../../etc/passwd"), read("../../etc/passwd"));
    assert_eq!(one("read Notes.TXT"), read("Notes.TXT"));
}

#[test]
fn files_are_written_with_exactly_the_text_given() {
    for (message, path, content) in [
        ("write notes.txt: some text", "notes.txt", "some text"),
        ("Write notes.txt: Some text, and more. Really!", "notes.txt", "Some text, and more. Really!"),
        ("write notes.txt : x", "notes.txt", "x"),
        ("write notes.txt:x", "notes.txt", "x"),
        ("please write to notes.txt: hello world", "notes.txt", "hello world"),
        ("write \"my notes.txt\": a;b", "my notes.txt", "a;b"),
        (
            "write notes.txt: \"list the files, then delete a.txt\"",
            "notes.txt",
            "list the files, then delete a.txt",
        ),
        ("write notes.txt:\nline one\n  line two", "notes.txt", "line one\n  line two"),
        ("create a file called notes.txt with the text hello", "notes.txt", "hello"),
        ("create notes.txt with content: hello there", "notes.txt", "hello there"),
        ("create the file notes.txt containing hello", "notes.txt", "hello"),
        ("save \"a, b and c\" in notes.txt", "notes.txt", "a, b and c"),
        ("write hello world to notes.txt", "notes.txt", "hello world"),
        ("put the text \"hello\" into the file notes.txt", "notes.txt", "hello"),
        ("write notes.txt \"hello\"", "notes.txt", "hello"),
        ("write notes.txt hello", "notes.txt", "hello"),
        ("create an empty file notes.txt", "notes.txt", ""),
        ("write notes.txt: \"\"", "notes.txt", ""),
        ("write a/b.md: # Title: 1", "a/b.md", "# Title: 1"),
        ("write notes.txt: buy milk, please, thanks", "notes.txt", "buy milk, please, thanks"),
        ("write notes.txt: meet at 9:30 and bring   cake", "notes.txt", "meet at 9:30 and bring   cake"),
    ] {
        assert_eq!(one(message), write(path, content), "{message}");
    }
}

#[test]
fn files_are_moved_and_deleted() {
    for message in [
        "move notes.txt to archive/notes.txt",
        "rename notes.txt to archive/notes.txt",
        "mv notes.txt archive/notes.txt",
        "move the file notes.txt into archive/",
        "please move notes.txt to the folder archive",
        "move 'notes.txt' to the archive folder",
    ] {
        assert_eq!(one(message), moved("notes.txt", "archive/notes.txt"), "{message}");
    }
    assert_eq!(one("rename \"a b.txt\" to \"c d.txt\""), moved("a b.txt", "c d.txt"));
    for message in [
        "delete notes.txt",
        "Remove the file notes.txt!",
        "rm notes.txt",
        "please erase \"notes.txt\"",
        "could you delete notes.txt?",
    ] {
        assert_eq!(one(message), delete("notes.txt"), "{message}");
    }
}

#[test]
fn reminders_are_listed_added_and_deleted() {
    for message in [
        "list reminders",
        "list my reminders",
        "what reminders do I have?",
        "show me the reminders",
        "my reminders",
        "do I have any reminders?",
        "which reminders are there",
        "tell me my reminders",
    ] {
        assert_eq!(one(message), Intent::ListReminders, "{message}");
    }
    for message in [
        "remind me to buy milk",
        "add a reminder to buy milk",
        "create a reminder: buy milk",
        "set a reminder for buy milk",
        "add reminder buy milk",
        "new reminder: buy milk",
        "add \"buy milk\" to my reminders",
        "Please remind me to buy milk",
        "add a reminder saying \"buy milk\"",
        "reminder: buy milk",
    ] {
        assert_eq!(one(message), remind("buy milk"), "{message}");
    }
    assert_eq!(
        one("remind me to buy milk, bread and eggs at 9:30"),
        remind("buy milk, bread and eggs at 9:30")
    );
    for (message, which) in [
        ("delete reminder 2", "2"),
        ("remove the reminder number 2", "2"),
        ("delete reminder #2", "2"),
        ("delete the reminder to buy milk", "buy milk"),
        ("cancel my dentist reminder", "dentist"),
        ("delete the reminder \"buy milk and bread\"", "buy milk and bread"),
    ] {
        assert_eq!(one(message), forget(which), "{message}");
    }
}

#[test]
fn messages_are_sent() {
    for message in [
        "send a message to reception: dinner at 7",
        "send reception a message: dinner at 7",
        "send \"dinner at 7\" to reception",
        "send a message to reception saying dinner at 7",
        "message reception: dinner at 7",
        "text reception that dinner at 7",
        "send a message to reception \"dinner at 7\"",
        "send the message \"dinner at 7\" to reception",
        "write a message to reception: dinner at 7",
        "tell reception that dinner at 7",
        "send dinner at 7 to reception",
        "please send reception the message 'dinner at 7'",
    ] {
        assert_eq!(one(message), send("reception", "dinner at 7"), "{message}");
    }
    assert_eq!(
        one("send a message to the whole team: it works. Thanks, all!"),
        send("whole team", "it works. Thanks, all!")
    );
}

#[test]
fn devices_and_doors() {
    for message in [
        "list devices",
        "what devices are there?",
        "show me the devices",
        "which lights are on?",
        "is the door locked?",
        "list all my devices",
    ] {
        assert_eq!(one(message), Intent::ListDevices, "{message}");
    }
    for message in [
        "turn on the kitchen light",
        "turn the kitchen light on",
        "switch on the kitchen light",
        "kitchen light on",
    ] {
        assert_eq!(one(message), switch("kitchen light", true), "{message}");
    }
    assert_eq!(one("please switch the light off"), switch("light", false));
    assert_eq!(one("lights off"), switch("lights", false));
    assert_eq!(one("lock the door"), lock("door"));
    assert_eq!(one("Unlock the front door, please!"), unlock("front door"));
}

#[test]
fn several_in_one_message_keep_their_order() {
    let Understood { intents, rest } = understand(
        "Hi! List the files, write notes.txt: buy milk and eggs, then read it and delete old.txt. Lock the door; \
         turn on the hall light and the kitchen light off\nremind me to call home and send a message to reception: hi, you. \
         Then read a.txt, b.txt and \"c d.txt\", please. Thank you.",
    );
    assert_eq!(rest, Vec::<String>::new());
    assert_eq!(
        intents,
        [
            list(None),
            write("notes.txt", "buy milk and eggs"),
            read("notes.txt"),
            delete("old.txt"),
            lock("door"),
            switch("hall light", true),
            switch("kitchen light", false),
            remind("call home"),
            send("reception", "hi, you"),
            read("a.txt"),
            read("b.txt"),
            read("c d.txt"),
        ]
    );
    assert_eq!(
        understand("1. unlock the door\n2. delete a.txt\n3) list reminders").intents,
        [unlock("door"), delete("a.txt"), Intent::ListReminders]
    );
    assert_eq!(understand("delete a.txt b.txt").intents, [delete("a.txt"), delete("b.txt")]);
}

#[test]
fn what_is_not_understood_is_said_and_nothing_is_made_up() {
    for message in [
        "what can you do?",
        "tell me a joke",
        "read a book",
        "delete everything",
        "who are you",
        "write a poem about the sea",
        "what is 2.5 plus 3",
        "move on to the next topic",
        "delete it",
        "turn the page",
        "lock and load",
        "remind me",
        "unlock your potential",
        "what is the meaning of life?",
        "read it",
        "open the door",
        "see https://example.org/a.txt",
    ] {
        assert_eq!(understand(message).intents, [], "{message}");
    }
    let mixed = understand("tell me a joke, list the files and dance");
    assert_eq!(mixed.intents, [list(None)]);
    assert_eq!(mixed.rest, ["tell me a joke", "dance"]);
    assert_eq!(understand("hello, please"), Understood::default());
}

/// A request, with what it means.
fn request() -> impl Strategy<Value = (String, Intent)> {
    let name = "[a-z]{1,6}\\.(txt|md)|[a-z]{1,4}/[a-z]{1,4}\\.txt";
    prop_oneof![
        Just(("list the files".to_owned(), list(None))),
        name.prop_map(|name| (format!("read {name}"), read(&name))),
        name.prop_map(|name| (format!("what is in {name}?"), read(&name))),
        (name, "x[a-z ]{0,8}x")
            .prop_map(|(name, text)| (format!("write {name}: {text}"), write(&name, &text))),
        (name, name).prop_map(|(a, b)| (format!("move {a} to {b}"), moved(&a, &b))),
        name.prop_map(|name| (format!("delete {name}"), delete(&name))),
        Just(("list reminders".to_owned(), Intent::ListReminders)),
        "x[a-z ]{0,8}x".prop_map(|text| (format!("add a reminder: {text}"), remind(&text))),
        Just(("delete reminder 3".to_owned(), forget("3"))),
        "x[a-z ]{0,8}x"
            .prop_map(|text| (format!("send a message to reception: {text}"), send("reception", &text))),
        Just(("list devices".to_owned(), Intent::ListDevices)),
        any::<bool>().prop_map(|on| (
            format!("turn {} the hall light", if on { "on" } else { "off" }),
            switch("hall light", on)
        )),
        Just(("lock the door".to_owned(), lock("door"))),
        Just(("unlock the front door".to_owned(), unlock("front door"))),
    ]
}

proptest! {
    #[test]
    fn any_requests_in_any_order_and_number_are_understood(
        requests in prop::collection::vec((request(), prop::sample::select(vec![", ", ". ", "; ", "\n", " and ", ", then ", " and then ", ", and "])), 1..9),
    ) {
        let mut message = String::new();
        for (at, ((text, _), join)) in requests.iter().enumerate() {
            if at > 0 {
                message.push_str(join);
            }
            message.push_str(text);
        }
        let wanted: Vec<Intent> = requests.into_iter().map(|((_, intent), _)| intent).collect();
        let Understood { intents, rest } = understand(&message);
        prop_assert_eq!(&intents, &wanted, "{}", message);
        prop_assert_eq!(rest, Vec::<String>::new());
    }

    #[test]
    fn any_text_is_read_without_panic(message in "\\PC{0,80}|([a-z.:\"', \n]|read |write |delete |remind |send |turn ){0,30}") {
        let understood = understand(&message);
        prop_assert!(understood.intents.len() + understood.rest.len() <= message.len());
    }
}
