//! Decisions from what is kept between them: classes, nodes and groups follow the state by what has changed.

use berth_model::{ClassId, Cluster, LiveUniverse, MemberKind, RowId};
use berth_provisioning::Launching;
use berth_scheduling::{Paused, Scheduler, Step, Trial};
use berth_state::{Change, Conversion, OfferedVolumes, PodChange, State, Time, Tracked};

use crate::beside::Planned;
use crate::come_first;
use crate::decide::{bind_only, decide_with};
use crate::decision::{DecideError, Decision};
use crate::displaced::{self, Displaced};
use crate::existing::{Existing, is_to_be_bound};
use crate::expected::{ExpectedRows, waiting};
use crate::options::{Options, expect_synced};
use crate::plans::Plans;
use crate::rest::Rest;
use crate::scarce_volumes::shared_out;

/// Decides over one state again and again. What [`decide`](crate::decide()) makes anew for each decision it keeps where pods alone came and
/// went: a decision that binds to nodes that exist costs what was touched, not the size of the cluster. It decides the same.
///
/// Preemption, Reservations that are to be placed, volumes that are to be shared out, and launches that depend on nodes which
/// exist are decided by [`decide`](crate::decide()) itself.
#[derive(Debug, Default)]
pub struct Decider {
    pub(crate) kept: Option<Kept>,
    /// What was kept before and is of no use any more: to let it go takes long, too.
    pub(crate) gone: Option<Box<Kept>>,
    pub(crate) plans: Plans,
    n_made_anew: u64,
    n_whole: u64,
    /// Whether what is kept could not be brought up to date when that was asked last.
    pub(crate) is_stale: bool,
}

/// What is kept of one conversion of a cluster.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) conversion: Conversion,
    /// How many changes of pods on nodes were taken in.
    pub(crate) n_changes: usize,
    pub(crate) launching: Launching,
    /// By finite supply: whether it has a free instance.
    pub(crate) supplies: Vec<bool>,
    /// See [`Launching::within_limits`].
    pub(crate) within_limits: Vec<bool>,
    pub(crate) classes: LiveUniverse,
    pub(crate) scheduler: Paused,
}

// === impl Decider ===

impl Decider {
    /// One that keeps nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often what is kept was made anew from the whole cluster: after another conversion of it, and where a change could not
    /// be taken in.
    pub fn n_made_anew(&self) -> u64 {
        self.n_made_anew
    }

    /// How often the whole cluster was looked at to decide.
    pub fn n_whole(&self) -> u64 {
        self.n_whole
    }

    /// Decides what to do now, as [`decide`](crate::decide()) does.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn decide(&mut self, state: &mut State, options: &Options, now: Time) -> Result<Decision, DecideError> {
        expect_synced(state)?;
        self.leave_before_conversion(state, now);
        let shared_out = shared_out(state, options, &OfferedVolumes::default(), now);
        let found = if shared_out.is_none() { self.bind(state.tracked(now), options) } else { None };
        if let Some((existing, rest)) = found {
            let launching = self.kept.as_ref().map(|kept| &kept.launching);
            let planned = match launching {
                Some(launching) if !rest.rows.is_empty() => rest.plan(state, options, (launching, &mut self.plans)),
                _ => Some(Planned::default()),
            };
            if let Some(Planned { launches, nominations, moves }) = planned {
                let mut decision = bind_only(state, options, existing)?;
                decision.nominations.extend(nominations);
                decision.moves.extend(moves);
                return Ok(Decision { launches, ..decision });
            }
        }
        self.n_whole += 1;
        let tracked = state.tracked(now);
        let is_current = |kept: &&Kept| kept.conversion == *tracked.conversion && kept.n_changes == tracked.n_changes();
        let launching = self.kept.as_ref().filter(is_current).map(|kept| kept.launching.clone());
        decide_with(state, options, (launching.as_ref(), shared_out), now)
    }

    /// Who goes to which node that exists, and who needs new ones that may be planned by themselves; `None` where that is not
    /// all there is to decide.
    fn bind(&mut self, tracked: Tracked<'_>, options: &Options) -> Option<(Existing, Rest)> {
        let cluster = tracked.cluster;
        let mut pending = cluster.pending.iter().filter(|row| row.members.iter().any(|run| !run.is_empty())).peekable();
        if cluster.reservations.iter().any(is_to_be_bound) {
            return None;
        }
        if pending.peek().is_none() {
            return Some((Existing::default(), Rest::default()));
        }
        if pending.any(|row| row.kind == MemberKind::Reservation) {
            return None;
        }
        let kept = self.kept_of(tracked);
        let Kept { classes, scheduler, .. } = kept;
        let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
        let first = come_first::rows_of(cluster, &options.come_first);
        scheduler.let_come_first(first.clone());
        scheduler.expect(ExpectedRows::on_nodes_that_are_up(cluster, &options.expected).to_schedule());
        let waiting = waiting(cluster, &options.expected, &options.waited_for);
        let (left_waiting, named_last) = (waiting.left.clone(), waiting.named_last.clone());
        scheduler.let_wait(waiting);
        let trial = scheduler.try_out(options.placing().queue());
        let scheduler = scheduler.pause();
        self.kept = Some(Kept { classes, scheduler, ..kept });
        let Trial { mut left, placements } = trial?;
        let (mut existing, mut rest) = (Existing::default(), Rest::default());
        if options.launches && !left_waiting.is_empty() {
            let classes = self.kept.as_ref()?.classes.universe().classes.iter().zip((0..).map(ClassId));
            let wait = |row: &RowId| left_waiting.contains_key(row);
            left.extend(classes.filter(|(class, _)| class.rows.iter().any(wait)).map(|(_, id)| (id, 1)));
        }
        if options.launches && left.iter().any(|(_, count)| *count > 0) {
            let mut found = ExpectedRows::on_all_nodes(cluster, &options.expected).settle_beside(
                cluster,
                &placements,
                &options.expected,
                (&first, &named_last),
                options.placing().counts_on(),
            )?;
            // One that waits and has no room where it is expected was tried nowhere.
            if found.rest.rows.iter().any(|(row, _)| left_waiting.contains_key(row)) {
                return None;
            }
            let universe = self.kept.as_ref()?.classes.universe();
            // While nodes come up for all of them there is nothing to plan.
            if !found.rest.rows.is_empty() && !found.rest.is_separable(cluster, universe, &left, options, &found.free) {
                return None;
            }
            (existing.settled, rest) = (found.places, found.rest);
        }
        for placement in placements {
            existing.on_nodes.entry(placement.node).or_default().push(placement);
        }
        Some((existing, rest))
    }
}

impl Decider {
    /// Lets what is kept go where everything is about to be converted: it is of no use then, and both together would be most of
    /// what memory is ever needed for.
    pub(crate) fn leave_before_conversion(&mut self, state: &State, now: Time) {
        if !state.is_converted(now) {
            (self.kept, self.gone) = (None, None);
        }
    }

    // What is kept, up to date.
    pub(crate) fn kept_of(&mut self, tracked: Tracked<'_>) -> Kept {
        if let Some(kept) = self.kept_if_current(tracked) {
            return kept;
        }
        self.gone = None;
        self.n_made_anew += 1;
        Kept::new(tracked)
    }

    // The same, where it need not be made anew.
    pub(crate) fn kept_if_current(&mut self, tracked: Tracked<'_>) -> Option<Kept> {
        match self.kept.take()?.caught_up(tracked) {
            Ok(kept) => Some(kept),
            Err(gone) => {
                self.gone = Some(gone);
                None
            }
        }
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
    pub fn without_node<'s>(
        &mut self,
        state: &'s mut State,
        node: &str,
        now: Time,
    ) -> Result<Option<Displaced<'s>>, DecideError> {
        expect_synced(state)?;
        self.leave_before_conversion(state, now);
        let tracked = state.tracked(now);
        let Some(node) = tracked.position_of(node) else { return Ok(None) };
        let cluster = tracked.cluster;
        let kept = self.kept_of(tracked);
        let Kept { classes, scheduler, .. } = kept;
        let (places, scheduler) = displaced::places(cluster, &classes, scheduler, node);
        self.kept = Some(Kept { classes, scheduler, ..kept });
        Ok(places.and_then(|places| Displaced::new(state, places)))
    }
}

fn with_instances(cluster: &Cluster) -> Vec<bool> {
    cluster.slots.iter().map(|slots| slots.free > 0).collect()
}

// === impl Kept ===

impl Kept {
    fn new(tracked: Tracked<'_>) -> Self {
        let cluster = tracked.cluster;
        let classes = LiveUniverse::new(cluster);
        let launching = Launching::new(cluster);
        let launchable = launching.launchable(cluster, classes.universe());
        let scheduler = Scheduler::new(cluster, classes.universe(), launchable).to_be_kept().pause();
        let (conversion, n_changes) = (tracked.conversion.clone(), tracked.n_changes());
        let (supplies, within_limits) = (with_instances(cluster), launching.within_limits(cluster));
        Kept { conversion, n_changes, launching, supplies, within_limits, classes, scheduler }
    }

    /// With what has changed since. Where it is made anew more easily it is of no use any more, and given back to be let go.
    fn caught_up(mut self, tracked: Tracked<'_>) -> Result<Self, Box<Self>> {
        let cluster: &Cluster = tracked.cluster;
        let n_counters = self.classes.universe().counters.len();
        let is_same = self.conversion == *tracked.conversion;
        let Some(changes) = tracked.changes_after(self.n_changes).filter(|_| is_same) else {
            return Err(Box::new(self));
        };
        let Some(news) = News::taken_in(&mut self.classes, cluster, changes) else { return Err(Box::new(self)) };
        if changes.is_empty() && self.classes.universe().counters.len() == n_counters {
            return Ok(self);
        }
        let Kept { classes, scheduler, mut launching, mut within_limits, .. } = self;
        let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
        if !scheduler.follow(&news.steps) {
            let scheduler = scheduler.pause();
            return Err(Box::new(Kept { launching, within_limits, classes, scheduler, ..self }));
        }
        if news.budgets {
            scheduler.budgets_changed();
        }
        if news.offers {
            launching = Launching::new(cluster);
        }
        let supplies = with_instances(cluster);
        let has_other_supplies = news.supplies && supplies != self.supplies;
        let is_about_nodes = |step: &Step| !matches!(step, Step::Pod { .. } | Step::Room(_) | Step::Reserved(..));
        let has_other_limits = (news.offers || news.steps.iter().any(is_about_nodes)) && {
            let before = std::mem::replace(&mut within_limits, launching.within_limits(cluster));
            before != within_limits
        };
        // What only scores read keeps nobody from a launch.
        let new_counters = classes.universe().counters.get(n_counters..).unwrap_or_default();
        let has_new_rules = new_counters.iter().any(|counter| !counter.scores_only);
        if news.offers || has_other_supplies || has_other_limits || has_new_rules {
            scheduler.set_launchable(launching.launchable(cluster, classes.universe()), n_counters);
        }
        let scheduler = scheduler.pause();
        let n_changes = tracked.n_changes();
        let conversion = self.conversion;
        Ok(Kept { conversion, n_changes, launching, supplies, within_limits, classes, scheduler })
    }
}

/// What has changed in a cluster, as far as classes do not tell.
struct News<'c> {
    steps: Vec<Step<'c>>,
    supplies: bool,
    offers: bool,
    budgets: bool,
}

// === impl News ===

impl<'c> News<'c> {
    /// Brings classes up to date; `None` where they cannot be.
    fn taken_in(classes: &mut LiveUniverse, cluster: &Cluster, changes: &'c [Change]) -> Option<Self> {
        let steps = Vec::with_capacity(changes.len());
        let mut news = News { steps, supplies: false, offers: false, budgets: false };
        let mut has_other_reservations = false;
        for change in changes {
            match change {
                Change::Pod(PodChange { node, at, pod, comes }) => {
                    let class = if *comes {
                        classes.pod_came(cluster, *node, *at, pod)?
                    } else {
                        classes.pod_left(*node, *at, pod)?
                    };
                    news.steps.push(Step::Pod { node: *node, class, pod, comes: *comes });
                }
                Change::Room(node) => news.steps.push(Step::Room(*node)),
                Change::NodeCame(_) => {
                    classes.node_came();
                    news.steps.push(Step::Came);
                }
                Change::NodeWent(node, was) => {
                    if !classes.node_went(*node) {
                        return None;
                    }
                    news.steps.push(Step::Went(*node, was));
                }
                Change::NodeChanged(node, was) => news.steps.push(Step::Changed(*node, was)),
                Change::Budgets => news.budgets = true,
                Change::Supplies => news.supplies = true,
                Change::Offers => {
                    if !classes.set_daemons(cluster) {
                        return None;
                    }
                    news.offers = true;
                }
                Change::Reservations => has_other_reservations = true,
                Change::Namespaces => {
                    if !classes.set_namespaces(cluster) {
                        return None;
                    }
                }
            }
        }
        if has_other_reservations {
            news.steps.extend(classes.set_reservations(cluster)?.into_iter().map(|(id, was)| Step::Reserved(id, was)));
        }
        debug_assert!(classes.has_all_pods_of(cluster), "a change tells of a node that is elsewhere by now");
        classes.set_pending(cluster).then_some(news)
    }
}
