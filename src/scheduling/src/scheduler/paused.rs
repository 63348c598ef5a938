//! A scheduler between two decisions: what it knows of nodes, groups and classes is kept, and brought up to date by the pods
//! that came and went meanwhile. A decision is tried out and taken back: it is the cluster that says what came of it.

use berth_model::{BoundPod, ClassId, Cluster, Snapshot, Sym, Universe, Volumes};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::groups::Groups;
use super::hold::Members;
use super::index::Index;
use super::view::Views;
use super::{Launchable, Placement, Queue, Scheduler};
use crate::node_tables::{NodeTables, Running};
use crate::reservation::Rules;

/// What a scheduler knows, without the cluster that it looks at.
#[derive(Debug)]
pub struct Paused {
    launchable: Launchable,
    state: Snapshot,
    groups: Groups,
    filters: Vec<FixedBitSet>,
    counter_filters: Vec<Option<u32>>,
    rules: Rules,
    reports: (bool, bool),
    images: FxHashMap<Sym, (i64, usize)>,
    views: Views,
    indexes: FxHashMap<ClassId, (u64, Index)>,
    entries: usize,
    asked: u64,
    allowed: Vec<i32>,
    places: Vec<Option<u32>>,
}

/// What a scheduler would do.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// How many of each class find no node, ascending by class.
    pub left: Vec<(ClassId, u32)>,
    /// Where the others go, by name, in order of rows of the input.
    pub placements: Vec<Placement>,
}

impl<'a> Scheduler<'a> {
    /// Ends the scheduler, to go on later over the same nodes. Nothing was decided that is not taken back.
    pub fn pause(self) -> Paused {
        let NodeTables { filters, counter_filters, rules, reports_cpus, reports_numa, .. } = self.tables;
        Paused {
            launchable: self.launchable,
            state: self.state,
            groups: self.groups,
            filters,
            counter_filters,
            rules,
            reports: (reports_cpus, reports_numa),
            images: self.images,
            views: self.views,
            indexes: self.indexes,
            entries: self.entries,
            asked: self.asked,
            allowed: self.allowed,
            places: self.places,
        }
    }

    /// Goes on. The cluster has the same nodes, Reservations and rules, and the universe the same counters; classes may have
    /// come. No Reservation is pending.
    pub fn resume(cluster: &'a Cluster, universe: &'a Universe, paused: Paused) -> Self {
        let Paused { filters, counter_filters, rules, reports: (reports_cpus, reports_numa), .. } = paused;
        Scheduler {
            cluster,
            universe,
            launchable: paused.launchable,
            state: paused.state,
            groups: paused.groups,
            tables: NodeTables { cluster, universe, filters, counter_filters, rules, reports_cpus, reports_numa },
            images: paused.images,
            views: paused.views,
            indexes: paused.indexes,
            entries: paused.entries,
            asked: paused.asked,
            log: Vec::new(),
            evicted: Vec::new(),
            off: rustc_hash::FxHashSet::default(),
            allowed: paused.allowed,
            keeps_budgets: false,
            counts_on_terminating: false,
            replacements: super::Replacements::default(),
            residents: None,
            kept: None,
            nominated: FxHashMap::default(),
            places: paused.places,
            members: Members::default(),
            bound_to: FxHashMap::default(),
        }
    }

    /// A pod came to a node of the cluster, or left it, since the scheduler looked at it. Says whether it could be taken in:
    /// of ports, volumes and units that pods may share, nothing says who else has them.
    #[must_use]
    pub fn pod_changed(&mut self, id: ClassId, pod: &BoundPod, node: usize, comes: bool) -> bool {
        let Some(class) = self.universe.class(id) else { return false };
        let Some(spec) = self.cluster.specs.get(pod.spec as usize) else { return false };
        let has_shared = !spec.host_ports.is_empty() || spec.volumes != Volumes::default();
        if has_shared || pod.assigned.is_some() || pod.draws_from.is_some() || pod.candidate.is_some() {
            return false;
        }
        let running = Running { class, spec, stage: pod.stage, assigned: None, draws_from: None };
        if comes {
            self.tables.comes(&mut self.state, running, node);
        } else {
            self.tables.leaves(&mut self.state, running, node);
        }
        self.regroup(node);
        true
    }

    /// Works off the queue, and takes everything back. `None` where others would give way, or room would be held: then the
    /// scheduler is of no use any more.
    pub fn try_out(&mut self, queue: Queue) -> Option<Trial> {
        let (mark, cursor) = (self.state.mark(), self.groups.now());
        let left = self.run(queue);
        let is_plain = self.evicted.is_empty()
            && self.off.is_empty()
            && self.nominated.is_empty()
            && self.replacements.waiting.is_empty()
            && self.bound_to.is_empty();
        if !is_plain {
            return None;
        }
        let placements = self.placed_by_row();
        let mut nodes: Vec<u32> = self.groups.since(cursor)?.iter().map(|change| change.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.state.rollback(mark);
        self.state.forget(mark);
        self.log.clear();
        for node in nodes {
            self.regroup(node as usize);
        }
        Some(Trial { left, placements })
    }
}
