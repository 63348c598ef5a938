//! What no consolidation of a cluster leaves at less than: the program of a problem that is easier in every respect.
//!
//! Every node that nothing keeps may go, pods ask for their requests where labels and taints admit them, and whatever the
//! NodePools may launch can be had. Who may draw from a Reservation is left out, and so are pods that nobody makes again.
//! Spot is launched only where a rule lets some node make way for it.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_model::first_untolerated;
use berth_model::{
    BoundPod, CapacityType, Cluster, ColumnTable, KeyedMap, Money, NodePool, PodSpec, Requirements, Sym,
};
use berth_packing::{Consolidation, Offer, Standing};
use berth_state::{State, Time};
use fixedbitset::FixedBitSet;

use super::Sorts;
use crate::Options;
use crate::candidate::{Candidate, Survey};

/// New nodes that are compared with each other, to leave out those that are worse.
const MOST_COMPARED: usize = 4_000;

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
    let by_name: KeyedMap<Sym, &Candidate> = survey
        .candidates
        .iter()
        .filter_map(|candidate| Some((cluster.symbols.get(&candidate.node.key.name)?, candidate)))
        .collect();
    let mut problem = Consolidation { price: options.eviction_price.dollars(), ..Consolidation::default() };
    let nodes: Vec<&berth_model::Node> = cluster.nodes.iter().collect();
    for node in &nodes {
        let candidate = by_name.get(&node.name).copied();
        let may_go = candidate.is_some_and(|candidate| candidate.blocked.is_empty());
        let mut free = node.free.clone();
        let mut holds: BTreeMap<u32, u32> = BTreeMap::new();
        for pod in &node.pods {
            if pod.is_terminating() {
                free.add(&cluster.specs.get(pod.spec as usize)?.requests);
            } else if needs_room(cluster, pod) {
                *holds.entry(sorts.id_of(pod)?).or_default() += 1;
            }
        }
        problem.bins.push(Standing {
            cost: candidate.and_then(|candidate| candidate.price).unwrap_or_default().marginal.dollars(),
            // Empty nodes go at any price.
            disruption: candidate.filter(|known| !known.is_empty).map_or(0.0, |candidate| candidate.cost.in_pods()),
            holds: if may_go { holds.into_iter().collect() } else { Vec::new() },
            free: free.amounts().to_vec(),
            pool: may_go.then_some(0),
        });
    }
    let specs: Vec<&PodSpec> = sorts.movables.iter().map(|(spec, _)| *spec).collect();
    problem.items = sorts.into_items(&nodes)?;
    let offers = offers(cluster, &specs, survey, options);
    let now = problem.bins.iter().map(|bin| bin.cost).sum();
    Some(LowerBound { least: berth_packing::lower_bound(&problem, &offers), now })
}

/// Whether another pod comes in its place that finds room nowhere but on nodes.
fn needs_room(cluster: &Cluster, pod: &BoundPod) -> bool {
    let spec = pod.replaced_by.and_then(|spec| cluster.specs.get(spec as usize));
    pod.draws_from.is_none()
        && spec.is_some_and(|spec| spec.reservation.owner_of.is_empty() && !spec.reservation.ignores)
}

/// What new nodes are alike in: room, the items that they admit, and the supply that they are counted in.
type Alike = (Vec<i64>, Vec<u32>, Option<u32>);

/// Whatever the NodePools may launch, alike ones once at the least price.
fn offers(cluster: &Cluster, specs: &[&PodSpec], survey: &Survey, options: &Options) -> Vec<Offer> {
    let free = || survey.candidates.iter().filter(|candidate| candidate.blocked.is_empty());
    let n_drifted = free().filter(|candidate| candidate.drift.is_some()).count();
    let is_paid = |candidate: &Candidate| candidate.price.unwrap_or_default().marginal > Money::ZERO;
    let makes_way_for_spot = options.spot_to_spot
        || n_drifted > 0
        || free().any(|candidate| is_paid(candidate) && candidate.capacity_type != labels::SPOT);
    let mut known: BTreeMap<Alike, (f64, Option<u32>)> = BTreeMap::new();
    for pool in cluster.node_pools.iter().filter(|pool| pool.refusal.is_none()) {
        let table = ColumnTable::new(cluster, pool);
        let mut admitted: Vec<Vec<u32>> = vec![Vec::new(); table.columns.len()];
        for (spec, item) in specs.iter().zip(0..) {
            for column in columns_of(cluster, pool, &table, spec).ones() {
                admitted.get_mut(column).into_iter().for_each(|items| items.push(item));
            }
        }
        for (column, items) in table.columns.iter().zip(admitted) {
            if items.is_empty() || (column.capacity_type == CapacityType::Spot && !makes_way_for_spot) {
                continue;
            }
            let supply = column.slots.and_then(|id| cluster.slots.get(id.index()));
            // Drifted nodes may move to slots that others of them leave.
            let stock = supply.map(|supply| supply.free.saturating_add(u32::try_from(n_drifted).unwrap_or(u32::MAX)));
            if stock == Some(0) {
                continue;
            }
            let price = column.price.dollars();
            let key = (column.room.amounts().to_vec(), items, column.slots.filter(|_| stock.is_some()).map(|id| id.0));
            let entry = known.entry(key).or_insert((price, stock));
            entry.0 = entry.0.min(price);
        }
    }
    let mut offers: Vec<Offer> = Vec::with_capacity(known.len());
    for ((room, items, _), (cost, stock)) in known {
        let mut admits = FixedBitSet::with_capacity(specs.len());
        admits.extend(items.into_iter().map(|item| item as usize));
        offers.push(Offer { cost, room, admits, stock });
    }
    without_worse(offers)
}

/// The columns that may take pods of a spec, as far as taints and labels tell.
fn columns_of(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, spec: &PodSpec) -> FixedBitSet {
    let symbols = &cluster.symbols;
    if first_untolerated(&pool.taints, &spec.tolerations, false, symbols).is_some() {
        return FixedBitSet::with_capacity(table.columns.len());
    }
    let mut columns = table.admitting(&spec.node_selector, symbols);
    if !spec.required_terms.is_empty() {
        let mut any = FixedBitSet::with_capacity(table.columns.len());
        spec.required_terms.iter().for_each(|term: &Requirements| any.union_with(&table.admitting(term, symbols)));
        columns.intersect_with(&any);
    }
    columns
}

/// Leaves out what is dearer than another one of which any number can be had, and no larger.
fn without_worse(mut offers: Vec<Offer>) -> Vec<Offer> {
    if offers.len() > MOST_COMPARED {
        return offers;
    }
    offers.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut kept: Vec<Offer> = Vec::new();
    for offer in offers {
        let is_worse = kept.iter().any(|known| {
            known.stock.is_none()
                && offer.admits.is_subset(&known.admits)
                && offer.room.len() <= known.room.len()
                && offer.room.iter().zip(&known.room).all(|(room, known)| room <= known)
        });
        if !is_worse {
            kept.push(offer);
        }
    }
    kept
}
