//! Bins filled greedily by dual price: each time the type of bin whose best pattern has most dual value for its cost.

use super::partial::PartialPlan;
use crate::duals::DualPrices;
use crate::numbers::scrambled;
use crate::pricing::{Pricer, PricingEffort, Query};
use crate::problem::Pattern;
use crate::tuning::greedy::{LEAST_PRICE, NEARLY_BEST, WINDOW};

/// Which pattern is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The best of all types of bins. What dives leave is little, and worth it.
    Best,
    /// One that is nearly the best, where a quick bound says so, of a part of the items: for the whole of a problem.
    NearlyBest,
}

/// Packs what is left, as far as stocks go, by these dual prices. A pattern is looked for in up to `steps` steps.
pub(super) fn pack(plan: &mut PartialPlan<'_>, pricer: &mut Pricer<'_>, duals: &DualPrices, order: Order, steps: u32) {
    let least = duals.items.iter().copied().filter(|price| *price > 0.0).fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least * LEAST_PRICE } else { 1.0 };
    let items = duals.items.iter().map(|price| price.max(least)).collect();
    let duals = &DualPrices { items, stocks: duals.stocks.clone() };
    let mut bins = Bins { plan, pricer, duals, steps };
    let n_bins = bins.plan.problem.bins.len();
    let mut window = Window::new(&bins.plan.counts, if order == Order::NearlyBest { WINDOW } else { usize::MAX });
    // By type of bin: what a dollar for one buys at most, and its best pattern if that is known.
    let mut rates: Vec<f64> = Vec::new();
    let mut patterns: Vec<Option<Pattern>> = vec![None; n_bins];
    while !bins.plan.is_done() {
        // Rates only fall as items go, so an old rate is a bound on the new one, until items come in.
        if window.refill(&bins.plan.counts) || rates.is_empty() {
            let most = |at| if order == Order::Best { f64::INFINITY } else { bins.rate_at_most(at, &window.counts) };
            rates = (0..n_bins).map(most).collect();
            patterns.fill(None);
        }
        let (at, rate, next) = highest(&rates);
        if rate <= 0.0 {
            if window.is_all() {
                return;
            }
            window.is_stuck = true;
            continue;
        }
        let (Some(known), Some(rate)) = (patterns.get_mut(at), rates.get_mut(at)) else { return };
        let pattern = if let Some(pattern) = known.take() {
            pattern
        } else {
            let (fresh, pattern) = bins.best_pattern(at, &window.counts);
            *rate = fresh.min(*rate);
            if order == Order::Best || *rate < next * (1.0 - NEARLY_BEST) {
                *known = Some(pattern);
                continue;
            }
            pattern
        };
        if bins.plan.take(&pattern, f64::from(u32::MAX), true) > 0 {
            patterns.fill(None);
            window.take(&pattern, &bins.plan.counts);
        } else {
            *rate = 0.0;
        }
    }
}

// The first of the highest rates: where, how high, and how high the next one is.
fn highest(rates: &[f64]) -> (usize, f64, f64) {
    let (mut best, mut next) = ((0, 0.0), 0.0_f64);
    for (at, &rate) in rates.iter().enumerate() {
        if rate > best.1 {
            next = best.1;
            best = (at, rate);
        } else {
            next = next.max(rate);
        }
    }
    (best.0, best.1, next)
}

/// What fills bins of a plan.
struct Bins<'b, 'p, 'q> {
    plan: &'b mut PartialPlan<'p>,
    pricer: &'b mut Pricer<'q>,
    duals: &'b DualPrices,
    steps: u32,
}

impl Bins<'_, '_, '_> {
    fn cost(&self, at: usize) -> f64 {
        self.plan.problem.bins.get(at).map_or(0.0, |bin| self.duals.cost_of_bin(bin)).max(1e-9)
    }

    // What a dollar for a bin can buy at most.
    fn rate_at_most(&self, at: usize, counts: &[u32]) -> f64 {
        let prices = self.plan.problem.prices_in(at, &self.duals.items, &self.duals.stocks);
        self.pricer.at_most(at, &prices, counts) / self.cost(at)
    }

    // The best pattern of a bin, and what a dollar for it buys.
    fn best_pattern(&mut self, at: usize, counts: &[u32]) -> (f64, Pattern) {
        let problem = self.plan.problem;
        let mut pattern = Pattern { bin: u32::try_from(at).unwrap_or(u32::MAX), items: Vec::new() };
        let Some(bin) = problem.bins.get(at) else { return (0.0, pattern) };
        if bin.draws.iter().any(|&(stock, amount)| self.plan.stocks.get(stock) < Some(&amount)) {
            return (0.0, pattern);
        }
        let effort = PricingEffort { steps: self.steps, nodes: 0, slack: 1.0 };
        let counts = problem.available_for(at, counts, &self.plan.stocks);
        let prices = problem.prices_in(at, &self.duals.items, &self.duals.stocks);
        let query = Query { bin: at, prices: &prices, counts: &counts, threshold: 0.0, effort };
        pattern.items = self.pricer.best_pattern(query).items;
        problem.cut_to_stocks(at, &mut pattern.items, &self.plan.stocks);
        let price = |item: u32| prices.get(item as usize).copied().unwrap_or(0.0);
        let value: f64 = pattern.items.iter().map(|&(item, n)| price(item) * f64::from(n)).sum();
        (value / self.cost(at), pattern)
    }
}

/// Some of the items that are left.
struct Window {
    /// By item: how many are left of those that are in.
    counts: Vec<u32>,
    /// Items that it may hold.
    at_most: usize,
    /// Items in it that are left.
    wanted: usize,
    /// Items that are not in it yet, the next ones last.
    outside: Vec<usize>,
    /// Whether none of the items in it have a place.
    is_stuck: bool,
}

impl Window {
    fn new(counts: &[u32], at_most: usize) -> Self {
        let mut outside: Vec<usize> =
            counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(item, _)| item).collect();
        if outside.len() > at_most {
            outside.sort_by_key(|item| scrambled(*item as u64));
        }
        Window { counts: vec![0; counts.len()], at_most, wanted: 0, outside, is_stuck: false }
    }

    fn is_all(&self) -> bool {
        self.outside.is_empty()
    }

    // Lets items in, if there is room; says whether it did.
    fn refill(&mut self, counts: &[u32]) -> bool {
        if self.outside.is_empty() || (self.wanted > self.at_most / 2 && !self.is_stuck) {
            return false;
        }
        let more = if self.is_stuck { self.at_most } else { self.at_most.saturating_sub(self.wanted) };
        self.is_stuck = false;
        for _ in 0..more {
            let Some(item) = self.outside.pop() else { break };
            if let (Some(inside), Some(&count)) = (self.counts.get_mut(item), counts.get(item)) {
                *inside = count;
                self.wanted += 1;
            }
        }
        true
    }

    // Notes what is left of a pattern's items.
    fn take(&mut self, pattern: &Pattern, counts: &[u32]) {
        for &(item, _) in &pattern.items {
            if let (Some(inside), Some(&count)) = (self.counts.get_mut(item as usize), counts.get(item as usize)) {
                if *inside > 0 && count == 0 {
                    self.wanted -= 1;
                }
                *inside = count;
            }
        }
    }
}
