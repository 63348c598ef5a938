//! Packs many alike items into bins of several types and prices, and bounds from below what it must cost.
//!
//! [`search`] knows items (how many, of what size), types of bins (price, room, who may be in it, the stocks that one
//! draws from) and rules within a bin. It solves the linear program over patterns, ways to fill a bin, by column
//! generation, makes whole bins of its fractions, and returns a plan with a bound that no plan undercuts. Nothing here
//! knows Kubernetes, a clock, or randomness; work is budgeted by count, so the same input gives the same answer.
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

mod cuts;
mod exact;
mod generate;
mod greedy;
mod interior;
mod kinds;
mod knapsack;
mod master;
mod merge;
mod normal;
mod problem;
mod repair;
mod round;
mod seed;
mod simplex;
mod whole;

pub use problem::{BinType, Item, Need, Pattern, Problem, Rule};

use generate::Generator;
use merge::Merged;
use round::Dive;

/// How much work a search may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Columns of all linear programs at most: before the first bin is fixed, and again after it.
    pub work: u64,
    /// Linear programs solved before the first bin is fixed.
    pub rounds: u32,
    /// Linear programs solved each time that bins were fixed.
    pub dive_rounds: u32,
    /// Types of bins that a round of column generation looks into, beside proofs and where it finds nothing else; at
    /// least 2. With fewer a round is quicker, and there are more of them.
    pub types: usize,
    /// Sets of dual prices, of the last rounds and of rounds before, that bins are filled by greedily; the cheapest of these
    /// plans, and of the one that dives make, is kept. Quick, and good where there are few of each item.
    pub fills: u32,
    /// How often bins are fixed.
    pub dives: u32,
    /// Share of the fractional bins that are fixed at once.
    pub share: f64,
    /// How often some bins of the plan are packed anew.
    pub repairs: u32,
    /// Linear programs of the search for whole bins over the patterns found, in a repair.
    pub branches: u32,
    /// Steps of the quick search for the best filling of a bin.
    pub steps: u32,
    /// The same where patterns come to gain little, of all types of bins together; the fewer the more items there are.
    pub deep_steps: u32,
    /// Linear relaxations that the exact search of a bin may solve where the quick one was cut short; 0 for none.
    pub nodes: u32,
    /// The same where all that finds nothing any more, which proves the bound, and how often.
    pub proof_nodes: u32,
    /// See `proof_nodes`.
    pub proofs: u32,
    /// Items whose worths are found one by one; where there are more, and few of each, kinds of them have so many prices.
    pub prices: usize,
    /// What may stay open between the bound and what the linear program costs, relative.
    pub gap: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            work: 150_000,
            rounds: 100,
            dive_rounds: 2,
            types: usize::MAX,
            fills: 0,
            dives: 60,
            share: 0.1,
            repairs: 0,
            branches: 0,
            steps: 200,
            deep_steps: 1_000_000,
            nodes: 300,
            proof_nodes: 20_000,
            proofs: 20,
            prices: 0,
            gap: 1e-3,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Bins to use and how many of each. What it leaves out could not be packed within the stocks.
    pub plan: Vec<(Pattern, u32)>,
    /// No packing of all items costs less.
    pub bound: f64,
    /// What the linear program costs over the patterns found.
    pub relaxed: f64,
}

/// Packs a problem. `start` is a plan known already, whose patterns are what to begin with.
pub fn search(problem: &Problem, start: &[(Pattern, u32)], budget: Budget) -> Answer {
    let merged = Merged::new(problem);
    let mut generator = begin(&merged, start);
    let Some(prices) = generator.solve_all(budget) else { return Answer::default() };
    let bound = generator.bound;
    let plan = Dive::new(&mut generator, budget).run(&prices);
    Answer { plan: merged.undo(problem, plan), bound, relaxed: prices.value }
}

/// What no packing of all items costs less than: the bound of [`search`], without its plan.
pub fn bound(problem: &Problem, start: &[(Pattern, u32)], budget: Budget) -> f64 {
    let merged = Merged::new(problem);
    let mut generator = begin(&merged, start);
    generator.solve_all(budget);
    generator.bound
}

fn begin<'m>(merged: &'m Merged, start: &[(Pattern, u32)]) -> Generator<'m> {
    let mut generator = Generator::new(&merged.problem);
    for (pattern, _) in start {
        if let Some(&bin) = merged.by.get(pattern.bin as usize) {
            generator.add(Pattern { bin, items: pattern.items.clone() });
        }
    }
    seed::seed(&mut generator);
    generator
}
