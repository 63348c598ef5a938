//! The nodes as one class sees them, kept up to date by what has changed since: cells of nodes that differ for the class
//! only in their own score, the best first in each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use berth_model::{Cluster, CounterId, NodeState, PodSpec, Requirements, Sym};
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::cell::{Cell, CellKey};
use super::groups::{Change, Groups};
use super::look::{Verdicts, admits, image_locality, image_weights, placed, verdict};
use super::shape::{CountedBy, Shape};
use super::tables::stands;
use super::world::World;
use crate::kinds::{named_nodes, names_nodes};
use crate::score;

/// So many of the latest changes of cells are known.
const LOG_LENGTH: usize = 1024;

/// A unit that is feasible.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cell: u32,
    nodes: u32,
    /// Its own score.
    own: i64,
    /// The rank of its first node.
    first: u64,
}

/// By spread rule on hosts: pods on each node of a unit, and how many of its nodes count.
type Tallied = SmallVec<[(u32, u32); 1]>;

/// The nodes as a class sees them.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) shape: Shape,
    /// Set where the class tells nodes of one kind apart: the nodes that it looks at, each a unit of its own.
    by_node: Option<Candidates>,
    verdicts: Verdicts,
    entries: FxHashMap<u32, Entry>,
    /// Of units with nodes that spread rules on hosts look at.
    tallied: FxHashMap<u32, Tallied>,
    pub(super) cells: Vec<Cell>,
    cell_ids: FxHashMap<CellKey, u32>,
    /// Cells without any unit, to be used again.
    spare: Vec<u32>,
    /// By spread rule on hosts: how many nodes have how many pods.
    tallies: Vec<BTreeMap<u32, u32>>,
    /// How many use each of the class's ReadWriteOncePod claims, anywhere.
    claim_users: SmallVec<[u32; 1]>,
    /// What each of the class's images weighs on a node that has it.
    image_weights: SmallVec<[i64; 2]>,
    cursor: usize,
    /// [`Groups::version`] when it was last looked at which nodes there are.
    version: u64,
    /// Cells that have changed, the latest last, and how many changes were dropped from the front.
    changed: Vec<u32>,
    dropped: usize,
    /// How often all was looked at anew.
    generation: u64,
}

/// Nodes that a class looks at one by one.
#[derive(Clone, Debug)]
struct Candidates {
    /// Those that it names; `None`: all.
    named: Option<Vec<Sym>>,
    nodes: FixedBitSet,
}

impl Index {
    pub(super) fn new(shape: Shape, world: World<'_>) -> Self {
        let mut index = Self::bare(shape, world);
        index.rebuild(world);
        index
    }

    /// An index of nothing, to ask single nodes with.
    pub(super) fn bare(shape: Shape, world: World<'_>) -> Self {
        let n_tallies = shape.spread.iter().filter(|spread| spread.rule.place == CountedBy::Host).count();
        let mut index = Index {
            by_node: candidates(&shape, world, n_tallies > 0),
            shape,
            verdicts: Verdicts::default(),
            entries: FxHashMap::default(),
            tallied: FxHashMap::default(),
            cells: Vec::new(),
            cell_ids: FxHashMap::default(),
            spare: Vec::new(),
            tallies: vec![BTreeMap::new(); n_tallies],
            claim_users: SmallVec::new(),
            image_weights: SmallVec::new(),
            cursor: 0,
            version: world.ledger.groups.version(),
            changed: Vec::new(),
            dropped: 0,
            generation: 0,
        };
        index.shape.discount = world.discount_of(&index.shape);
        index
    }

    fn rebuild(&mut self, world: World<'_>) {
        if let Some(candidates) = &mut self.by_node {
            for node in 0..world.cluster.nodes.len() {
                candidates.look_again(node, world.cluster);
            }
        }
        self.image_weights = image_weights(&self.shape, world);
        self.verdicts.clear();
        self.entries.clear();
        self.tallied.clear();
        self.cells.clear();
        self.cell_ids.clear();
        self.spare.clear();
        self.generation += 1;
        self.tallies.iter_mut().for_each(BTreeMap::clear);
        self.cursor = world.ledger.groups.now();
        self.claim_users = self.users_now(world);
        let units: Vec<u32> = match &self.by_node {
            Some(listed) => listed.nodes.ones().map(|node| u32::try_from(node).unwrap_or(u32::MAX)).collect(),
            None => (0..u32::try_from(world.ledger.groups.len()).unwrap_or(u32::MAX)).collect(),
        };
        self.look_at_all(units.into_iter(), world);
    }

    /// How many units it keeps, as a measure of its memory; a verdict takes a quarter of that, and is there of units that are
    /// not feasible, too.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.verdicts.len() / 4
    }

    /// Looks anew at what has changed.
    pub(super) fn catch_up(&mut self, world: World<'_>) {
        let cursor = self.cursor;
        if cursor < world.ledger.groups.now() {
            self.shape.discount = world.discount_of(&self.shape);
            self.look_anew(cursor, Vec::new(), world);
        }
    }

    /// Looks again at what was changed and taken back, if it has looked since the log was so long.
    pub(super) fn take_back(&mut self, undone: &[Change], world: World<'_>) {
        let now = world.ledger.groups.now();
        if self.cursor <= now {
            return;
        }
        self.cursor = now;
        self.shape.discount = world.discount_of(&self.shape);
        if self.claim_users != self.users_now(world) {
            return self.rebuild(world);
        }
        self.refresh_all(undone, Vec::new(), world);
    }

    /// Whether the nodes are those that its shape knows.
    pub(super) fn knows_nodes(&self, world: World<'_>) -> bool {
        self.version == world.ledger.groups.version()
    }

    /// Catches up in the eyes of another class of the same view, or of the same where nodes came, went or changed: what either
    /// may draw from, it alone sees so.
    pub(super) fn look_as(&mut self, shape: Shape, world: World<'_>) {
        if !shape.extends(&self.shape) {
            let generation = self.generation;
            *self = Index::new(shape, world);
            self.generation += generation;
            return;
        }
        let mut units = self.drawn_from(world);
        self.generation += 1;
        self.shape = shape;
        self.shape.discount = world.discount_of(&self.shape);
        units.extend(self.drawn_from(world));
        if !self.knows_nodes(world) {
            self.version = world.ledger.groups.version();
            units.extend(self.weigh_images(world));
        }
        self.look_anew(self.cursor, units, world);
    }

    // The units that images make better or worse than they did, as the share of nodes that have them is another.
    fn weigh_images(&mut self, world: World<'_>) -> Vec<u32> {
        let weights = image_weights(&self.shape, world);
        let before = std::mem::replace(&mut self.image_weights, weights);
        let is_nothing = |weights: &[i64]| weights.iter().sum::<i64>() <= score::LEAST_IMAGES;
        if before == self.image_weights || (is_nothing(&before) && is_nothing(&self.image_weights)) {
            return Vec::new();
        }
        let by_node = self.by_node.is_some();
        let spec = &self.shape.spec;
        let changed: FxHashSet<u32> = self.verdicts.weigh_images(|id| {
            let node = if by_node { Some(id as usize) } else { world.ledger.groups.sample(id) };
            // One that went is forgotten once its change is taken in.
            let node = node.and_then(|node| world.cluster.nodes.get(node))?;
            Some(image_locality(node, spec, world))
        });
        if changed.is_empty() {
            return Vec::new();
        }
        let id_of = |unit: u32| if by_node { Some(unit) } else { world.ledger.groups.kind_of(unit) };
        let units = self.entries.keys().copied();
        units.filter(|unit| id_of(*unit).is_some_and(|id| changed.contains(&id))).collect()
    }

    fn look_anew(&mut self, cursor: usize, units: Vec<u32>, world: World<'_>) {
        // Who uses a claim elsewhere matters on every node.
        let changes = world.ledger.groups.since(cursor).filter(|_| self.claim_users == self.users_now(world));
        let Some(changes) = changes else { return self.rebuild(world) };
        self.cursor = world.ledger.groups.now();
        self.refresh_all(changes, units, world);
    }

    fn refresh_all(&mut self, changes: &[Change], mut units: Vec<u32>, world: World<'_>) {
        match &mut self.by_node {
            Some(listed) => {
                for change in changes {
                    if change.is_other {
                        listed.look_again(change.node as usize, world.cluster);
                        self.verdicts.forget(change.node);
                    }
                    if change.is_other || listed.nodes.contains(change.node as usize) {
                        units.push(change.node);
                    }
                }
            }
            None => units.extend(changes.iter().flat_map(|change| [change.from, change.to])),
        }
        units.sort_unstable();
        units.dedup();
        for unit in units {
            self.refresh(unit, world);
        }
    }

    fn users_now(&self, world: World<'_>) -> SmallVec<[u32; 1]> {
        self.shape.spec.volumes.exclusive_claims.iter().map(|&claim| world.state.claim_users(claim)).collect()
    }

    // The units where the class may draw from a Reservation.
    fn drawn_from(&self, world: World<'_>) -> Vec<u32> {
        let nodes = world.owned(&self.shape.spec).map(|(node, _)| node);
        match &self.by_node {
            Some(listed) => {
                nodes.filter(|node| listed.nodes.contains(*node)).filter_map(|node| node.try_into().ok()).collect()
            }
            None => nodes.filter_map(|node| world.ledger.groups.of(node)).collect(),
        }
    }

    fn refresh(&mut self, unit: u32, world: World<'_>) {
        self.forget(unit);
        let Some((found, key)) = self.look(unit, world) else { return };
        let cell = self.cell(key);
        self.note(cell);
        if let Some(known) = self.cells.get_mut(cell as usize) {
            known.ordered.insert((Reverse(found.own), found.first, unit));
            known.nodes += u64::from(found.nodes);
        }
        self.entries.insert(unit, Entry { cell, ..found });
    }

    /// Looks at units of which it knows nothing yet.
    fn look_at_all(&mut self, units: impl Iterator<Item = u32>, world: World<'_>) {
        let mut of_cell: Vec<Vec<(Reverse<i64>, u64, u32)>> = Vec::new();
        for unit in units {
            let Some((found, key)) = self.look(unit, world) else { continue };
            let cell = self.cell(key);
            if of_cell.len() < self.cells.len() {
                of_cell.resize_with(self.cells.len(), Vec::new);
            }
            if let (Some(known), Some(units)) = (self.cells.get_mut(cell as usize), of_cell.get_mut(cell as usize)) {
                units.push((Reverse(found.own), found.first, unit));
                known.nodes += u64::from(found.nodes);
            }
            self.entries.insert(unit, Entry { cell, ..found });
        }
        for (cell, units) in self.cells.iter_mut().zip(of_cell) {
            cell.ordered = units.into_iter().collect();
        }
    }

    // Counts a unit, and says where it belongs, if it is feasible; its cell is yet to be found.
    fn look(&mut self, unit: u32, world: World<'_>) -> Option<(Entry, CellKey)> {
        let by_node = self.by_node.is_some();
        let (nodes, first, at) = if let Some(listed) = &self.by_node {
            if !listed.nodes.contains(unit as usize) {
                return None;
            }
            (1, world.ledger.groups.rank(unit as usize), unit as usize)
        } else {
            world.ledger.groups.size(unit)?
        };
        let node = world.cluster.node(at)?;
        if !stands(node) || world.ledger.what_if.gone == Some(at) {
            return None;
        }
        let seen = world.seen(at, &self.shape.spec)?;
        if !self.tallies.is_empty() {
            let tallied = self.tally(unit, at, &seen.state, world);
            for (tally, (pods, nodes)) in self.tallies.iter_mut().zip(&tallied).filter(|(_, (_, nodes))| *nodes > 0) {
                *tally.entry(*pods).or_default() += nodes;
            }
            self.tallied.insert(unit, tallied);
        }
        let id = if by_node { unit } else { world.ledger.groups.kind(at) };
        let verdict = self.verdicts.get_or(id, || verdict(&self.shape, node, world))?;
        let (key, own) = placed(&self.shape, verdict, at, &seen, world)?;
        Some((Entry { cell: 0, nodes, own, first }, key))
    }

    /// Where a node belongs in the eyes of a class that shares the index, with its score of its own: it may be on another
    /// place than the index knows. `None` where it is not feasible.
    pub(super) fn look_singly(&self, shape: &Shape, at: usize, world: World<'_>) -> Option<(CellKey, i64)> {
        let node = world.cluster.node(at).filter(|node| stands(node) && world.ledger.what_if.gone != Some(at))?;
        let seen = world.seen(at, &shape.spec)?;
        match self.verdicts.get(world.ledger.groups.kind(at)) {
            Some(known) => placed(shape, known, at, &seen, world),
            None => placed(shape, &verdict(shape, node, world), at, &seen, world),
        }
    }

    /// The cell that a unit is in.
    pub(super) fn cell_of(&self, unit: u32) -> Option<usize> {
        Some(self.entries.get(&unit)?.cell as usize)
    }

    /// The cell of a key, if there is one.
    pub(super) fn cell_with(&self, key: &CellKey) -> Option<usize> {
        Some(*self.cell_ids.get(key)? as usize)
    }

    /// Whether it has taken in all that has changed.
    pub(super) fn is_current(&self, world: World<'_>) -> bool {
        self.knows_nodes(world) && self.cursor >= world.ledger.groups.now()
    }

    fn forget(&mut self, unit: u32) {
        let tallied = if self.tallies.is_empty() { None } else { self.tallied.remove(&unit) };
        for (tally, (pods, nodes)) in self.tallies.iter_mut().zip(tallied.iter().flatten()) {
            if let Some(count) = tally.get_mut(pods) {
                *count = count.saturating_sub(*nodes);
                if *count == 0 {
                    tally.remove(pods);
                }
            }
        }
        let old = self.entries.remove(&unit);
        if let Some(old) = &old {
            self.note(old.cell);
        }
        if let Some(old) = old
            && let Some(cell) = self.cells.get_mut(old.cell as usize)
        {
            cell.ordered.remove(&(Reverse(old.own), old.first, unit));
            cell.nodes = cell.nodes.saturating_sub(u64::from(old.nodes));
            if cell.ordered.is_empty() {
                self.cell_ids.remove(&cell.key);
                self.spare.push(old.cell);
            }
        }
    }

    fn note(&mut self, cell: u32) {
        if self.changed.len() >= LOG_LENGTH {
            self.dropped += self.changed.len();
            self.changed.clear();
        }
        self.changed.push(cell);
    }

    /// Changes when all cells may be others.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// How often cells have changed.
    pub(super) fn n_changes(&self) -> usize {
        self.dropped + self.changed.len()
    }

    /// The cells that changed after so many changes; `None` where that is not known any more.
    pub(super) fn changed_since(&self, n_changes: usize) -> Option<&[u32]> {
        self.changed.get(n_changes.checked_sub(self.dropped)?..)
    }

    fn cell(&mut self, key: CellKey) -> u32 {
        if let Some(&id) = self.cell_ids.get(&key) {
            return id;
        }
        let cell = Cell { key: key.clone(), ordered: BTreeSet::new(), nodes: 0 };
        let id = if let Some((id, spare)) = self.spare.pop().and_then(|id| Some((id, self.cells.get_mut(id as usize)?)))
        {
            *spare = cell;
            id
        } else {
            self.cells.push(cell);
            u32::try_from(self.cells.len() - 1).unwrap_or(u32::MAX)
        };
        self.cell_ids.insert(key, id);
        id
    }

    // For each spread rule on hosts: pods on a node of the unit, and how many of its nodes the rule looks at.
    fn tally(&self, unit: u32, at: usize, on_node: &NodeState, world: World<'_>) -> Tallied {
        let on_hosts = self.shape.spread.iter().filter(|spread| spread.rule.place == CountedBy::Host);
        let tallied = on_hosts.map(|spread| {
            let counter = spread.rule.counter;
            let pods = on_node.host_counts.get(counter);
            let filter = world.counter_filters.get(counter.index()).copied().flatten();
            let filter = filter.and_then(|filter| world.filters.get(filter.index()));
            let admits = |node: usize| filter.is_none_or(|nodes| nodes.contains(node));
            let nodes = if self.by_node.is_some() {
                usize::from(admits(at))
            } else {
                world.ledger.groups.members(unit).filter(|node| admits(*node)).count()
            };
            (pods, u32::try_from(nodes).unwrap_or(u32::MAX))
        });
        tallied.collect()
    }

    /// Of a spread rule on hosts, by its position among all spread rules: the least count, and over how many nodes.
    /// `instead` is a node's count in the tally and what to take for it.
    pub(super) fn least_on_hosts(&self, rule: usize, instead: impl Fn(CounterId) -> Option<(u32, u32)>) -> (u32, u32) {
        let before = self.shape.spread.iter().take(rule).filter(|spread| spread.rule.place == CountedBy::Host).count();
        let Some(tally) = self.tallies.get(before) else { return (0, 0) };
        let nodes = tally.values().fold(0_u32, |sum, nodes| sum.saturating_add(*nodes));
        let counter = self.shape.spread.get(rule).map(|spread| spread.rule.counter);
        let Some((was, is)) = counter.and_then(instead) else {
            return (tally.keys().next().copied().unwrap_or(0), nodes);
        };
        let others = tally.iter().find(|(pods, nodes)| **pods != was || **nodes > 1).map(|(pods, _)| *pods);
        (others.map_or(is, |least| least.min(is)), nodes)
    }

    /// The best of a cell without some nodes, which are in these units, both ascending, and without units whose nodes are left out
    /// altogether.
    pub(super) fn best_without(
        cell: &Cell,
        nodes: &[usize],
        units: &[u32],
        is_left_out: impl Fn(usize) -> bool,
        groups: &Groups,
    ) -> Option<(i64, u64)> {
        let mut best: Option<(i64, u64)> = None;
        for &(Reverse(own), first, unit) in &cell.ordered {
            if best.is_some_and(|(most, rank)| own < most || first > rank) {
                break;
            }
            if groups.size(unit).is_some_and(|(_, _, node)| is_left_out(node)) {
                continue;
            }
            let rank = if units.binary_search(&unit).is_ok() {
                let mut others = groups.members(unit).filter(|node| nodes.binary_search(node).is_err());
                others.next().map(|node| groups.rank(node))
            } else {
                Some(first)
            };
            let Some(rank) = rank else { continue };
            if best.is_none_or(|(_, least)| rank < least) {
                best = Some((own, rank));
            }
        }
        best
    }

    /// Whether a node admits the class, as far as its load does not matter.
    pub(super) fn admits(&self, at: usize, world: World<'_>) -> bool {
        let unit =
            if self.by_node.is_some() { u32::try_from(at).unwrap_or(u32::MAX) } else { world.ledger.groups.kind(at) };
        let known = self.verdicts.get(unit).map(|verdict| verdict.admits);
        known
            .unwrap_or_else(|| world.cluster.node(at).is_some_and(|node| admits(world.cluster, node, &self.shape.spec)))
    }

    /// The nodes of a cell with their own scores.
    pub(super) fn nodes(&self, cell: &Cell, groups: &Groups) -> Vec<usize> {
        let units = cell.ordered.iter().map(|(_, _, unit)| *unit);
        if self.by_node.is_some() {
            return units.map(|unit| unit as usize).collect();
        }
        units.flat_map(|unit| groups.members(unit).collect::<Vec<_>>()).collect()
    }
}

// The nodes that a class looks at one by one: those that it names, or all where it tells them apart otherwise.
fn candidates(shape: &Shape, world: World<'_>, counts_all: bool) -> Option<Candidates> {
    let (cluster, spec) = (world.cluster, &*shape.spec);
    if !tells_nodes_apart(cluster, spec) {
        return None;
    }
    let mut places = std::iter::once(&spec.required_terms).chain(spec.volumes.places());
    let named = (!counts_all).then(|| places.find_map(|terms| named_nodes(cluster, terms))).flatten();
    Some(Candidates { named, nodes: FixedBitSet::new() })
}

/// Whether a spec tells nodes of one kind apart.
pub(super) fn tells_nodes_apart(cluster: &Cluster, spec: &PodSpec) -> bool {
    let required = spec.required_terms.iter().chain(std::iter::once(&spec.node_selector));
    let preferred = spec.preferred_terms.iter().map(|(_, term)| term);
    let volumes = spec.volumes.places().flatten();
    let mut terms = required.chain(preferred).chain(volumes);
    terms.any(|term: &Requirements| names_nodes(cluster, term))
}

// === impl Candidates ===

impl Candidates {
    /// Whether the node of an index is one of them.
    fn look_again(&mut self, node: usize, cluster: &Cluster) {
        // Changes tell of places that no node has any more, too.
        let known = cluster.nodes.get(node);
        let is_meant = known.is_some_and(|node| self.named.as_ref().is_none_or(|named| named.contains(&node.name)));
        self.nodes.grow(node.saturating_add(1));
        self.nodes.set(node, is_meant);
    }
}
