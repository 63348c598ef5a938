//! Measures a plan for pods with a rule about racks, where there are many: how the time grows with the number of racks.
//!
//! `cargo run --release -p berth-decisions --example racks -- [pods] [racks]...`, 2000 pods on 5000, 20000 and 80000 racks where
//! nothing is said. Racks are labels of nodes that exist, one node in each; in the last rows those of nodes to be launched.

mod figures;

use berth_api::NodePool;
use berth_decisions::{SolveOptions, solve};
use berth_state::{Event, Kind, Object, State};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use figures::{Failure, NOW, cpu_time, object, pod_with};

const RACK: &str = "example.com/rack";

fn main() -> Result<(), Failure> {
    let arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let arguments: Vec<usize> = arguments.collect::<Result<_, _>>()?;
    let n_pods = arguments.first().copied().unwrap_or(2_000);
    let sizes = match arguments.get(1..) {
        Some(sizes) if !sizes.is_empty() => sizes,
        _ => &[5_000, 20_000, 80_000],
    };
    let like = json!({"matchLabels": {"app": "large"}});
    let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": RACK, "labelSelector": like}]}});
    let zone = "topology.kubernetes.io/zone";
    let rules = [
        ("no rule", json!({})),
        ("spread over racks", json!({"topologySpreadConstraints": [spread(RACK)]})),
        ("anti-affinity by rack", json!({"affinity": {"podAntiAffinity": apart["podAntiAffinity"]}})),
        ("spread over racks and zones", json!({"topologySpreadConstraints": [spread(RACK), spread(zone)]})),
    ];
    for (are_there, what) in [(true, "nodes that exist"), (false, "nodes to be launched")] {
        for (name, rule) in &rules {
            for &n_racks in sizes {
                let mut cluster = state(n_pods, n_racks, are_there, rule)?.cluster(NOW).clone();
                let start = cpu_time();
                let (_, solution, allocation) = solve(&mut cluster, &SolveOptions::default());
                let spent = cpu_time().saturating_sub(start);
                let left: u32 = solution.unschedulable.iter().map(|left| left.count).sum();
                let n_bound = allocation.count(berth_model::MemberKind::Pod);
                let n_new: u32 = solution.claims.iter().map(|claims| claims.count).sum();
                println!("{what}, {name}, {n_racks} racks: {spent:?}, {n_bound} bound, {n_new} new nodes, {left} left");
            }
        }
    }
    Ok(())
}

fn state(n_pods: usize, n_racks: usize, are_there: bool, rule: &Value) -> Result<State, Failure> {
    let mut state = State::new(berth_state::Options::default());
    let mut spec = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "3"}}}]});
    if let (Some(spec), Some(rule)) = (spec.as_object_mut(), rule.as_object()) {
        spec.extend(rule.clone());
    }
    for &kind in Kind::ALL {
        let objects: Vec<Object> = match kind {
            Kind::Node if are_there => (0..n_racks).map(node).collect::<Result<_, _>>()?,
            Kind::Pod => (0..n_pods).map(|i| pod_with(&format!("work-{i}"), &spec)).collect::<Result<_, _>>()?,
            Kind::NodePool if !are_there => vec![pool(n_racks)?],
            _ => Vec::new(),
        };
        state.apply(Event::Relisted { kind, objects, resource_version: None })?;
    }
    let types = json!([{"name": "large", "resources": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "offerings": [
        {"Price": 0.2, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}]}]);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json")?;
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None })?;
    Ok(state)
}

fn node(i: usize) -> Result<Object, Failure> {
    let room = json!({"cpu": (8 + i % 3 * 8).to_string(), "memory": "32Gi", "pods": "110"});
    object::<Node>(json!({
        "metadata": {"name": format!("node-{i}"), "uid": format!("node-{i}"), "labels": {
            "kubernetes.io/hostname": format!("node-{i}"), RACK: format!("rack-{i}"),
            "topology.kubernetes.io/zone": format!("zone-{}", i % 3)}},
        "status": {"allocatable": room, "capacity": room}}))
}

fn pool(n_racks: usize) -> Result<Object, Failure> {
    let racks: Vec<String> = (0..n_racks).map(|i| format!("rack-{i}")).collect();
    object::<NodePool>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "pool", "uid": "pool"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
            "requirements": [{"key": RACK, "operator": "In", "values": racks}]}}}}))
}
