//! Classes that see nodes alike share one index: those whose pods ask for the same, whatever images they run, whatever
//! labels they have, and whoever they keep to or from. What the index does not know is beside it: the nodes with pods that a
//! class counts on the host name, which are kept for each class. What a what-if has changed is looked at node by node.

use std::cell::OnceCell;
use std::sync::Arc;

use berth_model::{ClassId, CounterId, Images, MemberKind, PodSpec, ReservationAsk, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::buckets::{Buckets, Version};
use super::caches::Caches;
use super::cell::{Cell, CellKey};
use super::counted::CountedNodes;
use super::index::{Index, tells_nodes_apart};
use super::indexes::{IndexId, Indexes};
use super::ledger::Ledger;
use super::obstacle::Instead;
use super::shape::{CountedBy, Shape};
use super::sharers::{Asked, Sharer, SharerVersion, Sharers};
use super::tables::{Tables, stands};
use super::values::Beside;
use super::weigh::{Lot, on_host};
use super::world::World;
use crate::score;

/// Nodes with pods that a class counts on the host name, at most; with more a class has an index of its own.
const MOST_COUNTED: usize = 4096;
/// Zones at most for which all indexes have cells, so that classes that ask for zones share those of others.
const MOST_ZONES: usize = 8;

/// A class has an index of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotShared;

/// The node that a pod of the class goes to now, if any, by an index that it shares.
pub(super) fn choose_shared(world: World<'_>, caches: &mut Caches, id: ClassId) -> Result<Option<usize>, NotShared> {
    let sharer = sharer(world, caches, id).ok_or(NotShared)?;
    catch_up_as(world, caches, &sharer).ok_or(NotShared)?;
    choose_as(world, caches, &sharer)
}

/// The same by an index that is up to date.
pub(super) fn choose_as(world: World<'_>, caches: &mut Caches, sharer: &Sharer) -> Result<Option<usize>, NotShared> {
    let id = IndexId::Shared(sharer.index);
    if !caches.indexes.get(id).is_some_and(|index| index.is_current(world)) {
        return Err(NotShared);
    }
    let counted = caches.sharers.counted.get(&sharer.shape.class);
    if !sharer.counters.is_empty()
        && !counted.is_some_and(|known| known.is_current_beside(sharer.index, &world.ledger.groups))
    {
        return Err(NotShared);
    }
    let index = caches.indexes.ask(id).ok_or(NotShared)?;
    let SharerVersion { nodes, launchable } = sharer.version;
    let version = Version { nodes, launchable: Some(launchable), generation: index.generation() };
    let mut cache = caches.indexes.take_buckets(id);
    let index = caches.indexes.get(id).ok_or(NotShared)?;
    let known = caches.merges_cells.then(|| cache.take_for(&sharer.shape, version, index, world.state));
    let buckets = known.flatten();
    let counted = caches.sharers.counted.get(&sharer.shape.class);
    let best = best_shared(world, sharer, index, counted, buckets.as_ref());
    cache.keep(buckets);
    caches.indexes.keep_buckets(id, cache);
    Ok(best)
}

/// Brings up to date what a class asks of all nodes; `None` where it shares no index.
pub(super) fn look_for(world: World<'_>, caches: &mut Caches, id: ClassId) -> Option<Arc<Sharer>> {
    let sharer = sharer(world, caches, id)?;
    catch_up_as(world, caches, &sharer)?;
    Some(sharer)
}

// `None` where a what-if goes on and something is not up to date.
fn catch_up_as(world: World<'_>, caches: &mut Caches, sharer: &Sharer) -> Option<()> {
    let index_id = IndexId::Shared(sharer.index);
    if caches.indexes.get(index_id).is_none_or(|index| !index.is_current(world)) {
        let index = take_shared(world, &mut caches.indexes, sharer)?;
        caches.indexes.keep(index_id, index, world);
    }
    let id = sharer.shape.class;
    let counted = caches.sharers.counted.get(&id);
    let is_current = counted.is_some_and(|known| known.is_current_beside(sharer.index, &world.ledger.groups));
    if sharer.counters.is_empty() || is_current {
        return Some(());
    }
    if !world.ledger.what_if.aside.is_empty() {
        return None;
    }
    let known = caches.sharers.take_counted(id).filter(|known| known.beside == sharer.index);
    let index = caches.indexes.get(index_id)?;
    let shape = &sharer.shape;
    let counted = match known {
        Some(mut counted) => {
            counted.catch_up(shape, index, world);
            counted
        }
        None => CountedNodes::new(sharer.index, &sharer.counters, shape, index, world),
    };
    caches.sharers.keep_counted(id, counted);
    if world.ledger.groups.is_trial() && caches.sharers.tried.last() != Some(&id) {
        caches.sharers.tried.push(id);
    }
    Some(())
}

/// A class that shares an index now. While room is held for pods, a class that counts others on the host name does not.
fn sharer(world: World<'_>, caches: &mut Caches, id: ClassId) -> Option<Arc<Sharer>> {
    let holds_room = world.ledger.holds_room();
    if holds_room && !world.ledger.what_if.aside.is_empty() {
        return None;
    }
    let sharer = known_sharer(world, caches, id).filter(|sharer| !holds_room || sharer.counters.is_empty())?;
    let (_, spec) = world.class_and_spec(id)?;
    (images_weigh_nothing(world.tables, spec) && is_on_few_nodes(world.ledger, &sharer)).then_some(sharer)
}

/// Whether a pod of a class could come to a node now, by what it shares with others; `None` where that takes an index of its own.
pub(super) fn may_come_to(world: World<'_>, caches: &mut Caches, id: ClassId, node: usize) -> Option<bool> {
    let sharer = known_sharer(world, caches, id).filter(|sharer| !sharer.shape.spreads_over_hosts())?;
    let (_, spec) = world.class_and_spec(id)?;
    let values = sharer.shape.values(world.state, &Beside::default(), |_| (0, 0));
    let of_class = (&sharer.shape, spec.priority);
    Some(world.obstacle_to(of_class, (&values, &|_, _| (0, 0)), node).is_none())
}

/// A class that may share an index.
fn known_sharer(world: World<'_>, caches: &mut Caches, id: ClassId) -> Option<Arc<Sharer>> {
    if !caches.sharers.is_used {
        return None;
    }
    let version = SharerVersion { nodes: world.ledger.groups.version(), launchable: caches.sharers.version };
    let known = caches.sharers.of_class.get(&id);
    if let Some(known) = known.filter(|known| known.as_ref().is_none_or(|k| k.version == version)) {
        return known.clone();
    }
    let before = known.cloned().flatten();
    let sharer = sharer_anew(world, &mut caches.sharers, id, version, before.as_deref()).map(Arc::new);
    caches.sharers.of_class.insert(id, sharer.clone());
    sharer
}

fn sharer_anew(
    world: World<'_>,
    sharers: &mut Sharers,
    id: ClassId,
    version: SharerVersion,
    before: Option<&Sharer>,
) -> Option<Sharer> {
    let (class, spec) = world.class_and_spec(id)?;
    let may_share = class.kind == MemberKind::Pod
        && spec.reservation == ReservationAsk::default()
        && spec.volumes.exclusive_claims.is_empty()
        && !tells_nodes_apart(world.cluster, spec);
    if !may_share {
        return None;
    }
    let asked = before.map_or_else(|| Arc::new(of_nodes(spec)), |before| Arc::clone(&before.shape.spec));
    let shape = Shape::new(world.tables, id, asked, common_keys(world.tables))?;
    let next = u32::try_from(sharers.ids.len()).unwrap_or(u32::MAX);
    let asked = Asked { spec: Arc::clone(&shape.spec), keys: shape.keys.clone() };
    let index = *sharers.ids.entry(asked).or_insert(next);
    let on_hosts = shape.spread.iter().filter(|spread| spread.rule.place == CountedBy::Host);
    let n_counted = on_hosts.map(|spread| n_counted(world.tables, spread.rule.counter)).collect();
    Some(Sharer { version, index, counters: shape.host_counters(), n_counted, shape })
}

// Zones, if they are few and some class asks for them.
fn common_keys(tables: &Tables<'_>) -> Vec<Sym> {
    let zone = tables.cluster.well_known.zone;
    let n_zones = tables.domains.numbered(zone).len();
    if (1..=MOST_ZONES).contains(&n_zones) { vec![zone] } else { Vec::new() }
}

// On how many nodes a counter by node counts.
fn n_counted(tables: &Tables<'_>, counter: CounterId) -> u32 {
    let nodes = tables.cluster.nodes.iter().enumerate();
    let n_nodes = nodes.filter(|(at, node)| stands(node) && tables.counts_on(counter, *at)).count();
    u32::try_from(n_nodes).unwrap_or(u32::MAX)
}

// Whether no node is better than others for the images that it has, however many it has.
fn images_weigh_nothing(tables: &Tables<'_>, spec: &PodSpec) -> bool {
    let n_nodes = tables.cluster.nodes.len();
    let weights = spec.images.names.iter().map(|image| score::image_weight(tables.images.get(*image), n_nodes));
    weights.sum::<i64>() <= score::LEAST_IMAGES
}

// Whether few nodes have pods that the class counts on the host name.
fn is_on_few_nodes(ledger: &Ledger, sharer: &Sharer) -> bool {
    sharer.counters.iter().map(|counter| ledger.groups.n_with(*counter)).sum::<usize>() <= MOST_COUNTED
}

// The index that a class shares, up to date as of before what-ifs; `None` where a what-if goes on and it is not.
fn take_shared(world: World<'_>, indexes: &mut Indexes, sharer: &Sharer) -> Option<Index> {
    let id = IndexId::Shared(sharer.index);
    let known = indexes.get(id);
    if !world.ledger.what_if.aside.is_empty() && !known.is_some_and(|index| index.is_current(world)) {
        return None;
    }
    let Some(mut index) = indexes.take(id) else {
        return Some(Index::new(sharer.shape.without_rules(), world));
    };
    if index.knows_nodes(world) {
        index.catch_up(world);
    } else {
        index.look_as(sharer.shape.without_rules(), world);
    }
    Some(index)
}

fn best_shared(
    world: World<'_>,
    sharer: &Sharer,
    index: &Index,
    counted: Option<&CountedNodes>,
    buckets: Option<&Buckets>,
) -> Option<usize> {
    let (shape, ledger) = (&sharer.shape, world.ledger);
    let counts = buckets.map(|buckets| &buckets.counts);
    let least_on_hosts = |rule: usize| least_on_hosts(world, sharer, rule);
    let values = match counts {
        Some(counts) => shape.values_with(world.state, counts, least_on_hosts),
        None => shape.values(world.state, &Beside::default(), least_on_hosts),
    };
    let mut aside: SmallVec<[usize; 32]> = ledger.what_if.aside.iter().copied().collect();
    aside.sort_unstable();
    aside.dedup();
    let is_counted = |node: usize| counted.is_some_and(|counted| counted.has(node));
    let units = aside.iter().filter(|node| !is_counted(**node)).filter_map(|node| ledger.groups.of(*node));
    let mut units: SmallVec<[u32; 32]> = units.collect();
    units.sort_unstable();
    // By cell of the index: how many of its nodes are not as it has them.
    let of_units = units.iter().filter_map(|unit| Some((index.cell_of(*unit)?, 1)));
    let hidden = counted.into_iter().flat_map(CountedNodes::hidden);
    let hidden = hidden.filter_map(|(key, nodes)| Some((index.cell_with(key)?, nodes)));
    let mut others: FxHashMap<usize, u64> = FxHashMap::default();
    for (cell, nodes) in of_units.chain(hidden) {
        *others.entry(cell).or_default() += nodes;
    }
    let placed = aside.iter().filter_map(|&node| {
        let (key, own) = index.look_singly(shape, node, world)?;
        Some((key, (own, ledger.groups.rank(node))))
    });
    let placed: SmallVec<[(CellKey, (i64, u64)); 8]> = placed.collect();
    let (of_all, priority) = (OnceCell::new(), world.class_and_spec(shape.class).map_or(0, |(_, spec)| spec.priority));
    let admits = |key: &CellKey| {
        let on_host = |counter| on_host(shape, key, counter);
        if let Some(node) = key.alone {
            let values = of_all.get_or_init(|| shape.values(world.state, &Beside::default(), least_on_hosts));
            // No class that shares an index has a spread over hosts while room is held.
            let least_on_hosts = |rule: usize, _: Instead<'_>| least_on_hosts(rule);
            return world.obstacle_to((shape, priority), (values, &least_on_hosts), node as usize).is_none();
        }
        match counts {
            Some(counts) => shape.obstacle_with(&values, counts, &key.domains, on_host).is_none(),
            None => shape.obstacle(&values, &key.domains, on_host).is_none(),
        }
    };
    let mut lots: SmallVec<[Lot<'_>; 16]> = SmallVec::new();
    let mut best: SmallVec<[Option<(i64, u64)>; 16]> = SmallVec::new();
    let mut add = |key, nodes, best_of: &dyn Fn() -> Option<(i64, u64)>| {
        if nodes > 0 && admits(key) {
            lots.push(Lot { key, nodes });
            best.push(best_of());
        }
    };
    let best_without = |cell: &Cell| Index::best_without(cell, &aside, &units, is_counted, &world.ledger.groups);
    if let Some(buckets) = buckets {
        let mut others_of: FxHashMap<u32, u64> = FxHashMap::default();
        for (&cell, &nodes) in &others {
            if let Some(bucket) = buckets.bucket_of(cell) {
                *others_of.entry(bucket).or_default() += nodes;
            }
        }
        let instead = |cell: u32| {
            let cell = cell as usize;
            others.contains_key(&cell).then(|| index.cells.get(cell).and_then(best_without))
        };
        for (at, bucket, key) in buckets.iter(index) {
            let nodes = bucket.nodes.saturating_sub(others_of.get(&at).copied().unwrap_or(0));
            add(key, nodes, &|| bucket.best(instead));
        }
    } else {
        for (at, cell) in index.cells.iter().enumerate() {
            let nodes = cell.nodes.saturating_sub(others.get(&at).copied().unwrap_or(0));
            add(&cell.key, nodes, &|| best_without(cell));
        }
    }
    for (key, nodes, best) in counted.into_iter().flat_map(|counted| counted.without(&aside)) {
        add(key, nodes, &|| best);
    }
    for (key, best) in &placed {
        add(key, 1, &|| Some(*best));
    }
    world.best_of(shape, &lots, counts, best.into_iter())
}

// Of a spread rule on hosts, by its position among all spread rules: the least count, and over how many nodes.
fn least_on_hosts(world: World<'_>, sharer: &Sharer, rule: usize) -> (u32, u32) {
    let before = sharer.shape.spread.iter().take(rule).filter(|spread| spread.rule.place == CountedBy::Host).count();
    let (Some(spread), Some(&n_counted)) = (sharer.shape.spread.get(rule), sharer.n_counted.get(before)) else {
        return (0, 0);
    };
    let counter = spread.rule.counter;
    let ledger = world.ledger;
    let counts = |node: usize| world.tables.stands_at(node) && world.counts_on(counter, node);
    let n_counted = n_counted.saturating_sub(u32::from(ledger.what_if.gone.is_some_and(counts)));
    let pods_on = |node: usize| world.state.node(node).map_or(0, |state| state.host_counts.get(counter));
    // Those that groups know, and those of a what-if.
    let aside = ledger.what_if.aside.iter().copied().filter(|node| !ledger.groups.has_on(counter, *node));
    let nodes =
        ledger.groups.with(counter).chain(aside).filter(|&node| ledger.what_if.gone != Some(node) && counts(node));
    let (mut least, mut n_with) = (u32::MAX, 0);
    for pods in nodes.map(pods_on).filter(|pods| *pods > 0) {
        (least, n_with) = (least.min(pods), n_with + 1);
    }
    (if n_with < n_counted || n_counted == 0 { 0 } else { least }, n_counted)
}

// What matters of a spec as long as only the nodes are looked at, and no image weighs anything. By its priority any room that is
// held is some other's.
fn of_nodes(spec: &PodSpec) -> PodSpec {
    PodSpec {
        requests: spec.requests.clone(),
        node_selector: spec.node_selector.clone(),
        required_terms: spec.required_terms.clone(),
        preferred_terms: spec.preferred_terms.clone(),
        tolerations: spec.tolerations.clone(),
        host_ports: spec.host_ports.clone(),
        volumes: spec.volumes.clone(),
        assumed: spec.assumed,
        units: spec.units.clone(),
        images: Images::default(),
        priority: i32::MIN,
        ..PodSpec::default()
    }
}
