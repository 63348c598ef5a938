//! A scheduler between two decisions: what it knows of nodes, groups and classes is kept, and brought up to date by what has
//! changed meanwhile. A decision is tried out and taken back: it is the cluster that says what came of it.

use berth_model::{ClassId, Cluster, CounterId, Mark, Snapshot, Sym, Universe};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::domains::DomainSizes;
use super::groups::Groups;
use super::hold::Members;
use super::images::NodeImages;
use super::index::Index;
use super::shared::{IndexId, Sharers};
use super::view::Views;
use super::{Launchable, Placement, Queue, Scheduler};
use crate::node_tables::NodeTables;
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
    reports: (usize, usize),
    images: NodeImages,
    views: Views,
    sharers: Sharers,
    shares: bool,
    indexes: FxHashMap<IndexId, (u64, Index)>,
    entries: usize,
    asked: u64,
    allowed: Vec<i32>,
    places: Vec<Option<u32>>,
    domains: DomainSizes,
}

/// What a scheduler would do.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// How many of each class find no node, ascending by class.
    pub left: Vec<(ClassId, u32)>,
    /// Where the others go, by name, in order of rows of the input.
    pub placements: Vec<Placement>,
}

/// Pods of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which.
    pub counter: CounterId,
    /// Domains with pods, and how many; none of host names.
    pub domains: Vec<(Sym, u32)>,
    /// Pods anywhere.
    pub total: u32,
}

impl<'a> Scheduler<'a> {
    /// Ends the scheduler, to go on later over the same nodes. Nothing was decided that is not taken back.
    pub fn pause(self) -> Paused {
        debug_assert_eq!(
            self.entries,
            self.indexes.values().map(|(_, index)| index.len()).sum::<usize>(),
            "what is kept is counted"
        );
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
            sharers: self.sharers,
            shares: self.shares,
            indexes: self.indexes,
            entries: self.entries,
            asked: self.asked,
            allowed: self.allowed,
            places: self.places,
            domains: self.domains,
        }
    }

    /// Goes on. The cluster has the same Reservations and rules, and the universe the same counters; classes may have come. No
    /// Reservation is pending. What else has changed is to be told by [`Scheduler::follow`] before anything is asked.
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
            sharers: paused.sharers,
            shares: paused.shares,
            merges_cells: true,
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
            aside: Vec::new(),
        }
    }

    /// PodDisruptionBudgets are what the cluster says now.
    pub fn budgets_changed(&mut self) {
        self.allowed = self.cluster.budgets.iter().map(|budget| budget.allowed).collect();
    }

    /// What could be launched is this now. `n_counters` were known before: who asked for those looks at all nodes anew if there
    /// is a difference.
    pub fn set_launchable(&mut self, launchable: Launchable, n_counters: usize) {
        if !launchable.is_same_of_first(n_counters, &self.launchable) {
            self.indexes.clear();
            self.entries = 0;
        }
        launchable.number(&mut self.domains);
        if launchable != self.launchable {
            self.sharers.launchable_changed();
        }
        self.launchable = launchable;
    }

    /// Works off the queue, and takes everything back. `None` where others would give way, or room would be held; the latter
    /// is no matter where nobody may preempt.
    pub fn try_out(&mut self, queue: Queue) -> Option<Trial> {
        let (mark, allowed) = (self.begin_trial(), self.allowed.clone());
        let left = self.run(queue);
        let holds_room = !self.off.is_empty() || !self.nominated.is_empty();
        let is_plain = self.evicted.is_empty()
            && !(queue.preempts && holds_room)
            && self.replacements.waiting.is_empty()
            && self.bound_to.is_empty();
        let trial = is_plain.then(|| Trial { left, placements: self.placed_by_row() });
        self.log.clear();
        self.evicted.clear();
        self.off.clear();
        self.nominated.clear();
        self.bound_to.clear();
        (self.allowed, self.replacements, self.members) = (allowed, super::Replacements::default(), Members::default());
        (self.residents, self.kept) = (None, None);
        self.expectations = super::expected::Expectations::default();
        self.take_back(mark);
        trial
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
        self.places_aside(node, again).or_else(|| self.places_by_trial(node, again))
    }

    /// What counters would count if the pods of a node went, and of those that come again some came to other nodes: class and
    /// node. Everything is taken back.
    pub fn counted_without(&mut self, node: usize, again: &[(ClassId, usize)], counters: &[CounterId]) -> Vec<Counted> {
        if counters.is_empty() {
            return Vec::new();
        }
        let mark = self.state.mark();
        for pod in 0..self.cluster.nodes.get(node).map_or(0, |node| node.pods.len()) {
            self.tables.count_off(&mut self.state, node, pod);
        }
        for &(id, place) in again {
            self.tables.bind(&mut self.state, id, place);
        }
        let counted = |&counter: &CounterId| Counted {
            counter,
            domains: self.state.domains(counter).collect(),
            total: self.state.total(counter),
        };
        let counted = counters.iter().map(counted).collect();
        self.state.rollback(mark);
        self.state.forget(mark);
        counted
    }

    // By indexes as they are, beside which the few nodes that change are looked at one by one; `None` where some class does
    // not share one.
    fn places_aside(&mut self, node: usize, again: &[ClassId]) -> Option<Vec<Option<usize>>> {
        // Before anything changes.
        let sharers: Vec<_> = again.iter().map(|id| self.look_for(*id)).collect::<Option<_>>()?;
        let mark = self.state.mark();
        for pod in 0..self.cluster.nodes.get(node)?.pods.len() {
            self.tables.count_off(&mut self.state, node, pod);
        }
        self.gone = Some(node);
        self.aside.push(node);
        let mut can_tell = true;
        let places = places_for(again, |at, id| {
            if !self.may_be_placed(id) {
                return None;
            }
            let Some(Ok(chosen)) = sharers.get(at).map(|sharer| self.choose_as(sharer)) else {
                can_tell = false;
                return None;
            };
            let place = chosen?;
            self.tables.bind(&mut self.state, id, place);
            if !self.aside.contains(&place) {
                self.aside.push(place);
            }
            Some(place)
        });
        self.gone = None;
        self.aside.clear();
        self.state.rollback(mark);
        self.state.forget(mark);
        can_tell.then_some(places)
    }

    fn places_by_trial(&mut self, node: usize, again: &[ClassId]) -> Option<Vec<Option<usize>>> {
        let mark = self.begin_trial();
        for pod in 0..self.cluster.nodes.get(node)?.pods.len() {
            self.tables.take_off(&mut self.state, node, pod, None);
        }
        self.gone = Some(node);
        self.regroup(node);
        let places = places_for(again, |_, id| {
            let place = self.choose(id)?;
            self.put_on(id, place);
            Some(place)
        });
        self.gone = None;
        self.take_back(mark);
        Some(places)
    }

    /// Whether a domain of some topology key goes with a node: what spreads are counted over would change.
    fn is_a_domain(&self, node: usize) -> bool {
        let known = self.cluster.nodes.get(node);
        known.is_none_or(|known| self.domains.is_alone(known, |filter| self.tables.admits(filter, node)))
    }

    fn begin_trial(&mut self) -> Mark {
        self.groups.begin_trial();
        self.state.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.state.rollback(mark);
        self.state.forget(mark);
        let undone = self.groups.take_back();
        self.take_back_counted(&undone);
        for id in std::mem::take(&mut self.looked) {
            if let Some((asked, mut index)) = self.indexes.remove(&id) {
                self.entries = self.entries.saturating_sub(index.len());
                index.take_back(&undone, self.world());
                self.entries += index.len();
                self.indexes.insert(id, (asked, index));
            }
        }
    }
}

// Where pods of these classes find a place, one after another; those that found none are asked again while others do. `place`
// is given which of them, and its class.
fn places_for(again: &[ClassId], mut place: impl FnMut(usize, ClassId) -> Option<usize>) -> Vec<Option<usize>> {
    let mut places: Vec<Option<usize>> = vec![None; again.len()];
    loop {
        let mut has_progressed = false;
        // A class that found no place finds none among more pods, but for those that want to be with them.
        let mut stuck: Vec<ClassId> = Vec::new();
        let waiting = places.iter_mut().zip(again).enumerate().filter(|(_, (found, _))| found.is_none());
        for (at, (found, &id)) in waiting {
            *found = if stuck.contains(&id) { None } else { place(at, id) };
            if found.is_none() {
                stuck.push(id);
            }
            has_progressed |= found.is_some();
        }
        if !has_progressed || places.iter().all(Option::is_some) {
            return places;
        }
    }
}
