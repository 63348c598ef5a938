//! Who would have to go from a node where that is a matter of amounts alone: then nothing has to be taken off and put back
//! to find out. And what was found, kept until a node has changed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{BoundPod, ClassId, Cluster, MemberKind, Resources};
use rustc_hash::FxHashMap;

use super::index::Index;
use super::tables::Tables;
use super::values::Values;
use super::world::World;
use crate::reasons::Insufficient;

/// A running pod that may give way, with what it frees: looked at so often that it must not be far.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    priority: i32,
    /// Its position among the node's.
    pub(super) pod: usize,
    requests: Resources,
}

/// The running pods that may give way, by node.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    /// Most important first: by priority, then by how long they run.
    by_node: Vec<Vec<Resident>>,
    /// The lowest priority of all.
    pub(super) lowest: i32,
}

// === impl Residents ===

impl Residents {
    pub(super) fn new(cluster: &Cluster) -> Self {
        // Koordinator's label.
        let key = cluster.symbols.get("scheduling.koordinator.sh/disable-preemptible");
        let is_protected = |pod: &BoundPod| {
            if pod.has_held_room {
                return true;
            }
            let labels = key.and_then(|key| cluster.labels(pod.labels)?.get(key));
            labels.is_some_and(|value| cluster.symbols.text(value) == "true")
        };
        let resident = |(at, pod): (usize, &BoundPod)| {
            let spec = cluster.spec(pod.spec).filter(|_| !is_protected(pod))?;
            Some(Resident { priority: spec.priority, pod: at, requests: spec.requests.clone() })
        };
        let of_node = |node: &berth_model::Node| {
            let mut pods: Vec<Resident> = node.pods.iter().enumerate().filter_map(resident).collect();
            pods.sort_by_key(|resident| {
                (Reverse(resident.priority), node.pods.get(resident.pod).map(|pod| pod.started))
            });
            pods
        };
        let by_node: Vec<Vec<Resident>> = cluster.nodes.iter().map(of_node).collect();
        let lowest = by_node.iter().filter_map(|pods| pods.last()).map(|resident| resident.priority).min();
        Residents { by_node, lowest: lowest.unwrap_or(i32::MAX) }
    }

    /// Those of a node with a lower priority, most important first.
    pub(super) fn below(&self, node: usize, priority: i32) -> &[Resident] {
        let pods = self.by_node.get(node).map_or(&[][..], Vec::as_slice);
        pods.get(pods.partition_point(|resident| resident.priority >= priority)..).unwrap_or_default()
    }
}

/// The pods that would have to go from a node, most important first.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: usize,
    pub(super) victims: Vec<usize>,
    pub(super) violations: usize,
}

/// By what candidates are compared: the least wins, by the first that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    /// Budgets violated.
    pub(super) violations: usize,
    /// The highest priority among the victims.
    pub(super) highest: i32,
    /// The sum of their priorities, each above the least that there is.
    pub(super) sum: i64,
    pub(super) n_victims: usize,
    /// When the first of the most important was started.
    pub(super) started: Reverse<i64>,
    /// The node's.
    pub(super) rank: u64,
}

/// What a node says to a class that would have others go.
pub(super) enum VictimSearch {
    /// Nobody's going helps, or none that is cheaper than what is known.
    None,
    /// These would have to go.
    Some(Candidate),
    /// It is no matter of amounts alone.
    Unclear,
}

/// The candidates of one class, as long as what its rules read stays the same.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) class: ClassId,
    /// The end of the log of changes that they are from.
    pub(super) cursor: usize,
    pub(super) values: Values,
    pub(super) totals: Vec<u32>,
    pub(super) allowed: Vec<i32>,
    by_order: BTreeMap<Order, Candidate>,
    of_node: FxHashMap<usize, Order>,
}

// === impl Kept ===

impl Kept {
    /// Nothing is found yet.
    pub(super) fn new(class: ClassId, values: Values, totals: Vec<u32>, allowed: Vec<i32>) -> Self {
        Kept { class, cursor: 0, values, totals, allowed, by_order: BTreeMap::new(), of_node: FxHashMap::default() }
    }

    /// Notes what a node offers now.
    pub(super) fn set(&mut self, node: usize, candidate: Option<(Order, Candidate)>) {
        if let Some(old) = self.of_node.remove(&node) {
            self.by_order.remove(&old);
        }
        if let Some((order, candidate)) = candidate {
            self.of_node.insert(node, order);
            self.by_order.insert(order, candidate);
        }
    }

    /// The best.
    pub(super) fn best(&self) -> Option<&Candidate> {
        self.by_order.first_key_value().map(|(_, candidate)| candidate)
    }
}

/// Whether amounts alone can decide for a class, on nodes where nobody has to do with its rules.
pub(super) fn is_about_amounts(tables: &Tables<'_>, index: &Index) -> bool {
    let (shape, spec) = (&index.shape, &*index.shape.spec);
    let is_pod = tables.universe.class(shape.class).is_some_and(|class| class.kind == MemberKind::Pod);
    let volumes = &spec.volumes;
    let has_volumes =
        !volumes.attachments.is_empty() || !volumes.exclusive_claims.is_empty() || !volumes.kept.is_empty();
    let is_plain = spec.host_ports.is_empty() && volumes.disks.is_empty() && !has_volumes && spec.units.is_empty();
    is_pod && is_plain && spec.reservation.affinity.is_none() && !spec.reservation.operates
}

/// Who would have to go from a node for a class that is about amounts; not those whose order is above `most`.
pub(super) fn victims_for(
    world: World<'_>,
    residents: &Residents,
    (index, values): (&Index, &Values),
    node: usize,
    most: Option<&Order>,
) -> VictimSearch {
    let (shape, spec, ledger) = (&index.shape, &*index.shape.spec, world.ledger);
    let (Some(fixed), Some(state)) = (world.cluster.node(node), world.state.node(node)) else {
        return VictimSearch::None;
    };
    if !state.holdings.is_empty() || ledger.nominated.contains_key(&node) || fixed.units.policy.is_some() {
        return VictimSearch::Unclear;
    }
    let below = residents.below(node, spec.priority).iter().filter(|resident| !ledger.is_off(node, resident.pod));
    let has_to_do = |resident: &Resident| {
        let class = world.resident(node, resident.pod).map(|(class, _)| class);
        ledger.drawn_by(world.cluster, node, resident.pod).is_some()
            || class.is_none_or(|class| class.counts_in.iter().any(|counter| shape.minds(*counter)))
    };
    if spec.requests.fits(&state.free) {
        return if below.clone().any(has_to_do) { VictimSearch::Unclear } else { VictimSearch::None };
    }
    // What is asked for, from the least important on.
    let (mut free, mut is_enough) = (state.free.clone(), false);
    for resident in below.clone().rev() {
        if !is_enough && most.is_some_and(|most| (0, resident.priority) > (most.violations, most.highest)) {
            return VictimSearch::None;
        }
        free.add(&resident.requests);
        is_enough = is_enough || spec.requests.fits(&free);
    }
    if !is_enough || Insufficient::of(&spec.requests, &state.free).exceeds(&spec.requests, &fixed.allocatable) {
        return VictimSearch::None;
    }
    if below.clone().any(has_to_do) {
        return VictimSearch::Unclear;
    }
    let on_host = |counter| state.host_counts.get(counter);
    if !index.admits(node, world) || shape.obstacle(values, &shape.domains_of(fixed), on_host).is_some() {
        return VictimSearch::None;
    }
    // Those first whose going would violate a budget.
    let potential: Vec<&Resident> = below.collect();
    let violating = if world.cluster.budgets.is_empty() {
        Vec::new()
    } else {
        let pods: Vec<usize> = potential.iter().map(|resident| resident.pod).collect();
        ledger.budgets.split(world.cluster, node, &pods).violating
    };
    let violates = |resident: &&&Resident| violating.contains(&resident.pod);
    let (mut victims, mut violations) = (Vec::new(), 0);
    let (mut highest, mut sum) = (i32::MIN, 0_i64);
    for resident in potential.iter().filter(violates).chain(potential.iter().filter(|r| !violates(r))) {
        free.subtract(&resident.requests);
        if spec.requests.fits(&free) {
            continue;
        }
        free.add(&resident.requests);
        victims.push(resident.pod);
        violations += usize::from(violates(&resident));
        highest = highest.max(resident.priority);
        sum += above_least(resident.priority);
        if most.is_some_and(|most| (violations, highest, sum) > (most.violations, most.highest, most.sum)) {
            return VictimSearch::None;
        }
    }
    victims.sort_by_key(|pod| potential.iter().position(|resident| resident.pod == *pod));
    if victims.is_empty() { VictimSearch::None } else { VictimSearch::Some(Candidate { node, victims, violations }) }
}

/// As if the lowest priority were 0, so that few pods of a low priority go before many.
pub(super) fn above_least(priority: i32) -> i64 {
    i64::from(priority) - i64::from(i32::MIN)
}
