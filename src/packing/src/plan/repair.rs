//! Repairs: rounding loses most in the last bins. Some bins at a time, with those whose items have the
//! least dual value for their cost, are emptied and packed anew, where a small master says beforehand that it can pay.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::dive;
use super::partial::PartialPlan;
use super::restricted::Restricted;
use crate::Budget;
use crate::columns::{Generator, Rounds};
use crate::duals::DualPrices;
use crate::master::MasterSolution;
use crate::numbers::{floor_u32, scrambled};
use crate::problem::Pattern;
use crate::tuning::groups::MANY_ITEMS;
use crate::tuning::repair::{BINS, CHEAPER, FAILURES, ITEMS, ROUNDS, SHARE, USEFUL};

/// Repairs a plan, with the columns of the master that it was made of, and its solution.
pub(super) fn repair(
    generator: &mut Generator<'_>,
    plan: &mut PartialPlan<'_>,
    mut budget: Budget,
    columns: &[Pattern],
    solution: &MasterSolution,
) {
    if !plan.is_done() {
        return;
    }
    // What exact searches of bins would find here is not worth their time.
    budget.nodes = 0;
    let mut failed = 0_u32;
    // What was packed anew in vain: of few bins all are chosen each time.
    let mut in_vain: Vec<BTreeMap<Pattern, u32>> = Vec::new();
    for turn in 0..budget.repairs {
        // No plan costs less than the bound.
        if failed > FAILURES || plan.cost() * (1.0 - CHEAPER) <= generator.bound {
            break;
        }
        let freed = choose(plan, &solution.duals, failed, turn);
        if freed.is_empty() {
            break;
        }
        if in_vain.contains(&freed) {
            failed += 1;
            continue;
        }
        let (bins, stocks) = (plan.bins.clone(), plan.stocks.clone());
        let cost = plan.cost();
        plan.free(&freed);
        generator.work = 0;
        if repack(generator, plan, budget, columns, &solution.duals, &freed)
            && plan.is_done()
            && plan.cost() < cost * (1.0 - CHEAPER)
        {
            failed = 0;
            in_vain.clear();
            continue;
        }
        failed += 1;
        in_vain.push(freed);
        (plan.bins, plan.stocks) = (bins, stocks);
        plan.counts.fill(0);
    }
}

// The bins of the highest reduced cost, and after failures ever more others, by chance.
fn choose(plan: &PartialPlan<'_>, duals: &DualPrices, failed: u32, turn: u32) -> BTreeMap<Pattern, u32> {
    let total: u32 = plan.bins.values().sum();
    let goal = floor_u32(f64::from(total) * SHARE).max(BINS);
    let mut order: Vec<(f64, &Pattern, u32)> = plan
        .bins
        .iter()
        .map(|(pattern, &bins)| (duals.cost_of(plan.problem, pattern), pattern, bins))
        .filter(|(cost, ..)| *cost > 0.0)
        .map(|(cost, pattern, bins)| (duals.value_of(pattern) - cost, pattern, bins))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    let worst = goal - goal * failed.min(4) / 6;
    let mut freed: BTreeMap<Pattern, u32> = BTreeMap::new();
    let mut n = 0;
    // Where items are so many that groups would stand for them, a share of the bins holds too many.
    let most = if plan.counts.len() > MANY_ITEMS { ITEMS } else { usize::MAX };
    let mut items = FixedBitSet::with_capacity(plan.counts.len());
    for (_, pattern, bins) in &order {
        let take = (*bins).min(worst.saturating_sub(n));
        if take == 0 || items.count_ones(..) >= most - most / 6 * failed.min(4) as usize {
            break;
        }
        items.extend(pattern.items.iter().map(|(item, _)| *item as usize));
        freed.insert((*pattern).clone(), take);
        n += take;
    }
    let mut others: Vec<(u64, &Pattern)> = order
        .iter()
        .zip(0_u64..)
        .filter(|((_, pattern, bins), _)| freed.get(*pattern).is_none_or(|taken| taken < bins))
        .map(|((_, pattern, _), at)| (scrambled(u64::from(turn) << 32 | at), *pattern))
        .collect();
    others.sort_unstable();
    for (_, pattern) in others {
        if n >= goal || items.count_ones(..) >= most {
            break;
        }
        items.extend(pattern.items.iter().map(|(item, _)| *item as usize));
        *freed.entry(pattern.clone()).or_default() += 1;
        n += 1;
    }
    freed
}

// Packs what is free anew, if the master for it leaves hope; says whether it did.
fn repack(
    generator: &mut Generator<'_>,
    plan: &mut PartialPlan<'_>,
    budget: Budget,
    columns: &[Pattern],
    duals: &DualPrices,
    freed: &BTreeMap<Pattern, u32>,
) -> bool {
    generator.take_columns();
    for pattern in freed.keys().chain(columns) {
        let pattern = plan.cut(pattern.clone());
        if freed.contains_key(&pattern) || duals.value_of(&pattern) >= duals.cost_of(plan.problem, &pattern) * USEFUL {
            generator.add(pattern);
        }
    }
    let rounds = Rounds { at_most: ROUNDS, proofs: 0, ..budget.into() };
    let Some(solution) = generator.solve(&plan.counts, &plan.stocks, rounds, false) else { return false };
    let cost: f64 = freed.iter().map(|(pattern, bins)| plan.cost_of(pattern) * f64::from(*bins)).sum();
    let cheapest = freed.keys().map(|pattern| plan.cost_of(pattern)).fold(f64::INFINITY, f64::min);
    // Where all bins cost the same, only a whole one less is less.
    let is_uniform = plan.problem.bins.iter().all(|bin| (bin.cost + bin.bias - cheapest).abs() < 1e-12);
    let least = if is_uniform { (solution.value / cheapest - 1e-4).ceil() * cheapest } else { solution.value };
    if least >= cost * (1.0 - CHEAPER) {
        return false;
    }
    let known: Vec<(Pattern, u32)> = freed.iter().map(|(pattern, bins)| (pattern.clone(), *bins)).collect();
    let restricted = Restricted {
        problem: plan.problem,
        counts: &plan.counts,
        stocks: &plan.stocks,
        columns: &generator.columns,
        duals: &solution.duals,
    };
    match restricted.solve(&known, budget.branches) {
        Some(bins) => plan.take_all(&bins),
        None => dive::dive(generator, plan, budget, solution),
    }
    true
}
