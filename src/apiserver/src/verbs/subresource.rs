//! Subresources: status, scale, binding, eviction, finalize and the like.

use http::Method;
use serde_json::{Map, Value, json};

use super::Scope;
use crate::apply::{Writer, apply, own_scale, take_scale_owners, track_update};
use crate::patch::Patch;
use crate::reply::Answer;
use crate::resource::Subresource;
use crate::schema::{builtin, decode};
use crate::selector::LabelSelector;
use crate::status::{ApiError, Cause, Result, success};
use crate::{admission, convert, meta};

const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The number at a path of a definition.
fn number_at(object: &Value, path: &[String]) -> Option<i64> {
    meta::int_at(object, &path.iter().map(String::as_str).collect::<Vec<_>>())
}

impl Scope<'_> {
    pub(super) fn subresource_answer(&self, sub: &Subresource, name: &str) -> Result<Answer> {
        let verb = match self.call.method {
            Method::GET => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::POST => "create",
            _ => return Err(ApiError::method_not_allowed()),
        };
        if !sub.verbs.iter().any(|allowed| allowed == verb) || (self.resource.namespaced && self.namespace.is_empty()) {
            return Err(ApiError::method_not_allowed());
        }
        match (self.subresource.as_str(), verb) {
            ("binding", _) => self.bind(name),
            ("eviction", _) => self.evict(name),
            ("token", "create") => self.create_token(name),
            ("scale", "get") => self.scale_of(name).map(|value| Answer::Value { code: 200, value }),
            ("scale", _) => self.set_scale(name, verb),
            (_, "get") => self.get(name),
            (_, "update") if self.speaks_own_kind(sub) => self.update_from_body(name),
            (_, "patch") if self.speaks_own_kind(sub) => self.patch(name),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// Binds the pod that a binding in the body names.
    pub(super) fn bind_any(&self) -> Result<Answer> {
        let Some(pods) = self.server.resource_of("pods") else { return Err(ApiError::no_resource()) };
        let name = meta::name(&self.parse()?.value).to_owned();
        let scope = Scope {
            server: self.server,
            call: self.call,
            resource: pods,
            namespace: self.namespace.clone(),
            subresource: "binding".to_owned(),
        };
        scope.bind(&name)
    }

    /// Binds a pod to a node, as a scheduler does.
    fn bind(&self, name: &str) -> Result<Answer> {
        let binding = self.body_of("io.k8s.api.core.v1.Binding", "v1", "Binding")?;
        let target = meta::text_at(&binding, &["target", "name"]).to_owned();
        if meta::name(&binding) != name {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let invalid = |cause: Cause| ApiError::unexpected(format!("{}: {}", cause.field, cause.message));
        let kind = meta::text_at(&binding, &["target", "kind"]);
        if !kind.is_empty() && kind != "Node" {
            return Err(invalid(Cause::not_supported("target.kind", &kind.into(), &["Node", "<empty>"])));
        }
        if target.is_empty() {
            return Err(invalid(Cause::required("target.name", "")));
        }
        let uid = meta::text(&binding, "uid").to_owned();
        let conflict = |why: String| ApiError::conflict("", "pods/binding", name, &why);
        let mut labels =
            meta::at(&binding, &["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
        if self.server.inner.config.admission.pod_topology_labels {
            labels.extend(admission::topology_of(self.server, &target));
        }
        self.change_quietly(name, &mut |pod, now| {
            if !uid.is_empty() && uid != meta::text(pod, "uid") {
                let (has, path) = (meta::text(pod, "uid"), self.resource.registry_path(&self.key(name)));
                let why = format!("StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {has}");
                return Err(ApiError::conflict("", "pods", name, &why));
            }
            if meta::has(pod, "deletionTimestamp") {
                return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
            }
            let node = meta::text_at(pod, &["spec", "nodeName"]);
            if !node.is_empty() {
                return Err(conflict(format!("pod {name} is already assigned to node {node:?}")));
            }
            if !meta::list_at(pod, &["spec", "schedulingGates"]).is_empty() {
                return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
            }
            if let Some(spec) = meta::object_mut(pod, &["spec"]) {
                spec.insert("nodeName".to_owned(), target.as_str().into());
            }
            // It is of no use any more: no node keeps room for a pod that is on one.
            if let Some(status) = meta::object_mut(pod, &["status"]) {
                status.remove("nominatedNodeName");
            }
            if let Some(given) = meta::at(&binding, &["metadata", "annotations"]).and_then(Value::as_object)
                && let Some(annotations) = meta::object_mut(pod, &["metadata", "annotations"])
            {
                annotations.extend(given.clone());
            }
            meta::add_labels(pod, labels.clone());
            set_condition(pod, &json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
            Ok(())
        })?;
        Ok(Answer::Value { code: 201, value: created_status() })
    }

    /// Changes an object as the server's own hand: no owner is recorded. Gives its version since.
    fn change_quietly(&self, name: &str, produce: &mut dyn FnMut(&mut Value, &str) -> Result<()>) -> Result<u64> {
        let store = &self.server.inner.store;
        let key = self.key(name);
        loop {
            let stored = store.get(&self.resource.storage, &key).ok_or_else(|| self.not_found(name))?;
            let mut value = stored.value();
            produce(&mut value, &self.server.inner.clock.now_text())?;
            decode::decode(&mut value, self.resource.typed());
            let draft = super::create::draft(&self.resource, &mut value);
            if self.call.options.dry_run {
                return Ok(stored.revision);
            }
            match store.update(&self.resource.storage, &key, stored.revision, draft.keeping(value)) {
                Ok(changed) => return Ok(changed.revision),
                Err(crate::store::Refused::Missing) => return Err(self.not_found(name)),
                Err(_) => {}
            }
        }
    }

    /// Evicts a pod unless its PodDisruptionBudget forbids it now.
    fn evict(&self, name: &str) -> Result<Answer> {
        let eviction = self.body_of("io.k8s.api.policy.v1.Eviction", "policy/v1", "Eviction")?;
        let own = meta::name(&eviction);
        if !own.is_empty() && own != name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = self.call.options.clone();
        if let Some(given) = eviction.get("deleteOptions") {
            options.take_delete_options(given);
            options.check_delete()?;
        }
        let pod = self.server.value("pods", &self.key(name)).ok_or_else(|| self.not_found(name))?;
        let phase = meta::text_at(&pod, &["status", "phase"]);
        // Pods that are over, not yet running, or going already disrupt nothing.
        let is_free = ["Succeeded", "Failed", "Pending"].contains(&phase) || meta::has(&pod, "deletionTimestamp");
        if !is_free {
            self.spend_budget(&pod, name, options.dry_run)?;
        }
        if !options.dry_run {
            let version = self.change_quietly(name, &mut |pod, now| {
                super::delete::check_preconditions(&self.resource, name, pod, &options)?;
                let message = "Eviction API: evicting";
                set_condition(
                    pod,
                    &json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                                           "message": message, "lastTransitionTime": now}),
                );
                Ok(())
            })?;
            // The version that was asked for is the one before this change.
            options.version_precondition = options.version_precondition.map(|_| version.to_string());
        }
        self.server.delete_object(&self.resource, &self.namespace, name, &options)?;
        Ok(Answer::Value { code: 201, value: created_status() })
    }

    fn spend_budget(&self, pod: &Value, name: &str, dry_run: bool) -> Result<()> {
        let selects = |budget: &Value| {
            let selector = meta::at(budget, &["spec", "selector"]);
            // An empty selector of policy/v1 selects every pod of the namespace.
            LabelSelector::from_object(selector).matches_object(pod)
        };
        let budgets: Vec<Value> =
            self.server.values("poddisruptionbudgets.policy", &self.namespace).into_iter().filter(selects).collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(ApiError::unexpected(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let budget_name = meta::name(budget).to_owned();
        let status = |field: &str| meta::int_at(budget, &["status", field]).unwrap_or(0);
        let is_ready = meta::list_at(pod, &["status", "conditions"]).iter().any(|condition| {
            meta::text_at(condition, &["type"]) == "Ready" && meta::text_at(condition, &["status"]) == "True"
        });
        let always = meta::text_at(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        let healthy_enough = status("currentHealthy") >= status("desiredHealthy") && status("desiredHealthy") > 0;
        if !is_ready && (always || healthy_enough) {
            return Ok(());
        }
        let observed = status("observedGeneration");
        if observed < meta::number(budget, "generation").unwrap_or(0) {
            let message = format!("The disruption budget {budget_name} is still being processed by the server.");
            return Err(ApiError::disruption_budget(message, 10));
        }
        if status("disruptionsAllowed") <= 0 {
            let (needs, has) = (status("desiredHealthy"), status("currentHealthy"));
            let message = if has <= needs {
                format!("The disruption budget {budget_name} needs {needs} healthy pods and has {has} currently")
            } else {
                format!("The disruption budget {budget_name} does not allow evicting pods currently")
            };
            return Err(ApiError::disruption_budget(message, 0));
        }
        if dry_run {
            return Ok(());
        }
        self.spend(&budget_name, name)
    }

    fn spend(&self, budget: &str, pod: &str) -> Result<()> {
        let Some(resource) = self.server.resource_of("poddisruptionbudgets.policy") else { return Ok(()) };
        let call = crate::service::Call::internal("kube-apiserver");
        let scope = Scope {
            server: self.server,
            call: &call,
            resource,
            namespace: self.namespace.clone(),
            subresource: "status".to_owned(),
        };
        let spent = scope.change(budget, false, "", &mut |live, now| {
            let Some(live) = live else { return Err(scope.not_found(budget)) };
            let mut new = live.clone();
            let left = meta::int_at(live, &["status", "disruptionsAllowed"]).unwrap_or(0);
            if left <= 0 {
                let message = format!("The disruption budget {budget} does not allow a disruption now");
                return Err(ApiError::disruption_budget(message, 0));
            }
            if let Some(status) = meta::object_mut(&mut new, &["status"]) {
                status.insert("disruptionsAllowed".to_owned(), (left - 1).into());
            }
            if let Some(disrupted) = meta::object_mut(&mut new, &["status", "disruptedPods"]) {
                disrupted.insert(pod.to_owned(), now.into());
            }
            let (is_left, reason) = if left > 1 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            let observed = meta::int_at(live, &["status", "observedGeneration"]).unwrap_or(0);
            let condition = json!({"type": "DisruptionAllowed", "status": is_left, "reason": reason, "message": "",
                                   "observedGeneration": observed, "lastTransitionTime": now});
            set_condition(&mut new, &condition);
            scope.track(Some(live), &mut new, now);
            Ok(new)
        });
        spent.map(|_| ())
    }

    fn scale_of(&self, name: &str) -> Result<Value> {
        let stored = self.server.inner.store.get(&self.resource.storage, &self.key(name));
        let stored = stored.ok_or_else(|| self.not_found(name))?;
        let object = convert::value_of(&self.resource, &stored);
        let paths = self.scale_paths();
        if self.resource.custom().is_some() && number_at(&object, &paths.spec).is_none() {
            let path = paths.spec.join(".");
            return Err(ApiError::internal(format!("the spec replicas field \".{path}\" does not exist")));
        }
        Ok(self.scale(&object))
    }

    /// The scale of an object; one that does not say how many it wants, which may still be written, wants none.
    fn scale(&self, object: &Value) -> Value {
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {}, "status": {"replicas": 0}});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            meta::copy(&mut scale, object, field);
        }
        let paths = self.scale_paths();
        let wanted = number_at(object, &paths.spec).unwrap_or(0);
        if wanted != 0
            && let Some(spec) = meta::object_mut(&mut scale, &["spec"])
        {
            spec.insert("replicas".to_owned(), wanted.into());
        }
        let selector = match (&paths.selector, self.resource.custom()) {
            (Some(path), _) => meta::text_at(object, &path.iter().map(String::as_str).collect::<Vec<_>>()).to_owned(),
            (None, Some(_)) => String::new(),
            (None, None) => crate::defaults::selector_text(meta::at(object, &["spec", "selector"])),
        };
        if let Some(status) = meta::object_mut(&mut scale, &["status"]) {
            status.insert("replicas".to_owned(), number_at(object, &paths.status).unwrap_or(0).into());
            if !selector.is_empty() {
                status.insert("selector".to_owned(), selector.into());
            }
        }
        scale
    }

    fn scale_paths(&self) -> crate::crd::ScalePaths {
        let own = self.resource.custom().and_then(|custom| custom.scale.clone());
        own.unwrap_or_else(|| crate::crd::ScalePaths {
            spec: vec!["spec".to_owned(), "replicas".to_owned()],
            status: vec!["status".to_owned(), "replicas".to_owned()],
            selector: None,
        })
    }

    fn set_scale(&self, name: &str, verb: &str) -> Result<Answer> {
        let Some(typed) = builtin().schemas.named(SCALE_SCHEMA) else {
            return Err(ApiError::internal("no schema of Scale"));
        };
        let paths = self.scale_paths();
        let (manager, api_version) = (self.call.manager(), "autoscaling/v1");
        let kind = self.call.content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let changed = self.change(name, false, "", &mut |live, now| {
            let live = live.ok_or_else(|| self.not_found(name))?;
            let replicas: Vec<&str> = paths.spec.iter().map(String::as_str).collect();
            let mut present = self.scale(live);
            own_scale(&mut present, live, &replicas);
            let writer = Writer { manager: &manager, api_version, subresource: "scale", now };
            let none = crate::apply::FieldSet::default();
            let is_apply = kind == "application/apply-patch+yaml";
            let mut scale = if verb == "update" {
                self.body_of(SCALE_SCHEMA, api_version, "Scale")?
            } else if is_apply {
                let config = crate::request::parse_body(&self.call.body, crate::request::Format::Yaml)?.value;
                let force = self.call.options.force.unwrap_or(false);
                apply(&present, &config, typed, &writer, force, &none)?
            } else {
                match self.read_patch(&kind)? {
                    patch @ (Patch::Json(_) | Patch::Merge(_) | Patch::Strategic(_)) => patch.apply(&present, typed)?,
                }
            };
            if !meta::name(&scale).is_empty() {
                Self::check_name(&scale, name)?;
            }
            let problems = decode::decode(&mut scale, typed);
            if let Some(error) = problems.error {
                return Err(ApiError::bad_request(format!(
                    "Scale in version \"v1\" cannot be handled as a Scale: {}",
                    error.json
                )));
            }
            let wanted = meta::int_at(&scale, &["spec", "replicas"]).unwrap_or(0);
            if wanted < 0 {
                let cause = Cause::invalid("spec.replicas", &wanted.into(), "must be greater than or equal to 0");
                return Err(ApiError::invalid("autoscaling", "Scale", name, &[cause]));
            }
            let mut new = live.clone();
            match meta::revision(&scale) {
                Some(version) => meta::set(&mut new, "resourceVersion", version),
                None => meta::copy(&mut new, live, "resourceVersion"),
            }
            let (last, parents) = match paths.spec.split_last() {
                Some((last, parents)) => (last, parents.iter().map(String::as_str).collect::<Vec<_>>()),
                None => return Err(ApiError::internal("no path of replicas")),
            };
            if let Some(parent) = meta::object_mut(&mut new, &parents) {
                parent.insert(last.clone(), wanted.into());
            }
            if !is_apply {
                meta::copy(&mut scale, &present, "managedFields");
                track_update(&present, &mut scale, typed, &writer, &none);
            }
            take_scale_owners(&mut new, &scale, &replicas, &self.resource.api_version());
            Ok(new)
        })?;
        let object = convert::value_of(&self.resource, &changed.object);
        Ok(Answer::Value { code: 200, value: self.scale(&object) })
    }
}

fn created_status() -> Value {
    let mut status = success(&Value::Null);
    if let Some(map) = status.as_object_mut() {
        map.remove("details");
        map.insert("code".to_owned(), 201.into());
    }
    status
}

/// Puts a condition in the place of the one of its type; the time stays where the status does.
pub(crate) fn set_condition(object: &mut Value, condition: &Value) {
    let Some(status) = meta::object_mut(object, &["status"]) else { return };
    let list = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    let same = |present: &&mut Value| present.get("type") == condition.get("type");
    match list.iter_mut().find(same).and_then(Value::as_object_mut) {
        Some(present) => {
            let kept =
                present.get("lastTransitionTime").cloned().filter(|_| present.get("status") == condition.get("status"));
            *present = condition.as_object().cloned().unwrap_or_else(Map::new);
            if let Some(kept) = kept {
                present.insert("lastTransitionTime".to_owned(), kept);
            }
        }
        None => list.push(condition.clone()),
    }
}
