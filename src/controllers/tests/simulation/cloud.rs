//! The cloud as a process in trouble sees it: what befalls its launches and deletions is noted, and the process may die at each.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CapacityReservation, CloudProvider, Drift, Instance, InstanceTypes, LaunchRequest, LaunchTarget, Launched,
    NodeClassStatus, OfferingKey, ProviderId, RepairPolicy, ReservationAdoption, Result,
};
use berth_cloudprovider_fake::cloud::FakeCloud;
use futures::future::BoxFuture;

use crate::trouble::{SOLD_OUT, Trouble};

pub(crate) struct CloudInTrouble {
    cloud: FakeCloud,
    trouble: Trouble,
}

impl CloudInTrouble {
    pub(crate) fn new(cloud: FakeCloud, trouble: Trouble) -> Self {
        Self { cloud, trouble }
    }

    /// A call that changes something, before which `sell_out` takes away what is asked for.
    async fn write<T>(
        &self,
        step: &'static str,
        sell_out: impl FnOnce(),
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let fault = self.trouble.fault_of_cloud(step);
        if fault == Some(SOLD_OUT) {
            sell_out();
        }
        if fault == Some("crash before") {
            self.trouble.crash();
            return std::future::pending().await;
        }
        let answer = call.await;
        if fault == Some("crash after") {
            self.trouble.crash();
            return std::future::pending().await;
        }
        if let Err(error) = &answer {
            self.trouble.note(step, error.category().as_str());
        }
        answer
    }

    /// Nothing is left of the offerings that are asked for, or of the first of them, for up to two minutes. Of a launch on a
    /// slot nothing is sold out.
    fn sell_out(&self, target: &LaunchTarget) {
        let LaunchTarget::Paid(offerings) = target else { return };
        let n = if self.trouble.roll(3) == 0 { 1 } else { offerings.len() };
        let gone: Vec<OfferingKey> = offerings.iter().take(n).cloned().collect();
        for offering in &gone {
            self.cloud.set_stock(offering, Some(0));
        }
        let (cloud, lasts) = (self.cloud.clone(), Duration::from_secs(10 + self.trouble.roll(110)));
        // Whatever becomes of the process that asked.
        tokio::spawn(async move {
            tokio::time::sleep(lasts).await;
            for offering in &gone {
                cloud.set_stock(offering, None);
            }
        });
    }
}

impl CloudProvider for CloudInTrouble {
    fn name(&self) -> &str {
        self.cloud.name()
    }

    fn serves(&self, node_class: &NodeClassRef) -> bool {
        self.cloud.serves(node_class)
    }

    fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>> {
        Box::pin(self.write("cloud create", || self.sell_out(&request.target), self.cloud.create(request)))
    }

    fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write("cloud delete", || {}, self.cloud.delete(id)))
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>> {
        self.cloud.get(id)
    }

    fn list<'a>(&'a self, tags: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>> {
        self.cloud.list(tags)
    }

    fn interrupted(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        self.cloud.interrupted()
    }

    fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>> {
        self.cloud.instance_types(node_class)
    }

    fn reservations<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>> {
        self.cloud.reservations(node_class)
    }

    fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>> {
        self.cloud.node_class_status(node_class)
    }

    fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>> {
        self.cloud.drift(node_claim)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.cloud.repair_policies()
    }

    fn reservation_adoption(&self) -> ReservationAdoption {
        self.cloud.reservation_adoption()
    }

    fn consistency_lag(&self) -> Duration {
        self.cloud.consistency_lag()
    }
}
