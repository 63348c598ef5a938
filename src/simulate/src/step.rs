//! What happens in a simulation, and when.

use std::sync::Arc;

use berth_catalogue::{CapacityType, Money};
use berth_manifests::Object;
use serde::Deserialize;
use serde_json::Value;

use crate::scenario::{Machines, Paid, Scaled};

/// Something that happens at a time.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Milliseconds after the start.
    pub(crate) at: u64,
    /// Where it is said.
    pub(crate) origin: Origin,
    pub(crate) action: Action,
}

/// Where a step is said, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An event of the scenario, by its place in the list.
    Event(usize),
    /// A line of a trace: which file, and which line from 1.
    Trace(usize, usize),
    /// An event of a trace of SimKube: which file, and which event from 0.
    Exported(usize, usize),
}

/// What becomes of what a deleted object has made, as the API's `propagationPolicy` says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Propagation {
    /// It goes, too.
    #[default]
    Background,
    /// It stays, without an owner.
    Orphan,
}

/// What happens.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Scale {
        kind: Scaled,
        namespace: Arc<str>,
        name: Arc<str>,
        replicas: u32,
    },
    Apply(Arc<Vec<Object>>),
    /// A ConfigMap, with the catalogue of a node class.
    Catalogue(Arc<Value>),
    /// Fields of an object are changed, as by a JSON merge patch. With `may_be_gone`, it is no mistake if there is none.
    Patch {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Arc<str>,
        name: Arc<str>,
        may_be_gone: bool,
        fields: Arc<Value>,
    },
    /// With `may_be_gone`, it is no mistake if there is none.
    Delete {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Arc<str>,
        name: Arc<str>,
        may_be_gone: bool,
        propagation: Propagation,
    },
    Reservation {
        id: Arc<str>,
        count: Option<u32>,
        used_by_others: Option<u32>,
    },
    Stock(Offering, Option<u32>),
    Price(Offering, Money),
    Interrupt(Arc<Machines>),
    Kill(Arc<Machines>),
    Pod(Arrival),
}

// === impl Step ===

impl Step {
    /// What happens, for people who look on. `None` for the pods of traces, of which there are many.
    pub(crate) fn in_words(&self) -> Option<String> {
        let offered = |offering: &Offering| {
            let zone = offering.zone.as_ref().map_or_else(String::new, |zone| format!(" in {zone}"));
            format!("{} {}{zone}", offering.capacity_type, offering.instance_type)
        };
        let machines = |machines: &Machines| {
            let named = [&machines.node, &machines.node_pool, &machines.instance_type, &machines.zone];
            let named: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
            let of = if named.is_empty() { String::new() } else { format!(" of {}", named.join(", ")) };
            format!("{}{of}", machines.count.unwrap_or(1))
        };
        Some(match &self.action {
            Action::Pod(_) | Action::Catalogue(_) => return None,
            Action::Scale { kind, namespace, name, replicas } => {
                format!("{kind:?} {namespace}/{name} is scaled to {replicas}")
            }
            Action::Apply(objects) => match objects.as_slice() {
                [only] => format!("{} {} is applied", only.kind(), only.metadata().name.as_deref().unwrap_or_default()),
                all => format!("{} objects are applied", all.len()),
            },
            Action::Patch { kind, name, .. } => format!("{kind} {name} is changed"),
            Action::Delete { kind, name, .. } => format!("{kind} {name} is deleted"),
            Action::Reservation { id, count, used_by_others } => {
                let count = count.map(|count| format!("{count} slots"));
                let others = used_by_others.map(|used| format!("{used} used by others"));
                let said: Vec<String> = [count, others].into_iter().flatten().collect();
                format!("capacity reservation {id}: {}", said.join(", "))
            }
            Action::Stock(offering, None) => format!("{} is in stock again", offered(offering)),
            Action::Stock(offering, Some(left)) => format!("{}: {left} left in stock", offered(offering)),
            Action::Price(offering, price) => format!("{} costs ${} an hour now", offered(offering), price.dollars()),
            Action::Interrupt(of) => format!("the cloud takes instances back: {}", machines(of)),
            Action::Kill(of) => format!("machines die: {}", machines(of)),
        })
    }
}

/// A paid offering, in one zone or in all that it is in.
#[derive(Debug, Clone)]
pub(crate) struct Offering {
    pub(crate) instance_type: String,
    pub(crate) zone: Option<String>,
    pub(crate) capacity_type: CapacityType,
}

/// An offering as scenarios and traces name it.
pub(crate) fn offering(instance_type: &str, zone: Option<&String>, paid: Paid) -> Offering {
    let capacity_type = match paid {
        Paid::OnDemand => CapacityType::OnDemand,
        Paid::Spot => CapacityType::Spot,
    };
    Offering { instance_type: instance_type.to_owned(), zone: zone.cloned(), capacity_type }
}

/// A pod that comes, and runs for a while.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// What it is like: a Pod without name.
    pub(crate) template: Arc<Template>,
    pub(crate) name: Box<str>,
    /// Milliseconds from its start to its end; without it, it stays.
    pub(crate) runs_for: Option<u64>,
}

/// What alike pods of a trace have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    pub(crate) namespace: String,
    pub(crate) pod: Value,
}

/// The most pods that a scenario may ask for at a time: each takes some ten kilobytes over all parts.
pub(crate) const MOST_PODS: u64 = 200_000;
/// The most steps of a scenario.
pub(crate) const MOST_STEPS: usize = 5_000_000;
