//! Objects of every kind, by name and variant.

use std::sync::Arc;

use berth_catalogue::Catalogue;
use berth_state::{Kind, NodeRecord, Object, PodRecord, StayingPods};
use k8s_openapi::api::{apps, batch, core, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The names of node classes.
pub(crate) const CLASSES: [&str; 2] = ["x", "y"];

const KEY: &str = "scheduling.koordinator.sh/reservation-allocated";

/// An object of a kind; `name` and `variant` are taken modulo what there is.
pub(crate) fn object(kind: Kind, name: u8, variant: u8, uid: &str, version: u64) -> Object {
    let (mut value, namespace) = body(kind, name, u64::from(variant));
    let metadata = &mut value["metadata"];
    metadata["name"] = name_of(kind, name).into();
    metadata["uid"] = uid.into();
    metadata["resourceVersion"] = version.to_string().into();
    // Some are of one second, some of another, and some say nothing.
    if !uid.len().is_multiple_of(3) {
        metadata["creationTimestamp"] = format!("1970-01-01T00:00:0{}Z", variant % 3).into();
    }
    if kind.is_namespaced() {
        metadata["namespace"] = namespace.into();
    }
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.name().into();
    typed(kind, value)
}

/// An object as a state keeps it: of pods and nodes what is read.
pub(crate) fn as_kept(object: &Object) -> Object {
    match object {
        Object::Pod(pod) => Object::from(PodRecord::from(&**pod).to_pod()),
        Object::Node(node) => Object::from(NodeRecord::from(&**node).to_node()),
        other => other.clone(),
    }
}

fn name_of(kind: Kind, name: u8) -> String {
    match kind {
        Kind::Node | Kind::Device | Kind::NodeResourceTopology | Kind::CSINode => format!("n{}", name % 6),
        Kind::Pod => format!("p{}", name % 12),
        Kind::PersistentVolume | Kind::PersistentVolumeClaim => format!("v{}", name % 2),
        Kind::NodeClaim => format!("c{}", name % 3),
        Kind::Reservation => format!("r{}", name % 3),
        Kind::Namespace => ["a", "b"][usize::from(name % 2)].to_owned(),
        _ => format!("{}{}", kind.name().to_lowercase(), name % 2),
    }
}

fn typed(kind: Kind, value: Value) -> Object {
    fn read<T: DeserializeOwned>(value: Value) -> Object
    where
        Object: From<T>,
    {
        Object::from(serde_json::from_value::<T>(value).unwrap())
    }
    match kind {
        Kind::Namespace => read::<core::v1::Namespace>(value),
        Kind::PriorityClass => read::<scheduling::v1::PriorityClass>(value),
        Kind::StorageClass => read::<storage::v1::StorageClass>(value),
        Kind::PersistentVolume => read::<core::v1::PersistentVolume>(value),
        Kind::PersistentVolumeClaim => read::<core::v1::PersistentVolumeClaim>(value),
        Kind::CSINode => read::<storage::v1::CSINode>(value),
        Kind::NodePool => read::<berth_api::NodePool>(value),
        Kind::NodeOverlay => read::<berth_api::NodeOverlay>(value),
        Kind::NodeClaim => read::<berth_api::NodeClaim>(value),
        Kind::Node => read::<core::v1::Node>(value),
        Kind::Device => read::<berth_api::Device>(value),
        Kind::NodeResourceTopology => read::<berth_api::NodeResourceTopology>(value),
        Kind::Service => read::<core::v1::Service>(value),
        Kind::Deployment => read::<apps::v1::Deployment>(value),
        Kind::ReplicaSet => read::<apps::v1::ReplicaSet>(value),
        Kind::ReplicationController => read::<core::v1::ReplicationController>(value),
        Kind::StatefulSet => read::<apps::v1::StatefulSet>(value),
        Kind::DaemonSet => read::<apps::v1::DaemonSet>(value),
        Kind::Job => read::<batch::v1::Job>(value),
        Kind::CronJob => read::<batch::v1::CronJob>(value),
        Kind::PodDisruptionBudget => read::<policy::v1::PodDisruptionBudget>(value),
        Kind::Reservation => read::<berth_api::Reservation>(value),
        Kind::Pod => read::<core::v1::Pod>(value),
    }
}

fn template(v: u64) -> Value {
    json!({"metadata": {"labels": {"app": format!("app{}", v % 3)}}, "spec": pod_spec(v)})
}

#[expect(clippy::too_many_lines, reason = "one arm a kind")]
fn body(kind: Kind, name: u8, v: u64) -> (Value, &'static str) {
    let namespace = ["a", "b"][usize::from(name / 3 % 2)];
    let node = format!("n{}", v / 3 % 6);
    let app = format!("app{}", v % 3);
    let zone = ["zone-a", "zone-b"][usize::try_from(v % 2).unwrap()];
    let selector = json!({"matchLabels": {"app": app}});
    let cpu = ["2", "4", "1500m"][usize::try_from(v % 3).unwrap()];
    let room = json!({"cpu": cpu, "memory": "8Gi", "pods": "6"});
    let body = match kind {
        Kind::Namespace => json!({"metadata": {"labels": {"team": zone}}}),
        Kind::PriorityClass => json!({"metadata": {}, "value": v % 3 * 100, "globalDefault": v.is_multiple_of(5)}),
        Kind::StorageClass => {
            let provisioner = if v % 6 >= 4 { "kubernetes.io/no-provisioner" } else { "ebs.csi.aws.com" };
            let default = json!({"storageclass.kubernetes.io/is-default-class": (v % 4 == 1).to_string()});
            json!({"metadata": {"annotations": default}, "provisioner": provisioner,
                "volumeBindingMode": if v.is_multiple_of(2) { "WaitForFirstConsumer" } else { "Immediate" },
                "allowedTopologies": [{"matchLabelExpressions": [
                    {"key": "topology.kubernetes.io/zone", "values": [zone]}]}]})
        }
        // One that claims of its class may come to.
        Kind::PersistentVolume if v % 3 == 2 => {
            let claim = (v % 4 > 1).then(|| json!({"namespace": namespace, "name": format!("v{}", v / 4 % 2)}));
            let phase = ["Available", "Bound", "Released"][usize::try_from(v / 8 % 3).unwrap()];
            let labels = if v.is_multiple_of(5) { json!({"disk": "slow"}) } else { json!({"disk": "fast"}) };
            let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}});
            json!({"metadata": {"labels": labels}, "spec": {"capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"], "local": {"path": "/d"},
                "storageClassName": format!("storageclass{}", v % 2), "claimRef": claim,
                "nodeAffinity": if v.is_multiple_of(7) { json!({}) } else { affinity }}, "status": {"phase": phase}})
        }
        Kind::PersistentVolume => json!({"metadata": {}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("h{v}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}}}}),
        Kind::PersistentVolumeClaim => {
            let mut spec = json!({"accessModes": [if v.is_multiple_of(3) { "ReadWriteOncePod" } else { "ReadWriteOnce" }],
                "resources": {"requests": {"storage": "1Gi"}}});
            // Others are of the default class.
            if v % 5 != 4 {
                spec["storageClassName"] = format!("storageclass{}", v % 2).into();
            }
            if v.is_multiple_of(2) {
                spec["volumeName"] = format!("v{}", name % 2).into();
            }
            if v % 7 == 3 {
                spec["selector"] = json!({"matchLabels": {"disk": "fast"}});
            }
            // One is being made for a node.
            let node = if v % 4 == 1 { format!("n{}", v % 6) } else { String::new() };
            json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}, "spec": spec})
        }
        Kind::CSINode if v % 7 == 6 => json!({"metadata": {}, "spec": {"drivers": []}}),
        Kind::CSINode => json!({"metadata": {}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": "x", "allocatable": {"count": v % 3}}]}}),
        Kind::NodePool => {
            let taints = if v % 6 == 5 { json!([{"key": "starting", "effect": "NoSchedule"}]) } else { json!([]) };
            json!({"metadata": {}, "spec": {"weight": v % 3 + 1, "limits": {"cpu": v % 20},
                "template": {"spec": {"startupTaints": taints,
                    "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": CLASSES[usize::from(v % 8 > 4)]},
                    "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}}}})
        }
        Kind::NodeOverlay => {
            let zones = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
            let mut spec = json!({"requirements": if v % 4 == 3 { zones } else { json!([]) }, "weight": v % 3 + 1});
            match v % 5 {
                0 => spec["capacity"] = json!({"example.com/dongle": "2"}),
                1 | 2 => spec["priceAdjustment"] = format!("+{}%", v % 90 + 1).into(),
                _ => spec["price"] = format!("0.{v}").into(),
            }
            json!({"metadata": {}, "spec": spec})
        }
        // One that is not launched as far as it shows takes an instance of what it names.
        Kind::NodeClaim if v % 5 == 4 => json!({
            "metadata": {"labels": {"karpenter.sh/nodepool": format!("nodepool{}", v % 2)}},
            "spec": {"resources": {"requests": {"cpu": "1"}}, "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["big"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a", zone]},
                {"key": "karpenter.sh/capacity-type", "operator": "In",
                    "values": [if v.is_multiple_of(3) { "on-demand" } else { "reserved" }]}]}}),
        Kind::NodeClaim => {
            let mut claim = json!({
            "metadata": {"labels": {"karpenter.sh/nodepool": format!("nodepool{}", v % 2),
                "node.kubernetes.io/instance-type": "big", "topology.kubernetes.io/zone": zone,
                "karpenter.sh/capacity-type": "reserved", "berth.sh/capacity-reservation-id": "cr-1"}},
            "spec": {"requirements": []},
            "status": {"providerID": format!("i-{}", name % 3), "nodeName": if v.is_multiple_of(3) { node } else { String::new() },
                "capacity": room, "allocatable": room, "conditions": [{"type": "Launched", "status": "True",
                    "reason": "Launched", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
            // It waits for pods that must not be disrupted, or not for ever.
            if v % 7 == 2 {
                claim["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
            }
            if v % 14 == 2 {
                claim["metadata"]["annotations"] =
                    json!({"karpenter.sh/nodeclaim-termination-timestamp": "1970-01-01T01:00:00Z"});
            } else if v % 35 == 9 {
                claim["spec"]["terminationGracePeriod"] = "1h".into();
            }
            claim
        }
        Kind::Node => {
            let zone = ["zone-a", "zone-b", "zone-c"][usize::try_from(v / 2 % 3).unwrap()];
            let mut labels = json!({"topology.kubernetes.io/zone": zone});
            if v % 3 == 1 {
                labels["disk"] = "ssd".into();
            }
            if v.is_multiple_of(4) {
                labels["karpenter.sh/nodepool"] = "nodepool0".into();
                labels["karpenter.sh/initialized"] = (v.is_multiple_of(8)).to_string().into();
            }
            let taints = match v % 15 {
                0 | 5 | 10 => json!([{"key": "t", "effect": "NoSchedule"}]),
                4 | 8 => json!([{"key": "starting", "effect": "NoSchedule"}]),
                7 => json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
                _ => json!([]),
            };
            let mut room = room;
            if v % 10 == 9 {
                room["example.com/dongle"] = "1".into();
            }
            let mut metadata = json!({"labels": labels});
            if v.is_multiple_of(11) {
                metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
            }
            json!({"metadata": metadata, "spec": {"providerID": format!("i-{}", name % 4), "taints": taints,
                "unschedulable": v.is_multiple_of(7)},
                "status": {"allocatable": room, "capacity": room, "images": [
                    {"names": [format!("image{}:latest", v % 2)], "sizeBytes": 1_000_000_000},
                    {"names": [format!("image{}:latest", v % 9)], "sizeBytes": 2_000_000_000}]}})
        }
        Kind::Device => {
            let gpu = |minor: u64| {
                json!({"type": "gpu", "minor": minor, "health": v % 4 != 3, "resources": {
                "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100",
                "koordinator.sh/gpu-memory": "8Gi"}})
            };
            json!({"metadata": {}, "spec": {"devices": (0..v % 3).map(gpu).collect::<Vec<_>>()}})
        }
        Kind::NodeResourceTopology if v.is_multiple_of(3) => {
            json!({"metadata": {}, "topologyPolicies": ["None"], "zones": []})
        }
        Kind::NodeResourceTopology => {
            let cpu = |id: u64| json!({"id": id, "core": id / 2, "socket": 0, "node": 0});
            let detail: Vec<Value> = (0..2 + v % 4).map(cpu).collect();
            let kept = if v.is_multiple_of(2) { "0" } else { "" };
            json!({"metadata": {"annotations": {
                "node.koordinator.sh/cpu-topology": json!({"detail": detail}).to_string(),
                "node.koordinator.sh/reservation": json!({"reservedCPUs": kept}).to_string()}},
                "topologyPolicies": ["None"], "zones": [{"name": "node-0", "type": "Node", "resources": [
                    {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]}]})
        }
        // Some select none, and some by a label that no pod has.
        Kind::Service => {
            let selector = [json!({"app": app}), json!({"app": app, "tier": "web"}), json!(null)];
            json!({"metadata": {}, "spec": {"selector": selector[usize::from(v % 7 > 3) + usize::from(v % 7 > 5)],
                "ports": [{"port": v + 1}]}})
        }
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => json!({"metadata": {}, "spec": {
            "replicas": v % 4, "selector": selector, "serviceName": "s", "template": template(v)}}),
        Kind::ReplicationController => json!({"metadata": {}, "spec": {"replicas": v % 4, "template": template(v)}}),
        Kind::DaemonSet => {
            let mut daemons = json!({"metadata": {}, "spec": {"selector": selector, "template": template(v % 8)}});
            if v % 16 == 15 {
                daemons["metadata"]["ownerReferences"] =
                    owner("Deployment", "apps/v1", &format!("deployment{}", v % 2));
            }
            daemons
        }
        Kind::Job => json!({"metadata": {}, "spec": {"parallelism": v % 3, "template": template(v)}}),
        Kind::CronJob => json!({"metadata": {}, "spec": {"schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": template(v)}}}}),
        Kind::PodDisruptionBudget => {
            let disrupted = if v % 3 == 2 { json!({"p1": "1970-01-01T00:00:00Z"}) } else { json!({}) };
            json!({"metadata": {}, "spec": {"selector": selector},
                "status": {"disruptionsAllowed": v % 2, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                    "disruptedPods": disrupted}})
        }
        Kind::Reservation => {
            let mut reservation = json!({"metadata": {}, "spec": {"allocateOnce": v.is_multiple_of(2),
                "owners": [{"labelSelector": selector}], "ttl": format!("{}s", v % 3 * 4), "template": template(v % 8)}});
            match v % 10 {
                3 => {
                    reservation["spec"]["owners"] = json!([{"controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet",
                        "name": format!("replicaset{}", v % 2), "namespace": "a", "controller": true}}]);
                }
                6 => {
                    reservation["spec"]["owners"] =
                        json!([{"object": {"kind": "Pod", "name": format!("p{}", v % 12)}}]);
                }
                9 => reservation["spec"]["preAllocation"] = true.into(),
                _ => {}
            }
            if v.is_multiple_of(7) {
                reservation["spec"]["expires"] = format!("1970-01-01T00:00:1{}Z", v % 10).into();
            }
            if v % 4 >= 2 {
                reservation["status"] = json!({"phase": "Available", "nodeName": node,
                    "allocatable": {"cpu": "500m"}, "conditions": []});
            }
            reservation
        }
        Kind::Pod => pod(name, v, &node, &app),
    };
    (body, namespace)
}

fn pod_spec(v: u64) -> Value {
    // Of 200 variants one asks for what nobody can read.
    let cpu = if v % 200 == 77 { "lots".to_owned() } else { format!("{}m", v % 5 * 300) };
    let mut spec = json!({"containers": [
        {"name": "app", "image": format!("image{}", v % 3 + v / 100 * 3), "resources": {"requests": {"cpu": cpu}}}]});
    if v.is_multiple_of(4) {
        spec["priorityClassName"] = format!("priorityclass{}", v / 4 % 2).into();
        // As the API server has it, of most.
        if !v.is_multiple_of(3) {
            spec["priority"] = (v % 3 * 100).into();
        }
    }
    let requests = &mut spec["containers"][0]["resources"]["requests"];
    match v % 29 {
        3 => requests["example.com/dongle"] = "1".into(),
        5 | 20 => {
            requests["koordinator.sh/gpu-core"] = "50".into();
            requests["koordinator.sh/gpu-memory-ratio"] = "50".into();
        }
        7 | 22 => requests["cpu"] = "1".into(),
        // Resources of its own, which no node has; one names more than are told apart.
        11 | 16 | 25 => requests[format!("example.com/own{}", v % 6)] = "1".into(),
        27 => {
            for at in 0..v % 12 {
                requests[format!("example.com/own{at}")] = "1".into();
            }
        }
        _ => {}
    }
    match v % 7 {
        0 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": if v.is_multiple_of(2) { "DoNotSchedule" } else { "ScheduleAnyway" },
                "labelSelector": {"matchLabels": {"app": "app0"}}}]);
            if v.is_multiple_of(3) {
                spec["nodeSelector"] = json!({"disk": "ssd"});
            }
        }
        1 => {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app1"}}}]}});
            if v.is_multiple_of(2) {
                let teams = json!({"matchLabels": {"team": "zone-a"}});
                spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
                    teams;
            }
        }
        2 => {
            spec["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": format!("v{}", v % 2)}}]);
        }
        3 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        4 => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]),
        5 => spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": "zone-a"}),
        // By name, with a preference for what is like it, and spread over nodes.
        _ => {
            spec["affinity"] = json!({
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference":
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n4"]}]}}]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm":
                    {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "app2"}}}}]}});
            if v.is_multiple_of(2) {
                spec["topologySpreadConstraints"] = json!([{"maxSkew": 2, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "app1"}}}]);
            }
        }
    }
    spec
}

fn owner(kind: &str, api: &str, name: &str) -> Value {
    json!([{"apiVersion": api, "kind": kind, "name": name, "uid": "", "controller": true}])
}

fn pod(name: u8, v: u64, node: &str, app: &str) -> Value {
    let mut metadata = json!({"labels": {"app": app}, "annotations": {}});
    match v % 6 {
        0 => metadata["ownerReferences"] = owner("ReplicaSet", "apps/v1", &format!("replicaset{}", v % 2)),
        1 => metadata["ownerReferences"] = owner("DaemonSet", "apps/v1", &format!("daemonset{}", v % 2)),
        2 => metadata["ownerReferences"] = owner("Job", "batch/v1", &format!("job{}", v % 2)),
        3 => {
            let name = format!("replicationcontroller{}", v % 2);
            metadata["ownerReferences"] = owner("ReplicationController", "v1", &name);
        }
        4 if v.is_multiple_of(8) => {
            metadata["ownerReferences"] = owner("StatefulSet", "apps/v1", &format!("statefulset{}", v % 2));
        }
        _ => {}
    }
    let mut spec = pod_spec(v);
    let mut status = json!({});
    if v % 5 >= 2 {
        spec["nodeName"] = node.into();
        status["startTime"] = format!("1970-01-01T00:00:{:02}Z", v % 50).into();
        if v.is_multiple_of(3) {
            let annotation =
                if v.is_multiple_of(9) { "{".to_owned() } else { json!({"name": format!("r{}", v % 3)}).to_string() };
            metadata["annotations"][KEY] = annotation.into();
        }
        match v % 29 {
            5 | 20 => {
                let gpu = json!([{"minor": v % 2, "resources": {"koordinator.sh/gpu-core": "50",
                    "koordinator.sh/gpu-memory-ratio": "50"}}]);
                metadata["annotations"]["scheduling.koordinator.sh/device-allocated"] =
                    json!({"gpu": gpu}).to_string().into();
            }
            7 | 22 => {
                metadata["annotations"]["scheduling.koordinator.sh/resource-status"] =
                    json!({"cpuset": (v % 4).to_string()}).to_string().into();
            }
            _ => {}
        }
        if v % 14 == 9 {
            metadata["labels"]["pod.koordinator.sh/is-pre-allocatable"] = "true".into();
        }
        // It was given more than its spec says.
        if v % 17 == 4 {
            status["containerStatuses"] = json!([{"name": "app", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "allocatedResources": {"cpu": "1"}}]);
        }
    } else if v.is_multiple_of(9) {
        status["nominatedNodeName"] = node.into();
    }
    // Some are on their way to a node, as those of DaemonSets.
    if v % 6 == 1 && v % 4 < 3 {
        spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}});
    }
    if matches!(v % 29, 7 | 22) {
        metadata["labels"]["koordinator.sh/qosClass"] = "LSR".into();
    }
    if v % 19 == 3 {
        metadata["annotations"]["karpenter.sh/do-not-disrupt"] = (v % 38 == 3).to_string().into();
    }
    if v % 23 == 2 {
        metadata["labels"]["scheduling.koordinator.sh/operating-mode"] = "Reservation".into();
        metadata["annotations"]["scheduling.koordinator.sh/reservation-owners"] =
            json!([{"labelSelector": {"matchLabels": {"app": "app1"}}}]).to_string().into();
        // Who came there, and may have gone since.
        if v % 46 == 2 {
            metadata["annotations"]["scheduling.koordinator.sh/reservation-current-owner"] =
                json!({"namespace": "a", "name": format!("p{}", v % 12)}).to_string().into();
        }
        status["phase"] = "Running".into();
        status["conditions"] =
            json!([{"type": "Ready", "status": if name.is_multiple_of(2) { "True" } else { "False" }}]);
    }
    match v % 13 {
        0 => status["phase"] = "Succeeded".into(),
        1 => metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z".into(),
        _ => {}
    }
    // What no decision depends on.
    status["hostIP"] = format!("10.0.0.{}", name % 8).into();
    json!({"metadata": metadata, "spec": spec, "status": status})
}

/// Pods that nothing lets leave their nodes, which a number stands for: by the node that each may be on.
pub(crate) fn staying(which: u8) -> StayingPods {
    let mut staying = StayingPods::new();
    for (pod, node) in (0..12_u8).flat_map(|pod| (0..6_u8).map(move |node| (pod, node))) {
        if which > 0 && (pod * 5 + node * 3 + which).is_multiple_of(4) {
            let on_node = staying.entry(format!("n{node}").into()).or_default();
            on_node.extend(["a", "b"].map(|namespace| (namespace.into(), format!("p{pod}").into())));
        }
    }
    staying
}

/// What the cloud offers. Of three kinds of catalogues one has another price, and one another type and no reservation.
pub(crate) fn catalogue(free: u8, which: u8) -> Catalogue {
    let zones = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a", "zone-b"]});
    let on_demand = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]});
    let mut offerings =
        vec![json!({"Price": if which % 3 == 1 { 0.3 } else { 0.2 }, "Requirements": [zones, on_demand]})];
    if which % 3 < 2 {
        offerings.push(json!({"Price": 0.2, "Available": free, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]}));
    }
    let big = json!({"name": "big", "resources": {"cpu": "4", "memory": "16Gi", "pods": "8"}, "offerings": offerings});
    let small = json!({"name": "small", "resources": {"cpu": "2", "memory": "4Gi", "pods": "4"}, "offerings": [
        {"Price": 0.11, "Requirements": [zones, on_demand]}]});
    let types = if which % 3 == 2 { json!([small, big]) } else { json!([big]) };
    berth_catalogue::read(types.to_string().as_bytes(), "types").unwrap()
}

pub(crate) fn metadata_of(object: &mut Object) -> &mut ObjectMeta {
    macro_rules! all {
        ($($kind:ident),*) => {
            match object {
                $(Object::$kind(known) => &mut Arc::make_mut(known).metadata,)*
            }
        };
    }
    all!(
        Namespace,
        PriorityClass,
        StorageClass,
        PersistentVolume,
        PersistentVolumeClaim,
        CSINode,
        NodePool,
        NodeOverlay,
        NodeClaim,
        Node,
        Device,
        NodeResourceTopology,
        Service,
        Deployment,
        ReplicaSet,
        ReplicationController,
        StatefulSet,
        DaemonSet,
        Job,
        CronJob,
        PodDisruptionBudget,
        Reservation,
        Pod
    )
}
