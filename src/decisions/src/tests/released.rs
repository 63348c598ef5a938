//! Room that Reservations give back once their owners have come.

use super::*;

fn pool(limit: &str) -> Object {
    Object::from(typed::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "uid-pool"},
        "spec": {"limits": {"nodes": limit}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"}}}}})))
}

/// Room of one CPU for an owner of half of one.
fn room() -> Object {
    Object::from(typed::<berth_api::Reservation>(json!({
        "metadata": {"name": "room", "uid": "uid-room"},
        "spec": {"ttl": "0s", "allocateOnce": true, "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "template": {"spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}}}})))
}

/// Pods that are alike but for their names, three of which find no place on a node of two CPUs beside the room.
fn web(more: &Value) -> Vec<Object> {
    let mut labels = json!({"metadata": {"labels": {"app": "web"}}});
    merge(&mut labels, more.clone());
    (0..3).map(|n| mk_pod(&format!("web-{n}"), "500m", labels.clone())).collect()
}

/// How many pods are to come to each launched node, and how many have no place.
fn planned(limit: &str, web: Vec<Object>) -> (Vec<usize>, usize) {
    let owner = mk_pod("owner", "500m", json!({"metadata": {"labels": {"app": "owner"}}}));
    let objects = [vec![pool(limit), room(), owner], web].concat();
    let decision = decide(&mut state_of(&objects), &full(), NOW).unwrap();
    let n_left = decision.refusals.iter().map(|refusal| refusal.objects.len()).sum();
    (decision.launches.iter().map(|launch| launch.pods.len()).collect(), n_left)
}

#[test]
fn who_is_left_takes_the_room_that_a_reservation_gives_back_beside_its_like() {
    assert_eq!(planned("1", web(&json!({}))), (vec![4], 0), "the owner, and three beside it");
}

#[test]
fn who_may_not_be_beside_its_like_is_left_all_the_same() {
    // As long as there are fewer hosts than that, the least count is none.
    let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 2, "minDomains": 2, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    assert_eq!(planned("1", web(&spread)), (vec![3], 1));
}

/// The regression: only who was beside its like took that room, by a fit of its own.
#[test]
fn who_has_none_of_its_like_there_takes_the_room_that_a_reservation_gives_back() {
    let other = mk_pod("zz-other", "400m", json!({"metadata": {"labels": {"app": "other"}}}));
    let web = [web(&json!({})), vec![other]].concat().split_off(1);
    assert_eq!(planned("1", web), (vec![4], 0), "the owner, two of web, and the other one");
}

/// The regression: an owner that runs yet, on a node that goes away, was counted as come, and its Reservation's room as free.
#[test]
fn others_stay_out_of_held_room_until_its_owner_has_come_from_a_node_that_goes_away() {
    let available = |node: &str| {
        let Object::Reservation(room) = room() else { unreachable!("a Reservation was made") };
        let mut room = serde_json::to_value(&*room).unwrap();
        let allocatable = json!({"cpu": "1"});
        merge(&mut room, json!({"status": {"phase": "Available", "nodeName": node, "allocatable": allocatable}}));
        Object::from(typed::<berth_api::Reservation>(room))
    };
    let leaving = |deletion: Value| {
        Object::from(typed::<Node>(json!({
            "metadata": {"name": "old", "uid": "uid-old", "deletionTimestamp": deletion, "finalizers": ["x"]},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}})))
    };
    let owner_on = |node: Value| {
        let labels = json!({"app": "owner"});
        mk_pod("owner", "100m", json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}}))
    };
    let outcome = |owner: Object, thief: &str| {
        let thief = mk_pod("thief", thief, json!({"spec": {"priority": -1}}));
        let old = leaving(json!("1970-01-01T00:00:00Z"));
        let mut state = state_of(&[mk_node("n", "1500m", &json!({})), available("n"), old, owner, thief]);
        let whole = decide(&mut state, &full(), NOW).unwrap();
        let mut decider = Decider::new();
        decider.refresh(&mut state, NOW);
        let at_once = decider.decide_at_once(&mut state, &Options::default(), &BTreeSet::new(), NOW).unwrap();
        let kept = decider.decide(&mut state, &full(), NOW).unwrap();
        let is_thief = |object: &ObjectRef| *object == pod_ref("thief");
        let outcomes = [whole, at_once.decision, kept].map(|decision| {
            let is_bound = decision.bindings.iter().any(|binding| is_thief(&binding.object));
            let waits = decision.nominations.iter().find(|known| is_thief(&known.object));
            (is_bound, waits.and_then(|known| known.waits_for.as_deref().map(str::to_owned)))
        });
        assert_eq!(outcomes[0], outcomes[1]);
        assert_eq!(outcomes[0], outcomes[2]);
        outcomes[0].clone()
    };
    let waits = "waiting for pod default/owner to draw from Reservation room".to_owned();
    assert_eq!(outcome(owner_on(json!("old")), "900m"), (false, Some(waits)), "it fits into held room alone");
    assert_eq!(outcome(owner_on(json!("old")), "400m"), (true, None), "it fits beside the room");
    assert_eq!(outcome(owner_on(Value::Null), "900m"), (true, None), "the owner comes first");
}

/// The regression: an owner of one Reservation that needs more than that has took the room of another one, whose owner runs yet on
/// a node that goes away.
#[test]
fn who_draws_stays_out_of_the_room_of_others_until_their_owner_has_come() {
    let available = |name: &str, cpu: &str, once: bool| {
        let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}});
        Object::from(typed::<berth_api::Reservation>(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {"ttl": "0s", "allocateOnce": once, "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                "template": {"spec": {"containers": [container]}}},
            "status": {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": cpu}}})))
    };
    let of = |app: &str, node: Value| {
        mk_pod(
            app,
            if app == "once" { "200m" } else { "1" },
            json!({
            "metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}}),
        )
    };
    let leaving = Object::from(typed::<Node>(json!({
        "metadata": {"name": "old", "uid": "uid-old", "deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["x"]},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}})));
    let outcome = |room: &str, once: Value| {
        let rooms = [available("once", "500m", true), available("shared", "300m", false)];
        let objects = [mk_node("n", room, &json!({})), leaving.clone(), of("once", once), of("shared", Value::Null)];
        let decision = decide(&mut state_of(&[&objects[..], &rooms[..]].concat()), &full(), NOW).unwrap();
        let binding = decision.bindings.iter().find(|binding| binding.object == pod_ref("shared"));
        let waits = decision.nominations.iter().find_map(|known| known.waits_for.as_deref().map(str::to_owned));
        (binding.is_some(), waits)
    };
    let waits = "waiting for pod default/once to draw from Reservation once".to_owned();
    assert_eq!(outcome("1300m", json!("old")), (false, Some(waits)), "it needs what the other Reservation holds");
    assert_eq!(outcome("1500m", json!("old")), (true, None), "it fits beside the other Reservation");
    assert_eq!(outcome("1300m", Value::Null), (true, None), "the other owner comes first");
}
