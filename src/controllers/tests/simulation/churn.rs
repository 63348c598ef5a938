//! Reservations of every policy come and go, with their owners, while slots, nodes and processes do. Whatever happens, what a
//! Reservation holds is on a node that has it, and in the end everybody has a place and nothing moves any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodePool, Reservation, ReservationPhase};
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::disruption::{events, set_slots, uids};
use crate::scenarios::{catalogue, pool, state_of};
use crate::trouble::{Dice, Rates};
use crate::world::World;
use crate::{RATES, cloud_faults, repeat, seeds};

const APPS: [&str; 3] = ["a", "b", "c"];
const ALLOCATED: &str = "scheduling.koordinator.sh/reservation-allocated";

fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.roll(of.len() as u64)).unwrap()]
}

fn room(dice: &mut Dice, name: &str) -> Value {
    let cpu = pick(dice, &["500m", "1", "1800m", "3"]);
    let mut spec = json!({
        "allocateOnce": dice.roll(3) == 0,
        "ttl": pick(dice, &["0s", "0s", "0s", "3m"]),
        "owners": [{"labelSelector": {"matchLabels": {"app": pick(dice, &APPS)}}}],
        "template": {"spec": {"containers": [{
            "name": "room", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}}});
    match dice.roll(4) {
        0 => {}
        1 => spec["allocatePolicy"] = json!("Aligned"),
        _ => spec["allocatePolicy"] = json!("Restricted"),
    }
    if dice.roll(8) == 0 {
        spec["unschedulable"] = json!(true);
    }
    if dice.roll(6) == 0 {
        spec["preAllocation"] = json!(true);
    }
    json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": name}, "spec": spec})
}

fn app(dice: &mut Dice, name: &str) -> Value {
    let cpu = pick(dice, &["300m", "700m", "1200m"]);
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": dice.roll(5), "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 5,
            "containers": [{"name": "c", "image": "c",
                "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}]}}}})
}

fn milli(amounts: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>) -> i64 {
    let Some(text) = amounts.map(|amount| amount.0.as_str()) else { return 0 };
    text.strip_suffix('m').map_or_else(|| text.parse::<i64>().unwrap() * 1000, |text| text.parse().unwrap())
}

fn requested(pod: &Pod) -> i64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|own| milli(own.resources.as_ref().and_then(|own| own.requests.as_ref()).and_then(|all| all.get("cpu"))))
        .sum()
}

fn draws_from(pod: &Pod) -> Option<String> {
    let text = pod.annotations().get(ALLOCATED)?;
    Some(serde_json::from_str::<Value>(text).unwrap()["name"].as_str().unwrap().to_owned())
}

/// What is wrong with what nodes hold: pods and what Reservations hold for others may not be more than a node has.
async fn overbooked(world: &World) -> Vec<String> {
    let list = ListParams::default();
    let rooms = Api::<Reservation>::all(world.client.clone()).list(&list).await.unwrap().items;
    let nodes: Vec<Node> = world.nodes().await;
    let pods = world.pods().await;
    let mut wrong = Vec::new();
    let mut used: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
    let is_over = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        matches!(phase.as_str(), "Succeeded" | "Failed")
    };
    for pod in pods.iter().filter(|pod| !is_over(pod)) {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
        let own = used.entry(node).or_default();
        own.0 += requested(pod);
        own.1.push(format!("{} {} {:?}", pod.name_any(), requested(pod), draws_from(pod)));
    }
    for room in &rooms {
        let Some(status) = &room.status else { continue };
        // While it waits, what it is to hold is used by others.
        if status.phase != ReservationPhase::Available {
            continue;
        }
        let Some(node) = &status.node_name else { continue };
        let size = status.allocatable.get("cpu").and_then(|own| own.milli_ceil()).unwrap_or(0);
        let drawn: i64 = pods
            .iter()
            .filter(|pod| !is_over(pod) && draws_from(pod).as_deref() == Some(room.name_any().as_str()))
            .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node))
            .map(requested)
            .sum();
        let own = used.entry(node.clone()).or_default();
        own.0 += (size - drawn).max(0);
        own.1.push(format!("room {} {size} of which {drawn}", room.name_any()));
    }
    for (name, (amount, what)) in used {
        let Some(node) = nodes.iter().find(|node| node.name_any() == name) else { continue };
        let size =
            node.status.as_ref().and_then(|status| status.allocatable.as_ref()).map_or(0, |all| milli(all.get("cpu")));
        if amount > size {
            wrong.push(format!("{name} has {size}, and holds {amount}: {what:?}"));
        }
    }
    wrong
}

async fn one_step(world: &World, dice: &mut Dice, n: usize) {
    let rooms = Api::<Reservation>::all(world.client.clone());
    let any = |dice: &mut Dice, names: Vec<String>| {
        if names.is_empty() {
            None
        } else {
            Some(names[usize::try_from(dice.roll(names.len() as u64)).unwrap()].clone())
        }
    };
    match dice.roll(12) {
        0..4 => world.create::<Reservation>(room(dice, &format!("room-{n}"))).await,
        4..7 => {
            let app = pick(dice, &APPS);
            world.scale(app, u32::try_from(dice.roll(6)).unwrap()).await;
        }
        7 | 8 => set_slots(world, u32::try_from(dice.roll(4)).unwrap()),
        9 => {
            let names = rooms.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
            if let Some(name) = any(dice, names) {
                let _ = rooms.delete(&name, &DeleteParams::default()).await;
            }
        }
        10 => match dice.roll(3) {
            0 => {
                let names = world.claims().await.iter().map(ResourceExt::name_any).collect();
                if let Some(name) = any(dice, names) {
                    let api = Api::<NodeClaim>::all(world.client.clone());
                    let _ = api.delete(&name, &DeleteParams::default()).await;
                }
            }
            1 => {
                let alive = world.alive();
                if !alive.is_empty() {
                    world.cloud.terminate(&alive[usize::try_from(dice.roll(alive.len() as u64)).unwrap()].provider_id);
                }
            }
            _ => world.kill(),
        },
        _ => {
            let names = rooms.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
            if let Some(name) = any(dice, names) {
                let turned = Patch::Merge(json!({"spec": {"unschedulable": dice.roll(2) == 0}}));
                let _ = rooms.patch(&name, &PatchParams::default(), &turned).await;
            }
        }
    }
}

async fn play(seed: u64, rates: Rates, faults: CloudFaults) {
    let mut dice = Dice::new(seed);
    let mut world = World::with(seed, rates, faults, catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(20);
    set_slots(&world, 1);
    world.start_controllers(false);
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    for name in APPS {
        world.deploy(app(&mut dice, name)).await;
    }
    let wrong: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let look = async |world: &World| {
        let now = overbooked(world).await;
        let mut known = wrong.lock();
        // What a write leaves between two objects is right again with the next.
        known.retain(|text, _| now.contains(text));
        for text in now {
            *known.entry(text).or_default() += 1;
        }
        known.iter().find(|(_, times)| **times > 10).map(|(text, _)| text.clone())
    };
    for n in 0..25 {
        one_step(&world, &mut dice, n).await;
        for _ in 0..dice.roll(40) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(text) = look(&world).await {
                panic!("{text}; {}; {}", state_of(&world).await, repeat(seed));
            }
        }
    }
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    set_slots(&world, 2);
    let at_rest = async |world: &World| {
        let rooms = Api::<Reservation>::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
        let waits = |room: &Reservation| {
            let phase = room.status.as_ref().map_or(ReservationPhase::Pending, |status| status.phase);
            phase == ReservationPhase::Pending && !room.spec.pre_allocation
        };
        let names: Vec<_> = world.nodes().await.iter().map(ResourceExt::name_any).collect();
        let is_lost = |room: &Reservation| {
            let status = room.status.clone().unwrap_or_default();
            matches!(status.phase, ReservationPhase::Available | ReservationPhase::Waiting)
                && !status.node_name.is_some_and(|node| names.contains(&node))
        };
        let apps = Api::<Deployment>::default_namespaced(world.client.clone());
        let apps = apps.list(&ListParams::default()).await.unwrap().items;
        let n: i32 = apps.iter().filter_map(|app| app.spec.as_ref()?.replicas).sum();
        let n = usize::try_from(n).unwrap();
        world.all_run().await == Some(n) && !rooms.iter().any(|room| waits(room) || is_lost(room))
    };
    let settled = world.settles(40, &at_rest).await;
    let rooms = Api::<Reservation>::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
    let rooms: Vec<String> =
        rooms.iter().map(|room| format!("{} {:?} {:?}", room.name_any(), room.spec, room.status)).collect();
    assert!(settled, "{}; {rooms:#?} {}", state_of(&world).await, repeat(seed));
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
    // Nothing moves any more.
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let before = uids(&world).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(uids(&world).await, before, "{:?}; {rooms:#?} {}", events(&world, "Disrupting").await, repeat(seed));
    assert!(world.settles(1, &at_rest).await, "{}; {}", state_of(&world).await, repeat(seed));
    assert_eq!(overbooked(&world).await, Vec::<String>::new(), "{}", repeat(seed));
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
}

#[tokio::test(start_paused = true)]
async fn what_reservations_hold_is_theirs_whatever_comes_and_goes() {
    for seed in seeds(0..8) {
        play(seed, Rates::default(), CloudFaults::default()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_reservations_hold_is_theirs_in_trouble_too() {
    for seed in seeds(0..5) {
        play(seed, RATES, cloud_faults()).await;
    }
}
