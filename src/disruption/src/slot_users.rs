//! Who could use the slots that nodes are on: nodes that are paid for, and pods and Reservations that wait, which admit such a slot
//! as their NodePools do, and of which none is free.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::labels;
use berth_model::{
    CapacityType, Cluster, Column, ColumnTable, MemberKind, Money, PendingRow, PodSpec, Resources, SpecId, Sym,
};
use berth_state::{Key, Kind, State};
use fixedbitset::FixedBitSet;

use crate::Options;
use crate::admitted::columns_of;
use crate::candidate::Candidate;
use crate::pods::disrupted;
use crate::slot_kind::SlotKind;

/// Of those who could use a slot, so many are kept.
const MOST_KEPT: usize = 8;

/// By sort of slot, who could use one.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SlotUsers {
    paid: BTreeMap<SlotKind, Vec<User>>,
    /// Those that somebody waits for, as far as what is asked for tells.
    waited_for: BTreeSet<SlotKind>,
}

/// A node that could make way for one on a slot.
#[derive(Debug, PartialEq)]
struct User {
    node: String,
    /// What that saves an hour, less the price of what it disrupts.
    net: Money,
    /// Whether a slot that it could use is free, or an empty node has one, which goes: nobody has to make way.
    has_other: bool,
}

// === impl SlotUsers ===

impl SlotUsers {
    /// Asks these nodes, and those who have no place, which slots they could use of those that nodes are on.
    pub(crate) fn of(
        state: &State,
        candidates: &[Candidate],
        (may_move, waiting): (impl Fn(&Candidate) -> bool, &BTreeSet<Key>),
        options: &Options,
    ) -> Self {
        let mut kinds: BTreeMap<&SlotKind, bool> = BTreeMap::new();
        for candidate in candidates {
            if let Some(kind) = candidate.slot.as_ref() {
                let is_empty = candidate.is_empty && candidate.blocked.is_empty() && candidate.unripe.is_empty();
                *kinds.entry(kind).or_default() |= is_empty;
            }
        }
        let Some(cluster) = state.last_cluster().filter(|_| !kinds.is_empty()) else { return SlotUsers::default() };
        let net = |candidate: &Candidate| {
            candidate.price.unwrap_or_default().marginal - disrupted(options.eviction_price, candidate.cost)
        };
        let mut paid: Vec<(Money, &Candidate)> =
            candidates.iter().filter(|known| may_move(known)).map(|known| (net(known), known)).collect();
        paid.retain(|(net, _)| *net > Money::ZERO);
        paid.sort_by_key(|(net, candidate)| (Reverse(*net), &candidate.node));
        if paid.is_empty() && waiting.is_empty() {
            return SlotUsers::default();
        }
        let mut slots = Slots::of(cluster, kinds.keys().copied());
        let waited_for = waited_for(cluster, waiting, &mut slots, &kinds);
        let mut users: BTreeMap<&SlotKind, Vec<User>> = BTreeMap::new();
        for (net, candidate) in paid {
            if kinds.keys().all(|kind| users.get(kind).is_some_and(|known| known.len() >= MOST_KEPT)) {
                break;
            }
            let fitting = slots.for_pods_of(&candidate.node.key.name);
            let is_other = |(is_empty, fit): (&bool, &Fit)| fit.has_free || *is_empty && fit.fits;
            let has_other = kinds.values().zip(&fitting).any(is_other);
            // With a free slot it stays where it is, or it goes there soon: one more changes nothing.
            for ((kind, _), _) in kinds.iter().zip(&fitting).filter(|(_, fit)| fit.fits && !fit.has_free) {
                let known = users.entry(kind).or_default();
                if known.len() < MOST_KEPT {
                    known.push(User { node: candidate.node.key.name.to_string(), net, has_other });
                }
            }
        }
        SlotUsers { paid: users.into_iter().map(|(kind, users)| (kind.clone(), users)).collect(), waited_for }
    }

    /// Nodes that commands launch are not disrupted again: nobody makes way for them.
    pub(crate) fn leave_out(&mut self, launched: &BTreeSet<String>) {
        for users in self.paid.values_mut() {
            users.retain(|user| !launched.contains(&user.node));
        }
    }

    /// Whether somebody waits who could use such a slot, as far as what is asked for tells.
    pub(crate) fn is_waited_for(&self, kind: &SlotKind) -> bool {
        self.waited_for.contains(kind)
    }

    /// Whether a node could use such a slot, and saves by that more than so much.
    pub(crate) fn has_any(&self, kind: &SlotKind, least: Money) -> bool {
        self.paid.get(kind).is_some_and(|users| users.iter().any(|user| user.net > least))
    }

    /// The same of nodes that no pods come to and that could not use the slot of an empty node instead.
    pub(crate) fn has_any_but(&self, kind: &SlotKind, least: Money, others: &BTreeSet<&str>) -> bool {
        let may = |user: &User| user.net > least && !user.has_other && !others.contains(user.node.as_str());
        self.paid.get(kind).is_some_and(|users| users.iter().any(may))
    }
}

/// The sorts of slot that take one of those who have no place.
fn waited_for(
    cluster: &Cluster,
    waiting: &BTreeSet<Key>,
    slots: &mut Slots<'_>,
    kinds: &BTreeMap<&SlotKind, bool>,
) -> BTreeSet<SlotKind> {
    let mut found = BTreeSet::new();
    let mut asked = BTreeSet::new();
    let may_launch = |row: &&PendingRow| cluster.spec(row.spec).is_some_and(|spec| spec.refusal.is_none());
    let rows = cluster.pending.iter().filter(|_| !waiting.is_empty()).filter(may_launch);
    for row in rows {
        if !asked.contains(&row.spec) && is_any_of(row, waiting, cluster) {
            asked.insert(row.spec);
            // Whether that helps, as beside a free slot where a limit is in the way, a what-if tells.
            let fitting = slots.fitting(&[(row.spec, 1)].into(), Zones::All);
            let of_use = kinds.keys().zip(&fitting).filter(|(_, fit)| fit.fits);
            found.extend(of_use.map(|(kind, _)| (*kind).clone()));
        }
    }
    found
}

/// Whether any member of a row is among these.
fn is_any_of(row: &PendingRow, waiting: &BTreeSet<Key>, cluster: &Cluster) -> bool {
    let (kind, namespace) = match row.kind {
        MemberKind::Pod => (Kind::Pod, cluster.symbols.text(row.namespace)),
        MemberKind::Reservation => (Kind::Reservation, ""),
    };
    let is_among = |name: &str| waiting.contains(&Key::new(kind, namespace, name));
    row.members.iter().any(|run| match run.numbers {
        None => is_among(&run.name),
        Some((first, count)) => (0..count).any(|n| is_among(&format!("{}-{}", run.name, first.saturating_add(n)))),
    })
}

/// Whether slots of a sort take all pods of a node, and whether one of these is free.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    fits: bool,
    has_free: bool,
}

/// Where slots may be.
#[derive(Debug, Clone, Copy)]
enum Zones {
    All,
    /// In the zone of this name, or in none.
    Only(Option<Sym>),
}

/// What a NodePool may launch.
struct OfPool {
    /// Its index.
    pool: usize,
    table: ColumnTable,
    /// By sort of slot: the offerings that are of it.
    by_kind: Vec<FixedBitSet>,
    /// Those of which something is free.
    free: FixedBitSet,
    /// By zone: those that are in it, as far as it was asked for.
    in_zone: BTreeMap<Option<Sym>, FixedBitSet>,
}

/// What NodePools may launch on slots of each sort, and which pods that admits.
struct Slots<'c> {
    cluster: &'c Cluster,
    tables: Vec<OfPool>,
    n_kinds: usize,
    /// By name: the node's position.
    nodes: BTreeMap<Sym, usize>,
    /// By spec and table: the offerings that admit it.
    admitted: BTreeMap<(SpecId, usize), FixedBitSet>,
    /// The label of a zone, where anything has it.
    zone_key: Option<Sym>,
}

// === impl Slots ===

impl<'c> Slots<'c> {
    fn of<'k>(cluster: &'c Cluster, kinds: impl Iterator<Item = &'k SlotKind> + Clone) -> Self {
        let mut tables = Vec::new();
        for (at, pool) in cluster.node_pools.iter().enumerate().filter(|(_, pool)| pool.refusal.is_none()) {
            let table = ColumnTable::new(cluster, pool);
            let of_kind = |kind| {
                let mut columns = FixedBitSet::with_capacity(table.columns.len());
                columns.extend(columns_on(cluster, &table, kind));
                columns
            };
            let by_kind: Vec<FixedBitSet> = kinds.clone().map(of_kind).collect();
            if by_kind.iter().any(|columns| !columns.is_clear()) {
                let free = columns_where(&table, |column| has_free(cluster, column));
                tables.push(OfPool { pool: at, table, by_kind, free, in_zone: BTreeMap::new() });
            }
        }
        let nodes = cluster.nodes.iter().enumerate().map(|(at, node)| (node.name, at)).collect();
        let zone_key = cluster.symbols.get(labels::ZONE);
        Slots { cluster, tables, n_kinds: kinds.count(), nodes, admitted: BTreeMap::new(), zone_key }
    }

    /// By sort of slot: whether a NodePool may launch a node on one that takes all pods of this node. Pods that rules tie to
    /// others by zone do not leave theirs: whether these would hold elsewhere is not asked.
    fn for_pods_of(&mut self, node: &str) -> Vec<Fit> {
        let node = self.cluster.symbols.get(node).and_then(|name| self.cluster.nodes.get(*self.nodes.get(&name)?));
        let Some(node) = node else { return vec![Fit::default(); self.n_kinds] };
        let mut specs: BTreeMap<SpecId, i64> = BTreeMap::new();
        for spec in node.pods.iter().filter_map(|pod| pod.replaced_by) {
            *specs.entry(spec).or_default() += 1;
        }
        let is_tied = |key| specs.keys().filter_map(|id| self.cluster.spec(*id)).any(|spec| is_tied_by(spec, key));
        let own = self.zone_key.filter(|key| is_tied(*key)).map(|key| node.labels.get(key));
        self.fitting(&specs, own.map_or(Zones::All, Zones::Only))
    }

    /// The same of so many pods of these specs.
    fn fitting(&mut self, specs: &BTreeMap<SpecId, i64>, zones: Zones) -> Vec<Fit> {
        let mut fits = vec![Fit::default(); self.n_kinds];
        let mut requests = Resources::new();
        for (id, count) in specs {
            let Some(spec) = self.cluster.spec(*id) else { return fits };
            requests.add_times(&spec.requests, *count);
        }
        for (at, of_pool) in self.tables.iter_mut().enumerate() {
            let OfPool { pool, table, by_kind, free, in_zone } = of_pool;
            let Some(pool) = self.cluster.node_pools.get(*pool) else { continue };
            let mut columns = table.all();
            table.keep_fitting(&mut columns, &requests);
            for id in specs.keys() {
                let Some(spec) = self.cluster.spec(*id) else { return fits };
                let admit = || admitting(self.cluster, pool, table, spec);
                columns.intersect_with(self.admitted.entry((*id, at)).or_insert_with(admit));
            }
            if let Zones::Only(zone) = zones {
                let of_zone = || columns_where(table, |column| column.zone == zone);
                columns.intersect_with(in_zone.entry(zone).or_insert_with(of_zone));
            }
            for (fit, of_kind) in fits.iter_mut().zip(&*by_kind) {
                let fitting = of_kind & &columns;
                fit.fits |= !fitting.is_clear();
                fit.has_free |= !fitting.is_disjoint(free);
            }
        }
        fits
    }
}

/// The offerings of a NodePool that are slots of a sort.
fn columns_on<'t>(
    cluster: &'t Cluster,
    table: &'t ColumnTable,
    kind: &'t SlotKind,
) -> impl Iterator<Item = usize> + 't {
    let text = |sym| cluster.symbols.text(sym);
    let is_of = move |column: &Column| {
        let of_type = cluster.instance_types.get(column.instance_type as usize);
        let id = column.slots.and_then(|slots| cluster.slots.get(slots.index())).map(|slots| text(slots.id));
        column.capacity_type == CapacityType::Reserved
            && of_type.is_some_and(|of_type| text(of_type.name) == kind.instance_type)
            && column.zone.map_or("", text) == kind.zone
            && (kind.reservation.is_none() || id == kind.reservation.as_deref())
    };
    table.columns.iter().enumerate().filter(move |(_, column)| is_of(column)).map(|(at, _)| at)
}

/// The offerings of which something is so.
fn columns_where(table: &ColumnTable, is_meant: impl Fn(&Column) -> bool) -> FixedBitSet {
    let mut columns = FixedBitSet::with_capacity(table.columns.len());
    columns.extend(table.columns.iter().enumerate().filter(|(_, column)| is_meant(column)).map(|(at, _)| at));
    columns
}

fn has_free(cluster: &Cluster, column: &Column) -> bool {
    let slots = column.slots.and_then(|slots| cluster.slots.get(slots.index()));
    slots.is_some_and(|slots| slots.free > 0)
}

/// Whether the pod may be only in some domains of a key, by the pods that are there.
fn is_tied_by(spec: &PodSpec, key: Sym) -> bool {
    let mut terms = spec.affinity.iter().chain(&spec.anti_affinity);
    terms.any(|term| term.key == key) || spec.spread.iter().any(|spread| spread.is_required && spread.key == key)
}

/// The offerings that may take pods of a spec, as far as taints, labels and volumes tell.
fn admitting(cluster: &Cluster, pool: &berth_model::NodePool, table: &ColumnTable, spec: &PodSpec) -> FixedBitSet {
    let mut columns = columns_of(cluster, pool, table, spec);
    for place in spec.volumes.places() {
        let mut any = FixedBitSet::with_capacity(table.columns.len());
        for terms in place {
            any.union_with(&table.admitting(terms, &cluster.symbols));
        }
        columns.intersect_with(&any);
    }
    columns
}
