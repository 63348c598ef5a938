//! What no consolidation of a cluster leaves at less than: the program of a problem that is easier in every respect.
//!
//! Every node that nothing keeps may go, pods ask for their requests where labels and taints admit them, and whatever the
//! NodePools may launch can be had, on slots that nodes leave as well. Who may draw from a Reservation is left out, and so are pods that nobody makes again.
//! Spot is launched only where a rule lets some node make way for it.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{BoundPod, Cluster, Insists, Money, PodSpec, SlotId, Slots, Sym};
use berth_packing::{Consolidation, ExistingNode};
use berth_state::{State, Time};

use super::Sorts;
use super::offers::offers;
use crate::Options;
use crate::candidate::Candidate;
use crate::survey::Survey;

/// A bound on what nodes with a price in the program cost, and what they cost now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LowerBound {
    least: f64,
    now: f64,
}

impl LowerBound {
    /// On what all nodes cost, which cost so much now.
    pub(crate) fn of(self, all: Money) -> Money {
        let saved = (self.now - self.least).max(0.0);
        // Rounded up to the next millionth of a dollar.
        let micro = (saved * (1.0 + 1e-9) * 1e6).ceil().clamp(0.0, 1e15);
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let saved = Money::from_pico((micro as i128 + 1) * 1_000_000);
        (all - saved).max(Money::ZERO)
    }
}

/// What no consolidation of these candidates leaves at less than, the price of what it disrupts included. `None` where the
/// cluster is too large.
pub(crate) fn lower_bound(state: &mut State, survey: &Survey, options: &Options, now: Time) -> Option<LowerBound> {
    let cluster = state.cluster(now);
    let mut sorts = Sorts::new(cluster);
    let by_name: BTreeMap<Sym, &Candidate> = survey
        .candidates
        .iter()
        .filter_map(|candidate| Some((cluster.symbols.get(&candidate.node.key.name)?, candidate)))
        .collect();
    let mut may_come_free: BTreeSet<SlotId> = BTreeSet::new();
    let mut problem = Consolidation { price: options.eviction_price.dollars(), ..Consolidation::default() };
    let nodes: Vec<&berth_model::Node> = cluster.nodes.iter().filter(|node| !node.is_leaving).collect();
    for node in &nodes {
        let candidate = by_name.get(&node.name).copied();
        let may_go = candidate.is_some_and(Candidate::may_go);
        let reservation = candidate.filter(|_| may_go).and_then(|candidate| candidate.reservation.as_deref());
        let slots = reservation.and_then(|id| slots_of(cluster, id));
        may_come_free.extend(slots);
        let mut free = node.free.clone();
        let mut holds: BTreeMap<u32, u32> = BTreeMap::new();
        for pod in &node.pods {
            if pod.is_terminating() {
                free.add(&cluster.spec(pod.spec)?.requests);
            } else if needs_room(cluster, pod) {
                *holds.entry(sorts.id_of(pod, Insists::default())?).or_default() += 1;
            }
        }
        problem.bins.push(ExistingNode {
            cost: candidate.and_then(|candidate| candidate.price).unwrap_or_default().marginal.dollars(),
            // Empty nodes go at any price.
            disruption: candidate.filter(|known| !known.is_empty).map_or(0.0, |candidate| candidate.cost.in_pods()),
            holds: if may_go { holds.into_iter().collect() } else { Vec::new() },
            free: free.amounts().to_vec(),
            pool: may_go.then_some(0),
            supply: slots.map(|slots| slots.0),
            taken_from: None,
        });
    }
    let specs: Vec<&PodSpec> = sorts.movables.iter().map(|(spec, _)| *spec).collect();
    problem.items = sorts.into_items(&nodes)?;
    let offers = offers(cluster, &specs, (survey, &may_come_free), options);
    let now = problem.bins.iter().map(|bin| bin.cost).sum();
    Some(LowerBound { least: berth_packing::lower_bound(&problem, &offers), now })
}

/// The slots of a reservation.
fn slots_of(cluster: &Cluster, id: &str) -> Option<SlotId> {
    let is_its = |slots: &Slots| slots.is_reservation && cluster.symbols.text(slots.id) == id;
    let at = cluster.slots.iter().position(is_its)?;
    u32::try_from(at).ok().map(SlotId)
}

/// Whether another pod comes in its place that finds room nowhere but on nodes.
fn needs_room(cluster: &Cluster, pod: &BoundPod) -> bool {
    let spec = pod.replaced_by.and_then(|spec| cluster.spec(spec));
    pod.draws_from.is_none()
        && spec.is_some_and(|spec| spec.reservation.owner_of.is_empty() && !spec.reservation.ignores)
}
