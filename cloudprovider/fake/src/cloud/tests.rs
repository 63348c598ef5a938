//! The conformance suite against the cloud in every kind of trouble, and what the cloud does by itself.

mod conformance;
mod reservations;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::NodeClassRef;
use berth_catalogue::CapacityType;
use berth_cloudprovider::{LaunchRequest, LaunchTarget, LaunchToken, NodeClaimKey, OfferingKey};

use super::{CloudConfig, FakeCloud, NODE_CLASS};

fn class(name: &str) -> NodeClassRef {
    NodeClassRef { group: NODE_CLASS.0.to_owned(), kind: NODE_CLASS.1.to_owned(), name: name.to_owned() }
}

fn offering(instance_type: &str, capacity_type: CapacityType) -> OfferingKey {
    OfferingKey { instance_type: instance_type.to_owned(), zone: Some("port-1a".to_owned()), capacity_type }
}

fn request(number: u32, target: LaunchTarget) -> LaunchRequest {
    LaunchRequest {
        token: LaunchToken::new("test", number).unwrap(),
        node_claim: NodeClaimKey { name: format!("claim-{number}"), uid: format!("uid-{number}") },
        node_pool: "default".to_owned(),
        node_class: class("default"),
        target,
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        tags: BTreeMap::new(),
        user_data: None,
        joins_group: false,
    }
}

fn slot(reservation: &str) -> LaunchTarget {
    LaunchTarget::Reserved {
        reservation: reservation.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: Some("port-1a".to_owned()),
    }
}

fn on_demand() -> LaunchTarget {
    LaunchTarget::Paid(vec![offering("m5.large", CapacityType::OnDemand)])
}

fn cloud(config: CloudConfig) -> FakeCloud {
    FakeCloud::new(CloudConfig { any_node_class: true, ..config }, crate::catalogue())
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn instances_that_are_as_they_were_are_listed_without_a_copy() {
    use std::sync::Arc;

    use berth_cloudprovider::CloudProvider;

    let cloud = cloud(CloudConfig { boot_delay: SECOND, ..CloudConfig::default() });
    for number in 0..2 {
        cloud.create(&request(number, on_demand())).await.unwrap();
    }
    let first = cloud.list_all().await.unwrap();
    let copies = cloud.list(&BTreeMap::new()).await.unwrap();
    assert_eq!(first.iter().map(|instance| &**instance).collect::<Vec<_>>(), copies.iter().collect::<Vec<_>>());
    cloud.delete(&first[0].provider_id).await.unwrap();
    let then = cloud.list_all().await.unwrap();
    assert_eq!([0, 1].map(|at| Arc::ptr_eq(&first[at], &then[at])), [false, true]);
}
