//! What has changed since a conversion, in order, for caches that follow it.

use berth_model::{BoundPod, Node};

/// Changes that are remembered at most.
const MOST: usize = 1 << 16;

/// A pod that came to a node or left it.
#[derive(Clone, Debug)]
pub struct PodChange {
    /// The node, by index into [`berth_model::Cluster::nodes`] as they were then.
    pub node: usize,
    /// Its position among the node's pods as they were then.
    pub at: usize,
    /// The pod.
    pub pod: BoundPod,
    /// Whether it came.
    pub comes: bool,
}

/// A change that decisions depend on.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod came to a node or left it.
    Pod(PodChange),
    /// What is left of a node is more or less than its pods tell: room is kept there for a DaemonSet, or not any more. The
    /// node is by index.
    Room(usize),
    /// A node came, as the last one, without pods.
    NodeCame(usize),
    /// The node of this index went, which had no pods any more; the last one took its place.
    NodeWent(usize, Box<Node>),
    /// The node of this index is another, its name and pods aside, or Reservations hold other room there: what it was.
    NodeChanged(usize, Box<Node>),
    /// PodDisruptionBudgets let go of more or fewer.
    Budgets,
    /// Free instances of finite supplies, or nodes that count against limits of NodePools.
    Supplies,
    /// What NodePools may launch, or at which price: instance types or the NodePools themselves.
    Offers,
    /// Namespaces, or their labels.
    Namespaces,
    /// Reservations in more than what is drawn from them: their number, templates or owners.
    Reservations,
}

/// The changes since a conversion.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    changes: Vec<Change>,
    n_dropped: usize,
}

// === impl Log ===

impl Log {
    pub(super) fn push(&mut self, change: Change) {
        if self.changes.len() == MOST {
            self.n_dropped += MOST;
            self.changes.clear();
        }
        self.changes.push(change);
    }

    /// How many there were.
    pub(super) fn len(&self) -> usize {
        self.n_dropped + self.changes.len()
    }

    /// Those after the first `n`; `None` where they are not remembered any more.
    pub(super) fn after(&self, n: usize) -> Option<&[Change]> {
        self.changes.get(n.checked_sub(self.n_dropped)?..)
    }
}
