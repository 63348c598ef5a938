//! Stand-ins for the controllers of a cluster, each behind a switch.

mod adoption;
mod budgets;
mod claims;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod endpoints;
mod garbage;
mod jobs;
mod namespaces;
mod nodes;
mod quotas;
mod replica_sets;
mod revisions;
mod stateful_sets;
mod taints;
#[cfg(test)]
mod tests;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::meta;
use crate::request::Options;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::store::{Draft, Refused};

/// Which stand-ins run. All do by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Controllers {
    /// Deletes what has no owner left, and frees owners that wait for their dependents.
    pub garbage_collector: bool,
    /// Empties namespaces that are being deleted, and lets them go.
    pub namespaces: bool,
    /// Gives pods, ReplicaSets and ControllerRevisions that nobody controls to the workload that selects them, and takes
    /// away what it no longer selects.
    pub adoption: bool,
    /// Rolls the ReplicaSets of Deployments, without undoing and without the deadline of progress.
    pub deployments: bool,
    /// Makes and removes the pods of ReplicaSets.
    pub replica_sets: bool,
    /// Makes and removes the pods of ReplicationControllers.
    pub replication_controllers: bool,
    /// Makes, replaces and removes the pods and claims of StatefulSets, and keeps their ControllerRevisions.
    pub stateful_sets: bool,
    /// Makes a pod on every node that a DaemonSet is for, replaces those of an old template, and keeps ControllerRevisions.
    pub daemon_sets: bool,
    /// Runs the pods of Jobs until they are complete or have failed too often.
    pub jobs: bool,
    /// Makes the Jobs of CronJobs when they are due, and removes those that finished long ago.
    pub cron_jobs: bool,
    /// Says in Endpoints and EndpointSlices where the pods of Services are, as far as these have addresses.
    pub endpoints: bool,
    /// Says in the status of PodDisruptionBudgets how many pods may be disrupted.
    pub disruption_budgets: bool,
    /// Says in the status of ResourceQuotas what is used. They are kept without this, too.
    pub resource_quotas: bool,
    /// Taints nodes by their conditions, marks those without heartbeats, and removes pods of nodes that are gone.
    pub node_lifecycle: bool,
    /// Removes pods from nodes with taints of effect NoExecute when their tolerations end.
    pub taint_eviction: bool,
    /// Binds claims to volumes, makes volumes for classes with a provisioner, and waits for a node where a class says so.
    pub volume_binder: bool,
}

impl Controllers {
    /// No stand-in at all, as a base for some.
    pub const NONE: Self = Self {
        garbage_collector: false,
        namespaces: false,
        adoption: false,
        deployments: false,
        replica_sets: false,
        replication_controllers: false,
        stateful_sets: false,
        daemon_sets: false,
        jobs: false,
        cron_jobs: false,
        endpoints: false,
        disruption_budgets: false,
        resource_quotas: false,
        node_lifecycle: false,
        taint_eviction: false,
        volume_binder: false,
    };
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            garbage_collector: true,
            namespaces: true,
            adoption: true,
            deployments: true,
            replica_sets: true,
            replication_controllers: true,
            stateful_sets: true,
            daemon_sets: true,
            jobs: true,
            cron_jobs: true,
            endpoints: true,
            disruption_budgets: true,
            resource_quotas: true,
            node_lifecycle: true,
            taint_eviction: true,
            volume_binder: true,
        }
    }
}

/// An object as it was left.
#[derive(Debug)]
struct Settled {
    /// Of the versions of the object and of what it owns.
    fingerprint: u64,
    /// When to look at it although nothing changed.
    due: Option<Timestamp>,
    /// The round in which it was last there.
    round: u64,
}

/// What the stand-ins remember from round to round.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What was looked at and left as it is, by uid.
    settled: Mutex<FxHashMap<Box<str>, Settled>>,
    /// Counts rounds.
    round: AtomicU64,
    /// When to look again although nothing changes.
    due: Mutex<Option<Timestamp>>,
    /// Since when pods, by uid, tolerate the taints of their nodes for a time.
    tolerating: Mutex<FxHashMap<Box<str>, Timestamp>>,
}

/// Changes come in bursts: they are looked at together.
const SETTLE: Duration = Duration::from_millis(10);
/// Rounds between which what was settled and is gone stays in memory.
const FORGETS: u64 = 64;
/// Without anything due, a change is waited for.
const FAR: Duration = Duration::from_secs(3600);

impl ApiServer {
    /// Runs the stand-ins until the future is dropped. They act a few milliseconds of tokio's time after a change.
    pub async fn run_controllers(&self, switches: Controllers) {
        let mut seen = 0;
        loop {
            let present = self.inner.store.revision();
            let due = *self.inner.memory.due.lock();
            let now = self.now();
            if present == seen && due.is_none_or(|due| due > now) {
                let wait = due.map_or(FAR, |due| Duration::try_from(due - now).unwrap_or(SETTLE));
                tokio::select! {
                    () = self.inner.store.changed(seen) => {}
                    () = tokio::time::sleep(wait + SETTLE) => {}
                }
                tokio::time::sleep(SETTLE).await;
                continue;
            }
            seen = present;
            self.reconcile(switches);
        }
    }

    /// Lets the stand-ins act once on the present state. Gives whether they changed anything.
    pub fn reconcile(&self, switches: Controllers) -> bool {
        let before = self.inner.store.revision();
        let round = self.inner.memory.round.fetch_add(1, Ordering::Relaxed) + 1;
        *self.inner.memory.due.lock() = None;
        let mut world = world::World::of(self);
        if switches.adoption && self.claim_dependents(&world) {
            world = world::World::of(self);
        }
        for (is_on, act) in [
            (switches.node_lifecycle, Self::reconcile_nodes as fn(&Self, &world::World)),
            (switches.taint_eviction, Self::evict_by_taints),
            (switches.deployments, Self::reconcile_deployments),
            (switches.replica_sets, Self::reconcile_replica_sets),
            (switches.replication_controllers, Self::reconcile_replication_controllers),
            (switches.stateful_sets, Self::reconcile_stateful_sets),
            (switches.daemon_sets, Self::reconcile_daemon_sets),
            // The jobs that are due run in the same round.
            (switches.cron_jobs, Self::reconcile_cron_jobs),
            (switches.jobs, Self::reconcile_jobs),
            (switches.endpoints, Self::reconcile_endpoints),
            (switches.volume_binder, Self::bind_volumes),
            (switches.disruption_budgets, Self::count_budgets),
            (switches.resource_quotas, Self::count_quotas),
        ] {
            if is_on {
                act(self, &world);
            }
        }
        if switches.garbage_collector {
            self.collect_garbage();
        }
        if switches.namespaces {
            self.empty_namespaces();
        }
        // What is gone is forgotten now and then.
        if round.is_multiple_of(FORGETS) {
            self.inner.memory.settled.lock().retain(|_, known| known.round == round);
        }
        self.inner.store.revision() != before
    }

    /// Asks for another round at a time, whatever changes until then.
    fn look_again_at(&self, time: Timestamp) {
        let mut due = self.inner.memory.due.lock();
        *due = Some(due.map_or(time, |due| due.min(time)));
    }

    /// Whether something is as it was when it was last left as it is; from now on it is.
    fn is_settled(&self, uid: &str, fingerprint: u64) -> bool {
        let mut settled = self.inner.memory.settled.lock();
        let round = self.inner.memory.round.load(Ordering::Relaxed);
        if let Some(known) = settled.get_mut(uid).filter(|known| known.fingerprint == fingerprint) {
            known.round = round;
            match known.due {
                None => return true,
                Some(due) if due > self.now() => {
                    self.look_again_at(due);
                    return true;
                }
                Some(_) => {}
            }
        }
        settled.insert(uid.into(), Settled { fingerprint, due: None, round });
        false
    }

    /// Asks for an object to be looked at again at a time.
    fn look_again(&self, uid: &str, time: Timestamp) {
        if let Some(known) = self.inner.memory.settled.lock().get_mut(uid) {
            known.due = Some(known.due.map_or(time, |due| due.min(time)));
        }
        self.look_again_at(time);
    }

    /// Makes an object; a refusal is tried again when something changes.
    fn make(&self, storage: &str, namespace: &str, object: Value, manager: &str) -> bool {
        let Some(resource) = self.resource_of(storage) else { return false };
        self.create_internal(&resource, namespace, object, manager).is_ok()
    }

    /// Changes an object of a built-in collection.
    fn change_object(&self, storage: &str, key: &str, change: impl FnOnce(&mut Value)) {
        if let Some(resource) = self.resource_of(storage) {
            self.amend(&resource, key, change);
        }
    }

    /// Deletes an object of a built-in collection.
    fn remove_object(&self, storage: &str, key: &str, grace_period: Option<i64>) {
        if let Some(resource) = self.resource_of(storage) {
            self.delete_quietly(&resource, key, &Options { grace_period, ..Options::default() });
        }
    }

    /// Changes an object as a controller; gone or changed meanwhile is no error, the next round sees it.
    fn amend(&self, resource: &Resource, key: &str, change: impl FnOnce(&mut Value)) {
        let Some(stored) = self.inner.store.get(&resource.storage, key) else { return };
        let old = stored.value();
        let mut new = old.clone();
        change(&mut new);
        if resource.custom().is_none() {
            crate::schema::decode::decode(&mut new, resource.typed());
        }
        if new == old {
            return;
        }
        if resource.habits.generation && resource.custom().is_none() && new.get("spec") != old.get("spec") {
            meta::set(&mut new, "generation", meta::number(&old, "generation").unwrap_or(0) + 1);
        }
        let is_over = meta::has(&new, "deletionTimestamp")
            && meta::finalizers(&new).next().is_none()
            && meta::number(&new, "deletionGracePeriodSeconds").unwrap_or(0) == 0
            && meta::list_at(&new, &["spec", "finalizers"]).is_empty();
        meta::set(&mut new, "resourceVersion", "");
        let fields = crate::verbs::selectable_fields(resource, &new);
        let draft = Draft::new(&new, fields);
        let store = &self.inner.store;
        let written: Result<_, Refused> = if is_over {
            store.delete(&resource.storage, key, stored.revision, draft)
        } else {
            store.update(&resource.storage, key, stored.revision, draft)
        };
        if written.is_ok() && is_over {
            self.after_deletion(resource, &old);
        }
    }

    fn delete_quietly(&self, resource: &Arc<Resource>, key: &str, options: &Options) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        // Gone already is what is wanted.
        let _ = self.delete_object(resource, namespace, name, options);
    }
}
