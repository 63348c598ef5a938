//! Launches: which offering is had, and the machine that comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{ResourceList, labels};
use berth_catalogue::{CapacityType, InstanceTypeEntry, OfferingEntry, RequirementEntry, label as offered};
use berth_cloudprovider::{
    CloudError, Instance, InstanceState, LaunchRequest, LaunchTarget, Launched, OfferingKey, ProviderId,
    ReservationAdoption, ReservationState, Result,
};
use berth_quantity::Quantity;
use jiff::Timestamp;

use super::clock::later;
use super::events::CloudEvent;
use super::node_class::NodeClass;
use super::world::{Record, Timer, World, is_reserved, key_of};
use crate::label;

const HOUR: Duration = Duration::from_secs(3600);

/// What a launch gets.
struct Allotted {
    offering: OfferingKey,
    reservation: Option<String>,
    stock: Option<OfferingKey>,
    exhausted: Vec<OfferingKey>,
}

impl World {
    /// Launches an instance, or finds the one of the same token.
    pub(super) fn launch(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<Launched> {
        let result = self.try_launch(request, now);
        if let Err(error) = &result {
            self.outbox.push_back(CloudEvent::Refused { node_claim: request.node_claim.clone(), error: error.clone() });
        }
        result
    }

    fn try_launch(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<Launched> {
        request.check()?;
        if let Some(record) = self.tokens.get(&request.token).and_then(|id| self.machines.get(id)) {
            return if record.request == *request {
                Ok(Launched { instance: record.truth.clone(), exhausted: Vec::new() })
            } else {
                Err(CloudError::invalid("token", format!("{} was used for another request", request.token)))
            };
        }
        let class = self.node_class(&request.node_class.name)?;
        if let Some((reason, message)) = &class.not_ready {
            return Err(CloudError::invalid("node_class", format!("is not ready: {reason}: {message}")));
        }
        let allotted = match &request.target {
            LaunchTarget::Paid(offerings) => self.allot_paid(&class, offerings, request, now)?,
            LaunchTarget::Reserved { reservation, instance_type, zone } => {
                self.allot_slot(&class, reservation, instance_type, zone.as_deref(), now)?
            }
        };
        Ok(self.make(request, &class, allotted, now))
    }

    fn allot_paid(
        &self,
        class: &NodeClass,
        offerings: &[OfferingKey],
        request: &LaunchRequest,
        now: Timestamp,
    ) -> Result<Allotted> {
        let joins_group = request.joins_group && self.config.adoption == ReservationAdoption::Group;
        let mut exhausted = Vec::new();
        for offering in offerings {
            let zone = offering.zone.as_deref();
            let is_offered = class.has_zone(zone)
                && self.instance_type(class, &offering.instance_type).is_some_and(|entry| {
                    entry.offerings.iter().any(|own| !is_reserved(own) && key_of(&entry.name, own) == *offering)
                });
            let may_be_served =
                is_offered && offering.capacity_type == CapacityType::OnDemand && !request.avoids_reservations;
            let serving = may_be_served
                .then(|| self.serving_reservation(&offering.instance_type, zone, joins_group, now))
                .flatten();
            // A slot is capacity of its own: it serves even where on-demand has none left.
            if let Some(reservation) = serving {
                let offering = OfferingKey { capacity_type: CapacityType::Reserved, ..offering.clone() };
                return Ok(Allotted { offering, reservation: Some(reservation), stock: None, exhausted });
            }
            let left = self.stock.get(offering).copied();
            if is_offered && left != Some(0) {
                let stock = left.map(|_| offering.clone());
                return Ok(Allotted { offering: offering.clone(), reservation: None, stock, exhausted });
            }
            exhausted.push(offering.clone());
        }
        Err(CloudError::InsufficientCapacity { offerings: exhausted })
    }

    fn allot_slot(
        &self,
        class: &NodeClass,
        id: &str,
        instance_type: &str,
        zone: Option<&str>,
        now: Timestamp,
    ) -> Result<Allotted> {
        let full =
            |message: &str| CloudError::ReservationFull { reservation: id.to_owned(), message: message.to_owned() };
        let reserved = self.reservations.get(id).ok_or_else(|| full("it does not exist"))?;
        if !reserved.definition.holds(instance_type, zone) || !class.has_zone(zone) {
            let place = zone.map_or(String::new(), |zone| format!(" in {zone}"));
            return Err(CloudError::invalid("target", format!("reservation {id} holds no {instance_type}{place}")));
        }
        if self.instance_type(class, instance_type).is_none() {
            return Err(CloudError::invalid("target", format!("there is no instance type {instance_type}")));
        }
        if let Some(zone) = zone.filter(|zone| !self.offered().1.contains(*zone)) {
            return Err(CloudError::invalid("target", format!("there is no zone {zone}")));
        }
        match self.reservation_state(reserved, now) {
            ReservationState::Scheduled => return Err(full("it has not begun")),
            ReservationState::Expiring => return Err(full("it is about to end")),
            ReservationState::Ended => return Err(full("it has ended")),
            ReservationState::Active => {}
        }
        if self.free_slots(id, reserved) == 0 {
            return Err(full("all its slots are used"));
        }
        let offering = OfferingKey {
            instance_type: instance_type.to_owned(),
            zone: zone.map(str::to_owned),
            capacity_type: CapacityType::Reserved,
        };
        Ok(Allotted { offering, reservation: Some(id.to_owned()), stock: None, exhausted: Vec::new() })
    }

    fn make(&mut self, request: &LaunchRequest, class: &NodeClass, allotted: Allotted, now: Timestamp) -> Launched {
        let Allotted { offering, reservation, stock, exhausted } = allotted;
        if let Some(left) = stock.as_ref().and_then(|key| self.stock.get_mut(key)) {
            *left = left.saturating_sub(1);
            self.n_changes += 1;
        }
        self.n_launched += 1;
        let number = self.n_launched;
        let zone = offering.zone.as_deref().unwrap_or("nowhere");
        let of = match &*self.config.incarnation {
            "" => String::new(),
            incarnation => format!("{incarnation}-"),
        };
        let provider_id = ProviderId(format!("fake:///{zone}/i-{of}{number:06}"));
        let entry = self.overlaid_type(&request.node_class.name, class, &offering.instance_type);
        let allocatable = entry.map(|entry| entry.resources.clone()).unwrap_or_default();
        let labels = self.labels_of(class, &offering, reservation.as_deref()).unwrap_or_default();
        let instance = Instance {
            provider_id: provider_id.clone(),
            state: InstanceState::Pending,
            capacity: capacity(&allocatable, &labels),
            allocatable,
            labels,
            offering,
            reservation,
            launched_at: now,
            token: Some(request.token.clone()),
            tags: request.all_tags(&self.config.cluster),
            image_id: (!class.image.is_empty()).then(|| class.image.clone()),
            interruption: None,
        };
        let record = Record {
            // The reservation is booked by the change below.
            truth: Instance { reservation: None, ..instance.clone() },
            shown: Vec::new(),
            node_name: format!("{}-{of}{number:04}", dns_label(&instance.offering.instance_type)),
            request: request.clone(),
            stock,
            is_dead: false,
        };
        self.machines.insert(provider_id.clone(), record);
        self.tokens.insert(request.token.clone(), provider_id.clone());
        let reservation = instance.reservation.clone();
        self.change(&provider_id, now, |truth| truth.reservation = reservation);
        self.outbox.push_back(CloudEvent::Launched {
            node_claim: request.node_claim.clone(),
            instance: Box::new(instance.clone()),
        });
        self.draw_fate(&provider_id, &instance, now);
        Launched { instance, exhausted }
    }

    /// Draws how long a machine takes to boot, and what will befall it.
    fn draw_fate(&mut self, id: &ProviderId, instance: &Instance, now: Timestamp) {
        let faults = self.config.faults.clone();
        if !self.dice.chance(faults.never_boots) {
            let boot = self.config.boot_delay + self.dice.up_to(self.config.boot_jitter);
            self.at(later(now, boot), Timer::Boot(id.clone()));
        }
        if self.dice.chance(faults.dies_within_an_hour) {
            let after = self.dice.up_to(HOUR);
            self.at(later(now, after), Timer::Die(id.clone()));
        }
        let is_spot = instance.offering.capacity_type == CapacityType::Spot;
        if is_spot && self.dice.chance(faults.interrupted_within_an_hour) {
            let after = self.dice.up_to(HOUR);
            self.at(later(now, after), Timer::Interrupt(id.clone()));
        }
    }

    /// The labels of a machine of an offering. `None` where the node class no longer has the type.
    pub(super) fn labels_of(
        &self,
        class: &NodeClass,
        offering: &OfferingKey,
        reservation: Option<&str>,
    ) -> Option<BTreeMap<String, String>> {
        let entry = self.instance_type(class, &offering.instance_type)?;
        let zone = offering.zone.as_deref();
        let requirements = match reservation {
            Some(id) => self.reserved_offering(id, entry, zone).requirements,
            None => entry.offerings.iter().find(|own| key_of(&entry.name, own) == *offering)?.requirements.clone(),
        };
        let mut found: BTreeMap<String, String> = requirements
            .into_iter()
            .filter_map(|RequirementEntry { key, operator, values }| match (operator, values.as_slice()) {
                (berth_catalogue::Operator::In, [value]) => Some((key, value.clone())),
                _ => None,
            })
            .collect();
        let os = entry.operating_systems.first().map_or("linux", String::as_str);
        for (key, value) in
            [(labels::INSTANCE_TYPE, &*entry.name), (labels::ARCH, &entry.architecture), (labels::OS, os)]
        {
            found.insert(key.to_owned(), value.to_owned());
        }
        Some(found)
    }

    /// The offering of a reservation's type and zone: its own where the catalogue brought one, else as on demand.
    pub(super) fn reserved_offering(&self, id: &str, entry: &InstanceTypeEntry, zone: Option<&str>) -> OfferingEntry {
        let own = self
            .reservations
            .get(id)
            .and_then(|reserved| reserved.offerings.get(&(entry.name.clone(), zone.map(str::to_owned))));
        if let Some(own) = own {
            return own.clone();
        }
        let paid = |offering: &&OfferingEntry| offering.capacity_type() == Some(CapacityType::OnDemand);
        let like = entry.offerings.iter().filter(paid).find(|offering| offering.zone() == zone);
        let mut requirements = vec![
            RequirementEntry::is(offered::CAPACITY_TYPE, CapacityType::Reserved.as_str()),
            RequirementEntry::is(offered::CAPACITY_RESERVATION_ID, id),
        ];
        requirements.extend(zone.map(|zone| RequirementEntry::is(offered::ZONE, zone)));
        requirements.extend(like.into_iter().flat_map(OfferingEntry::other_requirements).cloned());
        OfferingEntry {
            price: like.map(|offering| offering.price).unwrap_or_default(),
            availability: berth_catalogue::Availability::Unlimited,
            reservation_capacity: None,
            requirements,
            reservation: None,
        }
    }
}

/// What a machine has in all: where the built-in catalogue's labels tell it, with what the system keeps.
fn capacity(allocatable: &ResourceList, labels: &BTreeMap<String, String>) -> ResourceList {
    let mut capacity = allocatable.clone();
    let whole = |key: &str| labels.get(key).and_then(|text| text.parse::<i64>().ok());
    let larger = [
        ("cpu", whole(label::INSTANCE_CPU).map(Quantity::from_value)),
        (
            "memory",
            whole(label::INSTANCE_MEMORY).and_then(|mib| mib.checked_mul(1 << 20)).map(Quantity::from_bytes_binary),
        ),
    ];
    for (name, quantity) in larger {
        if let (Some(quantity), Some(own)) = (quantity, capacity.get_mut(name))
            && quantity > *own
        {
            *own = quantity;
        }
    }
    capacity
}

/// An instance type's name as a part of a node's name.
fn dns_label(name: &str) -> String {
    let mapped: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(50).collect();
    let trimmed = mapped.trim_matches('-');
    if trimmed.is_empty() { "node".to_owned() } else { trimmed.to_owned() }
}
