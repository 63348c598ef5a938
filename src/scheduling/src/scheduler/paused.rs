//! A scheduler between two decisions: what it knows of nodes, groups and classes is kept, and brought up to date by what has
//! changed meanwhile. A decision is tried out and taken back: it is the cluster that says what came of it.

use berth_model::{ClassId, Cluster, CounterId, FilterId, Sym, Universe};
use fixedbitset::FixedBitSet;

use super::Scheduler;
use super::bindings::placed_by_row;
use super::caches::Caches;
use super::domains::DomainSizes;
use super::images::NodeImages;
use super::intake::{Intake, Queue};
use super::launchable::Launchable;
use super::ledger::Ledger;
use super::names::NodeNames;
use super::placements::Placement;
use super::tables::Tables;
use super::what_if::{begin_trial, take_back};
use crate::node_tables::NodeTables;
use crate::reservation::Rules;

/// What a scheduler knows, without the cluster that it looks at.
#[derive(Debug)]
pub struct Paused {
    tables: PausedTables,
    ledger: Ledger,
    caches: Caches,
}

/// What [`Tables`] say of a cluster, without it.
#[derive(Debug)]
struct PausedTables {
    filters: Vec<FixedBitSet>,
    counter_filters: Vec<Option<FilterId>>,
    rules: Rules,
    reports_cpus: usize,
    reports_numa: usize,
    names: NodeNames,
    images: NodeImages,
    domains: DomainSizes,
    launchable: Launchable,
}

/// What a scheduler would do.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// How many of each class find no node, ascending by class.
    pub left: Vec<(ClassId, u32)>,
    /// Where the others go, by name, in order of rows of the input.
    pub placements: Vec<Placement>,
}

// === impl Paused ===

impl Paused {
    /// The domains in which nodes could be launched, of a spread counter on another key than the hostname.
    pub fn launchable_domains(&self, counter: CounterId) -> impl Iterator<Item = Sym> {
        self.tables.launchable.domains.get(&counter).into_iter().flatten().copied()
    }
}

// === impl PausedTables ===

impl PausedTables {
    fn of(tables: Tables<'_>) -> Self {
        let Tables { nodes, names, images, domains, launchable } = tables;
        let NodeTables { filters, counter_filters, rules, reports_cpus, reports_numa, .. } = nodes;
        PausedTables { filters, counter_filters, rules, reports_cpus, reports_numa, names, images, domains, launchable }
    }

    fn resume<'a>(self, cluster: &'a Cluster, universe: &'a Universe) -> Tables<'a> {
        let PausedTables {
            filters,
            counter_filters,
            rules,
            reports_cpus,
            reports_numa,
            names,
            images,
            domains,
            launchable,
        } = self;
        let nodes = NodeTables { cluster, universe, filters, counter_filters, rules, reports_cpus, reports_numa };
        Tables { nodes, names, images, domains, launchable }
    }
}

impl<'a> Scheduler<'a> {
    /// Ends the scheduler, to go on later over the same nodes. Nothing was decided that is not taken back.
    pub fn pause(self) -> Paused {
        let Scheduler { tables, ledger, caches, .. } = self;
        Paused { tables: PausedTables::of(tables), ledger: ledger.rest(), caches: caches.rest() }
    }

    /// Goes on. The cluster has the same rules, and no Reservation is placed. What else has changed is to be told by
    /// [`Scheduler::follow`] before anything is asked.
    pub fn resume(cluster: &'a Cluster, universe: &'a Universe, paused: Paused) -> Self {
        let Paused { tables, ledger, caches } = paused;
        Scheduler { tables: tables.resume(cluster, universe), ledger, caches, intake: Intake::default() }
    }

    /// Works off the queue, and takes everything back. `None` where others would give way, or room would be held; the latter
    /// is no matter where nobody may preempt.
    pub fn try_out(&mut self, queue: Queue) -> Option<Trial> {
        let (mark, allowed) = (begin_trial(&mut self.ledger), self.ledger.budgets.allowed.clone());
        let left = self.run(queue);
        let ledger = &self.ledger;
        let holds_room = !ledger.off.is_empty() || !ledger.nominated.is_empty();
        let is_plain = ledger.evicted.is_empty()
            && !(queue.preempts && holds_room)
            && self.intake.replacements.waiting.is_empty()
            && ledger.held.bound_to.is_empty();
        let trial =
            is_plain.then(|| Trial { left, placements: placed_by_row(&self.tables, ledger, &self.intake.first) });
        self.ledger.forget_decisions(allowed);
        let counts_on_terminating = self.intake.counts_on_terminating;
        self.intake = Intake { counts_on_terminating, ..Intake::default() };
        (self.caches.residents, self.caches.kept) = (None, None);
        take_back(&self.tables, &mut self.ledger, &mut self.caches, mark);
        trial
    }
}
