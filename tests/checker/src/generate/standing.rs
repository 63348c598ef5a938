//! Random clusters for a scheduler: nodes that stand, pods that run on them, pods that wait.

use serde_json::{Value, json};

use super::cluster::{DRIVER, namespaces_and_priorities, volumes};
use super::pods::{labels, pod_spec};
use super::rng::Rng;
use super::{APPS, CUSTOM_KEY, GPU, NAMESPACES, NUMBER_KEY, Size, TAINT_KEY, TEAMS, ZONES};

const IMAGES: [&str; 4] = ["app", "app:v2", "registry.example.com:5000/tool", "registry.example.com/tool@sha256:0a"];

fn node(rng: &mut Rng, name: &str) -> Value {
    let mut labels = json!({"kubernetes.io/hostname": name});
    if rng.percent(92) {
        labels["topology.kubernetes.io/zone"] = (*rng.pick(&ZONES)).into();
    }
    if rng.percent(60) {
        labels[CUSTOM_KEY] = (*rng.pick(&TEAMS)).into();
    }
    if rng.percent(60) {
        labels["karpenter.sh/capacity-type"] = (*rng.pick(&["on-demand", "spot", "reserved"])).into();
    }
    if rng.percent(70) {
        labels["kubernetes.io/arch"] = (*rng.pick(&["amd64", "amd64", "arm64"])).into();
    }
    if rng.percent(30) {
        labels[NUMBER_KEY] = rng.between(1, 4).to_string().into();
    }
    let mut spec = json!({});
    let mut taints = Vec::new();
    if rng.percent(15) {
        taints.push(
            json!({"key": TAINT_KEY, "value": rng.pick(&TEAMS), "effect": rng.pick(&["NoSchedule", "NoExecute"])}),
        );
    }
    for key in ["example.com/slow", "example.com/old"] {
        if rng.percent(20) {
            taints.push(json!({"key": key, "effect": "PreferNoSchedule"}));
        }
    }
    if rng.percent(8) {
        spec["unschedulable"] = true.into();
        if rng.percent(50) {
            taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
        }
    }
    if !taints.is_empty() {
        spec["taints"] = taints.into();
    }
    let mut allocatable = json!({
        "cpu": rng.pick(&["1", "2", "3900m", "8", "16", "32"]),
        "memory": rng.pick(&["2Gi", "7500Mi", "8Gi", "16Gi", "64Gi"]),
        "pods": rng.between(3, 12).to_string(),
    });
    if rng.percent(25) {
        allocatable[GPU] = rng.between(1, 4).to_string().into();
    }
    let mut images = Vec::new();
    for image in IMAGES {
        if rng.percent(35) {
            let is_tagged = image.rfind(':') > image.rfind('/');
            let name = if is_tagged { image.to_owned() } else { format!("{image}:latest") };
            images.push(json!({"names": [name], "sizeBytes": 1_000_000 * rng.between(5, 2500)}));
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": images},
    })
}

fn pod(rng: &mut Rng, name: &str, claims: &mut Vec<(String, String)>, nodes: &[String]) -> Value {
    let app = *rng.pick(&APPS);
    let namespace = *rng.pick(&NAMESPACES);
    let own: Vec<String> = claims.iter().filter(|(of, _)| of == namespace).map(|(_, name)| name.clone()).collect();
    let mut spec = pod_spec(rng, Size::Small, app, &own);
    // Whoever comes first decides where a claim goes that waits for its consumer: each is for one pod.
    if let Some(claim) = spec.pointer("/volumes/0/persistentVolumeClaim/claimName").and_then(Value::as_str) {
        claims.retain(|(of, name)| of != namespace || name != claim);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = (*rng.pick(&IMAGES)).into();
            if rng.percent(12) {
                container.as_object_mut().map(|fields| fields.remove("resources"));
            } else if rng.percent(8) {
                container["resources"] = json!({"requests": {"cpu": "300m"}});
            }
        }
    }
    // kube-scheduler 1.35 forgets them when it scores the incoming pod.
    spec.as_object_mut().map(|spec| spec.remove("resources"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let lists = spec.pointer_mut(&format!("/affinity/{kind}")).and_then(Value::as_object_mut);
        for term in lists.into_iter().flat_map(|lists| lists.values_mut()).filter_map(Value::as_array_mut).flatten() {
            // The API server has merged these into the selector.
            let term = if term.get("podAffinityTerm").is_some() { &mut term["podAffinityTerm"] } else { term };
            term.as_object_mut().map(|term| term.remove("matchLabelKeys"));
        }
    }
    if rng.percent(25) {
        spec["priorityClassName"] = "high".into();
        spec["priority"] = 1000.into();
    }
    if rng.percent(5) {
        spec["preemptionPolicy"] = "Never".into();
    }
    if rng.percent(4) {
        spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [rng.pick(nodes)]}]}],
        }});
    }
    if rng.percent(4) {
        spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}}},
            {"topologyKey": rng.pick(&["kubernetes.io/hostname", CUSTOM_KEY]), "labelSelector": {"matchLabels": {"version": "v1"}}},
        ]);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(rng, app)}, "spec": spec,
    })
}

/// Bound volumes, some with labels of a zone, that running and pending pods have between them, and limits of nodes.
fn disks(rng: &mut Rng, nodes: &[String], objects: &mut Vec<Value>) {
    if !rng.percent(50) {
        return;
    }
    let limited: Vec<Value> = objects.iter().filter(|object| object["kind"] == "CSINode").cloned().collect();
    for node in nodes {
        if rng.percent(50) && limited.iter().all(|known| known["metadata"]["name"] != **node) {
            objects.push(csi_node(rng, node));
        }
    }
    for index in 0..rng.between(2, 6) {
        let (name, namespace) = (format!("disk-{index}"), *rng.pick(&NAMESPACES));
        let is_exclusive = rng.percent(40);
        let mut labels = json!({});
        if rng.percent(50) {
            let zones = [*rng.pick::<&str>(&ZONES), *rng.pick::<&str>(&ZONES)];
            labels["topology.kubernetes.io/zone"] =
                if rng.percent(70) { zones[0].into() } else { zones.join("__").into() };
        }
        let modes = [if is_exclusive { "ReadWriteOncePod" } else { "ReadWriteOnce" }];
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}"), "labels": labels},
            "spec": {
                "accessModes": modes, "capacity": {"storage": "1Gi"},
                "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            },
        }));
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "accessModes": modes, "storageClassName": "", "volumeName": format!("pv-{name}"),
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        }));
        let mut is_used = false;
        let in_namespace = |object: &Value| object["kind"] == "Pod" && object["metadata"]["namespace"] == namespace;
        for pod in objects.iter_mut().filter(|object| in_namespace(object)) {
            let runs = pod["spec"].get("nodeName").is_some();
            if !rng.percent(40) || (runs && is_used && is_exclusive) {
                continue;
            }
            is_used |= runs;
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            match pod["spec"].get_mut("volumes").and_then(Value::as_array_mut) {
                Some(volumes) => volumes.push(volume),
                None => pod["spec"]["volumes"] = json!([volume]),
            }
        }
    }
}

fn csi_node(rng: &mut Rng, name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.between(1, 2)}}]},
    })
}

/// A random cluster with nodes, running and pending pods: what a scheduler decides by, and nothing that is launched. The
/// same seed always gives the same objects, to the byte.
pub fn random_standing_case(seed: u64) -> Vec<Value> {
    let mut rng = Rng::new(seed ^ 0x0057_a4d1);
    let rng = &mut rng;
    let mut objects = namespaces_and_priorities(rng);
    let mut storage = volumes(rng, Size::Small);
    for claim in storage.iter_mut().filter(|object| object["kind"] == "PersistentVolumeClaim") {
        if claim.get("status").is_none() {
            claim["status"]["phase"] = "Pending".into();
        }
    }
    let mut claims: Vec<(String, String)> = storage
        .iter()
        .filter(|object| object["kind"] == "PersistentVolumeClaim")
        .filter_map(|claim| {
            let of = |field: &str| claim["metadata"][field].as_str().map(str::to_owned);
            Some((of("namespace")?, of("name")?))
        })
        .collect();
    objects.extend(storage);
    let names: Vec<String> = (0..rng.between(1, 9)).map(|index| format!("node-{index}")).collect();
    for name in &names {
        objects.push(node(rng, name));
        if rng.percent(30) {
            objects.push(csi_node(rng, name));
        }
    }
    for index in 0..rng.between(0, 14) {
        let mut running = pod(rng, &format!("running-{index}"), &mut Vec::new(), &names);
        running["spec"].as_object_mut().map(|spec| spec.remove("schedulingGates"));
        running["spec"]["nodeName"] = rng.pick(&names).clone().into();
        let (hour, minute) = (rng.between(0, 23), rng.between(0, 59));
        running["status"] = json!({"phase": "Running", "startTime": format!("2026-01-01T{hour:02}:{minute:02}:00Z")});
        running["spec"].as_object_mut().map(|spec| spec.remove("volumes"));
        objects.push(running);
    }
    for index in 0..rng.between(0, 2) {
        let app = rng.pick(&APPS);
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{index}"), "namespace": rng.pick(&NAMESPACES)},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {
                "disruptionsAllowed": rng.between(0, 2), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
            },
        }));
    }
    for index in 0..rng.between(1, 12) {
        objects.push(pod(rng, &format!("pending-{index}"), &mut claims, &names));
    }
    disks(&mut Rng::new(seed ^ 0xd15c), &names, &mut objects);
    if seed % 4 == 1 {
        super::mounts::mount(&mut Rng::new(seed ^ 0x3007_d15c), &mut objects);
    }
    if !seed.is_multiple_of(3) {
        super::spreading::select(&mut Rng::new(seed ^ 0x5e1e_c700), &mut objects);
    }
    objects
}
