//! Where each part of a YAML text stands: so that a mistake which only the whole document shows can name its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The places of a document's parts, without their values.
#[derive(Debug)]
pub(super) struct Outline(Spanned<Part>);

#[derive(Debug)]
enum Part {
    Value,
    List(Vec<Spanned<Part>>),
    Keys(Vec<(Spanned<String>, Spanned<Part>)>),
}

impl Outline {
    /// The place of a part, by its path from the document such as `rules[3].approval.timeout`. Where the path leads
    /// further than the text, the place of its last part that is written.
    pub(super) fn place(&self, path: &str) -> Location {
        let (mut place, mut part) = (self.0.referenced, &self.0.value);
        for step in steps(path) {
            let found = match (step, part) {
                (Step::Key(name), Part::Keys(keys)) => {
                    keys.iter().find(|(key, _)| key.value == name).map(|(key, value)| (key.referenced, value))
                }
                (Step::Place(n), Part::List(items)) => items.get(n).map(|item| (item.referenced, item)),
                _ => None,
            };
            let Some((found, next)) = found else { break };
            (place, part) = (found, &next.value);
        }
        place
    }
}

enum Step<'a> {
    Key(&'a str),
    Place(usize),
}

/// `rules[3].when[0]` as `rules`, 3, `when`, 0.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).filter(|step| !step.is_empty()).map(|step| {
        match step.strip_suffix(']').and_then(|digits| digits.parse().ok()) {
            Some(place) => Step::Place(place),
            None => Step::Key(step),
        }
    })
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_str<E>(self, _: &str) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_unit<E>(self) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_none<E>(self) -> Result<Part, E> {
        Ok(Part::Value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Part, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Part::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let mut keys = Vec::new();
        while let Some(entry) = map.next_entry()? {
            keys.push(entry);
        }
        Ok(Part::Keys(keys))
    }
}
