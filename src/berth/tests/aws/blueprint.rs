//! AWS' blueprint for reserved capacity, from an account's reservations to a plan.

use serde_json::{Value, json};

use crate::emulator::{Emulator, TempFile, berth_with_input};

/// What `kubectl get … -o json` prints of the blueprint's objects, with this many pods.
fn kubectl_get(classes: &str, replicas: u32) -> String {
    let text = [classes, include_str!("blueprint/workload-odcr.yaml")].join("\n---\n");
    let text = text
        .replace("<<AZ>>", "us-east-1a")
        .replace("<<CLUSTER_NAME>>", "port")
        .replace("<<KARPENTER_NODE_IAM_ROLE_NAME>>", "port-nodes");
    let documents = text.split("\n---\n").filter(|document| !document.trim().is_empty());
    let items: Vec<Value> = documents
        .map(|document| {
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            if object["kind"] == "Deployment" {
                object["metadata"]["namespace"] = json!("default");
                object["spec"]["replicas"] = json!(replicas);
            }
            object
        })
        .collect();
    assert_eq!(items.len(), 3);
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Reservations of t3.small: some of the blueprint's, and more that it must leave alone.
fn reservations() -> Value {
    let one = |id: &str, zone: &str, free: u32, tags: Value| {
        json!({"CapacityReservationId": id, "InstanceType": "t3.small", "InstancePlatform": "Linux/UNIX", "Tags": tags,
            "AvailabilityZone": zone, "TotalInstanceCount": free + 1, "AvailableInstanceCount": free,
            "InstanceMatchCriteria": "targeted", "ReservationType": "default"})
    };
    let tags = |intent: &str| json!([{"Key": "intent", "Value": intent}, {"Key": "project", "Value": "port"}]);
    json!([
        one("cr-0aaa", "us-east-1a", 3, tags("apps")),
        one("cr-0bbb", "us-east-1a", 1, tags("apps")),
        one("cr-0ccc", "us-east-1a", 20, tags("machine-learning")),
        one("cr-0ddd", "us-east-1a", 20, json!([{"Key": "intent", "Value": "apps"}])),
        one("cr-0eee", "us-east-1b", 20, tags("apps")),
    ])
}

fn used(plan: &Value) -> Vec<(&str, u64)> {
    let reservations = plan["reservations"].as_array().unwrap().iter();
    let used = reservations.map(|known| (known["id"].as_str().unwrap(), known["used"].as_u64().unwrap()));
    used.filter(|(_, used)| *used > 0).collect()
}

#[test]
fn the_blueprints_slots_are_used_first_and_the_plan_says_what_they_save() {
    let emulator = Emulator::start(20);
    emulator.order(&json!({"put": reservations()}));
    let account = TempFile::new("account.yaml");
    let run = emulator.berth(&["catalog", "--provider", "aws", "--to", account.path()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for classes in [include_str!("blueprint/odcr.yaml"), include_str!("blueprint/odcr-automode.yaml")] {
        let plan = |replicas: u32, output: &str| {
            let args = ["plan", "-f", "-", "--instance-types", account.path(), "-o", output];
            berth_with_input(&args, &kubectl_get(classes, replicas))
        };
        let planned = |replicas: u32| -> Value {
            let run = plan(replicas, "json");
            assert_eq!(run.code, 0, "{}", run.stderr);
            serde_json::from_str(&run.stdout).unwrap()
        };
        // As published: one node has room for all three pods.
        let published = planned(3);
        assert_eq!(used(&published).iter().map(|(_, used)| used).sum::<u64>(), 1);
        assert_eq!(published["summary"]["hourlyCost"], 0.0);
        // Five pods a node: six nodes, of which four are on slots that the class selects, in the pool's zone.
        let scaled = planned(30);
        assert_eq!(used(&scaled), [("cr-0aaa", 3), ("cr-0bbb", 1)]);
        let kinds: Vec<&str> = scaled["nodeClaims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|claim| claim["offering"]["capacityType"].as_str().unwrap())
            .collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "reserved").count(), 4, "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| **kind == "on-demand").count(), 2, "{kinds:?}");
        // The emulator's prices are a tenth above the bundled $0.0208.
        let cost = |name: &str| (scaled["summary"][name].as_f64().unwrap() / (0.0208 * 1.1)).round();
        assert_eq!((cost("hourlyCost"), cost("listCost")), (2.0, 6.0));
        let table = plan(30, "table").stdout;
        assert!(table.contains("$0.0458") && table.contains("$0.1373"), "{table}");
    }
}
