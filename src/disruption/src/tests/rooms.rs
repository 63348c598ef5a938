//! A node that holds a Reservation is not empty: the room moves elsewhere first, else the node stays.

use berth_api::Reservation;

use super::*;

pub(super) fn room(cpu: &str, more: &Value) -> Object {
    let mut room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room", "uid": "r"}, "spec": {"allocateOnce": false,
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "template": {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}]}}},
        "status": {"phase": "Available", "nodeName": "a", "allocatable": {"cpu": cpu}}});
    merge(&mut room, more);
    Object::from(typed::<Reservation>(room))
}

/// A large node with nothing but the room, and a small one with a pod.
fn with_room(room: Object) -> Vec<Object> {
    let small = node("b", "small", "on-demand");
    vec![free_pool(ON_DEMAND), node("a", "huge", "on-demand"), room, small, pod("p", "b", "500m", &json!({}))]
}

#[test]
fn a_node_goes_whose_room_has_a_place_on_another() {
    let disruption = disrupted(&with_room(room("1", &json!({}))), &[], &Options::default());
    assert_eq!(lines(&disruption), ["0 SingleNodeConsolidation a >  $1.6000"]);
    let places: Vec<(String, &str)> =
        disruption.commands[0].places.iter().map(|(key, node)| (key.name.to_string(), node.as_str())).collect();
    assert_eq!(places, [("room".to_owned(), "b")]);
}

#[test]
fn a_node_is_launched_for_the_room_where_that_is_cheaper() {
    let disruption = disrupted(&with_room(room("3", &json!({}))), &[], &Options::default());
    assert_eq!(disruption.settled_hourly_cost.to_string(), "0.4", "{:?}", lines(&disruption));
    let launches: Vec<_> = disruption.commands.iter().flat_map(|command| &command.replacements).collect();
    assert_eq!(launches.len(), 1);
    assert_eq!(&*launches[0].1.reservations[0].key.name, "room");
}

#[rstest]
#[case::bound_to_its_node(
    json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}}}),
    "the room of Reservation room would find no other place: "
)]
#[case::drawn_from(
    json!({"status": {"currentOwners": [{"namespace": "default", "name": "q", "uid": "uid-q"}]}}),
    "node holds Reservation room, which cannot move: pods draw from it"
)]
#[case::waiting(json!({"status": {"phase": "Waiting"}}), "node holds Reservation room, which cannot move: it waits for room there")]
#[case::with_devices(
    json!({"metadata": {"annotations": {"scheduling.koordinator.sh/device-allocated": "{}"}}}),
    "node holds Reservation room, which cannot move: it has CPUs or devices of the node to itself"
)]
fn a_node_stays_whose_room_cannot_move(#[case] more: Value, #[case] expected: &str) {
    let mut state = state_of(&with_room(room("1", &more)), &[]);
    let disruption = disrupt(&mut state, &Options::default(), now()).unwrap();
    let [(reason, 0)] = &reasons(&disruption, "a")[..] else { panic!("{:?}", reasons(&disruption, "a")) };
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(disrupt(&mut state, &Options::default(), now()).unwrap(), disruption);
}

#[test]
fn a_pod_that_draws_from_the_room_keeps_it_where_it_is() {
    let mut objects = with_room(room("1", &json!({})));
    let draws = json!({"metadata": {"labels": {"app": "x"}, "annotations": {
        "scheduling.koordinator.sh/reservation-allocated": "{\"name\":\"room\",\"uid\":\"r\"}"}}});
    objects.push(pod("q", "a", "500m", &draws));
    let disruption = disrupted(&objects, &[], &Options::default());
    let expected = "node holds Reservation room, which cannot move: pods draw from it".to_owned();
    assert_eq!(reasons(&disruption, "a"), [(expected, 0)]);
}

#[test]
fn an_empty_node_with_a_room_does_not_go_as_empty() {
    let mut objects = with_room(room("1", &json!({})));
    objects[0] = pool("pool", &json!({"consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]}), ON_DEMAND);
    assert_eq!(disrupted(&objects, &[], &Options::default()).commands, []);
}

#[test]
fn rooms_and_pods_of_a_node_come_to_the_slots_that_are_planned_for_them() {
    let pods: [&[&str]; 4] = [&["3500m"], &["1800m", "2500m"], &["3500m", "900m", "1200m"], &["2500m", "2500m"]];
    let rooms: [&[&str]; 4] = [&["500m"], &["2500m"], &["500m", "1"], &["2500m", "500m"]];
    for (pods, rooms) in pods.into_iter().flat_map(|pods| rooms.map(|rooms| (pods, rooms))) {
        let mut objects = vec![free_pool(WITH_SLOTS), node("a", "huge", "on-demand")];
        objects.extend(pods.iter().enumerate().map(|(i, cpu)| pod(&format!("p{i}"), "a", cpu, &json!({}))));
        let named = |(i, cpu): (usize, &&str)| {
            room(cpu, &json!({"metadata": {"name": format!("r{i}"), "uid": format!("r{i}")}}))
        };
        objects.extend(rooms.iter().enumerate().map(named));
        let disruption = disrupted(&objects, &[("medium", 0, "cr-1", 4)], &Options::default());
        assert_eq!(
            disruption.settled_hourly_cost,
            Money::ZERO,
            "pods {pods:?}, rooms {rooms:?}: {:?}",
            disruption.kept
        );
    }
}
