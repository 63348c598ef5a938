//! What the cloud tells of its machines.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_catalogue::{CapacityType, Catalogue};
use berth_cloudprovider::{CloudError, CloudProvider, InstanceState, LaunchTarget};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{SECOND, class, cloud, offering, on_demand, request};
use crate::cloud::{CloudConfig, CloudEvent, CloudFaults, FakeCloud, FakeReservation, NodeClass};

fn running(cloud: &FakeCloud) -> UnboundedReceiver<CloudEvent> {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(cloud.clone().run(sender));
    receiver
}

async fn next(events: &mut UnboundedReceiver<CloudEvent>) -> Option<CloudEvent> {
    tokio::time::timeout(3600 * SECOND, events.recv()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_after_its_boot_and_registration_delays_with_all_its_labels_and_taints() {
    let cloud = cloud(CloudConfig::default());
    cloud.set_node_class("default", NodeClass { registration_delay: 30 * SECOND, ..NodeClass::default() });
    let mut events = running(&cloud);
    let start = cloud.now();
    cloud.create(&request(1, on_demand())).await.unwrap();
    assert!(matches!(next(&mut events).await, Some(CloudEvent::Launched { .. })));
    let Some(CloudEvent::Booted(machine)) = next(&mut events).await else { panic!("no machine booted") };
    assert_eq!(cloud.now().duration_since(start).as_secs(), 32);
    assert_eq!(machine.instance.state, InstanceState::Running);
    let label = |key: &str| machine.labels.get(key).map(String::as_str);
    assert_eq!(label("team"), Some("a"));
    assert_eq!(label("topology.kubernetes.io/zone"), Some("port-1a"));
    assert_eq!(label("karpenter.sh/capacity-type"), Some("on-demand"));
    assert_eq!(label("kubernetes.io/arch"), Some("amd64"));
    assert_eq!(machine.taints[0].key, "karpenter.sh/unregistered");
    assert!(machine.instance.capacity["memory"] > machine.instance.allocatable["memory"]);
}

#[tokio::test(start_paused = true)]
async fn clouds_that_follow_each_other_call_no_two_machines_the_same() {
    let mut known = BTreeSet::new();
    for incarnation in ["", "k7x2b", "qq5zd"] {
        let cloud = cloud(CloudConfig { incarnation: incarnation.to_owned(), ..CloudConfig::default() });
        let mut events = running(&cloud);
        let id = cloud.create(&request(1, on_demand())).await.unwrap().instance.provider_id;
        next(&mut events).await;
        let Some(CloudEvent::Booted(machine)) = next(&mut events).await else { panic!("no machine booted") };
        assert!(known.insert(id.0.clone()), "{id:?}");
        assert!(known.insert(machine.node_name.clone()), "{}", machine.node_name);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_class_offers_is_made_anew_only_where_it_has_changed() {
    let cloud = cloud(CloudConfig::default());
    let offers = || async { cloud.instance_types(&class("default")).await.unwrap().catalogue };
    let key = offering("m5.large", CapacityType::OnDemand);
    let first = offers().await;
    assert!(Arc::ptr_eq(&first, &offers().await));
    let price = |catalogue: &Catalogue| {
        let own = catalogue.types().iter().find(|entry| entry.name == key.instance_type).unwrap();
        own.offerings.iter().find(|own| own.capacity_type() == Some(CapacityType::OnDemand)).unwrap().price
    };
    let dearer = price(&first) + price(&first);
    cloud.set_price(&key, dearer);
    let second = offers().await;
    assert_eq!(price(&second), dearer);
    cloud.set_node_class("default", NodeClass { zones: vec!["port-1b".to_owned()], ..NodeClass::default() });
    let third = offers().await;
    assert!(third.types().iter().flat_map(|entry| &entry.offerings).all(|own| own.zone() == Some("port-1b")));
    let slots = FakeReservation {
        total: 2,
        instance_types: vec!["m5.large".to_owned()],
        zones: vec!["port-1b".to_owned()],
        ..FakeReservation::default()
    };
    cloud.set_reservation("cr-1", slots);
    assert!(offers().await.types().iter().flat_map(|entry| &entry.offerings).any(|own| own.reservation_id().is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_dies_is_shown_as_running_and_its_kubelet_is_gone() {
    let cloud = cloud(CloudConfig::default());
    let mut events = running(&cloud);
    let id = cloud.create(&request(1, on_demand())).await.unwrap().instance.provider_id;
    next(&mut events).await;
    next(&mut events).await;
    cloud.kill(&id);
    assert!(matches!(next(&mut events).await, Some(CloudEvent::Stopped { died: true, .. })));
    assert_eq!(cloud.get(&id).await.unwrap().state, InstanceState::Running);
    cloud.delete(&id).await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    assert!(matches!(cloud.get(&id).await, Err(CloudError::NotFound { .. })));
    assert_eq!(events.try_recv(), Ok(CloudEvent::Terminated(id)));
    assert!(events.try_recv().is_err(), "a dead machine stopped again");
}

#[tokio::test(start_paused = true)]
async fn a_spot_instance_gets_notice_before_it_ends() {
    let cloud = cloud(CloudConfig::default());
    let mut events = running(&cloud);
    let spot = LaunchTarget::Paid(vec![offering("m5.large", CapacityType::Spot)]);
    let spot = cloud.create(&request(1, spot)).await.unwrap().instance.provider_id;
    let paid = cloud.create(&request(2, on_demand())).await.unwrap().instance.provider_id;
    tokio::time::sleep(10 * SECOND).await;
    cloud.interrupt(&spot);
    cloud.interrupt(&paid);
    tokio::time::sleep(119 * SECOND).await;
    assert!(cloud.get(&spot).await.unwrap().interruption.is_some());
    assert!(cloud.get(&paid).await.unwrap().interruption.is_none(), "an on-demand instance was interrupted as spot");
    tokio::time::sleep(2 * SECOND).await;
    assert!(matches!(cloud.get(&spot).await, Err(CloudError::NotFound { .. })));
    assert!(cloud.get(&paid).await.is_ok());
    let mut names = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event {
            CloudEvent::Interrupted { provider_id, .. } => names.push(("interrupted", provider_id)),
            CloudEvent::Stopped { provider_id, .. } => names.push(("stopped", provider_id)),
            _ => {}
        }
    }
    assert_eq!(names, [("interrupted", spot.clone()), ("stopped", spot)]);
}

#[tokio::test(start_paused = true)]
async fn counted_stock_runs_out_and_comes_back() {
    let cloud = cloud(CloudConfig::default());
    let key = offering("m5.large", CapacityType::OnDemand);
    cloud.set_stock(&key, Some(1));
    let id = cloud.create(&request(1, on_demand())).await.unwrap().instance.provider_id;
    let refused = cloud.create(&request(2, on_demand())).await.unwrap_err();
    assert_eq!(refused, CloudError::InsufficientCapacity { offerings: vec![key] });
    cloud.delete(&id).await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    assert!(cloud.create(&request(2, on_demand())).await.is_ok());
}

/// The same seed and calls give the same cloud, under every fault.
#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_cloud() {
    let run = async |seed: u64| {
        let faults = CloudFaults {
            throttled: 0.2,
            lost_answer: 0.2,
            late: 0.2,
            lag: 2 * SECOND,
            latency: SECOND,
            dies_within_an_hour: 0.5,
            ..CloudFaults::default()
        };
        let cloud = cloud(CloudConfig { seed, faults, boot_jitter: Duration::from_secs(60), ..CloudConfig::default() });
        let mut events = running(&cloud);
        let mut said = Vec::new();
        for number in 1..40 {
            said.push(format!("{:?}", cloud.create(&request(number, on_demand())).await));
        }
        tokio::time::sleep(3600 * SECOND).await;
        while let Ok(event) = events.try_recv() {
            said.push(format!("{event:?}"));
        }
        said
    };
    let first = run(1).await;
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
}
