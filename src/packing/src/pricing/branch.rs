//! The quick search of a bin: depth first, the candidate of the best price for its weight first, as many of it as fit.

use super::{Candidate, Pricer, fits, merged};

impl Pricer<'_> {
    // Candidates from `from` on, beside what is in the bin, whose dual value is `value`; `capacity` is what that leaves of
    // the surrogate's.
    pub(super) fn branch(&mut self, from: usize, value: f64, capacity: f64) {
        let enough = self.best.value * self.slack;
        let by_lagrangian = self.lagrangian_bound(from);
        if value + by_lagrangian <= enough {
            self.has_leaf = true;
            return;
        }
        let bound = value + self.surrogate_bound(from, capacity).min(by_lagrangian);
        if bound <= enough {
            self.has_leaf = true;
            return;
        }
        if self.is_spent() {
            self.best.at_most = self.best.at_most.max(bound);
            return;
        }
        self.steps = self.steps.saturating_sub(1);
        // The next candidate that still fits.
        let mut at = from;
        let next = loop {
            let Some(&candidate) = self.candidates.get(at) else { break None };
            at += 1;
            let n = self.room_for(&candidate);
            if n > 0 {
                break Some((candidate, n));
            }
        };
        let Some((candidate, most)) = next else {
            self.has_leaf = true;
            if value > self.best.value {
                self.keep(value, merged(self.chosen.clone()));
            }
            return;
        };
        for n in (0..=most).rev() {
            if n > 0 {
                self.put(candidate.item, n, true);
                self.chosen.push((candidate.item, n));
            }
            let (more, weight) = (candidate.price * f64::from(n), candidate.weight * f64::from(n));
            self.branch(at, value + more, capacity - weight);
            if n > 0 {
                self.chosen.pop();
                self.put(candidate.item, n, false);
            }
            if self.is_spent() {
                self.best.at_most = self.best.at_most.max(bound);
                return;
            }
        }
    }

    // A first pattern is always finished, unless its dual value is seen to be too small.
    fn is_spent(&self) -> bool {
        self.steps == 0 && self.has_leaf
    }

    // A pattern of more dual value than all before it.
    pub(super) fn keep(&mut self, value: f64, items: Vec<(u32, u32)>) {
        let before = std::mem::replace(&mut self.best.items, items);
        if !before.is_empty() {
            self.best.others.push((self.best.value, before));
        }
        self.best.value = value;
    }

    // How many more of an item the bin takes.
    pub(super) fn room_for(&self, candidate: &Candidate) -> u32 {
        let mut n = fits(self.size_of(candidate.item), &self.room, candidate.at_most);
        let item = candidate.item as usize;
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

    // Puts so many of an item in, or takes them out.
    pub(super) fn put(&mut self, item: u32, n: u32, is_in: bool) {
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
}
