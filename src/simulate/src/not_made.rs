//! Pods that controllers should have made and could not: a quota, a LimitRange or a class that is not there keeps them out.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;

use crate::outcome::Unplaced;

/// Those who make pods and may fail to.
const KINDS: [(&str, &str); 4] =
    [("apps", "ReplicaSet"), ("", "ReplicationController"), ("apps", "StatefulSet"), ("batch", "Job")];
/// A Job that is younger may have none yet.
const YOUNGEST: SignedDuration = SignedDuration::from_mins(1);

/// What is read of them; each kind has some of it.
#[derive(Debug, Deserialize)]
struct Owner {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<u32>,
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    replicas: u32,
    ready_replicas: u32,
    observed_generation: Option<i64>,
    active: u32,
    succeeded: u32,
    failed: u32,
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    r#type: String,
    status: String,
    message: Option<String>,
    last_transition_time: Option<Time>,
}

/// Pods of an owner that are not there: how many, since when, and what was said.
#[derive(Debug)]
struct Missing<'o> {
    pods: u32,
    since: Option<&'o Time>,
    said: Option<&'o str>,
}

// === impl Status ===

impl Status {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|own| own.r#type == type_ && own.status == "True")
    }
}

// === impl Owner ===

impl Owner {
    fn missing<'o>(&'o self, kind: &str, metadata: &'o ObjectMeta, now: Timestamp) -> Option<Missing<'o>> {
        let Self { spec, status } = self;
        let created = metadata.creation_timestamp.as_ref();
        let pods = spec.replicas.unwrap_or(1).saturating_sub(status.replicas);
        let missing = match kind {
            // It says nothing; but one that goes on has pods.
            "Job" => {
                let is_over = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
                let is_over = spec.suspend || is_over.iter().any(|known| status.condition(known).is_some());
                let has_made = status.active + status.succeeded + status.failed > 0;
                let is_old = created.is_some_and(|since| now.duration_since(since.0) > YOUNGEST);
                let pods = spec.parallelism.unwrap_or(1).min(spec.completions.unwrap_or(u32::MAX));
                (is_old && !is_over && !has_made).then_some(Missing { pods, since: created, said: None })
            }
            // It says nothing; but it makes the next pod once those that are there are ready.
            "StatefulSet" => {
                let is_its_turn =
                    status.observed_generation == metadata.generation && status.ready_replicas == status.replicas;
                is_its_turn.then_some(Missing { pods, since: created, said: None })
            }
            _ => status.condition("ReplicaFailure").map(|failure| Missing {
                pods,
                since: failure.last_transition_time.as_ref(),
                said: failure.message.as_deref(),
            }),
        };
        missing.filter(|missing| missing.pods > 0)
    }
}

/// The pods that are not there at the end, by what was said.
///
/// # Errors
/// The API server does not answer.
pub(crate) async fn all(client: &Client, now: Timestamp) -> Result<Vec<Unplaced>, kube::Error> {
    let mut by_reason: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for (group, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in api.list(&ListParams::default()).await?.items {
            let owner: Owner = serde_json::from_value(object.data.clone()).map_err(kube::Error::SerdeError)?;
            let missing = owner.missing(kind, &object.metadata, now);
            let Some(missing) = missing.filter(|_| object.metadata.deletion_timestamp.is_none()) else { continue };
            let name = format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any());
            let said = missing.said.map_or_else(String::new, |said| format!(": {said}"));
            let waited = missing.since.map_or(0.0, |since| now.duration_since(since.0).as_secs_f64().max(0.0));
            let (pods, longest) = by_reason.entry(format!("{name} could not make its pods{said}")).or_default();
            *pods += u64::from(missing.pods);
            *longest = waited.max(*longest);
        }
    }
    let rows = by_reason.into_iter().map(|(reason, (pods, longest))| Unplaced { reason, pods, longest });
    Ok(rows.collect())
}
