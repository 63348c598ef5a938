//! What a caller of a decision may set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_scheduling::Queue;
use berth_state::State;

use crate::decision::DecideError;
use crate::expected::CountsOn;

/// How pods are placed on nodes that exist before any is launched.
pub(crate) const QUEUE: Queue = Queue {
    preempts: true,
    keeps_budgets: true,
    keeps_homes_whole: true,
    counts_on_terminating: true,
    expected_first: false,
};

/// By node that was launched for them, or the NodeClaim that the node is to be of: these pods, by `namespace/name`, and
/// Reservations, by name. Those that are not pending are passed over.
///
/// Pods that are alike stand in for each other: which of them comes to which of their nodes is not decided by name.
pub type ExpectedNodes = BTreeMap<Arc<str>, Arc<BTreeSet<Box<str>>>>;

/// By Reservation that is expected on a node: the pods that are to draw from it, by `namespace/name`. Until that node is up
/// they are not placed.
pub type ExpectedDrawers = BTreeMap<Arc<str>, Arc<BTreeSet<Box<str>>>>;

/// By node that comes up: how the pods with preferences wait that it was launched for.
pub type WaitedFor = BTreeMap<Arc<str>, Waits>;

/// How pods with preferences wait for their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// They come nowhere else.
    ForTheirNode,
    /// They come where there is room, but nobody gives way for them.
    Sparing,
}

/// What a caller may set.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is asked for by itself.
pub struct Options {
    /// How nodes are planned.
    pub solve: berth_provisioning::Options,
    /// Whether nodes may be launched. Without, only those that are up are asked, which takes far less time, and nobody is
    /// refused.
    pub launches: bool,
    /// The schedulers whose pods are bound (`spec.schedulerName`); `None`: those of all. Pods of others are planned, and
    /// expected to be bound by their scheduler.
    pub scheduler_names: Option<BTreeSet<String>>,
    /// Pods and Reservations that nodes were launched for: they come to these, and no others are launched for them.
    pub expected: ExpectedNodes,
    /// Of these nodes, those that come up and that pods with preferences wait for: a node was launched for what they prefer.
    pub waited_for: WaitedFor,
    /// Pods that were planned to draw from Reservations among them.
    pub drawers: ExpectedDrawers,
    /// Pods, by `namespace/name`, that come before others of their priority on nodes that exist. Those that are not pending are
    /// passed over.
    pub come_first: Arc<BTreeSet<Box<str>>>,
    /// Whether nobody gives way to others: who finds no room that is free needs a new node, whatever node that is up is expected
    /// to have them. So it is asked what would become of pods that run.
    pub spares_others: bool,
    /// Whether those who are expected on nodes that are up come there before anybody else, whatever the priority of these.
    pub expected_first: bool,
    /// Whether owners of Reservations that a node is launched for may be left out of the decision, where a spread over domains of
    /// several nodes keeps them from being launched with these: the next one finds what they may draw from.
    pub holds_back: bool,
}

/// How pods are placed on nodes that exist: beside whom that nodes were launched for, and whether others give way.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // As those of the options.
pub(crate) struct Placing<'o> {
    pub(crate) expected: &'o ExpectedNodes,
    pub(crate) waited_for: &'o WaitedFor,
    pub(crate) drawers: &'o ExpectedDrawers,
    pub(crate) come_first: &'o BTreeSet<Box<str>>,
    pub(crate) spares_others: bool,
    pub(crate) expected_first: bool,
    pub(crate) holds_back: bool,
    /// Whether to find out which PodDisruptionBudgets keep those who would give way.
    pub(crate) names_budgets: bool,
}

// === impl Options ===

impl Options {
    pub(crate) fn placing(&self) -> Placing<'_> {
        Placing {
            expected: &self.expected,
            waited_for: &self.waited_for,
            drawers: &self.drawers,
            come_first: &self.come_first,
            spares_others: self.spares_others,
            expected_first: self.expected_first,
            holds_back: self.holds_back,
            names_budgets: false,
        }
    }
}

// === impl Placing ===

impl Placing<'_> {
    pub(crate) fn counts_on(self) -> CountsOn {
        if self.spares_others { CountsOn::NodesThatComeUp } else { CountsOn::AnyNode }
    }

    pub(crate) fn queue(self) -> Queue {
        Queue { preempts: !self.spares_others, expected_first: self.expected_first, ..QUEUE }
    }
}

/// Whether there is enough to decide from.
pub(crate) fn expect_synced(state: &State) -> Result<(), DecideError> {
    if state.is_synced() {
        return Ok(());
    }
    Err(DecideError::NotSynced { kinds: state.unlisted().collect(), cloud: !state.has_offerings() })
}
