//! What could be launched beside the nodes that exist, for a scheduler that binds to these first.

use std::sync::Arc;

use berth_model::{Cluster, ColumnTable, Constraint, CounterId, FilterId, NodePool, Sym, Universe};
use berth_scheduling::{EmptyHost, Launchable, Passage, launch_passages};
use rustc_hash::FxHashMap;

use crate::launch_domains::{is_live, launch_filters, values};
use crate::pool_limits::is_within_limits;

/// The domains that NodePools could launch nodes in, by spread constraint: a pod that a spread keeps off the nodes that
/// exist may be the first of a new one.
pub fn launchable(cluster: &Cluster, universe: &Universe) -> Launchable {
    Launching::new(cluster).launchable(cluster, universe)
}

/// What the NodePools of a cluster may launch: to be asked again while they, the catalogue and DaemonSets are what they were.
#[derive(Clone, Debug)]
pub struct Launching {
    /// Of NodePools that nothing may be launched from, too.
    pub(crate) tables: Arc<[ColumnTable]>,
}

impl Launching {
    /// Reads NodePools and catalogue.
    pub fn new(cluster: &Cluster) -> Self {
        Launching { tables: cluster.node_pools.iter().map(|pool| ColumnTable::new(cluster, pool)).collect() }
    }

    /// See [`launchable`]. It depends on which supplies have a free instance and on what limits of NodePools leave, see
    /// [`Launching::within_limits`], not on pods.
    pub fn launchable(&self, cluster: &Cluster, universe: &Universe) -> Launchable {
        of_tables(cluster, universe, &self.tables)
    }

    /// Of NodePools with limits, whether these hold one more node of each kind, beside the nodes that exist.
    pub fn within_limits(&self, cluster: &Cluster) -> Vec<bool> {
        let is_limited = |pool: &NodePool| pool.node_limit.is_some() || !pool.limits.is_empty();
        let limited = cluster.node_pools.iter().zip(&*self.tables).filter(|(pool, _)| is_limited(pool));
        let kinds =
            limited.flat_map(|of_pool| of_pool.1.with_ids().map(move |(at, _)| is_within_limits(cluster, of_pool, at)));
        kinds.collect()
    }
}

fn of_tables(cluster: &Cluster, universe: &Universe, tables: &[ColumnTable]) -> Launchable {
    let mut launchable = Launchable::default();
    let spread = |constraint: &Constraint| matches!(constraint, Constraint::Spread { .. });
    let constraints = universe.classes.iter().flat_map(|class| class.required.iter().chain(&class.preferred.spread));
    let mut counters: Vec<CounterId> = constraints.filter(|c| spread(c)).map(Constraint::counter).collect();
    counters.sort_unstable();
    counters.dedup();
    if counters.is_empty() {
        return launchable;
    }
    let pools = || cluster.node_pools.iter().zip(tables).filter(|(pool, _)| pool.refusal.is_none());
    if pools().next().is_none() {
        return launchable;
    }
    // What passes a filter is the same for all counters that have it, and what can be launched for all of one key and filters.
    let mut passages: FxHashMap<FilterId, Vec<Vec<Passage>>> = FxHashMap::default();
    let mut known: FxHashMap<(Sym, &[FilterId]), Vec<Sym>> = FxHashMap::default();
    let mut known_hosts: FxHashMap<&[FilterId], Arc<[EmptyHost]>> = FxHashMap::default();
    let mut keys: Vec<Sym> = universe.counters.iter().map(|counter| counter.key).collect();
    keys.retain(|key| *key != cluster.well_known.hostname);
    keys.sort_unstable();
    keys.dedup();
    let filters = launch_filters(universe);
    for id in counters.iter().filter_map(|counter| filters.get(counter.index())).flatten() {
        let Some(filter) = universe.filter(*id) else { continue };
        let of_pools = || pools().map(|(pool, table)| launch_passages(cluster, pool, table, filter)).collect();
        passages.entry(*id).or_insert_with(of_pools);
    }
    for counter in counters {
        let Some(key) = universe.counter(counter).map(|known| known.key) else { continue };
        let filters = filters.get(counter.index()).map_or(&[][..], Vec::as_slice);
        // Without a filter all nodes count.
        let ways = filters.iter().map(|id| passages.get(id)).chain(filters.is_empty().then_some(None));
        let with_ways = || {
            ways.clone().flat_map(|ways| {
                pools().enumerate().map(move |(at, of_pool)| (of_pool, ways.and_then(|ways| ways.get(at))))
            })
        };
        if key == cluster.well_known.hostname {
            let hosts = known_hosts.entry(filters).or_insert_with(|| {
                let mut hosts: Vec<EmptyHost> = Vec::new();
                for (of_pool, ways) in with_ways() {
                    add_hosts(cluster, of_pool, ways.map(Vec::as_slice), &keys, &mut hosts);
                }
                hosts.into()
            });
            launchable.hosts.insert(counter, Arc::clone(hosts));
        } else {
            let domains = known.entry((key, filters)).or_insert_with(|| {
                let found = with_ways()
                    .flat_map(|(of_pool, ways)| values(cluster, of_pool, key, ways.map(Vec::as_slice), |_| true));
                let mut found: Vec<Sym> = found.collect();
                found.sort_by_key(|&value| cluster.symbols.text(value));
                found.dedup();
                found
            });
            launchable.domains.insert(counter, domains.clone());
            launchable.keys.insert(counter, key);
        }
    }
    launchable
}

// The nodes that could be launched of a pool, those without more room than another in the same domains left out.
fn add_hosts(
    cluster: &Cluster,
    of_pool: (&NodePool, &ColumnTable),
    ways: Option<&[Passage]>,
    keys: &[Sym],
    hosts: &mut Vec<EmptyHost>,
) {
    let (pool, table) = of_pool;
    let Some(node_pool) = cluster.node_pools.iter().position(|known| known.name == pool.name) else { return };
    for (at, column) in table.with_ids().filter(|(at, _)| is_live(cluster, of_pool, *at, ways)) {
        let value = |key: &Sym| {
            let mut values = table.values(*key).iter().filter(|(_, columns)| columns.contains(at.index()));
            values.next().map(|(value, _)| (*key, *value))
        };
        let domains: Vec<(Sym, Sym)> = keys.iter().filter_map(value).collect();
        let is_there = |host: &EmptyHost| host.node_pool == node_pool && host.domains == domains;
        if hosts.iter().any(|host| is_there(host) && column.room.fits(&host.room)) {
            continue;
        }
        hosts.retain(|host| !is_there(host) || !host.room.fits(&column.room));
        hosts.push(EmptyHost { node_pool, room: column.room.clone(), domains });
    }
}
