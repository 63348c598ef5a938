//! A cluster that follows its objects one by one, without converting the rest anew.
//!
//! What an object means is decided by the same code as in [`Builder::finish`]: the tables that were made then are kept, and
//! lent to it for one object. An object that reads as before changes nothing. Pods, nodes, NodeClaims, claims, volumes,
//! PodDisruptionBudgets and namespaces are taken in where they are; what is left to a conversion of the whole says so
//! ([`Patched::NeedsRebuild`]).

mod classes;
mod daemons;
mod known;
mod log;
mod nodes;
mod offers;
mod others;
mod pods;
mod records;
mod reservations;
mod storage;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use berth_api::{Device, NodeClaim, NodeResourceTopology};
use berth_model::{Cluster, KeyedMap, MemberKind, MemberRun, PendingRow, RowId, Sym, Taint};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ConvertError;
use crate::builder::{Builder, Converted};
use crate::capacity::Links;
use crate::existing::ExistingNodes;
use crate::maps::{FxIndexSet, Texts};
use crate::overlay::PoolLabels;
use crate::ownership::Ownership;
use crate::place::PodLocation;
use crate::pod_record::PodParts;
use crate::reservation::ignored;
use crate::resolve::Resolver;
use crate::workloads::{Owner, Workloads};

use known::Entry;
pub(crate) use known::Known;
use log::Log;
pub use log::{Change, PodChange};
pub use offers::Offers;
pub use others::Other;
use records::Records;
pub(crate) use reservations::Reservations;
pub use storage::OfferedVolumes;

/// Distinct specs, label sets, strings or Reservations that may pile up before everything is converted anew, beside a quarter of those that
/// there were at first: what is left over takes about as much memory each as what is used.
const MOST_LEFT_OVER: usize = 4_096;

/// Whether a change of one object was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Patched {
    /// It was: the cluster is as if converted from what there is now.
    Done,
    /// It was not, and the cluster is of no use any more: convert everything anew.
    NeedsRebuild,
}

/// The objects that count now, by name: those that a change of another one is about, too.
pub trait Objects {
    /// A pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<PodParts<'_>>;
    /// A node.
    fn node(&self, name: &str) -> Option<Node>;
    /// A NodeClaim.
    fn node_claim(&self, name: &str) -> Option<&NodeClaim>;
    /// The CSINode of a node.
    fn csi_node(&self, name: &str) -> Option<&CSINode>;
    /// The devices of a node.
    fn device(&self, name: &str) -> Option<&Device>;
    /// The CPUs and NUMA nodes of a node.
    fn node_resource_topology(&self, name: &str) -> Option<&NodeResourceTopology>;
    /// The names of the nodes that say that they have an image, by one of its names.
    fn nodes_with_image(&self, image: &str) -> Vec<String>;
    /// How many instances of a finite supply may still be launched, of so many in the catalogue. NodeClaims that are not
    /// launched as far as they show are not taken off.
    fn free_slots(&self, id: &str, counted: u32) -> u32;
    /// Whether the count of a supply leaves out the instance of a NodeClaim already that shows no launch.
    fn counts_launch(&self, id: &str, claim: &str) -> bool;
}

/// The images that matter on nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImageNames {
    /// Those that some pod runs or is to run.
    pub(crate) wanted: FxHashSet<Sym>,
    /// Others that nodes have: the cluster's nodes do not say so.
    pub(crate) unwanted: FxHashSet<Sym>,
    /// Of these, those that were just asked for: nodes are to say so.
    pub(crate) asked: Vec<Sym>,
}

/// Finite supplies, by the cluster's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supplies {
    /// What the catalogue counted.
    pub(crate) counted: Vec<u32>,
    /// What is free of that, NodeClaims aside that are not launched as far as they show.
    pub(crate) free: Vec<u32>,
}

/// What conversion knows beside the cluster.
#[derive(Clone)]
pub(crate) struct Rooms {
    pub(crate) owners: FxIndexSet<Owner>,
    pub(crate) workloads: Workloads,
    /// Whether some DaemonSet names a controller of its own.
    pub(crate) owns_daemons: bool,
    /// The position of each DaemonSet among the cluster's daemons, by the workload's index.
    pub(crate) daemons: FxHashMap<usize, usize>,
    /// Its nodes are the cluster's.
    pub(crate) existing: ExistingNodes,
    pub(crate) links: Links,
    /// By NodePool.
    pub(crate) startup_taints: FxHashMap<Sym, Vec<Taint>>,
    /// What NodeOverlays select NodePools by.
    pub(crate) pool_labels: PoolLabels,
    pub(crate) images: ImageNames,
    /// By driver: how many nodes limit its volumes.
    pub(crate) drivers: FxHashMap<Sym, u32>,
    pub(crate) supplies: Supplies,
    /// The node classes with a catalogue of their own.
    pub(crate) class_catalogues: FxIndexSet<Sym>,
    pub(crate) reservations: Reservations,
    pub(crate) resolver: Resolver,
    pub(crate) ownership: Ownership,
    /// Pods that the annotation of a pod which is a Reservation names as those who have come there.
    pub(crate) named_owners: BTreeSet<(Sym, Arc<str>)>,
}

/// A converted cluster that objects come to and go from.
#[derive(Clone)]
pub struct Live {
    cluster: Cluster,
    warnings: Texts,
    /// The seconds of Unix time at which the cluster is as it was converted.
    valid: RangeInclusive<i64>,
    /// Reads objects; the cluster and the tables that it interns into are lent to it.
    reader: Builder,
    rooms: Rooms,
    pods: KeyedMap<(Sym, Arc<str>), Entry>,
    /// Nodes and NodeClaims as they were read last, by name: a change of one is about others, too.
    records: Records,
    /// By node: pods that name it and are not on it, as it is no capacity or they are nominated to it.
    naming: FxHashMap<Sym, BTreeSet<(Sym, Arc<str>)>>,
    /// By claim: the pods whose volumes stand for it.
    by_claim: FxHashMap<(Sym, Sym), BTreeSet<Arc<str>>>,
    /// By controller that is a DaemonSet: the pods that name it, by age, with their names and namespaces.
    by_daemon_set: FxHashMap<u32, BTreeSet<(i64, Arc<str>, Sym)>>,
    /// Whether pods of DaemonSets came or went, so that others may be the newest.
    has_other_daemons: bool,
    /// How many specs, label sets, strings and Reservations there were at first.
    at_first: [usize; 4],
    /// Whether the order of pending rows may not be theirs.
    is_untidy: bool,
    /// Pending rows to which members came: these may be out of order. Who goes leaves the others in theirs.
    unsorted: BTreeSet<RowId>,
    log: Log,
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
        (warnings, valid): (Texts, RangeInclusive<i64>),
        pods: impl Iterator<Item = (Known, PodLocation)>,
    ) -> Self {
        let (at_first, keyed) = (sizes(&cluster), cluster.keyed_map());
        let mut live = Live {
            cluster,
            warnings,
            valid,
            reader,
            rooms,
            pods: keyed,
            records: Records::default(),
            naming: FxHashMap::default(),
            by_claim: FxHashMap::default(),
            by_daemon_set: FxHashMap::default(),
            has_other_daemons: false,
            at_first,
            is_untidy: false,
            unsorted: BTreeSet::new(),
            log: Log::default(),
        };
        for (known, place) in pods {
            live.keep(known, place);
        }
        // They were looked at.
        live.has_other_daemons = false;
        live
    }

    /// The cluster and what was noticed.
    pub(crate) fn into_converted(self) -> Converted {
        Converted { cluster: self.cluster, warnings: self.warnings.into_iter().collect(), ends_pods: false }
    }

    /// What people should know, a line each, of what was there at first.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// How many changes there were that decisions depend on.
    pub fn n_changes(&self) -> usize {
        self.log.len()
    }

    /// The changes after the first `n`; `None` where they are not remembered any more.
    pub fn changes_after(&self, n: usize) -> Option<&[Change]> {
        self.log.after(n)
    }

    /// Whether the cluster at that time is the one that was converted: no Reservation has expired between.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.valid.contains(&now.as_second())
    }

    /// The cluster, as if converted from what there is now: rows and members of who is pending are in the order of age.
    pub fn cluster(&mut self) -> &Cluster {
        if std::mem::take(&mut self.has_other_daemons) {
            self.follow_newest_daemons();
        }
        if std::mem::take(&mut self.is_untidy) {
            self.tidy();
        }
        &self.cluster
    }

    /// The index of the node, or the NodeClaim in flight, of a name.
    pub fn position_of(&self, node: &str) -> Option<usize> {
        self.rooms.existing.position(self.cluster.symbols.get(node)?)
    }

    /// The nodes that are going away, by name: the cluster does not have them.
    pub fn leaving_nodes(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> = self.rooms.existing.leaving().map(|name| self.cluster.symbols.text(name)).collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// The cluster as [`Live::cluster`] left it: of use until the next change.
    pub fn tidied(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether a resource was one too many at some time: with other objects others may be known, so that what is converted
    /// anew may be another cluster. A pod that names one too many has no place until then.
    pub fn has_refused_resources(&self) -> bool {
        self.cluster.resource_names.has_refused()
    }

    /// Reads something with the tables of the cluster; `None` where that cannot be done without converting everything anew:
    /// it fails, or names resources that were of no matter. Images that were of no matter are noted, for
    /// [`Live::show_images`].
    fn read<T>(&mut self, read: impl FnOnce(&mut Builder) -> Result<T, ConvertError>) -> Option<T> {
        let n_resources = self.cluster.resource_names.len();
        self.read_asking(read).filter(|_| self.cluster.resource_names.len() == n_resources)
    }

    /// The same of what asks for resources and has none: what nobody named before nobody has.
    fn read_asking<T>(&mut self, read: impl FnOnce(&mut Builder) -> Result<T, ConvertError>) -> Option<T> {
        let n_resources = self.cluster.resource_names.len();
        let n_drafts = self.rooms.resolver.drafts.len();
        self.lend();
        let found = read(&mut self.reader);
        self.lend();
        self.reader.warnings.clear();
        let (drafts, images) = (&self.rooms.resolver.drafts, &mut self.rooms.images);
        let new = (n_drafts..drafts.len()).filter_map(|draft| drafts.get_index(draft));
        for image in new.flat_map(|draft| &draft.spec.images.names) {
            if images.wanted.insert(*image) && images.unwanted.remove(image) {
                images.asked.push(*image);
            }
        }
        // The configuration may have rules for a resource, which caches follow from one conversion to the next.
        let has_others = self.cluster.resource_names.len() != n_resources
            && ignored(&self.reader.options.reservations, &self.cluster) != self.cluster.rules.ignored;
        found.ok().filter(|_| !has_others)
    }

    /// Swaps the tables that objects are read into with the reader's.
    fn lend(&mut self) {
        let Live { reader, cluster, rooms, .. } = self;
        std::mem::swap(&mut reader.cluster, cluster);
        std::mem::swap(&mut reader.drafts, &mut rooms.resolver.drafts);
        std::mem::swap(&mut reader.owners, &mut rooms.owners);
        std::mem::swap(&mut reader.references, &mut rooms.ownership.references);
    }

    fn created(&self, namespace: Sym, name: &str) -> i64 {
        self.pods.get(&(namespace, Arc::from(name))).map_or(i64::MAX, |entry| entry.created)
    }

    /// When a pending pod's turn is among those alike: who runs yet, on a node that goes away, comes after those who wait now.
    fn turn(&self, namespace: Sym, name: &str) -> (bool, i64) {
        self.pods.get(&(namespace, Arc::from(name))).map_or((false, i64::MAX), |entry| {
            (entry.more.as_ref().is_some_and(|more| more.named[0].is_some()), entry.created)
        })
    }

    /// The oldest first, then by namespace and name.
    fn by_age(&self, a: (Sym, &str), b: (Sym, &str)) -> Ordering {
        let text = |namespace| self.cluster.symbols.text(namespace);
        let names = || text(a.0).cmp(text(b.0)).then_with(|| a.1.cmp(b.1));
        self.created(a.0, a.1).cmp(&self.created(b.0, b.1)).then_with(names)
    }

    /// Rows as a conversion of everything has them: Reservations by name, then pods by the oldest of each row. It costs what
    /// came, and the number of rows; all members are looked at only where rows change places.
    fn tidy(&mut self) {
        let mut rows = std::mem::take(&mut self.cluster.pending);
        for at in std::mem::take(&mut self.unsorted) {
            let Some(row) = rows.get_mut(at.index()).filter(|row| row.kind == MemberKind::Pod) else { continue };
            let namespace = row.namespace;
            row.members.sort_by_cached_key(|member| (self.turn(namespace, &member.name), member.name.clone()));
        }
        let place = |row: &PendingRow| {
            let is_first = |member: &MemberRun| !self.turn(row.namespace, &member.name).0;
            let key = |member: &MemberRun| {
                let age = match row.kind {
                    MemberKind::Pod => Some(self.created(row.namespace, &member.name)),
                    MemberKind::Reservation => None,
                };
                // Reservations have no namespace of their own.
                let namespace = age.map(|_| self.cluster.symbols.shared(row.namespace));
                (age, namespace, member.name.clone())
            };
            let is_pod = row.kind == MemberKind::Pod;
            // Those who run yet may be older.
            let running = if is_pod { row.members.partition_point(is_first) } else { 0 };
            let oldest = row.members.first().into_iter().chain(row.members.get(running)).map(key).min();
            (is_pod, oldest)
        };
        let places: Vec<_> = rows.iter().map(place).collect();
        let is_gone = |row: &PendingRow| row.members.is_empty();
        if places.is_sorted() && !rows.iter().any(is_gone) {
            self.cluster.pending = rows;
            return;
        }
        let mut order: Vec<_> = places.into_iter().zip((0..).map(RowId).zip(rows)).collect();
        order.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut sorted = Vec::with_capacity(order.len());
        for (_, (before, row)) in order.into_iter().filter(|(_, (_, row))| !is_gone(row)) {
            let at = RowId::new(sorted.len());
            for member in row.members.iter().filter(|_| before != at && row.kind == MemberKind::Pod) {
                if let Some(entry) = self.pods.get_mut(&(row.namespace, member.name.clone())) {
                    entry.place = PodLocation::Row(at);
                }
            }
            sorted.push(row);
        }
        self.cluster.set_pending(sorted);
    }
}

fn sizes(cluster: &Cluster) -> [usize; 4] {
    [cluster.specs.len(), cluster.label_sets.len(), cluster.symbols.len(), cluster.reservations.len()]
}
