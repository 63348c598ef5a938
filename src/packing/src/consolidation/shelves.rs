//! Bins by the room that is left in them, so that the one which an item leaves least of is found without looking at all.
//!
//! Bins are on shelves by which needs of items they have room for, resource by resource, and on each shelf in the order of
//! their room, weighted. An item looks only at shelves whose bins may have room for it: one that asks for a GPU at none
//! without.

use std::collections::BTreeSet;

use super::problem::Consolidation;
use crate::tuning::consolidation::{MOST_LEVELS, MOST_PAIRED, MOST_SHELVES};

/// Where a bin stands: its room, weighted, as bits, which are in the order of numbers that are not negative.
type Rank = (u64, usize);

/// A set of shelves.
pub(super) type Shelved = u128;

#[derive(Debug)]
pub(super) struct Shelves {
    /// By resource: how the shelves are told apart.
    steps: Vec<Steps>,
    ranks: Vec<BTreeSet<Rank>>,
    /// Those with bins.
    filled: Shelved,
    /// By item: the shelves whose bins may have room for it.
    of_item: Vec<Shelved>,
    /// By item, once it was asked for, and other item: the shelves whose bins may have room for the one in place of the other.
    in_place: Vec<Vec<Shelved>>,
    /// By item: on how many bins of each shelf it was moved to, and on which shelves there is any.
    n_moved: Vec<Vec<u32>>,
    moved: Vec<Shelved>,
    /// By bin: its shelf, and its rank there.
    places: Vec<Option<(usize, Rank)>>,
}

/// The shelves by their room of one resource.
#[derive(Debug)]
struct Steps {
    /// Amounts at which the next level begins.
    at: Vec<i64>,
    /// How many shelves a level is from the one before.
    stride: usize,
    /// By level: the shelves of this one or a higher one.
    from: Vec<Shelved>,
}

// === impl Steps ===

impl Steps {
    fn level(&self, amount: i64) -> usize {
        self.at.iter().filter(|at| **at <= amount).count()
    }
}

// === impl Shelves ===

impl Shelves {
    pub(super) fn new(problem: &Consolidation, n_resources: usize) -> Self {
        let needs: Vec<Vec<i64>> = (0..n_resources).map(|at| needs(problem, at)).collect();
        let levels = levels(&needs);
        let n_shelves = levels.iter().product();
        let mut stride = 1;
        let mut steps = Vec::with_capacity(n_resources);
        for (needs, n_levels) in needs.iter().zip(levels) {
            // The least need first, the others evenly.
            let step = |at: usize| needs.get(at * needs.len() / (n_levels - 1).max(1)).copied();
            let is_from = |level: usize, shelf: &usize| shelf / stride % n_levels >= level;
            let from = |level| (0..n_shelves).filter(|shelf| is_from(level, shelf)).fold(0, |set, at| set | 1 << at);
            let from = (0..n_levels).map(from).collect();
            steps.push(Steps { at: (0..n_levels - 1).filter_map(step).collect(), stride, from });
            stride *= n_levels;
        }
        let n_items = problem.items.len();
        let mut shelves = Shelves {
            steps,
            ranks: vec![BTreeSet::new(); n_shelves],
            filled: 0,
            of_item: Vec::new(),
            in_place: vec![Vec::new(); n_items],
            n_moved: vec![vec![0; n_shelves]; n_items],
            moved: vec![0; n_items],
            places: vec![None; problem.bins.len()],
        };
        shelves.of_item = problem.items.iter().map(|item| shelves.with_room(item.size.iter().copied())).collect();
        shelves
    }

    /// The shelves whose bins may have room for so much.
    fn with_room(&self, size: impl Iterator<Item = i64>) -> Shelved {
        let from = |(steps, need): (&Steps, i64)| steps.from.get(steps.level(need)).copied().unwrap_or(0);
        self.steps.iter().zip(size).map(from).fold(Shelved::MAX, |all, from| all & from)
    }

    /// Sees to it that shelves for an item in place of others are known.
    pub(super) fn prepare(&mut self, item: u32, problem: &Consolidation) {
        let is_known = self.in_place.get(item as usize).is_none_or(|known| !known.is_empty());
        if is_known || problem.items.len() > MOST_PAIRED {
            return;
        }
        let size = problem.size(item);
        let more = |other: &super::Movable| {
            self.with_room(size.iter().zip(&other.size).map(|(need, freed)| need.saturating_sub(*freed)))
        };
        let sets = problem.items.iter().map(more).collect();
        if let Some(known) = self.in_place.get_mut(item as usize) {
            *known = sets;
        }
    }

    /// The shelves with bins that may have room for an item in place of another, which was moved there.
    pub(super) fn in_place(&self, item: u32, other: u32) -> Shelved {
        let may = self.in_place.get(item as usize).and_then(|known| known.get(other as usize));
        may.unwrap_or(&Shelved::MAX) & self.moved.get(other as usize).unwrap_or(&0)
    }

    /// Whether a bin is on one of these shelves.
    pub(super) fn is_on(&self, bin: usize, shelves: Shelved) -> bool {
        self.shelf_of(bin).is_some_and(|shelf| shelves >> shelf & 1 == 1)
    }

    fn shelf_of(&self, bin: usize) -> Option<usize> {
        self.places.get(bin).copied().flatten().map(|(shelf, _)| shelf)
    }

    /// Puts a bin where its room says; what that weighs is given, and which items were moved to it.
    pub(super) fn insert(&mut self, bin: usize, room: &[i64], weight: f64, moved: &[(u32, u32)]) {
        let at = self.steps.iter().zip(room).map(|(steps, room)| steps.level(*room) * steps.stride).sum();
        // No room is less than none.
        let rank = (weight.max(0.0).to_bits(), bin);
        let before = self.places.get_mut(bin).and_then(|place| place.replace((at, rank)));
        self.take_off(before);
        if let Some(ranks) = self.ranks.get_mut(at) {
            ranks.insert(rank);
            self.filled |= 1 << at;
        }
        let before = before.map(|(shelf, _)| shelf);
        if before != Some(at) {
            for (item, _) in moved {
                self.count(*item, before, Some(at));
            }
        }
    }

    /// Takes a bin away, to which these items were moved.
    pub(super) fn remove(&mut self, bin: usize, moved: &[(u32, u32)]) {
        let before = self.places.get_mut(bin).and_then(Option::take);
        self.take_off(before);
        for (item, _) in moved {
            self.count(*item, before.map(|(shelf, _)| shelf), None);
        }
    }

    fn take_off(&mut self, place: Option<(usize, Rank)>) {
        if let Some((shelf, rank)) = place
            && let Some(ranks) = self.ranks.get_mut(shelf)
        {
            ranks.remove(&rank);
            if ranks.is_empty() {
                self.filled &= !(1 << shelf);
            }
        }
    }

    /// The first of an item was moved to a bin, or the last one left.
    pub(super) fn has_moved(&mut self, item: u32, bin: usize, comes: bool) {
        let on = self.shelf_of(bin);
        if comes { self.count(item, None, on) } else { self.count(item, on, None) }
    }

    fn count(&mut self, item: u32, from: Option<usize>, to: Option<usize>) {
        let (Some(counts), Some(set)) = (self.n_moved.get_mut(item as usize), self.moved.get_mut(item as usize)) else {
            return;
        };
        if let Some((shelf, count)) = from.and_then(|shelf| Some((shelf, counts.get_mut(shelf)?))) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                *set &= !(1 << shelf);
            }
        }
        if let Some((shelf, count)) = to.and_then(|shelf| Some((shelf, counts.get_mut(shelf)?))) {
            *count += 1;
            *set |= 1 << shelf;
        }
    }

    /// The first bin by room, no smaller than so much by weight, that will do for an item; and how many were looked at.
    pub(super) fn first(&self, item: u32, least: f64, will_do: impl Fn(usize) -> bool) -> (Option<usize>, u64) {
        let mut best: Option<Rank> = None;
        let mut looked_at = 1;
        let mut left = self.of_item.get(item as usize).unwrap_or(&0) & self.filled;
        while let Some(ranks) = self.ranks.get(left.trailing_zeros() as usize) {
            left &= left - 1;
            for rank in ranks.range((least.to_bits(), 0)..).take_while(|rank| best.is_none_or(|best| **rank < best)) {
                looked_at += 1;
                if will_do(rank.1) {
                    best = Some(*rank);
                    break;
                }
            }
        }
        (best.map(|(_, bin)| bin), looked_at)
    }
}

/// What items ask for of a resource, each amount once.
fn needs(problem: &Consolidation, resource: usize) -> Vec<i64> {
    let needs = problem.items.iter().filter_map(|item| item.size.get(resource).copied());
    let mut needs: Vec<i64> = needs.filter(|need| *need > 0).collect();
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// How many levels each resource has: one more for each in turn, as far as there are needs.
fn levels(needs: &[Vec<i64>]) -> Vec<usize> {
    let mut levels = vec![1_usize; needs.len()];
    loop {
        let before: usize = levels.iter().product();
        let mut all = before;
        for (level, needs) in levels.iter_mut().zip(needs) {
            let most = needs.len().min(MOST_LEVELS) + 1;
            let more = all / *level * (*level + 1);
            if *level < most && more <= MOST_SHELVES {
                *level += 1;
                all = more;
            }
        }
        if all == before {
            return levels;
        }
    }
}
