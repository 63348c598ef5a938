//! The cloud's state, and what time does to it. Synchronous: every entry point is given the present.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use berth_catalogue::{CapacityType, Catalogue, OfferingEntry};
use berth_cloudprovider::{
    Instance, InstanceState, InstanceTypes, Interruption, InterruptionReason, LaunchRequest, LaunchToken, OfferingKey,
    ProviderId, ReservationKind,
};
use jiff::Timestamp;

use super::clock::later;
use super::config::CloudConfig;
use super::dice::Dice;
use super::events::{CloudEvent, Machine, MarketChange};
use super::node_class::NodeClass;
use super::overlay::Overlaid;
use super::reservation::Reserved;

/// Changes of the market that are remembered.
const MOST_NOTED: usize = 100_000;
/// How long the cloud remembers a terminated instance and its token.
const MEMORY: Duration = Duration::from_secs(3600);

/// What is to happen later.
#[derive(Debug, Clone)]
pub(super) enum Timer {
    Boot(ProviderId),
    Join(ProviderId),
    Interrupt(ProviderId),
    Terminate(ProviderId),
    Die(ProviderId),
    Forget(ProviderId),
    Reservation(String),
    LateCreate(Box<LaunchRequest>),
    LateDelete(ProviderId),
}

/// What a caller is shown of a machine from some moment on.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) from: Timestamp,
    pub(super) instance: Arc<Instance>,
}

/// A machine as it is, and as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) truth: Instance,
    pub(super) shown: Vec<Shown>,
    pub(super) node_name: String,
    pub(super) request: LaunchRequest,
    /// The finite stock that it was taken from.
    pub(super) stock: Option<OfferingKey>,
    /// It runs no kubelet any more (or never did), whatever the cloud shows.
    pub(super) is_dead: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) config: CloudConfig,
    pub(super) dice: Dice,
    pub(super) catalogue: Catalogue,
    pub(super) node_classes: BTreeMap<String, NodeClass>,
    /// What is paid and what machines have, where that is not what the catalogues say.
    pub(super) overlaid: Option<Overlaid>,
    /// What is left of offerings that are not unlimited.
    pub(super) stock: BTreeMap<OfferingKey, u32>,
    pub(super) reservations: BTreeMap<String, Reserved>,
    pub(super) machines: BTreeMap<ProviderId, Record>,
    /// The machines that use a slot, by reservation.
    pub(super) members: BTreeMap<String, BTreeSet<ProviderId>>,
    pub(super) tokens: BTreeMap<LaunchToken, ProviderId>,
    pub(super) outbox: VecDeque<CloudEvent>,
    /// What was said of stocks and prices from outside.
    pub(super) market: Vec<(Timestamp, OfferingKey, MarketChange)>,
    timers: BTreeMap<(Timestamp, u64), Timer>,
    n_timers: u64,
    pub(super) n_launched: u64,
    /// How often prices may have changed of instances that run.
    pub(super) n_price_changes: u64,
    /// How often stock, prices or reservations have changed.
    pub(super) n_changes: u64,
    /// What node classes were told that they offer, while nothing has changed.
    pub(super) offered: Vec<Offered>,
}

/// What a node class offers.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) class: NodeClass,
    /// Of the world that it is of.
    pub(super) n_changes: u64,
    pub(super) types: InstanceTypes,
}

// === impl World ===

impl World {
    /// A cloud with the paid offerings of a catalogue, and its reservations at their counts.
    pub(super) fn new(config: CloudConfig, catalogue: Catalogue) -> Self {
        let mut world = Self {
            dice: Dice::new(config.seed),
            config,
            catalogue: Catalogue::default(),
            node_classes: BTreeMap::new(),
            overlaid: None,
            stock: BTreeMap::new(),
            reservations: BTreeMap::new(),
            machines: BTreeMap::new(),
            members: BTreeMap::new(),
            tokens: BTreeMap::new(),
            outbox: VecDeque::new(),
            market: Vec::new(),
            timers: BTreeMap::new(),
            n_timers: 0,
            n_launched: 0,
            n_price_changes: 0,
            n_changes: 0,
            offered: Vec::new(),
        };
        world.take_reservations(&catalogue);
        for instance_type in catalogue.types() {
            for offering in instance_type.offerings.iter().filter(|offering| !is_reserved(offering)) {
                if let Some(count) = offering.availability.count() {
                    world.stock.insert(key_of(&instance_type.name, offering), count);
                }
            }
        }
        world.catalogue = catalogue;
        world
    }

    /// Remembers what was said of an offering, for recorders.
    pub(super) fn note(&mut self, now: Timestamp, offering: &OfferingKey, change: MarketChange) {
        if self.market.len() < MOST_NOTED {
            self.market.push((now, offering.clone(), change));
        }
    }

    pub(super) fn at(&mut self, time: Timestamp, timer: Timer) {
        self.n_timers += 1;
        self.timers.insert((time, self.n_timers), timer);
    }

    /// When something happens next.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|(&(time, _), _)| time)
    }

    /// Lets everything happen that is due by `now`, in order.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let due = entry.key().0;
            match entry.remove() {
                Timer::Boot(id) => self.boot(&id, due),
                Timer::Join(id) => self.join(&id),
                Timer::Interrupt(id) => self.interrupt(&id, InterruptionReason::Spot, self.config.spot_notice, due),
                Timer::Terminate(id) => self.terminate(&id, due),
                Timer::Die(id) => self.die(&id),
                Timer::Forget(id) => self.forget(&id),
                Timer::Reservation(id) => self.settle_reservation(&id, due),
                // Whoever asked has gone: a refusal reaches nobody.
                Timer::LateCreate(request) => drop(self.launch(&request, due)),
                Timer::LateDelete(id) => drop(self.shut_down(&id, due)),
            }
        }
    }

    /// Changes a machine, now in truth and a little later to the eye.
    pub(super) fn change(&mut self, id: &ProviderId, now: Timestamp, change: impl FnOnce(&mut Instance)) {
        let lag = self.config.faults.lag.min(self.config.consistency_lag / 2);
        let delay = self.dice.up_to(lag);
        let Some(record) = self.machines.get_mut(id) else { return };
        let before = slot_of(&record.truth).cloned();
        change(&mut record.truth);
        let after = slot_of(&record.truth).cloned();
        // Never before an earlier change: what is shown goes forward.
        let from = later(now, delay).max(record.shown.last().map_or(now, |shown| shown.from));
        let outdated = record.shown.iter().filter(|shown| shown.from <= now).count().saturating_sub(1);
        record.shown.drain(..outdated);
        record.shown.push(Shown { from, instance: Arc::new(record.truth.clone()) });
        if before != after {
            if let Some(members) = before.and_then(|reservation| self.members.get_mut(&reservation)) {
                members.remove(id);
            }
            if let Some(reservation) = after {
                self.members.entry(reservation).or_default().insert(id.clone());
            }
        }
    }

    fn boot(&mut self, id: &ProviderId, now: Timestamp) {
        let Some(record) = self.machines.get(id).filter(|record| record.truth.state == InstanceState::Pending) else {
            return;
        };
        let class = self.node_class(&record.request.node_class.name).unwrap_or_default();
        let is_reachable =
            record.truth.offering.zone.as_ref().is_none_or(|zone| !class.unreachable_zones.contains(zone));
        self.change(id, now, |instance| instance.state = InstanceState::Running);
        if !self.dice.chance(self.config.faults.never_joins) && is_reachable {
            self.at(later(now, class.registration_delay), Timer::Join(id.clone()));
        }
    }

    fn join(&mut self, id: &ProviderId) {
        let Some(record) = self.machines.get(id) else { return };
        if record.truth.state != InstanceState::Running || record.is_dead {
            return;
        }
        let mut labels = record.request.labels.clone();
        labels.extend(record.truth.labels.clone());
        self.outbox.push_back(CloudEvent::Booted(Box::new(Machine {
            instance: record.truth.clone(),
            node_name: record.node_name.clone(),
            labels,
            taints: record.request.all_taints(),
        })));
    }

    /// Announces that an instance will be taken back.
    pub(super) fn interrupt(&mut self, id: &ProviderId, reason: InterruptionReason, notice: Duration, now: Timestamp) {
        let Some(record) = self.machines.get(id) else { return };
        let is_spot = record.truth.offering.capacity_type == CapacityType::Spot;
        if !record.truth.state.is_alive()
            || record.truth.interruption.is_some()
            || (reason == InterruptionReason::Spot && !is_spot)
        {
            return;
        }
        let interruption = Interruption { reason, at: later(now, notice) };
        self.outbox.push_back(CloudEvent::Interrupted {
            provider_id: id.clone(),
            node_name: record.node_name.clone(),
            interruption: interruption.clone(),
        });
        self.at(interruption.at, Timer::Terminate(id.clone()));
        self.change(id, now, |instance| instance.interruption = Some(interruption));
    }

    /// Announces that an instance is taken back on short notice, if it is of a kind that is.
    pub(super) fn take_back(&mut self, id: &ProviderId, notice: Duration, now: Timestamp) {
        if let Some(reason) = self.taken_back_as(id) {
            self.interrupt(id, reason, notice, now);
        }
    }

    /// Why an instance may be taken back on short notice.
    pub(super) fn taken_back_as(&self, id: &ProviderId) -> Option<InterruptionReason> {
        let instance = &self.machines.get(id)?.truth;
        if instance.offering.capacity_type == CapacityType::Spot {
            return Some(InterruptionReason::Spot);
        }
        let reserved = self.reservations.get(instance.reservation.as_ref()?)?;
        let is_interruptible = reserved.definition.kind == ReservationKind::Interruptible;
        is_interruptible.then_some(InterruptionReason::Reclaimed)
    }

    /// Begins to shut an instance down. Whether there is one.
    pub(super) fn shut_down(&mut self, id: &ProviderId, now: Timestamp) -> bool {
        let Some(record) = self.machines.get(id) else { return false };
        match record.truth.state {
            InstanceState::Terminated => return false,
            InstanceState::ShuttingDown => return true,
            InstanceState::Pending | InstanceState::Running => {}
        }
        self.power_off(id, false);
        self.change(id, now, |instance| instance.state = InstanceState::ShuttingDown);
        self.at(later(now, self.config.shutdown_delay), Timer::Terminate(id.clone()));
        true
    }

    /// Ends an instance: its slot or stock is free again.
    pub(super) fn terminate(&mut self, id: &ProviderId, now: Timestamp) {
        let Some(record) = self.machines.get_mut(id) else { return };
        if record.truth.state == InstanceState::Terminated {
            return;
        }
        let stock = record.stock.take();
        let reservation = record.truth.reservation.clone();
        self.power_off(id, false);
        self.change(id, now, |instance| {
            instance.state = InstanceState::Terminated;
            instance.reservation = None;
        });
        if let Some(left) = stock.and_then(|key| self.stock.get_mut(&key)) {
            *left = left.saturating_add(1);
            self.n_changes += 1;
        }
        if let Some(reservation) = reservation {
            self.settle_reservation(&reservation, now);
        }
        self.outbox.push_back(CloudEvent::Terminated(id.clone()));
        self.at(later(now, MEMORY), Timer::Forget(id.clone()));
    }

    /// A machine dies without a word: the cloud shows it as it was.
    pub(super) fn die(&mut self, id: &ProviderId) {
        self.power_off(id, true);
    }

    fn power_off(&mut self, id: &ProviderId, died: bool) {
        let Some(record) = self.machines.get_mut(id).filter(|record| !record.is_dead) else { return };
        record.is_dead = true;
        let (provider_id, node_name) = (id.clone(), record.node_name.clone());
        self.outbox.push_back(CloudEvent::Stopped { provider_id, node_name, died });
    }

    fn forget(&mut self, id: &ProviderId) {
        if let Some(token) = self.machines.remove(id).map(|record| record.request.token) {
            self.tokens.remove(&token);
        }
    }
}

/// The reservation whose slot an instance uses.
pub(super) fn slot_of(instance: &Instance) -> Option<&String> {
    instance.reservation.as_ref().filter(|_| instance.state != InstanceState::Terminated)
}

pub(super) fn is_reserved(offering: &OfferingEntry) -> bool {
    offering.capacity_type() == Some(CapacityType::Reserved)
}

/// The key of a catalogue's offering.
pub(super) fn key_of(instance_type: &str, offering: &OfferingEntry) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.to_owned(),
        zone: offering.zone().map(str::to_owned),
        // Every offering of a catalogue has a capacity type.
        capacity_type: offering.capacity_type().unwrap_or(CapacityType::OnDemand),
    }
}
