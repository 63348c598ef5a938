//! What a CustomResourceDefinition requires and a file leaves out is told, and read all the same.
#![allow(clippy::unwrap_used, reason = "tests unpack outcomes plainly")]

use berth_manifests::{ManifestError, Options, Summary, Validate, read_from};
use rstest::rstest;

fn read(text: &str, validate: Validate) -> Summary {
    let mut options = Options::default();
    options.validate = validate;
    read_from("f.yaml", text.as_bytes(), &options, |_, _| Ok::<(), ManifestError>(())).unwrap()
}

fn pool(spec: &str) -> String {
    format!("{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: p}}, spec: {spec}}}")
}

fn room(owner: &str) -> String {
    format!(
        "{{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {{name: r}}, spec: {{owners: [{owner}], \
         template: {{spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: '1'}}}}}}]}}}}}}}}"
    )
}

const CLASS: &str = "nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}";

/// The regressions: such NodePools were planned in silence.
#[rstest]
#[case::template("{}", "NodePool p): spec.template: missing, expected an object with spec")]
#[case::of_the_template(
    "{template: {}}",
    "NodePool p): spec.template.spec: missing, expected an object with nodeClassRef and requirements"
)]
#[case::class(
    "{template: {spec: {requirements: []}}}",
    "NodePool p): spec.template.spec.nodeClassRef: missing, expected an object with group, kind and name"
)]
#[case::disruption(&format!("{{disruption: {{consolidationPolicy: WhenEmpty}}, template: {{spec: {{requirements: [], {CLASS}}}}}}}"),
    "NodePool p): spec.disruption.consolidateAfter: missing, expected text")]
fn what_a_node_pool_leaves_out_is_told(#[case] spec: &str, #[case] expected: &str) {
    let summary = read(&pool(spec), Validate::Strict);
    assert_eq!((summary.objects, summary.n_warnings), (1, 1));
    let told = summary.warnings[0].to_string();
    let expected = format!("f.yaml: document 1 ({expected}; it is planned, but no API server takes it");
    assert!(told.starts_with(&expected), "{told}");
    assert_eq!(read(&pool(spec), Validate::Ignore).n_warnings, 0, "what comes from a server is there");
}

#[rstest]
#[case::node_claim("karpenter.sh/v1", "NodeClaim", "spec: {requirements: []}", "spec.nodeClassRef")]
#[case::node_overlay("karpenter.sh/v1alpha1", "NodeOverlay", "spec: {price: '1'}", "spec.requirements")]
fn what_other_objects_leave_out_is_told(
    #[case] version: &str,
    #[case] kind: &str,
    #[case] rest: &str,
    #[case] field: &str,
) {
    let told = read(&format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: o}}, {rest}}}"), Validate::Warn)
        .warnings;
    assert!(
        told.iter().any(|told| told.to_string().contains(&format!("{kind} o): {field}: missing, expected"))),
        "{told:?}"
    );
}

#[test]
fn what_has_a_default_or_is_all_there_is_not_told() {
    let whole = pool(&format!("{{template: {{spec: {{requirements: [], {CLASS}}}}}}}"));
    assert_eq!(read(&whole, Validate::Strict).n_warnings, 0);
    assert_eq!(read(&room("{labelSelector: {matchLabels: {app: web}}}"), Validate::Strict).n_warnings, 0);
}
