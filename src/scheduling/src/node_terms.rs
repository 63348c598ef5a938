//! Whether a node meets terms about labels.

use berth_model::{Cluster, Node, Requirements, Sym};

/// Whether a node meets one of some terms.
pub(crate) fn matches_any(cluster: &Cluster, node: &Node, terms: &[Requirements]) -> bool {
    terms.iter().any(|term| node.satisfies(term, &cluster.symbols, |key| node_label(cluster, node, key)))
}

/// The value of a label of a node, or of the field `metadata.name`.
pub fn node_label(cluster: &Cluster, node: &Node, key: Sym) -> Option<Sym> {
    if key == cluster.well_known.field_name { Some(node.name) } else { node.labels.get(key) }
}
