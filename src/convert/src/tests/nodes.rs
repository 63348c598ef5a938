//! What is left of a node, and which nodes are capacity.

use serde_json::{Value, json};

use super::{amount, convert, mk, mk_node, mk_pod, node};

pub(super) fn pool(name: &str) -> Value {
    mk(
        "NodePool",
        name,
        json!({"spec": {"template": {"spec": {
        "startupTaints": [{"key": "cni", "effect": "NoExecute"}], "requirements": [],
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}}),
    )
}

fn of_pool(initialized: bool, taints: Value) -> Value {
    let mut labels = json!({"karpenter.sh/nodepool": "general", "karpenter.sh/registered": "true"});
    if initialized {
        labels["karpenter.sh/initialized"] = json!("true");
    }
    json!({"metadata": {"labels": labels}, "spec": {"taints": taints}})
}

#[test]
fn a_node_has_its_name_as_hostname_and_todays_label_names() {
    let old = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "a", "beta.kubernetes.io/os": "old", "kubernetes.io/os": "linux"}}});
    let cluster = convert([mk_node("n1", old)]).cluster;
    let get = |key| cluster.nodes[0].labels.get(key).map(|value| cluster.symbols.text(value));
    let known = &cluster.well_known;
    assert_eq!(
        (get(known.hostname), get(known.zone), get(known.os), get(known.field_name)),
        (Some("n1"), Some("a"), Some("linux"), Some("n1"))
    );
}

#[test]
fn a_cordoned_node_has_the_taint_of_it() {
    let cluster = convert([mk_node("n1", json!({"spec": {"unschedulable": true}}))]).cluster;
    assert_eq!(cluster.nodes[0].taints[0].in_words(&cluster.symbols), "{node.kubernetes.io/unschedulable: }");
}

#[test]
fn a_cordon_that_is_not_a_taint_yet_is_none_of_the_nodes_own() {
    let taint = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    let cluster = convert([
        mk_node("n1", json!({"spec": {"unschedulable": true}})),
        mk_node("n2", json!({"spec": {"unschedulable": true, "taints": taint}})),
    ])
    .cluster;
    let own = |name| (node(&cluster, name).taints.len(), node(&cluster, name).own_taints().len());
    assert_eq!((own("n1"), own("n2")), ((1, 0), (1, 1)));
}

#[test]
fn startup_and_lifecycle_taints_are_forgiven_until_a_node_is_initialized() {
    let taints = json!([{"key": "cni", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}, {"key": "own", "effect": "NoSchedule"}]);
    let cluster = convert([
        pool("general"),
        mk_node("up", of_pool(true, taints.clone())),
        mk_node("a-new", of_pool(false, taints)),
    ])
    .cluster;
    assert_eq!((node(&cluster, "up").taints.len(), node(&cluster, "a-new").taints.len()), (4, 1));
    assert_eq!(cluster.symbols.text(cluster.nodes[0].name), "up", "initialized nodes come first");
}

#[test]
fn nodes_count_against_their_pool() {
    let cluster =
        convert([pool("general"), pool("a-first"), mk_node("n1", of_pool(true, json!([]))), mk_node("n2", json!({}))])
            .cluster;
    let names: Vec<&str> = cluster.node_pools.iter().map(|pool| cluster.symbols.text(pool.name)).collect();
    assert_eq!(names, ["a-first", "general"]);
    assert_eq!((node(&cluster, "n1").node_pool, node(&cluster, "n2").node_pool), (Some(1), None));
    let pool = &cluster.node_pools[1];
    assert_eq!((pool.nodes, amount(&pool.used, "cpu", &cluster)), (1, 4000));
}

fn claim(name: &str, status: Value) -> Value {
    mk(
        "NodeClaim",
        name,
        json!({"metadata": {"labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}, "status": status}),
    )
}

#[test]
fn a_launched_claim_without_node_is_a_node_in_flight() {
    let converted = convert([
        pool("general"),
        claim("flying", json!({"providerID": "x://1", "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "5"}})),
        claim("landed", json!({"providerID": "x://2", "nodeName": "n1"})),
        claim("asked", json!({})),
        mk_node("n1", json!({"spec": {"providerID": "x://2"}})),
    ]);
    let cluster = &converted.cluster;
    assert_eq!(cluster.nodes.len(), 2);
    let flying = node(cluster, "flying");
    assert_eq!(amount(&flying.free, "cpu", cluster), 2000);
    assert_eq!(flying.labels.get(cluster.well_known.zone), cluster.symbols.get("a"));
    assert_eq!(cluster.node_pools[0].nodes, 1);
    let warning =
        "NodeClaim asked: not launched yet, and the catalogue has nothing that it may become; it is no capacity";
    assert!(converted.warnings.iter().any(|w| w == warning), "{:?}", converted.warnings);
}

#[test]
fn bound_pods_take_their_requests_and_a_pod_each() {
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]});
    let cluster = convert([mk_pod("a", spec.clone()), mk_pod("b", spec), mk_node("n1", json!({}))]).cluster;
    let free = &cluster.nodes[0].free;
    assert_eq!((amount(free, "cpu", &cluster), amount(free, "pods", &cluster)), (1000, 8));
}

#[test]
fn a_cordon_of_a_node_that_comes_up_is_one_taint() {
    let startup = json!([{"key": "cni", "effect": "NoExecute"}, {"key": "kept", "effect": "NoSchedule"}]);
    let mut coming = of_pool(false, startup);
    coming["spec"]["unschedulable"] = json!(true);
    let cluster = convert([pool("general"), mk_node("n1", coming)]).cluster;
    let taints: Vec<String> = cluster.nodes[0].taints.iter().map(|taint| taint.in_words(&cluster.symbols)).collect();
    assert_eq!(taints, ["{kept: }", "{node.kubernetes.io/unschedulable: }"]);
}
