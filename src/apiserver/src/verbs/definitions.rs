//! The end of a CustomResourceDefinition: its objects go first, each in its own way, and the definition after the last one.
//!
//! The real server does so with a finalizer and a controller. Here the same steps are taken by the request that deletes the
//! definition, and by whatever removes the last object.

use serde_json::{Value, json};

use super::update::DEFINITIONS;
use crate::crd::Taken;
use crate::meta;
use crate::request::Options;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::store::{Range, Refused};

/// Kept on a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition that is deleted for the first time.
pub(super) fn mark(definition: &mut Value, now: &str) {
    meta::set(definition, "deletionTimestamp", now);
    meta::add_finalizer(definition, CLEANUP);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_terminating(definition, "True", "InstanceDeletionPending", message, now);
}

fn set_terminating(definition: &mut Value, status: &str, reason: &str, message: &str, now: &str) {
    let condition = json!({"type": "Terminating", "status": status, "reason": reason, "message": message,
                           "lastTransitionTime": now});
    super::subresource::set_condition(definition, &condition);
}

/// Whether objects of a definition may no longer be created.
pub(crate) fn is_terminating(definition: &Value) -> bool {
    let conditions = meta::list_at(definition, &["status", "conditions"]);
    conditions.iter().any(|condition| {
        meta::text_at(condition, &["type"]) == "Terminating" && meta::text_at(condition, &["status"]) == "True"
    })
}

impl ApiServer {
    /// Deletes the objects of a definition that is being deleted, and the definition where that leaves none.
    pub(super) fn empty_definition(&self, name: &str) {
        if let Some(custom) = self.resource_of(name).filter(|resource| resource.custom().is_some()) {
            let page = self.inner.store.list(name, &Range::default()).unwrap_or_default();
            for object in &page.items {
                // One that is gone is what is wanted.
                let _ = self.delete_object(&custom, object.namespace(), object.name(), &Options::default());
            }
        }
        self.finish_definition(name);
    }

    /// What the deletion of an object brings about: the last object of a definition lets go of it.
    /// `definition` is the object, where it is a definition.
    pub(crate) fn after_deletion(&self, resource: &Resource, definition: Option<&Value>) {
        if let Some(definition) = definition.filter(|_| resource.is(DEFINITIONS)) {
            let storage = meta::name(definition).to_owned();
            self.change_registry(|registry| registry.remove_custom(&storage));
            self.accept_names(meta::text_at(definition, &["spec", "group"]));
        } else if resource.custom().is_some_and(|custom| custom.terminating) {
            self.finish_definition(&resource.storage);
        }
    }

    /// The names that a definition may not have, since another one of its group has them.
    pub(super) fn taken_names(&self, definition: &Value) -> Taken {
        let (group, name) = (meta::text_at(definition, &["spec", "group"]), meta::name(definition));
        let registry = self.registry();
        let others = registry.iter().filter(|other| other.group == group && other.storage != name);
        Taken::by(others.filter_map(|other| other.custom().map(|custom| &**custom)))
    }

    /// Looks again at the definitions of a group that waited for a name.
    fn accept_names(&self, group: &str) {
        let Some(resource) = self.registry().by_storage(DEFINITIONS).cloned() else { return };
        let store = &self.inner.store;
        let page = store.list(DEFINITIONS, &Range::default()).unwrap_or_default();
        for waiting in page.items.iter().filter(|object| object.says("\"NotAccepted\"")) {
            let mut definition = waiting.value();
            if meta::text_at(&definition, &["spec", "group"]) != group {
                continue;
            }
            let taken = self.taken_names(&definition);
            crate::crd::establish(&mut definition, &taken, &self.inner.clock.now_text());
            let draft = super::draft(&resource, &mut definition);
            // Refused where another write came between, which looked at its names, too.
            if let Ok(changed) = store.update(DEFINITIONS, &waiting.key, waiting.revision, draft) {
                self.serve_definition(&changed.value());
            }
        }
    }

    /// Lets go of a definition that is being deleted, if none of its objects is left.
    fn finish_definition(&self, name: &str) {
        let store = &self.inner.store;
        let Some(resource) = self.registry().by_storage(DEFINITIONS).cloned() else { return };
        loop {
            let Some(stored) = store.get(DEFINITIONS, name) else { return };
            let mut definition = stored.value();
            let waits = meta::has(&definition, "deletionTimestamp") && meta::has_finalizer(&definition, CLEANUP);
            if !waits {
                return;
            }
            let now = self.inner.clock.now_text();
            let page = store.list(name, &Range { limit: 1, ..Range::default() }).unwrap_or_default();
            let is_empty = page.items.is_empty();
            if is_empty {
                set_terminating(&mut definition, "False", "InstanceDeletionCompleted", "removed all instances", &now);
                meta::remove_finalizer(&mut definition, CLEANUP);
            } else {
                let message = "CustomResource deletion is in progress";
                set_terminating(&mut definition, "True", "InstanceDeletionInProgress", message, &now);
            }
            if definition == stored.value() {
                return;
            }
            let is_over = is_empty && meta::finalizers(&definition).next().is_none();
            let draft = super::draft(&resource, &mut definition.clone());
            let written = if is_over {
                store.delete(DEFINITIONS, name, stored.revision, draft)
            } else {
                store.update(DEFINITIONS, name, stored.revision, draft)
            };
            match written {
                Ok(_) if is_over => return self.after_deletion(&resource, Some(&definition)),
                Ok(_) => return self.serve_definition(&definition),
                Err(Refused::Missing) => return,
                Err(Refused::Moved | Refused::Exists) => {}
            }
        }
    }
}
