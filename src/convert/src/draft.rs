//! What a pod asks for, before the rest of the input is known.

use berth_model::{Keyed, PodSpec, Sym};
use indexmap::IndexSet;

use crate::claims::Claim;

/// What specs ask for; amounts are of their authors' choice.
pub(crate) type Drafts = IndexSet<Draft, Keyed>;

/// A spec before claims and priority classes are looked up, which may come later in the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Draft {
    /// Everything but `priority` and what `claims` add.
    pub(crate) spec: PodSpec,
    /// Where the priority comes from.
    pub(crate) priority: Priority,
    /// The claims that the volumes stand for.
    pub(crate) claims: Vec<Claim>,
    /// What admission looks at, by its number; 0 where it need not.
    pub(crate) shape: u32,
}

/// What a PriorityClass gives its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassPriority {
    pub(crate) value: i32,
    /// `preemptionPolicy: Never`.
    pub(crate) never_preempts: bool,
}

impl ClassPriority {
    /// One whose pods preempt.
    pub(crate) fn of(value: i32) -> Self {
        ClassPriority { value, never_preempts: false }
    }
}

/// Where a pod's priority comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Priority {
    /// `spec.priority` or, of a Reservation, what stands for it.
    Set(i32),
    /// The class of this name.
    Class(Sym),
    /// The class with `globalDefault`, else 0.
    Default,
}
