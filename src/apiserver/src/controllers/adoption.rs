//! Adoption: who selects an object that nobody controls takes it, and lets go what it no longer selects.

use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Value, json};

use super::stateful_sets::ordinal;
use super::world::{World, controlled_by, is_active};
use crate::meta::{self, at};
use crate::selector::LabelSelector;
use crate::server::ApiServer;
use crate::store::{Object, Range};

/// Who takes what.
const CLAIMS: [(&str, &[&str]); 3] = [
    ("pods", &["replicasets.apps", "replicationcontrollers", "statefulsets.apps", "daemonsets.apps", "jobs.batch"]),
    ("replicasets.apps", &["deployments.apps"]),
    ("controllerrevisions.apps", &["statefulsets.apps", "daemonsets.apps"]),
];

impl ApiServer {
    /// Lets every workload take and let go. Gives whether any did.
    pub(super) fn claim_dependents(&self, world: &World) -> bool {
        let before = self.inner.store.revision();
        for (storage, owners) in CLAIMS {
            let page = self.inner.store.list(storage, &Range::default()).unwrap_or_default();
            let mut orphans: FxHashMap<&str, Vec<&Arc<Object>>> = FxHashMap::default();
            for object in page.items.iter().filter(|object| object.selectable.controller().is_none()) {
                orphans.entry(object.namespace()).or_default().push(object);
            }
            for owner_storage in owners {
                self.claim(world, storage, owner_storage, &orphans);
            }
        }
        self.inner.store.revision() != before
    }

    fn claim(&self, world: &World, storage: &str, owners: &str, orphans: &FxHashMap<&str, Vec<&Arc<Object>>>) {
        let page = self.inner.store.list(owners, &Range::default()).unwrap_or_default();
        for object in &page.items {
            let free = orphans.get(object.namespace()).map(Vec::as_slice).unwrap_or_default();
            let uid = &*object.selectable.uid;
            let mut hash = FxHasher::default();
            let own = world.controlled_objects(storage, uid);
            for revision in own.map(|owned| owned.revision).chain(free.iter().map(|free| free.revision)) {
                hash.write_u64(revision);
            }
            hash.write_u64(object.revision);
            if self.is_settled(&format!("{storage} of {uid}"), hash.finish()) {
                continue;
            }
            let owner = object.value();
            let Some(selector) = selector(owners, &owner).filter(|_| !meta::has(&owner, "deletionTimestamp")) else {
                continue;
            };
            for orphan in free.iter().filter(|orphan| selector.matches_stored(orphan)) {
                if may_take(storage, owners, &owner, orphan) {
                    self.change_object(storage, &orphan.key, |object| take(object, &owner));
                }
            }
            for owned in world.controlled_objects(storage, uid).filter(|owned| !selector.matches_stored(owned)) {
                self.change_object(storage, &owned.key, |object| super::garbage::drop_owner(object, uid));
            }
        }
    }
}

/// What a workload selects; `None` if that is everything or nothing.
fn selector(owners: &str, owner: &Value) -> Option<LabelSelector> {
    let given = at(owner, &["spec", "selector"])?;
    let selector = if owners == "replicationcontrollers" {
        LabelSelector::from_object(Some(&json!({"matchLabels": given})))
    } else {
        LabelSelector::from_object(Some(given))
    };
    (!selector.is_everything()).then_some(selector)
}

fn may_take(storage: &str, owners: &str, owner: &Value, orphan: &Object) -> bool {
    let object = orphan.value();
    let fits = match (storage, owners) {
        ("pods", "replicasets.apps" | "replicationcontrollers") => is_active(&object),
        // Its name says whether a pod is a member.
        ("pods", "statefulsets.apps") => ordinal(&object, meta::name(owner)).is_some(),
        _ => true,
    };
    fits && !meta::has(&object, "deletionTimestamp")
}

fn take(object: &mut Value, owner: &Value) {
    if let Some(metadata) = meta::meta_mut(object) {
        let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
        if let Value::Array(owners) = owners {
            owners.push(controlled_by(owner));
        }
    }
}
