//! Whatever comes between a question and its answer, and whenever the answer comes: what is decided from is what there is, nobody is
//! bound where there is no room, and nobody who fits waits for ever.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{Decider, decide};
use berth_model::{Cluster, MemberKind, Phase, Resources};
use proptest::prelude::*;

use super::aside::{aside, observe, waiting};
use super::*;
use crate::write::{Op, Outcome, Write};

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Happens {
    /// A pod comes in place of one of its name, with a resource that nobody named before where that is said.
    Pod(u8, u8, bool),
    /// A Reservation comes, on a node or to get one.
    Room(u8, u8),
    Node(u8),
    Gone(Kind, u8),
    /// A question is taken, where there is one and none is being answered.
    Asked,
    Answered,
    BrokeOff,
    Time,
}

fn happens() -> impl Strategy<Value = Happens> {
    let kind = prop_oneof![3 => Just(Kind::Pod), 2 => Just(Kind::Reservation), 1 => Just(Kind::Node)];
    prop_oneof![
        5 => (0..6_u8, any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(name, cpu, new)| Happens::Pod(name, cpu, new)),
        3 => (0..3_u8, 0..6_u8).prop_map(|(name, node)| Happens::Room(name, node)),
        1 => (0..5_u8).prop_map(Happens::Node),
        3 => (kind, 0..6_u8).prop_map(|(kind, name)| Happens::Gone(kind, name)),
        5 => Just(Happens::Asked),
        5 => Just(Happens::Answered),
        1 => Just(Happens::BrokeOff),
        6 => Just(Happens::Time),
    ]
}

/// The core, and an API server that does what it writes for pods and Reservations.
struct Played {
    core: Core,
    now: Timestamp,
    pods: BTreeMap<String, Pod>,
    rooms: BTreeMap<String, Reservation>,
    asked: Option<Box<Asked>>,
    version: u32,
}

impl Played {
    fn new() -> Self {
        let (core, now) = aside();
        Played { core, now, pods: BTreeMap::new(), rooms: BTreeMap::new(), asked: None, version: 10 }
    }

    fn version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn delete(&mut self, kind: Kind, mut metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) {
        metadata.resource_version = Some(self.version());
        self.core.handle(Input::Observed(Observed::Deleted(kind, Box::new(metadata))), self.now);
    }

    fn tell_pod(&mut self, mut pod: Pod) {
        let version = self.version();
        pod.metadata.resource_version = Some(version);
        self.pods.insert(pod.metadata.name.clone().unwrap(), pod.clone());
        observe(&mut self.core, Object::from(pod), self.now);
    }

    fn tell_room(&mut self, mut room: Reservation) {
        let version = self.version();
        room.metadata.resource_version = Some(version);
        self.rooms.insert(room.metadata.name.clone().unwrap(), room.clone());
        observe(&mut self.core, Object::from(room), self.now);
    }

    fn take(&mut self, what: &Happens) {
        match *what {
            Happens::Pod(name, cpu, has_new_resource) => {
                self.take(&Happens::Gone(Kind::Pod, name));
                let name = format!("w{name}");
                let Object::Pod(pod) = waiting(&name, ["500m", "1", "3", "6"][usize::from(cpu % 4)]) else { return };
                let mut pod = Arc::unwrap_or_clone(pod);
                pod.metadata.uid = Some(format!("{name}-{}", self.version));
                if cpu % 8 > 5 {
                    pod.metadata.labels = Some([("app".to_owned(), "x".to_owned())].into());
                }
                if let Some(container) =
                    pod.spec.as_mut().filter(|_| has_new_resource).and_then(|spec| spec.containers.first_mut())
                {
                    let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
                    requests
                        .insert(format!("example.com/r{}", self.version), serde_json::from_value(json!("1")).unwrap());
                }
                self.tell_pod(pod);
            }
            Happens::Room(name, node) => {
                self.take(&Happens::Gone(Kind::Reservation, name));
                let uid = format!("room{name}-{}", self.version);
                let status = (node < 3).then(
                    || json!({"phase": "Available", "nodeName": format!("n{node}"), "allocatable": {"cpu": "500m"}}),
                );
                self.tell_room(typed(json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
                    "metadata": {"name": format!("room{name}"), "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
                    "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}], "ttl": "0s", "template": {"spec":
                        {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}}},
                    "status": status})));
            }
            Happens::Node(at) => {
                let version = usize::try_from(self.version).unwrap();
                self.version += 1;
                observe(&mut self.core, claim(usize::from(at)), self.now);
                observe(&mut self.core, node(usize::from(at), version, "2026-01-01T00:00:00Z"), self.now);
            }
            Happens::Gone(Kind::Pod, name) => {
                if let Some(pod) = self.pods.remove(&format!("w{name}")) {
                    self.delete(Kind::Pod, pod.metadata);
                }
            }
            Happens::Gone(Kind::Reservation, name) => {
                if let Some(room) = self.rooms.remove(&format!("room{name}")) {
                    self.delete(Kind::Reservation, room.metadata);
                }
            }
            Happens::Gone(_, at) => {
                let Object::Node(node) = node(usize::from(at), 1, "2026-01-01T00:00:00Z") else { return };
                self.delete(Kind::Node, node.metadata.clone());
            }
            Happens::Asked => {
                if self.asked.is_none() {
                    self.asked = self.core.take_asked(self.now);
                }
            }
            Happens::Answered => {
                if let Some(asked) = self.asked.take() {
                    self.core.handle(Input::Solved(Some(Box::new(asked.answer()))), self.now);
                }
            }
            Happens::BrokeOff => {
                if self.asked.take().is_some() {
                    self.core.handle(Input::Solved(None), self.now);
                }
            }
            Happens::Time => self.work(),
        }
    }

    fn work(&mut self) {
        self.now = after(self.now, Duration::from_millis(500));
        for effect in self.core.work(self.now) {
            match effect {
                Effect::Write(Some(job @ (Job::Bind(_) | Job::Hold(_) | Job::Reservation(_))), write) => {
                    self.write(job, *write);
                }
                Effect::Write(..) => {}
                Effect::Ask(job, question) => {
                    if matches!(*question, Question::Drift(_)) {
                        self.core.handle(Input::Answered(job, Box::new(Answer::Drift(Ok(None)))), self.now);
                    }
                }
            }
        }
    }

    fn write(&mut self, job: Job, write: Write) {
        let name = write.key.name.clone();
        let is_done = match &write.op {
            Op::Bind(body) => {
                let target = body.pointer("/target/name").and_then(Value::as_str).map(str::to_owned);
                let known = self.pods.get(&name).filter(|pod| pod.metadata.uid.as_deref() == Some(&write.uid)).cloned();
                known.is_some_and(|mut pod| {
                    pod.spec.get_or_insert_default().node_name.clone_from(&target);
                    self.tell_pod(pod);
                    self.expect_room_on(target.as_deref().unwrap_or_default());
                    true
                })
            }
            Op::MergeStatus(body) => {
                let known =
                    self.rooms.get(&name).filter(|room| room.metadata.uid.as_deref() == Some(&write.uid)).cloned();
                known.is_some_and(|mut room| {
                    room.status = serde_json::from_value(body["status"].clone()).ok();
                    self.tell_room(room);
                    true
                })
            }
            _ => true,
        };
        let outcome = if is_done { Outcome::Done(None) } else { Outcome::NotFound };
        self.core.handle(Input::Written(Some(job), Box::new(write), outcome), self.now);
    }

    /// No node has more bound to it than its four CPUs. Each of the first three has two pods of one CPU from the start.
    fn expect_room_on(&self, node: &str) {
        let bound = self
            .pods
            .values()
            .filter_map(|pod| pod.spec.as_ref())
            .filter(|spec| spec.node_name.as_deref() == Some(node));
        let asked = bound.filter_map(|spec| {
            let cpu = spec.containers.first()?.resources.as_ref()?.requests.as_ref()?.get("cpu")?;
            cpu.0
                .strip_suffix('m')
                .map_or_else(|| cpu.0.parse().ok().map(|cores: u32| cores * 1_000), |m| m.parse().ok())
        });
        let before = if ["n0", "n1", "n2"].contains(&node) { 2_000 } else { 0 };
        let asked = asked.sum::<u32>() + before;
        assert!(asked <= 4_000, "{asked}m are bound to {node}: {:?}", self.pods);
    }

    /// What was converted, here or elsewhere, says what a conversion of what there is says. Nothing is converted for that: it would
    /// hide what is out of date.
    fn expect_current(&self) {
        let Some(is) = self.core.state.last_cluster().map(told) else { return };
        let mut anew = self.core.state.snapshot();
        assert_eq!(is, told(anew.cluster(self.now)));
    }

    /// What is kept between decisions decides as what is made anew.
    fn expect_same_decision(&mut self) {
        let (options, _) = self.core.begin_decision(false, self.now);
        let anew = Decider::new().decide(&mut self.core.state.snapshot(), &options, self.now).unwrap();
        let kept = self.core.decider.decide(&mut self.core.state, &options, self.now).unwrap();
        assert_eq!(format!("{kept:#?}"), format!("{anew:#?}"));
    }

    /// Everything that is asked is answered, until there is nothing more.
    fn settle(&mut self) {
        for _ in 0..12 {
            self.take(&Happens::Answered);
            self.take(&Happens::Asked);
            self.core.take_look();
            self.work();
        }
    }

    /// Whom a decision from what there is would bind now.
    fn may_be_bound(&mut self) -> Vec<String> {
        let (options, _) = self.core.begin_decision(false, self.now);
        let decision = decide(&mut self.core.state.snapshot(), &options, self.now).unwrap();
        decision.bindings.iter().map(|binding| binding.object.key.to_string()).collect()
    }
}

/// What a cluster says, in no order: who is on which node, what is left there, who waits, and which Reservations there are.
fn told(cluster: &Cluster) -> BTreeSet<String> {
    let text = |sym| cluster.symbols.text(sym);
    let amounts = |resources: &Resources| -> BTreeMap<&str, i64> {
        let named = resources.iter().filter(|(_, amount)| *amount != 0);
        named.filter_map(|(id, amount)| Some((text(cluster.resource_names.name(id)?), amount))).collect()
    };
    let nodes = cluster.nodes.iter().map(|node| {
        let pods: BTreeSet<String> =
            node.pods.iter().map(|pod| format!("{}/{}", text(pod.namespace), pod.name)).collect();
        let free = amounts(&node.free);
        format!(
            "node {}: {pods:?}, {} holdings, {free:?}, coming up {}",
            text(node.name),
            node.holdings.len(),
            node.is_coming_up
        )
    });
    let pending = cluster.pending.iter().flat_map(|row| {
        // Reservations have no namespace.
        let namespace = if row.kind == MemberKind::Pod { text(row.namespace) } else { "" };
        row.members
            .iter()
            .filter(|run| !run.is_empty())
            .map(move |run| format!("{:?} {namespace}/{} waits", row.kind, run.name))
    });
    let reservations = cluster
        .reservations
        .iter()
        .filter(|held| held.phase != Phase::Succeeded)
        .map(|held| format!("Reservation {}", text(held.name)));
    nodes.chain(pending).chain(reservations).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_was_decided_elsewhere_is_of_what_there_is_and_nobody_who_fits_waits_for_ever(history in prop::collection::vec(happens(), 1..60)) {
        let mut played = Played::new();
        for what in history {
            played.take(&what);
            played.expect_current();
        }
        played.settle();
        played.expect_current();
        prop_assert_eq!(played.may_be_bound(), Vec::<String>::new());
        played.expect_same_decision();
    }
}

/// `PROPTEST_CASES`, or few enough for every build.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(32)
}
