//! No capacity reservation, and no counted offering, is used more often than it has instances.

use std::collections::BTreeMap;

use crate::Options;
use crate::catalogue::RESERVED;
use crate::plan::{Plan, SlotCount};
use crate::sites::Site;
use crate::violation::Violation;
use crate::world::World;

const RULE: &str = "slots";

/// The ids that claims take, one each.
pub(crate) fn taken(sites: &[Site<'_>]) -> BTreeMap<String, u64> {
    let mut taken = BTreeMap::new();
    for claim in sites.iter().filter_map(Site::claim).filter(|c| c.claim.offering.capacity_type == RESERVED) {
        if let Some(id) = claim.open.first().and_then(|o| o.offering.reservation.clone()) {
            *taken.entry(id).or_default() += 1;
        }
    }
    taken
}

fn counted_offerings(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut used: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for offering in plan.node_claims.iter().map(|c| &c.offering).filter(|o| o.capacity_type != RESERVED) {
        *used.entry((&offering.instance_type, &offering.zone, &offering.capacity_type)).or_default() += 1;
    }
    let mut found = Vec::new();
    for ((name, zone, capacity_type), used) in used {
        let Some(instance_type) = world.catalogue.types.get(name) else {
            continue;
        };
        let same = instance_type.offerings.iter().filter(|o| o.zone == zone && o.capacity_type == capacity_type);
        let counts: Option<u64> = same.map(|o| o.available).sum();
        if counts.is_some_and(|available| used > available) {
            let detail = format!("{used} claims on {capacity_type} in {zone}, {counts:?} available");
            found.push(Violation::new(RULE, name, detail));
        }
    }
    found
}

pub(crate) fn check(world: &World, plan: &Plan, sites: &[Site<'_>], options: &Options) -> Vec<Violation> {
    let mut found = counted_offerings(world, plan);
    let taken = taken(sites);
    for (id, used) in &taken {
        let slots = world.catalogue.slots.get(id).copied().unwrap_or_default();
        if *used > slots {
            found.push(Violation::new(RULE, id, format!("{used} claims, {slots} slots")));
        }
    }
    if !options.reserved_capacity {
        for claim in plan.node_claims.iter().filter(|c| c.offering.capacity_type == RESERVED) {
            found.push(Violation::new("gate", &claim.name, "reserved with the gate ReservedCapacity off"));
        }
        return found;
    }
    for entry in &plan.reservations {
        let total = world.catalogue.slots.get(&entry.id).copied();
        let used = taken.get(&entry.id).copied().unwrap_or_default();
        // An offering without an id is a reservation of its own, under a name of the planner's choosing.
        if total.is_some_and(|total| total != entry.total || used != entry.used) {
            let detail = format!("says {} of {} used, it is {used} of {total:?}", entry.used, entry.total);
            found.push(Violation::new(RULE, &entry.id, detail));
        }
    }
    let listed: SlotCount = SlotCount {
        total: plan.reservations.iter().map(|r| r.total).sum(),
        used: plan.reservations.iter().map(|r| r.used).sum(),
    };
    let counted = SlotCount { total: world.catalogue.slots.values().sum(), used: taken.values().sum() };
    for (what, other) in [("the list says", listed), ("the claims and the catalogue say", counted)] {
        if plan.summary.reserved_slots != other {
            let detail = format!("{:?}, {what} {other:?}", plan.summary.reserved_slots);
            found.push(Violation::new(RULE, "summary", detail));
        }
    }
    found
}
