//! Provisioning: what waits together is planned together, and becomes NodeClaims.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClaimSpec, NodePool, PlannedFor, PlannedOffering, ResourceRequirements, labels};
use berth_decisions::{Decision, Launch};
use berth_model::Money;
use berth_scheduling::reasons::of_pool;
use berth_state::{ObjectRef, Patch};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rustc_hash::FxHasher;

use super::ceilings::Spend;
use super::disruption::MayStay;
use super::recall::backoff_message;
use super::relabel::admits_slots;
use super::schedule::why_unschedulable;
use super::{Core, Job};
use crate::clock::{after, back_off, elapsed};
use crate::kind::{Kind, NamedObject};
use crate::metrics::Counter;
use crate::notice::Notice;
use crate::write::{Op, Outcome, Write};
use berth_disruption::{HASH_VERSION, template_hash};

/// How often what found no place is planned again although nothing changed.
const RETRY: Duration = Duration::from_secs(30);
/// How soon it is planned again while a command is being decided, or owners wait for what is launched for their Reservations.
const SETTLES: Duration = Duration::from_secs(1);
/// How often it is looked whether pods came to the nodes that were launched for them.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A pod for which so many nodes were launched, and that was bound to none, waits before the next.
const PATIENCE: u32 = 2;
/// The first and the longest wait of such a pod.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30 * 60));
/// The first and the longest wait of a NodePool whose NodeClaims the API server does not take.
const CREATE_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The nodes that were launched for a pod or a Reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    /// The NodeClaim that it waits for.
    pub(super) claim: String,
    pub(super) n_launches: u32,
    /// When the last was launched, together with others, or ended without having become a node: the next one waits from then.
    pub(super) last: Timestamp,
}

impl Planned {
    /// Nothing yet.
    pub(super) const fn none(now: Timestamp) -> Self {
        Self { claim: String::new(), n_launches: 0, last: now }
    }
}

impl Core {
    /// Plans what waits, once no more comes for a while.
    pub(super) fn provision(&mut self, now: Timestamp) {
        if let Some((first, last)) = self.batch {
            let timings = &self.options.timings;
            let due = after(last, timings.batch_idle).min(after(first, timings.batch_max));
            if due > now {
                return self.queue.add_at(Job::Provision, due);
            }
        }
        self.batch = None;
        if self.awaits_offers() {
            return self.queue.add_at(Job::Provision, after(now, Duration::from_secs(1)));
        }
        if self.want_decision(true) {
            return;
        }
        let Some(decision) = self.decide(true, now) else {
            return self.queue.add_at(Job::Provision, after(now, Duration::from_secs(1)));
        };
        let span = self.decision.clone();
        let _entered = span.enter();
        self.carry_out(&decision, now);
    }

    /// Does what was decided.
    pub(super) fn carry_out(&mut self, decision: &Decision, now: Timestamp) {
        self.bind_all(decision, now);
        self.note_provided(decision, now);
        self.await_rooms(&decision.nominations);
        if decision.holds_back {
            self.held_back = Some(now);
            self.queue.add_at(Job::Provision, after(now, SETTLES));
        }
        let mut n_put_off = 0;
        let mut spend = if decision.launches.is_empty() { Spend::new() } else { self.spend_for_ceilings() };
        let may_stay = if decision.launches.is_empty() { MayStay::new() } else { self.may_stay(now) };
        for launch in &decision.launches {
            if !self.launch(launch, (&mut spend, &may_stay), now) {
                n_put_off += 1;
            }
        }
        self.hold_for_interrupted(decision, now);
        self.explain(&decision.refusals, now);
        self.explain_waiting(&decision.nominations, now);
        let refused = decision.refusals.iter().flat_map(|refusal| &refusal.objects);
        let waits = |object: &&ObjectRef| object.key.kind == berth_state::Kind::Pod && !self.is_gated(&object.key);
        self.n_refused = refused.filter(waits).count();
        // Pods that run yet wait for nodes that come up as others do.
        let awaits_any = !decision.nominations.is_empty()
            || decision.moves.iter().any(|moves| !self.is_ready_place(&moves.node.key.name));
        self.has_waiting = !decision.refusals.is_empty() || awaits_any || !decision.launches.is_empty();
        self.moves_to = decision.moves.iter().map(|moves| moves.node.key.name.to_string()).collect();
        if !decision.refusals.is_empty() || n_put_off > 0 {
            self.queue.add_at(Job::Provision, after(now, RETRY));
        }
        if awaits_any {
            // Not all may come where they are expected.
            self.queue.add_at(Job::Provision, after(now, LOOK_AGAIN));
        }
        let (n_bound, n_launched) = (decision.bindings.len(), decision.launches.len() - n_put_off);
        if n_bound + n_launched > 0 {
            tracing::info!(n_bound, n_launched, n_put_off, n_refused = decision.refusals.len(), "planned");
        }
    }

    /// Creates the NodeClaim of a planned node; false where that must wait.
    fn launch(&mut self, launch: &Launch, (spend, may_stay): (&mut Spend, &MayStay), now: Timestamp) -> bool {
        // Owners that another scheduler has not tried yet may be planned with their Reservation: they are expected to draw from it,
        // and nothing is launched for them.
        let pods = launch.pods.iter().filter(|pod| !self.is_left_to_another(pod));
        let waiting: Vec<&ObjectRef> = pods.chain(&launch.reservations).collect();
        if waiting.iter().all(|object| self.is_provided_for(object, now)) {
            return false;
        }
        if waiting.iter().any(|object| self.may_yet_stay(object)) {
            self.queue.add_at(Job::Provision, after(now, SETTLES));
            return false;
        }
        let created = match self.over_limits_if_they_stay(launch, may_stay, now) {
            None => self.create_claim(launch, spend, now),
            Some(why) => Err(why),
        };
        let name = match created {
            Ok(name) => name,
            Err(why) => {
                self.explain_put_off(&waiting, &launch.node_pool, &why, now);
                return false;
            }
        };
        self.await_claim(launch, &name, now);
        for object in waiting {
            let Some(uid) = object.uid.as_deref() else { continue };
            let planned = self.planned.entry(uid.to_owned()).or_insert_with(|| Planned::none(now));
            planned.claim.clone_from(&name);
            planned.n_launches = planned.n_launches.saturating_add(1);
            planned.last = now;
            let kind = if object.key.kind == berth_state::Kind::Pod { Kind::Pod } else { Kind::Reservation };
            let key =
                NamedObject { kind, namespace: object.key.namespace.to_string(), name: object.key.name.to_string() };
            let message = format!("Pod should schedule on: nodeclaim/{name}");
            self.tell(Notice::of(key, uid, "Nominated", message), now);
        }
        true
    }

    /// Whether all of these may be launched now, each beside those before it; else why that must wait.
    pub(super) fn may_launch_all(
        &mut self,
        launches: &[Launch],
        mut spend: Spend,
        now: Timestamp,
    ) -> Result<(), String> {
        let mut others = Vec::new();
        for launch in launches {
            self.may_launch(launch, &spend, &others, now)?;
            let pool = launch.node_pool.key.name.to_string();
            *spend.entry(pool.clone()).or_insert(Money::ZERO) += launch.offering.price;
            others.push(pool);
        }
        Ok(())
    }

    /// The NodePool of a planned node, where it may be launched now beside others of these NodePools; else why that must wait.
    fn may_launch(
        &mut self,
        launch: &Launch,
        spend: &Spend,
        others: &[String],
        now: Timestamp,
    ) -> Result<Arc<NodePool>, String> {
        let pool_name = launch.node_pool.key.name.to_string();
        let Some(pool) = self.view.pools.get(&pool_name).cloned() else {
            return Err(format!("NodePool {pool_name} is gone"));
        };
        if !self.is_pool_usable(&pool) {
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, "NodeClassNotReady", "nothing is launched"), now);
            let labels = [("nodepool", &*pool_name), ("reason", "NodeClassNotReady")];
            self.counts.add(Counter::LaunchesPutOff, &labels);
            return Err(self
                .blamed_class(&pool_name)
                .unwrap_or_else(|| "it is not valid, or being deleted".to_owned()));
        }
        if let Some(Uncreatable { until, why, .. }) = self.uncreatable.get(&pool_name)
            && *until > now
        {
            let why = format!("its NodeClaims cannot be created: {why}");
            self.queue.add_at(Job::Provision, *until);
            self.counts.add(Counter::LaunchesPutOff, &[("nodepool", &*pool_name), ("reason", "NotCreated")]);
            return Err(why);
        }
        if let Some(why) = self.storm(now) {
            self.counts.add(Counter::LaunchesPutOff, &[("nodepool", &*pool_name), ("reason", "NodesNotReady")]);
            return Err(why);
        }
        if let Some(why) = self.over_ceiling((&pool_name, launch.offering.price), spend, others, now) {
            self.tell_ceiling(&pool, &why, now);
            self.counts.add(Counter::LaunchesPutOff, &[("nodepool", &*pool_name), ("reason", "LaunchCeiling")]);
            return Err(why);
        }
        Ok(pool)
    }

    /// Creates the NodeClaim of a planned node, and says its name; else why that must wait.
    pub(super) fn create_claim(
        &mut self,
        launch: &Launch,
        spend: &mut Spend,
        now: Timestamp,
    ) -> Result<String, String> {
        let pool = self.may_launch(launch, spend, &[], now)?;
        let pool_name = launch.node_pool.key.name.to_string();
        let claim = self.node_claim(&pool, launch, now);
        let name = claim.metadata.name.clone().unwrap_or_default();
        let body = serde_json::to_value(&claim).map_err(|error| error.to_string())?;
        let write = Write {
            key: NamedObject::cluster(Kind::NodeClaim, name.clone()),
            uid: String::new(),
            op: Op::Create(body),
        };
        let object = berth_state::Key::new(berth_state::Kind::NodeClaim, "", &name).with_uid(None);
        let patch = Patch::Create(berth_state::Object::from(claim));
        if !self.assume_and_write(Job::Launch(name.clone()), &object, patch, write) {
            return Err(format!("NodeClaim {name} is being created"));
        }
        self.launches.push_back((now, pool_name.clone()));
        *spend.entry(pool_name.clone()).or_insert(Money::ZERO) += launch.offering.price;
        tracing::info!(claim = name, pool = pool_name, offering = ?launch.offering, n_pods = launch.pods.len(), "launching");
        Ok(name)
    }

    /// Whether no node is to be launched for a pod or Reservation now: one comes up for it already, its scheduler has
    /// not tried yet, or nodes that were launched for it did not help.
    fn is_provided_for(&mut self, object: &ObjectRef, now: Timestamp) -> bool {
        if object.key.kind == berth_state::Kind::Pod && (self.is_left_to_another(object) || self.is_seen_to(object)) {
            return true;
        }
        let Some(planned) = object.uid.as_deref().and_then(|uid| self.planned.get(uid)).cloned() else { return false };
        let claim = self.view.claims.get(&planned.claim);
        let comes_up = claim.is_some_and(|claim| {
            let status = claim.status.as_ref();
            let is_up = status.is_some_and(|status| {
                crate::claim::conditions::is_true(&status.conditions, crate::claim::conditions::INITIALIZED)
            });
            claim.metadata.deletion_timestamp.is_none() && !is_up
        });
        if comes_up || self.queue.is_running(&Job::Launch(planned.claim.clone())) {
            return true;
        }
        if planned.n_launches < PATIENCE {
            return false;
        }
        let delay = back_off(BACKOFF, planned.n_launches - PATIENCE);
        if elapsed(planned.last, now) >= delay {
            return false;
        }
        self.queue.add_at(Job::Provision, after(planned.last, delay));
        let kind = if object.key.kind == berth_state::Kind::Pod { Kind::Pod } else { Kind::Reservation };
        let key = NamedObject { kind, namespace: object.key.namespace.to_string(), name: object.key.name.to_string() };
        let message = backoff_message(planned.n_launches, delay);
        let uid = object.uid.as_deref().unwrap_or_default().to_owned();
        match object.key.kind {
            berth_state::Kind::Pod => self.explain_pod(object, &message, now),
            _ => self.explain_reservation(object, &message, now),
        }
        self.tell(Notice::of(key, uid, "LaunchBackoff", message), now);
        true
    }

    /// Says of who waits for a node that is not launched now why that is.
    fn explain_put_off(&mut self, waiting: &[&ObjectRef], pool: &ObjectRef, why: &str, now: Timestamp) {
        let reason = of_pool(&pool.key.name, why);
        let message = why_unschedulable(self.n_nodes(), &[(reason, 0)], true);
        for object in waiting {
            // What comes up for it already says nothing.
            if self.is_provided_for(object, now) {
                continue;
            }
            match object.key.kind {
                berth_state::Kind::Pod => self.explain_pod(object, &message, now),
                _ => self.explain_reservation(object, &message, now),
            }
        }
    }

    /// The cloud would not launch a NodeClaim: nothing came up for its pods, so it does not count against them.
    pub(super) fn launch_was_refused(&mut self, claim: &str) {
        for planned in self.planned.values_mut().filter(|planned| planned.claim == claim) {
            planned.n_launches = planned.n_launches.saturating_sub(1);
        }
    }

    /// Whether another scheduler places a pod, and has not said yet that it cannot.
    pub(super) fn is_left_to_another(&self, object: &ObjectRef) -> bool {
        let Some(pod) = self.state.pod(&object.key.namespace, &object.key.name) else { return true };
        let Some(names) = &self.options.scheduler_names else { return false };
        let is_marked = pod.unscheduled().is_some_and(|why| why.reason.as_deref() == Some("Unschedulable"));
        !names.contains(pod.scheduler_name()) && !is_marked
    }

    /// The creation of a NodeClaim was answered.
    pub(super) fn created(&mut self, job: &Job, write: &Write, outcome: &Outcome, now: Timestamp) {
        self.settle(job, write, outcome, now);
        self.queue.done(job);
        let command = self.disrupting.of_claim(&write.key.name);
        if let Some(id) = command {
            self.queue.add(Job::Command(id));
        }
        let Op::Create(body) = &write.op else { return };
        let labels = body.pointer("/metadata/labels").and_then(serde_json::Value::as_object);
        let pool = labels.and_then(|labels| labels.get(labels::NODEPOOL)?.as_str()).unwrap_or_default();
        match outcome {
            Outcome::Done(answer) => {
                self.count_created(write);
                self.uncreatable.remove(pool);
                if let Some((id, answer)) = command.zip(answer.as_ref())
                    && let Some(uid) = answer.version().uid
                {
                    self.tell_replacement(id, &write.key, uid, now);
                }
            }
            Outcome::Fenced => {}
            _ => {
                tracing::warn!(object = %write.key, outcome = outcome.word(), why = outcome.why(), "a NodeClaim was not created");
                // If it was after all, its watch will tell.
                self.launch_was_refused(&write.key.name);
                self.put_off_creating(pool, outcome.why(), now);
            }
        }
    }

    /// Leaves a NodePool alone for a while whose NodeClaim was not created, and says why.
    fn put_off_creating(&mut self, pool: &str, why: &str, now: Timestamp) {
        let before = self.uncreatable.get(pool);
        let n_failures = match before {
            // Of the same moment as another.
            Some(before) if before.until > now => before.n_failures,
            Some(before) => before.n_failures.saturating_add(1),
            None => 0,
        };
        let delay = back_off(CREATE_RETRY, n_failures);
        let until = after(now, delay);
        self.queue.add_at(Job::Provision, until);
        self.look_at_replicas(pool, Some(until));
        self.uncreatable.insert(pool.to_owned(), Uncreatable { n_failures, until, why: why.to_owned() });
        if let Some(pool) = self.view.pools.get(pool).cloned() {
            let message = format!("a NodeClaim was not created: {why}");
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, "FailedCreate", message), now);
        }
    }

    /// Drops what is remembered of pods that are bound or gone.
    pub(super) fn forget_placed(&mut self) {
        if !(self.planned.is_empty() && self.unbindable.is_empty()) {
            let waiting: BTreeSet<&str> =
                self.view.pods.values().filter(|pod| pod.node.is_none()).map(|pod| pod.uid.as_str()).collect();
            let reservations: BTreeSet<&str> = self.view.reservations.uids().map(|(_, uid)| uid).collect();
            self.planned.retain(|uid, _| waiting.contains(uid.as_str()) || reservations.contains(uid.as_str()));
            self.unbindable.retain(|uid, _| waiting.contains(uid.as_str()));
        }
        self.starting.retain(|uid, (pod, _)| self.view.pods.uid(pod) == Some(uid));
        self.forget_own_bindings();
    }

    fn node_claim(&mut self, pool: &NodePool, launch: &Launch, now: Timestamp) -> NodeClaim {
        let template = &pool.spec.template;
        let pool_name = pool.metadata.name.clone().unwrap_or_default();
        let mut all_labels = template.metadata.labels.clone();
        all_labels.insert(labels::NODEPOOL.to_owned(), pool_name.clone());
        if let Some(class) = &template.spec.node_class_ref {
            all_labels.insert(labels::node_class(&class.group, &class.kind), class.name.clone());
        }
        let mut annotations = template.metadata.annotations.clone();
        annotations.insert(labels::NODEPOOL_HASH.to_owned(), template_hash(pool));
        annotations.insert(labels::NODEPOOL_HASH_VERSION.to_owned(), HASH_VERSION.to_owned());
        if let Some(planned) = planned_offering(launch) {
            annotations.insert(labels::PLANNED_OFFERING.to_owned(), planned);
        }
        annotations.insert(labels::PLANNED_FOR.to_owned(), planned_for(launch));
        let pods = launch.pods.iter().filter_map(|pod| self.state.pod(&pod.key.namespace, &pod.key.name));
        if pods.filter_map(|pod| pod.spec()).any(|spec| !admits_slots(spec)) {
            annotations.insert(labels::KEEPS_OFF_SLOTS.to_owned(), "true".to_owned());
        }
        let owner = OwnerReference {
            api_version: Kind::NodePool.api_version().to_owned(),
            kind: Kind::NodePool.as_str().to_owned(),
            name: pool_name.clone(),
            uid: pool.metadata.uid.clone().unwrap_or_default(),
            block_owner_deletion: Some(true),
            controller: None,
        };
        NodeClaim {
            metadata: ObjectMeta {
                name: Some(self.claim_name(&pool_name, now)),
                labels: Some(all_labels),
                annotations: Some(annotations),
                owner_references: Some(vec![owner]),
                finalizers: Some(vec![labels::TERMINATION_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            spec: NodeClaimSpec {
                taints: launch.taints.clone(),
                startup_taints: template.spec.startup_taints.clone(),
                requirements: launch.requirements.clone(),
                resources: ResourceRequirements { requests: launch.requests.clone() },
                node_class_ref: template.spec.node_class_ref.clone(),
                termination_grace_period: template.spec.termination_grace_period.clone(),
                expire_after: template.spec.expire_after.clone(),
            },
            status: None,
        }
    }

    /// A name that no NodeClaim has: the pool's, and five characters.
    fn claim_name(&mut self, pool: &str, now: Timestamp) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let stem: String = pool.chars().take(240).collect();
        loop {
            self.n_named = self.n_named.wrapping_add(1);
            let mut hasher = FxHasher::default();
            (&self.options.seed, now.as_nanosecond(), self.n_named).hash(&mut hasher);
            let mut bits = hasher.finish();
            // The lowest bits of this hash are its worst.
            bits ^= bits >> 32;
            let mut suffix = String::new();
            for _ in 0..5 {
                let digit = usize::try_from(bits % 27).unwrap_or(0);
                suffix.push(char::from(ALPHABET.get(digit).copied().unwrap_or(b'b')));
                bits /= 27;
            }
            let name = format!("{stem}-{suffix}");
            if self.view.claims.get(&name).is_none() && !self.queue.is_running(&Job::Launch(name.clone())) {
                return name;
            }
        }
    }
}

/// What the annotation tells of the offering that a NodeClaim is planned as.
fn planned_offering(launch: &Launch) -> Option<String> {
    let offering = launch.offering.clone();
    let planned = PlannedOffering {
        instance_type: offering.instance_type,
        zone: offering.zone,
        capacity_type: offering.capacity_type,
        reservation_id: offering.reservation_id,
    };
    serde_json::to_string(&planned).ok()
}

/// What the annotation tells of how many a NodeClaim is for.
fn planned_for(launch: &Launch) -> String {
    let planned = PlannedFor { pods: launch.pods.len(), reservations: launch.reservations.len() };
    serde_json::to_string(&planned).unwrap_or_default()
}

/// A NodePool whose NodeClaims the API server does not take now.
#[derive(Debug)]
pub(super) struct Uncreatable {
    /// How often they were tried after the first.
    n_failures: u32,
    /// Until when none is tried.
    until: Timestamp,
    /// What the server said.
    why: String,
}

/// By uid of the pod or Reservation.
pub(super) type AllPlanned = BTreeMap<String, Planned>;
