//! Volumes of zones that are there, and fewer than those who want one.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster with a volume in each of these zones and a type of two CPUs in all, in which these pods want a volume each.
fn cluster(zones: &[&str], pods: Vec<Object>, more: Vec<Object>) -> State {
    let class = json!({"metadata": {"name": "there"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let mut objects = vec![Object::from(typed::<StorageClass>(class)), mk_open_pool()];
    for (at, zone) in zones.iter().enumerate() {
        let terms = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
        objects.push(Object::from(typed::<PersistentVolume>(json!({
            "metadata": {"name": format!("v{at}"), "uid": format!("v{at}")}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "there",
                "csi": {"driver": "x", "volumeHandle": format!("v{at}")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}))));
    }
    for pod in &pods {
        let name = &pod.metadata().name;
        objects.push(Object::from(typed::<PersistentVolumeClaim>(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name}, "status": {"phase": "Pending"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "there",
                "resources": {"requests": {"storage": "1Gi"}}}}))));
    }
    objects.extend(pods);
    objects.extend(more);
    let mut state = state_of(&objects);
    let offering = |zone| {
        json!({"Price": 0.1, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": ZONE, "operator": "In", "values": [zone]}]})
    };
    let types = json!([{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"},
        "offerings": [offering("z-a"), offering("z-b"), offering("z-c")]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }).unwrap();
    state
}

/// A pod of so many CPUs with a claim of its own name.
fn user(name: &str, cpu: &str, created: &str) -> Object {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    mk_pod(name, cpu, json!({"metadata": {"creationTimestamp": created}, "spec": {"volumes": volumes}}))
}

/// Who is launched for in which zone.
fn launched(decision: &Decision) -> Vec<(String, String)> {
    let of = |launch: &Launch| {
        let zone = launch.offering.zone.clone().unwrap_or_default();
        launch.pods.iter().map(move |pod| (pod.key.name.to_string(), zone.clone())).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = decision.launches.iter().flat_map(of).collect();
    all.sort();
    all
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T00:01:00Z";

#[test]
fn a_node_is_launched_where_each_pod_has_a_volume_of_its_own() {
    let pods = ["a", "b", "c"].map(|name| user(name, "500m", EARLY));
    let mut state = cluster(&["z-a", "z-b"], pods.to_vec(), Vec::new());
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let zones: Vec<String> = launched(&decision).into_iter().map(|(_, zone)| zone).collect();
    assert_eq!(zones, ["z-a", "z-b"]);
    let [Refusal { objects, reasons }] = &decision.refusals[..] else { panic!("{:?}", decision.refusals) };
    assert_eq!(objects[..], [pod_ref("c")]);
    assert_eq!(reasons[0].0, "node(s) didn't find available persistent volumes to bind");
    assert_eq!(Decider::new().decide(&mut state, &full(), NOW).unwrap(), decision);
}

/// The regression: the first pod was offered the volume anew in each decision, whatever it needs, and nobody else had it.
#[test]
fn what_is_of_no_use_to_one_pod_is_offered_to_others() {
    let pods = vec![user("huge", "64", EARLY), user("small", "1", LATE)];
    let mut state = cluster(&["z-b"], pods, Vec::new());
    let decision = decide(&mut state, &full(), NOW).unwrap();
    assert_eq!(launched(&decision), [("small".to_owned(), "z-b".to_owned())]);
}

/// The regression: who came later was given the volume in the zone of a node that was launched for another.
#[test]
fn a_pod_that_a_node_was_launched_for_is_offered_the_volume_there() {
    let pods = vec![user("other", "500m", EARLY), user("expected", "500m", LATE)];
    let node = mk_node("n", "2", &json!({(ZONE): "z-a"}));
    let mut state = cluster(&["z-a", "z-b"], pods, vec![node]);
    let expected = [("n".into(), Arc::new(BTreeSet::from(["default/expected".into()])))].into();
    let options = Options { expected, ..full() };
    let decision = decide(&mut state, &options, NOW).unwrap();
    let bound: Vec<&str> = decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
    assert_eq!(bound, ["expected"]);
    assert_eq!(launched(&decision), [("other".to_owned(), "z-b".to_owned())]);
    // Nor is that decided at once, one pod at a time.
    let mut decider = Decider::new();
    decider.refresh(&mut state, NOW);
    let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
    assert_eq!(at_once, AtOnce::default());
}

/// Who needs no volume is bound at once all the same, and leaves their room to those who are more important.
#[test]
fn others_do_not_wait_until_volumes_are_shared_out() {
    for (priority, bound) in [(0, vec!["plain"]), (10, vec![])] {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "large"}}]);
        let large = mk_pod("large", "1900m", json!({"spec": {"volumes": volumes, "priority": priority}}));
        let more = vec![mk_node("n", "2", &json!({(ZONE): "z-a"})), mk_pod("plain", "500m", json!({}))];
        let mut state = cluster(&["z-a", "z-b"], vec![large, user("other", "3", LATE)], more);
        let mut decider = Decider::new();
        decider.refresh(&mut state, NOW);
        let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
        let names: Vec<&str> = at_once.decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
        assert_eq!((names, at_once.is_all), (bound, false), "priority {priority}");
    }
}

/// The regression: the volume in the zone of its node was given to a pod that can be nowhere else.
#[test]
fn a_pod_that_a_node_was_launched_for_keeps_its_volume_from_all_others() {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]);
    let there = json!({"spec": {"volumes": volumes, "nodeSelector": {(ZONE): "z-a"}}});
    let pods = vec![mk_pod("other", "500m", there), user("expected", "500m", LATE)];
    let node = mk_node("n", "2", &json!({(ZONE): "z-a"}));
    let mut state = cluster(&["z-a", "z-b"], pods, vec![node]);
    let expected = [("n".into(), Arc::new(BTreeSet::from(["default/expected".into()])))].into();
    let decision = decide(&mut state, &Options { expected, ..full() }, NOW).unwrap();
    let bound: Vec<&str> = decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
    assert_eq!((bound, launched(&decision)), (vec!["expected"], Vec::new()));
}

/// The regression: a volume that a pod which waits on its node will have was counted as free.
#[test]
fn a_pod_that_has_its_node_has_the_volume_there() {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "first"}}]);
    let first = mk_pod("first", "500m", json!({"spec": {"nodeName": "n", "volumes": volumes}}));
    let pods = vec![first, user("b", "500m", LATE), user("c", "500m", LATE)];
    let mut state = cluster(&["z-a", "z-b"], pods, vec![mk_node("n", "2", &json!({(ZONE): "z-a"}))]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    assert_eq!(launched(&decision), [("b".to_owned(), "z-b".to_owned())]);
    assert!(decision.bindings.is_empty(), "{:?}", decision.bindings);
}
