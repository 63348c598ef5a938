//! How much of a plan may be in one zone, of one instance type or of one capacity type.
//!
//! A share is measured by what would be lost: the CPU requested by what is put on new nodes, not the size of the nodes,
//! so that no plan gets under it by launching room that nobody needs. It is rounded up to a whole pod: without its
//! smallest pod a value has less than its share.

use berth_model::{Bin, ClassId, Cluster, ColumnId, ColumnTable, MemberKind, PoolId, ResourceId, Sym, Universe};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::max_share::{ALL, DEFAULT_MILLI_CPU, ShareKey, weight_of_cpu};
use crate::options::Options;

/// An index into [`Shares::cells`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellId(u32);

impl CellId {
    /// As an index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value of a share: what it may have, and how it is called.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) share: i128,
    pub(crate) rule: usize,
    pub(crate) key: ShareKey,
    pub(crate) value: Option<Sym>,
}

/// The shares of a solve.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub(crate) cells: Vec<Cell>,
    /// By NodePool and column: the cells that a node counts in.
    of: Vec<Vec<Cells>>,
    /// By class: what a member counts for, in milli-CPU.
    pub(crate) weights: Vec<i64>,
}

type Cells = SmallVec<[CellId; 2]>;

impl Shares {
    pub(crate) fn new(cluster: &Cluster, universe: &Universe, tables: &[ColumnTable], options: &Options) -> Self {
        let mut shares = Shares::default();
        if options.max_shares.is_empty() {
            return shares;
        }
        let mut known: FxHashMap<(usize, Option<Sym>), CellId> = FxHashMap::default();
        for table in tables {
            let mut of_pool = Vec::with_capacity(table.columns.len());
            for column in &table.columns {
                let mut cells = Cells::new();
                for (rule, share) in options.max_shares.iter().enumerate() {
                    let (value, name) = match share.key {
                        ShareKey::Zone => (column.zone, column.zone.map_or("", |zone| cluster.symbols.text(zone))),
                        ShareKey::InstanceType => {
                            let name =
                                cluster.instance_types.get(column.instance_type as usize).map(|known| known.name);
                            (name, name.map_or("", |name| cluster.symbols.text(name)))
                        }
                        ShareKey::CapacityType => {
                            let name = column.capacity_type.name();
                            (cluster.symbols.get(name), name)
                        }
                    };
                    if share.value.as_ref().is_some_and(|named| named != name) {
                        continue;
                    }
                    let next = CellId(u32::try_from(shares.cells.len()).unwrap_or(u32::MAX));
                    let cell = *known.entry((rule, value)).or_insert(next);
                    if cell == next {
                        let share_of_all = i128::from(share.billionths).min(ALL);
                        shares.cells.push(Cell { share: share_of_all, rule, key: share.key, value });
                    }
                    cells.push(cell);
                }
                of_pool.push(cells);
            }
            shares.of.push(of_pool);
        }
        shares.weights = universe.classes.iter().map(|class| weight(cluster, class)).collect();
        shares
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The shares that a node of a column counts in.
    pub(crate) fn cells_of(&self, pool: PoolId, column: ColumnId) -> &[CellId] {
        self.of.get(pool.index()).and_then(|of| of.get(column.index())).map_or(&[], |cells| cells)
    }

    /// The largest share that a value may have.
    pub(crate) fn largest(&self) -> i128 {
        self.cells.iter().map(|cell| cell.share).max().unwrap_or(ALL)
    }

    /// The number of values of the share that has most of them.
    pub(crate) fn n_values(&self) -> usize {
        let of_rule = |rule| self.cells.iter().filter(|cell| cell.rule == rule).count();
        let n_rules = self.cells.iter().map(|cell| cell.rule + 1).max().unwrap_or(0);
        (0..n_rules).map(of_rule).max().unwrap_or(0)
    }

    /// The cells of such a key and value.
    pub(crate) fn cells_that(&self, is_it: impl Fn(ShareKey, Option<Sym>) -> bool) -> impl Iterator<Item = CellId> {
        let cells = (0..).zip(&self.cells);
        cells.filter(move |(_, cell)| is_it(cell.key, cell.value)).map(|(at, _)| CellId(at))
    }

    /// What a member of a class counts for.
    pub(crate) fn weight(&self, class: ClassId) -> i64 {
        self.weights.get(class.0 as usize).copied().unwrap_or(DEFAULT_MILLI_CPU)
    }

    /// What is on each node of a group.
    pub(crate) fn load(&self, bin: &Bin) -> i64 {
        let of = |&(class, each): &(ClassId, u32)| self.weight(class).saturating_mul(i64::from(each));
        bin.contents.iter().map(of).fold(0, i64::saturating_add)
    }

    /// What the smallest pod of a group counts for.
    pub(crate) fn least_pod(&self, bin: &Bin) -> i64 {
        bin.contents.iter().map(|&(class, _)| self.weight(class)).min().unwrap_or(DEFAULT_MILLI_CPU)
    }
}

/// What the requests of a member are. What a Reservation for one owner alone no longer holds once it has come counts not.
pub(crate) fn weight(cluster: &Cluster, class: &berth_model::PodClass) -> i64 {
    let Some(spec) = cluster.spec(class.spec) else { return DEFAULT_MILLI_CPU };
    let reserves = spec.reservation.reserves.filter(|_| class.kind == MemberKind::Reservation);
    let reservation = reserves.and_then(|index| cluster.reservation(index));
    let of_owners = &spec.reservation.owners_request;
    let is_spent = reservation.is_some_and(|known| known.allocate_once) && *of_owners != berth_model::Resources::new();
    let cpu = if is_spent { of_owners.get(ResourceId::CPU) } else { spec.requests.get(ResourceId::CPU) };
    weight_of_cpu(cpu)
}
