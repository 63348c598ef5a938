//! Why something stays.

/// Why something stays, and how many pods it is about (0: about none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub reason: String,
    /// How many pods.
    pub count: usize,
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
