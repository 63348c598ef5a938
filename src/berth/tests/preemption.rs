//! Pods that give way to others of higher priority on nodes that exist, planned by the binary.

mod common;

use common::{berth, plan, plan_json, with_input};

const CATALOGUE: [&str; 2] = ["--instance-types", "examples/catalogues/four-slots.yaml"];

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a, labels: {kubernetes.io/arch: amd64, \
    kubernetes.io/os: linux}}\nstatus: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}\n---\n";

/// A pod of two cores that runs on the node, with more of its metadata.
fn running(metadata: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: old, labels: {{app: old}}{metadata}}}\nspec: {{nodeName: node-a, \
         containers: [{{name: a, image: a, resources: {{requests: {{cpu: '2'}}}}}}]}}\nstatus: {{phase: Running}}\n---\n"
    )
}

const OWNED: &str = ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: u, controller: true}]";

/// A pod of two cores and of priority 10, with more of its spec, and its status.
fn urgent(spec: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: urgent}}\nspec: {{priority: 10, {spec}containers: [{{name: a, \
         image: a, resources: {{requests: {{cpu: '2'}}}}}}]}}\n{status}---\n"
    )
}

fn names(list: &serde_json::Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect()
}

#[test]
fn a_pod_of_higher_priority_takes_room_before_a_node_is_launched_and_who_gives_way_is_planned_anew() {
    let plan = plan_json(&(NODE.to_owned() + &running(OWNED) + &urgent("", "")), &CATALOGUE);
    assert_eq!(names(&plan["nodes"][0]["pods"]), ["default/urgent"], "{plan}");
    assert_eq!(names(&plan["nodes"][0]["preempted"]), ["default/old"]);
    assert_eq!(names(&plan["nodeClaims"][0]["pods"]), ["default/old"], "its ReplicaSet makes another: {plan}");
    assert_eq!((&plan["summary"]["pods"], &plan["summary"]["placed"]), (&2.into(), &2.into()));
}

#[test]
fn who_gives_way_and_has_no_controller_is_not_planned_anew() {
    let plan = plan_json(&(NODE.to_owned() + &running("") + &urgent("", "")), &CATALOGUE);
    assert_eq!(names(&plan["nodes"][0]["preempted"]), ["default/old"], "{plan}");
    assert_eq!((&plan["summary"]["nodeClaims"], &plan["summary"]["pods"]), (&0.into(), &1.into()));
}

#[test]
fn nobody_gives_way_to_who_never_preempts_or_where_a_budget_forbids_it() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {selector: {matchLabels: \
        {app: old}}}\nstatus: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}\n---\n";
    for (spec, more) in [("preemptionPolicy: Never, ", ""), ("", budget)] {
        let plan = plan_json(&(NODE.to_owned() + &running(OWNED) + &urgent(spec, "") + more), &CATALOGUE);
        assert!(plan["nodes"].as_array().is_some_and(Vec::is_empty), "{plan}");
        assert_eq!(names(&plan["nodeClaims"][0]["pods"]), ["default/urgent"], "a node is launched instead: {plan}");
    }
}

/// The regression: of a pod that a budget keeps from preempting it was said only that there is too little room.
#[test]
fn a_budget_that_keeps_the_only_victim_is_named() {
    let budget = |name: &str, allowed: u32| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{selector: \
             {{matchLabels: {{app: old}}}}}}\nstatus: {{disruptionsAllowed: {allowed}, currentHealthy: 1, desiredHealthy: 1, \
             expectedPods: 1}}\n---\n"
        )
    };
    let none = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: none}, spec: {limits: {nodes: '0'}, template: \
                {spec: {requirements: []}}}}\n---\n";
    let manifests = NODE.to_owned() + &running(OWNED) + &urgent("", "") + none;
    let told = |budgets: &str| {
        let manifests = manifests.clone() + budgets;
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let story = with_input(&["explain", "-f", "-", "pod/urgent"], &manifests).stdout;
        [plan(&manifests, &[]).stdout, plan(&manifests, &["-o", "json"]).stdout, story].map(|text| flat(&text))
    };
    let kept = "on node node-a default/old would give way, but PodDisruptionBudget default/b allows 0 evictions now";
    let [table, json, story] = told(&budget("b", 0));
    assert!([&table, &json, &story].iter().all(|text| text.contains(kept)), "{table}{json}{story}");
    assert!(story.contains("If PodDisruptionBudget default/b let default/old go: node node-a"), "{story}");
    // The API evicts no pod that several protect.
    let both = "on node node-a default/old would give way, but for PodDisruptionBudgets default/b and default/c";
    let [table, ..] = told(&(budget("b", 1) + &budget("c", 1)));
    assert!(table.contains(both), "{table}");
    // A budget that lets go is none to name, and the pod preempts.
    let [table, ..] = told(&budget("b", 1));
    assert!(table.contains("Pods: 1 placed, 1 unschedulable") && !table.contains("PodDisruptionBudget"), "{table}");
}

#[test]
fn a_nominated_pod_goes_where_room_was_made_for_it_and_is_not_launched_for() {
    // Who made room is terminating, and the other pod, first in the queue, is of equal priority.
    let going = running("").replace("name: old,", "name: old, deletionTimestamp: '2026-01-01T00:00:00Z',");
    let other = urgent("", "").replace("name: urgent}", "name: another}");
    let nominated = urgent("", "status: {nominatedNodeName: node-a}\n");
    let plan = plan_json(&(NODE.to_owned() + &going + &other + &nominated), &CATALOGUE);
    assert_eq!(names(&plan["nodes"][0]["pods"]), ["default/urgent"], "{plan}");
    assert_eq!(names(&plan["nodes"][0]["preempted"]), [""; 0]);
    assert_eq!(names(&plan["nodeClaims"][0]["pods"]), ["default/another"]);
}

#[test]
fn the_table_lists_all_who_give_way_on_one_node() {
    let small =
        |name: &str| running("").replace("name: old,", &format!("name: {name},")).replace("cpu: '2'", "cpu: '1'");
    let table = plan(&(NODE.to_owned() + &small("a") + &small("b") + &urgent("", "")), &CATALOGUE).stdout;
    let expected =
        "\nPods that give way to others of higher priority\n  default/a on node node-a\n  default/b on node node-a\n";
    assert!(table.contains(expected), "{table}");
}

#[test]
fn the_page_lists_who_gives_way_beside_the_other_tables() {
    let page = |manifests: &str| plan(manifests, &[&CATALOGUE[..], &["-o", "html"]].concat()).stdout;
    let preempting = page(&(NODE.to_owned() + &running(OWNED) + &urgent("", "")));
    assert!(preempting.contains("<tr><td>default/old</td><td>node-a</td></tr>"), "{preempting}");
    assert!(preempting.contains("<dt>Pods that give way</dt><dd>1<small>"), "{preempting}");
    let peaceful = page(&(NODE.to_owned() + &urgent("", "")));
    assert!(!peaceful.contains("<td>node-a</td>") && !peaceful.contains("give way</dt>"), "{peaceful}");
}

#[test]
fn the_story_of_who_gives_way_says_so() {
    let file = std::env::temp_dir().join(format!("berth-preemption-{}.yaml", std::process::id()));
    std::fs::write(&file, NODE.to_owned() + &running("") + &urgent("", "")).unwrap();
    let name = file.to_str().unwrap();
    let run = berth(&[&["explain", "-f", name, "pod/old"][..], &CATALOGUE].concat());
    let node = berth(&[&["explain", "-f", name, "node/node-a"][..], &CATALOGUE].concat());
    std::fs::remove_file(&file).unwrap();
    assert!(
        run.stdout.contains("gives way on node node-a to a pod of higher priority"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    assert!(node.stdout.contains("Pods that give way"), "{}{}", node.stdout, node.stderr);
}

/// The regression: the owner was evicted again and again, though the pod in whose room it is holds that again once it is gone.
#[test]
fn nobody_gives_way_in_the_room_of_a_pod_that_is_a_reservation() {
    let hold = |owner: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: hold, labels: {{scheduling.koordinator.sh/operating-mode: Reservation}}, \
             annotations: {{scheduling.koordinator.sh/reservation-owners: '[{{\"labelSelector\":{{\"matchLabels\":\
             {{\"app\":\"old\"}}}}}}]', scheduling.koordinator.sh/reservation-current-owner: '{{\"namespace\":\"default\",\
             \"name\":\"{owner}\"}}'}}}}\nspec: {{nodeName: node-a, containers: [{{name: c, image: i, resources: {{requests: \
             {{cpu: '2'}}}}}}]}}\nstatus: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}\n---\n"
        )
    };
    let plan = plan_json(&(NODE.to_owned() + &running(OWNED) + &hold("old") + &urgent("", "")), &CATALOGUE);
    assert!(plan["nodes"].as_array().is_some_and(Vec::is_empty), "{plan}");
    assert_eq!(names(&plan["nodeClaims"][0]["pods"]), ["default/urgent"], "{plan}");
}
