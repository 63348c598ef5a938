//! What nodes keep from pods by `node.koordinator.sh/reservation`, planned by the binary.

mod common;

use common::plan_json;

const CATALOGUE: &str = "examples/catalogues/four-slots.yaml";

fn pods(count: u32, cpu: &str) -> String {
    let pod = |i: u32| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-{i}}}\nspec: {{containers: [{{name: a, image: a, \
             resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n---\n"
        )
    };
    (0..count).map(pod).collect::<Vec<_>>().concat()
}

#[test]
fn pods_get_what_a_node_does_not_keep() {
    let node = |keeps: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: node-a, annotations: {{node.koordinator.sh/reservation: \
             '{keeps}'}}, labels: {{kubernetes.io/arch: amd64, kubernetes.io/os: linux}}}}\n\
             status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}\n---\n"
        )
    };
    for (keeps, on_node) in [
        (r#"{"resources":{"cpu":"2500m"}}"#, 1),
        (r#"{"reservedCPUs":"0-1"}"#, 2),
        (r#"{"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#, 4),
    ] {
        let plan = plan_json(&(node(keeps) + &pods(4, "'1'")), &["--instance-types", CATALOGUE]);
        assert_eq!(plan["nodes"][0]["pods"].as_array().map_or(0, Vec::len), on_node, "{keeps}: {plan}");
        assert_eq!(plan["summary"]["placed"], 4, "the others get a new node");
    }
}

#[test]
fn a_planned_node_keeps_what_its_pools_template_says() {
    let pool = |annotations: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: general}}\nspec:\n  template:\n    \
             metadata: {{annotations: {annotations}}}\n    spec:\n      requirements: [{{key: \
             node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}}]\n      nodeClassRef: {{group: \
             berth.sh, kind: FakeNodeClass, name: default}}\n---\n"
        )
    };
    // Three pods of a core fit on m5.xlarge (3920m), two where a core is kept.
    for (annotations, claims) in [("{}", 2), (r#"{node.koordinator.sh/reservation: '{"resources":{"cpu":"1"}}'}"#, 3)] {
        let plan = plan_json(&(pool(annotations) + &pods(6, "'1'")), &["--instance-types", CATALOGUE]);
        assert_eq!(plan["summary"]["nodeClaims"], claims, "{annotations}: {plan}");
        assert_eq!(plan["summary"]["placed"], 6);
    }
}
