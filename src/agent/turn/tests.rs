use super::*;
use crate::conversation::{CutBy, Ending};
use proptest::prelude::*;
use sluicegate_gateway::{CallAnswer, CallId, CallState, ReasonCode, Refusal};
use std::collections::BTreeMap;

fn call(key: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall { key: key.into(), provider_id: None, name: name.into(), arguments: Some(arguments.into()) }
}

fn said(text: &str, calls: Vec<ModelCall>) -> ModelTurn {
    let ending = if calls.is_empty() { Ending::Stop } else { Ending::ToolCalls };
    ModelTurn { text: text.into(), thinking: String::new(), calls, ending, provider: None }
}

fn refused(state: CallState, code: ReasonCode) -> Answer {
    let refusal = Refusal { code, sentence: "no".into(), retryable: false, rules: Vec::new() };
    Answer::Gate(Box::new(CallAnswer { call: CallId::random(), state, refusal: Some(refusal), output: None }))
}

fn completed() -> Answer {
    Answer::Gate(Box::new(CallAnswer {
        call: CallId::random(),
        state: CallState::Completed,
        refusal: None,
        output: None,
    }))
}

fn answered(key: &str, answer: Answer) -> Event {
    Event::CallAnswered { key: key.into(), answer }
}

fn failed(unfinished: Vec<UnfinishedCall>) -> Event {
    Event::ModelFailed(Failure { sentence: "The model failed.".into(), partial: None, unfinished })
}

/// A turn that waits for its model.
fn asking(steps: u32) -> TurnState {
    let mut state = TurnState::new(steps);
    assert_eq!(state.on(Event::Started), [Effect::CheckBudget]);
    assert_eq!(state.on(Event::BudgetChecked(Budget::Within)), [Effect::AskModel]);
    state
}

fn proposed(effects: &[Effect]) -> Vec<ModelCall> {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::Propose(calls) => Some(calls.clone()),
        _ => None,
    });
    calls.flatten().collect()
}

fn keys(effects: &[Effect]) -> Vec<Vec<&str>> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Append(Entry::Said(Message::ToolResults { results })) => {
                Some(results.iter().map(|result| result.key.as_str()).collect())
            }
            _ => None,
        })
        .collect()
}

fn note(effects: &[Effect]) -> Option<(NoteKind, &str)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Append(Entry::Note(note)) => Some((note.kind, note.text.as_str())),
        _ => None,
    })
}

#[test]
fn a_plain_answer_ends_the_turn() {
    let mut state = asking(10);
    let turn = said("Hello.", Vec::new());
    let effects = state.on(Event::ModelReplied(turn.clone()));
    assert_eq!(
        effects,
        [Effect::Append(Entry::Said(Message::Model(turn))), Effect::Finish(TurnEnd::Answered)]
    );
}

#[test]
fn f03_answers_are_given_in_the_models_order_whatever_order_they_came_in() {
    let mut state = asking(10);
    let calls = vec![call("a", "read", "{}"), call("b", "delete", "{}"), call("c", "read", "{}")];
    let effects = state.on(Event::ModelReplied(said("", calls)));
    assert!(
        matches!(effects.as_slice(), [_, Effect::Propose(calls)] if calls.len() == 3),
        "proposed together"
    );
    assert_eq!(state.on(answered("c", completed())), []);
    assert_eq!(state.on(answered("a", refused(CallState::Denied, ReasonCode::Rule))), []);
    let effects = state.on(answered("b", refused(CallState::Failed, ReasonCode::ToolError)));
    assert_eq!(keys(&effects), [["a", "b", "c"]]);
    assert_eq!(effects.last(), Some(&Effect::CheckBudget));
}

#[test]
fn more_calls_than_may_be_open_wait_and_none_is_lost() {
    let mut state = asking(10);
    let calls: Vec<_> = (0..40).map(|n| call(&format!("k{n}"), "read", &format!("{{\"n\":{n}}}"))).collect();
    let mut all: Vec<String> = Vec::new();
    let mut effects = state.on(Event::ModelReplied(said("", calls.clone())));
    let mut most = 0;
    let mut answered_so_far = 0;
    loop {
        all.extend(proposed(&effects).into_iter().map(|call| call.key));
        most = most.max(all.len() - answered_so_far);
        if !keys(&effects).is_empty() {
            break;
        }
        let key = all[answered_so_far].clone();
        answered_so_far += 1;
        effects = state.on(answered(&key, completed()));
    }
    assert_eq!(most, PARALLEL);
    let wanted: Vec<_> = calls.iter().map(|call| call.key.clone()).collect();
    assert_eq!(all, wanted);
    assert_eq!(keys(&effects)[0], wanted);
}

#[test]
fn f03_stop_while_calls_are_open_gives_each_its_result() {
    let mut state = asking(10);
    let calls: Vec<_> = (0..PARALLEL + 2).map(|n| call(&format!("k{n}"), "write", "{}")).collect();
    let first = state.on(Event::ModelReplied(said("", calls.clone())));
    assert_eq!(proposed(&first).len(), PARALLEL);
    assert_eq!(state.on(Event::Stopped), [Effect::CancelCalls]);
    let mut last = Vec::new();
    for call in &calls[..PARALLEL] {
        assert_eq!(last, []);
        last = state.on(answered(&call.key, refused(CallState::Withdrawn, ReasonCode::Withdrawn)));
    }
    let wanted: Vec<_> = calls.iter().map(|call| call.key.clone()).collect();
    assert_eq!(keys(&last), [wanted]);
    assert_eq!(last.last(), Some(&Effect::Finish(TurnEnd::Stopped)));
}

#[test]
fn stop_does_not_wait_for_ever_for_a_call() {
    let mut state = asking(10);
    let calls = vec![call("a", "write", "{}"), call("b", "write", "{}")];
    drop(state.on(Event::ModelReplied(said("", calls))));
    drop(state.on(Event::Stopped));
    assert_eq!(state.on(answered("b", completed())), []);
    let effects = state.on(Event::StopOverdue);
    assert_eq!(keys(&effects), [["a", "b"]]);
    let Some(Effect::Append(Entry::Said(Message::ToolResults { results }))) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(results[0].output["code"], "outcome_lost");
    assert!(!results[1].is_error);
    assert_eq!(effects.last(), Some(&Effect::Finish(TurnEnd::Stopped)));
}

#[test]
fn stop_while_the_model_writes_keeps_what_it_wrote() {
    let mut state = asking(10);
    assert_eq!(state.on(Event::Stopped), [Effect::CancelModel]);
    let partial = ModelTurn { ending: Ending::CutOff { by: CutBy::Cancelled }, ..said("Half a", Vec::new()) };
    let effects = state.on(Event::ModelFailed(Failure {
        sentence: "The answer was stopped.".into(),
        partial: Some(partial.clone()),
        unfinished: Vec::new(),
    }));
    assert_eq!(effects[0], Effect::Append(Entry::Said(Message::Model(partial))));
    assert_eq!(note(&effects), Some((NoteKind::Stopped, "Stopped.")));
    assert_eq!(effects.last(), Some(&Effect::Finish(TurnEnd::Stopped)));
}

#[test]
fn an_answer_that_races_with_stop_has_its_calls_answered_and_not_proposed() {
    let mut state = asking(10);
    drop(state.on(Event::Stopped));
    let effects = state.on(Event::ModelReplied(said("", vec![call("a", "write", "{}")])));
    assert_eq!(proposed(&effects), []);
    assert_eq!(keys(&effects), [["a"]]);
    assert_eq!(effects.last(), Some(&Effect::Finish(TurnEnd::Stopped)));
}

#[test]
fn the_step_limit_is_one_clear_line_after_the_results() {
    let mut state = asking(2);
    drop(state.on(Event::ModelReplied(said("", vec![call("a", "read", "{}")]))));
    assert_eq!(state.on(answered("a", completed())).last(), Some(&Effect::CheckBudget));
    drop(state.on(Event::BudgetChecked(Budget::Within)));
    drop(state.on(Event::ModelReplied(said("", vec![call("b", "read", "{}")]))));
    let effects = state.on(answered("b", completed()));
    assert_eq!(keys(&effects), [["b"]]);
    let (kind, text) = note(&effects).unwrap();
    assert_eq!(kind, NoteKind::StepLimit);
    assert!(text.contains("2 steps"), "{text}");
    assert_eq!(effects.last(), Some(&Effect::Finish(TurnEnd::StepLimit)));
    assert_eq!(state.steps(), 2);
}

/// Runs one denied call per step and gives the number of steps until the loop is broken, at most `most`.
fn steps_until_broken(most: u32, mut argument: impl FnMut(u32) -> String, code: ReasonCode) -> Option<u32> {
    let mut state = asking(most + 1);
    for step in 1..=most {
        let key = format!("k{step}");
        drop(state.on(Event::ModelReplied(said("", vec![call(&key, "delete", &argument(step))]))));
        let effects = state.on(answered(&key, refused(CallState::Denied, code)));
        if effects.last() == Some(&Effect::Finish(TurnEnd::RepeatedDenial)) {
            let (kind, text) = note(&effects).unwrap();
            assert_eq!(kind, NoteKind::RepeatedDenial);
            assert!(text.contains("`delete`"), "{text}");
            return Some(step);
        }
        assert_eq!(state.on(Event::BudgetChecked(Budget::Within)), [Effect::AskModel]);
    }
    None
}

#[test]
fn f29_a_repeated_denial_breaks_the_loop() {
    // The same arguments in another order and spacing are the same.
    let same = |step: u32| {
        if step.is_multiple_of(2) { r#"{"a":1,"b":2}"# } else { r#"{ "b":2, "a":1 }"# }.to_owned()
    };
    assert_eq!(steps_until_broken(9, same, ReasonCode::Rule), Some(3));
    assert_eq!(steps_until_broken(9, |_| "not json".into(), ReasonCode::InvalidArguments), Some(3));
    let varied = |step: u32| format!("{{\"n\":{step}}}");
    assert_eq!(steps_until_broken(9, varied, ReasonCode::DeniedByPerson), Some(5));
    assert_eq!(steps_until_broken(9, varied, ReasonCode::Rule), None, "each variant may be judged by a rule");
}

#[test]
fn a_failed_call_may_be_tried_again() {
    let mut state = asking(10);
    for step in 0..5 {
        let key = format!("k{step}");
        drop(state.on(Event::ModelReplied(said("", vec![call(&key, "read", "{}")]))));
        let effects = state.on(answered(&key, refused(CallState::Failed, ReasonCode::ToolError)));
        assert_eq!(effects.last(), Some(&Effect::CheckBudget));
        drop(state.on(Event::BudgetChecked(Budget::Within)));
    }
}

#[test]
fn f04_a_model_failure_is_one_line_and_no_phantom_reply() {
    let mut state = asking(10);
    let effects = state.on(failed(Vec::new()));
    assert_eq!(
        effects,
        [
            Effect::Append(Entry::note(NoteKind::ModelFailed, "The model failed.")),
            Effect::Finish(TurnEnd::ModelFailed)
        ]
    );
}

#[test]
fn f07_a_cut_off_call_is_told_and_tried_again_twice_at_most() {
    let mut state = asking(10);
    let cut = || vec![UnfinishedCall { name: "write_file".into(), arguments: "{\"path\":\"no".into() }];
    for _ in 0..2 {
        let effects = state.on(failed(cut()));
        assert_eq!(proposed(&effects), []);
        let (kind, text) = note(&effects).unwrap();
        assert_eq!(kind, NoteKind::CallCutOff);
        assert!(text.contains("`write_file`") && text.contains("did not run"), "{text}");
        assert_eq!(effects.last(), Some(&Effect::CheckBudget));
        assert_eq!(state.on(Event::BudgetChecked(Budget::Within)), [Effect::AskModel]);
    }
    assert_eq!(state.on(failed(cut())).last(), Some(&Effect::Finish(TurnEnd::ModelFailed)));
}

#[test]
fn f07_calls_of_an_answer_that_ended_badly_are_never_kept_as_calls() {
    let mut state = asking(10);
    let partial = said("I will", vec![call("a", "write", "{}")]);
    let effects = state.on(Event::ModelFailed(Failure {
        sentence: "cut".into(),
        partial: Some(partial),
        unfinished: Vec::new(),
    }));
    let Some(Effect::Append(Entry::Said(Message::Model(kept)))) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!((kept.text.as_str(), kept.calls.len()), ("I will", 0));
}

#[test]
fn f08_a_reached_budget_ends_the_turn_before_the_model_is_asked() {
    for (budget, kind, end) in [
        (Budget::Reached("full".into()), NoteKind::BudgetReached, TurnEnd::BudgetReached),
        (Budget::Unreadable("broken".into()), NoteKind::StoreFailed, TurnEnd::StoreFailed),
    ] {
        let mut state = TurnState::new(10);
        drop(state.on(Event::Started));
        let effects = state.on(Event::BudgetChecked(budget));
        assert_eq!(note(&effects).map(|(kind, _)| kind), Some(kind));
        assert_eq!(effects.last(), Some(&Effect::Finish(end)));
        assert_eq!(state.steps(), 0);
    }
}

#[test]
fn what_cannot_be_written_ends_the_turn_at_every_stage() {
    for stage in 0..4 {
        let mut state = TurnState::new(10);
        let events = [
            Event::Started,
            Event::BudgetChecked(Budget::Within),
            Event::ModelReplied(said("", vec![call("a", "write", "{}")])),
            answered("a", completed()),
        ];
        for event in events.into_iter().take(stage) {
            drop(state.on(event));
        }
        let effects = state.on(Event::LogFailed);
        assert_eq!(effects.last(), Some(&Effect::Finish(TurnEnd::StoreFailed)));
        assert_eq!(state.on(Event::BudgetChecked(Budget::Within)), []);
        assert_eq!(state.on(answered("a", completed())), []);
    }
}

/// One thing a script may throw at the machine. Most of it will not fit the state, and must then change nothing.
#[derive(Clone, Debug)]
enum Throw {
    Started,
    Budget(u8),
    Reply { calls: usize, same: bool },
    Fail { partial: bool, cut: bool },
    Answer { which: usize, kind: u8 },
    Stop,
    Overdue,
}

fn throw() -> impl Strategy<Value = Throw> {
    prop_oneof![
        2 => Just(Throw::Started),
        12 => (0_u8..20).prop_map(Throw::Budget),
        10 => (0_usize..24, any::<bool>()).prop_map(|(calls, same)| Throw::Reply { calls, same }),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(partial, cut)| Throw::Fail { partial, cut }),
        30 => (0_usize..24, 0_u8..6).prop_map(|(which, kind)| Throw::Answer { which, kind }),
        1 => Just(Throw::Stop),
        1 => Just(Throw::Overdue),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever happens in whatever order: the history stays legal, nothing is proposed after Stop, the model is
    /// asked a bounded number of times, each call is proposed at most once, and the turn ends exactly once.
    #[test]
    fn the_history_is_always_legal(script in prop::collection::vec(throw(), 0..300), most in 1_u32..6) {
        let mut state = TurnState::new(most);
        let mut history: Vec<Message> = vec![Message::User { text: "go".into() }];
        let mut proposed: BTreeMap<String, u32> = BTreeMap::new();
        let (mut asked, mut ended, mut stopped, mut next_key) = (0_u32, 0_u32, false, 0_u32);
        // After the script Stop is pressed and found overdue: every turn must end by that.
        let tail = [Throw::Started, Throw::Stop, Throw::Overdue];
        for thrown in script.into_iter().chain(tail) {
            let event = match thrown {
                Throw::Started => Event::Started,
                Throw::Budget(0) => Event::BudgetChecked(Budget::Reached("full".into())),
                Throw::Budget(_) => Event::BudgetChecked(Budget::Within),
                Throw::Reply { calls, same } => Event::ModelReplied(said("text", (0..calls).map(|n| {
                    next_key += 1;
                    call(&format!("k{next_key}"), "tool", &if same { "{}".into() } else { format!("{{\"n\":{n}}}") })
                }).collect())),
                Throw::Fail { partial, cut } => Event::ModelFailed(Failure {
                    sentence: "failed".into(),
                    partial: partial.then(|| said("part", vec![call("x", "tool", "{}")])),
                    unfinished: if cut { vec![UnfinishedCall { name: "t".into(), arguments: "{".into() }] } else { vec![] },
                }),
                Throw::Answer { which, kind } => {
                    let key = proposed.keys().nth(which % proposed.len().max(1)).cloned().unwrap_or_default();
                    answered(&key, match kind {
                        0 => refused(CallState::Denied, ReasonCode::NoRule),
                        1 => refused(CallState::Expired, ReasonCode::Expired),
                        2 => refused(CallState::Unknown, ReasonCode::OutcomeLost),
                        3 => Answer::NotProposed,
                        _ => completed(),
                    })
                }
                Throw::Stop => Event::Stopped,
                Throw::Overdue => Event::StopOverdue,
            };
            stopped |= matches!(event, Event::Stopped);
            for effect in state.on(event) {
                match effect {
                    Effect::AskModel => {
                        prop_assert!(!stopped, "the model was asked after Stop");
                        asked += 1;
                    }
                    Effect::Propose(calls) => {
                        prop_assert!(!stopped, "a call was proposed after Stop");
                        for call in calls {
                            let open = history.last().is_some_and(|last| {
                                matches!(last, Message::Model(turn) if turn.calls.contains(&call))
                            });
                            prop_assert!(open, "a call was proposed that is not in the last message");
                            *proposed.entry(call.key).or_default() += 1;
                        }
                    }
                    Effect::Append(entry) => history.extend(crate::agent::entry::as_message(&entry)),
                    Effect::Finish(_) => ended += 1,
                    Effect::CheckBudget | Effect::CancelModel | Effect::CancelCalls => {}
                }
                prop_assert!(ended == 0 || asked <= most);
            }
        }
        prop_assert_eq!(ended, 1, "the turn ended {} times", ended);
        prop_assert!(asked <= most);
        prop_assert!(proposed.values().all(|times| *times == 1));
        for (at, message) in history.iter().enumerate() {
            let next = history.get(at + 1);
            match message {
                Message::Model(turn) if !turn.calls.is_empty() => {
                    let Some(Message::ToolResults { results }) = next else { panic!("calls without results: {next:?}") };
                    let asked: Vec<_> = turn.calls.iter().map(|call| &call.key).collect();
                    let given: Vec<_> = results.iter().map(|result| &result.key).collect();
                    prop_assert_eq!(asked, given);
                }
                _ => prop_assert!(!matches!(next, Some(Message::ToolResults { .. })), "results without calls"),
            }
        }
    }
}
