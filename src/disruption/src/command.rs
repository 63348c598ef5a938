//! What disruption decides: commands in order, what they save, and why every other node stays.

use std::collections::BTreeSet;

use berth_decisions::Launch;
use berth_model::Money;
use berth_state::{Key, ObjectRef};

use crate::pods::DisruptionCost;
use crate::reason::Reason;

/// How a command was found, by Karpenter's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Nodes without pods that move.
    Emptiness,
    /// A node that is no longer as its NodePool says.
    Drift,
    /// Such a node on a slot, where its pods find no other place: it goes first, and its replacement takes the slot.
    DriftInSlot,
    /// Several nodes whose pods fit elsewhere, or on something cheaper.
    MultiNodeConsolidation,
    /// One such node.
    SingleNodeConsolidation,
}

impl Method {
    /// Whether it takes nodes for what they are, and not for what they cost.
    #[must_use]
    pub fn is_drift(self) -> bool {
        matches!(self, Method::Drift | Method::DriftInSlot)
    }
}

/// Where each pod, and each Reservation's room, that moves comes next: a node, or one of the replacements, by name.
pub type Places = Vec<(Key, String)>;

/// Nodes that go together, and what is launched in their place first.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// How it was found.
    pub method: Method,
    /// The nodes that go, by name.
    pub nodes: Vec<ObjectRef>,
    /// What is launched first, each with the name that later commands know it by.
    pub replacements: Vec<(String, Launch)>,
    /// Where its pods come next.
    pub places: Places,
    /// What its nodes cost an hour, less what is launched in their place. Below zero where drift costs more, or where pods
    /// that wait share what is launched.
    pub savings: Money,
    /// What it saves by the price list, where slots cost as on demand.
    pub list_savings: Money,
    /// What it saves an hour beyond prices, by what each node costs beside its own.
    pub node_savings: Money,
    /// How many pods are evicted.
    pub evictions: usize,
    /// What that costs, as Karpenter counts it; of each node the part that is left of its lifetime.
    pub cost: DisruptionCost,
    /// In which round budgets let it begin; 0 is now.
    pub batch: usize,
}

/// A node that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The node.
    pub node: ObjectRef,
    /// Why; never empty.
    pub reasons: Vec<Reason>,
    /// What sort of reasons they are.
    pub why: Why,
}

/// What sort of reason keeps a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Something forbids its disruption, whatever the method.
    Blocked,
    /// Pods have not left it alone for long enough, or its NodePool says so.
    Unripe,
    /// A budget of its NodePool alone lets it not go now.
    Budget,
    /// It was considered: it would not pay, or its pods would have no place.
    Unconsolidatable,
}

/// The answer. Every list is in a fixed order: the same state gives the same bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disruption {
    /// What is done, in order: each is worth it by itself once those before it are done.
    pub commands: Vec<Command>,
    /// Every other node of a NodePool, by name.
    pub kept: Vec<Kept>,
    /// What all nodes of known types, of NodePools or not, cost an hour now, reserved as 0.
    pub hourly_cost: Money,
    /// And once every command is done.
    pub settled_hourly_cost: Money,
    /// Beside that: what nodes cost an hour that are launched for pods which wait, as things are now.
    pub pending_hourly_cost: Money,
    /// And once every command is done.
    pub settled_pending_hourly_cost: Money,
    /// The same and the price of all that is disrupted for it, empty nodes aside.
    pub priced_hourly_cost: Money,
    /// What no consolidation leaves at less than, the price of what it disrupts included: where that was asked for, and the
    /// state is not too large.
    pub lower_bound: Option<Money>,
    /// How many what-ifs were asked.
    pub what_ifs: usize,
    /// Nodes that were asked about and stay: see [`Options::asked`](crate::Options::asked).
    pub asked: BTreeSet<String>,
    /// Objects on which `karpenter.sh/do-not-disrupt` means nothing, by name, and what is wrong with it: they are protected
    /// until it is mended.
    pub faults: Vec<(ObjectRef, String)>,
    /// Whether the search stopped for want of what-ifs, and may have left something.
    pub is_cut_off: bool,
}

// === impl Method ===

impl Method {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Emptiness => "Emptiness",
            Method::Drift => "Drift",
            Method::DriftInSlot => "DriftInSlot",
            Method::MultiNodeConsolidation => "MultiNodeConsolidation",
            Method::SingleNodeConsolidation => "SingleNodeConsolidation",
        }
    }

    /// The reason that budgets know it by.
    pub const fn reason(self) -> berth_api::DisruptionReason {
        match self {
            Method::Emptiness => berth_api::DisruptionReason::Empty,
            Method::Drift | Method::DriftInSlot => berth_api::DisruptionReason::Drifted,
            Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => {
                berth_api::DisruptionReason::Underutilized
            }
        }
    }
}
