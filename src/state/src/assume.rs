//! Writes of one's own that no event has shown yet.

use crate::kept::Kept;
use crate::{ObjectRef, Patch};

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

/// What was told of the object since a write was assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Since {
    /// Nothing new.
    Nothing,
    /// Newer versions, a deletion, or a list that does not have it, each with its resourceVersion.
    Versions,
    /// Some of these without a resourceVersion: nobody can tell whether that was before the write or after.
    Unversioned,
}

#[derive(Clone, Debug)]
pub(crate) struct Assumption {
    pub(crate) id: AssumptionId,
    pub(crate) patch: Patch,
    pub(crate) progress: Progress,
    pub(crate) since: Since,
}

impl Assumption {
    pub(crate) fn new(id: AssumptionId, patch: Patch, progress: Progress) -> Self {
        Assumption { id, patch, progress, since: Since::Nothing }
    }

    /// Something new was told of the object.
    pub(crate) fn told(&mut self, version: Option<u64>) {
        self.since = self.since.max(if version.is_some() { Since::Versions } else { Since::Unversioned });
    }

    /// Whether it was written and what was told since does not settle it, though that may be newer than the write: only
    /// the API server can tell what became of it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self.progress {
            Progress::Written(None) => self.since >= Since::Versions,
            Progress::Written(Some(_)) => self.since == Since::Unversioned,
            Progress::Tried | Progress::InFlight | Progress::Unknown => false,
        }
    }

    /// Whether what is known settles it: shows it, or is newer. `gone_at` is how new the news are that there is no such
    /// object, where none is observed. `is_after_others` says whether an earlier write is not settled: what is observed may be
    /// from before both then, and look as it will after both, as where the later one takes the earlier one back.
    pub(crate) fn is_settled_by(&self, observed: Option<&Kept>, gone_at: Option<u64>, is_after_others: bool) -> bool {
        if self.progress == Progress::Tried {
            return false;
        }
        // Nothing can be changed any more of what is gone.
        if observed.is_none() && !self.patch.creates() {
            return true;
        }
        let known_at = observed.map_or(gone_at, Kept::version);
        let is_newer = match (self.progress, known_at) {
            (Progress::Written(Some(written)), Some(version)) => version >= written,
            _ => false,
        };
        is_newer || (!is_after_others && self.patch.is_shown_by(observed))
    }

    /// Whether it is about the incarnation that was known: one that is tried or creates an object is not.
    pub(crate) fn is_about_known(&self) -> bool {
        self.progress != Progress::Tried && !self.patch.creates()
    }
}
