//! What most clusters leave alone: addresses of host ports, and several Reservations on one node, some with an order label.

use serde_json::{Value, json};

use super::rng::Rng;

const ADDRESSES: [&str; 4] = ["", "0.0.0.0", "10.0.0.1", "10.0.0.2"];

fn port(rng: &mut Rng, spec: &mut Value) {
    let mut port = json!({"containerPort": 8001, "hostPort": 8001});
    if rng.percent(30) {
        port["protocol"] = (*rng.pick(&["TCP", "UDP"])).into();
    }
    let address = *rng.pick(&ADDRESSES);
    if !address.is_empty() {
        port["hostIP"] = address.into();
    }
    spec["containers"][0]["ports"] = json!([port]);
}

/// Gives pods one host port at several addresses, and nodes a second Reservation for the same owners.
pub(super) fn detail(rng: &mut Rng, objects: &mut Vec<Value>) {
    let mut second = Vec::new();
    for object in &mut *objects {
        match object["kind"].as_str() {
            Some("Pod") if rng.percent(35) => port(rng, &mut object["spec"]),
            Some("Deployment" | "ReplicaSet" | "StatefulSet" | "Job") if rng.percent(20) => {
                port(rng, &mut object["spec"]["template"]["spec"]);
            }
            Some("Reservation") if object["status"]["nodeName"].is_string() => {
                let mut other = object.clone();
                let name = format!("also-{}", object["metadata"]["name"].as_str().unwrap_or_default());
                other["metadata"]["name"] = name.into();
                for one in [&mut *object, &mut other] {
                    one["spec"]["allocatePolicy"] = "Aligned".into();
                    if rng.percent(50) {
                        one["metadata"]["labels"]["scheduling.koordinator.sh/reservation-order"] =
                            rng.between(1, 3).to_string().into();
                    }
                }
                second.push(other);
            }
            _ => {}
        }
    }
    objects.extend(second);
}
