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
    let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "kubernetes.io/hostname",
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
