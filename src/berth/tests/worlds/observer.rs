//! States what may never be seen, whoever dies and restarts: by watches of the API server, by what the cloud lists, and by
//! what each Berth writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::{FakeCapacityReservation, NodeClaim, labels};
use berth_cloudprovider::{CloudProvider, tag};
use berth_cloudprovider_remote::RemoteCloud;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::SelectorExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;

use crate::way::Reigns;

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
    /// Who led, and who wrote.
    pub(crate) reigns: Reigns,
    _tasks: JoinSet<()>,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn start(client: Client, cloud: RemoteCloud) -> Self {
        let seen = Seen::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(pods(client.clone(), seen.clone()));
        tasks.spawn(claims(client.clone(), cloud.clone(), seen.clone()));
        tasks.spawn(slots(client.clone(), seen.clone()));
        tasks.spawn(evictions(client.clone(), seen.clone()));
        tasks.spawn(instances(client, cloud, seen.clone()));
        Self { seen, reigns: Reigns::default(), _tasks: tasks }
    }

    /// What was seen.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.reigns.judge().into_iter().for_each(|wrong| self.seen.add(wrong));
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

/// No NodeClaim goes before its instance, nor loses the finalizer that it waits by.
async fn claims(client: Client, cloud: RemoteCloud, seen: Seen) {
    let stream = watcher(Api::<NodeClaim>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut held = BTreeSet::new();
    while let Some(event) = stream.next().await {
        let has_finalizer = |claim: &NodeClaim| {
            claim.metadata.finalizers.iter().flatten().any(|own| own == labels::TERMINATION_FINALIZER)
        };
        let (claim, what) = match event {
            Ok(Event::Delete(claim)) => (claim, "is gone"),
            Ok(Event::Apply(claim)) => {
                let uid = claim.metadata.uid.clone().unwrap_or_default();
                match (has_finalizer(&claim), held.contains(&uid)) {
                    (true, _) => {
                        held.insert(uid);
                        continue;
                    }
                    (false, true) => (claim, "has no finalizer any more"),
                    (false, false) => continue,
                }
            }
            _ => continue,
        };
        let uid = claim.metadata.uid.unwrap_or_default();
        let tags = BTreeMap::from([(tag::NODE_CLAIM_UID.to_owned(), uid)]);
        let Ok(left) = cloud.list(&tags).await else { continue };
        if let Some(left) = left.iter().find(|instance| instance.state.is_alive()) {
            let name = claim.metadata.name.unwrap_or_default();
            seen.add(format!("NodeClaim {name} {what} and {} still runs", left.provider_id));
        }
    }
}

/// No reservation gets another instance that it has no slot for: those that it has stay where its count is lowered.
async fn slots(client: Client, seen: Seen) {
    let stream = watcher(Api::<FakeCapacityReservation>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut before: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let Ok(Event::Apply(own) | Event::InitApply(own)) = event else { continue };
        let (name, Some(status)) = (own.metadata.name.unwrap_or_default(), own.status) else { continue };
        let known = before.insert(name.clone(), (status.total, status.used));
        if known.is_some_and(|(total, used)| total <= status.total && status.used > status.total.max(used)) {
            seen.add(format!("reservation {name}: {} of {} slots are used", status.used, status.total));
        }
    }
}

/// No eviction leaves a PodDisruptionBudget with fewer healthy pods than it asks for.
async fn evictions(client: Client, seen: Seen) {
    let stream = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut known = BTreeSet::new();
    while let Some(event) = stream.next().await {
        let Ok(Event::Apply(pod)) = event else { continue };
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_evicted = conditions
            .into_iter()
            .any(|own| own.type_ == "DisruptionTarget" && own.reason.as_deref() == Some("EvictionByEvictionAPI"));
        if !is_evicted || !known.insert(pod.metadata.uid.clone()) {
            continue;
        }
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), &namespace);
        let Ok(budgets) = budgets.list(&ListParams::default()).await else { continue };
        let Ok(pods) = Api::<Pod>::namespaced(client.clone(), &namespace).list(&ListParams::default()).await else {
            continue;
        };
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        for budget in budgets {
            let selector = budget.spec.and_then(|spec| spec.selector).unwrap_or_default();
            let selector: kube::core::Selector = selector.try_into().unwrap();
            let wanted = budget.status.map_or(0, |status| status.desired_healthy);
            let is_healthy = |pod: &&Pod| {
                let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                pod.metadata.labels.as_ref().is_some_and(|labels| selector.matches(labels))
                    && conditions.any(|own| own.type_ == "Ready" && own.status == "True")
            };
            // Those that end are counted by their readiness until they are gone, as the budget's controller does.
            let healthy = pods.iter().filter(is_healthy).filter(|own| own.metadata.uid != pod.metadata.uid).count();
            if selector.matches(&labels) && i32::try_from(healthy).unwrap() < wanted {
                let (name, budget) = (pod.metadata.name.as_deref(), budget.metadata.name.as_deref());
                seen.add(format!("{name:?} is evicted against {budget:?}: {healthy} of {wanted} are left"));
            }
        }
    }
}

/// How long an instance may be nobody's: garbage is looked for every two minutes.
const NOBODYS: Duration = Duration::from_secs(200);

/// No NodeClaim has two instances at a time, and no instance is nobody's for long.
async fn instances(client: Client, cloud: RemoteCloud, seen: Seen) {
    let claims = Api::<NodeClaim>::all(client);
    let mut nobodys: BTreeMap<String, std::time::Instant> = BTreeMap::new();
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let Ok(all) = cloud.list(&BTreeMap::new()).await else { continue };
        let Ok(there) = claims.list(&ListParams::default()).await else { continue };
        let there: BTreeSet<String> = there.into_iter().filter_map(|claim| claim.metadata.uid).collect();
        let is_nobodys = |instance: &&berth_cloudprovider::Instance| {
            instance.state.is_alive() && instance.tags.get(tag::NODE_CLAIM_UID).is_none_or(|uid| !there.contains(uid))
        };
        let left: BTreeSet<String> =
            all.iter().filter(is_nobodys).map(|instance| instance.provider_id.to_string()).collect();
        nobodys.retain(|id, _| left.contains(id));
        for id in left {
            let since = *nobodys.entry(id.clone()).or_insert_with(std::time::Instant::now);
            if since.elapsed() > NOBODYS {
                seen.add(format!("instance {id} is leaked: no NodeClaim is for it"));
            }
        }
        let mut known = BTreeSet::new();
        for instance in all.iter().filter(|instance| instance.state.is_alive()) {
            let uid = instance.tags.get(tag::NODE_CLAIM_UID).cloned().unwrap_or_default();
            if !known.insert(uid.clone()) {
                seen.add(format!("NodeClaim {uid} has two instances"));
            }
        }
    }
}
