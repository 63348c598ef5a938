//! What a state adopts of its replica, and when.

use super::*;

/// A state with a node and a pod on it, its replica, and what it was told.
fn followed() -> (State, State) {
    let mut state = state_of([mk_node("a", 1), mk_pod("p", "1", 1, Some("a"))]);
    let mut replica = state.replica();
    replica.follow(state.take_update(usize::MAX));
    replica.cluster(NOW);
    (state, replica)
}

fn n_pods(state: &mut State) -> usize {
    state.cluster(NOW).nodes.iter().map(|node| node.pods.len()).sum()
}

#[test]
fn what_changed_since_is_taken_in_by_who_adopts() {
    let (mut state, replica) = followed();
    let mut copy = replica.converted();
    state.apply(Event::Applied(mk_pod("later", "2", 2, Some("a")))).unwrap();
    let gone = mk_pod("p", "1", 1, Some("a")).reference().unwrap();
    state.apply(Event::Deleted { object: gone, resource_version: None }).unwrap();
    state.apply(Event::Applied(mk_node("b", 3))).unwrap();
    assert!(state.adopt(&mut copy));
    assert_eq!((state.n_conversions(), n_pods(&mut state)), (0, 1));
    let cluster = state.cluster(NOW);
    let names: Vec<&str> = cluster.nodes.iter().map(|node| cluster.symbols.text(node.name)).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn what_is_older_than_the_last_news_is_not_adopted() {
    let (mut state, mut replica) = followed();
    let mut copy = replica.converted();
    state.apply(Event::Applied(mk_pod("later", "2", 2, Some("a")))).unwrap();
    replica.follow(state.take_update(usize::MAX));
    assert!(!state.adopt(&mut copy), "the pod that came is known to the replica alone");
    assert!(state.adopt(&mut replica.converted()));
    assert_eq!(n_pods(&mut state), 2);
}

#[test]
fn what_another_replica_converted_is_not_adopted() {
    let (mut state, replica) = followed();
    let mut copy = replica.converted();
    state.apply(Event::Applied(mk_pod("later", "2", 2, Some("a")))).unwrap();
    // It knows the pod, and was told as often.
    let mut other = state.replica();
    other.follow(state.take_update(usize::MAX));
    assert!(!state.adopt(&mut copy));
    assert_eq!(n_pods(&mut state), 2);
}

#[test]
fn each_copy_has_changes_of_its_own() {
    let (mut state, mut replica) = followed();
    let mut copy = replica.converted();
    let conversion = copy.tracked(NOW).conversion.clone();
    assert!(*replica.tracked(NOW).conversion != conversion);
    assert!(*replica.converted().tracked(NOW).conversion != conversion);
    assert!(state.adopt(&mut copy));
    assert!(*state.tracked(NOW).conversion == conversion);
}
