//! What objects take of quotas, each kept once: the pods of a workload take the same.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::admission::Charge;

/// So many may be kept that nobody uses any more, at least.
const IDLE: usize = 64;

/// The charges that objects have, and some that they had.
#[derive(Debug, Default)]
pub(super) struct Charges {
    known: FxHashSet<Arc<Charge>>,
    /// When there are so many, those that nobody uses go.
    bound: usize,
}

// === impl Charges ===

impl Charges {
    /// The one that stands for all of its content; most likely the one that the object had `before`.
    pub(super) fn share(&mut self, charge: Charge, before: Option<&Arc<Charge>>) -> Arc<Charge> {
        if let Some(before) = before.filter(|before| ***before == charge) {
            return before.clone();
        }
        if let Some(known) = self.known.get(&charge) {
            return known.clone();
        }
        if self.known.len() >= self.bound {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.bound = self.known.len() * 2 + IDLE;
        }
        let charge = Arc::new(charge);
        self.known.insert(charge.clone());
        charge
    }
}
