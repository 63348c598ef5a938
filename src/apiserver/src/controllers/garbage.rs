//! The garbage collector: dependents follow their owners, are waited for, or are set free.

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use crate::meta;
use crate::request::{Options, Propagation};
use crate::server::ApiServer;
use crate::store::{Object, Range};
use crate::verbs::{FOREGROUND, ORPHAN};

/// An object by collection and key.
type Place = (String, String);

impl ApiServer {
    pub(super) fn collect_garbage(&self) {
        let mut dependents: FxHashMap<Box<str>, Vec<Place>> = FxHashMap::default();
        let mut present: FxHashSet<Box<str>> = FxHashSet::default();
        let mut owned: Vec<Place> = Vec::new();
        let mut waiting: Vec<Place> = Vec::new();
        for storage in self.inner.store.resources() {
            let page = self.inner.store.list(&storage, &Range::default()).unwrap_or_default();
            for object in page.items {
                present.insert(object.selectable.uid.clone());
                let place = (storage.clone(), object.key.to_string());
                for owner in &object.selectable.owners {
                    dependents.entry(owner.clone()).or_default().push(place.clone());
                }
                if !object.selectable.owners.is_empty() {
                    owned.push(place.clone());
                }
                if is_waiting(&object) {
                    waiting.push(place);
                }
            }
        }
        for (storage, key) in waiting {
            self.finish_owner(&storage, &key, &dependents);
        }
        for (storage, key) in owned {
            self.collect(&storage, &key, &present);
        }
    }

    /// An owner that is being deleted and has a say in what becomes of its dependents.
    fn finish_owner(&self, storage: &str, key: &str, dependents: &FxHashMap<Box<str>, Vec<Place>>) {
        let (Some(resource), Some(owner)) = (self.resource_of(storage), self.value(storage, key)) else { return };
        let uid = meta::text(&owner, "uid");
        let mine = dependents.get(uid).map(Vec::as_slice).unwrap_or_default();
        if meta::has_finalizer(&owner, ORPHAN) {
            for (storage, key) in mine {
                if let Some(resource) = self.resource_of(storage) {
                    self.amend(&resource, key, |object| drop_owner(object, uid));
                }
            }
            self.amend(&resource, key, |owner| meta::remove_finalizer(owner, ORPHAN));
            return;
        }
        let mut blocked = false;
        for (storage, key) in mine {
            let (Some(resource), Some(dependent)) = (self.resource_of(storage), self.value(storage, key)) else {
                continue;
            };
            let blocks = meta::owners(&dependent).any(|owner| {
                owner.get("uid").and_then(Value::as_str) == Some(uid)
                    && owner.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            });
            if !meta::has(&dependent, "deletionTimestamp") {
                let options = Options { propagation: Some(Propagation::Foreground), ..Options::default() };
                self.delete_quietly(&resource, key, &options);
            }
            blocked |= blocks && self.inner.store.get(storage, key).is_some();
        }
        if !blocked {
            self.amend(&resource, key, |owner| meta::remove_finalizer(owner, FOREGROUND));
        }
    }

    /// A dependent whose owners are all gone goes too; with some left it forgets the others.
    fn collect(&self, storage: &str, key: &str, present: &FxHashSet<Box<str>>) {
        let (Some(resource), Some(object)) = (self.resource_of(storage), self.value(storage, key)) else { return };
        let is_gone = |owner: &Value| owner.get("uid").and_then(Value::as_str).is_none_or(|uid| !present.contains(uid));
        let (gone, left): (Vec<&Value>, Vec<&Value>) = meta::owners(&object).partition(|owner| is_gone(owner));
        if gone.is_empty() {
            return;
        }
        if left.is_empty() {
            if !meta::has(&object, "deletionTimestamp") {
                let options = Options { propagation: Some(Propagation::Background), ..Options::default() };
                self.delete_quietly(&resource, key, &options);
            }
            return;
        }
        let uids: Vec<String> = gone.iter().map(|owner| meta::text_at(owner, &["uid"]).to_owned()).collect();
        self.amend(&resource, key, |object| uids.iter().for_each(|uid| drop_owner(object, uid)));
    }
}

/// The finalizers of the collector stand in the text as they are.
fn is_waiting(object: &Object) -> bool {
    let has = |needle: &str| object.says(needle);
    has("\"deletionTimestamp\"") && (has("\"foregroundDeletion\"") || has("\"orphan\"")) && {
        let value = object.value();
        meta::has(&value, "deletionTimestamp")
            && (meta::has_finalizer(&value, FOREGROUND) || meta::has_finalizer(&value, ORPHAN))
    }
}

pub(super) fn drop_owner(object: &mut Value, uid: &str) {
    if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") {
        owners.retain(|owner| owner.get("uid").and_then(Value::as_str) != Some(uid));
        if owners.is_empty() {
            meta::remove(object, "ownerReferences");
        }
    }
}
