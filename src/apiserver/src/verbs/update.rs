//! PUT, and what all changes of an object have in common.

use std::sync::Arc;

use serde_json::Value;

use super::create::draft;
use super::{Scope, strategy};
use crate::apply::{Writer, track_update};
use crate::expiry::EVENTS;
use crate::reply::Answer;
use crate::server::ApiServer;
use crate::status::{ApiError, Cause, Result};
use crate::store::{Object, Refused};
use crate::{admission, convert, meta, validation};

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What a change leaves.
pub(super) struct Changed {
    pub(super) object: Arc<Object>,
    pub(super) created: bool,
}

impl Scope<'_> {
    pub(super) fn update_from_body(&self, name: &str) -> Result<Answer> {
        self.call.options.check_write("UpdateOptions")?;
        let read = || {
            let mut object = self.object_from_body()?;
            Self::check_name(&object, name)?;
            self.check_namespace(&mut object)?;
            Ok(object)
        };
        let object = read()?;
        let uid = meta::text(&object, "uid").to_owned();
        let may_create = self.resource.habits.create_on_update && self.subresource.is_empty();
        // Read again only where another write came between: a copy of a large object costs as much as all else.
        let mut first = Some(object);
        let changed = self.change(name, may_create, &uid, &mut |live, now| {
            let mut new = first.take().map_or_else(read, Ok)?;
            self.track(live, &mut new, now);
            Ok(new)
        })?;
        Ok(self.changed_answer(&changed))
    }

    pub(super) fn changed_answer(&self, changed: &Changed) -> Answer {
        let body = convert::to_version(&self.resource, &changed.object);
        Answer::Object { code: if changed.created { 201 } else { 200 }, resource: self.resource.clone(), body }
    }

    pub(super) fn check_name(object: &Value, name: &str) -> Result<()> {
        let own = meta::name(object);
        if own.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        if own != name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({own}) does not match the name on the URL ({name})"
            )));
        }
        Ok(())
    }

    /// Records, in `new`, which fields this request took.
    pub(super) fn track(&self, live: Option<&Value>, new: &mut Value, now: &str) {
        let (manager, api_version) = (self.call.manager(), self.resource.api_version());
        let writer = Writer { manager: &manager, api_version: &api_version, subresource: &self.subresource, now };
        let resets = strategy::resets(&self.resource, &self.subresource);
        track_update(live.unwrap_or_else(|| self.resource.empty()), new, self.resource.typed(), &writer, resets);
    }

    /// Changes an object: `produce` makes the new state from the live one, again if another write came between.
    pub(super) fn change(
        &self,
        name: &str,
        may_create: bool,
        uid: &str,
        produce: &mut dyn FnMut(Option<&Value>, &str) -> Result<Value>,
    ) -> Result<Changed> {
        let (server, resource) = (self.server, &self.resource);
        let key = self.key(name);
        loop {
            let now = server.inner.clock.now_text();
            let Some(stored) = server.inner.store.get(&resource.storage, &key) else {
                if !may_create {
                    return Err(self.not_found(name));
                }
                if !uid.is_empty() {
                    let path = resource.registry_path(&key);
                    let why = format!(
                        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: "
                    );
                    return Err(ApiError::conflict(&resource.group, &resource.plural, name, &why));
                }
                let object = produce(None, &now)?;
                return Ok(Changed { object: self.finish_create(object, &now)?, created: true });
            };
            let ahead = self.call.stored.lock().take().filter(|(known, _)| Arc::ptr_eq(known, &stored));
            let old = ahead.map_or_else(|| convert::value_of(resource, &stored), |(_, value)| value);
            if !uid.is_empty() && uid != meta::text(&old, "uid") {
                let has = meta::text(&old, "uid");
                let path = resource.registry_path(&key);
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {has}"
                );
                return Err(ApiError::conflict(&resource.group, &resource.plural, name, &why));
            }
            let new = produce(Some(&old), &now)?;
            match self.finish_update(&stored, &old, new, name, &key) {
                Err(None) => {}
                Err(Some(error)) => return Err(error),
                Ok(object) => return Ok(Changed { object, created: false }),
            }
        }
    }

    /// Checks and stores a new state; `Err(None)` if another write came between.
    fn finish_update(
        &self,
        stored: &Arc<Object>,
        old: &Value,
        mut new: Value,
        name: &str,
        key: &str,
    ) -> Result<Arc<Object>, Option<ApiError>> {
        let (server, resource) = (self.server, &self.resource);
        match meta::revision(&new) {
            None if resource.habits.needs_version
                && (self.subresource.is_empty() || (self.subresource == "status" && resource.custom().is_some())) =>
            {
                let cause = Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
                return Err(Some(ApiError::invalid(&resource.group, &resource.plural, name, &[cause])));
            }
            Some(version) if version.parse::<u64>().is_err() => {
                let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                return Err(Some(ApiError::unexpected(why)));
            }
            Some(version) if version != stored.revision.to_string() => {
                return Err(Some(ApiError::modified(&resource.group, &resource.plural, name)));
            }
            _ => {}
        }
        self.dedup_owners(&mut new);
        admission::admit_update(self, &mut new, old)?;
        let held = super::services::allocate(self, &mut new, Some(old))?;
        strategy::prepare_update(resource, &self.subresource, &mut new, old);
        let causes = validation::update(resource, &self.subresource, &new, old);
        if !causes.is_empty() {
            return Err(Some(ApiError::invalid(resource.group_of_errors(), &resource.kind, name, &causes)));
        }
        if self.subresource.is_empty() {
            validation::warn(resource, &new, Some(old), self.call);
        }
        // The last finalizer of a deleted object takes it along.
        let is_over = meta::finalizers(&new).next().is_none()
            && meta::has(old, "deletionTimestamp")
            && meta::number(old, "deletionGracePeriodSeconds").unwrap_or(0) == 0
            && !self.is_namespace_with_content(&new);
        // One that was written under another schema is written anew under this one.
        let has_form = resource.custom().is_none_or(|custom| custom.stored_form == stored.form);
        if strategy::is_unchanged(&new, old) && !is_over && has_form {
            return Ok(stored.clone());
        }
        let is_definition = resource.is(DEFINITIONS);
        if is_definition {
            let taken = server.taken_names(&new);
            crate::crd::establish(&mut new, &taken, &server.inner.clock.now_text());
        }
        let draft = draft(resource, &mut new);
        // Held until the change is stored.
        let mut quota = admission::may_grow(self).then(|| server.inner.quota.lock());
        if let Some(ledger) = quota.as_deref_mut().filter(|_| !is_over) {
            admission::check_quota(self, ledger, &new, draft.charge(), Some(stored))?;
        }
        if self.call.options.dry_run {
            return Ok(Arc::new(draft.versioned(key, stored.revision)));
        }
        let store = &server.inner.store;
        let written = if is_over {
            // The answer is what the client made of it, at the version that it had.
            let last = Arc::new(draft.clone().versioned(key, stored.revision));
            store.delete(&resource.storage, key, stored.revision, draft).map(|_| last)
        } else {
            store.update(&resource.storage, key, stored.revision, draft.keeping(new))
        };
        drop(quota);
        drop(held);
        match written {
            Ok(object) => {
                if is_over {
                    server.after_deletion(resource, Some(old));
                } else if resource.storage == EVENTS {
                    server.keep_event(&object);
                } else if is_definition {
                    server.serve_definition(&object.value());
                }
                Ok(object)
            }
            Err(Refused::Missing) => Err(Some(self.not_found(name))),
            Err(Refused::Moved | Refused::Exists) => Err(None),
        }
    }

    fn is_namespace_with_content(&self, object: &Value) -> bool {
        self.resource.is("namespaces") && !meta::list_at(object, &["spec", "finalizers"]).is_empty()
    }
}

impl ApiServer {
    /// Serves what a definition declares, in place of what it declared before.
    pub(crate) fn serve_definition(&self, definition: &Value) {
        let served = crate::crd::resources(definition);
        let storage = meta::name(definition).to_owned();
        self.change_registry(|registry| {
            registry.remove_custom(&storage);
            registry.extend(served.iter().map(crate::resource::Resource::of_custom));
        });
    }
}
