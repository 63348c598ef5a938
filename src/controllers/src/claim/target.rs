//! Which offerings a NodeClaim may be launched as, now.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{NodeClaim, Operator, PlannedOffering, Requirement, labels};
use berth_catalogue::{CapacityType, InstanceTypeEntry, Money, OfferingEntry};
use berth_cloudprovider::{CapacityReservation, InstanceTypes, LaunchTarget, OfferingKey, ReservationKind};
use berth_quantity::Quantity;
use jiff::Timestamp;

/// The most offerings that one launch lists.
const MAX_OFFERINGS: usize = 600;

/// What is to be had of a node class.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    /// What the cloud said.
    pub(crate) types: InstanceTypes,
    /// Offerings that had no instance left, and until when they are left alone.
    pub(crate) exhausted: BTreeMap<OfferingKey, Timestamp>,
    /// Reservations that had no slot left, and until when they are left alone.
    pub(crate) full: BTreeMap<String, Timestamp>,
    /// Zones where machines did not join, and until when they are left alone.
    pub(crate) left_alone: BTreeMap<String, Timestamp>,
    /// When the cloud said it.
    pub(crate) at: Timestamp,
}

// === impl Offers ===

impl Offers {
    /// Where nothing is known but what the cloud said.
    #[cfg(test)]
    pub(crate) fn of(types: InstanceTypes, at: Timestamp) -> Self {
        Self { types, exhausted: BTreeMap::new(), full: BTreeMap::new(), left_alone: BTreeMap::new(), at }
    }

    /// Whether another answer has the same reservations, which end at the same times: what NodeClaims that were launched
    /// look at.
    pub(crate) fn ends_as(&self, types: &InstanceTypes) -> bool {
        let ends = |known: &CapacityReservation| (known.id.clone(), known.kind, known.end);
        self.types.reservations.iter().map(ends).eq(types.reservations.iter().map(ends))
    }

    /// Whether all these zones are left alone, and there are some.
    pub(crate) fn leaves_alone(&self, zones: &[String]) -> bool {
        !zones.is_empty() && zones.iter().all(|zone| self.left_alone.contains_key(zone))
    }

    /// Whether the node class has a reservation.
    pub(crate) fn knows(&self, reservation: &str) -> bool {
        self.types.reservations.iter().any(|known| known.id == reservation)
    }

    /// Whether the owner of a reservation takes instances back.
    pub(crate) fn is_interruptible(&self, reservation: &str) -> bool {
        let is_so =
            |known: &CapacityReservation| known.id == reservation && known.kind == ReservationKind::Interruptible;
        self.types.reservations.iter().any(is_so)
    }
}

/// No offering will do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no instance type will do: {matching} offering(s) meet the requirements, {fitting} of them have room for the \
     requests, none of which is available"
)]
pub(crate) struct Nothing {
    matching: usize,
    fitting: usize,
}

/// What a NodeClaim is launched as: a slot where its requirements leave one, else its paid offerings: the planned one first,
/// as what is scarce elsewhere was planned for others, then the cheapest. One that is much dearer than the planned one is not
/// among them: its pods are planned anew, knowing what has run out, rather than each node launched twice as large. `overlaid` are
/// resources that NodeOverlays add to types: the cloud does not know them, and which types have them the claim says.
pub(crate) fn choose(claim: &NodeClaim, offers: &Offers, overlaid: &BTreeSet<&str>) -> Result<LaunchTarget, Nothing> {
    let requirements = &claim.spec.requirements;
    let mut nothing = Nothing { matching: 0, fitting: 0 };
    let planned = planned_offering(claim);
    let is_planned = |key: &OfferingKey| {
        planned.as_ref().is_some_and(|planned| {
            (&*planned.instance_type, &planned.zone, &*planned.capacity_type)
                == (&*key.instance_type, &key.zone, key.capacity_type.as_str())
        })
    };
    let mut planned_price = None;
    let mut paid: Vec<(Money, OfferingKey)> = Vec::new();
    let mut slots: Vec<(bool, Money, OfferingKey, &str)> = Vec::new();
    let (of_types, of_offerings): (Vec<_>, Vec<_>) =
        requirements.iter().partition(|requirement| is_of_types(&requirement.key));
    for of_type in offers.types.catalogue.types() {
        if !of_types.iter().all(|requirement| admits_type(requirement, of_type)) {
            continue;
        }
        let fits = fits(of_type, &claim.spec.resources.requests, overlaid);
        for offering in &of_type.offerings {
            let Some(capacity_type) = offering.capacity_type() else { continue };
            if !of_offerings.iter().all(|requirement| admits(requirement, offering)) {
                continue;
            }
            nothing.matching += 1;
            if !fits {
                continue;
            }
            nothing.fitting += 1;
            let key = OfferingKey {
                instance_type: of_type.name.clone(),
                zone: offering.zone().map(str::to_owned),
                capacity_type,
            };
            // What was planned before stays as planned.
            let is_left_alone = key.zone.as_ref().is_some_and(|zone| offers.left_alone.contains_key(zone));
            if is_planned(&key) {
                planned_price = Some(offering.price);
            }
            match (capacity_type, offering.reservation_id()) {
                (CapacityType::Reserved, Some(id)) => {
                    // Whether a slot is free the cloud says: its count may be older than what was just freed.
                    if !offers.full.contains_key(id) {
                        slots.push((is_left_alone, of_type.list_price(offering), key, id));
                    }
                }
                (CapacityType::Reserved, None) => {}
                _ if offering.launchable().is_none() || offers.exhausted.contains_key(&key) => {}
                _ if is_left_alone && !is_planned(&key) => {}
                _ => paid.push((offering.price, key)),
            }
        }
    }
    slots.sort();
    if let Some((_, _, key, id)) = slots.into_iter().next() {
        return Ok(LaunchTarget::Reserved {
            reservation: id.to_owned(),
            instance_type: key.instance_type,
            zone: key.zone,
        });
    }
    // A NodePool that asks for a number of types to choose from gets them at any price.
    let asks_for_many = requirements.iter().any(|requirement| requirement.min_values.is_some());
    if let Some(price) = planned_price.filter(|_| !asks_for_many) {
        paid.retain(|(own, key)| is_planned(key) || !is_much_dearer(*own, price));
    }
    paid.sort();
    paid.dedup_by(|a, b| a.1 == b.1);
    paid.sort_by_key(|(_, key)| !is_planned(key));
    paid.truncate(MAX_OFFERINGS);
    if paid.is_empty() { Err(nothing) } else { Ok(LaunchTarget::Paid(paid.into_iter().map(|(_, key)| key).collect())) }
}

/// Whether a price is half as high again as the planned one: other families of the same size are cheaper than that, the next
/// size is not.
fn is_much_dearer(price: Money, planned: Money) -> bool {
    price + price > planned + planned + planned
}

/// What the plan that made a NodeClaim has it launched as.
pub(crate) fn planned_offering(claim: &NodeClaim) -> Option<PlannedOffering> {
    let planned = claim.metadata.annotations.as_ref()?.get(labels::PLANNED_OFFERING)?;
    serde_json::from_str(planned).ok()
}

fn fits(of_type: &InstanceTypeEntry, requests: &BTreeMap<String, Quantity>, overlaid: &BTreeSet<&str>) -> bool {
    let known = requests.iter().filter(|(name, amount)| !amount.is_zero() && !overlaid.contains(name.as_str()));
    known.into_iter().all(|(name, amount)| of_type.resources.get(name).is_some_and(|has| has >= amount))
}

/// Whether all offerings of an instance type meet a requirement alike.
fn is_of_types(key: &str) -> bool {
    matches!(labels::normalized(key), labels::INSTANCE_TYPE | labels::ARCH | labels::OS)
}

/// Whether a node of an instance type can meet a requirement of types.
fn admits_type(requirement: &Requirement, of_type: &InstanceTypeEntry) -> bool {
    let one = |value: &str| value_admitted(requirement, Some(value));
    match labels::normalized(&requirement.key) {
        labels::INSTANCE_TYPE => one(&of_type.name),
        labels::ARCH => one(&of_type.architecture),
        _ => of_type.operating_systems.iter().any(|os| one(os)),
    }
}

/// Whether a node of an offering can meet a requirement that is not of types. A label that the offering says nothing of
/// comes from the NodeClaim.
fn admits(requirement: &Requirement, offering: &OfferingEntry) -> bool {
    let key = labels::normalized(&requirement.key);
    let one = |value: &str| value_admitted(requirement, Some(value));
    match key {
        labels::NODEPOOL | labels::HOSTNAME => return true,
        _ if labels::RESERVATION_IDS.contains(&key) => return value_admitted(requirement, offering.reservation_id()),
        _ => {}
    }
    let Some(entry) = offering.requirements.iter().find(|entry| entry.key == key) else {
        // Zones and capacity types that an offering does not name it does not have.
        return if key == labels::ZONE { value_admitted(requirement, None) } else { true };
    };
    match entry.operator {
        Operator::In => entry.values.iter().any(|value| one(value)),
        Operator::DoesNotExist => value_admitted(requirement, None),
        // Open sets: they meet whatever does not name a value that they exclude.
        Operator::NotIn => {
            requirement.operator != Operator::In || requirement.values.iter().any(|value| !entry.values.contains(value))
        }
        _ => requirement.operator != Operator::DoesNotExist,
    }
}

/// Whether a requirement admits a label's value, or its absence.
fn value_admitted(requirement: &Requirement, value: Option<&str>) -> bool {
    requirement.operator.admits(&requirement.values, value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn offering(price: f64, capacity: &str, zone: &str, id: Option<&str>) -> Value {
        let mut all = vec![
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]}),
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}),
        ];
        all.extend(id.map(|id| json!({"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": [id]})));
        let mut offering = json!({"Price": price, "Requirements": all});
        if id.is_some() {
            offering["Available"] = json!(2);
        }
        offering
    }

    fn offers() -> Offers {
        let types = json!([
            {"name": "small", "resources": {"cpu": "2", "memory": "4Gi"}, "offerings": [
                offering(0.1, "on-demand", "a", None), offering(0.05, "spot", "b", None)]},
            {"name": "large", "resources": {"cpu": "8", "memory": "16Gi"}, "offerings": [
                offering(0.4, "on-demand", "a", None), offering(0.4, "reserved", "a", Some("cr-1"))]},
        ]);
        let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types").unwrap();
        let types = InstanceTypes { catalogue: Arc::new(catalogue), reservations: Vec::new() };
        Offers::of(types, Timestamp::UNIX_EPOCH)
    }

    fn claim(requirements: &Value, cpu: &str) -> NodeClaim {
        let resources = json!({"requests": {"cpu": cpu}});
        let spec = json!({"requirements": requirements, "resources": resources});
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec})).unwrap()
    }

    fn choose(claim: &NodeClaim, offers: &Offers) -> Result<LaunchTarget, Nothing> {
        super::choose(claim, offers, &BTreeSet::new())
    }

    /// The regression: the cloud's own catalogue was asked for what a NodeOverlay adds, and nothing was ever launched.
    #[test]
    fn what_a_node_overlay_adds_is_not_asked_of_the_cloud() {
        let mut wants = claim(&json!([is_one_of("karpenter.sh/capacity-type", &["on-demand"])]), "3");
        wants.spec.resources.requests.insert("example.com/dongle".to_owned(), Quantity::from_value(1));
        assert_eq!(choose(&wants, &offers()), Err(Nothing { matching: 2, fitting: 0 }));
        let overlaid = BTreeSet::from(["example.com/dongle"]);
        assert_eq!(names(super::choose(&wants, &offers(), &overlaid)), ["large on-demand in a"]);
    }

    fn names(target: Result<LaunchTarget, Nothing>) -> Vec<String> {
        match target {
            Ok(LaunchTarget::Paid(all)) => all.iter().map(ToString::to_string).collect(),
            Ok(LaunchTarget::Reserved { reservation, instance_type, .. }) => vec![reservation, instance_type],
            Err(nothing) => vec![nothing.to_string()],
        }
    }

    fn is_one_of(key: &str, values: &[&str]) -> Value {
        json!({"key": key, "operator": "In", "values": values})
    }

    #[test]
    fn paid_offerings_come_cheapest_first_and_exhausted_ones_not_at_all() {
        let paid = json!([is_one_of("karpenter.sh/capacity-type", &["on-demand", "spot"])]);
        let mut offers = offers();
        let expected = ["small spot in b", "small on-demand in a", "large on-demand in a"];
        assert_eq!(names(choose(&claim(&paid, "1"), &offers)), expected);
        assert_eq!(names(choose(&claim(&paid, "3"), &offers)), ["large on-demand in a"]);
        let mut planned = claim(&paid, "1");
        let offering = json!({"instanceType": "small", "zone": "a", "capacityType": "on-demand"});
        planned.metadata.annotations = Some([(labels::PLANNED_OFFERING.to_owned(), offering.to_string())].into());
        let scarce_is_left = ["small on-demand in a", "small spot in b"];
        assert_eq!(names(choose(&planned, &offers)), scarce_is_left, "a larger one is another plan's to choose");
        let mut of_many = planned.clone();
        of_many.spec.requirements[0].min_values = Some(2);
        assert_eq!(names(choose(&of_many, &offers)), [&scarce_is_left[..], &["large on-demand in a"]].concat());
        let spot = OfferingKey {
            instance_type: "small".to_owned(),
            zone: Some("b".to_owned()),
            capacity_type: CapacityType::Spot,
        };
        offers.exhausted.insert(spot, Timestamp::MAX);
        assert_eq!(names(choose(&claim(&paid, "1"), &offers)), &expected[1..]);
    }

    #[test]
    fn a_slot_is_taken_where_the_requirements_leave_one_and_it_is_not_full() {
        let mut offers = offers();
        assert_eq!(names(choose(&claim(&json!([]), "1"), &offers)), ["cr-1", "large"]);
        let pinned = json!([
            is_one_of("karpenter.sh/capacity-type", &["reserved"]),
            is_one_of("berth.sh/capacity-reservation-id", &["cr-1"])
        ]);
        assert_eq!(names(choose(&claim(&pinned, "1"), &offers)), ["cr-1", "large"]);
        offers.full.insert("cr-1".to_owned(), Timestamp::MAX);
        assert_eq!(choose(&claim(&pinned, "1"), &offers), Err(Nothing { matching: 1, fitting: 1 }));
        let other = json!([is_one_of("berth.sh/capacity-reservation-id", &["cr-2"])]);
        assert_eq!(choose(&claim(&other, "1"), &offers), Err(Nothing { matching: 0, fitting: 0 }));
    }

    #[test]
    fn a_label_of_the_pool_s_own_is_not_asked_of_the_offering() {
        let team = json!([is_one_of("team", &["web"]), is_one_of("topology.kubernetes.io/zone", &["b"])]);
        assert_eq!(names(choose(&claim(&team, "1"), &offers())), ["small spot in b"]);
        let nowhere = json!([is_one_of("topology.kubernetes.io/zone", &["z"])]);
        assert!(choose(&claim(&nowhere, "1"), &offers()).is_err());
    }
}
