//! Classes that see nodes alike share what they know of them: whoever was asked before, the answer is the same.

use berth_model::{ClassId, ReservationId, Universe};
use berth_scheduling::{Launchable, Scheduler};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::mk::{Extra, Reserve, World};

const NODES: [&str; 4] = ["node-0", "node-1", "node-2", "node-3"];

#[derive(Clone, Debug)]
struct Room {
    app: u8,
    cores: u8,
    policy: &'static str,
    order: u8,
    once: bool,
    on: Option<u8>,
    pinned: Option<u8>,
}

/// Pods that differ in their app alone.
#[derive(Clone, Debug)]
struct Pods {
    cores: u8,
    asks: &'static str,
    wants: &'static str,
    labels: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Binds a pod of a class where it would go.
    Bind(usize),
    Release(usize),
    /// Asks a class; nothing changes.
    Ask(usize),
}

fn room() -> impl Strategy<Value = Room> {
    let policy = select(vec!["", "allocatePolicy: Aligned,", "allocatePolicy: Restricted,"]);
    let place = prop_oneof![3 => Just((None, None)), 2 => (0_u8..4).prop_map(|n| (Some(n), None)), 1 => (0_u8..4).prop_map(|n| (None, Some(n)))];
    (0_u8..3, 1_u8..4, policy, 0_u8..3, any::<bool>(), place).prop_map(
        |(app, cores, policy, order, once, (on, pinned))| Room { app, cores, policy, order, once, on, pinned },
    )
}

fn pods() -> impl Strategy<Value = Pods> {
    let asks = select(vec![
        "",
        "",
        "scheduling.koordinator.sh/reservation-affinity: '{}'",
        r#"scheduling.koordinator.sh/reservation-affinity: '{"name":"room-1"}'"#,
        r#"scheduling.koordinator.sh/exact-match-reservation: '{"resourceNames":["cpu"]}'"#,
    ]);
    let selector = "labelSelector: {matchLabels: {tier: t}}";
    let term = format!("[{{{selector}, topologyKey: kubernetes.io/hostname}}]");
    let spread = |key: &str, when: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: {when}, {selector}}}],"
        )
    };
    let wants = select(vec![
        String::new(),
        String::new(),
        spread("kubernetes.io/hostname", "DoNotSchedule"),
        spread("topology.kubernetes.io/zone", "DoNotSchedule"),
        spread("topology.kubernetes.io/zone", "ScheduleAnyway"),
        format!("affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {term}}}}},"),
        "nodeSelector: {kubernetes.io/hostname: node-1},".to_owned(),
        "volumes: [{name: v, persistentVolumeClaim: {claimName: alone}}],".to_owned(),
    ]);
    let labels = select(vec!["", ", tier: t", ", scheduling.koordinator.sh/reservation-ignored: 'true'"]);
    (0_u8..4, asks, wants, labels).prop_map(|(cores, asks, wants, labels)| Pods {
        cores,
        asks,
        wants: String::leak(wants),
        labels,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..64).prop_map(Step::Bind),
        1 => (0_usize..8).prop_map(Step::Release),
        3 => (0_usize..64).prop_map(Step::Ask),
    ]
}

fn world(rooms: &[Room], pods: &[Pods]) -> World {
    let mut world = World::nodes(&NODES, "8", 16);
    world.add(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: alone, namespace: default}\nspec: {accessModes: \
         [ReadWriteOncePod], volumeName: pv, resources: {requests: {storage: 1Gi}}}\nstatus: {phase: Bound}",
    );
    world.add(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {accessModes: [ReadWriteOncePod], capacity: \
         {storage: 1Gi}, claimRef: {name: alone, namespace: default}, csi: {driver: d, volumeHandle: h}}",
    );
    for (i, room) in rooms.iter().enumerate() {
        let owners = format!("owners: [{{labelSelector: {{matchLabels: {{app: app-{}}}}}}}],", room.app);
        let spec = format!("allocateOnce: {}, {} {owners}", room.once, room.policy);
        let labels = format!("scheduling.koordinator.sh/reservation-order: '{}'", room.order);
        let template = room.pinned.map_or_else(String::new, |n| format!("nodeName: node-{n},"));
        world.reservation(&Reserve {
            name: &format!("room-{i}"),
            requests: &format!("cpu: '{}'", room.cores),
            spec: &spec,
            labels: if room.order == 0 { "" } else { &labels },
            template: &template,
            template_labels: "tier: t",
            on: room.on.map(|n| NODES[usize::from(n)]),
            ..Reserve::default()
        });
    }
    for (kind, pods) in pods.iter().enumerate() {
        let (extra, cores) = (
            Extra { labels: pods.labels, annotations: pods.asks, spec: pods.wants, container: "" },
            format!("cpu: '{}'", pods.cores),
        );
        for (app, i) in (0..12).map(|n| (n / 3, n % 3)) {
            world.pod(&format!("pod-{kind}-{app}-{i}"), &format!("app-{app}"), &cores, extra);
        }
    }
    world
}

fn hold(rooms: &[Room], pods: &[Pods], steps: &[Step]) {
    let mut cluster = world(rooms, pods).read();
    let universe = Universe::with_scores(&mut cluster);
    let n_classes = universe.classes.iter().filter(|class| class.count > 0).count();
    let mut scheduler = Scheduler::new(&cluster, &universe, Launchable::default());
    let mut done: Vec<Step> = Vec::new();
    let mut bound: Vec<(ClassId, usize)> = Vec::new();
    let mut left: Vec<u32> = universe.classes.iter().map(|class| class.count).collect();
    for &step in steps {
        let (Step::Bind(n) | Step::Ask(n) | Step::Release(n)) = step;
        if let Step::Release(n) = step {
            let reservation = n % rooms.len().max(1);
            scheduler.release(ReservationId::new(reservation));
            done.push(Step::Release(reservation));
            continue;
        }
        if n_classes == 0 {
            continue;
        }
        let class = ClassId(u32::try_from(n % n_classes).unwrap());
        let mut anew = Scheduler::new(&cluster, &universe, Launchable::default());
        for &step in &done {
            match step {
                Step::Bind(at) => anew.bind(bound[at].0, bound[at].1),
                Step::Release(n) => anew.release(ReservationId::new(n)),
                Step::Ask(_) => {}
            }
        }
        assert_eq!(scheduler.assess(class), anew.assess(class), "{class:?} after {done:?}, {bound:?}");
        let node = scheduler.choose(class);
        assert_eq!(node, anew.choose(class), "{class:?} after {done:?}, {bound:?}");
        if let (Step::Bind(_), Some(node), Some(left @ 1..)) = (step, node, left.get_mut(class.index())) {
            *left -= 1;
            scheduler.bind(class, node);
            done.push(Step::Bind(bound.len()));
            bound.push((class, node));
        }
    }
}

#[test]
fn what_a_class_is_told_does_not_depend_on_who_asked_before() {
    let cases = u32::try_from(berth_properties::n_cases(96)).unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let inputs = (
        proptest::collection::vec(room(), 0..8),
        proptest::collection::vec(pods(), 1..4),
        proptest::collection::vec(step(), 1..48),
    );
    runner
        .run(&inputs, |(rooms, pods, steps)| {
            hold(&rooms, &pods, &steps);
            Ok(())
        })
        .unwrap();
}
