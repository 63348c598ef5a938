//! Pending pods become nodes: scenarios against the Kubernetes API alone, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_catalogue::{CapacityType, Catalogue};
use berth_cloudprovider::OfferingKey;
use berth_cloudprovider_fake::cloud::{CloudFaults, FakeReservation};
use berth_controllers::{Ceiling, Ceilings, Money};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::trouble::Rates;
use crate::world::World;

pub(crate) fn catalogue() -> Catalogue {
    let text = include_bytes!("../../../../examples/catalogues/four-slots.yaml");
    berth_catalogue::read(text, "four-slots.yaml").unwrap()
}

pub(crate) fn pool(name: &str, capacity_types: &[&str]) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
    "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    "template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}],
    }}}})
}

/// Pods of which three fit on an m5.xlarge.
pub(crate) fn web(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
            "name": "web", "image": "web", "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}}}})
}

async fn world(faults: CloudFaults, capacity_types: &[&str]) -> World {
    let mut world = World::with(1, Rates::default(), faults, catalogue()).await;
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", capacity_types)).await;
    world
}

pub(crate) fn fleet(of: &[(&str, &str, usize)]) -> BTreeMap<(String, String), usize> {
    of.iter().map(|(of_type, on, n)| (((*of_type).to_owned(), (*on).to_owned()), *n)).collect()
}

pub(crate) async fn state_of(world: &World) -> String {
    let pods: Vec<String> = world
        .pods()
        .await
        .into_iter()
        .map(|pod| {
            let status = pod.status.unwrap_or_default();
            let why = status.conditions.into_iter().flatten().find(|known| known.type_ == "PodScheduled");
            format!("{:?} {:?} {:?}", pod.metadata.name, pod.spec.and_then(|spec| spec.node_name), why)
        })
        .collect();
    let claims: Vec<String> = world
        .claims()
        .await
        .into_iter()
        .map(|claim| {
            let going = claim.metadata.deletion_timestamp.map(|time| time.0);
            format!("{:?} {going:?} {:?}", claim.metadata.name, claim.status.map(|status| status.conditions))
        })
        .collect();
    let nodes: Vec<String> = world
        .nodes()
        .await
        .into_iter()
        .map(|node| {
            let going = node.metadata.deletion_timestamp.map(|time| time.0);
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let taints: Vec<String> = taints.into_iter().map(|taint| taint.key).collect();
            format!("{:?} {going:?} {taints:?} {:?}", node.metadata.name, node.metadata.finalizers)
        })
        .collect();
    format!("fleet {:?}\nnodes {nodes:#?}\npods {pods:#?}\nclaims {claims:#?}", world.fleet())
}

pub(crate) async fn run(world: &World, n: usize) {
    let there = world.settles(10, async |world| world.all_run().await == Some(n)).await;
    assert!(there, "{n} pods do not run: {}", state_of(world).await);
}

async fn is_empty(world: &World) {
    let gone = world
        .settles(10, async |world| {
            world.alive().is_empty() && world.claims().await.is_empty() && world.nodes().await.is_empty()
        })
        .await;
    assert!(gone, "nodes stay: {}", state_of(world).await);
}

#[tokio::test(start_paused = true)]
async fn pods_get_slots_first_then_paid_nodes_and_all_go_with_their_work() {
    let world = world(CloudFaults::default(), &["on-demand", "reserved"]).await;
    world.deploy(web(14)).await;
    run(&world, 14).await;
    let expected = fleet(&[("m5.xlarge", "cr-web", 4), ("m5.xlarge", "on-demand", 1)]);
    assert_eq!(world.fleet(), expected, "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), 5, "each node was launched once");
    world.scale("web", 6).await;
    run(&world, 6).await;
    world.scale("web", 0).await;
    is_empty(&world).await;
    assert_eq!(world.violations(), Vec::<String>::new());
    // The slots came back.
    world.scale("web", 3).await;
    run(&world, 3).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "cr-web", 1)]), "{}", state_of(&world).await);
}

/// Victims take six seconds to stop: who makes them give way is not bound before they are gone.
#[tokio::test(start_paused = true)]
async fn who_preempts_is_bound_once_its_victims_are_gone() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut limited = pool("web", &["on-demand"]);
    limited["spec"]["limits"] = json!({"cpu": "4"});
    limited["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    world.create::<berth_api::NodePool>(limited).await;
    world
        .create::<k8s_openapi::api::scheduling::v1::PriorityClass>(json!({"metadata": {"name": "high"}, "value": 1000}))
        .await;
    let mut low = web(3);
    low["spec"]["template"]["metadata"]["annotations"] = json!({"berth.sh/stops-after": "6s"});
    world.deploy(low).await;
    run(&world, 3).await;
    let mut high = web(2);
    high["metadata"]["name"] = json!("high");
    high["spec"]["selector"]["matchLabels"]["app"] = json!("high");
    high["spec"]["template"]["metadata"]["labels"]["app"] = json!("high");
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
    world.deploy(high).await;
    let there = world
        .settles(10, async |world| {
            let pods = world.pods().await;
            let runs = |pod: &&Pod| {
                let is_high = pod.metadata.labels.as_ref().is_some_and(|labels| labels["app"] == "high");
                is_high && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            };
            pods.iter().filter(runs).count() == 2
        })
        .await;
    assert!(there, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
    assert_eq!(world.pods().await.len(), 5, "no pod was made in vain: {}", state_of(&world).await);
}

/// How long after its NodeClaim a slot is used again must not depend on when the cloud is asked for its counts.
#[tokio::test(start_paused = true)]
async fn slots_of_nodes_that_are_gone_are_used_at_once_though_the_last_count_is_old() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(3600);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["reserved"])).await;
    world.deploy(web(12)).await;
    run(&world, 12).await;
    let all_slots = fleet(&[("m5.xlarge", "cr-web", 4)]);
    assert_eq!(world.fleet(), all_slots, "{}", state_of(&world).await);
    // A count that sees them all is the last for an hour.
    tokio::time::sleep(Duration::from_secs(3601)).await;
    world.scale("web", 0).await;
    for _ in 0..6000 {
        if world.claims().await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The pods are planned together a second later: the cloud shows what has ended only four seconds after that.
    world.scale("web", 12).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.claims().await.len(), 4, "planned before the cloud was asked again: {}", state_of(&world).await);
    run(&world, 12).await;
    assert_eq!(world.fleet(), all_slots, "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), 4, "each node was launched once");
    assert_eq!((world.n_full(), world.violations()), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn what_a_reservation_lowered_while_launching_refuses_is_launched_elsewhere() {
    let slow = CloudFaults { latency: Duration::from_secs(3), ..CloudFaults::default() };
    let world = world(slow, &["on-demand", "reserved"]).await;
    world.deploy(web(12)).await;
    for _ in 0..200 {
        if world.claims().await.len() >= 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.claims().await.len() >= 4 && world.alive().is_empty(), "{}", state_of(&world).await);
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    world.cloud.set_reservation("cr-web", FakeReservation { total: 1, ..before });
    run(&world, 12).await;
    let on_slots: usize = world.fleet().iter().filter(|((_, on), _)| on == "cr-web").map(|(_, n)| *n).sum();
    assert_eq!(on_slots, 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

fn on_demand(of_type: &str, zone: &str) -> OfferingKey {
    let (instance_type, zone) = (of_type.to_owned(), Some(zone.to_owned()));
    OfferingKey { instance_type, zone, capacity_type: CapacityType::OnDemand }
}

#[tokio::test(start_paused = true)]
async fn a_stock_out_is_said_on_the_pods_and_ends_by_itself() {
    let world = world(CloudFaults::default(), &["on-demand"]).await;
    let all: Vec<OfferingKey> = ["m5.large", "m5.xlarge", "m5.2xlarge"]
        .into_iter()
        .flat_map(|of_type| ["port-1a", "port-1b"].map(|zone| on_demand(of_type, zone)))
        .collect();
    for offering in &all {
        world.cloud.set_stock(offering, Some(0));
    }
    world.deploy(web(3)).await;
    let said = world
        .settles(5, async |world| {
            let pods = world.pods().await;
            pods.len() == 3
                && pods.iter().all(|pod| {
                    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                    conditions.into_iter().any(|known| {
                        known.type_ == "PodScheduled"
                            && known.status == "False"
                            && known.reason.as_deref() == Some("Unschedulable")
                    })
                })
        })
        .await;
    assert!(said, "{}", state_of(&world).await);
    assert!(world.alive().is_empty());
    let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
    assert!(events.items.iter().any(|event| event.reason.as_deref() == Some("FailedScheduling")));
    for offering in &all {
        world.cloud.set_stock(offering, None);
    }
    run(&world, 3).await;
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The regression: until they or their node were a minute old they went on saying that there was none.
#[tokio::test(start_paused = true)]
async fn pods_that_had_no_node_say_so_once_one_comes_up_for_them() {
    let mut world = World::with(2, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    world.deploy(web(3)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let all_say = async |world: &World, text: &str| {
        let pods = world.pods().await;
        pods.len() == 3 && pods.iter().all(|pod| told(pod).is_some_and(|why| why.contains(text)))
    };
    assert!(all_say(&world, "nodes are available").await, "{}", state_of(&world).await);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    let mut is_said = false;
    for _ in 0..150 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        is_said |= all_say(&world, "to come up").await;
    }
    assert!(is_said, "{}", state_of(&world).await);
    run(&world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_type_that_is_out_of_stock_gives_way_to_the_next() {
    let world = world(CloudFaults::default(), &["on-demand"]).await;
    for zone in ["port-1a", "port-1b"] {
        world.cloud.set_stock(&on_demand("m5.xlarge", zone), Some(0));
    }
    world.deploy(web(3)).await;
    run(&world, 3).await;
    assert!(world.fleet().keys().all(|(of_type, _)| of_type != "m5.xlarge"), "{}", state_of(&world).await);
}

/// Pods for which a type ran out are packed anew: nodes that were planned for it are not all launched a size larger.
#[tokio::test(start_paused = true)]
async fn a_type_that_is_out_of_stock_gives_way_to_a_new_plan_and_not_to_twice_the_price() {
    let world = world(CloudFaults::default(), &["on-demand"]).await;
    for zone in ["port-1a", "port-1b"] {
        world.cloud.set_stock(&on_demand("m5.xlarge", zone), Some(0));
    }
    // Planned are one of six and one of two, or three of three and less; without m5.xlarge, six and twice one cost least.
    world.deploy(web(8)).await;
    run(&world, 8).await;
    let expected = fleet(&[("m5.2xlarge", "on-demand", 1), ("m5.large", "on-demand", 2)]);
    assert_eq!(world.fleet(), expected, "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_and_startup_taints_do_not_keep_pods_from_their_node() {
    let mut world = World::with(2, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut tainted = pool("web", &["on-demand"]);
    tainted["spec"]["template"]["spec"]["startupTaints"] =
        json!([{"key": "example.com/agent", "effect": "NoSchedule"}]);
    world.create::<berth_api::NodePool>(tainted).await;
    let daemon = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "a", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    let api = Api::<k8s_openapi::api::apps::v1::DaemonSet>::default_namespaced(world.client.clone());
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(daemon).unwrap()).await.unwrap();
    world.deploy(web(3)).await;
    let daemon_runs = world
        .settles(5, async |world| {
            let pods = world.pods().await;
            pods.iter().any(|pod| {
                pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("agent"))
                    && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            })
        })
        .await;
    assert!(daemon_runs, "{}", state_of(&world).await);
    let web_waits = world.pods().await.iter().any(|pod| {
        pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("web"))
            && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())
    });
    assert!(web_waits, "the startup taint keeps them off: {}", state_of(&world).await);
    // The agent has done its work, as its own controller would say.
    for node in world.nodes().await {
        let api = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
        let kept = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let kept: Vec<_> = kept.filter(|taint| taint.key != "example.com/agent").collect();
        let patch = kube::api::Patch::Merge(json!({"spec": {"taints": kept}}));
        api.patch(node.metadata.name.as_deref().unwrap(), &kube::api::PatchParams::default(), &patch).await.unwrap();
    }
    let runs = world.settles(5, async |world| world.all_run().await.is_some_and(|n| n >= 4)).await;
    assert!(runs, "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), 1, "nothing more was launched meanwhile: {}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn nodes_beyond_a_ceiling_are_not_launched() {
    for (ceiling, most) in [
        (Ceiling { launches_per_hour: Some(2), dollars_per_hour: None }, 2),
        // An m5.xlarge is $0.192.
        (Ceiling { launches_per_hour: None, dollars_per_hour: Some(Money::from_pico(600_000_000_000)) }, 3),
    ] {
        let mut world = World::with(3, Rates::default(), CloudFaults::default(), catalogue()).await;
        world.options.ceilings = Ceilings { of_each_pool: ceiling, ..Ceilings::default() };
        world.start_controllers(false);
        let mut small = pool("web", &["on-demand"]);
        small["spec"]["template"]["spec"]["requirements"] = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]},
        ]);
        world.create::<berth_api::NodePool>(small).await;
        world.deploy(web(30)).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.alive().len(), most, "{}", state_of(&world).await);
        let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
        assert!(events.items.iter().any(|event| event.reason.as_deref() == Some("LaunchCeiling")));
        let pods = world.pods().await;
        let waiting = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()));
        let n_told = waiting.clone().filter(|pod| told(pod).is_some_and(|why| why.contains("is the ceiling"))).count();
        assert!(n_told > 0 && n_told == waiting.count(), "pods that a ceiling keeps waiting are told so");
    }
}

/// What the condition of a pod without a place says.
fn told(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|known| known.type_ == "PodScheduled" && known.status == "False")?.message.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_node_gets_to_run_backs_off() {
    // Machines run and never join: each NodeClaim ends after fifteen minutes.
    let lost = CloudFaults { never_joins: 1.0, ..CloudFaults::default() };
    let world = world(lost, &["on-demand"]).await;
    world.deploy(web(1)).await;
    tokio::time::sleep(Duration::from_secs(4 * 3600)).await;
    let pods = world.pods().await;
    let conditions =
        pods.iter().flat_map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten()));
    let said: Vec<&str> = conditions.filter_map(|known| known.message.as_deref()).collect();
    let [said] = said[..] else { panic!("{said:?}") };
    assert!(said.contains(" nodes were launched for it and it was bound to none"), "{said}");
    // Sixteen would come one after the other; the waits between them grow to half an hour.
    let n: u32 = said.split(' ').next().unwrap().parse().unwrap();
    assert!((3..=12).contains(&n), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_vanished_is_asked_for_as_soon_as_its_node_is_not_ready() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    // Rounds that look for what is gone are far apart.
    world.options.timings.garbage_period = Duration::from_secs(3600);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(3)).await;
    run(&world, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lost = world.alive().remove(0).provider_id;
    world.cloud.terminate(&lost);
    let noticed = world.settles(5, async |world| {
        let runs = world.all_run().await == Some(3);
        runs && world.alive().len() == 1 && world.nodes().await.len() == 1
    });
    assert!(noticed.await, "{}", state_of(&world).await);
    assert!(world.alive().iter().all(|instance| instance.provider_id != lost));
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_min_values_launches_on_its_slots() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut own = pool("web", &["on-demand", "reserved"]);
    let types = json!({"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2});
    own["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(types);
    world.create::<berth_api::NodePool>(own).await;
    world.deploy(web(14)).await;
    run(&world, 14).await;
    let on_slots: usize = world.fleet().iter().filter(|((_, on), _)| on == "cr-web").map(|(_, n)| *n).sum();
    assert_eq!(on_slots, 4, "{}", state_of(&world).await);
}
