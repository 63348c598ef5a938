//! A class held against every node: the first filter that refuses it, or the scores it would get.

use std::collections::BTreeMap;

use berth_model::ClassId;

use super::Scheduler;
use super::choose::{Lot, Shared};
use super::groups::stands;
use super::index::{Index, World};
use super::shape::{Beside, Values};
use crate::filter::{self, Obstacle};
use crate::node_fit::Seen;
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

impl Scheduler<'_> {
    /// What every node says to a pod of the class now, in order of nodes. A pod that cannot be placed at all (see
    /// [`berth_model::PodSpec::refusal`]) is assessed as if it could. A pod that is nominated to a node may count on the
    /// room of those that are being deleted there.
    pub fn assess(&mut self, id: ClassId) -> Vec<Assessment> {
        let mut assessed = self.assess_all(id);
        if let Some(node) = self.nominated_node(id)
            && let Some(Assessment { verdict: Verdict::Refused(_), .. }) = assessed.get(node)
            && let Some(verdict) = self.assess_once_gone(id, node)
            && let Some(said) = assessed.get_mut(node)
        {
            said.verdict = verdict;
        }
        assessed
    }

    pub(super) fn assess_all(&mut self, id: ClassId) -> Vec<Assessment> {
        let assessed = self.with_index(id, |scheduler, index| {
            let cells = scheduler.feasible(index);
            let lots: Vec<Lot<'_>> = cells.iter().map(|cell| Lot::from(*cell)).collect();
            let shared: Vec<Shared> = scheduler.scores(&index.shape, &lots, None);
            let mut of_node: BTreeMap<usize, Shared> = BTreeMap::new();
            for (cell, shared) in cells.iter().zip(shared) {
                of_node.extend(index.nodes(cell, &scheduler.groups).into_iter().map(|node| (node, shared)));
            }
            let values = scheduler.values(index);
            let nodes = 0..scheduler.cluster.nodes.len();
            let assess = |node: usize| {
                let Some(fixed) = scheduler.cluster.nodes.get(node).filter(|node| stands(node)) else {
                    return Assessment { node, verdict: Verdict::ComingUp };
                };
                let verdict = if let Some(obstacle) = scheduler.world().obstacle(index, &values, node) {
                    Verdict::Refused(obstacle)
                } else {
                    let shared = of_node.get(&node).copied().unwrap_or_default();
                    Verdict::Feasible(scheduler.all_scores(index, fixed, node, shared))
                };
                Assessment { node, verdict }
            };
            nodes.map(assess).collect()
        });
        assessed.unwrap_or_default()
    }

    /// Why nodes refuse a pod of the class now: each reason with the number of nodes, most first, then by text. What
    /// Reservations say to it follows, counted by Reservation.
    pub fn refusals(&mut self, id: ClassId) -> Vec<(String, u32)> {
        let counted = self.with_index(id, |scheduler, index| {
            let values = scheduler.values(index);
            let mut counts: BTreeMap<String, u32> = BTreeMap::new();
            for (node, _) in scheduler.cluster.nodes.iter().enumerate().filter(|(_, node)| stands(node)) {
                if let Some(obstacle) = scheduler.world().obstacle(index, &values, node) {
                    for reason in obstacle.in_words(scheduler.cluster) {
                        *counts.entry(reason).or_default() += 1;
                    }
                }
            }
            (counts, scheduler.reservations_say(index))
        });
        let (counts, by_reservation) = counted.unwrap_or_default();
        let mut counted: Vec<(String, u32)> = counts.into_iter().collect();
        counted.sort_by(|(a_reason, a), (b_reason, b)| b.cmp(a).then_with(|| a_reason.cmp(b_reason)));
        counted.extend(by_reservation);
        counted
    }

    fn all_scores(&self, index: &Index, fixed: &berth_model::Node, node: usize, shared: Shared) -> Scores {
        let spec = &*index.shape.spec;
        let Some(seen) = self.world().seen(node, spec) else { return Scores::default() };
        let on_node = &*seen.scored();
        let known_image = |image| self.images.get(image);
        Scores {
            taint_toleration: shared.taints,
            node_affinity: shared.affinity,
            node_resources_fit: score::least_allocated(fixed, on_node, spec),
            pod_topology_spread: shared.spread,
            inter_pod_affinity: shared.pods,
            balanced_allocation: score::balanced_allocation(fixed, on_node, spec),
            reservation: shared.reservation,
            image_locality: score::image_locality(fixed, spec, self.cluster.nodes.len(), known_image),
        }
    }
}

impl World<'_> {
    /// The first filter that keeps a class off a node: with the pods that room is held for, then without.
    pub(super) fn obstacle(&self, index: &Index, values: &Values, node: usize) -> Option<Obstacle> {
        let (shape, spec) = (&index.shape, &*index.shape.spec);
        let (fixed, seen) = (self.cluster.nodes.get(node)?, self.seen(node, spec)?);
        let domains = shape.domains_of(fixed);
        let check = |seen: &Seen<'_>, values: &Values, is_claim_held: bool| {
            let on_node = &*seen.state;
            let room = || self.room(node, seen, spec).err();
            filter::before_load(self.cluster, fixed, spec)
                .or_else(|| {
                    filter::load(fixed, spec, on_node, room, || is_claim_held || self.is_claim_taken(seen, spec))
                })
                .or_else(|| filter::volumes(self.cluster, fixed, spec))
                .or_else(|| shape.obstacle(values, &domains, |counter| on_node.host_counts.get(counter)))
        };
        if let Some(obstacle) = self.reserve_obstacle(shape.class, node) {
            return Some(obstacle);
        }
        if let Some(with_held) = self.with_held(node, &seen, spec.priority) {
            let mut beside = Beside { domains: domains.clone(), ..Beside::default() };
            let counters = self.held(node, spec.priority).flat_map(|(class, _)| class.counts_in.iter().copied());
            for counter in counters.filter(|counter| self.counts_on(*counter, node)) {
                *beside.pods.entry(counter).or_default() += 1;
            }
            let mut with_values = shape.values(self.state, &beside, |rule| {
                index.least_on_hosts(rule, |counter| {
                    let counts = (seen.state.host_counts.get(counter), with_held.state.host_counts.get(counter));
                    self.counts_on(counter, node).then_some(counts)
                })
            });
            with_values.is_indifferent = values.is_indifferent;
            // kube-scheduler counts the claims of these pods only where it looks at disks, too.
            let claims = &spec.volumes.exclusive_claims;
            let is_claim_held = !spec.volumes.disks.is_empty()
                && self
                    .held(node, spec.priority)
                    .any(|(_, held)| held.volumes.exclusive_claims.iter().any(|claim| claims.contains(claim)));
            if let Some(obstacle) = check(&with_held, &with_values, is_claim_held) {
                return Some(obstacle);
            }
        }
        check(&seen, values, false)
    }
}
