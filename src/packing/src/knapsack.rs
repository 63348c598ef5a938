//! The best way to fill one bin, given what each item is worth: branch and bound over a surrogate relaxation, in which
//! one weighted sum of the resources stands for all of them.

use crate::cuts::Resource;
use crate::exact::{Condition, Search};
use crate::problem::{Need, Problem, Rule};

/// What the search of a bin found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filling {
    /// The best filling that was found to be worth more than the threshold; empty if none was.
    pub(crate) items: Vec<(u32, u32)>,
    /// The fillings before it that were worth more than the threshold.
    pub(crate) others: Vec<(f64, Vec<(u32, u32)>)>,
    /// Fillings of further bins with what it leaves.
    pub(crate) after: Vec<(f64, Vec<(u32, u32)>)>,
    /// What it is worth, or the threshold.
    pub(crate) value: f64,
    /// No filling is worth more, the threshold aside: certain, whether or not the search was complete.
    pub(crate) at_most: f64,
    /// Relaxations that were solved, times their columns.
    pub(crate) work: u64,
}

/// How much a search of a bin may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Steps of the quick search.
    pub(crate) steps: u32,
    /// Relaxations that the exact one may solve, where the quick one was cut short; none, and there is no exact one.
    pub(crate) nodes: u32,
    /// A filling is looked for that is worth so many times as much as the best, or the threshold.
    pub(crate) slack: f64,
}

/// A bin, what is there for it, and what its filling must be worth.
#[derive(Clone, Copy)]
struct Asked<'a> {
    bin: usize,
    worths: &'a [f64],
    counts: &'a [u32],
    threshold: f64,
    depth: Depth,
}

/// An item as one search sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) item: u32,
    pub(crate) worth: f64,
    /// Its size in the surrogate's measure.
    weight: f64,
    pub(crate) at_most: u32,
}

/// Prices of the resources, and what the choices from each on could earn at most beyond paying them.
#[derive(Clone, Debug, Default)]
struct Lagrangian {
    multipliers: Vec<f64>,
    rest: Vec<f64>,
}

/// Rules that are taken for resources, and that an exact search takes for such as are limited on a condition.
const LIMITS: usize = 8;
const CONDITIONS: usize = 16;

/// Room for the search of many bins of one problem.
#[derive(Clone, Debug)]
pub(crate) struct Knapsack<'p> {
    problem: &'p Problem,
    /// Those of the problem, then rules.
    n_resources: usize,
    /// How much there is of rules that are resources: of each item that one counts a bin may hold one.
    limits: Vec<i64>,
    /// By item: its size.
    sizes: Vec<i64>,
    /// By item: how many a bin may hold.
    caps: Vec<u32>,
    /// By item: the rules that it is a subject of, and those it counts in; without those of one item alone.
    subject_of: Vec<Vec<u32>>,
    counts_in: Vec<Vec<u32>>,
    choices: Vec<Choice>,
    room: Vec<i64>,
    /// By rule: subjects and counted items in the bin.
    subjects: Vec<u32>,
    counted: Vec<u32>,
    chosen: Vec<(u32, u32)>,
    /// In the bin from the start, one of it.
    first: Option<u32>,
    best: Filling,
    steps: u32,
    has_leaf: bool,
    slack: f64,
    lagrangian: Lagrangian,
    ratios: Vec<(f64, f64)>,
    /// Surrogate multipliers by bin type, where the last search left them.
    multipliers: Vec<Vec<f64>>,
}

impl<'p> Knapsack<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        let of_problem = problem.n_resources();
        let limits = limits(problem);
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
        Knapsack {
            problem,
            n_resources,
            limits: limits.into_iter().map(|(_, at_most)| i64::from(at_most)).collect(),
            sizes,
            caps,
            subject_of,
            counts_in,
            choices: Vec::new(),
            room: Vec::new(),
            subjects: vec![0; problem.rules.len()],
            counted: vec![0; problem.rules.len()],
            chosen: Vec::new(),
            first: None,
            best: Filling::default(),
            steps: 0,
            has_leaf: false,
            slack: 0.0,
            lagrangian: Lagrangian::default(),
            ratios: Vec::new(),
            multipliers: vec![Vec::new(); problem.bins.len()],
        }
    }

    /// The best filling of a bin that is worth more than `threshold`, with at most `counts` of each item, each worth
    /// `worths`. It holds what the bin must; of a bin with several [`Need`]s the bound counts on the first alone.
    pub(crate) fn fill(&mut self, bin: usize, worths: &[f64], counts: &[u32], threshold: f64, depth: Depth) -> Filling {
        let asked = Asked { bin, worths, counts, threshold, depth };
        let free = self.fill_with(None, asked);
        let Some(need) = self.problem.needs.iter().find(|need| need.bins.contains(bin)) else { return free };
        // Where even the best without a needed item is not worth looking for, or has one, that is all.
        if free.items.is_empty() || free.items.iter().any(|&(item, _)| need.items.contains(item as usize)) {
            return free;
        }
        self.fill_with_needed(need, asked, &free)
    }

    /// What no filling is worth more than, by multipliers that are known of the bin or of one near it; rules of more than
    /// one item count only where they are resources. Infinite where none are known.
    pub(crate) fn at_most(&self, bin: usize, worths: &[f64], counts: &[u32]) -> f64 {
        let is_known = |at: &usize| self.multipliers.get(*at).is_some_and(|known| known.len() == self.n_resources);
        let near = (0..=bin).rev().find(is_known).or_else(|| (bin..self.multipliers.len()).find(is_known));
        let (Some(multipliers), Some(kind)) =
            (near.and_then(|at| self.multipliers.get(at)), self.problem.bins.get(bin))
        else {
            return f64::INFINITY;
        };
        let of_problem = self.n_resources - self.limits.len();
        let (by, by_limits) = multipliers.split_at(of_problem.min(multipliers.len()));
        let n = self.n_resources;
        let mut sum = dot(by, &kind.room) + dot(by_limits, &self.limits);
        for item in kind.admits.ones() {
            let (Some(&worth), Some(&count), Some(&cap)) = (worths.get(item), counts.get(item), self.caps.get(item))
            else {
                continue;
            };
            if count > 0 {
                let size = self.sizes.get(item * n..(item + 1) * n).unwrap_or_default();
                let over = worth - dot(multipliers, size);
                if over > 0.0 {
                    sum += over * f64::from(fits(size, &kind.room, count.min(cap)));
                }
            }
        }
        sum * (1.0 + 1e-9)
    }

    // Every filling that holds a needed item has a first one, in some order: the best of those with each, none before it.
    fn fill_with_needed(&mut self, need: &Need, asked: Asked<'_>, free: &Filling) -> Filling {
        let Asked { worths, counts, threshold, .. } = asked;
        let worth = |item: usize| worths.get(item).copied().unwrap_or(0.0);
        let mut order: Vec<usize> = need.items.ones().filter(|&item| counts.get(item) > Some(&0)).collect();
        order.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)).then(a.cmp(&b)));
        let mut left = counts.to_vec();
        let mut all = Filling { value: threshold, at_most: threshold, work: free.work, ..Filling::default() };
        for first in order {
            let found = self.fill_with(Some(first), Asked { counts: &left, threshold: all.value, ..asked });
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

    // The same with one of an item in the bin from the start.
    fn fill_with(&mut self, first: Option<usize>, asked: Asked<'_>) -> Filling {
        let Asked { bin, worths, counts, threshold, depth } = asked;
        self.best = Filling { value: threshold, at_most: threshold, ..Filling::default() };
        let Some(kind) = self.problem.bins.get(bin) else { return std::mem::take(&mut self.best) };
        self.room.clear();
        let of_problem = self.n_resources - self.limits.len();
        self.room.extend((0..of_problem).map(|at| kind.room.get(at).copied().unwrap_or(0)));
        self.room.extend(&self.limits);
        self.subjects.fill(0);
        self.counted.fill(0);
        self.chosen.clear();
        self.first = None;
        let mut value = 0.0;
        if let Some(at) = first {
            let item = u32::try_from(at).unwrap_or(u32::MAX);
            let (Some(&worth), Some(&cap)) = (worths.get(at), self.caps.get(at)) else {
                return std::mem::take(&mut self.best);
            };
            let choice = Choice { item, worth, weight: 0.0, at_most: cap };
            if !kind.admits.contains(at) || self.room_for(&choice) == 0 {
                return std::mem::take(&mut self.best);
            }
            self.put(item, 1, true);
            self.chosen.push((item, 1));
            self.first = Some(item);
            value = worth;
        }
        self.list_choices(bin, worths, counts);
        if self.choices.is_empty() && first.is_none() {
            return std::mem::take(&mut self.best);
        }
        let multipliers = self.find_multipliers(bin);
        self.weigh(&multipliers);
        let capacity = dot(&multipliers, &self.room);
        self.set_lagrangian(multipliers.clone());
        if let Some(known) = self.multipliers.get_mut(bin) {
            *known = multipliers;
        }
        self.steps = depth.steps;
        self.has_leaf = false;
        self.slack = depth.slack;
        self.descend(0, value, capacity);
        if depth.nodes > 0 && self.steps == 0 {
            self.fill_exactly(depth.nodes, value);
        }
        let mut best = std::mem::take(&mut self.best);
        best.at_most = best.at_most.max(best.value * self.slack) * (1.0 + 1e-9);
        best
    }

    fn list_choices(&mut self, bin: usize, worths: &[f64], counts: &[u32]) {
        let (sizes, room, n) = (&self.sizes, &self.room, self.n_resources);
        self.choices.clear();
        let Some(kind) = self.problem.bins.get(bin) else { return };
        for index in kind.admits.ones() {
            let (Some(&worth), Some(&count), Some(&cap)) = (worths.get(index), counts.get(index), self.caps.get(index))
            else {
                continue;
            };
            if worth <= 0.0 || count == 0 {
                continue;
            }
            let size = sizes.get(index * n..(index + 1) * n).unwrap_or_default();
            let item = u32::try_from(index).unwrap_or(u32::MAX);
            let is_in = u32::from(self.first == Some(item));
            let at_most = fits(size, room, count.min(cap).saturating_sub(is_in));
            if at_most > 0 {
                self.choices.push(Choice { item, worth, weight: 0.0, at_most });
            }
        }
    }

    // Lagrange multipliers of the resources for the choices from one on, improved one at a time from where they were:
    // any are valid, better ones bound tighter.
    fn improve(&mut self, from: usize, multipliers: &mut [f64], sweeps: u32) {
        let n = self.n_resources;
        let mut ratios = std::mem::take(&mut self.ratios);
        for _ in 0..sweeps {
            for at in 0..n {
                let room = float(self.room.get(at).copied().unwrap_or(0));
                ratios.clear();
                for choice in self.choices.get(from..).unwrap_or_default() {
                    let size = self.size(choice.item);
                    let here = size.get(at).map_or(0.0, |size| float(*size));
                    if here <= 0.0 {
                        continue;
                    }
                    let rest = choice.worth - dot(multipliers, size) + multipliers.get(at).map_or(0.0, |by| by * here);
                    if rest > 0.0 {
                        let n = fits(size, &self.room, choice.at_most);
                        ratios.push((rest / here, here * f64::from(n)));
                    }
                }
                // The least multiplier at which what is still worth taking fits.
                ratios.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
                let mut filled = 0.0;
                let mut found = 0.0;
                for &(ratio, size) in &ratios {
                    filled += size;
                    if filled > room {
                        found = ratio;
                        break;
                    }
                }
                if let Some(by) = multipliers.get_mut(at) {
                    *by = found;
                }
            }
        }
        self.ratios = ratios;
    }

    fn find_multipliers(&mut self, bin: usize) -> Vec<f64> {
        let mut multipliers = match self.multipliers.get(bin) {
            Some(known) if known.len() == self.n_resources => known.clone(),
            _ => vec![0.0; self.n_resources],
        };
        let is_new = multipliers.iter().all(|by| *by == 0.0);
        self.improve(0, &mut multipliers, if is_new { 3 } else { 1 });
        if multipliers.iter().all(|by| *by <= 0.0) {
            // Everything fits at once, each resource alone: any measure will do.
            for (by, room) in multipliers.iter_mut().zip(&self.room) {
                *by = if *room > 0 { 1.0 / float(*room) } else { 0.0 };
            }
        }
        multipliers
    }

    fn set_lagrangian(&mut self, multipliers: Vec<f64>) {
        let mut rest = vec![0.0; self.choices.len() + 1];
        let mut sum = 0.0;
        for (at, choice) in self.choices.iter().enumerate().rev() {
            let over = choice.worth - dot(&multipliers, self.size(choice.item));
            sum += over.max(0.0) * f64::from(choice.at_most);
            if let Some(rest) = rest.get_mut(at) {
                *rest = sum;
            }
        }
        self.lagrangian = Lagrangian { multipliers, rest };
    }

    // What choices from one on could add at most, by the Lagrangian.
    fn priced(&self, from: usize) -> f64 {
        dot(&self.lagrangian.multipliers, &self.room) + self.lagrangian.rest.get(from).copied().unwrap_or(0.0)
    }

    // Goes on where the quick search gave up. What is in the bin from the start is worth `before`.
    fn fill_exactly(&mut self, nodes: u32, before: f64) {
        let choices = &self.choices;
        let columns = choices.iter().map(|choice| (choice.worth, choice.at_most)).collect();
        let resource = |at: usize| Resource {
            sizes: choices.iter().map(|choice| self.size(choice.item).get(at).copied().unwrap_or(0)).collect(),
            room: self.room.get(at).copied().unwrap_or(0),
        };
        let resources: Vec<Resource> = (0..self.n_resources).map(resource).collect();
        let mut rules: Vec<u32> = choices
            .iter()
            .map(|choice| choice.item)
            .chain(self.first)
            .filter_map(|item| self.subject_of.get(item as usize))
            .flat_map(|rules| rules.iter().copied())
            .collect();
        rules.sort_unstable();
        rules.dedup();
        let rules: Vec<&Rule> = rules.into_iter().filter_map(|rule| self.problem.rules.get(rule as usize)).collect();
        // What is in the bin from the start, `allows` minds.
        let first = self.first;
        let has_first = |items: &[u32]| first.is_some_and(|first| items.binary_search(&first).is_ok());
        let is_condition = |rule: &Rule| !rule.is_plain() && !has_first(&rule.subjects) && !has_first(&rule.counted);
        let conditions = rules.iter().filter(|rule| is_condition(rule)).take(CONDITIONS).map(|rule| {
            let is_in = |items: &[u32], choice: &Choice| items.binary_search(&choice.item).is_ok();
            let subjects = choices.iter().enumerate().filter(|(_, choice)| is_in(&rule.subjects, choice));
            // Less than one is none.
            let (room, each) = if rule.at_most == 0 { (1, 2) } else { (i64::from(rule.at_most), 1) };
            let sizes = choices.iter().map(|choice| if is_in(&rule.counted, choice) { each } else { 0 }).collect();
            Condition { subjects: subjects.map(|(at, _)| at).collect(), limit: Resource { sizes, room } }
        });
        let conditions: Vec<Condition> = conditions.collect();
        let allows = |uses: &[u32]| {
            let each = |item: u32| {
                let at = choices.iter().position(|choice| choice.item == item);
                at.and_then(|at| uses.get(at)).copied().unwrap_or(0) + u32::from(first == Some(item))
            };
            rules.iter().all(|rule| rule.holds(each))
        };
        let enough = (self.best.value - before).max(0.0);
        let found = Search::new(columns, resources, conditions, &allows).run(enough, self.slack, nodes);
        self.best.work = u64::from(found.solved) * choices.len() as u64;
        for (value, uses) in found.fillings {
            let items = self.choices.iter().zip(uses).filter(|(_, n)| *n > 0).map(|(choice, n)| (choice.item, n));
            let items = together(items.chain(first.map(|item| (item, 1))).collect());
            self.keep(value + before, items);
        }
        self.best.at_most = found.at_most + before;
    }

    // A filling that is worth more than all before it.
    fn keep(&mut self, value: f64, items: Vec<(u32, u32)>) {
        let before = std::mem::replace(&mut self.best.items, items);
        if !before.is_empty() {
            self.best.others.push((self.best.value, before));
        }
        self.best.value = value;
    }

    fn weigh(&mut self, multipliers: &[f64]) {
        let (sizes, n) = (&self.sizes, self.n_resources);
        for choice in &mut self.choices {
            let at = choice.item as usize * n;
            let size = sizes.get(at..at + n).unwrap_or_default();
            choice.weight = dot(multipliers, size);
        }
        // By worth per weight, the best first.
        let rate = |choice: &Choice| choice.worth / choice.weight.max(f64::MIN_POSITIVE);
        self.choices
            .sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(b.worth.total_cmp(&a.worth)).then(a.item.cmp(&b.item)));
    }

    fn size(&self, item: u32) -> &[i64] {
        let at = item as usize * self.n_resources;
        self.sizes.get(at..at + self.n_resources).unwrap_or_default()
    }

    // How many more of an item the bin takes.
    fn room_for(&self, choice: &Choice) -> u32 {
        let mut n = fits(self.size(choice.item), &self.room, choice.at_most);
        let item = choice.item as usize;
        let counts = |rule: u32| self.counts_in.get(item).is_some_and(|rules| rules.contains(&rule));
        let left = |rule: u32| {
            let at_most = self.problem.rules.get(rule as usize).map_or(0, |rule| rule.at_most);
            let counted = self.counted.get(rule as usize).copied().unwrap_or(0);
            at_most.checked_sub(counted)
        };
        for &rule in self.subject_of.get(item).into_iter().flatten() {
            match left(rule) {
                None => return 0,
                Some(left) if counts(rule) => n = n.min(left),
                Some(_) => {}
            }
        }
        for &rule in self.counts_in.get(item).into_iter().flatten() {
            if self.subjects.get(rule as usize).is_some_and(|subjects| *subjects > 0) {
                n = n.min(left(rule).unwrap_or(0));
            }
        }
        n
    }

    fn put(&mut self, item: u32, n: u32, is_in: bool) {
        let at = item as usize * self.n_resources;
        let sign = if is_in { -1 } else { 1 };
        for (room, size) in self.room.iter_mut().zip(self.sizes.get(at..at + self.n_resources).unwrap_or_default()) {
            *room += sign * size * i64::from(n);
        }
        let change = |number: &mut u32, by: u32| *number = if is_in { *number + by } else { *number - by };
        for &rule in self.subject_of.get(item as usize).into_iter().flatten() {
            if let Some(subjects) = self.subjects.get_mut(rule as usize) {
                change(subjects, 1);
            }
        }
        for &rule in self.counts_in.get(item as usize).into_iter().flatten() {
            if let Some(counted) = self.counted.get_mut(rule as usize) {
                change(counted, n);
            }
        }
    }

    // What the rest of the choices could add: the surrogate filled with fractions, each item no more than fits.
    fn bound(&self, from: usize, mut capacity: f64) -> f64 {
        let mut value = 0.0;
        for choice in self.choices.get(from..).unwrap_or_default() {
            let n = fits(self.size(choice.item), &self.room, choice.at_most);
            if n == 0 {
                continue;
            }
            let n = f64::from(n);
            let weight = choice.weight * n;
            if weight <= capacity {
                value += choice.worth * n;
                capacity -= weight;
            } else {
                return value + choice.worth * (capacity.max(0.0) / choice.weight);
            }
        }
        value
    }

    fn descend(&mut self, from: usize, value: f64, capacity: f64) {
        let enough = self.best.value * self.slack;
        let priced = self.priced(from);
        if value + priced <= enough {
            self.has_leaf = true;
            return;
        }
        let bound = value + self.bound(from, capacity).min(priced);
        if bound <= enough {
            self.has_leaf = true;
            return;
        }
        if self.is_spent() {
            self.best.at_most = self.best.at_most.max(bound);
            return;
        }
        self.steps = self.steps.saturating_sub(1);
        // The next item that still fits.
        let mut at = from;
        let next = loop {
            let Some(&choice) = self.choices.get(at) else { break None };
            at += 1;
            let n = self.room_for(&choice);
            if n > 0 {
                break Some((choice, n));
            }
        };
        let Some((choice, most)) = next else {
            self.has_leaf = true;
            if value > self.best.value {
                self.keep(value, together(self.chosen.clone()));
            }
            return;
        };
        for n in (0..=most).rev() {
            if n > 0 {
                self.put(choice.item, n, true);
                self.chosen.push((choice.item, n));
            }
            self.descend(at, value + choice.worth * f64::from(n), capacity - choice.weight * f64::from(n));
            if n > 0 {
                self.chosen.pop();
                self.put(choice.item, n, false);
            }
            if self.is_spent() {
                self.best.at_most = self.best.at_most.max(bound);
                return;
            }
        }
    }

    // A first filling is always finished, unless it is seen to be worth too little.
    fn is_spent(&self) -> bool {
        self.steps == 0 && self.has_leaf
    }
}

/// Items of which a bin holds only so many together, whatever else is in it: the subjects of a rule that it counts. Those
/// that concern most items, one alone aside, as that has a limit of its own.
pub(crate) fn limits(problem: &Problem) -> Vec<(Vec<u32>, u32)> {
    let mut limits: Vec<(Vec<u32>, u32)> = Vec::new();
    for rule in problem.rules.iter().filter(|rule| rule.at_most > 0) {
        let counted = |item: &&u32| rule.counted.binary_search(item).is_ok();
        let both: Vec<u32> = rule.subjects.iter().filter(counted).copied().collect();
        if both.len() > 1 && !limits.iter().any(|(items, at_most)| *items == both && *at_most <= rule.at_most) {
            limits.push((both, rule.at_most));
        }
    }
    let count = |items: &[u32]| -> u64 {
        items.iter().filter_map(|item| problem.items.get(*item as usize)).map(|item| u64::from(item.count)).sum()
    };
    limits.sort_by_cached_key(|(items, _)| std::cmp::Reverse(count(items)));
    limits.truncate(LIMITS);
    limits
}

// A filling in order, each item once.
fn together(mut items: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
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

pub(crate) fn dot(multipliers: &[f64], amounts: &[i64]) -> f64 {
    multipliers.iter().zip(amounts).map(|(by, amount)| by * float(*amount)).sum()
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

#[expect(clippy::cast_precision_loss, reason = "bounds carry a margin; what fits is decided on whole numbers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}
