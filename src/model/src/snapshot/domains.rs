//! Pods of one counter by domain.

use std::fmt;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Sym;

/// Up to so many domains are looked through; more have an index.
const FEW: usize = 8;

/// So many of the latest changes are known; who asks for earlier ones has to look at all domains.
const LOG_LENGTH: usize = 256;

/// Pods by domain, in the order in which domains came.
#[derive(Clone, Default)]
pub(super) struct DomainCounts {
    list: SmallVec<[(Sym, u32); 4]>,
    /// By domain, its position; empty while there are few.
    positions: FxHashMap<Sym, u32>,
    /// Domains whose count was set, undoing included, the latest last.
    log: Vec<Sym>,
    /// How many changes were dropped from the log's front.
    dropped: usize,
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
        self.note(domain);
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
            self.note(domain);
        }
        if self.list.len() <= FEW {
            self.positions.clear();
        }
    }

    fn note(&mut self, domain: Sym) {
        if self.log.len() >= LOG_LENGTH {
            self.dropped += self.log.len();
            self.log.clear();
        }
        self.log.push(domain);
    }

    /// How many changes there were.
    pub(super) fn n_changes(&self) -> usize {
        self.dropped + self.log.len()
    }

    /// The domains that changed after so many changes; `None` where that is not known any more.
    pub(super) fn changed_since(&self, n_changes: usize) -> Option<&[Sym]> {
        self.log.get(n_changes.checked_sub(self.dropped)?..)
    }

    /// All domains that are listed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Sym, u32)> + '_ {
        self.list.iter().copied()
    }
}
