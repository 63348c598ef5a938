//! Pods onto nodes that exist, with the semantics of kube-scheduler's default profile: by priority, then in order of the
//! input; filters; scores of all nodes that pass them; the best, ties by name; preemption.
//!
//! Work is done per class and is incremental. Nodes alike are one group, looked at once. A class keeps an index of the
//! groups that would take it, in cells between which normalised scores may differ, and brings it up to date by what has
//! changed since it was last asked: a decision costs as many steps as there are cells, not nodes. Classes that see nodes
//! alike but for the Reservations that they may draw from share one index, in which those few nodes are looked at anew.
//!
//! [`tables`] holds what a decision reads, [`ledger`] what it changes, [`caches`] what was found and is kept, [`intake`] what
//! a queue knows that is worked off. All else is functions over these, whose signatures say what they read and change: who
//! only looks takes a [`world::World`], which is tables and ledger to be read.

mod assess;
mod bindings;
mod buckets;
mod budgets;
mod caches;
mod cell;
mod choose;
mod counted;
mod diagnose;
mod discount;
mod domains;
mod eviction;
mod expected;
mod first;
mod follow;
mod groups;
mod history;
mod hold;
mod images;
mod index;
mod indexes;
mod intake;
mod launchable;
mod ledger;
mod look;
mod members;
mod names;
mod obstacle;
mod paused;
mod place;
mod placements;
mod pre_allocate;
mod preempt;
mod queue;
mod queue_position;
mod ranks;
mod replace;
mod reserved;
mod shape;
mod shared;
mod sharers;
mod tables;
mod terminating;
mod values;
mod victims;
mod view;
mod weigh;
mod what_if;
mod world;

use berth_model::{ClassId, Cluster, CounterId, ReservationId, Snapshot, Universe};

pub use assess::{Assessment, Verdict};
pub use bindings::Bindings;
pub use eviction::Eviction;
pub use expected::{Expected, Waiting};
pub use first::ComeFirst;
pub use history::Step;
pub use intake::Queue;
pub use launchable::{EmptyHost, Launchable};
pub use paused::{Paused, Trial};
pub use placements::{Placement, came};
pub use preempt::KeptByBudgets;
pub use queue_position::is_of_one_node;
pub use replace::expect_replacements;
pub use what_if::Counted;

use caches::Caches;
use groups::Groups;
use images::NodeImages;
use intake::Intake;
use ledger::Ledger;
use tables::Tables;
use view::Views;
use world::World;

use crate::kinds::Kinds;
use crate::node_tables::NodeTables;
use crate::reservation::Rules;

/// A scheduler over one cluster.
#[derive(Clone, Debug)]
pub struct Scheduler<'a> {
    tables: Tables<'a>,
    ledger: Ledger,
    caches: Caches,
    intake: Intake,
}

impl<'a> Scheduler<'a> {
    /// A scheduler for a cluster; `universe` is made [with scores](Universe::with_scores).
    pub fn new(cluster: &'a Cluster, universe: &'a Universe, launchable: Launchable) -> Self {
        let kinds = Kinds::new(cluster);
        let nodes = NodeTables::of_kinds(cluster, universe, &kinds);
        let state = nodes.snapshot();
        let groups = Groups::new(cluster, state.nodes(), kinds);
        Scheduler {
            tables: Tables::new(nodes, launchable),
            ledger: Ledger::new(cluster, universe, state, groups),
            caches: Caches::new(Views::new(cluster, universe, false)),
            intake: Intake::default(),
        }
    }

    /// Whose classes that only run may ask for a place later.
    #[must_use]
    pub fn to_be_kept(mut self) -> Self {
        let (cluster, universe) = (self.tables.cluster, self.tables.universe);
        self.caches.set_views(Views::new(cluster, universe, true));
        self.tables.images = NodeImages::by_name(cluster);
        self
    }

    /// With an index for each class that sees nodes otherwise than others do, for whatever reason: the same decisions, dearer.
    #[must_use]
    pub fn with_own_indexes(mut self) -> Self {
        self.caches.sharers.is_used = false;
        self
    }

    /// With each domain looked at by itself, however many there are: the same decisions, dearer.
    #[must_use]
    pub fn with_single_cells(mut self) -> Self {
        self.caches.merges_cells = false;
        self
    }

    /// With other rules for Reservations than the cluster's.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.tables.nodes.rules = rules;
        self
    }

    /// PodDisruptionBudgets are what the cluster says now.
    pub fn budgets_changed(&mut self) {
        self.ledger.budgets.read_again(self.tables.cluster);
    }

    /// What could be launched is this now. `n_counters` were known before: who asked for those looks at all nodes anew if there
    /// is a difference.
    pub fn set_launchable(&mut self, launchable: Launchable, n_counters: usize) {
        let before = &self.tables.launchable;
        if !launchable.is_same_of_first(n_counters, before) {
            self.caches.indexes.clear();
        }
        if launchable != *before {
            self.caches.sharers.launchable_changed();
        }
        launchable.number(&mut self.tables.domains);
        self.tables.launchable = launchable;
    }

    /// Takes in what has changed. Whether that could be done: else the scheduler is of no use any more.
    #[must_use]
    pub fn follow(&mut self, steps: &[Step<'_>]) -> bool {
        follow::follow(&mut self.tables, &mut self.ledger, steps)
    }

    /// The nodes and counts as they are now.
    pub fn state(&self) -> &Snapshot {
        &self.ledger.state
    }

    fn world(&self) -> World<'_> {
        World::new(&self.tables, &self.ledger)
    }
}

/// What nodes say.
impl Scheduler<'_> {
    /// The node that a pod of the class goes to now, by index; `None` if none takes it. Nothing changes.
    pub fn choose(&mut self, id: ClassId) -> Option<usize> {
        choose::choose(World::new(&self.tables, &self.ledger), &mut self.caches, id)
    }

    /// What every node says to a pod of the class now, in order of nodes. A pod that cannot be placed at all (see
    /// [`berth_model::PodSpec::refusal`]) is assessed as if it could. A pod that is nominated to a node may count on the
    /// room of those that are being deleted there.
    pub fn assess(&mut self, id: ClassId) -> Vec<Assessment> {
        assess::assess(&self.tables, &mut self.ledger, &mut self.caches, id)
    }

    /// Why nodes refuse a pod of the class now: each reason with the number of nodes, most first, then by text. What
    /// Reservations say to it follows, counted by Reservation.
    pub fn refusals(&mut self, id: ClassId) -> Vec<(String, u32)> {
        assess::refusals(World::new(&self.tables, &self.ledger), &mut self.caches, id)
    }

    /// Who would give way to a pod of the class if no PodDisruptionBudget kept them, on the node where the fewest are kept.
    /// `None` where nobody's going helps, or pods may go that no budget keeps.
    pub fn kept_by_budgets(&mut self, id: ClassId) -> Option<KeptByBudgets> {
        preempt::kept_by_budgets(&self.tables, &mut self.ledger, &mut self.caches, id)
    }

    /// What Reservations say to a class; see [`Scheduler::refusals`].
    pub fn reservation_refusals(&mut self, id: ClassId) -> Vec<(String, u32)> {
        let world = World::new(&self.tables, &self.ledger);
        self.caches.with_index(world, id, |index| world.reservations_say(index)).unwrap_or_default()
    }

    /// Why nodes refuse a Reservation that pre-allocates now: each reason with the number of nodes, most first.
    pub fn refusals_of_pre_allocation(&mut self, reservation: ReservationId) -> Vec<(String, u32)> {
        let counts = pre_allocate::refusals_of_pre_allocation(&self.tables, &mut self.ledger, reservation);
        assess::most_first(counts)
    }

    /// Where the pods of a node would go if it went, each of the class that it would have when its controller makes it anew,
    /// in this order; `None` for those that find no node as things are, without preemption. Everything is taken back. Pods
    /// that are pending are not asked. `None` in all where Reservations hold room on the node.
    pub fn try_without(&mut self, node: usize, again: &[ClassId]) -> Option<Vec<Option<usize>>> {
        what_if::try_without(&self.tables, &mut self.ledger, &mut self.caches, node, again)
    }

    /// What counters would count if the pods of a node went, and of those that come again some came to other nodes: class and
    /// node. Everything is taken back.
    pub fn counted_without(&mut self, node: usize, again: &[(ClassId, usize)], counters: &[CounterId]) -> Vec<Counted> {
        what_if::counted_without(&self.tables, &mut self.ledger, node, again, counters)
    }
}

/// Decisions, one by one; [`Scheduler::run`] makes all of a queue.
impl Scheduler<'_> {
    /// Binds a pod of a class to a node.
    ///
    /// A pod draws from the Reservation there that suits it best, if any, and spends one that is for one pod alone. The
    /// next Reservation of a class that stands in for some holds its room.
    pub fn bind(&mut self, id: ClassId, node: usize) {
        self.ledger.bind(&self.tables, id, node);
    }

    /// Takes a running pod off its node.
    pub fn evict(&mut self, eviction: Eviction) {
        self.ledger.evict(&self.tables, eviction);
    }

    /// Holds room on a node for a pod of a class that is to come, against pods of equal and lower priority.
    pub fn nominate(&mut self, id: ClassId, node: usize) {
        self.ledger.nominate(id, node);
    }

    /// Ends what [`Scheduler::nominate`] began.
    pub fn withdraw(&mut self, id: ClassId, node: usize) {
        self.ledger.withdraw(id, node);
    }

    /// Gives up what a Reservation holds: it is spent, expired, or deleted. Pods that draw from it stay as they are.
    pub fn release(&mut self, reservation: ReservationId) {
        self.ledger.release(&self.tables, reservation);
    }

    /// Makes room for a pod of the class where the least important pods have to go, and evicts them; the node. `None`,
    /// and nothing changes, where it does not help, or the pod never preempts.
    pub fn preempt(&mut self, id: ClassId) -> Option<usize> {
        self.preempt_on(id, None)
    }

    /// Places a Reservation that pre-allocates where it needs the fewest running pods, or those that suit it best; the
    /// node. It is Waiting while pods that it is bound to run, and owns nothing of them: what they free is its own.
    pub fn pre_allocate(&mut self, reservation: ReservationId) -> Option<usize> {
        pre_allocate::pre_allocate(&self.tables, &mut self.ledger, reservation)
    }

    /// From now on, pods of these rows come to these nodes first, in the order of their priority, and the room of those who
    /// cannot yet is held while the queue is worked off.
    pub fn expect(&mut self, rows: Expected) {
        self.intake.expectations.expect(&self.tables, &self.ledger.groups, rows);
    }

    /// While a queue is worked off, these pods wait for what is not there yet.
    pub fn let_wait(&mut self, mut waiting: Waiting) {
        self.intake.first.name_last(std::mem::take(&mut waiting.named_last));
        self.intake.expectations.let_wait(waiting);
    }

    /// Lets these pods come before others of their priority, those aside that may go to one node alone, that nodes were launched
    /// for, and pending Reservations. Pods of a row are alike, and a [`Trial`] names these first. [`Bindings`] name pods in the
    /// order of the input: there they are to be the first of their row.
    pub fn let_come_first(&mut self, pods: ComeFirst) {
        self.intake.first.put(pods);
    }
}

/// What was decided.
impl Scheduler<'_> {
    /// The pods that gave way, in order of their nodes.
    pub fn evicted(&self) -> Vec<Eviction> {
        self.ledger.evicted_in_order()
    }

    /// The pods that gave way after so many had, in order of importance.
    pub fn evicted_since(&self, count: usize) -> &[Eviction] {
        self.ledger.evicted.get(count..).unwrap_or_default()
    }

    /// The Reservations that pre-allocate and have no node, by index into [`berth_model::Cluster::reservations`].
    pub fn pre_allocating(&self) -> Vec<ReservationId> {
        pre_allocate::pre_allocating(&self.tables, &self.ledger)
    }

    /// The node where a Reservation holds room now, by index.
    pub fn node_of(&self, reservation: ReservationId) -> Option<usize> {
        let node = self.ledger.held.place(reservation)?;
        self.ledger.state.node(node)?.holding(reservation).map(|_| node)
    }

    /// The running pods that a Reservation was bound to in this decision: it waits until they have gone.
    pub fn bound_pods(&self, reservation: ReservationId) -> Vec<Eviction> {
        self.ledger.held.pods_bound_to(reservation)
    }

    /// All that was bound, in order of nodes: Reservations, then pods by class. Alike pods are named in the order of the
    /// input; of those on a node the first draw.
    pub fn placements(&self) -> Vec<Placement> {
        placements::placements(&self.tables, &self.ledger)
    }

    /// Ends the scheduler with what it decided.
    pub fn into_bindings(self) -> Bindings {
        bindings::bindings(&self.tables, &self.ledger)
    }
}
