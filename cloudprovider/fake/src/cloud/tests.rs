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
        avoids_reservations: false,
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

/// The regression: an overlay knew no offering of a reservation that is no part of the catalogue, so machines there lacked what it adds.
#[tokio::test(start_paused = true)]
async fn an_overlay_of_reserved_offerings_adds_to_machines_of_their_types() {
    use berth_catalogue::Catalogue;
    use berth_cloudprovider::CloudProvider;

    use super::{CatalogueOverlay, FakeReservation, NodeClass};

    let cloud = cloud(CloudConfig { boot_delay: SECOND, ..CloudConfig::default() });
    cloud.set_node_class("default", NodeClass::default());
    cloud.set_overlay(Some(CatalogueOverlay::new(|_, catalogue: &Catalogue| {
        let mut types = catalogue.clone().into_types();
        let is_reserved = |own: &berth_catalogue::OfferingEntry| own.capacity_type() == Some(CapacityType::Reserved);
        for entry in types.iter_mut().filter(|entry| entry.offerings.iter().any(is_reserved)) {
            entry.resources.insert("example.com/dev".to_owned(), "2".parse().unwrap());
        }
        Catalogue::new(types).unwrap()
    })));
    let definition =
        FakeReservation { total: 1, instance_types: vec!["m5.large".to_owned()], ..FakeReservation::default() };
    cloud.set_reservation("cr-new", definition);
    let instance = cloud.create(&request(0, on_demand())).await.unwrap().instance;
    assert!(instance.allocatable.contains_key("example.com/dev"), "{:?}", instance.allocatable);
}

#[tokio::test(start_paused = true)]
async fn an_overlay_changes_what_is_paid_and_nothing_that_is_offered() {
    use berth_catalogue::{Catalogue, Money};
    use berth_cloudprovider::CloudProvider;

    use super::{CatalogueOverlay, NodeClass};

    let cloud = cloud(CloudConfig { boot_delay: SECOND, ..CloudConfig::default() });
    cloud.set_node_class("default", NodeClass::default());
    let id = cloud.create(&request(0, on_demand())).await.unwrap().instance.provider_id;
    let offered = cloud.instance_types(&class("default")).await.unwrap().catalogue;
    let full = cloud.hourly_cost();
    let known = cloud.n_price_changes();
    cloud.set_overlay(Some(CatalogueOverlay::new(|_, catalogue: &Catalogue| {
        let mut types = catalogue.clone().into_types();
        for offering in types.iter_mut().flat_map(|entry| &mut entry.offerings) {
            offering.price = Money::from_pico(offering.price.pico() / 2);
        }
        Catalogue::new(types).unwrap()
    })));
    assert!(cloud.n_price_changes() > known);
    assert_eq!(cloud.hourly_cost().times(2), full);
    assert_eq!(cloud.prices(&id).unwrap().list.times(2), full);
    assert_eq!(cloud.instance_types(&class("default")).await.unwrap().catalogue, offered);
    // Prices that change are reduced, too.
    assert!(cloud.set_price(&offering("m5.large", CapacityType::OnDemand), Money::from_dollars(4)));
    assert_eq!(cloud.hourly_cost(), Money::from_dollars(2));
    cloud.set_overlay(None);
    assert_eq!(cloud.hourly_cost(), Money::from_dollars(4));
}
