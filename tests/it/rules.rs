//! The rules in the store: seeding, import, edits, and what becomes of mistakes. Against the real store.

use std::sync::Arc;

use sluicegate::config::Named;
use sluicegate::rules::{Change, Edit, Rules, RulesError, SHIPPED, Seeded};
use sluicegate_gateway::{Clock, ManualClock, RevisionId};
use sluicegate_policy::{ApprovalDefaults, Effect, Given, Hints, Rule, RuleId, Tier};
use sluicegate_store::{AuditFilter, AuditStart, Store, StoreOptions};
use tempfile::TempDir;

const DEFAULTS: ApprovalDefaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };
const BY: Change<'static> = Change { author: "admin", reason: "for a test", despite_tests: false };

struct Desk {
    rules: Rules,
    store: Store,
    folder: TempDir,
}

impl Desk {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("s.db").display());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_000_000));
        let store = Store::open_tool(&url, clock, StoreOptions::default()).await.unwrap();
        Self { rules: Rules::new(store.policies(), store.call_reader(), DEFAULTS), store, folder }
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> Named {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Named { path, given: true }
    }

    fn absent(&self, given: bool) -> Named {
        Named { path: self.folder.path().join("absent.yaml"), given }
    }

    async fn rule_ids(&self) -> Vec<String> {
        let entry = self.rules.current().await.unwrap().expect("there are rules");
        entry.revision.document.rules.iter().map(|rule| rule.id.to_string()).collect()
    }

    /// The kinds of events in the trail that are about the policy, oldest first.
    async fn events(&self) -> Vec<String> {
        let page = self.store.audit().rows(&AuditFilter::default(), AuditStart::Latest, 100).await.unwrap();
        let mut kinds: Vec<_> = page.rows.iter().map(|row| row.kind.to_string()).collect();
        kinds.retain(|kind| kind.starts_with("policy"));
        kinds.reverse();
        kinds
    }
}

fn rule(yaml: &str) -> Rule {
    let text = format!("version: 1\nrules:\n  - {}\n", yaml.replace('\n', "\n    "));
    sluicegate::rules::parse(&text, DEFAULTS).unwrap().0.rules.remove(0)
}

fn given(server: &str, tool: &str) -> Given {
    serde_json::from_value(serde_json::json!({ "server": server, "tool": tool })).unwrap()
}

#[tokio::test]
async fn a_store_with_rules_keeps_them_whatever_the_file_says() {
    let desk = Desk::new().await;
    desk.rules.import(SHIPPED, "a test", BY).await.unwrap();
    for file in [
        desk.absent(true),
        desk.absent(false),
        desk.file("p", "version: 1\nrules: []\n"),
        desk.file("q", "x"),
    ] {
        assert_eq!(desk.rules.seed(&file).await.unwrap(), Seeded::Kept(RevisionId(1)));
    }
    assert_eq!(desk.rule_ids().await.len(), 10);
    assert_eq!(desk.rules.refused_seed(), None);
}

#[tokio::test]
async fn with_no_file_named_and_none_there_the_shipped_rules_are_the_first() {
    let desk = Desk::new().await;
    assert_eq!(desk.rules.seed(&desk.absent(false)).await.unwrap(), Seeded::Shipped(RevisionId(1)));
    assert_eq!(desk.rule_ids().await.len(), 10);
    assert_eq!(desk.events().await, ["policy_changed"]);
    // And once: the next start finds them.
    assert_eq!(desk.rules.seed(&desk.absent(false)).await.unwrap(), Seeded::Kept(RevisionId(1)));
}

#[tokio::test]
async fn a_valid_file_seeds_the_rules_and_an_empty_list_is_valid() {
    let desk = Desk::new().await;
    let file = desk.file("p.yaml", "version: 1\nrules: []\n");
    // Also when nobody named it, and it lies at its usual place.
    let file = Named { given: false, ..file };
    assert_eq!(desk.rules.seed(&file).await.unwrap(), Seeded::File(RevisionId(1)));
    assert_eq!(desk.rule_ids().await, Vec::<String>::new());
    let decided = desk.rules.explain(&given("sandbox-files", "read_file"), Hints::default()).await.unwrap();
    assert_eq!(decided.decision.effect, Effect::Deny);
}

#[tokio::test]
async fn f31_a_file_that_is_absent_or_invalid_seeds_nothing_and_says_so() {
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("invalid", b"version: 1\nrules:\n  - { id: a, kind: Block }\n".to_vec(), "line 3, column 20"),
        (
            "half-written",
            SHIPPED.split("e_approval").next().unwrap().into(),
            "did you mean `require_approval`",
        ),
        ("empty", Vec::new(), "empty"),
        ("binary", vec![0xff, 0x00], "UTF-8"),
        ("too large", vec![b'#'; 1024 * 1024 + 1], "larger than"),
    ];
    for (name, text, expected) in cases {
        let desk = Desk::new().await;
        let file = desk.file(name, text);
        for given in [true, false] {
            let file = Named { given, ..file.clone() };
            let seeded = desk.rules.seed(&file).await.unwrap();
            let Seeded::Refused(why) = seeded else { panic!("{name}: {seeded:?}") };
            assert!(why.contains(name) && why.contains(expected) && !why.contains('\n'), "{why}");
            assert_eq!(desk.rules.refused_seed(), Some(why));
        }
        assert!(desk.rules.current().await.unwrap().is_none(), "{name}");
        assert_eq!(desk.events().await, ["policy_rejected", "policy_rejected"]);
        let explained = desk.rules.explain(&given("sandbox-files", "read_file"), Hints::default()).await;
        assert!(matches!(explained, Err(RulesError::NoPolicy)));
    }
    let desk = Desk::new().await;
    let seeded = desk.rules.seed(&desk.absent(true)).await.unwrap();
    assert!(matches!(&seeded, Seeded::Refused(why) if why.contains("absent.yaml")), "{seeded:?}");
    assert!(desk.rules.current().await.unwrap().is_none());
    // A folder in the file's place is no absence.
    let desk = Desk::new().await;
    let folder = Named { path: desk.folder.path().to_owned(), given: false };
    assert!(matches!(desk.rules.seed(&folder).await.unwrap(), Seeded::Refused(_)));
}

#[tokio::test]
async fn f31_a_bad_reload_keeps_the_last_good_policy_and_is_recorded() {
    let desk = Desk::new().await;
    desk.rules.seed(&desk.absent(false)).await.unwrap();
    let before = desk.rules.current().await.unwrap().unwrap();
    for broken in ["", "version: 1\n", "version: 1\nrules:\n  - { id: a, kind: allow }\n", "}{"] {
        let refused = desk.rules.import(broken, "upload", BY).await;
        assert!(
            matches!(refused, Err(RulesError::Text(ref problems)) if !problems.is_empty()),
            "{refused:?}"
        );
    }
    let after = desk.rules.current().await.unwrap().unwrap();
    assert_eq!((after.revision.id, after.digest), (before.revision.id, before.digest));
    let expected =
        ["policy_changed", "policy_rejected", "policy_rejected", "policy_rejected", "policy_rejected"];
    assert_eq!(desk.events().await, expected);
}

#[tokio::test]
async fn edits_are_revisions_of_the_whole_document() {
    let desk = Desk::new().await;
    desk.rules.seed(&desk.absent(false)).await.unwrap();
    let moves = rule("id: moves-are-held\nkind: require_approval\nmatch: { tool: move_file }");
    let id = moves.id.clone();
    let call = given("sandbox-files", "move_file");
    let effect = || async { desk.rules.explain(&call, Hints::default()).await.unwrap().decision.effect };
    assert_eq!(effect().await, Effect::Deny);

    assert_eq!(desk.rules.save(Edit::Create(moves.clone()), RevisionId(1), BY).await.unwrap(), RevisionId(2));
    assert_eq!(effect().await, Effect::RequireApproval);
    let allowed = Rule { kind: sluicegate_policy::RuleKind::AllowTool, ..moves.clone() };
    assert_eq!(
        desk.rules.save(Edit::Replace(id.clone(), allowed), RevisionId(2), BY).await.unwrap(),
        RevisionId(3)
    );
    assert_eq!(effect().await, Effect::Allow);
    assert_eq!(
        desk.rules.save(Edit::SetEnabled(id.clone(), false), RevisionId(3), BY).await.unwrap(),
        RevisionId(4)
    );
    assert_eq!(effect().await, Effect::Deny);
    assert_eq!(desk.rules.save(Edit::Delete(id.clone()), RevisionId(4), BY).await.unwrap(), RevisionId(5));
    assert!(!desk.rule_ids().await.contains(&id.to_string()));

    let history = desk.rules.history(None, 10).await.unwrap();
    let reasons: Vec<_> = history.rows.iter().map(|entry| entry.reason.as_str()).collect();
    assert_eq!(reasons.len(), 5);
    assert_eq!(reasons[0], "rule `moves-are-held` removed: for a test");
    assert!(history.rows.iter().take(4).all(|entry| entry.author == "admin"));
    // An earlier revision is still what it was.
    let third = desk.rules.revision(RevisionId(3)).await.unwrap().unwrap();
    assert!(third.revision.document.rules.iter().any(|rule| rule.id == id));
}

#[tokio::test]
async fn an_edit_of_a_rule_that_changed_meanwhile_is_a_conflict() {
    let desk = Desk::new().await;
    desk.rules.seed(&desk.absent(false)).await.unwrap();
    let id: RuleId = "reads-are-free".parse().unwrap();
    desk.rules.save(Edit::SetEnabled(id.clone(), false), RevisionId(1), BY).await.unwrap();
    let late = desk.rules.save(Edit::SetEnabled(id.clone(), true), RevisionId(1), BY).await;
    assert!(matches!(late, Err(RulesError::Conflict(RevisionId(2)))), "{late:?}");

    // Twenty people edit the same revision at once: one wins, the others are told.
    let edits = (0..20).map(|n| {
        let (rules, id) = (desk.rules.clone(), id.clone());
        tokio::spawn(
            async move { rules.save(Edit::SetEnabled(id.clone(), n % 2 == 0), RevisionId(2), BY).await },
        )
    });
    let mut won = 0;
    for edit in edits.collect::<Vec<_>>() {
        match edit.await.unwrap() {
            Ok(_) => won += 1,
            Err(RulesError::Conflict(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(desk.rules.current().await.unwrap().unwrap().revision.id, RevisionId(3));
}

#[tokio::test]
async fn f31_an_edit_that_does_not_hold_together_changes_nothing() {
    let desk = Desk::new().await;
    desk.rules.seed(&desk.absent(false)).await.unwrap();
    let twice = rule("id: reads-are-free\nkind: block_tool");
    let found = desk.rules.save(Edit::Create(twice), RevisionId(1), BY).await;
    assert!(matches!(&found, Err(RulesError::Rule(errors)) if !errors.is_empty()), "{found:?}");

    let mut zone = rule("id: a\nkind: allow_tool\nhours: { from: \"08:00\", to: \"18:00\", zone: UTC }");
    zone.hours.as_mut().unwrap().zone = "Europe/Nowhere".parse().unwrap();
    let found = desk.rules.save(Edit::Create(zone.clone()), RevisionId(1), BY).await;
    let Err(RulesError::Rule(errors)) = found else { panic!("{found:?}") };
    assert_eq!(errors[0].field, "hours.zone", "the form finds its own field");
    assert!(matches!(desk.rules.preview(Edit::Create(zone)).await, Err(RulesError::Rule(_))));

    let unknown = desk.rules.save(Edit::Delete("nowhere".parse().unwrap()), RevisionId(1), BY).await;
    assert!(matches!(unknown, Err(RulesError::NotFound(_))), "{unknown:?}");
    assert_eq!(desk.rules.current().await.unwrap().unwrap().revision.id, RevisionId(1));
}

#[tokio::test]
async fn without_rules_there_is_nothing_to_edit() {
    let desk = Desk::new().await;
    let new = rule("id: a\nkind: allow_tool");
    let created = desk.rules.save(Edit::Create(new), RevisionId(0), BY).await;
    assert!(
        matches!(created, Err(RulesError::NoPolicy)),
        "an edit must not be the first policy: {created:?}"
    );
}

#[tokio::test]
async fn explaining_knows_what_the_server_states_of_its_tool() {
    let desk = Desk::new().await;
    let yaml = "version: 1\ntiers:\n  - { server: s, tool: t, tier: safe }\nrules:\n  \
                - { id: safe-ones, kind: allow_tool, match: { tier: safe } }\n";
    desk.rules.import(yaml, "a test", BY).await.unwrap();
    let plain = desk.rules.explain(&given("s", "t"), Hints::default()).await.unwrap();
    assert_eq!((plain.context.tier, plain.decision.effect), (Tier::Safe, Effect::Allow));
    let destructive = Hints { destructive: Some(true), ..Hints::default() };
    let raised = desk.rules.explain(&given("s", "t"), destructive).await.unwrap();
    assert_eq!((raised.context.tier, raised.decision.effect), (Tier::High, Effect::Deny));
    assert!(raised.sentence.starts_with("denied"), "{}", raised.sentence);
}
