//! From fractions of columns to whole bins: dives and greedy packing make plans, and the cheapest is repaired.

mod dive;
mod greedy;
mod partial;
mod repair;
mod restricted;
mod ruin;

use crate::Budget;
use crate::columns::Generator;
use crate::master::MasterSolution;
use crate::problem::Pattern;
use greedy::Order;
use partial::PartialPlan;

/// A plan from the solution of the master: bins are filled greedily by each set of dual prices that was saved on the way,
/// and by a dive where the budget has dives. The cheapest of these plans, and of the one that is known, is repaired. It, or one
/// that is filled by the prices of the compact program, is then improved by many small changes.
pub(crate) fn plan(
    generator: &mut Generator<'_>,
    budget: Budget,
    solution: &MasterSolution,
    known: &[(Pattern, u32)],
) -> Vec<(Pattern, u32)> {
    generator.work = 0;
    let columns = if budget.repairs > 0 { generator.columns.clone() } else { Vec::new() };
    let mut best = Best::default();
    let saved = std::mem::take(&mut generator.saved);
    if budget.fills > 0 {
        for duals in saved.iter().chain([&solution.duals]) {
            let mut plan = PartialPlan::new(generator.problem);
            greedy::pack(&mut plan, &mut generator.pricer, duals, Order::NearlyBest, budget.steps);
            best.keep(plan);
        }
    }
    if budget.fills == 0 || budget.dives > 0 {
        let mut plan = PartialPlan::new(generator.problem);
        dive::dive(generator, &mut plan, budget, solution.clone());
        best.keep(plan);
    }
    let mut plan = PartialPlan::new(generator.problem);
    plan.take_all(known);
    best.keep(plan);
    let Some(mut plan) = best.plan else { return Vec::new() };
    repair::repair(generator, &mut plan, budget, &columns, solution);
    let guide = if budget.ruins > 0 { generator.compact_prices(&solution.duals, budget.guide_items) } else { None };
    if let Some(guide) = guide {
        let anew = ruin::construct(PartialPlan::new(generator.problem), &mut generator.pricer, &guide);
        let mut best = Best::default();
        best.keep(plan);
        best.keep(anew);
        let Some(mut plan) = best.plan else { return Vec::new() };
        ruin::improve(&mut plan, &mut generator.pricer, &guide, budget.ruins);
        return plan.bins.into_iter().collect();
    }
    plan.bins.into_iter().collect()
}

/// The best plan so far: what leaves out least, then what costs least, the first of equals.
#[derive(Default)]
struct Best<'p> {
    rank: (u64, f64),
    plan: Option<PartialPlan<'p>>,
}

impl<'p> Best<'p> {
    fn keep(&mut self, plan: PartialPlan<'p>) {
        let left: u64 = plan.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (left, plan.cost());
        if self.plan.is_none() || rank < self.rank {
            self.rank = rank;
            self.plan = Some(plan);
        }
    }
}
