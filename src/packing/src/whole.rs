//! Small problems solved whole: the cheapest packing, from all patterns and all that can be left.
//!
//! A table by what is left, as for a knapsack: some bin holds the first item that is left, and each pattern that does so is
//! tried. A pattern is left aside where one more item fits at no more cost, unless bins draw on stocks by what they hold or
//! must hold something.

use rustc_hash::FxHashMap;

use crate::problem::{Pattern, Problem};
use crate::tuning::whole::{
    MOST_ITEMS, MOST_LEFTS, MOST_PATTERNS, SAME, STEPS_PER_PATTERN, STOCK_TOLERANCE, STOCKS_PER_STEP, TIED,
};

/// A packing of all items.
#[derive(Clone, Debug)]
pub(crate) struct Cheapest {
    pub(crate) plan: Vec<(Pattern, u32)>,
    /// What it costs, biases aside.
    pub(crate) cost: f64,
}

impl Cheapest {
    /// Whether a plan packs all items, too, and costs no more.
    pub(crate) fn is_matched_by(&self, problem: &Problem, plan: &[(Pattern, u32)]) -> bool {
        let mut packed = vec![0_u64; problem.items.len()];
        let mut cost = 0.0;
        for (pattern, bins) in plan {
            let each = problem.bins.get(pattern.bin as usize).map_or(f64::INFINITY, |bin| bin.cost);
            cost += each * f64::from(*bins);
            for (item, n) in &pattern.items {
                if let Some(packed) = packed.get_mut(*item as usize) {
                    *packed += u64::from(*n) * u64::from(*bins);
                }
            }
        }
        let packs_all = packed.iter().zip(&problem.items).all(|(packed, item)| *packed >= u64::from(item.count));
        packs_all && cost <= self.cost + SAME * (1.0 + self.cost.abs())
    }
}

/// The packing that costs least, of these the one of the least bias. `None` where that takes more than `steps`, and where no
/// packing exists.
pub(crate) fn cheapest(problem: &Problem, steps: u64) -> Option<Cheapest> {
    let lefts = Lefts::of(problem)?;
    let n_patterns = lefts.n.saturating_mul(problem.bins.len());
    if n_patterns > MOST_PATTERNS || n_patterns as u64 * STEPS_PER_PATTERN > steps {
        return None;
    }
    let all: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
    let holds_more = problem.needs.is_empty() && problem.bins.iter().all(|bin| bin.loads.is_empty());
    let mut choices = choices(problem, &lefts, holds_more);
    let stocks = drawn_stocks(problem, &mut choices);
    let step = 1 + problem.stocks.len() as u64 / STOCKS_PER_STEP;
    let mut packing =
        Packing { lefts: &lefts, choices: &choices, holds_more, known: FxHashMap::default(), step, steps };
    let least = packing.least(&all, &stocks)?;
    let plan = packing.plan(all, stocks)?;
    Some(Cheapest { plan, cost: least.cost })
}

/// The ways in which items can be left, each with a number of its own: digits of a mixed radix.
struct Lefts {
    /// By item: what one of it adds to the number.
    places: Vec<usize>,
    counts: Vec<u32>,
    n: usize,
}

impl Lefts {
    // `None` where they are too many.
    fn of(problem: &Problem) -> Option<Self> {
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        if counts.iter().map(|count| u64::from(*count)).sum::<u64>() > MOST_ITEMS {
            return None;
        }
        let (mut places, mut n) = (Vec::with_capacity(counts.len()), 1_usize);
        for &count in &counts {
            places.push(n);
            n = n.checked_mul(usize::try_from(count).ok()?.checked_add(1)?).filter(|n| *n <= MOST_LEFTS)?;
        }
        Some(Lefts { places, counts, n })
    }

    fn number(&self, counts: &[u32]) -> usize {
        self.places.iter().zip(counts).map(|(place, count)| place * *count as usize).sum()
    }

    // By item: how many, of a number.
    fn counts_of(&self, number: usize) -> Vec<u32> {
        let digit = |(place, count): (&usize, &u32)| number / place % (*count as usize + 1);
        self.places.iter().zip(&self.counts).map(digit).map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect()
    }
}

/// What costs less is better; of equals, what is less disliked.
#[derive(Clone, Copy, Debug)]
struct Cost {
    cost: f64,
    bias: f64,
}

impl Cost {
    const NONE: Cost = Cost { cost: 0.0, bias: 0.0 };
    const INFINITE: Cost = Cost { cost: f64::INFINITY, bias: 0.0 };

    fn is_below(self, other: Cost) -> bool {
        let tie = TIED * (1.0 + self.cost.abs());
        self.cost < other.cost - tie || (self.cost <= other.cost + tie && self.bias < other.bias)
    }

    fn plus(self, other: Cost) -> Cost {
        Cost { cost: self.cost + other.cost, bias: self.bias + other.bias }
    }
}

/// A way to use a bin.
#[derive(Clone, Debug)]
struct Choice {
    bin: u32,
    /// How many of each item it holds.
    counts: Vec<u32>,
    cost: Cost,
    draws: Vec<(usize, f64)>,
}

/// By item, the choices that hold it. Of those that hold and draw the same it is the cheapest.
fn choices(problem: &Problem, lefts: &Lefts, holds_more: bool) -> Vec<Vec<Choice>> {
    let mut known: Vec<Vec<Choice>> = vec![Vec::new()];
    for number in 1..lefts.n {
        let counts = lefts.counts_of(number);
        let items: Vec<(u32, u32)> = (0..).zip(&counts).filter(|(_, n)| **n > 0).map(|(item, n)| (item, *n)).collect();
        let mut pattern = Pattern { bin: 0, items };
        let mut here: Vec<Choice> = Vec::new();
        for (index, bin) in (0..).zip(&problem.bins) {
            pattern.bin = index;
            if !problem.allows(&pattern) {
                continue;
            }
            let cost = Cost { cost: bin.cost, bias: bin.bias };
            let draws: Vec<(usize, f64)> = problem.drawn_by(&pattern).collect();
            match here.iter_mut().find(|known| known.draws == draws) {
                Some(known) if cost.is_below(known.cost) => (known.cost, known.bin) = (cost, index),
                Some(_) => {}
                None => here.push(Choice { bin: index, counts: counts.clone(), cost, draws }),
            }
        }
        known.push(here);
    }
    let mut by_item: Vec<Vec<Choice>> = vec![Vec::new(); problem.items.len()];
    for (number, choice) in
        known.iter().enumerate().flat_map(|(number, here)| here.iter().map(move |one| (number, one)))
    {
        let has_more = |(at, place): (usize, &usize)| {
            lefts.counts.get(at) > choice.counts.get(at)
                && known.get(number + place).is_some_and(|more| {
                    more.iter().any(|more| more.draws == choice.draws && !choice.cost.is_below(more.cost))
                })
        };
        if holds_more && lefts.places.iter().enumerate().any(has_more) {
            continue;
        }
        for (of_item, _) in by_item.iter_mut().zip(&choice.counts).filter(|(_, n)| **n > 0) {
            of_item.push(choice.clone());
        }
    }
    by_item
}

/// The stocks that any choice draws on, which these name by position from then on: the others stay as they are, and what is
/// left of each would be compared at every step.
fn drawn_stocks(problem: &Problem, choices: &mut [Vec<Choice>]) -> Vec<f64> {
    let mut drawn: Vec<usize> =
        choices.iter().flatten().flat_map(|choice| choice.draws.iter().map(|(stock, _)| *stock)).collect();
    drawn.sort_unstable();
    drawn.dedup();
    for (stock, _) in choices.iter_mut().flatten().flat_map(|choice| &mut choice.draws) {
        *stock = drawn.partition_point(|known| *known < *stock);
    }
    drawn.iter().map(|stock| problem.stocks.get(*stock).copied().unwrap_or(f64::NEG_INFINITY)).collect()
}

struct Packing<'a> {
    lefts: &'a Lefts,
    choices: &'a [Vec<Choice>],
    /// Whether a choice may hold more than is left.
    holds_more: bool,
    /// By what is left of items and stocks: what packing it costs, and which choice is the next of the cheapest.
    known: FxHashMap<(usize, Vec<u64>), (Cost, Option<usize>)>,
    /// What trying a choice counts, and how much may still be tried.
    step: u64,
    steps: u64,
}

impl Packing<'_> {
    // The least cost of packing what is left, infinite if there is no way; `None` once there were too many steps.
    fn least(&mut self, left: &[u32], stocks: &[f64]) -> Option<Cost> {
        let Some(first) = left.iter().position(|count| *count > 0) else { return Some(Cost::NONE) };
        let key = self.key(left, stocks);
        if let Some(&(cost, _)) = self.known.get(&key) {
            return Some(cost);
        }
        let (mut least, mut by) = (Cost::INFINITE, None);
        // Some bin holds the first item that is left: each that may do so is tried.
        let choices = self.choices;
        for (at, choice) in choices.get(first)?.iter().enumerate() {
            self.steps = self.steps.checked_sub(self.step)?;
            let Some((rest, stocks)) = choice.after(left, stocks, self.holds_more) else { continue };
            let cost = self.least(&rest, &stocks)?.plus(choice.cost);
            if cost.cost.is_finite() && cost.is_below(least) {
                (least, by) = (cost, Some(at));
            }
        }
        self.known.insert(key, (least, by));
        Some(least)
    }

    fn key(&self, left: &[u32], stocks: &[f64]) -> (usize, Vec<u64>) {
        (self.lefts.number(left), stocks.iter().map(|stock| stock.to_bits()).collect())
    }

    // The packing that was found to cost least.
    fn plan(&self, mut left: Vec<u32>, mut stocks: Vec<f64>) -> Option<Vec<(Pattern, u32)>> {
        let mut bins = std::collections::BTreeMap::new();
        while let Some(first) = left.iter().position(|count| *count > 0) {
            let (_, by) = self.known.get(&self.key(&left, &stocks))?;
            let choice = self.choices.get(first)?.get((*by)?)?;
            let taken = left.iter().zip(&choice.counts).map(|(left, n)| *left.min(n)).zip(0..);
            let items = taken.filter(|(n, _)| *n > 0).map(|(n, item)| (item, n)).collect();
            *bins.entry(Pattern { bin: choice.bin, items }).or_insert(0) += 1;
            (left, stocks) = choice.after(&left, &stocks, self.holds_more)?;
        }
        Some(bins.into_iter().collect())
    }
}

impl Choice {
    // What is left of items and stocks, if there is enough of both; of items less will do where it may hold more.
    fn after(&self, left: &[u32], stocks: &[f64], holds_more: bool) -> Option<(Vec<u32>, Vec<f64>)> {
        if !holds_more && left.iter().zip(&self.counts).any(|(left, taken)| left < taken) {
            return None;
        }
        let rest = left.iter().zip(&self.counts).map(|(left, taken)| left.saturating_sub(*taken)).collect();
        let mut stocks = stocks.to_vec();
        for &(stock, amount) in &self.draws {
            let there = stocks.get_mut(stock)?;
            *there -= amount;
            if *there < -STOCK_TOLERANCE * amount {
                return None;
            }
        }
        Some((rest, stocks))
    }
}
