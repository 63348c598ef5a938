//! Karpenter's methods over the same what-ifs.

use super::*;

fn as_karpenter() -> Options {
    Options { methods: Methods::Karpenter, ..Options::default() }
}

/// Two nodes whose pods need two others that are cheaper, and no one node that is.
fn two_for_two() -> Vec<Object> {
    vec![
        free_pool(&["on-demand", "spot"]),
        node("a", "huge", "on-demand"),
        node("b", "huge", "on-demand"),
        pod("p", "a", "9", &json!({})),
        pod("q", "b", "9", &json!({})),
    ]
}

#[test]
fn one_node_at_most_takes_the_place_of_others() {
    // Spot costs two fifths: each huge node makes way for one on spot, and no node holds both pods.
    let found = disrupted(&two_for_two(), &[], &as_karpenter());
    let launched: Vec<usize> = found.commands.iter().map(|command| command.replacements.len()).collect();
    assert_eq!(launched, [1, 1], "{:#?}", lines(&found));
    assert!(found.commands.iter().all(|command| command.method == Method::SingleNodeConsolidation));
}

#[test]
fn a_node_whose_pods_need_two_others_stays() {
    // On two small nodes they cost a quarter; one node does not take both.
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "p"}}}]}}}});
    let objects = [
        free_pool(ON_DEMAND),
        node("a", "huge", "on-demand"),
        pod("p", "a", "1", &json!({})),
        pod("q", "a", "1", &apart),
    ];
    let ours = disrupted(&objects, &[], &Options::default());
    assert_eq!(ours.commands.first().map(|command| command.replacements.len()), Some(2), "{:#?}", lines(&ours));
    let found = disrupted(&objects, &[], &as_karpenter());
    assert_eq!(lines(&found), Vec::<String>::new());
    assert_eq!(reasons(&found, "a"), [("can't remove without creating 2 nodes".to_owned(), 0)]);
}

#[test]
fn a_pass_ends_with_the_first_method_that_finds_something() {
    let mut objects = two_for_two();
    objects.push(node("empty", "small", "on-demand"));
    let now_alone = Options { only_now: true, ..as_karpenter() };
    let found = disrupted(&objects, &[], &now_alone);
    let methods: Vec<Method> = found.commands.iter().map(|command| command.method).collect();
    assert_eq!(methods, [Method::Emptiness]);
    let all = disrupted(&objects, &[], &as_karpenter());
    let methods: Vec<Method> = all.commands.iter().map(|command| command.method).collect();
    let single = Method::SingleNodeConsolidation;
    assert_eq!(methods, [Method::Emptiness, single, single], "passes follow one another");
}

#[test]
fn the_largest_first_part_goes_whose_pods_fit_elsewhere() {
    let mut objects = vec![free_pool(ON_DEMAND), node("room", "huge", "on-demand")];
    objects.extend((0..26).map(|i| pod(&format!("r{i}"), "room", "500m", &json!({}))));
    for name in ["a", "b", "c", "d"] {
        objects.push(node(name, "small", "on-demand"));
        objects.push(pod(&format!("p{name}"), name, "1", &json!({})));
    }
    let found = disrupted(&objects, &[], &Options { only_now: true, ..as_karpenter() });
    // Three vCPUs are left. For the fourth pod one of the four small nodes could stay.
    assert_eq!(lines(&found), ["0 MultiNodeConsolidation a+b+c >  $0.6000"]);
}
