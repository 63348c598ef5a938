//! An API server and a cloud that tell a state what they hold: late, twice, out of order; and writes whose outcome gets
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::ReservationPhase;
use berth_decisions::{Decider, Options, Refreshed, Replica};
use berth_model::Insists;
use berth_state::{Event, Key, Kind, Object, ObjectRef, Outcome, Patch, SlotCount, State, Time, Typed, Write};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use serde_json::json;

use crate::objects;
use crate::seen::seen;
use crate::told::Told;
use crate::{NOW, decision_of, difference, fresh, options, rebuilt};

/// One thing that happens. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put(Kind, u8, u8),
    Delete(Kind, u8),
    Recreate(Kind, u8, u8),
    /// An event that was not told yet.
    Deliver(u8),
    /// One that may have been told long ago.
    Redeliver(u8),
    Relist(Kind, bool),
    /// A list is read, to be told later.
    List(Kind),
    Listed,
    Assume(u8, u8, u8),
    /// The API server does a write, or not.
    Write(u8, u8),
    /// The outcome of a write is told.
    Answer(u8),
    ReadAgain,
    /// What is to be read again is read, to be told later.
    Ask,
    Read(u8),
    Fork(Vec<(u8, u8, u8)>, bool),
    Offer(u8, bool),
    /// The cloud offers other types, and others to NodePools of some node classes.
    Types(u8, u8),
    /// The cloud counts instances of the reservation, and says which it left out.
    Count(u8, bool),
    /// Other pods stay on nodes that go away, or none do.
    Stays(u8),
    /// Some seconds pass.
    Wait(u8),
    /// A decision is made meanwhile, and held to one after a conversion of everything: of a copy, or of the state itself.
    Look(bool),
}

pub(crate) struct World {
    pub(crate) state: State,
    decider: Decider,
    pub(crate) now: Time,
    /// Whether decisions are made in forks.
    pub(crate) decides: bool,
    truth: BTreeMap<Key, Object>,
    version: u64,
    n_uids: u64,
    log: Vec<Event>,
    untold: Vec<usize>,
    writes: Vec<Write>,
    answers: Vec<(Write, Outcome)>,
    reads: Vec<(ObjectRef, Option<Object>)>,
    list: Option<(Kind, Vec<Object>, u64)>,
    offer: (u8, bool),
    types: (u8, u8),
    count: Option<(u8, bool)>,
    stays: u8,
    told: Told,
}

/// An order that a number stands for.
pub(crate) fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut seed = seed | 1;
    for i in (1..list.len()).rev() {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        list.swap(i, usize::try_from(seed % (i as u64 + 1)).unwrap());
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = World {
            state: rebuilt(&[], false),
            decider: Decider::new(),
            now: NOW,
            decides: true,
            truth: BTreeMap::new(),
            version: 10,
            n_uids: 0,
            log: Vec::new(),
            untold: Vec::new(),
            writes: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            list: None,
            offer: (2, true),
            types: (0, 0),
            count: None,
            stays: 0,
            told: Told::default(),
        };
        world.take(Step::Offer(2, true));
        world
    }

    pub(crate) fn objects(&self) -> Vec<Object> {
        self.truth.values().cloned().collect()
    }

    pub(crate) fn offer_to(&self, state: &mut State) {
        let seen = (!self.offer.1).then(|| BTreeSet::from(["i-1".to_owned()]));
        let catalogue = Arc::new(objects::catalogue(self.offer.0, self.types.0));
        state.apply(Event::Offered { catalogue, seen }).unwrap();
        let of_class = |(at, name): (usize, &&str)| {
            let own = Arc::new(objects::catalogue(self.offer.0, self.types.0 + self.types.1));
            let class = json!({"group": "berth.sh", "kind": "FakeNodeClass", "name": name});
            let has_own = self.types.1 >> at & 1 == 1;
            has_own.then(|| (serde_json::from_value::<berth_api::NodeClassRef>(class).unwrap(), own))
        };
        state.set_class_catalogues(objects::CLASSES.iter().enumerate().filter_map(of_class).collect());
        if let Some((free, sees_one)) = self.count {
            let seen = if sees_one { BTreeSet::from(["i-0".to_owned(), "c1".to_owned()]) } else { BTreeSet::new() };
            let count = SlotCount { reservation_id: "cr-1".to_owned(), free: u32::from(free), seen };
            state.apply(Event::Counted(vec![count])).unwrap();
        }
        state.apply(Event::Stays(objects::staying(self.stays))).unwrap();
    }

    /// An object comes, changes or goes, with writes, forks and lists between, and the state is told at once; of some changes
    /// a decision is made between.
    pub(crate) fn event(&mut self, kind: Kind, name: u8, variant: u8, what: u8) {
        match what % 8 {
            0 => self.take(Step::Delete(kind, name)),
            1 => self.take(Step::Recreate(kind, name, variant)),
            2 | 3 => self.take(Step::Put(kind, name, variant)),
            4 => {
                self.take(Step::Assume(variant % 8, name, what));
                self.take(Step::Write(0, variant));
                self.take(Step::Answer(0));
            }
            5 => self.take(Step::Fork(vec![(variant % 8, name, what)], variant.is_multiple_of(2))),
            6 => {
                self.take(Step::Delete(kind, name));
                self.take(Step::Relist(kind, true));
            }
            _ if kind == Kind::Node => self.take(Step::Count(variant % 4, name.is_multiple_of(2))),
            _ if kind == Kind::Reservation => self.take(Step::Wait(variant)),
            _ if kind == Kind::NodeClaim || kind == Kind::PodDisruptionBudget => self.take(Step::Stays(variant % 8)),
            _ if kind == Kind::NodePool => self.take(Step::Types(variant % 3, name % 4)),
            _ => self.take(Step::Redeliver(name)),
        }
        for at in std::mem::take(&mut self.untold) {
            self.tell(self.log[at].clone());
        }
        if what.is_multiple_of(3) {
            let decision = self.decision();
            if what.is_multiple_of(2) {
                self.hold(&decision);
            }
        }
    }

    /// Holds a decision to that of a copy that converts everything anew.
    fn hold(&self, decision: &str) {
        let anew = decision_of(&mut self.state.snapshot(), &mut Decider::new(), self.now);
        assert!(decision == anew, "converted anew\n{}", difference(decision, &anew));
    }

    /// Holds the converted cluster to that of a copy that converts everything anew.
    pub(crate) fn hold_cluster(&mut self) {
        let anew = seen(self.state.snapshot().cluster(self.now));
        let is = seen(self.state.cluster(self.now));
        assert!(is == anew, "converted anew\n{}", difference(&is, &anew));
    }

    /// What is decided now.
    pub(crate) fn decision(&mut self) -> String {
        decision_of(&mut self.state, &mut self.decider, self.now)
    }

    /// Goes on with what was converted elsewhere; whether it could.
    pub(crate) fn adopt(&mut self, refreshed: Refreshed, replica: &mut Replica) -> bool {
        refreshed.adopt(&mut self.state, &mut self.decider, replica)
    }

    /// What is decided at once is what one decides who looks at a copy for the first time, and nothing is converted for it;
    /// whether it was decided.
    pub(crate) fn decide_at_once(&mut self) -> bool {
        let (options, asked) = (Options { launches: false, ..options() }, BTreeSet::new());
        let n_conversions = self.state.n_conversions();
        let is = self.decider.decide_at_once(&mut self.state, &options, &asked, self.now).unwrap();
        assert_eq!(self.state.n_conversions(), n_conversions, "{:?}", self.state.conversions());
        if is.is_stale {
            return false;
        }
        let (mut copy, mut decider) = (self.state.snapshot(), Decider::new());
        decider.refresh(&mut copy, self.now);
        let anew = decider.decide_at_once(&mut copy, &options, &asked, self.now).unwrap();
        // Specs that nobody has any more may be left, and seem to be of some who could give way.
        assert!(anew.is_all || !is.is_all, "there is more to decide");
        let [is, anew] = [is, anew].map(|found| format!("{:#?}", found.decision));
        assert!(is == anew, "at once\n{}", difference(&is, &anew));
        true
    }

    fn tell(&mut self, event: Event) {
        // The deletion of what was created may come twice, and be understood with the answer that tells its uid.
        let of_old = self.told.older(&event).filter(|key| self.state.observed(key).is_some());
        let of_old = of_old.map(|key| (self.state.get(&key), key));
        self.told.note(&event);
        // Objects that cannot be used are refused; the state keeps which.
        let _ = self.state.apply(event);
        if let Some((before, key)) = of_old {
            assert_eq!(self.state.get(&key), before, "an older event of {key} changed it");
        }
    }

    /// Holds what is known of each object to the newest that was told, though more is to be told; and to that alone where no
    /// write is on its way.
    pub(crate) fn expect_what_was_told(&self) {
        let unsettled: BTreeSet<Key> = self.state.to_read_again().map(|object| object.key).collect();
        let written = self.writes.iter().chain(self.answers.iter().map(|(write, _)| write));
        let unsettled: BTreeSet<&Key> = written.map(|write| &write.object.key).chain(&unsettled).collect();
        for (key, newest) in self.told.newest() {
            let observed = self.state.observed(key);
            assert_eq!(observed, newest.map(objects::as_kept), "{key}");
            // That it is gone looks the same before it was created and after, of which nothing may have been told yet.
            let is_told = observed.is_some() || !self.is_untold(key);
            if observed == self.truth.get(key).map(objects::as_kept) && is_told && !unsettled.contains(key) {
                assert_eq!(self.state.get(key), observed, "{key} is as it was observed");
            }
        }
    }

    /// Whether something of an object is still to be told.
    fn is_untold(&self, key: &Key) -> bool {
        self.untold.iter().any(|at| match &self.log[*at] {
            Event::Applied(object) => Key::of(object).as_ref() == Some(key),
            Event::Deleted { object, .. } => object.key == *key,
            _ => false,
        })
    }

    fn record(&mut self, event: Event) {
        self.untold.push(self.log.len());
        self.log.push(event);
    }

    fn set(&mut self, mut object: Object) {
        self.version += 1;
        objects::metadata_of(&mut object).resource_version = Some(self.version.to_string());
        self.truth.insert(Key::of(&object).unwrap(), object.clone());
        self.record(Event::Applied(object));
    }

    pub(crate) fn put(&mut self, kind: Kind, name: u8, variant: u8) {
        let fresh = objects::object(kind, name, variant, "", 0);
        let key = Key::of(&fresh).unwrap();
        let known = self.truth.get(&key).and_then(|known| known.metadata().uid.clone());
        let uid = known.unwrap_or_else(|| self.new_uid());
        self.set(objects::object(kind, name, variant, &uid, 0));
    }

    fn new_uid(&mut self) -> String {
        self.n_uids += 1;
        format!("{}u{}", "x".repeat(usize::try_from(self.n_uids % 3).unwrap()), self.n_uids)
    }

    fn delete(&mut self, key: &Key) {
        let Some(gone) = self.truth.remove(key) else { return };
        self.version += 1;
        let object = gone.reference().unwrap();
        self.record(Event::Deleted { object, resource_version: Some(self.version.to_string()) });
    }

    fn pick(&self, kind: Kind, which: u8) -> Option<ObjectRef> {
        let known: Vec<ObjectRef> = self.state.objects(kind).filter_map(|(_, object)| object.reference()).collect();
        known.get(usize::from(which) % known.len().max(1)).cloned()
    }

    fn all_of(&self, kind: Kind) -> Vec<Object> {
        self.truth.values().filter(|object| object.kind() == kind).cloned().collect()
    }

    /// The watch goes on after a list: what was before and not told is never told.
    fn go_on_after(&mut self, kind: Kind, version: u64) {
        let is_after =
            |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok()).is_some_and(|at| at > version);
        let log = &self.log;
        self.untold.retain(|at| match &log[*at] {
            Event::Applied(object) if object.kind() == kind => is_after(object.metadata().resource_version.as_deref()),
            Event::Deleted { object, resource_version } if object.key.kind == kind => {
                is_after(resource_version.as_deref())
            }
            _ => true,
        });
    }

    fn offer_again(&mut self) {
        let mut state = std::mem::replace(&mut self.state, fresh());
        self.offer_to(&mut state);
        self.state = state;
    }

    #[expect(clippy::too_many_lines, reason = "one arm a step")]
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Put(kind, name, variant) => self.put(kind, name, variant),
            Step::Delete(kind, name) => {
                let key = Key::of(&objects::object(kind, name, 0, "", 0)).unwrap();
                self.delete(&key);
            }
            Step::Recreate(kind, name, variant) => {
                let key = Key::of(&objects::object(kind, name, variant, "", 0)).unwrap();
                self.delete(&key);
                self.put(kind, name, variant);
            }
            Step::Deliver(which) => {
                if !self.untold.is_empty() {
                    let at = self.untold.remove(usize::from(which) % self.untold.len());
                    self.tell(self.log[at].clone());
                }
            }
            Step::Redeliver(which) => {
                if !self.log.is_empty() {
                    let event = self.log[usize::from(which) % self.log.len()].clone();
                    self.tell(event);
                }
            }
            Step::Relist(kind, with_version) => {
                // It takes the place of one that was read before.
                self.list.take_if(|(listed, ..)| *listed == kind);
                let objects = self.all_of(kind);
                let resource_version = with_version.then(|| self.version.to_string());
                self.tell(Event::Relisted { kind, objects, resource_version });
                if with_version {
                    self.go_on_after(kind, self.version);
                }
            }
            Step::List(kind) => self.list = Some((kind, self.all_of(kind), self.version)),
            Step::Listed => {
                if let Some((kind, objects, version)) = self.list.take() {
                    self.tell(Event::Relisted { kind, objects, resource_version: Some(version.to_string()) });
                    self.go_on_after(kind, version);
                }
            }
            Step::Assume(what, a, b) => {
                if let Some((object, patch)) = self.change(what, a, b)
                    && let Some(write) = self.state.assume(&object, patch)
                {
                    self.writes.push(write);
                }
            }
            Step::Write(which, outcome) => {
                if !self.writes.is_empty() {
                    let write = self.writes.remove(usize::from(which) % self.writes.len());
                    self.write(write, outcome);
                }
            }
            Step::Answer(which) => {
                if !self.answers.is_empty() {
                    let (write, outcome) = self.answers.remove(usize::from(which) % self.answers.len());
                    self.tell(Event::Settled { assumption: write.assumption, outcome });
                }
            }
            Step::ReadAgain => {
                for object in self.state.to_read_again().collect::<Vec<_>>() {
                    let found = self.truth.get(&object.key).cloned();
                    self.tell(Event::Read { object, found });
                }
            }
            Step::Ask => {
                let asked = self.state.to_read_again().map(|object| {
                    let found = self.truth.get(&object.key).cloned();
                    (object, found)
                });
                self.reads = asked.collect();
            }
            Step::Read(which) => {
                if !self.reads.is_empty() {
                    let (object, found) = self.reads.remove(usize::from(which) % self.reads.len());
                    self.tell(Event::Read { object, found });
                }
            }
            Step::Fork(changes, commits) => self.fork(&changes, commits),
            Step::Offer(free, sees_all) => {
                (self.offer, self.count) = ((free, sees_all), None);
                self.offer_again();
            }
            Step::Count(free, sees_one) => {
                self.count = Some((free, sees_one));
                self.offer_again();
            }
            Step::Wait(seconds) => {
                let now = self.now.as_second() + i64::from(seconds % 4);
                self.now = Time::from_second(now).unwrap();
            }
            Step::Stays(which) => {
                self.stays = which;
                self.state.apply(Event::Stays(objects::staying(which))).unwrap();
            }
            Step::Types(types, classes) => {
                self.types = (types, classes);
                self.offer_again();
            }
            Step::Look(forgets) => {
                self.expect_what_was_told();
                if self.decides {
                    let decision = self.decision();
                    self.hold(&decision);
                    if forgets {
                        self.state.forget_cluster();
                    }
                }
            }
        }
    }

    /// What a decision may write.
    fn change(&self, what: u8, a: u8, b: u8) -> Option<(ObjectRef, Patch)> {
        let pod = || self.pick(Kind::Pod, a);
        let node = || self.pick(Kind::Node, b).map(|node| node.key.name);
        let is_free = |pod: &ObjectRef| {
            let pod = self.state.pod(&pod.key.namespace, &pod.key.name);
            pod.is_some_and(|pod| pod.node().is_none())
        };
        Some(match what % 8 {
            0 | 1 => (pod().filter(is_free)?, Patch::Bind { node: node()?, annotations: BTreeMap::new() }),
            2 => (pod()?, Patch::Delete { at: self.now }),
            3 => (pod().filter(is_free)?, Patch::Nominate { node: node() }),
            4 => {
                let object = self.pick(Kind::Reservation, a)?;
                let known = self.state.get_as::<berth_api::Reservation>("", &object.key.name)?;
                let patch = if b.is_multiple_of(2) { Patch::hold(known, &node()?) } else { Patch::release(known) };
                (object, patch)
            }
            5 => {
                let node = self.pick(if a.is_multiple_of(3) { Kind::NodeClaim } else { Kind::Node }, a)?;
                (node, Patch::Delete { at: self.now })
            }
            6 => {
                let object = self.pick(Kind::Node, a)?;
                let mut node = self.state.node(&object.key.name)?.to_node();
                node.spec.get_or_insert_default().unschedulable = Some(b.is_multiple_of(2));
                (object, Patch::Update(Object::from(node)))
            }
            _ => {
                let claim = objects::object(Kind::NodeClaim, a, b, "", 0);
                (claim.reference()?, Patch::Create(claim))
            }
        })
    }

    fn fork(&mut self, changes: &[(u8, u8, u8)], commits: bool) {
        let nodes: Vec<ObjectRef> = changes.iter().filter_map(|(_, _, c)| self.pick(Kind::Node, *c)).collect();
        let planned: Vec<_> = changes.iter().filter_map(|(a, b, c)| self.change(*a, *b, *c)).collect();
        let some = changes.iter().filter(|(a, ..)| a & 1 == 1);
        let staying: Vec<ObjectRef> = some.filter_map(|(_, b, _)| self.pick(Kind::Pod, *b)).collect();
        let now = self.now;
        let mut fork = self.state.fork();
        if commits && let (Some(node), Some((_, 0..64, _))) = (nodes.first(), changes.first()) {
            let _ = fork.remove_node(node, now);
        }
        for (object, patch) in planned {
            // What cannot be done is refused, and changes nothing.
            let _ = match patch {
                Patch::Bind { node, annotations } => fork.bind(&object, &node, annotations),
                Patch::Delete { at } => fork.evict(&object, at),
                Patch::Nominate { node } => fork.nominate(&object, node.as_deref()),
                Patch::Create(Object::NodeClaim(claim)) => fork.add_node_claim((*claim).clone()),
                Patch::Status(status) if status.phase == ReservationPhase::Available => {
                    fork.hold(&object, status.node_name.as_deref().unwrap_or_default())
                }
                _ => fork.release(&object),
            };
        }
        let _ = fork.take_slot("cr-1", now);
        if commits {
            self.writes.extend(fork.commit());
            return;
        }
        let mut insists = changes.iter().map(|(_, b, _)| (0..8).filter(move |place| b >> place & 1 == 1));
        fork.add_staying(&staying);
        for node in nodes {
            let on = insists.next().into_iter().flatten().fold(Insists::default(), Insists::with);
            for pod in fork.remove_node(&node, now).unwrap_or_default() {
                let _ = fork.insist(&pod, on);
            }
        }
        if self.decides {
            let decision = decision_of(fork.state(), &mut self.decider, now);
            let anew = decision_of(&mut fork.state().snapshot(), &mut Decider::new(), now);
            assert!(decision == anew, "in a fork\n{}", difference(&decision, &anew));
        }
    }

    /// Holds each object, and who is on which node, to what there is.
    pub(crate) fn expect_what_there_is(&self) {
        for &kind in Kind::ALL {
            let known: Vec<Object> = self.state.objects(kind).map(|(_, object)| object).collect();
            let expected = self.truth.values().filter(|object| object.kind() == kind);
            let expected: Vec<Object> = expected.map(objects::as_kept).collect();
            assert_eq!(known, expected);
        }
        let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        for node in self.truth.values().filter_map(Node::of).filter_map(|node| node.metadata.name.clone()) {
            let is_there = |pod: &Pod| node_of(pod).as_ref() == Some(&node);
            let expected = self.truth.values().filter_map(Pod::of).filter(|pod| is_there(pod)).count();
            assert_eq!(self.state.pods_on(&node).count(), expected, "on {node}");
        }
    }

    fn write(&mut self, write: Write, outcome: u8) {
        let is_done = outcome % 4 < 3 && self.carry_out(&write, outcome);
        let answer = match outcome % 4 {
            // A write that was not done is refused, or its answer is lost.
            _ if !is_done && outcome % 16 < 8 => Outcome::Refused,
            0 | 1 if is_done => {
                let written = self.truth.get(&write.object.key).map(|object| object.metadata().clone());
                let written = written.unwrap_or_default();
                let (version, uid) = (outcome.is_multiple_of(8), outcome % 64 >= 48);
                let resource_version = written.resource_version.filter(|_| !version);
                Outcome::Written { resource_version, uid: written.uid.filter(|_| !uid) }
            }
            _ => Outcome::Unknown,
        };
        self.answers.push((write, answer));
    }

    /// The API server's part of a write; whether it accepts it.
    fn carry_out(&mut self, write: &Write, how: u8) -> bool {
        let key = &write.object.key;
        let known = self.truth.get(key).cloned();
        let is_same = known.as_ref().is_some_and(|known| {
            write.object.uid.is_none() || known.metadata().uid.as_deref() == write.object.uid.as_deref()
        });
        match (&write.patch, known) {
            (Patch::Create(created), None) => {
                let mut created = created.clone();
                let uid = self.new_uid();
                if let Object::NodeClaim(claim) = &mut created {
                    Arc::make_mut(claim).metadata.uid = Some(uid);
                }
                self.set(created);
                true
            }
            (Patch::Create(_), _) => false,
            _ if !is_same => false,
            (Patch::Bind { node, .. }, Some(Object::Pod(mut pod))) => {
                let spec = Arc::make_mut(&mut pod).spec.get_or_insert_default();
                if spec.node_name.is_some() {
                    return false;
                }
                spec.node_name = Some(node.to_string());
                self.set(Object::Pod(pod));
                true
            }
            (Patch::Nominate { node }, Some(Object::Pod(mut pod))) => {
                let status = Arc::make_mut(&mut pod).status.get_or_insert_default();
                status.nominated_node_name = node.as_deref().map(str::to_owned);
                self.set(Object::Pod(pod));
                true
            }
            // What nothing holds back is gone at once.
            (Patch::Delete { .. }, Some(_)) if how % 64 >= 32 => {
                self.delete(key);
                true
            }
            (Patch::Delete { at }, Some(mut object)) => {
                objects::metadata_of(&mut object).deletion_timestamp.get_or_insert(MetaTime(*at));
                self.set(object);
                true
            }
            (Patch::Update(updated), Some(known)) => {
                let is_current = known.metadata().resource_version == updated.metadata().resource_version;
                if is_current {
                    self.set(updated.clone());
                }
                is_current
            }
            (Patch::Status(status), Some(Object::Reservation(mut reservation))) => {
                Arc::make_mut(&mut reservation).status = Some((**status).clone());
                self.set(Object::Reservation(reservation));
                true
            }
            _ => false,
        }
    }

    /// Everything is told, in some order, and every outcome is known.
    pub(crate) fn settle(&mut self, order: u64) {
        for (write, outcome) in std::mem::take(&mut self.writes).into_iter().zip(0_u8..) {
            self.write(write, outcome.wrapping_add(order.to_le_bytes()[0]));
        }
        let mut untold = std::mem::take(&mut self.untold);
        shuffle(&mut untold, order);
        let half = untold.len() / 2;
        for &at in &untold[..half] {
            self.tell(self.log[at].clone());
        }
        self.take(Step::Listed);
        for (write, outcome) in std::mem::take(&mut self.answers) {
            self.tell(Event::Settled { assumption: write.assumption, outcome });
        }
        for (object, found) in std::mem::take(&mut self.reads) {
            self.tell(Event::Read { object, found });
        }
        for &at in &untold[half..] {
            self.tell(self.log[at].clone());
        }
        // What was read may leave open what became of another write.
        for _ in 0..8 {
            self.take(Step::ReadAgain);
        }
        assert_eq!(self.state.to_read_again().next(), None, "what is read again is known");
    }
}
