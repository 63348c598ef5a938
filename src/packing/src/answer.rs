//! What a search found, and why it stopped.

use crate::problem::Pattern;

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Bins to use and how many of each. What it leaves out could not be packed within the stocks.
    pub plan: Vec<(Pattern, u32)>,
    /// No packing of all items costs less.
    pub bound: f64,
    /// What the master costs over the columns found, fractions allowed; where all packings were tried, what the cheapest costs.
    pub relaxed: f64,
    /// Why it stopped.
    pub stop: StopReason,
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopReason {
    /// There was nothing to pack, no bin to pack it in, or no solver that found an answer.
    #[default]
    Unsolved,
    /// The problem is small: all packings were tried, and the plan is the cheapest.
    Solved,
    /// The bound is as near to the master's value as was asked for.
    Optimal,
    /// No search of a bin found a column of negative reduced cost; that none exists is not proved.
    NoColumn,
    /// All rounds of the budget are over.
    Rounds,
    /// The work of the budget is spent.
    Work,
}
