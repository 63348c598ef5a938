//! What has changed since a scheduler looked at the cluster, by node.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{BoundPod, ClassId, Node, ReservationId};

/// What has changed since a scheduler looked at the cluster, in order.
#[derive(Clone, Copy, Debug)]
pub enum Step<'c> {
    /// A pod of a class came to a node, or left it.
    Pod {
        /// The node, by index.
        node: usize,
        /// The pod's class.
        class: ClassId,
        /// The pod.
        pod: &'c BoundPod,
        /// Whether it came.
        comes: bool,
    },
    /// What is left of the node of this index is more or less than its pods tell.
    Room(usize),
    /// A node came, as the last one, without pods.
    Came,
    /// The node of this index went, which had no pods any more; the last one took its place.
    Went(usize, &'c Node),
    /// The node of this index became another one, its name and pods aside, or Reservations hold other room there: what it was.
    Changed(usize, &'c Node),
    /// A Reservation came, or the pod that stands in for it is of another class, or it went: the class that the pod had.
    Reserved(ReservationId, Option<ClassId>),
}

/// A pod that came or left.
#[derive(Clone, Copy)]
pub(super) struct PodStep<'c> {
    pub(super) class: ClassId,
    pub(super) pod: &'c BoundPod,
    pub(super) comes: bool,
}

/// The steps by node. A node that was there at first is known by its index then; those that came have larger numbers.
#[derive(Default)]
pub(super) struct History<'c> {
    n_before: usize,
    n_came: usize,
    pub(super) n_nodes: usize,
    /// Who is at an index, where that is not who was there at first.
    pub(super) at: BTreeMap<usize, usize>,
    /// Of nodes that were there at first and became others or went: what they were.
    pub(super) was: BTreeMap<usize, &'c Node>,
    pub(super) gone: BTreeSet<usize>,
    /// Where those are now that moved or came.
    positions: BTreeMap<usize, usize>,
    pub(super) pods: Vec<(usize, PodStep<'c>)>,
    pub(super) rooms: Vec<usize>,
    /// Of Reservations whose pod was of another class: that one.
    pub(super) reserved: BTreeMap<ReservationId, Option<ClassId>>,
    /// Nodes that came, and the indexes of those that went, in order.
    pub(super) turns: Vec<Option<usize>>,
}

// === impl History ===

impl<'c> History<'c> {
    /// The steps, of a cluster that had so many nodes.
    pub(super) fn of(n_nodes: usize, steps: &[Step<'c>]) -> Self {
        let mut history = History { n_before: n_nodes, n_nodes, ..History::default() };
        for step in steps {
            match *step {
                Step::Pod { node, class, pod, comes } => {
                    history.pods.push((history.id_at(node), PodStep { class, pod, comes }));
                }
                Step::Room(node) => history.rooms.push(history.id_at(node)),
                Step::Came => {
                    history.at.insert(history.n_nodes, history.n_before + history.n_came);
                    history.n_nodes += 1;
                    history.n_came += 1;
                    history.turns.push(None);
                }
                Step::Went(node, was) => history.went(node, was),
                Step::Changed(node, was) => history.was(history.id_at(node), was),
                Step::Reserved(id, was) => {
                    history.reserved.entry(id).or_insert(was);
                }
            }
        }
        history.positions = history.at.iter().map(|(index, id)| (*id, *index)).collect();
        history
    }

    fn id_at(&self, index: usize) -> usize {
        self.at.get(&index).copied().unwrap_or(index)
    }

    /// Whether a node was there at first.
    pub(super) fn was_there(&self, id: usize) -> bool {
        id < self.n_before
    }

    fn was(&mut self, id: usize, was: &'c Node) {
        if self.was_there(id) {
            self.was.entry(id).or_insert(was);
        }
    }

    fn went(&mut self, node: usize, was: &'c Node) {
        let id = self.id_at(node);
        self.was(id, was);
        self.gone.insert(id);
        self.turns.push(Some(node));
        self.n_nodes = self.n_nodes.saturating_sub(1);
        let moved = self.id_at(self.n_nodes);
        self.at.remove(&self.n_nodes);
        if node != self.n_nodes {
            self.at.insert(node, moved);
        }
    }

    /// Where a node is now; `None` where it went.
    pub(super) fn position(&self, id: usize) -> Option<usize> {
        let is_here = !self.gone.contains(&id);
        is_here.then(|| self.positions.get(&id).copied().unwrap_or(id))
    }

    /// The nodes that came and are there.
    pub(super) fn came(&self) -> impl Iterator<Item = usize> {
        (self.n_before..self.n_before + self.n_came).filter_map(|id| self.position(id))
    }
}
