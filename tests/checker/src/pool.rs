//! NodePools and pod-level Reservations, as far as a checker needs them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodTemplateSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use crate::catalogue::Requirement;
use crate::quantity::{self, Resources};
use crate::selectors::Labels;

/// A NodePool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) labels: Labels,
    pub(crate) annotations: Labels,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) startup_taints: Vec<Taint>,
    /// Resources, and `nodes` as a count.
    pub(crate) limits: Resources,
    /// Has a fixed number of replicas: nothing is launched for pods.
    pub(crate) is_static: bool,
}

fn typed<T: for<'de> Deserialize<'de> + Default>(value: Option<&Value>) -> T {
    value.and_then(|v| T::deserialize(v).ok()).unwrap_or_default()
}

impl Pool {
    pub(crate) fn read(object: &Value) -> Self {
        let spec = object.get("spec");
        let template = spec.and_then(|s| s.get("template"));
        let inner = template.and_then(|t| t.get("spec"));
        let at = |name: &str| inner.and_then(|s| s.get(name));
        Self {
            labels: typed(object.pointer("/spec/template/metadata/labels")),
            annotations: typed(object.pointer("/spec/template/metadata/annotations")),
            requirements: typed(at("requirements")),
            taints: typed(at("taints")),
            startup_taints: typed(at("startupTaints")),
            limits: quantity::from_json(spec.and_then(|s| s.get("limits"))),
            is_static: spec.and_then(|s| s.get("replicas")).is_some_and(|r| !r.is_null()),
        }
    }

    /// The pool that a plan without NodePools has: open, linux, amd64.
    pub(crate) fn open() -> Self {
        let only = |key: &str, value: &str| Requirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: vec![value.to_owned()],
            min_values: None,
        };
        Self {
            requirements: vec![only(crate::catalogue::OS, "linux"), only(crate::catalogue::ARCH, "amd64")],
            ..Self::default()
        }
    }
}

/// Who may draw from a Reservation: all set fields of an entry, any entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReservationOwner {
    pub(crate) object: Option<BTreeMap<String, Value>>,
    pub(crate) controller: Option<BTreeMap<String, Value>>,
    pub(crate) label_selector: Option<LabelSelector>,
}

/// A pod-level Reservation.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "the object's own flags, which vary independently")]
pub(crate) struct Reservation {
    pub(crate) name: String,
    pub(crate) template: PodTemplateSpec,
    pub(crate) owners: Vec<ReservationOwner>,
    pub(crate) allocate_once: bool,
    pub(crate) restricted: bool,
    pub(crate) unschedulable: bool,
    /// The lowest comes first; those without a number last.
    pub(crate) order: Option<i64>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) phase: String,
    pub(crate) node: Option<String>,
    pub(crate) allocatable: Resources,
    pub(crate) allocated: Resources,
    pub(crate) has_owners: bool,
    /// A new place is to be found for it: pending, not pre-allocating.
    pub(crate) is_pending: bool,
    /// The one node that it may be placed on.
    pub(crate) pinned_to: Option<String>,
}

impl Reservation {
    pub(crate) fn read(object: &Value) -> Self {
        let at = |path: &str| object.pointer(path);
        let text = |path: &str| at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |path: &str| at(path).and_then(Value::as_bool);
        let template: PodTemplateSpec = typed(at("/spec/template"));
        let phase = text("/status/phase");
        let node = at("/status/nodeName").and_then(Value::as_str).map(str::to_owned);
        let pinned_to = template.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|name| !name.is_empty());
        let is_pending = (phase.is_empty() || phase == "Pending")
            && flag("/spec/preAllocation") != Some(true)
            && at("/metadata/deletionTimestamp").is_none();
        Self {
            name: text("/metadata/name"),
            template,
            owners: typed(at("/spec/owners")),
            allocate_once: flag("/spec/allocateOnce").unwrap_or(true),
            restricted: text("/spec/allocatePolicy") == "Restricted",
            unschedulable: flag("/spec/unschedulable").unwrap_or(false),
            order: at("/metadata/labels/scheduling.koordinator.sh~1reservation-order")
                .and_then(|order| order.as_str()?.parse().ok())
                .filter(|order| *order != 0),
            taints: typed(at("/spec/taints")),
            has_owners: at("/status/currentOwners").and_then(Value::as_array).is_some_and(|o| !o.is_empty()),
            allocatable: quantity::from_json(at("/status/allocatable")),
            allocated: quantity::from_json(at("/status/allocated")),
            phase,
            node,
            is_pending,
            pinned_to,
        }
    }

    /// Holds room on a node now.
    pub(crate) fn is_holding(&self) -> bool {
        (self.phase == "Available" || self.phase == "Waiting") && self.node.is_some()
    }

    /// The room that nobody has drawn yet.
    pub(crate) fn unallocated(&self) -> Resources {
        if self.allocate_once && self.has_owners {
            return Resources::new();
        }
        let left = |(name, amount): (&String, &i128)| {
            let taken = self.allocated.get(name).copied().unwrap_or_default();
            (name.clone(), (amount - taken).max(0))
        };
        self.allocatable.iter().map(left).collect()
    }
}
