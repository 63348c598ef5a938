//! What pods cost at least on nodes that are launched for them: a bound that takes no search, for what-ifs by the thousand.
//!
//! Any weights of resources under which no column is worth more than its price bound a packing from below: its nodes cost
//! at least what the requests on them weigh. That is a feasible dual solution of the fractional packing; a grid of
//! directions gives enough of them.

mod choices;
mod cover;

use std::rc::Rc;
use std::sync::Arc;

use berth_model::{ClassId, Cluster, Column, ColumnTable, Money, ResourceId, Resources, Universe};
use berth_scheduling::{admit, demands};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use self::choices::{Weights, float};
use crate::below::below;
use crate::launchable::Launching;
use crate::options::Options;

/// Parts into which a direction is split among resources, by how many resources there are; more resources, fewer parts.
const PARTS: [u32; 6] = [0, 1, 16, 10, 6, 4];

/// Resources beyond which directions have one or two of them.
const MANY_RESOURCES: usize = 5;

/// Bounds what pods cost at least, should nodes be launched for them.
#[derive(Debug)]
pub struct Floor<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    tables: Arc<[ColumnTable]>,
    node_cost: Money,
    supply: Supply,
    classes: FxHashMap<ClassId, Known>,
    /// Columns that admit a class, by pool: few sets for many classes.
    groups: Vec<Vec<FixedBitSet>>,
    group_ids: FxHashMap<Vec<FixedBitSet>, u32>,
    weights: FxHashMap<Vec<u32>, Vec<Weights>>,
    choices: FxHashMap<choices::Key, Rc<choices::Choices>>,
}

/// Which columns count as there, and by which price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// All, by what choosing them costs.
    All,
    /// Those that are paid for, as if there were no reservations.
    Paid,
    /// Free slots of reservations, by the price list.
    Slots,
}

/// What is known of a class.
#[derive(Clone, Copy, Debug)]
struct Known {
    group: u32,
    /// What the cheapest node for one costs; `None` where no column takes one.
    alone: Option<Money>,
}

/// What pods ask for together.
struct Asked {
    /// The groups of their classes, ascending.
    groups: Vec<u32>,
    sum: Resources,
    /// What the cheapest node for the dearest of them costs.
    alone: Money,
}

// === impl Floor ===

impl<'a> Floor<'a> {
    /// Bounds for the classes of a universe, by what its cluster may launch and the slots that are free.
    pub fn new(cluster: &'a Cluster, universe: &'a Universe, launching: &Launching, options: &Options) -> Self {
        Floor {
            cluster,
            universe,
            tables: Arc::clone(&launching.tables),
            node_cost: options.node_cost,
            supply: Supply::All,
            classes: FxHashMap::default(),
            groups: Vec::new(),
            group_ids: FxHashMap::default(),
            weights: FxHashMap::default(),
            choices: FxHashMap::default(),
        }
    }

    /// The same as if there were no reservations.
    pub fn of_paid(cluster: &'a Cluster, universe: &'a Universe, launching: &Launching, options: &Options) -> Self {
        Floor { supply: Supply::Paid, ..Floor::new(cluster, universe, launching, options) }
    }

    /// The same of free slots alone, by the price list, as one slot is compared with others.
    pub fn of_slots(cluster: &'a Cluster, universe: &'a Universe, launching: &Launching, options: &Options) -> Self {
        Floor { supply: Supply::Slots, ..Floor::new(cluster, universe, launching, options) }
    }

    /// What each of these sets of pods is worth at the dual prices, the same for all, at which all together are worth most.
    pub fn split(&mut self, sets: &[Vec<(ClassId, u32)>]) -> Vec<Money> {
        let mut groups: Vec<u32> = Vec::new();
        let mut sums: Vec<Resources> = Vec::with_capacity(sets.len());
        let mut all = Resources::new();
        for set in sets {
            let mut sum = Resources::new();
            for &(class, count) in set {
                let known = self.known(class);
                let Some(requests) = self.requests(class).filter(|_| known.alone.is_some()) else { continue };
                groups.push(known.group);
                sum.add_times(requests, i64::from(count));
            }
            all.add(&sum);
            sums.push(sum);
        }
        groups.sort_unstable();
        groups.dedup();
        let weights = self.weights_of(&groups);
        let best = weights.iter().max_by(|a, b| weigh(a, &all).total_cmp(&weigh(b, &all)));
        sums.iter().map(|sum| best.map_or(Money::ZERO, |weights| below(weigh(weights, sum)))).collect()
    }

    /// Dollars an hour that new nodes for these pods cost at least, limits and topology aside; `None` where no node could
    /// be launched for some of them.
    pub fn of(&mut self, pods: &[(ClassId, u32)]) -> Option<Money> {
        let asked = self.asked(pods)?;
        let weights = self.weights_of(&asked.groups);
        let most = weights.iter().map(|weights| weigh(weights, &asked.sum)).fold(0.0, f64::max);
        Some(asked.alone.max(below(most)))
    }

    fn asked(&mut self, pods: &[(ClassId, u32)]) -> Option<Asked> {
        let mut asked = Asked { groups: Vec::with_capacity(pods.len()), sum: Resources::new(), alone: Money::ZERO };
        for &(class, count) in pods.iter().filter(|(_, count)| *count > 0) {
            let known = self.known(class);
            asked.alone = asked.alone.max(known.alone?);
            asked.groups.push(known.group);
            asked.sum.add_times(self.requests(class)?, i64::from(count));
        }
        asked.groups.sort_unstable();
        asked.groups.dedup();
        Some(asked)
    }

    fn requests(&self, class: ClassId) -> Option<&'a Resources> {
        let spec = self.universe.class(class)?.spec;
        self.cluster.spec(spec).map(|spec| &spec.requests)
    }

    /// The columns that admit a class under any of its demands, and its cheapest node.
    fn known(&mut self, class: ClassId) -> Known {
        if let Some(known) = self.classes.get(&class) {
            return *known;
        }
        let mut admitted: Vec<FixedBitSet> =
            self.tables.iter().map(|table| FixedBitSet::with_capacity(table.columns.len())).collect();
        for demand in demands(self.cluster, self.universe, class) {
            let pools = self.cluster.node_pools.iter().zip(&*self.tables).zip(&mut admitted);
            for ((pool, table), admitted) in pools {
                for admission in admit(self.cluster, pool, table, &demand) {
                    admitted.union_with(&admission.columns);
                }
            }
        }
        let mut alone: Option<Money> = None;
        for (table, admitted) in self.tables.iter().zip(&mut admitted) {
            for (at, column) in table.with_ids() {
                if admitted.contains(at.index()) && !self.is_there(column) {
                    admitted.set(at.index(), false);
                }
            }
            let mut fitting = admitted.clone();
            if let Some(requests) = self.requests(class) {
                table.keep_fitting(&mut fitting, requests);
            }
            let prices = fitting.ones().filter_map(|at| table.columns.get(at)).map(|column| self.price(column));
            alone = prices.chain(alone).min();
        }
        let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let group = *self.group_ids.entry(admitted).or_insert_with_key(|admitted| {
            self.groups.push(admitted.clone());
            next
        });
        let known = Known { group, alone };
        self.classes.insert(class, known);
        known
    }

    fn is_there(&self, column: &Column) -> bool {
        let is_meant = match self.supply {
            Supply::All => true,
            Supply::Paid => column.price > Money::ZERO,
            Supply::Slots => column.slots.is_some() && column.price <= Money::ZERO,
        };
        if !is_meant {
            return false;
        }
        let slots = column.slots.map(|slots| self.cluster.slots.get(slots.index()));
        slots.is_none_or(|slots| slots.is_some_and(|slots| slots.free > 0))
    }

    fn price(&self, column: &Column) -> Money {
        if self.supply == Supply::Slots { column.list_price } else { column.price + self.node_cost }
    }

    /// Weights under which no column that admits any of these groups is worth more than it costs.
    fn weights_of(&mut self, groups: &[u32]) -> &[Weights] {
        if !self.weights.contains_key(groups) {
            let weights = self.find_weights(groups);
            self.weights.insert(groups.to_vec(), weights);
        }
        self.weights.get(groups).map_or(&[], Vec::as_slice)
    }

    fn find_weights(&self, groups: &[u32]) -> Vec<Weights> {
        let mut columns: Vec<(f64, &Resources)> = Vec::new();
        for (pool, table) in self.tables.iter().enumerate() {
            let mut any = FixedBitSet::with_capacity(table.columns.len());
            for &group in groups {
                if let Some(admitted) = self.groups.get(group as usize).and_then(|by_pool| by_pool.get(pool)) {
                    any.union_with(admitted);
                }
            }
            let admitted = any.ones().filter_map(|at| table.columns.get(at));
            columns.extend(admitted.map(|column| (self.price(column).dollars(), &column.room)));
        }
        if columns.iter().any(|(price, _)| *price <= 0.0) {
            return Vec::new();
        }
        // What a unit of a resource costs at least, where a node has nothing else.
        let mut units: Vec<(ResourceId, f64)> = Vec::new();
        let n_resources = columns.iter().map(|(_, room)| room.amounts().len()).max().unwrap_or(0);
        for index in 0..n_resources {
            let Ok(index) = u16::try_from(index) else { break };
            let resource = ResourceId(index);
            let of = columns.iter().filter(|(_, room)| room.get(resource) > 0);
            let least = of.map(|(price, room)| price / float(room.get(resource))).fold(f64::INFINITY, f64::min);
            if least.is_finite() {
                units.push((resource, least));
            }
        }
        let directions = directions(units.len());
        let scaled = directions.into_iter().filter_map(|direction| {
            let weights = direction.iter().zip(&units).filter(|(part, _)| **part > 0);
            let weights: Weights =
                weights.map(|(part, (resource, unit))| (*resource, f64::from(*part) * unit)).collect();
            let scale = columns.iter().filter_map(|(price, room)| {
                let weight = weigh(&weights, room);
                (weight > 0.0).then(|| price / weight)
            });
            let scale = scale.fold(f64::INFINITY, f64::min);
            scale
                .is_finite()
                .then(|| weights.into_iter().map(|(resource, weight)| (resource, weight * scale)).collect())
        });
        scaled.collect()
    }
}

fn weigh(weights: &[(ResourceId, f64)], amounts: &Resources) -> f64 {
    weights.iter().map(|&(resource, weight)| weight * float(amounts.get(resource).max(0))).sum()
}

/// All ways to split a number of parts among `n` resources; for many resources each alone, and each two half and half.
fn directions(n: usize) -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    if n > MANY_RESOURCES {
        for first in 0..n {
            for second in first..n {
                out.push((0..n).map(|at| u32::from(at == first) + u32::from(at == second)).collect());
            }
        }
        return out;
    }
    let parts = PARTS.get(n).copied().unwrap_or(1);
    split(n, parts, &mut Vec::with_capacity(n), &mut out);
    out
}

fn split(n: usize, left: u32, begun: &mut Vec<u32>, out: &mut Vec<Vec<u32>>) {
    if begun.len() + 1 >= n {
        if n > 0 {
            begun.push(left);
            out.push(begun.clone());
            begun.pop();
        }
        return;
    }
    for part in 0..=left {
        begun.push(part);
        split(n, left - part, begun, out);
        begun.pop();
    }
}
