//! What is counted as it happens.

use berth_api::NodeClaim;
use berth_state::Touched;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::{Core, Effect, Job};
use crate::claim::conditions;
use crate::clock::elapsed;
use crate::kind::{Kind, NamedObject};
use crate::metrics::{Counter, Measured};
use crate::observed::{Object, Observed};
use crate::view::{PodName, pool_of};
use crate::write::{Op, Outcome, Write};

impl Core {
    /// Counts what a watch tells, before the view knows it.
    pub(super) fn count_observed(&mut self, observed: &Observed, now: Timestamp) {
        // What was there at the start has not happened now.
        if !self.is_started {
            return;
        }
        match observed {
            Observed::Applied(Object::Node(node)) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                if let Some(pool) = pool_of(&node.metadata).filter(|_| self.view.nodes.get(&name).is_none()) {
                    let zone = label_of(&node.metadata, berth_api::labels::ZONE);
                    self.counts.add(Counter::NodesCreated, &[("nodepool", pool), ("zone", zone)]);
                }
            }
            Observed::Applied(Object::Pod(pod)) => {
                let is_running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                if has_node && let Some(seconds) = self.pod_times.bind(uid, now) {
                    self.counts.measure(Measured::ProvidedPodsBound, &[], seconds);
                }
                if is_running && let Some(seconds) = self.pod_times.start(uid, now) {
                    self.counts.measure(Measured::ProvidedPodsStarted, &[], seconds);
                }
                if is_running && let Some((_, created)) = self.starting.remove(uid) {
                    self.counts.measure(Measured::PodsStarted, &[], elapsed(created, now).as_secs_f64());
                }
            }
            Observed::Deleted(kind, metadata) => self.count_gone(*kind, metadata, now),
            _ => {}
        }
    }

    /// An object is gone. The answer to a write may tell so before its watch does: a node or a NodeClaim counts once, as long as
    /// the view knows it.
    fn count_gone(&mut self, kind: Kind, metadata: &ObjectMeta, now: Timestamp) {
        let (name, uid) = (metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default());
        let is_known = || self.view.metadata_of(&NamedObject::cluster(kind, name), uid).is_some();
        let pool = ("nodepool", pool_of(metadata).unwrap_or_default());
        let zone = ("zone", label_of(metadata, berth_api::labels::ZONE));
        match kind {
            Kind::Node if is_known() && !pool.1.is_empty() => {
                self.counts.add(Counter::NodesTerminated, &[pool, zone]);
                let lasted = [
                    (Measured::NodesLived, &metadata.creation_timestamp),
                    (Measured::NodesEnded, &metadata.deletion_timestamp),
                ];
                for (what, since) in lasted {
                    if let Some(since) = since {
                        self.counts.measure(what, &[pool], elapsed(since.0, now).as_secs_f64());
                    }
                }
            }
            Kind::NodeClaim if is_known() => {
                let capacity_type = ("capacity_type", label_of(metadata, berth_api::labels::CAPACITY_TYPE));
                self.counts.add(Counter::NodeClaimsTerminated, &[capacity_type, pool, zone]);
                let known = self.view.claims.get(name);
                let all = known.and_then(|claim| claim.status.as_ref()).map(|status| &status.conditions[..]);
                let ending = conditions::get(all.unwrap_or_default(), conditions::INSTANCE_TERMINATING);
                let ending = ending.filter(|known| known.status == "True").map(|known| known.last_transition_time.0);
                let deletion = metadata.deletion_timestamp.as_ref().map(|time| time.0);
                for (what, since) in [(Measured::ClaimsEnded, deletion), (Measured::InstancesEnded, ending)] {
                    if let Some(since) = since {
                        self.counts.measure(what, &[pool], elapsed(since, now).as_secs_f64());
                    }
                }
            }
            Kind::Pod => {
                self.starting.remove(uid);
                self.arrived.remove(uid);
                self.pod_times.forget(uid);
            }
            _ => {}
        }
    }

    /// A NodeClaim got further, from these conditions to those.
    pub(super) fn count_progress(&mut self, claim: &NodeClaim, before: &[Condition], now: &[Condition]) {
        let is_drained = |all: &[Condition]| conditions::is_true(all, conditions::DRAINED);
        if !self.is_started {
            return;
        }
        self.count_transitions(before, now);
        if is_drained(now) && !is_drained(before) {
            let pool = ("nodepool", pool_of(&claim.metadata).unwrap_or_default());
            self.counts.add(Counter::NodesDrained, &[pool]);
        }
    }

    /// Counts which conditions have another status now, and measures how long they had the one before.
    fn count_transitions(&mut self, before: &[Condition], now: &[Condition]) {
        for known in now {
            let was = before.iter().find(|was| was.type_ == known.type_);
            if was.is_some_and(|was| was.status == known.status) {
                continue;
            }
            let labels = [("reason", &*known.reason), ("status", &*known.status), ("type", &*known.type_)];
            self.counts.add(Counter::ClaimTransitions, &labels);
            if let Some(was) = was {
                let lasted = elapsed(was.last_transition_time.0, known.last_transition_time.0).as_secs_f64();
                self.counts.measure(Measured::ClaimsStayed, &[("status", &was.status), ("type", &was.type_)], lasted);
            }
        }
    }

    /// A pod was asked to leave its node, or told to: what became of that.
    pub(super) fn count_eviction(&mut self, pod: &PodName, op: &Op, outcome: &Outcome) {
        let code = match outcome {
            Outcome::Done(_) => "200",
            Outcome::Refused(_) => "400",
            Outcome::NotFound => "404",
            Outcome::Conflict(_) => "409",
            Outcome::TooMany { .. } => "429",
            Outcome::Unknown(_) => "500",
            Outcome::Fenced => return,
        };
        match op {
            Op::Evict => self.counts.add(Counter::EvictionRequests, &[("code", code)]),
            Op::Delete { .. } => {}
            _ => return,
        }
        if matches!(outcome, Outcome::Done(_)) {
            let reason = self.why_evicted(pod);
            self.counts.add(Counter::PodsDrained, &[("reason", &reason)]);
        }
    }

    /// Why a pod leaves its node, in Karpenter's words.
    fn why_evicted(&self, pod: &PodName) -> String {
        let node = self.view.pods.get(pod).and_then(|pod| self.view.nodes.get(pod.node.as_deref()?));
        let claim = node.and_then(|node| self.view.claims_of_node(node).next());
        let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_some()) else {
            return "Preempted".to_owned();
        };
        let all = claim.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let reason = conditions::get(all, conditions::DISRUPTION_REASON).filter(|known| known.status == "True");
        reason.map_or_else(|| "Forceful Termination".to_owned(), |known| known.reason.clone())
    }

    /// A watch told this at that time; it may have waited since.
    pub(crate) fn note_arrival(&mut self, observed: &Observed, at: Timestamp) {
        // What was there at the start waited for this process, not in it.
        let Observed::Applied(Object::Pod(pod)) = observed else { return };
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let Some(uid) = pod.metadata.uid.as_ref().filter(|_| self.is_started) else { return };
        if has_node {
            // Someone else bound it, or this is the answer to our own binding.
            self.arrived.remove(uid);
        } else if pod.metadata.deletion_timestamp.is_none() {
            self.arrived.entry(uid.clone()).or_insert(at);
            let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            let name = PodName { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() };
            if self.view.pods.uid(&name) != Some(uid) {
                self.pod_times.came(uid, at);
            }
        }
    }

    /// These are sent now.
    pub(crate) fn measure_bindings(&mut self, effects: &[Effect], now: Timestamp) {
        for effect in effects {
            let Effect::Write(Some(Job::Bind(_)), write) = effect else { continue };
            if let Some(arrived) = self.arrived.remove(&write.uid) {
                self.counts.measure(Measured::PodsScheduled, &[], elapsed(arrived, now).as_secs_f64());
            }
        }
    }

    pub(super) fn count_created(&mut self, write: &Write) {
        let Op::Create(claim) = &write.op else { return };
        let labels = claim.pointer("/metadata/labels").and_then(serde_json::Value::as_object);
        let pool = labels.and_then(|all| all.get(berth_api::labels::NODEPOOL)).and_then(serde_json::Value::as_str);
        let labels =
            [("min_values_relaxed", "false"), ("nodepool", pool.unwrap_or_default()), ("reason", "provisioned")];
        self.counts.add(Counter::NodeClaimsCreated, &labels);
    }

    /// A pod was bound here.
    pub(super) fn count_bound(&mut self, pod: &super::PodName, now: Timestamp) {
        if let Some(record) = self.view.pods.get(pod) {
            self.counts.measure(Measured::PodsBound, &[], elapsed(record.created, now).as_secs_f64());
            self.starting.insert(record.uid.clone(), (pod.clone(), record.created));
        }
    }

    /// What the decisions since the last call were for, if there were any: whether one could launch.
    pub(crate) fn take_decided(&mut self) -> Option<bool> {
        self.decided.take()
    }

    /// Takes in how long decisions took.
    pub(crate) fn measure_decision(&mut self, launches: bool, seconds: f64) {
        let controller = if launches { "provisioner" } else { "scheduler" };
        self.counts.measure(Measured::Scheduling, &[("controller", controller)], seconds);
    }
}

/// What a decision or a look is about: the first change since the last one, and how many more.
#[derive(Debug, Default)]
pub(super) struct Cause(Option<(String, usize)>);

impl Cause {
    /// Something has changed.
    pub(super) fn note(&mut self, touched: &Touched) {
        if let Some((_, n_more)) = &mut self.0 {
            *n_more = n_more.saturating_add(touched.objects.len().max(1));
            return;
        }
        let first = touched.objects.first().map(|key| {
            let namespace = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
            format!("{} {namespace}{}", key.kind.name(), key.name)
        });
        let n_more = touched.objects.len().saturating_sub(1);
        self.0 = Some((first.unwrap_or_else(|| "what the cloud offers".to_owned()), n_more));
    }

    /// In words; what changes from now on is for the next one.
    pub(super) fn take(&mut self) -> String {
        match self.0.take() {
            None => "time".to_owned(),
            Some((first, 0)) => first,
            Some((first, n_more)) => format!("{first} and {n_more} more"),
        }
    }
}

/// The value of a label; empty where there is none.
fn label_of<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use berth_state::Key;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::super::tests::at_rest;
    use super::*;
    use crate::claim::on;
    use crate::core::Input;
    use crate::metrics::{Counts, Values};

    /// The regression: the answer to a write tells that a NodeClaim is gone before its watch does, and the view knew its
    /// conditions no more.
    #[test]
    fn how_long_an_instance_took_to_end_is_measured_whoever_tells_first_that_its_claim_is_gone() {
        let mut core = at_rest(2);
        let began: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for name in ["web-0", "web-1"] {
            let mut claim = NodeClaim::clone(core.view.claims.get(name).unwrap());
            claim.metadata.resource_version = Some("2".to_owned());
            claim.metadata.deletion_timestamp = Some(Time(began));
            let ending = json!({"type": conditions::INSTANCE_TERMINATING, "status": "True", "reason": "InstanceTerminating",
                "message": "", "lastTransitionTime": began});
            claim.status.as_mut().unwrap().conditions.push(serde_json::from_value(ending).unwrap());
            core.handle(Input::Observed(Observed::Applied(Object::from(claim))), began);
        }
        let at = |second: i64| Timestamp::from_second(began.as_second() + second).unwrap();
        for (name, uid) in [("web-0", "c0"), ("web-1", "c1")] {
            let metadata = core.view.claims.get(name).unwrap().metadata.clone();
            let write = on(Kind::NodeClaim, &metadata, Op::Delete { grace: None });
            core.handle(Input::Written(None, Box::new(write), Outcome::NotFound), at(7));
            assert!(core.view.claims.get(name).is_none());
            // Its watch tells it, too.
            let metadata =
                ObjectMeta { name: Some(name.to_owned()), uid: Some(uid.to_owned()), ..ObjectMeta::default() };
            core.handle(Input::Observed(Observed::Deleted(Kind::NodeClaim, Box::new(metadata))), at(9));
        }
        let metrics = core.counts.metrics_with(&Counts::default());
        let values = |name: &str| metrics.iter().find(|one| one.name == name).map(|one| &one.values).unwrap();
        for name in ["instance_termination", "termination"] {
            let name = format!("karpenter_nodeclaims_{name}_duration_seconds");
            let Values::Histogram(all) = values(&name) else { panic!("{name}") };
            let measured: Vec<(f64, u64)> =
                all.iter().map(|(_, one)| (one.sum, one.buckets.iter().map(|(_, n)| n).sum())).collect();
            assert_eq!(measured, [(14.0, 2)], "{name}");
        }
        let Values::Counter(all) = values("karpenter_nodeclaims_terminated") else { panic!("a counter") };
        assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), 2);
    }

    #[test]
    fn a_cause_is_the_first_change_and_how_many_more() {
        let touched = |names: &[&str]| Touched {
            objects: names.iter().map(|name| Key::new(berth_state::Kind::Pod, "default", name)).collect(),
            ..Touched::default()
        };
        let mut cause = Cause::default();
        assert_eq!(cause.take(), "time");
        cause.note(&touched(&["a"]));
        assert_eq!(cause.take(), "Pod default/a");
        cause.note(&touched(&["a", "b"]));
        cause.note(&touched(&["c"]));
        assert_eq!(cause.take(), "Pod default/a and 2 more");
        cause.note(&touched(&[]));
        assert_eq!((cause.take(), cause.take()), ("what the cloud offers".to_owned(), "time".to_owned()));
    }
}
