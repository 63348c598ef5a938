//! The plan as `berth plan -o json` prints it (contract: one object of kind Plan).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::catalogue::Requirement;

/// The whole plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// What is told beside the plan, and not checked here.
    #[serde(default, rename = "provenance")]
    pub(crate) _provenance: IgnoredAny,
    #[serde(default, rename = "notes")]
    pub(crate) _notes: IgnoredAny,
    #[serde(default, rename = "repack")]
    pub(crate) _repack: IgnoredAny,
    #[serde(default, rename = "diff")]
    pub(crate) _diff: IgnoredAny,
    #[serde(default, rename = "disruption")]
    pub(crate) _disruption: IgnoredAny,
    pub(crate) summary: Summary,
    #[serde(default)]
    pub(crate) restrictions: Vec<Restricted>,
    pub(crate) reservations: Vec<SlotUse>,
    pub(crate) node_claims: Vec<Claim>,
    pub(crate) nodes: Vec<NodeUse>,
    pub(crate) unschedulable: Vec<Refusal>,
}

/// What the plan was restricted by.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Restricted {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) values: Vec<ValueShare>,
    pub(crate) hourly_cost: Option<f64>,
    pub(crate) unschedulable: Option<u64>,
}

/// How much of the plan a value has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValueShare {
    pub(crate) value: String,
    pub(crate) nodes: usize,
    pub(crate) share: f64,
}

/// Counts and costs of the whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Summary {
    #[serde(default, rename = "time")]
    pub(crate) _time: String,
    pub(crate) pods: usize,
    pub(crate) placed: usize,
    pub(crate) unschedulable: usize,
    pub(crate) node_claims: usize,
    pub(crate) hourly_cost: f64,
    pub(crate) list_cost: f64,
    pub(crate) node_cost: f64,
    pub(crate) lower_bound: Option<f64>,
    #[serde(default, rename = "boundRelaxes")]
    pub(crate) _bound_relaxes: Option<Vec<String>>,
    #[serde(default, rename = "searchStopped")]
    pub(crate) _search_stopped: Option<String>,
    #[serde(rename = "optimal", default)]
    pub(crate) _optimal: bool,
    #[serde(rename = "readSeconds", default)]
    pub(crate) _read_seconds: Option<f64>,
    #[serde(rename = "solveSeconds")]
    pub(crate) _solve_seconds: Option<f64>,
    pub(crate) reserved_slots: SlotCount,
}

/// Slots in all and used.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotCount {
    pub(crate) total: u64,
    pub(crate) used: u64,
}

/// Use of one capacity reservation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotUse {
    pub(crate) id: String,
    pub(crate) total: u64,
    pub(crate) used: u64,
}

/// The offering that a claim is planned on.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlannedOffering {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    #[serde(rename = "reservationID")]
    pub(crate) reservation_id: Option<String>,
    pub(crate) price: f64,
}

/// A pod that draws from a pod-level Reservation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allocation {
    pub(crate) pod: String,
    pub(crate) reservation: String,
}

/// A node to be launched.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) node_pool: String,
    pub(crate) offering: PlannedOffering,
    pub(crate) instance_types: Vec<String>,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) requests: serde_json::Value,
    pub(crate) pods: Vec<String>,
    pub(crate) reservations: Vec<String>,
    pub(crate) allocations: Vec<Allocation>,
}

/// What the plan binds to an existing node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeUse {
    pub(crate) name: String,
    pub(crate) pods: Vec<String>,
    pub(crate) reservations: Vec<String>,
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) preempted: Vec<String>,
    /// What pods and Reservations have to themselves.
    #[serde(default)]
    pub(crate) assigned: Vec<Assigned>,
}

/// Who has something to itself, with the annotations that say so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assigned {
    pub(crate) pod: Option<String>,
    #[serde(rename = "reservation")]
    pub(crate) _reservation: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A class of pods, or a Reservation, that the plan has no place for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusal {
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) count: usize,
    pub(crate) reasons: Vec<Reason>,
}

/// A counted reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    pub(crate) reason: String,
    #[serde(rename = "count")]
    pub(crate) _count: u64,
}
