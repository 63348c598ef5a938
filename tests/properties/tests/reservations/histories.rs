//! Random histories: Reservations and pods are created and bound, deleted, expire and are preempted. After each step the
//! cluster is read anew from what the history left, scheduled, and counted over from scratch.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::mk::{Extra, Outcome, Reserve, World};

const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];
const CPU: i64 = 8000;
const MIB: i64 = 16 * 1024;

#[derive(Clone, Debug)]
enum Step {
    Reserve { cores: i64, gib: i64, once: bool, policy: u8, app: u8, pre_allocates: bool },
    Pod { cores: i64, gib: i64, app: u8, priority: i32, must_draw: bool },
    DeletePod(usize),
    DeleteReservation(usize),
    Expire(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let app = 0_u8..2;
    prop_oneof![
        3 => (1_i64..5, 0_i64..6, any::<bool>(), 0_u8..3, app.clone(), select(vec![false, false, false, true])).prop_map(
            |(cores, gib, once, policy, app, pre_allocates)| Step::Reserve { cores, gib, once, policy, app, pre_allocates }
        ),
        6 => (0_i64..5, 0_i64..6, 0_u8..3, 0_i32..3, 0_u8..3).prop_map(
            |(cores, gib, app, priority, how)| Step::Pod {
                cores,
                gib,
                app,
                priority,
                must_draw: how == 1,
            }
        ),
        2 => (0_usize..16).prop_map(Step::DeletePod),
        1 => (0_usize..8).prop_map(Step::DeleteReservation),
        1 => (0_usize..8).prop_map(Step::Expire),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Available,
    Waiting,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug)]
struct Reservation {
    amounts: (i64, i64),
    once: bool,
    policy: u8,
    app: u8,
    pre_allocates: bool,
    phase: Phase,
    node: Option<String>,
    /// Owners that came by drawing, ever.
    drawn: usize,
}

#[derive(Clone, Debug)]
struct Pod {
    amounts: (i64, i64),
    app: u8,
    priority: i32,
    must_draw: bool,
    node: Option<String>,
    draws: Option<String>,
}

/// A cluster as its objects say.
#[derive(Clone, Debug, Default)]
struct History {
    reservations: BTreeMap<String, Reservation>,
    pods: BTreeMap<String, Pod>,
    created: usize,
}

fn app(app: u8) -> &'static str {
    ["web", "db", "none"][usize::from(app)]
}

fn amounts((cpu, mib): (i64, i64)) -> String {
    format!("cpu: '{cpu}m', memory: '{mib}Mi'")
}

impl History {
    fn apply(&mut self, step: &Step) {
        self.created += 1;
        let nth = |n: usize, names: Vec<&String>| names.get(n % names.len().max(1)).map(|name| (*name).clone());
        match *step {
            Step::Reserve { cores, gib, once, policy, app, pre_allocates } => {
                let reservation = Reservation {
                    amounts: (cores * 1000, gib * 1024),
                    once,
                    policy,
                    app,
                    pre_allocates,
                    phase: Phase::Pending,
                    node: None,
                    drawn: 0,
                };
                self.reservations.insert(format!("r{:02}", self.created), reservation);
            }
            Step::Pod { cores, gib, app, priority, must_draw } => {
                let amounts = (cores * 1000, gib * 1024);
                let pod = Pod { amounts, app, priority, must_draw, node: None, draws: None };
                self.pods.insert(format!("p{:02}", self.created), pod);
            }
            Step::DeletePod(n) => {
                if let Some(name) = nth(n, self.pods.keys().collect()) {
                    self.pods.remove(&name);
                }
            }
            Step::DeleteReservation(n) => {
                if let Some(name) = nth(n, self.reservations.keys().collect()) {
                    self.reservations.remove(&name);
                }
            }
            Step::Expire(n) => {
                if let Some(name) = nth(n, self.reservations.keys().collect()) {
                    let reservation = self.reservations.get_mut(&name).unwrap();
                    if reservation.phase != Phase::Succeeded {
                        reservation.phase = Phase::Failed;
                    }
                }
            }
        }
        // What a Reservation waited for has gone.
        for (name, reservation) in &mut self.reservations {
            let is_drawn = self.pods.values().any(|pod| pod.draws.as_deref() == Some(name));
            if reservation.phase == Phase::Waiting && !is_drawn {
                reservation.phase = Phase::Available;
            }
        }
    }

    fn world(&self) -> World {
        let mut world = World::nodes(&NODES, "8", 16);
        world.preempts = true;
        for (name, reservation) in &self.reservations {
            let policy =
                ["", "allocatePolicy: Aligned,", "allocatePolicy: Restricted,"][usize::from(reservation.policy)];
            let spec = format!(
                "allocateOnce: {}, {policy} preAllocation: {}, owners: [{{labelSelector: {{matchLabels: {{app: {}}}}}}}],",
                reservation.once,
                reservation.pre_allocates,
                app(reservation.app)
            );
            let phase = format!("{:?}", reservation.phase);
            let requests = amounts(reservation.amounts);
            world.reservation(&Reserve {
                name,
                requests: &requests,
                spec: &spec,
                on: reservation.node.as_deref(),
                phase: &phase,
                ..Reserve::default()
            });
        }
        for (name, pod) in &self.pods {
            let drawn = pod.draws.as_deref();
            let mut annotations = drawn.map_or_else(String::new, |name| {
                format!(
                    "scheduling.koordinator.sh/reservation-allocated: '{{\"name\":\"{name}\",\"uid\":\"u-{name}\"}}', "
                )
            });
            if pod.must_draw {
                annotations += "scheduling.koordinator.sh/reservation-affinity: '{}'";
            }
            let node = pod.node.as_ref().map_or_else(String::new, |node| format!("nodeName: {node}, "));
            let spec = format!("{node}priority: {},", pod.priority);
            let extra = Extra { annotations: &annotations, spec: &spec, ..Extra::default() };
            world.pod(name, app(pod.app), &amounts(pod.amounts), extra);
        }
        world
    }

    /// Takes over what the scheduler did.
    fn take(&mut self, outcome: &Outcome) {
        let on = |place: &str| -> (Option<String>, Option<String>) {
            let (node, from) = place.split_once(" of ").map_or((place, None), |(node, from)| (node, Some(from)));
            (NODES.contains(&node).then(|| node.to_owned()), from.map(str::to_owned))
        };
        for name in &outcome.evicted {
            assert!(self.pods.remove(name).is_some(), "{name} was there");
        }
        for bound in &outcome.bound {
            let (reservation, pod) = bound.split_once(": ").unwrap();
            let pod = self.pods.get_mut(pod).unwrap();
            assert_eq!(pod.draws, None, "no pod is bound twice");
            assert!(pod.node.is_some() && pod.app == self.reservations[reservation].app);
            pod.draws = Some(reservation.to_owned());
        }
        for (name, reservation) in self.reservations.iter_mut().filter(|(_, r)| r.phase == Phase::Pending) {
            let (node, _) = on(outcome.of(name));
            if node.is_some() {
                let waits = outcome.bound.iter().any(|bound| bound.starts_with(&format!("{name}: ")));
                reservation.phase = if waits { Phase::Waiting } else { Phase::Available };
                reservation.node = node;
            }
        }
        for (name, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.node.is_none()) {
            let (node, draws) = on(outcome.of(name));
            assert!(node.is_none() || draws.is_some() || !pod.must_draw, "{name} must draw");
            if let Some(reservation) = draws.as_ref().map(|name| self.reservations.get_mut(name).unwrap()) {
                assert_eq!(reservation.phase, Phase::Available, "{name} draws from what is available");
                assert_eq!((reservation.app, &reservation.node), (pod.app, &node), "{name} is an owner, and there");
                reservation.drawn += 1;
                if reservation.once {
                    reservation.phase = Phase::Succeeded;
                }
            }
            (pod.node, pod.draws) = (node, draws);
        }
    }

    /// What is neither used nor held on a node.
    fn free(&self, node: &str) -> (i64, i64) {
        let on_node = |pod: &&Pod| pod.node.as_deref() == Some(node);
        let used = |pods: &mut dyn Iterator<Item = &Pod>| {
            pods.fold((0, 0), |(cpu, mib), pod| (cpu + pod.amounts.0, mib + pod.amounts.1))
        };
        let (cpu, mib) = used(&mut self.pods.values().filter(on_node));
        let mut free = (CPU - cpu, MIB - mib);
        let holds = |r: &Reservation| matches!(r.phase, Phase::Available | Phase::Waiting);
        for (name, held) in self.reservations.iter().filter(|(_, r)| holds(r) && r.node.as_deref() == Some(node)) {
            let drawing = |pod: &&Pod| on_node(pod) && pod.draws.as_deref() == Some(name);
            let (cpu, mib) = used(&mut self.pods.values().filter(drawing));
            free.0 -= (held.amounts.0 - cpu).max(0);
            free.1 -= (held.amounts.1 - mib).max(0);
        }
        free
    }

    fn check(&self, outcome: &Outcome) {
        for node in NODES {
            let free = self.free(node);
            assert!(free.0 >= 0 && free.1 >= 0, "{node} is overcommitted by {free:?}: {self:#?}");
            assert_eq!(outcome.free[node], free, "{node}, counted over: {self:#?}");
        }
        for (name, reservation) in &self.reservations {
            assert!(!reservation.once || reservation.drawn <= 1, "{name} is for one owner alone");
            let drawing = self.pods.values().filter(|pod| pod.draws.as_deref() == Some(name));
            let (cpu, mib) = drawing.fold((0, 0), |sum, pod| (sum.0 + pod.amounts.0, sum.1 + pod.amounts.1));
            let is_over = |drawn: i64, reserved: i64| reserved > 0 && drawn > reserved;
            let over = is_over(cpu, reservation.amounts.0) || is_over(mib, reservation.amounts.1);
            assert!(reservation.policy != 2 || !over, "{name} is Restricted");
        }
    }
}

fn live(steps: &[Step]) {
    let mut history = History::default();
    for step in steps {
        history.apply(step);
        let outcome = history.world().run();
        history.take(&outcome);
        history.check(&outcome);
        // A second look changes nothing more than what waited for evictions.
        let again = history.world().run();
        assert!(again.evicted.is_empty(), "{:?} at rest: {history:#?}", again.evicted);
        history.take(&again);
        history.check(&again);
    }
    // All that was freed can be used again.
    history.pods.clear();
    for reservation in history.reservations.values_mut() {
        reservation.phase = Phase::Failed;
    }
    for (i, _) in NODES.iter().enumerate() {
        let amounts = (CPU, MIB);
        let pod = Pod { amounts, app: 2, priority: 0, must_draw: false, node: None, draws: None };
        history.pods.insert(format!("all-{i}"), pod);
    }
    let outcome = history.world().run();
    history.take(&outcome);
    assert!(history.pods.values().all(|pod| pod.node.is_some()), "{:?}", outcome.of("all-0"));
}

#[test]
fn no_history_overcommits_or_hands_room_to_others_and_all_accounts_equal_a_recount() {
    let cases = u32::try_from(berth_properties::n_cases(24)).unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&proptest::collection::vec(step(), 1..24), |steps| {
            live(&steps);
            Ok(())
        })
        .unwrap();
}
