//! Bad input: exit code 2, nothing on standard output, and a message that says where and what.

mod common;

use std::fmt::Write;

use common::{Run, berth, plan};
use rstest::rstest;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: team}\n";

fn assert_refused(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is not in {}", run.stderr);
    }
}

#[rstest]
#[case::malformed_yaml("kind: [Pod\n", &["standard input: document 1"])]
#[case::a_second_document(&format!("{POD}spec: {{containers: [{{name: a, image: a}}]}}\n---\nkind: [\n"), &["document 2"])]
#[case::unknown_kind("apiVersion: v1\nkind: Pot\nmetadata: {name: a}\n", &["document 1", "Pot"])]
#[case::unknown_field(&format!("{POD}spec: {{containers: [{{name: a, imagine: a}}]}}\n"), &["Pod team/web", "imagine"])]
#[case::negative_quantity(
    &format!("{POD}spec: {{containers: [{{name: a, image: a, resources: {{requests: {{cpu: -1}}}}}}]}}\n"),
    &["document 1 (Pod team/web)", "requests", "cpu", "-1"]
)]
#[case::absurd_quantity(
    &format!("{POD}spec: {{containers: [{{name: a, image: a, resources: {{requests: {{memory: 1e99}}}}}}]}}\n"),
    &["Pod team/web", "memory"]
)]
#[case::restricted_label(
    &pool("template: {spec: {nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: a}, \
           requirements: [{key: karpenter.sh/nodepool, operator: In, values: [b]}]}}"),
    &["NodePool a", "spec.template.spec.requirements", "karpenter.sh/nodepool", "restricted"]
)]
#[case::requirements_at_the_short_place(
    &pool("requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}]"),
    &["NodePool a", "spec.requirements", "spec.template.spec.requirements"]
)]
#[case::nothing("", &["standard input"])]
#[case::only_a_comment("# nothing\n---\n", &["standard input"])]
fn manifests_that_the_api_server_would_refuse(#[case] manifests: &str, #[case] words: &[&str]) {
    assert_refused(&plan(manifests, &[]), words);
    assert_refused(&plan(manifests, &["-o", "json"]), words);
}

fn pool(spec: &str) -> String {
    format!("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\nspec: {{{spec}}}\n")
}

#[test]
fn a_hundred_thousand_labels_are_planned_or_refused_but_never_crash() {
    let mut manifest = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n".to_owned();
    for index in 0..100_000 {
        writeln!(manifest, "    label-{index}: x").unwrap();
    }
    manifest.push_str("spec: {containers: [{name: a, image: a}]}\n");
    let run = plan(&manifest, &["-o", "json"]);
    match run.code {
        0 => assert!(run.stdout.contains("default/web")),
        _ => assert_refused(&run, &["document 1"]),
    }
}

#[rstest]
#[case::unknown_gate(&["--feature-gates", "Drift=true"], &["Drift", "ReservedCapacity", "NodeOverlay"])]
#[case::no_boolean(&["--feature-gates", "NodeOverlay=maybe"], &["NodeOverlay=maybe"])]
#[case::negative_node_cost(&["--node-cost=-1"], &["dollars"])]
#[case::unknown_effort(&["--effort", "heroic"], &["low", "default", "high"])]
#[case::unknown_format(&["-o", "xml"], &["table", "json", "yaml", "html"])]
#[case::no_such_catalogue(&["--instance-types", "nowhere.yaml"], &["nowhere.yaml: No such file or directory (os error 2)\n"])]
fn flags_that_make_no_sense(#[case] flags: &[&str], #[case] words: &[&str]) {
    assert_refused(&plan(&format!("{POD}spec: {{containers: [{{name: a, image: a}}]}}\n"), flags), words);
}

#[test]
fn without_manifests_the_error_says_what_to_do() {
    assert_refused(&berth(&["plan"]), &["-f FILE", "berth plan -f"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    assert_refused(&berth(&["plan", "-f", "examples/nowhere.yaml"]), &["examples/nowhere.yaml"]);
}

#[test]
fn a_catalogue_is_no_manifest() {
    assert_refused(
        &berth(&["plan", "-f", "examples/catalogues"]),
        &["examples/catalogues/four-slots.yaml", "files holds a Kubernetes object"],
    );
}

#[test]
fn a_scheduler_configuration_that_is_none_is_named_with_its_field() {
    let run = berth(&["plan", "-f", "examples/room", "--scheduler-config", "examples/room/nodepool.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("kind: found \"NodePool\", expected KubeSchedulerConfiguration"), "{}", run.stderr);
}

#[test]
fn a_made_up_trace_with_fewer_pods_than_its_deployments_have_is_refused() {
    let run = berth(&["trace", "generate", "--services", "500", "--service-pods", "10"]);
    assert_refused(&run, &["--service-pods", "found 10", "expected 1000 or more"]);
}
