//! Rounding loses most in the last bins. Some bins at a time, the ones that waste most of what they cost among them, are
//! emptied and packed anew, which a small linear program says beforehand whether it can pay.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use crate::generate::Rounds;
use crate::kinds::MANY;
use crate::master::Prices;
use crate::problem::Pattern;
use crate::round::Dive;
use crate::whole::Restricted;

/// Bins that are packed anew at once: at least, and of all.
const BINS: u32 = 24;
const SHARE: f64 = 0.1;

/// Items of these bins at most, where there are so many in all that kinds stand in for them.
const ITEMS: usize = 200;

/// Columns of the root's linear program are of use again where their worth, cut to what is to be packed, is so much of
/// what the bin costs.
const USEFUL: f64 = 0.8;

/// Linear programs of a repair, before its first bin is fixed.
const ROUNDS: u32 = 12;

/// What counts as cheaper, relative.
const CHEAPER: f64 = 1e-7;

impl Dive<'_, '_> {
    /// Repairs the plan, with the columns and prices of the linear program that it was made of.
    pub(crate) fn repair(&mut self, columns: &[Pattern], prices: &Prices) {
        if !self.is_done() {
            return;
        }
        // What exact searches of bins would find here is not worth their time.
        self.budget.nodes = 0;
        let mut failed = 0_u32;
        for turn in 0..self.budget.repairs {
            if failed > 8 {
                break;
            }
            let freed = self.choose(prices, failed, turn);
            if freed.is_empty() {
                break;
            }
            let before = (self.plan.clone(), self.stocks.clone());
            let cost = self.cost();
            self.free(&freed);
            self.generator.work = 0;
            if self.pays(columns, prices, &freed) && self.is_done() && self.cost() < cost * (1.0 - CHEAPER) {
                failed = 0;
                continue;
            }
            failed += 1;
            (self.plan, self.stocks) = before;
            self.counts.fill(0);
        }
    }

    // What the plan costs, biases included.
    pub(crate) fn cost(&self) -> f64 {
        self.plan.iter().map(|(pattern, bins)| self.price(pattern) * f64::from(*bins)).sum()
    }

    fn price(&self, pattern: &Pattern) -> f64 {
        self.problem.bins.get(pattern.bin as usize).map_or(0.0, |bin| bin.cost + bin.bias)
    }

    // The bins whose items are worth least beside their cost and rents, and after failures ever more others, by chance.
    fn choose(&self, prices: &Prices, failed: u32, turn: u32) -> BTreeMap<Pattern, u32> {
        let total: u32 = self.plan.values().sum();
        let goal = crate::round::whole(f64::from(total) * SHARE).max(BINS);
        let mut order: Vec<(f64, &Pattern, u32)> = self
            .plan
            .iter()
            .map(|(pattern, &bins)| (self.rented(pattern, prices), pattern, bins))
            .filter(|(rented, ..)| *rented > 0.0)
            .map(|(rented, pattern, bins)| (worth(pattern, &prices.worths) - rented, pattern, bins))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
        let worst = goal - goal * failed.min(4) / 6;
        let mut freed: BTreeMap<Pattern, u32> = BTreeMap::new();
        let mut n = 0;
        // Of so many items that kinds would stand in for them, too many are in a share of the bins.
        let most = if self.counts.len() > MANY { ITEMS } else { usize::MAX };
        let mut items = FixedBitSet::with_capacity(self.counts.len());
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
            .map(|((_, pattern, _), at)| (crate::master::mixed(u64::from(turn) << 32 | at), *pattern))
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

    fn free(&mut self, freed: &BTreeMap<Pattern, u32>) {
        for (pattern, &bins) in freed {
            if let Some(left) = self.plan.get_mut(pattern) {
                *left -= bins.min(*left);
            }
            for &(item, each) in &pattern.items {
                if let Some(count) = self.counts.get_mut(item as usize) {
                    *count += each * bins;
                }
            }
            for (stock, amount) in self.problem.drawn_by(pattern) {
                if let Some(stock) = self.stocks.get_mut(stock) {
                    *stock += amount * f64::from(bins);
                }
            }
        }
        self.plan.retain(|_, bins| *bins > 0);
    }

    // Packs what is free anew, if the linear program for it leaves hope; says whether it did.
    fn pays(&mut self, columns: &[Pattern], prices: &Prices, freed: &BTreeMap<Pattern, u32>) -> bool {
        self.generator.take_columns();
        for pattern in freed.keys().chain(columns) {
            let mut pattern = pattern.clone();
            pattern.items.retain_mut(|(item, n)| {
                *n = (*n).min(self.counts.get(*item as usize).copied().unwrap_or(0));
                *n > 0
            });
            if freed.contains_key(&pattern) || worth(&pattern, &prices.worths) >= self.rented(&pattern, prices) * USEFUL
            {
                self.generator.add(pattern);
            }
        }
        let rounds = Rounds { at_most: ROUNDS, proofs: 0, ..self.budget.into() };
        let Some(prices) = self.generator.solve(&self.counts, &self.stocks, rounds, false) else { return false };
        let cost: f64 = freed.iter().map(|(pattern, bins)| self.price(pattern) * f64::from(*bins)).sum();
        let cheapest = freed.keys().map(|pattern| self.price(pattern)).fold(f64::INFINITY, f64::min);
        // Where all bins cost the same, only a whole one less is less.
        let is_uniform = self.problem.bins.iter().all(|bin| (bin.cost + bin.bias - cheapest).abs() < 1e-12);
        let least = if is_uniform { (prices.value / cheapest - 1e-4).ceil() * cheapest } else { prices.value };
        if least >= cost * (1.0 - CHEAPER) {
            return false;
        }
        let known: Vec<(Pattern, u32)> = freed.iter().map(|(pattern, bins)| (pattern.clone(), *bins)).collect();
        let whole = Restricted {
            problem: self.problem,
            counts: &self.counts,
            stocks: &self.stocks,
            columns: &self.generator.columns,
            prices: &prices,
        };
        match whole.solve(&known, self.budget.branches) {
            Some(bins) => self.take_all(&bins),
            None => self.descend(prices),
        }
        true
    }
}

/// What a pattern's items are worth.
pub(crate) fn worth(pattern: &Pattern, worths: &[f64]) -> f64 {
    pattern.items.iter().map(|&(item, n)| worths.get(item as usize).copied().unwrap_or(0.0) * f64::from(n)).sum()
}
