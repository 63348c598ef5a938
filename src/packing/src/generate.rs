//! Column generation: the linear program over the patterns known so far says what items are worth, and for these worths
//! the best filling of each type of bin is looked for, until none is worth more than its bin costs.

use std::borrow::Cow;

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Budget;
use crate::kinds::{Kinds, MANY};
use crate::knapsack::{Depth, Filling, Knapsack};
use crate::master::{DualPrices, Master, Prices, Warm};
use crate::problem::{BinType, Pattern, Problem};

/// The patterns known so far.
pub(crate) struct Generator<'p> {
    pub(crate) problem: &'p Problem,
    pub(crate) knapsack: Knapsack<'p>,
    pub(crate) columns: Vec<Pattern>,
    known: FxHashSet<Pattern>,
    groups: Vec<Alike>,
    kinds: Option<Kinds>,
    /// By group: when it was priced last, and how often any were.
    priced: Vec<u32>,
    turn: u32,
    /// The dual prices of some rounds for all items, which bins are filled by.
    pub(crate) seen: Vec<DualPrices>,
    /// Rows of linear programs that are factored densely, at most.
    dense: usize,
    /// By item: what leaving out one costs in linear programs, more than any packing of it.
    penalties: Vec<f64>,
    /// No packing of all items costs less.
    pub(crate) bound: f64,
    /// Columns of the linear programs solved so far.
    pub(crate) work: u64,
}

/// How exactly linear programs are solved, relative. Prices from the middle of those that are nearly as good make better
/// patterns than extreme ones, so that exactness follows what the last patterns gained, this share of it.
const LOOSEST: f64 = 1e-2;
const ENOUGH: f64 = 1e-6;
const TIGHTEST: f64 = 1e-8;
const EAGER: f64 = 0.02;

/// The same after a proof, a share of what may stay open.
const CENTRAL: f64 = 0.2;

/// After an exact search of bins has found something.
const AGAIN: f64 = 1e-3;

/// A gain of less than this, relative, is looked for more exactly.
const NOTICED: f64 = 1e-5;

/// Patterns that cost so much more than they are worth, relative, are forgotten where there are many.
const DEAR: f64 = 0.1;

/// What exact searches may do in a round, and in a proof: relaxations solved, times their columns.
const WORK: u64 = 1_500_000;
const PROOF_WORK: u64 = 100_000_000;

/// Relaxations that each exact search may solve, whatever the others leave.
const FEW_NODES: u32 = 300;

/// Steps of quick searches in a proof, of all types of bins together: where few items fill a bin, they see all fillings
/// sooner than relaxations prove anything.
const PROOF_STEPS: u32 = 400_000;

/// Where patterns gain less than this, relative, quick searches go on for so many times as many steps from round to round.
const LITTLE: f64 = 0.1;
const DEEPER: u32 = 2;

/// Every so many rounds, from the first on, dual prices are kept for filling bins: early ones, which follow from sizes, are
/// often better at it than the last ones.
const SEEN_EVERY: u32 = 4;

/// Items with which a step takes as long as any.
const HUNDRED: usize = 100;

/// Patterns that a round adds beyond one for each item.
const MORE: usize = 50;

/// Fillings of a bin beside the best that become patterns.
const OTHERS: usize = 2;

/// Kinds stand in for items where these have so many times as many prices.
const FEWER: usize = 2;

/// Patterns that a round looks for at least. Where types of bins are few, what the best filling leaves is filled again,
/// and again, which finds patterns that can be used beside each other.
const PARTS: usize = 64;

/// Where so many rounds make a program cheaper by less than this, relative, it is time for a proof.
const PATIENCE: usize = 4;
const SLOW: f64 = 3e-4;

/// With more rows than this a dense factorisation takes longer than a sparse one.
const DENSE: usize = 900;

/// Rounds with kinds that finer ones follow, at most.
const EARLY_ROUNDS: u32 = 30;

/// How long to generate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) at_most: u32,
    /// Steps of the quick search of a bin.
    pub(crate) steps: u32,
    pub(crate) deep_steps: u32,
    /// Relaxations that the exact search of a bin may solve; the same in a proof; and how many proofs there may be.
    pub(crate) nodes: u32,
    pub(crate) proof_nodes: u32,
    pub(crate) proofs: u32,
    /// What may stay open between bound and value, relative.
    pub(crate) gap: f64,
    /// Columns of all linear programs at most.
    pub(crate) work: u64,
    /// Types of bins that a round looks into.
    pub(crate) types: usize,
    /// Sets of prices that are remembered.
    pub(crate) fills: u32,
}

impl From<Budget> for Rounds {
    fn from(budget: Budget) -> Self {
        let Budget { rounds, steps, deep_steps, nodes, proof_nodes, proofs, gap, work, types, fills, .. } = budget;
        Rounds { at_most: rounds, steps, deep_steps, nodes, proof_nodes, proofs, gap, work, types, fills }
    }
}

/// What is to be packed at which prices.
#[derive(Clone, Copy)]
struct Asked<'a> {
    prices: &'a Prices,
    counts: &'a [u32],
    stocks: &'a [f64],
}

impl<'a> Asked<'a> {
    // What items are worth in a bin, and how many of each it may hold as far as stocks go.
    fn of(self, problem: &Problem, bin: usize) -> (Cow<'a, [f64]>, Cow<'a, [u32]>) {
        let worths = problem.worths_in(bin, &self.prices.worths, &self.prices.rents);
        (worths, problem.left_for(bin, self.counts, self.stocks))
    }
}

/// The least of the thresholds of alike bins, each bin with its threshold, and the best filling of all of them.
type Filled = (f64, Vec<(usize, f64)>, Filling);

/// What makes bins hold the same: room, who may be in them, what these load, and by need whether they have it.
type Key<'p> = (&'p [i64], &'p FixedBitSet, &'p [usize], Vec<bool>);

/// Alike bins that may hold more than they cost: which group, by how much at most, and thresholds as in [`Filled`].
struct Open {
    at: usize,
    promise: f64,
    thresholds: Vec<(usize, f64)>,
    least: f64,
}

/// Bins that hold the same, at the same worths: what fills one fills all.
type Alike = Vec<usize>;

impl<'p> Generator<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        let mut alike: FxHashMap<Key<'_>, usize> = FxHashMap::default();
        let mut groups: Vec<Alike> = Vec::new();
        for (index, bin) in problem.bins.iter().enumerate() {
            let next = groups.len();
            let needs = problem.needs.iter().map(|need| need.bins.contains(index)).collect();
            let group = *alike.entry((&bin.room, &bin.admits, &bin.loads, needs)).or_insert(next);
            match groups.get_mut(group) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        Generator {
            problem,
            knapsack: Knapsack::new(problem),
            columns: Vec::new(),
            known: FxHashSet::default(),
            priced: vec![0; groups.len()],
            turn: 0,
            seen: Vec::new(),
            groups,
            kinds: None,
            dense: DENSE,
            penalties: penalties(problem),
            bound: 0.0,
            work: 0,
        }
    }

    /// Makes a pattern known.
    pub(crate) fn add(&mut self, pattern: Pattern) -> bool {
        let is_allowed = !pattern.items.is_empty() && self.problem.has_needed(&pattern);
        let is_new = is_allowed && self.known.insert(pattern.clone());
        if is_new {
            self.columns.push(pattern);
        }
        is_new
    }

    /// Kinds, where they stand in for the items that are wanted.
    pub(crate) fn stand_ins(&self, counts: &[u32]) -> Option<&Kinds> {
        let wanted = counts.iter().filter(|count| **count > 0).count();
        self.kinds.as_ref().filter(|kinds| wanted > MANY || kinds.len() * FEWER <= wanted)
    }

    /// Hands all patterns out, and knows none any more.
    pub(crate) fn take_columns(&mut self) -> Vec<Pattern> {
        self.known.clear();
        std::mem::take(&mut self.columns)
    }

    /// The same for all items and stocks.
    pub(crate) fn solve_all(&mut self, budget: Budget) -> Option<Prices> {
        let problem = self.problem;
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stages = Kinds::stages(problem, budget.prices);
        // Many programs one after the other, each a little different, are worth it sooner.
        self.dense = DENSE.max(budget.prices + budget.prices / 2);
        // What dives ask for again and again is to be had soon.
        let coarse = stages.get(1).or(stages.first()).cloned();
        let are_fine = stages.last().is_some_and(Kinds::are_of_one_size);
        let is_by_item = stages.is_empty() || (problem.items.len() <= budget.prices && !are_fine);
        let mut stages = stages.into_iter().map(Some).chain(is_by_item.then_some(None)).peekable();
        let mut prices = None;
        while let Some(kinds) = stages.next() {
            let mut rounds = Rounds::from(budget);
            if stages.peek().is_some() {
                rounds = Rounds { at_most: rounds.at_most.min(EARLY_ROUNDS), proofs: 0, ..rounds };
            }
            self.kinds = kinds;
            self.work = 0;
            self.seen.clear();
            prices = self.solve(&counts, &problem.stocks, rounds, true);
        }
        self.kinds = coarse;
        prices
    }

    /// Solves the linear program for what is to be packed, and generates until nothing improves it or `rounds` are
    /// over. `is_whole` says that all items are to be packed, so that what is learned bounds the whole.
    pub(crate) fn solve(&mut self, counts: &[u32], stocks: &[f64], rounds: Rounds, is_whole: bool) -> Option<Prices> {
        let mut tolerance = LOOSEST;
        let mut warm: Option<Warm> = None;
        let mut proofs = 0;
        let mut values: Vec<f64> = Vec::new();
        let mut steps = rounds.steps;
        let choices = self.groups.len().saturating_mul(self.problem.items.len().max(HUNDRED)) / HUNDRED;
        let most_steps = (rounds.deep_steps / u32::try_from(choices).unwrap_or(u32::MAX).max(1)).max(steps);
        let mut is_last = rounds.at_most == 0;
        let mut types = rounds.types.max(2);
        for round in 1.. {
            is_last |= round > rounds.at_most || self.work > rounds.work;
            self.work += self.columns.len() as u64;
            let master = Master {
                problem: self.problem,
                counts,
                stocks,
                columns: &self.columns,
                kinds: self.stand_ins(counts),
                penalties: &self.penalties,
                breaks_ties: is_last,
                warm: warm.take(),
                dense: self.dense,
                tolerance: if is_last { TIGHTEST } else { tolerance },
            };
            let mut prices = master.solve()?;
            warm = prices.warm.take();
            if is_last {
                return Some(prices);
            }
            let asked = Asked { prices: &prices, counts, stocks };
            let (gained, at_most) = self.price(asked, Depth { steps, nodes: rounds.nodes, slack: 1.0 }, WORK, types);
            if is_whole {
                self.bound = self.bound.max(self.certify(&prices, &at_most));
            }
            if gained < LITTLE {
                steps = steps.saturating_mul(DEEPER).min(most_steps);
            }
            values.push(prices.value);
            if is_whole && round % SEEN_EVERY == 1 && (self.seen.len() as u64) + 1 < u64::from(rounds.fills) {
                self.seen.push(prices.duals());
            }
            let before = values.len().checked_sub(PATIENCE + 1).and_then(|at| values.get(at));
            let is_slow = rounds.proofs > 0 && before.is_some_and(|before| prices.value > before * (1.0 - SLOW));
            if is_whole && self.bound >= prices.value * (1.0 - rounds.gap) {
                is_last = true;
            } else if is_slow && proofs < rounds.proofs {
                values.clear();
                proofs += 1;
                let (gained, is_enough) = self.prove(asked, rounds, is_whole);
                is_last = is_enough;
                // What is known and yet worth more than its bin, a more exact answer prices right.
                tolerance = if gained > 0.0 { AGAIN } else { (tolerance * 0.1).max(ENOUGH) };
            } else if gained > NOTICED {
                types = rounds.types.max(2);
                // Proofs want prices from the middle.
                let least = if proofs > 0 { rounds.gap * CENTRAL } else { ENOUGH };
                tolerance = (gained * EAGER).max(least).min(tolerance.max(least));
            } else if types < usize::MAX && self.groups.len() > types {
                // Only when all types were looked at is nothing to be found.
                types = usize::MAX;
            } else if tolerance > ENOUGH {
                tolerance *= 0.1;
            } else if steps < most_steps {
                steps = steps.saturating_mul(DEEPER).min(most_steps);
                tolerance = AGAIN;
            } else if proofs < rounds.proofs {
                proofs += 1;
                let (gained, is_enough) = self.prove(asked, rounds, is_whole);
                is_last = is_enough || gained <= 0.0;
                tolerance = AGAIN;
            } else {
                is_last = true;
            }
            if proofs == 0 {
                self.forget_dear(&prices, warm.as_mut());
            }
        }
        None
    }

    // Searches bins as exactly as may be. Says by how much the best is worth more than its bin, and whether enough is
    // proved.
    fn prove(&mut self, asked: Asked<'_>, rounds: Rounds, is_whole: bool) -> (f64, bool) {
        let steps = PROOF_STEPS / u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let slack = 1.0 + rounds.gap * 0.1;
        let depth = Depth { steps: steps.max(rounds.steps), nodes: rounds.proof_nodes, slack };
        let (gained, at_most) = self.price(asked, depth, PROOF_WORK, usize::MAX);
        if is_whole {
            self.bound = self.bound.max(self.certify(asked.prices, &at_most));
        }
        (gained, is_whole && self.bound >= asked.prices.value * (1.0 - rounds.gap))
    }

    // Adds for each type of bin the patterns that would improve the linear program most. Returns by how much the best
    // is worth more than its bin, relative, 0 if there is none; and by type what no filling is worth more than.
    fn price(&mut self, asked: Asked<'_>, depth: Depth, mut work: u64, types: usize) -> (f64, Vec<f64>) {
        let Asked { prices, stocks, .. } = asked;
        let mut at_most = vec![0.0; self.problem.bins.len()];
        let mut open: Vec<Open> = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            let bins = group.iter().filter_map(|&index| Some((index, self.problem.bins.get(index)?)));
            let is_there = |bin: &BinType| bin.draws.iter().all(|&(stock, amount)| stocks.get(stock) >= Some(&amount));
            let thresholds: Vec<(usize, f64)> = bins
                .filter(|(_, bin)| is_there(bin))
                .map(|(index, bin)| (index, (bin.cost + bin.bias + rent(&bin.draws, &prices.rents)) * (1.0 + 1e-7)))
                .collect();
            let Some(&(first, _)) = thresholds.first() else { continue };
            let least = thresholds.iter().map(|(_, threshold)| *threshold).fold(f64::INFINITY, f64::min);
            let (worths, counts) = asked.of(self.problem, first);
            // Where all types are looked into anyway, nothing is gained by a bound.
            let most = if types == usize::MAX { f64::INFINITY } else { self.knapsack.at_most(first, &worths, &counts) };
            for &(index, _) in &thresholds {
                if let Some(at_most) = at_most.get_mut(index) {
                    *at_most = most;
                }
            }
            if most > least {
                open.push(Open { at, promise: most / least.max(1e-12), thresholds, least });
            }
        }
        self.choose_types(&mut open, types);
        let mut fillings: Vec<Filled> = Vec::with_capacity(open.len());
        for Open { thresholds, least, .. } in open {
            let Some(&(first, _)) = thresholds.first() else { continue };
            let (worths, counts) = asked.of(self.problem, first);
            let filling = self.knapsack.fill(first, &worths, &counts, least, Depth { nodes: 0, ..depth });
            fillings.push((least, thresholds, filling));
        }
        // Where quick searches were cut short, exact ones go on, as far as the work goes: what promises most first.
        let mut order: Vec<usize> = (0..fillings.len()).collect();
        let promise =
            |(least, _, filling): &Filled| filling.at_most / filling.value.max(least * depth.slack).max(1e-12);
        order.retain(|&at| fillings.get(at).is_some_and(|known| promise(known) > 1.0 + 1e-8));
        let promises: Vec<f64> = fillings.iter().map(promise).collect();
        order.sort_by(|a, b| promises.get(*b).partial_cmp(&promises.get(*a)).unwrap_or(std::cmp::Ordering::Equal));
        for (at, left) in order.iter().copied().zip((1..=order.len() as u64).rev()) {
            if depth.nodes == 0 || work == 0 {
                break;
            }
            let Some((least, thresholds, filling)) = fillings.get_mut(at) else { continue };
            let Some(&(first, _)) = thresholds.first() else { continue };
            let (worths, counts) = asked.of(self.problem, first);
            // The work is shared fairly, so that one hard type does not keep all others from being proved.
            let columns = self.problem.bins.get(first).map_or(1, |bin| bin.admits.count_ones(..).max(1) as u64);
            let share = u32::try_from(work / left / columns).unwrap_or(u32::MAX).max(FEW_NODES);
            let depth = Depth { nodes: depth.nodes.min(share), ..depth };
            let exact = self.knapsack.fill(first, &worths, &counts, *least, depth);
            work = work.saturating_sub(exact.work);
            let quick = std::mem::replace(filling, exact);
            filling.at_most = filling.at_most.min(quick.at_most.max(*least * depth.slack));
        }
        let parts = PARTS / fillings.len().max(1);
        if parts > 1 {
            for (least, thresholds, filling) in &mut fillings {
                self.fill_again(*least, thresholds, filling, asked, depth.steps, parts);
            }
        }
        let mut found: Vec<(f64, Pattern)> = Vec::new();
        let typical = prices.typical();
        for (_, thresholds, filling) in fillings {
            for (index, threshold) in thresholds {
                if let Some(at_most) = at_most.get_mut(index) {
                    *at_most = filling.at_most.min(*at_most);
                }
                let bin = u32::try_from(index).unwrap_or(u32::MAX);
                let mut add = |value: f64, items: &[(u32, u32)]| {
                    if value > threshold && !items.is_empty() {
                        let over = (threshold - value) / threshold.max(typical);
                        found.push((over, Pattern { bin, items: items.to_vec() }));
                    }
                };
                for (value, items) in filling.others.iter().rev().take(OTHERS).chain(&filling.after) {
                    add(*value, items);
                }
                add(filling.value, &filling.items);
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut gained = 0.0_f64;
        let mut room = self.problem.items.len().min(MANY) + MORE;
        for (over, pattern) in found {
            if room == 0 {
                break;
            }
            if self.add(pattern) {
                gained = gained.max(-over);
                room -= 1;
            }
        }
        (gained, at_most)
    }

    // Keeps so many types at most: half of them such as promise most, and half such as were left out longest.
    fn choose_types(&mut self, open: &mut Vec<Open>, at_most: usize) {
        self.turn += 1;
        if open.len() > at_most {
            let mixed = |open: &Open| crate::master::mixed(open.at as u64);
            open.sort_by(|a, b| b.promise.total_cmp(&a.promise).then(mixed(a).cmp(&mixed(b))));
            let rest = at_most / 2;
            let last = |open: &Open| self.priced.get(open.at).copied().unwrap_or(0);
            if let Some(rest) = open.get_mut(rest..) {
                rest.sort_by_key(|open| (last(open), mixed(open)));
            }
            open.truncate(at_most);
            open.sort_by_key(|open| open.at);
        }
        for open in open {
            if let Some(last) = self.priced.get_mut(open.at) {
                *last = self.turn;
            }
        }
    }

    // Fills a bin with what the filling leaves, and so on.
    fn fill_again(
        &mut self,
        least: f64,
        thresholds: &[(usize, f64)],
        filling: &mut Filling,
        asked: Asked<'_>,
        steps: u32,
        parts: usize,
    ) {
        let Some(&(first, _)) = thresholds.first() else { return };
        let (worths, counts) = asked.of(self.problem, first);
        let mut left = counts.into_owned();
        let mut taken = filling.items.clone();
        for _ in 1..parts {
            for &(item, n) in &taken {
                if let Some(left) = left.get_mut(item as usize) {
                    *left = left.saturating_sub(n);
                }
            }
            let depth = Depth { steps, nodes: 0, slack: 1.0 };
            let next = self.knapsack.fill(first, &worths, &left, least, depth);
            if next.items.is_empty() {
                return;
            }
            taken.clone_from(&next.items);
            filling.after.push((next.value, next.items));
        }
    }

    // A bound from prices under which no filling is worth more than `at_most` of its bin: rents of stocks are raised
    // until bins that draw from them pay for themselves, where that loses less than to scale prices down until they do;
    // all prices, or those of the items that may be in such a bin. What is left is a solution of the linear program's dual
    // over all patterns, known or not.
    fn certify(&self, prices: &Prices, at_most: &[f64]) -> f64 {
        let problem = self.problem;
        let mut rents = prices.rents.clone();
        rents.resize(problem.stocks.len(), 0.0);
        let worths = problem.items.iter().zip(&prices.worths);
        let earned: f64 = worths.map(|(item, worth)| f64::from(item.count) * worth).sum();
        let bins = || problem.bins.iter().zip(at_most).filter(|(_, at_most)| **at_most > 0.0);
        for (bin, at_most) in bins() {
            let short = at_most - rent(&bin.draws, &rents) - bin.cost;
            let Some(&(stock, amount)) = bin.draws.first().filter(|_| short > 0.0) else { continue };
            let there = problem.stocks.get(stock).copied().unwrap_or(f64::INFINITY);
            let scaled = 1.0 - bin.cost / (bin.cost + short);
            if amount > 0.0
                && (bin.cost <= 0.0 || short / amount * there < scaled * earned)
                && let Some(rent) = rents.get_mut(stock)
            {
                *rent += short / amount;
            }
        }
        let mut scale = 1.0_f64;
        let mut scales = vec![1.0_f64; problem.items.len()];
        for (bin, at_most) in bins() {
            let rent = rent(&bin.draws, &rents);
            if at_most - rent <= bin.cost * (1.0 + 1e-12) {
                continue;
            }
            scale = scale.min((bin.cost / (at_most - rent)).max(0.0));
            let of_items = (bin.cost + rent) / at_most;
            for item in bin.admits.ones() {
                if let Some(scale) = scales.get_mut(item) {
                    *scale = of_items.min(*scale);
                }
            }
        }
        let rented: f64 = problem.stocks.iter().zip(&rents).map(|(stock, rent)| stock * rent).sum();
        let of_all = scale * (earned - rented);
        if prices.worths.iter().any(|worth| *worth < 0.0) {
            // What a filling loses by such an item would be less.
            return of_all;
        }
        let worths = problem.items.iter().zip(&prices.worths).zip(&scales);
        let by_item: f64 = worths.map(|((item, worth), scale)| f64::from(item.count) * worth * scale).sum();
        of_all.max(by_item - rented)
    }

    // Keeps the linear program small: columns that are far from being used are forgotten.
    fn forget_dear(&mut self, prices: &Prices, warm: Option<&mut Warm>) {
        let at_most = 12 * (self.problem.items.len().min(MANY) + self.problem.stocks.len()) + 1_000;
        if self.columns.len() <= at_most {
            return;
        }
        let typical = prices.typical();
        let mut order: Vec<(f64, usize)> = (0..self.columns.len())
            .map(|at| {
                let Some(column) = self.columns.get(at).filter(|_| prices.uses.get(at).is_none_or(|n| *n < 1e-7))
                else {
                    return (f64::NEG_INFINITY, at);
                };
                let Some(bin) = self.problem.bins.get(column.bin as usize) else { return (0.0, at) };
                // What is newer than the prices is kept.
                if at >= prices.uses.len() {
                    return (f64::NEG_INFINITY, at);
                }
                let worth: f64 = column
                    .items
                    .iter()
                    .map(|&(item, n)| prices.worths.get(item as usize).copied().unwrap_or(0.0) * f64::from(n))
                    .sum();
                let cost = bin.cost + bin.bias + self.problem.rent_of(column, &prices.rents);
                ((cost - worth) / cost.max(typical), at)
            })
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut keep = vec![false; self.columns.len()];
        for &(_, at) in order.iter().filter(|(over, _)| *over < DEAR) {
            if let Some(keep) = keep.get_mut(at) {
                *keep = true;
            }
        }
        if let Some(warm) = warm {
            let mut keeps = keep.iter();
            warm.uses.retain(|_| keeps.next().copied().unwrap_or(true));
        }
        let mut keeps = keep.into_iter();
        let known = &mut self.known;
        self.columns.retain(|column| {
            let stays = keeps.next().unwrap_or(true);
            if !stays {
                known.remove(column);
            }
            stays
        });
    }
}

// Twice what a bin for one alone costs, of those that any number can be had of.
fn penalties(problem: &Problem) -> Vec<f64> {
    let dearest = problem.bins.iter().map(|bin| bin.cost).fold(0.0, f64::max);
    let most = (dearest * 4.0).max(1.0);
    let bins: Vec<(u32, &BinType)> =
        (0..).zip(&problem.bins).filter(|(_, bin)| bin.draws.is_empty() && bin.loads.is_empty()).collect();
    let alone = |item: u32| {
        let holds = |&&(bin, kind): &&(u32, &BinType)| {
            kind.admits.contains(item as usize) && problem.allows(&Pattern { bin, items: vec![(item, 1)] })
        };
        bins.iter().filter(holds).map(|(_, bin)| (bin.cost + bin.bias) * 2.0).fold(most, f64::min)
    };
    (0..).zip(&problem.items).map(|(item, _)| alone(item)).collect()
}

pub(crate) fn rent(draws: &[(usize, f64)], rents: &[f64]) -> f64 {
    draws.iter().map(|&(stock, amount)| rents.get(stock).copied().unwrap_or(0.0) * amount).sum()
}
