//! Packs many alike items into bins of several types and prices, and bounds from below what it must cost.
//!
//! [`search`] knows items (how many, of what size), types of bins (price, room, who may be in it, the stocks that one
//! draws from) and rules within a bin. Nothing here knows Kubernetes, a clock, or randomness; work is budgeted by count, so
//! the same input gives the same answer.
//!
//! The method is column generation for the cutting stock problem (Gilmore and Gomory, 1961), extended to several resources,
//! types of bins, stocks and rules. A *pattern* is a way to fill a bin, a *column* a pattern that is known:
//!
//! 1. `columns` begins with a few patterns. `master` solves the restricted master program over them, fractions allowed; its
//!    *dual prices* say what one more of each item would cost. Where items are many, `groups` of them share dual prices.
//! 2. `pricing` looks for the pattern of each type of bin with the largest dual value. One above the bin's cost has a
//!    negative *reduced cost* and becomes a column; then the master is solved again. Where there is none, the master's value
//!    is the least of all programs over patterns, and scaled dual prices give a *dual bound* at any time.
//! 3. `plan` makes whole bins of the fractions: dives fix columns, or bins are filled greedily by dual price, and repairs
//!    empty the worst bins and pack them anew.
//!
//! Where bins stand already, [`consolidate`] says which of them to empty, so that what they hold fits into the others.
//!
//! Problems so small that all of this can be listed are solved whole.
//!
//! Modules use those below them alone: `plan` → `columns` → `master`, `pricing` → `groups`, `duals`, `rules` → `problem` →
//! `numbers`; `whole` knows `problem` alone; `tuning` has the constants of all.
//!
//! ```
//! use berth_packing::{BinType, Budget, Item, Problem, search};
//!
//! let mut admits = fixedbitset::FixedBitSet::with_capacity(2);
//! admits.insert_range(..);
//! let bin = BinType { cost: 1.0, bias: 0.0, room: vec![10], admits, draws: Vec::new(), loads: Vec::new() };
//! let item = |count, size| Item { count, size: vec![size], at_most: u32::MAX, load: 0.0 };
//! let problem = Problem { items: vec![item(6, 6), item(6, 4)], bins: vec![bin], ..Problem::default() };
//! let answer = search(&problem, &[], Budget::default());
//! assert_eq!(problem.cost_of(&answer.plan), 6.0);
//! assert!(answer.bound > 5.99 && answer.bound <= 6.0);
//! ```

mod answer;
mod budget;
mod columns;
mod consolidation;
mod duals;
mod groups;
mod master;
mod merge;
mod numbers;
mod plan;
mod pricing;
mod problem;
mod rules;
mod tuning;
mod whole;

pub use answer::{Answer, StopReason};
pub use budget::Budget;
pub use consolidation::{Consolidated, Consolidation, ExistingNode, Movable, Offer, Stop, consolidate, lower_bound};
pub use problem::{BinType, Item, Need, Pattern, Problem, Rule};

use columns::Generator;
use master::MasterSolution;
use merge::Merged;
use tuning::compact::LOOSE;
use whole::Cheapest;

/// Packs a problem. `start` is a plan known already: its patterns are columns to begin with, and it is improved itself where
/// no other is cheaper.
pub fn search(problem: &Problem, start: &[(Pattern, u32)], budget: Budget) -> Answer {
    let merged = Merged::new(problem);
    let whole = whole::cheapest(&merged.problem, budget.whole);
    let known = merged.merge(start);
    let mut generator = Generator::new(&merged.problem, patterns(&known));
    let searched = generator.solve_all(budget).map(|solution| {
        let plan = plan::plan(&mut generator, budget, &solution, &known);
        Answer { plan, bound: generator.bound, relaxed: solution.value, stop: generator.stop }
    });
    let answer = match (whole, searched) {
        (None, None) => return Answer::default(),
        (None, Some(searched)) => searched,
        // Of plans that cost the same the search's stays: it prefers what its biases, and whoever made `start`, prefer.
        (Some(whole), searched) => {
            let as_cheap = searched.filter(|searched| whole.is_matched_by(&merged.problem, &searched.plan));
            let plan = as_cheap.map_or(whole.plan, |searched| searched.plan);
            Answer { plan, bound: whole.cost, relaxed: whole.cost, stop: StopReason::Solved }
        }
    };
    Answer { plan: merged.split(problem, answer.plan), ..answer }
}

/// What one more of each item costs, shared with others in its bin: the dual prices of [`search`]'s program, without its
/// plan. `None` where there is nothing to pack, or no solver finds an answer. Items that no bin takes have a price above any.
pub fn prices(problem: &Problem, budget: Budget) -> Option<Vec<f64>> {
    let merged = Merged::new(problem);
    let mut generator = Generator::new(&merged.problem, []);
    let solution = generator.solve_all(budget)?;
    Some(solution.duals.items)
}

/// What the cheapest packing of all items costs, where the problem is so small that all can be tried.
pub fn least(problem: &Problem, budget: Budget) -> Option<f64> {
    whole::cheapest(&Merged::new(problem).problem, budget.whole).map(|cheapest| cheapest.cost)
}

/// What no packing of all items costs less than: the bound of [`search`], without its plan. Of small problems, for which all
/// packings can be tried, it is what the cheapest costs.
pub fn bound(problem: &Problem, start: &[(Pattern, u32)], budget: Budget) -> f64 {
    let merged = Merged::new(problem);
    if let Some(Cheapest { cost, .. }) = whole::cheapest(&merged.problem, budget.whole) {
        return cost;
    }
    let mut generator = Generator::new(&merged.problem, patterns(&merged.merge(start)));
    let is_loose = |solution: &MasterSolution, bound: f64| bound < solution.value * (1.0 - LOOSE);
    if generator.solve_all(budget).is_some_and(|solution| is_loose(&solution, generator.bound)) {
        generator.bound_compactly();
    }
    generator.bound_by_whole_bins();
    generator.bound
}

fn patterns(plan: &[(Pattern, u32)]) -> impl Iterator<Item = Pattern> {
    plan.iter().map(|(pattern, _)| pattern.clone())
}
