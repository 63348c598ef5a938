//! `--disrupt --bound` where there is little to be disrupted.

use berth_plan::{Options, plan_objects};
use serde_json::{Value, json};

fn node(annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations, "labels": {
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "n"}},
        "status": {"allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"}}})
}

#[test]
fn the_bound_of_a_cluster_without_anything_to_move_is_proved() {
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let kept = node(&json!({"karpenter.sh/do-not-disrupt": "true"}));
    let options = Options { disrupt: true, bound: true, ..Options::default() };
    for objects in [vec![], vec![pod.clone()], vec![pool.clone(), node(&json!({}))], vec![pool, kept, pod]] {
        let plan = plan_objects(&objects, None, &options).and_then(|plan| Ok(plan.to_value()?));
        let disruption = plan.map(|plan| plan["disruption"].clone()).unwrap_or_default();
        let (cost, bound) = (disruption["settledHourlyCost"].as_f64(), disruption["lowerBound"].as_f64());
        assert!(bound.is_some() && bound <= cost, "{objects:?}: {disruption}");
    }
}
