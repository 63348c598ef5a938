//! Rows and offers as a packing problem: numbers without names.

use berth_model::{Constraint, ResourceId};
use berth_packing::{BinType, Item, Need, Pattern, Problem, Rule};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::carry_out::Withdrawn;
use super::offers::{Offer, Offers};
use super::rows::{Row, Rows};
use crate::planner::Planner;
use crate::shares::TypicalLoads;

/// How much less a dollar of list price counts than a dollar of cost.
const LIST_PRICE: f64 = 1e-7;

/// Whom a spread over hostnames counts. One that comes later than the pods that have the spread is none of its business:
/// a pattern is open to any order where all are counted, and all packings are patterns where only those are that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spreads {
    MindAll,
    MindEachOther,
}

/// The problem, and the resources that its numbers are of, in order.
pub(crate) fn build(
    planner: &Planner<'_>,
    rows: &[Row],
    offers: &Offers,
    loads: Option<&TypicalLoads>,
    spreads: Spreads,
) -> (Problem, Vec<ResourceId>) {
    let requests = rows.iter().flat_map(|row| row.requests.iter());
    let mut asked: Vec<ResourceId> = requests.filter(|(_, need)| *need > 0).map(|(id, _)| id).collect();
    asked.sort_unstable();
    asked.dedup();
    let vector = |resources: &berth_model::Resources| asked.iter().map(|&id| resources.get(id)).collect::<Vec<_>>();
    let item = |row: &Row| Item { count: row.count(), size: vector(&row.requests), at_most: u32::MAX };
    let mut stocks = Stocks::new(planner, loads);
    let bins = offers.offers.iter().map(|offer| BinType {
        cost: offer.cost.dollars(),
        bias: offer.list_price.dollars() * LIST_PRICE,
        room: vector(&offer.room),
        admits: {
            let mut admits = offer.admits.clone();
            admits.grow(rows.len());
            admits
        },
        draws: stocks.draws(planner, offer),
    });
    let bins = bins.collect();
    let mut problem = Problem {
        items: rows.iter().map(item).collect(),
        bins,
        stocks: stocks.amounts,
        rules: rules(rows, spreads),
        ..Problem::default()
    };
    if let Spreads::MindAll = spreads {
        problem.needs.extend(needs(planner, rows, offers));
    }
    (problem, asked)
}

/// The packing that is there, as far as patterns can say it.
pub(crate) fn start(
    problem: &Problem,
    rows: &Rows<'_>,
    offers: &Offers,
    withdrawn: &[Withdrawn],
) -> Vec<(Pattern, u32)> {
    let bins = rows.bins.iter().zip(withdrawn).filter_map(|((_, contents), withdrawn)| {
        let bin = *offers.of.get(&(withdrawn.pool, withdrawn.planned))?;
        Some((Pattern { bin, items: contents.clone() }, withdrawn.nodes))
    });
    bins.filter(|(pattern, _)| problem.allows(pattern)).collect()
}

/// Supplies, limits and shares.
struct Stocks<'l> {
    amounts: Vec<f64>,
    /// By share: its stock. What a node draws from it depends on what is put on it; the search takes each type of node
    /// for as full as nodes of it are on average, and what is found is held to the exact share where it is carried out.
    shares: Vec<usize>,
    /// What is requested of a node's CPU, on average; `None` where shares are left out.
    loads: Option<&'l TypicalLoads>,
    slots: FxHashMap<berth_model::SlotId, usize>,
    /// By pool: the stock of each limit, and of the limit of nodes.
    limits: Vec<Vec<Limit>>,
}

/// What is left of a limit: its stock, the resource or nodes, and how much of that makes one of the stock.
type Limit = (usize, Option<ResourceId>, f64);

impl<'l> Stocks<'l> {
    fn new(planner: &Planner<'_>, loads: Option<&'l TypicalLoads>) -> Self {
        let mut stocks =
            Stocks { amounts: Vec::new(), shares: Vec::new(), loads, slots: FxHashMap::default(), limits: Vec::new() };
        if loads.is_some() {
            for left in planner.left_of_shares() {
                stocks.shares.push(stocks.amounts.len());
                stocks.amounts.push(left);
            }
        }
        for (index, pool) in planner.cluster.node_pools.iter().enumerate() {
            let mut limits = Vec::new();
            if let Some((used, nodes)) = planner.state.pool_use(index) {
                for &(resource, limit) in &pool.limits {
                    // Amounts are of the order of what one node takes, so that numbers are near each other.
                    let unit = planner.capacity(index, 0).map_or(1, |capacity| capacity.get(resource)).max(1);
                    limits.push((stocks.amounts.len(), Some(resource), float(unit)));
                    stocks.amounts.push(float(limit.saturating_sub(used.get(resource)).max(0)) / float(unit));
                }
                if let Some(limit) = pool.node_limit {
                    limits.push((stocks.amounts.len(), None, 1.0));
                    stocks.amounts.push(float(i64::from(limit) - i64::try_from(nodes).unwrap_or(i64::MAX)).max(0.0));
                }
            }
            stocks.limits.push(limits);
        }
        stocks
    }

    // What an offer draws from; its supply comes first.
    fn draws(&mut self, planner: &Planner<'_>, offer: &Offer) -> Vec<(usize, f64)> {
        let mut draws = Vec::new();
        if let Some(slot) = offer.slot {
            let next = self.amounts.len();
            let stock = *self.slots.entry(slot).or_insert(next);
            if stock == next {
                self.amounts.push(f64::from(planner.state.free_slots(slot)));
            }
            draws.push((stock, 1.0));
        }
        let capacity = planner.capacity(offer.pool, offer.column);
        for &(stock, resource, unit) in self.limits.get(offer.pool).into_iter().flatten() {
            let amount = match (resource, capacity) {
                (Some(resource), Some(capacity)) => float(capacity.get(resource)) / unit,
                _ => 1.0,
            };
            if amount > 0.0 {
                draws.push((stock, amount));
            }
        }
        let column = planner.tables.get(offer.pool).and_then(|table| table.columns.get(offer.column));
        let load = self.loads.zip(column).map_or(0.0, |(loads, column)| loads.of(column.instance_type));
        let cpu = float(offer.room.get(ResourceId::CPU).max(0)) / 1000.0 * load;
        for &cell in planner.shares.cells_of(offer.pool, offer.column) {
            if let Some(&stock) = self.shares.get(cell as usize).filter(|_| cpu > 0.0) {
                draws.push((stock, cpu));
            }
        }
        draws
    }
}

// Nodes with accelerators, slots aside, hold a pod that asks for some.
fn needs(planner: &Planner<'_>, rows: &[Row], offers: &Offers) -> Option<Need> {
    let mut need =
        Need { bins: FixedBitSet::with_capacity(offers.offers.len()), items: FixedBitSet::with_capacity(rows.len()) };
    for (at, offer) in offers.offers.iter().enumerate() {
        need.bins.set(at, planner.is_kept(offer.pool, offer.column));
    }
    for (at, row) in rows.iter().enumerate() {
        need.items.set(at, planner.accelerators.are_in(&row.requests));
    }
    (!need.bins.is_clear()).then_some(need)
}

// What may not be together on a node, or only so many.
fn rules(rows: &[Row], spreads: Spreads) -> Vec<Rule> {
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
            Constraint::Apart { counts_self, .. } => u32::from(counts_self),
            Constraint::Together { .. } => continue,
        };
        let counter = constraint.counter();
        let members = rows.iter().zip(0_u32..).filter(|(row, _)| row.host_counts.contains(&counter));
        let mut members: Vec<u32> = members.map(|(_, index)| index).collect();
        if spreads == Spreads::MindEachOther && matches!(constraint, Constraint::Spread { .. }) {
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
