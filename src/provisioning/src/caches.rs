//! What was found when a question was asked, kept for the next one. It could all be made anew from tables and ledger: nothing is
//! decided here.

use std::cell::OnceCell;
use std::rc::Rc;

use berth_model::{ClassId, PoolId};
use berth_scheduling::demands;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::domains::KnownDomains;
use crate::frontier::Frontier;
use crate::listing::Listings;
use crate::prepared::Asking;
use crate::tables::Tables;

/// What was worked out once and may be asked again.
pub(crate) struct Caches<'a> {
    /// The columns that are no dearer than any with as much room, by pool and admitted columns.
    frontiers: FxHashMap<(PoolId, FixedBitSet), Rc<Frontier>>,
    /// Nodes whose claims could list what minValues asks for within limits, or not.
    pub(crate) listings: Listings,
    /// By class, where there are no nodes: how its pods may be asked for.
    prepared: FxHashMap<ClassId, Rc<[Asking<'a>]>>,
    pub(crate) domains: KnownDomains,
    /// Room for intermediate numbers of [`Frontier::candidates`].
    pub(crate) scratch: Vec<f64>,
}

// === impl Caches ===

impl<'a> Caches<'a> {
    /// Nothing was asked yet.
    pub(crate) fn new(tables: &Tables<'_>) -> Self {
        Caches {
            frontiers: FxHashMap::default(),
            listings: Listings::default(),
            prepared: FxHashMap::default(),
            domains: KnownDomains::new(tables.universe.counters.len()),
            scratch: Vec::new(),
        }
    }

    /// How pods of a class may be asked for, from all preferences to none. They are kept where there are no nodes, of which each would list those that admit it.
    pub(crate) fn askings(&mut self, tables: &Tables<'a>, id: ClassId) -> Rc<[Asking<'a>]> {
        if let Some(known) = self.prepared.get(&id) {
            return Rc::clone(known);
        }
        let demands = demands(tables.cluster, tables.universe, id).into_iter();
        let askings: Rc<[Asking<'a>]> = demands.map(|demand| Asking { demand, ways: OnceCell::new() }).collect();
        if tables.cluster.nodes.is_empty() {
            self.prepared.insert(id, Rc::clone(&askings));
        }
        askings
    }

    /// The frontier of a pool's columns, worked out once for each set.
    pub(crate) fn frontier(&mut self, tables: &Tables<'_>, pool: PoolId, columns: FixedBitSet) -> Rc<Frontier> {
        if let Some(known) = self.frontiers.get(&(pool, columns.clone())) {
            return Rc::clone(known);
        }
        let keeps_all = tables.keeps_all(pool);
        let frontier = Frontier::new(tables.table(pool), &columns, keeps_all, !tables.shares.is_empty());
        let frontier = Rc::new(frontier);
        self.frontiers.insert((pool, columns), Rc::clone(&frontier));
        frontier
    }
}
