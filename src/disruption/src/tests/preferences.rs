//! What pods prefer, where their nodes could go: kept where it holds.

use super::*;

const HOST: &str = "kubernetes.io/hostname";

fn selector() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

/// A pod of one CPU of an app with this spec.
fn web(name: &str, node: &str, spec: &Value) -> Object {
    pod(name, node, "1", &json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}))
}

fn spread_over(key: &str) -> Value {
    json!({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector()}]})
}

fn apart() -> Value {
    json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": selector()}}]}}})
}

fn together() -> Value {
    json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": selector()}}]}}})
}

/// Prefers nodes of a type; of several terms the heaviest counts, as where a node is launched.
fn of_type(name: &str) -> Value {
    let term = |weight: i32, of_type: &str| {
        json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [of_type]}]}})
    };
    let terms = [term(1, "huge"), term(9, name), term(9, "medium")];
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// One pod each on nodes of the smallest type.
fn one_each(spec: &Value) -> Vec<Object> {
    let mut objects = vec![free_pool(ON_DEMAND)];
    for i in 0..3 {
        objects.push(node(&format!("n{i}"), "small", "on-demand"));
        objects.push(web(&format!("p{i}"), &format!("n{i}"), spec));
    }
    objects
}

fn all_ways(objects: &[Object], slots: &[(&str, u32, &str, u32)]) -> Vec<String> {
    let found =
        [true, false].map(|only_now| lines(&disrupted(objects, slots, &Options { only_now, ..Options::default() })));
    let [now, planned] = found;
    assert_eq!(now, planned, "a plan and a process that acts");
    planned
}

/// The regression: a node was launched for a preference at each growth, and consolidation moved its pod away again within minutes.
#[rstest]
#[case::spread_by_host(spread_over(HOST))]
#[case::anti_affinity(apart())]
fn pods_stay_apart_that_prefer_it(#[case] spec: Value) {
    assert_eq!(all_ways(&one_each(&spec), &[]), [""; 0]);
    assert_ne!(all_ways(&one_each(&json!({})), &[]), [""; 0], "without the preference they come together");
    let stays = disrupted(&one_each(&spec), &[], &Options::default());
    assert_eq!(reasons(&stays, "n0"), [("can't replace with a cheaper node".to_owned(), 1)]);
}

#[rstest]
#[case::spread_by_host(spread_over(HOST))]
#[case::anti_affinity(apart())]
fn what_does_not_hold_keeps_nobody(#[case] spec: Value) {
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "medium", "on-demand"),
        web("p", "a", &spec),
        web("q", "a", &spec),
        node("b", "huge", "on-demand"),
        pod("other", "b", "10", &json!({})),
    ];
    assert_eq!(all_ways(&objects, &[]), ["0 SingleNodeConsolidation a >  $0.4000"]);
}

/// The regression: those who were crowded already came to those who were not, so that nobody had what it prefers any more.
#[rstest]
#[case::spread_by_host(spread_over(HOST))]
#[case::anti_affinity(apart())]
fn who_is_crowded_does_not_come_to_who_is_not(#[case] spec: Value) {
    let mut objects = one_each(&spec);
    objects.extend((1..4).map(|i| node(&format!("m{i}"), "medium", "on-demand")));
    objects.extend([web("q", "m1", &spec), web("r", "m1", &spec), web("s", "m1", &spec)]);
    objects.extend([web("t", "m2", &spec), web("u", "m3", &spec)]);
    let gone = all_ways(&objects, &[]);
    assert_eq!(
        gone,
        [
            "0 SingleNodeConsolidation m2 > small on-demand $0.2000",
            "0 SingleNodeConsolidation m3 > small on-demand $0.2000"
        ]
    );
}

/// A node with a label of this value.
fn labelled(node: &Object, key: &str, value: &str) -> Object {
    let Object::Node(mut labelled) = node.clone() else { panic!("a node") };
    let labels = std::sync::Arc::make_mut(&mut labelled).metadata.labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
    labelled.into()
}

/// The regression: of two nodes or zones with more pods than the spread asks for, or fewer, all pods came to one.
#[rstest]
#[case::nodes(HOST, &[2, 2], 0)]
#[case::three_nodes(HOST, &[2, 2, 2], 1)]
#[case::uneven_zones("topology.kubernetes.io/zone", &[3, 1], 0)]
fn a_spread_that_reaches_two_domains_keeps_two(#[case] key: &str, #[case] counts: &[u32], #[case] n_gone: usize) {
    let zone = "topology.kubernetes.io/zone";
    let text = catalogue(&[]).to_string();
    let in_zones: Value = serde_json::from_str(&text.replace(
        &format!("\"key\":\"{zone}\",\"operator\":\"In\",\"values\":[\"a\"]"),
        &format!("\"key\":\"{zone}\",\"operator\":\"In\",\"values\":[\"a\",\"b\",\"c\"]"),
    ))
    .unwrap();
    let n_gone_of = |spec: &Value| {
        let mut objects = vec![free_pool(ON_DEMAND)];
        for ((i, count), in_zone) in counts.iter().enumerate().zip(["a", "b", "c"]) {
            let name = format!("n{i}");
            objects.push(labelled(&node(&name, "small", "on-demand"), zone, in_zone));
            let more = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
            objects.extend((0..*count).map(|n| pod(&format!("p{i}-{n}"), &name, "300m", &more)));
        }
        let mut state = state_with(&objects, &in_zones);
        let found = disrupt(&mut state, &Options::default(), now()).unwrap();
        found.commands.iter().map(|command| command.nodes.len()).sum::<usize>()
    };
    assert_eq!(n_gone_of(&spread_over(key)), n_gone);
    assert_eq!(n_gone_of(&json!({})), counts.len() - 1);
}

#[test]
fn nodes_are_made_smaller_as_pods_stay_apart() {
    let mut objects = one_each(&apart());
    objects[1] = node("n0", "large", "on-demand");
    assert_eq!(all_ways(&objects, &[]), ["0 SingleNodeConsolidation n0 > small on-demand $0.6000"]);
}

#[test]
fn the_heaviest_preferred_type_is_kept_and_no_lighter_one() {
    let on = |of_type_of_node: &str, preferred: &str| {
        let objects = [
            free_pool(ON_DEMAND),
            node("a", of_type_of_node, "on-demand"),
            web("p", "a", &of_type(preferred)),
            node("b", "large", "on-demand"),
            pod("other", "b", "6", &json!({})),
        ];
        all_ways(&objects, &[])
    };
    assert_eq!(on("small", "small"), [""; 0]);
    assert_eq!(on("small", "large"), ["0 SingleNodeConsolidation a >  $0.2000"], "what it prefers most is elsewhere");
    assert_eq!(on("huge", "small"), ["0 SingleNodeConsolidation a >  $1.6000"]);
}

#[test]
fn pods_that_prefer_to_be_together_do_not_part() {
    // Elsewhere there is room for one of them on each of two nodes.
    let with = |spec: &Value| {
        let mut objects = vec![free_pool(ON_DEMAND), node("a", "small", "on-demand")];
        objects.extend([web("p", "a", spec), web("q", "a", spec)]);
        for name in ["b", "c"] {
            objects.push(node(name, "medium", "on-demand"));
            objects.push(pod(&format!("on-{name}"), name, "3", &json!({"spec": {"nodeSelector": {HOST: name}}})));
        }
        all_ways(&objects, &[])
    };
    assert_eq!(with(&json!({})), ["0 SingleNodeConsolidation a >  $0.2000"]);
    assert_eq!(with(&together()), [""; 0]);
}

/// As where nodes are launched: a slot is no reason to give up what pods prefer.
#[test]
fn pods_that_prefer_a_kind_of_capacity_stay_on_it() {
    let prefers = |kind: &str| {
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [kind]}]}}]}}})
    };
    let on_demand =
        |kind: &str| [free_pool(WITH_SLOTS), node("a", "small", "on-demand"), web("p", "a", &prefers(kind))];
    let slots = [("small", 0, "cr-1", 1)];
    assert_eq!(all_ways(&on_demand("on-demand"), &slots), [""; 0]);
    for kind in ["reserved", "spot"] {
        let moved = ["0 SingleNodeConsolidation a > small cr-1 $0.2000"];
        assert_eq!(all_ways(&on_demand(kind), &slots), moved, "{kind}");
    }
}

#[test]
fn drifted_nodes_go_whatever_their_pods_prefer() {
    let mut objects = one_each(&apart());
    objects[1] = labelled(&objects[1], "karpenter.sh/capacity-type", "spot");
    assert_eq!(all_ways(&objects, &[]), ["0 Drift n0 >  $0.0800"]);
}

#[test]
fn with_the_policy_to_ignore_them_preferences_keep_nobody() {
    let options =
        berth_state::Options { preferences: berth_model::PreferencePolicy::Ignore, ..berth_state::Options::default() };
    let mut state = filled(State::new(options), &one_each(&apart()), &catalogue(&[]));
    let found = disrupt(&mut state, &Options::default(), now()).unwrap();
    assert_eq!(found.commands.iter().map(|command| command.evictions).sum::<usize>(), 1, "{:?}", lines(&found));
}
