//! Cells: nodes that are alike for a class but for their own score.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::reservation::NodeOffer;

/// What sets cells apart: all that scores normalise over, and all that topology decides by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CellKey {
    pub(super) taints: i64,
    pub(super) affinity: i64,
    pub(super) domains: SmallVec<[u32; 2]>,
    /// In the order of [`Shape::hosts`].
    pub(super) hosts: SmallVec<[u32; 2]>,
    /// Set on a node that holds room for pods to come, which is looked at alone.
    pub(super) alone: Option<u32>,
    /// The Reservation to draw from.
    pub(super) offer: Option<NodeOffer>,
}

/// Units (groups, or nodes) that are alike for the class but for their own score.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) key: CellKey,
    /// By own score, the best first, then by the rank of the first node.
    pub(super) ordered: BTreeSet<(Reverse<i64>, u64, u32)>,
    pub(super) nodes: u64,
}

// === impl Cell ===

impl Cell {
    /// The best of its nodes: its own score, and rank.
    pub(super) fn best(&self) -> Option<(i64, u64)> {
        self.ordered.first().map(|(Reverse(own), rank, _)| (*own, *rank))
    }
}
