//! Places that were found elsewhere for pods of a node that goes hold where pods come and go meanwhile that take nothing from them.

use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node that is about to go: it has the taint of a disruption.
fn mk_tainted(name: &str) -> Object {
    Object::from(typed::<Node>(
        json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {HOSTNAME: name}},
        "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}}),
    ))
}

fn of_app(app: &str, node: Option<&str>, more: Value) -> Value {
    let mut pod = json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}});
    merge(&mut pod, more);
    pod
}

fn away_from(app: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

/// Whether the place of `runs` on node `n` holds once these pods have come.
fn holds(runs: Value, came: &[Object]) -> bool {
    let node = |name: &str| mk_node(name, "4", &json!({HOSTNAME: name}));
    let mut state = state_of(&[node("n"), node("other"), mk_tainted("old"), mk_pod("runs", "2", runs)]);
    state.cluster(NOW);
    let replica = Replica::of(&mut state);
    for pod in came {
        state.apply(Event::Applied(pod.clone())).unwrap();
    }
    let places = [(Key::new(Kind::Pod, "default", "runs"), "n".to_owned())];
    replica.since(&mut state, NOW).hold_places(&places)
}

/// The regression: no such place held as soon as any pod had come to its node, as what the pod requests was looked for among the
/// nodes that stay. Where pods come all the time, no node with many pods ever went.
#[test]
fn a_place_holds_while_a_node_that_others_came_to_has_room_for_it() {
    let runs = || of_app("web", Some("old"), json!({}));
    let came = |cpu: &str| mk_pod("came", cpu, of_app("db", Some("n"), json!({})));
    assert!(holds(runs(), &[]));
    assert!(holds(runs(), &[came("2")]));
    assert!(!holds(runs(), &[came("2500m")]), "there is not enough left");
}

/// The regression: any pod that came or went anywhere, as far as one of those had anti-affinity or the pod itself had, and any of
/// its namespace where it had a spread, and places were looked for again.
#[test]
fn a_place_holds_while_none_come_near_whom_rules_are_about() {
    let apart = || of_app("web", Some("old"), away_from("web"));
    let plain = || of_app("web", Some("old"), json!({}));
    let came = |app: &str, node: &str, rules: Value| mk_pod("came", "1", of_app(app, Some(node), rules));
    assert!(holds(apart(), &[came("db", "n", json!({}))]));
    assert!(holds(apart(), &[came("web", "other", json!({}))]), "on another node");
    assert!(!holds(apart(), &[came("web", "n", json!({}))]));
    assert!(holds(plain(), &[came("db", "n", away_from("db"))]), "it keeps others away");
    assert!(holds(plain(), &[came("db", "other", away_from("web"))]));
    assert!(!holds(plain(), &[came("db", "n", away_from("web"))]));
    let spread = || {
        of_app(
            "web",
            Some("old"),
            json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}}),
        )
    };
    assert!(holds(spread(), &[came("db", "n", json!({}))]));
    assert!(!holds(spread(), &[came("web", "other", json!({}))]), "it counts there");
}
