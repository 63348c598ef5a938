//! A survey of some nodes says of them what that of all nodes says.

use super::*;

pub(super) fn guard(name: &str, app: &str, status: &Value) -> Object {
    let mut budget = json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}});
    merge(&mut budget, &json!({"status": status}));
    if status.is_null() {
        budget.as_object_mut().unwrap().remove("status");
    }
    Object::from(typed::<PodDisruptionBudget>(budget))
}

fn objects() -> Vec<Object> {
    let kept = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    vec![
        free_pool(ON_DEMAND),
        node("a", "small", "on-demand"),
        node("b", "large", "spot"),
        node("c", "large", "reserved"),
        node("d", "small", "on-demand"),
        pod("p", "a", "1", &json!({})),
        pod("q", "a", "500m", &json!({"spec": {"priority": 1_000}})),
        pod("r", "b", "1", &kept),
        pod("s", "c", "1", &json!({})),
    ]
}

#[rstest]
#[case::counted(json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}))]
#[case::not_counted_yet(Value::Null)]
fn a_survey_of_some_nodes_says_of_them_what_that_of_all_says(#[case] counted: Value) {
    let mut objects = objects();
    objects.push(guard("guard", "s", &counted));
    let mut state = state_of(&objects, &[("large", 8, "r-1", 2)]);
    let options = Options { kept: [("d".to_owned(), "asked for".to_owned())].into(), ..Options::default() };
    let prices = Prices::of(state.cluster(now()));
    let all = Survey::of(&state, &prices, &options, now());
    assert!(
        all.candidates.iter().any(|known| known.blocked.iter().any(|why| why.reason.contains("pdb default/guard")))
    );
    for names in [&["a"][..], &["b", "c"], &["d"], &["a", "b", "c", "d"]] {
        let some = Survey::of_nodes(&state, &names.iter().copied().collect(), &prices, &options, now());
        for candidate in all.candidates.iter().filter(|known| names.contains(&&*known.node.key.name)) {
            let of_some = some.of_node(&candidate.node);
            assert_eq!(format!("{of_some:?}"), format!("{:?}", Some(candidate)));
        }
        let counts = |survey: &Survey| format!("{:?}", survey.pools["pool"].nodes);
        assert_eq!(counts(&some), counts(&all), "budgets count all nodes");
        let passed = Options { has_passed_budgets: true, ..options.clone() };
        let alone = Survey::of_nodes(&state, &names.iter().copied().collect(), &prices, &passed, now());
        assert_eq!(alone.candidates, some.candidates, "whoever asks no budget needs no other node");
    }
}

/// Nodes of which a bound does not tell: new nodes are planned, or the whole decided.
fn n_untold(free: &[(&str, u32, &str, u32)], pool: Object) -> usize {
    let objects = [
        pool,
        node("a", "huge", "reserved"),
        pod("p", "a", "7", &json!({})),
        node("b", "small", "on-demand"),
        pod("q", "b", "2", &json!({})),
    ];
    let mut state = state_of(&objects, free);
    let mut decider = berth_decisions::Decider::new();
    let tally = verdicts(&mut state, &mut decider, &Options::default(), now()).unwrap().tally;
    tally.unknown + tally.searched
}

#[test]
fn a_bound_by_list_prices_says_that_no_smaller_slots_take_the_place_of_a_slot() {
    // None is free; those that are free are too small; or as large; smaller ones that hold its pods may pay.
    assert_eq!(n_untold(&[("huge", 0, "cr-1", 0)], free_pool(WITH_SLOTS)), 0);
    assert_eq!(n_untold(&[("small", 0, "cr-1", 9)], free_pool(WITH_SLOTS)), 0);
    assert_eq!(n_untold(&[("huge", 0, "cr-1", 1)], free_pool(WITH_SLOTS)), 0);
    let smaller = [("large", 0, "cr-1", 1), ("huge", 0, "cr-2", 0)];
    assert_eq!(n_untold(&smaller, free_pool(WITH_SLOTS)), 1);
    // Its NodePool does not admit slots.
    assert_eq!(n_untold(&smaller, free_pool(ON_DEMAND)), 0);
}
