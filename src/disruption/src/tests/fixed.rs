//! Static NodePools.

use super::*;

fn fixed(replicas: i64, limit: i64) -> Object {
    let Object::NodePool(mut pool) = free_pool(WITH_SLOTS) else { panic!("a NodePool") };
    let mut value = serde_json::to_value(&*pool).unwrap();
    merge(&mut value, &json!({"spec": {"replicas": replicas, "limits": {"nodes": limit.to_string()}}}));
    pool = std::sync::Arc::new(typed::<NodePool>(value));
    pool.into()
}

fn with_gate() -> Options {
    Options { static_capacity: true, ..Options::default() }
}

/// Two drifted nodes (on spot, which the NodePool does not have any more), one with a pod, and one as it should be.
fn objects(replicas: i64, limit: i64) -> Vec<Object> {
    let mut objects = vec![fixed(replicas, limit), pod("web", "a", "1500m", &json!({}))];
    objects.extend([node("a", "small", "spot"), node("b", "small", "spot"), node("c", "small", "on-demand")]);
    objects
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_one_for_one_on_slots_first() {
    let slots = [("small", 0, "cr-1", 1)];
    let disruption = disrupted(&objects(3, 10), &slots, &with_gate());
    // Empty or not: the number of nodes stays.
    assert_eq!(lines(&disruption), ["0 Drift b > small cr-1 $0.0800", "0 Drift a > small on-demand $-0.1200"]);
    assert_eq!(reasons(&disruption, "c"), [("NodePool \"pool\" is static".to_owned(), 0)]);
}

#[test]
fn without_the_gate_the_nodes_of_a_static_pool_stay() {
    let disruption = disrupted(&objects(3, 10), &[], &Options::default());
    assert!(disruption.commands.is_empty(), "{:#?}", lines(&disruption));
    let why = "NodePool \"pool\" is static, and the feature gate StaticCapacity is off";
    assert!(reasons(&disruption, "a").contains(&(why.to_owned(), 0)), "{:?}", reasons(&disruption, "a"));
}

#[test]
fn a_full_static_pool_replaces_nothing_and_neither_does_one_with_too_many() {
    let full = disrupted(&objects(3, 3), &[], &with_gate());
    assert!(full.commands.is_empty(), "{:#?}", lines(&full));
    let why = "NodePool \"pool\" may have no node more, or none is on offer";
    assert!(reasons(&full, "b").contains(&(why.to_owned(), 0)), "{:?}", reasons(&full, "b"));
    let many = disrupted(&objects(2, 10), &[], &with_gate());
    assert!(many.commands.is_empty(), "{:#?}", lines(&many));
    let why = "NodePool \"pool\" has 3 nodes, and is to have 2";
    assert!(reasons(&many, "b").contains(&(why.to_owned(), 0)), "{:?}", reasons(&many, "b"));
}

#[test]
fn of_too_many_those_go_first_that_nobody_uses_and_that_cost_most() {
    let mut objects = vec![fixed(1, 10)];
    let kinds = ["on-demand", "reserved", "on-demand", "on-demand", "on-demand", "on-demand"];
    for (name, kind) in ["a", "b", "c", "d", "e", "f"].into_iter().zip(kinds) {
        objects.extend([node(name, "small", kind), claim_of(name, "2026-01-01T10:00:00Z", "Never")]);
    }
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    objects.extend([pod("p", "c", "100m", &protected), pod("q", "d", "100m", &json!({}))]);
    objects.extend([pod("r", "e", "100m", &json!({})), pod("s", "e", "100m", &json!({}))]);
    // One that no node is there for.
    let Object::NodeClaim(mut claim) = claim_of("z", "2026-01-01T11:59:00Z", "Never") else { panic!("a NodeClaim") };
    let own = std::sync::Arc::make_mut(&mut claim);
    own.status = None;
    own.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), "pool".to_owned())].into());
    objects.push(claim.into());
    let names = |wanted| {
        let gone = surplus(&mut state_of(&objects, &[]), "pool", wanted, &with_gate(), now());
        gone.iter().map(|claim| claim.key.name.to_string()).collect::<Vec<_>>()
    };
    let all = ["claim-z", "claim-a", "claim-f", "claim-b", "claim-d", "claim-e", "claim-c"];
    assert_eq!((names(0), names(5), names(9)), (all.map(str::to_owned).into(), names(0)[..2].to_vec(), Vec::new()));
}

#[test]
fn no_more_of_a_static_pool_begin_at_once_than_its_limit_has_room_for() {
    let at_once = Options { only_now: true, ..with_gate() };
    let counts = [3, 4, 5, 10].map(|limit| disrupted(&objects(3, limit), &[], &at_once).commands.len());
    assert_eq!(counts, [0, 1, 2, 2]);
}

#[test]
fn of_too_many_the_drifted_go_and_not_those_that_take_their_place() {
    let mut objects = vec![fixed(2, 10), pod("p", "a", "100m", &json!({}))];
    for (name, kind) in [("a", "spot"), ("b", "spot")] {
        objects.extend([node(name, "small", kind), claim_of(name, "2026-01-01T10:00:00Z", "Never")]);
    }
    let Object::NodeClaim(mut claim) = claim_of("z", "2026-01-01T11:59:00Z", "Never") else { panic!("a NodeClaim") };
    let own = std::sync::Arc::make_mut(&mut claim);
    own.status = None;
    own.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), "pool".to_owned())].into());
    objects.push(claim.into());
    let names = |objects: &[Object], wanted| {
        let gone = surplus(&mut state_of(objects, &[]), "pool", wanted, &with_gate(), now());
        gone.iter().map(|claim| claim.key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&objects, 2), Vec::<String>::new(), "two are up until the third is");
    assert_eq!(names(&objects, 1), ["claim-b"], "one is up, and the other waits for its replacement");
    assert_eq!(names(&objects, 0), ["claim-b", "claim-a", "claim-z"]);
    objects.pop();
    objects.extend([node("z", "small", "on-demand"), claim_of("z", "2026-01-01T11:59:00Z", "Never")]);
    assert_eq!(
        (names(&objects, 2), names(&objects, 1)),
        (vec!["claim-b".to_owned()], vec!["claim-b".into(), "claim-a".into()])
    );
}
