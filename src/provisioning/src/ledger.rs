//! What a packing changes: nodes and counts, what shares are of, and who was placed. The snapshot rolls back to a mark; who
//! undoes a packing puts the tally back with it.

use berth_model::{ClassId, Resources, Snapshot, Sym};
use rustc_hash::FxHashMap;

use crate::shares::Shares;
use crate::tables::Tables;

/// What a packing changes.
pub(crate) struct Ledger {
    /// Nodes that exist and that are planned, counts, and slots.
    pub(crate) state: Snapshot,
    /// How much of the plan may be where, of a whole that is found while packing.
    pub(crate) shares: Shares,
    /// Requests of the pods that are still to be packed.
    pub(crate) remaining: Resources,
    /// NodePool, key and value of domains that only nodes of this plan have, as pods chose the value.
    pub(crate) chosen: Vec<(usize, Sym, Sym)>,
    /// What this packing placed and left.
    pub(crate) tally: Tally,
}

/// What a packing placed and left. Goes back with the snapshot where a packing is undone.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    /// By class: how many were not placed, with the demand that was tried last.
    pub(crate) left: Vec<(ClassId, u32)>,
    /// By class: under which demand, and which way of admitting it, its pods were placed; `None` under several.
    pub(crate) placed_as: FxHashMap<ClassId, Option<(usize, usize)>>,
    /// Preferences given up, over all pods placed.
    pub(crate) relaxations: u64,
}

// === impl Ledger ===

impl Ledger {
    /// The cluster as it stands.
    pub(crate) fn new(tables: &Tables<'_>) -> Self {
        Ledger {
            state: tables.nodes.snapshot(),
            shares: Shares::new(tables.cluster, tables.universe, &tables.columns, tables.options),
            remaining: Resources::new(),
            chosen: Vec::new(),
            tally: Tally::default(),
        }
    }
}
