//! Pods that run still, and are counted as gone: on nodes that are going away, and who is to give way.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

fn in_zone(name: &str, zone: &str) -> Object {
    mk_node(name, "4", &json!({ZONE: zone}))
}

fn going_away(node: Object) -> Object {
    let Object::Node(node) = node else { unreachable!("a node was made") };
    let mut node = serde_json::to_value(&*node).unwrap();
    merge(
        &mut node,
        json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination"]}}),
    );
    Object::from(typed::<Node>(node))
}

fn labelled(name: &str, more: Value) -> Object {
    let mut pod = json!({"metadata": {"labels": {"app": name}}});
    merge(&mut pod, more);
    mk_pod(name, "1", pod)
}

/// A NodeClaim whose node comes up.
fn mk_claim(name: &str, cpu: &str) -> Object {
    Object::from(typed::<berth_api::NodeClaim>(json!({
        "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {"requirements": []}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})))
}

fn away_from(app: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

fn on(node: &str, mut pod: Value, is_terminating: bool) -> Value {
    merge(&mut pod, json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}}));
    if is_terminating {
        merge(&mut pod, json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:30Z"}}));
    }
    pod
}

/// Where `new` is bound, beside `old`, which runs on a node of zone a that is going away.
fn bound(nodes: Vec<Object>, old: Value, new: Value) -> Vec<String> {
    let pods = vec![labelled("old", old), labelled("new", new)];
    let objects = [vec![going_away(in_zone("leaving", "a"))], nodes, pods].concat();
    let mut state = state_of(&objects);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let mut decider = Decider::new();
    decider.refresh(&mut state, NOW);
    let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
    assert!(!at_once.is_stale);
    let places = |bindings: &[Binding]| -> Vec<String> {
        let of_new = bindings.iter().filter(|binding| &*binding.object.key.name == "new");
        of_new.map(|binding| binding.node.key.name.to_string()).collect()
    };
    assert_eq!(places(&decision.bindings), places(&at_once.decision.bindings));
    assert!(decision.launches.is_empty());
    places(&decision.bindings)
}

/// The regression: pods of a node that goes away were not there for anybody's anti-affinity.
#[test]
fn anti_affinity_holds_with_pods_that_stop_on_a_node_that_goes_away() {
    for is_terminating in [true, false] {
        // By reference: rustc from 1.91 on may compile a closure that takes a pod itself, called twice with an empty one,
        // so that it gets the first one again (rust-lang/rust#155241).
        let old = |more: &Value| on("leaving", more.clone(), is_terminating);
        let nodes = || vec![in_zone("n", "a")];
        assert!(bound(nodes(), old(&json!({})), away_from("old")).is_empty(), "its own anti-affinity");
        assert!(bound(nodes(), old(&away_from("new")), json!({})).is_empty(), "the other's");
        assert_eq!(bound(nodes(), old(&json!({})), away_from("others")), ["n"]);
        assert_eq!(bound(vec![in_zone("n", "b")], old(&json!({})), away_from("old")), ["n"], "another zone");
    }
}

/// The regression: a pod that must join others of its kind was bound to another node while all of these ran on one that goes
/// away, as if it were the first.
#[test]
fn who_must_join_others_waits_until_they_have_stopped_where_it_cannot_join_them() {
    let joins = |app: &str, key: &str| {
        json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"group": app}}}]}}},
            "metadata": {"labels": {"group": app}}})
    };
    let of_group = |name: &str| json!({"metadata": {"labels": {"group": name}}});
    for is_terminating in [true, false] {
        let old = || on("leaving", of_group("g"), is_terminating);
        assert!(bound(vec![in_zone("n", "b")], old(), joins("g", ZONE)).is_empty(), "{is_terminating}");
        assert_eq!(bound(vec![in_zone("n", "a")], old(), joins("g", ZONE)), ["n"], "it joins them");
        assert_eq!(bound(vec![in_zone("n", "b")], old(), joins("others", ZONE)), ["n"], "it is the first of its kind");
        let running = labelled("running", on("n", of_group("g"), false));
        assert_eq!(bound(vec![in_zone("n", "b"), running], old(), joins("g", ZONE)), ["n"], "it joins one there");
    }
}

/// The regression: two drifted nodes with pods that have to be beside others waited for one another, their replacements up.
#[test]
fn who_must_be_beside_others_comes_with_those_who_come_there_now() {
    let to_n = json!({"spec": {"nodeSelector": {ZONE: "b"}}, "metadata": {"labels": {"group": "g"}}});
    let coming = labelled("coming", to_n);
    let joins = |labels: Value| {
        json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"group": "g"}}}]}}}, "metadata": {"labels": labels}})
    };
    let old = || on("leaving", json!({"metadata": {"labels": {"group": "g"}}}), false);
    let nodes = |more: Object| vec![in_zone("n", "b"), more];
    assert_eq!(bound(nodes(coming), old(), joins(json!({}))), ["n"], "one comes there that needs nobody");
    // Of two that need one another the first would have to wait for the one that leaves.
    let mut needs = joins(json!({"group": "g"}));
    merge(&mut needs, json!({"spec": {"nodeSelector": {ZONE: "b"}}}));
    let needs = labelled("coming", needs);
    assert!(bound(nodes(needs), old(), joins(json!({"group": "g"}))).is_empty(), "one that needs the other");
}

/// The regression, of claims.
#[test]
fn a_claim_for_one_pod_is_taken_until_that_pod_has_stopped_wherever_it_runs() {
    let volume = |mode: &str| {
        let claim = json!({"metadata": {"name": "data", "namespace": "default", "uid": "uid-data"},
            "spec": {"accessModes": [mode], "volumeName": "pv"}, "status": {"phase": "Bound"}});
        let volume = json!({"metadata": {"name": "pv", "uid": "uid-pv"},
            "spec": {"accessModes": [mode], "capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "v"},
                "claimRef": {"namespace": "default", "name": "data", "uid": "uid-data"}}});
        vec![Object::from(typed::<PersistentVolumeClaim>(claim)), Object::from(typed::<PersistentVolume>(volume))]
    };
    let with_claim = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    for is_terminating in [true, false] {
        let bound = |mode: &str| {
            let nodes = [vec![in_zone("n", "a")], volume(mode)].concat();
            bound(nodes, on("leaving", with_claim.clone(), is_terminating), with_claim.clone())
        };
        assert!(bound("ReadWriteOncePod").is_empty(), "{is_terminating}");
        assert_eq!(bound("ReadWriteOnce"), ["n"]);
    }
}

/// Where `new` is bound while `old` is to give way on another node of zone a, or in zone b, to a pod that goes there alone.
fn bound_beside_preemption(zone: &str, old: Value, new: Value) -> Vec<String> {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]);
    let mut old = on("full", old, false);
    merge(&mut old, json!({"spec": {"priority": 0}, "metadata": {"ownerReferences": owner}}));
    let urgent = json!({"spec": {"priority": 1000, "nodeSelector": {"for": "urgent"}}});
    let objects = [
        mk_node("full", "1", &json!({ZONE: "a", "for": "urgent"})),
        in_zone("n", zone),
        labelled("old", old),
        labelled("new", new),
        mk_pod("urgent", "1", urgent),
    ];
    let mut state = state_of(&objects);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    assert_eq!(decision.evictions, [Eviction { pod: pod_ref("old"), node: node_ref("full") }]);
    assert!(decision.launches.is_empty(), "{:?}", decision.launches);
    let is_new = |object: &ObjectRef| *object == pod_ref("new");
    let bound = decision.bindings.iter().filter(|binding| is_new(&binding.object));
    let bound: Vec<String> = bound.map(|binding| binding.node.key.name.to_string()).collect();
    let waits = decision.nominations.iter().any(|nomination| is_new(&nomination.object) && !nomination.after_evictions);
    assert_eq!(bound.is_empty(), waits, "it has its place, and waits for it alone");
    bound
}

/// The regression: who was to give way on another node was off it for whoever was decided about after that, and ran on beside a
/// pod that it keeps away.
#[test]
fn rules_hold_with_who_gives_way_on_another_node_until_it_has_stopped() {
    let bound = bound_beside_preemption;
    assert!(bound("a", json!({}), away_from("old")).is_empty(), "its own anti-affinity");
    assert!(bound("a", away_from("new"), json!({})).is_empty(), "the other's");
    assert_eq!(bound("a", json!({}), away_from("others")), ["n"]);
    assert_eq!(bound("b", json!({}), away_from("old")), ["n"], "another zone");
}

/// The regression, of a spread: the one who gives way counts until it does.
#[test]
fn a_spread_counts_who_gives_way_until_it_has_stopped() {
    let spread = |app: &str, unsatisfiable: &str| {
        json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": unsatisfiable,
            "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let bound = bound_beside_preemption;
    assert!(bound("a", json!({}), spread("old", "DoNotSchedule")).is_empty());
    assert_eq!(bound("a", json!({}), spread("old", "ScheduleAnyway")), ["n"]);
    assert_eq!(bound("a", json!({}), spread("others", "DoNotSchedule")), ["n"]);
    assert_eq!(bound("b", json!({}), spread("old", "DoNotSchedule")), ["n"]);
}

/// Where `new` is bound while `urgent` waits on a node of zone c for somebody to make way, with one of its like in zone a.
fn bound_beside_who_waits(more: Vec<Object>, new: Value) -> Vec<String> {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]);
    let mut old = on("full", json!({}), false);
    merge(&mut old, json!({"spec": {"priority": 0}, "metadata": {"ownerReferences": owner}}));
    let urgent = json!({"spec": {"priority": 1000, "nodeSelector": {"for": "urgent"}}});
    let mut objects = vec![
        mk_node("full", "2", &json!({ZONE: "c", "for": "urgent"})),
        in_zone("n", "a"),
        mk_pod("old", "2", old),
        labelled("urgent", urgent),
        labelled("there", on("n", json!({"metadata": {"labels": {"app": "urgent"}}}), false)),
        labelled("new", new),
    ];
    objects.extend(more);
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    assert!(decision.nominations.iter().any(|nomination| nomination.object == pod_ref("urgent")));
    let of_new = decision.bindings.iter().filter(|binding| binding.object == pod_ref("new"));
    of_new.map(|binding| binding.node.key.name.to_string()).collect()
}

/// The regression: who waited for others to make way was there for whoever was decided about after that.
#[test]
fn nobody_is_bound_who_counts_on_a_pod_that_waits_for_others_to_make_way() {
    let spread = |app: &str, selector: Value| {
        json!({"metadata": {"labels": {"app": "urgent"}}, "spec": {"nodeSelector": selector, "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let bound = bound_beside_who_waits;
    assert!(bound(vec![], spread("urgent", json!({}))).is_empty(), "two would be in zone a, and none in c");
    assert_eq!(bound(vec![], spread("others", json!({}))), ["n"]);
    assert_eq!(bound(vec![], spread("urgent", json!({ZONE: "a"}))), ["n"], "it is spread over zone a alone");
    let beside = |zone: &str| {
        json!({"spec": {"nodeSelector": {ZONE: zone}, "affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "urgent"}}}]}}}})
    };
    assert!(bound(vec![in_zone("m", "c")], beside("c")).is_empty(), "nobody is in zone c yet");
    assert_eq!(bound(vec![in_zone("m", "c")], beside("a")), ["n"]);
}

/// One of the pods of a ReplicaSet that are spread over zones.
fn spread_web() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]},
        "spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]}})
}

/// Where each is bound.
fn bound_pods(decision: &Decision) -> Vec<(&str, &str)> {
    let bindings = decision.bindings.iter();
    bindings.map(|binding| (&*binding.object.key.name, &*binding.node.key.name)).collect()
}

/// Where `new` is bound: one pod of its app runs in zone b, none in zone c, and `old` is on a node of zone a that goes away.
fn spread_beside(old: &str, more_of_old: Value, kind: &str) -> Vec<String> {
    let spread = |name: &str| {
        let mut pod = spread_web();
        if kind == "StatefulSet" {
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "set", "uid": "1", "controller": true});
            let labels = json!({"statefulset.kubernetes.io/pod-name": name});
            merge(
                &mut pod,
                json!({"metadata": {"labels": labels, "ownerReferences": [owner]}, "spec": {"hostname": name}}),
            );
        }
        pod
    };
    let mut of_old = spread(old);
    merge(&mut of_old, more_of_old);
    let mut state = state_of(&[
        going_away(in_zone("leaving", "a")),
        mk_node("n", "6", &json!({ZONE: "b"})),
        in_zone("m", "c"),
        mk_pod("there", "1", on("n", spread("there"), false)),
        mk_pod(old, "1", on("leaving", of_old, false)),
        mk_pod("new", "1", spread("new")),
    ]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let mut decider = Decider::new();
    decider.refresh(&mut state, NOW);
    let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
    assert_eq!(decision.bindings, at_once.decision.bindings);
    decision
        .bindings
        .iter()
        .map(|binding| format!("{} on {}", binding.object.key.name, binding.node.key.name))
        .collect()
}

/// The regression: a pod was bound by a spread that only the next of a pod on a node that goes away would have evened out.
#[test]
fn a_spread_counts_on_nobody_who_is_to_be_made_anew() {
    let first = json!({"spec": {"priority": 10}});
    assert!(spread_beside("old", first.clone(), "ReplicaSet").iter().all(|bound| bound != "new on n"));
    assert!(spread_beside("the-old", first, "ReplicaSet").iter().all(|bound| bound != "new on n"));
}

/// A budget may keep the old one until the new one is there: it must not wait for the old one's next. The regression: pods of a
/// StatefulSet, whose names differ in labels, counted as unlike, and the new one waited for good.
#[test]
fn who_waits_for_the_next_of_one_that_is_alike_takes_its_place() {
    for old in ["old", "another", "the-old"] {
        for kind in ["ReplicaSet", "StatefulSet"] {
            assert_eq!(spread_beside(old, json!({}), kind), ["new on m"], "{old} of a {kind}");
        }
    }
}

/// The regression: who runs yet on a node that goes away counted nowhere, so that a pod waited for its next, which a budget kept
/// from coming while this pod was pending.
#[test]
fn a_pod_comes_where_a_spread_holds_beside_those_who_are_yet_to_leave() {
    let spread = spread_web();
    let running = |name: &str, node: &str| mk_pod(name, "1", on(node, spread.clone(), false));
    for new in ["a-new", "z-new"] {
        let objects = [
            going_away(in_zone("leaving", "a")),
            mk_node("full", "2", &json!({ZONE: "b"})),
            mk_node("in-c", "3", &json!({ZONE: "c"})),
            mk_node("in-a", "3", &json!({ZONE: "a"})),
            running("old-1", "leaving"),
            running("old-2", "leaving"),
            running("old-3", "leaving"),
            running("there-1", "full"),
            running("there-2", "full"),
            running("there-3", "in-c"),
            mk_pod(new, "1", spread.clone()),
        ];
        let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
        assert_eq!(bound_pods(&decision), [(new, "in-c")], "{new}: {:?}", waits_for(&decision));
    }
}

/// A pod of a ReplicaSet, `more` with it.
fn of_one_set(more: &Value, created: &str) -> Value {
    let mut pod = more.clone();
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true});
    merge(
        &mut pod,
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": created, "ownerReferences": [owner]}}),
    );
    pod
}

/// The regressions: one that waits for good took the place of one that moves, so that the node of that one was never replaced.
#[test]
fn who_runs_yet_goes_on_where_rules_or_limits_let_only_some_of_those_alike_run() {
    goes_on_beside("a-waits");
    goes_on_beside("z-waits");
}

fn goes_on_beside(waits: &str) {
    // The oldest was bound first.
    let (first, later) = ("1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z");
    let alone = away_from("web");
    let objects = [
        going_away(in_zone("leaving", "a")),
        mk_node("n", "2", &json!({ZONE: "a"})),
        mk_pod("old", "1", on("leaving", of_one_set(&alone, first), false)),
        mk_pod(waits, "1", of_one_set(&alone, later)),
    ];
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    let moves: Vec<_> = decision.moves.iter().map(|known| (&*known.object.key.name, &*known.node.key.name)).collect();
    assert_eq!((bound_pods(&decision), moves), (Vec::new(), vec![("old", "n")]));

    let pool = json!({"metadata": {"name": "pool", "uid": "pool"}, "spec": {"limits": {"cpu": "2"}, "template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}, "requirements": []}}}});
    let objects = [
        going_away(in_zone("leaving", "a")),
        Object::from(typed::<NodePool>(pool)),
        mk_pod("old", "2", on("leaving", of_one_set(&json!({}), first), false)),
        mk_pod(waits, "2", of_one_set(&json!({}), later)),
    ];
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    let launched: Vec<_> = decision.launches.iter().flat_map(|launch| &launch.pods).map(|pod| &*pod.key.name).collect();
    let refused: Vec<_> =
        decision.refusals.iter().flat_map(|refusal| &refusal.objects).map(|pod| &*pod.key.name).collect();
    assert_eq!((launched, refused), (vec!["old"], vec![waits]));
}

/// The regression: a pod that waits now was sent to a node that comes up, and its room kept for one that is alike and runs yet.
#[test]
fn who_waits_now_has_its_room_before_those_who_are_alike_and_run_yet() {
    let owned = json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": "1970-01-01T00:00:00Z", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let mut new = owned.clone();
    merge(&mut new, json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"}}));
    // As the API server labels whoever is bound.
    let mut owned = owned;
    merge(&mut owned, json!({"metadata": {"labels": {ZONE: "a", "topology.kubernetes.io/region": "r"}}}));
    for name in ["a-new", "z-new"] {
        let objects = [
            going_away(in_zone("leaving", "a")),
            mk_node("n", "2", &json!({ZONE: "a"})),
            mk_pod("old", "1", on("leaving", owned.clone(), false)),
            mk_pod("there", "1", on("n", owned.clone(), false)),
            mk_pod(name, "1", new.clone()),
        ];
        let mut state = state_of(&objects);
        let decision = decide(&mut state, &full(), NOW).unwrap();
        let mut decider = Decider::new();
        assert_eq!(decider.decide(&mut state, &full(), NOW).unwrap().bindings, decision.bindings);
        assert_eq!(bound_pods(&decision), [(name, "n")]);
        assert!(decision.moves.is_empty(), "{:?}", decision.moves);
    }
}

/// The regression: of the places of nexts every other one was tried, and a budget kept the old ones for as long as the new one
/// waited for them.
#[test]
fn the_place_of_each_next_that_is_alike_is_tried() {
    let spread = spread_web();
    let running = |name: &str, node: &str| mk_pod(name, "500m", on(node, spread.clone(), false));
    // By name the new one is first, or last.
    for new in ["a-new", "z-new"] {
        for zones in
            [["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]]
        {
            let [old, one, two] = zones;
            let objects = [
                going_away(in_zone("leaving", old)),
                in_zone(&format!("in-{old}"), old),
                in_zone(&format!("in-{one}"), one),
                in_zone(&format!("in-{two}"), two),
                running("old-1", "leaving"),
                running("old-2", "leaving"),
                running("there", &format!("in-{old}")),
                running("one", &format!("in-{one}")),
                running("two-1", &format!("in-{two}")),
                running("two-2", &format!("in-{two}")),
                mk_pod(new, "500m", spread.clone()),
            ];
            let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
            assert_eq!(bound_pods(&decision), [(new, &*format!("in-{one}"))], "{zones:?}");
        }
    }
}

fn waits_for(decision: &Decision) -> Vec<&str> {
    decision.nominations.iter().filter_map(|nomination| nomination.waits_for.as_deref()).collect()
}

/// The regression: pods that ran yet on a node that goes away were in no domain of a spread.
#[test]
fn a_spread_counts_who_runs_on_a_node_that_goes_away() {
    let spread = |more: Value| {
        let mut pod = json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"nodeSelector": {"kubernetes.io/hostname": "n"}, "topologySpreadConstraints": [{"maxSkew": 1,
                "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}});
        merge(&mut pod, more);
        pod
    };
    let old = |is_terminating: bool| on("leaving", json!({"metadata": {"labels": {"app": "web"}}}), is_terminating);
    let decision = |old: Value, new: Value| {
        let objects = [
            going_away(in_zone("leaving", "a")),
            mk_node("n", "4", &json!({ZONE: "a", "kubernetes.io/hostname": "n"})),
            in_zone("m", "b"),
            mk_pod("old", "1", old),
            mk_pod("new", "1", new),
        ];
        decide(&mut state_of(&objects), &full(), NOW).unwrap()
    };
    let is_bound = |decision: &Decision| decision.bindings.iter().any(|binding| binding.object == pod_ref("new"));
    let waiting = decision(old(false), spread(json!({})));
    assert!(!is_bound(&waiting), "zone a would have two, zone b none");
    assert_eq!(
        waits_for(&waiting),
        [&*format!("waiting for pod default/old to leave node leaving: topology spread over {ZONE}")]
    );
    // Who is being deleted counts for no spread, as for kube-scheduler; and who may go to zone a alone is spread over it alone.
    assert!(is_bound(&decision(old(true), spread(json!({})))));
    let mut own = spread(json!({}));
    own["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Honor".into();
    assert!(is_bound(&decision(old(false), own.clone())));
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]}}});
    own["spec"]["nodeSelector"] = Value::Null;
    own["spec"]["affinity"] = affinity;
    assert!(is_bound(&decision(old(false), own)));
}

/// The regression: nobody said why a pod waited that was kept off its node.
#[test]
fn who_is_kept_off_is_told_for_whom_it_waits() {
    let objects = [
        going_away(in_zone("leaving", "a")),
        in_zone("n", "a"),
        labelled("old", on("leaving", json!({}), false)),
        labelled("new", away_from("old")),
    ];
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    assert_eq!(waits_for(&decision), ["waiting for pod default/old to leave node leaving: required anti-affinity"]);
}

/// The regression: running pods were evicted for the next of a pod that ran on, as its budget let nobody go.
#[test]
fn nobody_gives_way_to_the_next_of_a_pod_that_runs_yet() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]);
    let of_priority = |priority: i32| json!({"metadata": {"ownerReferences": owner}, "spec": {"priority": priority}});
    let objects = |high: Object| {
        vec![
            going_away(in_zone("leaving", "a")),
            mk_node("full", "1", &json!({})),
            high,
            mk_pod("low", "1", on("full", of_priority(0), false)),
        ]
    };
    let running =
        decide(&mut state_of(&objects(mk_pod("high", "1", on("leaving", of_priority(1000), false)))), &full(), NOW)
            .unwrap();
    assert_eq!(running.evictions, []);
    let waiting = decide(&mut state_of(&objects(mk_pod("high", "1", of_priority(1000)))), &full(), NOW).unwrap();
    assert_eq!(waiting.evictions, [Eviction { pod: pod_ref("low"), node: node_ref("full") }]);
}

/// The regression: who found no room that was not kept was told that there is not enough, and the node shows that there is.
#[test]
fn who_finds_only_room_that_is_kept_for_a_pod_which_runs_yet_is_told_for_whom() {
    let reasons = |cpu: &str, selector: Value| {
        let old = labelled("old", on("leaving", json!({"spec": {"priority": 10}}), false));
        let new = mk_pod("new", cpu, json!({"spec": {"nodeSelector": selector}}));
        let node = mk_node("n", "1500m", &json!({ZONE: "a"}));
        let mut state = state_of(&[going_away(in_zone("leaving", "a")), node, old, new]);
        let decision = decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(decision.moves.len(), 1);
        let [refusal] = &decision.refusals[..] else { panic!("one is refused: {decision:?}") };
        refusal.reasons.iter().any(|(reason, n)| {
            reason == "room on node n is kept for pod default/old, which runs yet on a node that goes away" && *n == 0
        })
    };
    assert!(reasons("1", json!({})));
    assert!(!reasons("2", json!({})), "it would not do for it");
    assert!(!reasons("1", json!({ZONE: "b"})), "it may not go there");
}

/// What is decided from the whole, from what is kept, and at once for those who fit.
fn in_each_way(state: &mut State, options: &Options) -> [Decision; 3] {
    let whole = decide(state, options, NOW).unwrap();
    let mut decider = Decider::new();
    let kept = decider.decide(state, options, NOW).unwrap();
    decider.refresh(state, NOW);
    let at_once = decider.decide_at_once(state, options, &BTreeSet::new(), NOW).unwrap().decision;
    [whole, kept, at_once]
}

/// The regression: an alike pod that had waited for longer took the place that a command held for a pod of the node that was to
/// go. As a limit was reached, that one had no other, and its node stayed beside what was to replace it.
#[test]
fn a_pod_leaves_the_place_of_an_alike_one_that_runs_yet() {
    let of_set = |name: &str, node: Value, minute: u32| {
        mk_pod(
            name,
            "1",
            json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"), "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]},
                "spec": {"nodeName": node}}),
        )
    };
    let tainted = || {
        Object::from(typed::<Node>(json!({"metadata": {"name": "old", "uid": "uid-old"},
            "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}})))
    };
    for (cpu, bound, waits) in [("1", vec![], true), ("2", vec!["early"], false)] {
        let objects = [mk_node("n", cpu, &json!({})), tainted(), of_set("runs", json!("old"), 30)];
        let objects = [&objects[..], &[of_set("early", Value::Null, 0)]].concat();
        let mut state = state_of(&objects);
        let expected = ExpectedNodes::from([("n".into(), Arc::new(BTreeSet::from(["default/runs".into()])))]);
        let options = Options { expected, ..full() };
        let [whole, kept, at_once] = in_each_way(&mut state, &options);
        for (which, decision) in [("whole", &whole), ("kept", &kept), ("at once", &at_once)] {
            let names: Vec<&str> = decision.bindings.iter().map(|binding| &*binding.object.key.name).collect();
            assert_eq!(names, bound, "{which}, {cpu} CPUs");
        }
        let words = at_once.nominations.iter().filter_map(|known| known.waits_for.as_deref());
        let kept_for = "its room is kept for pod default/runs, which runs yet on a node that goes away";
        assert_eq!(words.collect::<Vec<_>>(), if waits { vec![kept_for] } else { vec![] }, "{cpu} CPUs");
        let mut reasons = whole.refusals.iter().flat_map(|refusal| &refusal.reasons);
        let kept_for = "room on node n is kept for pod default/runs, which runs yet on a node that goes away";
        assert_eq!(reasons.any(|(reason, _)| reason == kept_for), waits, "{cpu} CPUs");
        let moved: Vec<&str> = whole.moves.iter().map(|moved| &*moved.object.key.name).collect();
        assert_eq!(moved, ["runs"], "{cpu} CPUs");
        // Where nothing is kept, who comes first has it.
        let whole = decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(whole.bindings.len(), 1, "{cpu} CPUs");
    }
}

/// The regression: pods that are alike were named in the order of the input, so that the place of one that runs yet was held for two,
/// and the other one's for nobody.
#[test]
fn pods_that_are_alike_each_come_where_they_are_expected() {
    let of_set = |name: &str| {
        mk_pod(
            name,
            "1",
            json!({"metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]}}),
        )
    };
    let nodes = ["n1", "n2", "n3"].map(|name| mk_node(name, "1", &json!({})));
    let mut state = state_of(&[&nodes[..], &["a", "b", "c"].map(of_set)].concat());
    let at = |node: &str, pod: &str| (node.into(), Arc::new(BTreeSet::from([format!("default/{pod}").into()])));
    let expected = ExpectedNodes::from([at("n1", "c"), at("n2", "a")]);
    let options = Options { expected, ..full() };
    for decision in in_each_way(&mut state, &options) {
        let bound = decision.bindings.iter().map(|own| (&*own.object.key.name, &*own.node.key.name));
        assert_eq!(bound.collect::<std::collections::BTreeMap<_, _>>(), [("a", "n2"), ("b", "n3"), ("c", "n1")].into());
    }
}

/// The regression: a pod that was expected on a node without room, and on one that was launched for it meanwhile, was forgotten.
#[test]
fn who_is_expected_on_several_nodes_comes_to_the_one_that_comes_up() {
    for (up, coming, is_up_later) in [("a", "b", false), ("b", "a", false), ("a", "b", true), ("b", "a", true)] {
        let claim = mk_claim(coming, "2");
        let other = mk_pod("other", "1", json!({"spec": {"nodeName": up}}));
        let node = mk_node(up, "2", &json!({}));
        let mut objects = vec![mk_open_pool(), claim, mk_pod("p", "1500m", json!({})), other];
        objects.extend((!is_up_later).then(|| node.clone()));
        let mut state = state_of(&objects);
        // Then it comes last, in the order of nodes that are known.
        state.cluster(NOW);
        state.apply(Event::Applied(node)).unwrap();
        let at = |node: &str| (node.into(), Arc::new(BTreeSet::from(["default/p".into()])));
        let options = Options { expected: ExpectedNodes::from([at(up), at(coming)]), ..full() };
        // What is decided at once binds alone.
        let [whole, kept, _] = in_each_way(&mut state, &options);
        for decision in [whole, kept] {
            let nominated = decision.nominations.iter().map(|own| (&*own.object.key.name, &*own.node.key.name));
            assert_eq!(nominated.collect::<Vec<_>>(), [("p", coming)], "{decision:?}");
        }
    }
}

/// The regression: when it was asked whether a node goes, a pod that a rule kept off a node with room counted as placed there, as it
/// had been expected there once. The node went, and the pod needed a new one.
#[test]
fn where_it_is_asked_what_would_become_of_others_nobody_counts_on_a_node_that_keeps_them_off() {
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "old"}}}]}}}});
    let nodes = ["up", "other"].map(|name| mk_node(name, "4", &json!({"kubernetes.io/hostname": name})));
    let old = |node: &str| labelled("old", on(node, json!({}), false));
    for (runs_on, spares_others, n_launches) in
        [("up", true, 1), ("up", false, 0), ("other", true, 0), ("other", false, 0)]
    {
        let objects = [mk_open_pool(), nodes[0].clone(), old(runs_on), labelled("new", apart.clone())];
        let more = (runs_on == "other").then(|| nodes[1].clone());
        let mut state = state_of(&objects.into_iter().chain(more).collect::<Vec<_>>());
        let expected = ExpectedNodes::from([("up".into(), Arc::new(BTreeSet::from(["default/new".into()])))]);
        let options = Options { expected, spares_others, ..full() };
        let [whole, kept, _] = in_each_way(&mut state, &options);
        for decision in [whole, kept] {
            assert_eq!(decision.launches.len(), n_launches, "{runs_on}, {spares_others}: {decision:?}");
        }
    }
}

/// The regression: pods for which nodes were launched that they prefer all came to the first of these that was up.
#[test]
fn pods_with_preferences_wait_for_their_nodes_while_others_of_the_batch_come_up() {
    let claim = mk_claim("coming", "4");
    let at = |node: &str, pod: &str| (node.into(), Arc::new(BTreeSet::from([format!("default/{pod}").into()])));
    let spread = |when: &str| {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [{"maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "web"}}}]}})
    };
    for (more, waits_for, n_bound) in [
        (spread("ScheduleAnyway"), Some("coming"), 1),
        (spread("ScheduleAnyway"), None, 2),
        (json!({}), Some("coming"), 2),
    ] {
        let up = mk_node("up", "4", &json!({"kubernetes.io/hostname": "up"}));
        let pods = ["a", "b"].map(|name| mk_pod(name, "1", more.clone()));
        let mut state = state_of(&[&[mk_open_pool(), claim.clone(), up][..], &pods].concat());
        let expected = ExpectedNodes::from([at("up", "a"), at("coming", "b")]);
        let waited_for = waits_for.into_iter().map(|node| (node.into(), Waits::ForTheirNode)).collect();
        let options = Options { expected, waited_for, ..full() };
        let [whole, kept, at_once] = in_each_way(&mut state, &options);
        for decision in [&whole, &kept, &at_once] {
            let bound = bound_pods(decision);
            assert!(bound.len() == n_bound && bound.iter().all(|(_, node)| *node == "up"), "{bound:?}");
        }
        for decision in [whole, kept] {
            let nominated = decision.nominations.iter().map(|own| (&*own.object.key.name, &*own.node.key.name));
            assert!(nominated.eq([("b", "coming")].into_iter().filter(|_| n_bound == 1)), "{decision:?}");
        }
    }
}

/// The regression: a new pod was to be bound under the name of an alike one that waited for its own node, which then stood empty.
#[test]
fn a_new_pod_is_not_bound_in_the_name_of_one_that_waits() {
    let claim = mk_claim("coming", "4");
    let spread = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]},
        "spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let up = mk_node("up", "4", &json!({"kubernetes.io/hostname": "up"}));
    let pods = ["a", "b", "new"].map(|name| mk_pod(name, "1", spread.clone()));
    let mut state = state_of(&[&[mk_open_pool(), claim, up][..], &pods].concat());
    let names = ["default/a".into(), "default/b".into()];
    let expected = ExpectedNodes::from([("coming".into(), Arc::new(names.into()))]);
    let options = Options { expected, waited_for: [("coming".into(), Waits::ForTheirNode)].into(), ..full() };
    for decision in in_each_way(&mut state, &options) {
        assert_eq!(bound_pods(&decision), [("new", "up")]);
    }
}

/// The regression: a pod that had waited for its own node made others give way on one that was up, and its own came for nothing. It
/// was so for pods with preferences, and later still for others.
#[test]
fn nobody_gives_way_for_a_pod_whose_node_comes_up() {
    let claim = mk_claim("coming", "4");
    let soft = json!({"spec": {"priority": 1000, "affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {
            "matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}}}});
    for (more, n_expected, waits, n_evicted) in [
        (soft.clone(), 2, Some(Waits::Sparing), 0),
        (soft.clone(), 1, Some(Waits::Sparing), 1),
        // It takes too long.
        (soft, 2, None, 2),
        (json!({"spec": {"priority": 1000}}), 2, Some(Waits::Sparing), 0),
        (json!({"spec": {"priority": 1000}}), 1, Some(Waits::Sparing), 1),
        (json!({"spec": {"priority": 1000}}), 2, None, 2),
    ] {
        let up = mk_node("up", "4", &json!({}));
        let low = ["c", "d"].map(|name| mk_pod(name, "2", json!({"spec": {"nodeName": "up", "priority": 0}})));
        let high = ["a", "b"].map(|name| mk_pod(name, "2", more.clone()));
        let mut state = state_of(&[&[mk_open_pool(), claim.clone(), up][..], &low, &high].concat());
        let names: BTreeSet<Box<str>> =
            ["default/a", "default/b"].into_iter().take(n_expected).map(Box::from).collect();
        let expected = ExpectedNodes::from([("coming".into(), Arc::new(names))]);
        let waited_for = waits.map(|waits| ("coming".into(), waits)).into_iter().collect();
        let options = Options { expected, waited_for, ..full() };
        let [whole, kept, _] = in_each_way(&mut state, &options);
        assert_eq!([whole, kept].map(|decision| decision.evictions.len()), [n_evicted; 2], "{more}");
    }
}

/// The regression: as many as fit were planned for a node that is up, and bound nowhere, nor launched for: they waited for good.
#[test]
fn of_those_who_have_to_be_together_and_fit_nowhere_as_many_come_as_do() {
    let web = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]},
        "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}});
    let host = |name: &str| json!({"kubernetes.io/hostname": name});
    let pods = |names: &[&str]| names.iter().map(|name| mk_pod(name, "1", web.clone())).collect::<Vec<_>>();
    for (names, expected) in
        [(&["a", "b", "c"][..], vec![("a", "n"), ("b", "n")]), (&["a", "b"][..], vec![("a", "n"), ("b", "n")])]
    {
        let nodes = [mk_node("n", "2", &host("n")), mk_node("small", "1", &host("small"))];
        let mut state = state_of(&[&nodes[..], &pods(names)].concat());
        let whole = decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(bound_pods(&whole), expected, "{names:?}");
        assert_eq!((whole.nominations.len(), whole.refusals.len()), (0, names.len() - 2), "{names:?}");
        assert_eq!(Decider::new().decide(&mut state, &full(), NOW).unwrap(), whole, "{names:?}");
    }
    // Beside one that runs yet on a node that goes away they wait.
    let gone = going_away(mk_node("leaving", "3", &host("leaving")));
    let runs = mk_pod("runs", "1", on("leaving", web.clone(), false));
    let objects = [&[gone, runs, mk_node("n", "2", &host("n"))][..], &pods(&["a", "b", "c"])].concat();
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    assert_eq!(bound_pods(&decision), []);
}

/// Room that those leave who give way to another is nobody's until they have gone.
#[test]
fn those_who_have_to_be_together_are_not_bound_where_others_are_yet_to_make_way() {
    let web = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}});
    let objects = [
        mk_node("n", "3", &json!({"kubernetes.io/hostname": "n"})),
        mk_pod("victim", "3", on("n", json!({}), false)),
        mk_pod("first", "1", json!({"spec": {"priority": 100}})),
    ];
    let pods = ["a", "b", "c"].map(|name| mk_pod(name, "1", web.clone()));
    let decision = decide(&mut state_of(&[&objects[..], &pods].concat()), &full(), NOW).unwrap();
    assert_eq!((bound_pods(&decision), decision.evictions.len()), (vec![], 1), "{decision:?}");
}

/// The regressions: beside a rule of another kind, or on a node with a Reservation of their own, no part of them came.
#[test]
fn as_many_of_a_group_come_as_of_one_that_fits_whatever_else_is_asked_for() {
    let web = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}});
    let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "nobody"}}}]}});
    let room = Object::from(typed::<berth_api::Reservation>(json!({"metadata": {"name": "r", "uid": "uid-r"},
        "spec": {"ttl": "0s", "allocateOnce": false, "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            "template": {"spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "1"}}})));
    let node = mk_node("n", "3", &json!({"kubernetes.io/hostname": "n", ZONE: "a"}));
    let beside = mk_node("m", "1", &json!({"kubernetes.io/hostname": "m", ZONE: "b"}));
    let avoids = mk_pod("avoids", "1", on("m", away_from("web"), false));
    for (what, more, others) in [
        ("nothing", json!({}), vec![]),
        ("a rule about nobody", away_from("nobody"), vec![]),
        ("a spread", spread, vec![]),
        ("a rule of another", json!({}), vec![beside, avoids]),
        ("a Reservation", json!({}), vec![room]),
    ] {
        let mut of_group = web.clone();
        merge(&mut of_group, more);
        let n_bound = |names: &[&str]| {
            let pods: Vec<Object> = names.iter().map(|name| mk_pod(name, "1", of_group.clone())).collect();
            let mut state = state_of(&[&[node.clone()][..], &others, &pods].concat());
            let decision = decide(&mut state, &full(), NOW).unwrap();
            bound_pods(&decision).into_iter().filter(|(name, _)| names.contains(name)).count()
        };
        assert_eq!((n_bound(&["a", "b", "c"]), n_bound(&["a", "b", "c", "d"])), (3, 3), "{what}");
    }
}
