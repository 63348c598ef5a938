//! What NodeClaims and nodes that others made lack.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use berth_disruption::{HASH_VERSION, template_hash};

/// A NodePool with a hash that somebody else gave it.
fn foreign_pool(hash: &str, version: &str) -> NodePool {
    let mut pool = pool("0s");
    let annotations = [(labels::NODEPOOL_HASH, hash), (labels::NODEPOOL_HASH_VERSION, version)];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pool.metadata.annotations = Some(annotations.into());
    pool
}

#[test]
fn a_node_claim_and_then_its_node_get_the_label_of_the_node_class() {
    let without = json!({"metadata": {"labels": {CLASS: null}}});
    let scene = Scene::new().registered().with(&without).registered_node(&without);
    let (kind, _, patch) = scene.write();
    assert_eq!((kind, &patch["metadata"]["labels"]), (Kind::NodeClaim, &json!({CLASS: "default"})));
    let mut scene = Scene::new().registered().registered_node(&json!({}));
    json_patch::merge(&mut scene.nodes[0], &without);
    let (kind, _, patch) = scene.write();
    assert_eq!((kind, &patch["metadata"]["labels"]), (Kind::Node, &json!({CLASS: "default"})));
}

#[rstest]
#[case::as_its_pool("1", "v3", &json!([]), true)]
#[case::drifted("2", "v3", &json!([]), false)]
#[case::of_another_version("2", "v2", &json!([]), true)]
#[case::drifted_before("2", "v2", &json!([{"type": "Drifted", "status": "True", "reason": "NodePoolDrifted",
    "message": "", "lastTransitionTime": text(1)}]), false)]
#[case::drifted_for_its_image("1", "v2", &json!([{"type": "Drifted", "status": "True", "reason": "ImageDrift",
    "message": "", "lastTransitionTime": text(1)}]), true)]
fn a_hash_of_another_version_is_replaced_where_the_template_was_the_same(
    #[case] hash: &str,
    #[case] version: &str,
    #[case] conditions: &Value,
    #[case] is_replaced: bool,
) {
    let annotations = json!({labels::NODEPOOL_HASH: hash, labels::NODEPOOL_HASH_VERSION: version});
    let mut scene =
        Scene::new().with(&json!({"metadata": {"annotations": annotations}, "status": {"conditions": conditions}}));
    let pool = foreign_pool("1", "v3");
    let expected = is_replaced.then(|| template_hash(&pool));
    scene.pool = Some(pool);
    let (kind, _, patch) = scene.write();
    let written = &patch["metadata"]["annotations"];
    assert_eq!((kind, &written[labels::NODEPOOL_HASH_VERSION]), (Kind::NodeClaim, &json!(HASH_VERSION)));
    assert_eq!(written.get(labels::NODEPOOL_HASH), expected.map(Value::from).as_ref());
}

#[test]
fn one_that_is_not_of_a_pool_has_no_hash() {
    let scene = Scene::new().with(&json!({"metadata": {"annotations": null}}));
    let (_, _, patch) = scene.write();
    assert_eq!(patch["metadata"]["annotations"], json!({TOKEN_ANNOTATION: "uid-c.1"}));
}
