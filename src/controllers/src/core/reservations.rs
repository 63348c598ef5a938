//! The Reservation controller: phases, conditions, owners and expiry, by the life cycle that scheduling decides.

use std::time::Duration;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESOURCE_STATUS};
use berth_api::{Reservation, ReservationCondition, ReservationPhase, ReservationStatus};
use berth_decisions::Binding;
use berth_disruption::WhoStays;
use berth_model::{Cluster, MemberKind, NodeRoom, PendingRow, Phase, PreAllocationMode, ReservationId};
use berth_scheduling::reservation::lifecycle::{
    self, AVAILABLE, Condition, CurrentOwner, EXPIRED, ROOM_TAKEN, SCHEDULED, SUCCEEDED, Seen, SeenOwner, Status,
    Terms, UNSCHEDULABLE, WAITING,
};
use berth_state::{ObjectRef, Patch, PodRecord};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::pools::replaced;
use super::{Core, Effect, Job};
use crate::claim::initialize::is_ready;
use crate::claim::on;
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::PodName;
use crate::write::{Op, Write};

/// How long a Reservation that is over is kept, as Koordinator's `gcDurationSeconds`.
const GARBAGE_AFTER: Duration = Duration::from_secs(86_400);
const REASONS: [&str; 7] = [SCHEDULED, UNSCHEDULABLE, AVAILABLE, WAITING, ROOM_TAKEN, SUCCEEDED, EXPIRED];

impl Core {
    /// A Reservation gets a node.
    pub(super) fn hold(&mut self, binding: &Binding, now: Timestamp) {
        let name = binding.object.key.name.to_string();
        let Some(reservation) = self.view.reservations.get(&name).cloned() else { return };
        if !self.is_placed_here(&reservation) {
            return;
        }
        let Some((status, allocatable)) = self.status_of(&reservation, now) else { return };
        let n_bound_pods = usize::from(binding.waits);
        let node = &binding.node.key.name;
        let next = lifecycle::scheduled(&status, node, allocatable, n_bound_pods, now.as_second());
        let next = written(&next, self.state.cluster(now));
        let patch = json!({"metadata": {"annotations": binding.annotations}});
        if !binding.annotations.is_empty() && !has_all(&reservation, binding) {
            // What it has to itself is written before it counts as available; the status follows with the next pass.
            let write = on(Kind::Reservation, &reservation.metadata, Op::Merge(patch));
            return self.write_once(Job::Hold(name), write);
        }
        let body = json!({"metadata": {"resourceVersion": reservation.metadata.resource_version}, "status": next});
        let write = on(Kind::Reservation, &reservation.metadata, Op::MergeStatus(body));
        if self.assume_and_write(Job::Hold(name), &binding.object, Patch::Status(Box::new(next)), write) {
            let message = format!("Successfully assigned to {node}");
            self.tell(Notice::about(Kind::Reservation, &reservation.metadata, SCHEDULED, message), now);
        }
    }

    /// The room of Reservations whose nodes are to go moves to others, in one write each, so that nobody else can take it
    /// meanwhile; whether some is to move.
    pub(super) fn move_rooms(&mut self, places: &berth_disruption::Places, now: Timestamp) -> bool {
        let mut has_any = false;
        for (key, node) in places.iter().filter(|(key, _)| key.kind == berth_state::Kind::Reservation) {
            has_any = true;
            let Some(known) = self.view.reservations.get(&*key.name) else { continue };
            let object = key.clone().with_uid(known.metadata.uid.as_deref());
            let node = berth_state::Key::new(berth_state::Kind::Node, "", node).with_uid(None);
            let annotations = std::collections::BTreeMap::new();
            self.hold(&Binding { object, node, draws_from: None, annotations, waits: false }, now);
        }
        has_any
    }

    /// Whether Berth gives a Reservation its node: not where its template names a scheduler whose pods Berth does not bind.
    fn is_placed_here(&self, reservation: &Reservation) -> bool {
        let spec = reservation.spec.template.spec.as_ref();
        self.is_scheduler_served(spec.and_then(|spec| spec.scheduler_name.as_deref()))
    }

    /// Whether Berth places what is for this scheduler, or for none by name.
    pub(super) fn is_scheduler_served(&self, name: Option<&str>) -> bool {
        let Some(names) = &self.options.scheduler_names else { return true };
        name.filter(|name| !name.is_empty()).is_none_or(|name| names.contains(name))
    }

    /// Why a node stays for the sake of a Reservation that another scheduler placed, which alone may move it.
    pub(super) fn anothers_room(&self, node: &str) -> Option<String> {
        let on_it = self.view.reservations_on(node).filter_map(|name| self.view.reservations.get(name));
        let mut holding = on_it.filter(|room| {
            let phase = room.status.as_ref().map(|status| status.phase);
            matches!(phase, Some(ReservationPhase::Available | ReservationPhase::Waiting))
        });
        let room = holding.find(|room| !self.is_placed_here(room))?;
        let name = room.metadata.name.as_deref().unwrap_or_default();
        Some(format!("node holds Reservation {name}, which cannot move: another scheduler placed it"))
    }

    fn write_once(&mut self, job: Job, write: Write) {
        if !self.queue.is_running(&job) {
            self.write(job, write);
        }
    }

    /// The next step of a Reservation's life.
    pub(super) fn step_reservation(&mut self, name: &str, now: Timestamp) {
        if self.step_unusable_reservation(name, now) {
            return;
        }
        let job = Job::Reservation(name.to_owned());
        let Some(reservation) = self.view.reservations.get(name).cloned() else {
            return self.queue.forget(&job);
        };
        if reservation.metadata.deletion_timestamp.is_some() || self.queue.is_running(&Job::Hold(name.to_owned())) {
            return;
        }
        let Some((status, _)) = self.status_of(&reservation, now) else { return };
        let seen = self.seen_of(&reservation, &status, now);
        let terms = terms_of(&reservation);
        let seconds = now.as_second();
        if lifecycle::is_garbage(&status, seen.is_node_lost, GARBAGE_AFTER, seconds) {
            return self.write(job, on(Kind::Reservation, &reservation.metadata, Op::Delete { grace: None }));
        }
        let mut next = lifecycle::sync(&terms, &status, &seen, seconds);
        let gives_up_at = lifecycle::gives_up_at(&next);
        if gives_up_at.is_some_and(|time| time <= seconds) && self.is_placed_here(&reservation) {
            next = lifecycle::planned_again(&next, seconds);
        }
        if differs(&status, &next) {
            let after = written(&next, self.state.cluster(now));
            let mut body =
                json!({"metadata": {"resourceVersion": reservation.metadata.resource_version}, "status": after});
            let before = reservation.status.clone().unwrap_or_default();
            // A merge leaves what it does not name.
            body["status"]["currentOwners"] = json!(after.current_owners);
            body["status"]["allocated"] = replaced(&before.allocated, &after.allocated);
            body["status"]["allocatable"] = replaced(&before.allocatable, &after.allocatable);
            body["status"]["nodeName"] = json!(after.node_name);
            if let Some((reason, message, is_warning)) = told_of(&status, &next) {
                let notice = Notice::about(Kind::Reservation, &reservation.metadata, reason, message);
                self.tell(Notice { is_warning, ..notice }, now);
            }
            return self.write(job, on(Kind::Reservation, &reservation.metadata, Op::MergeStatus(body)));
        }
        if let Some(wait) = lifecycle::next_check(&terms, &next, seconds) {
            self.queue.add_at(job.clone(), after(now, wait));
        }
        if let Some(time) = gives_up_at.and_then(|time| Timestamp::from_second(time).ok()).filter(|time| *time > now) {
            self.queue.add_at(job, time);
        }
    }

    /// Tells why a Reservation has no node.
    pub(super) fn explain_reservation(&mut self, object: &ObjectRef, message: &str, now: Timestamp) {
        let name = object.key.name.to_string();
        let Some(reservation) = self.view.reservations.get(&name).cloned() else { return };
        if !self.is_placed_here(&reservation) {
            return;
        }
        let Some((status, _)) = self.status_of(&reservation, now) else { return };
        let next = lifecycle::unschedulable(&status, message, now.as_second());
        if !differs(&status, &next) {
            return;
        }
        let body = written(&next, self.state.cluster(now));
        let body = json!({"metadata": {"resourceVersion": reservation.metadata.resource_version},
            "status": {"phase": body.phase, "conditions": body.conditions}});
        let write = on(Kind::Reservation, &reservation.metadata, Op::MergeStatus(body));
        self.effects.push(Effect::Write(None, Box::new(write)));
        self.tell(Notice::about(Kind::Reservation, &reservation.metadata, "FailedScheduling", message), now);
    }

    /// The status as it is written, in the model's terms, and what the Reservation asks for.
    fn status_of(&mut self, reservation: &Reservation, now: Timestamp) -> Option<(Status, berth_model::Resources)> {
        let name = reservation.metadata.name.as_deref()?;
        let cluster = self.state.cluster(now);
        let sym = cluster.symbols.get(name);
        let known = cluster.reservations.iter().find(|known| Some(known.name) == sym);
        let api = reservation.status.clone().unwrap_or_default();
        // One that has expired is not in the cluster any more: what is left to do is to say so.
        let reserves = known.map_or_else(|| read_amounts(&api.allocatable, cluster), |known| known.allocatable.clone());
        let condition = |type_: &str| read_condition(&api, type_);
        let status = Status {
            phase: berth_state::phase(api.phase),
            scheduled: condition("Scheduled"),
            ready: condition("Ready"),
            node: api.node_name.clone(),
            allocatable: if api.node_name.is_some() { reserves.clone() } else { berth_model::Resources::new() },
            allocated: read_amounts(&api.allocated, cluster),
            current_owners: api
                .current_owners
                .iter()
                .map(|owner| CurrentOwner {
                    uid: owner.uid.clone().unwrap_or_default(),
                    namespace: owner.namespace.clone().unwrap_or_default(),
                    name: owner.name.clone().unwrap_or_default(),
                })
                .collect(),
        };
        Some((status, reserves))
    }

    /// Whether a Reservation may be planned anew as its node goes away while it runs: not where another scheduler is to place it,
    /// nor where it has CPUs or devices of the node to itself, or waits for pods that run there.
    fn can_leave(&self, reservation: &Reservation, node: &str) -> bool {
        let node = self.view.nodes.get(node);
        let is_deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
        let is_going = node.is_some_and(|node| {
            let claim = self.view.claims_of_node(node).next();
            // A node that was deleted itself goes with its NodeClaim.
            is_deleted(claim.map_or(&node.metadata, |claim| &claim.metadata)) && is_ready(node)
        });
        let notes = reservation.metadata.annotations.iter().flatten();
        let has_units = notes.clone().any(|(key, _)| [RESOURCE_STATUS, DEVICE_ALLOCATED].contains(&key.as_str()));
        is_going && !has_units && !reservation.spec.pre_allocation && self.is_placed_here(reservation)
    }

    /// What is seen of a Reservation's node and of the pods that draw from it.
    fn seen_of(&mut self, reservation: &Reservation, status: &Status, now: Timestamp) -> Seen {
        let Some(node) = status.node.as_deref() else { return Seen::default() };
        let is_node_lost = self.state.node(node).is_none();
        let name = reservation.metadata.name.as_deref().unwrap_or_default();
        let mut owners = Vec::new();
        let cluster = self.state.cluster(now);
        let of_name = |sym| cluster.reservations_with_ids().find(|(_, known)| known.name == sym);
        let index = cluster.symbols.get(name).and_then(of_name).map(|(id, _)| id);
        let is_it = |known: &&berth_model::Node| !known.is_leaving && cluster.symbols.text(known.name) == node;
        let known_node = cluster.nodes.iter().find(is_it);
        let is_room_taken =
            index.zip(known_node).is_some_and(|(at, known)| is_room_taken(&NodeRoom::of_node(known), at, cluster));
        let is_capacity = known_node.is_some();
        let mut n_predecessors = 0;
        let mode = index.and_then(|at| cluster.reservation(at)?.pre_allocation).map(|how| how.mode);
        for pod in known_node.into_iter().flat_map(|known| &known.pods) {
            let candidate = pod.candidate.as_ref().filter(|_| pod.draws_from.is_none());
            n_predecessors += usize::from(candidate.is_some_and(|candidate| match mode {
                Some(PreAllocationMode::Owners) => candidate.owned_by.iter().any(|at| Some(*at) == index),
                Some(PreAllocationMode::Cluster) => candidate.priority.is_some(),
                None => false,
            }));
            if pod.draws_from.is_none() || pod.draws_from != index {
                continue;
            }
            let own = PodName { namespace: cluster.symbols.text(pod.namespace).to_owned(), name: pod.name.to_string() };
            // Who waits for its volumes may go elsewhere yet: one that is for one owner alone would have been used up.
            if self.pre_binding.get(&own).is_some() {
                continue;
            }
            let requests = cluster.spec(pod.spec).map(|spec| spec.requests.clone()).unwrap_or_default();
            owners.push((own.namespace, own.name, Some(requests)));
        }
        // A node that goes away is no capacity any more, but until they have stopped its pods draw as before.
        if !is_capacity && !is_node_lost {
            let known = status.current_owners.iter().filter(|owner| {
                let pod = self.state.pod(&owner.namespace, &owner.name);
                pod.is_some_and(|pod| {
                    pod.node() == Some(node) && pod.uid().as_deref() == Some(&owner.uid) && !pod.has_ended()
                })
            });
            let known: Vec<_> = known.map(|owner| (owner.namespace.clone(), owner.name.clone())).collect();
            let cluster = self.state.cluster(now);
            owners.extend(known.into_iter().map(|(namespace, name)| {
                let requests = requests_when_remade(cluster, &namespace, &name);
                (namespace, name, requests)
            }));
        }
        let is_node_going = self.can_leave(reservation, node);
        let going = self.view.nodes.get(node).filter(|_| is_node_going);
        let staying = going.map(|node| self.who_stays_on(node, &WhoStays::of(&self.state), now).0).unwrap_or_default();
        let since = status.scheduled.as_ref().map(|scheduled| scheduled.last_transition);
        let owners = owners.into_iter().map(|(namespace, name, requests)| {
            let pod = self.state.pod(&namespace, &name);
            let uid = pod.and_then(|pod| pod.uid()).unwrap_or_default().into_owned();
            let started = pod.and_then(|pod| pod.started()).map(Timestamp::as_second);
            let ran_before = reservation.spec.pre_allocation && started.zip(since).is_some_and(|(pod, own)| pod < own);
            let is_it = |pod: &&PodRecord| pod.namespace() == namespace && **pod.name() == *name;
            let leaves = is_node_going && !staying.iter().any(is_it);
            SeenOwner { owner: CurrentOwner { uid, namespace, name }, requests, ran_before, leaves }
        });
        let owners = owners.collect();
        Seen { owners, is_node_lost, is_node_going, is_room_taken, n_predecessors }
    }
}

/// What a pod of a node that goes away requests, if it is planned for as it will be made anew.
fn requests_when_remade(cluster: &Cluster, namespace: &str, name: &str) -> Option<berth_model::Resources> {
    let namespace = cluster.symbols.get(namespace)?;
    let is_it = |row: &&PendingRow| {
        row.kind == MemberKind::Pod
            && row.namespace == namespace
            && row.members.iter().any(|member| member.numbers.is_none() && *member.name == *name)
    };
    let row = cluster.pending.iter().find(is_it)?;
    cluster.spec(row.spec).map(|spec| spec.requests.clone())
}

/// Whether others use room that a Reservation holds. Where a node holds room for several, what is missing is missed by the last
/// of them first, so that no more of them move than must. What one was made larger by since it has its node was never free.
fn is_room_taken(room: &NodeRoom, reservation: ReservationId, cluster: &Cluster) -> bool {
    let mut missing = room.free().clone();
    for holding in room.holdings() {
        let Some(known) = cluster.reservation(holding.reservation) else { continue };
        for (id, available) in holding.available().iter() {
            let added = known.allocatable.get(id).saturating_sub(known.asked.get(id)).clamp(0, available.max(0));
            missing.set(id, missing.get(id).saturating_add(added));
        }
    }
    for holding in room.holdings().iter().rev() {
        let available = holding.available();
        let is_missed = missing.iter().any(|(id, free)| free < 0 && available.get(id) > 0);
        if is_missed && holding.reservation == reservation {
            return true;
        }
        if is_missed {
            missing.add(&available);
        }
    }
    false
}

fn has_all(reservation: &Reservation, binding: &Binding) -> bool {
    let known = reservation.metadata.annotations.clone().unwrap_or_default();
    binding.annotations.iter().all(|(key, value)| known.get(key) == Some(value))
}

fn terms_of(reservation: &Reservation) -> Terms {
    Terms {
        created: crate::claim::created(&reservation.metadata).map_or(0, Timestamp::as_second),
        expires: reservation.spec.expires.as_ref().map(|time| time.0.as_second()),
        ttl: reservation.spec.ttl.to_std().unwrap_or_default(),
        allocate_once: reservation.spec.allocate_once,
    }
}

/// What is told of a change, and whether it is a warning: that a Reservation has another phase, or no node any more.
fn told_of(before: &Status, next: &Status) -> Option<(&'static str, String, bool)> {
    if before.phase == next.phase {
        return None;
    }
    let said =
        |condition: &Option<Condition>| condition.as_ref().map_or_else(String::new, |known| known.message.clone());
    match next.phase {
        Phase::Pending => Some((UNSCHEDULABLE, said(&next.scheduled), true)),
        Phase::Waiting => Some((next.ready.as_ref()?.reason, said(&next.ready), true)),
        Phase::Available => Some((AVAILABLE, format!("holds room on node {}", next.node.as_deref()?), false)),
        Phase::Succeeded => Some((SUCCEEDED, "its owner has come".to_owned(), false)),
        Phase::Failed => {
            let why = said(&next.ready);
            Some((EXPIRED, if why.is_empty() { "its time is over".to_owned() } else { why }, true))
        }
    }
}

/// Whether anything but the time of the last look differs.
fn differs(a: &Status, b: &Status) -> bool {
    let seen = |condition: &Option<Condition>| {
        condition.as_ref().map(|known| (known.status, known.reason, known.message.clone()))
    };
    (a.phase, &a.node, &a.allocated, &a.current_owners) != (b.phase, &b.node, &b.allocated, &b.current_owners)
        || seen(&a.scheduled) != seen(&b.scheduled)
        || seen(&a.ready) != seen(&b.ready)
}

const fn api_phase(phase: Phase) -> ReservationPhase {
    match phase {
        Phase::Pending => ReservationPhase::Pending,
        Phase::Available => ReservationPhase::Available,
        Phase::Waiting => ReservationPhase::Waiting,
        Phase::Succeeded => ReservationPhase::Succeeded,
        Phase::Failed => ReservationPhase::Failed,
    }
}

/// A condition as it was written; one with a reason that nobody here writes counts as not there.
fn read_condition(status: &ReservationStatus, type_: &str) -> Option<Condition> {
    let known = status.conditions.iter().find(|known| known.type_ == type_)?;
    let seconds = |time: &Option<Time>| time.as_ref().map_or(0, |time| time.0.as_second());
    Some(Condition {
        status: known.status == "True",
        reason: REASONS.into_iter().find(|reason| *reason == known.reason)?,
        message: known.message.clone(),
        last_probe: seconds(&known.last_probe_time),
        last_transition: seconds(&known.last_transition_time),
    })
}

fn read_amounts(list: &berth_api::ResourceList, cluster: &Cluster) -> berth_model::Resources {
    let mut amounts = berth_model::Resources::new();
    for (id, name) in cluster.resource_names.iter() {
        let Some(amount) = list.get(cluster.symbols.text(name)) else { continue };
        // As the model counts: CPU in thousandths, all else in whole units.
        let count = if cluster.symbols.text(name) == "cpu" { amount.milli_ceil() } else { amount.value_ceil() };
        amounts.set(id, count.unwrap_or(i64::MAX));
    }
    amounts
}

/// The status as it is written.
fn written(status: &Status, cluster: &Cluster) -> ReservationStatus {
    let amounts = |amounts: &berth_model::Resources| {
        let amounts = berth_decisions::quantities(cluster, amounts).into_iter();
        amounts.map(|(name, amount)| (name.to_owned(), amount)).collect()
    };
    let time = |seconds: i64| Timestamp::from_second(seconds).ok().map(Time);
    let condition = |type_: &str, known: &Option<Condition>| {
        known.as_ref().map(|known| ReservationCondition {
            type_: type_.to_owned(),
            status: if known.status { "True" } else { "False" }.to_owned(),
            reason: known.reason.to_owned(),
            message: known.message.clone(),
            last_probe_time: time(known.last_probe),
            last_transition_time: time(known.last_transition),
        })
    };
    let conditions = [condition("Scheduled", &status.scheduled), condition("Ready", &status.ready)];
    ReservationStatus {
        phase: api_phase(status.phase),
        conditions: conditions.into_iter().flatten().collect(),
        current_owners: status
            .current_owners
            .iter()
            .map(|owner| ObjectReference {
                namespace: Some(owner.namespace.clone()),
                name: Some(owner.name.clone()),
                uid: Some(owner.uid.clone()),
                ..ObjectReference::default()
            })
            .collect(),
        node_name: status.node.clone(),
        allocatable: amounts(&status.allocatable),
        allocated: amounts(&status.allocated),
    }
}
