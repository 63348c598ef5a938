//! Nodes alike in all that pods can tell them apart by have one kind, their names and what is on them aside.

use std::hash::{Hash, Hasher};

use berth_model::{Cluster, Cordon, Node, Requirements, Resources, Sym, Taint, Units};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

/// A node without a kind.
const NONE: u32 = u32::MAX;
/// Kinds that no node has any more, beside twice as many as there are nodes: ids are not used again, as others remember them.
const MOST_LEFT_OVER: usize = 4_096;

/// The kinds of all nodes. A kind keeps its id for good.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    of_node: Vec<u32>,
    list: Vec<Kind>,
    /// By a hash of what makes it.
    by_hash: FxHashMap<u64, SmallVec<[u32; 1]>>,
}

#[derive(Clone, Debug)]
struct Kind {
    hash: u64,
    nodes: u32,
    /// One of them.
    sample: u32,
}

/// What makes a kind.
#[derive(PartialEq, Eq, Hash)]
struct Alike<'a> {
    labels: SmallVec<[(Sym, Sym); 16]>,
    open: &'a Requirements,
    taints: &'a [Taint],
    allocatable: &'a Resources,
    attach_limits: &'a [(Sym, u32)],
    volume_pools: &'a [(Sym, u32)],
    images: &'a [(Sym, i64)],
    cordon: Cordon,
    is_coming_up: bool,
    is_leaving: bool,
    units: &'a Units,
}

// === impl Alike ===

impl<'a> Alike<'a> {
    fn of(node: &'a Node, cluster: &Cluster) -> Self {
        let own = [cluster.well_known.hostname, cluster.well_known.field_name];
        Alike {
            labels: node.labels.iter().filter(|(key, _)| !own.contains(key)).collect(),
            open: &node.open,
            taints: &node.taints,
            allocatable: &node.allocatable,
            attach_limits: &node.attach_limits,
            volume_pools: &node.volume_pools,
            images: &node.images,
            cordon: node.cordon,
            is_coming_up: node.is_coming_up,
            is_leaving: node.is_leaving,
            units: &node.units,
        }
    }
}

// === impl Kinds ===

impl Kinds {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut kinds = Kinds { of_node: vec![NONE; cluster.nodes.len()], ..Kinds::default() };
        for node in 0..cluster.nodes.len() {
            kinds.assign(node, cluster);
        }
        kinds
    }

    /// The kind of a node.
    pub(crate) fn of(&self, node: usize) -> u32 {
        self.of_node.get(node).copied().unwrap_or(NONE)
    }

    /// A node of a kind; `None` where there is none any more.
    pub(crate) fn sample(&self, kind: u32) -> Option<usize> {
        self.list.get(kind as usize).filter(|kind| kind.nodes > 0).map(|kind| kind.sample as usize)
    }

    /// By kind: a node of it, where there is one.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.list.iter().map(|kind| (kind.nodes > 0).then_some(kind.sample as usize))
    }

    /// A node came, as the last one. It has no kind yet.
    pub(crate) fn push(&mut self) {
        self.of_node.push(NONE);
    }

    /// A node went; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, node: usize) {
        let Some(last) = self.of_node.len().checked_sub(1).filter(|last| node <= *last) else { return };
        self.release(node);
        self.of_node.swap_remove(node);
        let moved = self.of(node);
        if let Some(kind) = self.list.get_mut(moved as usize)
            && kind.sample == index(last)
        {
            kind.sample = index(node);
        }
    }

    /// A node is none of its kind any more.
    pub(crate) fn release(&mut self, node: usize) {
        let id = self.of(node);
        let (Some(of_node), Some(kind)) = (self.of_node.get_mut(node), self.list.get_mut(id as usize)) else { return };
        *of_node = NONE;
        kind.nodes = kind.nodes.saturating_sub(1);
        if kind.nodes == 0 {
            if let Some(alike) = self.by_hash.get_mut(&kind.hash) {
                alike.retain(|known| *known != id);
                if alike.is_empty() {
                    self.by_hash.remove(&kind.hash);
                }
            }
        } else if kind.sample == index(node)
            && let Some(other) = self.of_node.iter().position(|known| *known == id)
        {
            kind.sample = index(other);
        }
    }

    /// Gives a node that has none its kind. All that have one are as the cluster says.
    pub(crate) fn assign(&mut self, node: usize, cluster: &Cluster) {
        let (Some(known), Some(of_node)) = (cluster.nodes.get(node), self.of_node.get_mut(node)) else { return };
        let alike = Alike::of(known, cluster);
        let mut hasher = FxHasher::default();
        alike.hash(&mut hasher);
        let hash = hasher.finish();
        let list = &self.list;
        let is_same = |id: &&u32| {
            let sample = list.get(**id as usize).and_then(|kind| cluster.nodes.get(kind.sample as usize));
            sample.is_some_and(|sample| Alike::of(sample, cluster) == alike)
        };
        let of_hash = self.by_hash.entry(hash).or_default();
        *of_node = if let Some(&id) = of_hash.iter().find(is_same) {
            id
        } else {
            of_hash.push(index(self.list.len()));
            self.list.push(Kind { hash, nodes: 0, sample: index(node) });
            index(self.list.len() - 1)
        };
        if let Some(kind) = self.list.get_mut(*of_node as usize) {
            kind.nodes += 1;
        }
    }

    /// Whether so many kinds are left over that all is made anew more easily.
    pub(crate) fn is_worn(&self) -> bool {
        self.list.len() > self.of_node.len().saturating_mul(3).saturating_add(MOST_LEFT_OVER)
    }
}

/// As an index of nodes, groups or kinds.
pub(crate) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Whether requirements tell nodes of one kind apart.
pub(crate) fn names_nodes(cluster: &Cluster, terms: &Requirements) -> bool {
    [cluster.well_known.hostname, cluster.well_known.field_name].iter().any(|&key| terms.get(key).is_some())
}

/// The nodes that terms name, where each names some; `None` if one is about all nodes.
pub(crate) fn named_nodes(cluster: &Cluster, terms: &[Requirements]) -> Option<Vec<Sym>> {
    let mut names: Vec<Sym> = Vec::new();
    for term in terms {
        names.extend(term.get(cluster.well_known.field_name)?.finite_values()?);
    }
    (!terms.is_empty()).then_some(names)
}
