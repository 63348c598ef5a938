//! DELETE: grace, finalizers, dependents.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Scope;
use super::create::draft;
use super::update::DEFINITIONS;
use crate::reply::Answer;
use crate::request::{Options, Propagation};
use crate::resource::Resource;
use crate::schema::builtin;
use crate::schema::decode::decode;
use crate::server::ApiServer;
use crate::status::{ApiError, Result, success};
use crate::store::{Object, Refused};
use crate::{clock, convert, meta};

const OPTIONS_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion did.
pub(crate) enum Deletion {
    /// The object is gone; its last state.
    Done(Arc<Object>),
    /// The object is marked, and goes when its grace or its finalizers end.
    Pending(Arc<Object>),
}

impl Scope<'_> {
    fn delete_options(&self) -> Result<Options> {
        let mut options = self.call.options.clone();
        if !self.call.body.is_empty() {
            let mut body = self.parse()?.value;
            let (version, kind) = (meta::text_at(&body, &["apiVersion"]), meta::text_at(&body, &["kind"]));
            if !kind.is_empty() && kind != "DeleteOptions" {
                return Err(ApiError::bad_request(super::decode::unregistered(kind, version)));
            }
            let typed = builtin().schemas.named(OPTIONS_SCHEMA);
            if let Some(error) = typed.and_then(|typed| decode(&mut body, typed).error) {
                return Err(ApiError::bad_request(error.json));
            }
            options.take_delete_options(&body);
        }
        options.check_delete()?;
        Ok(options)
    }

    pub(super) fn delete(&self, name: &str) -> Result<Answer> {
        let options = self.delete_options()?;
        let outcome = self.server.delete_object(&self.resource, &self.namespace, name, &options)?;
        if self.resource.is("jobs.batch") && options.propagation.is_none() && options.orphan_dependents.is_none() {
            self.call.warn(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
            );
        }
        let (object, is_done) = match &outcome {
            Deletion::Done(object) => (object, true),
            Deletion::Pending(object) => (object, false),
        };
        let code = if !is_done && options.orphan_dependents == Some(false) { 202 } else { 200 };
        if is_done && !self.resource.habits.returns_deleted {
            let mut details = json!({"name": name, "kind": self.resource.plural, "uid": &*object.selectable.uid});
            if let Some(map) = details.as_object_mut()
                && !self.resource.group.is_empty()
            {
                map.insert("group".to_owned(), self.resource.group.as_str().into());
            }
            return Ok(Answer::Value { code, value: success(&details) });
        }
        let body = convert::to_version(&self.resource, object);
        Ok(Answer::Object { code, resource: self.resource.clone(), body })
    }

    pub(super) fn delete_collection(&self) -> Result<Answer> {
        let options = self.delete_options()?;
        let Answer::List(list) = self.list()? else {
            return Err(ApiError::internal("a list is no list"));
        };
        for object in &list.page.items {
            match self.server.delete_object(&self.resource, object.namespace(), object.name(), &options) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        // As there: what was found, not what became of it.
        Ok(Answer::List(list))
    }
}

impl ApiServer {
    /// Deletes an object, or marks it to be deleted.
    pub(crate) fn delete_object(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &Options,
    ) -> Result<Deletion> {
        if resource.custom().is_none() {
            crate::admission::admit_delete(&resource.storage, name)?;
        }
        let key = resource.key(namespace, name);
        loop {
            let stored = self.inner.store.get(&resource.storage, &key);
            let stored = stored.ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, name))?;
            let mut new = convert::value_of(resource, &stored);
            check_preconditions(resource, name, &new, options)?;
            let grace = grace_period(resource, &new, options);
            let was_marked = meta::has(&new, "deletionTimestamp");
            // A shorter grace is all that a second deletion of a pod can bring.
            if was_marked && is_settled(resource, &new, options, grace) {
                return Ok(Deletion::Pending(stored));
            }
            if resource.is("namespaces") && was_marked && !meta::list_at(&new, &["spec", "finalizers"]).is_empty() {
                return Ok(Deletion::Pending(stored));
            }
            // A definition goes with its objects, whatever the policy.
            let ends_definition = resource.is(DEFINITIONS) && !was_marked;
            // Others are not looked at once they are gone.
            let definition = resource.is(DEFINITIONS).then(|| new.clone());
            if ends_definition {
                super::definitions::mark(&mut new, &self.inner.clock.now_text());
            } else {
                set_finalizers(resource, &mut new, options);
            }
            let has_finalizers = meta::finalizers(&new).next().is_some()
                || (resource.is("namespaces") && !meta::list_at(&new, &["spec", "finalizers"]).is_empty());
            let marks = has_finalizers || grace > 0;
            if (marks && !ends_definition) || resource.is("pods") {
                self.mark(resource, &mut new, grace);
            }
            let draft = draft(resource, &mut new);
            if options.dry_run {
                let object = Arc::new(draft.versioned(&key, stored.revision));
                return Ok(if marks { Deletion::Pending(object) } else { Deletion::Done(object) });
            }
            let store = &self.inner.store;
            let written = if marks {
                store.update(&resource.storage, &key, stored.revision, draft.keeping(new)).map(Deletion::Pending)
            } else {
                store.delete(&resource.storage, &key, stored.revision, draft).map(Deletion::Done)
            };
            match written {
                Ok(outcome) => {
                    if matches!(outcome, Deletion::Done(_)) {
                        self.after_deletion(resource, definition.as_ref());
                    }
                    if let Deletion::Pending(marked) = &outcome
                        && ends_definition
                    {
                        self.serve_definition(&marked.value());
                        self.empty_definition(name);
                    }
                    return Ok(outcome);
                }
                Err(Refused::Missing) => return Err(ApiError::not_found(&resource.group, &resource.plural, name)),
                Err(Refused::Moved | Refused::Exists) => {
                    if options.version_precondition.is_some() {
                        return Err(ApiError::modified(&resource.group, &resource.plural, name));
                    }
                }
            }
        }
    }

    fn mark(&self, resource: &Resource, object: &mut Value, grace: i64) {
        let now = self.inner.clock.now();
        let ends = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
        let is_first = !meta::has(object, "deletionTimestamp");
        if is_first || resource.is("pods") {
            meta::set(object, "deletionTimestamp", clock::time_text(ends));
            meta::set(object, "deletionGracePeriodSeconds", grace);
        }
        if is_first && let Some(generation) = meta::number(object, "generation").filter(|generation| *generation > 0) {
            meta::set(object, "generation", generation + 1);
        }
        if resource.is("namespaces") {
            meta::remove(object, "deletionGracePeriodSeconds");
            if let Some(status) = meta::object_mut(object, &["status"]) {
                status.insert("phase".to_owned(), "Terminating".into());
            }
        }
    }
}

pub(super) fn check_preconditions(resource: &Resource, name: &str, object: &Value, options: &Options) -> Result<()> {
    for (what, wanted, field) in [
        ("UID", &options.uid_precondition, "uid"),
        ("ResourceVersion", &options.version_precondition, "resourceVersion"),
    ] {
        let has = meta::text(object, field);
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != has) {
            let why = match what {
                "UID" => format!(
                    "the UID in the precondition ({wanted}) does not match the UID in record ({has}). The object might have been deleted and then recreated"
                ),
                _ => format!(
                    "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({has}). The object might have been modified"
                ),
            };
            return Err(ApiError::conflict(&resource.group, &resource.kind, name, &why));
        }
    }
    Ok(())
}

/// Seconds until a pod is gone; nothing else has grace.
fn grace_period(resource: &Resource, object: &Value, options: &Options) -> i64 {
    if !resource.is("pods") {
        return 0;
    }
    let phase = meta::text_at(object, &["status", "phase"]);
    if meta::text_at(object, &["spec", "nodeName"]).is_empty() || ["Succeeded", "Failed"].contains(&phase) {
        return 0;
    }
    let own = meta::int_at(object, &["spec", "terminationGracePeriodSeconds"]);
    let grace = options.grace_period.or(own).unwrap_or(30);
    if grace < 0 { 1 } else { grace }
}

/// Whether a deletion of an object that is being deleted changes nothing.
fn is_settled(resource: &Resource, old: &Value, options: &Options, grace: i64) -> bool {
    if options.propagation.is_some() || options.orphan_dependents.is_some() {
        let mut with = old.clone();
        set_finalizers(resource, &mut with, options);
        if with != *old {
            return false;
        }
    }
    if resource.is("namespaces") {
        return false;
    }
    let left = meta::number(old, "deletionGracePeriodSeconds").unwrap_or(0);
    let waits = meta::finalizers(old).next().is_some();
    if resource.is("pods") {
        return if options.grace_period.is_some() { grace >= left && (left > 0 || waits) } else { left > 0 || waits };
    }
    waits
}

/// Says by finalizers what becomes of dependents.
fn set_finalizers(resource: &Resource, object: &mut Value, options: &Options) {
    let policy = options.propagation.or(match options.orphan_dependents {
        Some(true) => Some(Propagation::Orphan),
        Some(false) => Some(Propagation::Background),
        None => None,
    });
    let default = || {
        let is_set = meta::has_finalizer(object, ORPHAN) || meta::has_finalizer(object, FOREGROUND);
        // Jobs keep their pods, as they did when nothing was collected.
        (resource.is("jobs.batch") && !is_set).then_some(Propagation::Orphan)
    };
    let (add, remove) = match policy.or_else(default) {
        Some(Propagation::Orphan) => (Some(ORPHAN), vec![FOREGROUND]),
        Some(Propagation::Foreground) => (Some(FOREGROUND), vec![ORPHAN]),
        Some(Propagation::Background) => (None, vec![ORPHAN, FOREGROUND]),
        None => return,
    };
    for finalizer in remove {
        meta::remove_finalizer(object, finalizer);
    }
    if let Some(finalizer) = add {
        meta::add_finalizer(object, finalizer);
    }
}
