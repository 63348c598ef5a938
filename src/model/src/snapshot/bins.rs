//! Nodes being planned.

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::host_counts::HostCounts;
use crate::{ClassId, ColumnId, Disk, HostPort, PoolId, Requirements, ResourceId, Resources, Sym};

/// A group of identical nodes to be launched: which columns remain possible, and what is on each node.
#[derive(Clone, Debug)]
pub struct Bin {
    /// The NodePool.
    pub pool: PoolId,
    /// How many such nodes.
    pub nodes: u32,
    /// The columns of the pool's table that would hold the pods: constraints met, resources sufficient.
    pub columns: FixedBitSet,
    /// The column that is planned.
    pub planned: ColumnId,
    /// What the room of the planned column leaves.
    pub slack: Resources,
    /// What remains of the pool's undecided labels.
    pub open: Requirements,
    /// Topology keys whose value is decided.
    pub domains: SmallVec<[(Sym, Sym); 2]>,
    /// Requests of the pods on each node, daemons aside.
    pub used: Resources,
    /// Pods on each node, by class, in the order of placement.
    pub contents: SmallVec<[(ClassId, u32); 4]>,
    /// Pods per hostname counter on each node.
    pub host_counts: HostCounts,
    /// Host ports in use on each node, daemons aside.
    pub ports: SmallVec<[HostPort; 1]>,
    /// Disks in use on each node, daemons aside.
    pub disks: Vec<Disk>,
}

impl Bin {
    /// Free CPU and memory.
    pub(super) fn quick_slack(&self) -> [i64; 2] {
        [self.slack.get(ResourceId::CPU), self.slack.get(ResourceId::MEMORY)]
    }

    /// The decided value of a topology key.
    pub fn domain(&self, key: Sym) -> Option<Sym> {
        self.domains.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}
