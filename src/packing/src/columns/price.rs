//! One round of pricing: for the dual prices of a master, the patterns of each type of bin with the most negative reduced
//! cost become columns.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Generator;
use crate::duals::DualPrices;
use crate::numbers::scrambled;
use crate::pricing::{Priced, PricingEffort, Query};
use crate::problem::{BinType, Pattern, Problem};
use crate::tuning::generation::{LEAST_PATTERNS, MORE_COLUMNS, OTHER_PATTERNS};
use crate::tuning::groups::MANY_ITEMS;
use crate::tuning::proof::LEAST_NODES;

/// What is to be packed at which dual prices.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) duals: &'a DualPrices,
    /// What a bin of the master costs on average.
    pub(super) typical: f64,
    pub(super) counts: &'a [u32],
    pub(super) stocks: &'a [f64],
}

impl<'a> Wanted<'a> {
    // Dual prices in a bin, and how many of each item it may hold as far as stocks go.
    fn of(self, problem: &Problem, bin: usize) -> (Cow<'a, [f64]>, Cow<'a, [u32]>) {
        let prices = problem.prices_in(bin, &self.duals.items, &self.duals.stocks);
        (prices, problem.available_for(bin, self.counts, self.stocks))
    }
}

/// A class of bins that may hold more than they cost.
struct Open {
    class: usize,
    /// One of its bins, for whose room patterns are looked for.
    first: usize,
    /// The most dual value that a pattern may have, as a multiple of `least`.
    promise: f64,
    /// Each bin, and what dual value its pattern must exceed: its cost.
    thresholds: Vec<(usize, f64)>,
    /// The least of these costs.
    least: f64,
}

impl Generator<'_> {
    // Adds the patterns of each type of bin that would improve the master most. Returns by how much the best does, its
    // reduced cost relative to its bin's cost, 0 if there is none; and by type of bin the dual value that no pattern
    // exceeds. Exact searches share `work`: relaxations solved, times their columns.
    pub(super) fn price(
        &mut self,
        wanted: Wanted<'_>,
        effort: PricingEffort,
        work: u64,
        types: usize,
    ) -> (f64, Vec<f64>) {
        let (mut open, mut at_most) = self.open_classes(wanted, types == usize::MAX);
        self.choose_types(&mut open, types);
        let mut priced: Vec<Priced> = Vec::with_capacity(open.len());
        for class in &open {
            priced.push(self.price_class(class, wanted, PricingEffort { nodes: 0, ..effort }));
        }
        if effort.nodes > 0 {
            self.price_exactly(&open, &mut priced, wanted, effort, work);
        }
        let parts = LEAST_PATTERNS / priced.len().max(1);
        if parts > 1 {
            for (class, priced) in open.iter().zip(&mut priced) {
                self.price_what_is_left(class, priced, wanted, effort.steps, parts);
            }
        }
        for (class, priced) in open.iter().zip(&priced) {
            for &(index, _) in &class.thresholds {
                if let Some(at_most) = at_most.get_mut(index) {
                    *at_most = priced.at_most.min(*at_most);
                }
            }
        }
        (self.add_best(&open, &priced, wanted.typical), at_most)
    }

    // Classes of bins that may be worth a look, and by bin the dual value that a quick bound says no pattern exceeds.
    fn open_classes(&self, wanted: Wanted<'_>, are_all: bool) -> (Vec<Open>, Vec<f64>) {
        let mut at_most = vec![0.0; self.problem.bins.len()];
        let mut open: Vec<Open> = Vec::new();
        for (class, bins) in self.classes.iter().enumerate() {
            let bins = bins.iter().filter_map(|&index| Some((index, self.problem.bins.get(index)?)));
            let is_there =
                |bin: &BinType| bin.draws.iter().all(|&(stock, amount)| wanted.stocks.get(stock) >= Some(&amount));
            let thresholds: Vec<(usize, f64)> = bins
                .filter(|(_, bin)| is_there(bin))
                .map(|(index, bin)| (index, wanted.duals.cost_of_bin(bin) * (1.0 + 1e-7)))
                .collect();
            let Some(&(first, _)) = thresholds.first() else { continue };
            let least = thresholds.iter().map(|(_, threshold)| *threshold).fold(f64::INFINITY, f64::min);
            let (prices, counts) = wanted.of(self.problem, first);
            // Where all types are looked into anyway, nothing is gained by a bound.
            let most = if are_all { f64::INFINITY } else { self.pricer.at_most(first, &prices, &counts) };
            for &(index, _) in &thresholds {
                if let Some(at_most) = at_most.get_mut(index) {
                    *at_most = most;
                }
            }
            if most > least {
                open.push(Open { class, first, promise: most / least.max(1e-12), thresholds, least });
            }
        }
        (open, at_most)
    }

    // Keeps so many classes at most: half of them such as promise most, and half such as were left out longest.
    fn choose_types(&mut self, open: &mut Vec<Open>, at_most: usize) {
        self.turn += 1;
        if open.len() > at_most {
            let by_chance = |open: &Open| scrambled(open.class as u64);
            open.sort_by(|a, b| b.promise.total_cmp(&a.promise).then(by_chance(a).cmp(&by_chance(b))));
            let last = |open: &Open| self.priced.get(open.class).copied().unwrap_or(0);
            if let Some(rest) = open.get_mut(at_most / 2..) {
                rest.sort_by_key(|open| (last(open), by_chance(open)));
            }
            open.truncate(at_most);
            open.sort_by_key(|open| open.class);
        }
        for open in open {
            if let Some(last) = self.priced.get_mut(open.class) {
                *last = self.turn;
            }
        }
    }

    fn price_class(&mut self, open: &Open, wanted: Wanted<'_>, effort: PricingEffort) -> Priced {
        let (prices, counts) = wanted.of(self.problem, open.first);
        let (prices, counts) = (&*prices, &*counts);
        self.pricer.best_pattern(Query { bin: open.first, prices, counts, threshold: open.least, effort })
    }

    // Where quick searches were cut short, exact ones go on, as far as the work goes: what promises most first.
    fn price_exactly(
        &mut self,
        open: &[Open],
        priced: &mut [Priced],
        wanted: Wanted<'_>,
        effort: PricingEffort,
        mut work: u64,
    ) {
        let promise = |(class, priced): (&Open, &Priced)| {
            priced.at_most / priced.value.max(class.least * effort.slack).max(1e-12)
        };
        let promises: Vec<f64> = open.iter().zip(&*priced).map(promise).collect();
        let mut order: Vec<usize> = (0..priced.len()).collect();
        order.retain(|&at| promises.get(at).is_some_and(|promise| *promise > 1.0 + 1e-8));
        order.sort_by(|a, b| promises.get(*b).partial_cmp(&promises.get(*a)).unwrap_or(Ordering::Equal));
        for (at, left) in order.iter().copied().zip((1..=order.len() as u64).rev()) {
            let (Some(class), Some(priced)) = (open.get(at), priced.get_mut(at)) else { continue };
            if work == 0 {
                break;
            }
            // The work is shared fairly, so that one hard type does not keep all others from being proved.
            let columns = self.problem.bins.get(class.first).map_or(1, |bin| bin.admits.count_ones(..).max(1) as u64);
            let share = u32::try_from(work / left / columns).unwrap_or(u32::MAX).max(LEAST_NODES);
            let exact = self.price_class(class, wanted, PricingEffort { nodes: effort.nodes.min(share), ..effort });
            work = work.saturating_sub(exact.work);
            let quick = std::mem::replace(priced, exact);
            priced.at_most = priced.at_most.min(quick.at_most.max(class.least * effort.slack));
        }
    }

    // Fills a bin with what its best pattern leaves, and so on.
    fn price_what_is_left(&mut self, open: &Open, found: &mut Priced, wanted: Wanted<'_>, steps: u32, parts: usize) {
        let (prices, counts) = wanted.of(self.problem, open.first);
        let mut left = counts.into_owned();
        let mut taken = found.items.clone();
        for _ in 1..parts {
            for &(item, n) in &taken {
                if let Some(left) = left.get_mut(item as usize) {
                    *left = left.saturating_sub(n);
                }
            }
            let effort = PricingEffort { steps, nodes: 0, slack: 1.0 };
            let query = Query { bin: open.first, prices: &prices, counts: &left, threshold: open.least, effort };
            let next = self.pricer.best_pattern(query);
            if next.items.is_empty() {
                return;
            }
            taken.clone_from(&next.items);
            found.after.push((next.value, next.items));
        }
    }

    // Adds the columns of the most negative reduced cost. Returns that of the best, relative.
    fn add_best(&mut self, open: &[Open], priced: &[Priced], typical: f64) -> f64 {
        let mut found: Vec<(f64, Pattern)> = Vec::new();
        for (class, priced) in open.iter().zip(priced) {
            for &(index, cost) in &class.thresholds {
                let bin = u32::try_from(index).unwrap_or(u32::MAX);
                let mut add = |value: f64, items: &[(u32, u32)]| {
                    if value > cost && !items.is_empty() {
                        let reduced = (cost - value) / cost.max(typical);
                        found.push((reduced, Pattern { bin, items: items.to_vec() }));
                    }
                };
                for (value, items) in priced.others.iter().rev().take(OTHER_PATTERNS).chain(&priced.after) {
                    add(*value, items);
                }
                add(priced.value, &priced.items);
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut gained = 0.0_f64;
        let mut room = self.problem.items.len().min(MANY_ITEMS) + MORE_COLUMNS;
        for (reduced, pattern) in found {
            if room == 0 {
                break;
            }
            if self.add(pattern) {
                gained = gained.max(-reduced);
                room -= 1;
            }
        }
        gained
    }
}
