//! How much of a plan may be in one zone, of one instance type or of one capacity type.
//!
//! A share is measured by what would be lost: the CPU requested by what is put on new nodes, not the size of the nodes,
//! so that no plan gets under it by launching room that nobody needs. It is rounded up to a whole pod: without its
//! smallest pod a value has less than its share.

use std::cell::RefCell;

use berth_model::{Bin, CapacityType, ClassId, Cluster, ColumnTable, MemberKind, ResourceId, Sym, Universe};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Options;
use crate::planner::Planner;
use crate::solution::{Claims, Solution};

/// What a share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareKey {
    /// `topology.kubernetes.io/zone`
    Zone,
    /// `node.kubernetes.io/instance-type`
    InstanceType,
    /// `karpenter.sh/capacity-type`
    CapacityType,
}

/// At most so much of what a plan puts on new nodes may be on nodes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxShare {
    /// What the values are of.
    pub key: ShareKey,
    /// The value that it holds for; `None` for each.
    pub value: Option<String>,
    /// The share in billionths, 1,000,000,000 at most; 0 for none, where it names a value.
    pub billionths: u32,
}

/// How much of what a plan puts on new nodes is on nodes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueShare {
    /// The zone, instance type or capacity type.
    pub value: String,
    /// New nodes of it.
    pub nodes: u64,
    /// Its share, in billionths, rounded up.
    pub billionths: u32,
}

/// All of it, in billionths.
pub(crate) const ALL: i128 = 1_000_000_000;

/// What a pod that requests no CPU counts for, in milli-CPU: kube-scheduler's `DefaultMilliCPURequest`.
const DEFAULT_MILLI_CPU: i64 = 100;

/// A value of a share: what it may have, and how it is called.
#[derive(Clone, Debug)]
struct Cell {
    share: i128,
    rule: usize,
    key: ShareKey,
    value: Option<Sym>,
}

/// The shares of a solve.
#[derive(Debug)]
pub(crate) struct Shares {
    cells: Vec<Cell>,
    /// No share counts as larger, in billionths.
    cap: i128,
    /// By NodePool and column: the cells that a node counts in.
    of: Vec<Vec<Cells>>,
    /// By class: what a member counts for, in milli-CPU.
    weights: Vec<i64>,
    /// What everything that is put on new nodes counts for, as far as is known.
    total: i128,
    /// What is there beside the nodes that are being planned.
    taken: Tally,
    tally: RefCell<(u64, Tally)>,
}

type Cells = SmallVec<[u32; 2]>;

/// What is on the nodes of each cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    by_cell: Vec<Loads>,
    total: i128,
}

/// The sum of the loads of the nodes of a cell, and what the smallest pod counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Loads {
    sum: i128,
    nodes: u64,
    least_pod: Option<i64>,
}

impl Loads {
    fn add(&mut self, load: i64, least_pod: i64, nodes: u32) {
        self.least_pod = Some(self.least_pod.map_or(least_pod, |known| known.min(least_pod)));
        self.nodes += u64::from(nodes);
        self.sum += i128::from(load) * i128::from(nodes);
    }

    // The sum without its smallest pod, once `nodes` of load `before` (if they are here now) have become as `moved` says.
    fn beyond_least(&self, moved: Move, before: Option<i64>, nodes: u32) -> i128 {
        let each = i128::from(moved.after) - i128::from(before.unwrap_or(0));
        let least = self.least_pod.map_or(moved.least_pod, |known| known.min(moved.least_pod));
        self.sum + each * i128::from(nodes) - i128::from(least)
    }
}

/// Nodes that become others: how many, and what is on each of them before (with the column that it is on) and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) pool: usize,
    pub(crate) column: usize,
    pub(crate) before: Option<(usize, i64)>,
    pub(crate) after: i64,
    /// What the smallest of the pods that move or join counts for.
    pub(crate) least_pod: i64,
}

impl Default for Shares {
    fn default() -> Self {
        Shares {
            cells: Vec::new(),
            cap: ALL,
            of: Vec::new(),
            weights: Vec::new(),
            total: 0,
            taken: Tally::default(),
            tally: RefCell::default(),
        }
    }
}

impl Shares {
    pub(crate) fn new(cluster: &Cluster, universe: &Universe, tables: &[ColumnTable], options: &Options) -> Self {
        let mut shares = Shares::default();
        if options.max_shares.is_empty() {
            return shares;
        }
        let mut known: FxHashMap<(usize, Option<Sym>), u32> = FxHashMap::default();
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
                    let next = u32::try_from(shares.cells.len()).unwrap_or(u32::MAX);
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
    pub(crate) fn cells_of(&self, pool: usize, column: usize) -> &[u32] {
        self.of.get(pool).and_then(|of| of.get(column)).map_or(&[], |cells| cells)
    }

    /// Packs as if no share were larger, in billionths; a plan that keeps smaller shares keeps those that are asked for.
    pub(crate) fn set_cap(&mut self, cap: i128) {
        self.cap = cap;
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

    fn within(&self, cell: &Cell) -> i128 {
        cell.share.min(self.cap)
    }

    /// The share of a cell, in billionths.
    pub(crate) fn share_of(&self, cell: u32) -> i128 {
        self.cells.get(cell as usize).map_or(ALL, |cell| self.within(cell))
    }

    /// How full a cell is with such a load; to be compared only.
    pub(crate) fn fullness(&self, cell: u32, load: i128) -> i128 {
        load.saturating_mul(ALL) / self.share_of(cell).max(1)
    }

    /// The cells of such a key and value.
    pub(crate) fn cells_that(&self, is_it: impl Fn(ShareKey, Option<Sym>) -> bool) -> impl Iterator<Item = u32> {
        let cells = (0..).zip(&self.cells);
        cells.filter(move |(_, cell)| is_it(cell.key, cell.value)).map(|(at, _)| at)
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

    fn tally_of<'b>(&self, bins: impl Iterator<Item = &'b Bin>) -> Tally {
        let mut tally = self.taken.clone();
        tally.by_cell.resize(self.cells.len(), Loads::default());
        for bin in bins.filter(|bin| bin.nodes > 0) {
            let load = self.load(bin);
            tally.total += i128::from(load) * i128::from(bin.nodes);
            for &cell in self.cells_of(bin.pool, bin.planned) {
                if let Some(loads) = tally.by_cell.get_mut(cell as usize) {
                    loads.add(load, self.least_pod(bin), bin.nodes);
                }
            }
        }
        tally
    }

    fn keeps(&self, tally: &Tally, total: i128) -> bool {
        self.cells.iter().zip(&tally.by_cell).all(|(cell, loads)| {
            loads.least_pod.is_none_or(|least| is_under(loads.sum - i128::from(least), self.within(cell), total))
        })
    }
}

// A part of the whole in billionths, rounded up.
fn part(load: i128, total: i128) -> u32 {
    let part = (load.saturating_mul(ALL) + total - 1) / total.max(1);
    u32::try_from(part.clamp(0, ALL)).unwrap_or(0)
}

// Whether `load` is less than a share of the whole.
fn is_under(load: i128, share: i128, total: i128) -> bool {
    load.saturating_mul(ALL) < share.saturating_mul(total)
}

// What the requests of a member are. What a Reservation for one owner alone no longer holds once it has come counts not.
fn weight(cluster: &Cluster, class: &berth_model::PodClass) -> i64 {
    let Some(spec) = cluster.spec(class.spec) else { return DEFAULT_MILLI_CPU };
    let reserves = spec.reservation.reserves.filter(|_| class.kind == MemberKind::Reservation);
    let reservation = reserves.and_then(|index| cluster.reservation(index));
    let of_owners = &spec.reservation.owners_request;
    let is_spent = reservation.is_some_and(|known| known.allocate_once) && *of_owners != berth_model::Resources::new();
    let cpu = if is_spent { of_owners.get(ResourceId::CPU) } else { spec.requests.get(ResourceId::CPU) };
    weight_of_cpu(cpu)
}

/// What a pod of this request counts for, in milli-CPU.
pub(crate) fn weight_of_cpu(milli_cpu: i64) -> i64 {
    if milli_cpu > 0 { milli_cpu } else { DEFAULT_MILLI_CPU }
}

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
        let weight = |class: ClassId| universe.class(class).map_or(DEFAULT_MILLI_CPU, |class| weight(cluster, class));
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

impl Planner<'_> {
    /// Counts in what a plan has taken, for one more pod of a class.
    pub(crate) fn count_taken(&mut self, taken: &[Taken], class: ClassId) {
        let mut tally = Tally { by_cell: vec![Loads::default(); self.ledger.shares.cells.len()], total: 0 };
        for part in taken {
            tally.total += i128::from(part.load) * i128::from(part.nodes);
            let is_it = |column: &berth_model::Column| {
                (column.instance_type, column.zone, column.capacity_type)
                    == (part.instance_type, part.zone, part.capacity_type)
            };
            let mut columns = self
                .tables
                .columns
                .iter()
                .enumerate()
                .filter_map(|(pool, table)| Some((pool, table.columns.iter().position(is_it)?)));
            let Some((pool, column)) = columns.next() else { continue };
            for &cell in self.ledger.shares.cells_of(pool, column) {
                if let Some(loads) = tally.by_cell.get_mut(cell as usize) {
                    loads.add(part.load, part.least_pod, part.nodes);
                }
            }
        }
        self.ledger.shares.total = tally.total + i128::from(self.ledger.shares.weight(class));
        self.ledger.shares.taken = tally;
    }

    /// What all that is pending counts for, and what is on new nodes.
    pub(crate) fn share_of_pending(&self) -> i128 {
        let of = |(at, class): (usize, &berth_model::PodClass)| {
            i128::from(self.ledger.shares.weights.get(at).copied().unwrap_or(0)) * i128::from(class.count)
        };
        self.tables.universe.classes.iter().enumerate().map(of).sum()
    }

    /// What all that is on new nodes counts for.
    pub(crate) fn share_of_planned(&self) -> i128 {
        self.with_tally(|tally| tally.total)
    }

    /// Sets what the whole is that shares are of.
    pub(crate) fn set_share_total(&mut self, total: i128) {
        self.ledger.shares.total = total;
    }

    /// Whether the plan keeps all shares, of the whole as it is.
    pub(crate) fn keeps_shares(&self) -> bool {
        self.ledger.shares.is_empty() || self.with_tally(|tally| self.ledger.shares.keeps(tally, tally.total))
    }

    /// The same, of the whole as it is taken for now.
    pub(crate) fn keeps_shares_of_total(&self) -> bool {
        self.ledger.shares.is_empty()
            || self.with_tally(|tally| self.ledger.shares.keeps(tally, self.ledger.shares.total))
    }

    /// What is on new nodes by cell.
    pub(crate) fn loads_of_shares(&self) -> Vec<i128> {
        self.with_tally(|tally| tally.by_cell.iter().map(|loads| loads.sum).collect())
    }

    fn with_tally<T>(&self, ask: impl FnOnce(&Tally) -> T) -> T {
        let version = self.ledger.state.bins_version().wrapping_add(1);
        let mut known = self.ledger.shares.tally.borrow_mut();
        if known.0 != version {
            *known = (version, self.ledger.shares.tally_of(self.ledger.state.bins().iter()));
        }
        ask(&known.1)
    }

    /// Whether so many nodes may move.
    pub(crate) fn shares_allow(&self, moved: Move, nodes: u32) -> bool {
        if self.ledger.shares.total == 0 || nodes == 0 {
            return true;
        }
        let was = moved.before.map_or(&[][..], |(column, _)| self.ledger.shares.cells_of(moved.pool, column));
        self.with_tally(|tally| {
            self.ledger.shares.cells_of(moved.pool, moved.column).iter().all(|cell| {
                let (Some(rule), Some(loads)) =
                    (self.ledger.shares.cells.get(*cell as usize), tally.by_cell.get(*cell as usize))
                else {
                    return true;
                };
                let before = moved.before.filter(|_| was.contains(cell)).map(|(_, load)| load);
                let beyond = loads.beyond_least(moved, before, nodes);
                is_under(beyond, self.ledger.shares.within(rule), self.ledger.shares.total)
            })
        })
    }

    /// How many nodes may move, `most` at most.
    pub(crate) fn nodes_within_shares(&self, moved: Move, most: u32) -> u32 {
        most_that(most, |nodes| self.shares_allow(moved, nodes))
    }

    /// How many pods of a class may join a node of a group, or open one, on a column; `most` at most.
    pub(crate) fn pods_within_shares(
        &self,
        class: ClassId,
        (pool, column): (usize, usize),
        bin: Option<&Bin>,
        most: u32,
    ) -> u32 {
        if self.ledger.shares.total == 0 {
            return most;
        }
        most_that(most, |pods| self.shares_allow(self.joining(class, (pool, column), bin, pods), 1))
    }

    /// How many nodes of a group, or new ones, so many pods of a class each may join on a column; `most` at most.
    pub(crate) fn nodes_joined_within_shares(
        &self,
        class: ClassId,
        (pool, column): (usize, usize),
        bin: Option<&Bin>,
        pods: u32,
        most: u32,
    ) -> u32 {
        if self.ledger.shares.total == 0 {
            return most;
        }
        self.nodes_within_shares(self.joining(class, (pool, column), bin, pods), most)
    }

    fn joining(&self, class: ClassId, (pool, column): (usize, usize), bin: Option<&Bin>, pods: u32) -> Move {
        let weight = self.ledger.shares.weight(class);
        let before = bin.map(|bin| (bin.planned, self.ledger.shares.load(bin)));
        let after = before.map_or(0, |(_, load)| load).saturating_add(weight.saturating_mul(i64::from(pods)));
        let least_pod = bin.map_or(weight, |bin| self.ledger.shares.least_pod(bin).min(weight));
        Move { pool, column, before, after, least_pod }
    }

    /// The share that keeps one more node off a column, as people should read it.
    pub(crate) fn exceeded_share(&self, class: ClassId, pool: usize, column: usize) -> Option<String> {
        let after = self.ledger.shares.weight(class);
        let moved = Move { pool, column, before: None, after, least_pod: after };
        if self.shares_allow(moved, 1) {
            return None;
        }
        self.with_tally(|tally| {
            let full = self.ledger.shares.cells_of(pool, column).iter().filter_map(|&cell| {
                Some((self.ledger.shares.cells.get(cell as usize)?, tally.by_cell.get(cell as usize)?))
            });
            let mut full = full.filter(|(rule, loads)| {
                !is_under(loads.beyond_least(moved, None, 1), self.ledger.shares.within(rule), self.ledger.shares.total)
            });
            let (cell, _) = full.next()?;
            let value = cell.value.map_or("", |value| self.tables.cluster.symbols.text(value));
            let share = self.tables.options.max_shares.get(cell.rule)?;
            Some(format!("{} {value} has its max-share of {}", cell.key.name(), share.percent()))
        })
    }

    /// What there is of each value of each share, by share and name.
    pub(crate) fn shares_of_values(&self) -> Vec<Vec<ValueShare>> {
        let mut out = vec![Vec::new(); self.tables.options.max_shares.len()];
        self.with_tally(|tally| {
            for (cell, loads) in
                self.ledger.shares.cells.iter().zip(&tally.by_cell).filter(|(_, loads)| loads.nodes > 0)
            {
                let value = cell.value.map_or("", |value| self.tables.cluster.symbols.text(value)).to_owned();
                if let Some(values) = out.get_mut(cell.rule) {
                    values.push(ValueShare { value, nodes: loads.nodes, billionths: part(loads.sum, tally.total) });
                }
            }
        });
        for values in &mut out {
            values.sort_by(|a, b| b.billionths.cmp(&a.billionths).then_with(|| a.value.cmp(&b.value)));
        }
        out
    }

    /// Whether a claim planned on one column may list another: that draws on no zone and no capacity type whose share
    /// the planned one does not draw on. Which instance type is launched is the cloud's to say, so what counts is the
    /// planned one.
    pub(crate) fn may_list(&self, pool: usize, planned: usize, listed: usize) -> bool {
        let of_planned = self.ledger.shares.cells_of(pool, planned);
        self.ledger.shares.cells_of(pool, listed).iter().all(|cell| {
            let key = self.ledger.shares.cells.get(*cell as usize).map(|cell| cell.key);
            key == Some(ShareKey::InstanceType) || of_planned.contains(cell)
        })
    }

    /// What each share leaves beside what is on nodes now, in milli-CPU, where a pod of so much is the smallest of its
    /// value.
    pub(crate) fn left_of_shares(&self, pods: &[Option<i64>]) -> Vec<i64> {
        let left = |(at, (cell, loads)): (usize, (&Cell, &Loads))| {
            let pod = pods.get(at).copied().flatten();
            let smallest = loads.least_pod.map_or(pod, |known| Some(pod.map_or(known, |pod| known.min(pod))));
            // The most of which a share is more, and the pod to which it is rounded up.
            let all = self.ledger.shares.within(cell).saturating_mul(self.ledger.shares.total);
            let most = (all + ALL - 1) / ALL - 1 + i128::from(smallest.unwrap_or(0));
            i64::try_from((if cell.share == 0 { 0 } else { most } - loads.sum).max(0)).unwrap_or(i64::MAX)
        };
        self.with_tally(|tally| self.ledger.shares.cells.iter().zip(&tally.by_cell).enumerate().map(left).collect())
    }

    /// Whether bounds count on shares: what owners of a Reservation count for depends on what they draw from it.
    pub(crate) fn bounds_count_shares(&self) -> bool {
        self.counts_shares() && self.tables.cluster.reservations.is_empty()
    }

    /// Whether there are shares.
    pub(crate) fn counts_shares(&self) -> bool {
        !self.ledger.shares.is_empty()
    }
}

// The greatest number up to `most` for which something holds that holds for none after the first for which it does not.
fn most_that(most: u32, holds: impl Fn(u32) -> bool) -> u32 {
    if most == 0 || holds(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

impl ShareKey {
    /// The name in flags and in answers.
    pub fn name(self) -> &'static str {
        match self {
            ShareKey::Zone => "zone",
            ShareKey::InstanceType => "instanceType",
            ShareKey::CapacityType => "capacityType",
        }
    }
}

impl MaxShare {
    /// The share as a percentage: `50%`, `12.5%`.
    pub fn percent(&self) -> String {
        Self::percent_of(u64::from(self.billionths))
    }

    /// Billionths as a percentage.
    pub fn percent_of(billionths: u64) -> String {
        let (whole, rest) = (billionths / 10_000_000, billionths % 10_000_000);
        let rest = format!("{rest:07}");
        let rest = rest.trim_end_matches('0');
        if rest.is_empty() { format!("{whole}%") } else { format!("{whole}.{rest}%") }
    }
}
