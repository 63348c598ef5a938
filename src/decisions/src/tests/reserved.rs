//! What is kept between decisions follows Reservations and their nodes, without being made anew.

use super::follow::{Followed, mk_zonal, on};
use super::*;

/// A Reservation on a node, or on none yet. Its pod is of an app, and pods of another one own it.
fn mk_room(name: &str, node: Option<&str>, (app, owner): (&str, &str)) -> Object {
    let status = node.map(|node| json!({"phase": "Available", "nodeName": node, "allocatable": {"cpu": "1"}}));
    Object::from(typed::<berth_api::Reservation>(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"ttl": "0s", "allocateOnce": false, "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
            "template": {"metadata": {"labels": {"app": app}}, "spec": {
                "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": status})))
}

/// A pod of an app.
fn mk_of(name: &str, app: &str, more: Value) -> Object {
    let mut with = json!({"metadata": {"labels": {"app": app}}});
    merge(&mut with, more);
    mk_pod(name, "500m", with)
}

/// What keeps a pod off nodes with pods of an app.
fn away_from(app: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

fn cluster() -> Vec<Object> {
    let node = |name| mk_zonal(name, "2", "z1", json!({"metadata": {"labels": {"kubernetes.io/hostname": name}}}));
    vec![
        node("a"),
        node("b"),
        node("c"),
        mk_of("runs", "one", on("a")),
        mk_of("waits-one", "one", json!({})),
        mk_of("waits-two", "two", json!({})),
        mk_of("off-one", "other", away_from("one")),
        mk_of("off-room", "other", away_from("room")),
        mk_of("off-hall", "other", away_from("hall")),
    ]
}

#[test]
fn reservations_that_come_change_and_go_are_taken_in_where_they_are() {
    let mut followed = Followed::new(&cluster());
    followed.put("one comes", vec![mk_room("r", Some("a"), ("room", "one"))]);
    followed.put("its pod counts otherwise", vec![mk_room("r", Some("a"), ("hall", "one"))]);
    followed.put("it has other owners", vec![mk_room("r", Some("a"), ("hall", "two"))]);
    followed.put("another one comes", vec![mk_room("s", Some("b"), ("room", "one"))]);
    followed.put("it goes to another node", vec![mk_room("r", Some("c"), ("hall", "two"))]);
    followed.tell(vec![mk_room("r", Some("b"), ("room", "two")), mk_room("s", Some("a"), ("hall", "one"))]);
    followed.hold("both change at once");
    followed.put("it has no node", vec![mk_room("r", None, ("room", "two"))]);
    followed.put("it gets one again", vec![mk_room("r", Some("c"), ("room", "two"))]);
    followed.take(Kind::Reservation, "", "r");
    followed.hold("it goes");
    followed.put("another of its name comes", vec![mk_room("r", Some("c"), ("hall", "one"))]);
}

#[test]
fn a_node_that_reservations_hold_room_on_goes_and_comes_back() {
    let mut objects = cluster();
    objects.extend([mk_room("r", Some("a"), ("room", "two")), mk_room("s", Some("c"), ("hall", "one"))]);
    let mut followed = Followed::new(&objects);
    for (node, other) in [("a", "b"), ("c", "a")] {
        followed.take(Kind::Node, "", node);
        followed.hold("it goes");
        followed.put("a pod comes beside", vec![mk_of(&format!("beside-{node}"), "room", on(other))]);
        let labels = json!({"metadata": {"labels": {"kubernetes.io/hostname": node}}});
        followed.put("it comes back", vec![mk_zonal(node, "4", "z2", labels)]);
    }
    followed.take(Kind::Node, "", "a");
    followed.put("one goes, and what was held there is held elsewhere", vec![mk_room("r", Some("b"), ("hall", "two"))]);
}
