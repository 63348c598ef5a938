//! What is asked of a cluster, by chance: NodePools, workloads, daemons and Reservations.

use serde_json::{Value, json};

use crate::clouds::{ZONES, type_name};
use crate::dice::Dice;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";

/// The objects of a cluster, with Reservations among them or without.
pub(crate) fn objects(dice: &mut Dice, with_reservations: bool) -> Vec<Value> {
    let mut objects = vec![priority("low", -10), priority("high", 1000)];
    for n in 0..=dice.roll(4) {
        objects.push(pool(n, dice));
    }
    for n in 0..dice.roll(3) {
        objects.push(daemon(n, dice));
    }
    let n_workloads = 2 + dice.roll(6);
    for n in 0..n_workloads {
        let workload = workload(n, n_workloads, dice);
        if with_reservations && dice.hits(20) {
            objects.push(reservation(n, &workload, dice));
        }
        objects.push(workload);
    }
    objects
}

fn priority(name: &str, value: i32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
}

fn pool(n: usize, dice: &mut Dice) -> Value {
    let capacity = dice.some_of(&["on-demand", "spot", "reserved"], 60);
    let mut requirements = vec![json!({"key": CAPACITY, "operator": "In", "values": capacity})];
    if dice.hits(25) {
        requirements.push(json!({"key": ZONE, "operator": "In", "values": dice.some_of(&ZONES, 50)}));
    }
    match dice.roll(10) {
        0 => requirements.push(json!({"key": "node.kubernetes.io/instance-type", "operator": "NotIn",
            "values": [type_name(dice)]})),
        1 => requirements.push(json!({"key": "node.kubernetes.io/instance-type", "operator": "Exists",
            "minValues": 2 + dice.roll(2)})),
        _ => {}
    }
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{n}")},
        "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"expireAfter": "Never",
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
            "requirements": requirements}}}});
    let spec = &mut pool["spec"];
    if dice.hits(40) {
        spec["weight"] = json!(1 + dice.roll(3) * 10);
    }
    if dice.hits(30) {
        spec["template"]["metadata"] = json!({"labels": {"tier": dice.one_of(&["web", "data"])}});
    }
    if n > 0 && dice.hits(30) {
        spec["template"]["spec"]["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    }
    match dice.roll(8) {
        0 => spec["limits"] = json!({"cpu": format!("{}", 8 + dice.roll(30))}),
        1 => spec["limits"] = json!({"nodes": format!("{}", 1 + dice.roll(4))}),
        _ => {}
    }
    pool
}

fn daemon(n: usize, dice: &mut Dice) -> Value {
    let name = format!("daemon-{n}");
    let mut pod = json!({"containers": [container(&format!("{}m", 50 + 50 * dice.roll(4)), "100Mi")]});
    if dice.hits(70) {
        pod["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if dice.hits(20) {
        pod["nodeSelector"] = json!({ZONE: dice.one_of(&ZONES)});
    }
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "selector": {"matchLabels": {"daemon": name}},
        "template": {"metadata": {"labels": {"daemon": name}}, "spec": pod}}})
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

/// A Deployment, or a StatefulSet whose pods come at once.
fn workload(n: usize, of: usize, dice: &mut Dice) -> Value {
    let name = format!("app-{n}");
    let labels = json!({"app": name});
    let cpu =
        if dice.hits(3) { "20".to_owned() } else { format!("{}m", dice.one_of(&[100, 250, 500, 900, 1700, 3500])) };
    let memory = format!("{}Mi", dice.one_of(&[128, 400, 1000, 3000, 7000]));
    let mut pod = json!({"containers": [container(&cpu, &memory)]});
    constrain(&mut pod, &name, of, dice);
    let kind = if dice.hits(15) { "StatefulSet" } else { "Deployment" };
    let mut workload = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": {
            "replicas": 1 + dice.roll(14), "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod}}});
    if kind == "StatefulSet" {
        workload["spec"]["serviceName"] = json!(name);
        // One after the other would be planned one after the other.
        workload["spec"]["podManagementPolicy"] = json!("Parallel");
    }
    workload
}

fn constrain(pod: &mut Value, name: &str, of: usize, dice: &mut Dice) {
    let own = json!({"matchLabels": {"app": name}});
    let other = json!({"matchLabels": {"app": format!("app-{}", dice.roll(of))}});
    if dice.hits(30) {
        pod["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    }
    match dice.roll(12) {
        0 => pod["nodeSelector"] = json!({ZONE: dice.one_of(&ZONES)}),
        1 => pod["nodeSelector"] = json!({"tier": dice.one_of(&["web", "data"])}),
        2 => pod["nodeSelector"] = json!({CAPACITY: dice.one_of(&["on-demand", "spot", "reserved"])}),
        _ => {}
    }
    let hard = |key: &str, selector: &Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]});
    let soft = |key: &str, selector: &Value| {
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "podAffinityTerm": {"topologyKey": key, "labelSelector": selector}}]})
    };
    let spread = |key: &str, skew: usize, when: &str| json!([{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": own}]);
    match dice.roll(24) {
        0..3 => pod["topologySpreadConstraints"] = spread(ZONE, 1 + dice.roll(2), "DoNotSchedule"),
        3 => pod["topologySpreadConstraints"] = spread(ZONE, 1, "ScheduleAnyway"),
        4 => pod["topologySpreadConstraints"] = spread(HOST, 1 + dice.roll(2), "DoNotSchedule"),
        5 => {
            let mut terms = spread(ZONE, 1, "DoNotSchedule");
            terms[0]["minDomains"] = json!(2 + dice.roll(2));
            pod["topologySpreadConstraints"] = terms;
        }
        6 | 7 => pod["affinity"] = json!({"podAntiAffinity": hard(HOST, &own)}),
        8 => pod["affinity"] = json!({"podAntiAffinity": hard(ZONE, &own)}),
        9 => pod["affinity"] = json!({"podAffinity": hard(ZONE, &own)}),
        10 => pod["affinity"] = json!({"podAffinity": hard(HOST, &own)}),
        11 => pod["affinity"] = json!({"podAffinity": hard(ZONE, &other)}),
        12 => pod["affinity"] = json!({"podAntiAffinity": hard(HOST, &other)}),
        13 => pod["affinity"] = json!({"podAntiAffinity": soft(HOST, &own)}),
        14 => pod["affinity"] = json!({"podAffinity": soft(ZONE, &own)}),
        15 => {
            pod["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": [dice.one_of(&ZONES)]}]}}]}});
        }
        16 => {
            pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [dice.one_of(&ZONES)]}]},
                    {"matchExpressions": [{"key": CAPACITY, "operator": "NotIn", "values": ["spot"]}]}]}}});
        }
        17 => pod["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + dice.roll(2)}]),
        _ => {}
    }
    match dice.roll(10) {
        0 => pod["priorityClassName"] = json!("high"),
        1 => pod["priorityClassName"] = json!("low"),
        _ => {}
    }
}

/// Room for some pods of a workload, where these may go.
fn reservation(n: usize, workload: &Value, dice: &mut Dice) -> Value {
    let pod = &workload["spec"]["template"]["spec"];
    let mut template = json!({"containers": pod["containers"]});
    for key in ["tolerations", "nodeSelector"] {
        if !pod[key].is_null() {
            template[key] = pod[key].clone();
        }
    }
    json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": format!("room-{n}")}, "spec": {
            "allocateOnce": dice.hits(50), "ttl": "0s", "template": {"spec": template},
            "owners": [{"labelSelector": {"matchLabels": workload["spec"]["selector"]["matchLabels"]}}]}})
}
