//! Defaults of Services, and what a change of one keeps and drops.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::with;
use crate::meta::{self, int_at, list_at, object_mut, text_at};

pub(super) fn fill(object: &mut Value) {
    with(object, &["spec"], &[("sessionAffinity", json!("None")), ("type", json!("ClusterIP"))]);
    match text_at(object, &["spec", "sessionAffinity"]) {
        "ClientIP" => {
            with(object, &["spec", "sessionAffinityConfig", "clientIP"], &[("timeoutSeconds", json!(10_800))]);
        }
        "None" => drop_field(object, "sessionAffinityConfig"),
        _ => {}
    }
    if has_address(object) {
        with(object, &["spec"], &[("internalTrafficPolicy", json!("Cluster"))]);
    }
    if is_external(object) {
        with(object, &["spec"], &[("externalTrafficPolicy", json!("Cluster"))]);
    }
    if text_at(object, &["spec", "type"]) == "LoadBalancer" {
        with(object, &["spec"], &[("allocateLoadBalancerNodePorts", json!(true))]);
    }
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let number = port.get("port").cloned().unwrap_or_default();
        meta::fill(port, "protocol", "TCP");
        // What a Go program leaves out is sent as 0.
        if port.get("targetPort").is_some_and(|target| *target == 0 || *target == "") {
            port.remove("targetPort");
        }
        meta::fill(port, "targetPort", number);
    }
}

/// Whether a Service has an address in the cluster, `None` included.
pub(crate) fn has_address(service: &Value) -> bool {
    ["ClusterIP", "NodePort", "LoadBalancer"].contains(&text_at(service, &["spec", "type"]))
}

/// Whether a Service is reached from without.
pub(crate) fn is_external(service: &Value) -> bool {
    ["NodePort", "LoadBalancer"].contains(&text_at(service, &["spec", "type"]))
}

/// Whether each port of a Service is given one on every node.
pub(crate) fn has_node_ports(service: &Value) -> bool {
    match text_at(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => meta::at(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Whether a load balancer asks every node whether it has pods of a Service.
pub(crate) fn has_health_port(service: &Value) -> bool {
    text_at(service, &["spec", "type"]) == "LoadBalancer"
        && text_at(service, &["spec", "externalTrafficPolicy"]) == "Local"
}

fn drop_field(object: &mut Value, field: &str) {
    if let Some(spec) = object_mut(object, &["spec"]) {
        spec.remove(field);
    }
}

/// Says in `clusterIPs` what a new Service says in `clusterIP` alone.
pub(crate) fn say_address(object: &mut Value) {
    let address = text_at(object, &["spec", "clusterIP"]).to_owned();
    if !address.is_empty()
        && list_at(object, &["spec", "clusterIPs"]).is_empty()
        && let Some(spec) = object_mut(object, &["spec"])
    {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// Whether a Service is of a type that has a field.
type Has = fn(&Value) -> bool;

/// Addresses and node ports that a change leaves out stay; those that the new type cannot have go, unless they were changed.
pub(crate) fn keep(object: &mut Value, old: &Value) {
    keep_address(object, old);
    keep_ports(object, old);
    let was = |field: &str| meta::at(old, &["spec", field]).cloned();
    let is_same = |object: &Value, field: &str| meta::at(object, &["spec", field]) == meta::at(old, &["spec", field]);
    if has_health_port(object)
        && has_health_port(old)
        && let (Some(was), Some(spec)) = (was("healthCheckNodePort"), object_mut(object, &["spec"]))
        && spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0) == 0
    {
        spec.insert("healthCheckNodePort".to_owned(), was);
    }
    let is_balancer = |service: &Value| text_at(service, &["spec", "type"]) == "LoadBalancer";
    let needs: [(&str, Has); 9] = [
        ("clusterIP", has_address),
        ("clusterIPs", has_address),
        ("ipFamilies", has_address),
        ("ipFamilyPolicy", has_address),
        ("internalTrafficPolicy", has_address),
        ("externalTrafficPolicy", is_external),
        ("healthCheckNodePort", has_health_port),
        ("allocateLoadBalancerNodePorts", is_balancer),
        ("loadBalancerClass", is_balancer),
    ];
    // Which types need which is decided before anything is dropped.
    let gone: Vec<&str> = needs.iter().filter(|(_, has)| has(old) && !has(object)).map(|(field, _)| *field).collect();
    for field in gone {
        if is_same(object, field) {
            drop_field(object, field);
        }
    }
    let numbers = |service: &Value| -> BTreeSet<i64> {
        let ports = list_at(service, &["spec", "ports"]).iter();
        ports.filter_map(|port| int_at(port, &["nodePort"])).filter(|number| *number != 0).collect()
    };
    // Ports may come, go and move, as long as no number is asked for anew.
    if has_node_ports(old) && !has_node_ports(object) && numbers(old).is_superset(&numbers(object)) {
        let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}

fn keep_address(object: &mut Value, old: &Value) {
    let address = |service: &Value| text_at(service, &["spec", "clusterIP"]).to_owned();
    let same_list = meta::at(object, &["spec", "clusterIPs"]) == meta::at(old, &["spec", "clusterIPs"]);
    // Who changes `clusterIP` alone means the list, too.
    if same_list && address(object) != address(old) && !address(old).is_empty() {
        let new = address(object);
        if let Some(spec) = object_mut(object, &["spec"]) {
            if new.is_empty() {
                spec.remove("clusterIPs");
            } else {
                spec.insert("clusterIPs".to_owned(), json!([new]));
            }
        }
    }
    if has_address(object) && has_address(old) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let lacks = meta::at(object, &["spec", field]).is_none_or(|value| value.is_null() || value == "");
            if lacks
                && (field != "clusterIPs" || address(object) == address(old))
                && let (Some(was), Some(spec)) = (meta::at(old, &["spec", field]), object_mut(object, &["spec"]))
            {
                spec.insert(field.to_owned(), was.clone());
            }
        }
    }
    say_address(object);
}

fn keep_ports(object: &mut Value, old: &Value) {
    if !has_node_ports(object) || !has_node_ports(old) {
        return;
    }
    let number = |port: &Value| int_at(port, &["nodePort"]).unwrap_or(0);
    let mut kept: BTreeSet<i64> = list_at(object, &["spec", "ports"]).iter().map(number).collect();
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|port| number(port) == 0) {
        let name = text_at(port, &["name"]).to_owned();
        let mut before = list_at(old, &["spec", "ports"]).iter();
        let was = before.find(|before| text_at(before, &["name"]) == name).map_or(0, number);
        if was != 0
            && kept.insert(was)
            && let Some(port) = port.as_object_mut()
        {
            port.insert("nodePort".to_owned(), was.into());
        }
    }
}
