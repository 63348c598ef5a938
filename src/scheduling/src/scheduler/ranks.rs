//! Nodes by name, as numbers: by these ties are broken, and a node that comes gets one between those of its neighbours.

use berth_model::Cluster;

use crate::kinds::index;

/// What lies between two neighbours at first: so often one may come between that is halved.
const STEP: u64 = 1 << 32;

/// The rank of each node: ascending by name, with gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    of_node: Vec<Option<u64>>,
    /// Rank and node, ascending.
    order: Vec<(u64, u32)>,
}

// === impl Ranks ===

impl Ranks {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut by_name: Vec<(&str, u32)> =
            cluster.nodes.iter().zip(0..).map(|(node, at)| (cluster.symbols.text(node.name), at)).collect();
        by_name.sort_unstable();
        let mut ranks = Ranks { of_node: vec![None; by_name.len()], order: Vec::with_capacity(by_name.len()) };
        for ((_, node), position) in by_name.into_iter().zip(1..) {
            ranks.set(node as usize, position * STEP);
            ranks.order.push((position * STEP, node));
        }
        ranks
    }

    fn set(&mut self, node: usize, rank: u64) {
        if let Some(of_node) = self.of_node.get_mut(node) {
            *of_node = Some(rank);
        }
    }

    /// The rank of a node; beyond all others where it has none.
    pub(super) fn of(&self, node: usize) -> u64 {
        self.of_node.get(node).copied().flatten().unwrap_or(u64::MAX)
    }

    /// The node of a rank.
    pub(super) fn at(&self, rank: u64) -> Option<usize> {
        self.position(rank).and_then(|at| self.order.get(at)).map(|(_, node)| *node as usize)
    }

    fn position(&self, rank: u64) -> Option<usize> {
        self.order.binary_search_by_key(&rank, |(known, _)| *known).ok()
    }

    /// A node came, as the last one. It has no rank yet.
    pub(super) fn push(&mut self) {
        self.of_node.push(None);
    }

    /// A node went; the last one takes its place.
    pub(super) fn swap_remove(&mut self, node: usize) {
        if node >= self.of_node.len() {
            return;
        }
        if let Some(at) = self.position(self.of(node)) {
            self.order.remove(at);
        }
        self.of_node.swap_remove(node);
        if let Some(at) = self.position(self.of(node))
            && let Some((_, moved)) = self.order.get_mut(at)
        {
            *moved = index(node);
        }
    }

    /// Gives a node that came its rank, by its name; false where there is none left between its neighbours.
    #[must_use]
    pub(super) fn insert(&mut self, node: usize, cluster: &Cluster) -> bool {
        let name = |node: u32| cluster.node(node as usize).map_or("", |node| cluster.symbols.text(node.name));
        let own = name(index(node));
        let at = self.order.partition_point(|(_, known)| name(*known) < own);
        let before = at.checked_sub(1).and_then(|at| self.order.get(at)).map_or(0, |(rank, _)| *rank);
        let rank = match self.order.get(at) {
            Some((after, _)) => before + (after - before) / 2,
            None => before.saturating_add(STEP),
        };
        if rank == before {
            return false;
        }
        self.order.insert(at, (rank, index(node)));
        self.set(node, rank);
        true
    }
}
