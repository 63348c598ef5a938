//! What the program makes of pods with rules of their own: it does not see them, and gives each pod a place where they hold.

use super::*;
use crate::program::Program;

/// A node of a rack.
fn in_rack(rack: &str, node: Object) -> Object {
    let Object::Node(mut node) = node else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut node);
    let labels = known.metadata.labels.get_or_insert_default();
    labels.insert("example.com/rack".to_owned(), rack.to_owned());
    node.into()
}

/// A pod of one CPU of an app whose pods are to be in all racks alike.
fn spread(app: &str, name: &str, node: &str) -> Object {
    let rule = json!({"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}}});
    pod(name, node, "1", &json!({"metadata": {"labels": {"app": app}}, "spec": {"topologySpreadConstraints": [rule]}}))
}

/// Two nodes may go, and the others have room for one pod each: of `a` there is one more in rack 2, of `b` in rack 1.
fn two_apps() -> Vec<Object> {
    let mut objects = vec![free_pool(ON_DEMAND)];
    objects.extend([in_rack("1", node("k", "large", "on-demand")), in_rack("2", node("l", "large", "on-demand"))]);
    objects.extend([in_rack("1", node("x", "medium", "on-demand")), in_rack("2", node("y", "medium", "on-demand"))]);
    objects.extend([pod("k0", "k", "6", &json!({})), pod("l0", "l", "6", &json!({}))]);
    objects.extend([spread("b", "b0", "k"), spread("a", "a0", "l"), spread("a", "a1", "x"), spread("b", "b1", "y")]);
    objects
}

fn program_of(objects: &[Object]) -> Program {
    let (mut state, options) = (state_of(objects, &[]), Options::default());
    let prices = Prices::of(state.cluster(now()));
    let survey = Survey::of(&state, &prices, &options, now());
    Program::of(&state, &survey.candidates, (&survey, &options)).unwrap()
}

#[test]
fn pods_that_differ_by_the_selector_of_a_spread_are_of_one_sort() {
    // Those of 6 CPUs, and those of one.
    assert_eq!(program_of(&two_apps()).n_sorts(), 2);
}

#[test]
fn each_pod_of_a_sort_takes_the_place_where_its_own_spread_holds() {
    let program = program_of(&two_apps());
    let (leaving, _) = program.solve();
    let mut moves: Vec<(&str, &str)> =
        leaving.iter().flat_map(|known| &known.moves).map(|(pod, node)| (&**pod, node.as_str())).collect();
    moves.sort_unstable();
    assert_eq!(moves, [("default/a1", "k"), ("default/b1", "l")]);
}
