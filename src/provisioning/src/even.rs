//! Packs so that what is on new nodes is shared out evenly over the values that shares are of.
//!
//! Each pod goes where least is, measured by the share of it. Pods in order of size, each to the value with least, never
//! have a value above the mean before its last pod: an even split that exists for pods that may go anywhere is found.

use berth_model::{Column, ColumnId, Money, Sym};

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::max_share::ShareKey;
use crate::packing::Packing;
use crate::prepared::Prepared;
use crate::shares::CellId;
use crate::tables::Tables;
use crate::world::World;

/// Combinations of values that are looked at, at most.
const MOST_COMBINATIONS: usize = 256;
/// Parts in which the pods of a class are shared out, at most; a part is one pod unless there are more.
const MOST_PARTS: u32 = 1024;

/// Where pods may go: the labels that pin them there, and what a node there counts for in shares.
struct Combination {
    pins: Vec<(Sym, Sym)>,
    cells: Vec<CellId>,
    price: Money,
}

impl Tables<'_> {
    fn share_keys(&self) -> Vec<ShareKey> {
        let mut keys: Vec<ShareKey> = self.options.max_shares.iter().map(|share| share.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn value_of(&self, key: ShareKey, column: &Column) -> Option<(Sym, Sym)> {
        let known = &self.cluster.well_known;
        Some(match key {
            ShareKey::Zone => (known.zone, column.zone?),
            ShareKey::InstanceType => {
                (known.instance_type, self.cluster.instance_types.get(column.instance_type as usize)?.name)
            }
            ShareKey::CapacityType => (known.capacity_type, self.cluster.symbols.get(column.capacity_type.name())?),
        })
    }
}

impl World<'_> {
    // The combinations that admit a demand, the cheapest first.
    fn combinations(self, prepared: &Prepared<'_>) -> Vec<Combination> {
        let keys = self.tables.share_keys();
        let mut found: Vec<Combination> = Vec::new();
        for ((pool, table), admission) in self.tables.by_pool().zip(&prepared.admissions) {
            let Some(admission) = admission else { continue };
            let mut columns = admission.columns.clone();
            table.keep_fitting(&mut columns, prepared.requests);
            for at in ColumnId::of(&columns) {
                let column = table.column(at);
                let pins: Option<Vec<(Sym, Sym)>> = keys.iter().map(|&key| self.tables.value_of(key, column)).collect();
                let Some(pins) = pins else { continue };
                if let Some(known) = found.iter_mut().find(|known| known.pins == pins) {
                    known.price = known.price.min(column.price);
                } else {
                    let cells = self.tables.shares.cells_of(pool, at).to_vec();
                    found.push(Combination { pins, cells, price: column.price });
                }
                if found.len() > MOST_COMBINATIONS {
                    return found;
                }
            }
        }
        found.retain(|combination| combination.cells.iter().all(|cell| self.share_of(*cell) > 0));
        found.sort_by_key(|combination| combination.price);
        found
    }

    /// How many combinations of values of shares admit a demand.
    pub(crate) fn n_combinations(self, prepared: &Prepared<'_>) -> usize {
        self.combinations(prepared).len()
    }

    // How many pods each combination gets: part after part to the one whose fullest share is the least full.
    fn parts(self, prepared: &Prepared<'_>, open: &[Combination], count: u32) -> Vec<u32> {
        let mut parts = vec![0_u32; open.len()];
        let mut loads = self.loads_of_shares();
        let weight = i128::from(self.tables.shares.weight(prepared.demand.class));
        let at_once = count.div_ceil(MOST_PARTS).max(1);
        let mut left = count;
        while left > 0 {
            let pods = at_once.min(left);
            let fullness = |combination: &Combination| {
                let of_cell = |cell: &CellId| self.fullness(*cell, loads.get(cell.index()).copied().unwrap_or(0));
                combination.cells.iter().map(of_cell).max().unwrap_or(0)
            };
            let Some((at, best)) = open.iter().enumerate().min_by_key(|(at, combination)| (fullness(combination), *at))
            else {
                break;
            };
            for &cell in &best.cells {
                if let Some(load) = loads.get_mut(cell.index()) {
                    *load += weight * i128::from(pods);
                }
            }
            if let Some(part) = parts.get_mut(at) {
                *part += pods;
            }
            left -= pods;
        }
        parts
    }
}

impl Packing<'_, '_> {
    /// Places up to `count` pods of a demand without topology keys, each where its shares are used least; returns how
    /// many.
    pub(crate) fn place_evenly(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
    ) -> u32 {
        let mut open = self.world(ledger).combinations(prepared);
        if open.len() < 2 || open.len() > MOST_COMBINATIONS || !prepared.spec.volumes.exclusive_claims.is_empty() {
            return self.fill(ledger, caches, prepared, count, &[]);
        }
        // What finds room on nodes that exist is no part of what is shared out.
        let mut left = count;
        left -= {
            let scope = prepared.scope(self.tables, &[]);
            ledger.fill_nodes(self.tables, &scope, left)
        };
        while left > 0 && !open.is_empty() {
            let parts = self.world(ledger).parts(prepared, &open, left);
            let mut is_full = vec![false; open.len()];
            for ((combination, part), is_full) in open.iter().zip(parts).zip(&mut is_full) {
                let placed = if part == 0 { 0 } else { self.fill(ledger, caches, prepared, part, &combination.pins) };
                left -= placed;
                *is_full = placed < part;
            }
            let mut is_full = is_full.into_iter();
            open.retain(|_| is_full.next() == Some(false));
        }
        count - left
    }

    /// How full the shares of a label's value are, for the strategy that shares out evenly; the same for all under
    /// others.
    pub(crate) fn fullness_of(&self, ledger: &Ledger, key: Sym, value: Sym) -> i128 {
        if !self.strategy.splits_evenly {
            return 0;
        }
        let known = &self.tables.cluster.well_known;
        let is_key = |of: ShareKey| match of {
            ShareKey::Zone => known.zone == key,
            ShareKey::InstanceType => known.instance_type == key,
            ShareKey::CapacityType => known.capacity_type == key,
        };
        let loads = self.world(ledger).loads_of_shares();
        let cells = self.tables.shares.cells_that(|of, named| is_key(of) && named == Some(value));
        cells
            .map(|cell| self.world(ledger).fullness(cell, loads.get(cell.index()).copied().unwrap_or(0)))
            .max()
            .unwrap_or(0)
    }
}
