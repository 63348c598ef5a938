//! Nodes alike in everything but their name are one group: filters and scores look at it once.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{Cluster, Cordon, Node, NodeState, Requirements, Resources, Sym, Taint, Units};
use rustc_hash::FxHashMap;

/// Changes kept at most; indexes that are further behind are made anew.
const LOG_LENGTH: usize = 1 << 20;

/// What makes nodes alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: u32,
    free: Resources,
    assumed: [i64; 2],
    host_counts: berth_model::HostCounts,
    ports: Vec<berth_model::HostPort>,
    disks: Vec<berth_model::Disk>,
    attached: Vec<(Sym, Sym)>,
    units: berth_model::UnitsState,
    /// Set on a node that is looked at alone.
    apart: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    key: Option<Arc<Key>>,
    /// Nodes by their rank.
    members: BTreeSet<u32>,
}

/// A node that went from one group to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) node: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// All groups, and the changes since some time ago.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    of_node: Vec<u32>,
    list: Vec<Group>,
    free: Vec<u32>,
    ids: FxHashMap<Arc<Key>, u32>,
    log: Vec<Change>,
    /// How many changes were dropped from the log's front.
    dropped: usize,
    /// Where a trial began that will be taken back: groups keep their places until then.
    trial: Option<usize>,
    /// By node: its place in the order of names, by which ties are broken; and back.
    ranks: Vec<u32>,
    by_rank: Vec<u32>,
    /// Nodes alike in labels (their names aside), taints and capacity have one kind.
    kinds: Vec<u32>,
    /// By kind: one of its nodes.
    samples: Vec<u32>,
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Groups {
    pub(crate) fn new(cluster: &Cluster, states: &[NodeState]) -> Self {
        let mut by_rank: Vec<u32> = (0..index(cluster.nodes.len())).collect();
        let name = |node: u32| cluster.nodes.get(node as usize).map_or("", |node| cluster.symbols.text(node.name));
        by_rank.sort_by(|a, b| name(*a).cmp(name(*b)).then(a.cmp(b)));
        let mut ranks = vec![0; by_rank.len()];
        for (rank, node) in by_rank.iter().enumerate() {
            ranks[*node as usize] = index(rank);
        }
        let (kinds, samples) = kinds(cluster);
        let mut groups = Groups {
            of_node: vec![u32::MAX; by_rank.len()],
            list: Vec::new(),
            free: Vec::new(),
            ids: FxHashMap::default(),
            log: Vec::new(),
            dropped: 0,
            trial: None,
            ranks,
            by_rank,
            kinds,
            samples,
        };
        for (node, state) in states.iter().enumerate() {
            groups.regroup(node, state, false);
        }
        groups.log.clear();
        groups
    }

    /// Puts a node where it belongs now; `apart` if it is like no other, as are those with Reservations.
    pub(super) fn regroup(&mut self, node: usize, state: &NodeState, apart: bool) {
        let (Some(&kind), Some(&rank), Some(&from)) =
            (self.kinds.get(node), self.ranks.get(node), self.of_node.get(node))
        else {
            return;
        };
        let mut ports = state.ports.clone();
        ports.sort_unstable();
        let mut disks = state.disks.clone();
        disks.sort_unstable();
        let key = Key {
            kind,
            free: state.free.clone(),
            assumed: state.assumed,
            host_counts: state.host_counts.clone(),
            ports,
            disks,
            attached: state.attached.clone(),
            units: state.units.clone(),
            apart: (apart || !state.holdings.is_empty()).then(|| index(node)),
        };
        let to = self.ids.get(&key).copied().unwrap_or_else(|| {
            let key = Arc::new(key);
            let group = Group { key: Some(Arc::clone(&key)), members: BTreeSet::new() };
            let id = if let Some(id) = self.free.pop() {
                self.list[id as usize] = group;
                id
            } else {
                self.list.push(group);
                index(self.list.len() - 1)
            };
            self.ids.insert(key, id);
            id
        });
        if let Some(group) = self.list.get_mut(from as usize)
            && from != to
        {
            group.members.remove(&rank);
            if group.members.is_empty()
                && self.trial.is_none()
                && let Some(key) = group.key.take()
            {
                self.ids.remove(&key);
                self.free.push(from);
            }
        }
        self.list[to as usize].members.insert(rank);
        self.of_node[node] = to;
        if self.log.len() >= LOG_LENGTH && self.trial.is_none() {
            self.dropped += self.log.len();
            self.log.clear();
        }
        self.log.push(Change { node: index(node), from, to });
    }

    /// Whether a trial goes on.
    pub(super) fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Begins a trial: [`Groups::take_back`] undoes what follows.
    pub(super) fn begin_trial(&mut self) {
        self.trial = Some(self.now());
    }

    /// Puts all nodes back into the groups that they were in when the trial began, without a trace. Says which groups and
    /// nodes had changed: who looked at them meanwhile looks again.
    pub(super) fn take_back(&mut self) -> Vec<Change> {
        let Some(from) = self.trial.take().and_then(|began| began.checked_sub(self.dropped)) else { return Vec::new() };
        let undone: Vec<Change> = self.log.drain(from.min(self.log.len())..).collect();
        for change in undone.iter().rev() {
            let Some(&rank) = self.ranks.get(change.node as usize) else { continue };
            if let Some(group) = self.list.get_mut(change.to as usize) {
                group.members.remove(&rank);
            }
            if let Some(group) = self.list.get_mut(change.from as usize) {
                group.members.insert(rank);
            }
            if let Some(of_node) = self.of_node.get_mut(change.node as usize) {
                *of_node = change.from;
            }
        }
        for id in undone.iter().flat_map(|change| [change.from, change.to]) {
            if let Some(group) = self.list.get_mut(id as usize)
                && group.members.is_empty()
                && let Some(key) = group.key.take()
            {
                self.ids.remove(&key);
                self.free.push(id);
            }
        }
        undone
    }

    /// Where the log ends.
    pub(super) fn now(&self) -> usize {
        self.dropped + self.log.len()
    }

    /// The changes since; `None` if they were dropped.
    pub(super) fn since(&self, cursor: usize) -> Option<&[Change]> {
        self.log.get(cursor.checked_sub(self.dropped)?..)
    }

    /// How many groups there are, empty ones included.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The nodes of a group, by name.
    pub(super) fn members(&self, group: u32) -> impl Iterator<Item = usize> + '_ {
        let members = self.list.get(group as usize).map(|group| &group.members);
        members.into_iter().flatten().filter_map(|rank| self.by_rank.get(*rank as usize)).map(|node| *node as usize)
    }

    /// How many nodes a group has, and the rank of its first.
    pub(super) fn size(&self, group: u32) -> Option<(u32, u32)> {
        let members = &self.list.get(group as usize)?.members;
        Some((index(members.len()), *members.first()?))
    }

    /// The group of a node.
    pub(super) fn of(&self, node: usize) -> Option<u32> {
        self.of_node.get(node).copied()
    }

    pub(crate) fn kind(&self, node: usize) -> u32 {
        self.kinds.get(node).copied().unwrap_or(u32::MAX)
    }

    pub(super) fn rank(&self, node: usize) -> u32 {
        self.ranks.get(node).copied().unwrap_or(u32::MAX)
    }

    pub(super) fn at_rank(&self, rank: u32) -> usize {
        self.by_rank.get(rank as usize).map_or(usize::MAX, |node| *node as usize)
    }

    /// A node of each kind.
    pub(crate) fn samples(&self) -> impl Iterator<Item = usize> + '_ {
        self.samples.iter().map(|node| *node as usize)
    }
}

/// What a pod can tell nodes apart by, their names and what is on them aside.
type Kind<'a> = (
    Vec<(Sym, Sym)>,
    &'a Requirements,
    &'a [Taint],
    &'a Resources,
    &'a [(Sym, u32)],
    &'a [(Sym, i64)],
    Cordon,
    bool,
    &'a Units,
);

fn kinds(cluster: &Cluster) -> (Vec<u32>, Vec<u32>) {
    let own = [cluster.well_known.hostname, cluster.well_known.field_name];
    let mut ids: FxHashMap<Kind<'_>, u32> = FxHashMap::default();
    let mut samples = Vec::new();
    let kinds = cluster.nodes.iter().enumerate().map(|(at, node)| {
        let labels = node.labels.iter().filter(|(key, _)| !own.contains(key)).collect();
        let kind: Kind<'_> = (
            labels,
            &node.open,
            &node.taints,
            &node.allocatable,
            &node.attach_limits,
            &node.images,
            node.cordon,
            node.is_coming_up,
            &node.units,
        );
        *ids.entry(kind).or_insert_with(|| {
            samples.push(index(at));
            index(samples.len() - 1)
        })
    });
    let kinds = kinds.collect();
    (kinds, samples)
}

/// Whether requirements tell nodes of one kind apart.
pub(crate) fn names_nodes(cluster: &Cluster, terms: &Requirements) -> bool {
    [cluster.well_known.hostname, cluster.well_known.field_name].iter().any(|&key| terms.get(key).is_some())
}

/// The nodes that terms name, where each names some; `None` if one is about all nodes.
pub(super) fn named_nodes(cluster: &Cluster, terms: &[Requirements]) -> Option<Vec<Sym>> {
    let mut names: Vec<Sym> = Vec::new();
    for term in terms {
        names.extend(term.get(cluster.well_known.field_name)?.finite_values()?);
    }
    (!terms.is_empty()).then_some(names)
}

/// Whether a scheduler may bind to the node: it is there.
pub(super) fn stands(node: &Node) -> bool {
    !node.is_coming_up
}
