//! Writes that no event has shown yet, and what becomes of them.

use super::*;

fn bind(state: &mut State) -> Write {
    let pod = state.get(&pod_key("web")).unwrap().reference().unwrap();
    state.assume(&pod, Patch::Bind { node: "n".into(), annotations: [].into() }).unwrap()
}

fn written(version: u64) -> Outcome {
    Outcome::Written { resource_version: Some(version.to_string()), uid: None }
}

#[test]
fn an_assumed_binding_is_undone_by_no_older_event_and_confirmed_by_its_own() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let write = bind(&mut state);
    assert_eq!((pods_on(&mut state, 0), n_pending(&mut state)), (1, 0));
    // A label was changed before the binding; its event comes after.
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 3, None))).unwrap().is_nothing());
    assert_eq!(pods_on(&mut state, 0), 1);
    settle(&mut state, &write, written(5));
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 4, None))).unwrap().is_nothing());
    assert!(state.apply(Event::Applied(mk_pod("web", "1", 5, Some("n")))).unwrap().is_nothing());
    assert_eq!(pods_on(&mut state, 0), 1);
    assert!(state.assumptions.is_empty());
}

#[test]
fn a_refused_binding_is_dropped() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let write = bind(&mut state);
    let touched = settle(&mut state, &write, Outcome::Refused);
    assert!(touched.waiting && touched.room);
    assert_eq!((pods_on(&mut state, 0), n_pending(&mut state)), (0, 1));
}

#[test]
fn a_move_that_is_withdrawn_leaves_the_move_before_it() {
    // In what-ifs a pod that is observed on a node moves to another, and once more; the second move is taken back.
    let mut state = state_of([mk_node("n", 1), mk_node("o", 1), mk_pod("web", "1", 2, Some("n"))]);
    let assume = |state: &mut State, patch: Patch| {
        let pod = state.get(&pod_key("web")).unwrap().reference().unwrap();
        state.assume(&pod, patch).unwrap().assumption
    };
    assume(&mut state, Patch::Remake);
    assume(&mut state, Patch::Bind { node: "o".into(), annotations: [].into() });
    let again = assume(&mut state, Patch::Remake);
    assert_eq!((pods_on(&mut state, 1), n_pending(&mut state)), (0, 1));
    state.withdraw(again);
    assert_eq!((pods_on(&mut state, 1), n_pending(&mut state)), (1, 0));
}

#[test]
fn a_write_that_takes_another_one_back_is_not_settled_by_what_was_before_both() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let nominated = |state: &State| state.pod("default", "web").unwrap().nominated_node().map(str::to_owned);
    let pod = state.get(&pod_key("web")).unwrap().reference().unwrap();
    let there = state.assume(&pod, Patch::Nominate { node: Some("n".into()) }).unwrap();
    let back = state.assume(&pod, Patch::Nominate { node: None }).unwrap();
    assert_eq!(nominated(&state), None);
    // A label was changed before either; an earlier pod of that name was deleted before that.
    state.apply(Event::Applied(mk_pod("web", "1", 3, None))).unwrap();
    assert_eq!(nominated(&state), None);
    let earlier = pod_key("web").with_uid(Some("0"));
    state.apply(Event::Deleted { object: earlier, resource_version: Some("1".to_owned()) }).unwrap();
    assert_eq!(nominated(&state), None);
    settle(&mut state, &there, written(4));
    assert_eq!(nominated(&state), None);
    settle(&mut state, &back, written(5));
    state.apply(Event::Applied(mk_pod("web", "1", 5, None))).unwrap();
    assert_eq!(nominated(&state), None);
    assert!(state.assumptions.is_empty());
}

#[test]
fn a_deletion_before_the_version_that_is_known_leaves_no_doubt() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let write = bind(&mut state);
    settle(&mut state, &write, Outcome::Written { resource_version: None, uid: None });
    let earlier = pod_key("web").with_uid(Some("0"));
    state.apply(Event::Deleted { object: earlier, resource_version: Some("1".to_owned()) }).unwrap();
    assert_eq!(state.to_read_again().count(), 0);
    assert_eq!(pods_on(&mut state, 0), 1);
}

#[test]
fn a_binding_of_unknown_outcome_stands_until_the_pod_is_read_again() {
    for (found, bound) in [(Some(None), 0), (Some(Some("n")), 1), (None, 0)] {
        let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
        let write = bind(&mut state);
        settle(&mut state, &write, Outcome::Unknown);
        assert_eq!(pods_on(&mut state, 0), 1);
        let again: Vec<ObjectRef> = state.to_read_again().collect();
        assert_eq!(again, [pod_key("web").with_uid(Some("1"))]);
        let found = found.map(|node| mk_pod("web", "1", 3, node));
        state.apply(Event::Read { object: again[0].clone(), found }).unwrap();
        assert_eq!(pods_on(&mut state, 0), bound);
        assert_eq!(state.to_read_again().count(), 0);
    }
}

#[test]
fn an_assumption_is_about_one_incarnation() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    bind(&mut state);
    state.apply(Event::Applied(mk_pod("web", "2", 3, None))).unwrap();
    assert_eq!((pods_on(&mut state, 0), n_pending(&mut state)), (0, 1));
    let earlier = pod_key("web").with_uid(Some("1"));
    assert!(state.assume(&earlier, Patch::Remove).is_none());
}

#[test]
fn a_created_object_is_there_until_its_deletion_is_seen() {
    let mut state = State::new(Options::default());
    let claim = Object::from(mk_claim("c"));
    let reference = claim.reference().unwrap();
    let write = state.assume(&reference, Patch::Create(claim.clone())).unwrap();
    assert!(state.assume(&reference, Patch::Create(claim.clone())).is_none(), "there is one");
    let outcome = Outcome::Written { resource_version: Some("4".to_owned()), uid: Some("1".to_owned()) };
    settle(&mut state, &write, outcome);
    let earlier =
        Event::Deleted { object: reference.key.clone().with_uid(Some("0")), resource_version: Some("3".into()) };
    state.apply(earlier).unwrap();
    assert!(state.get(&reference.key).is_some());
    let gone = Event::Deleted { object: reference.key.clone().with_uid(Some("1")), resource_version: Some("6".into()) };
    state.apply(gone).unwrap();
    assert!(state.get(&reference.key).is_none());
}

#[test]
fn a_list_without_a_version_has_a_created_object_read_again() {
    let mut state = State::new(Options::default());
    let claim = Object::from(mk_claim("c"));
    let reference = claim.reference().unwrap();
    let write = state.assume(&reference, Patch::Create(claim)).unwrap();
    settle(&mut state, &write, written(4));
    let list = |version: Option<&str>| Event::Relisted {
        kind: Kind::NodeClaim,
        objects: Vec::new(),
        resource_version: version.map(str::to_owned),
    };
    state.apply(list(Some("3"))).unwrap();
    assert!(state.get(&reference.key).is_some(), "the list is older than the claim");
    state.apply(list(None)).unwrap();
    assert!(state.get(&reference.key).is_some());
    assert_eq!(state.to_read_again().count(), 1);
    state.apply(Event::Read { object: reference.clone(), found: None }).unwrap();
    assert!(state.get(&reference.key).is_none());
}

fn created(uid: Option<&str>, version: Option<u64>) -> Outcome {
    Outcome::Written { resource_version: version.map(|version| version.to_string()), uid: uid.map(str::to_owned) }
}

#[test]
fn a_write_of_unknown_version_that_a_newer_one_does_not_show_is_read_again() {
    // Another write undid it: whether before or after the answer is told.
    for is_told_first in [false, true] {
        let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
        let pod = pod_key("web").with_uid(Some("1"));
        let write = state.assume(&pod, Patch::Nominate { node: Some("n".into()) }).unwrap();
        let newer = Event::Applied(mk_pod("web", "1", 5, None));
        if is_told_first {
            state.apply(newer.clone()).unwrap();
        }
        settle(&mut state, &write, created(None, None));
        state.apply(Event::Applied(mk_pod("web", "1", 2, None))).unwrap();
        if !is_told_first {
            assert_eq!(state.to_read_again().count(), 0, "nothing new was told");
            state.apply(newer).unwrap();
        }
        let again: Vec<ObjectRef> = state.to_read_again().collect();
        assert_eq!(again, std::slice::from_ref(&pod));
        state.apply(Event::Read { object: pod, found: Some(mk_pod("web", "1", 5, None)) }).unwrap();
        assert!(state.assumptions.is_empty());
    }
}

#[test]
fn a_write_of_unknown_version_that_a_newer_one_shows_is_settled() {
    let mut state = state_of([mk_node("n", 1), mk_pod("web", "1", 2, None)]);
    let write = bind(&mut state);
    settle(&mut state, &write, created(None, None));
    state.apply(Event::Applied(mk_pod("web", "1", 3, Some("n")))).unwrap();
    assert!(state.assumptions.is_empty());
}

#[test]
fn what_was_created_and_is_gone_before_the_answer_comes_is_gone() {
    let gone = |version: u64| Event::Deleted {
        object: Key::new(Kind::NodeClaim, "", "c").with_uid(Some("1")),
        resource_version: Some(version.to_string()),
    };
    let list = |version: Option<u64>| Event::Relisted {
        kind: Kind::NodeClaim,
        objects: Vec::new(),
        resource_version: version.map(|version| version.to_string()),
    };
    // What is told before the answer, the answer, whether it is there, and whether it is to be read again.
    let cases = [
        (gone(6), created(Some("1"), Some(4)), false, false),
        (gone(6), created(Some("1"), None), true, true),
        (list(Some(6)), created(Some("1"), Some(4)), false, false),
        (list(Some(3)), created(Some("1"), Some(4)), true, false),
        (list(Some(6)), created(Some("1"), None), true, true),
        (list(None), created(Some("1"), Some(4)), true, true),
    ];
    for (at, (event, answer, is_there, is_in_doubt)) in cases.into_iter().enumerate() {
        let mut state = State::new(Options::default());
        let claim = Object::from(mk_claim("c"));
        let reference = claim.reference().unwrap();
        let write = state.assume(&reference, Patch::Create(claim)).unwrap();
        state.apply(event).unwrap();
        assert!(state.get(&reference.key).is_some(), "case {at}: it may be created yet");
        settle(&mut state, &write, answer);
        assert_eq!(state.get(&reference.key).is_some(), is_there, "case {at}");
        assert_eq!(state.to_read_again().count() > 0, is_in_doubt, "case {at}");
    }
}

#[test]
fn what_was_created_under_a_name_that_another_has_by_now_is_no_longer_assumed() {
    let mut state = State::new(Options::default());
    let claim = Object::from(mk_claim("c"));
    let reference = claim.reference().unwrap();
    let write = state.assume(&reference, Patch::Create(claim.clone())).unwrap();
    settle(&mut state, &write, created(Some("1"), None));
    let mut another = claim;
    (another.metadata_mut().uid, another.metadata_mut().resource_version) = (Some("2".into()), Some("9".into()));
    state.apply(Event::Applied(another.clone())).unwrap();
    for object in state.to_read_again().collect::<Vec<_>>() {
        state.apply(Event::Read { object, found: Some(another.clone()) }).unwrap();
    }
    state.apply(deleted(&another, 10)).unwrap();
    assert!(state.get(&reference.key).is_none());
    assert!(state.assumptions.is_empty());
}

#[test]
fn what_came_while_nothing_was_found_stands() {
    let mut state = State::new(Options::default());
    let claim = Object::from(mk_claim("c"));
    let reference = claim.reference().unwrap();
    let write = state.assume(&reference, Patch::Create(claim.clone())).unwrap();
    settle(&mut state, &write, Outcome::Unknown);
    let asked = state.to_read_again().next().unwrap();
    // Created after the read, and told before its answer.
    let mut later = claim;
    (later.metadata_mut().uid, later.metadata_mut().resource_version) = (Some("2".into()), Some("9".into()));
    state.apply(Event::Applied(later)).unwrap();
    state.apply(Event::Read { object: asked, found: None }).unwrap();
    assert!(state.get(&reference.key).is_some());
}
