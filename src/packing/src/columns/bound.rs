//! Dual bounds.

use super::Generator;
use crate::duals::{DualPrices, cost_of_draws};

impl Generator<'_> {
    /// Raises the bound by prices under which no pattern of a bin has more dual value than its `at_most`.
    pub(super) fn raise_bound(&mut self, duals: &DualPrices, at_most: &[f64]) {
        self.bound = self.bound.max(self.certify(duals, at_most));
        self.note_inequality(duals, at_most);
    }

    // A bound from dual prices under which no pattern of a bin has more dual value than its `at_most`. Prices of stocks are
    // raised until bins that draw from them pay for themselves, where that loses less than to scale prices down until they do:
    // all prices, or those of the items that may be in such a bin. The result is feasible in the dual of the program over
    // all patterns, known or not.
    fn certify(&self, duals: &DualPrices, at_most: &[f64]) -> f64 {
        let problem = self.problem;
        let mut stock_prices = duals.stocks.clone();
        stock_prices.resize(problem.stocks.len(), 0.0);
        let items = problem.items.iter().zip(&duals.items);
        let earned: f64 = items.map(|(item, price)| f64::from(item.count) * price).sum();
        let bins = || problem.bins.iter().zip(at_most).filter(|(_, at_most)| **at_most > 0.0);
        for (bin, at_most) in bins() {
            let short = at_most - cost_of_draws(&bin.draws, &stock_prices) - bin.cost;
            let Some(&(stock, amount)) = bin.draws.first().filter(|_| short > 0.0) else { continue };
            let there = problem.stocks.get(stock).copied().unwrap_or(f64::INFINITY);
            let scaled = 1.0 - bin.cost / (bin.cost + short);
            if amount > 0.0
                && (bin.cost <= 0.0 || short / amount * there < scaled * earned)
                && let Some(price) = stock_prices.get_mut(stock)
            {
                *price += short / amount;
            }
        }
        let mut scale = 1.0_f64;
        let mut scales = vec![1.0_f64; problem.items.len()];
        for (bin, at_most) in bins() {
            let drawn = cost_of_draws(&bin.draws, &stock_prices);
            if at_most - drawn <= bin.cost * (1.0 + 1e-12) {
                continue;
            }
            scale = scale.min((bin.cost / (at_most - drawn)).max(0.0));
            let of_items = (bin.cost + drawn) / at_most;
            for item in bin.admits.ones() {
                if let Some(scale) = scales.get_mut(item) {
                    *scale = of_items.min(*scale);
                }
            }
        }
        let paid: f64 = problem.stocks.iter().zip(&stock_prices).map(|(stock, price)| stock * price).sum();
        let of_all = scale * (earned - paid);
        if duals.items.iter().any(|price| *price < 0.0) {
            // A pattern would lose less by such an item.
            return of_all;
        }
        let items = problem.items.iter().zip(&duals.items).zip(&scales);
        let by_item: f64 = items.map(|((item, price), scale)| f64::from(item.count) * price * scale).sum();
        of_all.max(by_item - paid)
    }
}
