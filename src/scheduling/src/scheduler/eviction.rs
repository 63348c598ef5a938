//! Pods that give way.

/// A pod that gave way: a node by index, and which of its [`berth_model::Node::pods`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Eviction {
    /// The node.
    pub node: usize,
    /// The pod's position among the node's.
    pub pod: usize,
}
