//! What is left to decide once pods have gone to nodes that exist.

use berth_model::{MemberRun, Resources, RowId};

/// Pods that find no place on nodes, by row of the cluster's pending ones.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The rows in order, each with members that are left.
    pub(crate) rows: Vec<(RowId, Vec<MemberRun>)>,
    /// The rows in order, each with members that are expected on nodes which come up.
    pub(crate) expected: Vec<(RowId, Vec<MemberRun>)>,
    /// Whether nodes that come up may have room for some who are left.
    pub(crate) may_join: bool,
}

/// What is left on nodes that planned pods may still come to.
#[derive(Debug, Default)]
pub(crate) struct FreeRooms {
    pub(crate) coming_up: Vec<Resources>,
    /// On nodes that are up, and pods are expected there.
    pub(crate) expected: Vec<Resources>,
}
