//! What exceeds a limit is refused by itself, with its reason; everything else is planned.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use std::fmt::Write;

use common::{plan, plan_json};

fn pods_with_own_resources(count: usize) -> String {
    let mut manifests = String::new();
    for i in 0..count {
        write!(
            manifests,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: own-{i}}}\n\
             spec: {{containers: [{{name: c, image: i, resources: {{limits: {{example.com/r{i}: 1}}}}}}]}}\n"
        )
        .unwrap();
    }
    manifests
}

#[test]
fn fifteen_hundred_pods_with_a_resource_each_are_planned() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: node, labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}\n\
                status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110, example.com/r1499: 1}}\n";
    let plan = plan_json(&format!("{}{node}", pods_with_own_resources(1500)), &["--effort", "low"]);
    assert_eq!((&plan["summary"]["pods"], &plan["summary"]["placed"]), (&1500.into(), &1.into()));
    assert_eq!(plan["nodes"][0]["pods"], serde_json::json!(["default/own-1499"]));
    assert!(plan["unschedulable"].to_string().contains("Insufficient example.com/r1023"), "the 1,023rd is told as any");
}

#[test]
fn three_deployments_of_two_billion_are_refused_at_the_third() {
    let mut manifests = String::new();
    for name in ["a", "b", "c"] {
        write!(
            manifests,
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: 2147483647\n  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
             spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}\n"
        )
        .unwrap();
    }
    let run = plan(&manifests, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    for word in ["document 3", "Deployment default/c", "spec.replicas", "2147483647"] {
        assert!(run.stderr.contains(word), "{word} is not in {}", run.stderr);
    }
}
