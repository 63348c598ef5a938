//! Bins that differ only in the stock that they draw one from each are one bin of which there are as many as of all.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::numbers::floor_u32;
use crate::problem::{BinType, Pattern, Problem};

/// What bins have in common that are one: room, who may be in them, what these load, cost and bias.
type MergeKey<'a> = (&'a [i64], &'a FixedBitSet, &'a [usize], [u64; 2]);

/// A problem without such bins, and whose each bin is.
pub(crate) struct Merged {
    pub(crate) problem: Problem,
    /// By merged bin: the bins that it stands for.
    stands_for: Vec<Vec<u32>>,
    /// By bin: the merged one that stands for it.
    by: Vec<u32>,
}

impl Merged {
    pub(crate) fn new(problem: &Problem) -> Self {
        let n_resources = problem.n_resources();
        let mut users = vec![0_u32; problem.stocks.len()];
        let of_bin = |bin: &BinType| bin.draws.iter().map(|draw| draw.0).chain(bin.loads.clone()).collect::<Vec<_>>();
        for stock in problem.bins.iter().flat_map(of_bin) {
            if let Some(users) = users.get_mut(stock) {
                *users += 1;
            }
        }
        let own_stock = |bin: &BinType| match bin.draws.as_slice() {
            &[(stock, amount)] if (amount - 1.0).abs() < f64::EPSILON && users.get(stock) == Some(&1) => Some(stock),
            _ => None,
        };
        let mut merged = Merged {
            problem: Problem { bins: Vec::new(), ..problem.clone() },
            stands_for: Vec::new(),
            by: Vec::with_capacity(problem.bins.len()),
        };
        let mut known: FxHashMap<MergeKey<'_>, (usize, usize)> = FxHashMap::default();
        for (bin, index) in problem.bins.iter().zip(0_u32..) {
            let next = merged.problem.bins.len();
            let mut at = next;
            if let Some(stock) = own_stock(bin) {
                let prices = [bin.cost.to_bits(), bin.bias.to_bits()];
                let key = (bin.room.as_slice(), &bin.admits, bin.loads.as_slice(), prices);
                let (first, first_stock) = *known.entry(key).or_insert((next, stock));
                at = first;
                if first != next {
                    let there = problem.stocks.get(stock).map_or(0.0, |there| there.floor());
                    if let Some(sum) = merged.problem.stocks.get_mut(first_stock) {
                        *sum = sum.floor() + there;
                    }
                }
            }
            if at == next {
                // A room that names fewer resources than items ask for has none of the others.
                let mut bin = bin.clone();
                bin.room.resize(n_resources, 0);
                merged.problem.bins.push(bin);
                merged.stands_for.push(Vec::new());
            }
            if let Some(bins) = merged.stands_for.get_mut(at) {
                bins.push(index);
            }
            merged.by.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        for (need, of_all) in merged.problem.needs.iter_mut().zip(&problem.needs) {
            need.bins = FixedBitSet::with_capacity(merged.problem.bins.len());
            for bin in of_all.bins.ones() {
                if let Some(&at) = merged.by.get(bin) {
                    need.bins.insert(at as usize);
                }
            }
        }
        merged
    }

    /// A plan over the bins of the problem, in merged bins.
    pub(crate) fn merge(&self, plan: &[(Pattern, u32)]) -> Vec<(Pattern, u32)> {
        let merged = |(pattern, n): &(Pattern, u32)| {
            let bin = *self.by.get(pattern.bin as usize)?;
            Some((Pattern { bin, items: pattern.items.clone() }, *n))
        };
        plan.iter().filter_map(merged).collect()
    }

    /// A plan over merged bins as one over the bins of `problem`.
    pub(crate) fn split(&self, problem: &Problem, plan: Vec<(Pattern, u32)>) -> Vec<(Pattern, u32)> {
        let mut stocks = problem.stocks.clone();
        let mut out = Vec::with_capacity(plan.len());
        for (pattern, mut left) in plan {
            let Some(bins) = self.stands_for.get(pattern.bin as usize) else { continue };
            for &bin in bins {
                let stock = match problem.bins.get(bin as usize).map(|bin| bin.draws.as_slice()) {
                    Some(&[(stock, _)]) if bins.len() > 1 => stocks.get_mut(stock),
                    _ => None,
                };
                let n = stock.as_deref().map_or(left, |there| floor_u32(there.floor()).min(left));
                if n == 0 {
                    continue;
                }
                if let Some(there) = stock {
                    *there -= f64::from(n);
                }
                left -= n;
                out.push((Pattern { bin, items: pattern.items.clone() }, n));
            }
        }
        out.sort();
        out
    }
}
