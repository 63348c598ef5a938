//! `--max-share`: what no plan keeps is refused, and what a share leaves out is told.

mod common;

use common::{plan, plan_json};

fn deployment(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}\n"
    )
}

#[test]
fn shares_that_no_plan_keeps_are_refused_with_the_arithmetic() {
    let run = plan(&deployment(10_000), &["--max-share", "zone=20%"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    for word in ["--max-share zone=20%", "60%", "less than 6,003", "10,000 CPUs", "as 34% each"] {
        assert!(run.stderr.contains(word), "{word} is not in {}", run.stderr);
    }
}

#[test]
fn the_arithmetic_of_a_refused_share_is_not_rounded_away() {
    // In each of three zones 30% of 66 CPUs and a pod of one CPU more: 20.8.
    let run = plan(&deployment(66), &["--max-share", "zone=32%"]);
    assert_eq!(run.code, 0, "smaller shares than an even one may do: {}", run.stderr);
    let run = plan(&deployment(66), &["--max-share", "zone=30%"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains("is less than 62.4 of the 66 CPUs"), "{}", run.stderr);
}

#[test]
fn a_share_of_the_only_value_is_refused_not_rounded_up_to_a_node() {
    let run =
        plan(&deployment(3), &["--max-share", "capacityType=spot=0", "--max-share", "capacityType=on-demand=50%"]);
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_plan_smaller_than_its_rounding_keeps_a_small_share() {
    let plan = plan_json(&deployment(3), &["--max-share", "zone=20%"]);
    assert_eq!(plan["summary"]["placed"], 3);
    let zones: std::collections::BTreeSet<_> =
        plan["nodeClaims"].as_array().unwrap().iter().map(|claim| claim["offering"]["zone"].to_string()).collect();
    assert_eq!(zones.len(), 3, "one pod in each");
}
