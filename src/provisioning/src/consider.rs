//! How all that could be launched looks to one class: every offering of every NodePool, counted by what is in its way.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Column, ColumnId, ColumnTable, Money, PoolId, ResourceId, Resources, Universe};
use berth_scheduling::{demands, reasons};
use fixedbitset::FixedBitSet;

use crate::domains::KnownDomains;
use crate::min_values::keeps_min_values;
use crate::options::Options;
use crate::planner::Planner;
use crate::prepared::Prepared;
use crate::refusals::Waived;
use crate::solution::Refusal;
use crate::tables::PoolColumn;
use crate::taken::Taken;
use crate::world::World;

/// How the offerings of a NodePool look to a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The NodePool, by index.
    pub node_pool: usize,
    /// Instance type × zone × capacity type that it may launch.
    pub offerings: u32,
    /// Those of which a new node would take a pod.
    pub open: u32,
    /// What is in the way of the others, each by the first obstacle; or of the NodePool as a whole, with a count of 0.
    pub reasons: Vec<Refusal>,
    /// Where none is open: the least that requests would have to shrink.
    pub smaller: Option<Smaller>,
    /// Where none is open: the least that limits would have to grow.
    pub raised: Option<Raised>,
}

/// A pod that requests no more than this would have a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smaller {
    /// Index of the instance type that is nearest to having room.
    pub instance_type: u32,
    /// The most of each resource of which it has too little.
    pub at_most: Vec<(ResourceId, i64)>,
    /// Offerings that would take it then.
    pub offerings: u32,
}

/// A NodePool with these limits would have a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// By resource, `None` being the number of nodes: the limit, and what it would have to be at least.
    pub limits: Vec<(Option<ResourceId>, i64, i64)>,
    /// Offerings that would take the pod then.
    pub offerings: u32,
}

/// What each NodePool could launch for a pod of the class as the cluster stands, with no preference kept; `taken` of shares
/// is what a plan has launched.
pub fn consider(
    cluster: &Cluster,
    universe: &Universe,
    class: ClassId,
    options: &Options,
    taken: &[Taken],
) -> Vec<Considered> {
    let Some(demand) = demands(cluster, universe, class).pop() else { return Vec::new() };
    let mut planner = Planner::new(cluster, universe, options);
    planner.ledger.count_taken(&planner.tables, taken, class);
    let ways = Prepared::alternatives(&planner.tables, &demand);
    let world = World::new(&planner.tables, &planner.ledger);
    planner.tables.pools().map(|pool| considered(world, &mut planner.caches.domains, &ways, pool)).collect()
}

impl World<'_> {
    // The limits that the column needs which needs least beyond them, in shares of the limits: of such with which some column
    // keeps the pool's minValues.
    fn raised(self, ways: &[Prepared<'_>], pool: PoolId, columns: &[ColumnId]) -> Option<Raised> {
        let definition = self.tables.definition(pool)?;
        let (used, nodes) = self.ledger.state.pool_use(pool)?;
        let needs = |column: ColumnId| {
            let capacity = self.tables.capacity(pool, column)?;
            let nodes = i64::try_from(nodes).unwrap_or(i64::MAX).saturating_add(1);
            let of_nodes = definition.node_limit.map(|limit| (None, i64::from(limit), nodes));
            let of_resources = definition.limits.iter().filter(|(resource, _)| capacity.get(*resource) > 0);
            let of_resources = of_resources.map(|&(resource, limit)| {
                (Some(resource), limit, used.get(resource).saturating_add(capacity.get(resource)))
            });
            let exceeded = of_nodes.into_iter().chain(of_resources).filter(|(_, limit, needed)| needed > limit);
            Some(exceeded.collect::<Vec<_>>())
        };
        let excess = |limits: &[(Option<ResourceId>, i64, i64)]| {
            let share = |&(_, limit, needed): &(_, i64, i64)| i128::from(needed) * 1_000_000 / i128::from(limit.max(1));
            limits.iter().map(share).max().unwrap_or(0)
        };
        let table = self.tables.table(pool);
        let mut all: Vec<(ColumnId, Vec<_>)> = columns.iter().filter_map(|&at| Some((at, needs(at)?))).collect();
        all.sort_by_key(|(_, limits)| excess(limits));
        all.iter().find_map(|(_, limits)| {
            let fits = |needs: &[(Option<ResourceId>, i64, i64)]| {
                let holds = |to: &(Option<ResourceId>, i64, i64), of, needed| to.0 == of && needed <= to.2;
                needs.iter().all(|&(of, _, needed)| limits.iter().any(|to| holds(to, of, needed)))
            };
            let within = || all.iter().filter(|(_, needs)| fits(needs)).map(|(at, _)| *at);
            let mut listed = FixedBitSet::with_capacity(table.columns.len());
            // No claim lists a paid offering that is finite beside another one.
            let is_listed = |at: &ColumnId| table.is_reserved(*at) || table.column(*at).slots.is_none();
            listed.extend(within().filter(is_listed).map(ColumnId::index));
            let keeps = |at: &ColumnId| {
                let mut ways = ways.iter().filter_map(|way| Some((way, way.admission_alone(pool)?)));
                ways.any(|(way, admission)| {
                    let mut listed = beside(table, way, &listed, *at);
                    listed.insert(at.index());
                    listed.intersect_with(&admission.columns);
                    listed.contains(at.index()) && keeps_min_values(table, &listed, &admission.open, *at)
                })
            };
            let offerings = within().filter(|at| table.min_values.is_empty() || keeps(at)).count();
            let offerings = u32::try_from(offerings).unwrap_or(u32::MAX);
            (offerings > 0).then(|| Raised { limits: limits.clone(), offerings })
        })
    }

    // Whether a node that is launched as a column for a pod of these requests leaves so many values open as the pool's
    // minValues ask for.
    fn keeps_min_values_alone(self, way: &Prepared<'_>, pool: PoolId, requests: &Resources, planned: ColumnId) -> bool {
        let table = self.tables.table(pool);
        if table.min_values.is_empty() {
            return true;
        }
        let Some(admission) = way.admission_alone(pool) else { return false };
        let mut columns = beside(table, way, &admission.columns, planned);
        if let Some(kept) = self.tables.accelerators.kept_from(way.demand.class, pool) {
            columns.difference_with(kept);
        }
        table.keep_fitting(&mut columns, requests);
        let bin = self.tables.empty_bin(PoolColumn { pool, column: planned }, 1);
        columns.contains(planned.index())
            && self.keeps_min_values_within_limits(&bin, &columns, &admission.open, planned)
    }
}

// Of columns, those that are in the topology domains of one of them that the pod's constraints decide.
fn beside(table: &ColumnTable, way: &Prepared<'_>, columns: &FixedBitSet, planned: ColumnId) -> FixedBitSet {
    let mut columns = columns.clone();
    for (key, _) in &way.demand.keyed {
        let of_planned = table.values(*key).iter().find(|(_, with)| with.contains(planned.index()));
        if let Some((_, with)) = of_planned {
            columns.intersect_with(with);
        }
    }
    columns
}

fn considered(world: World<'_>, domains: &mut KnownDomains, ways: &[Prepared<'_>], pool: PoolId) -> Considered {
    let table = world.tables.table(pool);
    let n_columns = table.columns.len();
    let offerings = u32::try_from(n_columns).unwrap_or(u32::MAX);
    let whole = |reason: String| {
        let reasons = vec![Refusal { reason, count: 0 }];
        Considered { node_pool: pool.index(), offerings, open: 0, reasons, smaller: None, raised: None }
    };
    let Some((definition, demand)) = world.tables.definition(pool).zip(ways.first().map(|way| &way.demand)) else {
        return whole(String::new());
    };
    if let Some(refusal) = &definition.refusal {
        return whole(refusal.clone());
    }
    if n_columns == 0 {
        return whole(reasons::no_columns(table).to_owned());
    }
    if let Some(taint) = reasons::pool_taint(world.tables.cluster, definition, demand) {
        return whole(taint);
    }
    let in_domains = ways.first().map(|way| columns_in_open_domains(world, domains, way, pool)).unwrap_or_default();
    let (mut open, mut counts) = (0, BTreeMap::<String, u32>::new());
    for (at, _) in table.with_ids() {
        // Where there are several ways, the one that comes furthest.
        let alone = ways.iter().map(|way| {
            let keeps = || world.keeps_min_values_alone(way, pool, way.requests, at);
            let too_few = || (!keeps()).then(|| (u8::MAX, reasons::MIN_VALUES.to_owned()));
            world.obstacle_alone(way, pool, at).or_else(too_few)
        });
        let furthest = alone.reduce(|a, b| if a.is_none() || b.is_none() { None } else { a.max(b) }).flatten();
        let topology = in_domains.iter().find(|(columns, _)| !columns.contains(at.index())).map(|(_, reason)| *reason);
        match furthest.map(|(_, reason)| reason).or_else(|| topology.map(str::to_owned)) {
            None => open += 1,
            Some(reason) => *counts.entry(reason).or_default() += 1,
        }
    }
    let mut reasons: Vec<Refusal> = counts.into_iter().map(|(reason, count)| Refusal { reason, count }).collect();
    reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    let but_for = |waived: Waived| {
        let is_open = |&at: &ColumnId| {
            let is_waived = |way| world.obstacle_but_for(Some(waived), way, pool, at).is_none();
            in_domains.iter().all(|(columns, _)| columns.contains(at.index())) && ways.iter().any(is_waived)
        };
        table.with_ids().map(|(at, _)| at).filter(is_open).collect::<Vec<ColumnId>>()
    };
    let (mut smaller, mut raised) = (None, None);
    if open == 0 {
        smaller = ways.first().and_then(|way| smaller_of(world, way, pool, &but_for(Waived::Requests)));
        raised = world.raised(ways, pool, &but_for(Waived::Limits));
    }
    Considered { node_pool: pool.index(), offerings, open, reasons, smaller, raised }
}

// By topology key: the columns whose nodes would be in a domain that is open to a pod now.
fn columns_in_open_domains(
    world: World<'_>,
    domains: &mut KnownDomains,
    prepared: &Prepared<'_>,
    pool: PoolId,
) -> Vec<(FixedBitSet, &'static str)> {
    let mut found = Vec::new();
    for (key, constraints) in &prepared.demand.keyed {
        let names = domains.names(world, constraints);
        let of_key = domains.loads(world, names.clone(), constraints);
        let table = world.tables.table(pool);
        let mut columns = FixedBitSet::with_capacity(table.columns.len());
        if table.open.get(*key).is_some() {
            // The value is chosen when the node is launched.
            columns.insert_range(..);
        }
        for name in names.iter().enumerate().filter(|(at, _)| of_key.allows(*at)).map(|(_, name)| name) {
            let of_value = table.values(*key).iter().filter(|(value, _)| value == name);
            of_value.for_each(|(_, set)| columns.union_with(set));
        }
        found.push((columns, reasons::topology(of_key.in_the_way().as_slice())));
    }
    found
}

/// The room that is nearest to holding a pod: it lacks the least share of what the pod requests; of such it is the cheapest,
/// and the first by name. How many pods a room holds does not count.
pub fn nearest_room<'a, T>(
    asked: &[(ResourceId, i64)],
    rooms: impl Iterator<Item = (T, &'a Resources, Money, &'a str)>,
) -> Option<T> {
    let lack = |room: &Resources| {
        let lack = |(id, need): &(ResourceId, i64)| {
            let lack = need.saturating_sub(room.get(*id).max(0)).max(0);
            i128::from(lack) * 1_000_000 / i128::from((*need).max(1))
        };
        asked.iter().filter(|(id, _)| *id != ResourceId::PODS).map(lack).max().unwrap_or(0)
    };
    let ranked = rooms.map(|(what, room, price, name)| ((lack(room), price, name), what));
    ranked.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(|(_, what)| what)
}

// What the pod may request at most where least is lacking, in shares of what it requests: of such with which some column keeps
// the pool's minValues.
fn smaller_of(world: World<'_>, way: &Prepared<'_>, pool: PoolId, columns: &[ColumnId]) -> Option<Smaller> {
    let (cluster, table) = (world.tables.cluster, world.tables.table(pool));
    let asked = || way.asked.iter().copied().filter(|(id, need)| *id != ResourceId::PODS && *need > 0);
    let name = |column: &Column| {
        let of_type = cluster.instance_types.get(column.instance_type as usize);
        of_type.map_or("", |known| cluster.symbols.text(known.name))
    };
    let with_pods = columns.iter().map(|&at| (at, table.column(at)));
    let with_pods: Vec<_> = with_pods.filter(|(_, column)| column.room.get(ResourceId::PODS) > 0).collect();
    let mut left = with_pods.clone();
    loop {
        let rooms = left.iter().map(|&(_, column)| (column, &column.room, column.list_price, name(column)));
        let nearest = nearest_room(&way.asked, rooms)?;
        let least = |id: ResourceId, need: i64| need.min(nearest.room.get(id).max(0));
        let takes = |column: &Column| asked().all(|(id, need)| least(id, need) <= column.room.get(id));
        let at_most: Vec<_> =
            asked().filter(|&(id, need)| least(id, need) < need).map(|(id, need)| (id, least(id, need))).collect();
        let mut requests = way.requests.clone();
        for &(id, amount) in &at_most {
            requests.set(id, amount);
        }
        let is_open = |(at, column): &&(ColumnId, &Column)| {
            takes(column) && world.keeps_min_values_alone(way, pool, &requests, *at)
        };
        let offerings = u32::try_from(with_pods.iter().filter(is_open).count()).unwrap_or(u32::MAX);
        if offerings > 0 {
            let found = Smaller { instance_type: nearest.instance_type, at_most, offerings };
            return (!found.at_most.is_empty()).then_some(found);
        }
        // With as little as this, others of the same room keep no more values.
        left.retain(|(_, column)| column.room != nearest.room);
    }
}
