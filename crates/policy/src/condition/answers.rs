//! The questions of all rules, each asked once per call, however many rules ask it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::question::{Found, Question};
use super::readings::Readings;
use super::{Condition, Truth, Why};
use crate::arguments::canonical_json;

/// Every different question of a rule set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions {
    asked: Vec<Asked>,
    /// The different arguments that they look at.
    arguments: Vec<Box<[Box<str>]>>,
}

#[derive(Debug, Clone)]
struct Asked {
    question: Question,
    /// Place in `arguments`.
    argument: u32,
}

/// Collects questions, each once.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    questions: Questions,
    asked: BTreeMap<String, u32>,
    arguments: BTreeMap<Box<[Box<str>]>, u32>,
}

impl Collector {
    /// The place of a question, among all of them.
    pub(crate) fn place(&mut self, written: &Condition, question: Question) -> u32 {
        let key = serde_json::to_value(written).map(|value| canonical_json(&value)).ok();
        if let Some(known) = key.as_ref().and_then(|key| self.asked.get(key)) {
            return *known;
        }
        let questions = &mut self.questions;
        let keys = question.keys();
        let argument = match self.arguments.get(keys) {
            Some(known) => *known,
            None => {
                let place = place(&questions.arguments);
                questions.arguments.push(keys.into());
                self.arguments.insert(keys.into(), place);
                place
            }
        };
        let place = place(&questions.asked);
        questions.asked.push(Asked { question, argument });
        if let Some(key) = key {
            self.asked.insert(key, place);
        }
        place
    }

    pub(crate) fn finish(self) -> Questions {
        self.questions
    }
}

/// The place that the next element will have. A document is far too small for more than 32 bits of conditions.
fn place<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// The answers that the arguments of one call give.
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    questions: &'a Questions,
    object: &'a Value,
    found: Vec<Option<Found<'a>>>,
    known: Vec<Option<Truth>>,
    readings: Readings<'a>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(questions: &'a Questions, object: &'a Value) -> Self {
        Self {
            questions,
            object,
            found: vec![None; questions.arguments.len()],
            known: vec![None; questions.asked.len()],
            readings: Readings::default(),
        }
    }

    /// The answer to the question at that place.
    pub(crate) fn get(&mut self, place: u32) -> Truth {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if let Some(Some(known)) = self.known.get(place) {
            return *known;
        }
        let answer = self.ask(place).unwrap_or(Truth::Unevaluable(Why::Missing));
        if let Some(slot) = self.known.get_mut(place) {
            *slot = Some(answer);
        }
        answer
    }

    fn ask(&mut self, place: usize) -> Option<Truth> {
        let asked = self.questions.asked.get(place)?;
        let argument = usize::try_from(asked.argument).ok()?;
        let slot = self.found.get_mut(argument)?;
        let found = match slot {
            Some(found) => *found,
            None => *slot.insert(Found::at(self.object, self.questions.arguments.get(argument)?)),
        };
        Some(asked.question.answer(found, self.object, &mut self.readings))
    }
}
