//! Writes of one's own that no event has shown yet.

use crate::{Key, Object, ObjectRef, Patch, State};

/// Names an assumption, to say later what became of its write. Never given twice by one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssumptionId(pub(crate) u64);

/// What to write, and the assumption that stands for it meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Of which to report the outcome ([`crate::Event::Settled`]).
    pub assumption: AssumptionId,
    /// What it is about.
    pub object: ObjectRef,
    /// What is to change.
    pub patch: Patch,
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is tried out by a fork.
    Tried,
    /// It is being written.
    InFlight,
    /// It was written, with this resourceVersion if it is known.
    Written(Option<u64>),
    /// It may have been written.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Assumption {
    pub(crate) id: AssumptionId,
    pub(crate) patch: Patch,
    pub(crate) progress: Progress,
}

impl Assumption {
    /// Whether the observed version settles it: shows it, or is newer.
    pub(crate) fn is_settled_by(&self, observed: Option<&Object>) -> bool {
        if self.progress == Progress::Tried {
            return false;
        }
        // Nothing can be changed any more of what is gone.
        if observed.is_none() && !self.patch.creates() {
            return true;
        }
        let is_newer = match (self.progress, observed.and_then(Object::version)) {
            (Progress::Written(Some(written)), Some(version)) => version >= written,
            _ => false,
        };
        is_newer || self.patch.is_shown_by(observed)
    }

    /// Whether it is about the incarnation that was known: one that is tried or creates an object is not.
    pub(crate) fn is_about_known(&self) -> bool {
        self.progress != Progress::Tried && !self.patch.creates()
    }

    /// Whether it was written, at this resourceVersion or an unknown one that is not newer than `version`.
    pub(crate) fn was_written_until(&self, version: Option<u64>) -> bool {
        match self.progress {
            Progress::Written(written) => written.zip(version).is_none_or(|(written, version)| written <= version),
            _ => false,
        }
    }
}

impl State {
    /// Drops what is not to be kept of the assumptions about an object.
    pub(crate) fn keep_assumptions(&mut self, key: &Key, keep: impl Fn(&Assumption, Option<&Object>) -> bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let (assumptions, observed) = (&mut self.assumptions, entry.observed.as_ref());
        entry.assumed.retain(|known| {
            let is_kept = keep(known, observed);
            if !is_kept {
                assumptions.remove(&known.id);
            }
            is_kept
        });
    }
}
