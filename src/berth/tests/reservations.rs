//! Koordinator's Reservations, planned by the binary.

mod common;

use common::plan_json;

const CATALOGUE: &str = "examples/catalogues/four-slots.yaml";

fn node(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/arch: amd64, \
         kubernetes.io/os: linux}}}}\nstatus: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}\n---\n"
    )
}

/// Room of two cores for `app: web`, with more of the template's spec.
fn reservation(name: &str, template: &str, status: &str) -> String {
    format!(
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {{name: {name}}}\nspec:\n  \
         allocateOnce: false\n  owners: [{{labelSelector: {{matchLabels: {{app: web}}}}}}]\n  template: {{spec: \
         {{{template}containers: [{{name: a, image: a, resources: {{requests: {{cpu: '2'}}}}}}]}}}}\n{status}---\n"
    )
}

#[test]
fn a_pinned_reservation_goes_to_its_node_or_nowhere() {
    let manifests = node("node-a") + &node("node-b") + &reservation("r", "nodeName: node-b, ", "");
    let plan = plan_json(&manifests, &["--instance-types", CATALOGUE]);
    let nodes: Vec<_> = plan["nodes"].as_array().unwrap().iter().filter(|node| node["name"] == "node-b").collect();
    assert_eq!(nodes[0]["reservations"][0], "r", "{plan}");
    let plan =
        plan_json(&(node("node-a") + &reservation("r", "nodeName: node-b, ", "")), &["--instance-types", CATALOGUE]);
    assert_eq!(plan["summary"]["nodeClaims"], 0, "nothing is launched for it: {plan}");
    assert_eq!(plan["unschedulable"][0]["object"], "r");
}

#[test]
fn what_a_reservation_holds_is_not_for_others() {
    let status = "status: {phase: Available, nodeName: node-a, allocatable: {cpu: '2'}}\n";
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: a, \
             resources: {{requests: {{cpu: '1'}}}}}}]}}\n---\n"
        )
    };
    let pods: String = ["a", "b", "c"].map(pod).concat();
    let plan = plan_json(&(node("node-a") + &reservation("r", "", status) + &pods), &["--instance-types", CATALOGUE]);
    assert_eq!(plan["nodes"][0]["pods"].as_array().map(Vec::len), Some(2), "{plan}");
    assert_eq!(plan["summary"]["nodeClaims"], 1);
}
