//! `berth plan --disrupt`: what could go, what that saves, and why every other node stays.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::berth;
use serde_json::{Value, json};

const EXAMPLE: [&str; 7] = [
    "plan",
    "-f",
    "examples/disruption",
    "--instance-types",
    "examples/catalogues/reserved-account.yaml",
    "--disrupt",
    "--now=2026-01-01T12:00:00Z",
];

fn disruption(more: &[&str]) -> Value {
    let run = berth(&[&EXAMPLE[..], &["-o", "json"], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    plan["disruption"].clone()
}

fn told(disruption: &Value) -> Vec<String> {
    let commands = disruption["commands"].as_array().unwrap().iter();
    let line = |command: &Value| {
        let nodes: Vec<&str> = command["nodes"].as_array().unwrap().iter().map(|node| node.as_str().unwrap()).collect();
        let launches = command["replacements"].as_array().unwrap().iter();
        let launches: Vec<&str> =
            launches.map(|claim| claim["offering"]["reservationID"].as_str().unwrap_or("paid")).collect();
        let method = command["method"].as_str().unwrap();
        format!("{} {method} {} > {}", command["batch"], nodes.join("+"), launches.join("+"))
    };
    commands.map(line).collect()
}

#[test]
fn the_example_moves_to_the_teams_slots_and_says_why_the_rest_stays() {
    let found = disruption(&[]);
    let expected = ["0 Emptiness idle > ", "1 MultiNodeConsolidation web-a+web-b > cr-0web"];
    assert_eq!(told(&found), expected, "{found:#}");
    assert_eq!(found["commands"][1]["evictions"], 3);
    assert_eq!(found["commands"][1]["savings"], json!(0.384));
    let claim = &found["commands"][1]["replacements"][0];
    assert_eq!(claim["pods"].as_array().unwrap().len(), 3);
    assert_eq!(claim["nodePool"], "web");
    let kept: Vec<(&str, &str)> = found["kept"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kept| (kept["node"].as_str().unwrap(), kept["reasons"][0]["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(
        kept,
        [
            ("batch", "pod has \"karpenter.sh/do-not-disrupt\" annotation"),
            ("db", "pdb default/db prevents pod evictions"),
        ]
    );
    assert_eq!(found["settledHourlyCost"], json!(0.384));
}

#[test]
fn a_price_on_evictions_leaves_pods_where_they_are() {
    let found = disruption(&["--eviction-price", "1"]);
    assert_eq!(told(&found), ["0 Emptiness idle > "]);
    let why = found["kept"][2]["reasons"][0]["reason"].as_str().unwrap();
    assert!(why.starts_with("saves $"), "{why}");
}

#[test]
fn a_removal_is_explained_at_the_price_of_its_evictions() {
    let explained = |more: &[&str]| {
        let of_plan = EXAMPLE.iter().copied().filter(|arg| !matches!(*arg, "plan" | "--disrupt"));
        let arguments: Vec<&str> = ["explain", "node/web-a"].into_iter().chain(of_plan).collect();
        let run = berth(&[&arguments[..], more].concat());
        assert_eq!(run.stderr.matches("error").count(), 0, "{}", run.stderr);
        run.stdout
    };
    let priced = "disrupting it is priced at $";
    let (free, dear) = (explained(&[]), explained(&["--eviction-price", "1"]));
    assert!(!free.contains(priced), "{free}");
    assert!(dear.contains(priced), "{dear}");
}

#[test]
fn a_bound_says_what_no_consolidation_costs_less_than() {
    assert_eq!(disruption(&[])["lowerBound"], Value::Null, "only where it is asked for");
    for (price, priced) in [("0", 0.384), ("0.01", 0.434), ("1", 0.768)] {
        let found = disruption(&["--bound", "--eviction-price", price]);
        let (bound, own) = (found["lowerBound"].as_f64().unwrap(), found["pricedHourlyCost"].as_f64().unwrap());
        assert!((own - priced).abs() < 1e-9, "two nodes with three pods move, and the empty one has no price: {own}");
        assert!(bound <= own && bound >= 0.3839, "{bound} of {own}: `batch` and `db` stay");
    }
    let table = berth(&[&EXAMPLE[..], &["--bound"]].concat()).stdout;
    assert!(table.contains("no consolidation costs less than $0.38"), "{table}");
}

#[test]
fn tables_say_the_same_and_the_flag_alone_asks_for_it() {
    let run = berth(&EXAMPLE);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for words in
        ["web-a, web-b", "reserved cr-0web", "The nodes cost $0.96/h now, and $0.384/h once", "Nodes that stay"]
    {
        assert!(run.stdout.contains(words), "{words:?} is not in {}", run.stdout);
    }
    let without: Vec<&str> = EXAMPLE.into_iter().filter(|arg| *arg != "--disrupt").collect();
    let run = berth(&without);
    assert!(!run.stdout.contains("Nodes that stay"), "{}", run.stdout);
    let run = berth(&[&without[..], &["--eviction-price", "1"]].concat());
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--disrupt"), "{}", run.stderr);
}

#[test]
fn the_page_has_what_the_tables_have() {
    let run = berth(&[&EXAMPLE[..], &["-o", "html"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    for words in ["<td>web-a, web-b</td>", "reserved cr-0web", "$0.384/h once", "pdb default/db prevents pod evictions"]
    {
        assert!(run.stdout.contains(words), "{words:?} is not in the page");
    }
}

/// A file with a text, by its path.
fn file(name: &str, text: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disrupt-{}-{name}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_change_counts_whatever_its_resource_version() {
    let pool = |version: &str, budget: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: web, resourceVersion: '{version}'}}\nspec:\n  \
             disruption: {{budgets: [{{nodes: '{budget}'}}]}}\n  template:\n    spec:\n      nodeClassRef: {{group: \
             karpenter.k8s.aws, kind: EC2NodeClass, name: web}}\n      requirements: []\n"
        )
    };
    let (given, change) = (file("given.yaml", &pool("20", "5")), file("change.yaml", &pool("10", "0")));
    let found = disruption(&["-f", &given, "--diff", &change]);
    assert_eq!(told(&found), <[String; 0]>::default(), "{found:#}");
    let found = disruption(&["-f", &change, "--diff", &given]);
    assert_ne!(told(&found), <[String; 0]>::default(), "{found:#}");
}

/// The regression: files have no hashes, so that only changed requirements were seen to make nodes drift.
#[test]
fn a_change_of_a_template_makes_its_nodes_drift() {
    let pool = |annotations: &str, label: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: web{annotations}}}\nspec:\n  disruption: {{budgets: \
             [{{nodes: '100%'}}], consolidateAfter: Never}}\n  template:\n    metadata: {{labels: {{team: {label}}}}}\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}}\n      requirements: []\n"
        )
    };
    let annotations = "annotations: {karpenter.sh/nodepool-hash: '17', karpenter.sh/nodepool-hash-version: v3}";
    let claim = format!(
        "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: idle, labels: {{karpenter.sh/nodepool: web}}, \
         {annotations}}}\nspec: {{requirements: [], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}}}}\n\
         status: {{nodeName: idle, providerID: 'aws:///idle', conditions: [{{type: Initialized, status: 'True', reason: x, \
         message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}\n"
    );
    let given = file("hashed.yaml", &(pool(&format!(", {annotations}"), "a") + &claim));
    for (name, label, drifts) in [("same.yaml", "a", false), ("other.yaml", "b", true)] {
        let found = disruption(&["-f", &given, "--diff", &file(name, &pool("", label))]);
        let is_drift = told(&found).iter().any(|line| line.starts_with("0 Drift idle"));
        assert_eq!(is_drift, drifts, "{name}: {found:#}");
    }
}

#[test]
fn a_pdb_without_a_namespace_is_in_default() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {maxUnavailable: 0, \
                  selector: {matchLabels: {app: web}}}\n";
    let found = disruption(&["-f", &file("pdb.yaml", budget)]);
    assert_eq!(told(&found), ["0 Emptiness idle > "], "{found:#}");
    let reason = &found["kept"][2]["reasons"][0];
    assert_eq!((&reason["reason"], &reason["count"]), (&json!("pdb default/web prevents pod evictions"), &json!(2)));
}

#[test]
fn long_lists_of_nodes_end_in_a_count_unless_all_is_asked_for() {
    // Five idle nodes, of which a budget lets four go at a time.
    let idle = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{karpenter.sh/nodepool: web, \
             karpenter.sh/capacity-type: on-demand, karpenter.sh/initialized: 'true', kubernetes.io/os: linux, \
             kubernetes.io/arch: amd64, node.kubernetes.io/instance-type: m5.xlarge, topology.kubernetes.io/zone: \
             us-east-1a}}}}\nstatus: {{allocatable: {{cpu: 4, memory: 15Gi, pods: 58}}}}\n"
        )
    };
    let nodes: Vec<String> = ["idle-1", "idle-2", "idle-3", "idle-4"].map(idle).into();
    let pool = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: web}\nspec: {disruption: {budgets: \
                [{nodes: '4'}]}, template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: \
                web}, requirements: []}}}\n";
    let more = ["-f", &file("idle.yaml", &(nodes.concat() + pool))];
    let run = berth(&[&EXAMPLE[..], &more].concat());
    assert!(run.stdout.contains("idle, idle-1, idle-2 and 1 more "), "{}", run.stdout);
    let run = berth(&[&EXAMPLE[..], &more, &["--wide"]].concat());
    assert!(run.stdout.contains("idle, idle-1, idle-2, idle-3 "), "{}", run.stdout);
}

#[test]
fn drifted_nodes_on_full_slots_are_planned_slot_by_slot() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: roll}\nspec: {disruption: {budgets: [{nodes: \
                100%}]}, template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: roll}, \
                requirements: [{key: team, operator: In, values: [web]}, {key: karpenter.sh/capacity-type, operator: In, \
                values: [reserved, on-demand]}]}}}\n";
    let node = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{karpenter.sh/nodepool: roll, \
             karpenter.sh/capacity-type: reserved, karpenter.k8s.aws/capacity-reservation-id: cr-1, \
             karpenter.sh/initialized: 'true', kubernetes.io/os: linux, kubernetes.io/arch: amd64, \
             node.kubernetes.io/instance-type: m5.xlarge, topology.kubernetes.io/zone: us-east-1a}}}}\nstatus: \
             {{allocatable: {{cpu: 4, memory: 15Gi, pods: 58}}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: \
             on-{name}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: \
             true}}]}}\nspec: {{nodeName: {name}, containers: [{{name: web, image: web, resources: {{requests: {{cpu: \
             3}}}}}}]}}\nstatus: {{phase: Running}}\n"
        )
    };
    let types = "- name: m5.xlarge\n  resources: {cpu: 4, memory: 15Gi, pods: 58}\n  offerings:\n  - Price: 0.192\n    \
                 Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: \
                 topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]\n  - Price: 0.192\n    \
                 ReservationCapacity: 0\n    Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: \
                 [reserved]}, {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}, {key: \
                 karpenter.k8s.aws/capacity-reservation-id, operator: In, values: [cr-1]}]\n";
    let cluster = file("roll.yaml", &(pool.to_owned() + &["a", "b", "c"].map(node).concat()));
    let types = file("roll-types.yaml", types);
    let run = berth(&["plan", "-f", &cluster, "--instance-types", &types, "--disrupt", "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    let found = &plan["disruption"];
    assert_eq!(told(found), ["0 Drift a > paid", "1 Drift b > cr-1", "2 Drift c > cr-1"], "{found:#}");
}
