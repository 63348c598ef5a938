//! Pods and pod templates.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::{meta_fields, names};
use crate::meta::{self, list_at, text_at};
use crate::status::Cause;

/// Judges a pod.
pub(super) fn check(pod: &Value, causes: &mut Vec<Cause>) {
    let empty = Value::Null;
    spec(pod.get("spec").unwrap_or(&empty), "spec", causes);
    if !list_at(pod, &["spec", "schedulingGates"]).is_empty() && !text_at(pod, &["spec", "nodeName"]).is_empty() {
        causes.push(Cause::forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
    }
}

/// Judges the template of a workload; `policies` are the restart policies that it may have.
pub(super) fn template(template: &Value, path: &str, policies: &[&str], causes: &mut Vec<Cause>) {
    meta_fields::check_labels(template.pointer("/metadata/labels"), &format!("{path}.labels"), causes);
    let empty = Value::Null;
    let spec_value = template.get("spec").unwrap_or(&empty);
    spec(spec_value, &format!("{path}.spec"), causes);
    let policy = text_at(spec_value, &["restartPolicy"]);
    if policy == "Always" && policies.len() > 1 {
        // What was left open became Always, and that is not told apart.
        let listed: Vec<String> = policies.iter().map(|policy| format!("{policy:?}")).collect();
        let why = format!("valid values: {}", listed.join(", "));
        causes.push(Cause::required(format!("{path}.spec.restartPolicy"), &why));
    } else if !policies.contains(&policy) {
        causes.push(Cause::not_supported(format!("{path}.spec.restartPolicy"), &policy.into(), policies));
    }
}

fn spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers = list_at(spec, &["containers"]);
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let volumes = volumes(spec, path, causes);
    let mut seen: Vec<&str> = Vec::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list_at(spec, &[field]).iter().enumerate() {
            let here = format!("{path}.{field}[{index}]");
            let name = text_at(container, &["name"]);
            if seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{here}.name"), &name.into()));
            }
            seen.push(name);
            check_container(container, &here, &volumes, causes);
        }
    }
    let one_of = |field: &str, allowed: &[&str], causes: &mut Vec<Cause>| {
        let value = text_at(spec, &[field]);
        if value.is_empty() && spec.get(field).is_none() {
            causes.push(Cause::required(format!("{path}.{field}"), ""));
        } else if !allowed.contains(&value) {
            causes.push(Cause::not_supported(format!("{path}.{field}"), &value.into(), allowed));
        }
    };
    host_ports(spec, path, causes);
    one_of("restartPolicy", &["Always", "OnFailure", "Never"], causes);
    one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], causes);
    if let Some(seconds) = meta::int_at(spec, &["activeDeadlineSeconds"]).filter(|s| !(1..=2_147_483_647).contains(s)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(format!("{path}.activeDeadlineSeconds"), &seconds.into(), why));
    }
    meta_fields::check_labels(spec.get("nodeSelector"), &format!("{path}.nodeSelector"), causes);
    if let Some(why) = Some(text_at(spec, &["nodeName"])).filter(|name| !name.is_empty()).and_then(names::subdomain) {
        causes.push(Cause::invalid(format!("{path}.nodeName"), &text_at(spec, &["nodeName"]).into(), &why));
    }
    tolerations(spec, path, causes);
    spread(spec, path, causes);
    affinity(spec, path, causes);
}

/// Kinds of volumes, in the order in which the real server looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn volumes<'v>(spec: &'v Value, path: &str, causes: &mut Vec<Cause>) -> Vec<&'v str> {
    let mut seen: Vec<&str> = Vec::new();
    for (index, volume) in list_at(spec, &["volumes"]).iter().enumerate() {
        let here = format!("{path}.volumes[{index}]");
        let name = text_at(volume, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{here}.name"), ""));
        } else if let Some(why) = names::label(name) {
            causes.push(Cause::invalid(format!("{here}.name"), &name.into(), &why));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(format!("{here}.name"), &name.into()));
        }
        let sources: Vec<&str> = SOURCES.iter().copied().filter(|source| volume.get(*source).is_some()).collect();
        for source in sources.iter().skip(1) {
            causes.push(Cause::forbidden(format!("{here}.{source}"), "may not specify more than 1 volume type"));
        }
        let has_account = !text_at(spec, &["serviceAccountName"]).is_empty();
        for (n, source) in list_at(volume, &["projected", "sources"]).iter().enumerate() {
            if source.get("serviceAccountToken").is_some() && !has_account {
                let why = "must not be specified when serviceAccountName is not set";
                causes.push(Cause::forbidden(format!("{here}.projected.sources[{n}].serviceAccountToken"), why));
            }
        }
        seen.push(name);
    }
    seen
}

fn check_container(container: &Value, path: &str, volumes: &[&str], causes: &mut Vec<Cause>) {
    let name = text_at(container, &["name"]);
    if name.is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    } else if let Some(why) = names::label(name) {
        causes.push(Cause::invalid(format!("{path}.name"), &name.into(), &why));
    }
    let image = text_at(container, &["image"]);
    if image.is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{path}.image"), &image.into(), why));
    }
    ports(container, path, causes);
    for (index, variable) in list_at(container, &["env"]).iter().enumerate() {
        let here = format!("{path}.env[{index}]");
        if text_at(variable, &["name"]).is_empty() {
            causes.push(Cause::required(format!("{here}.name"), ""));
        }
        let both = variable.get("value").is_some_and(|v| v != "") && variable.get("valueFrom").is_some();
        if both {
            let why = "may not be specified when `value` is not empty";
            causes.push(Cause::invalid(format!("{here}.valueFrom"), &"".into(), why));
        }
    }
    for (index, mount) in list_at(container, &["volumeMounts"]).iter().enumerate() {
        let here = format!("{path}.volumeMounts[{index}]");
        let name = text_at(mount, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{here}.name"), ""));
        } else if !volumes.contains(&name) {
            causes.push(Cause::not_found(format!("{here}.name"), &name.into()));
        }
        if text_at(mount, &["mountPath"]).is_empty() {
            causes.push(Cause::required(format!("{here}.mountPath"), ""));
        }
    }
    resources(container.get("resources").unwrap_or(&Value::Null), &format!("{path}.resources"), causes);
    let policy = text_at(container, &["imagePullPolicy"]);
    let policies = ["Always", "IfNotPresent", "Never"];
    if !policies.contains(&policy) {
        causes.push(Cause::not_supported(format!("{path}.imagePullPolicy"), &policy.into(), &policies));
    }
}

fn ports(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, port) in list_at(container, &["ports"]).iter().enumerate() {
        let here = format!("{path}.ports[{index}]");
        let name = text_at(port, &["name"]);
        if !name.is_empty() {
            for why in names::port_name(name) {
                causes.push(Cause::invalid(format!("{here}.name"), &name.into(), why));
            }
            if seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{here}.name"), &name.into()));
            }
        }
        seen.push(name);
        match meta::int_at(port, &["containerPort"]) {
            None | Some(0) => causes.push(Cause::required(format!("{here}.containerPort"), "")),
            Some(number) if !(1..=65_535).contains(&number) => {
                let why = "must be between 1 and 65535, inclusive";
                causes.push(Cause::invalid(format!("{here}.containerPort"), &number.into(), why));
            }
            Some(_) => {}
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        let protocol = text_at(port, &["protocol"]);
        if !protocols.contains(&protocol) {
            causes.push(Cause::not_supported(format!("{here}.protocol"), &protocol.into(), &protocols));
        }
    }
}

/// No host port is taken twice.
fn host_ports(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<String> = Vec::new();
    for (index, container) in list_at(spec, &["containers"]).iter().enumerate() {
        for (n, port) in list_at(container, &["ports"]).iter().enumerate() {
            let Some(number) = meta::int_at(port, &["hostPort"]).filter(|number| *number > 0) else { continue };
            let place = format!("{}/{}/{number}", text_at(port, &["protocol"]), text_at(port, &["hostIP"]));
            if seen.contains(&place) {
                let here = format!("{path}.containers[{index}].ports[{n}].hostPort");
                causes.push(Cause::duplicate(here, &place.as_str().into()));
            }
            seen.push(place);
        }
    }
}

/// Requests within limits; nothing negative; extended resources whole and not overcommitted.
fn resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let amounts = |of: &str| -> Vec<(String, Quantity, Value)> {
        let map = resources.get(of).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), Quantity::from_str(value.as_str()?).ok()?, value.clone())))
            .collect()
    };
    let zero = Quantity::default();
    let limits = amounts("limits");
    let is_extended = |name: &str| name.contains('/') && !name.starts_with("kubernetes.io/");
    for (of, list) in [("limits", &limits), ("requests", &amounts("requests"))] {
        for (name, amount, value) in list {
            let here = format!("{path}.{of}[{name}]");
            let standard =
                ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) || name.starts_with("hugepages-");
            if !standard && !name.contains('/') {
                for why in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ] {
                    causes.push(Cause::invalid(here.clone(), &name.as_str().into(), why));
                }
            }
            if *amount < zero {
                causes.push(Cause::invalid(here.clone(), value, "must be greater than or equal to 0"));
            }
            if is_extended(name) && amount.value_ceil() != amount.value_floor() {
                causes.push(Cause::invalid(here, value, "must be an integer"));
            }
        }
    }
    for (name, request, value) in amounts("requests") {
        let limit = limits.iter().find(|(limited, _, _)| *limited == name);
        let here = format!("{path}.requests");
        match limit {
            Some((_, limit, _)) if is_extended(&name) && request != *limit => {
                causes.push(Cause::invalid(here, &value, &format!("must be equal to {name} limit of {limit}")));
            }
            Some((_, limit, _)) if request > *limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(Cause::invalid(here, &value, &why));
            }
            None if is_extended(&name) => {
                causes.push(Cause::required(
                    format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            _ => {}
        }
    }
}

fn tolerations(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, toleration) in list_at(spec, &["tolerations"]).iter().enumerate() {
        let here = format!("{path}.tolerations[{index}]");
        let text = |field: &str| text_at(toleration, &[field]);
        if !text("key").is_empty() {
            if let Some(why) = names::label_key(text("key")) {
                causes.push(Cause::invalid(format!("{here}.key"), &text("key").into(), &why));
            }
        } else if text("operator") != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(format!("{here}.operator"), &text("operator").into(), why));
        }
        if toleration.get("tolerationSeconds").is_some() && text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(format!("{here}.effect"), &text("effect").into(), why));
        }
        match text("operator") {
            "" | "Equal" => {}
            "Exists" if text("value").is_empty() => {}
            "Exists" => {
                let why = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(format!("{here}.operator"), &text("value").into(), why));
            }
            other => causes.push(Cause::not_supported(format!("{here}.operator"), &other.into(), &["Equal", "Exists"])),
        }
        let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
        if !text("effect").is_empty() && !effects.contains(&text("effect")) {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            causes.push(Cause::not_supported(format!("{here}.effect"), &text("effect").into(), &supported));
        }
    }
}

fn spread(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, constraint) in list_at(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let here = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = meta::int_at(constraint, &["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{here}.maxSkew"), &skew.into(), "must be greater than zero"));
        }
        if text_at(constraint, &["topologyKey"]).is_empty() {
            causes.push(Cause::required(format!("{here}.topologyKey"), "can not be empty"));
        }
        let action = text_at(constraint, &["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            causes.push(Cause::not_supported(format!("{here}.whenUnsatisfiable"), &action.into(), &actions));
        }
        if let Some(min) = meta::int_at(constraint, &["minDomains"]) {
            if min <= 0 {
                causes.push(Cause::invalid(format!("{here}.minDomains"), &min.into(), "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                causes.push(Cause::invalid(format!("{here}.minDomains"), &min.into(), &why));
            }
        }
        let key = text_at(constraint, &["topologyKey"]);
        let alike = |other: &&Value| {
            text_at(other, &["topologyKey"]) == key && text_at(other, &["whenUnsatisfiable"]) == action
        };
        if list_at(spec, &["topologySpreadConstraints"]).iter().skip(index + 1).any(|other| alike(&other)) {
            let pair = Value::from(format!("{{{key}, {action}}}"));
            causes.push(Cause::duplicate(format!("{here}.{{topologyKey, whenUnsatisfiable}}"), &pair));
        }
    }
}

fn affinity(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let list = list_at(spec, &["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]);
        for (index, term) in list.iter().enumerate() {
            let here = format!("{path}.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]");
            affinity_term(term, &here, causes);
        }
        let list = list_at(spec, &["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"]);
        for (index, preferred) in list.iter().enumerate() {
            let here = format!("{path}.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
            weight(preferred, &here, causes);
            let empty = Value::Null;
            let term = preferred.get("podAffinityTerm").unwrap_or(&empty);
            affinity_term(term, &format!("{here}.podAffinityTerm"), causes);
        }
    }
    let preferred = ["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    for (index, term) in list_at(spec, &preferred).iter().enumerate() {
        let here = format!("{path}.{}[{index}]", preferred.join("."));
        weight(term, &here, causes);
        for (n, expression) in list_at(term, &["preference", "matchExpressions"]).iter().enumerate() {
            node_expression(expression, &format!("{here}.preference.matchExpressions[{n}]"), causes);
        }
    }
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    if meta::at(spec, &required).is_some() {
        let here = format!("{path}.{}.nodeSelectorTerms", required.join("."));
        let mut terms_path = required.to_vec();
        terms_path.push("nodeSelectorTerms");
        let terms = list_at(spec, &terms_path);
        if terms.is_empty() {
            causes.push(Cause::required(here.clone(), "must have at least one node selector term"));
        }
        for (at, term) in terms.iter().enumerate() {
            for (n, expression) in list_at(term, &["matchExpressions"]).iter().enumerate() {
                node_expression(expression, &format!("{here}[{at}].matchExpressions[{n}]"), causes);
            }
        }
    }
}

fn weight(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    let weight = meta::int_at(term, &["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(format!("{path}.weight"), &weight.into(), "must be in the range 1-100"));
    }
}

fn affinity_term(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    let key = text_at(term, &["topologyKey"]);
    if key.is_empty() {
        causes.push(Cause::required(format!("{path}.topologyKey"), "can not be empty"));
    }
    for why in names::label_key_causes(key) {
        causes.push(Cause::invalid(format!("{path}.topologyKey"), &key.into(), &why));
    }
}

fn node_expression(expression: &Value, path: &str, causes: &mut Vec<Cause>) {
    let n_values = list_at(expression, &["values"]).len();
    match text_at(expression, &["operator"]) {
        "In" | "NotIn" if n_values == 0 => {
            causes.push(Cause::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if n_values > 0 => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(format!("{path}.values"), why));
        }
        "Gt" | "Lt" if n_values != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.push(Cause::required(format!("{path}.values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            causes.push(Cause::invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"));
        }
    }
    if let Some(why) = names::label_key(text_at(expression, &["key"])) {
        causes.push(Cause::invalid(format!("{path}.key"), &text_at(expression, &["key"]).into(), &why));
    }
}

/// Judges a change through a subresource.
pub(super) fn check_part(subresource: &str, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
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
pub(super) fn check_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
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
        for (index, (container, image)) in containers.into_iter().flatten().zip(images).enumerate() {
            if text_at(container, &["image"]).is_empty() {
                causes.push(Cause::required(format!("spec.{field}[{index}].image"), ""));
            }
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
