//! The fake cloud keeps the promises of a provider under each of its faults.

use std::time::Duration;

use berth_api::NodeClassRef;
use berth_catalogue::CapacityType;
use berth_cloudprovider::conformance::{Report, Subject, run};
use berth_cloudprovider::{
    CloudProvider, OfferingKey, ProviderId, ReservationAdoption, ReservationKind, ReservationMatching,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rstest::rstest;

use super::{class, offering};
use crate::cloud::{CloudConfig, CloudFaults, Excess, FakeCloud, FakeReservation, NodeClass};

struct Fake {
    cloud: FakeCloud,
    faults: CloudFaults,
    n_reservations: Mutex<u32>,
}

impl Subject for Fake {
    fn provider(&self) -> &dyn CloudProvider {
        &self.cloud
    }

    fn node_class(&self) -> NodeClassRef {
        class("default")
    }

    fn offerings(&self) -> [OfferingKey; 2] {
        [offering("m5.large", CapacityType::Spot), offering("m5.large", CapacityType::OnDemand)]
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn exhaust(&self, offering: &OfferingKey, exhausted: bool) -> BoxFuture<'_, bool> {
        self.cloud.set_stock(offering, exhausted.then_some(0));
        Box::pin(async { true })
    }

    fn reserve(&self, offering: &OfferingKey, total: u32) -> BoxFuture<'_, Option<String>> {
        let mut number = self.n_reservations.lock();
        *number += 1;
        let id = format!("cr-{number}");
        self.cloud.set_reservation(&id, definition(offering, total));
        Box::pin(async { Some(id) })
    }

    fn resize(&self, reservation: &str, total: u32) -> BoxFuture<'_, ()> {
        let [offering, _] = self.offerings();
        self.cloud.set_reservation(reservation, definition(&offering, total));
        Box::pin(async {})
    }

    fn deny(&self, denied: bool) -> BoxFuture<'_, bool> {
        let unauthorized = if denied { 1.0 } else { 0.0 };
        self.cloud.set_faults(CloudFaults { unauthorized, ..self.faults.clone() });
        Box::pin(async { true })
    }

    fn reserve_openly(&self, offering: &OfferingKey, total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        let id = "cr-open".to_owned();
        match total {
            Some(total) => {
                let matching = ReservationMatching::Open;
                self.cloud.set_reservation(&id, FakeReservation { matching, ..definition(offering, total) });
            }
            None => drop(self.cloud.remove_reservation(&id)),
        }
        Box::pin(async { Some(id) })
    }

    fn reserve_interruptibly(&self, offering: &OfferingKey, total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        let id = "cr-interruptible".to_owned();
        match total {
            Some(total) => {
                let kind = ReservationKind::Interruptible;
                self.cloud.set_reservation(&id, FakeReservation { kind, ..definition(offering, total) });
            }
            None => drop(self.cloud.remove_reservation(&id)),
        }
        Box::pin(async { Some(id) })
    }

    fn interrupt(&self, id: &ProviderId) -> BoxFuture<'_, bool> {
        self.cloud.retire(id, Duration::from_secs(3600));
        Box::pin(async { true })
    }
}

fn definition(offering: &OfferingKey, total: u32) -> FakeReservation {
    FakeReservation {
        instance_types: vec![offering.instance_type.clone()],
        zones: offering.zone.clone().into_iter().collect(),
        total,
        ..FakeReservation::default()
    }
}

async fn report(faults: CloudFaults, seed: u64) -> Report {
    let adoption = ReservationAdoption::Group;
    let config =
        CloudConfig { seed, adoption, faults: faults.clone(), excess: Excess::Untold, ..CloudConfig::default() };
    let cloud = FakeCloud::new(config, crate::catalogue());
    cloud.set_node_class("default", NodeClass::default());
    run(&Fake { cloud, faults, n_reservations: Mutex::new(0) }, "run").await
}

fn lag() -> Duration {
    Duration::from_secs(2)
}

#[rstest]
#[case::none(CloudFaults::default())]
#[case::throttled(CloudFaults { throttled: 0.5, ..CloudFaults::default() })]
#[case::unavailable(CloudFaults { unavailable: 0.5, ..CloudFaults::default() })]
#[case::lost_request(CloudFaults { lost_request: 0.5, ..CloudFaults::default() })]
#[case::lost_answer(CloudFaults { lost_answer: 0.5, ..CloudFaults::default() })]
#[case::late(CloudFaults { late: 0.5, ..CloudFaults::default() })]
#[case::doubled(CloudFaults { doubled: 0.5, ..CloudFaults::default() })]
#[case::lag(CloudFaults { lag: lag(), ..CloudFaults::default() })]
#[case::latency(CloudFaults { latency: lag(), ..CloudFaults::default() })]
#[case::machines(CloudFaults { never_boots: 0.3, never_joins: 0.3, dies_within_an_hour: 0.5, ..CloudFaults::default() })]
#[case::all(CloudFaults {
    unauthorized: 0.0,
    throttled: 0.1, unavailable: 0.1, lost_request: 0.1, lost_answer: 0.2, late: 0.2, doubled: 0.2, lag: lag(),
    latency: lag(), never_boots: 0.1, never_joins: 0.1, dies_within_an_hour: 0.1, interrupted_within_an_hour: 0.1,
})]
#[tokio::test(start_paused = true)]
async fn promises_are_kept_under_each_fault(#[case] faults: CloudFaults) {
    for seed in 0..8 {
        let report = report(faults.clone(), seed).await;
        assert!(report.broken.is_empty() && report.skipped.is_empty(), "seed {seed}: {report}");
        assert_eq!(report.kept.len(), 22);
    }
}

/// The suite sees a provider that breaks its word: here an answer that is lost although nobody says so.
#[tokio::test(start_paused = true)]
async fn a_lag_beyond_the_promised_one_is_seen() {
    let config = CloudConfig { consistency_lag: Duration::ZERO, ..CloudConfig::default() };
    let cloud = FakeCloud::new(config, crate::catalogue());
    cloud.set_node_class("default", NodeClass::default());
    let slow = SlowToShow(Fake { cloud, faults: CloudFaults::default(), n_reservations: Mutex::new(0) });
    let report = run(&slow, "run").await;
    assert!(report.broken.iter().any(|(name, _)| *name == "an instance is found by its tags"), "{report}");
}

/// A cloud that promises to show at once what it does not.
struct SlowToShow(Fake);

impl Subject for SlowToShow {
    fn provider(&self) -> &dyn CloudProvider {
        self
    }

    fn node_class(&self) -> NodeClassRef {
        self.0.node_class()
    }

    fn offerings(&self) -> [OfferingKey; 2] {
        self.0.offerings()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.0.sleep(time)
    }

    fn exhaust(&self, offering: &OfferingKey, exhausted: bool) -> BoxFuture<'_, bool> {
        self.0.exhaust(offering, exhausted)
    }

    fn reserve(&self, offering: &OfferingKey, total: u32) -> BoxFuture<'_, Option<String>> {
        self.0.reserve(offering, total)
    }

    fn resize(&self, reservation: &str, total: u32) -> BoxFuture<'_, ()> {
        self.0.resize(reservation, total)
    }
}

mod slow {
    //! Forwards all but `list`, which shows nothing.
    use super::*;
    use berth_api::NodeClaim;
    use berth_cloudprovider::*;
    use std::collections::BTreeMap;

    impl CloudProvider for SlowToShow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn serves(&self, node_class: &NodeClassRef) -> bool {
            self.0.cloud.serves(node_class)
        }
        fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>> {
            self.0.cloud.create(request)
        }
        fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>> {
            self.0.cloud.delete(id)
        }
        fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>> {
            self.0.cloud.get(id)
        }
        fn list<'a>(&'a self, _: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>> {
            Box::pin(async { Ok(Vec::new()) })
        }
        fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>> {
            self.0.cloud.instance_types(node_class)
        }
        fn reservations<'a>(&'a self, class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>> {
            self.0.cloud.reservations(class)
        }
        fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>> {
            self.0.cloud.node_class_status(node_class)
        }
        fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>> {
            self.0.cloud.drift(node_claim)
        }
        fn consistency_lag(&self) -> Duration {
            self.0.cloud.consistency_lag()
        }
    }
}
