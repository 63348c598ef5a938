//! A converted cluster, and what tells one conversion from others.

use std::sync::Arc;

use berth_convert::{Change, Live};
use berth_model::Cluster;

use crate::event::RefusedObject;

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
    /// Whether objects came or went since the warnings were told.
    pub(crate) is_patched: bool,
    /// What people should know, a line each.
    pub(crate) warnings: Vec<String>,
    /// Objects that can be used alone, but not beside the others.
    pub(crate) refused: Vec<RefusedObject>,
}
