//! A scheduler between two decisions: what it knows of nodes, groups and classes is kept, and brought up to date by the pods
//! that came and went meanwhile. A decision is tried out and taken back: it is the cluster that says what came of it.

use berth_model::{BoundPod, ClassId, Cluster, Mark, Snapshot, Sym, Universe, Volumes};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::groups::Groups;
use super::hold::Members;
use super::index::Index;
use super::view::Views;
use super::{Launchable, Placement, Queue, Scheduler};
use crate::node_tables::{NodeTables, Running};
use crate::reservation::Rules;

/// How many nodes are in each domain of a key, by node filter.
pub(super) type DomainSizes = FxHashMap<(Option<u32>, Sym), FxHashMap<Sym, u32>>;

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
    domains: Option<DomainSizes>,
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
            domains: self.domains,
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
            looked: Vec::new(),
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
            expectations: super::expected::Expectations::default(),
            domains: paused.domains,
            members: Members::default(),
            bound_to: FxHashMap::default(),
            gone: None,
        }
    }

    /// A pod came to a node of the cluster, or left it, since the scheduler looked at it. Says whether it could be taken in:
    /// of ports and volumes that Reservations may hold, and of units, nothing says who else has them.
    #[must_use]
    pub fn pod_changed(&mut self, id: ClassId, pod: &BoundPod, node: usize, comes: bool) -> bool {
        let Some(class) = self.universe.class(id) else { return false };
        let Some(spec) = self.cluster.specs.get(pod.spec as usize) else { return false };
        let has_shared = !spec.host_ports.is_empty() || spec.volumes != Volumes::default();
        let has_holdings = self.state.nodes().get(node).is_none_or(|state| !state.holdings.is_empty());
        if (has_shared && has_holdings) || pod.assigned.is_some() || pod.draws_from.is_some() || pod.candidate.is_some()
        {
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

    /// What is left of a node is what the cluster says now, all pods that came and went taken in.
    pub fn room_changed(&mut self, node: usize) {
        let Some(known) = self.cluster.nodes.get(node) else { return };
        self.state.change_node(node, |state| state.free.clone_from(&known.free));
        self.regroup(node);
    }

    /// PodDisruptionBudgets are what the cluster says now.
    pub fn budgets_changed(&mut self) {
        self.allowed = self.cluster.budgets.iter().map(|budget| budget.allowed).collect();
    }

    /// What could be launched may be something else now.
    pub fn set_launchable(&mut self, launchable: Launchable) {
        if launchable != self.launchable {
            self.launchable = launchable;
            self.indexes.clear();
            self.entries = 0;
        }
    }

    /// Works off the queue, and takes everything back. `None` where others would give way, or room would be held: then the
    /// scheduler is of no use any more.
    pub fn try_out(&mut self, queue: Queue) -> Option<Trial> {
        let mark = self.begin_trial();
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
        self.take_back(mark);
        Some(Trial { left, placements })
    }

    /// Where the pods of a node would go if it went, each of the class that it would have when its controller makes it anew,
    /// in this order; `None` for those that find no node as things are, without preemption. Everything is taken back. Pods
    /// that are pending are not asked. `None` in all where Reservations hold room on the node.
    pub fn try_without(&mut self, node: usize, again: &[ClassId]) -> Option<Vec<Option<usize>>> {
        let known = self.cluster.nodes.get(node)?;
        let draws = known.pods.iter().any(|pod| pod.draws_from.is_some());
        if draws || !self.state.nodes().get(node)?.holdings.is_empty() || self.is_a_domain(node) {
            return None;
        }
        let mark = self.begin_trial();
        for pod in 0..known.pods.len() {
            self.tables.take_off(&mut self.state, node, pod, None);
        }
        self.gone = Some(node);
        self.regroup(node);
        let mut places: Vec<Option<usize>> = vec![None; again.len()];
        loop {
            let mut has_progressed = false;
            // A class that found no place finds none among more pods, but for those that want to be with them.
            let mut stuck: Vec<ClassId> = Vec::new();
            for (place, &id) in places.iter_mut().zip(again).filter(|(place, _)| place.is_none()) {
                *place = if stuck.contains(&id) { None } else { self.choose(id) };
                match *place {
                    Some(node) => self.put_on(id, node),
                    None => stuck.push(id),
                }
                has_progressed |= place.is_some();
            }
            if !has_progressed || places.iter().all(Option::is_some) {
                break;
            }
        }
        self.gone = None;
        self.take_back(mark);
        Some(places)
    }

    /// Whether a domain of some topology key goes with a node: what spreads are counted over would change.
    fn is_a_domain(&mut self, node: usize) -> bool {
        let (cluster, tables) = (self.cluster, &self.tables);
        let admits = |filter: Option<u32>, node: usize| {
            filter.and_then(|filter| tables.filters.get(filter as usize)).is_none_or(|nodes| nodes.contains(node))
        };
        let domains = self.domains.get_or_insert_with(|| {
            let mut domains = DomainSizes::default();
            let hostname = cluster.well_known.hostname;
            for counter in self.universe.counters.iter().filter(|counter| counter.key != hostname) {
                domains.entry((counter.filter, counter.key)).or_insert_with(|| {
                    let mut sizes: FxHashMap<Sym, u32> = FxHashMap::default();
                    let nodes = cluster.nodes.iter().enumerate().filter(|(at, _)| admits(counter.filter, *at));
                    for (_, node) in nodes {
                        if let Some(name) = node.labels.get(counter.key) {
                            *sizes.entry(name).or_default() += 1;
                        }
                    }
                    sizes
                });
            }
            domains
        });
        let Some(labels) = cluster.nodes.get(node).map(|node| &node.labels) else { return true };
        domains.iter().any(|((filter, key), sizes)| {
            let size = labels.get(*key).and_then(|name| sizes.get(&name));
            admits(*filter, node) && size.is_some_and(|size| *size < 2)
        })
    }

    fn begin_trial(&mut self) -> Mark {
        self.groups.begin_trial();
        self.state.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.state.rollback(mark);
        self.state.forget(mark);
        self.log.clear();
        let undone = self.groups.take_back();
        for id in std::mem::take(&mut self.looked) {
            if let Some((asked, mut index)) = self.indexes.remove(&id) {
                index.take_back(&undone, self.world());
                self.indexes.insert(id, (asked, index));
            }
        }
    }
}
