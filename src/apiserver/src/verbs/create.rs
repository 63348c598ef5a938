//! POST, and every other way to make an object.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{Nulls, into_form};
use super::{Scope, strategy};
use crate::apply::{Writer, track_update};
use crate::expiry::EVENTS;
use crate::reply::Answer;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::service::Call;
use crate::status::{ApiError, Result};
use crate::store::{Draft, Object, Refused};
use crate::{admission, convert, meta, validation};

/// Attempts at a free generated name.
const NAME_ATTEMPTS: usize = 8;
/// A generated name keeps so much of its base.
const MAX_BASE: usize = 58;

impl Scope<'_> {
    pub(super) fn create_from_body(&self) -> Result<Answer> {
        self.call.options.check_write("CreateOptions")?;
        let object = self.object_from_body()?;
        let created = self.create(object)?;
        let body = convert::to_version(&self.resource, &created);
        Ok(Answer::Object { code: 201, resource: self.resource.clone(), body })
    }

    /// Makes an object that is in its form.
    pub(super) fn create(&self, mut object: Value) -> Result<Arc<Object>> {
        self.check_namespace(&mut object)?;
        if meta::revision(&object).is_some() {
            return Err(ApiError::unexpected("resourceVersion should not be set on objects to be created"));
        }
        if !meta::name(&object).is_empty() || meta::text(&object, "generateName").is_empty() {
            return self.create_named(object);
        }
        for attempt in 1.. {
            let mut candidate = object.clone();
            let base: String = meta::text(&object, "generateName").chars().take(MAX_BASE).collect();
            meta::set(&mut candidate, "name", base + &self.server.inner.entropy.suffix());
            match self.create_named(candidate) {
                Err(error) if error.reason() == "AlreadyExists" && attempt < NAME_ATTEMPTS => {}
                result => return result,
            }
        }
        Err(ApiError::internal("no name could be generated"))
    }

    fn create_named(&self, mut object: Value) -> Result<Arc<Object>> {
        let (server, resource) = (self.server, &self.resource);
        let manager = self.call.manager();
        let now = server.inner.clock.now_text();
        if !resource.habits.generation {
            meta::remove(&mut object, "generation");
        }
        if server.inner.config.tracks_all_managers {
            track_create(resource, &mut object, &manager, &now);
        } else {
            meta::remove(&mut object, "managedFields");
        }
        self.finish_create(object, &now)
    }

    /// Admits, completes, checks and stores an object whose fields have owners.
    pub(super) fn finish_create(&self, mut object: Value, now: &str) -> Result<Arc<Object>> {
        let (server, resource) = (self.server, &self.resource);
        self.dedup_owners(&mut object);
        fill_system_fields(server, &mut object, now);
        admission::admit_create(self, &mut object)?;
        let held = super::services::allocate(self, &mut object, None)?;
        strategy::prepare_create(server, resource, &mut object);
        let causes = validation::create(resource, &object);
        if !causes.is_empty() {
            return Err(ApiError::invalid(resource.group_of_errors(), &resource.kind, meta::name(&object), &causes));
        }
        validation::warn(resource, &object, None, self.call);
        let draft = draft(resource, &mut object);
        let mut quota = server.inner.quota.lock();
        admission::check_quota(self, &mut quota, &object, draft.charge(), None)?;
        let key = self.key(meta::name(&object));
        let name = meta::name(&object).to_owned();
        if self.call.options.dry_run {
            if server.inner.store.get(&resource.storage, &key).is_some() {
                return Err(self.exists(&key, &name));
            }
            return Ok(Arc::new(draft.unversioned(&key)));
        }
        let created =
            server.inner.store.create(&resource.storage, &key, draft.keeping(object)).map_err(
                |refused| match refused {
                    Refused::Exists => self.exists(&key, &name),
                    Refused::Missing | Refused::Moved => ApiError::internal("the store refused a create"),
                },
            )?;
        drop(quota);
        drop(held);
        if resource.storage == EVENTS {
            server.keep_event(&created);
        }
        if resource.is(super::update::DEFINITIONS) {
            server.serve_definition(&created.value());
        }
        Ok(created)
    }

    fn exists(&self, key: &str, name: &str) -> ApiError {
        let going =
            self.server.value(&self.resource.storage, key).is_some_and(|old| meta::has(&old, "deletionTimestamp"));
        let error = ApiError::already_exists(&self.resource.group, &self.resource.plural, name);
        if going { error.prefixed("object is being deleted: ") } else { error }
    }

    /// The namespace of an object is that of the request.
    pub(super) fn check_namespace(&self, object: &mut Value) -> Result<()> {
        let own = meta::namespace(object);
        if !self.resource.namespaced {
            meta::remove(object, "namespace");
            return Ok(());
        }
        if own.is_empty() {
            meta::set(object, "namespace", self.namespace.as_str());
        } else if own != self.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }
}

/// Records who owns the fields of a new object.
pub(super) fn track_create(resource: &Resource, object: &mut Value, manager: &str, now: &str) {
    let api_version = resource.api_version();
    let writer = Writer { manager, api_version: &api_version, subresource: "", now };
    track_update(resource.empty(), object, resource.typed(), &writer, strategy::resets(resource, ""));
}

fn fill_system_fields(server: &ApiServer, object: &mut Value, now: &str) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        meta::remove(object, field);
    }
    meta::set(object, "uid", server.inner.entropy.uid());
    meta::set(object, "creationTimestamp", now);
    meta::set(object, "resourceVersion", "");
}

/// What is stored of an object, which is brought into the version in which it is stored.
pub(crate) fn draft(resource: &Resource, object: &mut Value) -> Draft {
    convert::to_storage(resource, object);
    stored_draft(resource, object)
}

/// The same of an object that is in that version.
pub(crate) fn stored_draft(resource: &Resource, object: &mut Value) -> Draft {
    // After the conversion, which drops empty fields: the store writes the version into this one.
    meta::set(object, "resourceVersion", "");
    let fields = strategy::selectable_fields(resource, object);
    let form = resource.custom().map_or(0, |custom| custom.stored_form);
    Draft::new(object, fields).of_form(form).charging(admission::Charge::of(resource, object))
}

impl ApiServer {
    /// Creates an object as a part of the control plane, through everything that a request goes through.
    pub(crate) fn create_internal(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        mut object: Value,
        manager: &str,
    ) -> Result<Arc<Object>> {
        let call = Call::internal(manager);
        let scope = Scope {
            server: self,
            call: &call,
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            subresource: String::new(),
        };
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), resource.api_version().into());
            map.insert("kind".to_owned(), resource.kind.as_str().into());
        }
        into_form(resource, &mut object, Nulls::Go).map_err(|problem| ApiError::internal(problem.json))?;
        scope.create(object)
    }
}
