//! Objects that others refer to come, change and go: pods and nodes follow, each held to a conversion of everything.

use super::*;

/// What pods that wait and nodes have of other objects.
fn told(state: &mut State) -> Vec<String> {
    let cluster = state.cluster(NOW);
    let text = |sym| cluster.symbols.text(sym);
    let mut lines = Vec::new();
    for row in &cluster.pending {
        let spec = &cluster.specs[row.spec.index()];
        let places = spec.volumes.places().map(|alternatives| {
            let of = |node: &berth_model::Node, key| {
                if key == cluster.well_known.field_name { Some(node.name) } else { node.labels.get(key) }
            };
            let fits = |node: &&berth_model::Node| {
                alternatives.iter().any(|one| one.match_labels(&cluster.symbols, |key| of(node, key)))
            };
            let mut nodes: Vec<&str> = cluster.nodes.iter().filter(fits).map(|node| text(node.name)).collect();
            nodes.sort_unstable();
            nodes
        });
        let places: Vec<Vec<&str>> = places.collect();
        let attached: Vec<&str> = spec.volumes.attachments.iter().map(|(_, volume)| text(*volume)).collect();
        let refusal = spec.refusal.is_some();
        let names = row.members.iter().map(|run| run.name.to_string());
        lines.extend(names.map(|name| {
            format!("{name}: priority {}, at {places:?}, attaches {attached:?}, refused {refusal}", spec.priority)
        }));
    }
    let nodes = cluster.nodes.iter().map(|node| {
        let limits: Vec<(&str, u32)> = node.attach_limits.iter().map(|(driver, most)| (text(*driver), *most)).collect();
        let (n_cpus, n_devices) = (node.units.cpus.len(), node.units.devices.len());
        format!("{}: {limits:?}, {n_cpus} CPUs, {n_devices} devices", text(node.name))
    });
    lines.extend(nodes);
    lines.sort();
    lines
}

/// Applies each: what is told after it is what a state says that converts everything then. Whether anything was told otherwise.
fn follow(state: &mut State, event: Event) -> bool {
    let before = told(state);
    state.apply(event).unwrap();
    let is = told(state);
    assert_eq!(is, told(&mut state.snapshot()), "{:?}", state.conversions());
    is != before
}

fn mk_in_zone(name: &str, zone: &str) -> Object {
    mk(json!({"kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": mk_room()}}))
}

fn mk_user(name: &str, claim: &str) -> Object {
    mk(json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "priorityClassName": "high", "containers": [{"name": "app", "image": "app"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}}))
}

fn mk_claim_of(name: &str, volume: Option<&str>) -> Object {
    let phase = if volume.is_some() { "Bound" } else { "Pending" };
    mk(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume}, "status": {"phase": phase}}))
}

fn mk_claim_being_made_for(node: &str) -> Object {
    mk(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default",
        "annotations": {"volume.kubernetes.io/selected-node": node}},
        "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}))
}

fn in_zone(zone: &str) -> Value {
    json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}])
}

fn mk_storage_class(name: &str, is_default: bool, zone: &str) -> Object {
    mk(json!({"kind": "StorageClass", "metadata": {"name": name, "annotations":
        {"storageclass.kubernetes.io/is-default-class": is_default.to_string()}}, "provisioner": "csi",
        "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": in_zone(zone)}))
}

fn mk_volume(zone: &str) -> Object {
    let terms = json!([{"matchExpressions":
        [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    mk(json!({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "csi", "volumeHandle": "handle"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}))
}

fn mk_class_without_provisioner(name: &str) -> Object {
    mk(json!({"kind": "StorageClass", "metadata": {"name": name, "annotations":
        {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"}))
}

fn mk_local_volume(claim: Option<&str>, phase: &str) -> Object {
    let claim = claim.map(|name| json!({"namespace": "default", "name": name}));
    let terms =
        json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]);
    mk(json!({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "local": {"path": "/d"}, "storageClassName": "usual", "claimRef": claim,
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}, "status": {"phase": phase}}))
}

fn mk_priority_class(value: i32) -> Object {
    mk(json!({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": value}))
}

fn mk_csi_node(node: &str, most: u32) -> Object {
    mk(json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers":
        [{"name": "csi", "nodeID": node, "allocatable": {"count": most}}]}}))
}

fn mk_device(n_gpus: u32) -> Object {
    let gpu = |minor: u32| {
        json!({"type": "gpu", "minor": minor, "health": true, "resources":
        {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100", "koordinator.sh/gpu-memory": "8Gi"}})
    };
    mk(
        json!({"kind": "Device", "metadata": {"name": "a"}, "spec": {"devices": (0..n_gpus).map(gpu).collect::<Vec<_>>()}}),
    )
}

fn mk_topology(n_cpus: u32) -> Object {
    let cpus: Vec<Value> = (0..n_cpus).map(|id| json!({"id": id, "core": id, "socket": 0, "node": 0})).collect();
    let detail = json!({"detail": cpus}).to_string();
    mk(json!({"kind": "NodeResourceTopology", "metadata": {"name": "a",
        "annotations": {"node.koordinator.sh/cpu-topology": detail}}, "topologyPolicies": ["None"], "zones": []}))
}

/// Two nodes of which one limits volumes, and a pod with a claim of the class that is the default.
fn started() -> State {
    state_of([
        mk_in_zone("a", "a"),
        mk_in_zone("b", "b"),
        mk_csi_node("b", 7),
        mk_storage_class("usual", true, "a"),
        mk_claim_of("data", None),
        mk_user("web", "data"),
    ])
}

#[test]
fn what_pods_and_nodes_refer_to_is_followed_where_it_is() {
    let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
    let put = Event::Applied;
    let histories: [Vec<Event>; 8] = [
        vec![put(mk_device(2)), put(mk_device(1)), gone(mk_device(1))],
        vec![put(mk_topology(4)), put(mk_topology(6)), gone(mk_topology(6))],
        vec![put(mk_csi_node("a", 3)), put(mk_csi_node("a", 4)), gone(mk_csi_node("a", 4))],
        // Bound to a volume that comes later, changes and goes; then the claim goes.
        vec![
            put(mk_claim_of("data", Some("pv"))),
            put(mk_volume("b")),
            put(mk_volume("a")),
            gone(mk_volume("a")),
            put(mk_claim_of("data", None)),
            gone(mk_claim_of("data", None)),
            put(mk_claim_of("data", None)),
        ],
        vec![
            put(mk_storage_class("usual", true, "b")),
            put(mk_storage_class("usual", false, "b")),
            put(mk_storage_class("other", true, "a")),
            gone(mk_storage_class("other", true, "a")),
        ],
        vec![put(mk_priority_class(5)), put(mk_priority_class(6)), gone(mk_priority_class(6))],
        // Its volume is being made for a node, which goes and comes; then for another, and for none.
        vec![
            put(mk_claim_being_made_for("b")),
            gone(mk_in_zone("b", "b")),
            put(mk_in_zone("b", "b")),
            put(mk_claim_being_made_for("a")),
            put(mk_claim_of("data", None)),
        ],
        // Of a class that nobody makes volumes for: one comes, is kept for another claim, is free again, is bound and goes.
        vec![
            put(mk_class_without_provisioner("usual")),
            put(mk_local_volume(None, "Available")),
            put(mk_local_volume(Some("other"), "Available")),
            put(mk_local_volume(None, "Available")),
            put(mk_local_volume(Some("other"), "Bound")),
            put(mk_local_volume(Some("data"), "Bound")),
            gone(mk_local_volume(Some("data"), "Bound")),
        ],
    ];
    for events in histories {
        let mut state = started();
        told(&mut state);
        for event in events {
            let what = format!("{event:?}");
            assert!(follow(&mut state, event), "nothing follows from {what}");
        }
    }
}

#[test]
fn what_nobody_referred_to_so_far_is_as_it_is_for_those_who_come() {
    let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
    // A class, claim or volume comes, changes or goes while nobody has to do with it; then a pod comes.
    let after = |events: Vec<Event>| {
        let mut state =
            state_of([mk_in_zone("a", "a"), mk_in_zone("b", "b"), mk_csi_node("b", 7), mk_pod("first", "1", 1, None)]);
        told(&mut state);
        for event in events {
            follow(&mut state, event);
        }
        follow(&mut state, Event::Applied(mk_user("web", "data")));
        told(&mut state).into_iter().find(|line| line.starts_with("web")).unwrap()
    };
    let put = Event::Applied;
    let claimed =
        || vec![put(mk_storage_class("usual", true, "b")), put(mk_volume("b")), put(mk_claim_of("data", Some("pv")))];
    let bound = after(claimed());
    assert!(bound.contains(r#"at [["b"]]"#) && bound.contains("handle"), "{bound}");
    let unbound = after([claimed(), vec![put(mk_claim_of("data", None))]].concat());
    assert!(unbound.contains(r#"at [["b"]]"#) && !unbound.contains("handle"), "{unbound}");
    let without = after([claimed(), vec![gone(mk_claim_of("data", None))]].concat());
    assert!(without.contains("refused true"), "{without}");
    let other = [claimed(), vec![put(mk_storage_class("usual", true, "a")), put(mk_claim_of("data", None))]].concat();
    assert!(after(other).contains(r#"at [["a"]]"#));
    let high = after([claimed(), vec![put(mk_priority_class(5))]].concat());
    assert!(high.contains("priority 5"), "{high}");
    let again = after([claimed(), vec![put(mk_priority_class(5)), put(mk_priority_class(6))]].concat());
    assert!(again.contains("priority 6"), "{again}");
    let none = after([claimed(), vec![put(mk_priority_class(5)), gone(mk_priority_class(5))]].concat());
    assert!(!none.contains("priority 5"), "{none}");
}
