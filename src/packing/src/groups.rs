//! Groups of items of about the same size, which share dual prices where a master program has many items.
//!
//! A dual price for each item is more than such a program can look for in time. Within a group the dual price of an item
//! follows from its size: so much for an item, so much for each resource. Prices so restricted are feasible in the dual of
//! the full program, so that the bound that they give holds; it is a little lower the coarser the groups are. Groups are
//! divided where items are many and differ most.

use std::collections::BinaryHeap;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashSet;

use crate::numbers::float;
use crate::problem::Problem;
use crate::rules;
use crate::tuning::groups::{FINER, FIRST_PRICES, MANY_ITEMS, MANY_OF_EACH};

/// A division of the items into groups.
#[derive(Clone, Debug)]
pub(crate) struct ItemGroups {
    /// By item: its group.
    of: Vec<u32>,
    /// By group: its items.
    members: Vec<Vec<u32>>,
    /// By item: the dual prices that make its own, and its share of each.
    parts: Vec<Vec<(u32, f64)>>,
    /// How many prices there are.
    prices: u32,
    /// Whether each group is of items of one size, that the same bins admit.
    are_of_one_size: bool,
}

/// A group that may be divided: how much its items differ, and in which resource most.
#[derive(Debug)]
struct Divisible {
    differ: f64,
    number: usize,
    resource: usize,
    items: Vec<usize>,
}

impl PartialEq for Divisible {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Divisible {}

impl PartialOrd for Divisible {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Divisible {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.differ.total_cmp(&other.differ).then(other.number.cmp(&self.number))
    }
}

impl ItemGroups {
    /// The first stage groups items by size alone: few groups, so their dual prices are found quickly. The next tells apart
    /// what other bins admit; then groups are finer, with up to so many dual prices. None where items are few, or there are
    /// many of each.
    pub(crate) fn stages(problem: &Problem, prices: usize) -> Vec<Self> {
        let total: u64 = problem.items.iter().map(|item| u64::from(item.count)).sum();
        if problem.items.len() <= MANY_ITEMS || total > problem.items.len() as u64 * MANY_OF_EACH {
            return Vec::new();
        }
        let all: Vec<usize> = (0..problem.items.len()).collect();
        let alike = admitted_alike(problem, MANY_ITEMS);
        let all_are_alike = alike.as_ref().is_some_and(|lists| lists.len() == 1);
        let alike = alike.filter(|_| !all_are_alike);
        let by_size = ItemGroups::divide(problem, vec![all.clone()], FIRST_PRICES);
        let mut stages = vec![ItemGroups { are_of_one_size: by_size.are_of_one_size && all_are_alike, ..by_size }];
        if let Some(alike) = &alike {
            stages.push(ItemGroups::divide(problem, alike.clone(), FIRST_PRICES));
        }
        let mut finer = FIRST_PRICES * FINER;
        while finer < prices && finer < problem.items.len() && !stages.iter().any(|division| division.are_of_one_size) {
            stages.push(ItemGroups::divide(problem, alike.clone().unwrap_or_else(|| vec![all.clone()]), finer));
            finer *= FINER;
        }
        stages
    }

    // Divides lists of items until they have all prices that there may be.
    fn divide(problem: &Problem, lists: Vec<Vec<usize>>, prices: usize) -> Self {
        let n_resources = problem.n_resources();
        let largest: Vec<f64> = (0..n_resources)
            .map(|at| {
                problem.bins.iter().filter_map(|bin| bin.room.get(at)).max().map_or(1.0, |most| float(*most).max(1.0))
            })
            .collect();
        let share = |item: usize, at: usize| {
            problem.items.get(item).and_then(|item| item.size.get(at)).map_or(0.0, |size| float(*size))
                / largest.get(at).copied().unwrap_or(1.0)
        };
        let range = |items: &[usize], at: usize| {
            let shares = items.iter().map(|&item| share(item, at));
            shares.fold((f64::INFINITY, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)))
        };
        let sizes = |items: &Vec<usize>| {
            let sizes: FxHashSet<&[i64]> =
                items.iter().filter_map(|&item| problem.items.get(item).map(|item| item.size.as_slice())).collect();
            sizes.len()
        };
        let n_sizes: usize = lists.iter().map(sizes).sum();
        let mut next = 0;
        let mut divisible = |items: Vec<usize>| {
            next += 1;
            let mut best = Divisible { differ: 0.0, number: next, resource: 0, items };
            let there: f64 =
                best.items.iter().filter_map(|&item| problem.items.get(item)).map(|item| f64::from(item.count)).sum();
            for at in 0..n_resources {
                let (least, most) = range(&best.items, at);
                let differ = (most - least) * there;
                if differ > best.differ {
                    best.differ = differ;
                    best.resource = at;
                }
            }
            best
        };
        let mut groups: BinaryHeap<Divisible> = lists.into_iter().map(&mut divisible).collect();
        // Each size by itself where sizes are few.
        let most = if n_sizes <= prices { usize::MAX } else { prices };
        while groups.len().saturating_mul(n_resources + 1) < most {
            let Some(mut widest) = groups.pop() else { break };
            if widest.differ <= 0.0 {
                groups.push(widest);
                break;
            }
            // In the middle of its range, so that neither half is empty.
            let at = widest.resource;
            let (least, most) = range(&widest.items, at);
            let middle = f64::midpoint(least, most);
            let (small, large): (Vec<usize>, Vec<usize>) =
                std::mem::take(&mut widest.items).into_iter().partition(|&item| share(item, at) < middle);
            if small.is_empty() {
                groups.push(Divisible { differ: 0.0, items: large, ..widest });
                continue;
            }
            groups.push(divisible(small));
            groups.push(divisible(large));
        }
        let n_items = problem.items.len();
        let mut division = ItemGroups {
            of: vec![0; n_items],
            members: Vec::new(),
            parts: vec![Vec::new(); n_items],
            prices: 0,
            are_of_one_size: n_sizes <= prices,
        };
        let mut groups = groups.into_vec();
        groups.sort_by_key(|group| group.number);
        for (group, number) in groups.iter().zip(0..) {
            // The number of items and what they differ in.
            let own = division.next();
            let resources: Vec<(u32, usize, f64)> = (0..n_resources)
                .filter_map(|at| {
                    let (least, most) = range(&group.items, at);
                    (most > least).then(|| (division.next(), at, most))
                })
                .collect();
            for &item in &group.items {
                let of_resources = resources.iter().map(|&(price, at, most)| (price, share(item, at) / most));
                if let (Some(of), Some(parts)) = (division.of.get_mut(item), division.parts.get_mut(item)) {
                    *of = number;
                    parts.push((own, 1.0));
                    parts.extend(of_resources.filter(|(_, share)| *share > 0.0));
                }
            }
            division.members.push(group.items.iter().filter_map(|item| u32::try_from(*item).ok()).collect());
        }
        division
    }

    /// Whether each group is of items of one size, that the same bins admit, so that finer ones are of little use.
    pub(crate) fn are_of_one_size(&self) -> bool {
        self.are_of_one_size
    }

    /// How many prices they have.
    pub(crate) fn len(&self) -> usize {
        self.prices as usize
    }

    fn next(&mut self) -> u32 {
        self.prices += 1;
        self.prices - 1
    }

    /// Items of the same group, the item itself among them.
    pub(crate) fn like(&self, item: u32) -> &[u32] {
        let group = self.of.get(item as usize).and_then(|group| self.members.get(*group as usize));
        group.map_or(&[], Vec::as_slice)
    }

    /// The dual prices that make an item's own, and its share of each.
    pub(crate) fn parts(&self, item: usize) -> Option<&[(u32, f64)]> {
        self.parts.get(item).map(Vec::as_slice)
    }
}

// Lists of items that the same bins admit, where both would fit, and that are under the same limits; `None` where they are
// too many.
fn admitted_alike(problem: &Problem, at_most: usize) -> Option<Vec<Vec<usize>>> {
    let n_bins = problem.bins.len();
    let mut fits = Vec::with_capacity(problem.items.len());
    let mut admitted = Vec::with_capacity(problem.items.len());
    for (at, item) in problem.items.iter().enumerate() {
        let mut fit = FixedBitSet::with_capacity(n_bins);
        let mut admit = FixedBitSet::with_capacity(n_bins);
        for (index, bin) in problem.bins.iter().enumerate() {
            fit.set(index, item.size.iter().zip(&bin.room).all(|(size, room)| size <= room));
            admit.set(index, bin.admits.contains(at));
        }
        fits.push(fit);
        admitted.push(admit);
    }
    let limits = rules::as_resources(problem);
    let limited = |item: usize| {
        let item = u32::try_from(item).unwrap_or(u32::MAX);
        limits.iter().map(move |(items, _)| items.binary_search(&item).is_ok())
    };
    let mut lists: Vec<Vec<usize>> = Vec::new();
    for item in 0..problem.items.len() {
        let is_like = |list: &Vec<usize>| {
            list.first().is_some_and(|&first| {
                let (Some(a_fits), Some(b_fits)) = (fits.get(first), fits.get(item)) else { return false };
                let (Some(a), Some(b)) = (admitted.get(first), admitted.get(item)) else { return false };
                !a.symmetric_difference(b).any(|bin| a_fits.contains(bin) && b_fits.contains(bin))
                    && limited(first).eq(limited(item))
            })
        };
        let at = lists.iter().position(is_like).unwrap_or(lists.len());
        if at >= at_most {
            return None;
        }
        match lists.get_mut(at) {
            Some(list) => list.push(item),
            None => lists.push(vec![item]),
        }
    }
    Some(lists)
}
