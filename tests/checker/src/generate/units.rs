//! CPUs one by one and NUMA nodes: what nodes report, and pods that ask for some to themselves.

use serde_json::{Value, json};

use super::rng::Rng;
use crate::quantity;

const POLICIES: [&str; 3] = ["SingleNUMANode", "Restricted", "BestEffort"];

// The NodeResourceTopology of a node: its CPUs, two threads a core, on one NUMA node or two.
fn topology(rng: &mut Rng, node: &Value, in_use: &str) -> Value {
    let resources = &node["status"]["allocatable"];
    let cpus = resources["cpu"].as_str().map_or(0, quantity::whole_units);
    let memory = resources["memory"].as_str().map_or(0, quantity::whole_units);
    let n_numa = if cpus >= 4 && rng.percent(70) { 2 } else { 1 };
    let on = |cpu: i128| cpu * n_numa / cpus.max(1);
    let detail: Vec<Value> =
        (0..cpus).map(|id| json!({"id": id, "core": id / 2, "socket": 0, "node": on(id)})).collect();
    let zones: Vec<Value> = (0..n_numa)
        .map(|numa| {
            let amounts = [
                ("cpu", (0..cpus).filter(|cpu| on(*cpu) == numa).count().to_string()),
                ("memory", (memory / n_numa).to_string()),
            ];
            let resources: Vec<Value> = amounts
                .iter()
                .map(|(name, of)| json!({"name": name, "capacity": of, "allocatable": of, "available": of}))
                .collect();
            json!({"name": format!("node-{numa}"), "type": "Node", "resources": resources})
        })
        .collect();
    let mut annotations = json!({"node.koordinator.sh/cpu-topology": json!({"detail": detail}).to_string()});
    if !in_use.is_empty() && rng.percent(20) {
        annotations["node.koordinator.sh/pod-cpu-allocs"] = json!([{"cpuset": in_use}]).to_string().into();
    }
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": {"name": node["metadata"]["name"], "annotations": annotations}, "zones": zones,
    })
}

// Makes a pod, or the template of some, ask for CPUs of its own or for a NUMA policy.
fn ask(rng: &mut Rng, pod: &mut Value) {
    if rng.percent(50) {
        let Some(spec) = pod["spec"].as_object_mut() else { return };
        for field in ["initContainers", "resources", "overhead"] {
            spec.remove(field);
        }
        let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
        let Some(containers) = containers else { return };
        containers.truncate(1);
        containers[0]["resources"] = json!({"requests": {"cpu": rng.pick(&["1", "2", "3"]), "memory": "64Mi"}});
        pod["metadata"]["labels"]["koordinator.sh/qosClass"] = (*rng.pick(&["LSR", "LSE"])).into();
        if rng.percent(40) {
            let key = *rng.pick(&["preferredCPUBindPolicy", "requiredCPUBindPolicy"]);
            let spec = json!({ key: rng.pick(&["FullPCPUs", "SpreadByPCPUs"]) });
            pod["metadata"]["annotations"]["scheduling.koordinator.sh/resource-spec"] = spec.to_string().into();
        }
    } else {
        let spec = json!({"numaTopologyPolicy": rng.pick(&POLICIES)});
        pod["metadata"]["annotations"]["scheduling.koordinator.sh/numa-topology-spec"] = spec.to_string().into();
    }
}

/// Lets some nodes report their CPUs, some of them with a NUMA policy for all pods; some running pods have CPUs of their
/// own, and some pending ones ask for them.
pub(super) fn units(rng: &mut Rng, objects: &mut Vec<Value>) {
    let nodes: Vec<usize> = (0..objects.len()).filter(|at| objects[*at]["kind"] == "Node").collect();
    let mut topologies = Vec::new();
    for at in nodes {
        if rng.percent(25) {
            continue;
        }
        if rng.percent(45) {
            objects[at]["metadata"]["labels"]["node.koordinator.sh/numa-topology-policy"] =
                (*rng.pick(&POLICIES)).into();
        }
        let name = objects[at]["metadata"]["name"].clone();
        let runs_here = |object: &Value| object["kind"] == "Pod" && object["spec"]["nodeName"] == name;
        let mut in_use = "";
        if let Some(pod) = objects.iter_mut().find(|object| runs_here(object)).filter(|_| rng.percent(50)) {
            pod["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR".into();
            pod["metadata"]["annotations"]["scheduling.koordinator.sh/resource-status"] =
                json!({"cpuset": "0"}).to_string().into();
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
        } else {
            in_use = "0";
        }
        topologies.push(topology(rng, &objects[at], in_use));
    }
    for object in &mut *objects {
        let is_pending = object["kind"] == "Pod" && object["spec"].get("nodeName").is_none();
        let is_workload = object["kind"] != "DaemonSet" && object["spec"].get("template").is_some();
        let is_reservation = object["kind"] == "Reservation";
        if is_pending && rng.percent(45) {
            ask(rng, object);
        } else if is_workload && !is_reservation && rng.percent(30) {
            ask(rng, &mut object["spec"]["template"]);
        }
    }
    objects.extend(topologies);
}
