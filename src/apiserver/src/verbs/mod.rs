//! From a request to its answer: which verb it is, on which resource, and whether that is served.

mod create;
mod decode;
mod definitions;
mod delete;
mod kubelet;
mod patch;
mod read;
mod review;
mod services;
mod strategy;
mod subresource;
mod token;
mod update;

use std::sync::Arc;

use http::Method;
use serde_json::Value;

use crate::convert;
use crate::rbac::Attempt;
use crate::reply::Answer;
use crate::request::{Output, Target, target};
use crate::resource::{Resource, Subresource};
use crate::server::ApiServer;
use crate::service::Call;
use crate::status::{ApiError, Result};
use crate::store::Object;

pub(crate) use create::{draft, stored_draft};
pub(crate) use definitions::is_terminating;
pub(crate) use subresource::set_condition;
pub(crate) use update::DEFINITIONS;

/// A request for one resource.
pub(crate) struct Scope<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) call: &'a Call,
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for the resource itself.
    pub(crate) subresource: String,
}

/// Media types of answers.
const ANSWERS: &[&str] = &["application/json", "application/yaml"];

/// What every request for a kind that is on its way out is told.
const OLD_KINDS: &[(&str, &str)] = &[
    ("componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    ("endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
];

impl ApiServer {
    /// The object that a PUT would replace, if it is there.
    pub(crate) fn replaced(&self, call: &Call) -> Option<(Arc<Object>, Value)> {
        let target = target(&call.path)?;
        let resource = self.registry().get(&target.group, &target.version, &target.resource).cloned()?;
        let key = resource.key(target.namespace.as_deref().unwrap_or_default(), target.name.as_deref()?);
        let stored = self.inner.store.get(&resource.storage, &key)?;
        let value = convert::value_of(&resource, &stored);
        Some((stored, value))
    }

    pub(crate) fn dispatch(&self, call: &Call) -> Result<Answer> {
        self.expire_events();
        if let Some(answer) = self.discover(call)? {
            self.authorize(&call.user, &Attempt { verb: "get", path: &call.path, ..Attempt::default() })?;
            return Ok(answer);
        }
        let registry = self.registry();
        let Some(target) = target(&call.path) else {
            let group = call.path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let is_known = registry.iter().any(|r| r.group == group && r.custom().is_none() && !group.is_empty());
            return Err(if is_known { ApiError::no_resource() } else { ApiError::no_path() });
        };
        let Some(resource) = registry.get(&target.group, &target.version, &target.resource).cloned() else {
            let is_known = registry.has_group_version(&target.group, &target.version)
                || registry.iter().any(|r| r.group == target.group && r.custom().is_none());
            return Err(if is_known { ApiError::no_resource() } else { ApiError::no_path() });
        };
        if target.namespace.is_some() && !resource.namespaced {
            return Err(ApiError::no_resource());
        }
        if call.output.is_none() {
            return Err(ApiError::not_acceptable(ANSWERS).with_details());
        }
        for (storage, warning) in OLD_KINDS {
            if resource.is(storage) {
                call.warn(*warning);
            }
        }
        if let Some(warning) = resource.custom().and_then(|custom| custom.warning.as_ref()) {
            call.warn(warning);
        }
        let scope = Scope {
            server: self,
            call,
            resource,
            namespace: target.namespace.clone().unwrap_or_default(),
            subresource: target.subresource.clone().unwrap_or_default(),
        };
        scope.answer(&target)
    }
}

/// How metrics name a verb.
fn metric_verb(verb: &str) -> &'static str {
    match verb {
        "watch" => "WATCH",
        "get" => "GET",
        "list" => "LIST",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => "DELETECOLLECTION",
    }
}

impl Scope<'_> {
    /// Leaves one of each owner that is named twice, and tells so.
    fn dedup_owners(&self, object: &mut Value) {
        let twice = crate::meta::dedup_owners(object);
        if !twice.is_empty() {
            self.call.warn(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
                 reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                twice.join(", ")
            ));
        }
    }

    fn answer(&self, target: &Target) -> Result<Answer> {
        let method = &self.call.method;
        if !self.subresource.is_empty() {
            let verb = match *method {
                Method::POST => "POST",
                Method::PUT => "PUT",
                Method::PATCH => "PATCH",
                Method::DELETE => "DELETE",
                _ => "GET",
            };
            let _ = self.call.target.set((verb, self.resource.clone()));
            let asked = match verb {
                "POST" => "create",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "get",
            };
            self.authorize(asked, target.name.as_deref().unwrap_or_default())?;
            let name = target.name.as_deref().unwrap_or_default();
            let sub = self.resource.subresources.get(&self.subresource).cloned();
            return match sub {
                Some(sub) => self.subresource_answer(&sub, name),
                None => self.not_served(name),
            };
        }
        let verb = match (method, &target.name) {
            (&Method::GET, Some(_)) if target.watch => "watch",
            (&Method::GET, None) if target.watch || self.call.options.watch => "watch",
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) => "list",
            (&Method::POST, None) => "create",
            (&Method::PUT, Some(_)) => "update",
            (&Method::PATCH, Some(_)) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) => "deletecollection",
            _ => return Err(ApiError::method_not_allowed()),
        };
        let _ = self.call.target.set((metric_verb(verb), self.resource.clone()));
        // An object of a namespaced resource is named with its namespace.
        if verb == "watch" && !self.resource.allows(verb) {
            return Err(ApiError::no_watch(&self.resource.plural));
        }
        let needs_namespace = self.resource.namespaced && !matches!(verb, "list" | "watch");
        if needs_namespace && self.namespace.is_empty() && target.name.is_some() {
            return Err(ApiError::no_resource());
        }
        if !self.resource.allows(verb) || (needs_namespace && self.namespace.is_empty()) {
            return Err(ApiError::method_not_allowed());
        }
        let name = target.name.as_deref().unwrap_or_default();
        self.authorize(verb, name)?;
        match verb {
            "get" => self.get(name),
            "list" => self.list(),
            "watch" => self.watch(target.name.as_deref()),
            "create" if self.resource.is("bindings") => self.bind_any(),
            "create" if self.is_review() => self.review(),
            "create" => self.create_from_body(),
            "update" => self.update_from_body(name),
            "patch" => self.patch(name),
            "delete" => self.delete(name),
            _ => self.delete_collection(),
        }
    }

    fn authorize(&self, verb: &str, name: &str) -> Result<()> {
        self.server.authorize(
            &self.call.user,
            &Attempt {
                verb,
                group: &self.resource.group,
                resource: &self.resource.plural,
                subresource: &self.subresource,
                name,
                namespace: &self.namespace,
                path: "",
            },
        )
    }

    pub(crate) fn key(&self, name: &str) -> String {
        self.resource.key(&self.namespace, name)
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.plural, name)
    }

    fn output(&self) -> Output {
        self.call.output.unwrap_or(Output::Json)
    }

    /// The resource's kind with a subresource's, where that differs.
    fn speaks_own_kind(&self, sub: &Subresource) -> bool {
        sub.kind == self.resource.kind
    }
}
