//! Nodes, claims, volumes, budgets, services and the small kinds.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::{immutable, names, not_negative};
use crate::meta::{self, at, list_at, text_at};
use crate::resource::Resource;
use crate::status::Cause;

pub(super) fn check(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "nodes" => taints(object, causes),
        "persistentvolumeclaims" => claim(object, causes),
        "persistentvolumes" => volume(object, causes),
        "poddisruptionbudgets.policy" => budget(object, causes),
        "services" => service(object, causes),
        "priorityclasses.scheduling.k8s.io" => priority_class(object, causes),
        "configmaps" | "secrets" => data_keys(object, causes),
        "resourcequotas" => quota(object, causes),
        "storageclasses.storage.k8s.io" if text_at(object, &["provisioner"]).is_empty() => {
            causes.push(Cause::required("provisioner", ""));
        }
        "leases.coordination.k8s.io" => {
            for field in ["leaseDurationSeconds", "leaseTransitions"] {
                if let Some(number) =
                    meta::int_at(object, &["spec", field]).filter(|n| *n < i64::from(field == "leaseDurationSeconds"))
                {
                    let why = if field == "leaseDurationSeconds" {
                        "must be greater than 0"
                    } else {
                        "must be greater than or equal to 0"
                    };
                    causes.push(Cause::invalid(format!("spec.{field}"), &number.into(), why));
                }
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if text_at(object, &["roleRef", "name"]).is_empty() =>
        {
            causes.push(Cause::required("roleRef.name", ""));
        }
        _ => {}
    }
}

pub(super) fn check_change(resource: &Resource, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "configmaps" | "secrets" => {
            if old.get("immutable") == Some(&Value::Bool(true)) {
                for field in ["data", "binaryData", "immutable"] {
                    if new.get(field) != old.get(field) {
                        causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
                    }
                }
            }
            if resource.is("secrets") {
                immutable(new, old, &["type"], causes);
            }
        }
        "persistentvolumeclaims" => {
            let fixed = |object: &Value| {
                let mut spec = object.get("spec").cloned().unwrap_or_default();
                if let Some(map) = spec.as_object_mut() {
                    map.remove("resources");
                    map.remove("volumeAttributesClassName");
                    if text_at(old, &["spec", "volumeName"]).is_empty() {
                        map.remove("volumeName");
                    }
                }
                spec
            };
            if fixed(new) != fixed(old) {
                let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
                causes.push(Cause::forbidden("spec", why));
            }
            let size = |object: &Value| {
                Quantity::from_str(text_at(object, &["spec", "resources", "requests", "storage"])).ok()
            };
            if let (Some(is), Some(was)) = (size(new), size(old))
                && is < was
            {
                let why = "field can not be less than status.capacity";
                causes.push(Cause::forbidden("spec.resources.requests.storage", why));
            }
        }
        "priorityclasses.scheduling.k8s.io" => {
            if new.get("value") != old.get("value") {
                causes.push(Cause::forbidden("value", "may not be changed in an update."));
            }
            immutable(new, old, &["preemptionPolicy"], causes);
        }
        "storageclasses.storage.k8s.io" => {
            for field in ["parameters", "provisioner", "reclaimPolicy"] {
                if new.get(field) != old.get(field) {
                    causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
                }
            }
            immutable(new, old, &["volumeBindingMode"], causes);
        }
        "services" => {
            let was = text_at(old, &["spec", "clusterIP"]);
            let both = [old, new].iter().all(|object| text_at(object, &["spec", "type"]) != "ExternalName");
            if both && !was.is_empty() {
                immutable(new, old, &["spec", "clusterIP"], causes);
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if new.get("roleRef") != old.get("roleRef") =>
        {
            let value = new.get("roleRef").cloned().unwrap_or_default();
            causes.push(Cause::invalid("roleRef", &value, "cannot change roleRef"));
        }
        "nodes" => {
            let was = text_at(old, &["spec", "providerID"]);
            if !was.is_empty() && was != text_at(new, &["spec", "providerID"]) {
                causes.push(Cause::forbidden(
                    "spec.providerID",
                    "node updates may not change providerID except from \"\" to valid",
                ));
            }
        }
        _ => {}
    }
}

fn taints(node: &Value, causes: &mut Vec<Cause>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in list_at(node, &["spec", "taints"]).iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        let text = |field: &str| text_at(taint, &[field]);
        if let Some(why) = names::label_key(text("key")) {
            causes.push(Cause::invalid(format!("{path}.key"), &text("key").into(), &why));
        }
        if let Some(why) = names::label_value(text("value")) {
            causes.push(Cause::invalid(format!("{path}.value"), &text("value").into(), &why));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text("effect").is_empty() {
            causes.push(Cause::required(format!("{path}.effect"), ""));
        } else if !effects.contains(&text("effect")) {
            causes.push(Cause::not_supported(format!("{path}.effect"), &text("effect").into(), &effects));
        }
        let identity = (text("key"), text("effect"));
        if seen.contains(&identity) {
            causes.push(Cause::duplicate(path, taint));
        }
        seen.push(identity);
    }
}

fn access_modes(object: &Value, causes: &mut Vec<Cause>) {
    let modes = list_at(object, &["spec", "accessModes"]);
    if modes.is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        if !supported.contains(&mode.as_str().unwrap_or_default()) {
            causes.push(Cause::not_supported("spec.accessModes", mode, &supported));
        }
    }
}

fn claim(claim: &Value, causes: &mut Vec<Cause>) {
    access_modes(claim, causes);
    let storage = text_at(claim, &["spec", "resources", "requests", "storage"]);
    match Quantity::from_str(storage) {
        Ok(amount) if amount > Quantity::default() => {}
        Ok(_) => causes.push(Cause::invalid("spec.resources[storage]", &storage.into(), "must be greater than zero")),
        Err(_) => causes.push(Cause::required("spec.resources[storage]", "")),
    }
}

fn volume(volume: &Value, causes: &mut Vec<Cause>) {
    access_modes(volume, causes);
    if at(volume, &["spec", "capacity", "storage"]).is_none() {
        causes.push(Cause::required("spec.capacity", ""));
    }
    let plain = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let spec = volume.get("spec").and_then(Value::as_object);
    let n_sources = spec.into_iter().flatten().filter(|(field, _)| !plain.contains(&field.as_str())).count();
    if n_sources == 0 {
        causes.push(Cause::required("spec", "must specify a volume type"));
    } else if n_sources > 1 {
        causes.push(Cause::forbidden("spec", "may not specify more than 1 volume type"));
    }
}

fn budget(budget: &Value, causes: &mut Vec<Cause>) {
    let (min, max) = (at(budget, &["spec", "minAvailable"]), at(budget, &["spec", "maxUnavailable"]));
    if min.is_some() && max.is_some() {
        let spec = budget.get("spec").cloned().unwrap_or_default();
        causes.push(Cause::invalid("spec", &spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (field, value) in [("minAvailable", min), ("maxUnavailable", max)] {
        let path = format!("spec.{field}");
        match value {
            Some(Value::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
                match percent {
                    None => {
                        let why = "a valid percent string must be a numeric value followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                        causes.push(Cause::invalid(path, &text.as_str().into(), why));
                    }
                    Some(percent) if percent > 100 => {
                        causes.push(Cause::invalid(path, &text.as_str().into(), "must not be greater than 100%"));
                    }
                    Some(_) => {}
                }
            }
            Some(_) => not_negative(budget, &["spec", field], causes),
            None => {}
        }
    }
}

fn service(service: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(service, &["spec", "type"]);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &kind.into(), &kinds));
    }
    let ports = list_at(service, &["spec", "ports"]);
    if ports.is_empty() && kind != "ExternalName" && text_at(service, &["spec", "clusterIP"]) != "None" {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 && text_at(port, &["name"]).is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let number = meta::int_at(port, &["port"]).unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(format!("{path}.port"), &number.into(), why));
        }
    }
}

fn priority_class(class: &Value, causes: &mut Vec<Cause>) {
    let name = meta::name(class);
    let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
    let is_system = name.starts_with("system-");
    let known = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    if is_system && !known.contains(&(name, value)) {
        let why = "priority class names with 'system-' prefix are reserved for system use only. error: ".to_owned()
            + &format!("{name} is not a known system priority class");
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if !is_system && value > 1_000_000_000 {
        let why = "maximum allowed value of a user defined priority is 1000000000";
        causes.push(Cause::forbidden("value", why));
    }
    let policies = ["Never", "PreemptLowerPriority"];
    let policy = text_at(class, &["preemptionPolicy"]);
    if !policies.contains(&policy) {
        causes.push(Cause::not_supported("preemptionPolicy", &policy.into(), &policies));
    }
}

fn data_keys(object: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
            let ok = !key.is_empty()
                && key.len() <= 253
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && key != "."
                && !key.starts_with("..");
            if !ok {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{field}[{key}]"), &key.as_str().into(), why));
            }
            size += value.as_str().map_or(0, str::len);
        }
    }
    if size > 1024 * 1024 {
        causes.push(Cause::too_long("", 1024 * 1024));
    }
}

fn quota(quota: &Value, causes: &mut Vec<Cause>) {
    for (name, value) in at(quota, &["spec", "hard"]).and_then(Value::as_object).into_iter().flatten() {
        let amount = value.as_str().and_then(|text| Quantity::from_str(text).ok());
        if amount.is_some_and(|amount| amount < Quantity::default()) {
            causes.push(Cause::invalid(format!("spec.hard[{name}]"), value, "must be greater than or equal to 0"));
        }
    }
}
