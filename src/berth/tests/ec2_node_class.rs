//! EC2NodeClass and EKS' NodeClass in `plan`: which reservations their NodePools use, and what their nodes offer.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::{berth, plan, plan_json};
use serde_json::Value;

const CATALOGUE: [&str; 2] = ["--instance-types", "examples/catalogues/reserved-account.yaml"];

fn class(name: &str, spec: &str) -> String {
    format!("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

/// A NodePool of a class, and a Deployment that runs in it.
fn pool(name: &str, class: &str, replicas: u32) -> String {
    let (group, kind, class) = match class.strip_prefix("eks/") {
        Some(class) => ("eks.amazonaws.com", "NodeClass", class),
        None => ("karpenter.k8s.aws", "EC2NodeClass", class),
    };
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: {group}, kind: {kind}, name: {class}}}\n      requirements: \
         [{{key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}}]\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         nodeSelector: {{karpenter.sh/nodepool: {name}}}\n      \
         containers: [{{name: a, image: a, resources: {{requests: {{cpu: '1', memory: 2Gi}}}}}}]\n---\n"
    )
}

const AL2023: &str = "amiSelectorTerms: [{alias: al2023@latest}]";

fn with_terms(terms: &str) -> String {
    format!("{AL2023}, capacityReservationSelectorTerms: [{terms}]")
}

/// How many slots of each reservation the plan uses.
fn used(plan: &Value) -> Vec<(&str, u64)> {
    let all = plan["reservations"].as_array().unwrap().iter();
    let used = all.map(|entry| (entry["id"].as_str().unwrap(), entry["used"].as_u64().unwrap()));
    used.filter(|(_, used)| *used > 0).collect()
}

fn planned(manifests: &str) -> Value {
    plan_json(manifests, &CATALOGUE)
}

#[test]
fn terms_decide_which_reservations_a_pool_uses() {
    for (terms, expected) in [
        ("{tags: {team: web}}", vec![("cr-0web", 2)]),
        ("{tags: {team: '*'}}", vec![("cr-0data", 1), ("cr-0web", 2)]),
        ("{id: cr-0shared}", vec![("cr-0shared", 3)]),
        ("{instanceMatchCriteria: open}", vec![("cr-0shared", 3)]),
        ("{instanceMatchCriteria: targeted, ownerID: '999988887777'}", vec![]),
        ("{tags: {team: data}}, {id: cr-0web}", vec![("cr-0data", 1), ("cr-0web", 2)]),
        ("{tags: {team: web, stage: prod}}", vec![]),
    ] {
        let plan = planned(&(class("a", &with_terms(terms)) + &pool("a", "a", 20)));
        let mut found = used(&plan);
        found.sort_unstable();
        assert_eq!(found, expected, "{terms}");
        assert_eq!(plan["summary"]["placed"], 20);
    }
}

#[test]
fn a_class_without_terms_uses_no_reservation_and_one_that_is_not_given_uses_all() {
    assert_eq!(used(&planned(&(class("a", AL2023) + &pool("a", "a", 20)))), []);
    assert_eq!(used(&planned(&pool("a", "elsewhere", 20))).len(), 3);
}

#[test]
fn two_classes_that_select_one_reservation_share_its_count() {
    let web = with_terms("{tags: {team: web}}");
    let manifests = class("a", &web) + &class("b", &web) + &pool("a", "a", 6) + &pool("b", "b", 6);
    let plan = planned(&manifests);
    assert_eq!(used(&plan), [("cr-0web", 2)]);
    assert_eq!(plan["summary"]["reservedSlots"]["total"], 6, "all of the catalogue: {plan}");
    let reserved =
        plan["nodeClaims"].as_array().unwrap().iter().filter(|c| c["offering"]["reservationID"] == "cr-0web");
    assert_eq!(reserved.count(), 2);
}

#[test]
fn pools_of_different_classes_use_their_own_reservations() {
    let manifests = class("web", &with_terms("{tags: {team: web}}"))
        + &class("data", &with_terms("{tags: {team: data}}"))
        + &pool("web", "web", 6)
        + &pool("data", "data", 6);
    let plan = planned(&manifests);
    for claim in plan["nodeClaims"].as_array().unwrap() {
        let expected = if claim["nodePool"] == "web" { "cr-0web" } else { "cr-0data" };
        assert_eq!(claim["offering"]["reservationID"], expected, "{claim}");
    }
    assert_eq!(used(&plan), [("cr-0data", 1), ("cr-0web", 2)]);
}

#[test]
fn kubelet_of_the_class_decides_how_many_pods_a_node_takes() {
    let nodes = |spec: &str| planned(&(class("a", spec) + &pool("a", "a", 6)))["summary"]["nodeClaims"].clone();
    assert_eq!(nodes(AL2023), 1, "six cores fit on c5.2xlarge");
    assert_eq!(nodes(&format!("{AL2023}, kubelet: {{maxPods: 2}}")), 3);
    assert_eq!(nodes(&format!("{AL2023}, kubelet: {{systemReserved: {{cpu: '6'}}}}")), 6, "m5.xlarge has nothing left");
}

#[test]
fn disks_of_the_class_decide_the_ephemeral_storage() {
    let pods = pool("a", "a", 1).replace("memory: 2Gi", "memory: 2Gi, ephemeral-storage: 50Gi");
    let placed = |spec: &str| planned(&(class("a", spec) + &pods))["summary"]["placed"].clone();
    assert_eq!(placed(AL2023), 0);
    let volume =
        |device: &str| format!("{AL2023}, blockDeviceMappings: [{{deviceName: {device}, ebs: {{volumeSize: 100Gi}}}}]");
    assert_eq!(placed(&volume("/dev/xvda")), 1);
    assert_eq!(placed(&volume("/dev/xvdz")), 0, "another disk than kubelet's");
}

#[test]
fn subnets_in_the_status_decide_the_zones() {
    let manifests = class("a", &with_terms("{tags: {team: '*'}}"))
        .replace("---\n", "status: {subnets: [{id: subnet-1, zone: us-east-1b}]}\n---\n");
    let plan = planned(&(manifests + &pool("a", "a", 6)));
    assert_eq!(used(&plan), [], "both are in us-east-1a");
    assert_eq!(plan["nodeClaims"][0]["offering"]["zone"], "us-east-1b");
}

#[test]
fn auto_modes_node_class_selects_reservations_too() {
    let eks = "apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: a}\nspec: \
               {capacityReservationSelectorTerms: [{tags: {team: web}}], snatPolicy: Random}\n---\n";
    let run = plan(&(eks.to_owned() + &pool("a", "eks/a", 6)), &[&CATALOGUE[..], &["-o", "json"]].concat());
    assert_eq!(used(&serde_json::from_str(&run.stdout).unwrap()), [("cr-0web", 2)]);
    assert!(run.stderr.contains("NodeClass a: a plan does not depend on snatPolicy"), "{}", run.stderr);
}

#[test]
fn what_is_not_acted_on_is_told_once() {
    let spec = format!("{AL2023}, role: nodes, userData: x, kubelet: {{maxPods: 'vcpus * 8', cpuCFSQuota: true}}");
    let run = plan(&(class("a", &spec) + &pool("a", "a", 1) + &pool("b", "a", 1)), &CATALOGUE);
    let told = "EC2NodeClass a: a plan does not depend on kubelet.cpuCFSQuota, kubelet.maxPods (an expression), role, userData";
    assert_eq!(run.stderr.matches(told).count(), 1, "{}", run.stderr);
}

#[test]
fn a_catalogue_without_machines_keeps_its_resources_and_says_so() {
    let spec = with_terms("{tags: {team: web}}");
    let args = ["--instance-types", "examples/catalogues/four-slots.yaml"];
    let run = plan(&(class("a", &spec) + &pool("a", "a", 1)), &args);
    assert!(run.stderr.contains("the catalogue says nothing of the machines of"), "{}", run.stderr);
    assert!(
        run.stderr.contains("the catalogue says nothing of the tags and owners of its reservations"),
        "{}",
        run.stderr
    );
    assert_eq!(run.code, 0);
}

#[test]
fn a_class_that_the_api_server_would_refuse_is_refused() {
    let wrong = class("a", &with_terms("{id: cr-1, tags: {a: b}}"));
    let run = plan(&(wrong + &pool("a", "a", 1)), &CATALOGUE);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("EC2NodeClass a") && run.stderr.contains("mutually exclusive"), "{}", run.stderr);
    let typo = plan(&(class("a", "capacityReservationSelector: []") + &pool("a", "a", 1)), &CATALOGUE);
    assert!(typo.code == 2 && typo.stderr.contains("capacityReservationSelector"), "{}", typo.stderr);
}

#[test]
fn a_plan_with_the_snapshot_says_what_its_prices_are() {
    let file = std::env::temp_dir().join(format!("berth-snapshot-{}.json", std::process::id()));
    let name = file.to_str().unwrap();
    let made = berth(&["catalog", "--provider", "ec2-snapshot", "--zones", "us-east-1a", "--to", name]);
    assert_eq!((made.code, made.stdout.as_str()), (0, ""), "{}", made.stderr);
    let args = ["--instance-types", name];
    let manifests = pool("a", "elsewhere", 6);
    let (table, json, html) = (
        plan(&manifests, &args),
        plan_json(&manifests, &args),
        plan(&manifests, &[&args[..], &["-o", "html"]].concat()),
    );
    std::fs::remove_file(&file).unwrap();
    for text in [&table.stdout, &json["notes"].to_string(), &html.stdout] {
        assert!(
            text.contains("2026-07-20") && text.contains("spot prices are an estimate: 40% of on-demand"),
            "{text}"
        );
    }
    assert_eq!(table.stdout.matches("2026-07-20").count(), 1);
}

#[test]
fn the_example_uses_the_teams_slots_first() {
    let run = berth(&["plan", "-f", "examples/aws", CATALOGUE[0], CATALOGUE[1], "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(used(&serde_json::from_str(&run.stdout).unwrap()), [("cr-0web", 2)]);
}

#[test]
fn without_the_feature_the_command_says_how_to_get_it() {
    if cfg!(feature = "aws") {
        return;
    }
    let run = berth(&["catalog", "--provider", "aws"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("--features aws"), "{}", run.stderr);
}

#[test]
fn flags_that_another_provider_obeys_are_refused() {
    for (args, flag) in [
        (&["--region", "us-east-1"][..], "--region"),
        (&["--max-pods", "3"], "--max-pods"),
        (&["--provider", "ec2-snapshot", "--refresh", "x"], "--refresh"),
        (&["--provider", "aws", "--zones", "us-east-1a"], "--zones"),
    ] {
        let run = berth(&[&["catalog"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{flag}");
        assert!(run.stderr.contains(flag), "{}", run.stderr);
    }
}
