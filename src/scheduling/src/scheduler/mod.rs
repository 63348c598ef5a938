//! Pods onto nodes that exist, with the semantics of kube-scheduler's default profile: by priority, then in order of the
//! input; filters; scores of all nodes that pass them; the best, ties by name; preemption.
//!
//! Work is done per class and is incremental. Nodes alike are one group, looked at once. A class keeps an index of the
//! groups that would take it, in cells between which normalised scores may differ, and brings it up to date by what has
//! changed since it was last asked: a decision costs as many steps as there are cells, not nodes. Classes that see nodes
//! alike but for the Reservations that they may draw from share one index, in which those few nodes are looked at anew.

mod assess;
mod bindings;
mod buckets;
mod choose;
mod counted;
mod diagnose;
mod domains;
mod expected;
mod follow;
mod groups;
mod hold;
mod images;
mod index;
mod kinds;
mod look;
mod paused;
mod place;
mod placements;
mod pre_allocate;
mod preempt;
mod queue;
mod ranks;
mod replace;
mod reserved;
mod shape;
mod shared;
mod terminating;
mod victims;
mod view;

use std::sync::Arc;

use berth_model::{ClassId, Cluster, CounterId, Snapshot, Sym, Universe};
use rustc_hash::{FxHashMap, FxHashSet};

pub use assess::{Assessment, Verdict};
pub use bindings::Bindings;
pub use expected::Expected;
pub use follow::Step;
pub use paused::{Counted, Paused, Trial};
pub use placements::{Placement, came};
pub use queue::Queue;
pub use replace::expect_replacements;

use domains::DomainSizes;
use groups::Groups;
pub(crate) use groups::names_nodes;
use hold::Members;
use images::NodeImages;
use index::{Index, World};
pub(crate) use kinds::Kinds;
use replace::Replacements;
use shape::{Known, Shape};
use shared::{IndexId, Sharers};
use victims::{Kept, Residents};
use view::Views;

use crate::node_tables::NodeTables;
use crate::reservation::Rules;

/// Entries of indexes that may be kept whatever the size of the cluster, of all classes together.
const LEAST_ENTRIES: usize = 4_000_000;
/// Entries for each node, where that is more. An index takes at most one and a quarter for each node, so some hundred indexes
/// are kept. With fewer than there are sizes of pods, a look at one node after the other makes every index anew.
const ENTRIES_OF_NODE: usize = 128;

/// What could be launched beside the nodes that exist: domains without a node count for spreads, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launchable {
    /// By spread counter: domains in which nodes could be launched.
    pub domains: FxHashMap<CounterId, Vec<Sym>>,
    /// The keys of those counters.
    pub keys: FxHashMap<CounterId, Sym>,
    /// Spread counters by node of which a node without any pod can always be had.
    pub hosts: FxHashSet<CounterId>,
}

impl Launchable {
    /// Whether it says the same of the first counters.
    fn is_same_of_first(&self, n_counters: usize, before: &Launchable) -> bool {
        (0..n_counters).filter_map(|at| Some(CounterId(u32::try_from(at).ok()?))).all(|counter| {
            self.domains.get(&counter) == before.domains.get(&counter)
                && self.hosts.contains(&counter) == before.hosts.contains(&counter)
        })
    }

    /// Gives the domains their numbers in which there is no node yet.
    fn number(&self, sizes: &mut DomainSizes) {
        for (counter, key) in &self.keys {
            sizes.number(*key, self.domains.get(counter).into_iter().flatten().copied());
        }
    }
}

/// A pod that gave way: a node by index, and which of its [`berth_model::Node::pods`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Eviction {
    /// The node.
    pub node: usize,
    /// The pod's position among the node's.
    pub pod: usize,
}

/// A pod or a Reservation that the queue placed.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// Its row of [`Cluster::pending`].
    row: u32,
    class: ClassId,
    node: usize,
    /// Whether it comes only once pods that are being deleted there, or give way to it, have gone.
    waits_for_room: bool,
}

/// A scheduler over one cluster.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, each on or off")]
pub struct Scheduler<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    launchable: Launchable,
    state: Snapshot,
    groups: Groups,
    tables: NodeTables<'a>,
    images: NodeImages,
    views: Views,
    sharers: Sharers,
    /// Whether classes share indexes.
    shares: bool,
    /// Whether cells that a class cannot tell apart are looked at together where there are many.
    merges_cells: bool,
    indexes: FxHashMap<IndexId, (u64, Index)>,
    /// Entries of all indexes.
    entries: usize,
    /// Counts questions, to tell which index was asked longest ago.
    asked: u64,
    /// Who was placed by the queue, one by one: the row of the input that a pod is of, its class, and its node.
    log: Vec<Placed>,
    /// The indexes that were asked, in a trial.
    looked: Vec<IndexId>,
    evicted: Vec<Eviction>,
    /// Pods that are off their node, for good or in a what-if.
    off: FxHashSet<Eviction>,
    /// By PodDisruptionBudget: how many more pods it lets go.
    allowed: Vec<i32>,
    /// Whether pods that budgets do not let go stay, as where they are evicted through the API.
    keeps_budgets: bool,
    /// Whether pods may be placed where they count on the room of pods that are being deleted, as in a plan.
    counts_on_terminating: bool,
    replacements: Replacements,
    /// The pods that may give way; made when they are needed first.
    residents: Option<Arc<Residents>>,
    /// Where room could be made for pods of the class that was asked about last.
    kept: Option<(ClassId, Kept)>,
    /// Pods that room is held for, by node.
    nominated: FxHashMap<usize, Vec<ClassId>>,
    /// By Reservation: the node where it was held last.
    places: Vec<Option<u32>>,
    expectations: expected::Expectations,
    members: Members,
    /// Running pods that Reservations were bound to.
    bound_to: FxHashMap<Eviction, u32>,
    /// A node that is gone, in a what-if.
    gone: Option<usize>,
    /// Nodes that are not as groups and indexes know them, in a what-if; the one that is gone is among them.
    aside: Vec<usize>,
    domains: DomainSizes,
}

impl<'a> Scheduler<'a> {
    /// A scheduler for a cluster; `universe` is made [with scores](Universe::with_scores).
    pub fn new(cluster: &'a Cluster, universe: &'a Universe, launchable: Launchable) -> Self {
        let kinds = Kinds::new(cluster);
        let tables = NodeTables::of_kinds(cluster, universe, &kinds);
        let state = tables.snapshot();
        let mut domains = DomainSizes::new(cluster, &universe.counters, |filter, node| tables.admits(filter, node));
        launchable.number(&mut domains);
        Scheduler {
            cluster,
            universe,
            launchable,
            groups: Groups::new(cluster, state.nodes(), kinds),
            state,
            tables,
            images: NodeImages::new(&cluster.nodes),
            views: Views::new(cluster, universe, false),
            sharers: Sharers::default(),
            shares: true,
            merges_cells: true,
            indexes: FxHashMap::default(),
            entries: 0,
            asked: 0,
            log: Vec::new(),
            looked: Vec::new(),
            evicted: Vec::new(),
            off: FxHashSet::default(),
            allowed: cluster.budgets.iter().map(|budget| budget.allowed).collect(),
            keeps_budgets: false,
            counts_on_terminating: false,
            replacements: Replacements::default(),
            residents: None,
            kept: None,
            nominated: FxHashMap::default(),
            places: places(cluster),
            expectations: expected::Expectations::default(),
            members: Members::new(cluster, universe),
            bound_to: FxHashMap::default(),
            gone: None,
            aside: Vec::new(),
            domains,
        }
    }

    /// Whose classes that only run may ask for a place later.
    #[must_use]
    pub fn to_be_kept(mut self) -> Self {
        self.views = Views::new(self.cluster, self.universe, true);
        self.images = NodeImages::by_name(self.cluster);
        self
    }

    /// With an index for each class that sees nodes otherwise than others do, for whatever reason: the same decisions, dearer.
    #[must_use]
    pub fn with_own_indexes(mut self) -> Self {
        self.shares = false;
        self
    }

    /// With each domain looked at by itself, however many there are: the same decisions, dearer.
    #[must_use]
    pub fn with_single_cells(mut self) -> Self {
        self.merges_cells = false;
        self
    }

    /// With other rules for Reservations than the cluster's.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.tables.rules = rules;
        self
    }

    /// The nodes and counts as they are now.
    pub fn state(&self) -> &Snapshot {
        &self.state
    }

    /// The pods that gave way, in order of their nodes.
    pub fn evicted(&self) -> Vec<Eviction> {
        let mut evicted = self.evicted.clone();
        evicted.sort_unstable();
        evicted
    }

    /// The pods that gave way after so many had, in order of importance.
    pub fn evicted_since(&self, count: usize) -> &[Eviction] {
        self.evicted.get(count..).unwrap_or_default()
    }

    fn world(&self) -> World<'_> {
        World {
            fit: self.tables.fit(&self.state),
            groups: &self.groups,
            images: &self.images,
            nominated: &self.nominated,
            places: &self.places,
            gone: self.gone,
        }
    }

    /// A class's index, brought up to date; to be given back by [`Scheduler::keep_index`].
    fn take_index(&mut self, id: ClassId) -> Option<Index> {
        let Some((_, mut index)) = self.indexes.remove(&self.index_of(id)) else {
            return Some(Index::new(self.shape(id)?, self.world()));
        };
        self.entries = self.entries.saturating_sub(index.len());
        if index.shape.class == id && index.knows_nodes(self.world()) {
            index.catch_up(self.world());
        } else {
            index.look_as(self.shape(id)?, self.world());
        }
        Some(index)
    }

    fn index_of(&self, id: ClassId) -> IndexId {
        IndexId::View(self.views.of(id))
    }

    fn has_index(&self, id: ClassId) -> bool {
        self.indexes.contains_key(&self.index_of(id))
    }

    /// An index of no node.
    fn bare_index(&self, id: ClassId) -> Option<Index> {
        Some(Index::bare(self.shape(id)?, self.world()))
    }

    fn known(&self) -> Known<'_> {
        let Scheduler { cluster, universe, domains, launchable, .. } = self;
        Known { cluster, universe, sizes: domains, launchable }
    }

    fn shape(&self, id: ClassId) -> Option<Shape> {
        let (_, spec) = self.class_and_spec(id)?;
        Shape::new(self.known(), id, Arc::new(spec.clone()), Vec::new())
    }

    /// Keeps an index. Of too many those that were asked longest ago go first.
    fn keep_index(&mut self, id: IndexId, index: Index) {
        let most = LEAST_ENTRIES.max(ENTRIES_OF_NODE.saturating_mul(self.cluster.nodes.len()));
        self.asked += 1;
        self.entries += index.len();
        if self.groups.is_trial() && self.looked.last() != Some(&id) {
            self.looked.push(id);
        }
        if let Some((_, before)) = self.indexes.insert(id, (self.asked, index)) {
            self.entries = self.entries.saturating_sub(before.len());
        }
        while self.entries > most && self.indexes.len() > 1 {
            let oldest = self.indexes.iter().min_by_key(|(_, (asked, _))| *asked).map(|(id, _)| *id);
            let Some((_, index)) = oldest.and_then(|id| self.indexes.remove(&id)) else { return };
            self.entries = self.entries.saturating_sub(index.len());
        }
    }

    /// Runs `ask` with a class's index, brought up to date.
    fn with_index<T>(&mut self, id: ClassId, ask: impl FnOnce(&Self, &Index) -> T) -> Option<T> {
        let index = self.take_index(id)?;
        let answer = ask(self, &index);
        self.keep_index(self.index_of(id), index);
        Some(answer)
    }

    /// Whether pods on a node count in a counter.
    fn counts_on(&self, counter: CounterId, node: usize) -> bool {
        self.world().counts_on(counter, node)
    }
}

// Where Reservations are held.
fn places(cluster: &Cluster) -> Vec<Option<u32>> {
    let mut places = vec![None; cluster.reservations.len()];
    for (node, at) in cluster.nodes.iter().zip(0..) {
        for holding in &node.holdings {
            if let Some(place) = places.get_mut(holding.reservation as usize) {
                *place = Some(at);
            }
        }
    }
    places
}
