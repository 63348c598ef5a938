//! The best pattern of one bin by branch and bound over its linear relaxation, for where a quick search leaves a gap.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::cuts::{self, Resource, Row};
use super::simplex::{Basis, Relaxation};
use crate::numbers::{float, floor_u32};
use crate::tuning::exact::{CUTS, CUTS_A_ROUND, ROUNDS, UNLIMITED};

/// A bin's columns as a search in whole numbers.
pub(crate) struct Search<'a> {
    relaxation: Relaxation,
    /// By column: dual price and how often at most.
    columns: Vec<(f64, u32)>,
    resources: Vec<Resource>,
    conditions: Vec<Condition>,
    /// What else a pattern must keep to.
    allows: &'a dyn Fn(&[u32]) -> bool,
}

/// A resource that is limited only if one of some columns is used.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) subjects: Vec<usize>,
    pub(crate) limit: Resource,
}

/// What is still to be looked at: bounds of columns that differ from those of all, and where to start.
#[derive(Debug)]
struct Node {
    bounds: Vec<(usize, f64, f64)>,
    /// Conditions whose limits hold.
    limits: Vec<usize>,
    basis: Basis,
    at_most: f64,
    /// The how many-th to be made.
    number: u32,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_most.total_cmp(&other.at_most).then(self.number.cmp(&other.number))
    }
}

/// How far a search is.
struct Tree {
    /// A pattern is looked for whose dual value exceeds this by `slack`.
    enough: f64,
    slack: f64,
    /// Relaxations that may still be solved, and nodes that were made.
    left: u32,
    made: u32,
    /// The most dual value in nodes that were not looked into as far as they could be.
    unseen: f64,
    found: Vec<(f64, Vec<u32>)>,
    open: BinaryHeap<Node>,
}

impl Tree {
    fn wants(&self, at_most: f64) -> bool {
        at_most > self.enough * self.slack
    }

    // Which of two children to look into next; the other is put aside.
    fn choose(&mut self, first: Node, second: Node) -> Node {
        let (next, aside) = if first.at_most >= second.at_most * 0.999 { (first, second) } else { (second, first) };
        if self.wants(aside.at_most) {
            self.open.push(aside);
        }
        next
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Patterns, each better than the one before.
    pub(crate) patterns: Vec<(f64, Vec<u32>)>,
    /// No pattern has more dual value, that which `enough` left aside.
    pub(crate) at_most: f64,
    /// Relaxations solved.
    pub(crate) solved: u32,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        columns: Vec<(f64, u32)>,
        resources: Vec<Resource>,
        conditions: Vec<Condition>,
        allows: &'a dyn Fn(&[u32]) -> bool,
    ) -> Self {
        Search { relaxation: Relaxation::default(), columns, resources, conditions, allows }
    }

    // Makes the relaxation of the resources and of cuts.
    fn relax(&mut self, cuts: &[Row]) {
        let n_rows = self.resources.len() + cuts.len() + self.conditions.len();
        self.relaxation.reset(n_rows);
        for (column, &(price, at_most)) in self.columns.iter().enumerate() {
            let share = |resource: &Resource| {
                let size = resource.sizes.get(column).copied().unwrap_or(0);
                if size == 0 { 0.0 } else { float(size) / float(resource.room) }
            };
            let cut = cuts.iter().map(|cut| cut.get(column).copied().unwrap_or(0.0));
            let limits = self.conditions.iter().map(|condition| share(&condition.limit));
            let sizes = self.resources.iter().map(share).chain(cut).chain(limits);
            self.relaxation.push(price, f64::from(at_most), sizes);
        }
        self.limit(&[]);
        self.relaxation.begin();
    }

    // Of the conditions, only these limit anything.
    fn limit(&mut self, limits: &[usize]) {
        let first = self.relaxation.rhs.len().saturating_sub(self.conditions.len());
        for (at, room) in self.relaxation.rhs.iter_mut().skip(first).enumerate() {
            *room = if limits.contains(&at) { 1.0 } else { UNLIMITED };
        }
    }

    fn cut(&mut self, enough: f64) {
        let mut cuts: Vec<Row> = Vec::new();
        self.relax(&cuts);
        for _ in 0..ROUNDS {
            let Some(prices) = self.relaxation.solve() else { return };
            if self.relaxation.bound(&prices) <= enough || self.relaxation.fractions().next().is_none() {
                return;
            }
            let uses = self.relaxation.uses();
            let together = cuts::aggregate(&prices, &self.resources);
            let resources: Vec<Resource> = self.resources.iter().cloned().chain(together).collect();
            let new = cuts::broken_by(&uses, &resources, CUTS_A_ROUND);
            if new.is_empty() {
                return;
            }
            // Cuts whose dual price is zero make room.
            let n = self.resources.len();
            let mut kept: Vec<Row> = cuts
                .iter()
                .zip(prices.iter().skip(n).take(cuts.len()))
                .filter(|(_, price)| **price > 1e-9)
                .map(|(cut, _)| cut.clone())
                .collect();
            if kept.len() + new.len() > CUTS {
                return;
            }
            kept.extend(new);
            cuts = kept;
            self.relax(&cuts);
        }
    }

    /// Looks at up to `nodes` nodes for patterns of more dual value than `enough`. A better pattern must be so by `slack`,
    /// relative.
    pub(crate) fn run(&mut self, enough: f64, slack: f64, nodes: u32) -> Found {
        self.cut(enough * slack);
        self.relaxation.begin();
        let mut tree =
            Tree { enough, slack, left: nodes, made: 0, unseen: 0.0, found: Vec::new(), open: BinaryHeap::new() };
        tree.open.push(Node {
            bounds: Vec::new(),
            limits: Vec::new(),
            basis: self.relaxation.basis(),
            at_most: f64::INFINITY,
            number: 0,
        });
        let whole_bounds = (self.relaxation.lower.clone(), self.relaxation.upper.clone());
        while let Some(first) = tree.open.pop() {
            // From the most promising, straight down.
            let mut next = Some(first);
            while let Some(node) = next {
                next = self.look_into(&node, &whole_bounds, &mut tree);
            }
        }
        // The first cuts cost about as much again.
        let solved = nodes - tree.left + 20;
        Found { at_most: tree.unseen.max(tree.enough * slack), patterns: tree.found, solved }
    }

    // Solves a node, and says which of its children to look into next; the other is put aside.
    fn look_into(&mut self, node: &Node, whole_bounds: &(Vec<f64>, Vec<f64>), tree: &mut Tree) -> Option<Node> {
        if !tree.wants(node.at_most) {
            return None;
        }
        if tree.left == 0 {
            tree.unseen = tree.unseen.max(node.at_most);
            return None;
        }
        self.relaxation.lower.clone_from(&whole_bounds.0);
        self.relaxation.upper.clone_from(&whole_bounds.1);
        for &(column, from, to) in &node.bounds {
            self.relaxation.set_bounds(column, (from, to));
        }
        self.limit(&node.limits);
        self.relaxation.restore(&node.basis);
        let at_most = self.relaxed(tree).min(node.at_most);
        if !tree.wants(at_most) {
            return None;
        }
        let uses = self.relaxation.uses();
        let rounded: Vec<u32> = uses.iter().map(|uses| floor_u32(*uses)).collect();
        if let Some(value) = self.value(&rounded)
            && value > tree.enough
        {
            tree.enough = value;
            tree.found.push((value, rounded));
        }
        if let Some(broken) = self.broken_by(&uses, &node.limits) {
            return self.branch_on_condition(node, broken, at_most, tree);
        }
        let fractions: Vec<(usize, f64)> = self.relaxation.fractions().collect();
        if fractions.is_empty() {
            // Whole, as far as numbers tell.
            tree.unseen = tree.unseen.max(at_most);
            return None;
        }
        let basis = self.relaxation.basis();
        let mut best: Option<(f64, [Node; 2])> = None;
        for (column, value) in fractions {
            let bounds = self.relaxation.bounds_of(column);
            let children = [(bounds.0, value.floor()), (value.ceil(), bounds.1)].map(|child| {
                self.relaxation.set_bounds(column, child);
                self.relaxation.restore(&basis);
                let mut bounds = node.bounds.clone();
                bounds.retain(|(known, ..)| *known != column);
                bounds.push((column, child.0, child.1));
                self.child(bounds, node.limits.clone(), at_most, tree)
            });
            self.relaxation.set_bounds(column, bounds);
            let [down, up] = &children;
            let falls = |child: &Node| (at_most - child.at_most.max(tree.enough * tree.slack)).max(at_most * 1e-6);
            let score = falls(down) * falls(up);
            let is_closed = !tree.wants(down.at_most) && !tree.wants(up.at_most);
            if is_closed {
                return None;
            }
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, children));
            }
        }
        let (_, [down, up]) = best?;
        Some(tree.choose(up, down))
    }

    // The condition that `uses` breaks most.
    fn broken_by(&self, uses: &[f64], limits: &[usize]) -> Option<usize> {
        let by = |at: usize| {
            let condition = self.conditions.get(at)?;
            let subjects: f64 = condition.subjects.iter().filter_map(|&column| uses.get(column)).sum();
            let limit = &condition.limit;
            let counted: f64 = limit.sizes.iter().zip(uses).map(|(size, uses)| float(*size) * uses).sum();
            let over = counted / float(limit.room) - 1.0;
            (subjects > 1e-6 && over > 1e-6 && !limits.contains(&at)).then(|| (subjects.min(1.0) * over, at))
        };
        let broken = (0..self.conditions.len()).filter_map(by);
        broken.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, at)| at)
    }

    // Either the limit holds, or none of the condition's subjects is there.
    fn branch_on_condition(&mut self, node: &Node, at: usize, at_most: f64, tree: &mut Tree) -> Option<Node> {
        let basis = self.relaxation.basis();
        let mut limits = node.limits.clone();
        limits.push(at);
        self.limit(&limits);
        let limited = self.child(node.bounds.clone(), limits, at_most, tree);
        self.limit(&node.limits);
        let subjects = self.conditions.get(at).map(|condition| condition.subjects.clone()).unwrap_or_default();
        let mut bounds = node.bounds.clone();
        bounds.retain(|(column, ..)| !subjects.contains(column));
        for &column in &subjects {
            if self.relaxation.bounds_of(column).0 > 0.0 {
                // It must be there.
                return tree.wants(limited.at_most).then_some(limited);
            }
            self.relaxation.set_bounds(column, (0.0, 0.0));
            bounds.push((column, 0.0, 0.0));
        }
        self.relaxation.restore(&basis);
        let without = self.child(bounds, node.limits.clone(), at_most, tree);
        Some(tree.choose(limited, without))
    }

    // A node as the relaxation is set to it.
    fn child(&mut self, bounds: Vec<(usize, f64, f64)>, limits: Vec<usize>, at_most: f64, tree: &mut Tree) -> Node {
        let at_most = self.relaxed(tree).min(at_most);
        tree.made += 1;
        Node { bounds, limits, basis: self.relaxation.basis(), at_most, number: tree.made }
    }

    // What no dual value in the node exceeds.
    fn relaxed(&mut self, tree: &mut Tree) -> f64 {
        tree.left = tree.left.saturating_sub(1);
        self.relaxation.solve().map_or(0.0, |prices| self.relaxation.bound(&prices))
    }

    // A pattern's dual value, if it fits.
    fn value(&self, uses: &[u32]) -> Option<f64> {
        let fits = |resource: &Resource| {
            let sum: i128 = resource.sizes.iter().zip(uses).map(|(size, n)| i128::from(*size) * i128::from(*n)).sum();
            sum <= i128::from(resource.room)
        };
        let value = || self.columns.iter().zip(uses).map(|((price, _), n)| price * f64::from(*n)).sum();
        (self.resources.iter().all(fits) && (self.allows)(uses)).then(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The regression: a branch of which all that may change just suffices counted as one where nothing fits, by the last bit of a
    /// float, and a bound was above what is possible.
    #[test]
    fn a_branch_that_just_fits_is_looked_into() {
        let resources = [
            ([151_162_790_849, 93_023_255_907, 69_767_441_931], 639_534_885_085),
            ([127_272_724_191, 12_855, 163_636_359_510], 522_728_037_567),
            ([243_822_081_992, 11_752, 8_237_216_511], 666_049_697_671),
        ];
        let resources = resources.map(|(sizes, room)| Resource { sizes: sizes.to_vec(), room });
        let columns = vec![(7.0, 4), (0.0, 2), (9.0, 3)];
        let found = Search::new(columns, resources.to_vec(), Vec::new(), &|_| true).run(24.612, 1.0, 20_000);
        let best = found.patterns.last().map(|(value, uses)| (*value, &uses[..]));
        assert_eq!(best, Some((27.0, &[0, 2, 3][..])), "{found:?}");
        assert!((27.0..27.001).contains(&found.at_most), "{found:?}");
    }
}
