//! The small subcommands, and what a pipe does to all of them.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use std::io::Read;
use std::process::{Command, Stdio};

use common::{berth, plan};
use rstest::rstest;

#[test]
fn crds_prints_every_definition() {
    let run = berth(&["crds"]);
    assert_eq!(run.code, 0);
    for kind in ["NodePool", "NodeClaim", "NodeOverlay", "Reservation", "FakeNodeClass"] {
        assert!(run.stdout.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    assert_eq!(run.stdout.matches("kind: CustomResourceDefinition").count(), 6);
}

#[rstest]
#[case::json("json")]
#[case::yaml("yaml")]
fn the_catalogue_that_is_printed_can_be_read_again(#[case] format: &str) {
    let text = berth(&["catalog", "-o", format]).stdout;
    let file = std::env::temp_dir().join(format!("berth-catalog-{}.{format}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let args = ["plan", "-f", "examples/one-slot/workloads.yaml", "-o", "json", "--now", "2026-01-01T00:00:00Z"];
    let own = berth(&args);
    let given = berth(&[&args[..], &["--instance-types", file.to_str().unwrap()]].concat());
    std::fs::remove_file(&file).unwrap();
    let nodes = |run: &common::Run| run.stdout.split_once("\"summary\"").map(|(_, rest)| rest.to_owned());
    assert!(nodes(&own).is_some(), "{}", own.stderr);
    assert_eq!((given.code, nodes(&given)), (own.code, nodes(&own)));
}

#[rstest]
#[case::plan(&["plan", "-f", "examples/one-slot", "-o", "json"])]
#[case::catalog(&["catalog"])]
#[case::crds(&["crds"])]
fn a_reader_that_stops_early_is_no_error(#[case] args: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(args)
        .current_dir(common::root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error:"), "{stderr}");
}

fn full_device() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[rstest]
#[case::plan(&["plan", "-f", "examples/one-slot"], 0)]
#[case::plan_with_timings(&["plan", "-f", "examples/one-slot", "--timings"], 0)]
#[case::plan_of_bad_input(&["plan", "-f", "no-such-file"], 2)]
#[case::plan_of_nothing(&["plan"], 2)]
#[case::explain(&["explain", "-f", "examples/one-slot", "pod/no-such-pod"], 2)]
#[case::catalog(&["catalog"], 0)]
#[case::crds(&["crds"], 0)]
#[case::no_such_command(&["plane"], 2)]
fn full_streams_are_no_reason_to_panic(#[case] args: &[&str], #[case] code: i32) {
    let run = |out: Stdio, err: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(args).current_dir(common::root()).stdin(Stdio::null()).stdout(out).stderr(err);
        command.output().unwrap()
    };
    assert_eq!(run(Stdio::piped(), full_device()).status.code(), Some(code), "standard error is full");
    assert_eq!(run(full_device(), full_device()).status.code(), Some(2), "both are full");
    let output = run(full_device(), Stdio::piped());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[rstest]
#[case("100000")]
#[case("20000")]
#[case("0")]
#[case("-1")]
#[case("many")]
fn threads_beyond_reason_are_refused(#[case] threads: &str) {
    let run = berth(&["plan", "-f", "examples/one-slot", &format!("--threads={threads}")]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("--threads") && run.stderr.contains(threads), "{}", run.stderr);
}

#[test]
fn the_cheapest_plan_of_a_few_pods_is_said_to_be_optimal() {
    let pods = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n  \
        selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: \
        [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}]}\n";
    // Where pods do not fill nodes, fractions of nodes would be cheaper.
    let run = plan(pods, &["--bound"]);
    assert!(run.stdout.contains("this one is optimal"), "{}", run.stdout);
}

#[test]
fn no_bound_counts_an_owner_beside_the_room_that_it_is_in() {
    // A node takes four pods: the owner, in the Reservation's room, and three that keep to it.
    let catalogue = r#"[{"name": "t", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "16", "memory": "32Gi", "pods": "4"}, "offerings": [{"Price": 0.6, "Available": true,
        "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}]"#;
    let file = std::env::temp_dir().join(format!("berth-four-pods-{}.json", std::process::id()));
    std::fs::write(&file, catalogue).unwrap();
    let containers = |cpu| format!("containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]");
    let deployment = |name: &str, replicas: u32, spec: String| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
             spec: {{{spec}}}\n"
        )
    };
    let beside_web = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
        [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let manifests = format!(
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {{name: room}}\nspec:\n  \
         owners: [{{labelSelector: {{matchLabels: {{app: web}}}}}}]\n  template: {{spec: {{{}}}}}\n{}{}",
        containers("1"),
        deployment("web", 1, containers("2")),
        deployment("side", 3, format!("{beside_web}, {}", containers("1500m"))),
    );
    let plan = common::plan_json(&manifests, &["--bound", "--instance-types", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let summary = &plan["summary"];
    assert_eq!((&summary["placed"], &summary["nodeClaims"]), (&4.into(), &1.into()), "{plan}");
    assert!(summary["lowerBound"].as_f64() <= summary["hourlyCost"].as_f64(), "{summary}");
}

#[test]
fn many_threads_give_the_same_plan() {
    let now = "2026-01-01T00:00:00Z";
    let plan =
        |threads| berth(&["plan", "-f", "examples/one-slot", "-o", "json", "--now", now, "--threads", threads]).stdout;
    assert_eq!(plan("256"), plan("1"));
}
