//! `berth sandbox`, run as a user runs it.

mod common;

use common::{berth, with_input};

#[test]
fn a_claim_settles_as_a_node() {
    let claim = "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: mine}
spec:
  nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";
    let run = with_input(&["sandbox", "-f", "-", "--exit-when-settled", "-o", "json"], claim);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let events: Vec<String> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events, ["Launched", "NodesReady"]);
}

#[test]
fn what_is_left_over_is_named() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {nodeSelector: {there-is: none}, containers: [{name: c, image: i}]}}";
    let run = with_input(&["sandbox", "-f", "-", "--exit-when-settled"], pod);
    assert_eq!(run.code, 1);
    let why = "left over: pod default/big: 0/0 nodes are available. No new node: NodePool default: ";
    assert!(run.stderr.starts_with(why), "{}", run.stderr);
}

#[test]
fn pending_pods_become_nodes_slots_first() {
    let (files, types) = ("examples/reserved-first", "examples/catalogues/four-slots.yaml");
    let run = berth(&["sandbox", "-f", files, "--instance-types", types, "--exit-when-settled"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let launched =
        "14 pods pending → 5 nodes: 4 × m5.xlarge on cr-web, 1 × m5.xlarge on-demand in port-1a; all nodes $0.192/h";
    assert!(run.stdout.contains(launched), "{}", run.stdout);
}

#[test]
fn bad_input_is_told_and_starts_nothing() {
    for (args, expected) in [
        (vec!["sandbox", "--instance-types", "x.yaml"], "error: --instance-types without objects"),
        (vec!["sandbox", "--max-share", "zone=2"], "error: "),
        (vec!["sandbox", "-f", "/nonexistent"], "error: /nonexistent: cannot be read"),
        (vec!["sandbox", "--kubeconfig", "/nonexistent/config"], "error: unable to write the kubeconfig"),
        (vec!["sandbox", "-f", "/dev/null"], "error: "),
    ] {
        let run = berth(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with(expected), "{args:?}: {}", run.stderr);
    }
}
