//! A cloud behind its server keeps the promises of a provider, and loses no launch on the way.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::NodeClassRef;
use berth_catalogue::{CapacityType, Catalogue};
use berth_cloudprovider::conformance::{Subject, run};
use berth_cloudprovider::{
    CloudError, CloudProvider, LaunchRequest, LaunchTarget, LaunchToken, NodeClaimKey, OfferingKey, ProviderId,
    ReservationAdoption, ReservationKind, ReservationMatching,
};
use berth_cloudprovider_fake::cloud::{
    CloudConfig, CloudFaults, Excess, FakeCloud, FakeReservation, NODE_CLASS, NodeClass,
};
use berth_cloudprovider_remote::{RemoteCloud, Server};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Behind {
    cloud: FakeCloud,
    remote: RemoteCloud,
    faults: CloudFaults,
    n_reservations: Mutex<u32>,
}

fn class() -> NodeClassRef {
    let (group, kind) = NODE_CLASS;
    NodeClassRef { group: group.to_owned(), kind: kind.to_owned(), name: "default".to_owned() }
}

fn offering(capacity_type: CapacityType) -> OfferingKey {
    OfferingKey { instance_type: "m5.large".to_owned(), zone: Some("port-1a".to_owned()), capacity_type }
}

impl Behind {
    fn define(&self, id: &str, total: u32) {
        let offering = offering(CapacityType::Spot);
        let definition = FakeReservation {
            instance_types: vec![offering.instance_type],
            zones: offering.zone.into_iter().collect(),
            total,
            ..FakeReservation::default()
        };
        self.cloud.set_reservation(id, definition);
    }
}

fn definition(offering: &OfferingKey, total: Option<u32>) -> FakeReservation {
    FakeReservation {
        instance_types: vec![offering.instance_type.clone()],
        zones: offering.zone.clone().into_iter().collect(),
        total: total.unwrap_or_default(),
        ..FakeReservation::default()
    }
}

impl Behind {
    /// Makes or changes a reservation, or takes it away. Returns its id.
    fn reserve(&self, id: &str, definition: Option<FakeReservation>) -> String {
        match definition {
            Some(definition) => self.cloud.set_reservation(id, definition),
            None => drop(self.cloud.remove_reservation(id)),
        }
        id.to_owned()
    }
}

impl Subject for Behind {
    fn provider(&self) -> &dyn CloudProvider {
        &self.remote
    }

    fn node_class(&self) -> NodeClassRef {
        class()
    }

    fn offerings(&self) -> [OfferingKey; 2] {
        [CapacityType::Spot, CapacityType::OnDemand].map(offering)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn exhaust(&self, offering: &OfferingKey, exhausted: bool) -> BoxFuture<'_, bool> {
        self.cloud.set_stock(offering, exhausted.then_some(0));
        Box::pin(async { true })
    }

    fn reserve(&self, _: &OfferingKey, total: u32) -> BoxFuture<'_, Option<String>> {
        let mut number = self.n_reservations.lock();
        *number += 1;
        let id = format!("cr-{number}");
        self.define(&id, total);
        Box::pin(async { Some(id) })
    }

    fn resize(&self, reservation: &str, total: u32) -> BoxFuture<'_, ()> {
        self.define(reservation, total);
        Box::pin(async {})
    }

    fn deny(&self, denied: bool) -> BoxFuture<'_, bool> {
        let unauthorized = if denied { 1.0 } else { 0.0 };
        self.cloud.set_faults(CloudFaults { unauthorized, ..self.faults.clone() });
        Box::pin(async { true })
    }

    fn reserve_openly(&self, offering: &OfferingKey, total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        let definition = FakeReservation { matching: ReservationMatching::Open, ..definition(offering, total) };
        Box::pin(std::future::ready(Some(self.reserve("cr-open", total.map(|_| definition)))))
    }

    fn reserve_interruptibly(&self, offering: &OfferingKey, total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        let definition = FakeReservation { kind: ReservationKind::Interruptible, ..definition(offering, total) };
        Box::pin(std::future::ready(Some(self.reserve("cr-interruptible", total.map(|_| definition)))))
    }

    fn interrupt(&self, id: &ProviderId) -> BoxFuture<'_, bool> {
        self.cloud.retire(id, Duration::from_secs(3600));
        Box::pin(async { true })
    }
}

/// A cloud that needs milliseconds for what takes others seconds.
fn quick(faults: CloudFaults) -> FakeCloud {
    let short = Duration::from_millis(20);
    let config = CloudConfig {
        boot_delay: short,
        shutdown_delay: short,
        consistency_lag: short * 2,
        faults,
        adoption: ReservationAdoption::Group,
        excess: Excess::Untold,
        ..CloudConfig::default()
    };
    // The whole catalogue takes a while to go over the wire each time, without optimisation.
    let types = berth_cloudprovider_fake::catalogue().into_types().into_iter();
    let catalogue = Catalogue::new(types.filter(|own| own.name.starts_with("m5.")).collect()).unwrap();
    let cloud = FakeCloud::new(config, catalogue);
    cloud.set_node_class("default", NodeClass::default());
    cloud
}

async fn serve(cloud: &FakeCloud) -> (Server, RemoteCloud) {
    let (group, kind) = NODE_CLASS;
    let kinds = vec![(group.to_owned(), kind.to_owned())];
    let server = Server::start(([127, 0, 0, 1], 0).into(), Arc::new(cloud.clone()), kinds).await.unwrap();
    let remote = RemoteCloud::connect(server.address()).await.unwrap();
    (server, remote)
}

#[tokio::test]
async fn a_cloud_keeps_its_promises_behind_its_server() {
    let doubled = CloudFaults { doubled: 0.5, lost_answer: 0.2, ..CloudFaults::default() };
    for faults in [CloudFaults::default(), doubled] {
        let cloud = quick(faults.clone());
        let (_server, remote) = serve(&cloud).await;
        let report = run(&Behind { cloud, remote, faults, n_reservations: Mutex::new(0) }, "run").await;
        assert!(report.broken.is_empty() && report.skipped.is_empty(), "{report}");
        assert_eq!(report.kept.len(), 22);
    }
}

#[tokio::test]
async fn what_a_provider_says_of_itself_comes_through() {
    let cloud = quick(CloudFaults::default());
    let (_server, remote) = serve(&cloud).await;
    assert_eq!(remote.name(), cloud.name());
    assert!(remote.serves(&class()));
    assert!(!remote.serves(&NodeClassRef { kind: "EC2NodeClass".to_owned(), ..class() }));
    assert_eq!(remote.repair_policies(), cloud.repair_policies());
    assert_eq!(remote.consistency_lag(), cloud.consistency_lag());
    let [own, other] = [remote.instance_types(&class()).await.unwrap(), cloud.instance_types(&class()).await.unwrap()];
    assert_eq!(own.catalogue.types(), other.catalogue.types());
}

fn request() -> LaunchRequest {
    LaunchRequest {
        token: LaunchToken::new("test", 1).unwrap(),
        node_claim: NodeClaimKey { name: "web-1".to_owned(), uid: "u-1".to_owned() },
        node_pool: "web".to_owned(),
        node_class: class(),
        target: LaunchTarget::Paid(vec![offering(CapacityType::OnDemand)]),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        tags: BTreeMap::new(),
        user_data: None,
        joins_group: false,
        avoids_reservations: false,
    }
}

/// Who takes a request and says nothing may have launched; who is not there has not.
#[tokio::test]
async fn a_launch_without_an_answer_is_of_unknown_outcome_and_one_unsent_is_not() {
    let cloud = quick(CloudFaults::default());
    let (server, remote) = serve(&cloud).await;
    let address = server.address();
    drop(server);
    // Its task ends, and its port with it.
    let listener = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mute = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = [0; 64];
        let _ = socket.read(&mut some).await.unwrap();
        socket.shutdown().await.unwrap();
    });
    let lost = remote.create(&request()).await.unwrap_err();
    assert!(matches!(lost, CloudError::OutcomeUnknown { .. }), "{lost}");
    mute.await.unwrap();
    let unsent = remote.create(&request()).await.unwrap_err();
    assert!(matches!(unsent, CloudError::Unavailable { .. }), "{unsent}");
    assert!(RemoteCloud::connect(address).await.unwrap_err().to_string().starts_with("no cloud answers at 127.0.0.1:"));
}

#[tokio::test]
async fn an_address_beyond_loopback_is_refused() {
    let cloud = Arc::new(quick(CloudFaults::default()));
    let error = Server::start(([0, 0, 0, 0], 0).into(), cloud, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("expected an address of loopback"), "{error}");
}
