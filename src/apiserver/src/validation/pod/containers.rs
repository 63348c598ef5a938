//! Containers: their names, ports, variables, mounts and resources.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::super::names;
use crate::meta::{self, list_at, text_at};
use crate::status::Cause;

pub(super) fn check_container(container: &Value, path: &str, volumes: &[&str], causes: &mut Vec<Cause>) {
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
pub(super) fn host_ports(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
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
