//! What becomes of a pod.

/// What becomes of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is planned.
    Pending,
    /// It takes room on the node of that position.
    Bound(usize),
    /// It runs where this plan does not look: on a node that goes away with it, or one that is not in the input.
    Elsewhere,
    /// It is a Reservation, and holds room on a node.
    Holds,
    /// It counts for nothing.
    Gone,
}
