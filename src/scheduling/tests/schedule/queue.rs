//! Who goes first, and where.

use berth_model::{Constraint, MemberKind, MemberRun, PodSpec, PodTerm, Reservation, RowId, Template};
use berth_scheduling::{ComeFirst, Expected, Placement, Queue, Waiting};

use crate::mk::{FIRST, World, mk_pod};
use crate::shared::spread;

pub(crate) fn own_term(world: &mut World, key: berth_model::Sym, app: &str) -> PodTerm {
    PodTerm {
        key,
        selector: world.selector(app),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    }
}

#[test]
fn pods_spread_over_nodes_that_stay_emptiest_and_ties_go_by_name() {
    let mut world = World::new();
    world.mk_node("n2", "a", 4000, 8);
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n3", "a", 8000, 16);
    world.mk_pods("web", 4, &mk_pod(1000, 2));
    // n3 keeps 87, then 75 as the others do, and n1 is first by name; then n2, then n3 again.
    assert_eq!(world.run(false), (vec!["n2: 1".to_owned(), "n1: 1".to_owned(), "n3: 2".to_owned()], 0, Vec::new()));
}

#[test]
fn the_higher_priority_gets_the_room() {
    let mut world = World::new();
    world.mk_node("n1", "a", 1000, 8);
    world.mk_pods("first", 1, &mk_pod(1000, 1));
    world.mk_pods("urgent", 1, &PodSpec { priority: 10, ..mk_pod(1000, 2) });
    let left = world.scheduled(|scheduler, _| scheduler.run(Queue::default()));
    assert_eq!(left, [(FIRST, 1)]);
}

#[test]
fn a_pod_waits_for_the_one_that_its_affinity_asks_for() {
    let mut world = World::new();
    let zone = world.cluster.well_known.zone;
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n2", "b", 4000, 8);
    let to_db = own_term(&mut world, zone, "db");
    world.mk_pods("web", 2, &PodSpec { affinity: vec![to_db], ..mk_pod(500, 1) });
    world.mk_pods("db", 1, &mk_pod(1000, 1));
    assert_eq!(world.run(false), (vec!["n1: 3".to_owned()], 0, Vec::new()));
}

#[test]
fn a_home_that_cannot_hold_all_is_not_begun_where_it_must_be_whole() {
    let mut world = World::new();
    let zone = world.cluster.well_known.zone;
    world.mk_node("n1", "a", 1000, 8);
    let term = own_term(&mut world, zone, "web");
    world.mk_pods("web", 2, &PodSpec { affinity: vec![term], ..mk_pod(1000, 1) });
    assert_eq!(world.run(false), (vec!["n1: 1".to_owned()], 1, Vec::new()));
    let (left, bound) = world.scheduled(|scheduler, _| {
        let left = scheduler.run(Queue { keeps_homes_whole: true, ..Queue::default() });
        (left, scheduler.state().nodes()[0].added.len())
    });
    assert_eq!((left, bound), (vec![(FIRST, 2)], 0));
}

#[test]
fn room_that_is_held_again_tells_its_node_from_others_again() {
    let mut world = World::new();
    let zone = world.cluster.well_known.zone;
    world.mk_node("n1", "a", 1000, 8);
    world.mk_node("n2", "b", 1000, 8);
    let term = own_term(&mut world, zone, "web");
    let nominated_node = Some(world.sym("n1"));
    let priority = 5;
    // Both find no zone together: one is tried on the node that is held for it, and taken back.
    world.mk_pods("web", 2, &PodSpec { affinity: vec![term], nominated_node, priority, ..mk_pod(1000, 1) });
    world.mk_pods("other", 1, &mk_pod(1000, 1));
    let bound = world.scheduled(|scheduler, _| {
        let left = scheduler.run(Queue { keeps_homes_whole: true, ..Queue::default() });
        assert_eq!(left, [(FIRST, 2)]);
        scheduler.state().nodes().iter().map(|state| state.added.len()).collect::<Vec<_>>()
    });
    assert_eq!(bound, [0, 1], "the other node is as good, and held for nobody");
}

#[test]
fn room_that_is_held_for_a_pod_is_no_room_for_equals_but_for_those_above() {
    let mut world = World::new();
    world.mk_node("n1", "a", 1000, 8);
    world.mk_pods("held", 1, &PodSpec { priority: 5, ..mk_pod(1000, 1) });
    world.mk_pods("equal", 1, &PodSpec { priority: 5, ..mk_pod(500, 1) });
    world.mk_pods("above", 1, &PodSpec { priority: 6, ..mk_pod(500, 1) });
    let [equal, above] = [1, 2].map(berth_model::ClassId);
    world.scheduled(|scheduler, _| {
        scheduler.nominate(FIRST, 0);
        assert_eq!((scheduler.choose(equal), scheduler.choose(above)), (None, Some(0)));
        scheduler.withdraw(FIRST, 0);
        assert_eq!(scheduler.choose(equal), Some(0));
    });
}

#[test]
fn room_that_is_held_for_pods_that_are_alike_is_for_those_whom_it_holds() {
    // In one row, and in two that nothing tells apart.
    for rows in [&[3][..], &[1, 2], &[1, 1, 1]] {
        let mut world = World::new();
        world.mk_node("n1", "a", 2000, 8);
        let nominated_node = Some(world.sym("n1"));
        for (name, count) in ["a", "b", "c"].into_iter().zip(rows) {
            world.mk_pods(name, *count, &PodSpec { nominated_node, ..mk_pod(1000, 1) });
        }
        let left = world.scheduled(|scheduler, _| scheduler.run(Queue::default()));
        assert_eq!(left, [(FIRST, 1)], "two of three find room: {rows:?}");
    }
}

/// The regression: a pod that had made room, but may come only once another one has, lost its room to pods of lower priority and made
/// others give way for it again and again.
#[test]
fn room_is_held_on_for_a_pod_whose_spread_has_yet_to_let_it_come() {
    let mut world = World::new();
    let spread = vec![spread(&mut world, "web", true, 1, true)];
    world.mk_node("n1", "a", 1000, 8);
    world.mk_node("n2", "b", 2000, 8);
    world.mk_running("web", &PodSpec { priority: 5, ..mk_pod(100, 1) }, 0);
    world.mk_running("low", &mk_pod(900, 1), 0);
    let [n1, n2] = ["n1", "n2"].map(|name| Some(world.sym(name)));
    let web = |nominated_node| PodSpec { spread: spread.clone(), priority: 5, nominated_node, ..mk_pod(1000, 1) };
    world.mk_pods("web", 1, &web(n2));
    world.mk_pods("web", 1, &web(n1));
    world.mk_pods("low", 1, &mk_pod(1000, 1));
    let (left, evicted, bound) = world.scheduled(|scheduler, _| {
        let left = scheduler.run(Queue { preempts: true, ..Queue::default() });
        let bound: Vec<usize> = scheduler.state().nodes().iter().map(|state| state.added.len()).collect();
        (left, scheduler.evicted().len(), bound)
    });
    assert_eq!((left, evicted, bound), (vec![(berth_model::ClassId(2), 1)], 0, vec![1, 1]));
}

#[test]
fn what_changes_between_two_questions_is_seen_by_the_second() {
    let mut world = World::new();
    let hostname = world.cluster.well_known.hostname;
    for name in ["n1", "n2", "n3"] {
        world.mk_node(name, "a", 4000, 8);
    }
    let apart = own_term(&mut world, hostname, "web");
    world.mk_pods("web", 4, &PodSpec { anti_affinity: vec![apart], ..mk_pod(100, 1) });
    world.mk_pods("other", 1, &mk_pod(100, 1));
    world.scheduled(|scheduler, _| {
        let other = berth_model::ClassId(1);
        for expected in [Some(0), Some(1), Some(2), None] {
            let chosen = scheduler.choose(FIRST);
            assert_eq!(chosen, expected);
            if let Some(node) = chosen {
                scheduler.bind(FIRST, node);
                assert!(scheduler.choose(other).is_some());
            }
        }
        let reason = "node(s) didn't match pod anti-affinity rules".to_owned();
        assert_eq!(scheduler.refusals(FIRST), [(reason, 3)]);
    });
    let universe = berth_model::Universe::with_scores(&mut world.cluster);
    assert!(universe.classes[0].required.iter().all(|c| matches!(c, Constraint::AntiAffinity { .. })));
}

/// Pending pods of a row of their own, each an object by its name.
fn mk_each(world: &mut World, app: &str, count: u32, spec: &PodSpec) -> RowId {
    world.mk_pods(app, 0, spec);
    let row = world.cluster.pending.last_mut().unwrap();
    row.members = (0..count).map(|n| MemberRun { name: format!("{app}-{n}").into(), numbers: None }).collect();
    world.cluster.rows().last().unwrap().0
}

/// Who is where, by index of the node.
fn told(placements: Vec<Placement>) -> String {
    let mut placed: Vec<_> = placements.into_iter().map(|known| (known.node, known.name)).collect();
    placed.sort();
    placed.iter().map(|(node, name)| format!("{name}: {node}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_that_are_remade_come_before_others_of_their_priority_as_many_as_there_are() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n2", "a", 1000, 8);
    let old = mk_each(&mut world, "old", 3, &mk_pod(1000, 1));
    let web = mk_each(&mut world, "web", 3, &mk_pod(1000, 2));
    let urgent = mk_each(&mut world, "urgent", 1, &PodSpec { priority: 10, ..mk_pod(1000, 1) });
    let none = ComeFirst::new;
    // Whose turn it was, one after another; who was placed.
    let mut placed = |first: ComeFirst, expected: Expected| {
        world.scheduled(|scheduler, _| {
            scheduler.let_come_first(first);
            scheduler.expect(expected);
            let trial = scheduler.try_out(Queue::default()).unwrap();
            let mut placed: Vec<_> = trial.placements.into_iter().map(|known| (known.nth, known.name)).collect();
            placed.sort();
            let mut names: Vec<String> = placed.into_iter().map(|(_, name)| name.replace("default/", "")).collect();
            let turns: Vec<String> = names.iter().map(|name| name.split('-').next().unwrap().to_owned()).collect();
            names.sort();
            (turns.join(" "), names.join(" "))
        })
    };
    let is = |turns: &str, names: &str| (turns.to_owned(), names.to_owned());
    assert_eq!(
        placed(none(), Expected::new()),
        is("urgent old old old web", "old-0 old-1 old-2 urgent-0 web-0"),
        "in the order of the input"
    );
    let two = ComeFirst::from([(web, ["web-2".into(), "web-1".into()].into())]);
    let in_turn = is("urgent web web old old", "old-0 old-1 urgent-0 web-1 web-2");
    assert_eq!(placed(two.clone(), Expected::new()), in_turn, "two of the last row are the first of theirs");
    let of_both = ComeFirst::from([(web, ["web-1".into()].into()), (old, ["old-2".into()].into())]);
    assert_eq!(
        placed(of_both, Expected::new()),
        is("urgent old web old old", "old-0 old-1 old-2 urgent-0 web-1"),
        "where both have some, the rows are in order"
    );
    let on_n2 = Expected::from([(web, [(1, 1)].into())]);
    assert_eq!(placed(two.clone(), on_n2), in_turn, "who comes where one is expected is one of them");
    let more = Expected::from([(old, [(0, 1)].into()), (web, [(1, 3)].into())]);
    assert_eq!(
        placed(two, more),
        is("urgent old web web old", "old-0 old-1 urgent-0 web-1 web-2"),
        "who is expected comes there before, and no room is held for who came elsewhere"
    );
    let of_urgent = ComeFirst::from([(urgent, ["urgent-0".into()].into())]);
    assert_eq!(placed(of_urgent, Expected::new()), placed(none(), Expected::new()));
}

#[test]
fn who_is_expected_comes_before_higher_priorities_where_that_is_asked_for() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n2", "a", 1000, 8);
    let low = mk_each(&mut world, "low", 1, &mk_pod(4000, 1));
    mk_each(&mut world, "urgent", 1, &PodSpec { priority: 10, ..mk_pod(1000, 1) });
    let mut placed = |expected_first: bool, expected: Expected| {
        world.scheduled(|scheduler, _| {
            scheduler.expect(expected);
            let trial = scheduler.try_out(Queue { expected_first, ..Queue::default() }).unwrap();
            told(trial.placements)
        })
    };
    let on_n1 = || Expected::from([(low, [(0, 1)].into())]);
    assert_eq!(placed(false, on_n1()), "default/urgent-0: 0", "it takes the room that is promised");
    assert_eq!(placed(true, on_n1()), "default/low-0: 0 default/urgent-0: 1");
    assert_eq!(placed(true, Expected::new()), "default/urgent-0: 0", "nobody is expected");
}

/// The regression: a Reservation that waits took the room on a node that was launched for pods about to move there.
#[test]
fn reservations_take_no_room_where_pods_are_expected_unless_they_preempt() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n2", "a", 1000, 8);
    let pods = mk_each(&mut world, "low", 2, &mk_pod(2000, 1));
    for (name, millis) in [("large", 3000), ("small", 1000)] {
        mk_each(&mut world, name, 1, &PodSpec { priority: i32::MAX, ..mk_pod(millis, 1) });
        let symbol = world.sym(name);
        let row = world.cluster.pending.last_mut().unwrap();
        row.kind = MemberKind::Reservation;
        row.members = vec![MemberRun { name: name.into(), numbers: None }];
        let template = Template { namespace: row.namespace, spec: row.spec, labels: row.labels };
        let allocatable = world.cluster.specs[row.spec.index()].requests.clone();
        world.cluster.reservations.push(Reservation {
            template: Some(template),
            allocatable,
            ..Reservation::new(symbol)
        });
    }
    let mut placed = |preempts: bool, expected: Expected| {
        world.cluster.rules.preempts = preempts;
        world.scheduled(|scheduler, _| {
            scheduler.expect(expected);
            scheduler.run(Queue::default());
            told(scheduler.placements())
        })
    };
    let on_n1 = |count| Expected::from([(pods, [(0, count)].into())]);
    let before_them = "large: 0 small: 0";
    assert_eq!(placed(false, Expected::new()), before_them, "nobody is expected");
    assert_eq!(placed(false, on_n1(2)), "default/low-0: 0 default/low-1: 0 small: 1");
    assert_eq!(placed(false, on_n1(1)), "default/low-0: 0 small: 0", "one is kept out by what is left");
    assert_eq!(placed(true, on_n1(2)), before_them);
}

/// The regression: those of high priority took what was up first, though nodes came up for them, and others were launched for those who
/// had been expected there.
#[test]
fn who_has_a_node_coming_up_takes_no_room_where_others_are_expected_and_makes_nobody_give_way() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_node("n2", "a", 1000, 8);
    world.mk_running("runs", &mk_pod(1000, 1), 0);
    let low = mk_each(&mut world, "low", 2, &PodSpec { priority: 5, ..mk_pod(1000, 1) });
    let urgent = mk_each(&mut world, "urgent", 2, &PodSpec { priority: 10, ..mk_pod(1000, 1) });
    let mut placed = |with_node: u32, expected: Expected| {
        world.scheduled(|scheduler, _| {
            scheduler.expect(expected);
            let have_nodes = [(urgent, with_node)].into();
            scheduler.let_wait(Waiting { have_nodes, ..Waiting::default() });
            scheduler.run(Queue { preempts: true, ..Queue::default() });
            (told(scheduler.placements()).replace("default/", ""), scheduler.evicted().len())
        })
    };
    let on_n1 = |count| Expected::from([(low, [(0, count)].into())]);
    assert_eq!(placed(0, on_n1(2)), ("urgent-0: 0 urgent-1: 0 low-0: 1".to_owned(), 1), "nobody else has a node");
    assert_eq!(placed(2, on_n1(2)), ("low-0: 0 low-1: 0".to_owned(), 0));
    assert_eq!(placed(1, on_n1(2)), ("low-0: 0 urgent-0: 0 low-1: 1".to_owned(), 1), "one of the two has none");
    assert_eq!(placed(2, on_n1(1)), ("low-0: 0 urgent-0: 0 low-1: 1".to_owned(), 1), "what is free is theirs");
}
