//! How owners of a Reservation are treated that need more than it reserves.

/// How owners that need more than is reserved are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocatePolicy {
    /// Not set: as Aligned, but not beside Reservations of another policy on one node.
    #[default]
    Unset,
    /// They draw from the Reservation first and take the rest from the node.
    Aligned,
    /// What the Reservation reserves, they draw from it alone.
    Restricted,
}
