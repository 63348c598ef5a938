//! Pricing: the pattern of one bin whose items have the largest dual value, a knapsack of several resources with rules.
//!
//! Branch and bound over a surrogate relaxation, in which one weighted sum of the resources stands for all of them; where
//! that is cut short, an exact search over the linear relaxation may follow.

mod branch;
mod cuts;
mod exact;
mod exactly;
mod fill;
mod multipliers;
mod simplex;

pub(crate) use cuts::Resource;
pub(crate) use exact::Search as WholeSearch;
pub(crate) use fill::Wanted;
pub(crate) use simplex::Relaxation;

use crate::problem::{BinType, Need, Problem};
use crate::rules;
use multipliers::Lagrangian;

/// What the search of a bin found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Priced {
    /// The best pattern found whose dual value exceeds the threshold; empty if none was.
    pub(crate) items: Vec<(u32, u32)>,
    /// The patterns before it whose dual value exceeds the threshold.
    pub(crate) others: Vec<(f64, Vec<(u32, u32)>)>,
    /// Patterns of further bins with what it leaves.
    pub(crate) after: Vec<(f64, Vec<(u32, u32)>)>,
    /// Its dual value, or the threshold.
    pub(crate) value: f64,
    /// No pattern has more dual value, the threshold aside: certain, whether or not the search was complete.
    pub(crate) at_most: f64,
    /// Relaxations that were solved, times their columns.
    pub(crate) work: u64,
}

/// How much a search of a bin may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PricingEffort {
    /// Steps of the quick search.
    pub(crate) steps: u32,
    /// Relaxations that the exact one may solve, where the quick one was cut short; none, and there is no exact one.
    pub(crate) nodes: u32,
    /// A pattern is looked for whose dual value is so many times that of the best, or the threshold.
    pub(crate) slack: f64,
}

/// A bin, what there is for it, and what dual value its pattern must exceed.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    /// The type of bin.
    pub(crate) bin: usize,
    /// Dual prices by item.
    pub(crate) prices: &'a [f64],
    /// How many there are of each item.
    pub(crate) counts: &'a [u32],
    /// The dual value that a pattern must exceed.
    pub(crate) threshold: f64,
    pub(crate) effort: PricingEffort,
}

/// An item as one search sees it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    item: u32,
    price: f64,
    /// Its size in the surrogate's measure.
    weight: f64,
    at_most: u32,
}

/// The searches of many bins of one problem.
#[derive(Clone, Debug)]
pub(crate) struct Pricer<'p> {
    problem: &'p Problem,
    /// Those of the problem, then rules.
    n_resources: usize,
    /// How much there is of rules that are resources: of each item that one counts a bin may hold one.
    rule_limits: Vec<i64>,
    /// By item: its size.
    sizes: Vec<i64>,
    /// By item: how many a bin may hold.
    caps: Vec<u32>,
    /// By item: the rules that it is a subject of, and those it counts in; without those of one item alone.
    subject_of: Vec<Vec<u32>>,
    counts_in: Vec<Vec<u32>>,
    candidates: Vec<Candidate>,
    room: Vec<i64>,
    /// By rule: subjects and counted items in the bin.
    subjects: Vec<u32>,
    counted: Vec<u32>,
    chosen: Vec<(u32, u32)>,
    /// In the bin from the start, one of it.
    first: Option<u32>,
    best: Priced,
    steps: u32,
    has_leaf: bool,
    slack: f64,
    lagrangian: Lagrangian,
    ratios: Vec<(f64, f64)>,
    /// Surrogate multipliers by bin type, where the last search left them.
    multipliers: Vec<Vec<f64>>,
}

impl<'p> Pricer<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        let of_problem = problem.n_resources();
        let limits = rules::as_resources(problem);
        let n_resources = of_problem + limits.len();
        let mut sizes = Vec::with_capacity(problem.items.len() * n_resources);
        for (item, index) in problem.items.iter().zip(0_u32..) {
            sizes.extend((0..of_problem).map(|at| item.size.get(at).copied().unwrap_or(0)));
            sizes.extend(limits.iter().map(|(items, _)| i64::from(items.binary_search(&index).is_ok())));
        }
        let mut subject_of = vec![Vec::new(); problem.items.len()];
        let mut counts_in = vec![Vec::new(); problem.items.len()];
        let mut caps: Vec<u32> = problem.items.iter().map(|item| item.at_most).collect();
        for (rule, index) in problem.rules.iter().zip(0_u32..) {
            if let (true, &[item]) = (rule.is_plain(), rule.subjects.as_slice()) {
                if let Some(cap) = caps.get_mut(item as usize) {
                    *cap = rule.at_most.min(*cap);
                }
                continue;
            }
            let list = |into: &mut Vec<Vec<u32>>, items: &[u32]| {
                for &item in items {
                    if let Some(rules) = into.get_mut(item as usize) {
                        rules.push(index);
                    }
                }
            };
            list(&mut subject_of, &rule.subjects);
            list(&mut counts_in, &rule.counted);
        }
        Pricer {
            problem,
            n_resources,
            rule_limits: limits.into_iter().map(|(_, at_most)| i64::from(at_most)).collect(),
            sizes,
            caps,
            subject_of,
            counts_in,
            candidates: Vec::new(),
            room: Vec::new(),
            subjects: vec![0; problem.rules.len()],
            counted: vec![0; problem.rules.len()],
            chosen: Vec::new(),
            first: None,
            best: Priced::default(),
            steps: 0,
            has_leaf: false,
            slack: 0.0,
            lagrangian: Lagrangian::default(),
            ratios: Vec::new(),
            multipliers: vec![Vec::new(); problem.bins.len()],
        }
    }

    /// The pattern with the largest dual value above the threshold. It holds what the bin must; of a bin with several
    /// [`Need`]s the bound counts on the first alone.
    pub(crate) fn best_pattern(&mut self, query: Query<'_>) -> Priced {
        let free = self.search(None, query);
        let Some(need) = self.problem.needs.iter().find(|need| need.bins.contains(query.bin)) else { return free };
        // Where even the best without a needed item is not worth looking for, or has one, that is all.
        if free.items.is_empty() || free.items.iter().any(|&(item, _)| need.items.contains(item as usize)) {
            return free;
        }
        self.search_with_needed(need, query, &free)
    }

    // Every pattern that holds a needed item has a first one, in some order: the best of those with each, none before it.
    fn search_with_needed(&mut self, need: &Need, query: Query<'_>, free: &Priced) -> Priced {
        let Query { prices, counts, threshold, .. } = query;
        let price = |item: usize| prices.get(item).copied().unwrap_or(0.0);
        let mut order: Vec<usize> = need.items.ones().filter(|&item| counts.get(item) > Some(&0)).collect();
        order.sort_by(|&a, &b| price(b).total_cmp(&price(a)).then(a.cmp(&b)));
        let mut left = counts.to_vec();
        let mut all = Priced { value: threshold, at_most: threshold, work: free.work, ..Priced::default() };
        for first in order {
            let found = self.search(Some(first), Query { counts: &left, threshold: all.value, ..query });
            all.work += found.work;
            all.at_most = all.at_most.max(found.at_most);
            if !found.items.is_empty() {
                if !all.items.is_empty() {
                    all.others.push((all.value, std::mem::take(&mut all.items)));
                }
                all.others.extend(found.others);
                (all.value, all.items) = (found.value, found.items);
            }
            if let Some(left) = left.get_mut(first) {
                *left = 0;
            }
        }
        all.at_most = all.at_most.min(free.at_most);
        all
    }

    /// Begins a bin of a kind: all of its room is free, and nothing is in it.
    fn empty(&mut self, kind: &BinType) {
        self.room.clear();
        let of_problem = self.n_resources - self.rule_limits.len();
        self.room.extend((0..of_problem).map(|at| kind.room.get(at).copied().unwrap_or(0)));
        self.room.extend(&self.rule_limits);
        self.subjects.fill(0);
        self.counted.fill(0);
    }

    // The best pattern, with one of an item in the bin from the start if there is a first.
    fn search(&mut self, first: Option<usize>, query: Query<'_>) -> Priced {
        let Query { bin, prices, threshold, effort, .. } = query;
        self.best = Priced { value: threshold, at_most: threshold, ..Priced::default() };
        let Some(kind) = self.problem.bins.get(bin) else { return std::mem::take(&mut self.best) };
        self.empty(kind);
        self.chosen.clear();
        self.first = None;
        let mut value = 0.0;
        if let Some(at) = first {
            let item = u32::try_from(at).unwrap_or(u32::MAX);
            let (Some(&price), Some(&cap)) = (prices.get(at), self.caps.get(at)) else {
                return std::mem::take(&mut self.best);
            };
            let candidate = Candidate { item, price, weight: 0.0, at_most: cap };
            if !kind.admits.contains(at) || self.room_for(&candidate) == 0 {
                return std::mem::take(&mut self.best);
            }
            self.put(item, 1, true);
            self.chosen.push((item, 1));
            self.first = Some(item);
            value = price;
        }
        self.list_candidates(query);
        if self.candidates.is_empty() && first.is_none() {
            return std::mem::take(&mut self.best);
        }
        let multipliers = self.find_multipliers(query);
        self.weigh(&multipliers);
        let capacity = crate::numbers::dot(&multipliers, &self.room);
        self.set_lagrangian(multipliers.clone());
        if let Some(known) = self.multipliers.get_mut(bin) {
            *known = multipliers;
        }
        self.steps = effort.steps;
        self.has_leaf = false;
        self.slack = effort.slack;
        self.branch(0, value, capacity);
        if effort.nodes > 0 && self.steps == 0 {
            self.search_exactly(effort.nodes, value);
        }
        let mut best = std::mem::take(&mut self.best);
        best.at_most = best.at_most.max(best.value * self.slack) * (1.0 + 1e-9);
        best
    }

    fn list_candidates(&mut self, query: Query<'_>) {
        let (sizes, room, n) = (&self.sizes, &self.room, self.n_resources);
        self.candidates.clear();
        let Some(kind) = self.problem.bins.get(query.bin) else { return };
        for index in kind.admits.ones() {
            let (Some(&price), Some(&count), Some(&cap)) =
                (query.prices.get(index), query.counts.get(index), self.caps.get(index))
            else {
                continue;
            };
            if price <= 0.0 || count == 0 {
                continue;
            }
            let size = sizes.get(index * n..(index + 1) * n).unwrap_or_default();
            let item = u32::try_from(index).unwrap_or(u32::MAX);
            let is_in = u32::from(self.first == Some(item));
            let at_most = fits(size, room, count.min(cap).saturating_sub(is_in));
            if at_most > 0 {
                self.candidates.push(Candidate { item, price, weight: 0.0, at_most });
            }
        }
    }

    /// How many resources there are, rules that are resources among them.
    pub(crate) fn n_resources(&self) -> usize {
        self.n_resources
    }

    /// What a bin has of each resource.
    pub(crate) fn room_of<'r>(&'r self, bin: &'r BinType) -> impl Iterator<Item = i64> + 'r {
        let of_problem = self.n_resources - self.rule_limits.len();
        let of_bin = (0..of_problem).map(|at| bin.room.get(at).copied().unwrap_or(0));
        of_bin.chain(self.rule_limits.iter().copied())
    }

    /// Begins the next search of a bin, and bounds it, with these multipliers of its resources.
    pub(crate) fn set_multipliers(&mut self, bin: usize, multipliers: Vec<f64>) {
        if let Some(known) = self.multipliers.get_mut(bin) {
            *known = multipliers;
        }
    }

    /// What an item takes of each resource.
    pub(crate) fn size_at(&self, item: usize) -> &[i64] {
        let at = item * self.n_resources;
        self.sizes.get(at..at + self.n_resources).unwrap_or_default()
    }

    fn size_of(&self, item: u32) -> &[i64] {
        self.size_at(item as usize)
    }
}

// A pattern in order, each item once.
fn merged(mut items: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    items.sort_unstable();
    items.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 += next.1;
        }
        is_same
    });
    items
}

// How many times `size` fits in `room`.
fn fits(size: &[i64], room: &[i64], at_most: u32) -> u32 {
    let mut n = i64::from(at_most);
    for (size, room) in size.iter().zip(room) {
        if *size > 0 {
            if *room < *size {
                return 0;
            }
            if size.saturating_mul(n) > *room {
                n = room / size;
            }
        }
    }
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}
