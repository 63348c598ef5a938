//! The search over the whole cluster: what the program proposes comes true, and the bound holds.

use berth_decisions::Decider;

use super::*;

fn at(dollars: f64) -> Options {
    #[expect(clippy::cast_possible_truncation, reason = "a few dollars")]
    let pico = (dollars * 1e12) as i128;
    Options { eviction_price: Money::from_pico(pico), bound: true, ..Options::default() }
}

/// Pods of 1 vCPU fit beside both of the large ones, a pod of 3 only beside the first.
fn rooms() -> Vec<Object> {
    let mut objects = vec![free_pool(ON_DEMAND)];
    for (name, of_type, pods) in
        [("a", "medium", &["2"][..]), ("b", "medium", &["3"]), ("k", "large", &["5"]), ("l", "large", &["6"])]
    {
        objects.push(node(name, of_type, "on-demand"));
        objects.extend(pods.iter().enumerate().map(|(i, cpu)| pod(&format!("{name}{i}"), name, cpu, &json!({}))));
    }
    objects
}

#[test]
fn pods_go_where_the_program_sends_them_so_that_all_find_a_place() {
    let (mut state, mut decider) = (state_of(&rooms(), &[]), Decider::new());
    let found = disrupt_with(&mut state, &mut decider, &at(0.0), now()).unwrap();
    let gone: Vec<&str> =
        found.commands.iter().flat_map(|command| &command.nodes).map(|node| &*node.key.name).collect();
    assert_eq!(gone, ["a", "b"], "{:#?} {:#?}", lines(&found), found.kept);
    assert_eq!(found.commands.iter().map(|command| command.evictions).sum::<usize>(), 2, "each pod once");
    assert_eq!(found.settled_hourly_cost.to_string(), "1.6");
    let bound = found.lower_bound.unwrap();
    assert!(bound <= found.settled_hourly_cost && bound.dollars() > 1.59, "nothing is left free: {bound}");
    let again = disrupt_with(&mut state, &mut decider, &at(0.0), now()).unwrap();
    assert_eq!(again, found, "the state is as it was");
    assert_eq!((state.n_conversions(), decider.n_made_anew()), (1, 1), "made anew: {:?}", state.conversions());
}

#[test]
fn a_node_whose_pods_may_not_go_where_they_are_sent_is_put_back() {
    let mut objects = rooms();
    // Who is to move to `k` may not be with what is on it, which the program does not see.
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "k0"}}}]}}}});
    objects.retain(|object| object.reference().is_none_or(|known| &*known.key.name != "b0"));
    objects.push(pod("b0", "b", "3", &apart));
    let mut state = state_of(&objects, &[]);
    let found = disrupt(&mut state, &at(0.0), now()).unwrap();
    let gone: Vec<&str> =
        found.commands.iter().flat_map(|command| &command.nodes).map(|node| &*node.key.name).collect();
    assert_eq!(gone, ["a"], "{:#?}", lines(&found));
    assert!(!reasons(&found, "b").is_empty());
    assert_eq!(disrupt(&mut state, &at(0.0), now()).unwrap(), found, "the taint of what was to go is off again");
}

#[test]
fn an_empty_node_on_a_reservation_takes_pods_before_it_goes() {
    let objects = [
        free_pool(WITH_SLOTS),
        node("a", "medium", "on-demand"),
        node("b", "medium", "on-demand"),
        node("full", "large", "on-demand"),
        node("slot", "large", "reserved"),
        node("spare", "small", "reserved"),
        pod("p", "a", "3", &json!({})),
        pod("q", "b", "3", &json!({})),
        pod("r", "full", "8", &json!({})),
    ];
    let found = disrupted(&objects, &[], &at(0.0));
    assert_eq!(found.settled_hourly_cost.to_string(), "0.8", "{:#?}", lines(&found));
    let last = found.commands.last().unwrap();
    assert_eq!((last.method, &*last.nodes[0].key.name), (Method::Emptiness, "spare"), "{:#?}", lines(&found));
}

#[test]
fn a_slot_that_two_node_pools_may_launch_is_one_slot() {
    let taint = |name: &str| json!([{"key": "team", "value": name, "effect": "NoSchedule"}]);
    let of_team = |name: &str| json!({"spec": {"tolerations": [{"key": "team", "operator": "Equal", "value": name}]}});
    let mut objects = Vec::new();
    for (team, of_type) in [("x", "medium"), ("y", "large")] {
        let Object::NodePool(pool) = pool(team, &json!({"budgets": [{"nodes": "100%"}]}), WITH_SLOTS) else { return };
        let mut pool = serde_json::to_value(&*pool).unwrap();
        pool["spec"]["template"]["spec"]["taints"] = taint(team);
        objects.push(Object::from(typed::<NodePool>(pool)));
        let Object::Node(node) = node(team, of_type, "on-demand") else { return };
        let mut node = serde_json::to_value(&*node).unwrap();
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = json!(team);
        node["spec"] = json!({"taints": taint(team)});
        objects.push(Object::from(typed::<Node>(node)));
        objects.push(pod(&format!("p-{team}"), team, "3", &of_team(team)));
    }
    let mut state = state_of(&objects, &[("medium", 0, "cr-1", 1)]);
    let options = at(0.0).for_what_ifs();
    let prices = crate::prices::Prices::of(state.cluster(now()));
    let survey = crate::survey::Survey::of(&state, &prices, &options, now());
    let program = crate::program::Program::of(&state, (&survey.candidates, &[]), (&survey, &options)).unwrap();
    let (_, mut with_new) = program.solve();
    let first = with_new.next().unwrap();
    // The dearer one goes to the slot; the other stays, as nothing else saves.
    let gone: Vec<&str> = first.iter().map(|known| &*survey.candidates[known.candidate].node.key.name).collect();
    assert_eq!(gone, ["y"]);
    let found = disrupt(&mut state, &options, now()).unwrap();
    assert_eq!(lines(&found)[0], "0 SingleNodeConsolidation y > medium cr-1 $0.8000");
}

#[test]
fn a_node_that_costs_nothing_is_no_reason_to_replace_spot_by_spot() {
    // A spot node could be half as large; with the slot's pod beside it the rule would not see that all of it is spot.
    let objects = [
        free_pool(&["spot", "reserved"]),
        node("a", "huge", "spot"),
        node("slot", "small", "reserved"),
        pod("p", "a", "6", &json!({})),
        pod("q", "slot", "1", &json!({})),
    ];
    let found = disrupted(&objects, &[], &at(0.0));
    assert_eq!(lines(&found), Vec::<String>::new());
    assert_eq!(format!("{:.4}", found.lower_bound.unwrap()), "0.6400", "nor does the bound count on it");
    let gate = Options { spot_to_spot: true, ..at(0.0) };
    assert!(disrupted(&objects, &[], &gate).lower_bound.unwrap().dollars() < 0.33);
}

/// Some spot nodes of each large type, each with a few pods, at random.
pub(super) fn half_full(case: u64, n_nodes: usize) -> Vec<Object> {
    let mut objects = vec![free_pool(&["spot", "on-demand", "reserved"])];
    let mut seed = case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for i in 0..n_nodes {
        let (name, is_huge) = (format!("n{i:02}"), below(3) > 0);
        let mut free = if is_huge { 16 } else { 8 };
        objects.push(node(&name, if is_huge { "huge" } else { "large" }, "spot"));
        for j in 0..=below(3) {
            let cpu = [1, 2, 4, 5, 6][usize::try_from(below(5)).unwrap()];
            if cpu <= free {
                free -= cpu;
                objects.push(pod(&format!("p{i:02}-{j}"), &name, &cpu.to_string(), &json!({})));
            }
        }
    }
    objects
}

#[test]
fn sets_of_nodes_make_way_for_sets_of_others_that_cost_hardly_more_than_any_must() {
    let (mut settled, mut bound, mut what_ifs) = (0.0, 0.0, 0);
    for case in 0..12 {
        let options = Options { spot_to_spot: true, ..at(0.0) };
        let found = disrupted(&half_full(case, 14), &[("large", 0, "cr-1", 1)], &options);
        settled += found.settled_hourly_cost.dollars();
        bound += found.lower_bound.unwrap().dollars();
        what_ifs += found.what_ifs;
    }
    assert!(settled <= 1.05 * bound, "{settled} {bound} {what_ifs}");
    // The program finds the sets: asked about one after another by rank, they take more than twice as many decisions.
    let options = Options { spot_to_spot: true, ..at(0.0) };
    let found = disrupted(&half_full(3, 40), &[("large", 0, "cr-1", 1)], &options);
    let (settled, bound) = (found.settled_hourly_cost.dollars(), found.lower_bound.unwrap().dollars());
    assert!(settled <= 1.01 * bound && found.what_ifs <= 25, "{settled} {bound} {}", found.what_ifs);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is found costs no less than the bound, at any price; and no pod that has moved moves again while the nodes
    /// of one proposal go.
    #[test]
    fn no_end_costs_less_than_the_bound(cluster in clusters(), slots in 0..3_u32, price in 0..4_u32, gate in prop::bool::ANY) {
        let mut objects = vec![free_pool(&["spot", "on-demand", "reserved"])];
        for (i, (of_type, kind, pods)) in cluster.iter().enumerate() {
            let (name, instance_type) = (format!("n{i}"), ["small", "medium", "large", "huge"][*of_type]);
            let mut free = 1_000 * (2 << of_type);
            objects.push(node(&name, instance_type, ["on-demand", "spot", "reserved"][*kind]));
            for (j, eighths) in pods.iter().enumerate() {
                let cpu = i64::from(*eighths) * 250;
                if cpu <= free {
                    free -= cpu;
                    objects.push(pod(&format!("p{i}-{j}"), &name, &format!("{cpu}m"), &json!({})));
                }
            }
        }
        let options = Options { spot_to_spot: gate, ..at(f64::from(price) * 0.05) };
        let found = disrupted(&objects, &[("small", 0, "cr-1", slots), ("huge", 0, "cr-2", 1)], &options);
        let bound = found.lower_bound.unwrap();
        prop_assert!(bound <= found.priced_hourly_cost, "{bound} {} {:#?}", found.priced_hourly_cost, lines(&found));
        prop_assert!(found.priced_hourly_cost >= found.settled_hourly_cost);
    }
}
