//! Admission: what the control plane adds to objects or refuses, beyond their own validity.

mod limits;
mod pods;
mod quota;

use serde_json::{Value, json};

use crate::meta;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::verbs::Scope;

pub(crate) use pods::topology_of;
pub(crate) use quota::{Charge, Ledger, check as check_quota, may_grow, pod_total};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Completes or refuses a new object.
pub(crate) fn admit_create(scope: &Scope<'_>, object: &mut Value) -> Result<()> {
    let switches = scope.server.inner.config.admission;
    if switches.namespace_lifecycle {
        namespace_lifecycle(scope, object)?;
    }
    definition_lifecycle(&scope.resource, object)?;
    match scope.resource.storage.as_str() {
        "pods" if scope.resource.custom().is_none() => {
            if switches.priority {
                pods::priority(scope, object)?;
            }
            if switches.default_toleration_seconds {
                pods::tolerations(object);
            }
            if switches.service_account {
                pods::service_account(object);
            }
            pods::runtime_class(scope, object)?;
            if switches.pod_topology_labels {
                pods::label_topology(scope.server, object);
            }
            if switches.limit_ranger {
                limits::apply(scope, object)?;
            }
        }
        "persistentvolumeclaims" => {
            if switches.default_storage_class {
                default_storage_class(scope, object);
            }
            if switches.limit_ranger {
                limits::check_claim(scope, object)?;
            }
            if switches.storage_protection {
                meta::add_finalizer(object, "kubernetes.io/pvc-protection");
            }
        }
        "persistentvolumes" if switches.storage_protection => {
            meta::add_finalizer(object, "kubernetes.io/pv-protection");
        }
        "nodes" if switches.taint_new_nodes => taint_new_node(object),
        "priorityclasses.scheduling.k8s.io" => one_default_class(scope, object)?,
        _ => {}
    }
    Ok(())
}

/// A claim grows where its class lets it.
fn claim_may_grow(scope: &Scope<'_>, claim: &Value, old: &Value) -> Result<()> {
    let size = |claim: &Value| {
        let text = meta::text_at(claim, &["spec", "resources", "requests", "storage"]);
        <berth_quantity::Quantity as std::str::FromStr>::from_str(text).ok()
    };
    let grows = matches!((size(claim), size(old)), (Some(is), Some(was)) if is > was);
    if !grows || meta::text_at(old, &["status", "phase"]) != "Bound" {
        return Ok(());
    }
    let class = meta::text_at(old, &["spec", "storageClassName"]);
    let class = scope.server.value("storageclasses.storage.k8s.io", class);
    if class.is_some_and(|class| class.get("allowVolumeExpansion") == Some(&Value::Bool(true))) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(ApiError::forbidden("", "persistentvolumeclaims", meta::name(claim), why))
}

/// Completes or refuses a changed object.
pub(crate) fn admit_update(scope: &Scope<'_>, object: &mut Value, old: &Value) -> Result<()> {
    if scope.resource.is("persistentvolumeclaims") && scope.subresource.is_empty() {
        claim_may_grow(scope, object, old)?;
    }
    if scope.resource.is("pods") && scope.server.inner.config.admission.default_toleration_seconds {
        pods::tolerations(object);
    }
    Ok(())
}

/// Refuses what nothing may delete.
pub(crate) fn admit_delete(storage: &str, name: &str) -> Result<()> {
    if storage == "namespaces" && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden("", "namespaces", name, "this namespace may not be deleted"));
    }
    Ok(())
}

fn namespace_lifecycle(scope: &Scope<'_>, object: &Value) -> Result<()> {
    if !scope.resource.namespaced {
        return Ok(());
    }
    let Some(namespace) = scope.server.inner.store.get("namespaces", &scope.namespace) else {
        return Err(ApiError::not_found("", "namespaces", &scope.namespace));
    };
    if namespace.says("\"deletionTimestamp\"") && meta::has(&namespace.value(), "deletionTimestamp") {
        let (group, plural) = (&scope.resource.group, &scope.resource.plural);
        return Err(ApiError::namespace_terminating(group, plural, meta::name(object), &scope.namespace));
    }
    Ok(())
}

/// Nothing new of a definition that is being deleted, by apply neither.
fn definition_lifecycle(resource: &Resource, object: &Value) -> Result<()> {
    if resource.custom().is_none_or(|custom| !custom.terminating) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::forbidden(&resource.group, &resource.plural, meta::name(object), why))
}

fn default_storage_class(scope: &Scope<'_>, claim: &mut Value) {
    if meta::at(claim, &["spec", "storageClassName"]).is_some() {
        return;
    }
    let is_default =
        |class: &Value| meta::annotation(class, "storageclass.kubernetes.io/is-default-class") == Some("true");
    let mut classes: Vec<Value> =
        scope.server.values("storageclasses.storage.k8s.io", "").into_iter().filter(is_default).collect();
    // The newest of several, then by name.
    classes.sort_by(|a, b| {
        let key = |class: &Value| meta::text(class, "creationTimestamp").to_owned();
        key(b).cmp(&key(a)).then_with(|| meta::name(a).cmp(meta::name(b)))
    });
    if let (Some(class), Some(spec)) = (classes.first(), meta::object_mut(claim, &["spec"])) {
        spec.insert("storageClassName".to_owned(), meta::name(class).into());
    }
}

fn taint_new_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let Some(spec) = meta::object_mut(node, &["spec"]) else { return };
    let taints = spec.entry("taints").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(taints) = taints
        && !taints.iter().any(|present| present.get("key") == taint.get("key"))
    {
        taints.push(taint);
    }
}

fn one_default_class(scope: &Scope<'_>, class: &Value) -> Result<()> {
    let is_default = |class: &Value| class.get("globalDefault") == Some(&Value::Bool(true));
    if !is_default(class) {
        return Ok(());
    }
    let other = scope.server.values("priorityclasses.scheduling.k8s.io", "").into_iter().find(is_default);
    match other {
        Some(other) if meta::name(&other) != meta::name(class) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                meta::name(&other)
            );
            Err(ApiError::forbidden("scheduling.k8s.io", "priorityclasses", meta::name(class), &why))
        }
        _ => Ok(()),
    }
}
