//! Decisions from what is kept between them: classes, nodes and groups follow the state by what has changed.

use berth_model::{Cluster, LiveUniverse, MemberKind};
use berth_provisioning::launchable;
use berth_scheduling::{Paused, Queue, Scheduler, Trial};
use berth_state::{Change, Conversion, State, Time, Tracked};

use crate::SolveOptions;
use crate::decide::{Options, bind_only, decide, expect_synced};
use crate::decision::{DecideError, Decision};
use crate::displaced::{self, Displaced};
use crate::existing::{Existing, is_to_be_bound};
use crate::expected::Rows;

/// How pods are placed on nodes that exist before any is launched.
pub(crate) const QUEUE: Queue =
    Queue { preempts: true, keeps_budgets: true, keeps_homes_whole: true, counts_on_terminating: true };

/// Decides over one state again and again. What [`decide`] makes anew for each decision it keeps where pods alone came and
/// went: a decision that binds to nodes that exist costs what was touched, not the size of the cluster. It decides the same.
///
/// Launches, preemption, and Reservations that are to be placed are decided by [`decide`] itself.
#[derive(Debug, Default)]
pub struct Decider {
    pub(crate) kept: Option<Kept>,
}

/// What is kept of one conversion of a cluster.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) conversion: Conversion,
    /// How many changes of pods on nodes were taken in.
    pub(crate) n_changes: usize,
    pub(crate) solve: SolveOptions,
    pub(crate) classes: LiveUniverse,
    pub(crate) scheduler: Paused,
}

// === impl Decider ===

impl Decider {
    /// One that keeps nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides what to do now, as [`decide`] does.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn decide(&mut self, state: &mut State, options: &Options, now: Time) -> Result<Decision, DecideError> {
        expect_synced(state)?;
        let existing = state.tracked(now).and_then(|tracked| self.bind(tracked, options));
        match existing {
            Some(existing) => bind_only(state, options, existing),
            None => decide(state, options, now),
        }
    }

    /// Who goes to which node that exists; `None` where that is not all there is to decide.
    fn bind(&mut self, tracked: Tracked<'_>, options: &Options) -> Option<Existing> {
        let cluster = tracked.cluster;
        let mut pending = cluster.pending.iter().filter(|row| row.members.iter().any(|run| !run.is_empty())).peekable();
        if cluster.reservations.iter().any(is_to_be_bound) {
            return None;
        }
        if pending.peek().is_none() {
            return Some(Existing::default());
        }
        if pending.any(|row| row.kind == MemberKind::Reservation) {
            return None;
        }
        let kept =
            self.kept.take().filter(|kept| kept.conversion == *tracked.conversion && kept.solve == options.solve);
        let kept = kept.and_then(|kept| kept.caught_up(tracked)).unwrap_or_else(|| Kept::new(tracked, &options.solve));
        let Kept { classes, scheduler, .. } = kept;
        let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
        scheduler.expect(Rows::new(cluster, &options.expected).to_schedule());
        let Trial { left, placements } = scheduler.try_out(QUEUE)?;
        let scheduler = scheduler.pause();
        self.kept = Some(Kept { classes, scheduler, ..kept });
        if options.launches && left.iter().any(|(_, count)| *count > 0) {
            return None;
        }
        let mut existing = Existing::default();
        for placement in placements {
            existing.on_nodes.entry(placement.node).or_default().push(placement);
        }
        Some(existing)
    }
}

impl Decider {
    // What is kept, up to date.
    pub(crate) fn kept_of(&mut self, tracked: Tracked<'_>, options: &Options) -> Kept {
        let kept =
            self.kept.take().filter(|kept| kept.conversion == *tracked.conversion && kept.solve == options.solve);
        kept.and_then(|kept| kept.caught_up(tracked)).unwrap_or_else(|| Kept::new(tracked, &options.solve))
    }

    /// What would become of the pods of a node if it went: those whose controllers make them anew are placed on other nodes
    /// that are up, by priority and age, without preemption; the others go with it. Nothing changes, and pods that are
    /// pending are not asked. It costs what is on the node, where a fork that removes the node is converted anew.
    ///
    /// `Ok(None)` where that is not told so easily, and a fork is to be asked: there is no such node, it holds room of
    /// Reservations or is alone in a topology domain, or a pod on it has no controller.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn without_node(
        &mut self,
        state: &mut State,
        node: &str,
        options: &Options,
        now: Time,
    ) -> Result<Option<Displaced>, DecideError> {
        expect_synced(state)?;
        let Some(tracked) = state.tracked(now) else { return Ok(None) };
        let cluster = tracked.cluster;
        let kept = self.kept_of(tracked, options);
        let Kept { classes, scheduler, .. } = kept;
        let (places, scheduler) = displaced::places(cluster, &classes, scheduler, node);
        self.kept = Some(Kept { classes, scheduler, ..kept });
        Ok(places.and_then(|places| displaced::named(state, &places)))
    }
}

// === impl Kept ===

impl Kept {
    fn new(tracked: Tracked<'_>, solve: &SolveOptions) -> Self {
        let cluster = tracked.cluster;
        let classes = LiveUniverse::new(cluster);
        let launchable = launchable(cluster, classes.universe(), solve);
        let scheduler = Scheduler::new(cluster, classes.universe(), launchable).to_be_kept().pause();
        let (conversion, n_changes) = (tracked.conversion.clone(), tracked.n_changes());
        Kept { conversion, n_changes, solve: solve.clone(), classes, scheduler }
    }

    /// With what has changed since; `None` where it is made anew more easily.
    fn caught_up(self, tracked: Tracked<'_>) -> Option<Self> {
        let Kept { mut classes, scheduler, n_changes, .. } = self;
        let cluster: &Cluster = tracked.cluster;
        let changes = tracked.changes_after(n_changes)?;
        let mut ids = Vec::with_capacity(changes.len());
        let mut has_other_supplies = false;
        for change in changes {
            let id = match change {
                Change::Pod(change) if change.comes => {
                    Some(classes.pod_came(cluster, change.node, change.at, &change.pod)?)
                }
                Change::Pod(change) => Some(classes.pod_left(change.node, change.at)?),
                Change::Room(_) | Change::Budgets => None,
                Change::Supplies => {
                    has_other_supplies = true;
                    None
                }
                Change::NodeCame(_) | Change::NodeWent(..) | Change::NodeChanged(..) | Change::Anything => return None,
            };
            ids.push(id);
        }
        if !classes.set_pending(cluster) {
            return None;
        }
        let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
        for (change, id) in changes.iter().zip(ids) {
            if let (Change::Pod(change), Some(id)) = (change, id)
                && !scheduler.pod_changed(id, &change.pod, change.node, change.comes)
            {
                return None;
            }
        }
        for change in changes {
            match change {
                Change::Room(node) => scheduler.room_changed(*node),
                Change::Budgets => scheduler.budgets_changed(),
                _ => {}
            }
        }
        if has_other_supplies {
            scheduler.set_launchable(launchable(cluster, classes.universe(), &self.solve));
        }
        let scheduler = scheduler.pause();
        Some(Kept { classes, scheduler, n_changes: tracked.n_changes(), ..self })
    }
}
