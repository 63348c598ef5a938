//! A scheduler that is kept follows the cluster: pods, rooms and nodes that came, changed and went since it looked last.
//!
//! Steps tell of nodes by index as they were then. A node that became another one, or whose pods share what sums do not tell
//! apart, counts no more as it did and is counted anew; what happened to it between does not matter. All others stay, and
//! pods that came to them or left them are added or taken off.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{BoundPod, ClassId, Node, Site, Volumes};

use super::Scheduler;
use crate::admission::filter_admits_node;
use crate::node_tables::Running;

/// What has changed since a scheduler looked at the cluster, in order.
#[derive(Clone, Copy, Debug)]
pub enum Step<'c> {
    /// A pod of a class came to a node, or left it.
    Pod {
        /// The node, by index.
        node: usize,
        /// The pod's class.
        class: ClassId,
        /// The pod.
        pod: &'c BoundPod,
        /// Whether it came.
        comes: bool,
    },
    /// What is left of the node of this index is more or less than its pods tell.
    Room(usize),
    /// A node came, as the last one, without pods.
    Came,
    /// The node of this index went, which had no pods any more; the last one took its place.
    Went(usize, &'c Node),
    /// The node of this index became another one, its name and pods aside, or Reservations hold other room there: what it was.
    Changed(usize, &'c Node),
}

/// A pod that came or left.
#[derive(Clone, Copy)]
struct PodStep<'c> {
    class: ClassId,
    pod: &'c BoundPod,
    comes: bool,
}

/// The steps by node. A node that was there at first is known by its index then; those that came have larger numbers.
#[derive(Default)]
struct History<'c> {
    n_before: usize,
    n_came: usize,
    n_nodes: usize,
    /// Who is at an index, where that is not who was there at first.
    at: BTreeMap<usize, usize>,
    /// Of nodes that were there at first and became others or went: what they were.
    was: BTreeMap<usize, &'c Node>,
    gone: BTreeSet<usize>,
    /// Where those are now that moved or came.
    positions: BTreeMap<usize, usize>,
    pods: Vec<(usize, PodStep<'c>)>,
    rooms: Vec<usize>,
    /// Nodes that came, and the indexes of those that went, in order.
    turns: Vec<Option<usize>>,
}

// === impl History ===

impl<'c> History<'c> {
    fn of(n_nodes: usize, steps: &[Step<'c>]) -> Self {
        let mut history = History { n_before: n_nodes, n_nodes, ..History::default() };
        for step in steps {
            match *step {
                Step::Pod { node, class, pod, comes } => {
                    history.pods.push((history.id_at(node), PodStep { class, pod, comes }));
                }
                Step::Room(node) => history.rooms.push(history.id_at(node)),
                Step::Came => {
                    history.at.insert(history.n_nodes, history.n_before + history.n_came);
                    history.n_nodes += 1;
                    history.n_came += 1;
                    history.turns.push(None);
                }
                Step::Went(node, was) => history.went(node, was),
                Step::Changed(node, was) => history.was(history.id_at(node), was),
            }
        }
        history.positions = history.at.iter().map(|(index, id)| (*id, *index)).collect();
        history
    }

    fn id_at(&self, index: usize) -> usize {
        self.at.get(&index).copied().unwrap_or(index)
    }

    fn was_there(&self, id: usize) -> bool {
        id < self.n_before
    }

    fn was(&mut self, id: usize, was: &'c Node) {
        if self.was_there(id) {
            self.was.entry(id).or_insert(was);
        }
    }

    fn went(&mut self, node: usize, was: &'c Node) {
        let id = self.id_at(node);
        self.was(id, was);
        self.gone.insert(id);
        self.turns.push(Some(node));
        self.n_nodes = self.n_nodes.saturating_sub(1);
        let moved = self.id_at(self.n_nodes);
        self.at.remove(&self.n_nodes);
        if node != self.n_nodes {
            self.at.insert(node, moved);
        }
    }

    /// Where a node is now; `None` where it went.
    fn position(&self, id: usize) -> Option<usize> {
        let is_here = !self.gone.contains(&id);
        is_here.then(|| self.positions.get(&id).copied().unwrap_or(id))
    }

    /// The nodes that came and are there.
    fn came(&self) -> impl Iterator<Item = usize> {
        (self.n_before..self.n_before + self.n_came).filter_map(|id| self.position(id))
    }
}

impl Scheduler<'_> {
    /// Takes in what has changed. Whether that could be done: else the scheduler is of no use any more.
    #[must_use]
    pub fn follow(&mut self, steps: &[Step<'_>]) -> bool {
        let history = History::of(self.state.nodes().len(), steps);
        if history.n_nodes != self.cluster.nodes.len() {
            return false;
        }
        let reported = (self.tables.reports_cpus > 0, self.tables.reports_numa > 0);
        // Those that are counted anew, by index as they were, and where they are now.
        let mut anew: BTreeMap<usize, usize> = BTreeMap::new();
        let shared = history.pods.iter().filter(|(id, step)| history.was_there(*id) && !self.is_plain(*id, step.pod));
        for id in history.was.keys().copied().chain(shared.map(|(id, _)| *id)) {
            anew.extend(history.position(id).map(|now| (id, now)));
        }
        if !self.forget_as_they_were(&history, &anew) {
            return false;
        }
        // Everyone comes to the place that is theirs now.
        for turn in &history.turns {
            match turn {
                None => self.push_node(),
                Some(node) => self.swap_remove_node(*node),
            }
        }
        self.take_in(&history, &anew)
            && reported == (self.tables.reports_cpus > 0, self.tables.reports_numa > 0)
            && !self.groups.is_worn()
    }

    /// What is not as it was any more counts no more as it did. Nodes are by index as they were.
    fn forget_as_they_were(&mut self, history: &History<'_>, anew: &BTreeMap<usize, usize>) -> bool {
        let (cluster, universe) = (self.cluster, self.universe);
        for (id, PodStep { class, pod, comes }) in &history.pods {
            let is_meant = history.was_there(*id) && (history.gone.contains(id) || anew.contains_key(id));
            let now = history.position(*id).and_then(|now| cluster.nodes.get(now));
            let Some(known) = history.was.get(id).copied().or(now).filter(|_| is_meant) else { continue };
            let site = Site { labels: &known.labels, counts: |counter| self.tables.counts_on(counter, *id) };
            self.state.count_bound(cluster, universe, (*class, pod), &site, *comes);
        }
        for (&id, &now) in anew {
            let Some((node, classes)) = cluster.nodes.get(now).zip(universe.bound.get(now)) else { return false };
            let known = history.was.get(&id).copied().unwrap_or(node);
            let site = Site { labels: &known.labels, counts: |counter| self.tables.counts_on(counter, id) };
            for (pod, class) in node.pods.iter().zip(classes) {
                self.state.count_bound(cluster, universe, (*class, pod), &site, false);
            }
            let holdings = self.state.nodes().get(id).map(|state| state.holdings.clone());
            for holding in holdings.iter().flatten() {
                self.state.count_holding(cluster, universe, holding, &site, false);
            }
        }
        for (&id, was) in &history.was {
            self.note_node(was, id, false);
            if !history.gone.contains(&id) {
                self.groups.release_node(id);
            } else if self.state.nodes().get(id).is_none_or(|state| !state.holdings.is_empty()) {
                return false;
            }
        }
        true
    }

    /// Looks at what is new, or another, and at who came to the others and left them. Nodes are by index as they are.
    fn take_in(&mut self, history: &History<'_>, anew: &BTreeMap<usize, usize>) -> bool {
        let (cluster, universe) = (self.cluster, self.universe);
        let n_counters = self.tables.counter_filters.len();
        self.tables.extend_counters(self.groups.kinds());
        self.state.extend_counters(universe.counters.len());
        let changed = history.was.keys().filter_map(|id| anew.get(id).copied());
        let mut touched: BTreeSet<usize> = changed.chain(history.came()).collect();
        for &now in &touched {
            if !self.set_node(now) {
                return false;
            }
        }
        let new = universe.counters.get(n_counters..).unwrap_or_default();
        self.domains.extend(cluster, new, |filter, node| self.tables.admits(filter, node));
        touched.extend(anew.values().copied());
        for &now in &touched {
            let tables = &self.tables;
            self.state.count_node(cluster, universe, now, |counter| tables.counts_on(counter, now));
            self.note_holdings(now);
        }
        for (id, step) in history.pods.iter().filter(|(id, _)| history.was_there(*id) && !anew.contains_key(id)) {
            let Some(now) = history.position(*id) else { continue };
            if !self.change_pod(*step, now) {
                return false;
            }
            touched.insert(now);
        }
        for now in history.rooms.iter().filter_map(|id| history.position(*id)) {
            let Some(known) = cluster.nodes.get(now) else { return false };
            self.state.change_node(now, |state| state.set_free(&known.free));
            touched.insert(now);
        }
        // Those that hold room are apart by their index.
        let holds = |now: &usize| self.state.nodes().get(*now).is_some_and(|state| !state.holdings.is_empty());
        touched.extend(history.at.keys().copied().filter(holds));
        for now in touched {
            self.regroup(now);
        }
        true
    }

    /// A node is another one, or new: what is known of it beside its load.
    fn set_node(&mut self, now: usize) -> bool {
        let (cluster, universe) = (self.cluster, self.universe);
        let Some(node) = cluster.nodes.get(now) else { return false };
        for (known, filter) in self.tables.filters.iter_mut().zip(&universe.filters) {
            known.grow(now + 1);
            known.set(now, filter_admits_node(cluster, node, filter));
        }
        self.note_node(node, now, true);
        self.groups.set_node(now, cluster)
    }

    /// Which Reservations hold room on a node.
    fn note_holdings(&mut self, now: usize) {
        let at = u32::try_from(now).ok();
        for place in self.places.iter_mut().filter(|place| **place == at) {
            *place = None;
        }
        for holding in self.cluster.nodes.get(now).into_iter().flat_map(|node| &node.holdings) {
            if let Some(place) = self.places.get_mut(holding.reservation as usize) {
                *place = at;
            }
        }
    }

    /// Whether sums tell what a pod leaves or takes: of ports and volumes that Reservations may hold, and of units, nothing
    /// says who else has them.
    fn is_plain(&self, node: usize, pod: &BoundPod) -> bool {
        let has_shared = self
            .cluster
            .spec(pod.spec)
            .is_none_or(|spec| !spec.host_ports.is_empty() || spec.volumes != Volumes::default());
        let has_holdings = self.state.nodes().get(node).is_none_or(|state| !state.holdings.is_empty());
        !(has_shared && has_holdings) && pod.assigned.is_none() && pod.draws_from.is_none() && pod.candidate.is_none()
    }

    /// A plain pod came to a node, or left it.
    fn change_pod(&mut self, PodStep { class, pod, comes }: PodStep<'_>, node: usize) -> bool {
        let Some(class) = self.universe.class(class) else { return false };
        let Some(spec) = self.cluster.spec(pod.spec) else { return false };
        let running = Running { class, spec, stage: pod.stage, assigned: None, draws_from: None };
        if comes {
            self.tables.comes(&mut self.state, running, node);
        } else {
            self.tables.leaves(&mut self.state, running, node);
        }
        true
    }

    /// What is known of all nodes together: the node of an index belongs to it, or does not any more.
    fn note_node(&mut self, node: &Node, at: usize, comes: bool) {
        let tables = &mut self.tables;
        let change = |count: &mut usize| *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        if !node.units.cpus.is_empty() {
            change(&mut tables.reports_cpus);
        }
        if !node.units.numa.is_empty() {
            change(&mut tables.reports_numa);
        }
        self.domains.count(&node.labels, |filter| tables.admits(filter, at), comes);
        self.images.count(node, comes, self.cluster);
    }

    fn push_node(&mut self) {
        self.state.push_node();
        self.groups.push_node();
    }

    fn swap_remove_node(&mut self, node: usize) {
        let Some(last) = self.state.nodes().len().checked_sub(1) else { return };
        self.state.swap_remove_node(node);
        self.groups.swap_remove_node(node);
        for nodes in &mut self.tables.filters {
            nodes.grow(last + 1);
            nodes.set(node, nodes.contains(last));
            nodes.set(last, false);
        }
        let index = |at: usize| u32::try_from(at).ok();
        for place in &mut self.places {
            if *place == index(node) {
                *place = None;
            }
            if *place == index(last) {
                *place = index(node);
            }
        }
    }
}
