//! What a scheduler reads of the cluster, and of what could be launched beside it. No decision changes it:
//! [`super::Scheduler::follow`] does where nodes came, went or became others, and [`super::Scheduler::set_launchable`].

use std::ops::Deref;

use berth_model::{ClassId, Node};

use super::domains::DomainSizes;
use super::images::NodeImages;
use super::launchable::Launchable;
use super::names::NodeNames;
use crate::node_tables::NodeTables;

/// What a decision reads and never changes.
#[derive(Clone, Debug)]
pub(super) struct Tables<'a> {
    /// Cluster, universe, and which nodes count where.
    pub(super) nodes: NodeTables<'a>,
    /// Which node is at which index.
    pub(super) names: NodeNames,
    pub(super) images: NodeImages,
    /// The domains of topology keys, by number.
    pub(super) domains: DomainSizes,
    pub(super) launchable: Launchable,
}

// === impl Tables ===

impl<'a> Tables<'a> {
    pub(super) fn new(nodes: NodeTables<'a>, launchable: Launchable) -> Self {
        let counters = &nodes.universe.counters;
        let mut domains = DomainSizes::new(nodes.cluster, counters, |filter, node| nodes.admits(filter, node));
        launchable.number(&mut domains);
        let names = NodeNames::of(nodes.cluster);
        Tables { names, images: NodeImages::new(&nodes.cluster.nodes), domains, launchable, nodes }
    }

    /// Whether a scheduler may bind to the node of an index.
    pub(super) fn stands_at(&self, node: usize) -> bool {
        self.cluster.node(node).is_some_and(stands)
    }

    /// The node on which room was made for pods of a class.
    pub(super) fn nominated_node(&self, id: ClassId) -> Option<usize> {
        let name = self.class_and_spec(id)?.1.nominated_node?;
        self.cluster.nodes.iter().position(|node| node.name == name)
    }
}

impl<'a> Deref for Tables<'a> {
    type Target = NodeTables<'a>;

    fn deref(&self) -> &NodeTables<'a> {
        &self.nodes
    }
}

/// Whether a scheduler may bind to the node: it is there.
pub(super) fn stands(node: &Node) -> bool {
    node.is_up()
}
