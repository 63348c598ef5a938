//! A scheduler that is kept is told of nodes by index: one that is another node's by now is found out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_model::LiveUniverse;
use berth_scheduling::{Launchable, Scheduler, Step};

use super::mk::World;

/// `None`: a debug build says so; a release build makes everything anew.
const FOUND_OUT: Option<bool> = if cfg!(debug_assertions) { None } else { Some(false) };

#[test]
fn an_index_that_is_another_nodes_by_now_is_found_out() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.mk_node(name, "z1", 1000, 1);
    }
    let before = world.cluster;
    let mut classes = LiveUniverse::new(&before);
    let paused =
        [(); 4].map(|()| Scheduler::new(&before, classes.universe(), Launchable::default()).to_be_kept().pause());
    let mut after = before.clone();
    after.nodes.swap_remove(0);
    assert!(classes.node_went(0));
    let [a, b, _] = &before.nodes[..] else { panic!("three nodes") };
    let told = [
        // As it is: the last one takes the place of the first.
        (vec![Step::Went(0, a)], Some(true)),
        // The index of a node that went is that of another one.
        (vec![Step::Went(0, b)], FOUND_OUT),
        (vec![Step::Went(0, a), Step::Changed(0, a)], FOUND_OUT),
        (vec![Step::Went(0, a), Step::Room(2)], FOUND_OUT),
    ];
    for (at, ((steps, expected), paused)) in told.into_iter().zip(paused).enumerate() {
        let mut scheduler = Scheduler::resume(&after, classes.universe(), paused);
        let followed = catch_unwind(AssertUnwindSafe(|| scheduler.follow(&steps))).ok();
        assert_eq!(followed, expected, "case {at}");
    }
}
