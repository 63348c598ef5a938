//! What a page is told: small records, by name.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::history::Point;

/// A node, or a NodeClaim whose node has not joined yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    /// `on-demand`, `spot` or `reserved`; empty for a node that no NodePool has.
    pub(crate) capacity_type: String,
    pub(crate) pool: String,
    pub(crate) reservation: String,
    /// `launching`, `joining`, `ready`, `leaving` or `silent`.
    pub(crate) state: &'static str,
    /// Thousandths of a CPU: what pods may use, and what they use.
    pub(crate) cpu: i64,
    pub(crate) cpu_used: i64,
    /// Mebibytes.
    pub(crate) memory: i64,
    pub(crate) memory_used: i64,
    pub(crate) pods: u32,
    /// Dollars an hour: its own price, which is 0 on a slot, and the price without reservations.
    pub(crate) price: f64,
    pub(crate) unreserved: f64,
}

/// Pods of one workload that wait for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waiting {
    pub(crate) of: String,
    pub(crate) why: String,
    pub(crate) pods: u32,
}

/// Slots of a capacity reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Slots {
    pub(crate) used: i64,
    pub(crate) total: i64,
    pub(crate) state: String,
}

/// A Reservation: room that is held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Room {
    pub(crate) phase: String,
    pub(crate) node: String,
    pub(crate) owners: usize,
}

/// A sentence of the story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Said {
    /// Milliseconds since the page began.
    pub(crate) at: u64,
    pub(crate) event: String,
    pub(crate) message: String,
}

/// What is there, or what has changed: `None` is gone.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Frame {
    /// Milliseconds since the page began.
    pub(crate) at: u64,
    /// Whether this is all that there is, and what was before is forgotten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) whole: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) nodes: BTreeMap<String, Option<Node>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) waiting: BTreeMap<String, Option<Waiting>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slots: BTreeMap<String, Option<Slots>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rooms: BTreeMap<String, Option<Room>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) said: Vec<Said>,
    pub(crate) running: u32,
    /// With all that there is: how it stood before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) history: Vec<Point>,
}
