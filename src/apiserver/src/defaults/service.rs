//! Defaults and addresses of Services.

use serde_json::{Value, json};

use super::with;
use crate::meta::{self, object_mut};
use crate::server::ApiServer;

pub(super) fn fill(object: &mut Value) {
    with(object, &["spec"], &[("sessionAffinity", json!("None")), ("type", json!("ClusterIP"))]);
    if meta::text_at(object, &["spec", "type"]) != "ExternalName" {
        with(object, &["spec"], &[("internalTrafficPolicy", json!("Cluster"))]);
    }
    if ["NodePort", "LoadBalancer"].contains(&meta::text_at(object, &["spec", "type"])) {
        with(object, &["spec"], &[("externalTrafficPolicy", json!("Cluster"))]);
    }
    if meta::text_at(object, &["spec", "type"]) == "LoadBalancer" {
        with(object, &["spec"], &[("allocateLoadBalancerNodePorts", json!(true))]);
    }
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let number = port.get("port").cloned().unwrap_or_default();
        meta::fill(port, "protocol", "TCP");
        meta::fill(port, "targetPort", number);
    }
}

/// Addresses and node ports that a change leaves out stay.
pub(crate) fn keep(object: &mut Value, old: &Value) {
    let has_address = |service: &Value| meta::text_at(service, &["spec", "type"]) != "ExternalName";
    if has_address(object) && has_address(old) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(was) = meta::at(old, &["spec", field]).cloned()
                && let Some(spec) = object_mut(object, &["spec"])
            {
                meta::fill(spec, field, was);
            }
        }
    }
    let needs_ports =
        |service: &Value| ["NodePort", "LoadBalancer"].contains(&meta::text_at(service, &["spec", "type"]));
    if !needs_ports(object) || !needs_ports(old) {
        return;
    }
    let number = |port: &Value| meta::int_at(port, &["nodePort"]).unwrap_or(0);
    let kept: Vec<i64> = meta::list_at(object, &["spec", "ports"]).iter().map(number).collect();
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|port| number(port) == 0) {
        let name = meta::text_at(port, &["name"]).to_owned();
        let mut before = meta::list_at(old, &["spec", "ports"]).iter();
        let was = before.find(|before| meta::text_at(before, &["name"]) == name).map_or(0, number);
        if was != 0
            && !kept.contains(&was)
            && let Some(port) = port.as_object_mut()
        {
            port.insert("nodePort".to_owned(), was.into());
        }
    }
}

/// Gives a Service the first free address of 10.96.0.0/12 from a point that the seed decides, and node ports.
pub(crate) fn assign_ip(server: &ApiServer, object: &mut Value) {
    let kind = meta::text_at(object, &["spec", "type"]).to_owned();
    if kind == "ExternalName" {
        return;
    }
    let given = meta::text_at(object, &["spec", "clusterIP"]).to_owned();
    let services = server.values("services", "");
    let address = if given.is_empty() {
        let start = server.inner.entropy.next();
        let mut candidates = (0..1u64 << 20)
            .map(|n| (start.wrapping_add(n)) % ((1 << 20) - 2) + 1)
            .map(|n| format!("10.{}.{}.{}", 96 + (n >> 16), (n >> 8) & 255, n & 255));
        let is_free = |address: &String| services.iter().all(|s| meta::text_at(s, &["spec", "clusterIP"]) != address);
        candidates.find(is_free).unwrap_or_default()
    } else {
        given
    };
    if let Some(spec) = object_mut(object, &["spec"]) {
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), address.into());
        meta::fill(spec, "ipFamilies", json!(["IPv4"]));
        meta::fill(spec, "ipFamilyPolicy", "SingleStack");
    }
    if kind == "ClusterIP" {
        return;
    }
    let mut taken: Vec<i64> = services
        .iter()
        .flat_map(|service| meta::list_at(service, &["spec", "ports"]))
        .filter_map(|port| meta::int_at(port, &["nodePort"]))
        .collect();
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0
            && let Some(free) = (30_000..32_768).find(|port| !taken.contains(port))
        {
            taken.push(free);
            port.insert("nodePort".to_owned(), free.into());
        }
    }
}
