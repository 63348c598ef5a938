//! What is assumed of objects is settled by what is told of them; of whom nobody can tell is to be read again.

use crate::assume::{Assumption, Progress};
use crate::entry::Entry;
use crate::kept::Kept;
use crate::{Key, ObjectRef, State};

impl State {
    /// Objects of which a write's outcome is unknown: to be read from the API server, and told by [`crate::Event::Read`].
    pub fn to_read_again(&self) -> impl Iterator<Item = ObjectRef> {
        self.in_doubt.iter().filter_map(|key| self.in_doubt_as(key))
    }

    /// Such an object, where this is one.
    pub fn in_doubt_as(&self, key: &Key) -> Option<ObjectRef> {
        let entry = self.entries.get(key)?;
        entry.is_in_doubt().then(|| key.clone().with_uid(entry.observed().and_then(Kept::uid).as_deref()))
    }

    /// Objects that may have come to be such since this was asked last: who asks after each event need not look at all.
    pub fn take_told_doubts(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.told_doubts)
    }

    /// An object is to be read again.
    pub(crate) fn doubt(&mut self, key: &Key) {
        self.in_doubt.insert(key.clone());
        self.told_doubts.push(key.clone());
    }

    /// Drops what is not to be kept of the assumptions about an object.
    pub(crate) fn keep_assumptions(&mut self, key: &Key, mut keep: impl FnMut(&Assumption, Option<&Kept>) -> bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let assumptions = &mut self.assumptions;
        entry.retain_assumed(|known, observed| {
            let is_kept = keep(known, observed);
            if !is_kept {
                assumptions.remove(&known.id);
            }
            is_kept
        });
        self.note_doubt(key);
    }

    /// Notes whether something is assumed of an object that nobody can tell what became of.
    pub(crate) fn note_doubt(&mut self, key: &Key) {
        if self.entries.get(key).is_some_and(Entry::is_in_doubt) {
            self.doubt(key);
        } else if !self.in_doubt.is_empty() {
            self.in_doubt.remove(key);
        }
    }

    /// Settles what the observed version of an object shows. What nobody can tell is to be read again.
    pub(crate) fn settle_assumptions(&mut self, key: &Key) {
        if self.entries.get(key).is_none_or(|entry| entry.assumed().is_empty()) {
            return;
        }
        let gone_at = self.graves.get(key).max(self.listed_at.get(&key.kind)).copied();
        let mut is_any_left = false;
        self.keep_assumptions(key, |known, observed| {
            let is_kept = !known.is_settled_by(observed, gone_at, is_any_left);
            is_any_left |= is_kept;
            is_kept
        });
        let assumed = self.entries.get_mut(key).into_iter().flat_map(Entry::assumed_mut);
        for known in assumed.filter(|known| known.is_in_doubt()) {
            known.progress = Progress::Unknown;
        }
        self.note_doubt(key);
    }
}
