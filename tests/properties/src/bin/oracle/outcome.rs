//! What a planner decided, in one shape for Berth's plan and for Karpenter's report.

use std::collections::BTreeMap;
use std::fmt;

use berth_checker::Case;
use serde_json::{Value, json};

/// A node that is launched, or one that runs already.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedNode {
    /// Empty for a node that runs.
    pub(crate) pool: String,
    /// Type, zone and capacity type, or the name of the node that runs.
    pub(crate) label: String,
    /// US dollars per hour; reserved and running nodes cost 0.
    pub(crate) price: f64,
    /// `namespace/name`, sorted.
    pub(crate) pods: Vec<String>,
}

/// A whole decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) places: Vec<PlannedNode>,
    /// US dollars per hour.
    pub(crate) cost: f64,
    /// Slots of capacity reservations used.
    pub(crate) slots: u64,
    /// By name, with what was said of it.
    pub(crate) refused: BTreeMap<String, String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn names(value: &Value) -> Vec<String> {
    let mut names: Vec<String> = list(value).map(text).collect();
    names.sort();
    names
}

fn claim(claim: &Value, offering: &Value) -> PlannedNode {
    let part = |key: &str| offering[key].as_str().unwrap_or_default();
    let label = format!("{}/{}/{}", part("instanceType"), part("zone"), part("capacityType"));
    let is_reserved = part("capacityType") == "reserved";
    let price = if is_reserved { 0.0 } else { offering["price"].as_f64().unwrap_or_default() };
    PlannedNode { pool: text(&claim["nodePool"]), label, price, pods: names(&claim["pods"]) }
}

fn node(node: &Value) -> PlannedNode {
    PlannedNode { label: text(&node["name"]), pods: names(&node["pods"]), ..PlannedNode::default() }
}

impl Outcome {
    /// Of `berth plan -o json`.
    pub(crate) fn of_plan(plan: &Value) -> Self {
        let mut refused = BTreeMap::new();
        for entry in list(&plan["unschedulable"]) {
            let reasons: Vec<String> = list(&entry["reasons"]).map(|r| text(&r["reason"])).collect();
            refused.insert(text(&entry["object"]), reasons.join("; "));
        }
        let claims = list(&plan["nodeClaims"]).map(|c| claim(c, &c["offering"]));
        Self {
            places: claims.chain(list(&plan["nodes"]).map(node)).collect(),
            cost: plan["summary"]["hourlyCost"].as_f64().unwrap_or_default(),
            slots: plan["summary"]["reservedSlots"]["used"].as_u64().unwrap_or_default(),
            refused,
        }
    }

    /// Of a report of `hack/compare --claims`.
    pub(crate) fn of_report(report: &Value) -> Self {
        let refused = list(&report["unschedulablePods"]).map(|p| (text(&p["pod"]), text(&p["reason"])));
        let waiting = list(&report["waitingPods"]).map(|p| (text(p), "waits for reserved capacity".to_owned()));
        Self {
            places: list(&report["claims"]).map(|c| claim(c, c)).chain(list(&report["nodes"]).map(node)).collect(),
            cost: report["hourlyCost"].as_f64().unwrap_or_default(),
            slots: report["reservedSlots"]["used"].as_u64().unwrap_or_default(),
            refused: refused.chain(waiting).collect(),
        }
    }

    /// Names of the pods placed, each with its place.
    pub(crate) fn placed(&self) -> BTreeMap<&str, &PlannedNode> {
        self.places.iter().flat_map(|place| place.pods.iter().map(move |pod| (pod.as_str(), place))).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}, {} slots", self.cost, self.slots)?;
        for place in &self.places {
            let at = if place.pool.is_empty() { String::new() } else { format!("{} ${:.4} ", place.pool, place.price) };
            write!(f, "\n      {at}{}: {}", place.label, place.pods.join(" "))?;
        }
        for (pod, reason) in &self.refused {
            write!(f, "\n      refused {pod}: {}", reason.chars().take(300).collect::<String>())?;
        }
        Ok(())
    }
}

/// `namespace/name`.
pub(crate) fn pod_name(pod: &Value) -> String {
    format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]))
}

/// The priority of each pod that is to be placed, by `namespace/name`.
pub(crate) fn priorities(case: &Case) -> BTreeMap<String, i64> {
    let pods = case.objects.iter().filter(|o| o["kind"] == "Pod" && o["spec"]["nodeName"].is_null());
    pods.map(|pod| (pod_name(pod), pod["spec"]["priority"].as_i64().unwrap_or_default())).collect()
}

/// Requirements that leave a claim no other node than the one of its offering.
fn pins(offering: &Value, among: &Value) -> Vec<Value> {
    const FIELDS: [(&str, &str); 3] = [
        ("node.kubernetes.io/instance-type", "instanceType"),
        ("topology.kubernetes.io/zone", "zone"),
        ("karpenter.sh/capacity-type", "capacityType"),
    ];
    const OTHERS: [&str; 2] = ["kubernetes.io/hostname", "karpenter.sh/reservation-id"];
    let given =
        |r: &&Value| FIELDS.iter().all(|(key, _)| r["key"] != *key) && OTHERS.iter().all(|key| r["key"] != *key);
    let pins = FIELDS.iter().map(|(key, field)| json!({"key": key, "operator": "In", "values": [offering[field]]}));
    list(among).filter(given).cloned().chain(pins).collect()
}

/// The plan with each claim on its planned offering alone.
pub(crate) fn pinned(plan: &Value) -> Value {
    let mut plan = plan.clone();
    for claim in plan["nodeClaims"].as_array_mut().into_iter().flatten() {
        claim["requirements"] = pins(&claim["offering"], &claim["requirements"]).into();
        claim["instanceTypes"] = json!([claim["offering"]["instanceType"]]);
    }
    plan
}

/// Karpenter's report as a plan of the contract, each claim on its one offering, so that the checker can judge it.
pub(crate) fn as_plan(case: &Case, report: &Value) -> Value {
    let pools: BTreeMap<&str, &Value> = case
        .objects
        .iter()
        .filter(|o| o["kind"] == "NodePool")
        .filter_map(|o| Some((o["metadata"]["name"].as_str()?, &o["spec"]["template"]["spec"])))
        .collect();
    let claims: Vec<Value> = list(&report["claims"])
        .map(|claim| {
            let template = claim["nodePool"].as_str().and_then(|name| pools.get(name).copied());
            let taints = template.and_then(|template| template["taints"].as_array()).cloned().unwrap_or_default();
            json!({
                "name": claim["name"], "nodePool": claim["nodePool"],
                "offering": {
                    "instanceType": claim["instanceType"], "zone": claim["zone"],
                    "capacityType": claim["capacityType"], "reservationID": claim["reservationID"],
                    "price": claim["price"],
                },
                "instanceTypes": [claim["instanceType"]], "requirements": pins(claim, &claim["requirements"]),
                "taints": taints, "requests": {}, "pods": claim["pods"], "reservations": [], "allocations": [],
            })
        })
        .collect();
    let nodes: Vec<Value> = list(&report["nodes"])
        .map(|n| json!({"name": n["name"], "pods": n["pods"], "reservations": [], "allocations": [], "preempted": []}))
        .collect();
    json!({
        "apiVersion": "berth.sh/v1alpha1", "kind": "Plan",
        "summary": {
            "pods": report["pods"], "placed": report["placed"], "unschedulable": report["unschedulable"],
            "nodeClaims": report["nodeClaims"], "hourlyCost": report["hourlyCost"], "listCost": 0.0, "nodeCost": 0.0,
            "lowerBound": null, "solveSeconds": null, "reservedSlots": report["reservedSlots"],
        },
        "reservations": [], "nodeClaims": claims, "nodes": nodes, "unschedulable": [],
    })
}
