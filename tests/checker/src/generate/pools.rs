//! Random NodePools.

use serde_json::{Value, json};

use super::rng::Rng;
use super::{CUSTOM_KEY, NUMBER_KEY, Size, TAINT_KEY, TEAMS, ZONES};

fn capacity_types(rng: &mut Rng) -> Option<Value> {
    let key = "karpenter.sh/capacity-type";
    let values: &[&str] = match rng.between(0, 9) {
        0 => &["reserved"],
        1 => &["on-demand"],
        2 | 3 => &["on-demand", "reserved"],
        4 => &["spot", "reserved"],
        5 => return Some(json!({"key": key, "operator": "NotIn", "values": ["spot"]})),
        _ => return None,
    };
    Some(json!({"key": key, "operator": "In", "values": values}))
}

/// A requirement on one of the two custom keys, under one of the eight operators.
fn custom(rng: &mut Rng) -> Value {
    match rng.between(0, 7) {
        0 | 1 => json!({"key": CUSTOM_KEY, "operator": "In", "values": rng.some(&TEAMS)}),
        2 => json!({"key": CUSTOM_KEY, "operator": "Exists"}),
        3 => json!({"key": CUSTOM_KEY, "operator": "NotIn", "values": [rng.pick(&TEAMS)]}),
        4 => json!({"key": CUSTOM_KEY, "operator": "DoesNotExist"}),
        5 => {
            json!({"key": NUMBER_KEY, "operator": rng.pick(&["Gt", "Gte"]), "values": [rng.between(1, 4).to_string()]})
        }
        6 => {
            json!({"key": NUMBER_KEY, "operator": rng.pick(&["Lt", "Lte"]), "values": [rng.between(3, 6).to_string()]})
        }
        _ => json!({"key": NUMBER_KEY, "operator": "In", "values": ["2", "3", "4"]}),
    }
}

fn pool(rng: &mut Rng, size: Size, index: u64) -> Value {
    let mut requirements: Vec<Value> = capacity_types(rng).into_iter().collect();
    if rng.percent(30) {
        requirements.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": rng.some(&ZONES)}));
    }
    if rng.percent(40) {
        requirements.push(
            json!({"key": "kubernetes.io/arch", "operator": "In", "values": [rng.pick(&["amd64", "amd64", "arm64"])]}),
        );
    }
    if rng.percent(45) {
        requirements.push(custom(rng));
    }
    if rng.percent(12) {
        requirements.push(json!({
            "key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": rng.between(1, 3),
        }));
    }
    let mut template = json!({
        "metadata": {"labels": {}},
        "spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
            "requirements": requirements,
            "expireAfter": "720h",
        },
    });
    if rng.percent(25) {
        template["metadata"]["labels"]["example.com/tier"] = (*rng.pick(&["gold", "silver"])).into();
    }
    if rng.percent(25) {
        let effect = rng.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        template["spec"]["taints"] = json!([{"key": TAINT_KEY, "value": rng.pick(&TEAMS), "effect": effect}]);
    }
    if rng.percent(15) {
        template["spec"]["startupTaints"] = json!([{"key": "example.com/starting", "effect": "NoSchedule"}]);
    }
    let mut spec = json!({"template": template});
    if rng.percent(50) {
        spec["weight"] = rng.between(1, 100).into();
    }
    if rng.percent(30) {
        spec["limits"] = match rng.between(0, 2) {
            0 => json!({"cpu": rng.between(4, 64).to_string()}),
            1 if size != Size::Tiny => json!({"nodes": rng.between(1, 6).to_string()}),
            _ => json!({"memory": format!("{}Gi", rng.between(16, 256)), "cpu": rng.between(8, 96).to_string()}),
        };
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{index}")}, "spec": spec})
}

/// 1 to 4 pools.
pub(super) fn pools(rng: &mut Rng, size: Size) -> Vec<Value> {
    let count = rng.between(1, if size == Size::Tiny { 2 } else { 4 });
    (0..count).map(|index| pool(rng, size, index)).collect()
}
