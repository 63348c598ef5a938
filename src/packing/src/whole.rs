//! Small problems solved whole: the cost of the cheapest packing, from all patterns and all that can be left.

use rustc_hash::FxHashMap;

use crate::problem::{Pattern, Problem};
use crate::tuning::whole::{MOST_LEFTS, MOST_PATTERNS, MOST_STEPS, STOCK_TOLERANCE};

/// What no packing of all items costs less than, since it is what the cheapest costs. `None` where there is too much to try,
/// and where no packing exists.
pub(crate) fn least_cost(problem: &Problem) -> Option<f64> {
    let n_lefts = n_lefts(problem)?;
    if n_lefts.saturating_mul(problem.bins.len()) > MOST_PATTERNS {
        return None;
    }
    let all: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
    let mut packing = Packing { choices: choices(problem, &all), known: FxHashMap::default(), steps: 0 };
    packing.least(&all, &problem.stocks).filter(|cost| cost.is_finite())
}

// In how many ways items can be left.
fn n_lefts(problem: &Problem) -> Option<usize> {
    let ways = problem.items.iter().map(|item| item.count as usize);
    ways.into_iter()
        .try_fold(1_usize, |product, count| product.checked_mul(count.checked_add(1)?))
        .filter(|ways| *ways <= MOST_LEFTS)
}

/// A way to use a bin.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    /// How many of each item it holds.
    counts: Vec<u32>,
    cost: f64,
    draws: Vec<(usize, f64)>,
}

/// All that bins may hold: of those that hold and draw the same, the cheapest.
fn choices(problem: &Problem, all: &[u32]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for counts in ways(all).into_iter().filter(|counts| counts.iter().any(|count| *count > 0)) {
        let items: Vec<(u32, u32)> = (0..).zip(&counts).filter(|(_, n)| **n > 0).map(|(item, n)| (item, *n)).collect();
        let first = choices.len();
        for (index, bin) in (0..).zip(&problem.bins) {
            let pattern = Pattern { bin: index, items: items.clone() };
            if !problem.allows(&pattern) {
                continue;
            }
            let draws: Vec<(usize, f64)> = problem.drawn_by(&pattern).collect();
            match choices.iter_mut().skip(first).find(|known| known.draws == draws) {
                Some(known) => known.cost = known.cost.min(bin.cost),
                None => choices.push(Choice { counts: counts.clone(), cost: bin.cost, draws }),
            }
        }
    }
    choices
}

/// All ways to take some of each item.
fn ways(counts: &[u32]) -> Vec<Vec<u32>> {
    counts.iter().fold(vec![Vec::new()], |all, &count| {
        all.into_iter().flat_map(|known| (0..=count).map(move |n| [known.as_slice(), &[n]].concat())).collect()
    })
}

struct Packing {
    choices: Vec<Choice>,
    /// By what is left of items and stocks.
    known: FxHashMap<(Vec<u32>, Vec<u64>), f64>,
    steps: usize,
}

impl Packing {
    // The least cost of packing what is left, infinite if there is no way; `None` once there were too many steps.
    fn least(&mut self, left: &[u32], stocks: &[f64]) -> Option<f64> {
        let Some(first) = left.iter().position(|count| *count > 0) else { return Some(0.0) };
        let key = (left.to_vec(), stocks.iter().map(|stock| stock.to_bits()).collect());
        if let Some(&cost) = self.known.get(&key) {
            return Some(cost);
        }
        let mut least = f64::INFINITY;
        for at in 0..self.choices.len() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return None;
            }
            // Some bin holds the first item that is left: each that may do so is tried.
            let Some(choice) = self.choices.get(at).filter(|choice| choice.counts.get(first) > Some(&0)) else {
                continue;
            };
            let Some((rest, stocks)) = choice.after(left, stocks) else { continue };
            let cost = choice.cost;
            least = least.min(cost + self.least(&rest, &stocks)?);
        }
        self.known.insert(key, least);
        Some(least)
    }
}

impl Choice {
    // What is left of items and stocks, if there is enough of both.
    fn after(&self, left: &[u32], stocks: &[f64]) -> Option<(Vec<u32>, Vec<f64>)> {
        let rest = left.iter().zip(&self.counts).map(|(left, taken)| left.checked_sub(*taken));
        let rest = rest.collect::<Option<Vec<u32>>>()?;
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
