//! What a plan takes of shares.

use berth_model::{CapacityType, ClassId, Cluster, ColumnId, Sym, Universe};

use crate::ledger::Ledger;
use crate::max_share::DEFAULT_MILLI_CPU;
use crate::share_tally::{Loads, Tally};
use crate::shares;
use crate::solution::{Claims, Solution};
use crate::tables::Tables;

/// Nodes that a plan launches, as shares see them.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    instance_type: u32,
    zone: Option<Sym>,
    capacity_type: CapacityType,
    nodes: u32,
    load: i64,
    least_pod: i64,
}

impl Taken {
    /// What a plan of a cluster takes of shares.
    pub fn of(cluster: &Cluster, universe: &Universe, solution: &Solution) -> Vec<Taken> {
        let weight =
            |class: ClassId| universe.class(class).map_or(DEFAULT_MILLI_CPU, |class| shares::weight(cluster, class));
        let of = |claims: &Claims| {
            let weights = || claims.contents.iter().map(|&(class, each)| (weight(class), i64::from(each)));
            Taken {
                instance_type: claims.instance_type,
                zone: claims.zone,
                capacity_type: claims.capacity_type,
                nodes: claims.count,
                load: weights().map(|(weight, each)| weight.saturating_mul(each)).fold(0, i64::saturating_add),
                least_pod: weights().map(|(weight, _)| weight).min().unwrap_or(DEFAULT_MILLI_CPU),
            }
        };
        solution.claims.iter().map(of).collect()
    }
}

impl Ledger {
    /// Counts in what a plan has taken, for one more pod of a class.
    pub(crate) fn count_taken(&mut self, tables: &Tables<'_>, taken: &[Taken], class: ClassId) {
        let mut tally = Tally { by_cell: vec![Loads::default(); tables.shares.cells.len()], total: 0 };
        for part in taken {
            tally.total += i128::from(part.load) * i128::from(part.nodes);
            let is_it = |column: &berth_model::Column| {
                (column.instance_type, column.zone, column.capacity_type)
                    == (part.instance_type, part.zone, part.capacity_type)
            };
            let mut columns = tables
                .by_pool()
                .filter_map(|(pool, table)| Some((pool, table.columns.iter().position(is_it).map(ColumnId::new)?)));
            let Some((pool, column)) = columns.next() else { continue };
            for &cell in tables.shares.cells_of(pool, column) {
                if let Some(loads) = tally.by_cell.get_mut(cell.index()) {
                    loads.add(part.load, part.least_pod, part.nodes);
                }
            }
        }
        let total = tally.total + i128::from(tables.shares.weight(class));
        self.shares.set_total(total);
        self.shares.beside = tally;
    }
}
