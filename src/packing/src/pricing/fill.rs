//! Bins filled greedily by dual price, without a search: always the item of most dual value for what it takes of the room
//! that is left. A resource becomes dearer as less of it is left, so that no resource ends before the others.

use super::{Candidate, Pricer, fits, merged};
use crate::numbers::float;
use crate::tuning::ruin::EVEN;

/// Items that are to be packed, and the dual price of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) item: u32,
    pub(crate) price: f64,
    pub(crate) count: u32,
}

impl Pricer<'_> {
    /// A pattern of a bin, and how many amounts of resources were looked at.
    pub(crate) fn fill(&mut self, bin: usize, wanted: &[Wanted]) -> (Vec<(u32, u32)>, u64) {
        let mut items: Vec<(u32, u32)> = Vec::new();
        let Some(kind) = self.problem.bins.get(bin) else { return (items, 0) };
        self.empty(kind);
        let multipliers = self.multipliers.get(bin).map_or(&[][..], Vec::as_slice);
        let even = EVEN * kind.cost.max(f64::MIN_POSITIVE);
        let value = |(at, room): (usize, &i64)| multipliers.get(at).copied().unwrap_or(0.0) * float(*room) + even;
        let values: Vec<f64> = self.room.iter().enumerate().map(value).collect();
        let mut candidates: Vec<Wanted> = Vec::with_capacity(wanted.len());
        for one in wanted {
            let cap = self.caps.get(one.item as usize).copied().unwrap_or(0);
            if cap > 0 && kind.admits.contains(one.item as usize) {
                candidates.push(Wanted { count: one.count.min(cap), ..*one });
            }
        }
        let (mut work, mut weights) = (0, vec![0.0; self.n_resources]);
        loop {
            for ((weight, value), room) in weights.iter_mut().zip(&values).zip(&self.room) {
                *weight = value / float((*room).max(1));
            }
            work += (candidates.len() * self.n_resources) as u64;
            let (sizes, n, room) = (&self.sizes, self.n_resources, &self.room);
            let (mut best, mut most) = (None, 0.0);
            let mut at = 0;
            while let Some(candidate) = candidates.get(at) {
                let size = sizes.get(candidate.item as usize * n..).and_then(|rest| rest.get(..n)).unwrap_or_default();
                if fits(size, room, 1) == 0 {
                    candidates.swap_remove(at);
                    continue;
                }
                let rate = candidate.price / crate::numbers::dot(&weights, size).max(f64::MIN_POSITIVE);
                if rate > most {
                    (best, most) = (Some(at), rate);
                }
                at += 1;
            }
            let Some((at, candidate)) = best.and_then(|at| Some((at, candidates.get_mut(at)?))) else { break };
            let item = candidate.item;
            candidate.count -= 1;
            let is_last = candidate.count == 0;
            let has_room = self.room_for(&Candidate { item, price: 0.0, weight: 0.0, at_most: 1 }) > 0;
            if has_room {
                self.put(item, 1, true);
                items.push((item, 1));
            }
            if is_last || !has_room {
                candidates.swap_remove(at);
            }
        }
        (merged(items), work)
    }

    /// Whether a bin has room for these items, rules aside.
    pub(crate) fn has_room_for(&self, bin: usize, items: &[(u32, u32)]) -> bool {
        let Some(kind) = self.problem.bins.get(bin) else { return false };
        kind.room.iter().enumerate().all(|(at, room)| {
            let taken = |&(item, n): &(u32, u32)| {
                let size = self.size_at(item as usize).get(at).copied().unwrap_or(0);
                size.saturating_mul(i64::from(n))
            };
            items.iter().map(taken).fold(0, i64::saturating_add) <= *room
        })
    }
}
