//! What a packing changes: nodes and counts, what shares are of, and who was placed. The snapshot rolls back to a mark; who
//! undoes a packing puts the tally back with it.

use berth_model::{ClassId, CounterId, PoolId, Resources, Snapshot, Sym};
use rustc_hash::FxHashMap;

use crate::share_tally::SharesTaken;
use crate::tables::Tables;

/// What a packing changes.
pub(crate) struct Ledger {
    /// Nodes that exist and that are planned, counts, and slots.
    pub(crate) state: Snapshot,
    /// What shares are of, a whole that is found while packing.
    pub(crate) shares: SharesTaken,
    /// Requests of the pods that are still to be packed.
    pub(crate) remaining: Resources,
    /// Domains that only nodes of this plan have.
    pub(crate) chosen: Vec<Chosen>,
    /// By counter: domains where volumes of the pods that it spreads cannot be, and where this plan has nodes for others.
    /// Once such a node is there, the spread counts its domain.
    pub(crate) beyond: Vec<(CounterId, Sym)>,
    /// Whether domains without a node count only where limits and free slots still leave a node for them, beside those that are
    /// planned: once all is packed, see [`crate::domains_left`].
    pub(crate) counts_domains_left: bool,
    /// Whether no further host is counted on for spreads over host names: nothing more is launched.
    pub(crate) counts_hosts_left: bool,
    /// By counter over host names: the least count of the hosts that there are and that are planned, while pods are placed
    /// for which no further host may come; 0 for others.
    pub(crate) host_floors: Vec<(CounterId, u32)>,
    /// What this packing placed and left.
    pub(crate) tally: Tally,
}

/// A domain of a topology key, as pods chose the value, on nodes of a NodePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) pool: PoolId,
    pub(crate) key: Sym,
    pub(crate) value: Sym,
}

/// How pods were asked for when they were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedAs {
    /// Preferences given up, which is the number of the demand.
    pub(crate) relaxed: usize,
    /// Which of the ways in which pools admit the demand.
    pub(crate) way: usize,
}

/// What a packing placed and left. Goes back with the snapshot where a packing is undone.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    /// By class: how many were not placed, with the demand that was tried last.
    pub(crate) left: Vec<(ClassId, u32)>,
    /// By class: under which demand, and which way of admitting it, its pods were placed; `None` under several.
    pub(crate) placed_as: FxHashMap<ClassId, Option<PlacedAs>>,
    /// Preferences given up, over all pods placed.
    pub(crate) relaxations: u64,
    /// Whether some spread over host names counted on no further host, see [`Ledger::host_floors`].
    pub(crate) counts_on_no_host: bool,
    /// Whether some other spread counted on no node in a domain where the plan left no room for one.
    pub(crate) counts_on_no_domain: bool,
}

// === impl Tally ===

impl Tally {
    /// How many were not placed.
    pub(crate) fn n_left(&self) -> u64 {
        self.left.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

// === impl Ledger ===

impl Ledger {
    /// The cluster as it stands.
    pub(crate) fn new(tables: &Tables<'_>) -> Self {
        Ledger {
            state: tables.nodes.snapshot(),
            shares: SharesTaken::default(),
            remaining: Resources::new(),
            chosen: Vec::new(),
            beyond: Vec::new(),
            counts_domains_left: false,
            counts_hosts_left: false,
            host_floors: Vec::new(),
            tally: Tally::default(),
        }
    }
}
