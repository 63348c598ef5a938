//! Pods that controllers should have made and could not: a quota, a LimitRange or a class that is not there keeps them out.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::outcome::Unplaced;

/// A Job that is younger may have none yet.
const YOUNGEST: SignedDuration = SignedDuration::from_mins(1);

/// Pods of an owner that are not there: how many, since when, and what was said.
struct Missing {
    pods: i32,
    since: Option<Time>,
    said: Option<String>,
}

/// The pods that are not there at the end, by what was said.
///
/// # Errors
/// The API server does not answer.
pub(crate) async fn all(client: &Client, now: Timestamp) -> Result<Vec<Unplaced>, kube::Error> {
    let mut by_reason: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    let mut add = |owner: String, missing: Missing| {
        let said = missing.said.map_or_else(String::new, |said| format!(": {said}"));
        let waited = missing.since.map_or(0.0, |since| now.duration_since(since.0).as_secs_f64().max(0.0));
        let (pods, longest) = by_reason.entry(format!("{owner} could not make its pods{said}")).or_default();
        *pods += u64::try_from(missing.pods).unwrap_or(0);
        *longest = waited.max(*longest);
    };
    for owner in list::<ReplicaSet>(client).await? {
        if let Some(missing) = of_replica_set(&owner) {
            add(named("ReplicaSet", &owner), missing);
        }
    }
    for owner in list::<ReplicationController>(client).await? {
        if let Some(missing) = of_controller(&owner) {
            add(named("ReplicationController", &owner), missing);
        }
    }
    for owner in list::<StatefulSet>(client).await? {
        if let Some(missing) = of_stateful_set(&owner) {
            add(named("StatefulSet", &owner), missing);
        }
    }
    for owner in list::<Job>(client).await? {
        if let Some(missing) = of_job(&owner, now) {
            add(named("Job", &owner), missing);
        }
    }
    let rows = by_reason.into_iter().map(|(reason, (pods, longest))| Unplaced { reason, pods, longest });
    Ok(rows.collect())
}

async fn list<K>(client: &Client) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await?.items;
    Ok(all.into_iter().filter(|owner| owner.meta().deletion_timestamp.is_none()).collect())
}

fn named(kind: &str, owner: &impl ResourceExt) -> String {
    format!("{kind} {}/{}", owner.namespace().unwrap_or_default(), owner.name_any())
}

/// What its condition says.
fn of_replica_set(owner: &ReplicaSet) -> Option<Missing> {
    let status = owner.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let failure = conditions.into_iter().find(|own| own.type_ == "ReplicaFailure" && own.status == "True")?;
    let pods = owner.spec.as_ref()?.replicas.unwrap_or(1) - status.replicas;
    let (since, said) = (failure.last_transition_time.clone(), failure.message.clone());
    (pods > 0).then_some(Missing { pods, since, said })
}

fn of_controller(owner: &ReplicationController) -> Option<Missing> {
    let status = owner.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let failure = conditions.into_iter().find(|own| own.type_ == "ReplicaFailure" && own.status == "True")?;
    let pods = owner.spec.as_ref()?.replicas.unwrap_or(1) - status.replicas;
    let (since, said) = (failure.last_transition_time.clone(), failure.message.clone());
    (pods > 0).then_some(Missing { pods, since, said })
}

/// It says nothing; but it makes the next pod once those that are there are ready.
fn of_stateful_set(owner: &StatefulSet) -> Option<Missing> {
    let status = owner.status.as_ref()?;
    let pods = owner.spec.as_ref()?.replicas.unwrap_or(1) - status.replicas;
    let is_seen = status.observed_generation == owner.meta().generation;
    let is_its_turn = is_seen && status.ready_replicas.unwrap_or(0) == status.replicas;
    (pods > 0 && is_its_turn).then(|| Missing { pods, since: owner.meta().creation_timestamp.clone(), said: None })
}

/// It says nothing; but one that goes on has pods.
fn of_job(owner: &Job, now: Timestamp) -> Option<Missing> {
    let spec = owner.spec.as_ref()?;
    let status = owner.status.clone().unwrap_or_default();
    let is_over = status.conditions.iter().flatten().any(|own| {
        matches!(own.type_.as_str(), "Complete" | "Failed" | "SuccessCriteriaMet" | "FailureTarget")
            && own.status == "True"
    });
    let has_made = status.active.unwrap_or(0) + status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0) > 0;
    let pods = spec.parallelism.unwrap_or(1).min(spec.completions.unwrap_or(i32::MAX));
    let since = owner.meta().creation_timestamp.clone();
    let is_old = since.as_ref().is_some_and(|since| now.duration_since(since.0) > YOUNGEST);
    let is_missing = is_old && !is_over && !has_made && spec.suspend != Some(true) && pods > 0;
    is_missing.then_some(Missing { pods, since, said: None })
}
