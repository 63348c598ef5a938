//! What may change about a pod.

use serde_json::Value;

use super::super::names;
use crate::meta::{self, list_at, text_at};
use crate::status::Cause;

/// Judges a change through a subresource.
pub(in crate::validation) fn check_part(subresource: &str, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    match subresource {
        "status" => {
            let node = text_at(new, &["status", "nominatedNodeName"]);
            let is_new = node != text_at(old, &["status", "nominatedNodeName"]);
            if !node.is_empty() && is_new && !text_at(new, &["spec", "nodeName"]).is_empty() {
                let why = "may not be set on pods that are already bound to a node";
                causes.push(Cause::forbidden("status.nominatedNodeName", why));
            }
            if let Some(why) = Some(node).filter(|node| !node.is_empty()).and_then(names::subdomain) {
                causes.push(Cause::invalid("status.nominatedNodeName", &node.into(), &why));
            }
        }
        "ephemeralcontainers" => {
            for (index, container) in list_at(new, &["spec", "ephemeralContainers"]).iter().enumerate() {
                let here = format!("spec.ephemeralContainers[{index}]");
                for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
                    if container.get(field).is_some() {
                        let why = "cannot be set for an Ephemeral Container";
                        causes.push(Cause::forbidden(format!("{here}.{field}"), why));
                    }
                }
                let target = text_at(container, &["targetContainerName"]);
                let is_there = ["containers", "initContainers"].iter().any(|field| {
                    list_at(new, &["spec", field]).iter().any(|container| text_at(container, &["name"]) == target)
                });
                if !target.is_empty() && !is_there {
                    causes.push(Cause::not_found(format!("{here}.targetContainerName"), &target.into()));
                }
            }
        }
        "resize" => {
            let is_supported = list_at(old, &["status", "containerStatuses"])
                .iter()
                .all(|status| status.get("resources").is_some() || meta::at(status, &["state", "running"]).is_none());
            if !is_supported {
                causes.push(Cause::forbidden("spec", "Pod running on node without support for resize"));
            }
        }
        _ => {}
    }
}

/// A pod's spec is fixed, but for images, a shorter deadline, more tolerations, and gates that are lifted.
pub(in crate::validation) fn check_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let mut munged = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").cloned().unwrap_or_default();
    for field in ["containers", "initContainers"] {
        let (now, was) = (list_at(&munged, &[field]).len(), list_at(&before, &[field]).len());
        if now != was {
            causes.push(Cause::forbidden(format!("spec.{field}"), "pod updates may not add or remove containers"));
            return;
        }
        let images: Vec<Value> =
            list_at(&before, &[field]).iter().map(|c| c.get("image").cloned().unwrap_or_default()).collect();
        let containers = munged.get_mut(field).and_then(Value::as_array_mut);
        for (container, image) in containers.into_iter().flatten().zip(images) {
            if let Some(container) = container.as_object_mut() {
                container.insert("image".to_owned(), image);
            }
        }
    }
    let had: Vec<Value> = list_at(&before, &["tolerations"]).to_vec();
    let has = list_at(&munged, &["tolerations"]);
    let same_but_time =
        |a: &Value, b: &Value| ["key", "operator", "value", "effect"].iter().all(|field| a.get(field) == b.get(field));
    if had.iter().any(|toleration| !has.iter().any(|present| same_but_time(present, toleration))) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    let gates: Vec<Value> = list_at(&before, &["schedulingGates"]).to_vec();
    let added = list_at(&munged, &["schedulingGates"]).iter().find(|gate| !gates.contains(gate)).cloned();
    if let Some(gate) = added {
        let name = text_at(&gate, &["name"]);
        let at = list_at(new, &["spec", "schedulingGates"]).iter().position(|present| *present == gate).unwrap_or(0);
        causes.push(Cause::forbidden(
            format!("spec.schedulingGates[{at}].name"),
            &format!("only deletion is allowed, but found new scheduling gate '{name}'"),
        ));
    }
    let deadline = |spec: &Value| meta::int_at(spec, &["activeDeadlineSeconds"]);
    match (deadline(&before), deadline(&munged)) {
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &Value::Null, why));
        }
        (Some(was), Some(is)) if is > was => {
            let why = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &is.into(), why));
        }
        _ => {}
    }
    let is_gated = !gates.is_empty();
    let mut free = vec!["tolerations", "schedulingGates", "activeDeadlineSeconds"];
    if is_gated {
        // What is not scheduled yet may still be narrowed.
        free.extend(["nodeSelector", "affinity"]);
    }
    if meta::int_at(&before, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        free.push("terminationGracePeriodSeconds");
    }
    if let (Some(munged), Some(before)) = (munged.as_object_mut(), before.as_object()) {
        for field in free {
            match before.get(field) {
                Some(value) => munged.insert(field.to_owned(), value.clone()),
                None => munged.remove(field),
            };
        }
    }
    if munged != before {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
}
