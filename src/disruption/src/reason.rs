//! Why something stays.

/// Why something stays, and how many pods it is about (0: about none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub reason: String,
    /// How many pods.
    pub count: usize,
    /// What it depends on.
    pub cause: Cause,
}

/// What a reason depends on, as far as something is decided by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A PodDisruptionBudget that is used up, which may be for a moment: other nodes may be drained just now.
    BudgetInUse,
    /// Anything else.
    Other,
}

// === impl Reason ===

impl Reason {
    /// One that is about so many pods.
    pub fn of_pods(text: impl Into<String>, count: usize) -> Self {
        Reason { reason: text.into(), count, cause: Cause::Other }
    }
}

/// One that is about no pods.
pub(crate) fn reason(text: impl Into<String>) -> Reason {
    Reason::of_pods(text, 0)
}

/// A budget of a NodePool, by its place in the list, that lets none of its nodes go now.
pub(crate) fn no_budget(pool: &str, budget: Option<usize>, is_drifted: bool) -> Reason {
    let budget = budget.map(|at| format!("[{at}]")).unwrap_or_default();
    let budget = format!("spec.disruption.budgets{budget} of NodePool {pool:?}");
    reason(if is_drifted {
        format!("drifted, but {budget} lets no drifted node go now")
    } else {
        format!("{budget} lets no node go for this now")
    })
}

/// Budgets of a NodePool that cannot be read.
pub(crate) fn unreadable_budgets(pool: &str, error: &str) -> Reason {
    reason(format!("NodePool {pool:?}: {error}"))
}
