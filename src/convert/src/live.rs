//! A cluster to which single pods come and from which they go without converting the rest anew.
//!
//! What a pod means is decided by the same code as in [`Builder::finish`]: the tables that were made then are kept, and
//! lent to it for one pod. Pods on which others depend (those with claims, of a DaemonSet, that draw from a Reservation or
//! are one) are left to a conversion of the whole, as everything is that is not a pod.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use berth_model::{BoundPod, Cluster, KeyedMap, MemberKind, PendingRow, Sym};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rustc_hash::FxHashSet;

use crate::ConvertError;
use crate::builder::{Builder, Converted, Expansion, FxIndexSet, PodRecord};
use crate::finish::{Fate, fates, place_pods};
use crate::ownership::Ownership;
use crate::resolve::Resolver;
use crate::standing::Standing;
use crate::workloads::{Owner, OwnerKind, WorkloadKind, Workloads};

/// Distinct specs, label sets or strings that may pile up before everything is converted anew, beside as many as there
/// were at first.
const MOST_LEFT_OVER: usize = 4_096;

/// Whether a change of one pod was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Patched {
    /// It was: the cluster is as if converted from what there is now.
    Done,
    /// It was not, and the cluster is of no use any more: convert everything anew.
    NeedsRebuild,
}

/// Changes of pods on nodes that are remembered at most.
const MOST_CHANGES: usize = 1 << 16;

/// A pod that came to a node or left it.
#[derive(Clone, Debug)]
pub struct PodChange {
    /// The node, by index into [`Cluster::nodes`].
    pub node: usize,
    /// Its position among the node's pods as they were then.
    pub at: usize,
    /// The pod.
    pub pod: BoundPod,
    /// Whether it came.
    pub comes: bool,
}

/// Where a pod went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is pending, in this row.
    Row(u32),
    /// It is on the node of this position.
    Node(usize),
    /// It counts for nothing.
    Nowhere,
}

/// What is known of a pod beside its place.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    namespace: Sym,
    name: Box<str>,
    created: i64,
    /// Whether other pods depend on it.
    concerns_others: bool,
}

/// What conversion knows beside the cluster.
pub(crate) struct Rooms {
    pub(crate) owners: FxIndexSet<Owner>,
    pub(crate) workloads: Workloads,
    /// Its nodes are the cluster's.
    pub(crate) standing: Standing,
    pub(crate) resolver: Resolver,
    pub(crate) ownership: Ownership,
}

/// A converted cluster that single pods come to and go from.
pub struct Live {
    cluster: Cluster,
    warnings: FxIndexSet<String>,
    /// The seconds of Unix time at which the cluster is as it was converted.
    valid: RangeInclusive<i64>,
    /// Reads pods; the cluster and the tables that it interns into are lent to it.
    reader: Builder,
    rooms: Rooms,
    /// Images that nodes have and that no pod ran at first: the nodes do not say so.
    unwanted: FxHashSet<Sym>,
    pods: KeyedMap<(Sym, Box<str>), (i64, bool, Place)>,
    /// How many specs, label sets and strings there were at first.
    at_first: [usize; 3],
    /// Whether pending rows are out of order.
    is_untidy: bool,
    /// Who came to nodes and left them, in order, and how many changes were dropped before.
    changes: Vec<PodChange>,
    n_dropped: usize,
}

// === impl Known ===

impl Known {
    pub(crate) fn of(pod: &PodRecord, resolver: &Resolver, owners: &FxIndexSet<Owner>) -> Self {
        let kind = pod.owner.and_then(|owner| Some(owners.get_index(owner as usize)?.kind));
        let has_claims = resolver.draft(pod.draft).is_some_and(|draft| !draft.claims.is_empty());
        let concerns_others = !pod.is_gone
            && (has_claims
                || pod.draws_from.is_some()
                || pod.operating.is_some()
                || kind == Some(OwnerKind::Workload(WorkloadKind::DaemonSet)));
        Known { namespace: pod.namespace, name: pod.name.clone(), created: pod.created, concerns_others }
    }
}

// === impl Live ===

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("pods", &self.pods.len()).finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn new(
        cluster: Cluster,
        reader: Builder,
        rooms: Rooms,
        unwanted: FxHashSet<Sym>,
        (warnings, valid): (FxIndexSet<String>, RangeInclusive<i64>),
        pods: impl Iterator<Item = (Known, Place)>,
    ) -> Self {
        let pods = pods.map(|(known, place)| {
            let Known { namespace, name, created, concerns_others } = known;
            ((namespace, name), (created, concerns_others, place))
        });
        let at_first = sizes(&cluster);
        let pods = pods.collect();
        Live {
            cluster,
            warnings,
            valid,
            reader,
            rooms,
            unwanted,
            pods,
            at_first,
            is_untidy: false,
            changes: Vec::new(),
            n_dropped: 0,
        }
    }

    /// The cluster and what was noticed.
    pub(crate) fn into_converted(self) -> Converted {
        Converted { cluster: self.cluster, warnings: self.warnings.into_iter().collect() }
    }

    /// What people should know, a line each, of what was there at first.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// How many changes of pods on nodes there were.
    pub fn n_changes(&self) -> usize {
        self.n_dropped + self.changes.len()
    }

    /// The changes of pods on nodes after the first `n`; `None` where they are not remembered any more.
    pub fn changes_after(&self, n: usize) -> Option<&[PodChange]> {
        self.changes.get(n.checked_sub(self.n_dropped)?..)
    }

    fn note(&mut self, change: PodChange) {
        if self.changes.len() == MOST_CHANGES {
            self.n_dropped += MOST_CHANGES;
            self.changes.clear();
        }
        self.changes.push(change);
    }

    /// Whether the cluster at that time is the one that was converted: no Reservation has expired between.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.valid.contains(&now.as_second())
    }

    /// The cluster, as if converted from what there is now: rows and members of who is pending are in the order of age.
    pub fn cluster(&mut self) -> &Cluster {
        if std::mem::take(&mut self.is_untidy) {
            self.tidy();
        }
        &self.cluster
    }

    /// The cluster as [`Live::cluster`] left it: of use until the next change.
    pub fn tidied(&self) -> &Cluster {
        &self.cluster
    }

    /// A pod was created or changed, and is there with no older version of it.
    ///
    /// # Errors
    /// A field that cannot be understood; the cluster is of no use then.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<Patched, ConvertError> {
        let n_resources = self.cluster.resource_names.len();
        let n_drafts = self.rooms.resolver.drafts.len();
        self.lend();
        let read = self.reader.read_pod(pod);
        self.lend();
        let Some(record) = read? else { return Ok(Patched::NeedsRebuild) };
        let known = Known::of(&record, &self.rooms.resolver, &self.rooms.owners);
        let mut new_drafts = (n_drafts..self.rooms.resolver.drafts.len())
            .filter_map(|draft| self.rooms.resolver.drafts.get_index(draft));
        let has_new_images =
            new_drafts.any(|draft| draft.spec.images.names.iter().any(|image| self.unwanted.contains(image)));
        if known.concerns_others || has_new_images || self.cluster.resource_names.len() != n_resources {
            return Ok(Patched::NeedsRebuild);
        }
        let Rooms { owners, workloads, standing, resolver, ownership } = &mut self.rooms;
        let fate = fates(std::slice::from_ref(&record), owners, workloads, standing, Expansion::PodsThatExist);
        if matches!(fate.as_slice(), [] | [Fate::Holds]) {
            return Ok(Patched::NeedsRebuild);
        }
        standing.swap_nodes(&mut self.cluster);
        let no_daemon = |_| None;
        let kind_of = |owner: u32| owners.get_index(owner as usize).map(|owner| owner.kind);
        let pods = std::iter::once(record).zip(fate);
        let rules = (no_daemon, kind_of);
        let places = place_pods(pods, rules, standing, resolver, ownership, &mut self.cluster, &mut self.warnings);
        self.rooms.standing.swap_nodes(&mut self.cluster);
        let Some(&place) = places.first() else { return Ok(Patched::NeedsRebuild) };
        self.is_untidy |= matches!(place, Place::Row(_));
        let Known { namespace, name, created, .. } = known;
        self.pods.insert((namespace, name), (created, false, place));
        if let Place::Node(position) = place {
            self.sort_last(position);
        }
        Ok(if self.has_left_over_much() { Patched::NeedsRebuild } else { Patched::Done })
    }

    /// A pod is gone, or about to be added anew.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> Patched {
        let Some(namespace) = self.cluster.symbols.get(namespace) else { return Patched::Done };
        let key = (namespace, Box::from(name));
        let Some((_, concerns_others, place)) = self.pods.remove(&key) else { return Patched::Done };
        if concerns_others {
            return Patched::NeedsRebuild;
        }
        let was_there = match place {
            Place::Nowhere => true,
            Place::Row(row) => self.take_member(row, name),
            Place::Node(position) => self.take_off(position, namespace, name),
        };
        if was_there { Patched::Done } else { Patched::NeedsRebuild }
    }

    /// Swaps the tables that pods are read into with the reader's.
    fn lend(&mut self) {
        let Live { reader, cluster, rooms, .. } = self;
        std::mem::swap(&mut reader.cluster, cluster);
        std::mem::swap(&mut reader.drafts, &mut rooms.resolver.drafts);
        std::mem::swap(&mut reader.owners, &mut rooms.owners);
        std::mem::swap(&mut reader.references, &mut rooms.ownership.references);
    }

    fn take_member(&mut self, row: u32, name: &str) -> bool {
        let Some(row) = self.cluster.pending.get_mut(row as usize) else { return false };
        let at = row.members.iter().position(|member| member.numbers.is_none() && *member.name == *name);
        self.is_untidy = true;
        at.is_some_and(|at| {
            row.members.remove(at);
            true
        })
    }

    fn take_off(&mut self, position: usize, namespace: Sym, name: &str) -> bool {
        let Some(node) = self.cluster.nodes.get_mut(position) else { return false };
        let at = node.pods.iter().position(|pod| pod.namespace == namespace && *pod.name == *name);
        let Some((at, pod)) = at.map(|at| (at, node.pods.remove(at))) else { return false };
        if let Some(spec) = self.cluster.specs.get(pod.spec as usize) {
            node.free.add(&spec.requests);
        }
        self.note(PodChange { node: position, at, pod, comes: false });
        true
    }

    /// Brings the pod that came to a node last to its place by age.
    fn sort_last(&mut self, position: usize) {
        let Some(mut pods) = self.cluster.nodes.get_mut(position).map(|node| std::mem::take(&mut node.pods)) else {
            return;
        };
        if let Some(last) = pods.pop() {
            let at = pods.partition_point(|pod| {
                self.by_age((pod.namespace, &pod.name), (last.namespace, &last.name)) == Ordering::Less
            });
            self.note(PodChange { node: position, at, pod: last.clone(), comes: true });
            pods.insert(at, last);
        }
        if let Some(node) = self.cluster.nodes.get_mut(position) {
            node.pods = pods;
        }
    }

    fn created(&self, namespace: Sym, name: &str) -> i64 {
        self.pods.get(&(namespace, Box::from(name))).map_or(i64::MAX, |(created, ..)| *created)
    }

    /// The oldest first, then by namespace and name.
    fn by_age(&self, a: (Sym, &str), b: (Sym, &str)) -> Ordering {
        let text = |namespace| self.cluster.symbols.text(namespace);
        let names = || text(a.0).cmp(text(b.0)).then_with(|| a.1.cmp(b.1));
        self.created(a.0, a.1).cmp(&self.created(b.0, b.1)).then_with(names)
    }

    /// Rows as a conversion of everything has them: Reservations first, then pods by the oldest of each row.
    fn tidy(&mut self) {
        let rows = std::mem::take(&mut self.cluster.pending);
        let (mut sorted, pods): (Vec<PendingRow>, Vec<PendingRow>) =
            rows.into_iter().partition(|row| row.kind == MemberKind::Reservation);
        let mut aged = Vec::with_capacity(pods.len());
        for mut row in pods.into_iter().filter(|row| !row.members.is_empty()) {
            row.members.sort_by_cached_key(|member| (self.created(row.namespace, &member.name), member.name.clone()));
            let oldest = row.members.first().map(|member| (self.created(row.namespace, &member.name), &*member.name));
            let Some((created, name)) = oldest else { continue };
            aged.push(((created, self.cluster.symbols.text(row.namespace).to_owned(), name.to_owned()), row));
        }
        aged.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (_, pending) in aged {
            let at = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
            for member in &pending.members {
                if let Some((.., place)) = self.pods.get_mut(&(pending.namespace, member.name.clone())) {
                    *place = Place::Row(at);
                }
            }
            sorted.push(pending);
        }
        self.cluster.set_pending(sorted);
    }

    fn has_left_over_much(&self) -> bool {
        let now = sizes(&self.cluster);
        now.iter().zip(&self.at_first).any(|(now, first)| *now > first.saturating_mul(2).saturating_add(MOST_LEFT_OVER))
    }
}

fn sizes(cluster: &Cluster) -> [usize; 3] {
    [cluster.specs.len(), cluster.label_sets.len(), cluster.symbols.len()]
}
