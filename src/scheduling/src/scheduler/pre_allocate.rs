//! Reservations that pre-allocate: onto free room, or bound to running pods whose room they inherit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{Assigned, ClassId, HeldUnits, Holding, Phase, PreAllocation, PreAllocationMode, Reservation};

use super::groups::stands;
use super::index::Index;
use super::{Eviction, Scheduler};
use crate::filter::Obstacle;
use crate::reservation::{Binding, Candidate, Refusal, bind, in_words};

impl Scheduler<'_> {
    /// The Reservations that pre-allocate and have no node, by index into [`berth_model::Cluster::reservations`].
    pub fn pre_allocating(&self) -> Vec<u32> {
        let pending = (0_u32..).zip(&self.cluster.reservations).filter(|(_, known)| {
            known.phase == Phase::Pending && known.pre_allocation.is_some() && !known.is_terminating
        });
        // One that is spent already had its node.
        pending.map(|(id, _)| id).filter(|&id| self.had_no_node(id)).collect()
    }

    fn had_no_node(&self, reservation: u32) -> bool {
        self.places.get(reservation as usize).is_some_and(Option::is_none)
    }

    /// The node where a Reservation holds room now, by index.
    pub fn node_of(&self, reservation: u32) -> Option<usize> {
        let node = self.places.get(reservation as usize).copied().flatten()? as usize;
        self.state.nodes().get(node)?.holding(reservation).map(|_| node)
    }

    /// The running pods that a Reservation was bound to in this decision: it waits until they have gone.
    pub fn bound_pods(&self, reservation: u32) -> Vec<Eviction> {
        let bound = self.bound_to.iter().filter(|(_, bound)| **bound == reservation);
        let mut bound: Vec<Eviction> = bound.map(|(pod, _)| *pod).collect();
        bound.sort_unstable();
        bound
    }

    /// Places a Reservation that pre-allocates where it needs the fewest running pods, or those that suit it best; the
    /// node. It is Waiting while pods that it is bound to run, and owns nothing of them: what they free is its own.
    pub fn pre_allocate(&mut self, reservation: u32) -> Option<usize> {
        let (best, _) = self.bindings(reservation)?;
        let (node, binding, pods) = best?;
        let known = self.cluster.reservation(reservation)?;
        let mut holding = Holding::new(reservation, known);
        holding.waits = !binding.pods.is_empty();
        for pod in binding.pods.iter().filter_map(|&at| pods.get(at).copied()) {
            if let Some((_, spec)) = self.resident(node, pod) {
                holding.draw_in_sum(&spec.requests);
            }
            self.bound_to.insert(Eviction { node, pod }, reservation);
        }
        // It inherits the CPUs and devices of those pods, or takes free ones.
        let mut reserved = Assigned::default();
        let bound = self.bound_pods(reservation);
        for pod in &bound {
            if let Some(assigned) = self.assigned_to(pod.node, pod.pod) {
                reserved.add(assigned);
            }
        }
        let drawn = reserved.clone();
        let class = self.universe.reserved.get(reservation as usize).copied().flatten();
        if let Some((_, spec)) = class.and_then(|class| self.class_and_spec(class)).filter(|_| bound.is_empty()) {
            reserved = self.assigned_on(spec, node, None);
        }
        self.hold(holding, node);
        self.state.change_node(node, |state| {
            state.note_placed(reservation);
            if !reserved.is_empty() {
                state.hold_units(HeldUnits { reservation, policy: known.policy, reserved, drawn });
            }
        });
        self.regroup(node);
        Some(node)
    }

    /// Why nodes refuse a Reservation that pre-allocates now: each reason with the number of nodes, most first.
    pub fn refusals_of_pre_allocation(&mut self, reservation: u32) -> Vec<(String, u32)> {
        let mut counted: Vec<(String, u32)> =
            self.bindings(reservation).map(|(_, reasons)| reasons.into_iter().collect()).unwrap_or_default();
        counted.sort_by(|(a_reason, a), (b_reason, b)| b.cmp(a).then_with(|| a_reason.cmp(b_reason)));
        counted
    }

    /// The best node with how it would be bound there and the candidates, and why the others refuse.
    #[expect(clippy::type_complexity, reason = "an answer of one place")]
    fn bindings(&mut self, id: u32) -> Option<(Option<(usize, Binding, Vec<usize>)>, BTreeMap<String, u32>)> {
        let known = self.cluster.reservation(id)?;
        let (how, class) = (known.pre_allocation?, self.universe.reserved.get(id as usize).copied().flatten()?);
        if !self.had_no_node(id) {
            return None;
        }
        let index = self.bare_index(class)?;
        let mut best: Option<((Reverse<i64>, u64), (usize, Binding, Vec<usize>))> = None;
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        for node in 0..self.cluster.nodes.len() {
            if !self.cluster.nodes.get(node).is_some_and(stands) {
                continue;
            }
            match self.binding(class, (id, known), how, &index, node) {
                Ok((binding, pods)) => {
                    let order = (Reverse(binding.score), self.groups.rank(node));
                    if best.as_ref().is_none_or(|(least, _)| order < *least) {
                        best = Some((order, (node, binding, pods)));
                    }
                }
                Err(words) => words.into_iter().for_each(|word| *reasons.entry(word).or_default() += 1),
            }
        }
        Some((best.map(|(_, found)| found), reasons))
    }

    // How a Reservation would be bound on a node, and its candidates there, by position among the node's pods.
    fn binding(
        &mut self,
        class: ClassId,
        (id, known): (u32, &Reservation),
        how: PreAllocation,
        index: &Index,
        node: usize,
    ) -> Result<(Binding, Vec<usize>), Vec<String>> {
        let cluster = self.cluster;
        let in_own_words = |obstacle: &Obstacle| obstacle.in_words(cluster);
        if let Some(obstacle) = self.pre_obstacle(class, known, node) {
            return Err(in_own_words(&obstacle));
        }
        let pods = self.candidates(id, how, node);
        let candidates: Vec<Candidate<'_>> = pods
            .iter()
            .filter_map(|&at| {
                let bound = cluster.nodes.get(node)?.pods.get(at)?;
                let spec = cluster.spec(bound.spec)?;
                let priority = bound.candidate.as_ref().and_then(|candidate| candidate.priority).unwrap_or(0);
                let is_bound = self.drawn_by(node, at).is_some();
                Some(Candidate { name: &bound.name, requests: &spec.requests, priority, is_bound })
            })
            .collect();
        let room = self.state.nodes().get(node).map(berth_model::NodeState::room).ok_or_else(Vec::new)?;
        let bound = bind(room, known, how, &candidates, self.tables.rules.pre_allocation);
        let binding = bound.map_err(|refusal| match refusal {
            Refusal::Reason(reason) => vec![reason.to_owned()],
            Refusal::Lacks(lacks) => in_words(&lacks, &cluster.resource_names, &cluster.symbols),
        })?;
        // What is no matter of amounts, as it will be when those pods have gone.
        let mark = self.state.mark();
        for &pod in binding.pods.iter().filter_map(|&at| pods.get(at)) {
            self.take_off(node, pod);
        }
        let values = self.values(index);
        let obstacle = self.world().obstacle(index, &values, node);
        self.state.rollback(mark);
        self.state.forget(mark);
        for &pod in binding.pods.iter().filter_map(|&at| pods.get(at)) {
            self.off.remove(&Eviction { node, pod });
        }
        match obstacle {
            Some(Obstacle::Resources(..) | Obstacle::Reservations(..)) | None => Ok((binding, pods)),
            Some(obstacle) => Err(in_own_words(&obstacle)),
        }
    }

    fn pre_obstacle(&self, class: ClassId, known: &Reservation, node: usize) -> Option<Obstacle> {
        let fixed = self.cluster.nodes.get(node)?;
        if known.node.is_some_and(|name| name != fixed.name) {
            return Some(Obstacle::OtherNode);
        }
        let holdings = self.state.nodes().get(node).map_or(&[][..], |state| &state.holdings);
        if !crate::reservation::may_share_node(known.policy, holdings) {
            return Some(Obstacle::PolicyConflict);
        }
        let (_, spec) = self.class_and_spec(class)?;
        crate::filter::before_load(self.cluster, fixed, spec)
    }

    fn candidates(&self, id: u32, how: PreAllocation, node: usize) -> Vec<usize> {
        let pods = self.cluster.nodes.get(node).map_or(&[][..], |node| &node.pods);
        let is_candidate = |(at, pod): &(usize, &berth_model::BoundPod)| {
            !self.is_off(node, *at)
                && pod.candidate.as_ref().is_some_and(|candidate| match how.mode {
                    PreAllocationMode::Owners => candidate.owned_by.binary_search(&id).is_ok(),
                    PreAllocationMode::Cluster => candidate.priority.is_some(),
                })
        };
        pods.iter().enumerate().filter(is_candidate).map(|(at, _)| at).collect()
    }
}
