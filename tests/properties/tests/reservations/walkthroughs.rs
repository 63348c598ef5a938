//! The walkthroughs of Koordinator's guide, from `examples/`: what its text means to happen, step by step, with the status
//! that each Reservation has then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_model::{Phase, Resources};
use berth_scheduling::reservation::lifecycle::{self, CurrentOwner, Seen, SeenOwner, Status, Terms};

use crate::mk::{Extra, Reserve, World};

const NOW: i64 = 1_800_000_000;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn guide(name: &str) -> World {
    let text = std::fs::read_to_string(examples().join(name).join("manifests.yaml")).unwrap();
    World { text: text + "\n---\n", ..World::default() }
}

fn with_config(mut world: World) -> World {
    world.args =
        berth_manifests::read_scheduler_config(&examples().join("scheduler-config.yaml")).unwrap().reservations;
    world
}

fn terms() -> Terms {
    Terms { created: NOW, expires: None, ttl: Duration::from_secs(7200), allocate_once: true }
}

fn seen(owners: &[(&str, [i64; 3], bool)]) -> Seen {
    let owner = |(name, amounts, ran_before): &(&str, [i64; 3], bool)| SeenOwner {
        owner: CurrentOwner { uid: format!("u-{name}"), namespace: "default".into(), name: (*name).into() },
        requests: Some(Resources::from_amounts(amounts)),
        ran_before: *ran_before,
        leaves: false,
    };
    Seen { owners: owners.iter().map(owner).collect(), ..Seen::default() }
}

fn ready(status: &Status) -> &'static str {
    status.ready.as_ref().map_or("", |ready| ready.reason)
}

#[test]
fn quick_start_the_one_owner_spends_the_reservation() {
    let outcome = guide("guide-quick-start").run();
    assert_eq!((outcome.of("reservation-demo"), outcome.of("pod-demo-0")), ("node-0", "node-0 of reservation-demo"));
    assert!(outcome.allocated.is_empty(), "what the owner leaves is free");
    assert_eq!(outcome.free["node-0"].0, 7800 - 200);
    let mib = 1 << 20;
    let reserved = Resources::from_amounts(&[500, 800 * mib]);
    let available = lifecycle::scheduled(&Status::default(), "node-0", reserved, 0, NOW);
    assert_eq!((available.phase, ready(&available)), (Phase::Available, "Available"));
    let owners = seen(&[("pod-demo-0", [200, 400 * mib, 1], false)]);
    let spent = lifecycle::sync(&terms(), &available, &owners, NOW + 32);
    // The guide's listing still says Available; allocateOnce is the default, and means Succeeded.
    assert_eq!((spent.phase, ready(&spent)), (Phase::Succeeded, "Succeeded"));
    assert_eq!(spent.allocated, Resources::from_amounts(&[200, 400 * mib]));
    assert_eq!(spent.current_owners[0].name, "pod-demo-0");
}

#[test]
fn several_owners_share_one_reservation_on_the_node_that_it_names() {
    let outcome = guide("guide-several-owners").run();
    assert_eq!(outcome.of("reservation-demo-big"), "node-1");
    for name in ["app-demo-0", "app-demo-1"] {
        assert_eq!(outcome.of(name), "node-1 of reservation-demo-big");
    }
    assert_eq!(outcome.allocated["reservation-demo-big"], (2, 4000, 20 * 1024));
}

/// After the pods that it was bound to have gone, the Reservation holds the room: another pod does not get it, an owner
/// does.
fn after(world: &str, gone: &[&str], reserve: &Reserve<'_>, app: &str, requests: &str) -> [String; 2] {
    let mut world = guide(world);
    let documents: Vec<&str> = world.text.split("\n---\n").collect();
    let is_gone = |document: &&&str| {
        document.contains("kind: Reservation") || gone.iter().any(|name| document.contains(&format!("name: {name}\n")))
    };
    let left: Vec<&str> = documents.iter().filter(|document| !is_gone(document)).copied().collect();
    world.text = left.join("\n---\n") + "\n---\n";
    world.reservation(reserve);
    world.pod("other", "other", requests, Extra::default()).pod("owner", app, requests, Extra::default());
    let outcome = world.run();
    [outcome.of("other").to_owned(), outcome.of("owner").to_owned()]
}

#[test]
fn pre_allocation_in_mode_default_is_bound_to_the_running_owner_and_inherits_its_room() {
    // The guide's manifest sets no allocatePolicy, and needs none.
    let outcome = guide("guide-pre-allocation-default").run();
    assert_eq!(outcome.of("reservation-prealloc"), "node-0");
    assert_eq!(outcome.bound, ["reservation-prealloc: my-app-0"]);
    let reserved = Resources::from_amounts(&[500, 800 << 20]);
    let waiting = lifecycle::scheduled(&Status::default(), "node-0", reserved, 1, NOW);
    let bound = seen(&[("my-app-0", [500, 800 << 20, 1], true)]);
    let waiting = lifecycle::sync(&terms(), &waiting, &bound, NOW + 60);
    assert_eq!((waiting.phase, ready(&waiting)), (Phase::Waiting, "Waiting"), "binding it spends nothing");
    let available = lifecycle::sync(&terms(), &waiting, &seen(&[]), NOW + 120);
    assert_eq!((available.phase, ready(&available)), (Phase::Available, "Available"), "it has ended");
    let owners = "owners: [{labelSelector: {matchLabels: {app: my-app}}}], preAllocation: true,";
    let requests = "cpu: 500m, memory: 800Mi";
    let reserve =
        Reserve { name: "reservation-prealloc", requests, spec: owners, on: Some("node-0"), ..Reserve::default() };
    let [other, owner] = after("guide-pre-allocation-default", &["my-app-0"], &reserve, "my-app", requests);
    assert_eq!(owner, "node-0 of reservation-prealloc");
    assert_eq!(other, "1 Insufficient cpu, 1 Insufficient memory");
}

#[test]
fn pre_allocation_in_mode_cluster_is_bound_to_the_highest_priority() {
    let without = guide("guide-pre-allocation-cluster").run();
    let disabled = "1 reservation requires cluster mode pre-allocation which is disabled";
    assert_eq!(without.of("reservation-cluster-mode"), disabled);
    let outcome = with_config(guide("guide-pre-allocation-cluster")).run();
    assert_eq!(outcome.of("reservation-cluster-mode"), "node-0");
    assert_eq!(outcome.bound, ["reservation-cluster-mode: batch-job-1"]);
    let owners = "owners: [{labelSelector: {matchLabels: {app: critical-app}}}],";
    let requests = "cpu: 2, memory: 4Gi";
    let reserve = Reserve { name: "reserved", requests, spec: owners, on: Some("node-0"), ..Reserve::default() };
    let [other, owner] = after("guide-pre-allocation-cluster", &["batch-job-1"], &reserve, "critical-app", requests);
    assert_eq!((owner.as_str(), other.as_str()), ("node-0 of reserved", "1 Insufficient cpu, 1 Insufficient memory"));
}

#[test]
fn pre_allocation_of_several_pods_adds_up_their_room() {
    let outcome = with_config(guide("guide-pre-allocation-multiple")).run();
    assert_eq!(outcome.of("reservation-multi-pods"), "node-0");
    assert_eq!(outcome.bound, ["reservation-multi-pods: batch-job-1", "reservation-multi-pods: batch-job-2"]);
    assert_eq!(outcome.allocated["reservation-multi-pods"], (2, 2000, 4096));
    let owners = "owners: [{labelSelector: {matchLabels: {app: high-priority-app}}}],";
    let requests = "cpu: 2, memory: 4Gi";
    let reserve = Reserve { name: "reserved", requests, spec: owners, on: Some("node-0"), ..Reserve::default() };
    let gone = ["batch-job-1", "batch-job-2"];
    let [_, owner] = after("guide-pre-allocation-multiple", &gone, &reserve, "high-priority-app", requests);
    assert_eq!(owner, "node-0 of reserved");
}
