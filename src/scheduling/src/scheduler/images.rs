//! Images on nodes, as far as scores tell nodes apart by them.

use berth_model::{Cluster, Node, Sym};
use rustc_hash::FxHashMap;

/// How many nodes have an image, and what size it is of: that on the first of them, as kube-scheduler has it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeImages(FxHashMap<Sym, OnNodes>);

#[derive(Clone, Copy, Debug)]
struct OnNodes {
    /// The first node, by name once nodes come and go.
    first: Sym,
    size: i64,
    n_nodes: usize,
}

// === impl NodeImages ===

impl NodeImages {
    /// The first node is that of the order in which they are given.
    pub(super) fn new(nodes: &[Node]) -> Self {
        let mut images = NodeImages::default();
        for node in nodes {
            for (image, size) in &node.images {
                let first = OnNodes { first: node.name, size: *size, n_nodes: 0 };
                images.0.entry(*image).or_insert(first).n_nodes += 1;
            }
        }
        images
    }

    /// The first node is the first by name.
    pub(super) fn by_name(cluster: &Cluster) -> Self {
        let mut images = NodeImages::default();
        for node in &cluster.nodes {
            images.come(node, cluster);
        }
        images
    }

    /// The node came, or went. The cluster may know already what comes after that.
    pub(super) fn count(&mut self, node: &Node, comes: bool, cluster: &Cluster) {
        if comes { self.come(node, cluster) } else { self.go(node, cluster) }
    }

    fn come(&mut self, node: &Node, cluster: &Cluster) {
        let name = cluster.symbols.text(node.name);
        for (image, size) in &node.images {
            let known = self.0.entry(*image).or_insert(OnNodes { first: node.name, size: *size, n_nodes: 0 });
            known.n_nodes += 1;
            if name <= cluster.symbols.text(known.first) {
                (known.first, known.size) = (node.name, *size);
            }
        }
    }

    fn go(&mut self, node: &Node, cluster: &Cluster) {
        let mut orphans: FxHashMap<Sym, Option<(&str, OnNodes)>> = FxHashMap::default();
        for (image, _) in &node.images {
            let Some(known) = self.0.get_mut(image) else { continue };
            known.n_nodes = known.n_nodes.saturating_sub(1);
            if known.n_nodes == 0 {
                self.0.remove(image);
            } else if known.first == node.name {
                orphans.insert(*image, None);
            }
        }
        if orphans.is_empty() {
            return;
        }
        for other in cluster.nodes.iter().filter(|other| other.name != node.name) {
            let name = cluster.symbols.text(other.name);
            for (image, size) in &other.images {
                let Some(first) = orphans.get_mut(image) else { continue };
                if first.as_ref().is_none_or(|(known, _)| name < *known) {
                    *first = Some((name, OnNodes { first: other.name, size: *size, n_nodes: 0 }));
                }
            }
        }
        for (image, first) in orphans {
            if let (Some(known), Some((_, first))) = (self.0.get_mut(&image), first) {
                (known.first, known.size) = (first.first, first.size);
            }
        }
    }

    /// An image's size, and how many nodes have it.
    pub(super) fn get(&self, image: Sym) -> (i64, usize) {
        self.0.get(&image).map_or((0, 0), |known| (known.size, known.n_nodes))
    }
}
