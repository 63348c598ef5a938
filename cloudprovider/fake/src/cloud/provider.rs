//! The cloud as Berth sees it: every call with the faults of the wire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CapacityReservation, CloudError, CloudProvider, Drift, Instance, InstanceTypes, LaunchRequest, Launched,
    NodeClassStatus, ProviderId, RepairPolicy, ReservationAdoption, Result,
};
use futures::future::BoxFuture;
use jiff::Timestamp;

use super::FakeCloud;
use super::clock::later;
use super::world::{Timer, World};

/// The group and kind of the node classes that the fake cloud serves.
pub const NODE_CLASS: (&str, &str) = ("berth.sh", "FakeNodeClass");

/// What the wire does to a call.
enum Fate {
    Delivered,
    Doubled,
    Refused(CloudError),
    LostRequest,
    LostAnswer,
    Late(Duration),
}

impl World {
    fn fate(&mut self, is_write: bool) -> (Duration, Fate) {
        let faults = self.config.faults.clone();
        let latency = self.dice.up_to(faults.latency);
        let fate = if self.dice.chance(faults.throttled) {
            Fate::Refused(CloudError::Throttled { retry_after: Some(Duration::from_secs(1)) })
        } else if self.dice.chance(faults.unavailable) {
            Fate::Refused(CloudError::Unavailable { message: "the cloud cannot work now".to_owned() })
        } else if self.dice.chance(faults.unauthorized) {
            Fate::Refused(CloudError::Unauthorized { message: "the credentials do not allow this".to_owned() })
        } else if !is_write {
            Fate::Delivered
        } else if self.dice.chance(faults.lost_request) {
            Fate::LostRequest
        } else if self.dice.chance(faults.lost_answer) {
            Fate::LostAnswer
        } else if self.dice.chance(faults.late) {
            Fate::Late(self.dice.up_to(self.config.consistency_lag / 2))
        } else if self.dice.chance(faults.doubled) {
            Fate::Doubled
        } else {
            Fate::Delivered
        };
        (latency, fate)
    }
}

fn lost() -> CloudError {
    CloudError::OutcomeUnknown { message: "the answer was lost".to_owned() }
}

impl FakeCloud {
    async fn read<T>(&self, read: impl FnOnce(&mut World, Timestamp) -> Result<T>) -> Result<T> {
        let (latency, fate) = self.with(|world, _| world.fate(false));
        wait(latency).await;
        match fate {
            Fate::Refused(error) => Err(error),
            _ => self.with(|world, now| read(world, now)),
        }
    }

    async fn write<T>(&self, timer: Timer, write: impl Fn(&mut World, Timestamp) -> Result<T>) -> Result<T> {
        let (latency, fate) = self.with(|world, _| world.fate(true));
        wait(latency).await;
        match fate {
            Fate::Delivered => self.with(&write),
            Fate::Doubled => {
                // The caller gets the first answer; the second reaches nobody.
                let answer = self.with(&write);
                drop(self.with(&write));
                answer
            }
            Fate::Refused(error) => Err(error),
            Fate::LostRequest => Err(lost()),
            Fate::LostAnswer => {
                drop(self.with(&write));
                Err(lost())
            }
            Fate::Late(delay) => {
                self.with(|world, now| world.at(later(now, delay), timer));
                Err(lost())
            }
        }
    }
}

async fn wait(latency: Duration) {
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
}

impl CloudProvider for FakeCloud {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn serves(&self, node_class: &NodeClassRef) -> bool {
        (node_class.group.as_str(), node_class.kind.as_str()) == NODE_CLASS
    }

    fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>> {
        let late = Timer::LateCreate(Box::new(request.clone()));
        Box::pin(self.write(late, move |world, now| world.launch(request, now)))
    }

    fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write(Timer::LateDelete(id.clone()), move |world, now| {
            if world.shut_down(id, now) { Ok(()) } else { Err(CloudError::NotFound { what: format!("instance {id}") }) }
        }))
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>> {
        Box::pin(self.read(move |world, now| world.shown(id, now)))
    }

    fn list<'a>(&'a self, tags: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>> {
        Box::pin(self.read(move |world, now| Ok(world.shown_with(tags, now))))
    }

    fn list_all(&self) -> BoxFuture<'_, Result<Vec<Arc<Instance>>>> {
        Box::pin(self.read(move |world, now| Ok(world.all_shown(now))))
    }

    fn interrupted(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        Box::pin(self.read(move |world, now| Ok(world.shown_interrupted(now))))
    }

    fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>> {
        Box::pin(self.read(move |world, now| {
            let class = world.node_class(&node_class.name)?;
            world.offers(&class, now)
        }))
    }

    fn reservations<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>> {
        Box::pin(self.read(move |world, now| {
            let class = world.node_class(&node_class.name)?;
            Ok(world.shown_reservations(&class, now))
        }))
    }

    fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>> {
        Box::pin(self.read(move |world, _| Ok(world.node_class(&node_class.name)?.status())))
    }

    fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>> {
        Box::pin(self.read(move |world, now| world.drift(node_claim, now)))
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        // As Karpenter's providers have them.
        ["False", "Unknown"]
            .map(|status| RepairPolicy {
                condition_type: "Ready".to_owned(),
                condition_status: status.to_owned(),
                toleration: Duration::from_secs(30 * 60),
            })
            .to_vec()
    }

    fn reservation_adoption(&self) -> ReservationAdoption {
        self.with(|world, _| world.config.adoption)
    }

    fn consistency_lag(&self) -> Duration {
        self.with(|world, _| world.config.consistency_lag)
    }
}
