//! What the times and counts of reservations do to instances.

use berth_catalogue::CapacityType;
use berth_cloudprovider::{
    CloudError, CloudProvider, InstanceState, InterruptionReason, LaunchRequest, LaunchTarget, ReservationAdoption,
    ReservationKind, ReservationMatching, ReservationState,
};
use jiff::SignedDuration;

use super::{SECOND, class, cloud, offering, on_demand, request, slot};
use crate::cloud::{CloudConfig, FakeCloud, FakeReservation};

fn reservation(total: u32) -> FakeReservation {
    FakeReservation {
        instance_types: vec!["m5.large".to_owned()],
        zones: vec!["port-1a".to_owned()],
        total,
        ..FakeReservation::default()
    }
}

/// A cloud with one reservation, `cr`, that ends in an hour.
fn with(definition: FakeReservation, config: CloudConfig) -> FakeCloud {
    let cloud = cloud(config);
    let end = cloud.now() + SignedDuration::from_hours(1);
    cloud.set_reservation("cr", FakeReservation { end: Some(end), ..definition });
    cloud
}

#[tokio::test(start_paused = true)]
async fn an_on_demand_reservation_that_ends_leaves_its_instances_running_and_paid() {
    let cloud = with(reservation(2), CloudConfig::default());
    let id = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
    assert!(cloud.hourly_cost().is_zero());
    tokio::time::sleep(3601 * SECOND).await;
    let instance = cloud.get(&id).await.unwrap();
    assert_eq!(instance.state, InstanceState::Running);
    assert_eq!((instance.reservation, instance.offering.capacity_type), (None, CapacityType::OnDemand));
    assert_eq!(instance.labels["karpenter.sh/capacity-type"], "on-demand");
    assert!(!instance.labels.contains_key("berth.sh/capacity-reservation-id"));
    assert!(!cloud.hourly_cost().is_zero());
    let refused = cloud.create(&request(2, slot("cr"))).await.unwrap_err();
    assert_eq!(refused.to_string(), "reservation cr has no free slot: it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_warns_its_instances_and_ends_them() {
    let block = FakeReservation { kind: ReservationKind::CapacityBlock, ..reservation(2) };
    let cloud = with(block, CloudConfig::default());
    let id = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
    tokio::time::sleep(3100 * SECOND).await;
    let interruption = cloud.get(&id).await.unwrap().interruption.unwrap();
    assert_eq!(interruption.reason, InterruptionReason::CapacityBlockEnd);
    assert_eq!(cloud.reservation_counts()[0].state, ReservationState::Expiring);
    assert!(matches!(cloud.create(&request(2, slot("cr"))).await, Err(CloudError::ReservationFull { .. })));
    tokio::time::sleep(501 * SECOND).await;
    assert!(matches!(cloud.get(&id).await, Err(CloudError::NotFound { .. })));
}

/// An interruptible reservation of two, both used, with the second one launched later.
async fn interruptible() -> (FakeCloud, [berth_cloudprovider::ProviderId; 2]) {
    let definition = FakeReservation { kind: ReservationKind::Interruptible, ..reservation(2) };
    let cloud = with(definition, CloudConfig::default());
    let first = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
    tokio::time::sleep(SECOND).await;
    let second = cloud.create(&request(2, slot("cr"))).await.unwrap().instance.provider_id;
    (cloud, [first, second])
}

/// Who is told that its owner takes it back, and in how many seconds.
async fn told(cloud: &FakeCloud, id: &berth_cloudprovider::ProviderId) -> Option<i64> {
    let interruption = cloud.get(id).await.unwrap().interruption?;
    assert_eq!(interruption.reason, InterruptionReason::Reclaimed);
    Some(interruption.at.duration_since(cloud.now()).as_secs())
}

#[tokio::test(start_paused = true)]
async fn an_interruptible_reservation_that_is_made_smaller_takes_instances_back_with_two_minutes_notice() {
    let (cloud, [first, second]) = interruptible().await;
    let definition = cloud.reservation_definitions()["cr"].clone();
    cloud.set_reservation("cr", FakeReservation { total: 1, ..definition.clone() });
    assert_eq!((told(&cloud, &first).await, told(&cloud, &second).await), (None, Some(120)));
    // Said again, it takes no other; and until it has gone the slot is used.
    cloud.set_reservation("cr", FakeReservation { total: 1, ..definition });
    assert_eq!(told(&cloud, &first).await, None);
    assert!(matches!(cloud.create(&request(3, slot("cr"))).await, Err(CloudError::ReservationFull { .. })));
    tokio::time::sleep(121 * SECOND).await;
    assert!(matches!(cloud.get(&second).await, Err(CloudError::NotFound { .. })));
    let shown = &cloud.reservation_counts()[0];
    assert_eq!((shown.total, shown.used, shown.kind), (1, 1, ReservationKind::Interruptible));
    assert!(cloud.get(&first).await.unwrap().state.is_alive());
}

#[tokio::test(start_paused = true)]
async fn an_interruptible_reservation_takes_all_back_at_its_end_or_when_it_is_cancelled() {
    let (cloud, [first, second]) = interruptible().await;
    tokio::time::sleep(3500 * SECOND).await;
    assert_eq!(cloud.reservation_counts()[0].state, ReservationState::Expiring);
    assert!(told(&cloud, &first).await.is_some() && told(&cloud, &second).await.is_some());
    tokio::time::sleep(100 * SECOND).await;
    assert!(matches!(cloud.get(&first).await, Err(CloudError::NotFound { .. })), "its end is theirs");

    let (cloud, [first, second]) = interruptible().await;
    assert!(cloud.remove_reservation("cr"));
    assert_eq!((told(&cloud, &first).await, told(&cloud, &second).await), (Some(120), Some(120)));
    tokio::time::sleep(121 * SECOND).await;
    assert!(matches!(cloud.get(&second).await, Err(CloudError::NotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_an_interruptible_reservation_can_be_interrupted_and_one_in_another_cannot() {
    let (cloud, [first, second]) = interruptible().await;
    cloud.interrupt_in(&first, 60 * SECOND);
    assert_eq!((told(&cloud, &first).await, told(&cloud, &second).await), (Some(60), None));
    let cloud = with(reservation(1), CloudConfig::default());
    let id = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
    assert!(!cloud.is_interruptible(&id));
    cloud.interrupt(&id);
    assert_eq!(cloud.get(&id).await.unwrap().interruption, None);
}

#[tokio::test(start_paused = true)]
async fn labels_of_a_catalogue_say_what_the_end_of_a_reservation_does() {
    let offering = |id: &str, more: &str| {
        format!(
            r#"{{"Price": 1, "ReservationCapacity": 1, "Requirements": [
            {{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}},
            {{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}}{more},
            {{"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["{id}"]}}]}}"#
        )
    };
    let label = |key: &str, value: &str| format!(r#",{{"key": "{key}", "operator": "In", "values": ["{value}"]}}"#);
    let offerings = [
        offering("cr", ""),
        offering("cr-back", &label("karpenter.k8s.aws/capacity-reservation-interruptible", "true")),
        offering("cr-block", &label("karpenter.k8s.aws/capacity-reservation-type", "capacity-block")),
    ];
    let text = format!(
        r#"[{{"name": "x", "resources": {{"cpu": "2", "memory": "4Gi"}}, "offerings": [{}]}}]"#,
        offerings.join(",")
    );
    let catalogue = berth_catalogue::read(text.as_bytes(), "test").unwrap();
    let cloud = FakeCloud::new(CloudConfig::default(), catalogue);
    let kinds: Vec<_> =
        cloud.reservation_definitions().into_iter().map(|(id, definition)| (id, definition.kind)).collect();
    let expected = [
        ("cr", ReservationKind::OnDemand),
        ("cr-back", ReservationKind::Interruptible),
        ("cr-block", ReservationKind::CapacityBlock),
    ];
    assert_eq!(kinds, expected.map(|(id, kind)| (id.to_owned(), kind)));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_has_not_begun_serves_nothing() {
    let cloud = cloud(CloudConfig::default());
    let start = cloud.now() + SignedDuration::from_secs(60);
    cloud.set_reservation("cr", FakeReservation { start: Some(start), ..reservation(1) });
    assert!(matches!(cloud.create(&request(1, slot("cr"))).await, Err(CloudError::ReservationFull { .. })));
    let types = cloud.instance_types(&class("default")).await.unwrap();
    assert_eq!(types.catalogue.reservations()["cr"].instances, 0);
    tokio::time::sleep(61 * SECOND).await;
    assert!(cloud.create(&request(1, slot("cr"))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_open_reservation_is_consumed_by_launches_that_did_not_ask() {
    let open = FakeReservation { matching: ReservationMatching::Open, ..reservation(1) };
    let cloud = with(open, CloudConfig::default());
    let first = cloud.create(&request(1, on_demand())).await.unwrap().instance;
    assert_eq!((first.reservation.as_deref(), first.offering.capacity_type), (Some("cr"), CapacityType::Reserved));
    let second = cloud.create(&request(2, on_demand())).await.unwrap().instance;
    assert_eq!((second.reservation, second.offering.capacity_type), (None, CapacityType::OnDemand));
    // Even where on-demand has run out.
    cloud.set_stock(&offering("m5.large", CapacityType::OnDemand), Some(0));
    cloud.terminate(&first.provider_id);
    assert_eq!(cloud.create(&request(3, on_demand())).await.unwrap().instance.reservation.as_deref(), Some("cr"));
    assert!(matches!(cloud.create(&request(4, on_demand())).await, Err(CloudError::InsufficientCapacity { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_running_instance_comes_under_an_open_reservation_where_the_cloud_relabels() {
    for (adoption, expected) in [(ReservationAdoption::Relabel, Some("cr")), (ReservationAdoption::Never, None)] {
        let cloud = cloud(CloudConfig { adoption, ..CloudConfig::default() });
        let ids = [1, 2].map(|number| request(number, on_demand()));
        let first = cloud.create(&ids[0]).await.unwrap().instance.provider_id;
        let second = cloud.create(&ids[1]).await.unwrap().instance.provider_id;
        cloud.set_reservation("cr", FakeReservation { matching: ReservationMatching::Open, ..reservation(1) });
        assert_eq!(cloud.get(&first).await.unwrap().reservation.as_deref(), expected);
        assert_eq!(cloud.get(&second).await.unwrap().reservation, None);
        cloud.terminate(&first);
        assert_eq!(cloud.get(&second).await.unwrap().reservation.as_deref(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_avoids_reservations_is_on_none_though_they_are_open() {
    let cloud = cloud(CloudConfig { adoption: ReservationAdoption::Relabel, ..CloudConfig::default() });
    let open = FakeReservation { matching: ReservationMatching::Open, ..reservation(2) };
    cloud.set_reservation("cr", open.clone());
    let avoiding = LaunchRequest { avoids_reservations: true, ..request(1, on_demand()) };
    let instance = cloud.create(&avoiding).await.unwrap().instance;
    assert_eq!((instance.reservation, instance.offering.capacity_type), (None, CapacityType::OnDemand));
    cloud.set_reservation("cr", FakeReservation { total: 3, ..open });
    assert_eq!(cloud.get(&instance.provider_id).await.unwrap().reservation, None, "nor later");
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_the_group_takes_a_free_slot_now_or_later() {
    let cloud = cloud(CloudConfig { adoption: ReservationAdoption::Group, ..CloudConfig::default() });
    let of_group = |number| LaunchRequest { joins_group: true, ..request(number, on_demand()) };
    let alone = cloud.create(&request(1, on_demand())).await.unwrap().instance.provider_id;
    let first = cloud.create(&of_group(2)).await.unwrap().instance.provider_id;
    cloud.set_reservation("cr", reservation(1));
    assert_eq!(cloud.get(&first).await.unwrap().reservation.as_deref(), Some("cr"));
    let second = cloud.create(&of_group(3)).await.unwrap().instance;
    assert_eq!(second.reservation, None, "the slot is taken");
    cloud.terminate(&first);
    assert_eq!(cloud.get(&second.provider_id).await.unwrap().reservation.as_deref(), Some("cr"));
    cloud.set_reservation("cr", reservation(2));
    let third = cloud.create(&of_group(4)).await.unwrap().instance;
    assert_eq!(third.reservation.as_deref(), Some("cr"));
    assert_eq!(cloud.get(&alone).await.unwrap().reservation, None, "it never joined");
}

#[tokio::test(start_paused = true)]
async fn slots_that_others_use_are_not_free() {
    let cloud = with(FakeReservation { used_by_others: 2, ..reservation(3) }, CloudConfig::default());
    cloud.create(&request(1, slot("cr"))).await.unwrap();
    assert!(matches!(cloud.create(&request(2, slot("cr"))).await, Err(CloudError::ReservationFull { .. })));
    let shown = cloud.reservations(&class("default")).await.unwrap();
    assert_eq!((shown[0].total, shown[0].used, shown[0].includes.len()), (3, 3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reservation_lets_go_of_its_instances() {
    let cloud = with(reservation(1), CloudConfig::default());
    let id = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
    assert!(cloud.remove_reservation("cr"));
    assert!(!cloud.remove_reservation("cr"));
    assert_eq!(cloud.get(&id).await.unwrap().offering.capacity_type, CapacityType::OnDemand);
    assert!(cloud.reservations(&class("default")).await.unwrap().is_empty());
}

/// The regression: nobody was billed for instances that a reservation had no slot for any more.
#[tokio::test(start_paused = true)]
async fn instances_beyond_a_lowered_count_run_on_and_are_paid() {
    for (lowered, released) in [
        (reservation(1), true),
        (FakeReservation { used_by_others: 1, ..reservation(2) }, true),
        (FakeReservation { kind: ReservationKind::CapacityBlock, ..reservation(1) }, false),
    ] {
        let kind = lowered.kind;
        let cloud = with(FakeReservation { kind, ..reservation(2) }, CloudConfig::default());
        let first = cloud.create(&request(1, slot("cr"))).await.unwrap().instance.provider_id;
        tokio::time::sleep(SECOND).await;
        let second = cloud.create(&request(2, slot("cr"))).await.unwrap().instance.provider_id;
        assert!(cloud.hourly_cost().is_zero());
        let end = cloud.now() + SignedDuration::from_hours(1);
        cloud.set_reservation("cr", FakeReservation { end: Some(end), ..lowered });
        let (first, second) = (cloud.get(&first).await.unwrap(), cloud.get(&second).await.unwrap());
        assert_eq!((first.state.is_alive(), second.state.is_alive()), (true, true));
        assert_eq!((first.reservation.is_some(), second.reservation.is_none()), (true, released));
        assert_eq!(second.labels["karpenter.sh/capacity-type"] == "on-demand", released);
        assert_eq!(cloud.hourly_cost().is_zero(), !released);
    }
}

/// The regression: it was counted, in stories and metrics.
#[tokio::test(start_paused = true)]
async fn a_reservation_of_what_nobody_offers_has_no_slots_to_count() {
    let cloud = with(reservation(2), CloudConfig::default());
    let known = |name: &str| vec![name.to_owned()];
    cloud.set_reservation("type", FakeReservation { instance_types: known("m5.huge"), ..reservation(3) });
    cloud.set_reservation("zone", FakeReservation { zones: known("mars"), ..reservation(4) });
    let both = vec!["m5.huge".to_owned(), "m5.large".to_owned()];
    cloud.set_reservation("other", FakeReservation { instance_types: both, ..reservation(5) });
    let counted: Vec<(String, u32)> = cloud.reservation_counts().into_iter().map(|own| (own.id, own.total)).collect();
    assert_eq!(counted, [("cr".to_owned(), 2), ("other".to_owned(), 5)]);
    let shown = cloud.reservations(&class("default")).await.unwrap();
    assert!(shown.iter().map(|own| &*own.id).eq(["cr", "other"]), "{shown:?}");
}

/// The regression: instances were launched in a zone that nobody offers.
#[tokio::test(start_paused = true)]
async fn of_several_zones_a_reservation_offers_those_that_there_are() {
    let zones = ["mars", "port-1a"].map(str::to_owned).to_vec();
    let cloud = with(FakeReservation { zones, ..reservation(2) }, CloudConfig::default());
    let types = cloud.instance_types(&class("default")).await.unwrap();
    let entries = types.catalogue.types().iter().flat_map(|entry| &entry.offerings);
    let reserved = entries.filter(|offering| offering.reservation_capacity.is_some());
    assert_eq!(reserved.map(|offering| offering.zone()).collect::<Vec<_>>(), [Some("port-1a")]);
    assert_eq!(cloud.reservation_counts()[0].total, 2);
    assert!(cloud.create(&request(1, slot("cr"))).await.is_ok(), "the zone that there is has its slots");
    let (reservation, instance_type) = ("cr".to_owned(), "m5.large".to_owned());
    let elsewhere = LaunchTarget::Reserved { reservation, instance_type, zone: Some("mars".to_owned()) };
    let refused = cloud.create(&request(2, elsewhere)).await.unwrap_err();
    assert!(refused.to_string().contains("there is no zone mars"), "{refused}");
}
