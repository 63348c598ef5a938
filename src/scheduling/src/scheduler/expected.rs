//! Pods that nodes were launched for: they come to these nodes before others choose, so that what was planned comes true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use berth_model::{ClassId, RowId};

use super::groups::Groups;
use super::tables::Tables;

/// By row of the input: nodes by index, and how many of the row's pods are expected there.
pub type Expected = BTreeMap<RowId, Nodes>;
/// Nodes by index, and how many pods each.
pub(super) type Nodes = VecDeque<(usize, u32)>;

/// Where pods are expected while a queue is worked off.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectations {
    rows: Expected,
    /// The room that is held meanwhile, for those who could not come yet.
    held: Vec<HeldFor>,
    /// Who waits for something else.
    waiting: Waiting,
}

/// Pods that wait for what is not there yet, by row: how many.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// Those that are not placed at all.
    pub left: BTreeMap<RowId, u32>,
    /// Those for whom a node comes up: they are placed where there is room, but not where others of lower priority are expected, and
    /// nobody gives way for them.
    pub have_nodes: BTreeMap<RowId, u32>,
    /// The names of those who are not placed at all, where others of their row may be: a [`Trial`](super::Trial) names them last.
    /// [`Bindings`](super::Bindings) name pods in the order of the input: there they are to be the last of their row.
    pub named_last: BTreeMap<RowId, BTreeSet<Arc<str>>>,
}

/// A pod that room is held for on the node where it is expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldFor {
    pub(super) class: ClassId,
    pub(super) row: RowId,
    pub(super) node: usize,
}

// === impl Expectations ===

impl Expectations {
    /// From now on, pods of these rows are expected on these nodes, as far as they stand.
    pub(super) fn expect(&mut self, tables: &Tables<'_>, groups: &Groups, mut rows: Expected) {
        for expected in rows.values_mut() {
            expected.retain(|(node, count)| *count > 0 && tables.stands_at(*node));
            // By name: the index of a node says when it came.
            expected.make_contiguous().sort_by_key(|(node, _)| groups.rank(*node));
        }
        rows.retain(|_, expected| !expected.is_empty());
        self.rows = rows;
    }

    /// These wait.
    pub(super) fn let_wait(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// How many of a row are not placed.
    pub(super) fn left_of(&self, row: RowId) -> u32 {
        self.waiting.left.get(&row).copied().unwrap_or_default()
    }

    /// For how many of a row a node comes up.
    pub(super) fn having_nodes_of(&self, row: RowId) -> u32 {
        self.waiting.have_nodes.get(&row).copied().unwrap_or_default()
    }

    /// Whether nobody is expected anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where pods of a row are expected, to be let come there.
    pub(super) fn take(&mut self, row: RowId) -> Option<Nodes> {
        self.rows.remove(&row)
    }

    /// Where pods of rows are expected that were not let come there yet.
    pub(super) fn to_come(&self) -> impl Iterator<Item = (RowId, &Nodes)> {
        self.rows.iter().map(|(row, nodes)| (*row, nodes))
    }

    /// Room is held for one who could not come yet.
    pub(super) fn hold(&mut self, held: HeldFor) {
        self.held.push(held);
    }

    /// Those whose room was held are to be asked again: it is for the caller to let go of that room.
    pub(super) fn ask_again(&mut self) -> Vec<HeldFor> {
        let held = std::mem::take(&mut self.held);
        for &HeldFor { row, node, .. } in &held {
            let expected = self.rows.entry(row).or_default();
            match expected.back_mut().filter(|(known, _)| *known == node) {
                Some((_, count)) => *count += 1,
                None => expected.push_back((node, 1)),
            }
        }
        held
    }
}
