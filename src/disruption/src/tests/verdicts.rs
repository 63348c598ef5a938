//! Verdicts on nodes whose pods find no other node.

use berth_decisions::Tally;

use super::*;
use crate::verdict::{Verdict, Verdicts};

const ZONE: &str = "topology.kubernetes.io/zone";

fn told(objects: &[Object]) -> (Verdicts, State) {
    let mut state = state_of(objects, &[]);
    let found = verdicts(&mut state, &mut berth_decisions::Decider::new(), &Options::default(), now()).unwrap();
    (found, state)
}

fn in_zone(node: Object, zone: &str) -> Object {
    let Object::Node(node) = node else { unreachable!("a node was made") };
    let mut node = serde_json::to_value(&*node).unwrap();
    merge(&mut node, &json!({"metadata": {"labels": {ZONE: zone}}}));
    Object::from(typed::<Node>(node))
}

fn like(more: &Value) -> Value {
    let mut all = json!({"metadata": {"labels": {"like": "x"}}});
    merge(&mut all, more);
    all
}

fn spread_over_zones() -> Value {
    like(&json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"like": "x"}}}]}}))
}

fn apart() -> Value {
    like(&json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"like": "x"}}}]}}}}))
}

/// Parts of cheaper nodes would hold what is on it for $0.34, whole ones do not.
#[test]
fn a_node_stays_without_a_plan_where_no_whole_nodes_that_cost_less_have_its_room() {
    let mut objects = vec![free_pool(ON_DEMAND), node("a", "medium", "on-demand")];
    objects.extend([pod("p", "a", "1900m", &json!({})), pod("q", "a", "1500m", &json!({}))]);
    let (found, _) = told(&objects);
    assert_eq!(found.tally, Tally { by_bound: 1, ..Tally::default() });
    let stays = found.nodes.values().all(|verdict| matches!(verdict, Verdict::Stays(_)));
    assert!(stays, "{:?}", found.nodes);
}

#[test]
fn a_quick_packing_says_that_a_node_pays_whose_pods_have_rules_on_others() {
    for (more, saved) in [(apart(), "1.2"), (spread_over_zones(), "1.4"), (json!({}), "1.4")] {
        // Without the other one its zone would go with it.
        let mut objects = vec![free_pool(ON_DEMAND), node("a", "huge", "on-demand"), node("b", "small", "on-demand")];
        objects.push(pod("full", "b", "2", &json!({})));
        objects.extend(["p", "q"].map(|name| pod(name, "a", "800m", &more)));
        let (found, mut state) = told(&objects);
        assert_eq!(found.tally, Tally { by_packing: 1, fits: 1, ..Tally::default() }, "{more}");
        for (node, verdict) in found.nodes.iter().take(1) {
            let full = what_if_of(&mut state, node, &Options::default(), now()).unwrap();
            let pays = |by_packing| Verdict::Pays { savings: saved.parse().unwrap(), by_packing, evictions: 2 };
            assert_eq!((verdict, &full), (&pays(true), &pays(false)), "{more}");
        }
    }
}

/// Nothing can be launched in zone b, where there is a node: three pods in zone a would be too many.
#[test]
fn a_quick_packing_says_nothing_where_a_spread_looks_at_zones_that_get_no_new_nodes() {
    let mut objects = vec![
        free_pool(ON_DEMAND),
        node("a", "huge", "on-demand"),
        in_zone(node("b", "small", "on-demand"), "b"),
        pod("full", "b", "2", &json!({})),
        // Without this one zone a would go with the first.
        node("c", "small", "on-demand"),
        pod("too", "c", "2", &json!({})),
    ];
    objects.extend(["p", "q", "r"].map(|name| pod(name, "a", "1", &spread_over_zones())));
    let (found, mut state) = told(&objects);
    for (node, verdict) in found.nodes.iter().take(1) {
        let full = what_if_of(&mut state, node, &Options::default(), now()).unwrap();
        assert!(!matches!(full, Verdict::Pays { .. }), "{node}: {full:?}");
        assert!(!matches!(verdict, Verdict::Pays { .. }), "{node}: {verdict:?}");
    }
}

/// What is launched has to be named: spot makes way for spot under conditions.
#[test]
fn a_spot_node_is_not_told_by_a_quick_packing() {
    let objects = [free_pool(&["spot", "on-demand"]), node("a", "huge", "spot"), pod("p", "a", "800m", &json!({}))];
    let (found, _) = told(&objects);
    assert_eq!(found.tally, Tally { searched: 1, plans: 1, ..Tally::default() });
    assert!(found.nodes.values().all(|verdict| matches!(verdict, Verdict::Stays(_))), "{:?}", found.nodes);
}
