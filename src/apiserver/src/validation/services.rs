//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::meta_fields::check_labels;
use super::names;
use crate::defaults::service::{has_address, has_health_port, is_external};
use crate::meta::{at, int_at, list_at, text_at};
use crate::resource::Resource;
use crate::status::Cause;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
/// Seconds of a day: the longest that a client stays with its pod.
const MAX_AFFINITY_SECONDS: i64 = 86_400;

pub(super) fn service(service: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(service, &["spec", "type"]);
    let headless = text_at(service, &["spec", "clusterIP"]) == "None";
    if !TYPES.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &kind.into(), &TYPES));
    }
    if list_at(service, &["spec", "ports"]).is_empty() && kind != "ExternalName" && !headless {
        causes.push(Cause::required("spec.ports", ""));
    }
    if kind == "ExternalName" {
        external_name(service, causes);
    }
    ports(service, causes);
    check_labels(at(service, &["spec", "selector"]), "spec.selector", causes);
    affinity(service, causes);
    causes.extend(first_address(service).err());
    addresses(service, causes);
    policies(service, causes);
}

pub(super) fn service_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let was = text_at(old, &["spec", "clusterIP"]);
    if has_address(old) && has_address(new) && !was.is_empty() && was != text_at(new, &["spec", "clusterIP"]) {
        let addresses = at(new, &["spec", "clusterIPs"]).cloned().unwrap_or_default();
        causes.push(Cause::invalid("spec.clusterIPs[0]", &addresses, "may not change once set"));
    }
    let port = |service: &Value| int_at(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if has_health_port(new) && has_health_port(old) && port(new) != port(old) {
        causes.push(Cause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

/// Judges the status of a Service: who has no balancer has no address of one.
pub(super) fn check_status(resource: &Resource, service: &Value, causes: &mut Vec<Cause>) {
    let has_ingress = !list_at(service, &["status", "loadBalancer", "ingress"]).is_empty();
    if resource.is("services") && has_ingress && text_at(service, &["spec", "type"]) != "LoadBalancer" {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        causes.push(Cause::forbidden("status.loadBalancer.ingress", why));
    }
}

/// Holds the first of a Service's addresses to the one that it names alone: judged before it is given any.
pub(crate) fn first_address(service: &Value) -> Result<(), Cause> {
    let list = list_at(service, &["spec", "clusterIPs"]);
    let all = || at(service, &["spec", "clusterIPs"]).cloned().unwrap_or_default();
    match list.first().and_then(Value::as_str) {
        Some(first) if first != text_at(service, &["spec", "clusterIP"]) && has_address(service) => {
            Err(Cause::invalid("spec.clusterIPs", &all(), "first value must match `clusterIP`"))
        }
        Some(first) if first != "None" && first.parse::<IpAddr>().is_err() => {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            Err(Cause::invalid("spec.clusterIPs[0]", &first.into(), why))
        }
        _ => Ok(()),
    }
}

/// What a Service's type says against its addresses.
fn addresses(service: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(service, &["spec", "type"]);
    let list = list_at(service, &["spec", "clusterIPs"]);
    if kind == "ExternalName" {
        let is_set = [
            ("clusterIPs", !list.is_empty()),
            ("ipFamilies", !list_at(service, &["spec", "ipFamilies"]).is_empty()),
            ("ipFamilyPolicy", !text_at(service, &["spec", "ipFamilyPolicy"]).is_empty()),
        ];
        for (field, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
            causes.push(Cause::forbidden(format!("spec.{field}"), "may not be set for ExternalName services"));
        }
        return;
    }
    if list.first().is_some_and(|first| first == "None") && is_external(service) {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", &"None".into(), &why));
    }
    for (index, address) in list.iter().filter_map(Value::as_str).enumerate().skip(1) {
        if address.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.push(Cause::invalid(format!("spec.clusterIPs[{index}]"), &address.into(), why));
        }
    }
}

fn external_name(service: &Value, causes: &mut Vec<Cause>) {
    let name = text_at(service, &["spec", "externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
    } else if let Some(why) = names::subdomain(name) {
        causes.push(Cause::invalid("spec.externalName", &name.into(), &why));
    }
}

fn ports(service: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(service, &["spec", "type"]);
    let ports = list_at(service, &["spec", "ports"]);
    let (mut of_nodes, mut of_service) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text_at(port, &["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                causes.push(Cause::required(format!("{path}.name"), ""));
            }
        } else {
            if let Some(why) = names::label(name) {
                causes.push(Cause::invalid(format!("{path}.name"), &name.into(), &why));
            }
            if ports.iter().take(index).any(|other| text_at(other, &["name"]) == name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        let why = "must be between 1 and 65535, inclusive";
        let number = int_at(port, &["port"]).unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            causes.push(Cause::invalid(format!("{path}.port"), &number.into(), why));
        }
        if let Some(target) = int_at(port, &["targetPort"]).filter(|target| !(1..=65_535).contains(target)) {
            causes.push(Cause::invalid(format!("{path}.targetPort"), &target.into(), why));
        }
        if let Some(target) = port.get("targetPort").and_then(Value::as_str) {
            for why in names::port_name(target) {
                causes.push(Cause::invalid(format!("{path}.targetPort"), &target.into(), why));
            }
        }
        let protocol = text_at(port, &["protocol"]);
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            causes.push(Cause::not_supported(format!("{path}.protocol"), &protocol.into(), &protocols));
        }
        let given = int_at(port, &["nodePort"]).filter(|number| *number != 0);
        if let Some(number) = given {
            if kind == "ClusterIP" {
                let why = "may not be used when `type` is 'ClusterIP'";
                causes.push(Cause::forbidden(format!("{path}.nodePort"), why));
            }
            if !of_nodes.insert((protocol, number)) {
                causes.push(Cause::duplicate(format!("{path}.nodePort"), &number.into()));
            }
        }
        if !of_service.insert((protocol, number)) {
            causes.push(Cause::duplicate(path, port));
        }
    }
}

fn affinity(service: &Value, causes: &mut Vec<Cause>) {
    let affinity = text_at(service, &["spec", "sessionAffinity"]);
    let known = ["ClientIP", "None"];
    if !known.contains(&affinity) {
        causes.push(Cause::not_supported("spec.sessionAffinity", &affinity.into(), &known));
    }
    let seconds = int_at(service, &["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    if affinity == "ClientIP"
        && let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_AFFINITY_SECONDS).contains(seconds))
    {
        let why = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
        causes.push(Cause::invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", &seconds.into(), &why));
    }
}

fn policies(service: &Value, causes: &mut Vec<Cause>) {
    let known = ["Cluster", "Local"];
    let policy = text_at(service, &["spec", "externalTrafficPolicy"]);
    if is_external(service) {
        if !known.contains(&policy) {
            causes.push(Cause::not_supported("spec.externalTrafficPolicy", &policy.into(), &known));
        }
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        causes.push(Cause::invalid("spec.externalTrafficPolicy", &policy.into(), why));
    }
    let port = int_at(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if port != 0 && !has_health_port(service) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(Cause::invalid("spec.healthCheckNodePort", &port.into(), why));
    }
    let inside = text_at(service, &["spec", "internalTrafficPolicy"]);
    if has_address(service) && !known.contains(&inside) {
        causes.push(Cause::not_supported("spec.internalTrafficPolicy", &inside.into(), &known));
    }
    let gives = at(service, &["spec", "allocateLoadBalancerNodePorts"]).is_some_and(|value| !value.is_null());
    if gives && text_at(service, &["spec", "type"]) != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        causes.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", why));
    }
    let class = text_at(service, &["spec", "loadBalancerClass"]);
    if !class.is_empty() && text_at(service, &["spec", "type"]) != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        causes.push(Cause::forbidden("spec.loadBalancerClass", why));
    }
}
