//! What is counted as it happens.

use berth_state::Touched;
use jiff::Timestamp;

use super::{Core, Effect, Job};
use crate::clock::elapsed;
use crate::kind::Kind;
use crate::metrics::{Counter, Measured};
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::view::pool_of;
use crate::write::{Op, Write};

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
                    self.counts.add(Counter::NodesCreated, &[("nodepool", pool)]);
                }
            }
            Observed::Applied(Object::Pod(pod)) => {
                let is_running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                if is_running && let Some(created) = self.starting.remove(uid) {
                    self.counts.measure(Measured::PodsStarted, &[], elapsed(created, now).as_secs_f64());
                }
            }
            Observed::Deleted(kind, metadata) => {
                let label =
                    |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
                let pool = ("nodepool", pool_of(metadata).unwrap_or_default());
                match kind {
                    Kind::Node if !pool.1.is_empty() => self.counts.add(Counter::NodesTerminated, &[pool]),
                    Kind::NodeClaim => {
                        let capacity_type = ("capacity_type", label(berth_api::labels::CAPACITY_TYPE));
                        let zone = ("zone", label(berth_api::labels::ZONE));
                        self.counts.add(Counter::NodeClaimsTerminated, &[capacity_type, pool, zone]);
                    }
                    Kind::Pod => {
                        let uid = metadata.uid.as_deref().unwrap_or_default();
                        self.starting.remove(uid);
                        self.arrived.remove(uid);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
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

    pub(super) fn count_disrupted(&mut self, claim: &str, reason: &str) {
        let claim = self.view.claims.get(claim);
        let metadata = claim.map(|claim| &claim.metadata);
        let capacity_type = metadata.and_then(|own| own.labels.as_ref()?.get(berth_api::labels::CAPACITY_TYPE));
        let labels = [
            ("capacity_type", capacity_type.map_or("", String::as_str)),
            ("nodepool", metadata.and_then(pool_of).unwrap_or_default()),
            ("reason", reason),
        ];
        self.counts.add(Counter::NodeClaimsDisrupted, &labels);
    }

    /// A pod was bound here.
    pub(super) fn count_bound(&mut self, pod: &super::PodName, now: Timestamp) {
        if let Some(record) = self.view.pods.get(pod) {
            self.counts.measure(Measured::PodsBound, &[], elapsed(record.created, now).as_secs_f64());
            self.starting.insert(record.uid.clone(), record.created);
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

    /// Remembers what the next decision is about.
    pub(super) fn note_cause(&mut self, touched: &Touched) {
        if let Some((_, n_more)) = &mut self.cause {
            *n_more = n_more.saturating_add(touched.objects.len().max(1));
            return;
        }
        let first = touched.objects.first().map(|key| {
            let namespace = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
            format!("{} {namespace}{}", key.kind.name(), key.name)
        });
        self.cause = Some((
            first.unwrap_or_else(|| "what the cloud offers".to_owned()),
            touched.objects.len().saturating_sub(1),
        ));
    }

    /// What a decision is about.
    pub(super) fn take_cause(&mut self) -> String {
        match self.cause.take() {
            None => "time".to_owned(),
            Some((first, 0)) => first,
            Some((first, n_more)) => format!("{first} and {n_more} more"),
        }
    }
}

/// The NodeClaim that a notice says is disrupted, and why.
pub(super) fn disrupted(notice: &Notice) -> Option<(&str, String)> {
    let is_start = notice.reason == "DisruptionTerminating" && notice.object.kind == Kind::NodeClaim;
    let (_, reason) = notice.message.split_once(": ").filter(|_| is_start)?;
    // The word before what else is said of it: a label has few values.
    let word: String = reason.chars().take_while(char::is_ascii_alphanumeric).collect();
    Some((&notice.object.name, word.to_lowercase()))
}
