//! What a cluster has said of objects, which stays where a change gives them again.

use std::collections::BTreeMap;

use berth_manifests::Object;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// What `kubectl apply` notes of the manifest that it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Objects that a change may give again, by kind, namespace and name.
#[derive(Default)]
pub(crate) struct Applied {
    known: BTreeMap<(&'static str, String, String), Object>,
}

/// An object of the change as it is once it has been applied.
pub(crate) struct Merged {
    pub(crate) object: Object,
    /// What of the change cannot be applied.
    pub(crate) warning: Option<String>,
}

// === impl Applied ===

impl Applied {
    /// Keeps an object of the cluster as it was before the change. The last of a name counts.
    pub(crate) fn keep(&mut self, object: &Object) {
        let is_owned = || object.metadata().owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        let is_given_again = match object {
            // What controllers make is in no one's manifests.
            Object::Pod(pod) => !is_owned() && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
            Object::ReplicaSet(_) | Object::NodeClaim(_) | Object::CSINode(_) => !is_owned(),
            _ => true,
        };
        if is_given_again {
            self.known.insert(key(object), object.clone());
        }
    }

    /// The object that the change gives, with what is said of the one that is there: applying an object touches neither
    /// its status, nor what it is bound to, nor labels, annotations and switches that neither it names nor what was
    /// applied last. `None` where it is all there is.
    pub(crate) fn merged(&self, object: &Object) -> Option<Merged> {
        let before = self.known.get(&key(object))?;
        let mut object = object.clone();
        let last = LastApplied::of(before.metadata());
        keep_metadata(object.metadata_mut(), before.metadata(), &last);
        let warning = keep_state(&mut object, before, &last);
        Some(Merged { object, warning })
    }
}

// === impl LastApplied ===

/// The manifest that was applied last, where the object says so.
struct LastApplied(Option<Value>);

impl LastApplied {
    fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.annotations.as_ref().and_then(|all| all.get(LAST_APPLIED));
        LastApplied(text.and_then(|text| serde_json::from_str(text).ok()))
    }

    /// Whether it names a field, so that a manifest that does not takes it away.
    fn names(&self, path: &[&str]) -> bool {
        let found = path.iter().try_fold(self.0.as_ref(), |value, field| Some(value?.get(field)));
        found.flatten().is_some_and(|value| !value.is_null())
    }

    /// What is not given stays, unless it was given last.
    fn keep<T: Clone>(&self, path: &[&str], after: &mut Option<T>, before: Option<&T>) {
        if !self.names(path) {
            keep(after, before);
        }
    }

    /// The same of each entry of a map of the metadata.
    fn keep_entries(&self, field: &str, after: &mut Option<Entries>, before: Option<&Entries>) {
        for (key, value) in before.into_iter().flatten() {
            if !self.names(&["metadata", field, key]) {
                after.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// Labels or annotations.
type Entries = BTreeMap<String, String>;

/// Keeps what is said beside the metadata; tells what of the change cannot be applied.
fn keep_state(object: &mut Object, before: &Object, last: &LastApplied) -> Option<String> {
    match (object, before) {
        (Object::Job(after), Object::Job(before)) => {
            keep(&mut after.status, before.status.as_ref());
            if let (Some(after), Some(before)) = (&mut after.spec, &before.spec) {
                last.keep(&["spec", "suspend"], &mut after.suspend, before.suspend.as_ref());
            }
        }
        (Object::CronJob(after), Object::CronJob(before)) => {
            if let (Some(after), Some(before)) = (&mut after.spec, &before.spec) {
                last.keep(&["spec", "suspend"], &mut after.suspend, before.suspend.as_ref());
            }
        }
        (Object::Deployment(after), Object::Deployment(before)) => {
            if let (Some(after), Some(before)) = (&mut after.spec, &before.spec) {
                last.keep(&["spec", "paused"], &mut after.paused, before.paused.as_ref());
            }
        }
        (Object::Reservation(after), Object::Reservation(before)) => {
            keep(&mut after.status, before.status.as_ref());
        }
        (Object::ResourceQuota(after), Object::ResourceQuota(before)) => {
            keep(&mut after.status, before.status.as_ref());
        }
        (Object::Node(after), Object::Node(before)) => {
            keep(&mut after.status, before.status.as_ref());
            keep_node_spec(after, before, last);
        }
        (Object::PersistentVolumeClaim(after), Object::PersistentVolumeClaim(before)) => {
            keep(&mut after.status, before.status.as_ref());
            if let (Some(after), Some(before)) = (&mut after.spec, &before.spec) {
                keep(&mut after.volume_name, before.volume_name.as_ref());
                keep(&mut after.storage_class_name, before.storage_class_name.as_ref());
            }
        }
        (Object::Pod(after), Object::Pod(before)) => {
            keep(&mut after.status, before.status.as_ref());
            let is_refused = asks_differently(after, before);
            after.spec.clone_from(&before.spec);
            if is_refused {
                let (namespace, name) = (namespace_of(&before.metadata), before.metadata.name.as_deref());
                return Some(format!(
                    "Pod {namespace}/{}: it runs, and what it requests cannot be changed by applying it: it counts as it is",
                    name.unwrap_or_default()
                ));
            }
        }
        _ => {}
    }
    None
}

fn keep_node_spec(after: &mut Node, before: &Node, last: &LastApplied) {
    let Some(before) = &before.spec else { return };
    let after = after.spec.get_or_insert_default();
    keep(&mut after.provider_id, before.provider_id.as_ref());
    last.keep(&["spec", "taints"], &mut after.taints, before.taints.as_ref());
    last.keep(&["spec", "unschedulable"], &mut after.unschedulable, before.unschedulable.as_ref());
}

fn key(object: &Object) -> (&'static str, String, String) {
    let metadata = object.metadata();
    (object.kind(), namespace_of(metadata).to_owned(), metadata.name.clone().unwrap_or_default())
}

fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// What is not given stays.
fn keep<T: Clone>(after: &mut Option<T>, before: Option<&T>) {
    if after.is_none() {
        *after = before.cloned();
    }
}

fn keep_metadata(after: &mut ObjectMeta, before: &ObjectMeta, last: &LastApplied) {
    keep(&mut after.uid, before.uid.as_ref());
    keep(&mut after.creation_timestamp, before.creation_timestamp.as_ref());
    keep(&mut after.deletion_timestamp, before.deletion_timestamp.as_ref());
    keep(&mut after.owner_references, before.owner_references.as_ref());
    last.keep_entries("labels", &mut after.labels, before.labels.as_ref());
    last.keep_entries("annotations", &mut after.annotations, before.annotations.as_ref());
}

/// Whether the containers of a running pod are given other requests.
fn asks_differently(after: &Pod, before: &Pod) -> bool {
    let requests = |spec: &Option<PodSpec>| -> Vec<_> {
        let containers = spec.iter().flat_map(|spec| &spec.containers);
        containers.map(|one| one.resources.as_ref().and_then(|all| all.requests.clone()).unwrap_or_default()).collect()
    };
    requests(&after.spec) != requests(&before.spec)
}
