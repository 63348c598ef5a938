//! What a cloud says of node classes and of nodes that no longer are what they should be.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether a node class can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeClassStatus {
    /// It can.
    Ready {
        /// A digest of what decides about nodes; a node made under another one has drifted.
        hash: String,
    },
    /// It cannot: no launch, and the NodePools that use it are not ready.
    NotReady {
        /// A CamelCase word, as a condition's reason.
        reason: String,
        /// What is wrong with which field, and what was expected.
        message: String,
    },
}

/// Why an instance is no longer what its node class asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// A CamelCase word, as a condition's reason, such as `NodeClassDrift`.
    pub reason: String,
    /// What differs.
    pub message: String,
}

/// A node condition that means the machine is broken: the node is replaced if it lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairPolicy {
    /// The type of the node's condition, such as `Ready`.
    pub condition_type: String,
    /// The condition's status that means trouble: `True`, `False` or `Unknown`.
    pub condition_status: String,
    /// How long it is borne.
    pub toleration: Duration,
}
