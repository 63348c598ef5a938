//! The JSON contract and the exit codes.

mod common;

use common::{berth, plan, plan_json};

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}, conditions: [{type: Ready, status: 'True'}]}
---
";

fn deployment(name: &str, replicas: u32, cpu: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: a, image: a, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]}}\n---\n"
    )
}

#[test]
fn the_document_has_the_fields_of_the_contract_in_their_order() {
    let run = plan(&deployment("web", 2, "1"), &["-o", "json"]);
    let mut from = 0;
    for field in [
        "apiVersion",
        "kind",
        "summary",
        "time",
        "pods",
        "placed",
        "unschedulable",
        "nodeClaims",
        "hourlyCost",
        "listCost",
        "nodeCost",
        "lowerBound",
        "searchStopped",
        "optimal",
        "readSeconds",
        "solveSeconds",
        "reservedSlots",
        "total",
        "used",
        "reservations",
        "nodeClaims",
        "name",
        "nodePool",
        "offering",
        "instanceType",
        "zone",
        "capacityType",
        "reservationID",
        "price",
        "instanceTypes",
        "requirements",
        "taints",
        "requests",
        "pods",
        "reservations",
        "allocations",
        "nodes",
        "unschedulable",
    ] {
        let key = format!("\"{field}\":");
        let at = run.stdout[from..].find(&key).unwrap_or_else(|| panic!("{field} is missing or out of order"));
        from += at + key.len();
    }
}

#[test]
fn members_go_to_existing_nodes_first_and_the_last_are_unschedulable() {
    let manifests = format!("{NODE}{}{}", deployment("web", 3, "1"), deployment("huge", 2, "5000"));
    let plan = plan_json(&manifests, &[]);
    assert_eq!(plan["nodes"][0]["name"], "node-a");
    assert_eq!(plan["nodes"][0]["pods"], serde_json::json!(["default/web-0", "default/web-1"]));
    assert_eq!(plan["nodeClaims"][0]["name"], "default-00001");
    assert_eq!(plan["nodeClaims"][0]["pods"], serde_json::json!(["default/web-2"]));
    let left = &plan["unschedulable"][0];
    assert_eq!((&left["kind"], &left["object"], &left["count"]), (&"Pod".into(), &"default/huge-0".into(), &2.into()));
    assert!(!left["reasons"].as_array().unwrap().is_empty());
    let summary = &plan["summary"];
    assert_eq!((&summary["pods"], &summary["placed"], &summary["unschedulable"]), (&5.into(), &3.into(), &2.into()));
}

#[test]
fn a_gated_pod_says_that_it_is_gated_and_exits_with_1() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: gated, namespace: team}\n\
               spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: a, image: a}]}\n";
    let run = plan(pod, &["-o", "json"]);
    assert_eq!(run.code, 1);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["unschedulable"][0]["object"], "team/gated");
    let reason = plan["unschedulable"][0]["reasons"][0]["reason"].as_str().unwrap();
    assert!(reason.to_lowercase().contains("gate"), "{reason}");
}

#[test]
fn without_the_gate_reserved_capacity_does_not_exist() {
    let args = ["plan", "-f", "examples/reserved-first", "--instance-types", "examples/catalogues/four-slots.yaml"];
    let args = [&args[..], &["-o", "json", "--feature-gates", "ReservedCapacity=false"]].concat();
    let plan: serde_json::Value = serde_json::from_str(&berth(&args).stdout).unwrap();
    assert_eq!(plan["summary"]["reservedSlots"], serde_json::json!({"total": 0, "used": 0}));
    assert_eq!(plan["summary"]["placed"], 14);
    assert!(plan["summary"]["hourlyCost"].as_f64() > Some(0.192));
}

#[test]
fn a_claim_on_a_slot_names_its_reservation_and_costs_nothing() {
    let args = ["plan", "-f", "examples/reserved-first", "--instance-types", "examples/catalogues/four-slots.yaml"];
    let run = berth(&[&args[..], &["-o", "json", "--node-cost", "0.05"]].concat());
    // As text: floats would forgive noise.
    assert!(run.stdout.contains(r#""hourlyCost":0.192,"listCost":0.96,"nodeCost":0.25,"#), "{}", run.stdout);
    assert!(run.stdout.contains(r#""reservations":[{"id":"cr-web","total":4,"used":4}]"#));
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let claims = plan["nodeClaims"].as_array().unwrap();
    let reserved: Vec<_> = claims.iter().filter(|c| c["offering"]["reservationID"] == "cr-web").collect();
    assert_eq!(reserved.len(), 4);
    assert!(reserved.iter().all(|c| c["offering"]["capacityType"] == "reserved" && c["offering"]["price"] == 0.0));
    assert_eq!(reserved[0]["requests"], serde_json::json!({"cpu": "3600m", "memory": "9Gi", "pods": "3"}));
}

#[test]
fn measured_times_are_printed_only_where_asked_for() {
    let manifests = deployment("web", 1, "1");
    for seconds in ["readSeconds", "solveSeconds"] {
        assert!(plan_json(&manifests, &[])["summary"][seconds].is_null());
        assert!(plan_json(&manifests, &["--timings"])["summary"][seconds].is_f64());
    }
    let told = plan(&manifests, &["--timings"]).stderr;
    assert!(told.contains("planned in ") && told.contains(" s to read and parse, "), "{told}");
}

#[test]
fn the_plan_is_the_same_on_any_number_of_threads() {
    let manifests: String = (0..60).map(|at| deployment(&format!("web-{at}"), at % 7, "700m")).collect();
    let run = |threads| plan(&manifests, &["-o", "json", "--now", "2026-01-01T00:00:00Z", "--threads", threads]);
    let one = run("1");
    for threads in ["2", "8"] {
        assert_eq!(run(threads).stdout, one.stdout);
    }
}

#[test]
fn a_plan_says_why_its_search_stopped() {
    let few = deployment("web", 3, "1");
    assert_eq!(plan_json(&few, &[])["summary"]["searchStopped"], "Solved");
    assert_eq!(plan_json(&few, &["--effort", "low"])["summary"]["searchStopped"], serde_json::Value::Null);
    let optimal = "\nSearch:        every way to fill the new nodes was tried; the plan is optimal\n";
    assert!(plan(&few, &[]).stdout.contains(optimal));
    assert!(!plan(&few, &["--effort", "low"]).stdout.contains("Search:"));
    let room = "{capacity: {cpu: '1', memory: 4Gi, pods: '9'}, allocatable: {cpu: '1', memory: 4Gi, pods: '9'}, conditions: \
                [{type: Ready, status: 'True'}]}";
    let node = format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\nstatus: {room}\n");
    let beside = plan(&(few.clone() + &node), &[]).stdout;
    assert!(beside.contains("was tried; they are optimal for the pods that existing nodes leave\n"), "{beside}");
    // So many different pods that the rounds of the default effort do not suffice.
    let many: String = (0..90).map(|at| deployment(&format!("app-{at}"), 1, &format!("{}m", 300 + 37 * at))).collect();
    assert_eq!(plan_json(&many, &[])["summary"]["searchStopped"], "WorkSpent");
    let alike = deployment("web", 300, "1");
    assert_eq!(plan_json(&alike, &[])["summary"]["searchStopped"], "Optimal");
}

#[test]
fn a_plan_is_called_optimal_only_where_that_is_proved() {
    let few = deployment("web", 3, "1");
    let optimal = |manifests: &str, flags: &[&str]| plan_json(manifests, flags)["summary"]["optimal"].as_bool();
    assert_eq!(optimal(&few, &[]), Some(true));
    assert_eq!(optimal(&few, &["--effort", "low"]), Some(false), "nothing was tried");
    // Every way was tried that the weight of the pools leaves, and the heavier one is dearer.
    let pool = |name: &str, weight: u32, values: &str| {
        format!(
            "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  weight: {weight}\n  template: \
             {{spec: {{nodeClassRef: {{group: berth.sh, kind: FakeNodeClass, name: c}}, requirements: [{{key: \
             karpenter.sh/capacity-type, operator: In, values: [{values}]}}]}}}}\n"
        )
    };
    let dearer = few + &pool("first", 10, "on-demand") + &pool("second", 1, "spot");
    let summary = &plan_json(&dearer, &[])["summary"];
    assert_eq!((&summary["searchStopped"], &summary["optimal"]), (&"Solved".into(), &false.into()), "{summary}");
    assert!(!plan(&dearer, &[]).stdout.contains("optimal"));
}

#[test]
fn a_small_plan_is_the_cheapest_that_its_bound_proves() {
    let catalogue = std::env::temp_dir().join(format!("berth-small-plan-{}.json", std::process::id()));
    let types = [("large", "6", "4", 0.763), ("small", "4", "3", 0.733)].map(|(name, cpu, pods, price)| {
        serde_json::json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpu, "memory": "64Gi", "pods": pods},
            "offerings": [{"Price": price, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}]}]})
    });
    std::fs::write(&catalogue, serde_json::to_string(&types).unwrap()).unwrap();
    let manifests = deployment("light", 2, "900m") + &deployment("heavy", 4, "2900m");
    for effort in ["default", "high"] {
        let summary = plan_json(
            &manifests,
            &["--effort", effort, "--bound", "--instance-types", catalogue.to_str().unwrap()],
        )["summary"]
            .take();
        assert_eq!((&summary["hourlyCost"], &summary["searchStopped"]), (&2.229.into(), &"Solved".into()), "{effort}");
        assert!(summary["lowerBound"].as_f64().is_some_and(|bound| (2.2289..=2.229).contains(&bound)), "{summary}");
    }
    std::fs::remove_file(&catalogue).unwrap();
}
