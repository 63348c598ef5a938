//! What a cluster has said of objects, which stays where a change gives them again.

use std::collections::BTreeMap;

use berth_manifests::Object;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Objects of the kinds whose state is in themselves, by kind, namespace and name: the state of others is in their pods.
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
        let has_state = match object {
            // Others are made by controllers, and are in no one's manifests.
            Object::Pod(pod) => {
                pod.metadata.owner_references.as_ref().is_none_or(Vec::is_empty)
                    && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            }
            Object::Job(_) | Object::PersistentVolumeClaim(_) | Object::Reservation(_) | Object::ResourceQuota(_) => {
                true
            }
            _ => false,
        };
        if has_state {
            self.known.insert(key(object), object.clone());
        }
    }

    /// The object that the change gives, with what the cluster has said of the one that is there: applying an object touches
    /// neither its status, nor what it is bound to, nor annotations that it does not name. `None` where it is all there is.
    pub(crate) fn merged(&self, object: &Object) -> Option<Merged> {
        let before = self.known.get(&key(object))?;
        let mut object = object.clone();
        let mut warning = None;
        match (&mut object, before) {
            (Object::Job(after), Object::Job(before)) => {
                keep_metadata(&mut after.metadata, &before.metadata);
                keep(&mut after.status, before.status.as_ref());
            }
            (Object::Reservation(after), Object::Reservation(before)) => {
                keep_metadata(&mut after.metadata, &before.metadata);
                keep(&mut after.status, before.status.as_ref());
            }
            (Object::ResourceQuota(after), Object::ResourceQuota(before)) => {
                keep_metadata(&mut after.metadata, &before.metadata);
                keep(&mut after.status, before.status.as_ref());
            }
            (Object::PersistentVolumeClaim(after), Object::PersistentVolumeClaim(before)) => {
                keep_metadata(&mut after.metadata, &before.metadata);
                keep(&mut after.status, before.status.as_ref());
                if let (Some(after), Some(before)) = (&mut after.spec, &before.spec) {
                    keep(&mut after.volume_name, before.volume_name.as_ref());
                    keep(&mut after.storage_class_name, before.storage_class_name.as_ref());
                }
            }
            (Object::Pod(after), Object::Pod(before)) => {
                keep_metadata(&mut after.metadata, &before.metadata);
                keep(&mut after.status, before.status.as_ref());
                if asks_differently(after, before) {
                    let (namespace, name) = (namespace_of(&before.metadata), before.metadata.name.as_deref());
                    warning = Some(format!(
                        "Pod {namespace}/{}: it runs, and what it requests cannot be changed by applying it: it counts as it is",
                        name.unwrap_or_default()
                    ));
                }
                after.spec.clone_from(&before.spec);
            }
            _ => return None,
        }
        Some(Merged { object, warning })
    }
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

fn keep_metadata(after: &mut ObjectMeta, before: &ObjectMeta) {
    keep(&mut after.uid, before.uid.as_ref());
    keep(&mut after.creation_timestamp, before.creation_timestamp.as_ref());
    keep(&mut after.deletion_timestamp, before.deletion_timestamp.as_ref());
    keep(&mut after.owner_references, before.owner_references.as_ref());
    for (key, value) in before.annotations.iter().flatten() {
        after.annotations.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Whether the containers of a running pod are given other requests.
fn asks_differently(after: &Pod, before: &Pod) -> bool {
    let requests = |spec: &Option<PodSpec>| -> Vec<_> {
        let containers = spec.iter().flat_map(|spec| &spec.containers);
        containers.map(|one| one.resources.as_ref().and_then(|all| all.requests.clone()).unwrap_or_default()).collect()
    };
    requests(&after.spec) != requests(&before.spec)
}
