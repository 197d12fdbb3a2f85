use super::surroundings::{parse_dotenv, variables};
use super::*;
use secrecy::ExposeSecret;

fn around(environment: &[(&str, &str)], dotenv: &[(&str, &str)]) -> Surroundings {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    Surroundings { environment: map(environment), dotenv: map(dotenv), process: Vec::new() }
}

fn config(environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::resolve(&Flags::default(), &around(environment, &[]))
}

fn setting<'a>(config: &'a Config, name: &str) -> &'a Setting {
    config.settings.iter().find(|setting| setting.name == name).unwrap()
}

#[test]
fn a_fresh_machine_gets_the_documented_defaults() {
    let config = config(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.database_url, "sqlite://sluicegate.db");
    assert_eq!(config.gemini_model, "gemini-3.8-flash");
    assert_eq!((config.max_agent_steps, config.approval_timeout_s), (10, 300));
    assert_eq!(config.policy, Named { path: "policy_rules.yaml".into(), given: false });
    assert!(config.gemini_api_key.is_none() && config.public_url.is_none());
    assert!(config.settings.iter().all(|setting| setting.source == Source::Default));
}

#[test]
fn a_flag_wins_over_the_environment_which_wins_over_dotenv() {
    let flags = Flags { gemini_model: Some("from-flag".into()), ..Flags::default() };
    let around = around(
        &[("GEMINI_MODEL", "from-environment"), ("MAX_AGENT_STEPS", "3"), ("LOG_FILTER", "")],
        &[("GEMINI_MODEL", "from-file"), ("MAX_AGENT_STEPS", "4"), ("LOG_FILTER", "warn")],
    );
    let config = Config::resolve(&flags, &around).unwrap();
    assert_eq!(config.gemini_model, "from-flag");
    assert_eq!(config.max_agent_steps, 3);
    assert_eq!(config.log_filter, "warn", "an empty value counts as none");
    let sources =
        ["GEMINI_MODEL", "MAX_AGENT_STEPS", "LOG_FILTER", "LISTEN"].map(|n| setting(&config, n).source);
    assert_eq!(sources, [Source::Flag, Source::Environment, Source::DotEnv, Source::Default]);
}

#[test]
fn only_loopback_addresses_are_listened_on() {
    for good in ["127.0.0.1:0", "127.0.0.9:80", "[::1]:8080"] {
        assert!(config(&[("LISTEN", good)]).is_ok(), "{good}");
    }
    for bad in
        ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "[::ffff:127.0.0.1]:80", "localhost", "8080", ":8080"]
    {
        let error = config(&[("LISTEN", bad)]).unwrap_err().to_string();
        assert!(error.contains(bad) && error.contains("127.0.0.1:8080"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_public_url_is_a_site_and_nothing_more() {
    for good in ["https://gate.example.org", "http://127.0.0.1:8080/", "https://gate.example.org:8443"] {
        assert!(config(&[("PUBLIC_URL", good)]).unwrap().public_url.is_some(), "{good}");
    }
    for bad in [
        "gate.example.org",
        "ftp://gate.example.org",
        "https://gate.example.org/path",
        "https://user:word@gate.example.org",
        "https://gate.example.org/?q",
        "file:///etc",
    ] {
        assert!(config(&[("PUBLIC_URL", bad)]).is_err(), "{bad}");
    }
}

#[test]
fn numbers_are_whole_and_bounded() {
    for bad in ["0", "-1", "1.5", "1e3", " 5", "4294967296", "ten"] {
        assert!(config(&[("MAX_AGENT_STEPS", bad)]).is_err(), "{bad}");
        assert!(config(&[("APPROVAL_TIMEOUT_SECONDS", bad)]).is_err(), "{bad}");
    }
    assert!(config(&[("APPROVAL_TIMEOUT_SECONDS", "2678400")]).is_ok());
    assert!(config(&[("APPROVAL_TIMEOUT_SECONDS", "2678401")]).is_err());
}

#[test]
fn a_key_is_sent_over_tls_or_to_this_machine_only() {
    for good in
        ["https://models.example.org/x", "http://127.0.0.1:9/", "http://[::1]:9", "http://localhost:9"]
    {
        assert!(config(&[("GEMINI_BASE_URL", good)]).is_ok(), "{good}");
    }
    for bad in ["http://models.example.org", "http://127.0.0.1.example.org", "ftp://127.0.0.1", "x"] {
        assert!(config(&[("GEMINI_BASE_URL", bad)]).is_err(), "{bad}");
    }
}

#[test]
fn f33_a_secret_is_in_no_setting_error_or_debug_text() {
    const KEY: &str = "s3cret-value-of-the-key";
    let config = config(&[("GEMINI_API_KEY", KEY)]).unwrap();
    assert_eq!(config.gemini_api_key.as_ref().unwrap().expose_secret(), KEY);
    assert_eq!(setting(&config, "GEMINI_API_KEY").value, "set");
    assert_eq!(setting(&config, "CONTEXT7_API_KEY").value, "not set");
    assert!(!format!("{config:?}").contains(KEY));

    let broken = format!("{KEY} with a space");
    let around = around(&[("GEMINI_API_KEY", &broken)], &[]);
    assert!(!format!("{around:?}").contains(KEY));
    let error = Config::resolve(&Flags::default(), &around).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");

    let error = parse_dotenv(&format!("LISTEN=127.0.0.1:1\nGEMINI_API_KEY='{KEY}\n")).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn a_secret_can_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "from-a-file\n").unwrap();
    let path = path.to_str().unwrap();
    let read = config(&[("CONTEXT7_API_KEY_FILE", path)]).unwrap();
    assert_eq!(read.context7_api_key.unwrap().expose_secret(), "from-a-file");
    assert!(config(&[("CONTEXT7_API_KEY_FILE", path), ("CONTEXT7_API_KEY", "both")]).is_err());
    let missing = config(&[("CONTEXT7_API_KEY_FILE", "no/such/file")]).unwrap_err().to_string();
    assert!(missing.contains("CONTEXT7_API_KEY_FILE") && missing.contains("no/such/file"), "{missing}");
}

#[test]
fn dotenv_reads_comments_quotes_and_the_first_of_two() {
    let text = "# comment\n\nexport LISTEN=\"127.0.0.1:9\" # why\nLISTEN=127.0.0.1:10\nTOKEN=1\n";
    let found = parse_dotenv(text).unwrap();
    assert_eq!((found["LISTEN"].as_str(), found["TOKEN"].as_str(), found.len()), ("127.0.0.1:9", "1", 2));
}

#[test]
fn the_example_file_names_every_variable_and_changes_nothing() {
    let text = include_str!("../../.env.example");
    for name in variables() {
        assert!(text.contains(&format!("{name}=")), "{name} is not in .env.example");
    }
    let dotenv = parse_dotenv(text).unwrap();
    let example =
        Config::resolve(&Flags::default(), &Surroundings { dotenv, ..Surroundings::default() }).unwrap();
    let fresh = config(&[]).unwrap();
    let values =
        |config: &Config| config.settings.iter().map(|s| (s.name, s.value.clone())).collect::<Vec<_>>();
    assert_eq!(values(&example), values(&fresh));
}
