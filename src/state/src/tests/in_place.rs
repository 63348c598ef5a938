//! Changes that are taken in where they are, each held to a conversion of everything.

use berth_model::{MemberKind, ReservationId, ResourceId, SpecId};

use super::*;

/// What a cluster says of who waits, and of what is left of nodes and held there.
fn told(state: &mut State) -> Vec<String> {
    let cluster = state.cluster(NOW);
    let text = |sym| cluster.symbols.text(sym);
    let named = |id: ReservationId| cluster.reservation(id).map_or("none", |known| text(known.name));
    let mut lines: Vec<String> = Vec::new();
    for row in &cluster.pending {
        let spec = &cluster.specs[row.spec.index()];
        let mut owned: Vec<&str> = spec.reservation.owner_of.iter().map(|id| named(*id)).collect();
        owned.sort_unstable();
        let is_pod = row.kind == MemberKind::Pod;
        let nominated = spec.nominated_node.map(text);
        lines.extend(row.members.iter().map(|run| {
            let cpu = spec.requests.get(ResourceId::CPU);
            format!(
                "{}{} waits, {cpu}m, owns {owned:?}, on {nominated:?}",
                if is_pod { "" } else { "Reservation " },
                run.name
            )
        }));
    }
    let mut nodes: Vec<String> = Vec::new();
    for node in &cluster.nodes {
        let held: Vec<String> = node
            .holdings
            .iter()
            .map(|held| format!("{} {}m", named(held.reservation), held.held().get(ResourceId::CPU)))
            .collect();
        let pods: Vec<String> =
            node.pods.iter().map(|pod| format!("{} from {:?}", pod.name, pod.draws_from.map(named))).collect();
        nodes.push(format!("{}: {}m free, {held:?}, {pods:?}", text(node.name), node.free.get(ResourceId::CPU)));
    }
    nodes.sort();
    lines.extend(nodes);
    let claims = |id: SpecId| cluster.specs[id.index()].volumes.exclusive_claims.len();
    lines.extend(cluster.daemons.iter().map(|daemon| format!("{} uses {} claims", daemon.name, claims(daemon.spec))));
    lines
}

/// Applies each, without a conversion: what is told after each is what a state says that converts everything then.
fn follow(state: &mut State, events: impl IntoIterator<Item = Event>) -> Vec<Vec<String>> {
    let mut all = vec![told(state)];
    let before = state.n_conversions();
    for event in events {
        state.apply(event).unwrap();
        let is = told(state);
        assert_eq!(is, told(&mut state.snapshot()), "{:?}", state.conversions());
        assert_eq!(state.n_conversions(), before, "{:?}", state.conversions());
        all.push(is);
    }
    all
}

fn mk_owner(node: Option<&str>, draws: bool) -> Object {
    let mut pod = json!({"metadata": {"name": "web", "namespace": "default", "uid": "1", "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "600m"}}}]}});
    if draws {
        let from = json!({"name": "r", "uid": "uid-r"}).to_string();
        pod["metadata"]["annotations"] = json!({"scheduling.koordinator.sh/reservation-allocated": from});
    }
    Object::from(typed::<Pod>(pod))
}

fn mk_room_of(name: &str, owner: &str, status: &Value) -> Object {
    Object::from(typed::<berth_api::Reservation>(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"ttl": "0s", "allocateOnce": false, "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
            "template": {"spec": {"containers": [
                {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": status})))
}

#[test]
fn reservations_that_come_change_and_go_are_taken_in_where_they_are() {
    let mut state =
        state_of([mk_node("m", 1), mk_node("n", 1), mk_owner(None, false), mk_room_of("z", "web", &json!({}))]);
    let available = |node: &str| json!({"phase": "Available", "nodeName": node, "allocatable": {"cpu": "1"}});
    let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
    let seen = follow(
        &mut state,
        [
            Event::Applied(mk_room_of("r", "web", &json!({}))),
            Event::Applied(mk_room_of("r", "web", &available("n"))),
            Event::Applied(mk_owner(Some("n"), true)),
            Event::Applied(mk_room_of(
                "r",
                "web",
                &json!({"phase": "Available", "nodeName": "n",
                "allocatable": {"cpu": "2"}, "allocated": {"cpu": "600m"}}),
            )),
            Event::Applied(mk_room_of("r", "other", &available("m"))),
            Event::Applied(mk_room_of("r", "web", &available("n"))),
            gone(mk_node("n", 1)),
            Event::Applied(mk_node("n", 1)),
            gone(mk_owner(None, false)),
            Event::Applied(mk_owner(None, false)),
            Event::Applied(mk_room_of("r", "web", &json!({"phase": "Succeeded", "nodeName": "n"}))),
            gone(mk_room_of("z", "web", &json!({}))),
            gone(mk_room_of("r", "web", &json!({}))),
        ],
    );
    let node = |at: usize| seen[at].last().unwrap().as_str();
    assert_eq!(
        seen[0][..2],
        ["Reservation z waits, 1000m, owns [], on None", "web waits, 600m, owns [\"z\"], on None"]
    );
    assert_eq!(
        seen[1][..2],
        ["Reservation r waits, 1000m, owns [], on None", "Reservation z waits, 1000m, owns [], on None"]
    );
    assert_eq!(node(2), "n: 3000m free, [\"r 1000m\"], []");
    assert_eq!(node(3), "n: 3000m free, [\"r 400m\"], [\"web from Some(\\\"r\\\")\"]");
    assert_eq!(node(4), "n: 2000m free, [\"r 1400m\"], [\"web from Some(\\\"r\\\")\"]");
    assert_eq!(node(5), "n: 3400m free, [], [\"web from None\"]");
    assert_eq!(node(7), "m: 4000m free, [], []");
    assert_eq!(node(8), node(3));
    assert_eq!(node(9), node(2));
    assert_eq!(node(11), "n: 4000m free, [], []");
    assert_eq!(seen[13][0], "web waits, 600m, owns [], on None");
}

#[test]
fn daemon_sets_that_come_change_and_go_are_taken_in_where_they_are() {
    let mut state = state_of([mk_node("n", 1), mk_node("new", 1), mk_agent(Some("n"))]);
    let with_cpu = |cpu: &str, uid: &str| {
        mk(json!({"kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default", "uid": uid},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": [
                {"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}}}))
    };
    let another = mk(json!({"kind": "DaemonSet", "metadata": {"name": "another", "namespace": "default"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "app"}]}}}}));
    let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
    let seen = follow(
        &mut state,
        [
            Event::Applied(mk_daemon_set()),
            Event::Applied(with_cpu("1", "agent")),
            Event::Applied(another.clone()),
            // Made anew under its name: the pod on the node is not of this one.
            Event::Applied(with_cpu("1", "other")),
            gone(with_cpu("1", "other")),
            Event::Applied(with_cpu("2", "agent")),
            gone(another),
            gone(mk_agent(Some("n"))),
            Event::Applied(mk_agent(None)),
        ],
    );
    let free = |at: usize| -> Vec<&str> {
        let nodes = seen[at].iter().filter(|line| line.contains("free"));
        nodes.map(|line| line.split_once(": ").unwrap().1.split_once(' ').unwrap().0).collect()
    };
    let expected = [
        ["3500m", "4000m"],
        ["3500m", "3500m"],
        ["3500m", "3000m"],
        ["3500m", "3000m"],
        ["2500m", "3000m"],
        ["3500m", "4000m"],
        ["3500m", "2000m"],
        ["3500m", "2000m"],
        ["2000m", "2000m"],
        // It is on its way to the new one.
        ["2000m", "4000m"],
    ];
    assert_eq!((0..seen.len()).map(free).collect::<Vec<_>>(), expected);
}

/// The regression: nodes that were too small for the pods of a DaemonSet and one more were launched again and again, since the API
/// server adds to what a template requests.
#[test]
fn nodes_keep_room_for_pods_of_a_daemon_set_as_its_newest_requests_it() {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true});
    let pod = |name: &str, cpu: &str, created: u8| {
        mk(json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner],
                "creationTimestamp": format!("1970-01-01T00:00:0{created}Z")},
            "spec": {"nodeName": "n", "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}))
    };
    let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
    let mut state = state_of([mk_node("n", 1), mk_node("new", 1), mk_daemon_set()]);
    let seen = follow(
        &mut state,
        [
            Event::Applied(pod("second", "750m", 2)),
            Event::Applied(pod("first", "1", 1)),
            gone(pod("second", "750m", 2)),
            Event::Applied(pod("third", "100m", 3)),
            gone(pod("first", "1", 1)),
            gone(pod("third", "100m", 3)),
        ],
    );
    let free = |lines: &Vec<String>| {
        let new = lines.iter().find_map(|line| line.strip_prefix("new: ")).unwrap();
        new.split_once(' ').unwrap().0.to_owned()
    };
    let expected = ["3500m", "3250m", "3250m", "3000m", "3500m", "3500m", "3500m"];
    assert_eq!(seen.iter().map(free).collect::<Vec<_>>(), expected, "never less than the template says");
}

#[test]
fn a_pod_that_comes_again_from_a_node_that_goes_is_nominated_to_none() {
    let pod = mk(json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"nodeName": "old", "containers": [{"name": "app"}]}, "status": {"nominatedNodeName": "new"}}));
    let mut going = mk_node("old", 1);
    going.metadata_mut().deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
    let mut state = state_of([pod, going]);
    let seen = follow(&mut state, [Event::Applied(mk_node("new", 1))]);
    assert_eq!(seen[1][0], "web waits, 0m, owns [], on None");
}

#[test]
fn the_template_of_a_daemon_set_follows_the_claims_that_it_names() {
    let daemon_set = mk(json!({"kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "app"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}}}}));
    let claim = mk(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}}));
    let mut state = state_of([mk_node("n", 1), daemon_set]);
    let seen = follow(&mut state, [Event::Applied(claim)]);
    assert_eq!(seen[1].last().unwrap(), "default/agent uses 1 claims");
}

#[test]
fn nodes_show_an_image_as_soon_as_a_pod_asks_for_it() {
    let image = |name: &str, size: i64| json!([{"names": [name, format!("{name}@sha256:1")], "sizeBytes": size}]);
    let mut state = state_of([mk_pool_node("m", &image("web:1", 10)), mk_pool_node("n", &json!([]))]);
    let shown = |state: &mut State| {
        let cluster = state.cluster(NOW);
        let sizes = cluster.nodes.iter().flat_map(|node| &node.images);
        sizes.map(|(name, size)| (cluster.symbols.text(*name).to_owned(), *size)).collect::<Vec<_>>()
    };
    let pod = |name: &str, image: &str| {
        mk(json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "app", "image": image}]}}))
    };
    assert_eq!(shown(&mut state), []);
    let before = (state.n_conversions(), state.tracked(NOW).n_changes());
    state.apply(Event::Applied(pod("web", "web:1"))).unwrap();
    assert_eq!(shown(&mut state), [("web:1".to_owned(), 10)]);
    // Nobody asks for what a node gets; until somebody does.
    state.apply(Event::Applied(mk_pool_node("n", &image("web:2", 20)))).unwrap();
    state.apply(Event::Applied(pod("other", "web:2"))).unwrap();
    let anew = shown(&mut state.snapshot());
    assert_eq!(shown(&mut state), anew);
    assert_eq!(anew.len(), 2);
    let after = (state.n_conversions(), state.tracked(NOW).n_changes());
    assert_eq!(after.0, before.0, "{:?}", state.conversions());
    assert_eq!(after.1, before.1 + 2, "who follows is told of either node");
}

#[test]
fn the_id_of_a_reservation_that_went_is_given_to_no_other() {
    let id_of = |state: &mut State, name: &str| {
        let cluster = state.cluster(NOW);
        let mut all = cluster.reservations_with_ids();
        all.find(|(_, known)| cluster.symbols.text(known.name) == name).map(|(id, _)| id)
    };
    let room = |name: &str| mk_room_of(name, "web", &json!({}));
    let mut state = state_of([mk_node("n", 1), room("a"), room("z")]);
    let gone = id_of(&mut state, "z");
    let deleted = Event::Deleted { object: room("z").reference().unwrap(), resource_version: None };
    follow(&mut state, [deleted, Event::Applied(room("y"))]);
    assert_eq!(id_of(&mut state, "z"), None);
    assert!(id_of(&mut state, "y") > gone, "the latest");
}
