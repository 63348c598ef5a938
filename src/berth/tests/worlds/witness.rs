//! What disruption does, as watches of nodes and pods tell it: in order, and whoever says what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;

/// Watches until it is dropped.
pub(crate) struct Witness {
    record: Arc<Mutex<Record>>,
    _tasks: JoinSet<()>,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// How many of both kinds have been listed.
    n_listed: usize,
    /// Nodes that are there and have the taint of a disruption.
    going: BTreeSet<String>,
    /// Nodes that ever had it.
    pub(crate) disrupted: BTreeSet<String>,
    /// The most that had it at a time.
    pub(crate) most_at_once: usize,
    /// When each node became ready; those that are gone, too.
    pub(crate) ready: BTreeMap<String, Timestamp>,
    /// The uid of each pod that was evicted: its node, and when.
    pub(crate) evicted: BTreeMap<String, (String, Timestamp)>,
    /// Pods that ended by something else.
    pub(crate) ended_otherwise: BTreeSet<String>,
    serving: BTreeSet<String>,
    most_serving: usize,
    /// The fewest pods that were ready since as many were as ever.
    pub(crate) least_serving: usize,
}

// === impl Witness ===

impl Witness {
    /// Returns once it has seen what there is.
    pub(crate) async fn start(client: &Client) -> Self {
        let record = Arc::<Mutex<Record>>::default();
        let nodes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
        let pods = watcher(Api::<Pod>::default_namespaced(client.clone()), watcher::Config::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(nodes, Arc::clone(&record), Record::node));
        tasks.spawn(follow(pods, Arc::clone(&record), Record::pod));
        while record.lock().unwrap().n_listed < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { record, _tasks: tasks }
    }

    pub(crate) fn record(&self) -> Record {
        self.record.lock().unwrap().clone()
    }
}

async fn follow<K>(
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
    record: Arc<Mutex<Record>>,
    take: fn(&mut Record, &K, bool),
) {
    futures::pin_mut!(stream);
    while let Some(event) = stream.next().await {
        let mut record = record.lock().unwrap();
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => take(&mut record, &object, true),
            Ok(Event::Delete(object)) => take(&mut record, &object, false),
            Ok(Event::InitDone) => record.n_listed += 1,
            Ok(Event::Init) | Err(_) => {}
        }
    }
}

// === impl Record ===

impl Record {
    fn node(&mut self, node: &Node, is_there: bool) {
        let name = node.metadata.name.clone().unwrap();
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        if is_there && taints.any(|taint| taint.key == "karpenter.sh/disrupted") {
            self.going.insert(name.clone());
            self.disrupted.insert(name.clone());
        } else {
            self.going.remove(&name);
        }
        self.most_at_once = self.most_at_once.max(self.going.len());
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if let Some(ready) = conditions.find(|own| own.type_ == "Ready" && own.status == "True") {
            self.ready.entry(name).or_insert_with(|| ready.last_transition_time.as_ref().unwrap().0);
        }
    }

    fn pod(&mut self, pod: &Pod, is_there: bool) {
        let uid = pod.metadata.uid.clone().unwrap();
        let conditions = || pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_going = !is_there || pod.metadata.deletion_timestamp.is_some();
        let eviction = conditions().find(|own| own.reason.as_deref() == Some("EvictionByEvictionAPI"));
        if let Some(eviction) = eviction {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            let at = eviction.last_transition_time.as_ref().unwrap().0;
            self.evicted.entry(uid.clone()).or_insert((node, at));
        } else if is_going {
            self.ended_otherwise.insert(pod.metadata.name.clone().unwrap());
        }
        if !is_going && conditions().any(|own| own.type_ == "Ready" && own.status == "True") {
            self.serving.insert(uid);
        } else {
            self.serving.remove(&uid);
        }
        if self.serving.len() > self.most_serving {
            self.most_serving = self.serving.len();
            self.least_serving = self.most_serving;
        }
        self.least_serving = self.least_serving.min(self.serving.len());
    }

    /// Whether one of these nodes was ready as each pod was evicted.
    pub(crate) fn replaced_first(&self, by: &BTreeSet<String>) -> bool {
        let is_up = |at: &Timestamp| by.iter().any(|name| self.ready.get(name).is_some_and(|since| since <= at));
        self.evicted.values().all(|(_, at)| is_up(at))
    }
}
