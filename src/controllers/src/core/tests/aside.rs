//! What takes long is decided elsewhere. The test holds each question until it lets it be answered.

use super::*;

/// A pod without a node.
pub(super) fn waiting(name: &str, cpu: &str) -> Object {
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"}})))
}

/// Three nodes with room for two pods of one CPU each, a usable NodePool, and what the cloud offers.
pub(super) fn aside() -> (Core, Timestamp) {
    let mut core = at_rest(3);
    core.decide_aside();
    let now = after(start(), Duration::from_secs(1));
    let catalogue = Arc::new(berth_cloudprovider_fake::catalogue());
    let types = InstanceTypes { catalogue, reservations: Vec::new() };
    asks_after(&mut core, Job::Offers(CLASS.to_owned()), Answer::Types(Ok(types)), now);
    let status = Answer::Status(Ok(NodeClassStatus::Ready { hash: "first".to_owned() }));
    asks_after(&mut core, Job::ClassStatus(CLASS.to_owned()), status, now);
    // The look that follows, and what else there is to ask.
    let now = after(now, Duration::from_secs(1));
    core.work(now);
    while let Some(asked) = core.take_asked(now) {
        core.handle(Input::Solved(Some(Box::new(asked.answer()))), now);
        core.take_look();
        core.work(now);
    }
    (core, now)
}

pub(super) fn observe(core: &mut Core, object: Object, now: Timestamp) {
    core.handle(Input::Observed(Observed::Applied(object)), now);
}

/// What is written for pods and NodeClaims by name, once a moment has passed.
fn work(core: &mut Core, now: &mut Timestamp) -> Vec<Job> {
    *now = after(*now, Duration::from_secs(2));
    let written = core.work(*now).into_iter().filter_map(|effect| match effect {
        Effect::Write(Some(job @ (Job::Bind(_) | Job::Launch(_))), _) => Some(job),
        _ => None,
    });
    written.collect()
}

fn bind(name: &str) -> Job {
    Job::Bind(PodName { namespace: "default".to_owned(), name: name.to_owned() })
}

fn answer(core: &mut Core, asked: Box<Asked>, now: Timestamp) {
    core.handle(Input::Solved(Some(Box::new(asked.answer()))), now);
}

/// The decision that is to be made elsewhere; what is asked before it is answered at once.
fn decision(core: &mut Core, now: &mut Timestamp) -> Box<Asked> {
    for _ in 0..10 {
        let asked = core.take_asked(*now).expect("a decision is to be made");
        if asked.is_decision() {
            return asked;
        }
        answer(core, asked, *now);
        work(core, now);
    }
    panic!("no decision is to be made");
}

#[test]
fn a_pod_that_fits_is_bound_while_a_launch_is_decided_elsewhere() {
    let (mut core, mut now) = aside();
    observe(&mut core, waiting("large", "6"), now);
    assert_eq!(work(&mut core, &mut now), []);
    let asked = decision(&mut core, &mut now);
    observe(&mut core, waiting("small", "1"), now);
    assert_eq!(work(&mut core, &mut now), [bind("small")]);
    assert!(core.take_asked(now).is_none(), "one question at a time");
    answer(&mut core, asked, now);
    let launched = work(&mut core, &mut now);
    assert!(matches!(&launched[..], [Job::Launch(_)]), "{launched:?}");
}

#[test]
fn nothing_is_launched_for_a_pod_that_is_gone_when_the_launch_is_decided() {
    let (mut core, mut now) = aside();
    observe(&mut core, waiting("large", "6"), now);
    work(&mut core, &mut now);
    let asked = decision(&mut core, &mut now);
    let gone: Pod = typed(json!({"metadata": {"name": "large", "namespace": "default", "uid": "large"}}));
    core.handle(Input::Observed(Observed::Deleted(Kind::Pod, Box::new(gone.metadata))), now);
    answer(&mut core, asked, now);
    assert_eq!(work(&mut core, &mut now), []);
}

#[test]
fn a_decision_that_breaks_off_is_made_again() {
    let (mut core, mut now) = aside();
    observe(&mut core, waiting("large", "6"), now);
    work(&mut core, &mut now);
    drop(decision(&mut core, &mut now));
    core.handle(Input::Solved(None), now);
    assert_eq!(work(&mut core, &mut now), []);
    let asked = decision(&mut core, &mut now);
    answer(&mut core, asked, now);
    let launched = work(&mut core, &mut now);
    assert!(matches!(&launched[..], [Job::Launch(_)]), "{launched:?}");
}

/// A Reservation that only the node `n9` may hold, which has room for it or for a pod of its owner, not for both.
fn room_on_n9() -> (Object, Object) {
    let template = json!({"nodeSelector": {"kubernetes.io/hostname": "n9"},
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]});
    let room = typed::<Reservation>(json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room", "uid": "room", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}], "ttl": "0s",
            "template": {"spec": template.clone()}}}));
    let pod = typed::<Pod>(json!({
        "metadata": {"name": "other", "namespace": "default", "uid": "other", "resourceVersion": "6",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": template, "status": {"phase": "Pending"}}));
    (Object::from(room), Object::from(pod))
}

#[test]
fn a_reservation_comes_before_pods_on_a_node_that_comes_up_after_it_was_asked() {
    let (mut core, mut now) = aside();
    let (room, pod) = room_on_n9();
    observe(&mut core, room, now);
    observe(&mut core, pod, now);
    for _ in 0..3 {
        assert_eq!(work(&mut core, &mut now), [], "nothing fits, and nothing can be launched for a name");
        while let Some(asked) = core.take_asked(now) {
            answer(&mut core, asked, now);
        }
    }
    observe(&mut core, claim(9), now);
    observe(&mut core, node(9, 1, "2026-01-01T00:00:00Z"), now);
    assert_eq!(work(&mut core, &mut now), [], "the Reservation is asked first");
    for _ in 0..3 {
        while let Some(asked) = core.take_asked(now) {
            answer(&mut core, asked, now);
        }
        assert_eq!(work(&mut core, &mut now), []);
    }
    let held = core.state.get_as::<Reservation>("", "room").and_then(|room| room.status.clone());
    assert_eq!(held.and_then(|status| status.node_name).as_deref(), Some("n9"));
}

/// A Reservation that is on a node already.
fn room_on(node: &str) -> Object {
    Object::from(typed::<Reservation>(
        json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "held", "uid": "held", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "y"}}}], "ttl": "0s", "template": {"spec":
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}}},
        "status": {"phase": "Available", "nodeName": node, "allocatable": {"cpu": "500m"}}}),
    ))
}

/// What is asked next where everything is to be looked at again, after what else is asked.
fn refresh(core: &mut Core, now: &mut Timestamp) -> Box<Asked> {
    for _ in 0..10 {
        let asked = core.take_asked(*now).expect("everything is to be looked at again");
        if asked.is_refresh() {
            return asked;
        }
        assert!(!asked.is_decision(), "that comes first");
        answer(core, asked, *now);
    }
    panic!("nothing is to be looked at again");
}

#[test]
fn a_pod_is_bound_as_soon_as_all_was_looked_at_elsewhere() {
    let (mut core, mut now) = aside();
    observe(&mut core, room_on("n1"), now);
    observe(&mut core, waiting("small", "500m"), now);
    assert_eq!(work(&mut core, &mut now), [], "the Reservation has everything looked at again");
    let asked = refresh(&mut core, &mut now);
    // What comes meanwhile is taken in by who adopts.
    observe(&mut core, waiting("later", "500m"), now);
    answer(&mut core, asked, now);
    let mut bound = work(&mut core, &mut now);
    bound.sort();
    assert_eq!(bound, [bind("later"), bind("small")]);
}

#[test]
fn a_look_at_everything_that_breaks_off_is_begun_again() {
    let (mut core, mut now) = aside();
    observe(&mut core, room_on("n1"), now);
    observe(&mut core, waiting("small", "500m"), now);
    work(&mut core, &mut now);
    drop(refresh(&mut core, &mut now));
    core.handle(Input::Solved(None), now);
    assert_eq!(work(&mut core, &mut now), [], "the other thread broke off");
    let asked = refresh(&mut core, &mut now);
    answer(&mut core, asked, now);
    assert_eq!(work(&mut core, &mut now), [bind("small")]);
}

/// A node with a resource that nobody has named before: everything is converted anew.
fn strange(name: &str) -> Object {
    let mut room = serde_json::Map::new();
    room.insert(format!("example.com/{name}"), json!("1"));
    Object::from(typed::<Node>(json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"unschedulable": true}, "status": {"allocatable": room, "capacity": room}})))
}

#[test]
fn a_launch_is_decided_again_while_everything_is_to_be_converted_and_not_for_ever() {
    let (mut core, mut now) = aside();
    observe(&mut core, waiting("large", "6"), now);
    work(&mut core, &mut now);
    let mut n_decided = 0;
    // Each time it is answered something else has everything converted anew.
    for round in 0..20 {
        let asked = core.take_asked(now).expect("a launch is to be decided");
        let is_decision = asked.is_decision();
        if is_decision {
            n_decided += 1;
            observe(&mut core, strange(&format!("s{round}")), now);
        }
        answer(&mut core, asked, now);
        if work(&mut core, &mut now).iter().any(|job| matches!(job, Job::Launch(_))) {
            assert_eq!((is_decision, n_decided), (true, 3), "let go twice");
            return;
        }
    }
    panic!("a launch was decided {n_decided} times, and let go each time");
}
