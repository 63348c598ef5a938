//! Where pods and Reservations are in the queue.

use std::cmp::Reverse;

use berth_model::{ClassId, Cluster, MemberKind, PodSpec, RowId, SpecId};

use crate::kinds::named_nodes;

/// A place in the queue, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub(super) priority: Reverse<i32>,
    /// False of those that may go to one node alone, as a DaemonSet's pods: its room was kept for them before they were there, and
    /// others would take it that can go elsewhere.
    pub(super) has_choice: bool,
    pub(super) kind: MemberKind,
    /// False of those that come in place of pods which were told to leave.
    pub(super) comes_later: bool,
    /// Whether a node comes up for it: it takes no room where others are expected, and makes nobody give way.
    pub(super) has_node: bool,
    /// The row of the input.
    pub(super) row: RowId,
    pub(super) class: ClassId,
}

// === impl QueuePosition ===

impl QueuePosition {
    /// That of a row.
    pub(super) fn new(cluster: &Cluster, spec: SpecId, kind: MemberKind, (row, class): (RowId, ClassId)) -> Self {
        let spec = cluster.spec(spec);
        let priority = Reverse(spec.map_or(0, |spec| spec.priority));
        let has_choice = !spec.is_some_and(|spec| is_of_one_node(cluster, spec));
        QueuePosition { priority, has_choice, kind, comes_later: true, has_node: false, row, class }
    }
}

/// Whether pods of a spec may go to one node alone, by its name, as those of a DaemonSet.
pub fn is_of_one_node(cluster: &Cluster, spec: &PodSpec) -> bool {
    let nodes = named_nodes(cluster, &spec.required_terms).unwrap_or_default();
    nodes.first().is_some_and(|first| nodes.iter().all(|node| node == first))
}
