//! Pods of one counter by domain.

use std::fmt;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Sym;

/// Up to so many domains are looked through; more have an index.
const FEW: usize = 8;

/// Pods by domain, in the order in which domains came.
#[derive(Clone, Default)]
pub(super) struct DomainCounts {
    list: SmallVec<[(Sym, u32); 4]>,
    /// By domain, its position; empty while there are few.
    positions: FxHashMap<Sym, u32>,
}

impl fmt::Debug for DomainCounts {
    // The index has an order of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.list.iter().copied()).finish()
    }
}

impl DomainCounts {
    /// Where a domain is listed.
    pub(super) fn position(&self, domain: Sym) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().position(|(known, _)| *known == domain);
        }
        self.positions.get(&domain).map(|at| *at as usize)
    }

    /// The pods in a domain.
    pub(super) fn get(&self, domain: Sym) -> u32 {
        self.position(domain).and_then(|at| self.list.get(at)).map_or(0, |(_, count)| *count)
    }

    /// Sets the pods in a domain; one that is not listed comes last.
    pub(super) fn set(&mut self, domain: Sym, pods: u32) {
        if let Some((_, count)) = self.position(domain).and_then(|at| self.list.get_mut(at)) {
            *count = pods;
            return;
        }
        self.list.push((domain, pods));
        if self.list.len() == FEW + 1 {
            self.positions = self.list.iter().zip(0..).map(|((domain, _), at)| (*domain, at)).collect();
        } else if self.list.len() > FEW {
            self.positions.insert(domain, u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX));
        }
    }

    /// Forgets the domain that came last.
    pub(super) fn pop(&mut self) {
        if let Some((domain, _)) = self.list.pop() {
            self.positions.remove(&domain);
        }
        if self.list.len() <= FEW {
            self.positions.clear();
        }
    }

    /// All domains that are listed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Sym, u32)> + '_ {
        self.list.iter().copied()
    }
}
