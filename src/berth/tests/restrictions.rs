//! Choices that keep a cheap plan sane, on the command line.

mod common;

use common::{berth, plan, plan_json};

fn web(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: a, image: a, resources: {{requests: {{cpu: '1', memory: 2Gi}}}}}}]}}\n"
    )
}

#[test]
fn a_share_is_told_with_what_each_value_has() {
    let plan = plan_json(&web(20), &["--max-share", "zone=50%,capacityType=spot=0.7"]);
    let restrictions = plan["restrictions"].as_array().unwrap();
    let names: Vec<&str> = restrictions.iter().map(|known| known["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["--max-share zone=50%", "--max-share capacityType=spot=70%"]);
    for (known, most) in restrictions.iter().zip([0.5, 0.7]) {
        assert!(known["hourlyCost"].is_null());
        let shares = known["values"].as_array().unwrap().iter().map(|value| value["share"].as_f64().unwrap());
        assert!(shares.into_iter().all(|share| share <= most), "{known}");
    }
    assert_eq!(plan["summary"]["placed"], 20);
}

#[test]
fn a_plan_without_shares_has_no_restrictions_to_tell_of() {
    assert!(plan_json(&web(2), &[]).get("restrictions").is_none());
}

#[test]
fn what_restrictions_cost_is_told_where_it_is_asked_for() {
    let args = ["--max-share", "capacityType=spot=0", "--node-cost", "0.01", "--what-restrictions-cost"];
    let json = plan_json(&web(20), &args);
    let restrictions = json["restrictions"].as_array().unwrap();
    let spot = restrictions.iter().find(|known| known["name"] == "--max-share capacityType=spot=0%").unwrap();
    assert!(spot["hourlyCost"].as_f64().unwrap() > 0.0, "{spot}");
    assert!(restrictions.iter().any(|known| known["name"] == "--node-cost 0.01"), "{json}");
    let table = plan(&web(20), &args).stdout;
    assert!(table.contains("RESTRICTION"), "{table}");
    assert!(table.contains("COSTS $/H"), "{table}");
    let page = plan(&web(20), &[&args[..], &["-o", "html"]].concat()).stdout;
    assert!(page.contains("<td>--max-share capacityType=spot=0%</td>"), "{page}");
}

#[test]
fn a_share_that_is_none_names_flag_and_key_and_what_was_expected() {
    for (share, expected) in [
        ("region=0.5", "expected the key zone, instanceType or capacityType"),
        ("zone=2", "expected a share from 0 to 1"),
        ("capacityType=cheap=0.5", "expected the capacity type reserved, spot or on-demand"),
    ] {
        let run = plan(&web(1), &["--max-share", share]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{share}");
        assert!(run.stderr.contains("--max-share") && run.stderr.contains(expected), "{}", run.stderr);
    }
    let run = plan(&web(1), &["--max-share", "zone=nowhere=0.5"]);
    assert_eq!(run.code, 0);
    let warning = "--max-share zone=nowhere: nothing that the instance catalogue offers has it";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn a_pod_that_a_share_leaves_out_is_told_of_it() {
    let pool = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: any-zone}\nspec:\n  template:\n    \
                spec:\n      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n      \
                requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]\n";
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {nodeSelector: {topology.kubernetes.io/zone: port-1a}, containers: [{name: a, \
               image: a, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: '1'}}}]}\n";
    let pods: String = ["one", "two"].iter().map(|name| pod.replace("NAME", name)).collect();
    let file = std::env::temp_dir().join(format!("berth-share-{}.yaml", std::process::id()));
    std::fs::write(&file, format!("{pool}{pods}")).unwrap();
    let run = berth(&["explain", "-f", file.to_str().unwrap(), "--max-share", "zone=50%", "pod/two"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("zone port-1a has its max-share of 50%"), "{}", run.stdout);
    assert!(run.stdout.contains("0 of"), "{}", run.stdout);
}
