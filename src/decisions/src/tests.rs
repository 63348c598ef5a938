use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::{NodePool, Operator};
use berth_state::{Event, Key, Kind, Object, ObjectRef, State, Time};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::*;

mod follow;
mod kept;
mod leaving;
mod order;
mod places;
mod preferring;
mod released;
mod reserved;
mod scarce_volumes;

const NOW: Time = Time::UNIX_EPOCH;

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn mk_pod(name: &str, cpu: &str, more: Value) -> Object {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}});
    merge(&mut pod, more);
    Object::from(typed::<Pod>(pod))
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn mk_node(name: &str, cpu: &str, labels: &Value) -> Object {
    let room = json!({"cpu": cpu, "memory": "8Gi", "pods": "10"});
    Object::from(typed::<Node>(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels},
        "status": {"allocatable": room, "capacity": room}})))
}

fn mk_pool() -> Object {
    Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "uid-pool"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}], "requirements": []}}}})))
}

/// The same without a taint.
fn mk_open_pool() -> Object {
    Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "uid-pool"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}}}}})))
}

fn state_of(objects: &[Object]) -> State {
    let mut state = State::new(berth_state::Options::default());
    for &kind in Kind::ALL {
        let objects = objects.iter().filter(|object| object.kind() == kind).cloned().collect();
        state.apply(Event::Relisted { kind, objects, resource_version: None }).unwrap();
    }
    let types = json!([{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [
        {"Price": 0.1, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]},
        {"Price": 0.1, "Available": 1, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]}]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }).unwrap();
    state
}

fn full() -> Options {
    Options { launches: true, ..Options::default() }
}

fn pod_ref(name: &str) -> ObjectRef {
    Key::new(Kind::Pod, "default", name).with_uid(Some(&format!("uid-{name}")))
}

fn node_ref(name: &str) -> ObjectRef {
    Key::new(Kind::Node, "", name).with_uid(Some(&format!("uid-{name}")))
}

/// The regression: it never held, and a drifted node of a NodePool with replicas waited for ever to be replaced.
#[test]
fn a_launch_that_is_for_nobody_holds_while_its_node_pool_is_as_it_was() {
    let tolerates = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    let mut state = state_of(&[mk_pool(), mk_pod("web", "1", tolerates)]);
    let mut launches = decide(&mut state, &full(), NOW).unwrap().launches;
    assert_eq!(launches.len(), 1);
    launches[0].pods.clear();
    let replica = Replica::of(&mut state);
    assert!(replica.since(&mut state, NOW).hold_launches(&launches));
    let more = json!({"spec": {"limits": {"cpu": "9"}}});
    let Object::NodePool(pool) = mk_pool() else { panic!("a NodePool") };
    let mut pool = serde_json::to_value(&*pool).unwrap();
    merge(&mut pool, more);
    let pool = Object::from(typed::<NodePool>(pool));
    state.apply(Event::Applied(pool)).unwrap();
    assert!(!replica.since(&mut state, NOW).hold_launches(&launches), "it may be launched otherwise now");
}

/// The regression: it said that there is no node while nodes came up.
#[test]
fn a_reservation_that_pre_allocates_waits_for_nodes_that_are_up() {
    let room = Object::from(typed::<berth_api::Reservation>(json!({
        "metadata": {"name": "room", "uid": "uid-room"},
        "spec": {"ttl": "0s", "preAllocation": true, "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "template": {"spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}]}}}})));
    let reasons = |labels: &Value| {
        let mut state = state_of(&[mk_node("node", "1", labels), room.clone()]);
        let decision = decide(&mut state, &full(), NOW).unwrap();
        let [refusal] = &decision.refusals[..] else { panic!("one is refused: {decision:?}") };
        refusal.reasons.clone()
    };
    let none_up = "a Reservation that pre-allocates takes room on nodes that are up, and there is none";
    assert_eq!(reasons(&json!({"karpenter.sh/nodepool": "pool"})), [(none_up.to_owned(), 0)]);
    assert_eq!(reasons(&json!({})), [("Insufficient cpu by node".to_owned(), 1)]);
}

#[test]
fn room_is_held_for_a_reservation_that_a_node_comes_up_for_and_its_owner_waits_for_it() {
    let owner = json!({"metadata": {"labels": {"app": "owner"}}});
    let room = Object::from(typed::<berth_api::Reservation>(json!({
        "metadata": {"name": "room", "uid": "uid-room"},
        "spec": {"ttl": "0s", "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "template": {"spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}]}}}})));
    let expected = ExpectedNodes::from([("coming".into(), Arc::new(BTreeSet::from(["room".into()])))]);
    let drawers = ExpectedDrawers::from([("room".into(), Arc::new(BTreeSet::from(["default/owner".into()])))]);
    let options = Options { expected, drawers, ..full() };
    let room_ref = Key::new(Kind::Reservation, "", "room").with_uid(Some("uid-room"));
    let objects = |labels: &Value| {
        let nodes = [mk_node("up", "1", &json!({})), mk_node("coming", "2", labels)];
        let pods = [mk_pod("other", "1", json!({})), mk_pod("owner", "1", owner.clone())];
        [&nodes[..], &pods[..], std::slice::from_ref(&room)].concat()
    };
    let mut state = state_of(&objects(&json!({"karpenter.sh/nodepool": "pool"})));
    let decision = decide(&mut state, &options, NOW).unwrap();
    let bound: Vec<_> = decision.bindings.iter().map(|binding| (&binding.object, &binding.node)).collect();
    assert_eq!(bound, [(&pod_ref("other"), &node_ref("up"))], "the owner leaves it to who has no other place");
    let mut nominated: Vec<_> = decision.nominations.iter().map(|known| (&known.object, &known.node)).collect();
    nominated.sort();
    assert_eq!(nominated, [(&room_ref, &node_ref("coming")), (&pod_ref("owner"), &node_ref("coming"))]);
    let mut state = state_of(&objects(&json!({"karpenter.sh/nodepool": "pool", "karpenter.sh/initialized": "true"})));
    let decision = decide(&mut state, &options, NOW).unwrap();
    let bound: Vec<_> =
        decision.bindings.iter().map(|known| (&known.object, &known.node, known.draws_from.as_ref())).collect();
    assert_eq!(
        bound,
        [
            (&room_ref, &node_ref("coming"), None),
            (&pod_ref("owner"), &node_ref("coming"), Some(&room_ref)),
            (&pod_ref("other"), &node_ref("up"), None),
        ]
    );
}

/// The regression: a node was launched for an owner that was made while its Reservation's node came up. The next of a pod of a StatefulSet
/// always is: it is made once its node is left.
#[test]
fn an_owner_that_comes_later_draws_from_a_reservation_whose_node_comes_up() {
    let labels = json!({"karpenter.sh/nodepool": "pool", "kubernetes.io/hostname": "coming"});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "owner"}}}]}}});
    let mk_room = |once: bool| {
        Object::from(typed::<berth_api::Reservation>(json!({
            "metadata": {"name": "room", "uid": "uid-room"},
            "spec": {"ttl": "0s", "allocateOnce": once, "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
                "template": {"spec": {"containers": [
                    {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1900m"}}}]}}}})))
    };
    let owner = |name: &str, spec: &Value| {
        mk_pod(name, "600m", json!({"metadata": {"labels": {"app": "owner"}}, "spec": spec}))
    };
    let room_ref = Key::new(Kind::Reservation, "", "room").with_uid(Some("uid-room"));
    let none = json!({});
    for (once, spec, drawers, others_draw, n_launched) in [
        (false, &none, vec![], vec!["a", "b", "c"], 0),
        (false, &none, vec!["default/a"], vec!["b", "c"], 0),
        (false, &apart, vec![], vec!["a"], 2),
        // Who is expected there counts in the rules of others.
        (false, &apart, vec!["default/a"], vec![], 2),
        // Once its owner has come it holds nothing, and the others have room.
        (true, &none, vec![], vec!["a"], 0),
        (true, &none, vec!["default/a"], vec![], 0),
    ] {
        let pods = ["a", "b", "c"].map(|name| owner(name, spec));
        let objects = [&[mk_node("coming", "2", &labels), mk_room(once), mk_open_pool()], &pods[..]].concat();
        let expected = ExpectedNodes::from([("coming".into(), Arc::new(BTreeSet::from(["room".into()])))]);
        let drawers: BTreeSet<Box<str>> = drawers.into_iter().map(Box::from).collect();
        let case = format!("once: {once}, {spec}, {drawers:?}");
        let drawers = ExpectedDrawers::from([("room".into(), Arc::new(drawers))]);
        let decision = decide(&mut state_of(&objects), &Options { expected, drawers, ..full() }, NOW).unwrap();
        assert_eq!(decision.launches.len(), n_launched, "{case}: {decision:?}");
        let drawn = decision.nominations.iter().filter(|known| known.draws_from.as_ref() == Some(&room_ref));
        let mut drawn: Vec<&str> = drawn.map(|known| &*known.object.key.name).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, others_draw, "{case}: {decision:?}");
    }
}

/// A Reservation takes one owner along that is spread over zones; for the others it is decided once it is known where it comes.
#[test]
fn owners_whom_rules_keep_from_a_launch_with_their_reservation_are_decided_about_later() {
    let owner = |name: &str, spec: &Value| {
        mk_pod(name, "600m", json!({"metadata": {"labels": {"app": "owner"}}, "spec": spec}))
    };
    let room = |cpu: &str| {
        Object::from(typed::<berth_api::Reservation>(json!({
            "metadata": {"name": "room", "uid": "uid-room"},
            "spec": {"ttl": "0s", "allocateOnce": false, "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
                "template": {"spec": {"containers": [
                    {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]}}}})))
    };
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 3, "topologyKey": "karpenter.sh/capacity-type",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "owner"}}}]});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "owner"}}}]}}});
    for (spec, cpu, holds_back, n_launched, are_held_back) in [
        (&spread, "1900m", false, 2, false),
        (&spread, "1900m", true, 1, true),
        // There is room for one alone.
        (&spread, "700m", true, 1, false),
        // No node has room for it: nobody waits for it.
        (&spread, "64", true, 1, false),
        // No two of them come to one node whatever is known.
        (&apart, "1900m", true, 3, false),
    ] {
        let objects = [&[mk_open_pool(), room(cpu)], &["a", "b", "c"].map(|name| owner(name, spec))[..]].concat();
        let options = Options { holds_back, ..full() };
        let decision = decide(&mut state_of(&objects), &options, NOW).unwrap();
        let case = format!("{spec}, {cpu}, {holds_back}: {decision:?}");
        assert_eq!((decision.launches.len(), decision.holds_back), (n_launched, are_held_back), "{case}");
        let kept = Decider::default().decide(&mut state_of(&objects), &options, NOW).unwrap();
        assert_eq!(kept, decision, "{case}");
    }
}

#[test]
fn a_new_pod_takes_no_place_of_one_that_is_alike_and_expected() {
    let mut state = state_of(&[
        mk_node("coming", "1", &json!({"karpenter.sh/nodepool": "pool"})),
        mk_pod("new", "1", json!({"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}})),
        mk_pod("old", "1", json!({"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}})),
        mk_pool(),
    ]);
    let expected = ExpectedNodes::from([("coming".into(), Arc::new(BTreeSet::from(["default/old".into()])))]);
    let decision = decide(&mut state, &Options { expected, ..full() }, NOW).unwrap();
    let nominated: Vec<_> = decision.nominations.iter().map(|known| (&known.object, &known.node)).collect();
    assert_eq!(nominated, [(&pod_ref("old"), &node_ref("coming"))]);
    assert_eq!(decision.launches[0].pods, [pod_ref("new")]);
}

/// The regression: its room was counted twice, as nominated and as expected, and it was bound only once the latter had ended.
#[test]
fn a_pod_that_is_nominated_where_it_is_expected_is_bound_there() {
    let nominated = json!({"status": {"nominatedNodeName": "n"}});
    for launches in [false, true] {
        let mut state = state_of(&[mk_node("n", "3", &json!({})), mk_pod("a", "2", nominated.clone())]);
        let expected = ExpectedNodes::from([("n".into(), Arc::new(BTreeSet::from(["default/a".into()])))]);
        let options = Options { launches, expected, ..Options::default() };
        let decision = decide(&mut state, &options, NOW).unwrap();
        let bound: Vec<_> = decision.bindings.iter().map(|binding| (&binding.object, &binding.node)).collect();
        assert_eq!(bound, [(&pod_ref("a"), &node_ref("n"))], "{launches}");
        let kept = Decider::default().decide(&mut state, &options, NOW).unwrap();
        assert_eq!(kept.bindings, decision.bindings, "{launches}");
    }
}

#[test]
fn who_fits_is_bound_by_uid_and_launches_take_the_rest_slots_first() {
    let tolerant = json!({"spec": {"tolerations": [{"key": "team", "operator": "Exists"}]}});
    let mut state = state_of(&[
        mk_node("n", "1", &json!({})),
        mk_pod("a", "1", tolerant.clone()),
        mk_pod("b", "1500m", tolerant.clone()),
        mk_pod("c", "1500m", tolerant),
        mk_pod("big", "64", json!({})),
        mk_pool(),
    ]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let bound: Vec<_> = decision.bindings.iter().map(|binding| (&binding.object, &binding.node)).collect();
    assert_eq!(bound, [(&pod_ref("a"), &node_ref("n"))]);
    assert_eq!(decision.launches.len(), 2);
    let on_slot = decision.launches.iter().find(|launch| launch.offering.reservation_id.is_some()).unwrap();
    assert_eq!(on_slot.node_pool.uid.as_deref(), Some("uid-pool"));
    assert_eq!(on_slot.taints[0].value.as_deref(), Some("a"));
    assert_eq!(on_slot.requests["cpu"].to_string(), "1500m");
    let of_type = |launch: &Launch| {
        let types: Vec<_> =
            launch.requirements.iter().filter(|r| r.key == "node.kubernetes.io/instance-type").cloned().collect();
        (types.len(), types[0].operator, types[0].values.clone())
    };
    assert_eq!(of_type(on_slot), (1, Operator::In, vec!["m5.large".to_owned()]));
    let pinned = on_slot.requirements.iter().find(|r| r.key == "berth.sh/capacity-reservation-id").unwrap();
    assert_eq!(pinned.values, ["cr-1"]);
    let mut waiting: Vec<_> = decision.launches.iter().flat_map(|launch| &launch.pods).collect();
    waiting.sort();
    assert_eq!(waiting, [&pod_ref("b"), &pod_ref("c")]);
    assert_eq!(decision.refusals.len(), 1);
    assert_eq!(decision.refusals[0].objects, [pod_ref("big")]);
    assert!(!decision.refusals[0].reasons.is_empty());
}

/// As in Karpenter, whose provider for AWS counts again at the launch, and then never launches such a claim.
#[test]
fn min_values_count_what_there_is_before_a_slot_is_chosen_and_bind_no_claim_on_it() {
    let of_capacity =
        |capacity: &str| json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]});
    let paid = json!({"Price": 0.1, "Requirements": [of_capacity("on-demand")]});
    let slot = json!({"Price": 0.1, "Available": 1, "Requirements": [of_capacity("reserved"),
        {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]});
    let of_arch = |arch: &str, offerings: Value| json!({"name": arch, "architecture": arch, "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": offerings});
    let types = json!([of_arch("amd64", json!([paid, slot])), of_arch("arm64", json!([paid]))]);
    let counted = |least: u32| {
        let requirements: Vec<Value> = ["node.kubernetes.io/instance-type", "kubernetes.io/arch"]
            .map(|key| json!({"key": key, "operator": "Exists", "minValues": least}))
            .into();
        let pool = Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "pool", "uid": "uid-pool"}, "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}, "requirements": requirements}}}})));
        let mut state = state_of(&[pool, mk_pod("a", "1", json!({})), mk_pod("b", "1500m", json!({}))]);
        let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
        state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }).unwrap();
        let launches = decide(&mut state, &full(), NOW).unwrap().launches;
        let least =
            |launch: &Launch| launch.requirements.iter().filter_map(|known| known.min_values).collect::<Vec<_>>();
        launches.iter().map(|known| (known.offering.reservation_id.is_some(), least(known))).collect::<BTreeSet<_>>()
    };
    assert_eq!(counted(2), [(true, vec![]), (false, vec![2, 2])].into());
    assert_eq!(counted(3), [].into(), "not even before a slot is chosen");
}

#[test]
fn without_launches_only_nodes_that_are_up_are_asked() {
    let mut state =
        state_of(&[mk_node("n", "1", &json!({})), mk_pod("a", "1", json!({})), mk_pod("b", "1", json!({}))]);
    let decision = decide(&mut state, &Options::default(), NOW).unwrap();
    assert_eq!(decision.bindings.len(), 1);
    assert_eq!(decision.bindings[0].object, pod_ref("a"), "ties go by name");
    assert!(decision.launches.is_empty() && decision.refusals.is_empty());
}

/// The regression: another node was chosen, or launched, while the volume was being made for the first one.
#[test]
fn a_pod_whose_volume_is_being_made_for_a_node_waits_for_that_node() {
    let class =
        json!({"metadata": {"name": "disks"}, "provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({"metadata": {"name": "data", "namespace": "default", "uid": "uid-data",
        "annotations": {"volume.kubernetes.io/selected-node": "n"}}, "status": {"phase": "Pending"},
        "spec": {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"]}});
    let uses = json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let others = [
        mk_node("larger", "8", &json!({})),
        mk_open_pool(),
        mk_pod("a", "1", uses),
        Object::from(typed::<StorageClass>(class)),
        Object::from(typed::<PersistentVolumeClaim>(claim)),
    ];
    let with = |cpu: Option<&str>| {
        let node = cpu.map(|cpu| mk_node("n", cpu, &json!({})));
        let objects: Vec<Object> = node.into_iter().chain(others.clone()).collect();
        decide(&mut state_of(&objects), &full(), NOW).unwrap()
    };
    assert_eq!(with(Some("1")).bindings[0].node, node_ref("n"));
    let full = with(Some("500m"));
    assert!(full.bindings.is_empty() && full.launches.is_empty());
    // The regression: where volumes cannot be was told, and not what ties the pod to its node.
    let named = "weren't node \"n\", which a claim's volume.kubernetes.io/selected-node names";
    let why = |of: &str| full.refusals[0].reasons.iter().any(|reason| reason.0.contains(&format!("{of}{named}")));
    assert!(why("node(s) ") && why("NodePool pool: "), "{:?}", full.refusals[0].reasons);
    assert_eq!(with(None).bindings[0].node, node_ref("larger"), "a provisioner gives up a node that is gone");
}

#[test]
fn who_draws_from_a_pod_that_is_a_reservation_names_it_by_uid() {
    let owners = json!([{"labelSelector": {"matchLabels": {"app": "web"}}}]).to_string();
    let mode = json!({"metadata": {"labels": {"scheduling.koordinator.sh/operating-mode": "Reservation"},
            "annotations": {"scheduling.koordinator.sh/reservation-owners": owners}}, "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let web = json!({"metadata": {"labels": {"app": "web"}}});
    let mut state = state_of(&[mk_node("n", "1", &json!({})), mk_pod("room", "1", mode), mk_pod("a", "1", web)]);
    let binding = decide(&mut state, &full(), NOW).unwrap().bindings.remove(0);
    assert_eq!((binding.object, binding.draws_from), (pod_ref("a"), Some(pod_ref("room"))));
    let allocated = &binding.annotations["scheduling.koordinator.sh/reservation-allocated"];
    assert_eq!(typed::<Value>(serde_json::from_str(allocated).unwrap()), json!({"name": "room", "uid": "uid-room"}));
}

#[test]
fn pods_of_other_schedulers_are_nominated_and_never_bound() {
    let other = json!({"spec": {"schedulerName": "other"}});
    let mut state = state_of(&[mk_node("n", "4", &json!({})), mk_pod("a", "1", other), mk_pod("b", "1", json!({}))]);
    let options = Options { scheduler_names: Some(["default-scheduler".to_owned()].into()), ..full() };
    let decision = decide(&mut state, &options, NOW).unwrap();
    assert_eq!(decision.bindings.len(), 1);
    assert_eq!(decision.bindings[0].object, pod_ref("b"));
    assert_eq!(decision.nominations.len(), 1);
    assert_eq!((&decision.nominations[0].object, &decision.nominations[0].node), (&pod_ref("a"), &node_ref("n")));
}

/// The regression: once the pod of a DaemonSet was there, others took the room that its node had kept for it.
#[test]
fn a_pod_that_may_go_to_one_node_alone_comes_before_others_where_there_is_room() {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
    let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let daemon = mk_pod("zz-daemon", "100m", json!({"spec": {"affinity": affinity}}));
    for priority in [0, 1000] {
        let others = (0..4).map(|n| mk_pod(&format!("other-{n}"), "500m", json!({"spec": {"priority": priority}})));
        let mut objects = vec![mk_node("n", "2", &json!({})), daemon.clone()];
        objects.extend(others);
        let mut state = state_of(&objects);
        let mut decider = Decider::new();
        let kept = decider.decide(&mut state, &Options::default(), NOW).unwrap();
        decider.refresh(&mut state, NOW);
        let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
        for decision in [decide(&mut state, &Options::default(), NOW).unwrap(), kept, at_once.decision] {
            let bound: BTreeSet<&str> = decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
            assert!(bound.contains("zz-daemon") && bound.len() == 4, "{bound:?}");
        }
    }
}

#[test]
fn nobody_makes_way_for_a_pod_that_comes_first_only_where_there_is_room() {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
    let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let daemon = mk_pod("daemon", "1500m", json!({"spec": {"affinity": affinity, "priority": 10}}));
    let runs = mk_pod("runs", "1", json!({"spec": {"nodeName": "n", "priority": 0}}));
    let waits = mk_pod("waits", "1", json!({"spec": {"priority": 1000}}));
    let mut state = state_of(&[mk_node("n", "2", &json!({})), daemon, runs, waits]);
    let decision = decide(&mut state, &Options::default(), NOW).unwrap();
    let bound: Vec<&str> = decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
    assert_eq!((bound, decision.evictions.len()), (vec!["waits"], 0));
}

#[test]
fn a_pod_that_makes_others_give_way_is_nominated_until_they_are_gone() {
    let first = json!({"spec": {"nodeName": "n", "priority": 0}, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let urgent = json!({"spec": {"priority": 1000}});
    let mut state = state_of(&[mk_node("n", "1", &json!({})), mk_pod("low", "1", first), mk_pod("high", "1", urgent)]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    assert!(decision.bindings.is_empty(), "{:?}", decision.bindings);
    assert_eq!(decision.evictions, [Eviction { pod: pod_ref("low"), node: node_ref("n") }]);
    assert_eq!(decision.nominations.len(), 1);
    assert!(decision.nominations[0].after_evictions);
    assert_eq!(decision.nominations[0].object, pod_ref("high"));
}

#[test]
fn a_pod_without_spread_constraints_keeps_from_those_that_its_service_or_replica_set_selects() {
    let own = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]}});
    let mut first = own.clone();
    merge(&mut first, json!({"spec": {"nodeName": "large"}}));
    let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}});
    let set = json!({"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [{"name": "app"}]}}}});
    let mut objects = vec![
        mk_node("large", "8", &json!({"kubernetes.io/hostname": "large"})),
        mk_node("small", "4", &json!({"kubernetes.io/hostname": "small"})),
        mk_pod("a", "100m", first),
        mk_pod("b", "1", own),
    ];
    let chosen = |objects: &[Object]| {
        let decision = decide(&mut state_of(objects), &full(), NOW).unwrap();
        let bound: Vec<String> = decision.bindings.iter().map(|bound| bound.node.key.name.to_string()).collect();
        bound.join(" ")
    };
    assert_eq!(chosen(&objects), "large", "it has more room");
    for by in [
        Object::from(typed::<k8s_openapi::api::core::v1::Service>(service)),
        Object::from(typed::<k8s_openapi::api::apps::v1::ReplicaSet>(set)),
    ] {
        objects.push(by);
        assert_eq!(chosen(&objects), "small");
        objects.pop();
    }
}

/// The regression: between an eviction and its answer others were chosen to give way, and evicted beside the first.
#[test]
fn who_is_nominated_makes_the_same_pods_give_way_until_they_do() {
    let owned = |node: &str, started: &str| {
        json!({"spec": {"nodeName": node, "priority": 0}, "status": {"startTime": started}, "metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}})
    };
    // By itself a pod would make the one give way that started last.
    let mut objects = vec![
        mk_node("m", "1", &json!({})),
        mk_node("n", "1", &json!({})),
        mk_pod("early", "1", owned("m", "1970-01-01T00:00:00Z")),
        mk_pod("late", "1", owned("n", "1970-01-01T00:10:00Z")),
    ];
    for (nominated, evicted, on) in [(json!({}), "late", "n"), (json!({"nominatedNodeName": "m"}), "early", "m")] {
        let high = json!({"spec": {"priority": 1000}, "status": nominated});
        objects.push(mk_pod("high", "1", high));
        let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
        assert_eq!(decision.evictions, [Eviction { pod: pod_ref(evicted), node: node_ref(on) }]);
        objects.pop();
    }
}

/// The regression: a less important pod was bound at once where it fit, and evicted a moment later.
#[test]
fn nobody_takes_room_at_once_where_a_more_important_pod_may_make_others_give_way() {
    let owned = json!({"spec": {"nodeName": "n", "priority": -10}, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let waiting = |priority: i32, node: &str| json!({"spec": {"priority": priority, "nodeSelector": {"kubernetes.io/hostname": node}}});
    let at_once = |high: &str| {
        let mut state = state_of(&[
            mk_node("n", "3", &json!({})),
            mk_node("other", "3", &json!({})),
            mk_pod("runs", "500m", owned.clone()),
            mk_pod("high", high, waiting(100, "n")),
            mk_pod("elsewhere", "1", waiting(10, "other")),
            mk_pod("low", "1500m", waiting(-10, "n")),
        ]);
        let mut decider = Decider::new();
        decider.refresh(&mut state, NOW);
        let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
        let bound = at_once.decision.bindings.iter().map(|binding| binding.object.key.name.to_string());
        (bound.collect::<Vec<_>>(), at_once.is_all)
    };
    assert_eq!(at_once("2700m"), (vec!["elsewhere".to_owned()], false), "low waits for high's turn");
    assert_eq!(at_once("4"), (vec!["elsewhere".to_owned(), "low".to_owned()], false), "nobody's going helps high");
}

/// Its own scheduler evicts, and chooses whom: both would evict twice as many.
#[test]
fn nobody_is_evicted_for_a_pod_of_another_scheduler() {
    let first = json!({"spec": {"nodeName": "n", "priority": 0}, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let urgent = json!({"spec": {"priority": 1000, "schedulerName": "other"}});
    let mut state = state_of(&[mk_node("n", "1", &json!({})), mk_pod("low", "1", first), mk_pod("high", "1", urgent)]);
    let options = Options { scheduler_names: Some(["default-scheduler".to_owned()].into()), ..full() };
    let decision = decide(&mut state, &options, NOW).unwrap();
    assert!(decision.bindings.is_empty() && decision.evictions.is_empty(), "{:?}", decision.evictions);
    let told: Vec<_> = decision.nominations.iter().map(|known| (&known.object, known.after_evictions)).collect();
    assert_eq!(told, [(&pod_ref("high"), false)], "nothing is launched, and nothing is written of it");
}

#[test]
fn a_pod_whose_room_is_still_being_left_is_not_bound_before_it_is_free() {
    let going = json!({"spec": {"nodeName": "n", "priority": 0}, "metadata": {
        "deletionTimestamp": "1970-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}});
    let plain = json!({"spec": {"priority": 1000}});
    let nominated = json!({"spec": {"priority": 1000}, "status": {"nominatedNodeName": "n"}});
    // Whether it is nominated already, or would preempt those that go.
    for high in [nominated.clone(), plain] {
        let objects = [mk_node("n", "1", &json!({})), mk_pod("low", "1", going.clone()), mk_pod("high", "1", high)];
        for kept in [false, true] {
            let mut state = state_of(&objects);
            let decision = if kept {
                Decider::new().decide(&mut state, &full(), NOW).unwrap()
            } else {
                decide(&mut state, &full(), NOW).unwrap()
            };
            assert!(decision.bindings.is_empty(), "kubelet would refuse it: {:?}", decision.bindings);
            assert!(decision.evictions.is_empty() && decision.launches.is_empty() && decision.refusals.is_empty());
            let waits: Vec<_> =
                decision.nominations.iter().map(|known| (&known.object, known.after_evictions)).collect();
            assert_eq!(waits, [(&pod_ref("high"), true)]);
        }
    }
    // Room that is free elsewhere is not waited for.
    let mut state = state_of(&[
        mk_node("m", "1", &json!({})),
        mk_node("n", "1", &json!({})),
        mk_pod("low", "1", going),
        mk_pod("high", "1", nominated),
    ]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let bound: Vec<_> = decision.bindings.iter().map(|binding| &binding.node).collect();
    assert_eq!(bound, [&node_ref("m")]);
}

#[test]
fn pods_of_a_node_that_goes_away_are_planned_but_not_bound_before_they_are_remade() {
    let owned = json!({"spec": {"nodeName": "n"}, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let mut state = state_of(&[
        mk_node("n", "1", &json!({})),
        mk_node("m", "1", &json!({})),
        mk_pod("a", "1", owned.clone()),
        mk_pod("b", "1", owned),
        mk_pool(),
    ]);
    let mut fork = state.fork();
    let displaced = fork.remove_node(&node_ref("n"), NOW).unwrap();
    assert_eq!(displaced, [pod_ref("a"), pod_ref("b")]);
    let decision = decide(fork.state(), &full(), NOW).unwrap();
    assert!(decision.bindings.is_empty() && decision.nominations.is_empty());
    // One finds room on the other node; for the other there is none, since the pool is tainted.
    assert_eq!(decision.refusals.len(), 1);
    assert_eq!(decision.refusals[0].objects.len(), 1);
}

#[test]
fn a_pending_pod_of_a_daemon_set_is_bound_to_its_node() {
    let daemon = typed::<k8s_openapi::api::apps::v1::DaemonSet>(json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "uid-agent"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}}}));
    let own = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
            "uid": "uid-agent", "controller": true}]},
        "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}}});
    let mut state = state_of(&[mk_node("n", "1", &json!({})), Object::from(daemon), mk_pod("agent-x", "1", own)]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    assert_eq!(decision.bindings.len(), 1, "{:?}", decision.refusals);
    assert_eq!(decision.bindings[0].object, pod_ref("agent-x"));
}

#[test]
fn a_node_whose_numa_nodes_keep_all_cpus_takes_no_pod_that_must_lie_on_one() {
    let decide_with = |reserved: &str| {
        let topology = json!({"metadata": {"name": "n", "annotations": {
            "node.koordinator.sh/cpu-topology": json!({"detail": [
                {"id": 0, "core": 0, "socket": 0, "node": 0}, {"id": 1, "core": 1, "socket": 0, "node": 0}]}).to_string(),
            "node.koordinator.sh/reservation": json!({"reservedCPUs": reserved}).to_string()}},
            "topologyPolicies": ["None"],
            "zones": [{"name": "node-0", "type": "Node", "resources": [
                {"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}]}]});
        let topology = Object::from(typed::<berth_api::NodeResourceTopology>(topology));
        let spec = json!({"numaTopologyPolicy": "SingleNUMANode"}).to_string();
        let pod = mk_pod(
            "aligned",
            "1",
            json!({"metadata": {"annotations": {
            "scheduling.koordinator.sh/numa-topology-spec": spec}}}),
        );
        let mut state = state_of(&[mk_node("n", "8", &json!({})), topology, pod]);
        decide(&mut state, &Options::default(), NOW).unwrap().bindings.len()
    };
    assert_eq!(decide_with(""), 1);
    assert_eq!(decide_with("0-1"), 0);
}

#[test]
fn a_node_that_would_go_is_told_as_by_a_fork_that_removes_it() {
    let owner = |name: &str| {
        json!({"metadata": {"labels": {"app": name}, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}]}})
    };
    let on = |name: &str, cpu: &str, node: &str, app: &str, more: Value| {
        let mut value = owner(app);
        merge(&mut value, json!({"spec": {"nodeName": node}}));
        merge(&mut value, more);
        mk_pod(name, cpu, value)
    };
    let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
    let apart = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "apart"}}}]}});
    let daemon = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d",
        "uid": "d", "controller": true}]}});
    let objects = [
        mk_node("n0", "4", &zone("a")),
        mk_node("n1", "4", &zone("a")),
        mk_node("n2", "4", &zone("b")),
        mk_node("n3", "4", &zone("b")),
        on("web-0", "1500m", "n0", "web", json!({})),
        on("web-1", "1", "n1", "web", json!({})),
        on("big-0", "3", "n2", "big", json!({})),
        on("big-1", "3", "n3", "big", json!({})),
        on("apart-0", "500m", "n0", "apart", apart.clone()),
        on("apart-1", "500m", "n1", "apart", apart.clone()),
        on("apart-2", "500m", "n2", "apart", apart.clone()),
        on("apart-3", "500m", "n3", "apart", apart),
        on("agent", "100m", "n1", "agent", daemon),
    ];
    let mut state = state_of(&objects);
    let mut decider = Decider::new();
    for round in 0..2 {
        for node in ["n0", "n1", "n2", "n3"] {
            let found = decider.without_node(&mut state, node, NOW).unwrap().unwrap();
            let stays: Vec<ObjectRef> = found.left().map(|pod| found.pod_ref(pod)).collect();
            assert!(!found.moves().any(|(pod, to)| to == node || pod.name == "agent"));
            let left: Vec<ObjectRef> = {
                let mut fork = state.fork();
                fork.remove_node(&node_ref(node), NOW).unwrap();
                let decision = decide(fork.state(), &full(), NOW).unwrap();
                assert!(decision.launches.is_empty() && decision.evictions.is_empty());
                decision.refusals.into_iter().flat_map(|refusal| refusal.objects).collect()
            };
            assert_eq!(stays, left, "{node}, round {round}");
        }
    }
    let left_of = |decider: &mut Decider, state: &mut State, node: &str| {
        let found = decider.without_node(state, node, NOW).unwrap().unwrap();
        found.left().map(|pod| found.pod_ref(pod)).collect::<Vec<_>>()
    };
    assert_eq!(left_of(&mut decider, &mut state, "n2"), [pod_ref("big-0")]);
    assert_eq!(left_of(&mut decider, &mut state, "n0"), []);
    // One that stands alone is no matter of room alone.
    state.apply(Event::Applied(mk_pod("alone", "100m", json!({"spec": {"nodeName": "n0"}})))).unwrap();
    assert!(decider.without_node(&mut state, "n0", NOW).unwrap().is_none());
    assert!(decider.without_node(&mut state, "n9", NOW).unwrap().is_none());
}
