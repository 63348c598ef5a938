//! Ruin and recreate: a few bins are emptied and filled anew, quickly and a little by chance, many times over (Schrimpf et
//! al., 2000). Where items are all different, this tries thousands of what repairs by a master try a few of.
//!
//! Bins are filled by the dual prices of the compact program: always by the type whose pattern has most dual value for its
//! cost; then a bin becomes the cheapest type that holds the same. Plans that are a little dearer are kept at first, ever
//! fewer as it goes on (simulated annealing).

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::partial::PartialPlan;
use crate::columns::Guide;
use crate::duals::DualPrices;
use crate::numbers::{floor_u32, noise, scrambled};
use crate::pricing::{Pricer, Wanted};
use crate::problem::Pattern;
use crate::tuning::ruin::{BINS, COLD, ITEMS, MOST_BINS, NOISE, TYPES, WARM};

/// A plan made in the same way from nothing, items by chance some hundreds at a time.
pub(super) fn construct<'p>(plan: PartialPlan<'p>, pricer: &mut Pricer<'_>, guide: &Guide) -> PartialPlan<'p> {
    let mut search = Search::new(&plan, pricer, guide);
    let mut wanted: Vec<Wanted> = (0..)
        .zip(&plan.counts)
        .filter(|(_, count)| **count > 0)
        .map(|(item, count)| Wanted { item, price: search.price(item), count: *count })
        .collect();
    if wanted.len() > ITEMS {
        wanted.sort_by_key(|wanted| scrambled(u64::from(wanted.item)));
    }
    let mut bins = Vec::new();
    for part in wanted.chunks(ITEMS) {
        match search.fill(part.to_vec(), f64::INFINITY) {
            Some((new, _)) => bins.extend(new),
            None => return plan,
        }
    }
    let mut made = plan.clone();
    made.take_all(&counted(bins));
    made
}

/// Improves a plan of all items, as far as `work` goes: amounts of resources that are looked at.
pub(super) fn improve(plan: &mut PartialPlan<'_>, pricer: &mut Pricer<'_>, guide: &Guide, work: u64) {
    let n_bins: u64 = plan.bins.values().map(|bins| u64::from(*bins)).sum();
    if !plan.is_done() || !(2..=MOST_BINS).contains(&n_bins) {
        return;
    }
    let mut search = Search::new(plan, pricer, guide);
    let mean = search.cost / f64::from(u32::try_from(n_bins).unwrap_or(u32::MAX));
    let mut best = (search.cost, search.bins.clone());
    while search.work < work {
        let temperature = mean * WARM * (COLD / WARM).powf(share(search.work, work));
        search.turn(temperature);
        // A turn that found nothing to look at counts, too.
        search.work += 1;
        if search.cost < best.0 * (1.0 - 1e-9) {
            best = (search.cost, search.bins.clone());
        }
    }
    if best.0 < plan.cost() * (1.0 - 1e-9) {
        let before = plan.clone();
        plan.free(&before.bins);
        plan.take_all(&counted(best.1));
        // Amounts of stocks are floats.
        if !plan.is_done() {
            *plan = before;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "how far the work has come, about")]
fn share(done: u64, all: u64) -> f64 {
    done as f64 / all.max(1) as f64
}

fn counted(patterns: Vec<Pattern>) -> Vec<(Pattern, u32)> {
    let mut bins: BTreeMap<Pattern, u32> = BTreeMap::new();
    for pattern in patterns {
        *bins.entry(pattern).or_default() += 1;
    }
    bins.into_iter().collect()
}

struct Search<'s, 'p, 'q> {
    plan: &'s PartialPlan<'p>,
    pricer: &'s mut Pricer<'q>,
    duals: &'s DualPrices,
    /// Each bin by itself.
    bins: Vec<Pattern>,
    stocks: Vec<f64>,
    cost: f64,
    /// Types of bins, the cheapest first.
    by_cost: Vec<u32>,
    /// Types that bins are filled by.
    types: Vec<u32>,
    /// Numbers drawn so far.
    drawn: u64,
    work: u64,
}

impl<'s, 'p, 'q> Search<'s, 'p, 'q> {
    fn new(plan: &'s PartialPlan<'p>, pricer: &'s mut Pricer<'q>, guide: &'s Guide) -> Self {
        let bins = plan.bins.iter().flat_map(|(pattern, n)| (0..*n).map(|_| pattern.clone())).collect();
        let mut search = Search {
            cost: plan.cost(),
            stocks: plan.stocks.clone(),
            plan,
            pricer,
            duals: &guide.duals,
            bins,
            by_cost: Vec::new(),
            types: Vec::new(),
            drawn: 0,
            work: 0,
        };
        search.choose_types(&guide.types);
        search
    }

    // The types that the compact program uses most, and for each item that none of them takes the cheapest.
    fn choose_types(&mut self, by_use: &[u32]) {
        let problem = self.plan.problem;
        let cost = |bin: u32| problem.bins.get(bin as usize).map_or(0.0, |bin| self.duals.cost_of_bin(bin));
        let mut by_cost: Vec<u32> = (0..u32::try_from(problem.bins.len()).unwrap_or(u32::MAX)).collect();
        by_cost.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)).then(a.cmp(b)));
        let mut types: Vec<u32> = by_use.iter().copied().take(TYPES).collect();
        let may_hold = |bin: u32, item: usize| {
            let alone = Pattern { bin, items: vec![(u32::try_from(item).unwrap_or(u32::MAX), 1)] };
            problem.bins.get(bin as usize).is_some_and(|bin| bin.admits.contains(item)) && problem.fits(&alone)
        };
        let mut taken = FixedBitSet::with_capacity(problem.items.len());
        for item in 0..problem.items.len() {
            taken.set(item, types.iter().any(|bin| may_hold(*bin, item)));
        }
        for item in 0..problem.items.len() {
            if taken.contains(item) {
                continue;
            }
            if let Some(&bin) = by_cost.iter().find(|bin| may_hold(**bin, item)) {
                types.push(bin);
                (item..problem.items.len()).filter(|other| may_hold(bin, *other)).for_each(|other| taken.insert(other));
            }
        }
        (self.by_cost, self.types) = (by_cost, types);
    }

    fn draw(&mut self, below: usize) -> usize {
        self.drawn += 1;
        usize::try_from(scrambled(self.drawn) % below.max(1) as u64).unwrap_or(0)
    }

    fn chance(&mut self) -> f64 {
        self.drawn += 1;
        noise(self.drawn)
    }

    fn price(&self, item: u32) -> f64 {
        self.duals.of_item(item).max(1e-9)
    }

    // Empties some bins and fills others by what was in them; keeps it, if it is not much dearer.
    fn turn(&mut self, temperature: f64) {
        let n = (2 + self.draw(BINS - 1)).min(self.bins.len());
        let mut freed: Vec<Pattern> = Vec::with_capacity(n);
        for at in 0..n {
            // The worst of three, then any, in turn.
            let mut chosen = self.draw(self.bins.len());
            for _ in 0..if at % 2 == 0 { 2 } else { 0 } {
                let other = self.draw(self.bins.len());
                if self.reduced(other) > self.reduced(chosen) {
                    chosen = other;
                }
            }
            freed.push(self.bins.swap_remove(chosen));
        }
        let before: f64 = freed.iter().map(|pattern| self.plan.cost_of(pattern)).sum();
        let spread = NOISE * self.chance();
        let mut wanted: BTreeMap<u32, u32> = BTreeMap::new();
        for &(item, n) in freed.iter().flat_map(|pattern| &pattern.items) {
            *wanted.entry(item).or_default() += n;
        }
        let mut noisy = |(item, count)| {
            let by = 1.0 + spread * (self.chance() - 0.5);
            Wanted { item, price: self.price(item) * by, count }
        };
        let wanted = wanted.into_iter().map(&mut noisy).collect();
        let limit = before - temperature * self.chance().max(1e-12).ln();
        self.draw_from_stocks(&freed, -1.0);
        if let Some((new, cost)) = self.fill(wanted, limit) {
            self.bins.extend(new);
            self.cost += cost - before;
        } else {
            self.draw_from_stocks(&freed, 1.0);
            self.bins.extend(freed);
        }
    }

    fn draw_from_stocks(&mut self, patterns: &[Pattern], sign: f64) {
        for pattern in patterns {
            for (stock, amount) in self.plan.problem.drawn_by(pattern) {
                if let Some(stock) = self.stocks.get_mut(stock) {
                    *stock -= amount * sign;
                }
            }
        }
    }

    fn reduced(&self, at: usize) -> f64 {
        self.bins.get(at).map_or(0.0, |pattern| self.duals.reduced_cost_of(self.plan.problem, pattern))
    }

    // Bins for all that is wanted, for less than a limit, and what they cost. Their stocks are drawn.
    fn fill(&mut self, mut wanted: Vec<Wanted>, limit: f64) -> Option<(Vec<Pattern>, f64)> {
        let (mut new, mut cost) = (Vec::new(), 0.0);
        while !wanted.is_empty() {
            let mut best: Option<(f64, Pattern)> = None;
            for at in 0..self.types.len() {
                let Some(&bin) = self.types.get(at) else { break };
                let (items, work) = self.pricer.fill(bin as usize, &wanted);
                self.work += work;
                let pattern = Pattern { bin, items };
                if pattern.items.is_empty() || !self.is_there(&pattern) {
                    continue;
                }
                let rate = self.duals.value_of(&pattern) / self.duals.cost_of(self.plan.problem, &pattern).max(1e-9);
                if best.as_ref().is_none_or(|(most, _)| rate > *most) {
                    best = Some((rate, pattern));
                }
            }
            let pattern = best.map(|(_, pattern)| self.cheapest_for(pattern));
            let Some(pattern) = pattern.filter(|pattern| cost + self.plan.cost_of(pattern) < limit) else {
                self.draw_from_stocks(&new, -1.0);
                return None;
            };
            cost += self.plan.cost_of(&pattern);
            for wanted in &mut wanted {
                let at = pattern.items.binary_search_by_key(&wanted.item, |(item, _)| *item);
                let taken = at.ok().and_then(|at| pattern.items.get(at)).map_or(0, |(_, n)| *n);
                wanted.count = wanted.count.saturating_sub(taken);
            }
            wanted.retain(|wanted| wanted.count > 0);
            self.draw_from_stocks(std::slice::from_ref(&pattern), 1.0);
            new.push(pattern);
        }
        Some((new, cost))
    }

    // Whether stocks have what a pattern draws, and it holds what its bin must.
    fn is_there(&self, pattern: &Pattern) -> bool {
        let problem = self.plan.problem;
        let left = |stock: usize| self.stocks.get(stock).copied().unwrap_or(0.0);
        let mut drawn = problem.drawn_by(pattern);
        problem.has_needed(pattern) && drawn.all(|(stock, amount)| floor_u32(left(stock) / amount) > 0)
    }

    // The same in the cheapest type of bin that may hold it.
    fn cheapest_for(&self, mut pattern: Pattern) -> Pattern {
        let (known, cost) = (pattern.bin, self.plan.cost_of(&pattern));
        for &bin in &self.by_cost {
            pattern.bin = bin;
            if self.plan.cost_of(&pattern) >= cost {
                break;
            }
            let has_room = self.pricer.has_room_for(bin as usize, &pattern.items);
            if has_room && self.is_there(&pattern) && self.plan.problem.allows(&pattern) {
                return pattern;
            }
        }
        pattern.bin = known;
        pattern
    }
}
