//! Dives: use the whole parts of the columns that the master uses, then the largest fractions, a few at a time, and solve
//! again for the rest; what is left in the end is packed greedily.

use super::greedy::{self, Order};
use super::partial::PartialPlan;
use crate::Budget;
use crate::columns::{Generator, Rounds};
use crate::duals::DualPrices;
use crate::master::MasterSolution;
use crate::numbers::floor_u32;
use crate::problem::Pattern;
use crate::tuning::dive::LEAST_VALUE;

/// Packs what is left, beginning with the solution of a master for it.
pub(super) fn dive(
    generator: &mut Generator<'_>,
    plan: &mut PartialPlan<'_>,
    budget: Budget,
    mut solution: MasterSolution,
) {
    for _ in 0..budget.dives {
        let has_fixed = fix(generator, plan, budget.share, &solution);
        if plan.is_done() || !has_fixed || generator.work > budget.work {
            break;
        }
        for column in generator.take_columns() {
            let mut column = plan.cut(column);
            plan.problem.cut_to_stocks(column.bin as usize, &mut column.items, &plan.stocks);
            generator.add(column);
        }
        let rounds = Rounds { at_most: budget.dive_rounds, proofs: 0, ..budget.into() };
        match generator.solve(&plan.counts, &plan.stocks, rounds, false) {
            Some(next) => solution = next,
            None => break,
        }
    }
    let duals = DualPrices { items: solution.duals.items, stocks: Vec::new() };
    let order = if budget.exact_fills { Order::Best } else { Order::NearlyBest };
    greedy::pack(plan, &mut generator.pricer, &duals, order, budget.steps);
}

// Uses the whole parts of all columns; where there are none, the largest fractions. Says whether any.
fn fix(generator: &Generator<'_>, plan: &mut PartialPlan<'_>, share: f64, solution: &MasterSolution) -> bool {
    let uses = solution.uses.iter().copied().enumerate();
    let mut order: Vec<(f64, usize)> = uses.filter(|(_, uses)| *uses > 1e-6).map(|(at, n)| (n, at)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let total: f64 = order.iter().map(|(uses, _)| uses).sum();
    let columns: Vec<(f64, &Pattern)> =
        order.iter().filter_map(|&(uses, at)| Some((uses, generator.columns.get(at)?))).collect();
    // So much of what is left at once, one bin at least.
    let goal = (total * share).max(1.0);
    if generator.groups_for(&plan.counts).is_some() {
        return fix_by_group(generator, plan, &columns, floor_u32(goal), &solution.duals);
    }
    let mut fixed = 0.0;
    for (uses, column) in &columns {
        let whole = (uses + 1e-6).floor();
        if whole >= 1.0 {
            fixed += f64::from(plan.take(column, whole, true));
        }
    }
    if fixed >= 1.0 {
        return true;
    }
    for (uses, column) in &columns {
        if fixed > 0.0 && (fixed + 1.0 > goal || *uses < 0.5) {
            break;
        }
        fixed += f64::from(plan.take(column, 1.0, fixed > 0.0));
    }
    fixed > 0.0
}

// Where groups stand for items, columns want some items more often than there are and others never: others of the group
// take the place of what a column lacks.
fn fix_by_group(
    generator: &Generator<'_>,
    plan: &mut PartialPlan<'_>,
    columns: &[(f64, &Pattern)],
    goal: u32,
    duals: &DualPrices,
) -> bool {
    let mut fixed = 0;
    for &(uses, column) in columns {
        let n = floor_u32(uses.round()).clamp(1, goal);
        let mut taken = 0;
        while fixed < goal && taken < n {
            let pattern = with_others(generator, plan, column, duals);
            if duals.value_of(&pattern) < duals.cost_of(plan.problem, &pattern) * LEAST_VALUE {
                break;
            }
            let more = plan.take(&pattern, f64::from(n - taken), true);
            if more == 0 {
                break;
            }
            taken += more;
            fixed += more;
        }
    }
    fixed > 0
}

// A column of items that are left: its own, then others of their groups, those of the nearest dual price first.
fn with_others(generator: &Generator<'_>, plan: &PartialPlan<'_>, column: &Pattern, duals: &DualPrices) -> Pattern {
    let Some(groups) = generator.groups_for(&plan.counts) else { return column.clone() };
    let mut pattern = Pattern { bin: column.bin, items: Vec::with_capacity(column.items.len()) };
    for &(item, n) in &column.items {
        let mut lacks = n;
        let mut others: Vec<u32> = groups.like(item).iter().copied().filter(|other| plan.left(*other) > 0).collect();
        let differs = |other: u32| (other != item, (duals.of_item(other) - duals.of_item(item)).abs());
        others.sort_by(|&a, &b| {
            let (a_other, a_by) = differs(a);
            let (b_other, b_by) = differs(b);
            let by_price = a_other.cmp(&b_other).then(a_by.total_cmp(&b_by));
            by_price.then(plan.left(b).cmp(&plan.left(a))).then(a.cmp(&b))
        });
        for other in others {
            lacks -= put_more(plan, &mut pattern, other, lacks.min(plan.left(other)));
            if lacks == 0 {
                break;
            }
        }
    }
    pattern
}

// Adds so many of an item at most, as long as the bin may hold them and they are left. Says how many.
fn put_more(plan: &PartialPlan<'_>, pattern: &mut Pattern, item: u32, most: u32) -> u32 {
    let at = pattern.items.binary_search_by_key(&item, |(item, _)| *item);
    let at = at.unwrap_or_else(|at| {
        pattern.items.insert(at, (item, 0));
        at
    });
    let had = pattern.items.get(at).map_or(0, |(_, n)| *n);
    let there = plan.left(item).saturating_sub(had).min(most);
    for more in (0..=there).rev() {
        if let Some((_, n)) = pattern.items.get_mut(at) {
            *n = had + more;
        }
        if more == 0 || plan.problem.fits(pattern) {
            if had + more == 0 {
                pattern.items.remove(at);
            }
            return more;
        }
    }
    0
}
