//! The nodes with pods that a class counts on the host name, as the class sees them. They are kept beside the index that it
//! shares, which knows nothing of such pods, and are looked at again only where something has changed.

use std::cmp::Reverse;

use berth_model::{CounterId, NodeState};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cell::CellKey;
use super::groups::{Change, Groups};
use super::index::Index;
use super::shape::Shape;
use super::world::World;

/// So many changes for each node are gone through; where there were more, all nodes are looked at anew.
const MOST_CHANGES: usize = 8;
/// And so many beside.
const FEW_CHANGES: usize = 64;

/// By own score, the best first, then by rank; the node.
type Place = (Reverse<i64>, u64, u32);

/// Nodes alike for the class but for their own score, the best first.
#[derive(Clone, Debug)]
struct CountedCell {
    key: CellKey,
    ordered: Vec<Place>,
}

/// A node with such pods.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Where the index that knows nothing of these pods has it, by position in [`CountedNodes::hidden`].
    hidden: Option<u32>,
    /// Its cell, if the class may come there, and its place in it.
    cell: Option<(u32, Place)>,
}

/// The nodes with pods that a class counts on the host name.
#[derive(Clone, Debug)]
pub(super) struct CountedNodes {
    /// The shared index that it is beside.
    pub(super) beside: u32,
    counters: SmallVec<[CounterId; 2]>,
    of: FxHashMap<u32, Known>,
    cells: Vec<CountedCell>,
    /// How many of them are in each cell of the shared index.
    hidden: Vec<(CellKey, u64)>,
    cursor: usize,
}

// === impl CountedNodes ===

impl CountedNodes {
    /// All of them, beside a shared index.
    pub(super) fn new(beside: u32, counters: &[CounterId], shape: &Shape, index: &Index, world: World<'_>) -> Self {
        let mut counted = CountedNodes {
            beside,
            counters: counters.iter().copied().collect(),
            of: FxHashMap::default(),
            cells: Vec::new(),
            hidden: Vec::new(),
            cursor: 0,
        };
        counted.look_at_all(shape, index, world);
        counted
    }

    /// How many nodes it keeps.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether it is beside this index and has taken in all that has changed.
    pub(super) fn is_current_beside(&self, index: u32, groups: &Groups) -> bool {
        self.beside == index && self.cursor == groups.now()
    }

    /// Looks again at nodes that have changed.
    pub(super) fn catch_up(&mut self, shape: &Shape, index: &Index, world: World<'_>) {
        let most = MOST_CHANGES * self.of.len() + FEW_CHANGES;
        match world.ledger.groups.since(self.cursor).filter(|changes| changes.len() <= most) {
            Some(changes) => self.refresh_all(changes, shape, index, world),
            None => self.look_at_all(shape, index, world),
        }
    }

    /// Looks again at nodes that were changed and changed back.
    pub(super) fn take_back(&mut self, undone: &[Change], shape: &Shape, index: &Index, world: World<'_>) {
        if self.cursor > world.ledger.groups.now() {
            self.refresh_all(undone, shape, index, world);
        }
    }

    fn refresh_all(&mut self, changes: &[Change], shape: &Shape, index: &Index, world: World<'_>) {
        self.cursor = world.ledger.groups.now();
        for change in changes {
            self.forget(change.node);
            // The place may be one that no node has any more.
            let state = world.state.nodes().get(change.node as usize);
            if state.is_some_and(|state| self.counters.iter().any(|counter| state.host_counts.get(*counter) > 0)) {
                self.look(change.node, shape, index, world);
            }
        }
    }

    fn look_at_all(&mut self, shape: &Shape, index: &Index, world: World<'_>) {
        (self.of, self.cells, self.hidden) = Default::default();
        self.cursor = world.ledger.groups.now();
        let counters = std::mem::take(&mut self.counters);
        for node in counters.iter().flat_map(|counter| world.ledger.groups.with(*counter)) {
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            if !self.of.contains_key(&node) {
                self.look(node, shape, index, world);
            }
        }
        self.counters = counters;
    }

    // A node that is not known.
    fn look(&mut self, node: u32, shape: &Shape, index: &Index, world: World<'_>) {
        let at = node as usize;
        let Some((key, own)) = index.look_singly(&index.shape, at, world) else {
            self.of.insert(node, Known { hidden: None, cell: None });
            return;
        };
        let position = self.hidden.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.hidden.push((key.clone(), 0));
            self.hidden.len() - 1
        });
        if let Some((_, nodes)) = self.hidden.get_mut(position) {
            *nodes += 1;
        }
        let count =
            |counter: CounterId| world.state.node(at).map_or(0, |state: &NodeState| state.host_counts.get(counter));
        let cell = (!shape.is_kept_apart(count)).then(|| {
            let key = CellKey { hosts: shape.counts_on_hosts(count), ..key };
            let place = (Reverse(own), world.ledger.groups.rank(at), node);
            (self.insert(key, place), place)
        });
        self.of.insert(node, Known { hidden: u32::try_from(position).ok(), cell });
    }

    fn insert(&mut self, key: CellKey, place: Place) -> u32 {
        let at = self.cells.iter().position(|cell| cell.key == key).unwrap_or_else(|| {
            // One without nodes is used again.
            let empty = self.cells.iter().position(|cell| cell.ordered.is_empty());
            let cell = CountedCell { key, ordered: Vec::new() };
            if let Some((at, known)) = empty.and_then(|at| Some((at, self.cells.get_mut(at)?))) {
                *known = cell;
                return at;
            }
            self.cells.push(cell);
            self.cells.len() - 1
        });
        if let Some(cell) = self.cells.get_mut(at)
            && let Err(position) = cell.ordered.binary_search(&place)
        {
            cell.ordered.insert(position, place);
        }
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn forget(&mut self, node: u32) {
        let Some(Known { hidden, cell }) = self.of.remove(&node) else { return };
        if let Some((_, nodes)) = hidden.and_then(|at| self.hidden.get_mut(at as usize)) {
            *nodes = nodes.saturating_sub(1);
        }
        if let Some((cell, place)) = cell
            && let Some(cell) = self.cells.get_mut(cell as usize)
            && let Ok(position) = cell.ordered.binary_search(&place)
        {
            cell.ordered.remove(position);
        }
    }

    /// Whether a node has such pods, as far as groups know.
    pub(super) fn has(&self, node: usize) -> bool {
        u32::try_from(node).is_ok_and(|node| self.of.contains_key(&node))
    }

    /// How many of its nodes are in each cell of the shared index.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (&CellKey, u64)> {
        self.hidden.iter().filter(|(_, nodes)| *nodes > 0).map(|(key, nodes)| (key, *nodes))
    }

    /// Its cells, each with how many nodes it has and the best of them: its own score and rank. Some nodes are left out,
    /// ascending.
    pub(super) fn without(&self, nodes: &[usize]) -> impl Iterator<Item = (&CellKey, u64, Option<(i64, u64)>)> {
        let left_out = nodes.iter().filter_map(|node| self.of.get(&u32::try_from(*node).ok()?)?.cell);
        let left_out: SmallVec<[u32; 16]> = left_out.map(|(cell, _)| cell).collect();
        self.cells.iter().zip(0_u32..).map(move |(cell, at)| {
            let n_left_out = left_out.iter().filter(|of| **of == at).count();
            let mut others = cell
                .ordered
                .iter()
                .filter(|(_, _, node)| n_left_out == 0 || nodes.binary_search(&(*node as usize)).is_err());
            let best = others.next().map(|(Reverse(own), rank, _)| (*own, *rank));
            (&cell.key, cell.ordered.len().saturating_sub(n_left_out) as u64, best)
        })
    }
}
