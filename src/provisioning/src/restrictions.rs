//! What a plan is restricted by.

use berth_model::Money;

use crate::max_share::ValueShare;

/// What keeps a plan from being cheaper, or from placing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// A share, by its index in the options.
    MaxShare(usize),
    /// Types with GPUs are kept for pods that ask for GPUs.
    GpuTypes,
    /// Each new node costs more than its price.
    NodeCost,
    /// The limits of a NodePool, by index.
    Limits(usize),
    /// The minValues of a NodePool, by index.
    MinValues(usize),
    /// The capacity types that a NodePool names, by index.
    CapacityType(usize),
    /// The zones that a NodePool names, by index.
    Zone(usize),
}

/// A restriction of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restricted {
    /// Which.
    pub restriction: Restriction,
    /// Of a share: how much of the plan each value has, the largest first.
    pub values: Vec<ValueShare>,
    /// What it costs, if that was asked for.
    pub cost: Option<RestrictionCost>,
}

/// How a plan without a restriction differs, made with the same effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestrictionCost {
    /// Dollars an hour that the plan costs more than the one without, node cost included (of the node cost itself: prices
    /// alone); negative where the one without places more and costs more.
    pub hourly: Money,
    /// Pods and Reservations that have a place only without it.
    pub unplaced: u64,
}
