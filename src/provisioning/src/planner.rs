//! A solve: what it reads, what it changes, and what it keeps.

use berth_model::{Cluster, Mark, Money, Resources, Universe};
use berth_packing::StopReason;

use crate::bound::{bound, least};
use crate::caches::Caches;
use crate::given_back::fill_given_back;
use crate::launchable::Launching;
use crate::ledger::Ledger;
use crate::options::{Effort, Options};
use crate::portfolio::pack_best;
use crate::solution::{Bound, Solution};
use crate::tables::Tables;
use crate::world::World;

/// A solve. Functions over these three decide; each takes what it needs of them.
pub(crate) struct Planner<'a> {
    pub(crate) tables: Tables<'a>,
    pub(crate) ledger: Ledger,
    pub(crate) caches: Caches<'a>,
}

// === impl Planner ===

impl<'a> Planner<'a> {
    pub(crate) fn new(cluster: &'a Cluster, universe: &'a Universe, options: &'a Options) -> Self {
        Self::of(cluster, universe, options, &Launching::new(cluster))
    }

    /// With what is known of the cluster's NodePools and catalogue.
    pub(crate) fn of(
        cluster: &'a Cluster,
        universe: &'a Universe,
        options: &'a Options,
        launching: &Launching,
    ) -> Self {
        let tables = Tables::new(cluster, universe, options, launching);
        Planner { ledger: Ledger::new(&tables), caches: Caches::new(&tables), tables }
    }

    pub(crate) fn world(&self) -> World<'_> {
        World::new(&self.tables, &self.ledger)
    }

    /// See [`pack_best`].
    pub(crate) fn pack_best(&mut self, effort: Effort) -> Option<StopReason> {
        pack_best(&self.tables, &mut self.ledger, &mut self.caches, effort)
    }

    /// See [`fill_given_back`].
    pub(crate) fn fill_given_back(&mut self, given: &[Resources]) -> bool {
        fill_given_back(&self.tables, &mut self.ledger, &mut self.caches, given)
    }

    /// See [`World::solution`].
    pub(crate) fn solution(&mut self) -> Solution {
        World::new(&self.tables, &self.ledger).solution(&mut self.caches.domains)
    }

    /// See [`bound`].
    pub(crate) fn bound(&mut self, fresh: Mark) -> Bound {
        bound(&self.tables, &mut self.ledger, &mut self.caches.domains, fresh)
    }

    /// What any plan costs at least that places what this one has placed since `fresh`, which is taken back; `None` where not all
    /// ways can be tried.
    pub(crate) fn least(&mut self, fresh: Mark) -> Option<Money> {
        least(&self.tables, &mut self.ledger, &mut self.caches.domains, fresh)
    }
}
