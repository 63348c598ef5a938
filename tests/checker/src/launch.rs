//! The Node objects that a plan's claims become.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalogue::{HOSTNAME, field};
use crate::plan::Plan;
use crate::selectors::Labels;
use crate::sites::{ClaimSite, Open, Site, sites};
use crate::world::World;

/// The claims of a plan as Node objects that are up and ready, in the plan's order.
///
/// A claim leaves types, zones, capacity types and labels open; `choice` says which of them come true: 0 is the offering
/// that the plan means, later ones go through all that each claim leaves open, and begin anew at the end.
pub fn launched_nodes(objects: &[Value], catalogue: &Value, plan: &Value, choice: usize) -> Vec<Value> {
    let world = World::read(objects, catalogue);
    let Ok(plan) = Plan::deserialize(plan) else { return Vec::new() };
    let (sites, _) = sites(&world, &plan);
    let claims = sites.iter().filter_map(|site| Some((site, site.claim()?)));
    let nodes: Vec<Value> = claims.map(|(site, claim)| node(site, claim, catalogue, choice)).collect();
    let reports_cpus = objects.iter().any(|object| object["kind"] == "NodeResourceTopology");
    let topologies: Vec<Value> = nodes.iter().filter(|_| reports_cpus).map(topology).collect();
    nodes.into_iter().chain(topologies).collect()
}

// Where nodes report what their CPUs are, those that are launched do so once they are there: one NUMA node with all.
fn topology(node: &Value) -> Value {
    let resources = &node["status"]["allocatable"];
    let cpus = resources["cpu"].as_str().map_or(0, crate::quantity::whole_units);
    let detail: Vec<Value> = (0..cpus).map(|id| json!({"id": id, "core": id, "socket": 0, "node": 0})).collect();
    let listed = resources.as_object().into_iter().flatten();
    let amounts: Vec<Value> = listed
        .map(|(name, amount)| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount}))
        .collect();
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": {"name": node["metadata"]["name"], "annotations": {
            "node.koordinator.sh/cpu-topology": json!({"detail": detail}).to_string(),
        }},
        "zones": [{"name": "node-0", "type": "Node", "resources": amounts}],
    })
}

/// How many choices of [`launched_nodes`] differ: those of the claim that leaves the most open.
pub fn n_launches(objects: &[Value], catalogue: &Value, plan: &Value) -> usize {
    let world = World::read(objects, catalogue);
    let Ok(plan) = Plan::deserialize(plan) else { return 0 };
    let (sites, _) = sites(&world, &plan);
    let claims = sites.iter().filter_map(Site::claim);
    claims.map(|claim| claim.open.len().max(1) * claim.own.len()).max().unwrap_or(0)
}

// What a claim's requirements admit may be no value that a label can have, as a number below zero.
fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.starts_with(char::is_alphanumeric) && value.ends_with(char::is_alphanumeric))
}

fn node(site: &Site<'_>, claim: &ClaimSite<'_>, catalogue: &Value, choice: usize) -> Value {
    let mut open: Vec<&Open<'_>> = claim.open.iter().collect();
    // The planned one first, the others in their order.
    open.sort_by_key(|open| !claim.is_planned(open));
    let own: Vec<&Labels> = claim.own.iter().filter(|own| own.values().all(|value| is_label_value(value))).collect();
    let (own_at, open_at) = (choice / open.len().max(1) % own.len().max(1), choice % open.len().max(1));
    let chosen = open.get(open_at);
    let mut labels = chosen.map(|open| open.candidate.labels.clone()).unwrap_or_default();
    labels.extend(own.get(own_at).copied().cloned().unwrap_or_default());
    labels.insert(HOSTNAME.to_owned(), site.name.to_owned());
    for key in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        labels.insert(key.to_owned(), "true".to_owned());
    }
    let name = chosen.map_or(claim.claim.offering.instance_type.as_str(), |open| &open.instance_type.name);
    let is_named = |of_type: &&Value| field(of_type, "name").and_then(Value::as_str) == Some(name);
    let of_type = catalogue.as_array().into_iter().flatten().find(is_named);
    let resources = of_type.and_then(|of_type| field(of_type, "resources")).cloned().unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": site.name, "labels": labels, "annotations": claim.pool.annotations},
        "spec": {"providerID": format!("launched:///{}", site.name), "taints": claim.claim.taints},
        "status": {
            "allocatable": resources, "capacity": resources, "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}
