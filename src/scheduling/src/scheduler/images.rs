//! Images on nodes, as far as scores tell nodes apart by them.

use berth_model::{Node, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How many nodes have an image, by the size that they report: all the same one, where nothing is odd.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeImages(FxHashMap<Sym, SmallVec<[(i64, usize); 1]>>);

// === impl NodeImages ===

impl NodeImages {
    pub(super) fn new(nodes: &[Node]) -> Self {
        let mut images = NodeImages::default();
        for node in nodes {
            images.count(node, true);
        }
        images
    }

    /// The node came, or went.
    pub(super) fn count(&mut self, node: &Node, comes: bool) {
        for (image, size) in &node.images {
            let sizes = self.0.entry(*image).or_default();
            let at = sizes.iter().position(|(known, _)| known == size).unwrap_or_else(|| {
                sizes.push((*size, 0));
                sizes.len() - 1
            });
            if let Some((_, nodes)) = sizes.get_mut(at) {
                *nodes = if comes { nodes.saturating_add(1) } else { nodes.saturating_sub(1) };
            }
            sizes.retain(|(_, nodes)| *nodes > 0);
            if sizes.is_empty() {
                self.0.remove(image);
            }
        }
    }

    /// An image's size, the largest that a node reports, and how many nodes have it. kube-scheduler takes the size of the
    /// node that it saw first.
    pub(super) fn get(&self, image: Sym) -> (i64, usize) {
        let sizes = self.0.get(&image).map_or(&[][..], |sizes| sizes);
        (sizes.iter().map(|(size, _)| *size).max().unwrap_or(0), sizes.iter().map(|(_, nodes)| *nodes).sum())
    }
}
