//! Whether a node is no longer as its NodePool says.

use std::collections::BTreeMap;

use berth_api::{NodeClaim, NodePool, Requirement, labels};

/// Why a node drifted, in Karpenter's words; `None` where it did not. `node_labels` are those of the node; without
/// `with_reserved`, the gate `ReservedCapacity`, that it is on a reservation is no drift.
pub(crate) fn drift(
    claim: Option<&NodeClaim>,
    node_labels: &BTreeMap<String, String>,
    pool: &NodePool,
    with_reserved: bool,
) -> Option<&'static str> {
    let conditions = claim.and_then(|claim| claim.status.as_ref()).map(|status| status.conditions.as_slice());
    let is_told =
        |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| c.type_ == "Drifted" && c.status == "True";
    if conditions.unwrap_or_default().iter().any(is_told) {
        return Some("Drifted");
    }
    static_drift(claim, node_labels, pool, with_reserved)
}

/// Why a node drifted from its NodePool, in Karpenter's words, whatever a condition says; `None` where it did not.
pub fn static_drift(
    claim: Option<&NodeClaim>,
    node_labels: &BTreeMap<String, String>,
    pool: &NodePool,
    with_reserved: bool,
) -> Option<&'static str> {
    if claim.is_some_and(|claim| has_other_hash(claim, pool)) {
        return Some("NodePoolDrifted");
    }
    let requirements = &pool.spec.template.spec.requirements;
    let is_reserved = node_labels.get(labels::CAPACITY_TYPE).is_some_and(|value| value == labels::RESERVED);
    let is_about_reserved = |requirement: &Requirement| {
        let key = labels::normalized(&requirement.key);
        key == labels::CAPACITY_TYPE || labels::RESERVATION_IDS.contains(&key)
    };
    let is_left_alone = |requirement: &Requirement| !with_reserved && is_reserved && is_about_reserved(requirement);
    let mut requirements = requirements.iter().filter(|requirement| !is_left_alone(requirement));
    (!requirements.all(|requirement| holds(requirement, node_labels))).then_some("RequirementsDrifted")
}

/// Whether the NodePool's template was another when the node was launched. Hashes of different versions say nothing.
fn has_other_hash(claim: &NodeClaim, pool: &NodePool) -> bool {
    let of = |all: Option<&BTreeMap<String, String>>, key: &str| all.and_then(|all| all.get(key)).cloned();
    let both =
        |key: &str| Some((of(claim.metadata.annotations.as_ref(), key)?, of(pool.metadata.annotations.as_ref(), key)?));
    let is_same_version = both(labels::NODEPOOL_HASH_VERSION).is_none_or(|(mine, theirs)| mine == theirs);
    is_same_version && both(labels::NODEPOOL_HASH).is_some_and(|(mine, theirs)| mine != theirs)
}

/// Whether a node's labels keep a requirement. Well-known labels that it does not have are no fault of it.
fn holds(requirement: &Requirement, node: &BTreeMap<String, String>) -> bool {
    let key = labels::normalized(&requirement.key);
    let found = node.get(key).or_else(|| node.get(&requirement.key));
    (found.is_none() && labels::is_well_known(key))
        || requirement.operator.admits(&requirement.values, found.map(String::as_str))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pool(requirements: &Value) -> NodePool {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": {labels::NODEPOOL_HASH: "1", labels::NODEPOOL_HASH_VERSION: "v3"}},
            "spec": {"template": {"spec": {"requirements": requirements}}}}))
        .unwrap()
    }

    fn claim(hash: &str, version: &str, conditions: &Value) -> NodeClaim {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "annotations": {labels::NODEPOOL_HASH: hash, labels::NODEPOOL_HASH_VERSION: version}},
            "spec": {"requirements": []}, "status": {"conditions": conditions}}))
        .unwrap()
    }

    #[rstest]
    #[case::same("1", "v3", None)]
    #[case::other("2", "v3", Some("NodePoolDrifted"))]
    #[case::other_version("2", "v2", None)]
    fn the_templates_hash_tells_drift(#[case] hash: &str, #[case] version: &str, #[case] expected: Option<&str>) {
        assert_eq!(drift(Some(&claim(hash, version, &json!([]))), &BTreeMap::new(), &pool(&json!([])), true), expected);
    }

    #[test]
    fn what_a_condition_says_is_drift() {
        let conditions = json!([{"type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        assert_eq!(
            drift(Some(&claim("1", "v3", &conditions)), &BTreeMap::new(), &pool(&json!([])), true),
            Some("Drifted")
        );
    }

    #[rstest]
    #[case(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}), true)]
    #[case(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "on-demand"]}), false)]
    // A well-known label that the node does not have.
    #[case(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}), false)]
    #[case(json!({"key": "team", "operator": "In", "values": ["web"]}), true)]
    #[case(json!({"key": "team", "operator": "DoesNotExist"}), false)]
    #[case(json!({"key": "cpus", "operator": "Gt", "values": ["4"]}), true)]
    #[case(json!({"key": "cpus", "operator": "Gte", "values": ["4"]}), false)]
    fn requirements_that_the_node_does_not_keep_are_drift(#[case] requirement: Value, #[case] drifted: bool) {
        let node = [("karpenter.sh/capacity-type", "on-demand"), ("cpus", "4")];
        let node = node.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let expected = drifted.then_some("RequirementsDrifted");
        assert_eq!(drift(None, &node, &pool(&json!([requirement])), true), expected);
        assert_eq!(drift(None, &node, &pool(&json!([requirement])), false), expected, "it is on no reservation");
    }

    #[test]
    fn with_the_gate_off_a_reserved_node_does_not_drift_for_being_one() {
        let node: BTreeMap<String, String> = [("karpenter.sh/capacity-type", "reserved"), ("team", "web")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let paid = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]});
        let team = json!({"key": "team", "operator": "In", "values": ["shop"]});
        assert_eq!(drift(None, &node, &pool(&json!([paid])), true), Some("RequirementsDrifted"));
        assert_eq!(drift(None, &node, &pool(&json!([paid])), false), None);
        assert_eq!(drift(None, &node, &pool(&json!([paid, team])), false), Some("RequirementsDrifted"));
    }
}
