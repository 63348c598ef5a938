//! What may be launched, as the program sees it.
//!
//! Spot is launched only where a rule lets some node make way for it.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::labels;
use berth_model::{CapacityType, Cluster, ColumnTable, Money, PodSpec, SlotId};
use berth_packing::Offer;
use fixedbitset::FixedBitSet;

use crate::Options;
use crate::admitted::columns_of;
use crate::candidate::Candidate;
use crate::survey::Survey;

/// New nodes that are compared with each other, to leave out those that are worse.
const MOST_COMPARED: usize = 4_000;

/// What new nodes are alike in: room, the items that they admit, and the supply that they are counted in.
type Alike = (Vec<i64>, Vec<u32>, Option<u32>);

/// Whatever the NodePools may launch for pods of these specs, alike ones once at the least price,
/// as far as there are any; of slots that may come free also where none is free yet.
pub(super) fn offers(
    cluster: &Cluster,
    specs: &[&PodSpec],
    (survey, may_come_free): (&Survey, &BTreeSet<SlotId>),
    options: &Options,
) -> Vec<Offer> {
    let free = || survey.candidates.iter().filter(|candidate| candidate.may_go());
    let is_paid = |candidate: &Candidate| candidate.price.unwrap_or_default().marginal > Money::ZERO;
    let makes_way_for_spot = options.spot_to_spot
        || free().any(|candidate| candidate.drift.is_some())
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
            let stock = supply.map(|supply| supply.free);
            // Of slots that nodes are on there may be some once these have gone.
            if stock == Some(0) && !column.slots.is_some_and(|slots| may_come_free.contains(&slots)) {
                continue;
            }
            let price = column.price.dollars();
            let key = (column.room.amounts().to_vec(), items, column.slots.filter(|_| stock.is_some()).map(|id| id.0));
            let entry = known.entry(key).or_insert((price, stock));
            entry.0 = entry.0.min(price);
        }
    }
    let mut offers: Vec<Offer> = Vec::with_capacity(known.len());
    for ((room, items, supply), (cost, stock)) in known {
        let mut admits = FixedBitSet::with_capacity(specs.len());
        admits.extend(items.into_iter().map(|item| item as usize));
        offers.push(Offer { cost, room, admits, stock, supply });
    }
    without_worse(offers)
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
