//! New nodes for the pods of one node, planned for many nodes one after another over one planner. What-ifs by the thousand ask
//! first whether some plan costs less than the node does: mostly one new node for all is such a plan, or one of a few quick
//! packings.

use std::collections::BTreeSet;

use berth_model::{
    ClassId, Cluster, ColumnId, ColumnTable, Constraint, CounterId, HostCounts, Money, PodSpec, Resources, Sym,
    Universe, Volumes, host_allowance,
};
use berth_scheduling::Counted;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::caches::Caches;
use crate::launchable::Launching;
use crate::ledger::{Ledger, Tally};
use crate::options::{Effort, Options};
use crate::packing::Packing;
use crate::planner::Planner;
use crate::portfolio::{pack_anew, strategies_for};
use crate::rounds::finish_packing;
use crate::strategy::Strategy;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// Single nodes that are tried: the cheapest may be in a zone where the pods may not be.
const MOST_SINGLE: usize = 4;

/// Pods to be placed, by class.
type Pods = [(ClassId, u32)];

/// Whether a packing is among those that are tried first: few, and each finds what others do not.
fn is_quick(strategy: &Strategy) -> bool {
    let base = Strategy::default();
    let quick = [
        base,
        Strategy { shares_with_later: true, ..base },
        Strategy { by_share: true, ..base },
        Strategy { never_grows: true, ..base },
        Strategy { by_share: true, shares_with_later: true, ..base },
    ];
    quick.contains(strategy)
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNodes {
    /// What the nodes cost an hour, slots nothing.
    pub price: Money,
    /// How many there are.
    pub count: u32,
}

/// Plans new nodes for a few pods at a time, beside pods that stay where they are.
pub struct Trials<'a> {
    planner: Planner<'a>,
    /// The cluster with its nodes.
    cluster: &'a Cluster,
    /// By topology key: the values that its nodes have.
    values: FxHashMap<Sym, BTreeSet<Sym>>,
    /// By counter: whether each domain in which nodes exist may get new ones.
    known_domains: FxHashMap<CounterId, bool>,
    is_possible: bool,
}

// === impl Trials ===

impl<'a> Trials<'a> {
    /// `supply` is the cluster [without nodes](Cluster::without_nodes); both share the universe.
    pub fn new(
        supply: &'a Cluster,
        cluster: &'a Cluster,
        universe: &'a Universe,
        launching: &Launching,
        options: &'a Options,
    ) -> Self {
        let planner = Planner::of(supply, universe, options, launching);
        let weights = || supply.node_pools.iter().map(|pool| pool.weight);
        // Where pools differ in weight, cost does not decide alone; where pods choose a domain's name, one packing is not all.
        let is_possible = weights().min() == weights().max()
            && options.max_shares.is_empty()
            && !planner.tables.has_open_domains()
            && !planner.tables.pools().any(|pool| planner.tables.is_limited(pool));
        Trials { planner, cluster, values: FxHashMap::default(), known_domains: FxHashMap::default(), is_possible }
    }

    /// The counters that decide where these pods may go; `None` where their plan depends on more than that.
    pub fn counters(&mut self, pods: &Pods) -> Option<Vec<CounterId>> {
        let mut counters: Vec<CounterId> = Vec::new();
        for &(id, _) in pods.iter().filter(|_| self.is_possible) {
            let class = self.planner.tables.universe.class(id)?;
            self.planner.tables.cluster.spec(class.spec).filter(|spec| is_free_to_go(spec))?;
            let preferred = &class.preferred;
            let weighted = preferred.affinity.iter().chain(&preferred.anti_affinity).map(|(_, constraint)| constraint);
            let all = class.required.iter().chain(&preferred.spread).chain(weighted);
            counters.extend(all.map(Constraint::counter));
        }
        counters.sort_unstable();
        counters.dedup();
        let are_known = self.is_possible && counters.iter().all(|counter| self.knows_domains(*counter));
        are_known.then_some(counters)
    }

    /// Whether new nodes may come to every domain in which there are nodes: else a spread looks at domains that the planner,
    /// which has no nodes, does not know.
    fn knows_domains(&mut self, counter: CounterId) -> bool {
        if let Some(known) = self.known_domains.get(&counter) {
            return *known;
        }
        let Some(key) = self.planner.tables.universe.counter(counter).map(|counter| counter.key) else { return false };
        let is_known = key == self.cluster.well_known.hostname || {
            let domains =
                self.planner.caches.domains.of(World::new(&self.planner.tables, &self.planner.ledger), counter);
            let nodes = &self.cluster.nodes;
            let values = self.values.entry(key);
            let values = values.or_insert_with(|| nodes.iter().filter_map(|node| node.labels.get(key)).collect());
            values.iter().all(|value| domains.contains(value))
        };
        self.known_domains.insert(counter, is_known);
        is_known
    }

    /// New nodes that cost less than this together, what each costs beyond its price included; `None` where neither a single
    /// node nor a quick packing is found. `counted` are [the counters](Trials::counters) as they are without the pods.
    pub fn below(&mut self, pods: &Pods, counted: &[Counted], below: Money) -> Option<NewNodes> {
        self.beside(counted, |planner| {
            let Planner { tables, ledger, caches } = planner;
            let start = ledger.state.mark();
            for at in single_nodes(tables, caches, pods, below) {
                if puts_on_one(tables, ledger, caches, pods, at)
                    && let Some(found) = World::new(tables, ledger).planned_nodes()
                {
                    return Some(found);
                }
                ledger.state.rollback(start);
            }
            // A whole search tries each of them, too, so it finds nothing dearer.
            strategies_for(pods.len()).filter(is_quick).find_map(|strategy| {
                ledger.state.rollback(start);
                pack_these(tables, ledger, caches, pods, strategy);
                World::new(tables, ledger).planned_nodes().filter(|found| tables.cost_of(*found) < below)
            })
        })
    }

    /// The new nodes that a whole search finds; `None` where a pod has no place or has to give up what it prefers.
    pub fn search(&mut self, pods: &Pods, counted: &[Counted]) -> Option<NewNodes> {
        self.beside(counted, |planner| {
            let Planner { tables, ledger, caches } = planner;
            let start = ledger.state.mark();
            let mut best: Option<(Money, u32, Strategy)> = None;
            for strategy in strategies_for(pods.len()) {
                ledger.state.rollback(start);
                pack_these(tables, ledger, caches, pods, strategy);
                let Some(found) = World::new(tables, ledger).planned_nodes() else { continue };
                let cost = tables.cost_of(found);
                if best.is_none_or(|(least, count, _)| (cost, found.count) < (least, count)) {
                    best = Some((cost, found.count, strategy));
                }
            }
            let (.., strategy) = best?;
            ledger.state.rollback(start);
            pack_these(tables, ledger, caches, pods, strategy);
            pack_anew(tables, ledger, caches, Effort::Default, false);
            World::new(tables, ledger).planned_nodes()
        })
    }

    // Asks the planner while pods are counted as is said. Everything is taken back.
    fn beside<T>(&mut self, counted: &[Counted], ask: impl FnOnce(&mut Planner<'a>) -> T) -> T {
        let state = &mut self.planner.ledger.state;
        let start = state.mark();
        for known in counted {
            let mut elsewhere = known.total;
            for &(domain, pods) in &known.domains {
                state.add_count(known.counter, Some(domain), pods);
                elsewhere = elsewhere.saturating_sub(pods);
            }
            if elsewhere > 0 {
                state.add_count(known.counter, None, elsewhere);
            }
        }
        let found = ask(&mut self.planner);
        self.planner.ledger.state.rollback(start);
        self.planner.ledger.state.forget(start);
        found
    }
}

impl std::fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trials").field("is_possible", &self.is_possible).finish_non_exhaustive()
    }
}

/// Whether where a pod goes depends on nothing but room, labels and counters.
fn is_free_to_go(spec: &PodSpec) -> bool {
    spec.volumes == Volumes::default()
        && spec.reservation == berth_model::ReservationAsk::default()
        && spec.units == berth_model::UnitsAsk::default()
        && spec.refusal.is_none()
        && spec.nominated_node.is_none()
}

impl Tables<'_> {
    fn cost_of(&self, found: NewNodes) -> Money {
        found.price + self.options.node_cost.times(u64::from(found.count))
    }
}

impl World<'_> {
    /// The nodes, where every pod has its place, and none gave up what it prefers.
    fn planned_nodes(self) -> Option<NewNodes> {
        if !self.ledger.tally.left.is_empty() || self.ledger.tally.relaxations > 0 {
            return None;
        }
        let mut found = NewNodes { price: Money::ZERO, count: 0 };
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            let column = self.tables.table(bin.pool).column(bin.planned);
            found.price += column.price.times(u64::from(bin.nodes));
            found.count += bin.nodes;
        }
        Some(found)
    }
}

/// Packs these pods, whatever the universe says is pending.
fn pack_these<'a>(tables: &Tables<'a>, ledger: &mut Ledger, caches: &mut Caches<'a>, pods: &Pods, strategy: Strategy) {
    ledger.tally = Tally::default();
    ledger.remaining = Resources::new();
    for &(id, count) in pods {
        if let Some(class) = tables.universe.class(id) {
            let requests = tables.spec(class).requests.clone();
            ledger.remaining.add_times(&requests, i64::from(count));
        }
    }
    Packing { tables, strategy }.pack_in_order(ledger, caches, pods.to_vec());
    finish_packing(tables, ledger, &mut caches.listings);
}

/// Paid columns that cost less than this and have room for all of these pods, the cheapest first.
fn single_nodes<'a>(tables: &Tables<'a>, caches: &mut Caches<'a>, pods: &Pods, below: Money) -> Vec<PoolColumn> {
    let mut sum = Resources::new();
    let mut admitted: Vec<FixedBitSet> = tables.columns.iter().map(ColumnTable::all).collect();
    for (columns, table) in admitted.iter_mut().zip(&*tables.columns) {
        columns.difference_with(&table.reserved);
    }
    for &(id, count) in pods {
        let askings = caches.askings(tables, id);
        let Some([prepared]) = askings.first().map(|asking| asking.ways(tables)) else { return Vec::new() };
        sum.add_times(prepared.requests, i64::from(count));
        for (pool, columns) in tables.pools().zip(&mut admitted) {
            match prepared.admissions.get(pool.index()).and_then(Option::as_ref) {
                Some(admission) => columns.intersect_with(&admission.columns),
                None => columns.clear(),
            }
            if let Some(kept) = tables.accelerators.kept_from(id, pool) {
                columns.difference_with(kept);
            }
        }
    }
    let mut found: Vec<(Money, PoolColumn)> = Vec::new();
    for ((pool, table), mut columns) in tables.by_pool().zip(admitted) {
        table.keep_fitting(&mut columns, &sum);
        let known = ColumnId::of(&columns).map(|at| (at, table.column(at)));
        let paid = known.filter(|(_, column)| column.slots.is_none());
        let cheaper = paid.take_while(|(_, column)| column.price + tables.options.node_cost < below);
        found.extend(cheaper.take(MOST_SINGLE).map(|(at, column)| (column.price, PoolColumn { pool, column: at })));
    }
    found.sort_unstable();
    found.truncate(MOST_SINGLE);
    found.into_iter().map(|(_, at)| at).collect()
}

/// Puts all of these pods on one node of a column, each with all that it prefers; false where some may not be there.
fn puts_on_one<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    pods: &Pods,
    at: PoolColumn,
) -> bool {
    let PoolColumn { pool, column } = at;
    ledger.tally = Tally::default();
    let table = tables.table(pool);
    for &(id, count) in pods {
        let askings = caches.askings(tables, id);
        let Some([prepared]) = askings.first().map(|asking| asking.ways(tables)) else { return false };
        let pin = match &prepared.demand.keyed[..] {
            [] => None,
            [(key, constraints)] => {
                let Some(value) = tables.value_on(table, &table.open, column, *key) else { return false };
                let names = caches.domains.names(World::new(tables, ledger), constraints);
                let Some(at) = names.iter().position(|name| *name == value) else { return false };
                if caches.domains.loads(World::new(tables, ledger), names, constraints).allowance(at, count) < count {
                    return false;
                }
                Some((*key, value))
            }
            _ => return false,
        };
        let scope = prepared.scope(tables, pin.as_slice());
        let is_put = match ledger.state.bins().first() {
            None => {
                let is_first = |counter| ledger.state.total(counter) == 0;
                let hosts = host_allowance(&HostCounts::default(), &scope.host, is_first);
                let hosts = if scope.spec().excludes_its_like() { hosts.min(1) } else { hosts };
                hosts >= count && ledger.open(tables, pool, column, 1, &scope, count)
            }
            Some(bin) if World::new(tables, ledger).allowance_on_bin(bin, &scope) < count => false,
            Some(bin) => match World::new(tables, ledger).join(bin, &scope, count, column) {
                Some(join) => {
                    ledger.commit(tables, 0, 1, &scope, join);
                    true
                }
                None => false,
            },
        };
        if !is_put {
            return false;
        }
    }
    true
}
