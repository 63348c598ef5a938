//! One round's view of the objects that controllers look at.

use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Value, json};

use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;
use crate::store::{Object, Range};

/// What there is at the start of a round. Objects are read only where something about them changed.
pub(super) struct World {
    /// Dependents by the uid of their owner, with their collection.
    owned: FxHashMap<Box<str>, Vec<(&'static str, Arc<Object>)>>,
}

/// Collections whose objects are owned by workloads.
const OWNED: [&str; 5] =
    ["pods", "replicasets.apps", "jobs.batch", "controllerrevisions.apps", "endpointslices.discovery.k8s.io"];

impl World {
    pub(super) fn of(server: &ApiServer) -> Self {
        let mut owned: FxHashMap<Box<str>, Vec<(&'static str, Arc<Object>)>> = FxHashMap::default();
        for storage in OWNED {
            let page = server.inner.store.list(storage, &Range::default()).unwrap_or_default();
            for object in page.items {
                for owner in &object.selectable.owners {
                    owned.entry(owner.clone()).or_default().push((storage, object.clone()));
                }
            }
        }
        Self { owned }
    }

    /// The objects of a collection that an owner controls.
    pub(super) fn controlled(&self, storage: &str, uid: &str) -> Vec<Value> {
        self.controlled_objects(storage, uid).map(|object| object.value()).collect()
    }

    /// The same, as they are stored.
    pub(super) fn controlled_objects(&self, storage: &str, uid: &str) -> impl Iterator<Item = &Arc<Object>> {
        let all = self.owned.get(uid).map(Vec::as_slice).unwrap_or_default();
        let of_storage = all.iter().filter(move |(of, _)| *of == storage).map(|(_, object)| object);
        of_storage.filter(move |object| object.selectable.controller() == Some(uid))
    }

    /// A number that changes when an object or something that it owns does.
    pub(super) fn fingerprint(&self, object: &Object, more: u64) -> u64 {
        let mut hash = FxHasher::default();
        hash.write_u64(object.revision);
        hash.write_u64(more);
        for (_, dependent) in self.owned.get(&object.selectable.uid).map(Vec::as_slice).unwrap_or_default() {
            hash.write_u64(dependent.revision);
        }
        hash.finish()
    }
}

impl ApiServer {
    /// The objects of a collection that changed, or own something that did, since they were last left as they are.
    pub(super) fn unsettled(&self, world: &World, storage: &str, more: u64) -> Vec<Value> {
        let page = self.inner.store.list(storage, &Range::default()).unwrap_or_default();
        let changed = page
            .items
            .iter()
            .filter(|object| !self.is_settled(&object.selectable.uid, world.fingerprint(object, more)));
        changed.map(|object| object.value()).filter(|value| !meta::has(value, "deletionTimestamp")).collect()
    }

    /// The version of the last object of a collection to change, and how many there are.
    pub(super) fn version_of(&self, storage: &str) -> u64 {
        let page = self.inner.store.list(storage, &Range::default()).unwrap_or_default();
        let mut hash = FxHasher::default();
        for object in &page.items {
            hash.write_u64(object.revision);
        }
        hash.finish()
    }
}

/// The owner that controls an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    meta::owners(object).find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// A reference to an owner that controls.
pub(super) fn controlled_by(owner: &Value) -> Value {
    json!({"apiVersion": owner.get("apiVersion"), "kind": owner.get("kind"), "name": meta::name(owner),
           "uid": meta::text(owner, "uid"), "controller": true, "blockOwnerDeletion": true})
}

/// The key of an object in its collection.
pub(super) fn key(object: &Value) -> String {
    let namespace = meta::namespace(object);
    if namespace.is_empty() { meta::name(object).to_owned() } else { format!("{namespace}/{}", meta::name(object)) }
}

/// A pod from a template.
pub(super) fn pod_of(template: &Value, owner: &Value) -> Value {
    let mut pod = json!({"metadata": template.get("metadata").cloned().unwrap_or_else(|| json!({})),
                         "spec": template.get("spec")});
    for field in ["name", "namespace", "creationTimestamp"] {
        meta::remove(&mut pod, field);
    }
    meta::set(&mut pod, "ownerReferences", json!([controlled_by(owner)]));
    pod
}

/// Whether a pod counts for its workload: it has not ended and is not on its way.
pub(super) fn is_active(pod: &Value) -> bool {
    !has_ended(pod) && !meta::has(pod, "deletionTimestamp")
}

pub(super) fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text_at(pod, &["status", "phase"]))
}

/// The condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(object, &["status", "conditions"]).iter().find(|condition| text_at(condition, &["type"]) == kind)
}

pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text_at(condition, &["status"]) == "True")
}

pub(super) fn is_ready(pod: &Value) -> bool {
    is_true(pod, "Ready")
}

/// When a pod will have been ready for so many seconds; `None` if it is not ready.
pub(super) fn available_at(pod: &Value, min_ready: i64) -> Option<jiff::Timestamp> {
    let ready = condition(pod, "Ready").filter(|_| is_ready(pod))?;
    let since: jiff::Timestamp = text_at(ready, &["lastTransitionTime"]).parse().unwrap_or(jiff::Timestamp::MIN);
    if min_ready <= 0 {
        return Some(jiff::Timestamp::MIN);
    }
    since.checked_add(jiff::SignedDuration::from_secs(min_ready)).ok()
}

/// A number or a percentage of a total.
pub(super) fn share(value: Option<&Value>, total: i64, round_up: bool) -> i64 {
    match value {
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let scaled = total.saturating_mul(percent);
            if round_up { scaled.saturating_add(99) / 100 } else { scaled / 100 }
        }
        Some(other) => other.as_i64().unwrap_or(0),
        None => 0,
    }
}

/// A short text that tells templates apart.
pub(super) fn hash_of(template: &Value) -> String {
    let mut hash = FxHasher::default();
    hash.write(template.to_string().as_bytes());
    let mut bits = hash.finish();
    (0..10)
        .map(|_| {
            let digit = u8::try_from(bits % 27).unwrap_or(0);
            bits /= 27;
            safe(digit)
        })
        .collect()
}

/// A character for a number, of those that make no words.
pub(super) fn safe(number: u8) -> char {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    char::from(ALPHABET.get(usize::from(number % 27)).copied().unwrap_or(b'b'))
}

/// Puts a label where labels are, below a path.
pub(super) fn set_label(object: &mut Value, path: &[&str], label: &str, value: &str) {
    if let Some(labels) = meta::object_mut(object, path) {
        labels.insert(label.to_owned(), value.into());
    }
}

/// The order in which pods are given up: those that are worth least first.
pub(super) fn rank(pod: &Value) -> (bool, u8, bool, std::cmp::Reverse<String>, String) {
    let phase = match text_at(pod, &["status", "phase"]) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let is_assigned = !text_at(pod, &["spec", "nodeName"]).is_empty();
    let age = std::cmp::Reverse(meta::text(pod, "creationTimestamp").to_owned());
    (is_assigned, phase, is_ready(pod), age, meta::name(pod).to_owned())
}

/// An integer of a spec, or what it is where nothing is said.
pub(super) fn number(object: &Value, path: &[&str], default: i64) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(default)
}
