//! Bins filled greedily by dual price: each time the type of bin whose best filling is worth most for its cost.

use crate::generate::rent;
use crate::knapsack::Depth;
use crate::master::{DualPrices, mixed};
use crate::problem::{BinType, Pattern};
use crate::repair::worth;
use crate::round::Dive;

/// A filling is taken where no other can be worth more for its cost by more than this, relative.
const NEARLY_BEST: f64 = 2e-3;

/// An item that is worth nothing would never be packed: each is worth at least such a share of the least that is.
const LEAST: f64 = 0.01;

/// Items that are looked at together, at most: of more, a part by chance is as good to fill bins from, and quicker. More
/// come in when half of them are packed.
const WINDOW: usize = 500;

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
            outside.sort_by_key(|item| mixed(*item as u64));
        }
        Window { counts: vec![0; counts.len()], at_most, wanted: 0, outside, is_stuck: false }
    }

    fn is_whole(&self) -> bool {
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

impl Dive<'_, '_> {
    /// Packs what is left, as far as stocks go, given what each item is worth and what each stock's unit is.
    pub(crate) fn fill_by_prices(&mut self, prices: &DualPrices) {
        let DualPrices { items, stocks } = prices;
        let least = items.iter().copied().filter(|price| *price > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least * LEAST } else { 1.0 };
        let items = items.iter().map(|price| price.max(least)).collect();
        let prices = DualPrices { items, stocks: stocks.clone() };
        let n_bins = self.problem.bins.len();
        // What dives leave is little: every type of bin is filled before one is used, so that none is only guessed at.
        let is_quick = self.budget.fills > 0;
        let mut window = Window::new(&self.counts, if is_quick { WINDOW } else { usize::MAX });
        let mut rates: Vec<f64> = Vec::new();
        let mut fillings: Vec<Option<Pattern>> = vec![None; n_bins];
        while !self.is_done() {
            // Rates only fall as items go, so an old rate is a bound on the new one, until items come in.
            if window.refill(&self.counts) || rates.is_empty() {
                let most = |at| if is_quick { self.at_most(at, &prices, &window.counts) } else { f64::INFINITY };
                rates = (0..n_bins).map(most).collect();
                fillings.fill(None);
            }
            let (mut best, mut next) = ((0.0, 0), 0.0_f64);
            for (at, &rate) in rates.iter().enumerate() {
                if rate > best.0 {
                    next = best.0;
                    best = (rate, at);
                } else {
                    next = next.max(rate);
                }
            }
            let (mut rate, at) = best;
            if rate <= 0.0 {
                if window.is_whole() {
                    return;
                }
                window.is_stuck = true;
                continue;
            }
            let pattern = if let Some(pattern) = fillings.get_mut(at).and_then(Option::take) {
                pattern
            } else {
                let (fresh, pattern) = self.filling(at, &prices, &window.counts);
                rate = fresh.min(rate);
                if let Some(known) = rates.get_mut(at) {
                    *known = rate;
                }
                if !is_quick || rate < next * (1.0 - NEARLY_BEST) {
                    if let Some(known) = fillings.get_mut(at) {
                        *known = Some(pattern);
                    }
                    continue;
                }
                pattern
            };
            if self.take(&pattern, f64::from(u32::MAX), true) > 0 {
                fillings.fill(None);
                window.take(&pattern, &self.counts);
            } else if let Some(rate) = rates.get_mut(at) {
                *rate = 0.0;
            }
        }
    }

    // What a bin costs, with what it draws from stocks.
    fn cost_of_bin(&self, at: usize, prices: &DualPrices) -> f64 {
        let cost = |bin: &BinType| bin.cost + bin.bias + rent(&bin.draws, &prices.stocks);
        self.problem.bins.get(at).map_or(0.0, cost).max(1e-9)
    }

    // What a dollar for a bin can buy at most.
    fn at_most(&self, at: usize, prices: &DualPrices, counts: &[u32]) -> f64 {
        let worths = self.problem.worths_in(at, &prices.items, &prices.stocks);
        self.generator.knapsack.at_most(at, &worths, counts) / self.cost_of_bin(at, prices)
    }

    // The best filling of a bin, and what a dollar for it buys.
    fn filling(&mut self, at: usize, prices: &DualPrices, counts: &[u32]) -> (f64, Pattern) {
        let mut pattern = Pattern { bin: u32::try_from(at).unwrap_or(u32::MAX), items: Vec::new() };
        let Some(bin) = self.problem.bins.get(at) else { return (0.0, pattern) };
        if bin.draws.iter().any(|&(stock, amount)| self.stocks.get(stock) < Some(&amount)) {
            return (0.0, pattern);
        }
        let depth = Depth { steps: self.budget.steps, nodes: 0, slack: 1.0 };
        let counts = self.problem.left_for(at, counts, &self.stocks);
        let worths = self.problem.worths_in(at, &prices.items, &prices.stocks);
        pattern.items = self.generator.knapsack.fill(at, &worths, &counts, 0.0, depth).items;
        self.problem.keep_within(at, &mut pattern.items, &self.stocks);
        (worth(&pattern, &worths) / self.cost_of_bin(at, prices), pattern)
    }
}
