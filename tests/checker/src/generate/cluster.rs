//! What surrounds the pods: namespaces, priorities, volumes, DaemonSets, nodes that run, Reservations.

use serde_json::{Value, json};

use super::pods::labels;
use super::rng::Rng;
use super::{APPS, NAMESPACES, Size, TAINT_KEY, TEAMS, ZONES};

pub(super) const DRIVER: &str = "disk.csi.example.com";

pub(super) fn namespaces_and_priorities(rng: &mut Rng) -> Vec<Value> {
    let mut objects: Vec<Value> = NAMESPACES
        .iter()
        .map(|name| {
            let env = rng.pick(&["prod", "test"]);
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": env}}})
        })
        .collect();
    for (name, value) in [("high", 1000), ("low", -10)] {
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        }));
    }
    objects
}

fn volume(name: &str, zone: &str) -> Value {
    let zoned =
        json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "late",
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": zoned}},
        },
    })
}

/// Storage classes, claims and bound volumes.
pub(super) fn volumes(rng: &mut Rng, size: Size) -> Vec<Value> {
    if !rng.percent(50) {
        return Vec::new();
    }
    let mut late = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
    });
    if rng.percent(50) {
        late["allowedTopologies"] =
            json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": rng.some(&ZONES)}]}]);
    }
    let mut objects = vec![late];
    if size != Size::Tiny {
        objects.push(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "now"},
            "provisioner": DRIVER, "volumeBindingMode": "Immediate",
        }));
    }
    for index in 0..rng.between(1, 5) {
        let name = format!("claim-{index}");
        let bound = rng.percent(50);
        let class = if !bound && size != Size::Tiny && rng.percent(20) { "now" } else { "late" };
        let mode = if size != Size::Tiny && rng.percent(20) { "ReadWriteOncePod" } else { "ReadWriteOnce" };
        let mut spec = json!({
            "accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}},
        });
        if bound {
            spec["volumeName"] = format!("pv-{name}").into();
            objects.push(volume(&name, rng.pick::<&str>(&ZONES)));
        }
        // One without a status is in files alone, and yet to be created.
        let is_new = class == "now" && rng.percent(50);
        let mut claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": rng.pick(&NAMESPACES)}, "spec": spec,
        });
        if !is_new {
            claim["status"]["phase"] = if bound { "Bound" } else { "Pending" }.into();
        }
        objects.push(claim);
    }
    objects
}

pub(super) fn daemon_sets(rng: &mut Rng, size: Size) -> Vec<Value> {
    let count = if size == Size::Tiny { rng.between(0, 1) } else { rng.between(0, 2) };
    (0..count)
        .map(|index| {
            let name = format!("agent-{index}");
            let mut spec = json!({
                "containers": [{"name": "agent", "image": "agent", "resources": {"requests": {
                    "cpu": rng.pick(&["50m", "200m"]), "memory": "64Mi",
                }}}],
            });
            if rng.percent(50) {
                spec["tolerations"] = json!([{"operator": "Exists"}]);
            }
            if rng.percent(30) {
                spec["nodeSelector"] = json!({"kubernetes.io/arch": "amd64"});
            }
            if size != Size::Tiny && rng.percent(20) {
                spec["containers"][0]["ports"] = json!([{"containerPort": 8000, "hostPort": 8000}]);
            }
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {
                    "selector": {"matchLabels": {"workload": name}},
                    "template": {"metadata": {"labels": {"workload": name}}, "spec": spec},
                },
            })
        })
        .collect()
}

fn running_pod(rng: &mut Rng, node: &str, index: u64) -> Value {
    let app = *rng.pick(&APPS);
    let mut spec = json!({
        "nodeName": node,
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {
            "cpu": rng.pick(&["50m", "100m"]), "memory": rng.pick(&["64Mi", "128Mi"]),
        }}}],
    });
    if rng.percent(15) {
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": rng.pick(&["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
            "labelSelector": {"matchLabels": {"app": rng.pick(&APPS)}},
        }]}});
    }
    if rng.percent(10) {
        spec["containers"][0]["ports"] = json!([{"containerPort": 8001, "hostPort": 8001, "protocol": "TCP"}]);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("running-{node}-{index}"), "namespace": rng.pick(&NAMESPACES), "labels": labels(rng, app)},
        "spec": spec, "status": {"phase": "Running"},
    })
}

fn available_reservation(rng: &mut Rng, node: &str) -> Value {
    let app = *rng.pick(&APPS);
    let requests = json!({"cpu": "300m", "memory": "256Mi"});
    let spec = json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]});
    json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": format!("held-{node}")},
        "spec": {
            "template": {"metadata": {"namespace": "default", "labels": {"held": "yes"}}, "spec": spec},
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "ttl": "0s", "allocateOnce": rng.percent(50), "allocatePolicy": rng.pick(&["Aligned", "Restricted"]),
        },
        "status": {
            "phase": "Available", "nodeName": node, "allocatable": requests,
            "allocated": {"cpu": "0", "memory": "0"},
        },
    })
}

/// Nodes that run, with pods on them; in larger cases some with attach limits and Reservations.
pub(super) fn nodes(rng: &mut Rng, size: Size, catalogue: &[Value]) -> Vec<Value> {
    let count = match size {
        Size::Tiny => rng.between(0, 2),
        Size::Small => rng.between(0, 3),
        Size::Medium => rng.between(0, 8),
    };
    let mut objects = Vec::new();
    for index in 0..count {
        let name = format!("node-{index}");
        let of_type = rng.pick(catalogue);
        let resources = &of_type["resources"];
        let mut labels = json!({
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": of_type["architecture"],
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": of_type["name"],
            "topology.kubernetes.io/zone": rng.pick(&ZONES),
            "karpenter.sh/capacity-type": rng.pick(&["on-demand", "spot"]),
        });
        if rng.percent(70) {
            labels["karpenter.sh/nodepool"] = "pool-0".into();
            labels["karpenter.sh/initialized"] = "true".into();
            labels["karpenter.sh/registered"] = "true".into();
        }
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("fake:///{name}")},
            "status": {
                "capacity": resources, "allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        if rng.percent(15) {
            node["spec"]["taints"] = json!([{"key": TAINT_KEY, "value": rng.pick(&TEAMS), "effect": "NoSchedule"}]);
        }
        if rng.percent(10) {
            node["spec"]["unschedulable"] = true.into();
        }
        objects.push(node);
        for pod in 0..rng.between(0, 3) {
            objects.push(running_pod(rng, &name, pod));
        }
        if size != Size::Tiny && rng.percent(40) {
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
                "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.between(0, 2)}}]},
            }));
        }
        if size != Size::Tiny && rng.percent(30) {
            objects.push(available_reservation(rng, &name));
        }
    }
    objects
}

/// Reservations that wait for a node.
pub(super) fn pending_reservations(rng: &mut Rng, size: Size) -> Vec<Value> {
    if size == Size::Tiny {
        return Vec::new();
    }
    (0..rng.between(0, 2))
        .map(|index| {
            let app = *rng.pick(&APPS);
            let requests = json!({"cpu": rng.pick(&["500m", "2"]), "memory": rng.pick(&["512Mi", "2Gi"])});
            let mut spec = json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]});
            if rng.percent(30) {
                spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": rng.pick(&ZONES)});
            }
            json!({
                "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
                "metadata": {"name": format!("pending-{index}")},
                "spec": {
                    "template": {"metadata": {"namespace": "default"}, "spec": spec},
                    "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
                    "ttl": "24h", "allocateOnce": rng.percent(50), "allocatePolicy": rng.pick(&["Aligned", "Restricted"]),
                },
            })
        })
        .collect()
}
