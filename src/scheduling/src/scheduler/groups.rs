//! Nodes alike in everything but their name are one group: filters and scores look at it once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Cluster, CounterId, HostCounts, NodeState, Resources, Sym};
use rustc_hash::FxHashMap;

use super::ranks::Ranks;
use crate::kinds::{Kinds, index};

/// Changes kept at most; indexes that are further behind are made anew.
const LOG_LENGTH: usize = 1 << 20;

/// What makes nodes alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NodeKind {
    kind: u32,
    free: Resources,
    assumed: [i64; 2],
    host_counts: HostCounts,
    ports: Vec<berth_model::HostPort>,
    disks: Vec<berth_model::Disk>,
    attached: Vec<(Sym, Sym)>,
    units: berth_model::UnitsState,
    /// Set on a node that is looked at alone.
    alone: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    key: Option<Arc<NodeKind>>,
    /// Nodes by their rank.
    members: BTreeMap<u64, u32>,
}

/// A node that went from one group to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) node: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Whether the node of this index is another one than before, or none.
    pub(super) is_other: bool,
}

/// A node in no group.
const NONE: u32 = u32::MAX;

/// All groups, and the changes since some time ago.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    of_node: Vec<u32>,
    list: Vec<Group>,
    free: Vec<u32>,
    ids: FxHashMap<Arc<NodeKind>, u32>,
    /// By counter on the host name: the nodes with pods that it counts.
    hosts: FxHashMap<CounterId, BTreeSet<u32>>,
    log: Vec<Change>,
    /// How many changes were dropped from the log's front.
    dropped: usize,
    /// Where a trial began that will be taken back: groups keep their places until then.
    trial: Option<usize>,
    ranks: Ranks,
    kinds: Kinds,
    /// Changes when nodes come, go or become others.
    version: u64,
}

// === impl Groups ===

impl Groups {
    pub(crate) fn new(cluster: &Cluster, states: &[NodeState], kinds: Kinds) -> Self {
        let mut groups = Groups {
            of_node: vec![NONE; cluster.nodes.len()],
            list: Vec::new(),
            free: Vec::new(),
            ids: FxHashMap::default(),
            hosts: FxHashMap::default(),
            log: Vec::new(),
            dropped: 0,
            trial: None,
            ranks: Ranks::new(cluster),
            kinds,
            version: 0,
        };
        for (node, state) in states.iter().enumerate() {
            groups.regroup(node, state, false);
        }
        groups.log.clear();
        groups
    }

    /// Puts a node where it belongs now; `apart` if it is like no other, as are those with Reservations.
    pub(super) fn regroup(&mut self, node: usize, state: &NodeState, alone: bool) {
        let Some(&from) = self.of_node.get(node) else { return };
        let (kind, rank) = (self.kinds.of(node), self.ranks.of(node));
        let mut ports = state.ports.clone();
        ports.sort_unstable();
        let mut disks = state.disks.clone();
        disks.sort_unstable();
        let key = NodeKind {
            kind,
            free: state.free.clone(),
            assumed: state.assumed,
            host_counts: state.host_counts.clone(),
            ports,
            disks,
            attached: state.attached.clone(),
            units: state.units.clone(),
            alone: (alone || !state.holdings.is_empty()).then(|| index(node)),
        };
        let to = self.ids.get(&key).copied().unwrap_or_else(|| {
            let key = Arc::new(key);
            let group = Group { key: Some(Arc::clone(&key)), members: BTreeMap::new() };
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
        if from != to {
            self.count_hosts(index(node), from, to);
            self.leave(from, rank);
        }
        self.list[to as usize].members.insert(rank, index(node));
        self.of_node[node] = to;
        self.note(Change { node: index(node), from, to, is_other: false });
    }

    // A node is in a group no more.
    fn leave(&mut self, group: u32, rank: u64) {
        let Some(known) = self.list.get_mut(group as usize) else { return };
        known.members.remove(&rank);
        if known.members.is_empty()
            && self.trial.is_none()
            && let Some(key) = known.key.take()
        {
            self.ids.remove(&key);
            self.free.push(group);
        }
    }

    // A node that was like those of a group is like those of another.
    fn count_hosts(&mut self, node: u32, from: u32, to: u32) {
        let key = |group: u32| self.list.get(group as usize).and_then(|group| group.key.clone());
        let (from, to) = (key(from), key(to));
        let counts = |key: &Option<Arc<NodeKind>>| key.as_ref().map(|key| key.host_counts.clone()).unwrap_or_default();
        let (before, after) = (counts(&from), counts(&to));
        if before == after {
            return;
        }
        for (counter, _) in before.iter().filter(|(counter, _)| after.get(*counter) == 0) {
            if let Some(nodes) = self.hosts.get_mut(&counter) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.hosts.remove(&counter);
                }
            }
        }
        for (counter, _) in after.iter().filter(|(counter, _)| before.get(*counter) == 0) {
            self.hosts.entry(counter).or_default().insert(node);
        }
    }

    /// The nodes with pods that a counter on the host name counts.
    pub(super) fn with(&self, counter: CounterId) -> impl Iterator<Item = usize> + '_ {
        self.hosts.get(&counter).into_iter().flatten().map(|node| *node as usize)
    }

    /// Whether a node has pods that a counter on the host name counts.
    pub(super) fn has_on(&self, counter: CounterId, node: usize) -> bool {
        self.hosts.get(&counter).is_some_and(|nodes| nodes.contains(&index(node)))
    }

    /// How many nodes there are with pods that a counter on the host name counts.
    pub(super) fn n_with(&self, counter: CounterId) -> usize {
        self.hosts.get(&counter).map_or(0, BTreeSet::len)
    }

    fn note(&mut self, change: Change) {
        if self.log.len() >= LOG_LENGTH && self.trial.is_none() {
            self.dropped += self.log.len();
            self.log.clear();
        }
        self.log.push(change);
    }

    /// A node came, as the last one: it has neither kind nor rank nor group yet.
    pub(super) fn push_node(&mut self) {
        self.of_node.push(NONE);
        self.kinds.push();
        self.ranks.push();
        self.version += 1;
    }

    /// A node went; the last one takes its place.
    pub(super) fn swap_remove_node(&mut self, node: usize) {
        let Some(last) = self.of_node.len().checked_sub(1).filter(|last| node <= *last) else { return };
        let from = self.of_node.swap_remove(node);
        self.count_hosts(index(node), from, NONE);
        self.leave(from, self.ranks.of(node));
        self.kinds.swap_remove(node);
        self.ranks.swap_remove(node);
        if let Some(group) = self.of_node.get(node).copied() {
            self.count_hosts(index(last), group, NONE);
            self.count_hosts(index(node), NONE, group);
        }
        if let Some(&group) = self.of_node.get(node)
            && let Some(members) = self.list.get_mut(group as usize).map(|group| &mut group.members)
            && let Some(moved) = members.get_mut(&self.ranks.of(node))
        {
            *moved = index(node);
        }
        self.note(Change { node: index(node), from, to: NONE, is_other: true });
        self.note(Change { node: index(last), from: NONE, to: NONE, is_other: true });
        self.version += 1;
    }

    /// A node is another one than it was, or has just come; the cluster knows it. It is in the group that it was in until it
    /// is put elsewhere. False where it finds no rank.
    #[must_use]
    pub(super) fn set_node(&mut self, node: usize, cluster: &Cluster) -> bool {
        self.kinds.assign(node, cluster);
        self.note(Change { node: index(node), from: NONE, to: NONE, is_other: true });
        self.version += 1;
        self.ranks.of(node) != u64::MAX || self.ranks.insert(node, cluster)
    }

    /// A node will be another one: it has no kind until [`Groups::set_node`].
    pub(super) fn release_node(&mut self, node: usize) {
        self.kinds.release(node);
    }

    /// Whether so much is left over of nodes that went that all is made anew more easily.
    pub(super) fn is_worn(&self) -> bool {
        self.kinds.is_worn()
    }

    /// Changes when nodes come, go or become others.
    pub(super) fn version(&self) -> u64 {
        self.version
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
            self.count_hosts(change.node, change.to, change.from);
            let rank = self.ranks.of(change.node as usize);
            if let Some(group) = self.list.get_mut(change.to as usize) {
                group.members.remove(&rank);
            }
            if let Some(group) = self.list.get_mut(change.from as usize) {
                group.members.insert(rank, change.node);
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
        members.into_iter().flatten().map(|(_, node)| *node as usize)
    }

    /// How many nodes a group has, and the first of them with its rank.
    pub(super) fn size(&self, group: u32) -> Option<(u32, u64, usize)> {
        let members = &self.list.get(group as usize)?.members;
        let (rank, node) = members.first_key_value()?;
        Some((index(members.len()), *rank, *node as usize))
    }

    /// The kind of a group's nodes.
    pub(super) fn kind_of(&self, group: u32) -> Option<u32> {
        Some(self.list.get(group as usize)?.key.as_ref()?.kind)
    }

    /// The group of a node.
    pub(super) fn of(&self, node: usize) -> Option<u32> {
        self.of_node.get(node).copied()
    }

    /// The kinds of all nodes.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The kind of a node.
    pub(super) fn kind(&self, node: usize) -> u32 {
        self.kinds.of(node)
    }

    /// A node of a kind; `None` where there is none any more.
    pub(super) fn sample(&self, kind: u32) -> Option<usize> {
        self.kinds.sample(kind)
    }

    /// The rank of a node: ascending by name.
    pub(super) fn rank(&self, node: usize) -> u64 {
        self.ranks.of(node)
    }

    /// The node of a rank.
    pub(super) fn at_rank(&self, rank: u64) -> Option<usize> {
        self.ranks.at(rank)
    }
}
