//! Rows: pods on new nodes that packing cannot tell apart.

use std::collections::hash_map::Entry;

use berth_model::{Bin, ClassId, Constraint, CounterId, HostPort, Resources, Sym};
use berth_scheduling::demands;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::ledger::{Ledger, PlacedAs};
use crate::prepared::Prepared;
use crate::tables::Tables;

/// Pods of a class that go to nodes with the same decided values.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) class: ClassId,
    pub(crate) pins: Vec<(Sym, Sym)>,
    pub(crate) count: u32,
}

/// Pods that packing cannot tell apart.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) requests: Resources,
    /// What one counts for in shares.
    pub(crate) weight: i64,
    /// By pool: the columns that may take one.
    pub(crate) columns: Vec<FixedBitSet>,
    /// Pools of less weight are not for them, slots aside.
    pub(crate) least_weight: u32,
    pub(crate) host: Vec<Constraint>,
    pub(crate) host_counts: Vec<CounterId>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) members: Vec<Member>,
}

impl Row {
    pub(crate) fn count(&self) -> u32 {
        self.members.iter().fold(0, |sum, member| sum.saturating_add(member.count))
    }

    fn add(&mut self, class: ClassId, pins: Vec<(Sym, Sym)>, count: u32) {
        match self.members.iter_mut().find(|member| member.class == class && member.pins == pins) {
            Some(member) => member.count = member.count.saturating_add(count),
            None => self.members.push(Member { class, pins, count }),
        }
    }
}

/// What makes rows one: everything but the members. Pods whose labels no column decides go by class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RowKey {
    requests: Resources,
    weight: i64,
    columns: Vec<FixedBitSet>,
    least_weight: u32,
    host: Vec<Constraint>,
    host_counts: Vec<CounterId>,
    ports: Vec<HostPort>,
    pins: Vec<(Sym, Sym)>,
    class: Option<ClassId>,
}

/// What pods have in common that are of one row for certain.
type Kind = (ClassId, Vec<(Sym, Sym)>, Option<u32>);

/// A bin, by index, and how many pods of which rows a node of it holds.
pub(crate) struct BinRows {
    pub(crate) bin: usize,
    pub(crate) contents: Vec<(u32, u32)>,
}

/// The rows of a packing, and the bins that they are from.
pub(crate) struct Rows<'a> {
    pub(crate) list: Vec<Row>,
    /// The bins that hold them.
    pub(crate) bins: Vec<BinRows>,
    pub(crate) prepared: FxHashMap<ClassId, Prepared<'a>>,
    /// Pods among the members that have no place yet.
    pub(crate) waiting: Vec<(ClassId, u32)>,
    /// Whether every planned node is among the bins.
    has_all_bins: bool,
    ids: FxHashMap<RowKey, u32>,
}

impl<'a> Rows<'a> {
    /// The rows of what is on new nodes, as far as patterns can express what they need.
    pub(crate) fn gather(tables: &Tables<'a>, ledger: &Ledger) -> Self {
        let mut rows = Rows {
            list: Vec::new(),
            bins: Vec::new(),
            prepared: FxHashMap::default(),
            waiting: Vec::new(),
            has_all_bins: true,
            ids: FxHashMap::default(),
        };
        let mut unfit: FxHashMap<ClassId, bool> = FxHashMap::default();
        let mut known: FxHashMap<Kind, u32> = FxHashMap::default();
        for (index, bin) in ledger.state.bins().iter().enumerate().filter(|(_, bin)| bin.nodes > 0) {
            let is_unfit = bin.contents.iter().any(|(class, _)| {
                *unfit.entry(*class).or_insert_with(|| match prepare(tables, ledger, *class) {
                    Some(prepared) => {
                        rows.prepared.insert(*class, prepared);
                        false
                    }
                    None => true,
                })
            });
            if is_unfit {
                rows.has_all_bins = false;
                continue;
            }
            let mut contents: Vec<(u32, u32)> = Vec::with_capacity(bin.contents.len());
            for &(class, each) in &bin.contents {
                let Some(prepared) = rows.prepared.get(&class) else { continue };
                let pins = pins_on(bin, prepared);
                let least_weight = least_weight(tables, bin);
                let id = *known.entry((class, pins.clone(), least_weight)).or_insert_with(|| {
                    let key = key(tables, prepared, &pins, class, least_weight);
                    row_of(&mut rows.ids, &mut rows.list, key)
                });
                if let Some(row) = rows.list.get_mut(id as usize) {
                    row.add(class, pins, each.saturating_mul(bin.nodes));
                }
                match contents.iter_mut().find(|(row, _)| *row == id) {
                    Some((_, n)) => *n += each,
                    None => contents.push((id, each)),
                }
            }
            contents.sort_unstable();
            rows.bins.push(BinRows { bin: index, contents });
        }
        rows
    }

    /// Adds pods that have no place for want of what others took. Those that are counted in domains are left to first
    /// fit: how many of them a domain may have depends on how many the others get.
    pub(crate) fn add_left(&mut self, tables: &Tables<'a>, ledger: &Ledger) {
        for &(class, count) in &ledger.tally.left {
            if !tables.may_want_what_others_took(class) {
                continue;
            }
            let prepared = match self.prepared.entry(class) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match prepare_left(tables, ledger, class) {
                    Some(prepared) => new.insert(prepared),
                    None => continue,
                },
            };
            if !is_counted_nowhere(tables, prepared) {
                continue;
            }
            let key = key(tables, prepared, &[], class, Some(0));
            let id = row_of(&mut self.ids, &mut self.list, key);
            if let Some(row) = self.list.get_mut(id as usize) {
                row.add(class, Vec::new(), count);
                self.waiting.push((class, count));
            }
        }
        // The first members of a row are the last to be left out.
        let priority = |class: ClassId| tables.universe.class(class).map_or(0, |class| tables.spec(class).priority);
        for row in &mut self.list {
            row.members.sort_by_key(|member| std::cmp::Reverse(priority(member.class)));
        }
    }

    /// Whether the packing of these is all that a plan decides: no pod keeps the domain that first fit chose for it, and no node its
    /// pods.
    pub(crate) fn are_all_that_may_change(&self) -> bool {
        let has_choice = |member: &Member| member.pins.is_empty();
        self.has_all_bins && self.list.iter().flat_map(|row| &row.members).all(has_choice)
    }

    /// Rows and their members, those of the highest priority first.
    pub(crate) fn by_priority(&self, tables: &Tables<'_>) -> Vec<(usize, usize)> {
        let all = self.list.iter().enumerate();
        let mut all: Vec<(i32, usize, usize)> = all
            .flat_map(|(row, definition)| {
                let members = definition.members.iter().enumerate();
                members.map(move |(member, definition)| {
                    let class = tables.universe.class(definition.class);
                    (class.map_or(0, |class| tables.spec(class).priority), row, member)
                })
            })
            .collect();
        all.sort_by_key(|&(priority, ..)| std::cmp::Reverse(priority));
        all.into_iter().map(|(_, row, member)| (row, member)).collect()
    }
}

fn row_of(ids: &mut FxHashMap<RowKey, u32>, list: &mut Vec<Row>, key: RowKey) -> u32 {
    let next = u32::try_from(list.len()).unwrap_or(u32::MAX);
    *ids.entry(key).or_insert_with_key(|key| {
        list.push(Row {
            requests: key.requests.clone(),
            weight: key.weight,
            columns: key.columns.clone(),
            least_weight: key.least_weight,
            host: key.host.clone(),
            host_counts: key.host_counts.clone(),
            ports: key.ports.clone(),
            members: Vec::new(),
        });
        next
    })
}

// The demand under which all of a class's pods were placed; `None` where patterns cannot express what it needs: company
// on its node, a volume of its own, preferences that some pods gave up and others kept, or counting on some nodes only.
fn prepare<'a>(tables: &Tables<'a>, ledger: &Ledger, class: ClassId) -> Option<Prepared<'a>> {
    let placed = ledger.tally.placed_as.get(&class)?;
    let PlacedAs { relaxed, way } = (*placed)?;
    let demand = demands(tables.cluster, tables.universe, class).into_iter().nth(relaxed)?;
    let prepared = Prepared::alternatives(tables, &demand).into_iter().nth(way)?;
    is_expressible(tables, &prepared).then_some(prepared)
}

// Of a class that has pods without a place: as the others were placed, if there are any; else as all its preferences
// have it, since those of pods that find a place for giving one up are first fit's to drop.
fn prepare_left<'a>(tables: &Tables<'a>, ledger: &Ledger, class: ClassId) -> Option<Prepared<'a>> {
    if ledger.tally.placed_as.contains_key(&class) {
        return prepare(tables, ledger, class);
    }
    let demand = demands(tables.cluster, tables.universe, class).into_iter().next()?;
    let mut ways = Prepared::alternatives(tables, &demand).into_iter();
    let prepared = ways.next().filter(|_| ways.next().is_none())?;
    (prepared.spec.refusal.is_none() && is_expressible(tables, &prepared)).then_some(prepared)
}

/// Whether pods of a demand neither choose a domain nor count in one, and on every node alike for what counts by node.
pub(crate) fn is_counted_nowhere(tables: &Tables<'_>, prepared: &Prepared<'_>) -> bool {
    let demand = &prepared.demand;
    let is_filtered =
        |counter: &CounterId| tables.universe.counter(*counter).is_none_or(|counter| counter.filter.is_some());
    let is_by_domain = !demand.keyed.is_empty() || !demand.keyed_counts.is_empty() || !demand.decided_keys.is_empty();
    !is_by_domain && !demand.host_counts.iter().any(is_filtered)
}

fn is_expressible(tables: &Tables<'_>, prepared: &Prepared<'_>) -> bool {
    let demand = &prepared.demand;
    let is_alone = demand.host.iter().all(|constraint| !matches!(constraint, Constraint::Affinity { .. }));
    let is_steady = |counter: &CounterId| {
        let definition = tables.universe.counter(*counter);
        let Some(filter) = definition.and_then(|counter| counter.filter) else { return true };
        prepared.admissions.iter().enumerate().all(|(pool, admission)| {
            let passages = tables.passages.get(filter.index()).and_then(|passages| passages.get(pool));
            let (Some(admission), Some(passages)) = (admission, passages) else { return true };
            passages.iter().all(|passage| passage.columns.is_disjoint(&admission.columns))
                || passages.iter().any(|passage| {
                    passage.open.iter().next().is_none() && admission.columns.is_subset(&passage.columns)
                })
        })
    };
    let counters = || demand.keyed_counts.iter().chain(&demand.host_counts);
    let volumes = &prepared.spec.volumes;
    let is_alone = is_alone && volumes.exclusive_claims.is_empty() && volumes.disks.is_empty();
    is_alone && counters().all(is_steady)
}

fn pins_on(bin: &Bin, prepared: &Prepared<'_>) -> Vec<(Sym, Sym)> {
    prepared.demand.decided_keys.iter().filter_map(|&key| bin.domain(key).map(|value| (key, value))).collect()
}

// Paid nodes stay in pools that are as heavy; what is on a slot may be paid for in the heaviest pool alone, which the
// score that compares plans sees to.
fn least_weight(tables: &Tables<'_>, bin: &Bin) -> Option<u32> {
    let is_reserved = tables.table(bin.pool).is_reserved(bin.planned);
    let weight = tables.definition(bin.pool).map_or(0, |pool| pool.weight);
    (!is_reserved).then_some(weight)
}

fn key(
    tables: &Tables<'_>,
    prepared: &Prepared<'_>,
    pins: &[(Sym, Sym)],
    class: ClassId,
    least_weight: Option<u32>,
) -> RowKey {
    let scope = prepared.scope(tables, pins);
    let mut is_plain = true;
    let mut heaviest = 0;
    let mut columns = Vec::with_capacity(tables.columns.len());
    for (pool, table) in tables.by_pool() {
        let Some(admission) = scope.admission(pool) else {
            columns.push(FixedBitSet::with_capacity(table.columns.len()));
            continue;
        };
        is_plain &= admission.open == table.open;
        let mut fitting = admission.columns.clone();
        table.keep_fitting(&mut fitting, prepared.requests);
        if fitting.ones().any(|at| !table.reserved.contains(at)) {
            heaviest = heaviest.max(tables.definition(pool).map_or(0, |pool| pool.weight));
        }
        columns.push(fitting);
    }
    RowKey {
        requests: prepared.requests.clone(),
        weight: tables.shares.weight(class),
        columns,
        least_weight: least_weight.unwrap_or(heaviest),
        host: prepared.demand.host.clone(),
        host_counts: prepared.demand.host_counts.clone(),
        ports: prepared.spec.host_ports.clone(),
        pins: pins.to_vec(),
        class: (!is_plain).then_some(class),
    }
}
