//! What NodePools, NodeClaims and NodeOverlays share: requirements on node labels and the node class.

use berth_quantity::Operator;
use serde::{Deserialize, Serialize};

/// A condition on a node label, and how many different values of it must stay open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label that the condition is on.
    pub key: String,
    /// How the values bear on the label.
    pub operator: Operator,
    /// At least one for In and NotIn, none for Exists and DoesNotExist, one integer for the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The least number of different values of the label among the instance types of a node, 1 to 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

/// The object that tells a cloud how to make nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct NodeClassRef {
    /// The API group of the node class, without a version. Immutable in a NodePool.
    pub group: String,
    /// The kind of the node class. Immutable in a NodePool.
    pub kind: String,
    /// The name of the node class.
    pub name: String,
}
