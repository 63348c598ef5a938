//! What NodePools, NodeClaims and NodeOverlays share: requirements on node labels and the node class.

use serde::{Deserialize, Serialize};

/// How a requirement's values bear on the label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Operator {
    /// The label is one of the values.
    #[default]
    In,
    /// The label is absent or none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
    /// The label is an integer not below the value.
    Gte,
    /// The label is an integer not above the value.
    Lte,
}

impl Operator {
    /// Whether the operator compares integers, so that it needs exactly one value.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }

    /// The operator as manifests write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

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
