//! States of a collection that lists in pages are reading.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Object, Page, Range, Rest};

/// Lists in pages that go on at a time. The state of one more is put together anew for each of its pages.
const MOST: usize = 8;

/// All objects of a collection at a version, in order of key.
pub(super) type State = Arc<[Arc<Object>]>;

/// States by version, oldest first. What they hold is in the history, too: they are forgotten with it.
#[derive(Debug, Default)]
pub(super) struct Frozen(VecDeque<(u64, State)>);

// === impl Frozen ===

impl Frozen {
    /// The state at a version, if it is kept.
    pub(super) fn at(&self, revision: u64) -> Option<State> {
        self.0.iter().rev().find(|(known, _)| *known == revision).map(|(_, state)| state.clone())
    }

    /// Keeps the present state for a version. `changed` is that of the last change.
    pub(super) fn freeze(&mut self, revision: u64, changed: u64, state: impl FnOnce() -> State) -> State {
        if let Some((known, state)) = self.0.back() {
            let state = state.clone();
            if *known == revision {
                return state;
            }
            if *known >= changed {
                self.keep(revision, state.clone());
                return state;
            }
        }
        let state = state();
        self.keep(revision, state.clone());
        state
    }

    /// Keeps a state that was put together.
    pub(super) fn keep(&mut self, revision: u64, state: State) {
        let at = self.0.partition_point(|(known, _)| *known < revision);
        self.0.insert(at, (revision, state));
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Lists of older versions are over.
    pub(super) fn forget_before(&mut self, compacted: u64) {
        while self.0.front().is_some_and(|(revision, _)| *revision < compacted) {
            self.0.pop_front();
        }
    }
}

/// Fills a page from a state.
pub(super) fn fill(page: &mut Page, state: &[Arc<Object>], range: &Range<'_>) {
    let start = match range.after {
        Some(after) => state.partition_point(|object| &*object.key <= after),
        None => state.partition_point(|object| &*object.key < range.prefix),
    };
    let end = state.partition_point(|object| &*object.key < range.prefix || object.key.starts_with(range.prefix));
    let inside = state.get(start..end).unwrap_or_default();
    let limit = if range.limit == 0 { inside.len() } else { range.limit };
    page.items.extend(inside.iter().take(limit).cloned());
    if inside.len() > limit {
        let after = page.items.last().map(|last| last.key.to_string()).unwrap_or_default();
        page.rest = Some(Rest { after, remaining: inside.len() - limit });
    }
}
