//! Bounds from multipliers of the resources, any of which are valid: better ones bound tighter.

use super::{Pricer, Query, fits};
use crate::numbers::{dot, float};

/// Multipliers of the resources, and what the candidates from each on could add at most beyond paying for their sizes.
#[derive(Clone, Debug, Default)]
pub(super) struct Lagrangian {
    multipliers: Vec<f64>,
    rest: Vec<f64>,
}

impl Pricer<'_> {
    /// The dual value that no pattern of a bin exceeds, by multipliers that are known of the bin or of one near it; rules of
    /// more than one item count only where they are resources. Infinite where none are known.
    pub(crate) fn at_most(&self, bin: usize, prices: &[f64], counts: &[u32]) -> f64 {
        let is_known = |at: &usize| self.multipliers.get(*at).is_some_and(|known| known.len() == self.n_resources);
        let near = (0..=bin).rev().find(is_known).or_else(|| (bin..self.multipliers.len()).find(is_known));
        let (Some(multipliers), Some(kind)) =
            (near.and_then(|at| self.multipliers.get(at)), self.problem.bins.get(bin))
        else {
            return f64::INFINITY;
        };
        let of_problem = self.n_resources - self.rule_limits.len();
        let (by, by_limits) = multipliers.split_at(of_problem.min(multipliers.len()));
        let mut sum = dot(by, &kind.room) + dot(by_limits, &self.rule_limits);
        for item in kind.admits.ones() {
            let (Some(&price), Some(&count), Some(&cap)) = (prices.get(item), counts.get(item), self.caps.get(item))
            else {
                continue;
            };
            if count > 0 {
                let size = self.size_at(item);
                let over = price - dot(multipliers, size);
                if over > 0.0 {
                    sum += over * f64::from(fits(size, &kind.room, count.min(cap)));
                }
            }
        }
        sum * (1.0 + 1e-9)
    }

    // Multipliers for the candidates of a bin, from where the bin's last search left them.
    pub(super) fn find_multipliers(&mut self, query: Query<'_>) -> Vec<f64> {
        let mut multipliers = match self.multipliers.get(query.bin) {
            Some(known) if known.len() == self.n_resources => known.clone(),
            _ => vec![0.0; self.n_resources],
        };
        let is_new = multipliers.iter().all(|by| *by == 0.0);
        self.improve(&mut multipliers, if is_new { 3 } else { 1 });
        if multipliers.iter().all(|by| *by <= 0.0) {
            // Everything fits at once, each resource alone: any measure will do.
            for (by, room) in multipliers.iter_mut().zip(&self.room) {
                *by = if *room > 0 { 1.0 / float(*room) } else { 0.0 };
            }
        }
        multipliers
    }

    // Coordinate descent in the Lagrangian dual: one multiplier at a time, to the least at which what is still worth taking
    // fits.
    fn improve(&mut self, multipliers: &mut [f64], sweeps: u32) {
        let mut ratios = std::mem::take(&mut self.ratios);
        for _ in 0..sweeps {
            for at in 0..self.n_resources {
                let room = float(self.room.get(at).copied().unwrap_or(0));
                ratios.clear();
                for candidate in &self.candidates {
                    let size = self.size_of(candidate.item);
                    let here = size.get(at).map_or(0.0, |size| float(*size));
                    if here <= 0.0 {
                        continue;
                    }
                    let rest =
                        candidate.price - dot(multipliers, size) + multipliers.get(at).map_or(0.0, |by| by * here);
                    if rest > 0.0 {
                        let n = fits(size, &self.room, candidate.at_most);
                        ratios.push((rest / here, here * f64::from(n)));
                    }
                }
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

    // Candidates in the order of price for weight, the best first, where weight is the surrogate's one resource.
    pub(super) fn weigh(&mut self, multipliers: &[f64]) {
        let (sizes, n) = (&self.sizes, self.n_resources);
        for candidate in &mut self.candidates {
            let at = candidate.item as usize * n;
            let size = sizes.get(at..at + n).unwrap_or_default();
            candidate.weight = dot(multipliers, size);
        }
        let rate = |candidate: &super::Candidate| candidate.price / candidate.weight.max(f64::MIN_POSITIVE);
        self.candidates
            .sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(b.price.total_cmp(&a.price)).then(a.item.cmp(&b.item)));
    }

    pub(super) fn set_lagrangian(&mut self, multipliers: Vec<f64>) {
        let mut rest = vec![0.0; self.candidates.len() + 1];
        let mut sum = 0.0;
        for (at, candidate) in self.candidates.iter().enumerate().rev() {
            let over = candidate.price - dot(&multipliers, self.size_of(candidate.item));
            sum += over.max(0.0) * f64::from(candidate.at_most);
            if let Some(rest) = rest.get_mut(at) {
                *rest = sum;
            }
        }
        self.lagrangian = Lagrangian { multipliers, rest };
    }

    // What candidates from one on could add at most, by the Lagrangian.
    pub(super) fn lagrangian_bound(&self, from: usize) -> f64 {
        dot(&self.lagrangian.multipliers, &self.room) + self.lagrangian.rest.get(from).copied().unwrap_or(0.0)
    }

    // The same by the surrogate: filled with fractions, each item no more than fits.
    pub(super) fn surrogate_bound(&self, from: usize, mut capacity: f64) -> f64 {
        let mut value = 0.0;
        for candidate in self.candidates.get(from..).unwrap_or_default() {
            let n = fits(self.size_of(candidate.item), &self.room, candidate.at_most);
            if n == 0 {
                continue;
            }
            let n = f64::from(n);
            let weight = candidate.weight * n;
            if weight <= capacity {
                value += candidate.price * n;
                capacity -= weight;
            } else {
                return value + candidate.price * (capacity.max(0.0) / candidate.weight);
            }
        }
        value
    }
}
