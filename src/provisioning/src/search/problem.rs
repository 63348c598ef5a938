//! Rows and offers as a packing problem: numbers without names.

use berth_model::{Constraint, PoolId, ResourceId};
use berth_packing::{BinType, Item, Need, Pattern, Problem, Rule};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::carry_out::Withdrawn;
use super::offers::{Offer, Offers};
use super::rows::{Row, Rows};

use crate::tables::PoolColumn;
use crate::world::World;

/// How much less a dollar of list price counts than a dollar of cost.
const LIST_PRICE: f64 = 1e-7;

/// What counts as one in stocks of shares, in milli-CPU.
const WEIGHT: f64 = 1000.0;

/// What a problem is built for: where patterns cannot say just what a plan must keep to, every packing is to be a plan, or
/// every plan a packing.
///
/// Whom a spread over hostnames counts depends on the order: one that comes later than the pods that have the spread is
/// none of its business. For plans all are counted, for bounds only those that have it. A share is rounded up to the
/// smallest pod that its value has: for plans to the smallest that it may have, for bounds to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Plans,
    Bounds,
}

/// The problem, and the resources that its numbers are of, in order.
pub(crate) fn build(world: World<'_>, rows: &[Row], offers: &Offers, purpose: Purpose) -> (Problem, Vec<ResourceId>) {
    let requests = rows.iter().flat_map(|row| row.requests.iter());
    let mut asked: Vec<ResourceId> = requests.filter(|(_, need)| *need > 0).map(|(id, _)| id).collect();
    asked.sort_unstable();
    asked.dedup();
    let vector = |resources: &berth_model::Resources| asked.iter().map(|&id| resources.get(id)).collect::<Vec<_>>();
    let item = |row: &Row| Item {
        count: row.count(),
        size: vector(&row.requests),
        at_most: u32::MAX,
        load: float(row.weight) / WEIGHT,
    };
    let mut stocks = Stocks::new(world, rows, offers, purpose);
    let bins = offers.offers.iter().map(|offer| BinType {
        cost: offer.cost.dollars(),
        bias: offer.list_price.dollars() * LIST_PRICE,
        room: vector(&offer.room),
        admits: {
            let mut admits = offer.admits.clone();
            admits.grow(rows.len());
            admits
        },
        draws: stocks.draws(world, offer),
        loads: stocks.loads(world, offer),
    });
    let bins = bins.collect();
    let problem = Problem {
        items: rows.iter().map(item).collect(),
        bins,
        stocks: stocks.amounts,
        rules: rules(rows, purpose),
        needs: needs(world, rows, offers).into_iter().collect(),
    };
    (problem, asked)
}

/// The packing that is there, as far as patterns can say it.
pub(crate) fn start(
    problem: &Problem,
    rows: &Rows<'_>,
    offers: &Offers,
    withdrawn: &[Withdrawn],
) -> Vec<(Pattern, u32)> {
    let bins = rows.bins.iter().zip(withdrawn).filter_map(|(of_bin, withdrawn)| {
        let bin = *offers.of.get(&PoolColumn { pool: withdrawn.pool, column: withdrawn.planned })?;
        Some((Pattern { bin, items: of_bin.contents.clone() }, withdrawn.nodes))
    });
    bins.filter(|(pattern, _)| problem.allows(pattern)).collect()
}

/// Supplies, limits and shares.
struct Stocks {
    amounts: Vec<f64>,
    /// By share: its stock, which pods draw from.
    shares: Vec<usize>,
    slots: FxHashMap<berth_model::SlotId, usize>,
    /// By pool: the stock of each limit, and of the limit of nodes.
    limits: Vec<Vec<Limit>>,
}

/// What is left of a limit.
struct Limit {
    stock: usize,
    /// `None` for the limit of nodes.
    resource: Option<ResourceId>,
    /// How much of it makes one of the stock.
    unit: f64,
}

impl Stocks {
    fn new(world: World<'_>, rows: &[Row], offers: &Offers, purpose: Purpose) -> Self {
        let mut stocks =
            Stocks { amounts: Vec::new(), shares: Vec::new(), slots: FxHashMap::default(), limits: Vec::new() };
        if (purpose == Purpose::Plans && world.tables.counts_shares()) || world.tables.bounds_count_shares() {
            for left in world.left_of_shares(&pods_of_cells(world, rows, offers, purpose)) {
                stocks.shares.push(stocks.amounts.len());
                stocks.amounts.push(float(left) / WEIGHT);
            }
        }
        for (index, pool) in world.tables.cluster.node_pools.iter().enumerate() {
            let id = PoolId::new(index);
            let mut limits = Vec::new();
            if let Some((used, nodes)) = world.ledger.state.pool_use(id) {
                for &(resource, limit) in &pool.limits {
                    // Amounts are of the order of what one node takes, so that numbers are near each other.
                    let unit = world.tables.first_capacity(id).map_or(1, |capacity| capacity.get(resource)).max(1);
                    limits.push(Limit { stock: stocks.amounts.len(), resource: Some(resource), unit: float(unit) });
                    stocks.amounts.push(float(limit.saturating_sub(used.get(resource)).max(0)) / float(unit));
                }
                if let Some(limit) = pool.node_limit {
                    limits.push(Limit { stock: stocks.amounts.len(), resource: None, unit: 1.0 });
                    stocks.amounts.push(float(i64::from(limit) - i64::try_from(nodes).unwrap_or(i64::MAX)).max(0.0));
                }
            }
            stocks.limits.push(limits);
        }
        stocks
    }

    // What an offer draws from; its supply comes first.
    fn draws(&mut self, world: World<'_>, offer: &Offer) -> Vec<(usize, f64)> {
        let mut draws = Vec::new();
        if let Some(slot) = offer.slot {
            let next = self.amounts.len();
            let stock = *self.slots.entry(slot).or_insert(next);
            if stock == next {
                self.amounts.push(f64::from(world.ledger.state.free_slots(slot)));
            }
            draws.push((stock, 1.0));
        }
        let capacity = world.tables.capacity(offer.pool, offer.column);
        for &Limit { stock, resource, unit } in self.limits.get(offer.pool.index()).into_iter().flatten() {
            let amount = match (resource, capacity) {
                (Some(resource), Some(capacity)) => float(capacity.get(resource)) / unit,
                _ => 1.0,
            };
            if amount > 0.0 {
                draws.push((stock, amount));
            }
        }
        draws
    }

    // The shares that what is on an offer counts in.
    fn loads(&self, world: World<'_>, offer: &Offer) -> Vec<usize> {
        let cells = world.tables.shares.cells_of(offer.pool, offer.column).iter();
        cells.filter_map(|&cell| self.shares.get(cell.index()).copied()).collect()
    }
}

// By cell of the shares: the smallest pod that may be there, or the largest.
fn pods_of_cells(world: World<'_>, rows: &[Row], offers: &Offers, purpose: Purpose) -> Vec<Option<i64>> {
    let choose = |pods: &mut dyn Iterator<Item = i64>| match purpose {
        Purpose::Plans => pods.min(),
        Purpose::Bounds => pods.max(),
    };
    let mut pods: Vec<Option<i64>> = Vec::new();
    for offer in &offers.offers {
        let mut weights = offer.admits.ones().filter_map(|row| rows.get(row)).map(|row| row.weight);
        let pod = choose(&mut weights);
        for &cell in world.tables.shares.cells_of(offer.pool, offer.column) {
            pods.resize(pods.len().max(cell.index() + 1), None);
            if let Some(known) = pods.get_mut(cell.index()) {
                *known = choose(&mut known.iter().copied().chain(pod));
            }
        }
    }
    pods
}

// Nodes with accelerators, slots aside, hold a pod that asks for some.
fn needs(world: World<'_>, rows: &[Row], offers: &Offers) -> Option<Need> {
    let mut need =
        Need { bins: FixedBitSet::with_capacity(offers.offers.len()), items: FixedBitSet::with_capacity(rows.len()) };
    for (at, offer) in offers.offers.iter().enumerate() {
        need.bins.set(at, world.tables.accelerators.is_kept(offer.pool, offer.column));
    }
    for (at, row) in rows.iter().enumerate() {
        need.items.set(at, world.tables.accelerators.are_in(&row.requests));
    }
    (!need.bins.is_clear()).then_some(need)
}

// What may not be together on a node, or only so many.
fn rules(rows: &[Row], purpose: Purpose) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut subjects: Vec<(Constraint, Vec<u32>)> = Vec::new();
    for (row, index) in rows.iter().zip(0_u32..) {
        for &constraint in &row.host {
            match subjects.iter_mut().find(|(known, _)| *known == constraint) {
                Some((_, subjects)) => subjects.push(index),
                None => subjects.push((constraint, vec![index])),
            }
        }
    }
    for (constraint, subjects) in subjects {
        let at_most = match constraint {
            Constraint::Spread { max_skew, .. } => max_skew,
            Constraint::AntiAffinity { counts_self, .. } => u32::from(counts_self),
            Constraint::Affinity { .. } => continue,
        };
        let counter = constraint.counter();
        let members = rows.iter().zip(0_u32..).filter(|(row, _)| row.host_counts.contains(&counter));
        let mut members: Vec<u32> = members.map(|(_, index)| index).collect();
        if purpose == Purpose::Bounds && matches!(constraint, Constraint::Spread { .. }) {
            members.retain(|index| subjects.binary_search(index).is_ok());
        }
        rules.push(Rule { subjects, counted: members, at_most });
    }
    let mut ports: Vec<&berth_model::HostPort> = rows.iter().flat_map(|row| &row.ports).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        let users: Vec<u32> = rows
            .iter()
            .zip(0_u32..)
            .filter(|(row, _)| row.ports.iter().any(|other| other.conflicts(port)))
            .map(|(_, index)| index)
            .collect();
        rules.push(Rule { subjects: users.clone(), counted: users, at_most: 1 });
    }
    rules
}

#[expect(clippy::cast_precision_loss, reason = "a search's estimate; the plan is held to exact numbers")]
fn float(amount: i64) -> f64 {
    amount as f64
}
