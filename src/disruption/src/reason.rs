//! Why something stays.

use crate::pdb;

/// Why something stays, and how many pods it is about (0: about none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub reason: String,
    /// How many pods.
    pub count: usize,
}

impl Reason {
    /// Whether a PodDisruptionBudget is used up, which may be for a moment: other nodes may be drained just now.
    pub fn is_of_a_budget_in_use(&self) -> bool {
        self.reason.starts_with(pdb::USED_UP.0) && self.reason.ends_with(pdb::USED_UP.1)
    }
}

/// One that is about no pods.
pub(crate) fn reason(text: impl Into<String>) -> Reason {
    Reason { reason: text.into(), count: 0 }
}

/// Budgets of a NodePool that let none of its nodes go now.
pub(crate) fn no_budget(pool: &str) -> Reason {
    reason(format!("no budget of NodePool {pool:?} lets a node go for this now"))
}

/// Budgets of a NodePool that cannot be read.
pub(crate) fn unreadable_budgets(pool: &str, error: &str) -> Reason {
    reason(format!("NodePool {pool:?}: {error}"))
}
