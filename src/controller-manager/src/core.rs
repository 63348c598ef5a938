//! What all controllers share: caches, the work queue, the graph of owners, the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Client;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cache::Caches;
use crate::controllers::{
    self, daemon_sets::Daemons, job_pods::Backoffs, nodes::Heartbeats, quotas::Totals, taints::Tolerating,
};
use crate::events::Recorder;
use crate::garbage::Graph;
use crate::intake::Senders;
use crate::objects::View;
use crate::options::{Controller, Options};
use crate::queue::WorkQueue;
use crate::resource::{LEASES, Resource};
use crate::store::Kept;
use crate::watches::{Message, Told, Watch};
use crate::work::Work;
use crate::write::{Effect, Failure, Written};

/// One in so many of the pieces of work that are under way may sum up others.
const SUMMARIES: usize = 16;

/// Counts what a controller manager does. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    syncs: AtomicU64,
    failures: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Metrics {
    /// Pieces of work that were done or tried.
    pub fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::Relaxed)
    }

    /// Pieces of work and watches that failed, and are tried again.
    pub fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// What failed last.
    pub fn last_error(&self) -> Option<String> {
        self.0.last_error.lock().clone()
    }
}

/// The state of a controller manager. One task owns it, so nothing in it is locked.
pub(crate) struct Core {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) caches: Caches,
    pub(crate) queue: WorkQueue,
    pub(crate) graph: Graph,
    pub(crate) daemons: Daemons,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) tolerating: Tolerating,
    pub(crate) totals: Totals,
    pub(crate) backoffs: Backoffs,
    /// Why the pods of a workload were refused last.
    pub(crate) refusals: FxHashMap<Work, String>,
    pub(crate) terminated: controllers::pod_gc::Terminated,
    pub(crate) events: Recorder,
    /// Whether what is taken in is the answer to a write of Endpoints or a slice, which are then as they are wanted.
    pub(crate) is_own_write: bool,
    /// Caches that have not been listed.
    pub(crate) unsynced: usize,
    /// Work that waits for a cache.
    parked: Vec<Work>,
    metrics: Metrics,
    senders: Senders<Message>,
    watches: JoinSet<()>,
    seed: u64,
}

impl Core {
    pub(crate) fn new(client: Client, options: Options, metrics: Metrics, senders: Senders<Message>) -> Self {
        Self {
            queue: WorkQueue::new(options.timings.retry, options.concurrent_syncs / SUMMARIES),
            seed: options.seed,
            client,
            options,
            caches: Caches::default(),
            graph: Graph::default(),
            daemons: Daemons::default(),
            heartbeats: Heartbeats::default(),
            tolerating: Tolerating::default(),
            totals: Totals::default(),
            backoffs: Backoffs::default(),
            refusals: FxHashMap::default(),
            terminated: controllers::pod_gc::Terminated::default(),
            events: Recorder::default(),
            is_own_write: false,
            unsynced: 0,
            parked: Vec::new(),
            metrics,
            senders,
            watches: JoinSet::new(),
        }
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.options.controllers.has(controller)
    }

    /// The present instant, of whole seconds as `metav1.Time`.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_second(self.options.clock.now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn now_time(&self) -> Time {
        Time(self.now())
    }

    /// Adds work, if its controller runs.
    pub(crate) fn add(&mut self, work: Work) {
        if self.has(work.controller()) {
            self.queue.add(work);
        }
    }

    pub(crate) fn add_after(&mut self, work: Work, after: Duration) {
        if self.has(work.controller()) {
            self.queue.add_after(work, after);
        }
    }

    /// Adds work at an instant of the clock.
    pub(crate) fn add_when(&mut self, work: Work, due: Timestamp) {
        self.add_after(work, self.until(due));
    }

    /// How long it is until an instant of the clock.
    pub(crate) fn until(&self, due: Timestamp) -> Duration {
        let wait = due.duration_since(self.options.clock.now());
        Duration::try_from(wait.max(SignedDuration::ZERO)).unwrap_or_default()
    }

    /// Where tasks send what the manager has to take in.
    pub(crate) fn sender(&self) -> mpsc::Sender<Message> {
        self.senders.changes.clone()
    }

    /// Starts a watch.
    pub(crate) fn watch<T, F>(
        &mut self,
        resource: Resource,
        metadata_only: bool,
        message: F,
    ) -> tokio::task::AbortHandle
    where
        T: Kept + DeserializeOwned,
        F: Fn(Told<T>) -> Message + Send + Sync + 'static,
    {
        while self.watches.try_join_next().is_some() {}
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let sender = if resource == LEASES { &self.senders.heartbeats } else { &self.senders.changes };
        let (client, sender, seed) = (self.client.clone(), sender.clone(), self.seed);
        self.watches.spawn(Watch { client, resource, metadata_only, seed, sender, message }.run())
    }

    /// Counts an error that is met again later.
    pub(crate) fn failed(&mut self, error: &str) {
        self.metrics.0.failures.fetch_add(1, Ordering::Relaxed);
        *self.metrics.0.last_error.lock() = Some(error.to_owned());
    }

    /// Takes the next work, if there is any, and says whether it is a summary, and what is to be done for it. Work that needs
    /// nothing done is done.
    pub(crate) fn start(&mut self, is_calm: bool) -> Option<(bool, Option<(Work, Effect)>)> {
        let work = self.queue.take(is_calm)?;
        let is_summary = work.is_summary();
        self.metrics.0.syncs.fetch_add(1, Ordering::Relaxed);
        if self.unsynced > 0 && !self.is_synced(work.controller()) {
            self.queue.done(work.clone(), true);
            self.parked.push(work);
            return Some((is_summary, None));
        }
        let started = match controllers::sync(self, &work) {
            Effect::Done => {
                self.queue.done(work, true);
                None
            }
            effect => Some((work, effect)),
        };
        Some((is_summary, started))
    }

    /// Adds the work again that waited for a cache.
    pub(crate) fn unpark(&mut self) {
        for work in std::mem::take(&mut self.parked) {
            self.queue.add(work);
        }
    }

    /// Takes in what came of work.
    pub(crate) fn finish(&mut self, work: Work, written: Vec<Written>, mut failure: Option<Failure>) {
        let (by, now) = (work.controller(), self.now());
        self.is_own_write = matches!(work, Work::Endpoints(_) | Work::EndpointSlices(_));
        for one in written {
            match one {
                Written::Object { resource, text, tells } => {
                    if let Some(telling) = tells.filter(|_| !self.options.without_events) {
                        self.events.did(by, *telling, || name_of(&text), now);
                    }
                    if !self.wrote(&resource, &text) {
                        self.wrote_any(&resource, &text);
                    }
                }
                Written::Gone { resource, key, uid, tells } => {
                    if let Some(telling) = tells.filter(|_| !self.options.without_events) {
                        self.events.did(by, *telling, || key.name.to_string(), now);
                    }
                    if !self.deleted(&resource, &key, &uid) {
                        self.deleted_any(&resource, &key, &uid);
                    }
                }
                Written::Nothing => {}
            }
        }
        self.is_own_write = false;
        if !self.options.without_events
            && let Some(reason) = failure.as_ref().and_then(Failure::reason)
            && let Some(telling) = failure.as_mut().and_then(Failure::take_telling)
        {
            self.events.refused(by, *telling, &reason, now);
        }
        let failure = failure.as_ref();
        match failure {
            // Our view was old; that is everyday life, and the next try sees more.
            Some(failure) if failure.code() != Some(409) && !matches!(failure, Failure::NotYet(_)) => {
                self.failed(&failure.to_string());
            }
            _ => {}
        }
        if let Work::ReplicaSet(_) | Work::ReplicationController(_) = &work {
            match failure.map(Failure::reason) {
                Some(Some(reason)) => drop(self.refusals.insert(work.clone(), reason)),
                Some(None) => {}
                None => drop(self.refusals.remove(&work)),
            }
        }
        self.queue.done(work, failure.is_none());
    }
}

/// The name of an object.
fn name_of(text: &str) -> String {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Object {
        metadata: Named,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Object>(text).unwrap_or_default().metadata.name
}

/// A reference to an owner that controls.
pub(crate) fn controlled_by(resource: &Resource, owner: View<'_>) -> OwnerReference {
    OwnerReference {
        api_version: resource.api_version(),
        kind: resource.kind.to_string(),
        name: owner.name.to_owned(),
        uid: owner.uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
