//! What any plan costs at least: the linear program over all patterns, of a problem that is relaxed where patterns cannot
//! say what a plan must keep to.

mod spread;

use berth_model::{ClassId, Constraint, Mark, MemberKind, Money, Resources, Sym};
use berth_packing::{BinType, Budget, Pattern, Problem};
use berth_scheduling::{Demand, demands};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::below::below;
use crate::domains::KnownDomains;
use crate::ledger::Ledger;
use crate::options::Effort;
use crate::prepared::{Pins, Prepared};
use crate::search::{Member, Offers, Purpose, Row, Workload, bound_budget, budget, build};
use crate::solution::Bound;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// Alike nodes of the plan.
struct Group {
    /// Classes on each node.
    contents: Vec<(ClassId, u32)>,
    nodes: u32,
    /// What they are planned on.
    planned: PoolColumn,
    domains: Vec<(Sym, Sym)>,
}

/// Rows, and which is a class's, in a domain that pods of it must be in or anywhere.
#[derive(Debug, Default)]
struct RelaxedRows {
    list: Vec<Row>,
    of_class: FxHashMap<(ClassId, Option<(Sym, Sym)>), u32>,
}

impl RelaxedRows {
    fn add(&mut self, class: ClassId, domain: Option<(Sym, Sym)>, row: Row) {
        let next = self.list.len();
        let at = self.list.iter().position(|known| known.is_like(&row)).unwrap_or(next);
        self.of_class.insert((class, domain), u32::try_from(at).unwrap_or(u32::MAX));
        match self.list.get_mut(at) {
            Some(known) => known.members.extend(row.members),
            None => self.list.push(row),
        }
    }
}

impl Tables<'_> {
    // Owners may be in the room that Reservations hold, so where some are placed, only they are counted, not the room.
    // Says whether any room is left out.
    fn drop_held_for_owners(&self, placed: &mut Vec<(ClassId, u32)>) -> bool {
        let is_owner = |id: ClassId| {
            let spec = self.universe.class(id).and_then(|class| self.cluster.spec(class.spec));
            spec.is_some_and(|spec| !spec.reservation.owner_of.is_empty())
        };
        let n_before = placed.len();
        if placed.iter().any(|&(id, _)| is_owner(id)) {
            let holds =
                |id: ClassId| self.universe.class(id).is_some_and(|class| class.kind == MemberKind::Reservation);
            placed.retain(|&(id, _)| !holds(id));
        }
        placed.len() < n_before
    }

    // A class with all that it could ever be admitted to, in a domain or anywhere.
    fn relaxed_row(&self, class: ClassId, count: u32, pins: &Pins, relaxed: &mut Relaxed) -> Row {
        let levels = demands(self.cluster, self.universe, class);
        let mut columns: Vec<FixedBitSet> =
            self.columns.iter().map(|table| FixedBitSet::with_capacity(table.columns.len())).collect();
        let mut requests = Resources::new();
        let mut ports = Vec::new();
        for demand in &levels {
            for prepared in Prepared::alternatives(self, demand) {
                requests = prepared.requests.clone();
                ports.clone_from(&prepared.spec.host_ports);
                let volumes = &prepared.spec.volumes;
                relaxed.volumes |= !volumes.exclusive_claims.is_empty() || !volumes.disks.is_empty();
                for (pool, columns) in self.pools().zip(&mut columns) {
                    if let Some(admission) = prepared.admission(self, pool, pins) {
                        columns.union_with(&admission.columns);
                    }
                }
            }
        }
        for (columns, table) in columns.iter_mut().zip(&*self.columns) {
            table.keep_fitting(columns, &requests);
        }
        relaxed.preferences |= levels.len() > 1;
        let last = levels.last();
        relaxed.note(last);
        let host = last.map(|demand| demand.host.clone()).unwrap_or_default();
        Row {
            requests,
            weight: self.shares.weight(class),
            columns,
            least_weight: 0,
            host: host.into_iter().filter(|constraint| relaxed.counts_host(constraint)).collect(),
            host_counts: last.map(|demand| demand.host_counts.clone()).unwrap_or_default(),
            ports: ports.clone(),
            members: vec![Member { class, pins: Vec::new(), count }],
        }
    }
}

/// Bounds what plans cost that place what this one has placed since `fresh`, and takes it all back.
pub(crate) fn bound(tables: &Tables<'_>, ledger: &mut Ledger, domains: &mut KnownDomains, fresh: Mark) -> Bound {
    let Relaxation { problem, mut start, workload, relaxed } = relaxation(tables, ledger, domains, fresh);
    // A bound is the nearer the better the patterns that it begins with, and first fit's are far from those of different pods.
    if tables.options.effort == Effort::Low && workload.is_diverse() {
        // Refilling finds cheaper plans of much the same patterns.
        let quick = Budget { ruins: 0, ..budget(Effort::Default, workload) };
        start.extend(berth_packing::search(&problem, &start, quick).plan);
    }
    let bound = berth_packing::bound(&problem, &start, bound_budget(workload));
    Bound { cost: below(bound), relaxed: relaxed.names() }
}

/// What the cheapest of these plans costs by the same problem, where it is so small that all its packings can be tried.
pub(crate) fn least(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    domains: &mut KnownDomains,
    fresh: Mark,
) -> Option<Money> {
    let Relaxation { problem, workload, .. } = relaxation(tables, ledger, domains, fresh);
    berth_packing::least(&problem, budget(tables.options.effort, workload)).map(below)
}

/// The problem of a bound.
struct Relaxation {
    problem: Problem,
    /// The plan, as far as it is one of the problem.
    start: Vec<(Pattern, u32)>,
    workload: Workload,
    relaxed: Relaxed,
}

// What plans have to keep to that place what this one has placed since `fresh`, all of which is taken back.
fn relaxation(tables: &Tables<'_>, ledger: &mut Ledger, domains: &mut KnownDomains, fresh: Mark) -> Relaxation {
    let mut placed: FxHashMap<ClassId, u32> = FxHashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    for bin in ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
        groups.push(Group {
            contents: bin.contents.to_vec(),
            nodes: bin.nodes,
            planned: PoolColumn { pool: bin.pool, column: bin.planned },
            domains: bin.domains.to_vec(),
        });
        for &(class, each) in &bin.contents {
            *placed.entry(class).or_default() += each.saturating_mul(bin.nodes);
        }
    }
    for &(class, count) in ledger.state.nodes().iter().flat_map(|node| &node.added) {
        *placed.entry(class).or_default() += count;
    }
    ledger.state.rollback(fresh);
    ledger.state.forget(fresh);
    // Another plan need not have nodes there.
    ledger.forget_domains(domains);
    let mut placed: Vec<(ClassId, u32)> = placed.into_iter().collect();
    placed.sort_unstable();
    let holds_for_owners = tables.drop_held_for_owners(&mut placed);

    // No plan has more than all of it on new nodes.
    let total = placed.iter().map(|&(class, count)| i128::from(tables.shares.weight(class)) * i128::from(count)).sum();
    ledger.shares.set_total(total);
    let world = World::new(tables, ledger);
    // Without these domains nothing has to be in any.
    let counts_on_no_domain = ledger.tally.counts_on_no_domain;
    let mut relaxed = Relaxed { held: holds_for_owners, hosts: ledger.tally.counts_on_no_host, ..Relaxed::of(tables) };
    let mut rows = RelaxedRows::default();
    let strictest = |class: ClassId| demands(tables.cluster, tables.universe, class).pop();
    let demands: FxHashMap<ClassId, Demand> =
        placed.iter().filter_map(|&(class, _)| Some((class, strictest(class)?))).collect();
    for (class, mut count) in placed {
        // Room held by a Reservation may be drawn from whatever a spread says.
        let least = if tables.cluster.reservations.is_empty() && !counts_on_no_domain {
            spread::least_in_domains(world, domains, class, count, &demands)
        } else {
            Vec::new()
        };
        for ((key, domain), pods) in least {
            let pins = [(key, domain)];
            let row = tables.relaxed_row(class, pods.min(count), &pins, &mut relaxed);
            if row.columns.iter().any(|columns| !columns.is_clear()) {
                count -= row.count();
                rows.add(class, Some((key, domain)), row);
            }
        }
        if count > 0 {
            let row = tables.relaxed_row(class, count, &[], &mut relaxed);
            rows.add(class, None, row);
        }
    }
    let RelaxedRows { list: rows, of_class } = rows;
    let offers = Offers::new(world, &rows);
    let (mut problem, asked) = build(world, &rows, &offers, Purpose::Bounds);
    world.add_nodes(&mut problem, &asked);
    let start = groups.into_iter().filter_map(|Group { contents, nodes, planned, domains }| {
        let mut items: Vec<(u32, u32)> = Vec::with_capacity(contents.len());
        for (class, each) in contents {
            let of_domain = domains.iter().find_map(|&domain| of_class.get(&(class, Some(domain))));
            let any = || of_class.iter().filter(|((of, _), _)| *of == class).map(|(_, row)| row).min();
            let row = *of_domain.or_else(|| of_class.get(&(class, None))).or_else(any)?;
            match items.iter_mut().find(|(known, _)| *known == row) {
                Some((_, n)) => *n += each,
                None => items.push((row, each)),
            }
        }
        items.sort_unstable();
        let pattern = Pattern { bin: *offers.of.get(&planned)?, items };
        problem.allows(&pattern).then_some((pattern, nodes))
    });
    let start = start.collect();
    Relaxation { problem, start, workload: Workload::of(&rows), relaxed }
}

impl World<'_> {
    // Existing nodes: they cost nothing, and take whoever fits.
    fn add_nodes(self, problem: &mut Problem, asked: &[berth_model::ResourceId]) {
        let mut known: FxHashMap<Vec<i64>, usize> = FxHashMap::default();
        for node in self.ledger.state.nodes() {
            let mut free = node.free.clone();
            for holding in &node.holdings {
                free.add(&holding.held());
            }
            let room: Vec<i64> = asked.iter().map(|&id| free.get(id).max(0)).collect();
            let stock = *known.entry(room.clone()).or_insert(problem.stocks.len());
            if let Some(stock) = problem.stocks.get_mut(stock) {
                *stock += 1.0;
                continue;
            }
            let mut admits = FixedBitSet::with_capacity(problem.items.len());
            for (at, item) in problem.items.iter().enumerate() {
                admits.set(at, item.size.iter().zip(&room).all(|(size, room)| size <= room));
            }
            problem.stocks.push(1.0);
            problem.bins.push(BinType {
                cost: 0.0,
                bias: 0.0,
                room,
                admits,
                draws: vec![(stock, 1.0)],
                loads: Vec::new(),
            });
        }
    }
}

fn has_min_values(pool: &berth_model::NodePool) -> bool {
    pool.requirements.iter().any(|(_, requirement)| requirement.min_values().is_some())
}

impl Row {
    fn is_like(&self, other: &Row) -> bool {
        self.requests == other.requests
            && self.weight == other.weight
            && self.columns == other.columns
            && self.host == other.host
            && self.host_counts == other.host_counts
            && self.ports == other.ports
    }
}

/// What the bound does not count on, of what there is.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent findings")]
struct Relaxed {
    topology: bool,
    hosts: bool,
    company: bool,
    preferences: bool,
    weights: bool,
    min_values: bool,
    volumes: bool,
    nodes: bool,
    shares: bool,
    held: bool,
}

impl Relaxed {
    fn of(tables: &Tables<'_>) -> Self {
        let weights = || tables.cluster.node_pools.iter().map(|pool| pool.weight);
        Relaxed {
            weights: weights().min() != weights().max(),
            min_values: tables.cluster.node_pools.iter().any(has_min_values),
            nodes: !tables.cluster.nodes.is_empty(),
            shares: !tables.shares.is_empty() && !tables.bounds_count_shares(),
            ..Relaxed::default()
        }
    }

    fn note(&mut self, demand: Option<&Demand>) {
        let Some(demand) = demand else { return };
        self.topology |= !demand.decided_keys.is_empty();
        self.company |= demand.host.iter().any(|constraint| matches!(constraint, Constraint::Affinity { .. }));
    }

    // Where no further host may come, a host holds more than the skew: how many depends on the plan.
    fn counts_host(self, constraint: &Constraint) -> bool {
        match constraint {
            Constraint::Spread { .. } => !self.hosts,
            Constraint::AntiAffinity { .. } => true,
            Constraint::Affinity { .. } => false,
        }
    }

    fn names(self) -> Vec<&'static str> {
        let all = [
            (self.topology, "topology spread and affinity over zones and other groups of nodes"),
            (self.hosts, "topology spread over host names where limits allow no further node"),
            (self.company, "affinity to pods on the same node"),
            (self.preferences, "preferences"),
            (self.weights, "NodePool weights"),
            (self.min_values, "minValues"),
            (self.volumes, "volumes that pods may not share"),
            (self.nodes, "labels, taints and topology of existing nodes"),
            (self.held, "room that Reservations hold beside their owners"),
            (self.shares, "shares of zones, instance types and capacity types (--max-share)"),
        ];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }
}
