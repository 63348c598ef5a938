//! Koordinator's own cases, with their numbers, through the scheduler; what was meant where it errs. A node of 32 cores,
//! 32 GiB and 100 pods, of which so much is requested, Reservations included.

use berth_api::ReservationArgs;

use crate::mk::{Extra, MUST_DRAW, Outcome, Reserve, World, cluster_mode};

const REUSED: &str = "allocateOnce: false,";
const ALIGNED: &str = "allocateOnce: false, allocatePolicy: Aligned,";
const RESTRICTED: &str = "allocateOnce: false, allocatePolicy: Restricted,";
const NODE: Option<&str> = Some("node-0");

fn none() -> Extra<'static> {
    Extra::default()
}

/// The node with a Reservation of six cores, and other pods that request the rest of these amounts.
fn node(spec: &str, annotations: &str, cores: u32, gib: u32) -> World {
    let mut world = World::nodes(&["node-0"], "32", 32);
    let reserve = Reserve { name: "r", requests: "cpu: 6", spec, annotations, on: NODE, ..Reserve::default() };
    world.reservation(&reserve);
    let requests = format!("cpu: {}, memory: {gib}Gi", cores - 6);
    world.running("others", "others", "node-0", &requests, none());
    world
}

fn asked(world: &mut World, requests: &str, extra: Extra<'_>) -> String {
    world.pod("a", "web", requests, extra);
    world.run().of("a").to_owned()
}

/// What the first Reservation-related reason of a refusal is; the counts of Reservations that follow aside.
fn first(reasons: &str) -> &str {
    reasons.split(", 1 Reservation(s) matched").next().unwrap_or(reasons)
}

fn named(name: &str) -> String {
    format!("scheduling.koordinator.sh/reservation-affinity: '{{\"name\":\"{name}\"}}'")
}

#[test]
fn case_01_an_aligned_owner_takes_the_rest_from_the_node() {
    let mut world = node(ALIGNED, "", 30, 24);
    assert_eq!(asked(&mut world, "cpu: 8, memory: 8Gi", none()), "node-0 of r");
    assert_eq!(world.run().free["node-0"], (0, 0));
}

#[test]
fn case_02_an_aligned_owner_lacks_what_reservation_and_node_lack_together() {
    let mut world = node(ALIGNED, "", 32, 24);
    assert_eq!(first(&asked(&mut world, "cpu: 8, memory: 8Gi", none())), "1 Insufficient cpu by node");
}

#[test]
fn case_03_a_restricted_owner_takes_what_is_not_reserved_from_the_node() {
    assert_eq!(asked(&mut node(RESTRICTED, "", 30, 0), "cpu: 6, memory: 8Gi", MUST_DRAW), "node-0 of r");
}

#[test]
fn case_04_a_restricted_owner_takes_no_more_than_is_reserved() {
    let refused = asked(&mut node(RESTRICTED, "", 30, 0), "cpu: 8, memory: 8Gi", MUST_DRAW);
    assert_eq!(first(&refused), "1 Reservation(s) Insufficient cpu");
}

#[test]
fn case_05_what_is_kept_inside_of_a_reservation_is_not_for_owners() {
    let kept = r#"node.koordinator.sh/reservation: '{"resources":{"cpu":"2"}}'"#;
    let refused = asked(&mut node(RESTRICTED, kept, 30, 0), "cpu: 6, memory: 8Gi", MUST_DRAW);
    assert_eq!(first(&refused), "1 Reservation(s) Insufficient cpu");
    let four = asked(&mut node(RESTRICTED, kept, 30, 0), "cpu: 4, memory: 8Gi", MUST_DRAW);
    assert_eq!(four, "node-0 of r");
}

/// Seven cores and two pods, one core of it kept, with that many owners of one core each.
fn two_pods(owners: &[&str]) -> World {
    let mut world = World::nodes(&["node-0"], "32", 32);
    let kept = r#"node.koordinator.sh/reservation: '{"resources":{"cpu":"1"}}'"#;
    let requests = "cpu: 7, pods: 2";
    world.reservation(&Reserve {
        name: "r",
        requests,
        spec: RESTRICTED,
        annotations: kept,
        on: NODE,
        ..Reserve::default()
    });
    for name in owners {
        world.owner_of("r", name, "node-0", "cpu: 1");
    }
    world
}

#[test]
fn case_06_pods_that_are_reserved_by_number_are_limited() {
    let full = || two_pods(&["o1", "o2"]);
    assert_eq!(first(&asked(&mut full(), "cpu: 3", MUST_DRAW)), "1 Reservation(s) Too many pods");
    let annotations = named("r");
    let refused = asked(&mut full(), "cpu: 3", Extra { annotations: &annotations, ..none() });
    assert!(refused.starts_with("1 Reservation(s) Too many pods, requested: 1, used: 2, capacity: 2"), "{refused}");
    assert_eq!(asked(&mut two_pods(&["o1"]), "cpu: 3", MUST_DRAW), "node-0 of r");
}

/// The same, where a pod of priority 10 may evict one of its owners, the other being protected.
fn evicting(cores: u32) -> Outcome {
    let mut world = two_pods(&["o1"]);
    let drawn = r#"scheduling.koordinator.sh/reservation-allocated: '{"name":"r","uid":""}'"#;
    let labels = ", scheduling.koordinator.sh/disable-preemptible: 'true'";
    world.running("o2", "web", "node-0", "cpu: 1", Extra { annotations: drawn, labels, ..none() });
    world.preempts = true;
    let annotations = named("r");
    world.pod(
        "a",
        "web",
        &format!("cpu: {cores}"),
        Extra { annotations: &annotations, spec: "priority: 10,", ..none() },
    );
    world.run()
}

#[test]
fn case_07_an_evicted_owner_leaves_less_than_a_pod_needs() {
    let outcome = evicting(6);
    assert!(outcome.evicted.is_empty(), "five cores are not enough for six");
    let reasons = outcome.of("a");
    assert!(
        reasons.contains("Reservation(s) Insufficient cpu, requested: 6000, used: 2000, capacity: 6000"),
        "{reasons}"
    );
}

#[test]
fn case_08_an_evicted_owner_leaves_enough() {
    let outcome = evicting(3);
    assert_eq!((outcome.of("a"), &*outcome.evicted), ("node-0 of r", &["o1".to_owned()][..]));
}

#[test]
fn case_09_what_is_not_reserved_is_the_nodes_to_lack() {
    let mut world = World::default();
    let batch = "kubernetes.io/batch-cpu";
    world.node("node-0", &format!("cpu: '32', memory: 32Gi, pods: '100', {batch}: '7500'"));
    world.reservation(&Reserve { name: "r", requests: "cpu: 6", spec: RESTRICTED, on: NODE, ..Reserve::default() });
    world.running("others", "others", "node-0", &format!("{batch}: '1500'"), none());
    let limits = format!("{batch}: '8000'");
    let refused = asked(&mut world, &limits, MUST_DRAW);
    assert_eq!(first(&refused), "1 Insufficient kubernetes.io/batch-cpu by node");
}

#[test]
fn case_10_room_in_a_full_reservation_is_no_more_than_was_freed_in_it() {
    // Two cores freed in the Reservation, none on the node: four are not to be had.
    let mut world = World::nodes(&["node-0"], "32", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 6", spec: REUSED, on: NODE, ..Reserve::default() });
    world.running("others", "others", "node-0", "cpu: 26", Extra { spec: "priority: 100,", ..none() });
    world.owner_of("r", "o1", "node-0", "cpu: 2");
    let drawn = r#"scheduling.koordinator.sh/reservation-allocated: '{"name":"r","uid":""}'"#;
    world.running("o2", "web", "node-0", "cpu: 4", Extra { annotations: drawn, spec: "priority: 100,", ..none() });
    world.preempts = true;
    let refused = asked(&mut world, "cpu: 4", Extra { spec: "priority: 10,", ..none() });
    assert_eq!(first(&refused), "1 Insufficient cpu by node");
    assert!(world.run().evicted.is_empty());
}

#[test]
fn case_11_evicting_others_does_not_fill_a_restricted_reservation() {
    let mut world = World::nodes(&["node-0"], "32", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 6", spec: RESTRICTED, on: NODE, ..Reserve::default() });
    let drawn = r#"scheduling.koordinator.sh/reservation-allocated: '{"name":"r","uid":""}'"#;
    world.running("o", "web", "node-0", "cpu: 6", Extra { annotations: drawn, spec: "priority: 100,", ..none() });
    world.running("others", "others", "node-0", "cpu: 26", none());
    world.preempts = true;
    let annotations = MUST_DRAW.annotations;
    let refused = asked(&mut world, "cpu: 4", Extra { annotations, spec: "priority: 10,", ..none() });
    assert_eq!(first(&refused), "1 Insufficient cpu by node, 1 Reservation(s) Insufficient cpu");
    assert!(world.run().evicted.is_empty(), "the node's lack could be helped, the Reservation's could not");
}

#[test]
fn case_12_a_node_is_seen_with_the_room_of_the_matched_and_without_that_of_others() {
    let mut world = World::nodes(&["node-0"], "32", 64);
    let port = |n: u16| format!("ports: [{{containerPort: {n}, hostPort: {n}}}],");
    let (p8080, p9090, p7070) = (port(8080), port(9090), port(7070));
    world.running("p1", "p", "node-0", "cpu: 4, memory: 8Gi", Extra { container: &p8080, ..none() });
    world.running("p2", "p", "node-0", "cpu: 8, memory: 16Gi", Extra { container: &p9090, ..none() });
    let others = "allocateOnce: false, owners: [{labelSelector: {matchLabels: {app: others}}}],";
    let requests = "cpu: 12, memory: 24Gi";
    world.reservation(&Reserve { name: "unmatched", requests, spec: others, on: NODE, ..Reserve::default() });
    world.owner_of("unmatched", "o", "node-0", "cpu: 4, memory: 8Gi");
    let requests = "cpu: 8, memory: 16Gi";
    let reserve =
        Reserve { name: "matched", requests, spec: REUSED, container: &p7070, on: NODE, ..Reserve::default() };
    world.reservation(&reserve);
    // Pods have 16 cores of the 32, the unmatched one holds 8 more: 24 are taken, 8 are for owners.
    assert_eq!(world.run().free["node-0"], (0, 0));
    assert_eq!(
        asked(&mut world.clone(), "cpu: 8, memory: 16Gi", Extra { container: &p7070, ..none() }),
        "node-0 of matched"
    );
    assert_eq!(first(&asked(&mut world.clone(), "cpu: 9", none())), "1 Insufficient cpu by node");
    let taken = "1 node(s) didn't have free ports for the requested pod ports";
    let owner = asked(&mut world.clone(), "cpu: 1", Extra { container: &p8080, ..none() });
    assert!(owner.starts_with(taken), "a pod has it: {owner}");
    world.pod("other", "x", "cpu: 1m", Extra { container: &p7070, ..none() });
    assert_eq!(world.run().of("other"), taken, "it is held for owners");
}

#[test]
fn owners_draw_from_what_is_available() {
    for (phase, draws) in [("Available", true), ("Waiting", false), ("Succeeded", false), ("Failed", false)] {
        let mut world = World::nodes(&["node-0"], "8", 8);
        let reserve = Reserve { name: "r", requests: "cpu: 4", spec: REUSED, on: NODE, phase, ..Reserve::default() };
        world.reservation(&reserve);
        let place = asked(&mut world, "cpu: 1", MUST_DRAW);
        if draws {
            assert_eq!(place, "node-0 of r");
        } else {
            assert!(place.contains("no reservations match reservation affinity"), "{phase}: {place}");
        }
    }
}

#[test]
fn case_13_and_14_and_15_the_reservation_that_a_pod_fills_is_drawn_from() {
    // 4C8Gi is half filled by 2C4Gi and scores 50; 2C4Gi that has 2C3Gi allocated would overflow and scores 0; an empty
    // 2C4Gi is filled and scores 100.
    let mut world = World::nodes(&["node-0"], "32", 32);
    let reserve = |name, requests| Reserve { name, requests, spec: REUSED, on: NODE, ..Reserve::default() };
    world.reservation(&reserve("half", "cpu: 4, memory: 8Gi"));
    world.reservation(&reserve("full", "cpu: 2, memory: 4Gi")).owner_of("full", "o", "node-0", "cpu: 2, memory: 3Gi");
    assert_eq!(asked(&mut world.clone(), "cpu: 2, memory: 4Gi", none()), "node-0 of half");
    world.reservation(&reserve("fits", "cpu: 2, memory: 4Gi"));
    assert_eq!(asked(&mut world, "cpu: 2, memory: 4Gi", none()), "node-0 of fits");
}

#[test]
fn case_16_the_node_of_the_lowest_order_is_preferred_above_all() {
    let names = ["node-0", "node-1", "node-2", "node-3"];
    let mut world = World::nodes(&names, "32", 32);
    for (i, node) in names.iter().enumerate() {
        let name = format!("r{i}");
        let labels = if i == 3 { "scheduling.koordinator.sh/reservation-order: '123456'" } else { "" };
        let requests = if i == 3 { "cpu: 4" } else { "cpu: 2" };
        world.reservation(&Reserve { name: &name, requests, labels, on: Some(node), ..Reserve::default() });
    }
    assert_eq!(asked(&mut world, "cpu: 2", none()), "node-3 of r3", "though the others would be filled");
}

#[test]
fn case_17_reservations_without_a_policy_share_a_node_only_with_their_like() {
    let together = |first: &str, second: &str| {
        let mut world = World::nodes(&["node-0"], "32", 32);
        world.reservation(&Reserve { name: "a", requests: "cpu: 1", spec: first, on: NODE, ..Reserve::default() });
        world.reservation(&Reserve { name: "b", requests: "cpu: 1", spec: second, ..Reserve::default() });
        world.run().of("b").to_owned()
    };
    let conflict = "1 node(s) reservation allocate policy conflict";
    for (first, second, expected) in [
        (REUSED, ALIGNED, conflict),
        (REUSED, RESTRICTED, conflict),
        (ALIGNED, REUSED, conflict),
        (ALIGNED, RESTRICTED, "node-0"),
        (REUSED, REUSED, "node-0"),
    ] {
        assert_eq!(together(first, second), expected, "{first} {second}");
    }
}

#[test]
fn case_18_an_unschedulable_reservation_takes_those_who_tolerate_it() {
    let place = |annotations: &str| {
        let mut world = World::nodes(&["node-0"], "32", 32);
        let spec = "unschedulable: true,";
        world.reservation(&Reserve { name: "r", requests: "cpu: 4", spec, on: NODE, ..Reserve::default() });
        asked(&mut world, "cpu: 4", Extra { annotations, ..none() })
    };
    assert_eq!(place(""), "node-0", "on free room");
    let none_meets = "1 node(s) no reservations match reservation affinity";
    let refused = place(MUST_DRAW.annotations);
    assert_eq!(
        refused,
        format!("{none_meets}, 1 Reservation(s) is unschedulable, 1 Reservation(s) matched owner total")
    );
    let tolerating = r#"scheduling.koordinator.sh/reservation-affinity: '{"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}]}'"#;
    assert_eq!(place(tolerating), "node-0 of r");
    let refused = place(&named("other"));
    let why = "1 Reservation(s) didn't match the requested reservation name, 1 Reservation(s) matched owner total";
    assert_eq!(refused, format!("{none_meets}, {why}"));
}

// Cases 19 and 20, status and expiry, are those of the state machine: `reservation::lifecycle` in the scheduling crate.

/// 16 cores and 32 GiB, 7C14Gi of it fixed; candidates of so many cores, twice as many GiB, and priority.
fn candidates(reserve: &Reserve<'_>, args: ReservationArgs, fixed: u32, pods: &[(&str, u32, u32)]) -> Outcome {
    let mut world = World::nodes(&["node-0"], "16", 32);
    if fixed > 0 {
        world.running("fixed", "fixed", "node-0", &format!("cpu: {fixed}, memory: {}Gi", 2 * fixed), none());
    }
    for (name, cores, priority) in pods {
        let annotations = format!("pod.koordinator.sh/pre-allocatable-priority: '{priority}'");
        let labels = ", pod.koordinator.sh/is-pre-allocatable: 'true'";
        let requests = format!("cpu: {cores}, memory: {}Gi", 2 * cores);
        world.running(name, "batch", "node-0", &requests, Extra { annotations: &annotations, labels, ..none() });
    }
    world.args = args;
    world.reservation(reserve);
    world.run()
}

const MANY: &str = "allocatePolicy: Restricted, preAllocation: true, preAllocationPolicy: {mode: Cluster, enableMultiple: \
                    true},";
const ONE: &str = "allocatePolicy: Restricted, preAllocation: true, preAllocationPolicy: {mode: Cluster},";

#[test]
fn case_21_running_pods_are_added_up_by_priority_passing_over_what_exceeds() {
    let reserve = Reserve { name: "r", requests: "cpu: 4, memory: 8Gi", spec: MANY, ..Reserve::default() };
    let pods = [("p70", 1, 70), ("p90", 5, 90), ("p50", 1, 50)];
    // 14 of 16 cores are taken: the pod of five is passed over, the two of one make four with the free two.
    let outcome = candidates(&reserve, cluster_mode(false), 7, &pods);
    assert_eq!((outcome.of("r"), &*outcome.bound), ("node-0", &["r: p50".to_owned(), "r: p70".to_owned()][..]));
    assert_eq!(outcome.allocated["r"], (2, 2000, 4096));
    assert_eq!(outcome.free["node-0"], (0, 0), "the free two cores are held");
}

#[test]
fn case_22_free_room_may_come_before_running_pods() {
    let reserve = Reserve { name: "r", requests: "cpu: 8, memory: 16Gi", spec: ONE, ..Reserve::default() };
    let mut pods = vec![("p10", 2, 10), ("p20", 2, 20)];
    let bound = candidates(&reserve, cluster_mode(false), 1, &pods);
    assert_eq!((bound.of("r"), &*bound.bound), ("node-0", &["r: p20".to_owned()][..]), "the highest priority");
    let free = candidates(&reserve, cluster_mode(true), 1, &pods);
    assert_eq!((free.of("r"), free.bound.len()), ("node-0", 0));
    pods.clear();
    let off = candidates(&reserve, ReservationArgs::default(), 1, &pods);
    assert_eq!(off.of("r"), "1 reservation requires cluster mode pre-allocation which is disabled");
}

/// A reusable Reservation of 4C8Gi; four owners, the last of whom may have to draw.
fn four_owners(policy: &str, cores: &str, last: Extra<'_>) -> Outcome {
    let mut world = World::nodes(&["node-0"], cores, 32);
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4, memory: 8Gi",
        spec: policy,
        on: NODE,
        ..Reserve::default()
    });
    world.pod("p1", "web", "cpu: 2, memory: 2Gi", none()).pod("p2", "web", "cpu: 2, memory: 2Gi", none());
    world.pod("p3", "web", "memory: 3Gi", none()).pod("p4", "web", "memory: 2Gi", last);
    world.run()
}

#[test]
fn case_23_a_restricted_reservation_refuses_the_last_owner_that_must_draw() {
    let outcome = four_owners(RESTRICTED, "32", MUST_DRAW);
    assert_eq!([outcome.of("p1"), outcome.of("p2"), outcome.of("p3")], ["node-0 of r"; 3]);
    assert_eq!(first(outcome.of("p4")), "1 Reservation(s) Insufficient memory");
    assert_eq!(outcome.allocated["r"], (3, 4000, 7 * 1024));
}

#[test]
fn case_23_without_affinity_the_last_owner_uses_free_room_and_holds_nothing_of_it() {
    let outcome = four_owners(RESTRICTED, "32", none());
    assert_eq!((outcome.of("p3"), outcome.of("p4")), ("node-0 of r", "node-0"));
    assert_eq!(outcome.allocated["r"], (3, 4000, 7 * 1024));
    assert_eq!(outcome.free["node-0"], (28_000, 22 * 1024), "32 - 8 held - 2 of its own");
}

#[test]
fn case_23_an_aligned_reservation_lets_the_last_owner_overflow() {
    for last in [none(), MUST_DRAW] {
        let outcome = four_owners(ALIGNED, "32", last);
        assert_eq!([outcome.of("p1"), outcome.of("p2"), outcome.of("p3"), outcome.of("p4")], ["node-0 of r"; 4]);
        assert_eq!(outcome.allocated["r"], (4, 4000, 9 * 1024));
        assert_eq!(outcome.free["node-0"], (28_000, 23 * 1024), "the ninth GiB is counted on the node");
    }
}

#[test]
fn case_24_reservations_are_not_merged() {
    let mut world = World::default();
    world.node("node-0", "cpu: '32', memory: 32Gi, pods: '100', example.com/unit: '1000'");
    for name in ["r0", "r1", "r2", "r3", "r4"] {
        let requests = "example.com/unit: '200'";
        world.reservation(&Reserve { name, requests, spec: ALIGNED, on: NODE, ..Reserve::default() });
    }
    let refused = asked(&mut world.clone(), "example.com/unit: '300'", none());
    assert!(refused.starts_with("1 Insufficient example.com/unit by node"), "{refused}");
    assert!(asked(&mut world, "example.com/unit: '200'", none()).starts_with("node-0 of r"));
}

/// 1000 units, all reserved and drawn by an owner of priority 1.
fn all_drawn() -> World {
    let mut world = World::default();
    world.node("node-0", "cpu: '32', memory: 32Gi, pods: '100', example.com/unit: '1000'");
    let requests = "example.com/unit: '1000'";
    world.reservation(&Reserve { name: "r", requests, spec: RESTRICTED, on: NODE, ..Reserve::default() });
    let drawn = r#"scheduling.koordinator.sh/reservation-allocated: '{"name":"r","uid":""}'"#;
    world.running("low", "web", "node-0", requests, Extra { annotations: drawn, spec: "priority: 1,", ..none() });
    world.preempts = true;
    world
}

#[test]
fn case_25_preemption_frees_the_room_of_owners_for_owners_alone() {
    let high = Extra { spec: "priority: 1000,", ..none() };
    let mut world = all_drawn();
    world.pod("other", "other", "example.com/unit: '1000'", high);
    let outcome = world.run();
    assert_eq!((outcome.of("other"), outcome.evicted.len()), ("1 Insufficient example.com/unit", 0));
    let mut world = all_drawn();
    world.pod("owner", "web", "example.com/unit: '1000'", high);
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), &*outcome.evicted), ("node-0 of r", &["low".to_owned()][..]));
    assert_eq!(outcome.allocated["r"].0, 1);
}

#[test]
fn reservations_preempt_where_the_configuration_lets_them() {
    for (enable_preemption, place, evicted) in [(false, "1 Insufficient cpu", 0), (true, "node-0", 1)] {
        let mut world = World::nodes(&["node-0"], "32", 32);
        world.running("low", "low", "node-0", "cpu: 32", none());
        world.reservation(&Reserve { name: "r", requests: "cpu: 6", ..Reserve::default() });
        world.preempts = true;
        world.args = ReservationArgs { enable_preemption, ..ReservationArgs::default() };
        let outcome = world.run();
        assert_eq!((outcome.of("r"), outcome.evicted.len()), (place, evicted));
    }
}

#[test]
fn ignored_resources_refuse_no_owner() {
    for (groups, place) in
        [(vec![], "1 Insufficient example.com/unit by node"), (vec!["example.com".to_owned()], "node-0 of r")]
    {
        let mut world = World::nodes(&["node-0"], "32", 32);
        world.reservation(&Reserve { name: "r", requests: "cpu: 6", on: NODE, ..Reserve::default() });
        world.args = ReservationArgs { ignored_resource_groups: groups, ..ReservationArgs::default() };
        assert_eq!(first(&asked(&mut world, "cpu: 6, example.com/unit: '1'", none())), place);
    }
}
