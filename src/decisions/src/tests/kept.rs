//! What is kept between decisions is made anew only where it must be, and says no less than what is made anew.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

fn hold(state: &mut State, decider: &mut Decider, when: &str) {
    let kept = decider.decide(state, &full(), NOW).unwrap();
    let whole = decide(state, &full(), NOW).unwrap();
    assert_eq!(format!("{kept:#?}"), format!("{whole:#?}"), "{when}");
}

fn tell(state: &mut State, object: Object) {
    state.apply(Event::Applied(object)).unwrap();
}

/// The CPUs of a node, and that it has one NUMA node.
fn mk_topology(node: &str) -> Object {
    let detail =
        json!({"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}, {"id": 1, "core": 1, "socket": 0, "node": 0}]});
    Object::from(typed::<berth_api::NodeResourceTopology>(json!({
        "metadata": {"name": node, "annotations": {"node.koordinator.sh/cpu-topology": detail.to_string()}},
        "topologyPolicies": ["None"],
        "zones": [{"name": "node-0", "type": "Node", "resources": [
            {"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}]}]})))
}

#[test]
fn nodes_that_report_their_cpus_are_followed_as_others_are() {
    let mut state = state_of(&[mk_node("n", "2", &json!({})), mk_topology("n"), mk_pod("a", "1", json!({}))]);
    let mut decider = Decider::new();
    hold(&mut state, &mut decider, "at first");
    for (name, cpu) in [("m", "4"), ("o", "8")] {
        tell(&mut state, mk_node(name, cpu, &json!({})));
        tell(&mut state, mk_pod(&format!("on-{name}"), "1", json!({"spec": {"nodeName": name}})));
        hold(&mut state, &mut decider, "a node comes");
    }
    assert_eq!(decider.n_made_anew(), 1, "once");
}

#[test]
fn a_spread_that_nobody_had_counts_the_pods_that_ran_before_it_came() {
    let labels = json!({"metadata": {"labels": {"app": "late"}}});
    let running = |name: &str| {
        let mut more = labels.clone();
        merge(&mut more, json!({"spec": {"nodeName": "big"}}));
        mk_pod(name, "100m", more)
    };
    let (big, small) = (mk_node("big", "64", &json!({ZONE: "a"})), mk_node("small", "1", &json!({ZONE: "b"})));
    let spread = |app: &str| {
        json!({"metadata": {"labels": {"app": app}}, "spec": {"topologySpreadConstraints": [{"maxSkew": 1,
            "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let mut state = state_of(&[big, small, running("r0"), running("r1"), mk_pod("early", "100m", spread("early"))]);
    let mut decider = Decider::new();
    hold(&mut state, &mut decider, "at first");
    tell(&mut state, mk_pod("late", "100m", spread("late")));
    hold(&mut state, &mut decider, "a spread comes");
    let decision = decider.decide(&mut state, &full(), NOW).unwrap();
    let bound = decision.bindings.iter().find(|binding| binding.object == pod_ref("late"));
    assert_eq!(bound.map(|binding| &binding.node), Some(&node_ref("small")));
}

#[test]
fn a_node_that_has_more_than_before_leaves_less_of_its_node_pools_limit() {
    let limited = Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "uid-pool"},
        "spec": {"limits": {"cpu": "6"}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}}}}})));
    let of_pool = |cpu| {
        let labels = json!({"karpenter.sh/nodepool": "pool", "karpenter.sh/initialized": "true"});
        mk_node("n", cpu, &labels)
    };
    let full_node = mk_pod("r", "4", json!({"spec": {"nodeName": "n"}}));
    let mut state = state_of(&[limited, of_pool("4"), full_node, mk_pod("p", "2", json!({}))]);
    let mut decider = Decider::new();
    hold(&mut state, &mut decider, "two CPUs are left of the limit");
    assert_eq!(decider.decide(&mut state, &full(), NOW).unwrap().launches.len(), 1);
    tell(&mut state, of_pool("5"));
    hold(&mut state, &mut decider, "one is left");
    assert_eq!(decider.decide(&mut state, &full(), NOW).unwrap().launches.len(), 0);
}

#[test]
fn alike_pods_come_to_the_nodes_that_were_launched_for_each() {
    let coming = |name| mk_node(name, "4", &json!({"karpenter.sh/nodepool": "pool"}));
    let pod = |name| mk_pod(name, "1", json!({}));
    let mut state = state_of(&[coming("a"), coming("b"), pod("first"), pod("second"), mk_pool()]);
    let expected = [("a", "default/first"), ("b", "default/second")]
        .map(|(node, pod)| (node.into(), Arc::new(BTreeSet::from([pod.into()]))));
    let decision = decide(&mut state, &Options { expected: ExpectedNodes::from(expected), ..full() }, NOW).unwrap();
    let nominated: Vec<_> = decision.nominations.iter().map(|known| (&known.object, &known.node)).collect();
    assert_eq!(nominated, [(&pod_ref("first"), &node_ref("a")), (&pod_ref("second"), &node_ref("b"))]);
}

#[test]
fn reservations_that_are_alike_but_for_their_nodes_go_to_these() {
    let pinned = |name: &str, node: &str| {
        Object::from(typed::<berth_api::Reservation>(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {"ttl": "0s", "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}], "template": {"spec": {
                "nodeName": node, "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}}}})))
    };
    let node = |name| mk_node(name, "4", &json!({}));
    let mut state = state_of(&[node("a"), node("b"), node("c"), pinned("r1", "b"), pinned("r2", "c")]);
    let decision = decide(&mut state, &full(), NOW).unwrap();
    let bound: Vec<_> =
        decision.bindings.iter().map(|known| (&*known.object.key.name, &*known.node.key.name)).collect();
    assert_eq!(bound, [("r1", "b"), ("r2", "c")]);
}

/// A NodePool of one instance type.
fn mk_pool_of(instance_type: &str) -> Object {
    Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "uid-pool"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In",
                "values": [instance_type]}]}}}})))
}

/// Decisions before and after a change, the second by what is kept.
fn notices(objects: &[Object], change: Object) -> (Decision, Decision) {
    let mut state = state_of(objects);
    let mut decider = Decider::new();
    hold(&mut state, &mut decider, "at first");
    let before = decider.decide(&mut state, &full(), NOW).unwrap();
    tell(&mut state, change);
    hold(&mut state, &mut decider, "after the change");
    assert_eq!(decider.n_made_anew(), 1, "it is taken in where it is");
    (before, decider.decide(&mut state, &full(), NOW).unwrap())
}

#[test]
fn a_budget_that_lets_go_of_one_again_is_told_to_what_is_kept() {
    let budget = |allowed: u32| {
        Object::from(typed::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(json!({
            "metadata": {"name": "keep", "namespace": "default", "uid": "uid-keep"},
            "spec": {"selector": {"matchLabels": {"app": "low"}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})))
    };
    let low = json!({"spec": {"nodeName": "n", "priority": 0}, "metadata": {"labels": {"app": "low"}, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]}});
    let objects = [
        mk_node("n", "1", &json!({})),
        mk_pod("low", "1", low),
        mk_pod("high", "1", json!({"spec": {"priority": 1000}})),
        mk_pool_of("m5.large"),
        budget(0),
    ];
    let (before, after) = notices(&objects, budget(1));
    let told = |decision: &Decision| (decision.evictions.len(), decision.launches.len());
    assert_eq!((told(&before), told(&after)), ((0, 1), (1, 1)), "a node for who gave way");
}

#[test]
fn a_node_pool_that_offers_another_type_launches_that() {
    let objects = [mk_pool_of("m5.large"), mk_pod("p", "1", json!({}))];
    let (before, after) = notices(&objects, mk_pool_of("none"));
    assert_eq!((before.launches.len(), after.launches.len()), (1, 0));
}

#[test]
fn a_namespace_with_other_labels_is_meant_by_these() {
    let space = |team: &str| {
        Object::from(typed::<k8s_openapi::api::core::v1::Namespace>(
            json!({"metadata": {"name": "other", "uid": "uid-other", "labels": {"team": team}}}),
        ))
    };
    let term = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "a"}}}]);
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": term}}}});
    let mut state = state_of(&[
        mk_node("n", "4", &json!({"kubernetes.io/hostname": "n"})),
        mk_pod("q", "1", json!({"metadata": {"namespace": "other"}, "spec": {"nodeName": "n"}})),
        mk_pod("r", "1", apart),
        space("b"),
    ]);
    let mut decider = Decider::new();
    for (team, is_bound) in [("b", true), ("a", false), ("c", true)] {
        tell(&mut state, space(team));
        hold(&mut state, &mut decider, team);
        let decision = decider.decide(&mut state, &full(), NOW).unwrap();
        assert_eq!(!decision.bindings.is_empty(), is_bound, "{team}");
    }
}
