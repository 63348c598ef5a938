//! Nodes that exist and NodePools that may launch more.

use crate::{
    BoundPod, Holding, Labels, LabelsId, Requirements, ResourceId, Resources, SpecId, Sym, Symbols, Taint, Units,
};

/// A node that exists (or a NodeClaim in flight), with what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name.
    pub name: Sym,
    /// Its labels, `kubernetes.io/hostname` included (the name, where the object has none), and `metadata.name`.
    pub labels: Labels,
    /// What is still open of other labels, where it is in flight: one value of each will come true.
    pub open: Requirements,
    /// Its taints, `spec.unschedulable` included as `node.kubernetes.io/unschedulable:NoSchedule`. Startup taints
    /// and lifecycle taints of nodes not yet initialized are left out.
    pub taints: Vec<Taint>,
    /// Allocatable minus requests of bound pods, minus the unallocated room of Reservations on it, minus daemons
    /// that are still to come.
    pub free: Resources,
    /// What pods may use in all; what is not free of it counts as requested when nodes are scored.
    pub allocatable: Resources,
    /// What counts against its NodePool's limits.
    pub capacity: Resources,
    /// Its NodePool, by index, if it is of one.
    pub node_pool: Option<u32>,
    /// Volumes that may be attached, by CSI driver (from CSINode); a driver that is absent has no limit.
    pub attach_limits: Vec<(Sym, u32)>,
    /// Of each pool of volumes that are there, how many can be used here; of one that is absent, none.
    pub volume_pools: Vec<(Sym, u32)>,
    /// Whether `spec.unschedulable` is set.
    pub cordon: Cordon,
    /// Whether it is in flight or not yet initialized: room that is on its way, which no scheduler binds to yet.
    pub is_coming_up: bool,
    /// Whether it is going away, and is known for the pods that stay on it alone: it has no room, and is no capacity.
    pub is_leaving: bool,
    /// Images on it that some pending pod runs, with their size in bytes, ascending by name.
    pub images: Vec<(Sym, i64)>,
    /// What Reservations hold on it; off `free` already.
    pub holdings: Vec<Holding>,
    /// The pods on it.
    pub pods: Vec<BoundPod>,
    /// Its CPUs and devices one by one, where it says so.
    pub units: Units,
}

/// Whether a node is cordoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cordon {
    /// It is not.
    #[default]
    None,
    /// It is, and the node controller has tainted it.
    Tainted,
    /// It is, and not tainted yet: spreads that honor taints still count it.
    Untainted,
}

impl Node {
    /// Whether pods can be bound to it now: it is up, and stays.
    pub fn is_up(&self) -> bool {
        !self.is_coming_up && !self.is_leaving
    }

    /// Whether the node satisfies requirements, whatever is still open; `label` gives the value of a key.
    pub fn satisfies(&self, asked: &Requirements, symbols: &Symbols, label: impl Fn(Sym) -> Option<Sym>) -> bool {
        if self.open.is_empty() {
            return asked.match_labels(symbols, label);
        }
        asked.iter().all(|(key, asked)| match (self.open.get(key), label(key)) {
            (Some(open), _) => open.intersect(asked, symbols) == *open,
            (None, Some(value)) => asked.has(value, symbols),
            (None, None) => asked.allows_absent(),
        })
    }

    /// Whether the node may come to satisfy requirements.
    pub fn may_satisfy(&self, asked: &Requirements, symbols: &Symbols, label: impl Fn(Sym) -> Option<Sym>) -> bool {
        asked.iter().all(|(key, asked)| match (self.open.get(key), label(key)) {
            (Some(open), _) => !open.intersect(asked, symbols).is_empty(),
            (None, Some(value)) => asked.has(value, symbols),
            (None, None) => asked.allows_absent(),
        })
    }

    /// The taints that the node object has: those that pods must tolerate, but for the taint of a cordon that is still to
    /// come. That one is the last.
    pub fn own_taints(&self) -> &[Taint] {
        let without = self.taints.split_last().filter(|_| self.cordon == Cordon::Untainted);
        without.map_or(&self.taints, |(_, taints)| taints)
    }
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// The name.
    pub name: Sym,
    /// The weight, 1 to 100; 0 where unset.
    pub weight: u32,
    /// The template's requirements and its labels as requirements, `karpenter.sh/nodepool` included.
    pub requirements: Requirements,
    /// The template's taints. Startup taints are not here: they hold no pod back.
    pub taints: Vec<Taint>,
    /// Limits by resource, of capacity.
    pub limits: Vec<(ResourceId, i64)>,
    /// Limit of the number of nodes.
    pub node_limit: Option<u32>,
    /// Capacity of the pool's nodes that exist.
    pub used: Resources,
    /// Number of the pool's nodes that exist.
    pub nodes: u32,
    /// What its nodes keep from pods (`node.koordinator.sh/reservation` in the template's annotations).
    pub reserved: Resources,
    /// Its node class, where that decides what its nodes offer or which reservations they may use: then the pool launches
    /// the instance types of this class, else those without one.
    pub node_class: Option<Sym>,
    /// Why nothing may be launched from it (deleting, static, its class not served), if so.
    pub refusal: Option<String>,
}

impl NodePool {
    /// Whether its limits hold so many nodes more, which have so much. What they have nothing of counts in no limit.
    pub fn has_room_for(&self, count: u32, more: &Resources) -> bool {
        self.node_limit.is_none_or(|limit| self.nodes.saturating_add(count) <= limit)
            && self.limits.iter().all(|(resource, limit)| {
                let more = more.get(*resource);
                more <= 0 || self.used.get(*resource).saturating_add(more) <= *limit
            })
    }
}

/// The pod template of a DaemonSet: overhead of every node that it would run on.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// `namespace/name`, for people.
    pub name: String,
    /// Of its pods.
    pub namespace: Sym,
    /// Index into [`crate::Cluster::specs`].
    pub spec: SpecId,
    /// Of its pods; index into [`crate::Cluster::label_sets`].
    pub labels: LabelsId,
}
