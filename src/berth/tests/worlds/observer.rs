//! States what may never be seen, whoever dies and restarts: by watches of the API server, and by what the cloud lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::{FakeCapacityReservation, NodeClaim};
use berth_cloudprovider::{CloudProvider, tag};
use berth_cloudprovider_remote::RemoteCloud;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, violation: String) {
        let mut all = self.0.lock().unwrap();
        if !all.contains(&violation) {
            all.push(violation);
        }
    }
}

/// Watches until it is dropped.
pub(crate) struct Observer {
    seen: Seen,
    _tasks: JoinSet<()>,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn start(client: Client, cloud: RemoteCloud) -> Self {
        let seen = Seen::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(pods(client.clone(), seen.clone()));
        tasks.spawn(claims(client.clone(), cloud.clone(), seen.clone()));
        tasks.spawn(slots(client, seen.clone()));
        tasks.spawn(instances(cloud, seen.clone()));
        Self { seen, _tasks: tasks }
    }

    /// What was seen.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().clone()
    }
}

/// No pod comes to a second node, nor to one that has no room for it.
async fn pods(client: Client, seen: Seen) {
    let stream = watcher(Api::<Pod>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        let Some(node) = pod.spec.and_then(|spec| spec.node_name) else { continue };
        let rejected = pod.status.and_then(|status| status.reason).filter(|reason| reason.starts_with("OutOf"));
        if let Some(reason) = rejected {
            seen.add(format!(
                "pod {} came to {node} too early: {reason}",
                pod.metadata.name.as_deref().unwrap_or_default()
            ));
        }
        let before = bound.insert(pod.metadata.uid.unwrap_or_default(), node.clone());
        if before.is_some_and(|before| before != node) {
            seen.add(format!("pod {} is on a second node", pod.metadata.name.unwrap_or_default()));
        }
    }
}

/// No NodeClaim goes before its instance.
async fn claims(client: Client, cloud: RemoteCloud, seen: Seen) {
    let stream = watcher(Api::<NodeClaim>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    while let Some(event) = stream.next().await {
        let Ok(Event::Delete(claim)) = event else { continue };
        let uid = claim.metadata.uid.unwrap_or_default();
        let tags = BTreeMap::from([(tag::NODE_CLAIM_UID.to_owned(), uid)]);
        let Ok(left) = cloud.list(&tags).await else { continue };
        if let Some(left) = left.iter().find(|instance| instance.state.is_alive()) {
            let name = claim.metadata.name.unwrap_or_default();
            seen.add(format!("NodeClaim {name} is gone and {} still runs", left.provider_id));
        }
    }
}

/// No reservation has more instances than slots, while its count stays.
async fn slots(client: Client, seen: Seen) {
    let stream = watcher(Api::<FakeCapacityReservation>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut totals: BTreeMap<String, i64> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let Ok(Event::Apply(own) | Event::InitApply(own)) = event else { continue };
        let (name, Some(status)) = (own.metadata.name.unwrap_or_default(), own.status) else { continue };
        let before = totals.insert(name.clone(), status.total);
        if before.is_some_and(|before| before <= status.total) && status.used > status.total {
            seen.add(format!("reservation {name}: {} of {} slots are used", status.used, status.total));
        }
    }
}

/// No NodeClaim has two instances at a time.
async fn instances(cloud: RemoteCloud, seen: Seen) {
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let Ok(all) = cloud.list(&BTreeMap::new()).await else { continue };
        let mut known = BTreeSet::new();
        for instance in all.iter().filter(|instance| instance.state.is_alive()) {
            let uid = instance.tags.get(tag::NODE_CLAIM_UID).cloned().unwrap_or_default();
            if !known.insert(uid.clone()) {
                seen.add(format!("NodeClaim {uid} has two instances"));
            }
        }
    }
}
