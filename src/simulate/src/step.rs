//! What happens in a simulation, and when.

use std::sync::Arc;

use berth_catalogue::{CapacityType, Money};
use berth_manifests::Object;
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
    /// With `may_be_gone`, it is no mistake if there is none.
    Delete {
        api_version: Arc<str>,
        kind: Arc<str>,
        namespace: Arc<str>,
        name: Arc<str>,
        may_be_gone: bool,
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
