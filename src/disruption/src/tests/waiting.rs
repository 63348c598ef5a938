//! Nodes whose pods have alike ones that wait, perhaps for good: these stand nobody in the way.

use super::rolls::drifted_claim;
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

fn limited() -> Object {
    let Object::NodePool(mut pool) = free_pool(ON_DEMAND) else { panic!("a NodePool") };
    let mut written = serde_json::to_value(&*pool).unwrap();
    merge(&mut written, &json!({"spec": {"limits": {"cpu": "2"}}}));
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
