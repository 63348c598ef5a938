//! A converted cluster, and what tells one conversion from others.

use std::sync::Arc;
use std::time::Duration;

use berth_convert::{Change, Live};
use berth_model::Cluster;

use crate::Time;
use crate::event::RefusedObject;

/// Objects of a cluster that is converted anew at once where other resources may be known.
const SMALL: usize = 1_024;
/// Objects of a larger one that are converted anew for each change that was taken in.
const OBJECTS_PER_CHANGE: usize = 16;
/// When it is converted anew at the latest.
const AT_MOST_AFTER: Duration = Duration::from_secs(60);

/// Tells one conversion of a cluster from all others. Within one, what has changed is told change by change.
#[derive(Clone, Debug, Default)]
pub struct Conversion(Arc<()>);

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Conversion {}

/// The cluster with what changed in it, for caches that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Tracked<'s> {
    /// The cluster.
    pub cluster: &'s Cluster,
    /// Which conversion it is of: a cache of another one is of no use.
    pub conversion: &'s Conversion,
    pub(crate) live: &'s Live,
}

impl<'s> Tracked<'s> {
    /// How many changes there were since the conversion.
    pub fn n_changes(&self) -> usize {
        self.live.n_changes()
    }

    /// The index of the node, or the NodeClaim in flight, of a name.
    pub fn position_of(&self, node: &str) -> Option<usize> {
        self.live.position_of(node)
    }

    /// Those after the first `n`, in order; `None` where they are not remembered any more.
    pub fn changes_after(&self, n: usize) -> Option<&'s [Change]> {
        self.live.changes_after(n)
    }
}

/// What was converted.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// Another one for each conversion.
    pub(crate) conversion: Conversion,
    pub(crate) live: Live,
    /// When.
    pub(crate) at: Time,
    /// How many objects there were.
    pub(crate) n_objects: usize,
    /// How many changes were taken in since.
    pub(crate) n_changes: usize,
    /// Whether a conversion may know other resources by now: there are more than are told apart, and something has changed.
    pub(crate) knows_too_few: bool,
    /// Whether objects came or went since the warnings were told.
    pub(crate) is_patched: bool,
    /// What people should know, a line each.
    pub(crate) warnings: Vec<String>,
    /// Objects that can be used alone, but not beside the others.
    pub(crate) refused: Vec<RefusedObject>,
}

// === impl Built ===

impl Built {
    /// Whether the cluster of that time needs no conversion of everything.
    pub(crate) fn is_current(&self, now: Time) -> bool {
        self.live.is_valid_at(now) && !self.is_due(now)
    }

    /// Whether there is to be another conversion as other resources may be known. Whoever keeps naming new ones is not to keep
    /// others from work: it costs a few objects a change, or comes once a minute.
    fn is_due(&self, now: Time) -> bool {
        let allowed = SMALL.saturating_add(self.n_changes.saturating_mul(OBJECTS_PER_CHANGE));
        self.knows_too_few && (self.n_objects <= allowed || now.duration_since(self.at).unsigned_abs() >= AT_MOST_AFTER)
    }

    /// A change was taken in.
    pub(crate) fn note_change(&mut self) {
        self.n_changes += 1;
        self.is_patched = true;
        self.knows_too_few |= self.live.has_refused_resources();
    }
}
