//! Dual prices of a master program.

use crate::problem::{BinType, Pattern, Problem};

/// What one more of each item would cost, and what one more of each stock would save.
#[derive(Clone, Debug, Default)]
pub(crate) struct DualPrices {
    /// By item.
    pub(crate) items: Vec<f64>,
    /// By stock.
    pub(crate) stocks: Vec<f64>,
}

impl DualPrices {
    /// The dual price of an item; 0 for one that is unknown.
    pub(crate) fn of_item(&self, item: u32) -> f64 {
        self.items.get(item as usize).copied().unwrap_or(0.0)
    }

    /// The dual value of a pattern: the sum of its items' dual prices.
    pub(crate) fn value_of(&self, pattern: &Pattern) -> f64 {
        pattern.items.iter().map(|&(item, n)| self.of_item(item) * f64::from(n)).sum()
    }

    /// The cost of a pattern: of its bin, and of what it draws from stocks.
    pub(crate) fn cost_of(&self, problem: &Problem, pattern: &Pattern) -> f64 {
        let bin = problem.bins.get(pattern.bin as usize);
        bin.map_or(0.0, |bin| bin.cost + bin.bias + problem.stock_cost_of(pattern, &self.stocks))
    }

    /// The reduced cost of a pattern: below 0 it would make the master's value lower.
    pub(crate) fn reduced_cost_of(&self, problem: &Problem, pattern: &Pattern) -> f64 {
        self.cost_of(problem, pattern) - self.value_of(pattern)
    }

    /// The cost of an empty bin: its own, and of what it draws from stocks whatever is in it.
    pub(crate) fn cost_of_bin(&self, bin: &BinType) -> f64 {
        bin.cost + bin.bias + cost_of_draws(&bin.draws, &self.stocks)
    }
}

/// What amounts of stocks cost.
pub(crate) fn cost_of_draws(draws: &[(usize, f64)], stock_prices: &[f64]) -> f64 {
    draws.iter().map(|&(stock, amount)| stock_prices.get(stock).copied().unwrap_or(0.0) * amount).sum()
}
