//! In which order pods are bound that were decided about together: each binding is a write of its own.

use std::collections::BTreeMap;

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A pod of an app that is spread over zones.
fn spread(name: &str, app: &str) -> Object {
    mk_pod(
        name,
        "300m",
        json!({"metadata": {"labels": {"app": app}}, "spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}}}]}}),
    )
}

/// The most that zones of an app differ by after any of these bindings.
fn worst_skew(bindings: &[Binding]) -> u32 {
    let mut counts: BTreeMap<String, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut worst = 0;
    for binding in bindings {
        let app = binding.object.key.name.split('-').next().unwrap().to_owned();
        let of_app = counts.entry(app).or_insert_with(|| ["a", "b", "c"].map(|zone| (zone, 0)).into());
        let zone = binding.node.key.name.split('-').next().unwrap();
        *of_app.get_mut(zone).unwrap() += 1;
        worst = worst.max(of_app.values().max().unwrap() - of_app.values().min().unwrap());
    }
    worst
}

/// The regression: bindings were written node by node, so that the pods of an app filled one zone before the next.
#[test]
fn a_required_spread_holds_after_each_binding() {
    let nodes = ["a-1", "a-2", "b-1", "b-2", "c-1", "c-2"];
    let mut objects: Vec<Object> = nodes.map(|name| mk_node(name, "4", &json!({ZONE: &name[..1]}))).into();
    for app in ["x", "y", "z"] {
        objects.extend((0..15).map(|n| spread(&format!("{app}-{n}"), app)));
    }
    let mut state = state_of(&objects);
    let whole = decide(&mut state, &full(), NOW).unwrap();
    assert_eq!((whole.bindings.len(), worst_skew(&whole.bindings)), (45, 1));
    let mut decider = Decider::new();
    decider.refresh(&mut state, NOW);
    let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
    assert_eq!((at_once.decision.bindings.len(), worst_skew(&at_once.decision.bindings)), (45, 1));
    let kept = decider.decide(&mut state, &Options::default(), NOW).unwrap();
    assert_eq!((kept.bindings.len(), worst_skew(&kept.bindings)), (45, 1));
}

/// A pod that is made in place of one which was told to leave comes before one that has waited for longer, however it is decided.
#[test]
fn a_remade_pod_comes_before_an_older_one_of_its_priority_alone() {
    let bound_with = |remade: &[&str], launches: bool| {
        let more =
            |app: &str, priority: i32| json!({"metadata": {"labels": {"app": app}}, "spec": {"priority": priority}});
        let mut state = state_of(&[
            mk_node("n", "2", &json!({})),
            mk_pod("new-1", "1", more("new", 0)),
            mk_pod("new-2", "1", more("new", 0)),
            mk_pod("a-old", "1", more("old", 0)),
            mk_pod("less", "1", more("less", -1)),
            mk_pod("urgent", "1", more("urgent", 1)),
        ]);
        let remade = remade.iter().map(|name| format!("default/{name}").into()).collect();
        let options = Options { launches, come_first: Arc::new(remade), ..Options::default() };
        let names = |bindings: &[Binding]| -> Vec<String> {
            bindings.iter().map(|binding| binding.object.key.name.to_string()).collect()
        };
        let whole = names(&decide(&mut state, &options, NOW).unwrap().bindings);
        let mut decider = Decider::new();
        decider.refresh(&mut state, NOW);
        let at_once = decider.decide_at_once(&mut state, &options, &BTreeSet::new(), NOW).unwrap();
        assert_eq!(names(&at_once.decision.bindings), whole);
        assert_eq!(names(&decider.decide(&mut state, &options, NOW).unwrap().bindings), whole);
        whole
    };
    for launches in [false, true] {
        assert_eq!(bound_with(&[], launches), ["urgent", "a-old"], "{launches}");
        assert_eq!(bound_with(&["new-1"], launches), ["urgent", "new-1"], "{launches}");
        assert_eq!(bound_with(&["new-2"], launches), ["urgent", "new-2"], "of alike pods, too: {launches}");
        assert_eq!(bound_with(&["less"], launches), ["urgent", "a-old"], "its priority is lower: {launches}");
        assert_eq!(bound_with(&["gone"], launches), ["urgent", "a-old"], "{launches}");
    }
}
