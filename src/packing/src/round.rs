//! From fractions to whole bins: fix what is whole, then the fullest fractions, a few at a time, and solve again for the
//! rest; what is left in the end is packed bin by bin.

use std::collections::BTreeMap;

use crate::Budget;
use crate::generate::{Generator, Rounds};
use crate::master::{DualPrices, Prices};
use crate::problem::{Pattern, Problem};
use crate::repair::worth;

/// A bin that others make up for is used where it is worth so much of what it costs.
const KEPT: f64 = 0.985;

/// Items and stocks that are left, and the plan for the others.
type State = (Vec<u32>, Vec<f64>, BTreeMap<Pattern, u32>);

/// A plan that is being made.
pub(crate) struct Dive<'g, 'p> {
    pub(crate) generator: &'g mut Generator<'p>,
    pub(crate) problem: &'p Problem,
    pub(crate) budget: Budget,
    /// By item and by stock: what is left.
    pub(crate) counts: Vec<u32>,
    pub(crate) stocks: Vec<f64>,
    pub(crate) plan: BTreeMap<Pattern, u32>,
}

impl<'g, 'p> Dive<'g, 'p> {
    pub(crate) fn new(generator: &'g mut Generator<'p>, budget: Budget) -> Self {
        let problem = generator.problem;
        Dive {
            generator,
            problem,
            budget,
            counts: problem.items.iter().map(|item| item.count).collect(),
            stocks: problem.stocks.clone(),
            plan: BTreeMap::new(),
        }
    }

    /// Makes a plan from the answer of the linear program.
    ///
    /// Bins are filled by each set of dual prices that was seen on the way, and by fixing columns where the budget has
    /// dives: the cheapest plan is repaired.
    pub(crate) fn run(mut self, prices: &Prices) -> Vec<(Pattern, u32)> {
        self.generator.work = 0;
        let columns = if self.budget.repairs > 0 { self.generator.columns.clone() } else { Vec::new() };
        let (counts, stocks) = (self.counts.clone(), self.stocks.clone());
        let mut best: Option<(u64, f64, State)> = None;
        let seen = std::mem::take(&mut self.generator.seen);
        if self.budget.fills > 0 {
            for prices in seen.iter().chain([&prices.duals()]) {
                self.fill_by_prices(prices);
                self.keep_best(&mut best, &counts, &stocks);
            }
        }
        if self.budget.fills == 0 || self.budget.dives > 0 {
            self.descend(prices.clone());
            self.keep_best(&mut best, &counts, &stocks);
        }
        if let Some((_, _, state)) = best {
            (self.counts, self.stocks, self.plan) = state;
        }
        self.repair(&columns, prices);
        self.plan.into_iter().collect()
    }

    // Keeps the plan if it is the best, the first of equals, and starts anew: what leaves out least, then the cheapest.
    fn keep_best(&mut self, best: &mut Option<(u64, f64, State)>, counts: &[u32], stocks: &[f64]) {
        let left = self.counts.iter().map(|count| u64::from(*count)).sum();
        let cost = self.cost();
        let state = (
            std::mem::replace(&mut self.counts, counts.to_vec()),
            std::mem::replace(&mut self.stocks, stocks.to_vec()),
            std::mem::take(&mut self.plan),
        );
        if best.as_ref().is_none_or(|(least, known, _)| (left, cost) < (*least, *known)) {
            *best = Some((left, cost, state));
        }
    }

    // Makes whole bins of what is left, beginning with the answer of a linear program for it.
    pub(crate) fn descend(&mut self, mut prices: Prices) {
        for _ in 0..self.budget.dives {
            let fixed = self.fix(&prices);
            if self.is_done() {
                break;
            }
            if !fixed || self.generator.work > self.budget.work {
                break;
            }
            self.trim_columns();
            let rounds = Rounds { at_most: self.budget.dive_rounds, proofs: 0, ..self.budget.into() };
            match self.generator.solve(&self.counts, &self.stocks, rounds, false) {
                Some(next) => prices = next,
                None => break,
            }
        }
        self.fill_by_prices(&DualPrices { items: prices.worths, stocks: Vec::new() });
    }

    pub(crate) fn is_done(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    // Fixes the whole parts of all columns; where there are none, the largest fractions.
    fn fix(&mut self, prices: &Prices) -> bool {
        let mut order: Vec<(f64, usize)> =
            prices.uses.iter().copied().enumerate().filter(|(_, uses)| *uses > 1e-6).map(|(at, n)| (n, at)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let total: f64 = order.iter().map(|(uses, _)| uses).sum();
        let columns: Vec<(f64, Pattern)> = order
            .iter()
            .filter_map(|&(uses, at)| self.generator.columns.get(at).map(|column| (uses, column.clone())))
            .collect();
        if self.generator.stand_ins(&self.counts).is_some() {
            return self.fix_alike(prices, &columns, total);
        }
        let mut fixed = 0.0;
        for (uses, column) in &columns {
            let whole = (uses + 1e-6).floor();
            if whole >= 1.0 {
                fixed += f64::from(self.take(column, whole, true));
            }
        }
        if fixed >= 1.0 {
            return true;
        }
        // So much of what is left at once, one at least.
        let goal = (total * self.budget.share).max(1.0);
        for (uses, column) in &columns {
            if fixed > 0.0 && (fixed + 1.0 > goal || *uses < 0.5) {
                break;
            }
            fixed += f64::from(self.take(column, 1.0, fixed > 0.0));
        }
        fixed > 0.0
    }

    // Where kinds stand in for items, columns want some items more often than there are and others never: what a column
    // lacks is made up for by others of the kind.
    fn fix_alike(&mut self, prices: &Prices, columns: &[(f64, Pattern)], total: f64) -> bool {
        let goal = whole((total * self.budget.share).max(1.0));
        let mut fixed = 0;
        for (uses, column) in columns {
            let n = whole(uses.round()).clamp(1, goal);
            let mut taken = 0;
            while fixed < goal && taken < n {
                let pattern = self.made_up(column, prices);
                if worth(&pattern, &prices.worths) < self.rented(&pattern, prices) * KEPT {
                    break;
                }
                let more = self.take(&pattern, f64::from(n - taken), true);
                if more == 0 {
                    break;
                }
                taken += more;
                fixed += more;
            }
        }
        fixed > 0
    }

    // A column with items that are there, as far as there are any.
    fn made_up(&self, column: &Pattern, prices: &Prices) -> Pattern {
        let mut pattern = Pattern { bin: column.bin, items: Vec::with_capacity(column.items.len()) };
        let Some(kinds) = self.generator.stand_ins(&self.counts) else { return column.clone() };
        let left = |item: u32| self.counts.get(item as usize).copied().unwrap_or(0);
        for &(item, n) in &column.items {
            let mut lacks = n;
            let mut others: Vec<u32> = kinds.like(item).iter().copied().filter(|other| left(*other) > 0).collect();
            let worth = |item: u32| prices.worths.get(item as usize).copied().unwrap_or(0.0);
            let differs = |other: u32| (other != item, (worth(other) - worth(item)).abs());
            others.sort_by(|&a, &b| {
                let (a_other, a_by) = differs(a);
                let (b_other, b_by) = differs(b);
                a_other.cmp(&b_other).then(a_by.total_cmp(&b_by)).then(left(b).cmp(&left(a))).then(a.cmp(&b))
            });
            for other in others {
                lacks -= self.put_more(&mut pattern, other, lacks.min(left(other)));
                if lacks == 0 {
                    break;
                }
            }
        }
        pattern
    }

    // Adds so many of an item at most, as long as the bin may hold them and they are there. Says how many.
    fn put_more(&self, pattern: &mut Pattern, item: u32, most: u32) -> u32 {
        let at = pattern.items.binary_search_by_key(&item, |(item, _)| *item);
        let at = at.unwrap_or_else(|at| {
            pattern.items.insert(at, (item, 0));
            at
        });
        let had = pattern.items.get(at).map_or(0, |(_, n)| *n);
        let there = self.counts.get(item as usize).copied().unwrap_or(0).saturating_sub(had).min(most);
        for more in (0..=there).rev() {
            if let Some((_, n)) = pattern.items.get_mut(at) {
                *n = had + more;
            }
            if more == 0 || self.problem.fits(pattern) {
                if had + more == 0 {
                    pattern.items.remove(at);
                }
                return more;
            }
        }
        0
    }

    // What a bin costs, rents of stocks included.
    pub(crate) fn rented(&self, pattern: &Pattern, prices: &Prices) -> f64 {
        let bin = self.problem.bins.get(pattern.bin as usize);
        bin.map_or(0.0, |bin| bin.cost + bin.bias + self.problem.rent_of(pattern, &prices.rents))
    }

    // Uses a column up to `at_most` times, as long as its items (some of them, unless `in_full`) are still wanted.
    pub(crate) fn take(&mut self, column: &Pattern, at_most: f64, in_full: bool) -> u32 {
        let left = |item: u32| self.counts.get(item as usize).copied().unwrap_or(0);
        let mut items: Vec<(u32, u32)> = column.items.clone();
        if !in_full {
            items = items.into_iter().map(|(item, n)| (item, n.min(left(item)))).filter(|(_, n)| *n > 0).collect();
        }
        let mut n = items.iter().map(|&(item, n)| left(item) / n.max(1)).min().unwrap_or(0);
        let pattern = Pattern { bin: column.bin, items };
        for (stock, amount) in self.problem.drawn_by(&pattern) {
            let there = self.stocks.get(stock).copied().unwrap_or(0.0);
            n = n.min(whole(there / amount));
        }
        n = n.min(whole(at_most));
        if n == 0 || !self.problem.has_needed(&pattern) {
            return 0;
        }
        for &(item, each) in &pattern.items {
            if let Some(count) = self.counts.get_mut(item as usize) {
                *count -= each * n;
            }
        }
        for (stock, amount) in self.problem.drawn_by(&pattern) {
            if let Some(stock) = self.stocks.get_mut(stock) {
                *stock -= amount * f64::from(n);
            }
        }
        *self.plan.entry(pattern).or_default() += n;
        n
    }

    // Uses columns that may hold more than is left.
    pub(crate) fn take_all(&mut self, bins: &[(Pattern, u32)]) {
        for (pattern, n) in bins {
            let mut left = *n;
            while left > 0 {
                let taken = self.take(pattern, f64::from(left), false);
                if taken == 0 {
                    break;
                }
                left -= taken;
            }
        }
    }

    // Columns as they are of use for what is left.
    fn trim_columns(&mut self) {
        let columns = self.generator.take_columns();
        for mut column in columns {
            column.items.retain_mut(|(item, n)| {
                *n = (*n).min(self.counts.get(*item as usize).copied().unwrap_or(0));
                *n > 0
            });
            self.problem.keep_within(column.bin as usize, &mut column.items, &self.stocks);
            self.generator.add(column);
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
pub(crate) fn whole(number: f64) -> u32 {
    (number + 1e-6).floor().clamp(0.0, f64::from(u32::MAX)) as u32
}
