//! Classes that see nodes alike share one index: those whose pods ask for the same, whatever images they run, whatever
//! labels they have, and whoever they keep to or from. What the index does not know is looked at node by node: where pods
//! are that a class counts on the host name, and what a what-if has changed.

use std::sync::Arc;

use berth_model::{ClassId, CounterId, Images, MemberKind, PodSpec, ReservationAsk, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Scheduler;
use super::choose::{Lot, on_host};
use super::groups::stands;
use super::index::{CellKey, Index, tells_nodes_apart};
use super::shape::{Beside, CountedBy, Shape};
use crate::score;

/// Nodes that are looked at one by one, at most; with more a class has an index of its own.
const MOST_SINGLE: usize = 128;
/// As many nodes with pods that a class must not be with are passed over in the time in which one is looked at.
const PASSED_OVER: usize = 32;
/// Zones at most for which all indexes have cells, so that classes that ask for zones share those of others.
const MOST_ZONES: usize = 8;

/// An index, by whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum IndexId {
    /// The classes of a view.
    View(ClassId),
    /// All that ask for the same.
    Shared(u32),
}

/// A class has an index of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotShared;

/// All that a shared index reads of a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    spec: Arc<PodSpec>,
    keys: Vec<Sym>,
}

/// A class that shares an index.
#[derive(Debug)]
pub(super) struct Sharer {
    /// When it was made: [`super::groups::Groups::version`], and [`Sharers::version`].
    version: (u64, u64),
    index: u32,
    shape: Shape,
    /// Counters by node, and whether the class looks at nodes with such pods.
    counters: SmallVec<[(CounterId, bool); 2]>,
    /// By spread rule on hosts: on how many nodes it counts.
    n_counted: SmallVec<[u32; 1]>,
}

/// The classes that share indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharers {
    /// `None` for those that do not.
    of_class: FxHashMap<ClassId, Option<Arc<Sharer>>>,
    ids: FxHashMap<Asked, u32>,
    version: u64,
}

/// Nodes that are looked at one by one, ascending, and the units of the index that they are in.
struct Singles {
    nodes: SmallVec<[usize; 32]>,
    units: SmallVec<[u32; 32]>,
}

impl Sharers {
    /// What could be launched is another.
    pub(super) fn launchable_changed(&mut self) {
        self.version += 1;
    }
}

impl Scheduler<'_> {
    /// The node that a pod of the class goes to now, if any, by an index that it shares.
    pub(super) fn choose_shared(&mut self, id: ClassId) -> Result<Option<usize>, NotShared> {
        let sharer = self.sharer(id).ok_or(NotShared)?;
        if let Ok(best) = self.choose_as(&sharer) {
            return Ok(best);
        }
        let index = self.take_shared(&sharer).ok_or(NotShared)?;
        let best = self.best_shared(&sharer, &index);
        self.keep_index(IndexId::Shared(sharer.index), index);
        Ok(best)
    }

    /// The same by an index that is up to date.
    pub(super) fn choose_as(&mut self, sharer: &Sharer) -> Result<Option<usize>, NotShared> {
        let id = IndexId::Shared(sharer.index);
        let known = self.indexes.get(&id).filter(|(_, index)| index.is_current(self.world()));
        let (_, index) = known.ok_or(NotShared)?;
        let best = self.best_shared(sharer, index);
        self.asked += 1;
        if let Some((asked, _)) = self.indexes.get_mut(&id) {
            *asked = self.asked;
        }
        Ok(best)
    }

    /// Brings the index up to date that a class shares; `None` where it shares none.
    pub(super) fn look_for(&mut self, id: ClassId) -> Option<Arc<Sharer>> {
        let sharer = self.sharer(id)?;
        let known = self.indexes.get(&IndexId::Shared(sharer.index));
        if known.is_none_or(|(_, index)| !index.is_current(self.world())) {
            let index = self.take_shared(&sharer)?;
            self.keep_index(IndexId::Shared(sharer.index), index);
        }
        Some(sharer)
    }

    /// A class that shares an index now.
    fn sharer(&mut self, id: ClassId) -> Option<Arc<Sharer>> {
        if !self.shares || !self.nominated.is_empty() {
            return None;
        }
        let version = (self.groups.version(), self.sharers.version);
        let known = self.sharers.of_class.get(&id);
        let sharer = if let Some(known) = known.filter(|known| known.as_ref().is_none_or(|k| k.version == version)) {
            known.clone()?
        } else {
            let before = known.cloned().flatten();
            let sharer = self.sharer_anew(id, version, before.as_deref()).map(Arc::new);
            self.sharers.of_class.insert(id, sharer.clone());
            sharer?
        };
        let (_, spec) = self.class_and_spec(id)?;
        (self.images_weigh_nothing(spec) && self.is_on_few_nodes(&sharer)).then_some(sharer)
    }

    fn sharer_anew(&mut self, id: ClassId, version: (u64, u64), before: Option<&Sharer>) -> Option<Sharer> {
        let (class, spec) = self.class_and_spec(id)?;
        let may_share = class.kind == MemberKind::Pod
            && spec.reservation == ReservationAsk::default()
            && spec.volumes.exclusive_claims.is_empty()
            && !tells_nodes_apart(self.cluster, spec);
        if !may_share {
            return None;
        }
        let asked = before.map_or_else(|| Arc::new(of_nodes(spec)), |before| Arc::clone(&before.shape.spec));
        let shape = Shape::new(self.known(), id, asked, self.common_keys())?;
        let next = u32::try_from(self.sharers.ids.len()).unwrap_or(u32::MAX);
        let asked = Asked { spec: Arc::clone(&shape.spec), keys: shape.keys.clone() };
        let index = *self.sharers.ids.entry(asked).or_insert(next);
        let on_hosts = shape.spread.iter().filter(|spread| spread.rule.place == CountedBy::Host);
        let n_counted = on_hosts.map(|spread| self.n_counted(spread.rule.counter)).collect();
        Some(Sharer { version, index, counters: shape.host_counters(), n_counted, shape })
    }

    // Zones, if they are few and some class asks for them.
    fn common_keys(&self) -> Vec<Sym> {
        let zone = self.cluster.well_known.zone;
        let n_zones = self.domains.numbered(zone).len();
        if (1..=MOST_ZONES).contains(&n_zones) { vec![zone] } else { Vec::new() }
    }

    // On how many nodes a counter by node counts.
    fn n_counted(&self, counter: CounterId) -> u32 {
        let nodes = self.cluster.nodes.iter().enumerate();
        let n_nodes = nodes.filter(|(at, node)| stands(node) && self.counts_on(counter, *at)).count();
        u32::try_from(n_nodes).unwrap_or(u32::MAX)
    }

    // Whether no node is better than others for the images that it has, however many it has.
    fn images_weigh_nothing(&self, spec: &PodSpec) -> bool {
        let n_nodes = self.cluster.nodes.len();
        let weights = spec.images.names.iter().map(|image| score::image_weight(self.images.get(*image), n_nodes));
        weights.sum::<i64>() <= score::LEAST_IMAGES
    }

    // Whether few nodes have pods that the class counts on the host name.
    fn is_on_few_nodes(&self, sharer: &Sharer) -> bool {
        let cost = |(counter, looks): &(CounterId, bool)| {
            let nodes = self.groups.n_with(*counter);
            if *looks { nodes } else { nodes / PASSED_OVER }
        };
        sharer.counters.iter().map(cost).sum::<usize>() <= MOST_SINGLE
    }

    // The index that a class shares, up to date as of before what-ifs; `None` where a what-if goes on and it is not.
    fn take_shared(&mut self, sharer: &Sharer) -> Option<Index> {
        let id = IndexId::Shared(sharer.index);
        let known = self.indexes.get(&id);
        if !self.aside.is_empty() && !known.is_some_and(|(_, index)| index.is_current(self.world())) {
            return None;
        }
        let Some((_, mut index)) = self.indexes.remove(&id) else {
            return Some(Index::new(sharer.shape.without_rules(), self.world()));
        };
        self.entries = self.entries.saturating_sub(index.len());
        if index.knows_nodes(self.world()) {
            index.catch_up(self.world());
        } else {
            index.look_as(sharer.shape.without_rules(), self.world());
        }
        Some(index)
    }

    fn singles(&self, sharer: &Sharer) -> Singles {
        let mut nodes: SmallVec<[usize; 32]> = self.aside.iter().copied().collect();
        for (counter, _) in &sharer.counters {
            nodes.extend(self.groups.with(*counter));
        }
        nodes.sort_unstable();
        nodes.dedup();
        let mut units: SmallVec<[u32; 32]> = nodes.iter().filter_map(|node| self.groups.of(*node)).collect();
        units.sort_unstable();
        Singles { nodes, units }
    }

    fn best_shared(&self, sharer: &Sharer, index: &Index) -> Option<usize> {
        let (shape, world) = (&sharer.shape, self.world());
        let Singles { nodes, units } = self.singles(sharer);
        let values = shape.values(&self.state, &Beside::default(), |rule| self.least_on_hosts(sharer, rule, &nodes));
        let mut sizes: SmallVec<[u64; 16]> = index.cells.iter().map(|cell| cell.nodes).collect();
        for size in units.iter().filter_map(|unit| index.cell_of(*unit)) {
            if let Some(size) = sizes.get_mut(size) {
                *size = size.saturating_sub(1);
            }
        }
        let placed = nodes.iter().filter_map(|&node| {
            let (key, own) = index.look_singly(shape, node, world)?;
            Some((key, (own, self.groups.rank(node))))
        });
        let admits =
            |key: &CellKey| shape.obstacle(&values, &key.domains, |counter| on_host(shape, key, counter)).is_none();
        let placed: SmallVec<[(CellKey, (i64, u64)); 8]> = placed.filter(|(key, _)| admits(key)).collect();
        let cells = || {
            let cells = index.cells.iter().zip(&sizes);
            cells.filter(|(cell, nodes)| **nodes > 0 && admits(&cell.key))
        };
        let mut lots: Vec<Lot<'_>> = cells().map(|(cell, nodes)| Lot { key: &cell.key, nodes: *nodes }).collect();
        lots.extend(placed.iter().map(|(key, _)| Lot { key, nodes: 1 }));
        let of_cells = cells().map(|(cell, _)| Index::best_without(cell, &nodes, &units, &self.groups));
        self.best_of(shape, &lots, of_cells.chain(placed.iter().map(|(_, best)| Some(*best))))
    }

    // Of a spread rule on hosts, by its position among all spread rules: the least count, and over how many nodes. All nodes
    // with such pods are among these.
    fn least_on_hosts(&self, sharer: &Sharer, rule: usize, nodes: &[usize]) -> (u32, u32) {
        let before =
            sharer.shape.spread.iter().take(rule).filter(|spread| spread.rule.place == CountedBy::Host).count();
        let (Some(spread), Some(&n_counted)) = (sharer.shape.spread.get(rule), sharer.n_counted.get(before)) else {
            return (0, 0);
        };
        let counter = spread.rule.counter;
        let counts = |node: usize| self.cluster.nodes.get(node).is_some_and(stands) && self.counts_on(counter, node);
        let n_counted = n_counted.saturating_sub(u32::from(self.gone.is_some_and(counts)));
        let others = nodes.iter().copied().filter(|&node| self.gone != Some(node) && counts(node));
        let pods = others.filter_map(|node| Some(self.state.nodes().get(node)?.host_counts.get(counter)));
        let (mut least, mut n_with) = (u32::MAX, 0);
        for pods in pods.filter(|pods| *pods > 0) {
            (least, n_with) = (least.min(pods), n_with + 1);
        }
        (if n_with < n_counted || n_counted == 0 { 0 } else { least }, n_counted)
    }
}

// What matters of a spec as long as only the nodes are looked at, and no image weighs anything.
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
        ..PodSpec::default()
    }
}
