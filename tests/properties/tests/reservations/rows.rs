//! The rows of the test tables in the proposal of resource reservation: what comes of each was worked out from its text
//! and is written in the test.

use rstest::rstest;

use crate::mk::{Extra, Outcome, Reserve, World};

const SAME: &str = "4 cores and 4 GiB";

/// The machine of the table: 16 cores and 32 GiB.
fn machine() -> World {
    World::nodes(&["node-0"], "16", 32)
}

fn none() -> Extra<'static> {
    Extra::default()
}

/// Milli-CPU and MiB of node-0 that are neither used nor held.
fn free(outcome: &Outcome) -> (i64, i64) {
    outcome.free["node-0"]
}

// === NodeResources ===

#[rstest]
#[case::row_1_the_same(SAME, "cpu: 4, memory: 4Gi", "cpu: 4, memory: 4Gi", (12_000, 28 * 1024))]
#[case::row_2_a_part_of_what_is_reserved("the owner leaves memory", "cpu: 4, memory: 4Gi", "cpu: 4", (12_000, 32 * 1024))]
#[case::row_3_less_of_it("the owner leaves 3 GiB", "cpu: 4, memory: 4Gi", "cpu: 4, memory: 1Gi", (12_000, 31 * 1024))]
#[case::row_4_more_kinds("memory is the node's", "cpu: 4", "cpu: 4, memory: 1Gi", (12_000, 31 * 1024))]
#[case::row_5_more("two cores are the node's", "cpu: 4", "cpu: 6", (10_000, 32 * 1024))]
fn node_resources_rows_1_to_5_one_owner_draws_and_spends_the_reservation(
    #[case] why: &str,
    #[case] reserved: &str,
    #[case] requested: &str,
    #[case] left: (i64, i64),
) {
    let mut world = machine();
    world.reservation(&Reserve { name: "r", requests: reserved, ..Reserve::default() });
    let before = world.run();
    assert_eq!(before.of("r"), "node-0");
    world.pod("a", "web", requested, none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), free(&outcome)), ("node-0 of r", left), "{why}");
    assert!(outcome.allocated.is_empty(), "it was for one owner alone");
}

#[test]
fn node_resources_row_5_an_owner_overflows_even_where_the_node_has_just_enough() {
    let mut world = machine();
    world.running("old", "old", "node-0", "cpu: 10", none());
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", on: Some("node-0"), ..Reserve::default() });
    world.pod("a", "web", "cpu: 6", none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), free(&outcome)), ("node-0 of r", (0, 32 * 1024)));
}

#[rstest]
#[case::row_6_both_fit("8", 8000, (8000, 32 * 1024))]
#[case::row_7_the_second_takes_two_cores_of_the_node("6", 8000, (8000, 32 * 1024))]
fn node_resources_rows_6_and_7_two_owners_share_what_may_be_used_again(
    #[case] reserved: &str,
    #[case] allocated: i64,
    #[case] left: (i64, i64),
) {
    let mut world = machine();
    let requests = format!("cpu: {reserved}");
    world.reservation(&Reserve { name: "r", requests: &requests, spec: "allocateOnce: false,", ..Reserve::default() });
    world.pod("a", "web", "cpu: 4", none()).pod("b", "web", "cpu: 4", none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.of("b")), ("node-0 of r", "node-0 of r"));
    assert_eq!((outcome.allocated["r"], free(&outcome)), ((2, allocated, 0), left));
}

#[test]
fn node_resources_row_8_others_get_what_is_not_reserved() {
    let mut world = machine();
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", ..Reserve::default() });
    for name in ["a", "b", "c", "d"] {
        world.pod(name, "other", "cpu: 4", none());
    }
    let outcome = world.run();
    let places: Vec<&str> = ["a", "b", "c", "d"].iter().map(|name| outcome.of(name)).collect();
    assert_eq!(places, ["node-0", "node-0", "node-0", "1 Insufficient cpu"], "four cores are kept");
    world.pod("owner", "web", "cpu: 4", none());
    assert_eq!(world.run().of("owner"), "node-0 of r");
}

#[rstest]
#[case::for_one_owner_alone("", "node-0", 0)]
#[case::to_be_used_again("allocateOnce: false,", "1 Insufficient cpu", 0)]
fn node_resources_row_9_what_an_owner_leaves_is_for_others_once_the_reservation_is_spent(
    #[case] spec: &str,
    #[case] other: &str,
    #[case] left: i64,
) {
    let mut world = machine();
    world.running("old", "old", "node-0", "cpu: 12", none());
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", spec, on: Some("node-0"), ..Reserve::default() });
    world.pod("a", "web", "cpu: 2", none()).pod("b", "other", "cpu: 2", none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.of("b"), free(&outcome).0), ("node-0 of r", other, left));
}

// === NodePorts ===

fn ports(numbers: &[u16]) -> String {
    let ports: Vec<String> = numbers.iter().map(|n| format!("{{containerPort: {n}, hostPort: {n}}}")).collect();
    format!("ports: [{}],", ports.join(", "))
}

/// Reservations with these ports on one node; pods `(name, app, ports)` one after another.
fn with_ports(reserved: &[&[u16]], once: bool, pods: &[(&str, &str, &[u16])]) -> Vec<String> {
    let mut world = machine();
    for (i, numbers) in reserved.iter().enumerate() {
        let (name, container) = (format!("r{i}"), ports(numbers));
        let spec = if once { "" } else { "allocateOnce: false," };
        let requests = "cpu: 1";
        world.reservation(&Reserve { name: &name, requests, container: &container, spec, ..Reserve::default() });
    }
    for (name, app, numbers) in pods {
        world.pod(name, app, "cpu: 500m", Extra { container: &ports(numbers), ..none() });
    }
    let outcome = world.run();
    pods.iter().map(|(name, ..)| outcome.of(name).to_owned()).collect()
}

const TAKEN: &str = "1 node(s) didn't have free ports for the requested pod ports";

#[test]
fn node_ports_row_1_owners_take_their_ports_of_one_reservation_in_turn() {
    let pods: [(&str, &str, &[u16]); 3] = [("a", "web", &[7777]), ("b", "web", &[8888]), ("c", "web", &[7777])];
    let places = with_ports(&[&[7777, 8888, 9999]], false, &pods);
    assert_eq!(places[..2], ["node-0 of r0", "node-0 of r0"]);
    assert!(places[2].starts_with(TAKEN), "a has it: {}", places[2]);
}

#[test]
fn node_ports_row_2_a_pod_may_take_ports_of_several_reservations() {
    let reserved: [&[u16]; 2] = [&[7777], &[8888]];
    let places = with_ports(&reserved, true, &[("a", "web", &[7777]), ("b", "web", &[8888])]);
    assert!(places.iter().all(|place| place.starts_with("node-0 of r")), "{places:?}");
    assert_ne!(places[0], places[1], "each spends one");
    let places = with_ports(&reserved, true, &[("a", "web", &[7777, 8888, 9000])]);
    assert!(places[0].starts_with("node-0 of r"), "two reserved ports and one of the node: {places:?}");
}

#[test]
fn node_ports_row_3_others_do_not_get_reserved_ports() {
    let pods: [(&str, &str, &[u16]); 2] = [("a", "other", &[7777]), ("b", "other", &[6666])];
    assert_eq!(with_ports(&[&[7777, 8888, 9999]], true, &pods), [TAKEN, "node-0"]);
}

// === VolumeRestrictions and NodeVolumeLimits ===

fn claim(name: &str, mode: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: default}}\nspec: \
         {{accessModes: [{mode}], storageClassName: fast, volumeName: pv-{name}, resources: {{requests: {{storage: \
         1Gi}}}}}}\nstatus: {{phase: Bound}}\n---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: \
         pv-{name}}}\nspec: {{capacity: {{storage: 1Gi}}, accessModes: [{mode}], storageClassName: fast, csi: {{driver: \
         csi.example.com, volumeHandle: h-{name}}}, claimRef: {{namespace: default, name: {name}}}}}"
    )
}

fn volume(claim: &str) -> String {
    format!("volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}],")
}

#[test]
fn volume_restrictions_a_read_write_once_pod_claim_is_held_for_the_owner() {
    let mut world = World::nodes(&["node-0", "node-1"], "16", 32);
    world.add(&claim("data", "ReadWriteOncePod"));
    let uses = volume("data");
    let requests = "cpu: 1";
    world.reservation(&Reserve {
        name: "r",
        requests,
        template: &uses,
        spec: "allocateOnce: false,",
        ..Reserve::default()
    });
    world.pod("other", "other", "cpu: 1", Extra { spec: &uses, ..none() });
    world.pod("owner", "web", "cpu: 1", Extra { spec: &uses, ..none() });
    world.pod("second", "web", "cpu: 1", Extra { spec: &uses, ..none() });
    let outcome = world.run();
    let in_use = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                  another pod";
    assert!(outcome.of("r").starts_with("node-"));
    assert_eq!(outcome.of("other"), in_use);
    assert_eq!(outcome.of("owner"), format!("{} of r", outcome.of("r")));
    assert!(outcome.of("second").starts_with(in_use), "{}", outcome.of("second"));
}

#[test]
fn volume_restrictions_a_claim_is_held_from_its_owner_on_another_node_and_from_nobody_without_it() {
    let mut world = two_nodes();
    world.add(&claim("data", "ReadWriteOncePod"));
    let uses = volume("data");
    let reserve = Reserve { name: "r", requests: "cpu: 1", template: &uses, on: Some("node-0"), ..Reserve::default() };
    let elsewhere = format!("{uses} nodeSelector: {{kubernetes.io/hostname: node-1}},");
    world.reservation(&reserve).pod("owner", "web", "cpu: 1", Extra { spec: &elsewhere, ..none() });
    world.pod("other", "other", "cpu: 1", Extra { spec: "nodeSelector: {kubernetes.io/hostname: node-0},", ..none() });
    let outcome = world.run();
    let in_use = "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                  another pod";
    assert!(outcome.of("owner").contains(in_use), "{}", outcome.of("owner"));
    assert_eq!(outcome.of("other"), "node-0");
}

#[test]
fn volume_restrictions_a_disk_is_held_for_the_owner() {
    let mut world = machine();
    let disk = "volumes: [{name: v, gcePersistentDisk: {pdName: x}}],";
    let spec = "allocateOnce: false,";
    world.reservation(&Reserve { name: "r", requests: "cpu: 2", template: disk, spec, ..Reserve::default() });
    world.pod("other", "other", "cpu: 1", Extra { spec: disk, ..none() });
    world.pod("owner", "web", "cpu: 1", Extra { spec: disk, ..none() });
    world.pod("second", "web", "cpu: 1", Extra { spec: disk, ..none() });
    let outcome = world.run();
    assert_eq!((outcome.of("r"), outcome.of("owner")), ("node-0", "node-0 of r"));
    assert_eq!(outcome.of("other"), "1 node(s) had no available disk");
    assert!(outcome.of("second").starts_with("1 node(s) had no available disk"), "{}", outcome.of("second"));
}

/// A node that takes so many volumes of a driver, with a Reservation that holds the place of the claim `mine`.
fn with_volume_limit(limit: u32) -> World {
    let mut world = machine();
    world.add(&claim("mine", "ReadWriteOnce")).add(&claim("theirs", "ReadWriteOnce"));
    world.add(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {{name: node-0}}\nspec: {{drivers: [{{name: \
         csi.example.com, nodeID: node-0, topologyKeys: [], allocatable: {{count: {limit}}}}}]}}"
    ));
    let (template, spec, on) = (volume("mine"), "allocateOnce: false,", Some("node-0"));
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", template: &template, spec, on, ..Reserve::default() });
    world
}

const TOO_MANY: &str = "1 node(s) exceed max volume count";

#[rstest]
#[case::its_owner_takes_the_one_place("web", "mine", 1, "node-0 of r")]
#[case::which_is_kept_from_others("other", "theirs", 1, TOO_MANY)]
#[case::there_is_another_place("other", "theirs", 2, "node-0")]
#[case::the_same_volume_counts_once("other", "mine", 1, "node-0")]
fn node_volume_limits_an_attachment_is_held_for_the_owner(
    #[case] app: &str,
    #[case] claim: &str,
    #[case] limit: u32,
    #[case] place: &str,
) {
    let mut world = with_volume_limit(limit);
    world.pod("a", app, "cpu: 1", Extra { spec: &volume(claim), ..none() });
    assert_eq!(world.run().of("a"), place);
}

#[test]
fn node_volume_limits_the_volume_of_an_owner_counts() {
    let mut world = with_volume_limit(1);
    world.pod("first", "web", "cpu: 1", Extra { spec: &volume("mine"), ..none() });
    world.pod("second", "web", "cpu: 1", Extra { spec: &volume("theirs"), ..none() });
    let outcome = world.run();
    assert_eq!(outcome.of("first"), "node-0 of r");
    assert!(outcome.of("second").starts_with(TOO_MANY), "{}", outcome.of("second"));
}

// === InterPodAffinity: hostname, two nodes ===

fn near(app: &str) -> String {
    term("podAffinity", app)
}

fn away_from(app: &str) -> String {
    term("podAntiAffinity", app)
}

fn term(kind: &str, app: &str) -> String {
    format!(
        "affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname, \
         labelSelector: {{matchLabels: {{app: {app}}}}}}}]}}}},"
    )
}

fn two_nodes() -> World {
    World::nodes(&["node-0", "node-1"], "16", 32)
}

#[rstest]
#[case::row_1_one_owner("", &["a"])]
#[case::row_2_several_owners("allocateOnce: false,", &["a", "b", "c"])]
fn inter_pod_affinity_rows_1_and_2_owners_draw_near_the_pods_that_they_must_be_near(
    #[case] spec: &str,
    #[case] owners: &[&str],
) {
    let mut world = two_nodes();
    world.running("db", "db", "node-1", "cpu: 1", none());
    let near = near("db");
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", spec, template: &near, ..Reserve::default() });
    for name in owners {
        world.pod(name, "web", "cpu: 1", Extra { spec: &near, ..none() });
    }
    let outcome = world.run();
    assert_eq!(outcome.of("r"), "node-1");
    for name in owners {
        assert_eq!(outcome.of(name), "node-1 of r", "{name}");
    }
}

#[test]
fn inter_pod_affinity_row_3_a_reservation_does_not_keep_its_owner_away() {
    let mut world = two_nodes();
    let apart = away_from("web");
    let reserve =
        Reserve { name: "r", requests: "cpu: 4", template: &apart, template_labels: "app: web", ..Reserve::default() };
    world.reservation(&reserve).pod("a", "web", "cpu: 4", Extra { spec: &apart, ..none() });
    let outcome = world.run();
    assert_eq!(outcome.of("a"), format!("{} of r", outcome.of("r")));
}

#[test]
fn inter_pod_affinity_a_reservation_is_not_the_pod_that_its_owner_must_be_near() {
    let mut world = two_nodes();
    let (near, template_labels) = (near("cache"), "app: cache");
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", template_labels, ..Reserve::default() });
    world.pod("owner", "web", "cpu: 1", Extra { spec: &near, ..none() });
    let outcome = world.run();
    assert!(outcome.of("owner").starts_with("2 node(s) didn't match pod affinity rules"), "{}", outcome.of("owner"));
}

#[test]
fn inter_pod_affinity_row_4_owners_that_exclude_each_other_draw_on_a_node_each() {
    let mut world = two_nodes();
    let apart = away_from("web");
    for name in ["r0", "r1", "r2"] {
        let template_labels = "app: web";
        world.reservation(&Reserve {
            name,
            requests: "cpu: 4",
            template: &apart,
            template_labels,
            ..Reserve::default()
        });
    }
    for name in ["a", "b", "c"] {
        world.pod(name, "web", "cpu: 4", Extra { spec: &apart, ..none() });
    }
    let outcome = world.run();
    assert_eq!((outcome.of("r0"), outcome.of("r1")), ("node-0", "node-1"), "Reservations exclude each other, too");
    assert_eq!(outcome.of("r2"), "2 node(s) didn't match pod anti-affinity rules");
    assert_eq!((outcome.of("a"), outcome.of("b")), ("node-0 of r0", "node-1 of r1"));
    assert_eq!(outcome.of("c"), "2 node(s) didn't match pod anti-affinity rules");
    // One that may be used again on one node: its second owner must not join the first.
    let mut world = World::nodes(&["node-0"], "16", 32);
    let (requests, spec, template_labels) = ("cpu: 8", "allocateOnce: false,", "app: web");
    world.reservation(&Reserve { name: "r", requests, spec, template: &apart, template_labels, ..Reserve::default() });
    for name in ["a", "b"] {
        world.pod(name, "web", "cpu: 4", Extra { spec: &apart, ..none() });
    }
    let outcome = world.run();
    assert_eq!(outcome.of("a"), "node-0 of r");
    assert!(outcome.of("b").starts_with("1 node(s) didn't match pod anti-affinity rules"), "{}", outcome.of("b"));
}

#[test]
fn inter_pod_affinity_row_5_others_count_a_reservation_as_a_pod_of_its_template() {
    let mut world = two_nodes();
    world.running("db", "db", "node-1", "cpu: 1", none());
    let near_db = near("db");
    let template_labels = "app: web";
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 14",
        template: &near_db,
        template_labels,
        ..Reserve::default()
    });
    world.pod("other", "other", "cpu: 2", Extra { spec: &near_db, ..none() });
    world.pod("follower", "other", "cpu: 1", Extra { spec: &near("web"), ..none() });
    let outcome = world.run();
    assert_eq!(outcome.of("r"), "node-1");
    assert_eq!(
        outcome.of("other"),
        "1 Insufficient cpu, 1 node(s) didn't match pod affinity rules",
        "the room is held"
    );
    assert_eq!(outcome.of("follower"), "node-1", "near the Reservation, on the core that is left");
}

#[test]
fn inter_pod_affinity_row_6_a_reservation_keeps_others_away() {
    let mut world = World::nodes(&["node-0"], "16", 32);
    let (apart, template_labels) = (away_from("web"), "app: web");
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", template_labels, ..Reserve::default() });
    world.pod("other", "other", "cpu: 1", Extra { spec: &apart, ..none() });
    assert_eq!(world.run().of("other"), "1 node(s) didn't match pod anti-affinity rules");
    // And the other way round: the template excludes them.
    let mut world = World::nodes(&["node-0"], "16", 32);
    let apart = away_from("other");
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4",
        template: &apart,
        template_labels,
        ..Reserve::default()
    });
    world.pod("other", "other", "cpu: 1", none());
    assert_eq!(world.run().of("other"), "1 node(s) didn't satisfy existing pods anti-affinity rules");
}

// === PodTopologySpread ===

#[test]
fn topology_spread_as_many_owners_as_nodes_spread_as_if_nothing_were_reserved() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: \
                  DoNotSchedule, labelSelector: {matchLabels: {app: web}}}],";
    let names = ["node-0", "node-1", "node-2"];
    let mut world = World::nodes(&names, "16", 32);
    for name in ["r0", "r1", "r2"] {
        let template_labels = "app: web";
        world.reservation(&Reserve {
            name,
            requests: "cpu: 4",
            template: spread,
            template_labels,
            ..Reserve::default()
        });
    }
    for name in ["a", "b", "c"] {
        world.pod(name, "web", "cpu: 4", Extra { spec: spread, ..none() });
    }
    let outcome = world.run();
    for (i, (reservation, owner)) in ["r0", "r1", "r2"].iter().zip(["a", "b", "c"]).enumerate() {
        assert_eq!(outcome.of(reservation), names[i]);
        assert_eq!(outcome.of(owner), format!("{} of {reservation}", names[i]));
    }
    assert!(outcome.allocated.is_empty(), "each was for one owner alone");
    // One Reservation that holds room for all of them: the spread wins over the room that is held.
    let mut world = World::nodes(&names, "16", 32);
    let (requests, spec, template_labels) = ("cpu: 12", "allocateOnce: false,", "app: web");
    world.reservation(&Reserve { name: "r", requests, spec, template: spread, template_labels, ..Reserve::default() });
    for name in ["a", "b", "c"] {
        world.pod(name, "web", "cpu: 4", Extra { spec: spread, ..none() });
    }
    let outcome = world.run();
    let places: Vec<&str> = ["a", "b", "c"].iter().map(|name| outcome.of(name)).collect();
    assert_eq!(places, ["node-0 of r", "node-1", "node-2"]);
}

#[test]
fn inter_pod_affinity_row_3_also_by_zone() {
    let mut world = two_nodes();
    let apart = away_from("web").replace("kubernetes.io/hostname", "topology.kubernetes.io/zone");
    let template_labels = "app: web";
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4",
        template: &apart,
        template_labels,
        ..Reserve::default()
    });
    world.pod("a", "web", "cpu: 4", Extra { spec: &apart, ..none() });
    let outcome = world.run();
    assert_eq!((outcome.of("r"), outcome.of("a")), ("node-0", "node-0 of r"), "it is not in the zone for its owner");
}

#[test]
fn a_reservation_and_its_first_owner_count_once_in_the_spread_of_others() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: \
                  DoNotSchedule, labelSelector: {matchLabels: {app: web}}}],";
    let mut world = two_nodes();
    world.running("full", "web", "node-1", "cpu: 16", none());
    let spec = "allocateOnce: false, owners: [{labelSelector: {matchLabels: {role: owner}}}],";
    let (requests, template_labels, on) = ("cpu: 4", "app: web", Some("node-0"));
    world.reservation(&Reserve { name: "r", requests, spec, template_labels, on, ..Reserve::default() });
    world.pod("owner", "web", "cpu: 2", Extra { labels: ", role: owner", ..none() });
    // One is on each node: with this one there are two on node-0. Were the Reservation counted beside its owner, three.
    world.pod("other", "web", "cpu: 3", Extra { spec: spread, ..none() });
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), outcome.of("other")), ("node-0 of r", "node-0"));
}
