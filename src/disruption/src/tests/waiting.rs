//! Nodes whose pods have alike ones that wait, perhaps for good: these stand nobody in the way.

use super::rolls::drifted_claim;
use super::rooms::room;
use super::*;

/// A replica of one ReplicaSet, made so many minutes after eight.
fn replica(name: &str, node: &str, minute: usize, spec: &Value) -> Object {
    let phase = if node.is_empty() { "Pending" } else { "Running" };
    let mut more = json!({"status": {"phase": phase}, "spec": spec, "metadata": {"labels": {"app": "web"},
        "creationTimestamp": format!("2026-01-01T08:{minute:02}:00Z")}});
    if node.is_empty() {
        more["spec"]["nodeName"] = Value::Null;
    }
    pod(name, node, "1500m", &more)
}

/// A pod of no workload that others are of.
fn waiting(name: &str, cpu: &str) -> Object {
    pod(name, "", cpu, &json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}}))
}

fn limited() -> Object {
    limited_to(ON_DEMAND, &json!({"cpu": "2"}))
}

fn limited_to(kinds: &[&str], limits: &Value) -> Object {
    let Object::NodePool(mut pool) = free_pool(kinds) else { panic!("a NodePool") };
    let mut written = serde_json::to_value(&*pool).unwrap();
    merge(&mut written, &json!({"spec": {"limits": limits}}));
    *std::sync::Arc::make_mut(&mut pool) = typed(written);
    pool.into()
}

/// The regressions: such a node was never replaced, as those who wait come first.
#[rstest]
#[case::by_a_limit(limited(), &json!({}))]
#[case::by_a_spread(free_pool(ON_DEMAND), &json!({"topologySpreadConstraints": [{"maxSkew": 1, "minDomains": 9,
    "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}}}]}))]
#[case::by_anti_affinity(free_pool(ON_DEMAND), &json!({"affinity": {"podAntiAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/os",
        "labelSelector": {"matchLabels": {"app": "web"}}}]}}}))]
fn a_node_drifts_away_whose_pods_alike_ones_wait_for(#[case] pool: Object, #[case] spec: &Value) {
    for (runs, waits) in [(0, [1, 2]), (2, [0, 1])] {
        let mut objects = vec![pool.clone(), node("a", "small", "on-demand"), drifted_claim("a", 0, &json!({}))];
        objects.push(replica("runs", "a", runs, spec));
        objects.extend([("w0", waits[0]), ("w1", waits[1])].map(|(name, minute)| replica(name, "", minute, spec)));
        let disruption = disrupted(&objects, &[], &Options::default());
        assert_eq!(lines(&disruption), ["0 Drift a > small on-demand $0.0000"], "{disruption:#?}");
    }
}

#[test]
fn a_node_stays_whose_pods_others_would_take_the_place_of() {
    let other = |labels: Value| {
        let more = json!({"status": {"phase": "Pending"}, "metadata": {"labels": labels,
            "creationTimestamp": "2026-01-01T07:00:00Z"}});
        pod("other", "", "1500m", &more)
    };
    for (labels, goes) in [(json!({"app": "web"}), true), (json!({"app": "other"}), false)] {
        let objects = [
            limited(),
            node("a", "small", "on-demand"),
            drifted_claim("a", 0, &json!({})),
            replica("runs", "a", 0, &json!({})),
            other(labels),
        ];
        let disruption = disrupted(&objects, &[], &Options::default());
        assert_eq!(disruption.commands.len(), usize::from(goes), "{disruption:#?}");
    }
}

/// One of an app that shares no domain of a topology key with any other of these, made so many minutes after eight.
fn apart(name: &str, node: &str, (app, key): (&str, &str), minute: usize) -> Object {
    let spec = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"like": "x"}}}]}}});
    let Object::Pod(mut pod) = replica(name, node, minute, &spec) else { panic!("a Pod") };
    let labels = [("app", app), ("like", "x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    std::sync::Arc::make_mut(&mut pod).metadata.labels = Some(labels.into());
    Object::from(pod)
}

/// A huge node with one pod, beside one of an app that waits for a node since before. The limit leaves room for a small one.
fn huge_beside(app: &str) -> Disruption {
    let host = "kubernetes.io/hostname";
    let runs = apart("runs", "a", ("web", host), 30);
    let waits = apart("waits", "", (app, host), 0);
    disrupted(&[limited(), node("a", "huge", "on-demand"), runs, waits], &[], &Options::default())
}

#[test]
fn a_node_makes_way_for_a_cheaper_one_though_alike_pods_wait_for_good() {
    let disruption = huge_beside("web");
    assert_eq!(lines(&disruption), ["0 SingleNodeConsolidation a > small on-demand $1.4000"], "{disruption:#?}");
    let (_, launch) = &disruption.commands[0].replacements[0];
    let pods: Vec<&str> = launch.pods.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(pods, ["runs"], "not for one that waits");
}

#[test]
fn a_node_does_not_make_way_for_a_cheaper_one_that_others_would_take() {
    let disruption = huge_beside("other");
    assert_eq!(lines(&disruption), Vec::<String>::new(), "{disruption:#?}");
    assert!(reasons(&disruption, "a")[0].0.starts_with("not all pods would schedule"), "{disruption:#?}");
}

/// Limits count the node that would go, too.
#[test]
fn a_limit_that_a_node_itself_reaches_does_not_keep_a_cheaper_one_away() {
    let objects = [limited(), node("a", "huge", "on-demand"), replica("runs", "a", 0, &json!({}))];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), ["0 SingleNodeConsolidation a > small on-demand $1.4000"], "{disruption:#?}");
}

/// Who waits is kept off by the pod that would move. The regression: a node whose pods fit another was said to pay, whoever
/// would come there first.
#[rstest]
#[case::alike("web", true)]
#[case::others("other", false)]
fn a_node_goes_only_where_its_pods_come_to_the_room_and_not_others(#[case] app: &str, #[case] goes: bool) {
    let os = "kubernetes.io/os";
    let objects = [
        limited(),
        node("a", "small", "on-demand"),
        node("b", "medium", "on-demand"),
        pod("stays", "b", "1500m", &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})),
        apart("runs", "a", ("web", os), 30),
        apart("waits", "", (app, os), 0),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    let expected: &[&str] = if goes { &["0 SingleNodeConsolidation a >  $0.2000"] } else { &[] };
    assert_eq!(lines(&disruption), expected, "{disruption:#?}");
    let mut state = state_of(&objects, &[]);
    let told = verdicts(&mut state, &mut berth_decisions::Decider::new(), &Options::default(), now()).unwrap();
    for (node, told) in &told.nodes {
        let full = what_if_of(&mut state, node, &Options::default(), now()).unwrap();
        assert!(matches!(told, Verdict::Unknown) || *told == full, "{node}: {told:?}, {full:?}");
    }
}

#[test]
fn the_bound_knows_the_room_on_what_is_launched_for_who_waits() {
    let objects =
        [free_pool(ON_DEMAND), node("a", "small", "on-demand"), pod("p", "a", "500m", &json!({})), waiting("w", "3")];
    let options = Options { bound: true, ..Options::default() };
    let found = disrupted(&objects, &[], &options);
    assert_eq!(lines(&found), ["0 SingleNodeConsolidation a >  $0.2000"]);
    assert_eq!((found.priced_hourly_cost, found.lower_bound), (Money::ZERO, Some(Money::ZERO)));
    // Karpenter's methods plan all together: nothing is proven.
    let found = disrupted(&objects, &[], &Options { methods: Methods::Karpenter, ..options });
    assert_eq!(found.lower_bound, None);
}

/// The regression: an empty node stayed for good under a limit that it filled, and with it those who could not come to it.
#[rstest]
#[case::of_resources(json!({"cpu": "4"}))]
#[case::of_nodes(json!({"nodes": "1"}))]
fn an_empty_node_makes_way_for_who_waits_for_the_limit_that_it_fills(#[case] limits: Value) {
    // It is too large for the node. What is launched for it costs more.
    let objects = [limited_to(ON_DEMAND, &limits), node("a", "small", "on-demand"), waiting("w", "3")];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), ["0 Emptiness a >  $0.2000"], "{disruption:#?}");
    let pending = [disruption.pending_hourly_cost, disruption.settled_pending_hourly_cost].map(|cost| cost.to_string());
    assert_eq!(pending, ["0", "0.4"]);
    let mut state = state_of(&objects, &[]);
    let node = state.node("a").unwrap().reference();
    let full = what_if_of(&mut state, &node, &Options::default(), now()).unwrap();
    assert!(matches!(full, Verdict::Pays { .. }), "{full:?}");
}

/// Of two empty nodes one has room for a pod that waits, and another pod waits for the limit that they fill.
#[test]
fn an_empty_node_stays_that_who_waits_is_to_come_to() {
    let objects = [
        limited_to(ON_DEMAND, &json!({"cpu": "6"})),
        node("a", "small", "on-demand"),
        node("b", "medium", "on-demand"),
        waiting("small", "1500m"),
        waiting("large", "3"),
        waiting("larger", "3"),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), Vec::<String>::new(), "{disruption:#?}");
    assert_eq!(reasons(&disruption, "a")[0].0, "pods that wait for a place are to come to it");
}

/// The regression: the empty node went, as together with its limit there is room for both, though one of them was to come to it.
#[test]
fn an_empty_node_that_who_waits_comes_to_stays_though_another_would_get_a_place() {
    let objects = [
        limited_to(ON_DEMAND, &json!({"cpu": "4"})),
        node("a", "small", "on-demand"),
        waiting("comes", "500m"),
        waiting("stays", "2500m"),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), Vec::<String>::new(), "{disruption:#?}");
    assert_eq!(reasons(&disruption, "a")[0].0, "pods that wait for a place are to come to it");
}

/// Two half-empty nodes fill a limit. The regression: the pods of one fit beside those of the other, and it stayed as soon as
/// another pod waited for the limit, since what would be launched for that one cost as much.
#[rstest]
#[case::fits("2", &["0 SingleNodeConsolidation a >  $0.4000"])]
#[case::does_not_fit("3500m", &[])]
fn a_node_that_consolidation_would_take_goes_though_others_wait_for_the_limit(
    #[case] beside: &str,
    #[case] expected: &[&str],
) {
    let objects = [
        limited_to(ON_DEMAND, &json!({"cpu": "8"})),
        node("a", "medium", "on-demand"),
        pod("p", "a", "1", &json!({})),
        node("b", "medium", "on-demand"),
        pod("q", "b", beside, &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})),
        waiting("w", "3500m"),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), expected, "{disruption:#?}");
    let mut state = state_of(&objects, &[]);
    let node = state.node("a").unwrap().reference();
    let full = what_if_of(&mut state, &node, &Options::default(), now()).unwrap();
    assert_eq!(matches!(full, Verdict::Pays { .. }), !expected.is_empty(), "{full:?}");
    // Karpenter compares what all is launched.
    let options = Options { methods: Methods::Karpenter, ..Options::default() };
    assert_eq!(lines(&disrupted(&objects, &[], &options)), Vec::<String>::new());
}

/// A Reservation waits for the limit that two nodes fill, one of which could be on a slot. The regression: the Reservation was planned
/// before the pod that would move, so no node moved to a slot while it waited.
#[test]
fn nodes_move_to_slots_while_a_reservation_waits_for_the_limit() {
    let unready = json!({"metadata": {"name": "waits", "uid": "w"}, "status": {"phase": "Pending", "nodeName": null}});
    let objects = [
        limited_to(WITH_SLOTS, &json!({"cpu": "8"})),
        node("a", "medium", "on-demand"),
        pod("p", "a", "3", &json!({})),
        node("b", "medium", "on-demand"),
        pod("q", "b", "3", &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})),
        room("3", &unready),
    ];
    let disruption = disrupted(&objects, &[("medium", 0, "cr-medium", 1)], &Options::default());
    assert_eq!(lines(&disruption), ["0 SingleNodeConsolidation a > medium cr-medium $0.4000"], "{disruption:#?}");
}
