use std::collections::BTreeSet;

use berth_api::NodePool;
use berth_model::Money;
use berth_state::{Event, Kind, Object, State, Time};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::play::play;
use crate::prices::Prices;
use crate::survey::Survey;

mod fixed;
mod grace;
mod joint;
mod karpenter;
mod live;
mod preferences;
mod rolls;
mod rooms;
mod slots;
mod spreads;
mod sums;
mod survey;
mod verdicts;
mod waiting;
mod whole;

pub(crate) fn now() -> Time {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Types with vCPUs as their names say; an hour of a vCPU costs ten cents on demand and four as spot.
fn catalogue(slots: &[(&str, u32, &str, u32)]) -> Value {
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let types = [("small", 2), ("medium", 4), ("large", 8), ("huge", 16)].map(|(name, cpus)| {
        let paid = |kind: &str, cents: i32| {
            json!({"Price": f64::from(cents * cpus) / 100.0, "Requirements": [
                requirement("karpenter.sh/capacity-type", kind), requirement("topology.kubernetes.io/zone", "a")]})
        };
        let mut offerings = vec![paid("on-demand", 10), paid("spot", 4)];
        for (of_type, _, id, free) in slots.iter().filter(|(of_type, ..)| *of_type == name) {
            assert_eq!(*of_type, name);
            offerings.push(
                json!({"Price": f64::from(10 * cpus) / 100.0, "ReservationCapacity": free, "Requirements": [
                requirement("karpenter.sh/capacity-type", "reserved"), requirement("topology.kubernetes.io/zone", "a"),
                requirement("berth.sh/capacity-reservation-id", id)]}),
            );
        }
        json!({"name": name, "resources": {"cpu": cpus.to_string(), "memory": format!("{}Gi", cpus * 4), "pods": "50"},
            "offerings": offerings})
    });
    json!(types)
}

fn pool(name: &str, disruption: &Value, kinds: &[&str]) -> Object {
    Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"disruption": disruption, "template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": kinds}]}}}})))
}

/// All nodes may go at once.
pub(crate) fn free_pool(kinds: &[&str]) -> Object {
    pool("pool", &json!({"budgets": [{"nodes": "100%"}]}), kinds)
}

pub(crate) fn node(name: &str, instance_type: &str, kind: &str) -> Object {
    let cpus = match instance_type {
        "small" => 2,
        "medium" => 4,
        "large" => 8,
        _ => 16,
    };
    let room = json!({"cpu": cpus.to_string(), "memory": format!("{}Gi", cpus * 4), "pods": "50"});
    Object::from(typed::<Node>(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {
            "karpenter.sh/nodepool": "pool", "karpenter.sh/capacity-type": kind, "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": instance_type, "topology.kubernetes.io/zone": "a",
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "status": {"allocatable": room, "capacity": room}})))
}

fn pod(name: &str, node: &str, cpu: &str, more: &Value) -> Object {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": name},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
        "spec": {"nodeName": node, "containers": [
            {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}]},
        "status": {"phase": "Running"}});
    merge(&mut pod, more);
    Object::from(typed::<Pod>(pod))
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

pub(crate) fn state_of(objects: &[Object], slots: &[(&str, u32, &str, u32)]) -> State {
    state_with(objects, &catalogue(slots))
}

fn state_with(objects: &[Object], catalogue: &Value) -> State {
    filled(State::new(berth_state::Options::default()), objects, catalogue)
}

fn filled(mut state: State, objects: &[Object], catalogue: &Value) -> State {
    for &kind in Kind::ALL {
        let objects = objects.iter().filter(|object| object.kind() == kind).cloned().collect();
        state.apply(Event::Relisted { kind, objects, resource_version: None }).unwrap();
    }
    let catalogue = berth_catalogue::read(catalogue.to_string().as_bytes(), "types.json").unwrap();
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None }).unwrap();
    state
}

fn disrupted(objects: &[Object], slots: &[(&str, u32, &str, u32)], options: &Options) -> Disruption {
    disrupt(&mut state_of(objects, slots), options, now()).unwrap()
}

/// A line for each command: batch, method, nodes > replacements, savings.
fn lines(disruption: &Disruption) -> Vec<String> {
    let line = |command: &Command| {
        let nodes: Vec<&str> = command.nodes.iter().map(|node| &*node.key.name).collect();
        let launch = |(_, launch): &(String, berth_decisions::Launch)| {
            let id = launch.offering.reservation_id.as_deref();
            format!("{} {}", launch.offering.instance_type, id.unwrap_or(&launch.offering.capacity_type))
        };
        let launches: Vec<String> = command.replacements.iter().map(launch).collect();
        let (batch, method) = (command.batch, command.method.as_str());
        format!("{batch} {method} {} > {} ${:.4}", nodes.join("+"), launches.join("+"), command.savings)
    };
    disruption.commands.iter().map(line).collect()
}

fn reasons(disruption: &Disruption, node: &str) -> Vec<(String, usize)> {
    let kept = disruption.kept.iter().find(|kept| &*kept.node.key.name == node);
    kept.unwrap_or_else(|| panic!("{node} is not kept")).reasons.iter().map(|r| (r.reason.clone(), r.count)).collect()
}

pub(crate) const ON_DEMAND: &[&str] = &["on-demand"];
const WITH_SLOTS: &[&str] = &["on-demand", "reserved"];

#[test]
fn empty_nodes_go_as_budgets_allow_round_by_round() {
    let budgets = json!({"budgets": [{"nodes": "20%"}]});
    let mut objects = vec![pool("pool", &budgets, ON_DEMAND), pod("web", "n6", "1800m", &json!({}))];
    objects.extend((0..7).map(|i| node(&format!("n{i}"), "small", "on-demand")));
    // Of seven nodes a fifth, rounded up, is two; of those that are left then it is one.
    let disruption = disrupted(&objects, &[], &Options::default());
    let one = |batch: usize, name: &str| format!("{batch} Emptiness {name} >  $0.2000");
    let mut expected = vec!["0 Emptiness n0+n1 >  $0.4000".to_owned()];
    expected.extend([one(1, "n2"), one(2, "n3"), one(3, "n4"), one(4, "n5")]);
    assert_eq!(lines(&disruption), expected);
    assert_eq!(reasons(&disruption, "n6"), [("can't replace with a cheaper node".to_owned(), 1)]);
    assert_eq!(
        (disruption.hourly_cost.to_string(), disruption.settled_hourly_cost.to_string()),
        ("1.4".into(), "0.2".into())
    );
}

#[test]
fn where_only_empty_nodes_are_looked_for_others_stay_and_nothing_is_asked() {
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "small", "on-demand"),
        node("b", "small", "on-demand"),
        node("c", "huge", "on-demand"),
        pod("p", "a", "900m", &json!({})),
        pod("q", "b", "1", &json!({})),
    ];
    let options = Options { only_empty: true, ..Options::default() };
    let disruption = disrupted(&objects, &[], &options);
    assert_eq!(lines(&disruption), ["0 Emptiness c >  $1.6000"]);
    assert_eq!(disruption.what_ifs, 0);
    let all = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&all).len(), 2, "one of the others goes where all are looked at: {all:#?}");
    // A pod waits for a place that only the empty node has: that takes what-ifs, of all such nodes and of each, and it stays.
    let waits = json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}});
    let waiting = [&objects[..], &[pod("w", "", "12", &waits)]].concat();
    let disruption = disrupted(&waiting, &[], &options);
    assert_eq!((lines(&disruption), disruption.what_ifs), (Vec::new(), 2));
}

#[test]
fn what_is_tried_leaves_the_state_and_its_decider_as_they_were() {
    let mut objects = vec![free_pool(WITH_SLOTS)];
    for (name, instance_type) in [("a", "small"), ("b", "huge"), ("c", "large"), ("d", "large"), ("e", "small")] {
        objects.push(node(name, instance_type, "on-demand"));
        if name != "e" {
            objects.push(pod(&format!("p{name}"), name, "1500m", &json!({})));
        }
    }
    let slots = [("small", 0, "cr-1", 2)];
    let (mut state, mut decider) = (state_of(&objects, &slots), berth_decisions::Decider::new());
    let options = Options::default();
    let first = disrupt_with(&mut state, &mut decider, &options, now()).unwrap();
    let on_slots = first.commands.iter().flat_map(|command| &command.replacements).count();
    assert!(on_slots >= 2 && first.commands.len() >= 2, "{:#?}", lines(&first));
    let free: Vec<u32> = state.cluster(now()).slots.iter().map(|slots| slots.free).collect();
    assert_eq!(free, [2], "slots are given back");
    let again = disrupt_with(&mut state, &mut decider, &options, now()).unwrap();
    assert_eq!(again, first);
    assert_eq!(again, disrupt(&mut state_of(&objects, &slots), &options, now()).unwrap());
    assert_eq!((state.n_conversions(), decider.n_made_anew()), (1, 1), "made anew: {:?}", state.conversions());
}

#[test]
fn a_node_whose_pods_fit_elsewhere_goes() {
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "small", "on-demand"),
        node("b", "small", "on-demand"),
        pod("p", "a", "900m", &json!({})),
        pod("q", "b", "1", &json!({})),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands.len(), 1, "{disruption:#?}");
    assert_eq!(disruption.commands[0].replacements, []);
    assert_eq!((disruption.commands[0].evictions, disruption.commands[0].savings.to_string()), (1, "0.2".to_owned()));
    assert_eq!(disruption.kept.len(), 1);
}

#[test]
fn pods_that_came_from_a_node_that_went_go_on_with_the_next() {
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "small", "on-demand"),
        node("b", "small", "on-demand"),
        node("c", "large", "on-demand"),
        pod("p", "a", "500m", &json!({})),
        pod("q", "b", "500m", &json!({})),
        pod("r", "c", "7", &json!({})),
    ];
    // One node after another.
    let options = Options { asked: BTreeSet::from(["other".to_owned()]), ..Options::default() };
    let disruption = disrupted(&objects, &[], &options);
    let evictions: Vec<usize> = disruption.commands.iter().map(|command| command.evictions).collect();
    assert_eq!(evictions, [1, 2], "what was on `a` is on the emptier `b` by then");
    let pending = {
        let mut state = state_of(&objects, &[]);
        let mut decider = berth_decisions::Decider::new();
        let prices = Prices::of(state.cluster(now()));
        let survey = Survey::of(&state, &prices, &options, now());
        let decisions = berth_decisions::Options { launches: true, ..Default::default() };
        for candidate in survey.candidates.iter().filter(|known| &*known.node.key.name != "c") {
            // As it was before the first: the second has the pods of both.
            let played = play((&mut state, &mut decider), (&[candidate], &[]), &[], &decisions, now()).unwrap();
            assert!(played.is_some());
        }
        let pods = state.pods().filter(|pod| pod.node().is_none());
        pods.count()
    };
    assert_eq!(pending, 0, "nobody is left behind");
}

#[test]
fn a_large_node_makes_way_for_a_small_one_that_is_cheaper_whatever_type_it_gets() {
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1500m", &json!({}))];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), ["0 SingleNodeConsolidation a > small on-demand $1.4000"]);
    // Of the types that the pod fits, the one that costs as much as now is not one to launch.
    assert_eq!(disruption.commands[0].replacements[0].1.instance_types, ["small", "medium", "large"]);
}

#[test]
fn several_nodes_make_way_for_fewer_and_cheaper_ones() {
    // Three pods of 5 vCPUs on large nodes: one huge node takes all three for less than three large ones.
    let mut objects = vec![free_pool(ON_DEMAND)];
    for name in ["a", "b", "c"] {
        objects.push(node(name, "large", "on-demand"));
        objects.push(pod(&format!("p{name}"), name, "5", &json!({})));
    }
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption), ["0 MultiNodeConsolidation a+b+c > huge on-demand $0.8000"]);
}

#[test]
fn nodes_move_to_slots_as_long_as_there_are_any() {
    let mut objects = vec![free_pool(WITH_SLOTS)];
    for (name, kind) in [("a", "on-demand"), ("b", "on-demand"), ("c", "on-demand")] {
        objects.push(node(name, "small", kind));
        objects.push(pod(&format!("p{name}"), name, "1500m", &json!({})));
    }
    let slots = [("small", 0, "cr-1", 2)];
    let disruption = disrupted(&objects, &slots, &Options::default());
    let on_slots = disruption.commands.iter().flat_map(|command| &command.replacements);
    assert!(on_slots.clone().all(|(_, launch)| launch.offering.reservation_id.as_deref() == Some("cr-1")));
    assert_eq!(on_slots.count(), 2);
    assert_eq!(disruption.settled_hourly_cost.to_string(), "0.2");
    // A pool that does not admit them does not use them.
    objects[0] = free_pool(ON_DEMAND);
    assert_eq!(disrupted(&objects, &slots, &Options::default()).commands, []);
}

#[test]
fn a_smaller_slot_replaces_a_larger_one_that_a_paid_node_could_use_and_never_the_other_way() {
    let slots = [("small", 0, "cr-small", 1), ("huge", 0, "cr-huge", 0)];
    // Who may not be on a node with the first pod, and fits no small slot.
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "p"}}}]}}}});
    let of = |instance_type: &str, more: &[Object]| {
        let mut objects =
            vec![free_pool(WITH_SLOTS), node("a", instance_type, "reserved"), pod("p", "a", "1500m", &json!({}))];
        objects.extend(more.iter().cloned());
        disrupted(&objects, &slots, &Options::default())
    };
    let paid = [node("b", "medium", "on-demand"), pod("q", "b", "3", &apart)];
    let moved = of("huge", &paid);
    assert_eq!(lines(&moved), ["0 SingleNodeConsolidation a > small cr-small $0.0000"]);
    assert_eq!(moved.commands[0].list_savings.to_string(), "1.4");
    let stays = of("small", &paid);
    assert!(reasons(&stays, "a")[0].0.starts_with("its slot costs nothing"), "{stays:?}");
    // Nobody pays for what the slot could hold: moving saves nothing.
    let stays = of("huge", &[]);
    assert_eq!(stays.commands, []);
    assert!(reasons(&stays, "a")[0].0.starts_with("its slot costs nothing"), "{stays:?}");
}

#[test]
fn spot_makes_way_for_spot_only_behind_its_gate_and_with_a_choice() {
    let objects = [free_pool(&["spot"]), node("a", "huge", "spot"), pod("p", "a", "1500m", &json!({}))];
    let closed = disrupted(&objects, &[], &Options::default());
    let text = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node";
    assert_eq!(reasons(&closed, "a"), [(text.to_owned(), 1)]);
    let open = disrupted(&objects, &[], &Options { spot_to_spot: true, ..Options::default() });
    assert!(reasons(&open, "a")[0].0.ends_with("than the current candidate to consolidate, got 3"), "{open:?}");
    // Movement to a slot does not need the gate.
    let objects = [free_pool(&["spot", "reserved"]), objects[1].clone(), objects[2].clone()];
    let slot = disrupted(&objects, &[("small", 0, "cr-1", 1)], &Options::default());
    assert_eq!(lines(&slot), ["0 SingleNodeConsolidation a > small cr-1 $0.6400"]);
}

#[test]
fn what_a_node_costs_beyond_its_price_is_saved_where_it_goes() {
    let with_node_cost = |cents: i128| {
        let mut options = Options::default();
        options.decisions.solve.node_cost = Money::from_pico(cents * 10_000_000_000);
        options
    };
    // One node for one: what each costs beside its price is the same.
    let objects = [free_pool(ON_DEMAND), node("a", "medium", "on-demand"), pod("p", "a", "1500m", &json!({}))];
    for cents in [0, 50] {
        let found = disrupted(&objects, &[], &with_node_cost(cents));
        assert_eq!(lines(&found), ["0 SingleNodeConsolidation a > small on-demand $0.2000"], "{:#?}", found.kept);
    }
    // Two for one that costs as much as both.
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "medium", "on-demand"),
        node("b", "medium", "on-demand"),
        pod("p", "a", "3500m", &json!({})),
        pod("q", "b", "3500m", &json!({})),
    ];
    assert_eq!(lines(&disrupted(&objects, &[], &with_node_cost(0))), Vec::<String>::new());
    let found = disrupted(&objects, &[], &with_node_cost(10));
    assert_eq!(lines(&found), ["0 MultiNodeConsolidation a+b > large on-demand $0.0000"], "{:#?}", found.kept);
    // And one for two is dearer by it.
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "huge", "on-demand"),
        pod("p", "a", "7", &json!({})),
        pod("q", "a", "3500m", &json!({})),
    ];
    let two = ["0 SingleNodeConsolidation a > large+medium on-demand $0.4000"];
    let launches = |cents| disrupted(&objects, &[], &with_node_cost(cents)).commands.len();
    assert_eq!((launches(39), launches(41)), (two.len(), 0));
}

#[test]
fn a_price_on_evictions_keeps_what_saves_less() {
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "medium", "on-demand"),
        pod("p", "a", "1", &json!({})),
        pod("q", "a", "500m", &json!({})),
    ];
    // The saving is 20 cents, and the node with its two pods counts as three.
    let at = |price: i128| Options { eviction_price: Money::from_pico(price * 1_000_000_000), ..Options::default() };
    assert_eq!(lines(&disrupted(&objects, &[], &at(66))), ["0 SingleNodeConsolidation a > small on-demand $0.2000"]);
    let kept = disrupted(&objects, &[], &at(67));
    let text = "saves at most $0.2000/h, and disrupting it is priced at $0.2010/h";
    assert_eq!(reasons(&kept, "a"), [(text.to_owned(), 2)]);
}

fn protected(value: &str) -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}})
}

#[rstest]
#[case::pod(protected("true"), "pod has \"karpenter.sh/do-not-disrupt\" annotation")]
#[case::unreadable(protected("soon"), "expected \"true\" or a time such as 1h, found \"soon\"")]
fn a_marked_pod_keeps_its_node(#[case] more: Value, #[case] expected: &str) {
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &more)];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands, []);
    let found = reasons(&disruption, "a");
    assert!(found[0].0.contains(expected) && found[0].1 == 1, "{found:?}");
}

#[test]
fn a_budget_of_the_pods_keeps_their_node() {
    let budget = typed::<PodDisruptionBudget>(json!({"metadata": {"name": "p", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "p"}}}}));
    let objects =
        [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({})), Object::from(budget)];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands, []);
    assert_eq!(reasons(&disruption, "a"), [("pdb default/p prevents pod evictions".to_owned(), 1)]);
}

#[rstest]
#[case::when_empty(json!({"consolidationPolicy": "WhenEmpty"}), "NodePool \"pool\" has non-empty consolidation disabled")]
#[case::never(json!({"consolidateAfter": "Never"}), "NodePool \"pool\" has consolidation disabled")]
#[case::no_budget(json!({"budgets": [{"nodes": "0"}]}), "spec.disruption.budgets[0] of NodePool \"pool\" lets no node go for this now")]
fn a_pools_settings_keep_its_nodes(#[case] disruption: Value, #[case] expected: &str) {
    let objects =
        [pool("pool", &disruption, ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({}))];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands, []);
    let found = reasons(&disruption, "a");
    assert!(found[0].0.starts_with(expected), "{found:?}");
}

#[test]
fn a_time_zone_that_there_is_none_of_keeps_the_pools_nodes() {
    let Object::NodePool(mut of_mars) = free_pool(ON_DEMAND) else { panic!("a NodePool") };
    let annotations = [(BUDGET_TIME_ZONE.to_owned(), "Mars/Olympus".to_owned())].into();
    std::sync::Arc::make_mut(&mut of_mars).metadata.annotations = Some(annotations);
    let objects = [of_mars.into(), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({}))];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands, []);
    let text = "NodePool \"pool\": metadata.annotations[berth.sh/budget-time-zone]: expected a time zone such as \
                Europe/Berlin, found \"Mars/Olympus\"";
    assert_eq!(reasons(&disruption, "a")[0].0, text);
}

#[test]
fn a_drifted_node_says_what_keeps_it_from_drift() {
    // The pool wants slots now.
    let settings = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    let objects =
        [pool("pool", &settings, &["reserved"]), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({}))];
    let disruption = disrupted(&objects, &[], &Options::default());
    let expected = "drifted, but spec.disruption.budgets[0] of NodePool \"pool\" lets no drifted node go now";
    assert_eq!(reasons(&disruption, "a"), [(expected.to_owned(), 0)]);
    assert_eq!(disruption.kept[0].why, Why::Budget, "it is told as what a budget keeps");
}

#[test]
fn drifted_nodes_are_replaced_at_any_price_as_many_as_budgets_allow() {
    // The pool wants slots now, and there is none: on-demand nodes drifted, and find nothing.
    let mut objects = vec![pool("pool", &json!({"budgets": [{"nodes": "1", "reasons": ["Drifted"]}]}), &["spot"])];
    for name in ["a", "b"] {
        objects.push(node(name, "small", "on-demand"));
        objects.push(pod(&format!("p{name}"), name, "1500m", &json!({})));
    }
    let disruption = disrupted(&objects, &[], &Options::default());
    let expected = ["0 Drift a > small spot $0.1200", "1 Drift b > small spot $0.1200"];
    assert_eq!(lines(&disruption), expected);
    objects[0] = pool("pool", &json!({}), &["reserved"]);
    let nowhere = disrupted(&objects, &[], &Options::default());
    assert_eq!(nowhere.commands, []);
    assert!(reasons(&nowhere, "a")[0].0.starts_with("not all pods would schedule: "), "{nowhere:?}");
}

#[test]
fn a_balanced_pool_moves_pods_only_for_a_fair_share_of_its_cost() {
    // A large node with one pod could be small: that saves 0.6 of 3.8 dollars and disrupts 2 of 13 parts. With nine pods it
    // disrupts more than half of what there is to disrupt.
    let balanced = json!({"consolidationPolicy": "Balanced", "budgets": [{"nodes": "100%"}]});
    let with = |n_pods: usize, policy: &Value| {
        let mut objects = vec![pool("pool", policy, ON_DEMAND), node("a", "medium", "on-demand")];
        objects.extend((0..n_pods).map(|i| pod(&format!("p{i}"), "a", "100m", &json!({}))));
        for i in 0..3 {
            objects.push(node(&format!("full{i}"), "huge", "on-demand"));
            objects.push(pod(&format!("q{i}"), &format!("full{i}"), "16", &json!({})));
        }
        disrupted(&objects, &[], &Options::default())
    };
    let free = json!({"budgets": [{"nodes": "100%"}]});
    assert_eq!(lines(&with(10, &free)), ["0 SingleNodeConsolidation a > small on-demand $0.2000"]);
    let kept = with(10, &balanced);
    assert_eq!(kept.commands, []);
    assert!(reasons(&kept, "a")[0].0.starts_with("NodePool \"pool\" is Balanced"), "{kept:?}");
}

#[test]
fn a_limit_of_what_ifs_is_told() {
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({}))];
    let disruption = disrupted(&objects, &[], &Options { most_what_ifs: 0, ..Options::default() });
    assert!(disruption.is_cut_off && disruption.commands.is_empty());
    assert!(reasons(&disruption, "a")[0].0.starts_with("not considered"), "{disruption:?}");
}

/// What is saved is told beside the launch for the pod whose place another takes.
#[test]
fn a_pod_that_waits_and_loses_its_place_to_one_that_moves_is_launched_for() {
    let waits = json!({"status": {"phase": "Pending"}});
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "large", "on-demand"),
        node("b", "large", "on-demand"),
        pod("p", "a", "3", &json!({"spec": {"priority": 1000}})),
        pod("q", "b", "3", &json!({"spec": {"priority": 1000}})),
        pod("w", "", "3", &waits),
    ];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&disruption).len(), 1, "{disruption:#?}");
    let savings = disruption.commands[0].savings.to_string();
    let pending = [disruption.pending_hourly_cost, disruption.settled_pending_hourly_cost].map(|cost| cost.to_string());
    assert_eq!((disruption.commands[0].replacements.len(), &*savings), (0, "0.8"));
    assert_eq!(pending, ["0", "0.4"], "it had its place, and needs a node of its own then");
}

#[test]
fn pending_pods_are_no_cost_of_a_removal() {
    // What is launched for a pod that waits anyway is not held against a node that could go.
    let waiting = pod("waits", "", "16", &json!({"status": {"phase": "Pending"}}));
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1500m", &json!({})), waiting];
    let disruption = disrupted(&objects, &[], &Options::default());
    assert_eq!(disruption.commands.len(), 1, "{disruption:#?}");
    assert!(disruption.commands[0].savings > Money::ZERO);
}

#[rstest]
#[case::none(json!([{"nodes": "0"}]), Some("spec.disruption.budgets[0] of NodePool \"pool\" lets no node go for this now"))]
#[case::none_of_this_reason(json!([{"nodes": "0", "reasons": ["Underutilized"]}]),
    Some("spec.disruption.budgets[0] of NodePool \"pool\" lets no node go for this now"))]
#[case::none_of_another_reason(json!([{"nodes": "0", "reasons": ["Empty"]}]), None)]
#[case::one(json!([{"nodes": "1"}]), None)]
#[case::none_in_a_window(json!([{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]),
    Some("spec.disruption.budgets[0] of NodePool \"pool\" lets no node go for this now"))]
#[case::none_in_another_window(json!([{"nodes": "0", "schedule": "0 13 * * *", "duration": "8h"}]), None)]
fn a_removal_names_the_budget_that_keeps_the_node(#[case] budgets: Value, #[case] expected: Option<&str>) {
    let objects = [
        pool("pool", &json!({"budgets": budgets}), ON_DEMAND),
        node("a", "huge", "on-demand"),
        pod("p", "a", "1", &json!({})),
    ];
    let found = removal(&mut state_of(&objects, &[]), "a", &Options::default(), now()).unwrap().unwrap();
    let kept: Vec<&str> = found.kept.iter().map(|kept| &*kept.reason).collect();
    assert_eq!(kept.len(), usize::from(expected.is_some()), "{kept:?}");
    assert!(kept.iter().zip(expected).all(|(kept, expected)| kept.starts_with(expected)), "{kept:?}");
}

fn claim_of(node: &str, created: &str, expire_after: &str) -> Object {
    Object::from(typed::<berth_api::NodeClaim>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{node}"), "uid": format!("claim-{node}"), "creationTimestamp": created},
        "spec": {"requirements": [], "expireAfter": expire_after},
        "status": {"nodeName": node, "providerID": format!("fake:///{node}"), "conditions": [
            {"type": "Initialized", "status": "True", "reason": "Initialized", "message": "",
                "lastTransitionTime": created}]}})))
}

#[test]
fn nodes_that_expire_soon_are_replaced_before_that_as_budgets_allow() {
    // At noon: in 20 minutes, in 40 (of which the budget lets one go at a time, 15 minutes each), and tomorrow.
    let mut objects = vec![pool("pool", &json!({"budgets": [{"nodes": "1"}]}), ON_DEMAND)];
    for (name, created) in [("a", "02:20"), ("b", "02:40"), ("c", "11:00")] {
        objects.push(node(name, "small", "on-demand"));
        objects.push(pod(&format!("p{name}"), name, "1500m", &json!({})));
        objects.push(claim_of(name, &format!("2026-01-01T{created}:00Z"), "10h"));
    }
    let disruption = disrupted(&objects, &[], &Options::default());
    let drifted: Vec<(usize, &str)> = disruption
        .commands
        .iter()
        .filter(|command| command.method == Method::Drift)
        .map(|command| (command.batch, &*command.nodes[0].key.name))
        .collect();
    assert_eq!(drifted, [(0, "a"), (1, "b")], "{disruption:#?}");
}

/// With half of its lifetime left, evictions from a node cost half.
#[test]
fn evictions_from_a_node_that_expires_soon_are_priced_less() {
    let options = Options { eviction_price: Money::from_pico(800_000_000_000), ..Options::default() };
    for (expire_after, goes) in [("Never", false), ("120h", false), ("12h", true)] {
        // A smaller node would save $1.40 an hour, and the node and its pod are two units of disruption.
        let objects = [
            free_pool(ON_DEMAND),
            node("a", "huge", "on-demand"),
            pod("p", "a", "1500m", &json!({})),
            claim_of("a", "2026-01-01T06:00:00Z", expire_after),
        ];
        let disruption = disrupted(&objects, &[], &options);
        assert_eq!(disruption.commands.len(), usize::from(goes), "{expire_after}: {disruption:#?}");
        assert_eq!(disruption.priced_hourly_cost < disruption.hourly_cost, goes);
    }
}

#[test]
fn of_alike_nodes_the_one_that_expires_sooner_goes_first() {
    for (sooner, later) in [("a", "b"), ("b", "a")] {
        let mut objects = vec![
            pool("pool", &json!({"budgets": [{"nodes": "1"}]}), ON_DEMAND),
            node("stays", "huge", "on-demand"),
            pod("big", "stays", "10", &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})),
            claim_of("stays", "2026-01-01T06:00:00Z", "Never"),
        ];
        for (name, created) in [(sooner, "06:00"), (later, "10:00")] {
            objects.push(node(name, "small", "on-demand"));
            objects.push(pod(&format!("p{name}"), name, "1500m", &json!({})));
            objects.push(claim_of(name, &format!("2026-01-01T{created}:00Z"), "48h"));
        }
        let disruption = disrupted(&objects, &[], &Options::default());
        let expected = [(0, sooner), (1, later)].map(|(batch, name)| (batch, name.to_owned()));
        let found: Vec<(usize, String)> = disruption
            .commands
            .iter()
            .flat_map(|command| command.nodes.iter().map(|node| (command.batch, node.key.name.to_string())))
            .collect();
        assert_eq!(found, expected, "{disruption:#?}");
    }
}

#[test]
fn a_mark_that_means_nothing_is_a_fault_of_its_object() {
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &protected("soon"))];
    let disruption = disrupted(&objects, &[], &Options::default());
    let [(object, text)] = disruption.faults.as_slice() else { panic!("{disruption:?}") };
    assert_eq!(object.key.full_name(), "default/p");
    assert!(text.contains("expected \"true\" or a time such as 1h, found \"soon\""), "{text}");
}

/// Nodes of types and kinds, each with some pods.
fn clusters() -> impl Strategy<Value = Vec<(usize, usize, Vec<u32>)>> {
    prop::collection::vec((0..4_usize, 0..3_usize, prop::collection::vec(1..16_u32, 0..4)), 1..7)
}

proptest! {
    // More than a thousand verdicts.
    #![proptest_config(ProptestConfig { cases: 320, ..ProptestConfig::default() })]

    /// What is told of a node without a whole decision is what a whole decision tells. Where new nodes cost too much, the
    /// reason may be another.
    #[test]
    fn verdicts_are_those_of_the_full_what_if(cluster in clusters(), slots in 0..2_u32, price in 0..4_i128, ports in 0..3_usize, skew in 0..3_u32, is_soft in any::<bool>()) {
        let mut objects = vec![free_pool(&["spot", "on-demand", "reserved"])];
        for (i, (of_type, kind, pods)) in cluster.iter().enumerate() {
            let (name, instance_type) = (format!("n{i}"), ["small", "medium", "large", "huge"][*of_type]);
            let mut free = 1_000 * (2 << of_type);
            objects.push(node(&name, instance_type, ["on-demand", "spot", "reserved"][*kind]));
            for (j, eighths) in pods.iter().enumerate() {
                let cpu = i64::from(*eighths) * 250;
                let spec = match (j + ports) % 4 {
                    0 => json!({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}),
                    1 => json!({"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}}),
                    2 if is_soft => json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"like": "2"}}}}]}}}),
                    2 => json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"like": "2"}}}]}}}),
                    _ if skew > 0 => json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"like": "3"}}}]}),
                    _ => json!({}),
                };
                if cpu <= free {
                    free -= cpu;
                    let labels = json!({"like": ((j + ports) % 4).to_string()});
                    let more = json!({"metadata": {"labels": labels}, "spec": spec});
                    objects.push(pod(&format!("p{i}-{j}"), &name, &format!("{cpu}m"), &more));
                }
            }
        }
        let mut state = state_of(&objects, &[("small", 0, "cr-1", slots)]);
        let options = Options { eviction_price: Money::from_pico(price * 20_000_000_000), ..Options::default() };
        let mut decider = berth_decisions::Decider::new();
        let found = verdicts(&mut state, &mut decider, &options, now()).unwrap();
        prop_assert_eq!(found.nodes.len(), cluster.len());
        for (node, told) in &found.nodes {
            let full = what_if_of(&mut state, node, &options, now()).unwrap();
            match (told, &full) {
                (Verdict::Unknown, _) | (Verdict::Stays(_), Verdict::Stays(_)) => {}
                // Others may find no place where pods keep what they prefer: see `forecasts`.
                (Verdict::Stays(reasons), Verdict::Pays { .. }) if is_soft => {
                    let is_by_bound = |text: &str| {
                        ["can't replace", "saves at most", "not all pods would schedule: no"].iter().any(|one| text.starts_with(one))
                    };
                    prop_assert!(reasons.iter().all(|reason| is_by_bound(&reason.reason)), "{node}: {reasons:?}");
                }
                (Verdict::Pays { savings, by_packing: true, .. }, Verdict::Pays { savings: full, .. }) => {
                    prop_assert!(savings <= full, "{node}: {savings} of {full}");
                }
                (told, full) => prop_assert_eq!(told, full, "{}", node),
            }
        }
    }
}

/// The regression: a node stayed whose pods could have made others give way; a smaller one was not thought of.
#[test]
fn a_pod_of_high_priority_gets_a_smaller_node_where_it_would_have_made_others_give_way() {
    for priority in [0, 1000] {
        let high = json!({"spec": {"priority": priority}});
        let objects = [
            free_pool(&["on-demand"]),
            node("big", "huge", "on-demand"),
            node("full", "small", "on-demand"),
            pod("high", "big", "1500m", &high),
            pod("low", "full", "1900m", &json!({"spec": {"priority": 0}})),
        ];
        let disruption = disrupted(&objects, &[], &Options::default());
        assert_eq!(lines(&disruption).len(), 1, "{disruption:?}");
        assert!(lines(&disruption)[0].contains("big > small on-demand"), "{:?}", lines(&disruption));
    }
}
