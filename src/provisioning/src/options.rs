//! What a caller may set.

use berth_model::Money;

/// How much work a solve does. Budgets are counts of work, never of time: the same input gives the same plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// First-fit decreasing with slot matching, once.
    Low,
    /// Several packings, of which the best is kept.
    #[default]
    Default,
    /// As [`Effort::Default`], with more of them.
    High,
}

/// Options of a solve.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Dollars an hour that every new node costs beyond its price, as for licences or daemons.
    pub node_cost: Money,
    /// How much work to do.
    pub effort: Effort,
    /// Whether to prove what any plan costs at least.
    pub bound: bool,
}
