//! What shares are of, and what nodes take of them.

use std::cell::RefCell;

use berth_model::{ColumnId, PoolId};

use crate::max_share::ALL;
use crate::shares::Cell;

/// What is on the nodes of each cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) by_cell: Vec<Loads>,
    pub(crate) total: i128,
}

/// The sum of the loads of the nodes of a cell, and what the smallest pod counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loads {
    pub(crate) sum: i128,
    pub(crate) nodes: u64,
    pub(crate) least_pod: Option<i64>,
}

impl Loads {
    pub(crate) fn add(&mut self, load: i64, least_pod: i64, nodes: u32) {
        self.least_pod = Some(self.least_pod.map_or(least_pod, |known| known.min(least_pod)));
        self.nodes += u64::from(nodes);
        self.sum += i128::from(load) * i128::from(nodes);
    }

    /// The sum without its smallest pod, once `nodes` of load `before` (if they are here now) have become as `moved` says.
    pub(crate) fn beyond_least(&self, moved: Move, before: Option<i64>, nodes: u32) -> i128 {
        let each = i128::from(moved.after) - i128::from(before.unwrap_or(0));
        let least = self.least_pod.map_or(moved.least_pod, |known| known.min(moved.least_pod));
        self.sum + each * i128::from(nodes) - i128::from(least)
    }
}

/// Nodes that become others: how many, and what is on each of them before (with the column that it is on) and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) pool: PoolId,
    pub(crate) column: ColumnId,
    pub(crate) before: Option<(ColumnId, i64)>,
    pub(crate) after: i64,
    /// What the smallest of the pods that move or join counts for.
    pub(crate) least_pod: i64,
}

/// The whole that shares are of while packing, and what is taken of them.
#[derive(Debug)]
pub(crate) struct SharesTaken {
    /// No share counts as larger, in billionths.
    cap: i128,
    /// What everything that is put on new nodes counts for, as far as is known.
    total: i128,
    /// What is there beside the nodes that are being planned.
    pub(crate) beside: Tally,
    /// What is on all nodes, as it was when bins had a version.
    pub(crate) known: RefCell<(u64, Tally)>,
}

impl Default for SharesTaken {
    fn default() -> Self {
        SharesTaken { cap: ALL, total: 0, beside: Tally::default(), known: RefCell::default() }
    }
}

// === impl SharesTaken ===

impl SharesTaken {
    /// Packs as if no share were larger, in billionths; a plan that keeps smaller shares keeps those that are asked for.
    pub(crate) fn set_cap(&mut self, cap: i128) {
        self.cap = cap;
    }

    /// Sets what the whole is that shares are of.
    pub(crate) fn set_total(&mut self, total: i128) {
        self.total = total;
    }

    /// The whole that shares are of; 0 while there are none.
    pub(crate) fn total(&self) -> i128 {
        self.total
    }

    /// The share of a cell, in billionths.
    pub(crate) fn within(&self, cell: &Cell) -> i128 {
        cell.share.min(self.cap)
    }
}
