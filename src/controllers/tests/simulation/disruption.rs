//! The running cluster moves toward reserved and cheaper capacity: scenarios in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_cloudprovider::OfferingKey;
use berth_cloudprovider_fake::cloud::{CloudFaults, FakeReservation};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::scenarios::{catalogue, fleet, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;
use crate::{RATES, cloud_faults, held, repeat, seeds};

/// A NodePool of these capacity types whose disruption is set so.
pub(crate) fn pool_with(capacity_types: &[&str], disruption: &Value) -> Value {
    let mut pool = pool("web", capacity_types);
    let only = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]});
    pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(only);
    for (key, value) in disruption.as_object().unwrap() {
        pool["spec"]["disruption"][key] = value.clone();
    }
    pool
}

async fn world(capacity_types: &[&str], disruption: &Value) -> World {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    set_slots(&world, 0);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(capacity_types, disruption)).await;
    world
}

/// The reservation of m5.xlarge holds this many from now on.
pub(crate) fn set_slots(world: &World, total: u32) {
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    world.had_slots("cr-web", before.total);
    world.cloud.set_reservation("cr-web", FakeReservation { total, ..before });
}

pub(crate) async fn events(world: &World, reason: &str) -> Vec<String> {
    let all = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
    let of_reason = all.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    of_reason
        .map(|event| {
            format!("{}: {}", event.involved_object.name.unwrap_or_default(), event.message.unwrap_or_default())
        })
        .collect()
}

async fn comes_to(world: &World, minutes: u64, n_pods: usize, expected: &[(&str, &str, usize)]) {
    let expected = fleet(expected);
    let there = world
        .settles(minutes, async |world| {
            world.fleet() == expected
                && world.all_run().await == Some(n_pods)
                && world.nodes().await.len() == world.alive().len()
                && taints(world).await.is_empty()
        })
        .await;
    assert!(there, "expected {expected:?}: {}", state_of(world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// Nodes with the taint of a disruption.
pub(crate) async fn taints(world: &World) -> Vec<String> {
    let is_tainted = |node: &Node| {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    };
    world.nodes().await.into_iter().filter(is_tainted).filter_map(|node| node.metadata.name).collect()
}

/// Evictions that the server has seen: pods of `web` that are gone, by uid.
pub(crate) async fn uids(world: &World) -> Vec<String> {
    let mut uids: Vec<String> = world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    uids.sort();
    uids
}

#[tokio::test(start_paused = true)]
async fn on_demand_nodes_move_to_slots_as_a_reservation_grows() {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    world.deploy(web(6)).await;
    comes_to(&world, 10, 6, &[("m5.xlarge", "on-demand", 2)]).await;
    set_slots(&world, 1);
    comes_to(&world, 20, 6, &[("m5.xlarge", "cr-web", 1), ("m5.xlarge", "on-demand", 1)]).await;
    set_slots(&world, 3);
    comes_to(&world, 20, 6, &[("m5.xlarge", "cr-web", 2)]).await;
    let told = events(&world, "Disrupting").await;
    assert!(
        told.iter().any(|text| text == "web: 1 node → 1 × m5.xlarge on cr-web: $0.1920/h saved, 3 pods move"),
        "{told:?}"
    );
    for reason in ["DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"] {
        assert!(!events(&world, reason).await.is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_half_empty_make_way_and_then_nothing_churns() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(60);
    world.start_controllers(false);
    // Of all types: there is a choice.
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(12)).await;
    run(&world, 12).await;
    world.scale("web", 5).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let (before, pods) = (world.fleet(), uids(&world).await);
    assert!(before.values().sum::<usize>() <= 2, "{}", state_of(&world).await);
    assert_eq!(world.all_run().await, Some(5));
    // Hours in which nothing happens; BERTH_HOURS=168 is a week.
    let hours: u64 = std::env::var("BERTH_HOURS").ok().and_then(|hours| hours.parse().ok()).unwrap_or(3);
    tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
    assert_eq!((world.fleet(), uids(&world).await), (before, pods), "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
    assert!(taints(&world).await.is_empty());
}

/// The zone in which the only node is not, where its type costs so much less than it from now on.
pub(crate) fn undercut(world: &World, by: &str) -> String {
    let [node] = &world.alive()[..] else { panic!("one instance") };
    let here = node.offering.zone.as_deref();
    let zone = if here == Some("port-1a") { "port-1b" } else { "port-1a" };
    let price = world.cloud.prices(&node.provider_id).unwrap().own - by.parse().unwrap();
    let there = OfferingKey { zone: Some(zone.to_owned()), ..node.offering.clone() };
    assert!(world.cloud.set_price(&there, price), "{there:?}");
    zone.to_owned()
}

/// A node and its pod are two units of disruption at 5 cents each, and what has begun goes on for half of that. The last is
/// no price: what saves anything begins and goes on.
#[rstest::rstest]
#[case::goes_on_for_half("0.05", "0.07", false, true)]
#[case::ends_for_less("0.05", "0.03", false, false)]
#[case::at_no_price("0", "0.03", true, true)]
#[tokio::test(start_paused = true)]
async fn a_command_that_has_begun_goes_on_for_half_the_price_of_evictions(
    #[case] price: &str,
    #[case] later: &str,
    #[case] would_begin: bool,
    #[case] goes_on: bool,
) {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    set_slots(&world, 0);
    world.options.timings.offers_period = Duration::from_secs(1);
    world.options.eviction_price = price.parse().unwrap();
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(&["on-demand"], &json!({}))).await;
    world.deploy(web(1)).await;
    run(&world, 1).await;
    let first = world.alive()[0].provider_id.clone();
    if !would_begin {
        undercut(&world, later);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(taints(&world).await, Vec::<String>::new(), "too little to begin");
    }
    undercut(&world, "0.15");
    while taints(&world).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    undercut(&world, later);
    tokio::time::sleep(Duration::from_secs(900)).await;
    let [node] = &world.alive()[..] else { panic!("one instance: {}", state_of(&world).await) };
    assert_eq!(node.provider_id != first, goes_on, "{}", state_of(&world).await);
    assert_eq!(world.all_run().await, Some(1));
    let told = events(&world, "Disrupting").await;
    assert_eq!(told.len(), usize::from(goes_on), "{told:?}");
    assert!(told.iter().all(|text| text.contains(&format!("${later}00/h saved"))), "{told:?}");
    assert_eq!((taints(&world).await, world.violations()), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_a_node_leaves_is_known_before_the_next_regular_count() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(600);
    set_slots(&world, 1);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    world.deploy(web(0)).await;
    for _ in 0..2 {
        world.scale("web", 3).await;
        comes_to(&world, 2, 3, &[("m5.xlarge", "cr-web", 1)]).await;
        // The count meanwhile has the slot as used.
        tokio::time::sleep(Duration::from_secs(610)).await;
        world.scale("web", 0).await;
        comes_to(&world, 5, 0, &[]).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn budgets_of_pods_and_of_the_pool_are_never_exceeded() {
    let world = world(&["on-demand", "reserved"], &json!({"budgets": [{"nodes": "1"}]})).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = Api::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    world.deploy(web(9)).await;
    comes_to(&world, 10, 9, &[("m5.xlarge", "on-demand", 3)]).await;
    set_slots(&world, 3);
    let mut fewest = 9;
    let mut most_going = 0;
    for _ in 0..1200 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pods = world.pods().await;
        let ready = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            pod.metadata.deletion_timestamp.is_none()
                && conditions.into_iter().any(|known| known.type_ == "Ready" && known.status == "True")
        };
        fewest = fewest.min(pods.iter().filter(ready).count());
        most_going = most_going.max(taints(&world).await.len());
    }
    comes_to(&world, 1, 9, &[("m5.xlarge", "cr-web", 3)]).await;
    assert_eq!((fewest, most_going), (8, 1), "pods that were ready at least, nodes that went at most");
}

/// The regression: nodes that were to go and those in their place stood side by side, all paid for, until the budget opened again.
#[tokio::test(start_paused = true)]
async fn a_command_whose_replacements_are_launched_ends_though_the_budget_closes() {
    let world = world(&["on-demand"], &json!({"budgets": [{"nodes": "100%"}]})).await;
    world.deploy(web(9)).await;
    comes_to(&world, 10, 9, &[("m5.xlarge", "on-demand", 3)]).await;
    let before = names(&world).await;
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    while world.claims().await.len() < 6 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let closed = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(closed)).await.unwrap();
    comes_to(&world, 3, 9, &[("m5.xlarge", "on-demand", 3)]).await;
    assert!(names(&world).await.is_disjoint(&before), "{}", state_of(&world).await);
    // The next one does not begin.
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "other"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((world.claims().await.len(), taints(&world).await), (3, Vec::new()));
}

async fn names(world: &World) -> BTreeSet<String> {
    world.nodes().await.into_iter().filter_map(|node| node.metadata.name).collect()
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_disrupted_stays_and_says_why() {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    let mut marked = web(3);
    marked["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    world.deploy(marked).await;
    comes_to(&world, 10, 3, &[("m5.xlarge", "on-demand", 1)]).await;
    set_slots(&world, 3);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "on-demand", 1)]), "{}", state_of(&world).await);
    let told = events(&world, "DisruptionBlocked").await;
    let expected = "pod has \"karpenter.sh/do-not-disrupt\" annotation (3 pods)";
    assert!(told.iter().any(|text| text.ends_with(expected)), "{told:?}");
}

/// The regression: its Event was `Unconsolidatable`, which said neither that it drifted nor which budget keeps it.
#[tokio::test(start_paused = true)]
async fn a_drifted_node_that_a_budget_keeps_names_both() {
    let world = world(&["on-demand"], &json!({"budgets": [{"nodes": "100%"}, {"nodes": "0"}]})).await;
    world.deploy(web(3)).await;
    comes_to(&world, 10, 3, &[("m5.xlarge", "on-demand", 1)]).await;
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let expected = "drifted, but spec.disruption.budgets[1] of NodePool \"web\" lets no drifted node go now";
    let is_told = async |world: &World| {
        let told = events(world, "DisruptionBlocked").await;
        // On the node and on its NodeClaim.
        told.iter().filter(|text| text.ends_with(expected)).count() == 2
    };
    assert!(world.settles(20, is_told).await, "{:?}", events(&world, "DisruptionBlocked").await);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_launched_leaves_everything_as_it_was() {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    world.deploy(web(3)).await;
    comes_to(&world, 10, 3, &[("m5.xlarge", "on-demand", 1)]).await;
    let pods = uids(&world).await;
    // The count says that there is a slot, and the launch finds none: someone was faster.
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    let slow = CloudFaults { latency: Duration::from_secs(3), ..CloudFaults::default() };
    world.cloud.set_faults(slow);
    world.cloud.set_reservation("cr-web", FakeReservation { total: 1, ..before.clone() });
    let tainted = world.settles(5, async |world| !taints(world).await.is_empty()).await;
    assert!(tainted, "{}", state_of(&world).await);
    world.cloud.set_reservation("cr-web", FakeReservation { total: 1, used_by_others: 1, ..before });
    comes_to(&world, 5, 3, &[("m5.xlarge", "on-demand", 1)]).await;
    assert_eq!(uids(&world).await, pods, "no pod was evicted");
    let left = world.claims().await.into_iter().filter(|claim| {
        let conditions = claim.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|known| known.type_ == "DisruptionReason")
    });
    assert_eq!(left.count(), 0, "the condition is taken back");
    let told = events(&world, "DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("its disruption came to nothing")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_are_replaced_before_they_go() {
    let world = world(&["on-demand"], &json!({})).await;
    world.deploy(web(6)).await;
    comes_to(&world, 10, 6, &[("m5.xlarge", "on-demand", 2)]).await;
    let before: Vec<String> = world.nodes().await.into_iter().filter_map(|node| node.metadata.uid).collect();
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let replaced = world
        .settles(30, async |world| {
            let nodes = world.nodes().await;
            nodes.len() == 2
                && nodes.iter().all(|node| !before.contains(node.metadata.uid.as_ref().unwrap()))
                && world.all_run().await == Some(6)
        })
        .await;
    assert!(replaced, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_on_a_full_reservation_go_slot_by_slot_and_one_of_them_aside() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(60);
    set_slots(&world, 9);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    world.deploy(web(27)).await;
    comes_to(&world, 10, 27, &[("m5.xlarge", "cr-web", 9)]).await;
    let before: BTreeSet<String> = world.nodes().await.into_iter().filter_map(|node| node.metadata.uid).collect();
    let mut seen: BTreeSet<String> = uids(&world).await.into_iter().collect();
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let began = tokio::time::Instant::now();
    let on_demand = ("m5.xlarge".to_owned(), "on-demand".to_owned());
    let (mut most_paid, mut is_done) = (0, false);
    for _ in 0..3600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        seen.extend(uids(&world).await);
        let fleet = world.fleet();
        most_paid = most_paid.max(fleet.get(&on_demand).copied().unwrap_or(0));
        let nodes = world.nodes().await;
        is_done = nodes.len() == 9
            && !fleet.contains_key(&on_demand)
            && nodes.iter().all(|node| !before.contains(node.metadata.uid.as_deref().unwrap_or_default()))
            && world.all_run().await == Some(27);
        if is_done {
            break;
        }
    }
    assert!(is_done, "{}", state_of(&world).await);
    // Nobody waits for the count of the next minute.
    let took = began.elapsed();
    println!("nine nodes were rolled in nine slots within {took:?}");
    assert!(took <= Duration::from_secs(9 * 20), "{took:?}");
    assert_eq!(most_paid, 1, "nodes that were paid for at a time");
    // Each pod moved once, and the three of the node that went aside came back.
    assert_eq!(seen.len(), 27 + 27 + 3, "pods that there were");
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_slots_alone_is_rolled_in_them_where_it_says_so() {
    let world = world(&["reserved"], &json!({"budgets": [{"nodes": "1"}]})).await;
    set_slots(&world, 3);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 3, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = Api::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    world.deploy(web(9)).await;
    comes_to(&world, 10, 9, &[("m5.xlarge", "cr-web", 3)]).await;
    let before: BTreeSet<String> = world.nodes().await.into_iter().filter_map(|node| node.metadata.uid).collect();
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let same = world.nodes().await.into_iter().filter_map(|node| node.metadata.uid).collect::<BTreeSet<_>>();
    assert_eq!(same, before, "nothing else takes their pods");
    let opt_in = json!({"metadata": {"annotations": {"berth.sh/replace-drifted-in-slot": "true"}}});
    pools.patch("web", &PatchParams::default(), &Patch::Merge(opt_in)).await.unwrap();
    let replaced = world
        .settles(60, async |world| {
            let nodes = world.nodes().await;
            nodes.len() == 3
                && nodes.iter().all(|node| !before.contains(node.metadata.uid.as_deref().unwrap_or_default()))
                && world.all_run().await == Some(9)
        })
        .await;
    assert!(replaced, "{}", state_of(&world).await);
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "cr-web", 3)]));
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_ends_leaves_its_nodes_which_are_relabelled_and_considered_again() {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    set_slots(&world, 2);
    world.deploy(web(6)).await;
    comes_to(&world, 10, 6, &[("m5.xlarge", "cr-web", 2)]).await;
    let pods = uids(&world).await;
    let end = Some(world.cloud.now());
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    world.cloud.set_reservation("cr-web", FakeReservation { end, ..before.clone() });
    let relabelled = world
        .settles(10, async |world| {
            let own = |labels: Option<&BTreeMap<String, String>>| {
                let get = |key: &str| labels.and_then(|labels| labels.get(key)).cloned();
                (get("karpenter.sh/capacity-type"), get("berth.sh/capacity-reservation-id"))
            };
            let paid = (Some("on-demand".to_owned()), None);
            world.nodes().await.iter().all(|node| own(node.metadata.labels.as_ref()) == paid)
                && world.claims().await.iter().all(|claim| own(claim.metadata.labels.as_ref()) == paid)
        })
        .await;
    assert!(relabelled, "{}", state_of(&world).await);
    assert_eq!(uids(&world).await, pods, "no pod was disturbed");
    assert!(!events(&world, "Relabelled").await.is_empty());
    // There are slots again: what is paid for now moves there.
    world.cloud.set_reservation("cr-web", before);
    comes_to(&world, 20, 6, &[("m5.xlarge", "cr-web", 2)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_is_vacated_before_its_end_replacements_first() {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    let end = world.cloud.now() + Duration::from_secs(3 * 3600);
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    let kind = berth_cloudprovider::ReservationKind::CapacityBlock;
    world.cloud.set_reservation("cr-web", FakeReservation { total: 2, kind, end: Some(end), ..before });
    world.deploy(web(6)).await;
    comes_to(&world, 10, 6, &[("m5.xlarge", "cr-web", 2)]).await;
    tokio::time::sleep(Duration::from_secs(90 * 60)).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "cr-web", 2)]), "it is used as long as it can be");
    // An hour before the end: the cloud's notice, and time to boot and to drain.
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    comes_to(&world, 25, 6, &[("m5.xlarge", "on-demand", 2)]).await;
    assert!(world.cloud.now() + Duration::from_secs(30 * 60) < end, "in time");
    let told = events(&world, "DisruptionTerminating").await;
    assert!(told.iter().any(|text| text.ends_with("Disrupting Node: Drifted")), "{told:?}");
}

/// A cluster whose six pods are on the two slots of an interruptible reservation.
async fn on_interruptible_slots(end: Option<Duration>) -> World {
    let world = world(&["on-demand", "reserved"], &json!({})).await;
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    let kind = berth_cloudprovider::ReservationKind::Interruptible;
    let end = end.map(|end| world.cloud.now() + end);
    world.cloud.set_reservation("cr-web", FakeReservation { total: 2, kind, end, ..before });
    world.deploy(web(6)).await;
    comes_to(&world, 10, 6, &[("m5.xlarge", "cr-web", 2)]).await;
    world
}

#[tokio::test(start_paused = true)]
async fn pods_leave_what_the_owner_of_a_reservation_takes_back_once_others_are_up() {
    let world = on_interruptible_slots(None).await;
    let pods = uids(&world).await;
    set_slots(&world, 1);
    let instances = world.cloud.instances();
    let taken = instances.iter().find(|instance| instance.interruption.is_some()).expect("one is taken back");
    let ends = taken.interruption.as_ref().map(|interruption| interruption.at).unwrap();
    let is_gone =
        || world.cloud.instances().iter().all(|own| own.provider_id != taken.provider_id || !own.state.is_alive());
    let mut least = 6;
    while !is_gone() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ready = world.pods().await.into_iter().filter(|pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_ready = conditions.into_iter().any(|own| own.type_ == "Ready" && own.status == "True");
            is_ready && pod.metadata.deletion_timestamp.is_none()
        });
        least = least.min(ready.count());
    }
    assert!(world.cloud.now() < ends, "it was left before its end");
    assert!(least >= 3, "{least} pods were ready: those of the other node at least");
    comes_to(&world, 5, 6, &[("m5.xlarge", "cr-web", 1), ("m5.xlarge", "on-demand", 1)]).await;
    let stayed = uids(&world).await.into_iter().filter(|uid| pods.contains(uid)).count();
    assert_eq!(stayed, 3, "nobody else moved");
    let told = events(&world, "ReservationReclaimed").await;
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_into_a_reservation_whose_owner_takes_instances_back() {
    let world = on_interruptible_slots(None).await;
    set_slots(&world, 3);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let on_slots = |world: &World| world.alive().into_iter().filter(|own| own.reservation.is_some()).count();
    world.cloud.interrupt(&world.alive()[0].provider_id);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(on_slots(&world) <= 2, "one slot is free all the time: {}", state_of(&world).await);
    assert_eq!(world.all_run().await, Some(6), "{}", state_of(&world).await);
    // Its slots are there for who comes, once nobody is asked to leave.
    comes_to(&world, 20, 6, &[("m5.xlarge", "cr-web", 2)]).await;
}

#[tokio::test(start_paused = true)]
async fn an_interruptible_reservation_is_vacated_before_its_end_replacements_first() {
    let world = on_interruptible_slots(Some(Duration::from_secs(2 * 3600))).await;
    let end = world.cloud.reservation_definitions()["cr-web"].end.unwrap();
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "cr-web", 2)]), "it is used as long as it can be");
    // 32 minutes before the end: the cloud's notice, and time to boot and to drain.
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    comes_to(&world, 25, 6, &[("m5.xlarge", "on-demand", 2)]).await;
    assert!(world.cloud.now() + Duration::from_secs(120) < end, "in time");
    assert!(events(&world, "ReservationReclaimed").await.is_empty(), "before anybody had to");
}

#[tokio::test(start_paused = true)]
async fn a_node_class_that_changes_replaces_its_nodes() {
    let world = world(&["on-demand"], &json!({})).await;
    world.deploy(web(3)).await;
    comes_to(&world, 10, 3, &[("m5.xlarge", "on-demand", 1)]).await;
    let before: Vec<String> = world.nodes().await.into_iter().filter_map(|node| node.metadata.uid).collect();
    let class = berth_cloudprovider_fake::cloud::NodeClass { image: "image-2".to_owned(), ..Default::default() };
    world.cloud.set_node_class("default", class);
    let replaced = world
        .settles(30, async |world| {
            let nodes = world.nodes().await;
            nodes.len() == 1
                && nodes.iter().all(|node| !before.contains(node.metadata.uid.as_ref().unwrap()))
                && world.all_run().await == Some(3)
        })
        .await;
    assert!(replaced, "{}", state_of(&world).await);
}

/// A cluster on paid nodes for which slots appear, with controllers that crash at any step: in the end it is on slots,
/// every pod has a place, no taint is left, and nothing was seen that may never be seen.
async fn moves_to_slots_in_trouble(seed: u64) -> (crate::trouble::Table, u32) {
    let mut world = World::with(seed, RATES, cloud_faults(), catalogue()).await;
    set_slots(&world, 0);
    world.start_controllers(seed.is_multiple_of(2));
    world.create::<berth_api::NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    world.deploy(web(9)).await;
    let runs = world.settles(60, async |world| world.all_run().await == Some(9)).await;
    assert!(runs, "{}; {}", state_of(&world).await, repeat(seed));
    set_slots(&world, 2);
    tokio::time::sleep(Duration::from_secs(300)).await;
    set_slots(&world, 3);
    // A user deletes a node under way.
    if let Some(node) = world.nodes().await.first().and_then(|node| node.metadata.name.clone()) {
        let _ = Api::<Node>::all(world.client.clone()).delete(&node, &DeleteParams::default()).await;
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let expected: BTreeMap<_, _> = fleet(&[("m5.xlarge", "cr-web", 3)]);
    let settled = world
        .settles(180, async |world| {
            world.fleet() == expected
                && world.all_run().await == Some(9)
                && world.claims().await.len() == 3
                && world.nodes().await.len() == 3
                && taints(world).await.is_empty()
        })
        .await;
    held(&world, settled, seed).await
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_of_a_disruption_loses_nothing() {
    let mut befell = crate::Befell::default();
    for seed in seeds(0..4) {
        befell.add(moves_to_slots_in_trouble(seed).await);
    }
    befell.print();
}
