//! The cloud itself: instances, reservations, stock and faults, by seed and on tokio's time.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! use berth_cloudprovider_fake::cloud::{CloudConfig, CloudEvent, FakeCloud};
//! # use berth_cloudprovider::*;
//! let cloud = FakeCloud::new(CloudConfig { any_node_class: true, ..CloudConfig::default() }, berth_cloudprovider_fake::catalogue());
//! let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
//! tokio::spawn(cloud.clone().run(sender));
//! # let request = LaunchRequest {
//! #     token: "b.1".parse().unwrap(), node_claim: NodeClaimKey { name: "a".into(), uid: "u".into() }, node_pool: "p".into(),
//! #     node_class: berth_api::NodeClassRef { group: "berth.sh".into(), kind: "FakeNodeClass".into(), name: "default".into() },
//! #     target: LaunchTarget::Paid(vec![OfferingKey { instance_type: "m5.large".into(), zone: Some("port-1a".into()),
//! #         capacity_type: berth_catalogue::CapacityType::OnDemand }]),
//! #     labels: Default::default(), taints: vec![], startup_taints: vec![], tags: Default::default(), user_data: None, joins_group: false, avoids_reservations: false };
//! let launched = cloud.create(&request).await?;
//! assert_eq!(launched.instance.state, InstanceState::Pending);
//! assert!(matches!(events.recv().await, Some(CloudEvent::Launched { .. })));
//! // Two seconds later its kubelet starts.
//! let Some(CloudEvent::Booted(machine)) = events.recv().await else { panic!() };
//! assert_eq!(machine.node_name, "m5-large-0001");
//! # Ok::<(), CloudError>(()) }).unwrap();
//! ```

mod clock;
mod config;
mod dice;
mod events;
mod launch;
mod node_class;
mod observe;
mod overlay;
mod provider;
mod reservation;
#[cfg(test)]
mod tests;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_catalogue::{Catalogue, Money};
use berth_cloudprovider::{CapacityReservation, Instance, InstanceState, InterruptionReason, OfferingKey, ProviderId};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

pub use config::{CloudConfig, CloudFaults, Excess};
pub use events::{CloudEvent, Machine, MarketChange};
pub use node_class::NodeClass;
pub use observe::Prices;
pub use overlay::CatalogueOverlay;
pub use provider::NODE_CLASS;
pub use reservation::FakeReservation;

use clock::Clock;
use world::World;

/// A cloud in memory. Clones are the same cloud.
#[derive(Debug, Clone)]
pub struct FakeCloud {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    world: Mutex<World>,
    changed: Notify,
}

// === impl FakeCloud ===

impl FakeCloud {
    /// A cloud that offers the types of a catalogue and has sold its reservations, at the counts that it gives.
    pub fn new(config: CloudConfig, catalogue: Catalogue) -> Self {
        let clock = Clock::starting_at(config.epoch);
        let world = Mutex::new(World::new(config, catalogue));
        Self { inner: Arc::new(Inner { clock, world, changed: Notify::new() }) }
    }

    /// Lets time pass in the cloud and sends what happens, until nobody listens any more.
    pub async fn run(self, events: UnboundedSender<CloudEvent>) {
        loop {
            let changed = self.inner.changed.notified();
            let (happened, due) = self.look(|world, _| (std::mem::take(&mut world.outbox), world.next_due()));
            for event in happened {
                if events.send(event).is_err() {
                    return;
                }
            }
            let due = due.map(|due| self.inner.clock.instant(due));
            tokio::select! {
                biased;
                () = changed => {}
                () = events.closed() => return,
                () = sleep_until(due) => {}
            }
        }
    }

    /// The present, by the cloud's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Changes the faults, from the next call on.
    pub fn set_faults(&self, faults: CloudFaults) {
        self.with(|world, _| world.config.faults = faults);
    }

    /// Defines a node class, or changes it.
    pub fn set_node_class(&self, name: &str, node_class: NodeClass) {
        self.with(|world, _| {
            world.node_classes.insert(name.to_owned(), node_class);
            world.prices_changed();
        });
    }

    /// Removes a node class; its instances stay.
    pub fn remove_node_class(&self, name: &str) {
        self.with(|world, _| {
            world.node_classes.remove(name);
            world.prices_changed();
        });
    }

    /// Defines a reservation, or changes it; its instances stay, however many it holds from now on.
    pub fn set_reservation(&self, id: &str, reservation: FakeReservation) {
        self.with(|world, now| world.set_reservation(id, reservation, now));
    }

    /// Cancels a reservation as if it ended now. Whether there was one.
    pub fn remove_reservation(&self, id: &str) -> bool {
        self.with(|world, now| world.remove_reservation(id, now))
    }

    /// The reservations as they were defined, by id.
    pub fn reservation_definitions(&self) -> BTreeMap<String, FakeReservation> {
        self.with(|world, _| {
            world.reservations.iter().map(|(id, reserved)| (id.clone(), reserved.definition.clone())).collect()
        })
    }

    /// All instance types and all zones that the cloud or one of its node classes offers, whatever is free of them.
    pub fn offered(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        self.with(|world, _| world.offered())
    }

    /// Every reservation with its counts in truth: no lag.
    pub fn reservation_counts(&self) -> Vec<CapacityReservation> {
        self.with(|world, now| {
            let mut shown = world.shown_reservations(&NodeClass::default(), now);
            for reservation in &mut shown {
                reservation.includes = world.members(&reservation.id).into_iter().collect();
                let others =
                    world.reservations.get(&reservation.id).map_or(0, |reserved| reserved.definition.used_by_others);
                let own = u32::try_from(reservation.includes.len()).unwrap_or(u32::MAX);
                reservation.used = own.saturating_add(others);
            }
            shown
        })
    }

    /// Says how many more instances of a paid offering there are; `None` is no limit. Nobody is told: a stock-out shows
    /// when a launch is refused.
    pub fn set_stock(&self, offering: &OfferingKey, left: Option<u32>) {
        self.with(|world, now| {
            world.note(now, offering, MarketChange::Stock(left));
            world.n_changes += 1;
            match left {
                Some(left) => world.stock.insert(offering.clone(), left),
                None => world.stock.remove(offering),
            }
        });
    }

    /// Interrupts a spot instance, or one in an interruptible reservation, with the notice that the configuration has.
    pub fn interrupt(&self, id: &ProviderId) {
        self.with(|world, now| world.take_back(id, world.config.spot_notice, now));
    }

    /// Interrupts a spot instance, or one in an interruptible reservation, with this notice.
    pub fn interrupt_in(&self, id: &ProviderId, notice: Duration) {
        self.with(|world, now| world.take_back(id, notice, now));
    }

    /// Whether an instance can be [interrupted](Self::interrupt): it is on spot, or in an interruptible reservation.
    pub fn is_interruptible(&self, id: &ProviderId) -> bool {
        self.look(|world, _| world.taken_back_as(id).is_some())
    }

    /// Retires an instance's machine after `notice`.
    pub fn retire(&self, id: &ProviderId, notice: Duration) {
        self.with(|world, now| world.interrupt(id, InterruptionReason::Maintenance, notice, now));
    }

    /// Lets a machine die without a word: the cloud goes on showing it as running.
    pub fn kill(&self, id: &ProviderId) {
        self.with(|world, _| world.die(id));
    }

    /// Ends an instance at once, as if someone had terminated it by hand.
    pub fn terminate(&self, id: &ProviderId) {
        self.with(|world, now| world.terminate(id, now));
    }

    /// Every instance in truth, those included that do not show yet and those that are gone.
    pub fn instances(&self) -> Vec<Instance> {
        self.with(|world, _| world.machines.values().map(|record| record.truth.clone()).collect())
    }

    /// How many instances boot or shut down, in truth. To be asked often, as it copies none.
    pub fn n_moving(&self) -> usize {
        let is_moving = |state| matches!(state, InstanceState::Pending | InstanceState::ShuttingDown);
        self.look(|world, _| world.machines.values().filter(|record| is_moving(record.truth.state)).count())
    }

    /// What the instances that are paid for by the hour cost.
    pub fn hourly_cost(&self) -> Money {
        self.with(|world, _| world.hourly_cost())
    }

    /// What an instance costs; `None` where it is unknown, or its type has no price any more.
    pub fn prices(&self, id: &ProviderId) -> Option<Prices> {
        self.look(|world, _| world.prices(id))
    }

    /// How often prices may have changed of instances that run: while it stays, each costs what it did.
    pub fn n_price_changes(&self) -> u64 {
        self.look(|world, _| world.n_price_changes)
    }

    /// Sets the price of a paid offering, for instances that run, too. Whether the cloud's own catalogue has it; those that
    /// node classes bring stay as they are.
    pub fn set_price(&self, offering: &OfferingKey, price: Money) -> bool {
        self.with(|world, now| {
            let is_known = world.set_price(offering, price);
            if is_known {
                world.note(now, offering, MarketChange::Price(price));
            }
            is_known
        })
    }

    /// Sets what is paid for instances and what they have, where that is not what the catalogues say; what is offered stays as it is.
    pub fn set_overlay(&self, overlay: Option<CatalogueOverlay>) {
        self.with(|world, _| world.set_overlay(overlay));
    }

    /// The cloud's own catalogue at the prices that are paid for nodes of any node class.
    pub fn overlaid_catalogue(&self) -> Catalogue {
        self.look(|world, _| world.overlaid_catalogue().clone())
    }

    /// What [`set_stock`](Self::set_stock) and [`set_price`](Self::set_price) were told, without the first `skip`: a recorder
    /// asks for what is new to it.
    pub fn market_changes(&self, skip: usize) -> Vec<(Timestamp, OfferingKey, MarketChange)> {
        self.look(|world, _| world.market.iter().skip(skip).cloned().collect())
    }

    /// Looks at the cloud as it is now, or changes it, and wakes [`run`](Self::run).
    fn with<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let result = self.look(act);
        self.inner.changed.notify_one();
        result
    }

    fn look<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let now = self.inner.clock.now();
        let mut world = self.inner.world.lock();
        world.advance(now);
        act(&mut world, now)
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
