//! What a caller may set.

use berth_model::Money;

use crate::max_share::MaxShare;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent questions")]
pub struct Options {
    /// Dollars an hour that every new node costs beyond its price, as for licences or daemons.
    pub node_cost: Money,
    /// How much work to do.
    pub effort: Effort,
    /// Whether to prove what any plan costs at least.
    pub bound: bool,
    /// Whether to prove of a plan that is so small that all can be tried whether it is the cheapest.
    pub proves: bool,
    /// How much of the plan may be in one zone, of one instance type or of one capacity type.
    pub max_shares: Vec<MaxShare>,
    /// Whether to say what each restriction costs, which takes a plan for each.
    pub what_restrictions_cost: bool,
    /// Whether types with GPUs or other accelerators may be launched for pods that ask for none.
    pub gpu_types_for_any_pod: bool,
}
