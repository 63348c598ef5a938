//! Capacity reservations: who may use them, who does, and what their times do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_catalogue::{CapacityType, Catalogue, OfferingEntry, label};
use berth_cloudprovider::{
    InterruptionReason, ProviderId, ReservationAdoption, ReservationKind, ReservationMatching, ReservationState,
};
use jiff::Timestamp;

use super::clock::earlier;
use super::config::Excess;
use super::events::CloudEvent;
use super::world::{Record, Timer, World};

/// A capacity reservation that the cloud has sold: what a FakeCapacityReservation object says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FakeReservation {
    /// The instance types that it can hold; one at least.
    pub instance_types: Vec<String>,
    /// The zones that it is in; empty where the cloud has none.
    pub zones: Vec<String>,
    /// How many instances it can hold.
    pub total: u32,
    /// How many of them others use: another cluster, another account.
    pub used_by_others: u32,
    /// The account that owns it.
    pub owner: Option<String>,
    /// What its end does.
    pub kind: ReservationKind,
    /// Which launches it serves.
    pub matching: ReservationMatching,
    /// When it begins; unset is at once.
    pub start: Option<Timestamp>,
    /// When it ends; unset is never.
    pub end: Option<Timestamp>,
}

/// A reservation, and the offerings of the catalogue that it came with.
#[derive(Debug, Clone)]
pub(super) struct Reserved {
    pub(super) definition: FakeReservation,
    /// By type and zone: prices and labels of their own.
    pub(super) offerings: BTreeMap<(String, Option<String>), OfferingEntry>,
}

// === impl FakeReservation ===

impl FakeReservation {
    /// Whether it can hold this type in this zone.
    pub fn holds(&self, instance_type: &str, zone: Option<&str>) -> bool {
        self.instance_types.iter().any(|own| own == instance_type)
            && zone.is_none_or(|zone| self.zones.iter().any(|own| own == zone))
    }
}

// === impl World ===

impl World {
    /// Makes reservations of a catalogue's reserved offerings.
    pub(super) fn take_reservations(&mut self, catalogue: &Catalogue) {
        for (id, entry) in catalogue.reservations() {
            let mut reserved = Reserved {
                definition: FakeReservation { total: entry.instances, ..FakeReservation::default() },
                offerings: BTreeMap::new(),
            };
            for (instance_type, offering) in entry.offerings.iter().filter_map(|&place| catalogue.offering(place)) {
                let definition = &mut reserved.definition;
                definition.kind = kind_of(offering);
                add(&mut definition.instance_types, &instance_type.name);
                if let Some(zone) = offering.zone() {
                    add(&mut definition.zones, zone);
                }
                let place = (instance_type.name.clone(), offering.zone().map(str::to_owned));
                reserved.offerings.insert(place, offering.clone());
            }
            self.reservations.insert(id.clone(), reserved);
        }
    }

    /// Adds a reservation, or changes one. Its instances run on, however many it holds from now on ([`Excess`]).
    pub(super) fn set_reservation(&mut self, id: &str, definition: FakeReservation, now: Timestamp) {
        self.n_changes += 1;
        let notice = definition.end.map(|end| earlier(end, self.notice(definition.kind)));
        let times = [definition.start, notice, definition.end];
        for time in times.into_iter().flatten().filter(|&time| time > now) {
            self.at(time, Timer::Reservation(id.to_owned()));
        }
        let offers = (definition.instance_types.clone(), definition.zones.clone());
        let unknown = || Reserved { definition: FakeReservation::default(), offerings: BTreeMap::new() };
        let reserved = self.reservations.entry(id.to_owned()).or_insert_with(unknown);
        let before = std::mem::replace(&mut reserved.definition, definition);
        if (before.instance_types, before.zones) != offers {
            self.overlay_anew();
        }
        self.settle_reservation(id, now);
    }

    /// Cancels a reservation, as if it ended now. Whether there was one.
    pub(super) fn remove_reservation(&mut self, id: &str, now: Timestamp) -> bool {
        let Some(reserved) = self.reservations.get_mut(id) else { return false };
        reserved.definition.end = Some(now);
        self.settle_reservation(id, now);
        self.reservations.remove(id);
        self.overlay_anew();
        true
    }

    pub(super) fn reservation_state(&self, reserved: &Reserved, now: Timestamp) -> ReservationState {
        let FakeReservation { start, end, kind, .. } = reserved.definition;
        let ends_instances = kind != ReservationKind::OnDemand;
        if end.is_some_and(|end| end <= now) {
            ReservationState::Ended
        } else if start.is_some_and(|start| start > now) {
            ReservationState::Scheduled
        } else if ends_instances && end.is_some_and(|end| earlier(end, self.notice(kind)) <= now) {
            ReservationState::Expiring
        } else {
            ReservationState::Active
        }
    }

    /// How long before the end of a reservation its instances are told.
    const fn notice(&self, kind: ReservationKind) -> Duration {
        match kind {
            ReservationKind::Interruptible => self.config.spot_notice,
            ReservationKind::CapacityBlock | ReservationKind::OnDemand => self.config.block_notice,
        }
    }

    /// The instances that use a reservation's slots, in order of id.
    pub(super) fn members(&self, id: &str) -> Vec<ProviderId> {
        self.members.get(id).into_iter().flatten().cloned().collect()
    }

    /// Slots that are free in truth.
    pub(super) fn free_slots(&self, id: &str, reserved: &Reserved) -> u32 {
        let members = u32::try_from(self.members.get(id).map_or(0, BTreeSet::len)).unwrap_or(u32::MAX);
        reserved.definition.total.saturating_sub(reserved.definition.used_by_others).saturating_sub(members)
    }

    /// A reservation that serves a launch which did not ask for one: an open one, or for who joins the group any.
    pub(super) fn serving_reservation(
        &self,
        instance_type: &str,
        zone: Option<&str>,
        joins_group: bool,
        now: Timestamp,
    ) -> Option<String> {
        self.reservations
            .iter()
            .find(|(id, reserved)| {
                takes_others_in(reserved)
                    && (joins_group || reserved.definition.matching == ReservationMatching::Open)
                    && reserved.definition.holds(instance_type, zone)
                    && self.reservation_state(reserved, now) == ReservationState::Active
                    && self.free_slots(id, reserved) > 0
            })
            .map(|(id, _)| id.clone())
    }

    /// Does what a reservation's state asks for: its end lets go of instances, its notice warns those that are shut down,
    /// and free slots take in running instances where the cloud does so.
    pub(super) fn settle_reservation(&mut self, id: &str, now: Timestamp) {
        let Some(reserved) = self.reservations.get(id).cloned() else { return };
        let kind = reserved.definition.kind;
        match self.reservation_state(&reserved, now) {
            ReservationState::Scheduled => {}
            ReservationState::Expiring => {
                let left = reserved.definition.end.map_or(now, |end| end).duration_since(now);
                let reason = match kind {
                    ReservationKind::Interruptible => InterruptionReason::Reclaimed,
                    ReservationKind::CapacityBlock | ReservationKind::OnDemand => InterruptionReason::CapacityBlockEnd,
                };
                for member in self.members(id) {
                    let notice = left.try_into().unwrap_or_default();
                    self.interrupt(&member, reason, notice, now);
                }
            }
            ReservationState::Ended if kind == ReservationKind::CapacityBlock => {
                for member in self.members(id) {
                    self.shut_down(&member, now);
                }
            }
            // Those that were told before end now; one that is cancelled gives notice first.
            ReservationState::Ended if kind == ReservationKind::Interruptible => {
                for member in self.members(id) {
                    self.interrupt(&member, InterruptionReason::Reclaimed, self.config.spot_notice, now);
                }
            }
            ReservationState::Ended => {
                for member in self.members(id) {
                    self.assign(&member, None, now);
                }
            }
            ReservationState::Active => {
                match kind {
                    ReservationKind::Interruptible => self.reclaim_excess(id, &reserved, now),
                    ReservationKind::OnDemand if self.config.excess == Excess::Released => {
                        self.release_excess(id, &reserved, now);
                    }
                    ReservationKind::OnDemand | ReservationKind::CapacityBlock => {}
                }
                self.adopt(id, &reserved, now);
            }
        }
    }

    /// Lets go of those that were launched last, as many as there is no slot for.
    fn release_excess(&mut self, id: &str, reserved: &Reserved, now: Timestamp) {
        for member in excess(self.by_launch(self.members(id)), reserved) {
            self.assign(&member, None, now);
        }
    }

    /// Takes back those that were launched last, as many as there is no slot for; those that go already count among them.
    fn reclaim_excess(&mut self, id: &str, reserved: &Reserved, now: Timestamp) {
        let stays = |member: &ProviderId| {
            self.machines
                .get(member)
                .is_some_and(|record| record.truth.state.is_alive() && record.truth.interruption.is_none())
        };
        let staying = self.members(id).into_iter().filter(stays).collect();
        for member in excess(self.by_launch(staying), reserved) {
            self.interrupt(&member, InterruptionReason::Reclaimed, self.config.spot_notice, now);
        }
    }

    /// In the order of their launch.
    fn by_launch(&self, mut instances: Vec<ProviderId>) -> Vec<ProviderId> {
        let launched = |id: &ProviderId| self.machines.get(id).map(|record| record.truth.launched_at);
        instances.sort_by_cached_key(|id| (launched(id), id.clone()));
        instances
    }

    fn adopt(&mut self, id: &str, reserved: &Reserved, now: Timestamp) {
        if !takes_others_in(reserved) {
            return;
        }
        let is_open = reserved.definition.matching == ReservationMatching::Open;
        let may_be_taken_in = |record: &Record| match self.config.adoption {
            ReservationAdoption::Never => false,
            ReservationAdoption::Relabel => is_open,
            ReservationAdoption::Group => record.request.joins_group,
        };
        let fits = |record: &&Record| {
            let instance = &record.truth;
            may_be_taken_in(record)
                && !record.request.avoids_reservations
                && instance.state.is_alive()
                && instance.reservation.is_none()
                && instance.offering.capacity_type == CapacityType::OnDemand
                && reserved.definition.holds(&instance.offering.instance_type, instance.offering.zone.as_deref())
        };
        let free = usize::try_from(self.free_slots(id, reserved)).unwrap_or(usize::MAX);
        let running: Vec<ProviderId> =
            self.machines.values().filter(fits).take(free).map(|record| record.truth.provider_id.clone()).collect();
        for instance in running {
            self.assign(&instance, Some(id), now);
        }
    }

    /// Puts an instance under a reservation, or under none; its labels follow.
    fn assign(&mut self, instance: &ProviderId, reservation: Option<&str>, now: Timestamp) {
        let Some(record) = self.machines.get(instance) else { return };
        let mut offering = record.truth.offering.clone();
        offering.capacity_type = reservation.map_or(CapacityType::OnDemand, |_| CapacityType::Reserved);
        let labels = self
            .node_class(&record.request.node_class.name)
            .ok()
            .and_then(|class| self.labels_of(&class, &offering, reservation))
            .unwrap_or_else(|| record.truth.labels.clone());
        self.change(instance, now, |instance| {
            instance.offering = offering;
            instance.reservation = reservation.map(str::to_owned);
            instance.labels = labels;
        });
        if let Some(record) = self.machines.get(instance) {
            let (node_name, instance) = (record.node_name.clone(), Box::new(record.truth.clone()));
            self.outbox.push_back(CloudEvent::Relabelled { node_name, instance });
        }
    }
}

/// The last of these, as many as a reservation has no slot for.
fn excess(mut members: Vec<ProviderId>, reserved: &Reserved) -> Vec<ProviderId> {
    let own = reserved.definition.total.saturating_sub(reserved.definition.used_by_others);
    members.split_off(members.len().min(usize::try_from(own).unwrap_or(usize::MAX)))
}

/// Whether it may take in instances that did not ask for it: a capacity block serves those alone that are launched into it, and so does
/// a reservation that its owner may interrupt.
fn takes_others_in(reserved: &Reserved) -> bool {
    reserved.definition.kind == ReservationKind::OnDemand
}

/// What the end of a reservation does to its instances, as an offering's labels say it.
fn kind_of(offering: &OfferingEntry) -> ReservationKind {
    if offering.single_value(label::RESERVATION_INTERRUPTIBLE) == Some("true") {
        ReservationKind::Interruptible
    } else if offering.single_value(label::RESERVATION_TYPE) == Some("capacity-block") {
        ReservationKind::CapacityBlock
    } else {
        ReservationKind::OnDemand
    }
}

fn add(list: &mut Vec<String>, value: &str) {
    if !list.iter().any(|own| own == value) {
        list.push(value.to_owned());
    }
}
