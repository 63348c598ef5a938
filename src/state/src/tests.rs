use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;

mod assumptions;
mod in_place;
mod records;
mod references;
mod replicas;
mod resources;
mod spreading;
mod usable;

const NOW: Time = Time::UNIX_EPOCH;

fn mk_pod(name: &str, uid: &str, version: u64, node: Option<&str>) -> Object {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    Object::from(typed::<Pod>(pod))
}

fn mk_node(name: &str, version: u64) -> Object {
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    Object::from(typed::<Node>(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "status": {"allocatable": room, "capacity": room}})))
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod_key(name: &str) -> Key {
    Key::new(Kind::Pod, "default", name)
}

fn deleted(object: &Object, version: u64) -> Event {
    Event::Deleted { object: object.reference().unwrap(), resource_version: Some(version.to_string()) }
}

fn state_of(objects: impl IntoIterator<Item = Object>) -> State {
    let mut state = State::new(Options::default());
    for object in objects {
        state.apply(Event::Applied(object)).unwrap();
    }
    state
}

fn n_pending(state: &mut State) -> u32 {
    state.cluster(NOW).pending.iter().flat_map(|row| &row.members).map(berth_model::MemberRun::len).sum()
}

fn pods_on(state: &mut State, node: usize) -> usize {
    state.cluster(NOW).nodes[node].pods.len()
}

#[test]
fn conditions_of_a_node_claim_concern_no_decision_and_are_there_to_be_read() {
    let conditions = |state: &State| {
        let claim = state.get_as::<berth_api::NodeClaim>("", "c").unwrap();
        claim.status.as_ref().unwrap().conditions.len()
    };
    let mut state = state_of([mk_pool_claim(&json!({}))]);
    let told = json!([{"type": "Consolidatable", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let later = mk_pool_claim(&json!({"conditions": told, "lastPodEventTime": "2026-01-01T00:00:00Z"}));
    assert!(state.apply(Event::Applied(later)).unwrap().is_nothing());
    assert_eq!(conditions(&state), 1);
    for status in [json!({"providerID": "i-1"}), json!({"providerID": "i-1", "capacity": mk_room()})] {
        assert!(state.apply(Event::Applied(mk_pool_claim(&status))).unwrap().room, "{status}");
    }
}

#[test]
fn classes_that_come_change_and_go_are_taken_in_where_they_are() {
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "app", "image": "app"}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        mk(pod)
    };
    let storage = |mode: &str| {
        mk(json!({"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p.example",
            "volumeBindingMode": mode}))
    };
    let priority = |value: i32| mk(json!({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": value}));
    let claim = mk(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "default"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}));
    let volume = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]});
    let set = json!({"priority": 7, "priorityClassName": "high"});
    let mut state = state_of([mk_node("n", 1), pod("set", set), pod("disk", volume), claim]);
    let refused = |state: &mut State| {
        let cluster = state.cluster(NOW);
        let refusals = cluster.pending.iter().filter(|row| row.members.iter().any(|run| !run.is_empty()));
        refusals.filter(|row| cluster.specs[row.spec.index()].refusal.is_some()).count()
    };
    // Its claim has to be bound before the pod is placed, unless the class waits for it.
    assert_eq!((refused(&mut state), state.n_conversions()), (1, 1));
    for (object, n_refused) in [
        (storage("WaitForFirstConsumer"), 0),
        (storage("Immediate"), 1),
        (priority(1), 1),
        (priority(2), 1),
        (storage("WaitForFirstConsumer"), 0),
    ] {
        state.apply(Event::Applied(object)).unwrap();
        assert_eq!(refused(&mut state), n_refused);
    }
    for (object, n_refused) in [(priority(2), 0), (storage("WaitForFirstConsumer"), 1)] {
        state.apply(deleted(&object, 9)).unwrap();
        assert_eq!(refused(&mut state), n_refused);
    }
    assert_eq!(state.n_conversions(), 1, "{:?}", state.conversions());
    // A pod that leaves its priority to the class has everything converted anew with it.
    state.apply(Event::Applied(pod("named", json!({"priorityClassName": "high"})))).unwrap();
    state.apply(Event::Applied(priority(3))).unwrap();
    let priorities = |state: &mut State| -> Vec<i32> {
        let cluster = state.cluster(NOW);
        cluster.pending.iter().map(|row| cluster.specs[row.spec.index()].priority).collect()
    };
    assert!(priorities(&mut state).contains(&3));
    assert_eq!(state.n_conversions(), 2);
}

#[test]
fn what_a_list_did_not_have_is_not_brought_back_by_an_older_event() {
    let mut state = state_of([mk_node("n", 1)]);
    let list = |version: &str| Event::Relisted {
        kind: Kind::Pod,
        objects: Vec::new(),
        resource_version: Some(version.into()),
    };
    state.apply(list("7")).unwrap();
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 7, Some("n")))).unwrap().is_nothing());
    assert_eq!(pods_on(&mut state, 0), 0);
    // A server that began anew counts from the start.
    state.apply(list("3")).unwrap();
    state.apply(Event::Applied(mk_pod("web", "1", 4, Some("n")))).unwrap();
    assert_eq!(pods_on(&mut state, 0), 1);
}

#[test]
fn the_same_event_twice_changes_nothing() {
    let mut state = state_of([mk_pod("web", "1", 1, None)]);
    let again = state.apply(Event::Applied(mk_pod("web", "1", 1, None))).unwrap();
    assert!(again.is_nothing(), "{again:?}");
}

#[test]
fn an_older_event_undoes_neither_a_change_nor_a_deletion() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 5, Some("n"))]);
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 4, None))).unwrap().is_nothing());
    assert_eq!(pods_on(&mut state, 0), 1);
    state.apply(deleted(&mk_pod("web", "1", 5, None), 7)).unwrap();
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 6, Some("n")))).unwrap().is_nothing());
    assert_eq!(pods_on(&mut state, 0), 0);
    // Another of that name, made later.
    state.apply(Event::Applied(mk_pod("web", "2", 8, Some("n")))).unwrap();
    assert_eq!(pods_on(&mut state, 0), 1);
}

#[test]
fn a_snapshot_knows_what_there_was_and_changes_by_itself() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 1, None)]);
    state.assume(&pod_key("web").with_uid(Some("1")), Patch::Nominate { node: Some("n".into()) }).unwrap();
    let mut snapshot = state.snapshot();
    assert_eq!(snapshot.get(&pod_key("web")), state.get(&pod_key("web")), "what is assumed, too");
    let node = Key::new(Kind::Node, "", "n").with_uid(None);
    let write = snapshot.assume(&node, Patch::Remove).unwrap();
    assert_eq!((snapshot.cluster(NOW).nodes.len(), state.cluster(NOW).nodes.len()), (0, 1));
    state.apply(Event::Applied(mk_pod("web", "1", 2, Some("n")))).unwrap();
    let settled = Event::Settled { assumption: write.assumption, outcome: Outcome::Refused };
    snapshot.apply(settled).unwrap();
    assert_eq!((n_pending(&mut snapshot), n_pending(&mut state)), (1, 0));
}

#[test]
fn resource_versions_are_compared_as_numbers() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 9, None)]);
    state.apply(Event::Applied(mk_pod("web", "1", 10, Some("n")))).unwrap();
    assert_eq!(pods_on(&mut state, 0), 1);
}

#[test]
fn the_deletion_of_an_earlier_incarnation_leaves_the_later() {
    let mut state = state_of([mk_pod("web", "2", 8, None)]);
    let earlier = Event::Deleted { object: pod_key("web").with_uid(Some("1")), resource_version: None };
    assert!(state.apply(earlier).unwrap().is_nothing());
    assert_eq!(n_pending(&mut state), 1);
}

#[test]
fn the_deletion_of_a_later_incarnation_tells_that_the_earlier_went_too() {
    let mut state = state_of([mk_pod("web", "first", 11, Some("n"))]);
    // The second one was never told.
    state.apply(deleted(&mk_pod("web", "second", 13, None), 15)).unwrap();
    assert!(state.get(&pod_key("web")).is_none());
    state.apply(Event::Applied(mk_pod("web", "third", 17, None))).unwrap();
    state.apply(deleted(&mk_pod("web", "first", 11, None), 12)).unwrap();
    assert!(state.get(&pod_key("web")).is_some());
}

#[test]
fn a_relist_deletes_what_it_does_not_list_unless_that_is_newer() {
    let mut state = state_of([mk_pod("a", "1", 1, None), mk_pod("b", "2", 2, None), mk_pod("c", "3", 30, None)]);
    let list = Event::Relisted {
        kind: Kind::Pod,
        objects: vec![mk_pod("a", "1", 1, None)],
        resource_version: Some("20".to_owned()),
    };
    state.apply(list).unwrap();
    let names: Vec<&str> = state.objects(Kind::Pod).map(|(key, _)| &*key.name).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn an_unusable_object_is_refused_by_field_and_counts_as_absent_while_all_else_stands() {
    let mut state = state_of([mk_pod("good", "1", 1, None), mk_pod("web", "2", 2, None)]);
    let mut bad = serde_json::to_value(match mk_pod("web", "2", 3, None) {
        Object::Pod(pod) => (*pod).clone(),
        other => panic!("{other:?}"),
    })
    .unwrap();
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots".into();
    let list = Event::Relisted {
        kind: Kind::Pod,
        objects: vec![mk_pod("good", "1", 1, None), Object::from(typed::<Pod>(bad))],
        resource_version: None,
    };
    let refused = state.apply(list).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("Pod default/web: spec.containers[0].resources.requests"), "{text}");
    assert_eq!(n_pending(&mut state), 1);
    assert_eq!(state.refused().count(), 1);
    // Mended, it counts again.
    state.apply(Event::Applied(mk_pod("web", "2", 4, None))).unwrap();
    assert_eq!((n_pending(&mut state), state.refused().count()), (2, 0));
}

#[test]
fn a_pod_on_a_node_with_unreadable_annotations_takes_its_room_without_them() {
    let mut state = state_of([mk_node("n", 1)]);
    let mut bad = mk_pod("web", "1", 2, Some("n"));
    let key = "scheduling.koordinator.sh/reservation-allocated".to_owned();
    bad.metadata_mut().annotations = Some([(key, "{".to_owned())].into());
    let refused = state.apply(Event::Applied(bad)).unwrap_err();
    assert_eq!(refused.objects[0].counts_as, CountsAs::WithoutAnnotations);
    assert_eq!(pods_on(&mut state, 0), 1);
}

#[test]
fn a_workload_in_the_state_makes_no_pods() {
    let deployment = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3,
        "selector": {}, "template": {"spec": {"containers": [{"name": "app", "image": "app"}]}}}});
    let deployment = typed::<k8s_openapi::api::apps::v1::Deployment>(deployment);
    let mut state = state_of([Object::from(deployment), mk_pod("web-x", "1", 1, None)]);
    assert_eq!(n_pending(&mut state), 1);
    assert!(state.cluster(NOW).node_pools.is_empty(), "nor is there an open NodePool");
}

fn settle(state: &mut State, write: &Write, outcome: Outcome) -> Touched {
    state.apply(Event::Settled { assumption: write.assumption, outcome }).unwrap()
}

fn mk_claim(name: &str) -> berth_api::NodeClaim {
    typed(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {"requirements": []}}))
}

#[test]
fn nothing_is_decided_before_every_kind_and_the_cloud_were_listed() {
    let mut state = State::new(Options::default());
    for &kind in Kind::ALL {
        assert!(!state.is_synced());
        state.apply(Event::Relisted { kind, objects: Vec::new(), resource_version: None }).unwrap();
    }
    assert!(!state.is_synced());
    let catalogue = berth_catalogue::read(b"[]", "none").unwrap();
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }).unwrap();
    assert!(state.is_synced());
}

#[test]
fn a_dropped_fork_changes_nothing() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None), mk_pod("on", "2", 3, Some("n"))]);
    let before = format!("{:?}", state.cluster(NOW));
    {
        let mut fork = state.fork();
        let node = Key::new(Kind::Node, "", "n").with_uid(None);
        fork.bind(&pod_key("web").with_uid(None), "n", [].into()).unwrap();
        assert_eq!(pods_on(fork.state(), 0), 2);
        let displaced = fork.remove_node(&node, NOW).unwrap();
        assert_eq!(displaced.len(), 2);
        assert_eq!(n_pending(fork.state()), 2);
        let again = fork.bind(&pod_key("web").with_uid(None), "n", [].into());
        assert!(matches!(again, Err(ForkError::IsBound { .. })), "{again:?}");
        let refused = fork.evict(&pod_key("none").with_uid(None), NOW);
        assert!(matches!(refused, Err(ForkError::NoSuchObject(_))), "{refused:?}");
    }
    assert_eq!(format!("{:?}", state.cluster(NOW)), before);
    assert!(state.assumptions.is_empty());
}

#[test]
fn a_committed_fork_is_assumed_and_says_what_to_write() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let mut fork = state.fork();
    fork.bind(&pod_key("web").with_uid(Some("1")), "n", [].into()).unwrap();
    let writes = fork.commit();
    assert_eq!(writes.len(), 1);
    assert_eq!(pods_on(&mut state, 0), 1);
    settle(&mut state, &writes[0], Outcome::Refused);
    assert_eq!(pods_on(&mut state, 0), 0);
}

fn reserved(free: u32) -> berth_catalogue::Catalogue {
    let text = json!([{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [
        {"Price": 0.1, "Available": free, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]}]}]);
    berth_catalogue::read(text.to_string().as_bytes(), "types.json").unwrap()
}

fn free_slots(state: &mut State) -> u32 {
    state.cluster(NOW).slots[0].free
}

#[test]
fn free_slots_are_those_counted_less_the_launches_that_the_count_did_not_see() {
    let mut state = State::new(Options::default());
    let mut claim = mk_claim("c");
    claim.metadata.labels = Some([("berth.sh/capacity-reservation-id".to_owned(), "cr-1".to_owned())].into());
    claim.status = Some(berth_api::NodeClaimStatus { provider_id: Some("i-1".to_owned()), ..Default::default() });
    state.apply(Event::Applied(Object::from(claim))).unwrap();
    let mut offer = |seen: Option<&[&str]>| {
        let seen = seen.map(|seen| seen.iter().map(|&id| id.to_owned()).collect());
        state.apply(Event::Offered { catalogue: reserved(3).into(), seen }).unwrap();
        free_slots(&mut state)
    };
    assert_eq!(offer(None), 3);
    assert_eq!(offer(Some(&[])), 2);
    assert_eq!(offer(Some(&["i-1"])), 3);
    assert_eq!(offer(Some(&["c"])), 3);
    let count = SlotCount { reservation_id: "cr-1".to_owned(), free: 1, seen: [].into() };
    state.apply(Event::Counted(vec![count])).unwrap();
    assert_eq!(free_slots(&mut state), 0);
}

#[test]
fn a_launch_in_flight_that_the_count_left_out_already_takes_no_second_slot() {
    let mut state = State::new(Options::default());
    let mut claim = mk_claim("c");
    let on_slot = json!([{"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]);
    claim.spec.requirements = typed(on_slot);
    state.apply(Event::Offered { catalogue: reserved(3).into(), seen: None }).unwrap();
    state.apply(Event::Applied(Object::from(claim))).unwrap();
    assert_eq!(free_slots(&mut state), 2);
    let count = |seen: &[&str]| {
        let seen = seen.iter().map(|&name| name.to_owned()).collect();
        Event::Counted(vec![SlotCount { reservation_id: "cr-1".to_owned(), free: 2, seen }])
    };
    state.apply(count(&[])).unwrap();
    assert_eq!(free_slots(&mut state), 1, "the cloud did not know of it");
    // It was launched, and its NodeClaim does not show that yet.
    state.apply(count(&["c"])).unwrap();
    assert_eq!(free_slots(&mut state), 2);
}

fn mk_reservation(life: &Value) -> Object {
    let mut reservation = json!({"metadata": {"name": "r", "uid": "uid-r", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}], "template": {"spec": {"containers": [
            {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": {"phase": "Available", "nodeName": "n"}});
    for (key, value) in life.as_object().unwrap() {
        reservation["spec"][key] = value.clone();
    }
    Object::from(typed::<berth_api::Reservation>(reservation))
}

#[test]
fn a_reservation_ends_when_its_time_has_come_though_no_event_says_so() {
    for life in [json!({"ttl": "10s"}), json!({"expires": "1970-01-01T00:00:10Z"})] {
        let mut state = state_of([mk_node("n", 1), mk_reservation(&life)]);
        let mut held_at = |second: i64| {
            let now = Time::from_second(second).unwrap();
            state.cluster(now).nodes[0].holdings.len()
        };
        assert_eq!([5, 10, 11, 500].map(&mut held_at), [1, 1, 0, 0]);
        assert_eq!(held_at(10), 1, "a clock that goes back");
    }
}

#[test]
fn a_fork_takes_no_slot_twice_and_gives_them_back() {
    let mut state = State::new(Options::default());
    state.apply(Event::Offered { catalogue: reserved(1).into(), seen: None }).unwrap();
    {
        let mut fork = state.fork();
        fork.take_slot("cr-1", NOW).unwrap();
        assert_eq!(fork.take_slot("cr-1", NOW), Err(ForkError::NoSlot("cr-1".to_owned())));
        assert!(fork.take_slot("cr-2", NOW).is_err());
    }
    assert_eq!(free_slots(&mut state), 1);
}

fn mk(value: Value) -> Object {
    let kind = value["kind"].as_str().unwrap().to_owned();
    match kind.as_str() {
        "Deployment" => Object::from(typed::<k8s_openapi::api::apps::v1::Deployment>(value)),
        "DaemonSet" => Object::from(typed::<k8s_openapi::api::apps::v1::DaemonSet>(value)),
        "Job" => Object::from(typed::<k8s_openapi::api::batch::v1::Job>(value)),
        "NodeClaim" => Object::from(typed::<berth_api::NodeClaim>(value)),
        "NodePool" => Object::from(typed::<berth_api::NodePool>(value)),
        "PersistentVolumeClaim" => Object::from(typed::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(value)),
        "PriorityClass" => Object::from(typed::<k8s_openapi::api::scheduling::v1::PriorityClass>(value)),
        "StorageClass" => Object::from(typed::<k8s_openapi::api::storage::v1::StorageClass>(value)),
        "PodDisruptionBudget" => Object::from(typed::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(value)),
        "PersistentVolume" => Object::from(typed::<k8s_openapi::api::core::v1::PersistentVolume>(value)),
        "CSINode" => Object::from(typed::<k8s_openapi::api::storage::v1::CSINode>(value)),
        "Device" => Object::from(typed::<berth_api::Device>(value)),
        "NodeResourceTopology" => Object::from(typed::<berth_api::NodeResourceTopology>(value)),
        "Node" => Object::from(typed::<Node>(value)),
        "Pod" => Object::from(typed::<Pod>(value)),
        kind => panic!("{kind}"),
    }
}

fn mk_room() -> Value {
    json!({"cpu": "4", "memory": "8Gi", "pods": "10"})
}

fn mk_pool_node(name: &str, images: &Value) -> Object {
    mk(json!({"kind": "Node", "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {"providerID": format!("i-{name}")},
        "status": {"allocatable": mk_room(), "capacity": mk_room(), "images": images}}))
}

fn mk_pool_claim(status: &Value) -> Object {
    mk(json!({"kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {"requirements": [], "resources": {"requests": {"cpu": "1"}}}, "status": status}))
}

fn mk_pool(cpu: &str) -> Object {
    mk(json!({"kind": "NodePool", "metadata": {"name": "pool"}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}, "requirements": []}}},
        "status": {"resources": {"cpu": cpu}}}))
}

#[test]
fn an_overlay_that_selects_a_label_of_a_pool_follows_the_pool() {
    let pool = |team: &str| {
        mk(json!({"kind": "NodePool", "metadata": {"name": "pool"}, "spec": {"template": {
            "metadata": {"labels": {"team": team}}, "spec": {
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}, "requirements": []}}}}))
    };
    let requirements = json!([{"key": "team", "operator": "In", "values": ["a"]}]);
    let overlay = typed::<berth_api::NodeOverlay>(json!({"metadata": {"name": "o"},
        "spec": {"requirements": requirements, "price": "0.5"}}));
    let mut state = State::new(Options { node_overlay: true, ..Options::default() });
    let offered = Event::Offered { catalogue: reserved(3).into(), seen: None };
    for event in [offered, Event::Applied(pool("b")), Event::Applied(Object::from(overlay))] {
        state.apply(event).unwrap();
    }
    let price = |state: &mut State| state.cluster(NOW).instance_types[0].offerings[0].list_price;
    let set: berth_model::Money = "0.5".parse().unwrap();
    for (team, is_set) in [("b", false), ("a", true), ("c", false), ("a", true)] {
        state.apply(Event::Applied(pool(team))).unwrap();
        assert_eq!(price(&mut state) == set, is_set, "{team}");
    }
    let gone = Event::Deleted { object: pool("a").reference().unwrap(), resource_version: None };
    state.apply(gone).unwrap();
    assert_ne!(price(&mut state), set);
}

fn mk_deployment(replicas: u32) -> Object {
    mk(json!({"kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": replicas,
        "selector": {}, "template": {"spec": {"containers": [{"name": "app", "image": "app"}]}}}}))
}

fn mk_budget(allowed: u32) -> Object {
    mk(
        json!({"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}),
    )
}

fn mk_volume_claim(phase: &str) -> Object {
    mk(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": phase}}))
}

fn mk_agent(node: Option<&str>) -> Object {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true});
    mk(json!({"kind": "Pod", "metadata": {"name": "agent-0", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["new"]}]}]}}}}}))
}

fn mk_daemon_set() -> Object {
    mk(json!({"kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default", "uid": "agent"},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": [
            {"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}}}}))
}

#[test]
fn what_a_running_cluster_sees_all_the_time_converts_nothing_anew() {
    let started = [
        mk_pool_node("old", &json!([])),
        mk_pool("4"),
        mk_pool_claim(&json!({})),
        mk_deployment(1),
        mk_budget(0),
        mk_volume_claim("Pending"),
        mk_daemon_set(),
        mk_pod("web", "1", 1, None),
    ];
    let mut state = state_of(started);
    let free = |state: &mut State, name: &str| {
        let cluster = state.cluster(NOW);
        let node = cluster.nodes.iter().find(|node| cluster.symbols.text(node.name) == name);
        node.map(|node| node.free.get(berth_model::ResourceId::CPU))
    };
    let conversion = state.tracked(NOW).conversion.clone();
    let uninitialized = json!({"providerID": "i-new", "conditions": [{"type": "Launched", "status": "True",
        "reason": "Launched", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}], "allocatable": mk_room()});
    let events = [
        mk_pool_node("old", &json!([{"names": ["some"], "sizeBytes": 1_000_000_000}])),
        mk_pool_node("old", &json!([{"names": ["some", "more"], "sizeBytes": 1_000_000_000}])),
        mk_pool("8"),
        mk_pool_claim(&uninitialized),
        mk_pool_node("new", &json!([])),
        mk_agent(None),
        mk_agent(Some("new")),
        mk_deployment(3),
        mk_budget(1),
        mk_volume_claim("Bound"),
        mk_pod("web", "1", 2, Some("new")),
    ];
    let mut seen = Vec::new();
    for event in events {
        let what = Key::of(&event).unwrap();
        state.apply(Event::Applied(event)).unwrap();
        assert!(*state.tracked(NOW).conversion == conversion, "{what} had everything converted anew");
        seen.push((free(&mut state, "c"), free(&mut state, "new")));
    }
    // What the claim promises, then the node in its place, with room kept for the DaemonSet until its pod is there.
    assert_eq!(seen[0], (Some(500), None));
    assert_eq!(seen[3], (Some(3500), None));
    assert_eq!(seen[4], (None, Some(3500)));
    assert_eq!(seen[5], (None, Some(4000)), "its pod is on its way");
    assert_eq!(seen[6], (None, Some(3500)));
    assert_eq!(seen[10], (None, Some(2500)));
    assert_eq!(state.cluster(NOW).budgets[0].allowed, 1);
    let gone = mk_node("new", 1).reference().unwrap().key.with_uid(None);
    state.apply(Event::Deleted { object: gone, resource_version: None }).unwrap();
    assert!(*state.tracked(NOW).conversion == conversion);
    assert_eq!((free(&mut state, "c"), free(&mut state, "new")), (Some(3500), None));
}
