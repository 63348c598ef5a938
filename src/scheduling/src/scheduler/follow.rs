//! A scheduler that is kept follows the cluster: pods, rooms and nodes that came, changed and went since it looked last.
//!
//! Steps tell of nodes by index as they were then. A node that became another one, or whose pods share what sums do not tell
//! apart, counts no more as it did and is counted anew; what happened to it between does not matter. All others stay, and
//! pods that came to them or left them are added or taken off.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{BoundPod, Cluster, CounterId, Node, Site, Volumes};

use super::history::{History, PodStep, Step};
use super::ledger::Ledger;
use super::names::StaleIndex;
use super::tables::Tables;
use crate::admission::filter_admits_node;
use crate::node_changes::Running;

/// Takes in what has changed. Whether that could be done: else the scheduler is of no use any more.
#[must_use]
pub(super) fn follow(tables: &mut Tables<'_>, ledger: &mut Ledger, steps: &[Step<'_>]) -> bool {
    if let Err(StaleIndex(at)) = tables.names.follow(steps, tables.cluster) {
        debug_assert!(false, "a step tells of node {at}, which is another one by now");
        return false;
    }
    let history = History::of(ledger.state.nodes().len(), steps);
    let reported = (tables.reports_cpus > 0, tables.reports_numa > 0);
    // Those that are counted anew, by index as they were, and where they are now.
    let mut anew: BTreeMap<usize, usize> = BTreeMap::new();
    let shared =
        history.pods.iter().filter(|(id, step)| history.was_there(*id) && !is_plain(tables, ledger, *id, step.pod));
    // Where Reservations hold room whose pods count otherwise.
    let reserved = history.reserved.keys().filter_map(|id| ledger.held.place(*id));
    for id in history.was.keys().copied().chain(shared.map(|(id, _)| *id)).chain(reserved) {
        anew.extend(history.position(id).map(|now| (id, now)));
    }
    if !forget_as_they_were(tables, ledger, &history, &anew) {
        return false;
    }
    ledger.held.places.resize(tables.cluster.reservations.len(), None);
    // Everyone comes to the place that is theirs now.
    for turn in &history.turns {
        match turn {
            None => ledger.push_node(),
            Some(node) => {
                tables.swap_remove_node(*node, ledger.state.nodes().len());
                ledger.swap_remove_node(*node);
            }
        }
    }
    take_in(tables, ledger, &history, &anew)
        && reported == (tables.reports_cpus > 0, tables.reports_numa > 0)
        && !ledger.groups.is_worn()
}

/// What is not as it was any more counts no more as it did. Nodes are by index as they were.
fn forget_as_they_were(
    tables: &mut Tables<'_>,
    ledger: &mut Ledger,
    history: &History<'_>,
    anew: &BTreeMap<usize, usize>,
) -> bool {
    let (cluster, universe) = (tables.cluster, tables.universe);
    // Nothing is counted yet in those that came.
    let n_counters = tables.counter_filters.len();
    let is_known = |counter: CounterId| counter.index() < n_counters;
    for (id, PodStep { class, pod, comes }) in &history.pods {
        let is_meant = history.was_there(*id) && (history.gone.contains(id) || anew.contains_key(id));
        let now = history.position(*id).and_then(|now| cluster.nodes.get(now));
        let Some(known) = history.was.get(id).copied().or(now).filter(|_| is_meant) else { continue };
        let site =
            Site { labels: &known.labels, counts: |counter| is_known(counter) && tables.counts_on(counter, *id) };
        ledger.state.count_bound(cluster, universe, (*class, pod), &site, *comes);
    }
    for (&id, &now) in anew {
        let Some((node, classes)) = cluster.nodes.get(now).zip(universe.bound.get(now)) else { return false };
        let known = history.was.get(&id).copied().unwrap_or(node);
        let site = Site { labels: &known.labels, counts: |counter| is_known(counter) && tables.counts_on(counter, id) };
        for (pod, class) in node.pods.iter().zip(classes) {
            ledger.state.count_bound(cluster, universe, (*class, pod), &site, false);
        }
    }
    let gone = history.gone.iter().filter_map(|id| Some((*id, *history.was.get(id)?)));
    let others = anew.iter().filter_map(|(id, now)| {
        let was = history.was.get(id).copied().or_else(|| cluster.nodes.get(*now));
        Some((*id, was?))
    });
    for (id, known) in gone.chain(others) {
        let site = Site { labels: &known.labels, counts: |counter| is_known(counter) && tables.counts_on(counter, id) };
        let holdings = ledger.state.nodes().get(id).map(|state| state.holdings.clone());
        for holding in holdings.iter().flatten() {
            let was = history.reserved.get(&holding.reservation).copied();
            let class = was.unwrap_or_else(|| universe.reserved(holding.reservation));
            ledger.state.count_holding(cluster, universe, (holding, class), &site, false);
        }
    }
    for (&id, was) in &history.was {
        tables.note_node(was, id, false);
        if !history.gone.contains(&id) {
            ledger.groups.release_node(id);
        }
    }
    true
}

/// Looks at what is new, or another, and at who came to the others and left them. Nodes are by index as they are.
fn take_in(tables: &mut Tables<'_>, ledger: &mut Ledger, history: &History<'_>, anew: &BTreeMap<usize, usize>) -> bool {
    let (cluster, universe) = (tables.cluster, tables.universe);
    let n_counters = tables.counter_filters.len();
    tables.nodes.extend_counters(ledger.groups.kinds());
    ledger.state.extend_counters(universe.counters.len());
    let changed = history.was.keys().filter_map(|id| anew.get(id).copied());
    let mut touched: BTreeSet<usize> = changed.chain(history.came()).collect();
    for &now in &touched {
        if !(tables.set_node(now) && ledger.groups.set_node(now, cluster)) {
            return false;
        }
    }
    let new = universe.counters.get(n_counters..).unwrap_or_default();
    let Tables { nodes, domains, .. } = &mut *tables;
    domains.extend(cluster, new, |filter, node| nodes.admits(filter, node));
    touched.extend(anew.values().copied());
    for &now in &touched {
        ledger.state.count_node(cluster, universe, now, |counter| tables.counts_on(counter, now));
        ledger.note_holdings(cluster, now);
    }
    for (id, step) in history.pods.iter().filter(|(id, _)| history.was_there(*id) && !anew.contains_key(id)) {
        let Some(now) = history.position(*id) else { continue };
        if !change_pod(tables, ledger, *step, now) {
            return false;
        }
        touched.insert(now);
    }
    for now in history.rooms.iter().filter_map(|id| history.position(*id)) {
        let Some(known) = cluster.nodes.get(now) else { return false };
        ledger.state.change_node(now, |state| state.set_free(&known.free));
        touched.insert(now);
    }
    // Those that hold room are apart by their index.
    let holds = |now: &usize| ledger.state.nodes().get(*now).is_some_and(|state| !state.holdings.is_empty());
    touched.extend(history.at.keys().copied().filter(holds));
    for now in touched {
        ledger.regroup(now);
    }
    true
}

/// Whether sums tell what a pod leaves or takes: of ports and volumes that Reservations may hold, and of units, nothing
/// says who else has them.
fn is_plain(tables: &Tables<'_>, ledger: &Ledger, node: usize, pod: &BoundPod) -> bool {
    let has_shared = tables
        .cluster
        .spec(pod.spec)
        .is_none_or(|spec| !spec.host_ports.is_empty() || spec.volumes != Volumes::default());
    let has_holdings = ledger.state.nodes().get(node).is_none_or(|state| !state.holdings.is_empty());
    !(has_shared && has_holdings) && pod.assigned.is_none() && pod.draws_from.is_none() && pod.candidate.is_none()
}

/// A plain pod came to a node, or left it.
fn change_pod(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    PodStep { class, pod, comes }: PodStep<'_>,
    node: usize,
) -> bool {
    let Some(class) = tables.universe.class(class) else { return false };
    let Some(spec) = tables.cluster.spec(pod.spec) else { return false };
    let running = Running { class, spec, stage: pod.stage, assigned: None, draws_from: None };
    if comes {
        tables.comes(&mut ledger.state, running, node);
    } else {
        tables.leaves(&mut ledger.state, running, node);
    }
    true
}

impl Tables<'_> {
    /// A node is another one, or new: what is known of it beside its load.
    fn set_node(&mut self, now: usize) -> bool {
        let (cluster, universe) = (self.cluster, self.universe);
        let Some(node) = cluster.nodes.get(now) else { return false };
        for (known, filter) in self.nodes.filters.iter_mut().zip(&universe.filters) {
            known.grow(now + 1);
            known.set(now, filter_admits_node(cluster, node, filter));
        }
        self.note_node(node, now, true);
        true
    }

    /// What is known of all nodes together: the node of an index belongs to it, or does not any more.
    fn note_node(&mut self, node: &Node, at: usize, comes: bool) {
        let Tables { nodes: tables, domains, images, .. } = self;
        let change = |count: &mut usize| *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        if !node.units.cpus.is_empty() {
            change(&mut tables.reports_cpus);
        }
        if !node.units.numa.is_empty() {
            change(&mut tables.reports_numa);
        }
        domains.count(&node.labels, |filter| tables.admits(filter, at), comes);
        images.count(node, comes, tables.cluster);
    }

    /// A node went of which there were so many; the last one takes its place.
    fn swap_remove_node(&mut self, node: usize, n_nodes: usize) {
        let Some(last) = n_nodes.checked_sub(1) else { return };
        for nodes in &mut self.nodes.filters {
            nodes.grow(last + 1);
            nodes.set(node, nodes.contains(last));
            nodes.set(last, false);
        }
    }
}

impl Ledger {
    /// Which Reservations hold room on a node.
    fn note_holdings(&mut self, cluster: &Cluster, now: usize) {
        let at = u32::try_from(now).ok();
        for place in self.held.places.iter_mut().filter(|place| **place == at) {
            *place = None;
        }
        for holding in cluster.nodes.get(now).into_iter().flat_map(|node| &node.holdings) {
            if let Some(place) = self.held.places.get_mut(holding.reservation.index()) {
                *place = at;
            }
        }
    }

    fn push_node(&mut self) {
        self.state.push_node();
        self.groups.push_node();
    }

    /// A node went; the last one takes its place.
    fn swap_remove_node(&mut self, node: usize) {
        let Some(last) = self.state.nodes().len().checked_sub(1) else { return };
        self.state.swap_remove_node(node);
        self.groups.swap_remove_node(node);
        let index = |at: usize| u32::try_from(at).ok();
        for place in &mut self.held.places {
            if *place == index(node) {
                *place = None;
            }
            if *place == index(last) {
                *place = index(node);
            }
        }
    }
}
