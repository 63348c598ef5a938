//! A class held against every node: the first filter that refuses it, or the scores it would get.

use std::collections::BTreeMap;

use berth_model::{ClassId, Node};

use super::caches::Caches;
use super::index::Index;
use super::ledger::Ledger;
use super::tables::{Tables, stands};
use super::weigh::{Lot, Shared};
use super::world::World;
use crate::filter::Obstacle;
use crate::score::{self, Scores};

/// What a node says to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may come; normalised over all nodes that say so.
    Feasible(Scores),
    /// It may not.
    Refused(Obstacle),
    /// The node is in flight: nothing can be bound to it yet.
    ComingUp,
}

/// A node, by index, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The node.
    pub node: usize,
    /// What it says.
    pub verdict: Verdict,
}

/// What every node says to a pod of the class now, in order of nodes; see [`super::Scheduler::assess`]. The ledger is as it
/// was afterwards.
pub(super) fn assess(tables: &Tables<'_>, ledger: &mut Ledger, caches: &mut Caches, id: ClassId) -> Vec<Assessment> {
    let mut assessed = assess_all(World::new(tables, ledger), caches, id);
    if let Some(node) = tables.nominated_node(id)
        && let Some(Assessment { verdict: Verdict::Refused(_), .. }) = assessed.get(node)
        && let Some(verdict) = assess_once_gone(tables, ledger, caches, id, node)
        && let Some(said) = assessed.get_mut(node)
    {
        said.verdict = verdict;
    }
    assessed
}

// What a node says to a pod that is nominated to it, once those that are being deleted there have gone.
fn assess_once_gone(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    id: ClassId,
    node: usize,
) -> Option<Verdict> {
    if !ledger.take_off_terminating(tables, node) {
        return None;
    }
    let assessed = assess_all(World::new(tables, ledger), caches, id);
    let verdict = assessed.into_iter().find(|said| said.node == node).map(|said| said.verdict);
    ledger.put_back_terminating(tables, node);
    verdict
}

fn assess_all(world: World<'_>, caches: &mut Caches, id: ClassId) -> Vec<Assessment> {
    let assessed = caches.with_index(world, id, |index| {
        let cells = world.feasible(index);
        let lots: Vec<Lot<'_>> = cells.iter().map(|cell| Lot::from(*cell)).collect();
        let shared: Vec<Shared> = world.scores(&index.shape, &lots, None);
        let mut of_node: BTreeMap<usize, Shared> = BTreeMap::new();
        for (cell, shared) in cells.iter().zip(shared) {
            of_node.extend(index.nodes(cell, &world.ledger.groups).into_iter().map(|node| (node, shared)));
        }
        let values = world.values(index);
        let nodes = 0..world.cluster.nodes.len();
        let assess = |node: usize| {
            let Some(fixed) = world.cluster.node(node).filter(|node| stands(node)) else {
                return Assessment { node, verdict: Verdict::ComingUp };
            };
            let verdict = if let Some(obstacle) = world.obstacle(index, &values, node) {
                Verdict::Refused(obstacle)
            } else {
                let shared = of_node.get(&node).copied().unwrap_or_default();
                Verdict::Feasible(all_scores(world, index, fixed, node, shared))
            };
            Assessment { node, verdict }
        };
        nodes.map(assess).collect()
    });
    assessed.unwrap_or_default()
}

/// Why nodes refuse a pod of the class now; see [`super::Scheduler::refusals`].
pub(super) fn refusals(world: World<'_>, caches: &mut Caches, id: ClassId) -> Vec<(String, u32)> {
    let counted = caches.with_index(world, id, |index| {
        let values = world.values(index);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (node, _) in world.cluster.nodes.iter().enumerate().filter(|(_, node)| stands(node)) {
            if let Some(obstacle) = world.obstacle(index, &values, node) {
                for reason in obstacle.in_words(world.cluster) {
                    *counts.entry(reason).or_default() += 1;
                }
            }
        }
        (counts, world.reservations_say(index))
    });
    let (counts, by_reservation) = counted.unwrap_or_default();
    let mut counted = most_first(counts);
    counted.extend(by_reservation);
    counted
}

/// Reasons with the number of nodes: most first, then by text.
pub(super) fn most_first(counts: BTreeMap<String, u32>) -> Vec<(String, u32)> {
    let mut counted: Vec<(String, u32)> = counts.into_iter().collect();
    counted.sort_by(|(a_reason, a), (b_reason, b)| b.cmp(a).then_with(|| a_reason.cmp(b_reason)));
    counted
}

fn all_scores(world: World<'_>, index: &Index, fixed: &Node, node: usize, shared: Shared) -> Scores {
    let spec = &*index.shape.spec;
    let Some(seen) = world.seen(node, spec) else { return Scores::default() };
    let on_node = &*seen.scored();
    let known_image = |image| world.tables.images.get(image);
    Scores {
        taint_toleration: shared.taints,
        node_affinity: shared.affinity,
        node_resources_fit: score::least_allocated(fixed, on_node, spec),
        pod_topology_spread: shared.spread,
        inter_pod_affinity: shared.pods,
        balanced_allocation: score::balanced_allocation(fixed, on_node, spec),
        reservation: shared.reservation,
        image_locality: score::image_locality(fixed, spec, world.cluster.nodes.len(), known_image),
    }
}
