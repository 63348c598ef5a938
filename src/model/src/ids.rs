//! What names things of a [`crate::Cluster`]: an index that cannot be taken for one of another kind.
//!
//! Within one conversion of a cluster none is given twice: what nobody uses any more is left where it is until everything is
//! converted anew.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// By index.
            pub fn new(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok(), "{index} is too large for an id");
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// As an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An index into [`crate::Cluster::specs`].
    SpecId
    /// An index into [`crate::Cluster::label_sets`].
    LabelsId
    /// An index into [`crate::Cluster::reservations`].
    ReservationId
    /// An index into [`crate::Cluster::pending`]. Rows are put in order each time that a cluster which follows its objects is
    /// asked for: nobody keeps one for longer.
    RowId
}
