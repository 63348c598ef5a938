//! Sets of nodes make way for sets of others, and each pod that is made anew comes to the place that is held for it.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::disruption::{taints, uids};
use crate::scenarios::{catalogue, pool, run, state_of, web};
use crate::trouble::{Dice, Rates};
use crate::world::{World, is_initialized};
use crate::{RATES, cloud_faults, repeat, seeds};

fn deployment(name: &str, replicas: u64, cpu: u64) -> Value {
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c",
            "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "500Mi"}}}]}}}})
}

/// Nodes may make way from now on.
async fn ripen(world: &World) {
    let ripe = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    let pools = Api::<berth_api::NodePool>::all(world.client.clone());
    pools.patch("web", &PatchParams::default(), &Patch::Merge(ripe)).await.unwrap();
}

/// Deployments of several sizes on nodes of any type, of which two in three pods go.
async fn shrunk(world: &World, seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let mut pool = pool("web", &["on-demand"]);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    world.create::<berth_api::NodePool>(pool).await;
    let mut sizes = Vec::new();
    for at in 0..7 {
        let replicas = 6 + dice.roll(18);
        let cpu = [300, 700, 900, 1100, 1700, 2300][usize::try_from(dice.roll(6)).unwrap()];
        world.deploy(deployment(&format!("app-{at}"), replicas, cpu)).await;
        sizes.push(replicas);
    }
    let n_pods = usize::try_from(sizes.iter().sum::<u64>()).unwrap();
    let runs = world.settles(60, async |world| world.all_run().await == Some(n_pods)).await;
    assert!(runs, "{}; {}", state_of(world).await, repeat(seed));
    let mut n_left = 0;
    for (at, replicas) in sizes.into_iter().enumerate() {
        let left = u32::try_from(replicas / 3).unwrap();
        world.scale(&format!("app-{at}"), left).await;
        n_left += left as usize;
    }
    let runs = world.settles(60, async |world| world.all_run().await == Some(n_left)).await;
    assert!(runs, "{}; {}", state_of(world).await, repeat(seed));
    n_left
}

async fn messages(world: &World, reason: &str) -> Vec<String> {
    let all = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
    let of_reason = all.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    of_reason.filter_map(|event| event.message).collect()
}

/// Dollars an hour.
fn cost(world: &World) -> f64 {
    world.cloud.hourly_cost().dollars()
}

/// Whether every pod runs, nobody is on the way out, and all NodeClaims are up.
async fn is_calm(world: &World, n_pods: usize) -> bool {
    let claims = world.claims().await;
    world.all_run().await == Some(n_pods)
        && taints(world).await.is_empty()
        && claims.iter().all(|claim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none())
        && world.alive().len() == claims.len()
}

#[tokio::test(start_paused = true)]
async fn sets_of_nodes_make_way_for_sets_of_others_and_nothing_else_is_launched_for_their_pods() {
    let mut n_sets = 0;
    for seed in seeds(0..3) {
        let cloud = berth_cloudprovider_fake::catalogue();
        let mut world = World::with(seed, Rates::default(), CloudFaults::default(), cloud).await;
        world.start_controllers(false);
        let n_pods = shrunk(&world, seed).await;
        let before: BTreeSet<String> =
            world.claims().await.into_iter().filter_map(|claim| claim.metadata.name).collect();
        let cost_before = cost(&world);
        ripen(&world).await;
        let mut launched = BTreeSet::new();
        for _ in 0..900 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            launched.extend(world.claims().await.into_iter().filter_map(|claim| claim.metadata.name));
        }
        assert!(is_calm(&world, n_pods).await, "{}; {}", state_of(&world).await, repeat(seed));
        let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
        let told = events.items.iter().filter(|event| event.reason.as_deref() == Some("DisruptionLaunching"));
        let told: BTreeSet<&str> = told.filter_map(|event| event.involved_object.name.as_deref()).collect();
        let is_replacement = |name: &&String| told.contains(name.as_str());
        let others: Vec<&String> = launched.difference(&before).filter(|name| !is_replacement(name)).collect();
        assert_eq!(others, Vec::<&String>::new(), "pods lost their places; {}", repeat(seed));
        assert!(cost(&world) < 0.7 * cost_before, "{} {cost_before}; {}", cost(&world), repeat(seed));
        assert_eq!(world.violations(), Vec::<String>::new());
        let blocked = messages(&world, "DisruptionBlocked").await;
        let in_vain = blocked.iter().filter(|text| text.starts_with("its disruption came to nothing")).count();
        assert_eq!(in_vain, 0, "{blocked:#?}; {}", repeat(seed));
        n_sets += messages(&world, "Disrupting")
            .await
            .iter()
            .filter(|text| text.contains(" nodes → ") && text.contains(" × "))
            .count();
        // Then nothing churns; BERTH_HOURS=168 is a week.
        let (fleet, pods) = (world.fleet(), uids(&world).await);
        let hours: u64 = std::env::var("BERTH_HOURS").ok().and_then(|hours| hours.parse().ok()).unwrap_or(2);
        tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
        assert_eq!((world.fleet(), uids(&world).await), (fleet, pods), "{}; {}", state_of(&world).await, repeat(seed));
    }
    assert!(n_sets >= 2, "{n_sets} commands replaced several nodes");
}

/// Controllers that crash at any step of such commands, and one that dies just when replacements come up: what has not begun to
/// go stays, and in the end all is as cheap as before.
async fn makes_way_in_trouble(seed: u64) -> (crate::trouble::Table, u32) {
    let mut world = World::with(seed, RATES, cloud_faults(), berth_cloudprovider_fake::catalogue()).await;
    world.start_controllers(seed.is_multiple_of(2));
    let n_pods = shrunk(&world, seed).await;
    let cost_before = cost(&world);
    ripen(&world).await;
    for _ in 0..3 {
        let waits = world.settles(3, async |world| !taints(world).await.is_empty()).await;
        if waits {
            tokio::time::sleep(Duration::from_secs(10)).await;
            world.kill();
        }
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let settled =
        world.settles(180, async |world| is_calm(world, n_pods).await && cost(world) < 0.75 * cost_before).await;
    let left = format!("violations {:?}; {}", world.violations(), repeat(seed));
    assert!(settled, "{} of {cost_before}; {}; {left}", cost(&world), state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
    (world.trouble.table(), world.n_starts())
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_sets_of_nodes_make_way_loses_nothing() {
    let mut befell = crate::Befell::default();
    for seed in seeds(0..3) {
        befell.add(makes_way_in_trouble(seed).await);
    }
    befell.print();
}

async fn nodes_of(world: &World, app: &str) -> BTreeSet<String> {
    let is_its = |pod: &Pod| pod.metadata.labels.as_ref().is_some_and(|labels| labels["app"] == app);
    let pods = world.pods().await.into_iter().filter(is_its);
    pods.filter_map(|pod| pod.spec?.node_name).collect()
}

/// The first of two pods has moved, and a budget holds the second back: who comes meanwhile does not get its place.
#[tokio::test(start_paused = true)]
async fn the_place_of_a_pod_that_a_budget_holds_back_is_nobody_elses() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut pool = pool("web", &["on-demand"]);
    let only = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]});
    pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(only);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    world.create::<berth_api::NodePool>(pool).await;
    // One of these and two of `web` fill a node.
    let mut first = deployment("first", 1, 1200);
    first["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    world.deploy(first).await;
    run(&world, 1).await;
    world.deploy(deployment("filler", 2, 1200)).await;
    run(&world, 3).await;
    world.deploy(web(2)).await;
    run(&world, 5).await;
    assert_eq!(world.alive().len(), 2, "{}", state_of(&world).await);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    world.scale("filler", 0).await;
    run(&world, 3).await;
    let (to, from) = (nodes_of(&world, "first").await, nodes_of(&world, "web").await);
    ripen(&world).await;
    let mut is_going = false;
    for _ in 0..3000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        is_going = world.claims().await.iter().any(|claim| claim.metadata.deletion_timestamp.is_some());
        if is_going {
            break;
        }
    }
    assert!(is_going, "{}", state_of(&world).await);
    world.deploy(deployment("other", 2, 1200)).await;
    run(&world, 5).await;
    assert_eq!(nodes_of(&world, "web").await, to, "{}", state_of(&world).await);
    assert!(nodes_of(&world, "other").await.is_disjoint(&to) && to.is_disjoint(&from), "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}
