//! Moves among slots, which save no rent: for whom a slot is freed, and where nobody is evicted for nothing.

use super::*;

/// On a slot of the reservation that is named after its type.
fn on_slot_of(name: &str, instance_type: &str) -> Object {
    let Object::Node(mut slot) = node(name, instance_type, "reserved") else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut slot);
    let labels = known.metadata.labels.get_or_insert_default();
    labels.insert("berth.sh/capacity-reservation-id".to_owned(), format!("cr-{instance_type}"));
    slot.into()
}

fn of_pool(name: &str, node: Object) -> Object {
    let Object::Node(mut node) = node else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut node);
    known.metadata.labels.get_or_insert_default().insert("karpenter.sh/nodepool".to_owned(), name.to_owned());
    node.into()
}

const FULL: [(&str, u32, &str, u32); 3] =
    [("small", 0, "cr-small", 0), ("medium", 0, "cr-medium", 0), ("large", 0, "cr-large", 0)];

fn at(cents: i128) -> Options {
    Options { eviction_price: Money::from_pico(cents * 10_000_000_000), ..Options::default() }
}

/// Selects the type, so that no slot of another does.
fn of_type(instance_type: &str) -> Value {
    json!({"spec": {"nodeSelector": {"node.kubernetes.io/instance-type": instance_type}}})
}

#[test]
fn an_empty_node_on_a_slot_goes_and_nobody_is_evicted_into_it() {
    // The paid node stays: its pod is for its type alone; or it could use the slot of either, but not what is on it.
    let far = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": "other"}}});
    for (paid, settled) in [(of_type("medium"), vec!["empty"]), (far, vec!["empty", "paid"])] {
        let objects = [
            free_pool(WITH_SLOTS),
            pool("other", &json!({"budgets": [{"nodes": "100%"}]}), WITH_SLOTS),
            on_slot_of("empty", "large"),
            on_slot_of("full", "large"),
            of_pool("other", node("paid", "medium", "on-demand")),
            pod("p", "full", "3", &json!({})),
            pod("q", "full", "1", &json!({})),
            pod("r", "paid", "3", &paid),
        ];
        let found = disrupted(&objects, &FULL, &Options::default());
        let gone: Vec<&str> =
            found.commands.iter().flat_map(|command| &command.nodes).map(|node| &*node.key.name).collect();
        assert_eq!(gone, settled, "{:#?}", lines(&found));
        assert_eq!((found.commands[0].method, found.commands[0].evictions), (Method::Emptiness, 0));
    }
}

/// A large slot with a pod that a medium one has room for, and a paid node with a pod.
fn two_slots(paid: &Object, pool_of_paid: &[&str], more: &Value) -> Vec<Object> {
    vec![
        free_pool(&["reserved"]),
        pool("paid", &json!({"budgets": [{"nodes": "100%"}]}), pool_of_paid),
        on_slot_of("large", "large"),
        on_slot_of("medium", "medium"),
        of_pool("paid", paid.clone()),
        pod("p", "large", "1", &json!({})),
        pod("q", "medium", "1", &json!({})),
        pod("r", "paid", "3500m", more),
    ]
}

#[test]
fn a_slot_is_freed_for_a_paid_node_that_may_use_it_and_saves_by_that() {
    let paid = node("paid", "medium", "on-demand");
    let own = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": "paid"}}});
    let moved =
        ["0 SingleNodeConsolidation large >  $0.0000", "1 SingleNodeConsolidation paid > large cr-large $0.4000"];
    let run = |objects: &[Object], price| lines(&disrupted(objects, &FULL, &at(price)));
    assert_eq!(run(&two_slots(&paid, WITH_SLOTS, &own), 0), moved);
    // Each command disrupts a node and a pod: 40 cents pay for both at 9 cents, and not at 10.
    assert_eq!(run(&two_slots(&paid, WITH_SLOTS, &own), 9), moved);
    assert_eq!(run(&two_slots(&paid, WITH_SLOTS, &own), 10), Vec::<String>::new());
    // Its NodePool, its pod, or what keeps it says that it does not move to the slot.
    assert_eq!(run(&two_slots(&paid, ON_DEMAND, &own), 0), Vec::<String>::new());
    let on_demand = json!({"spec": {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}}});
    assert_eq!(run(&two_slots(&paid, WITH_SLOTS, &on_demand), 0), Vec::<String>::new());
    let marked = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    assert_eq!(run(&two_slots(&paid, WITH_SLOTS, &marked), 0), Vec::<String>::new());
    // Nor is there room for all that it has; what is launched in its place does not move again.
    let huge = node("paid", "huge", "on-demand");
    let mut objects = two_slots(&huge, WITH_SLOTS, &own);
    objects.push(pod("s", "paid", "6", &own));
    let split = ["0 SingleNodeConsolidation paid > large on-demand+medium on-demand $0.4000"];
    assert_eq!(run(&objects, 0), split);
}

/// The regression: a slot was freed for a paid node which stayed beside a free one, so that another changed nothing.
#[test]
fn nobody_makes_way_for_who_stays_beside_a_free_slot() {
    // It may not be on a slot's node, and nobody knows: what is there keeps it off.
    let own =
        json!({"metadata": {"labels": {"team": "r"}}, "spec": {"nodeSelector": {"karpenter.sh/nodepool": "paid"}}});
    let far = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"team": "r"}}}]}}}});
    for (free, expected) in [(0, 1), (1, 0)] {
        let mut objects = two_slots(&node("paid", "medium", "on-demand"), WITH_SLOTS, &own);
        objects.push(on_slot_of("other", "small"));
        objects.push(pod("far", "other", "2", &far));
        let slots = [("small", 0, "cr-small", 0), ("medium", 0, "cr-medium", 0), ("large", 0, "cr-large", free)];
        let found = disrupted(&objects, &slots, &Options::default());
        let evicted: usize = found.commands.iter().map(|command| command.evictions).sum();
        assert_eq!(evicted, expected, "{free}: {:#?}", lines(&found));
    }
}

/// The regression: no slot was freed for who waited, as no paid node would come to it; and two large nodes with half of what they have
/// stayed so for good.
#[rstest]
#[case::nobody(&[], 0, &[])]
#[case::one_who_needs_a_whole_node(&["7"], 0, &["a"])]
#[case::one_at_a_price(&["7"], 100, &[])]
#[case::two_though_only_one_can_be_freed(&["7", "7"], 0, &["a"])]
#[case::one_for_whom_there_is_no_slot(&["9"], 0, &[])]
fn a_slot_is_freed_for_who_waits(#[case] waiting: &[&str], #[case] price: i128, #[case] gone: &[&str]) {
    let mut objects = vec![free_pool(&["reserved"])];
    // None has room for who waits. The pods of the first come to the second, which is too full for another place then.
    for (name, cpu) in [("a", "2500m"), ("b", "2600m"), ("c", "5"), ("d", "5")] {
        objects.extend([on_slot_of(name, "large"), pod(&format!("p{name}"), name, cpu, &json!({}))]);
    }
    for (number, cpu) in waiting.iter().enumerate() {
        let waits =
            json!({"metadata": {"ownerReferences": []}, "spec": {"nodeName": null}, "status": {"phase": "Pending"}});
        objects.push(pod(&format!("w{number}"), "", cpu, &waits));
    }
    let found = disrupted(&objects, &FULL, &at(price));
    let commands: Vec<&str> =
        found.commands.iter().flat_map(|command| &command.nodes).map(|node| &*node.key.name).collect();
    assert_eq!(commands, gone, "{:#?}", lines(&found));
}

/// The regression: a limit kept who waits from a slot that was free, and nodes that were half empty had the rest of that limit.
#[test]
fn nodes_on_slots_are_merged_for_who_waits_for_their_limit() {
    for (limit, gone) in [("16", &["a"][..]), ("8", &[])] {
        let limits = pool("pool", &json!({"budgets": [{"nodes": "100%"}]}), &["reserved"]);
        let Object::NodePool(mut limited) = limits else { panic!("a NodePool") };
        let known = std::sync::Arc::make_mut(&mut limited);
        known.spec.limits = typed(json!({"cpu": limit}));
        let mut objects = vec![limited.into()];
        for name in ["a", "b"] {
            objects.extend([on_slot_of(name, "large"), pod(&format!("p{name}"), name, "2", &json!({}))]);
        }
        objects.push(pod("w", "", "7", &json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})));
        let found = disrupted(&objects, &[("large", 0, "cr-large", 1)], &Options::default());
        let nodes = found.commands.iter().flat_map(|command| &command.nodes);
        assert_eq!(nodes.map(|node| &*node.key.name).collect::<Vec<_>>(), gone, "{limit}: {:#?}", lines(&found));
    }
}

/// The regression: a slot of another reservation was freed for who is to have the one that a node leaves.
#[test]
fn one_slot_is_freed_for_one_who_waits_whatever_reservation_it_is_of() {
    for (is_going, cpu, expected) in [(false, "15", 1), (true, "500m", 0)] {
        let Object::Node(mut other) = on_slot_of("other", "huge") else { panic!("a node") };
        let known = &mut std::sync::Arc::make_mut(&mut other).metadata;
        known.deletion_timestamp = is_going.then(|| typed(json!("2026-01-01T11:59:00Z")));
        let labels = known.labels.get_or_insert_default();
        labels.insert("berth.sh/capacity-reservation-id".to_owned(), "cr-other".to_owned());
        let mut objects = vec![free_pool(&["reserved"]), other.into(), pod("o", "other", cpu, &json!({}))];
        for name in ["a", "b"] {
            objects.extend([on_slot_of(name, "huge"), pod(&format!("p{name}"), name, "4", &json!({}))]);
        }
        objects.push(pod("w", "", "13", &json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})));
        let full = [("huge", 0, "cr-huge", 0), ("huge", 0, "cr-other", 0)];
        let found = disrupted(&objects, &full, &Options::default());
        let gone = found.commands.iter().flat_map(|command| &command.nodes).count();
        assert_eq!(gone, expected, "{:#?}", lines(&found));
    }
}

/// The regression: whether the rules that tie pods to others by zone hold in that of the slot was not asked.
#[rstest]
#[case::nothing(json!({}), true)]
#[case::spread(json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"like": "r"}}}]}), false)]
#[case::anti_affinity(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"like": "r"}}}]}}}), false)]
fn nobody_makes_way_for_who_is_tied_to_another_zone(#[case] spec: Value, #[case] goes: bool) {
    let mut more =
        json!({"metadata": {"labels": {"like": "r"}}, "spec": {"nodeSelector": {"karpenter.sh/nodepool": "paid"}}});
    merge(&mut more, &json!({"spec": spec}));
    let Object::Node(mut paid) = node("paid", "medium", "on-demand") else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut paid);
    known.metadata.labels.get_or_insert_default().insert("topology.kubernetes.io/zone".to_owned(), "b".to_owned());
    let mut objects = two_slots(&paid.into(), WITH_SLOTS, &more);
    objects.push(on_slot_of("other", "small"));
    objects.push(pod("like", "other", "2", &json!({"metadata": {"labels": {"like": "r"}}})));
    let mut types = catalogue(&FULL);
    let in_b = json!({"Price": 0.4, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]});
    types[1]["offerings"].as_array_mut().unwrap().push(in_b);
    let found = disrupt(&mut state_with(&objects, &types), &Options::default(), now()).unwrap();
    assert_eq!(!found.commands.is_empty(), goes, "{:#?}", lines(&found));
}

#[test]
fn a_removal_between_slots_saves_nothing_and_says_so() {
    let own = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": "paid"}}});
    let mut objects = two_slots(&node("paid", "medium", "on-demand"), WITH_SLOTS, &own);
    objects.push(on_slot_of("empty", "small"));
    let mut state = state_of(&objects, &FULL);
    for (node, n_evictions) in [("large", 1), ("empty", 0)] {
        let found = removal(&mut state, node, &Options::default(), now()).unwrap().unwrap();
        let pays =
            matches!(found.verdict, Verdict::Pays { savings: Money::ZERO, evictions, .. } if evictions == n_evictions);
        assert!(pays, "{node}: {:?}", found.verdict);
    }
}

#[test]
fn a_node_whose_offering_is_sold_out_costs_what_it_does_and_makes_way() {
    let mut types = catalogue(&[]);
    types[3]["offerings"][0]["Available"] = json!(0);
    let objects = [free_pool(ON_DEMAND), node("a", "huge", "on-demand"), pod("p", "a", "1", &json!({}))];
    let found = disrupt(&mut state_with(&objects, &types), &Options::default(), now()).unwrap();
    assert_eq!(lines(&found), ["0 SingleNodeConsolidation a > small on-demand $1.4000"]);
    assert_eq!((found.hourly_cost.to_string(), found.settled_hourly_cost.to_string()), ("1.6".into(), "0.2".into()));
}

#[test]
fn an_instance_of_which_there_is_one_is_launched_once() {
    let mut types = catalogue(&[]);
    types[0]["offerings"][0]["Available"] = json!(1);
    let waits = json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}});
    for n_waiting in 0..2 {
        let mut objects = vec![free_pool(ON_DEMAND)];
        for name in ["a", "b", "c"] {
            // No two of them on one node.
            let apart = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "web"}}}]}}}});
            objects.extend([node(name, "huge", "on-demand"), pod(&format!("p{name}"), name, "1500m", &apart)]);
            if n_waiting == 1 && name == "a" {
                let mut more = apart.clone();
                merge(&mut more, &waits);
                objects.push(pod("w", "", "1500m", &more));
            }
        }
        let found = disrupt(&mut state_with(&objects, &types), &Options::default(), now()).unwrap();
        let launched = found.commands.iter().flat_map(|command| &command.replacements);
        let mut launched: Vec<&str> = launched.map(|(_, launch)| &*launch.offering.instance_type).collect();
        launched.sort_unstable();
        // Who waits comes first, and takes the one that there is.
        let expected = if n_waiting == 0 { ["medium", "medium", "small"] } else { ["medium"; 3] };
        assert_eq!(launched, expected, "{:#?}", lines(&found));
        let settled = if n_waiting == 0 { "1" } else { "1.2" };
        assert_eq!(found.settled_hourly_cost.to_string(), settled, "{n_waiting} waiting");
    }
}

#[test]
fn a_pod_that_nobody_would_make_again_keeps_its_node_from_consolidation_alone() {
    let bare = json!({"metadata": {"ownerReferences": []}});
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "huge", "on-demand"),
        pod("p", "a", "1", &bare),
        node("b", "huge", "on-demand"),
        pod("q", "b", "1", &json!({})),
    ];
    let found = disrupted(&objects, &[], &Options::default());
    assert_eq!(lines(&found), ["0 SingleNodeConsolidation b >  $1.6000"], "there is room for the other");
    let reason = "pod has no controller that would make another in its place".to_owned();
    assert_eq!(reasons(&found, "a"), [(reason, 1)]);
}
