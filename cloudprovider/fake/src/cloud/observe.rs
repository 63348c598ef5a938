//! What callers are shown: instances, counts and catalogues as they were a moment ago.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::NodeClaim;
use berth_catalogue::{Availability, CapacityType, Catalogue, InstanceTypeEntry, Money};
use berth_cloudprovider::{
    CapacityReservation, CloudError, Drift, Instance, InstanceState, InstanceTypes, OfferingKey, ProviderId,
    ReservationState, Result,
};
use jiff::Timestamp;

use super::node_class::NodeClass;
use super::world::{Offered, Record, World, is_reserved, key_of, slot_of};

/// What an instance costs an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// What is paid for it: nothing where it uses a slot of a reservation.
    pub own: Money,
    /// What on-demand of its type and zone costs; where there is none, the list price of its own offering.
    pub list: Money,
}

impl World {
    /// One instance as it is shown.
    pub(super) fn shown(&self, id: &ProviderId, now: Timestamp) -> Result<Instance> {
        self.machines
            .get(id)
            .and_then(|record| record.shown_at(now))
            .filter(|instance| instance.state != InstanceState::Terminated)
            .map(|instance| Instance::clone(instance))
            .ok_or_else(|| CloudError::NotFound { what: format!("instance {id}") })
    }

    /// The instances that have all of these tags, as they are shown.
    pub(super) fn shown_with(&self, tags: &BTreeMap<String, String>, now: Timestamp) -> Vec<Instance> {
        let has_all = |instance: &&Arc<Instance>| tags.iter().all(|(key, value)| instance.tags.get(key) == Some(value));
        let shown = self.machines.values().filter_map(|record| record.shown_at(now)).filter(has_all);
        shown.map(|instance| Instance::clone(instance)).collect()
    }

    /// All of them.
    pub(super) fn all_shown(&self, now: Timestamp) -> Vec<Arc<Instance>> {
        self.machines.values().filter_map(|record| record.shown_at(now)).cloned().collect()
    }

    /// The instances that will be taken back, as they are shown.
    pub(super) fn shown_interrupted(&self, now: Timestamp) -> Vec<Instance> {
        let told = self.machines.values().filter(|record| record.truth.interruption.is_some());
        let shown = told.filter_map(|record| record.shown_at(now));
        shown.filter(|instance| instance.interruption.is_some()).map(|instance| Instance::clone(instance)).collect()
    }

    /// Every reservation with a slot in the node class's zones, as it is shown: `used` and `includes` are of one moment.
    pub(super) fn shown_reservations(&self, class: &NodeClass, now: Timestamp) -> Vec<CapacityReservation> {
        let mut included: BTreeMap<&str, BTreeSet<ProviderId>> = BTreeMap::new();
        for record in self.machines.values() {
            if let Some((id, reservation)) =
                record.shown_at(now).and_then(|instance| Some((&instance.provider_id, slot_of(instance)?)))
            {
                included.entry(reservation).or_default().insert(id.clone());
            }
        }
        self.reservations
            .iter()
            .filter(|(_, reserved)| {
                let zones = &reserved.definition.zones;
                zones.is_empty() || zones.iter().any(|zone| class.has_zone(Some(zone)))
            })
            .filter_map(|(id, reserved)| {
                let definition = &reserved.definition;
                let members = included.remove(id.as_str()).unwrap_or_default();
                // One of what nobody offers has no slots to count.
                if members.is_empty() && !self.is_offered(definition) {
                    return None;
                }
                let own = u32::try_from(members.len()).unwrap_or(u32::MAX);
                Some(CapacityReservation {
                    id: id.clone(),
                    instance_types: definition.instance_types.clone(),
                    zones: definition.zones.clone(),
                    total: definition.total,
                    used: own.saturating_add(definition.used_by_others),
                    includes: members,
                    owner: definition.owner.clone(),
                    kind: definition.kind,
                    matching: definition.matching,
                    state: self.reservation_state(reserved, now),
                    start: definition.start,
                    end: definition.end,
                })
            })
            .collect()
    }

    /// What a node class offers: its paid offerings with what is left where the catalogue counts them, and an offering
    /// for each type and zone of each reservation.
    pub(super) fn offers(&mut self, class: &NodeClass, now: Timestamp) -> Result<InstanceTypes> {
        let reservations = self.shown_reservations(class, now);
        let is_current = |known: &&Offered| {
            known.n_changes == self.n_changes && known.types.reservations == reservations && known.class == *class
        };
        if let Some(known) = self.offered.iter().find(is_current) {
            return Ok(known.types.clone());
        }
        let n_changes = self.n_changes;
        let is_counted_anew = |known: &&Offered| {
            let mut pairs = known.types.reservations.iter().zip(&reservations);
            known.n_changes == n_changes
                && known.class == *class
                && known.types.reservations.len() == reservations.len()
                && pairs.all(|(known, now)| differ_in_counts_alone(known, now))
        };
        let types = if let Some(known) = self.offered.iter().find(is_counted_anew) {
            let free = reservations.iter().map(|reservation| (reservation.id.as_str(), free_of(reservation))).collect();
            let catalogue = Arc::new((*known.types.catalogue).clone().with_free_instances(&free));
            InstanceTypes { catalogue, reservations }
        } else {
            self.offers_anew(class, reservations)?
        };
        self.offered.retain(|known| known.n_changes == n_changes && known.class != *class);
        self.offered.push(Offered { class: class.clone(), n_changes, types: types.clone() });
        Ok(types)
    }

    fn offers_anew(&self, class: &NodeClass, reservations: Vec<CapacityReservation>) -> Result<InstanceTypes> {
        let mut types: Vec<InstanceTypeEntry> = self.types_of(class).iter().map(|entry| (**entry).clone()).collect();
        for entry in &mut types {
            let mut offerings = std::mem::take(&mut entry.offerings);
            offerings.retain(|offering| !is_reserved(offering) && class.has_zone(offering.zone()));
            for offering in &mut offerings {
                // A stock that ran out unforeseen shows only when it is asked for.
                if let (Some(_), Some(&left)) =
                    (offering.availability.count(), self.stock.get(&key_of(&entry.name, offering)))
                {
                    offering.availability = Availability::Count(left);
                }
            }
            entry.offerings = offerings;
        }
        // A reservation may name a zone that nobody offers beside others.
        let (_, known_zones) = self.offered();
        for reservation in &reservations {
            let places = (&*reservation.instance_types, &*reservation.zones);
            self.offer_reserved(&mut types, (class, &known_zones), (&reservation.id, free_of(reservation)), places);
        }
        types.retain(|entry| !entry.offerings.is_empty());
        let catalogue = Catalogue::new(types)
            .map_err(|error| CloudError::Unavailable { message: format!("the catalogue cannot be read: {error}") })?;
        Ok(InstanceTypes { catalogue: Arc::new(catalogue), reservations })
    }

    /// Adds an offering of a reservation with so many free slots to each of these types that it is of, in each of its zones.
    pub(super) fn offer_reserved(
        &self,
        types: &mut [InstanceTypeEntry],
        (class, known_zones): (&NodeClass, &BTreeSet<String>),
        (id, free): (&str, u32),
        (instance_types, zones): (&[String], &[String]),
    ) {
        let zones: Vec<Option<&str>> = if zones.is_empty() {
            vec![None]
        } else {
            let known = zones.iter().filter(|zone| known_zones.contains(*zone));
            known.map(|zone| Some(zone.as_str())).filter(|zone| class.has_zone(*zone)).collect()
        };
        for entry in types.iter_mut().filter(|entry| instance_types.contains(&entry.name)) {
            for &zone in &zones {
                let mut offering = self.reserved_offering(id, entry, zone);
                offering.availability = Availability::Unlimited;
                offering.reservation_capacity = Some(free);
                entry.offerings.push(offering);
            }
        }
    }

    /// Whether a claim's instance is still what its node class asks for.
    pub(super) fn drift(&self, claim: &NodeClaim, now: Timestamp) -> Result<Option<Drift>> {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
        let id = ProviderId(id.ok_or_else(|| CloudError::invalid("node_claim", "has no status.providerID"))?);
        let class_name = claim.spec.node_class_ref.as_ref().map_or("", |class| class.name.as_str());
        let class = self.node_class(class_name)?;
        let instance = self.shown(&id, now)?;
        let image = instance.image_id.as_deref().unwrap_or_default();
        let differs = |reason: &str, message: String| Some(Drift { reason: reason.to_owned(), message });
        Ok(if image != class.image {
            differs(
                "ImageDrift",
                format!("the machine runs image {image:?}, the node class asks for {:?}", class.image),
            )
        } else if !class.has_zone(instance.offering.zone.as_deref()) {
            let zone = instance.offering.zone.unwrap_or_default();
            differs("ZoneDrift", format!("the machine is in {zone}, which the node class no longer has"))
        } else if self.instance_type(&class, &instance.offering.instance_type).is_none() {
            let name = &instance.offering.instance_type;
            differs("InstanceTypeDrift", format!("the node class no longer has the instance type {name}"))
        } else {
            None
        })
    }

    /// What the paid instances cost an hour: reserved ones are paid for already.
    pub(super) fn hourly_cost(&self) -> Money {
        let paid = self.machines.values().filter(|record| record.truth.state.is_alive());
        paid.filter_map(|record| self.prices_of(record)).fold(Money::ZERO, |sum, prices| sum + prices.own)
    }

    /// What an instance costs.
    pub(super) fn prices(&self, id: &ProviderId) -> Option<Prices> {
        self.prices_of(self.machines.get(id)?)
    }

    fn prices_of(&self, record: &Record) -> Option<Prices> {
        let name = &record.request.node_class.name;
        let class = self.node_class(name).ok()?;
        let offering = &record.truth.offering;
        let entry = self.overlaid_type(name, &class, &offering.instance_type)?;
        let of_type = |capacity_type| {
            let key = OfferingKey { capacity_type, ..offering.clone() };
            entry.offerings.iter().find(|own| key_of(&entry.name, own) == key)
        };
        let own = of_type(offering.capacity_type);
        let list = of_type(CapacityType::OnDemand).map(|own| own.price);
        let list = list.or_else(|| own.map(|own| entry.list_price(own))).unwrap_or(Money::ZERO);
        let own = match (&record.truth.reservation, own) {
            (None, Some(own)) => entry.marginal_price(own),
            _ => Money::ZERO,
        };
        Some(Prices { own, list })
    }

    /// Sets the price of a paid offering of the cloud's own catalogue. Whether it has this offering.
    pub(super) fn set_price(&mut self, key: &OfferingKey, price: Money) -> bool {
        let mut types = self.catalogue.clone().into_types();
        let own = types.iter_mut().filter(|entry| entry.name == key.instance_type);
        let mut offerings = own.flat_map(|entry| entry.offerings.iter_mut().filter(|own| !is_reserved(own)));
        let Some(offering) = offerings.find(|own| key_of(&key.instance_type, own) == *key) else { return false };
        offering.price = price;
        self.n_changes += 1;
        // Only the price of an offering that is there has changed, so it is a catalogue as before.
        let is_changed = Catalogue::new(types).map(|changed| self.catalogue = changed).is_ok();
        self.prices_changed();
        is_changed
    }
}

/// How many instances can be launched into a reservation.
fn free_of(reservation: &CapacityReservation) -> u32 {
    match reservation.state {
        ReservationState::Active => reservation.total.saturating_sub(reservation.used),
        ReservationState::Scheduled | ReservationState::Expiring | ReservationState::Ended => 0,
    }
}

/// Whether a reservation is offered as before, but for how many instances are free.
fn differ_in_counts_alone(known: &CapacityReservation, now: &CapacityReservation) -> bool {
    known.id == now.id && known.instance_types == now.instance_types && known.zones == now.zones
}

impl Record {
    /// The machine as a caller sees it; `None` while it does not show yet.
    pub(super) fn shown_at(&self, now: Timestamp) -> Option<&Arc<Instance>> {
        self.shown.iter().rev().find(|shown| shown.from <= now).map(|shown| &shown.instance)
    }
}
