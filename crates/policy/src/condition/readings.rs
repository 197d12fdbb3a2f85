//! Texts of one call as they were read, so that each is read once however many rules ask for it; and how much work a call
//! may still make.

use alloc::vec::Vec;

use super::host::Host;
use super::path::Plain;

/// A call may make as much work as it takes to judge four million elements of lists, or to match 64 MiB of texts against
/// patterns. What it asks beyond that is unevaluable: a long list or text, times many rules, does not stop the gate.
const MAX_WORK: usize = 64 * 1024 * 1024;
const WORK_OF_ELEMENT: usize = 16;

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Readings<'a> {
    hosts: Read<'a, Host>,
    paths: Read<'a, Plain<'a>>,
    work: usize,
}

impl<'a> Readings<'a> {
    /// Judges the host of a URL; `None` if it has none that can be judged.
    pub(super) fn host(&mut self, url: &'a str, judge: impl FnOnce(&Host) -> bool) -> Option<bool> {
        self.hosts.judge(url, Host::of_url, |host| Some(judge(host)))
    }

    /// Judges a path; `None` if it is none that can be judged.
    pub(super) fn path(
        &mut self,
        path: &'a str,
        judge: impl FnOnce(&Plain<'a>) -> Option<bool>,
    ) -> Option<bool> {
        self.paths.judge(path, Plain::new, judge)
    }

    /// Whether an element of a list may still be judged.
    pub(super) fn afford_element(&mut self) -> bool {
        self.afford(WORK_OF_ELEMENT)
    }

    /// Whether a text of so many bytes may still be matched against a pattern.
    pub(super) fn afford_match(&mut self, bytes: usize) -> bool {
        self.afford(bytes)
    }

    fn afford(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_add(work);
        self.work <= MAX_WORK
    }
}

#[derive(Debug)]
struct Read<'a, T>(Vec<(&'a str, Option<T>)>);

impl<T> Default for Read<'_, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T> Read<'a, T> {
    /// Beyond this many, as in a long list, texts are read each time: searching would not be quicker.
    const MAX: usize = 16;

    fn judge(
        &mut self,
        text: &'a str,
        read: impl FnOnce(&'a str) -> Option<T>,
        judge: impl FnOnce(&T) -> Option<bool>,
    ) -> Option<bool> {
        // The same text in the same place: comparing addresses is enough, and quicker.
        if let Some((_, known)) = self.0.iter().find(|(known, _)| core::ptr::eq(*known, text)) {
            return known.as_ref().and_then(judge);
        }
        let reading = read(text);
        let answer = reading.as_ref().and_then(judge);
        if self.0.len() < Self::MAX {
            self.0.push((text, reading));
        }
        answer
    }
}
