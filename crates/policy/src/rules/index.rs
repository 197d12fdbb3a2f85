//! Which rules are about a tool, without asking all of them.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::CompiledRule;
use super::pattern::Names;
use crate::names::ToolRef;

/// Places of rules, by the tools that they are about.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Rules that name servers and tools exactly, by tool, rising.
    exact: BTreeMap<ToolRef, Vec<u32>>,
    /// All others, rising; once for each different set of patterns.
    open: Vec<(Names, Vec<u32>)>,
}

impl Index {
    /// The index of rules that stand at their places.
    pub(super) fn of(rules: &[CompiledRule]) -> Self {
        let (mut exact, mut open) =
            (BTreeMap::<ToolRef, Vec<u32>>::new(), BTreeMap::<&Names, Vec<u32>>::new());
        for (place, rule) in (0u32..).zip(rules) {
            match rule.names.exact() {
                Some(tools) => tools.into_iter().for_each(|tool| exact.entry(tool).or_default().push(place)),
                None => open.entry(&rule.names).or_default().push(place),
            }
        }
        Self { exact, open: open.into_iter().map(|(names, places)| (names.clone(), places)).collect() }
    }

    /// The places of the rules whose patterns fit the tool, rising.
    pub(super) fn about(&self, tool: &ToolRef) -> Cow<'_, [u32]> {
        let named = self.exact.get(tool).map_or(&[][..], Vec::as_slice);
        let mut found = Cow::Borrowed(named);
        for (names, places) in &self.open {
            if names.fit(tool) {
                match &mut found {
                    Cow::Borrowed([]) => found = Cow::Borrowed(places),
                    some => some.to_mut().extend(places),
                }
            }
        }
        if let Cow::Owned(places) = &mut found {
            places.sort_unstable();
        }
        found
    }

    /// Places that hold every rule which is about all tools that these names fit, rising. Names with a star in them are
    /// covered by names with a star alone.
    pub(super) fn may_cover(&self, names: &Names) -> Cow<'_, [u32]> {
        if let Some(first) = names.exact().and_then(|tools| tools.into_iter().next()) {
            return self.about(&first);
        }
        let mut places: Vec<u32> = self.open.iter().flat_map(|(_, places)| places).copied().collect();
        places.sort_unstable();
        Cow::Owned(places)
    }
}
