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
    Program::of(&state, (&survey.candidates, &[]), (&survey, &options)).unwrap()
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

/// The names of the nodes that go at once, as a process that acts has it, and as a plan has.
fn gone_at_once(objects: &[Object], slots: &[(&str, u32, &str, u32)]) -> [Vec<String>; 2] {
    [true, false].map(|only_now| {
        let found = disrupted(objects, slots, &Options { only_now, ..Options::default() });
        let gone = found.commands.iter().flat_map(|command| &command.nodes);
        let mut gone: Vec<String> = gone.map(|node| node.key.name.to_string()).collect();
        gone.sort();
        gone
    })
}

/// The regression: pods of a StatefulSet that keep apart were of different sorts, as each has a label of its own. They were sent to
/// each other's nodes, and stayed where they were beside free slots.
#[rstest]
#[case::by_anti_affinity(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}))]
#[case::by_a_port(json!({"containers": [{"name": "app", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}],
    "resources": {"requests": {"cpu": "1200m"}}}]}))]
fn pods_of_a_stateful_set_that_keep_apart_move_to_slots(#[case] apart: Value) {
    let mut objects = vec![free_pool(WITH_SLOTS)];
    for number in 0..4 {
        let (name, on) = (format!("db-{number}"), format!("n{number}"));
        objects.push(node(&on, "medium", if number < 2 { "reserved" } else { "on-demand" }));
        let more = json!({
            "metadata": {"labels": {"app": "db", "statefulset.kubernetes.io/pod-name": name}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}]},
            "spec": apart});
        objects.push(pod(&name, &on, "1200m", &more));
    }
    assert_eq!(gone_at_once(&objects, &[("medium", 0, "cr-medium", 2)]), [["n2", "n3"], ["n2", "n3"]]);
}

/// The regression: pods were sent to nodes that a spread over nodes keeps them from, and a process that acts asked no further.
#[test]
fn pods_that_are_spread_over_nodes_move_to_smaller_ones() {
    let spread = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [{"maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let mut objects = vec![free_pool(ON_DEMAND)];
    for name in ["a", "b", "c"] {
        objects.extend([node(name, "medium", "on-demand"), pod(&format!("p{name}"), name, "700m", &spread)]);
    }
    assert_eq!(gone_at_once(&objects, &[]), [["a", "b", "c"], ["a", "b", "c"]]);
}
