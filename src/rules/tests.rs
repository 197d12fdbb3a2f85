use super::*;
use proptest::prelude::*;
use sluicegate_policy::{
    ApprovalDefaults, Condition, Effect, Elements, Hours, Match, Mode, OneOrMany, Op, PolicyDocument, Rule,
    RuleKind,
};

const DEFAULTS: ApprovalDefaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };
const SEED: &str = include_str!("../../policy_rules.yaml");

fn problems(yaml: &str) -> Vec<PolicyProblem> {
    match parse(yaml, DEFAULTS) {
        Ok(_) => panic!("accepted:\n{yaml}"),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason:\n{yaml}");
            problems
        }
    }
}

/// The only problem, as `line:column message (suggestion)`.
fn problem(yaml: &str) -> String {
    let problems = problems(yaml);
    let [one] = problems.as_slice() else { panic!("{problems:#?}") };
    let meant = one.suggestion.as_ref().map(|meant| format!(" ({meant})")).unwrap_or_default();
    format!("{}:{} {}{meant}", one.line, one.column, one.message)
}

/// A policy of one rule, given as the lines of that rule.
fn rule(lines: &[&str]) -> String {
    format!("version: 1\nrules:\n  - {}\n", lines.join("\n    "))
}

#[test]
fn the_seed_passes_its_own_tests_and_survives_being_written() {
    let (document, rules) = parse(SEED, DEFAULTS).unwrap();
    assert!(!document.tests.is_empty(), "the seed has lost its tests");
    for test in &document.tests {
        test.run(&rules).unwrap();
    }
    assert_eq!(parse(&to_yaml(&document).unwrap(), DEFAULTS).unwrap().0, document);
}

/// The kind: shipped tests that stand in the way of the first edits that anyone makes. They guard what no edit is meant to
/// change; what the shipped rules decide otherwise stands in the decision table.
#[test]
fn first_edits_of_the_seed_pass_its_tests_and_losing_a_guard_does_not() {
    let (document, _) = parse(SEED, DEFAULTS).unwrap();
    let failing = |edit: Edit| {
        let (document, rules) = edit.apply(document.clone(), DEFAULTS).unwrap();
        preview::failing(&document.tests, &rules).len()
    };
    let guards = ["writes-stay-inside", "conversation-budget"];
    for rule in &document.rules {
        let guards = guards.contains(&rule.id.as_str());
        assert_eq!(failing(Edit::SetEnabled(rule.id.clone(), false)) > 0, guards, "{} off", rule.id);
    }
    for kind in [RuleKind::AllowTool, RuleKind::BlockTool, RuleKind::RequireApproval] {
        let text = format!("{{ id: moves, kind: {kind}, match: {{ tool: move_file }} }}");
        let rule = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(failing(Edit::Create(rule)), 0, "{kind}");
    }
}

/// Guards against lenient configuration: a misspelt key or word is an error with its line and what was meant.
#[test]
fn f31_a_misspelt_key_or_word_is_an_error_with_line_and_suggestion() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["id: a", "kind: require_approval", "aproval: { timeout: 60s }"],
            "5:5 unknown key `aproval` (approval)",
        ),
        (
            &["id: a", "kind: require_approval", "approval: { time_out: 60s }"],
            "5:17 unknown key `time_out` (timeout)",
        ),
        (&["id: a", "kind: Block"], "4:11 unknown word `Block` (block_tool)"),
        (&["id: a", "kind: Block_Tool"], "4:11 unknown word `Block_Tool` (block_tool)"),
        (&["id: a", "kind: DENY"], "DENY"),
        (&["id: a", "kind: block_tool", "match: { tools: x }"], "5:14 unknown key `tools` (tool)"),
        (&["id: a", "kind: block_tool", "tool: x"], "5:5 unknown key `tool`"),
        (&["id: a", "kind: block_tool", "Enabled: false"], "5:5 unknown key `Enabled` (enabled)"),
        (&["id: a", "kind: block_tool", "enabled: yes"], "5:14 write true or false"),
        (&["id: a", "kind: block_tool", "mode: shaddow"], "5:11 unknown word `shaddow` (shadow)"),
        (&["id: a", "kind: allow_tool", "match: { tier: save }"], "unknown word `save` (safe)"),
        (
            &["id: a", "kind: allow_tool", "match: { tier: [safe, Moderate] }"],
            "unknown word `Moderate` (moderate)",
        ),
        (
            &["id: a", "kind: allow_tool", "when: [ { argument: p, op: path_witin, value: x } ]"],
            "unknown word `path_witin` (path_within)",
        ),
    ];
    for (lines, expected) in cases {
        let found = problem(&rule(lines));
        assert!(found.contains(expected), "{lines:?}\n  found    {found}\n  expected {expected}");
    }
}

/// Guards against a rule that silently matches nothing: what cannot work is refused, with the line of the field.
#[test]
fn f31_what_only_the_whole_document_shows_has_its_line_too() {
    let pattern = rule(&[
        "id: a",
        "kind: block_tool",
        "when:",
        "  - { argument: x, op: equals, value: y }",
        "  - argument: path",
        "    op: matches",
        "    value: \"(\"",
    ]);
    let found = problem(&pattern);
    assert!(found.starts_with("9:9 rule `a`: "), "{found}");

    let twice = "version: 1\nrules:\n  - { id: a, kind: block_tool }\n  - { id: b, kind: block_tool }\n  \
                 - { id: a, kind: allow_tool }\n";
    let found = problem(twice);
    assert!(found.starts_with("5:") && found.contains("`a`"), "{found}");

    let zone = rule(&[
        "id: a",
        "kind: allow_tool",
        "hours:",
        "  from: \"08:00\"",
        "  to: \"18:00\"",
        "  zone: Europe/Berlim",
    ]);
    let found = problem(&zone);
    assert!(found.starts_with("8:7 ") && found.contains("Europe/Berlim"), "{found}");

    let many = "version: 1\nrules:\n  - { id: a, kind: token_budget }\n  - id: b\n    kind: allow_tool\n    \
                hours: { from: \"08:00\", to: \"18:00\", zone: Nowhere }\n    limit: { tokens: 1, per: conversation }\n";
    let lines: Vec<u64> = problems(many).iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 6, 7], "mistakes of meaning are found all at once, in the order of the file");
}

/// Guards against a file that is read while it is being written, or is no policy at all.
#[test]
fn f31_a_half_written_or_empty_file_is_refused() {
    for empty in
        ["", "\n", "# nothing but a comment\n", "---\n", "null\n", "{}\n", "[]\n", "rules", "\u{feff}"]
    {
        problems(empty);
    }
    // Cut at every character: the rest is refused, or it is a whole policy that has lost nothing but its end.
    let (whole, _) = parse(SEED, DEFAULTS).unwrap();
    let mut refused = 0;
    for (cut, _) in SEED.char_indices().step_by(23) {
        match parse(SEED.get(..cut).unwrap(), DEFAULTS) {
            Err(found) => {
                assert!(!found.is_empty());
                refused += 1;
            }
            Ok((part, _)) => {
                assert_eq!(part.version, whole.version);
                for (cut_rule, rule) in part.rules.iter().zip(&whole.rules) {
                    assert_eq!(cut_rule.id, rule.id);
                }
            }
        }
    }
    assert!(refused > 30, "only {refused} cuts were refused");
}

#[test]
fn an_empty_list_of_rules_is_a_policy_and_a_missing_one_is_not() {
    assert!(parse("version: 1\nrules: []\n", DEFAULTS).is_ok());
    assert_eq!(problem("version: 1\n"), "1:1 the key `rules` is missing");
    assert!(problem("version: 1\nrules:\n").starts_with("2:"));
    assert!(problem("version: 2\nrules: []\n").starts_with("1:"));
}

/// The kind: a policy so large that reading it, trying an edit of it or looking for mistakes in it never ends.
#[test]
fn ten_thousand_rules_are_a_policy_that_can_be_read_edited_and_judged() {
    for (about, kind) in [("match: { tool: t }, ", "block_tool"), ("", "allow_tool")] {
        let rules: String =
            (0..10_000).map(|n| format!("  - {{ id: r{n}, {about}kind: {kind} }}\n")).collect();
        let (document, before) = parse(&format!("version: 1\nrules:\n{rules}"), DEFAULTS).unwrap();
        assert_eq!(before.rules().len(), 10_000);
        let edit = Edit::SetEnabled("r9999".parse().unwrap(), false);
        let (document, after) = edit.apply(document, DEFAULTS).unwrap();
        let preview = Preview::of(&before, &after, &document, Known::default());
        assert!(preview.probed.calls > 0);
        assert!(preview.findings.iter().any(|found| found.rule.as_str() == "r1"));
    }
}

#[test]
fn tricks_of_yaml_are_refused() {
    for (yaml, at) in [
        ("version: 1\nrules: &a []\ntiers: *a\n", "2:"),
        ("version: 1\nrules:\n  - { id: a, kind: allow_tool, <<: { enabled: false } }\n", "3:"),
        ("version: 1\nversion: 1\nrules: []\n", "2:1 the key `version` stands here twice"),
        ("version: 1\nrules: []\n---\nversion: 1\nrules: []\n", ""),
        ("version: 1\nrules: !secret []\n", "2:"),
    ] {
        let found = problem(yaml);
        assert!(found.starts_with(at), "{yaml}\n  {found}");
    }
    let deep = format!("version: 1\nrules: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    problems(&deep);
    let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)).collect();
    problems(&format!("a0: &a0 x\n{bomb}"));
    let large = format!("version: 1\nrules: []\n#{}", "x".repeat(MAX_POLICY_BYTES));
    assert!(problem(&large).contains("larger than"));
}

#[test]
fn no_problem_breaks_a_line_or_shows_control_characters() {
    for yaml in ["version: 1\nrules: []\n\"a\\nb\\e[31m\": 1\n", "version: 1\nrules: []\n\"\\u202e\": 1\n"] {
        let shown = problems(yaml)[0].to_string();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,24}",
        "[ \\-#:{}\\[\\]&*!|>'\"%@`,?~a\n\r\t\u{0}\u{1b}\u{85}\u{2028}\u{feff}\u{1F600}\\\\]{0,12}",
        prop::sample::select(vec![
            "yes",
            "no",
            "on",
            "~",
            "null",
            "1",
            "1e3",
            "0x10",
            "010",
            "1_000",
            ".nan",
            "-",
            "---",
            "=",
            "<<",
            "12:30:45",
            "2001-01-01",
            " a",
            "a ",
            "a\n",
            "\na",
            ""
        ])
        .prop_map(str::to_owned),
    ]
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any_text().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        (-1e15..1e15f64).prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(any_text(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let condition =
        (any_text(), prop::option::of(any_value()), prop::bool::ANY).prop_map(|(argument, value, any)| {
            let elements = if any { Elements::Any } else { Elements::Every };
            Condition { argument, op: Op::Equals, value, elements }
        });
    let names = || prop::option::of(prop::collection::vec(any_text(), 0..3).prop_map(OneOrMany));
    let hours = prop::bool::ANY.prop_map(|some| {
        some.then(|| Hours {
            from: "08:00".parse().unwrap(),
            to: "24:00".parse().unwrap(),
            days: Vec::new(),
            zone: "UTC".parse().unwrap(),
        })
    });
    let id = prop_oneof![
        "[a-z0-9-]{1,8}",
        prop::sample::select(vec!["1", "-", "0x1", "no", "1e3"]).prop_map(str::to_owned)
    ];
    (id, any_text(), any::<bool>(), names(), names(), prop::collection::vec(condition, 0..3), hours).prop_map(
        |(id, description, enabled, server, tool, when, hours)| Rule {
            id: id.parse().unwrap(),
            kind: RuleKind::AllowTool,
            description,
            enabled,
            mode: if enabled { Mode::Enforce } else { Mode::Shadow },
            selects: Match { server, tool, ..Match::default() },
            when,
            hours,
            approval: None,
            limit: None,
            on_violation: None,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a form can put into a document comes back from its text as it was: reading is compared before
    /// compiling, so that texts no rule accepts are tried too.
    #[test]
    fn writing_and_reading_gives_the_same_document(rules in prop::collection::vec(any_rule(), 0..4)) {
        let document = PolicyDocument { version: 1, tiers: Vec::new(), rules, tests: Vec::new() };
        let yaml = to_yaml(&document).unwrap();
        let back = text::read(&yaml);
        prop_assert_eq!(back.as_ref().ok(), Some(&document), "{:?}\n{}", back, yaml);
    }

    /// No text makes the reader panic or hang, and none that is refused comes without a reason.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|[-a-z:{}\\[\\] \n\"'|>&*!%#]{0,200}") {
        if let Err(problems) = parse(&text, DEFAULTS) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn the_seed_holds_what_the_table_of_the_shipped_rules_says() {
    let (_, rules) = parse(SEED, DEFAULTS).unwrap();
    let decide = |server: &str, tool: &str| {
        let given = sluicegate_policy::Given {
            server: server.parse().unwrap(),
            tool: tool.parse().unwrap(),
            arguments: serde_json::json!({ "path": "a.txt", "content": "x" }).as_object().unwrap().clone(),
            caller: None,
            role: None,
            origin: None,
            tokens: None,
            calls: Default::default(),
            at: None,
        };
        let context = given.context(&rules).unwrap();
        let decision = sluicegate_policy::evaluate(&context, &rules);
        (context.tier.as_str(), decision.effect, decision.hold.map(|hold| hold.timeout_s))
    };
    use Effect::{Allow, Deny, RequireApproval};
    for (server, tool, expected) in [
        ("sandbox-files", "list_files", ("safe", Allow, None)),
        ("sandbox-files", "read_file", ("safe", Allow, None)),
        ("sandbox-files", "write_file", ("moderate", RequireApproval, Some(300))),
        ("sandbox-files", "delete_file", ("high", Deny, None)),
        ("sandbox-files", "move_file", ("moderate", Deny, None)),
        ("context7", "resolve-library-id", ("safe", Allow, None)),
        ("context7", "query-docs", ("safe", Allow, None)),
        ("home", "list_reminders", ("safe", Allow, None)),
        ("home", "list_devices", ("safe", Allow, None)),
        ("home", "create_reminder", ("moderate", Allow, None)),
        ("home", "set_device", ("moderate", Allow, None)),
        ("home", "lock_door", ("moderate", Allow, None)),
        ("home", "delete_reminder", ("high", RequireApproval, Some(60))),
        ("home", "send_message", ("high", RequireApproval, Some(60))),
        ("home", "unlock_door", ("high", RequireApproval, Some(60))),
        ("home", "anything_else", ("high", Deny, None)),
    ] {
        assert_eq!(decide(server, tool), expected, "{server}/{tool}");
    }
}
