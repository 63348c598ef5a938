//! Reservations through their life: scenarios against the Kubernetes API alone, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::{Reservation, ReservationPhase, ReservationStatus};
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::disruption::{events, pool_with, set_slots};
use crate::scenarios::{catalogue, fleet, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

fn room(cpu: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room"}, "spec": {
            "ttl": "0s",
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            "template": {"spec": {"containers": [{
                "name": "room", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "3Gi"}}}]}}}});
    change(&mut room);
    room
}

async fn world(room: Value) -> World {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(60);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create::<Reservation>(room).await;
    world
}

async fn status(world: &World) -> Option<ReservationStatus> {
    let found = Api::<Reservation>::all(world.client.clone()).get_opt("room").await.unwrap();
    found.map(|found| found.status.unwrap_or_default())
}

async fn is(world: &World, phase: ReservationPhase) -> ReservationStatus {
    let there = world.settles(15, async |world| status(world).await.is_some_and(|status| status.phase == phase)).await;
    let status = status(world).await;
    assert!(there, "expected {phase:?}: {status:#?} {}", state_of(world).await);
    status.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_reservation_gets_a_node_and_serves_one_owner() {
    let world = world(room("2", |_| {})).await;
    let held = is(&world, ReservationPhase::Available).await;
    let node = held.node_name.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.nodes().await.len(), 1, "a node that holds room is not empty: {}", state_of(&world).await);
    world.deploy(web(1)).await;
    let spent = is(&world, ReservationPhase::Succeeded).await;
    let pods = world.pods().await;
    let pod = pods.first().unwrap();
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some(node.as_str()));
    let drawn = &pod.metadata.annotations.as_ref().unwrap()["scheduling.koordinator.sh/reservation-allocated"];
    assert!(drawn.contains("\"name\":\"room\""), "{drawn}");
    let owners: Vec<_> = spent.current_owners.iter().map(|owner| owner.uid.clone()).collect();
    assert_eq!(owners, std::slice::from_ref(&pod.metadata.uid));
    assert_eq!(world.claims().await.len(), 1, "its owner needed no other node: {}", state_of(&world).await);
    world.scale("web", 0).await;
    let gone = world.settles(10, async |world| world.alive().is_empty()).await;
    assert!(gone, "{}", state_of(&world).await);
    // Its node is gone, and it is over: nobody needs it any more.
    let deleted = world.settles(26 * 60, async |world| status(world).await.is_none()).await;
    assert!(deleted, "{:#?}", status(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The regression: the owner's annotation had no uid, and the pod that is a Reservation never said who draws from it.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_a_reservation_says_who_draws_from_it_as_long_as_that_one_is_there() {
    const CURRENT: &str = "scheduling.koordinator.sh/reservation-current-owner";
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    let owners = json!([{"labelSelector": {"matchLabels": {"app": "web"}}}]).to_string();
    let room = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "room", "namespace": "default",
            "labels": {"scheduling.koordinator.sh/operating-mode": "Reservation"},
            "annotations": {"scheduling.koordinator.sh/reservation-owners": owners}},
        "spec": {"containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "2", "memory": "3Gi"}}}]}});
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let room = pods.create(&PostParams::default(), &serde_json::from_value(room).unwrap()).await.unwrap();
    assert!(world.settles(10, async |world| world.all_run().await == Some(1)).await, "{}", state_of(&world).await);
    let noted = async |name: &str, key: &str| -> Option<Value> {
        let pod = pods.get(name).await.unwrap();
        serde_json::from_str(pod.metadata.annotations?.get(key)?).ok()
    };
    world.deploy(web(1)).await;
    for _ in 0..2 {
        let told = world.settles(10, async |_| noted("room", CURRENT).await.is_some()).await;
        assert!(told, "{}", state_of(&world).await);
        let all = world.pods().await;
        let owner = all.iter().find(|pod| pod.metadata.name.as_deref() != Some("room")).unwrap();
        let name = owner.metadata.name.as_deref().unwrap();
        let expected = json!({"namespace": "default", "name": name, "uid": owner.metadata.uid});
        assert_eq!(noted("room", CURRENT).await, Some(expected));
        let drawn = noted(name, "scheduling.koordinator.sh/reservation-allocated").await;
        assert_eq!(drawn, Some(json!({"name": "room", "uid": room.metadata.uid})));
        world.scale("web", 0).await;
        let taken_back = world.settles(10, async |_| noted("room", CURRENT).await.is_none()).await;
        assert!(taken_back, "{}", state_of(&world).await);
        // It is for whoever comes next.
        world.scale("web", 1).await;
    }
    assert_eq!(world.claims().await.len(), 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_expires_lets_its_node_go() {
    let world = world(room("2", |room| room["spec"]["ttl"] = json!("5m"))).await;
    is(&world, ReservationPhase::Available).await;
    let over = is(&world, ReservationPhase::Failed).await;
    let ready = over.conditions.iter().find(|known| known.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Expired"));
    let gone = world.settles(10, async |world| world.alive().is_empty() && world.nodes().await.is_empty()).await;
    assert!(gone, "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_with_its_node() {
    let world = world(room("2", |_| {})).await;
    is(&world, ReservationPhase::Available).await;
    for instance in world.alive() {
        world.cloud.terminate(&instance.provider_id);
    }
    // It has failed, and what has failed and has no node is of no use to anybody.
    let gone = world.settles(15, async |world| status(world).await.is_none()).await;
    assert!(gone, "{:#?}", status(&world).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.alive().is_empty(), "no node is launched for it any more: {}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_fits_nowhere_says_why() {
    let world = world(room("1000", |_| {})).await;
    let said = world
        .settles(5, async |world| {
            let conditions = status(world).await.unwrap_or_default().conditions;
            conditions.iter().any(|known| known.type_ == "Scheduled" && known.reason == "Unschedulable")
        })
        .await;
    let status = status(&world).await.unwrap();
    assert!(said && status.phase == ReservationPhase::Pending, "{status:#?}");
    assert!(world.alive().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_for_several_owners_counts_what_they_draw() {
    let world = world(room("3", |room| room["spec"]["allocateOnce"] = json!(false))).await;
    is(&world, ReservationPhase::Available).await;
    world.deploy(web(2)).await;
    let drawn = world
        .settles(5, async |world| status(world).await.is_some_and(|status| status.current_owners.len() == 2))
        .await;
    let status_now = status(&world).await.unwrap();
    assert!(drawn, "{status_now:#?}");
    assert_eq!(status_now.phase, ReservationPhase::Available);
    assert_eq!(status_now.allocated["cpu"].to_string(), "2400m");
    // A process that starts anew reads what is drawn from the pods.
    world.kill();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let again = status(&world).await.unwrap();
    assert_eq!((again.current_owners.len(), again.allocated["cpu"].to_string()), (2, "2400m".to_owned()));
    world.scale("web", 0).await;
    let returned = world
        .settles(5, async |world| status(world).await.is_some_and(|status| status.current_owners.is_empty()))
        .await;
    assert!(returned, "{:#?}", status(&world).await);
}

#[tokio::test(start_paused = true)]
async fn the_room_of_a_reservation_moves_to_a_slot_before_its_node_goes() {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(60);
    set_slots(&world, 0);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    world.create::<Reservation>(room("2", |room| room["spec"]["allocateOnce"] = json!(false))).await;
    let before = is(&world, ReservationPhase::Available).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "on-demand", 1)]));
    set_slots(&world, 1);
    // At every moment it holds room on a node that is there.
    let moved = world
        .settles(20, async |world| {
            let held = status(world).await.unwrap_or_default();
            assert_eq!(held.phase, ReservationPhase::Available, "{held:#?} {}", state_of(world).await);
            let names: Vec<_> = world.nodes().await.into_iter().map(|node| node.metadata.name).collect();
            assert!(names.contains(&held.node_name), "{held:#?} {}", state_of(world).await);
            world.fleet() == fleet(&[("m5.xlarge", "cr-web", 1)]) && names.len() == 1
        })
        .await;
    assert!(moved, "{} {:?}", state_of(&world).await, events(&world, "DisruptionBlocked").await);
    assert_ne!(status(&world).await.unwrap().node_name, before.node_name);
    let told = events(&world, "Disrupting").await;
    assert!(told.iter().any(|text| text.contains("1 node → 1 × m5.xlarge on cr-web: ")), "{told:?}");
    // Its owners draw from it where it is now.
    world.deploy(web(1)).await;
    let drawn =
        world.settles(5, async |world| status(world).await.is_some_and(|own| own.current_owners.len() == 1)).await;
    assert!(drawn, "{:#?}", status(&world).await);
    assert_eq!(world.claims().await.len(), 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_another_scheduler_is_left_to_it() {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(60);
    world.options.scheduler_names = Some(["berth-scheduler".to_owned()].into());
    set_slots(&world, 0);
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    let of_another = |room: &mut Value| room["spec"]["template"]["spec"]["schedulerName"] = json!("koord-scheduler");
    world.create::<Reservation>(room("2", of_another)).await;
    let has_node = world.settles(5, async |world| world.nodes().await.len() == 1).await;
    assert!(has_node, "{}", state_of(&world).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&world).await.unwrap().node_name, None, "the other scheduler chooses");
    let node = world.nodes().await.into_iter().find_map(|node| node.metadata.name);
    let held =
        json!({"status": {"phase": "Available", "nodeName": node, "allocatable": {"cpu": "2", "memory": "3Gi"}}});
    let api = Api::<Reservation>::all(world.client.clone());
    api.patch_status("room", &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    // Berth would move it to the slot.
    set_slots(&world, 1);
    let stays = world.settles(20, async |world| !events(world, "DisruptionBlocked").await.is_empty()).await;
    assert!(stays, "{}", state_of(&world).await);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let told = events(&world, "DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("another scheduler placed it")), "{told:?}");
    assert_eq!(status(&world).await.unwrap().node_name, node);
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "on-demand", 1)]));
}

/// The regression: owners that their own scheduler had not tried yet were nominated.
#[tokio::test(start_paused = true)]
async fn owners_of_another_scheduler_count_only_once_it_has_said_that_they_find_no_node() {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.scheduler_names = Some(["berth-scheduler".to_owned()].into());
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(1)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.alive().is_empty(), "nothing is launched for it: {}", state_of(&world).await);
    world.create::<Reservation>(room("2", |_| {})).await;
    is(&world, ReservationPhase::Available).await;
    let told = events(&world, "Nominated").await;
    assert!(told.len() == 1 && told[0].starts_with("room: "), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_room_moves_uses_what_it_launched() {
    for delay in [0, 3, 6, 9] {
        let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
        world.start_controllers(false);
        let mut large = pool("web", &["on-demand"]);
        let types = json!(["m5.large", "m5.2xlarge"]);
        let requirements = large["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
        requirements.push(json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}));
        world.create::<berth_api::NodePool>(large).await;
        let of_another =
            |room: &mut Value| room["spec"]["owners"] = json!([{"labelSelector": {"matchLabels": {"app": "x"}}}]);
        world.create::<Reservation>(room("1", of_another)).await;
        world.deploy(web(5)).await;
        is(&world, ReservationPhase::Available).await;
        run(&world, 5).await;
        let mut seen: BTreeSet<Option<String>> =
            world.claims().await.into_iter().map(|claim| claim.metadata.uid).collect();
        assert_eq!(seen.len(), 1, "{}", state_of(&world).await);
        world.scale("web", 0).await;
        let has_begun = world.settles(10, async |world| world.claims().await.len() == 2).await;
        assert!(has_begun, "{}", state_of(&world).await);
        tokio::time::sleep(Duration::from_secs(delay)).await;
        world.kill();
        let is_done = world
            .settles(30, async |world| {
                let claims = world.claims().await;
                seen.extend(claims.into_iter().map(|claim| claim.metadata.uid));
                world.fleet() == fleet(&[("m5.large", "on-demand", 1)])
            })
            .await;
        assert!(is_done, "{}", state_of(&world).await);
        assert_eq!(seen.len(), 2, "killed {delay} seconds after its launch: {}", state_of(&world).await);
        assert_eq!(status(&world).await.unwrap().phase, ReservationPhase::Available);
    }
}

/// The object that somebody made as it is, whatever its type says of it.
async fn create_raw(world: &World, object: Value) {
    let resource = kube::core::ApiResource::erase::<Reservation>(&());
    let api: Api<kube::core::DynamicObject> = Api::all_with(world.client.clone(), &resource);
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// The message of the condition that says why it has no node.
async fn raw_status(world: &World) -> Value {
    let resource = kube::core::ApiResource::erase::<Reservation>(&());
    let api: Api<kube::core::DynamicObject> = Api::all_with(world.client.clone(), &resource);
    api.get("room").await.unwrap().data["status"].clone()
}

#[rstest::rstest]
#[case::unreadable(json!({"template": {"spec": {"containers": "x"}}}), "cannot be read: spec.template.spec.containers")]
#[case::unusable(json!({"ttl": "-5m"}), "spec.ttl: is -5m, expected 0 (never) or more")]
#[tokio::test(start_paused = true)]
async fn a_reservation_that_cannot_be_read_or_used_says_so(#[case] change: Value, #[case] why: &str) {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    create_raw(
        &world,
        room("2", |room| {
            room["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        }),
    )
    .await;
    let is_said = world.settles(5, async |world| raw_status(world).await["phase"] == "Pending").await;
    let status = raw_status(&world).await;
    assert!(is_said, "{status:#}");
    let condition = &status["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Scheduled"), &json!("Unschedulable")));
    assert!(condition["message"].as_str().unwrap().contains(why), "{status:#}");
    let told = events(&world, "Unusable").await;
    assert!(told.iter().any(|text| text.contains(why)), "{told:?}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(raw_status(&world).await, status, "it is said once");
    // Once it is mended it gets a node.
    world.create::<berth_api::NodePool>(pool("web", &["on-demand", "reserved"])).await;
    let mended = json!({"spec": room("2", |_| {})["spec"]});
    let api = Api::<Reservation>::all(world.client.clone());
    api.patch("room", &PatchParams::default(), &Patch::Merge(mended)).await.unwrap();
    let held = is(&world, ReservationPhase::Available).await;
    assert!(held.conditions.iter().all(|condition| condition.status == "True"), "{held:#?}");
}

/// It waits for pods of its own owners, however long they take, and these are no strangers in its room.
#[tokio::test(start_paused = true)]
async fn a_pre_allocation_says_that_it_waits_for_its_own_owners() {
    let mut world = World::with(4, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(1)).await;
    run(&world, 1).await;
    let of_web = |room: &mut Value| {
        room["spec"]["preAllocation"] = json!(true);
        let requests = &mut room["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"];
        *requests = json!({"cpu": "1500m", "memory": "1Gi"});
    };
    world.create::<Reservation>(room("2", of_web)).await;
    let first = is(&world, ReservationPhase::Waiting).await;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let status = status(&world).await.unwrap();
        let ready = status.conditions.iter().find(|known| known.type_ == "Ready").unwrap();
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("Waiting", "1 running pod(s) still hold the room"),
            "{status:#?}"
        );
        assert_eq!(status.node_name, first.node_name, "it is not planned again");
    }
    world.scale("web", 0).await;
    is(&world, ReservationPhase::Available).await;
}

/// Another scheduler does not know of the room, and binds a pod to it.
#[tokio::test(start_paused = true)]
async fn a_reservation_whose_room_is_taken_waits_and_is_planned_again() {
    let world = world(room("2", |_| {})).await;
    let first = is(&world, ReservationPhase::Available).await.node_name.unwrap();
    let foreign = json!({"metadata": {"name": "foreign", "namespace": "default"}, "spec": {"nodeName": first,
        "schedulerName": "another", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "3"}}}]}});
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(world.client.clone());
    pods.create(&kube::api::PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    let waiting = is(&world, ReservationPhase::Waiting).await;
    let ready = waiting.conditions.iter().find(|known| known.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "RoomTaken"));
    assert_eq!(waiting.node_name.as_ref(), Some(&first));
    let second = is(&world, ReservationPhase::Available).await.node_name.unwrap();
    assert_ne!(second, first, "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), 2, "{}", state_of(&world).await);
}

fn bare_pod(name: &str, cpu: &str, change: impl FnOnce(&mut Value)) -> k8s_openapi::api::core::v1::Pod {
    let mut pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

/// The regression: it waited for who used the room that was added, though nobody had taken any, and its owners could not draw.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_made_larger_than_its_node_has_room_for_serves_its_owners() {
    let world = world(room("1", |room| room["spec"]["allocateOnce"] = json!(false))).await;
    let node = is(&world, ReservationPhase::Available).await.node_name.unwrap();
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(world.client.clone());
    let allocatable = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone()).get(&node).await.unwrap();
    let cpu = allocatable.status.unwrap().allocatable.unwrap()["cpu"].0.clone();
    let other = bare_pod("other", "500m", |_| {});
    pods.create(&kube::api::PostParams::default(), &other).await.unwrap();
    let is_beside = world
        .settles(5, async |world| {
            world.pods().await.iter().any(|pod| pod.spec.as_ref().unwrap().node_name == Some(node.clone()))
        })
        .await;
    assert!(is_beside, "{}", state_of(&world).await);
    let larger = json!({"status": {"allocatable": {"cpu": cpu}}});
    let rooms = Api::<Reservation>::all(world.client.clone());
    rooms.patch_status("room", &PatchParams::default(), &Patch::Merge(&larger)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let status = is(&world, ReservationPhase::Available).await;
    assert_eq!((status.node_name, &status.allocatable["cpu"].to_string()), (Some(node.clone()), &cpu));
    let asks = json!({"name": "room"}).to_string();
    let owner = bare_pod("web", "1200m", |pod| {
        pod["metadata"]["annotations"] = json!({"scheduling.koordinator.sh/reservation-affinity": asks});
    });
    pods.create(&kube::api::PostParams::default(), &owner).await.unwrap();
    let draws = world.settles(5, async |world| status_of_owners(world).await == 1).await;
    assert!(draws, "{}", state_of(&world).await);
    assert_eq!(is(&world, ReservationPhase::Available).await.node_name, Some(node));
}

async fn status_of_owners(world: &World) -> usize {
    status(world).await.map_or(0, |status| status.current_owners.len())
}

/// The regression: as soon as a node began to go, nobody seemed to draw from its Reservations any more.
#[tokio::test(start_paused = true)]
async fn owners_count_until_they_have_left_a_node_that_goes_away() {
    let world = world(room("2", |room| room["spec"]["allocateOnce"] = json!(false))).await;
    is(&world, ReservationPhase::Available).await;
    world.deploy(web(1)).await;
    let draws = world.settles(5, async |world| status_of_owners(world).await == 1).await;
    assert!(draws, "{}", state_of(&world).await);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = Api::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&kube::api::PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = status(&world).await.unwrap();
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    nodes.delete(before.node_name.as_deref().unwrap(), &kube::api::DeleteParams::default()).await.unwrap();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = status(&world).await.unwrap();
        let seen = |status: &ReservationStatus| (status.phase, status.node_name.clone(), status.allocated.clone());
        assert_eq!((seen(&now), now.current_owners.len()), (seen(&before), 1), "{}", state_of(&world).await);
    }
    // Once nobody draws from it any more, its room is had elsewhere.
    world.scale("web", 0).await;
    let moved = world
        .settles(5, async |world| {
            let now = status(world).await.unwrap();
            now.phase == ReservationPhase::Available && now.node_name != before.node_name
        })
        .await;
    assert!(moved, "{:#?} {}", status(&world).await, state_of(&world).await);
}

/// The regression: it failed with its node, and was deleted without a word.
#[tokio::test(start_paused = true)]
async fn room_that_nobody_draws_from_is_had_elsewhere_where_its_node_is_deleted() {
    let world = world(room("2", |_| {})).await;
    let first = is(&world, ReservationPhase::Available).await.node_name.unwrap();
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    nodes.delete(&first, &kube::api::DeleteParams::default()).await.unwrap();
    let is_elsewhere = async |world: &World| {
        let now = status(world).await;
        now.is_some_and(|now| now.phase == ReservationPhase::Available && now.node_name.as_ref() != Some(&first))
    };
    assert!(world.settles(5, is_elsewhere).await, "{:#?} {}", status(&world).await, state_of(&world).await);
    let told = events(&world, "Unschedulable").await;
    assert!(told.iter().any(|told| told.contains("goes away")), "{told:?}");
}

/// What is launched for a room is not given to pods that come while it boots.
#[tokio::test(start_paused = true)]
async fn what_is_launched_for_a_room_is_kept_for_it() {
    // Of a seed that decides at once. Where a decision takes a while, a pod that comes in just that moment has the room, and the
    // move waits for another: that is open.
    let mut world = World::with(2, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut large = pool("web", &["on-demand"]);
    let types = json!(["m5.large", "m5.2xlarge"]);
    let requirements = large["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
    requirements.push(json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}));
    world.create::<berth_api::NodePool>(large).await;
    let of_another =
        |room: &mut Value| room["spec"]["owners"] = json!([{"labelSelector": {"matchLabels": {"app": "x"}}}]);
    world.create::<Reservation>(room("1", of_another)).await;
    world.deploy(web(5)).await;
    is(&world, ReservationPhase::Available).await;
    run(&world, 5).await;
    world.scale("web", 0).await;
    let has_begun = world.settles(10, async |world| world.claims().await.len() == 2).await;
    assert!(has_begun, "{}", state_of(&world).await);
    world.scale("web", 1).await;
    let is_done = world.settles(5, async |world| world.fleet() == fleet(&[("m5.large", "on-demand", 2)])).await;
    assert!(is_done, "{:?} {}", events(&world, "DisruptionBlocked").await, state_of(&world).await);
    assert_eq!(status(&world).await.unwrap().phase, ReservationPhase::Available);
}
