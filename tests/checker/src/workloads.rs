//! Deployments and their like become pods `namespace/owner-0…`; children that are in the input are subtracted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::taints;
use crate::world::World;

/// A workload, and how many of its possible pods are to be planned.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// `namespace/name`.
    pub(crate) name: String,
    /// Pods to plan; names run up to the number of replicas.
    pub(crate) pods: usize,
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn count(object: &Value, path: &str) -> Option<usize> {
    object.pointer(path).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok())
}

fn namespace(object: &Value) -> &str {
    match text(object, "/metadata/namespace") {
        "" => "default",
        name => name,
    }
}

/// Is `child` (its metadata as JSON) controlled by an object of this kind, namespace and name?
fn controlled_by(child: &ObjectMeta, child_namespace: &str, owner: &Value) -> bool {
    child_namespace == namespace(owner)
        && child
            .owner_references
            .iter()
            .flatten()
            .any(|reference| reference.kind == text(owner, "/kind") && reference.name == text(owner, "/metadata/name"))
}

fn metadata(object: &Value) -> ObjectMeta {
    object.get("metadata").and_then(|m| ObjectMeta::deserialize(m).ok()).unwrap_or_default()
}

/// How many pods the workload wants in all, those that run already included.
fn wanted(object: &Value) -> usize {
    match text(object, "/kind") {
        "Job" | "CronJob" => {
            let job = if text(object, "/kind") == "Job" { "" } else { "/spec/jobTemplate" };
            if object.pointer(&format!("{job}/spec/suspend")).and_then(Value::as_bool) == Some(true) {
                return 0;
            }
            let parallelism = count(object, &format!("{job}/spec/parallelism")).unwrap_or(1);
            let done = if job.is_empty() { count(object, "/status/succeeded").unwrap_or(0) } else { 0 };
            match count(object, &format!("{job}/spec/completions")) {
                Some(completions) => parallelism.min(completions.saturating_sub(done)),
                None => parallelism,
            }
        }
        _ => count(object, "/spec/replicas").unwrap_or(1),
    }
}

/// Pods in the input that the workload controls, itself or through a ReplicaSet or Job of its own.
fn children(world: &World, object: &Value, owners: &[Value]) -> usize {
    let between: Vec<&Value> = owners.iter().filter(|o| controlled_by(&metadata(o), namespace(o), object)).collect();
    // A StatefulSet's next pod has the same name: it comes when this one is gone, and finds its room.
    let is_stateful = text(object, "/kind") == "StatefulSet";
    let takes_pods = |name: &String| {
        let spec = world.nodes.get(name).map(|node| node.spec.as_ref());
        spec.is_some_and(|spec| spec.is_none_or(|spec| spec.unschedulable != Some(true)))
    };
    let is_waited_for =
        |pod: &&crate::world::Pod| is_stateful && pod.is_terminating() && pod.node.as_ref().is_some_and(takes_pods);
    let is_child = |pod: &&crate::world::Pod| {
        (!pod.is_optional || is_waited_for(pod))
            && (controlled_by(&pod.meta, &pod.namespace, object)
                || between.iter().any(|o| controlled_by(&pod.meta, &pod.namespace, o)))
    };
    world.pods.iter().filter(is_child).count()
}

/// Adds the pods of every workload that no other workload of the input controls.
pub(crate) fn expand(world: &mut World, owners: &[Value]) {
    let explicit_children: Vec<usize> = owners.iter().map(|o| children(world, o, owners)).collect();
    for (object, running) in owners.iter().zip(explicit_children) {
        if owners.iter().any(|o| controlled_by(&metadata(object), namespace(object), o)) {
            continue;
        }
        let path =
            if text(object, "/kind") == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
        let template = object.pointer(path).map(PodTemplateSpec::deserialize);
        let Some(Ok(template)) = template else {
            continue;
        };
        if text(object, "/kind") == "DaemonSet" {
            add_daemon(world, object, template);
        } else {
            add_replicas(world, object, &template, running);
        }
    }
}

/// Adds the DaemonSets that only their running pods tell of: each is as its newest pod, but for the node's name.
pub(crate) fn add_untold_daemons(world: &mut World, owners: &[Value]) {
    let mut newest: BTreeMap<(String, String), &crate::world::Pod> = BTreeMap::new();
    let created = |pod: &crate::world::Pod| pod.meta.creation_timestamp.as_ref().map(|time| time.0);
    for pod in world.pods.iter().filter(|pod| pod.node.is_some() && !pod.is_terminating()) {
        let mut references = pod.meta.owner_references.iter().flatten();
        let controller = references.find(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
        let Some(controller) = controller else { continue };
        if owners.iter().any(|object| controlled_by(&pod.meta, &pod.namespace, object)) {
            continue;
        }
        let known = newest.entry((pod.namespace.clone(), controller.name.clone())).or_insert(pod);
        if (created(known), &known.name) < (created(pod), &pod.name) {
            *known = pod;
        }
    }
    let newest: Vec<_> = newest.into_values().map(|pod| ((*pod.meta).clone(), (*pod.spec).clone())).collect();
    for (meta, mut spec) in newest {
        spec.node_name = None;
        let affinity = spec.affinity.as_mut().and_then(|affinity| affinity.node_affinity.as_mut());
        if let Some(affinity) = affinity
            && let Some(required) = &mut affinity.required_during_scheduling_ignored_during_execution
        {
            required.node_selector_terms.retain(|term| term.match_fields.is_none());
            if required.node_selector_terms.is_empty() {
                affinity.required_during_scheduling_ignored_during_execution = None;
            }
        }
        let daemon = world.make_pod(meta, spec);
        world.daemons.push(daemon);
    }
}

fn template_meta(object: &Value, template: &PodTemplateSpec, name: String) -> ObjectMeta {
    let mut meta = template.metadata.clone().unwrap_or_default();
    meta.name = Some(name);
    meta.namespace = Some(namespace(object).to_owned());
    meta
}

fn add_daemon(world: &mut World, object: &Value, template: PodTemplateSpec) {
    let meta = template_meta(object, &template, text(object, "/metadata/name").to_owned());
    let mut spec = template.spec.unwrap_or_default();
    let mut tolerations = spec.tolerations.unwrap_or_default();
    tolerations.extend(taints::of_daemons());
    spec.tolerations = Some(tolerations);
    let daemon = world.make_pod(meta, spec);
    world.daemons.push(daemon);
}

fn add_replicas(world: &mut World, object: &Value, template: &PodTemplateSpec, running: usize) {
    let name = text(object, "/metadata/name");
    let all = wanted(object);
    let pods = all.saturating_sub(running);
    let id = world.workloads.len();
    world.workloads.push(Workload { name: format!("{}/{name}", namespace(object)), pods });
    let claims: Vec<PersistentVolumeClaim> =
        object.pointer("/spec/volumeClaimTemplates").and_then(|v| Vec::deserialize(v).ok()).unwrap_or_default();
    if pods == 0 {
        return;
    }
    let meta = template_meta(object, template, String::new());
    let prototype = world.make_pod(meta, template.spec.clone().unwrap_or_default());
    for index in 0..all {
        let mut pod = prototype.clone();
        pod.name = format!("{}/{name}-{index}", pod.namespace);
        pod.workload = Some(id);
        for claim in &claims {
            let short = claim.metadata.name.clone().unwrap_or_default();
            pod.own_claims.push((format!("{short}-{name}-{index}"), claim.spec.clone().unwrap_or_default()));
        }
        if !world.pod_index.contains_key(&pod.name) {
            world.push_pod(pod);
        }
    }
}
