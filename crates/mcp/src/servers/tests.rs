use super::*;

fn variables() -> BTreeMap<String, String> {
    BTreeMap::from([("KEY".to_owned(), "CANARY-VALUE".to_owned()), ("EMPTY".to_owned(), String::new())])
}

fn read(json: &str) -> Result<Vec<ServerEntry>, ServersError> {
    ServerEntry::read_list(json, &variables())
}

fn one(entry: &str) -> Result<ServerEntry, ServersError> {
    Ok(read(&format!(r#"{{ "mcpServers": {{ "s": {entry} }} }}"#))?.remove(0))
}

/// What is wrong with an entry, in the words that a person gets.
fn fault(entry: &str) -> String {
    let fault = one(entry).unwrap_err().to_string();
    assert!(!fault.contains("CANARY"), "{fault}");
    fault
}

#[test]
fn the_list_of_other_clients_is_read_as_it_is() {
    let list = r#"{
        "globalShortcut": "",
        "mcpServers": {
            "zoo": { "command": "npx", "args": ["-y", "zoo"], "env": { "TOKEN": "${KEY}" }, "cwd": "/tmp" },
            "plain": { "type": "stdio", "command": "plain" },
            "web": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "${KEY}" } },
            "web2": { "type": "streamable-http", "url": "http://127.0.0.1:1" },
            "bare": { "url": "https://example.com/mcp?project=1" },
            "off": { "command": "x", "disabled": true },
            "on": { "command": "x", "disabled": false, "autoApprove": ["a"], "description": "words" }
        }
    }"#;
    let entries = read(list).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| (entry.name().as_str(), entry.transport())).collect();
    assert_eq!(
        names,
        [
            ("zoo", "stdio"),
            ("plain", "stdio"),
            ("web", "http"),
            ("web2", "http"),
            ("bare", "http"),
            ("on", "stdio"),
        ]
    );
    let Reach::Stdio { command, args, env, cwd } = entries[0].reach() else { panic!() };
    assert_eq!((command.as_str(), args.as_slice()), ("npx", ["-y".to_owned(), "zoo".to_owned()].as_slice()));
    assert_eq!(env["TOKEN"].reveal(), "CANARY-VALUE");
    assert_eq!(cwd.as_deref(), Some(std::path::Path::new("/tmp")));
    assert_eq!(entries[2].given(), ["x-key"]);
    assert_eq!(
        entries[5].notes(),
        ["`autoApprove` is ignored: the rules decide which calls may run", "`description` is not read",]
    );
    assert!(!format!("{entries:?}").contains("CANARY"));
}

#[test]
fn faults_name_the_server_and_the_field() {
    let cases = [
        (r#"7"#, "is not an object"),
        (r#"{}"#, "`command` is missing, and so is `url`"),
        (r#"{ "command": " " }"#, "`command` is empty"),
        (r#"{ "command": 1 }"#, "`command` is not text"),
        (r#"{ "command": "x", "args": "a b" }"#, "`args` is not a list"),
        (r#"{ "command": "x", "args": [1] }"#, "`args` holds something that is not text"),
        (r#"{ "command": "x", "url": "https://a" }"#, "`command` stands beside `url`"),
        (r#"{ "type": "stdio", "url": "https://a" }"#, "`command` is missing"),
        (r#"{ "type": "http", "command": "x" }"#, "`url` is missing"),
        (r#"{ "type": "sse", "url": "https://a" }"#, "`type` is `sse`, the old transport"),
        (r#"{ "type": "carrier-pigeon", "command": "x" }"#, "`type` is none of"),
        (r#"{ "url": "ftp://a" }"#, "`url` is not an `http` or `https` address"),
        (r#"{ "url": "nonsense" }"#, "`url` is not an address"),
        (r#"{ "url": "https://user:CANARY@a/" }"#, "`url` holds a user name or password"),
        (r#"{ "url": "https://a/#x" }"#, "`url` holds a `#` part"),
        (r#"{ "url": "https://a", "headers": { "a b": "x" } }"#, "`headers.a b` is not a header name"),
        (r#"{ "url": "https://a", "headers": { "Mcp-Session-Id": "x" } }"#, "is set by the protocol"),
        (r#"{ "url": "https://a", "headers": { "Mcp-Param-X": "x" } }"#, "is set by the protocol"),
        (r#"{ "url": "https://a", "headers": { "X": "CANARY\n" } }"#, "a value that no header can carry"),
        (r#"{ "url": "https://a", "headers": { "X": "1", "x": "2" } }"#, "`headers.x` is given twice"),
        (r#"{ "url": "https://a", "headers": { "X": 1 } }"#, "`headers.X` is not text"),
        (r#"{ "url": "https://a", "env": { "X": "1" } }"#, "`env.X` is for servers with a `command`"),
        (r#"{ "command": "x", "headers": { "X": "1" } }"#, "`headers.X` is for servers with a `url`"),
        (r#"{ "command": "x", "env": { "A=B": "CANARY" } }"#, "`env.A=B` cannot be a variable"),
        (
            r#"{ "command": "x", "env": { "A": "${NONE}" } }"#,
            "`env.A` needs the variable `NONE`, which is not set",
        ),
        (r#"{ "command": "x", "env": { "A": "${EMPTY}" } }"#, "needs the variable `EMPTY`"),
        (r#"{ "command": "x", "env": { "A": "${KEY" } }"#, "has a `${` without its `}`"),
        (r#"{ "command": "x", "env": { "A": "${input:key}" } }"#, "holds a `${…}` that is none of"),
        (r#"{ "command": "x", "timeout": "30" }"#, "`timeout` is not a number"),
        (r#"{ "command": "x", "timeout": 0 }"#, "`timeout` is not between"),
        (r#"{ "command": "x", "timeout": -1 }"#, "`timeout` is not a length of time"),
        (r#"{ "command": "x", "timeout": 1e300 }"#, "`timeout` is not a length of time"),
        (r#"{ "command": "x", "toolTimeouts": { "t": 99999999 } }"#, "`toolTimeouts.t` is not between"),
        (r#"{ "command": "x", "disabled": "yes" }"#, "`disabled` is neither"),
    ];
    for (entry, expected) in cases {
        let fault = fault(entry);
        assert!(fault.starts_with("server `s`: ") && fault.contains(expected), "{entry}: {fault}");
    }
}

#[test]
fn a_list_that_is_none_is_refused_whole() {
    let cases = [
        ("", "cannot be read"),
        ("[]", "not a JSON object"),
        ("{}", "no key `mcpServers`"),
        (r#"{ "servers": {} }"#, "rename the key"),
        (r#"{ "mcpServers": [] }"#, "is not an object of named servers"),
        (
            r#"{ "mcpServers": { "a": { "command": "x" }, "a": { "command": "y" } } }"#,
            "the key `a` is given twice",
        ),
        (r#"{ "mcpServers": { "a b": { "command": "x" } } }"#, "`a b` is not a server name"),
        (r#"{ "mcpServers": { "a": { "command": "x", "env": { "A": "CANARY" }} }"#, "line 1"),
    ];
    for (list, expected) in cases {
        let fault = read(list).unwrap_err().to_string();
        assert!(fault.contains(expected) && !fault.contains("CANARY"), "{list}: {fault}");
    }
    assert_eq!(read("\u{feff}{ \"mcpServers\": {} }").unwrap(), []);
}

#[test]
fn variables_are_expanded_in_values_alone() {
    let entry = one(r#"{
        "command": "${KEY}", "args": ["${KEY}"],
        "env": { "A": "a-${KEY}-${env:KEY}", "B": "${NONE:-default}", "C": "$KEY", "D": "${KEY:-x}" }
    }"#);
    let entry = entry.unwrap();
    let Reach::Stdio { command, args, env, .. } = entry.reach() else { panic!() };
    assert_eq!((command.as_str(), args[0].as_str()), ("${KEY}", "${KEY}"));
    let values: Vec<_> = env.values().map(Hidden::reveal).collect();
    assert_eq!(values, ["a-CANARY-VALUE-CANARY-VALUE", "default", "$KEY", "CANARY-VALUE"]);
    assert!(entry.notes()[0].contains("is passed as it stands"));
}

#[test]
fn time_limits_are_seconds_or_from_a_thousand_on_milliseconds() {
    let general = Duration::from_secs(30);
    let limit = |entry: &str, tool: &str| one(entry).unwrap().timeout_of(tool, general);
    assert_eq!(limit(r#"{ "command": "x" }"#, "t"), general);
    assert_eq!(limit(r#"{ "command": "x", "timeout": 90 }"#, "t"), Duration::from_secs(90));
    assert_eq!(limit(r#"{ "command": "x", "timeout": 60000 }"#, "t"), Duration::from_secs(60));
    let both = r#"{ "command": "x", "timeout": 90, "toolTimeouts": { "slow": 600 } }"#;
    assert_eq!(limit(both, "slow"), Duration::from_secs(600));
    assert_eq!(limit(both, "t"), Duration::from_secs(90));
    assert_eq!(one(both).unwrap().notes(), ["`timeout` is read as 90 s"]);
}

#[test]
fn f25_an_identity_is_of_what_is_reached_and_not_of_its_keys() {
    let base = || ServerEntry::stdio("s", "npx", &["-y", "a b"]).unwrap();
    let identity = base().identity();
    assert_eq!(base().identity(), identity);
    assert_eq!(base().with_env("K", "1").unwrap().identity(), base().with_env("K", "2").unwrap().identity());
    let others = [
        base().with_env("K", "1").unwrap(),
        ServerEntry::stdio("s", "npx", &["-y", "a", "b"]).unwrap(),
        ServerEntry::stdio("s", "npx -y", &["a b"]).unwrap(),
        ServerEntry::http("s", "https://a/mcp", &[]).unwrap(),
        ServerEntry::http("s", "https://b/mcp", &[]).unwrap(),
        ServerEntry::http("s", "https://a/mcp", &[("x-key", "1")]).unwrap(),
        one(r#"{ "command": "npx", "args": ["-y", "a b"], "cwd": "/tmp" }"#).unwrap(),
    ];
    let all: BTreeSet<_> = others.iter().map(ServerEntry::identity).chain([identity]).collect();
    assert_eq!(all.len(), others.len() + 1);
    let rotated = ServerEntry::http("s", "https://a/mcp", &[("x-key", "2")]).unwrap();
    assert_eq!(rotated.identity(), others[5].identity());
}
