//! Commands carried out in the state: what is launched is a node, what is removed is gone, and the pods are where the
//! scheduler puts them. So the next command is considered in the cluster that this one leaves.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{Operator, Reservation, labels};
use berth_decisions::{Binding, DecideError, Decider, Launch, give_places, quantities};
use berth_model::{Cluster, InstanceType, Offering};
use berth_state::{AssumptionId, Event, Key, Kind, Object, ObjectRef, Patch, State, StayingPods, Time};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::candidate::Candidate;
use crate::command::Places;
use crate::pods;
use crate::simulate::{Insisting, by_name};

/// What was assumed, so that it can be taken back.
#[derive(Debug, Default)]
pub(crate) struct Played {
    assumed: Vec<AssumptionId>,
    /// Where each pod and Reservation that moved came, by name of the node.
    places: Places,
    /// The nodes that are not as they were, by name: they themselves, or what is on them.
    changed: BTreeSet<String>,
    /// Finite supplies of which an instance was taken.
    slots: Vec<String>,
    /// Reservations of which a slot counts as free that a command's node leaves.
    freed: Vec<String>,
    /// Who stayed on nodes that go away before others were added.
    staying: Option<StayingPods>,
}

// === impl Played ===

impl Played {
    /// Takes everything back, latest first.
    pub(crate) fn undo(mut self, state: &mut State) {
        for assumption in self.assumed.drain(..).rev() {
            state.withdraw(assumption);
        }
        for id in self.slots {
            state.give_slot_back(&id);
        }
        for id in self.freed {
            state.unfree_slot(&id);
        }
        if let Some(staying) = self.staying {
            // That is no object that can be refused.
            let _ = state.apply(Event::Stays(staying));
        }
    }

    /// A slot counts as free from now on that a command's node leaves.
    pub(crate) fn free_slot(&mut self, state: &mut State, id: String) {
        state.free_slot(&id);
        self.freed.push(id);
    }

    /// Where each pod that moved came, by name of the node.
    pub(crate) fn take_places(&mut self) -> Places {
        std::mem::take(&mut self.places)
    }

    /// The nodes that are not as they were, by name.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn merge(&mut self, other: Played) {
        self.assumed.extend(other.assumed);
        self.slots.extend(other.slots);
        self.freed.extend(other.freed);
    }

    /// A Reservation has a node at once. With CPUs or devices of the node to itself, or where it waits for room, it takes more
    /// than one write: then it has none yet.
    fn hold(&mut self, state: &mut State, binding: &Binding) {
        let known = state.get_as::<Reservation>("", &binding.object.key.name);
        let Some(known) = known.filter(|_| binding.annotations.is_empty() && !binding.waits) else { return };
        let patch = Patch::hold(known, &binding.node.key.name);
        self.assume(state, &binding.object, patch);
        self.places.push((binding.object.key.clone(), binding.node.key.name.to_string()));
    }

    /// Nodes are there that were launched; whether each has the slot that it was planned on, or another instance of which there
    /// are only so many.
    fn create(&mut self, state: &mut State, launches: &[(String, &Launch)], now: Time) -> bool {
        for (name, launch) in launches {
            let cluster = state.cluster(now);
            let of_type = type_of(cluster, launch);
            let offering = of_type.and_then(|of_type| offering_of(cluster, of_type, launch));
            let node = Object::from(node_of(cluster, name, launch, (of_type, offering)));
            if let Some(id) = supply_of(cluster, launch, offering) {
                if !state.take_slot(&id, now) {
                    return false;
                }
                self.slots.push(id);
            }
            if let Some(reference) = node.reference() {
                self.assume(state, &reference, Patch::Create(node));
            }
        }
        true
    }

    /// A pod is on its node.
    pub(crate) fn bind(&mut self, state: &mut State, binding: &Binding) {
        if binding.object.key.kind == Kind::Pod {
            let patch = Patch::Bind { node: binding.node.key.name.clone(), annotations: binding.annotations.clone() };
            self.assume(state, &binding.object, patch);
        }
    }

    pub(crate) fn assume(&mut self, state: &mut State, object: &ObjectRef, patch: Patch) {
        let nodes_of = |state: &State| match object.key.kind {
            Kind::Node => Some(object.key.name.to_string()),
            Kind::Pod => Some(state.pod(&object.key.namespace, &object.key.name)?.node()?.to_owned()),
            Kind::Reservation => state.get_as::<Reservation>("", &object.key.name)?.status.as_ref()?.node_name.clone(),
            _ => None,
        };
        self.changed.extend(nodes_of(state));
        self.assumed.extend(state.assume(object, patch).map(|write| write.assumption));
        self.changed.extend(nodes_of(state));
    }
}

/// The finite supply that a launch draws from, if there is one.
fn supply_of(cluster: &Cluster, launch: &Launch, offering: Option<&Offering>) -> Option<String> {
    let slots = offering.and_then(|offering| cluster.slots.get(offering.slots?.0 as usize));
    slots.map(|slots| cluster.symbols.text(slots.id).to_owned()).or_else(|| launch.offering.reservation_id.clone())
}

/// Launches nodes. `None`, and nothing is changed, where one finds no slot.
pub(crate) fn stand_up(state: &mut State, launches: &[(String, &Launch)], now: Time) -> Option<Played> {
    let mut played = Played::default();
    if played.create(state, launches, now) {
        return Some(played);
    }
    played.undo(state);
    None
}

/// Carries a command out. `None`, and nothing is changed, where a pod would not find its place again, or a launch no slot.
pub(crate) fn play(
    (state, decider): (&mut State, &mut Decider),
    (gone, insists): (&[&Candidate], &[Insisting]),
    launches: &[(String, &Launch)],
    options: &berth_decisions::Options,
    now: Time,
) -> Result<Option<Played>, DecideError> {
    let mut played = Played::default();
    // By name: one that moved before is made anew, and has no uid yet.
    let mut moved: BTreeSet<Key> = BTreeSet::new();
    for room in gone.iter().flat_map(|candidate| &candidate.held) {
        if let Some(known) = state.get_as::<Reservation>("", &room.key.name) {
            let patch = Patch::unhold(known);
            played.assume(state, room, patch);
        }
        moved.insert(room.key.clone());
    }
    played.staying = state.add_staying(gone.iter().flat_map(|candidate| &candidate.left_behind));
    for candidate in gone {
        let name = candidate.node.key.name.clone();
        let on_it: Vec<(ObjectRef, bool)> =
            state.pods_on(&name).map(|pod| (pod.reference(), pods::is_moved(pod))).collect();
        let leave = on_it.into_iter().filter(|(pod, _)| !candidate.left_behind.contains(pod));
        for (pod, is_moved) in leave {
            played.assume(state, &pod, if is_moved { Patch::Remake } else { Patch::Remove });
            if is_moved {
                moved.insert(pod.key);
            }
        }
        // With pods on it it is there until they have to leave.
        let goes = || if candidate.left_behind.is_empty() { Patch::Remove } else { Patch::Delete { at: now } };
        if let Some(claim) = &candidate.claim {
            played.assume(state, claim, goes());
        }
        played.assume(state, &candidate.node, goes());
    }
    for (pod, on) in insists {
        played.assume(state, pod, Patch::Insist(*on));
    }
    // What a removed node frees is not given back: it is free only when the cloud's count says so.
    if !played.create(state, launches, now) {
        // A command that was found beside this one took a slot.
        played.undo(state);
        return Ok(None);
    }
    let mut decision = decider.decide(state, &expecting(options, launches), now)?;
    give_places(&mut decision, &moved, state);
    for binding in &decision.bindings {
        if moved.contains(&binding.object.key) {
            if binding.object.key.kind == Kind::Reservation {
                played.hold(state, binding);
                continue;
            }
            played.bind(state, binding);
            // Who draws from a Reservation takes its room.
            if binding.draws_from.is_none() {
                played.places.push((binding.object.key.clone(), binding.node.key.name.to_string()));
            }
        }
    }
    let is_placed = |pod: &Key| {
        if pod.kind == Kind::Reservation {
            let held = state.get_as::<Reservation>("", &pod.name).and_then(|held| held.status.as_ref());
            return held.is_some_and(|status| status.node_name.is_some());
        }
        let bound = state.pod(&pod.namespace, &pod.name);
        bound.is_some_and(|pod| pod.node().is_some())
    };
    if moved.iter().all(is_placed) {
        return Ok(Some(played));
    }
    played.undo(state);
    Ok(None)
}

/// Whoever nodes are launched for comes to these.
fn expecting<'o>(
    options: &'o berth_decisions::Options,
    launches: &[(String, &Launch)],
) -> Cow<'o, berth_decisions::Options> {
    if launches.is_empty() {
        return Cow::Borrowed(options);
    }
    let mut options = options.clone();
    for (name, launch) in launches {
        let pods = launch.pods.iter().map(|pod| by_name(&pod.key));
        let names = pods.chain(launch.reservations.iter().map(|room| Box::from(&*room.key.name)));
        options.expected.insert(name.as_str().into(), Arc::new(names.collect()));
    }
    Cow::Owned(options)
}

/// The node that a launch becomes.
fn node_of(
    cluster: &Cluster,
    name: &str,
    launch: &Launch,
    (of_type, offering): (Option<&InstanceType>, Option<&Offering>),
) -> Node {
    let text = |sym| cluster.symbols.text(sym).to_owned();
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    own.extend(
        of_type.into_iter().flat_map(|of_type| of_type.labels.iter()).map(|(key, value)| (text(key), text(value))),
    );
    own.extend(
        of_type.and_then(|of_type| of_type.operating_systems.first()).map(|os| (labels::OS.to_owned(), text(*os))),
    );
    own.extend(offering.into_iter().flat_map(|offering| offering.labels.iter()).map(|(k, v)| (text(k), text(v))));
    for requirement in &launch.requirements {
        if let (Operator::In, [value]) = (requirement.operator, requirement.values.as_slice()) {
            own.insert(requirement.key.clone(), value.clone());
        }
    }
    own.insert(labels::INSTANCE_TYPE.to_owned(), launch.offering.instance_type.clone());
    own.insert(labels::CAPACITY_TYPE.to_owned(), launch.offering.capacity_type.clone());
    own.insert(labels::NODEPOOL.to_owned(), launch.node_pool.key.name.to_string());
    own.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    own.insert(labels::HOSTNAME.to_owned(), name.to_owned());
    let pool = cluster.node_pools.iter().find(|pool| cluster.symbols.text(pool.name) == &*launch.node_pool.key.name);
    let mut room = of_type.map(|of_type| of_type.resources.clone()).unwrap_or_default();
    if let Some(pool) = pool {
        room.subtract(&pool.reserved);
    }
    let room = quantities(cluster, &room).into_iter();
    let room: BTreeMap<String, Quantity> =
        room.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect();
    Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(own), ..ObjectMeta::default() },
        spec: Some(NodeSpec { taints: Some(launch.taints.clone()), ..NodeSpec::default() }),
        status: Some(NodeStatus { allocatable: Some(room.clone()), capacity: Some(room), ..NodeStatus::default() }),
    }
}

/// The type of a launch, as its NodePool's node class makes it.
fn type_of<'c>(cluster: &'c Cluster, launch: &Launch) -> Option<&'c InstanceType> {
    let pool = cluster.node_pools.iter().find(|pool| cluster.symbols.text(pool.name) == &*launch.node_pool.key.name);
    let class = pool.and_then(|pool| pool.node_class);
    let named = || {
        let all = cluster.instance_types.iter();
        all.filter(|of_type| cluster.symbols.text(of_type.name) == launch.offering.instance_type)
    };
    named().find(|of_type| of_type.node_class == class).or_else(|| named().next())
}

/// Where the catalogue has several alike, one of which more can be had.
fn offering_of<'c>(cluster: &Cluster, of_type: &'c InstanceType, launch: &Launch) -> Option<&'c Offering> {
    let is_it = |offering: &&Offering| {
        let zone = offering.zone.map(|zone| cluster.symbols.text(zone));
        let slots = offering.slots.and_then(|slots| cluster.slots.get(slots.0 as usize));
        let id = slots.filter(|slots| slots.is_reservation).map(|slots| cluster.symbols.text(slots.id));
        offering.capacity_type.name() == launch.offering.capacity_type
            && zone == launch.offering.zone.as_deref()
            && id == launch.offering.reservation_id.as_deref()
    };
    let has_more = |offering: &&Offering| {
        let slots = offering.slots.map(|slots| cluster.slots.get(slots.0 as usize).is_some_and(|slots| slots.free > 0));
        slots.unwrap_or(true)
    };
    let alike = || of_type.offerings.iter().filter(is_it);
    alike().find(has_more).or_else(|| alike().next())
}

/// A name that no node has.
pub(crate) fn replacement_name(state: &State, pool: &str, number: &mut usize) -> String {
    loop {
        *number += 1;
        let name = format!("{pool}-replacement-{number:05}");
        if !state.has(&Key::new(Kind::Node, "", &name)) {
            return name;
        }
    }
}
