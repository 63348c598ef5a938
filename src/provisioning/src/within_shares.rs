//! What shares allow beside what is on nodes now.

use berth_model::{Bin, ClassId, ColumnId, PoolId};

use crate::max_share::{ALL, ShareKey, ValueShare};
use crate::share_tally::{Loads, Move, Tally};
use crate::shares::{Cell, CellId};
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

impl Tables<'_> {
    /// What all that is pending counts for, and what is on new nodes.
    pub(crate) fn share_of_pending(&self) -> i128 {
        let of = |(at, class): (usize, &berth_model::PodClass)| {
            i128::from(self.shares.weights.get(at).copied().unwrap_or(0)) * i128::from(class.count)
        };
        self.universe.classes.iter().enumerate().map(of).sum()
    }

    /// Whether a claim planned on one column may list another: that draws on no zone and no capacity type whose share
    /// the planned one does not draw on. Which instance type is launched is the cloud's to say, so what counts is the
    /// planned one.
    pub(crate) fn may_list(&self, pool: PoolId, planned: ColumnId, listed: ColumnId) -> bool {
        let of_planned = self.shares.cells_of(pool, planned);
        self.shares.cells_of(pool, listed).iter().all(|cell| {
            let key = self.shares.cells.get(cell.index()).map(|cell| cell.key);
            key == Some(ShareKey::InstanceType) || of_planned.contains(cell)
        })
    }

    /// Whether bounds count on shares: what owners of a Reservation count for depends on what they draw from it.
    pub(crate) fn bounds_count_shares(&self) -> bool {
        self.counts_shares() && self.cluster.reservations.is_empty()
    }

    /// Whether there are shares.
    pub(crate) fn counts_shares(&self) -> bool {
        !self.shares.is_empty()
    }
}

impl World<'_> {
    /// What all that is on new nodes counts for.
    pub(crate) fn share_of_planned(self) -> i128 {
        self.with_tally(|tally| tally.total)
    }

    /// Whether the plan keeps all shares, of the whole as it is.
    pub(crate) fn keeps_shares(self) -> bool {
        self.tables.shares.is_empty() || self.with_tally(|tally| self.keeps(tally, tally.total))
    }

    /// The same, of the whole as it is taken for now.
    pub(crate) fn keeps_shares_of_total(self) -> bool {
        self.tables.shares.is_empty() || self.with_tally(|tally| self.keeps(tally, self.ledger.shares.total()))
    }

    /// What is on new nodes by cell.
    pub(crate) fn loads_of_shares(self) -> Vec<i128> {
        self.with_tally(|tally| tally.by_cell.iter().map(|loads| loads.sum).collect())
    }

    fn with_tally<T>(self, ask: impl FnOnce(&Tally) -> T) -> T {
        let version = self.ledger.state.bins_version().wrapping_add(1);
        let mut known = self.ledger.shares.known.borrow_mut();
        if known.0 != version {
            *known = (version, self.tally());
        }
        ask(&known.1)
    }

    /// Whether so many nodes may move.
    pub(crate) fn shares_allow(self, moved: Move, nodes: u32) -> bool {
        if self.ledger.shares.total() == 0 || nodes == 0 {
            return true;
        }
        let was = moved.before.map_or(&[][..], |(column, _)| self.tables.shares.cells_of(moved.pool, column));
        self.with_tally(|tally| {
            self.tables.shares.cells_of(moved.pool, moved.column).iter().all(|cell| {
                let (Some(rule), Some(loads)) =
                    (self.tables.shares.cells.get(cell.index()), tally.by_cell.get(cell.index()))
                else {
                    return true;
                };
                let before = moved.before.filter(|_| was.contains(cell)).map(|(_, load)| load);
                let beyond = loads.beyond_least(moved, before, nodes);
                is_under(beyond, self.ledger.shares.within(rule), self.ledger.shares.total())
            })
        })
    }

    /// How many nodes may move, `most` at most.
    pub(crate) fn nodes_within_shares(self, moved: Move, most: u32) -> u32 {
        most_that(most, |nodes| self.shares_allow(moved, nodes))
    }

    /// How many pods of a class may join a node of a group, or open one, on a column; `most` at most.
    pub(crate) fn pods_within_shares(self, class: ClassId, at: PoolColumn, bin: Option<&Bin>, most: u32) -> u32 {
        if self.ledger.shares.total() == 0 {
            return most;
        }
        most_that(most, |pods| self.shares_allow(self.joining(class, at, bin, pods), 1))
    }

    /// How many nodes of a group, or new ones, so many pods of a class each may join on a column; `most` at most.
    pub(crate) fn nodes_joined_within_shares(
        self,
        class: ClassId,
        at: PoolColumn,
        bin: Option<&Bin>,
        pods: u32,
        most: u32,
    ) -> u32 {
        if self.ledger.shares.total() == 0 {
            return most;
        }
        self.nodes_within_shares(self.joining(class, at, bin, pods), most)
    }

    fn joining(self, class: ClassId, at: PoolColumn, bin: Option<&Bin>, pods: u32) -> Move {
        let weight = self.tables.shares.weight(class);
        let before = bin.map(|bin| (bin.planned, self.tables.shares.load(bin)));
        let after = before.map_or(0, |(_, load)| load).saturating_add(weight.saturating_mul(i64::from(pods)));
        let least_pod = bin.map_or(weight, |bin| self.tables.shares.least_pod(bin).min(weight));
        Move { pool: at.pool, column: at.column, before, after, least_pod }
    }

    /// The share that keeps one more node off a column, as people should read it.
    pub(crate) fn exceeded_share(self, class: ClassId, pool: PoolId, column: ColumnId) -> Option<String> {
        let after = self.tables.shares.weight(class);
        let moved = Move { pool, column, before: None, after, least_pod: after };
        if self.shares_allow(moved, 1) {
            return None;
        }
        self.with_tally(|tally| {
            let full = self.tables.shares.cells_of(pool, column).iter().filter_map(|&cell| {
                Some((self.tables.shares.cells.get(cell.index())?, tally.by_cell.get(cell.index())?))
            });
            let mut full = full.filter(|(rule, loads)| {
                !is_under(
                    loads.beyond_least(moved, None, 1),
                    self.ledger.shares.within(rule),
                    self.ledger.shares.total(),
                )
            });
            let (cell, _) = full.next()?;
            let value = cell.value.map_or("", |value| self.tables.cluster.symbols.text(value));
            let share = self.tables.options.max_shares.get(cell.rule)?;
            Some(format!("{} {value} has its max-share of {}", cell.key.name(), share.percent()))
        })
    }

    /// What there is of each value of each share, by share and name.
    pub(crate) fn shares_of_values(self) -> Vec<Vec<ValueShare>> {
        let mut out = vec![Vec::new(); self.tables.options.max_shares.len()];
        self.with_tally(|tally| {
            for (cell, loads) in
                self.tables.shares.cells.iter().zip(&tally.by_cell).filter(|(_, loads)| loads.nodes > 0)
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

    /// What each share leaves beside what is on nodes now, in milli-CPU, where a pod of so much is the smallest of its
    /// value.
    pub(crate) fn left_of_shares(self, pods: &[Option<i64>]) -> Vec<i64> {
        let left = |(at, (cell, loads)): (usize, (&Cell, &Loads))| {
            let pod = pods.get(at).copied().flatten();
            let smallest = loads.least_pod.map_or(pod, |known| Some(pod.map_or(known, |pod| known.min(pod))));
            // The most of which a share is more, and the pod to which it is rounded up.
            let all = self.ledger.shares.within(cell).saturating_mul(self.ledger.shares.total());
            let most = (all + ALL - 1) / ALL - 1 + i128::from(smallest.unwrap_or(0));
            i64::try_from((if cell.share == 0 { 0 } else { most } - loads.sum).max(0)).unwrap_or(i64::MAX)
        };
        self.with_tally(|tally| self.tables.shares.cells.iter().zip(&tally.by_cell).enumerate().map(left).collect())
    }

    // What is on all nodes now.
    fn tally(self) -> Tally {
        let shares = &self.tables.shares;
        let mut tally = self.ledger.shares.beside.clone();
        tally.by_cell.resize(shares.cells.len(), Loads::default());
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            let load = shares.load(bin);
            tally.total += i128::from(load) * i128::from(bin.nodes);
            for &cell in shares.cells_of(bin.pool, bin.planned) {
                if let Some(loads) = tally.by_cell.get_mut(cell.index()) {
                    loads.add(load, shares.least_pod(bin), bin.nodes);
                }
            }
        }
        tally
    }

    fn keeps(self, tally: &Tally, total: i128) -> bool {
        self.tables.shares.cells.iter().zip(&tally.by_cell).all(|(cell, loads)| {
            let share = self.ledger.shares.within(cell);
            loads.least_pod.is_none_or(|least| is_under(loads.sum - i128::from(least), share, total))
        })
    }

    /// The share of a cell, in billionths.
    pub(crate) fn share_of(self, cell: CellId) -> i128 {
        self.tables.shares.cells.get(cell.index()).map_or(ALL, |cell| self.ledger.shares.within(cell))
    }

    /// How full a cell is with such a load; to be compared only.
    pub(crate) fn fullness(self, cell: CellId, load: i128) -> i128 {
        load.saturating_mul(ALL) / self.share_of(cell).max(1)
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
