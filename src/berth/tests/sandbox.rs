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
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {schedulerName: nobody, containers: [{name: c, image: i}]}}";
    let run = with_input(&["sandbox", "-f", "-", "--exit-when-settled"], pod);
    assert_eq!((run.code, run.stderr.as_str()), (1, "left over: pod default/big\n"));
}

#[test]
fn bad_input_is_told_and_starts_nothing() {
    for (args, expected) in [
        (vec!["sandbox"], "error: an empty cluster that nobody can reach"),
        (vec!["sandbox", "-f", "/nonexistent"], "error: /nonexistent: cannot be read"),
        (vec!["sandbox", "--kubeconfig", "/nonexistent/config"], "error: unable to write the kubeconfig"),
        (vec!["sandbox", "-f", "/dev/null"], "error: "),
    ] {
        let run = berth(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with(expected), "{args:?}: {}", run.stderr);
    }
}
