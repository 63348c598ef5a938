//! Column generation: the master over the columns known so far gives dual prices, and pricing looks for patterns of
//! negative reduced cost, until there is none.

mod bound;
mod compact;
mod forget;
mod price;
mod rounds;
mod seed;
mod whole_bins;

use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use compact::Guide;
pub(crate) use rounds::Rounds;

use crate::Budget;
use crate::answer::StopReason;
use crate::duals::DualPrices;
use crate::groups::ItemGroups;
use crate::master::MasterSolution;
use crate::pricing::Pricer;
use crate::problem::{BinType, Pattern, Problem};
use crate::tuning::generation::{COARSE_ROUNDS, DENSE_ROWS};
use crate::tuning::groups::{FEWER, MANY_ITEMS};

/// The columns known so far, and how more are found.
pub(crate) struct Generator<'p> {
    pub(crate) problem: &'p Problem,
    pub(crate) pricer: Pricer<'p>,
    pub(crate) columns: Vec<Pattern>,
    known: FxHashSet<Pattern>,
    classes: Vec<BinClass>,
    groups: Option<ItemGroups>,
    /// By class of bins: the round that priced it last, and how many rounds there were.
    priced: Vec<u32>,
    turn: u32,
    /// The dual prices of some rounds for all items, which greedy packing goes by.
    pub(crate) saved: Vec<DualPrices>,
    /// Rows of masters that are factored densely, at most.
    dense: usize,
    /// By item: what leaving out one costs in masters, more than any packing of it.
    penalties: Vec<f64>,
    /// What any plan's bins keep to, of each set of prices that said how much a bin holds at most.
    inequalities: Vec<whole_bins::Inequality>,
    /// No packing of all items costs less.
    pub(crate) bound: f64,
    /// Columns of the masters solved so far.
    pub(crate) work: u64,
    /// Why the last generation for all items stopped.
    pub(crate) stop: StopReason,
}

/// Types of bins that the same patterns fit in, at the same dual prices of items.
type BinClass = Vec<usize>;

/// What makes a class: room, who may be in a bin, what these load, and by need whether the bin has it.
type ClassKey<'p> = (&'p [i64], &'p FixedBitSet, &'p [usize], Vec<bool>);

impl<'p> Generator<'p> {
    /// Begins with the columns of `start`, and for each item the cheapest ways to pack it alone.
    pub(crate) fn new(problem: &'p Problem, start: impl IntoIterator<Item = Pattern>) -> Self {
        let classes = classes(problem);
        let mut generator = Generator {
            problem,
            pricer: Pricer::new(problem),
            columns: Vec::new(),
            known: FxHashSet::default(),
            priced: vec![0; classes.len()],
            turn: 0,
            saved: Vec::new(),
            classes,
            groups: None,
            dense: DENSE_ROWS,
            penalties: penalties(problem),
            inequalities: Vec::new(),
            bound: 0.0,
            work: 0,
            stop: StopReason::default(),
        };
        for pattern in start {
            generator.add(pattern);
        }
        generator.seed();
        generator
    }

    /// Makes a pattern a column; says whether it is new.
    pub(crate) fn add(&mut self, pattern: Pattern) -> bool {
        let is_allowed = !pattern.items.is_empty() && self.problem.has_needed(&pattern);
        let is_new = is_allowed && self.known.insert(pattern.clone());
        if is_new {
            self.columns.push(pattern);
        }
        is_new
    }

    /// Groups, where they stand for the items that are wanted.
    pub(crate) fn groups_for(&self, counts: &[u32]) -> Option<&ItemGroups> {
        let wanted = counts.iter().filter(|count| **count > 0).count();
        self.groups.as_ref().filter(|groups| wanted > MANY_ITEMS || groups.len() * FEWER <= wanted)
    }

    /// Hands all columns out, and knows none any more.
    pub(crate) fn take_columns(&mut self) -> Vec<Pattern> {
        self.known.clear();
        std::mem::take(&mut self.columns)
    }

    /// Generates for all items and stocks, with groups of items from coarse to fine where items are many.
    pub(crate) fn solve_all(&mut self, budget: Budget) -> Option<MasterSolution> {
        let problem = self.problem;
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stages = ItemGroups::stages(problem, budget.prices);
        // Many masters one after the other, each a little different, are worth the dense factorisation sooner.
        self.dense = DENSE_ROWS.max(budget.prices + budget.prices / 2);
        // Dives solve many masters, and each has to be quick.
        let coarse = stages.get(1).or(stages.first()).cloned();
        let are_fine = stages.last().is_some_and(ItemGroups::are_of_one_size);
        let is_by_item = stages.is_empty() || (problem.items.len() <= budget.prices && !are_fine);
        let mut stages = stages.into_iter().map(Some).chain(is_by_item.then_some(None)).peekable();
        let mut solution = None;
        while let Some(groups) = stages.next() {
            let mut rounds = Rounds::from(budget);
            if stages.peek().is_some() {
                rounds = Rounds { at_most: rounds.at_most.min(COARSE_ROUNDS), proofs: 0, ..rounds };
            }
            self.groups = groups;
            self.work = 0;
            self.saved.clear();
            solution = self.solve(&counts, &problem.stocks, rounds, true);
        }
        self.groups = coarse;
        solution
    }
}

fn classes(problem: &Problem) -> Vec<BinClass> {
    let mut known: FxHashMap<ClassKey<'_>, usize> = FxHashMap::default();
    let mut classes: Vec<BinClass> = Vec::new();
    for (index, bin) in problem.bins.iter().enumerate() {
        let next = classes.len();
        let needs = problem.needs.iter().map(|need| need.bins.contains(index)).collect();
        let class = *known.entry((&bin.room, &bin.admits, &bin.loads, needs)).or_insert(next);
        match classes.get_mut(class) {
            Some(class) => class.push(index),
            None => classes.push(vec![index]),
        }
    }
    classes
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
