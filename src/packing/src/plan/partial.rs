//! A plan that is being made.

use std::collections::BTreeMap;

use crate::numbers::floor_u32;
use crate::problem::{Pattern, Problem};

/// What is packed, and what is left.
#[derive(Clone, Debug)]
pub(crate) struct PartialPlan<'p> {
    pub(crate) problem: &'p Problem,
    /// By item: how many are left.
    pub(crate) counts: Vec<u32>,
    /// By stock: how much is left.
    pub(crate) stocks: Vec<f64>,
    /// Bins in use.
    pub(crate) bins: BTreeMap<Pattern, u32>,
}

impl<'p> PartialPlan<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        PartialPlan {
            problem,
            counts: problem.items.iter().map(|item| item.count).collect(),
            stocks: problem.stocks.clone(),
            bins: BTreeMap::new(),
        }
    }

    /// How many of an item are left.
    pub(crate) fn left(&self, item: u32) -> u32 {
        self.counts.get(item as usize).copied().unwrap_or(0)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// What the plan costs, biases included.
    pub(crate) fn cost(&self) -> f64 {
        self.bins.iter().map(|(pattern, bins)| self.cost_of(pattern) * f64::from(*bins)).sum()
    }

    /// What a bin costs, its bias included.
    pub(crate) fn cost_of(&self, pattern: &Pattern) -> f64 {
        self.problem.bins.get(pattern.bin as usize).map_or(0.0, |bin| bin.cost + bin.bias)
    }

    /// A column cut to what is left.
    pub(crate) fn cut(&self, mut column: Pattern) -> Pattern {
        column.items.retain_mut(|(item, n)| {
            *n = (*n).min(self.left(*item));
            *n > 0
        });
        column
    }

    /// Uses a column up to `at_most` times, as long as its items (some of them, unless `in_full`) are still wanted. Returns
    /// how often.
    pub(crate) fn take(&mut self, column: &Pattern, at_most: f64, in_full: bool) -> u32 {
        let pattern = if in_full { column.clone() } else { self.cut(column.clone()) };
        let mut n = pattern.items.iter().map(|&(item, n)| self.left(item) / n.max(1)).min().unwrap_or(0);
        for (stock, amount) in self.problem.drawn_by(&pattern) {
            let there = self.stocks.get(stock).copied().unwrap_or(0.0);
            n = n.min(floor_u32(there / amount));
        }
        n = n.min(floor_u32(at_most));
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
        *self.bins.entry(pattern).or_default() += n;
        n
    }

    /// Uses columns that may hold more than is left.
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

    /// Empties bins.
    pub(crate) fn free(&mut self, bins: &BTreeMap<Pattern, u32>) {
        for (pattern, &n) in bins {
            if let Some(left) = self.bins.get_mut(pattern) {
                *left -= n.min(*left);
            }
            for &(item, each) in &pattern.items {
                if let Some(count) = self.counts.get_mut(item as usize) {
                    *count += each * n;
                }
            }
            for (stock, amount) in self.problem.drawn_by(pattern) {
                if let Some(stock) = self.stocks.get_mut(stock) {
                    *stock += amount * f64::from(n);
                }
            }
        }
        self.bins.retain(|_, n| *n > 0);
    }
}
