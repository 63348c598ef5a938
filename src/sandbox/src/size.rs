//! How much a sandbox can hold: everything that its objects ask for is in the memory of one process.

use berth_manifests::Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::SandboxError;

/// The most pods of all objects together. Measured with half as many, which take some 2.5 GiB.
const MOST_PODS: u64 = 200_000;

/// Refuses objects that ask for more pods than a sandbox can hold: the one, and its field, with which they are too many.
pub(crate) fn check(objects: &[Object]) -> Result<(), SandboxError> {
    let mut total = 0_u64;
    for object in objects {
        let Some((field, asked)) = pods_of(object) else { continue };
        total = total.saturating_add(asked);
        if total > MOST_PODS {
            let object = format!("{} {}", object.kind(), full_name(object.metadata()));
            let others = total.saturating_sub(asked);
            return Err(SandboxError::TooManyPods { object, field, asked, others, most: MOST_PODS });
        }
    }
    Ok(())
}

/// How many pods run of an object at a time, and the field that says so. Pods of DaemonSets depend on the nodes.
fn pods_of(object: &Object) -> Option<(&'static str, u64)> {
    let count = |asked: Option<i32>| u64::try_from(asked.unwrap_or(1)).unwrap_or(0);
    Some(match object {
        Object::Pod(_) => ("spec", 1),
        Object::Deployment(object) => ("spec.replicas", count(object.spec.as_ref()?.replicas)),
        Object::ReplicaSet(object) => ("spec.replicas", count(object.spec.as_ref()?.replicas)),
        Object::StatefulSet(object) => ("spec.replicas", count(object.spec.as_ref()?.replicas)),
        Object::ReplicationController(object) => ("spec.replicas", count(object.spec.as_ref()?.replicas)),
        Object::Job(object) => ("spec.parallelism", parallel(object.spec.as_ref()?)),
        Object::CronJob(object) => {
            let job = object.spec.as_ref()?.job_template.spec.as_ref()?;
            ("spec.jobTemplate.spec.parallelism", parallel(job))
        }
        _ => return None,
    })
}

fn parallel(job: &k8s_openapi::api::batch::v1::JobSpec) -> u64 {
    let all = job.completions.unwrap_or(i32::MAX);
    u64::try_from(job.parallelism.unwrap_or(1).min(all)).unwrap_or(0)
}

fn full_name(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
}
