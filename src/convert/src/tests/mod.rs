//! Facts of the domain, one file a subject.

#![allow(clippy::needless_pass_by_value, reason = "`json!` values are made for the call")]

mod admission;
mod autoscalers;
mod catalogue;
mod controller_labels;
mod in_flight;
mod live;
mod node_reservations;
mod nodes;
mod pods;
mod pools;
mod requests;
mod reservations;
mod rollout;
mod volumes;
mod workloads;

use berth_model::{Cluster, MemberKind, Node, PodSpec, ResourceId, Resources};
use serde_json::{Value, json};

use crate::{Builder, ConvertError, Converted, Options};

/// Adds an object by its kind.
pub(crate) fn add(builder: &mut Builder, object: Value) -> Result<(), ConvertError> {
    macro_rules! by_kind {
        ($($kind:literal => $add:ident,)*) => {
            match object["kind"].as_str().unwrap() {
                $($kind => builder.$add(&serde_json::from_value(object).unwrap()),)*
                other => panic!("no kind {other}"),
            }
        };
    }
    by_kind! {
        "Pod" => add_pod,
        "Node" => add_node,
        "Namespace" => add_namespace,
        "LimitRange" => add_limit_range,
        "RuntimeClass" => add_runtime_class,
        "ResourceQuota" => add_resource_quota,
        "ReplicationController" => add_replication_controller,
        "PersistentVolume" => add_persistent_volume,
        "PersistentVolumeClaim" => add_persistent_volume_claim,
        "Deployment" => add_deployment,
        "StatefulSet" => add_stateful_set,
        "ReplicaSet" => add_replica_set,
        "DaemonSet" => add_daemon_set,
        "Job" => add_job,
        "CronJob" => add_cron_job,
        "PriorityClass" => add_priority_class,
        "Service" => add_service,
        "StorageClass" => add_storage_class,
        "CSINode" => add_csi_node,
        "NodeResourceTopology" => add_node_resource_topology,
        "NodePool" => add_node_pool,
        "NodeClaim" => add_node_claim,
        "NodeOverlay" => add_node_overlay,
        "Reservation" => add_reservation,
        "HorizontalPodAutoscaler" => add_horizontal_pod_autoscaler,
        "PodDisruptionBudget" => add_pod_disruption_budget,
    }
}

pub(crate) fn convert(objects: impl IntoIterator<Item = Value>) -> Converted {
    convert_with(Options::default(), objects)
}

/// Objects at a time, RFC 3339.
pub(crate) fn convert_at(now: &str, objects: impl IntoIterator<Item = Value>) -> Converted {
    convert_with(Options { now: Some(now.parse().unwrap()), ..Options::default() }, objects)
}

fn convert_with(options: Options, objects: impl IntoIterator<Item = Value>) -> Converted {
    let mut builder = Builder::new(options);
    for object in objects {
        add(&mut builder, object).unwrap();
    }
    builder.finish().unwrap()
}

/// `object` with `patch` merged into it.
pub(crate) fn with(mut object: Value, patch: Value) -> Value {
    merge(&mut object, patch);
    object
}

fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch,
    }
}

pub(crate) fn api_version(kind: &str) -> &'static str {
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "PriorityClass" => "scheduling.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        "StorageClass" | "CSINode" => "storage.k8s.io/v1",
        "NodePool" | "NodeClaim" => "karpenter.sh/v1",
        "NodeOverlay" => "karpenter.sh/v1alpha1",
        "Reservation" => "scheduling.koordinator.sh/v1alpha1",
        _ => "v1",
    }
}

/// An object of a kind and name.
pub(crate) fn mk(kind: &str, name: &str, rest: Value) -> Value {
    let frame = json!({"apiVersion": api_version(kind), "kind": kind, "metadata": {"name": name}});
    with(frame, rest)
}

/// A pod of one container without requests.
pub(crate) fn mk_pod(name: &str, spec: Value) -> Value {
    mk("Pod", name, json!({"spec": with(json!({"containers": [{"name": "c"}]}), spec)}))
}

/// A workload whose pods have one container that asks for a core.
pub(crate) fn mk_workload(kind: &str, name: &str, spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    let selector = json!({"matchLabels": {"app": name}});
    mk(kind, name, json!({"spec": with(json!({"selector": selector, "template": template}), spec)}))
}

/// A node of four cores and 8 GiB.
pub(crate) fn mk_node(name: &str, rest: Value) -> Value {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    mk("Node", name, with(json!({"status": {"allocatable": amounts, "capacity": amounts}}), rest))
}

/// `controller: true` of that kind, name and uid.
pub(crate) fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true}]}})
}

/// Who is pending, as `ns/name` or `ns/name-first..last`, in order.
pub(crate) fn pending(cluster: &Cluster) -> Vec<String> {
    let mut names = Vec::new();
    for row in &cluster.pending {
        for run in &row.members {
            let namespace = match row.kind {
                MemberKind::Pod => format!("{}/", cluster.symbols.text(row.namespace)),
                MemberKind::Reservation => "reservation ".to_owned(),
            };
            names.push(match run.numbers {
                None => format!("{namespace}{}", run.name),
                Some((first, count)) => format!("{namespace}{}-{first}..{}", run.name, first + count - 1),
            });
        }
    }
    names
}

/// The spec of the first pending row.
pub(crate) fn first_spec(cluster: &Cluster) -> &PodSpec {
    &cluster.specs[cluster.pending[0].spec.index()]
}

/// Why the first pending row is never planned.
pub(crate) fn first_refusal(cluster: &Cluster) -> Option<&str> {
    first_spec(cluster).refusal.as_ref().map(|refusal| refusal.0.as_str())
}

pub(crate) fn node<'a>(cluster: &'a Cluster, name: &str) -> &'a Node {
    let is_named = |node: &&Node| cluster.symbols.text(node.name) == name;
    cluster.nodes.iter().find(is_named).unwrap()
}

/// An amount by the resource's name.
pub(crate) fn amount(resources: &Resources, name: &str, cluster: &Cluster) -> i64 {
    let named = cluster.resource_names.iter().find(|(_, known)| cluster.symbols.text(*known) == name);
    named.map_or(0, |(id, _): (ResourceId, _)| resources.get(id))
}
