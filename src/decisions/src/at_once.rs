//! What can be decided at once, while what takes long is decided elsewhere: pods go to nodes that are up and have room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{ClassId, Cluster, MemberKind, PendingRow, PodSpec, RowId, Universe};
use berth_scheduling::filter::{before_load, volumes};
use berth_scheduling::{Placement, Queue, Scheduler, Trial, is_of_one_node};
use berth_state::{State, Time, Tracked};

use crate::Decider;
use crate::come_first;
use crate::decide::bind_only;
use crate::decider::Kept;
use crate::decision::{DecideError, Decision};
use crate::existing::{Existing, is_to_be_bound};
use crate::expected::{ExpectedRows, waiting};
use crate::options::{Options, QUEUE, expect_synced};

/// Of those who might make others give way, how many are asked on which nodes.
const MOST_ASKED: usize = 64;

/// What was decided at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtOnce {
    /// Pods that go to nodes which are up.
    pub decision: Decision,
    /// Whether there is nothing else to decide, launches aside: nobody could make others give way, and no Reservation waits.
    pub is_all: bool,
    /// Whether that was not to be told at once: everything is to be converted, or looked at, again.
    pub is_stale: bool,
}

impl Decider {
    /// Decides what a decision without launches would, where nobody gives way for it and no Reservation gets a node: it takes
    /// as long as what was touched, not as the cluster is large.
    ///
    /// Pending Reservations come before pods of equal priority. Those of `asked`, by name, had their turn and found no place;
    /// while another one waits, no pod is bound.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn decide_at_once(
        &mut self,
        state: &mut State,
        options: &Options,
        asked: &BTreeSet<Arc<str>>,
        now: Time,
    ) -> Result<AtOnce, DecideError> {
        expect_synced(state)?;
        let not_now = AtOnce { is_stale: true, ..AtOnce::default() };
        if !state.is_converted(now) {
            return Ok(not_now);
        }
        // Who may have which of the volumes that are there is decided over all who want them.
        let of_volumes = state.rows_that_want_scarce_volumes(now);
        let tracked = state.tracked(now);
        let Some((existing, is_all)) = self.bind_at_once(tracked, options, (asked, &of_volumes)) else {
            return Ok(AtOnce { is_stale: self.is_stale, ..AtOnce::default() });
        };
        let options = Options { launches: false, ..options.clone() };
        Ok(AtOnce { decision: bind_only(state, &options, existing)?, is_all, is_stale: false })
    }

    /// Brings what is kept up to date, making it anew where that is needed.
    pub fn refresh(&mut self, state: &mut State, now: Time) {
        self.leave_before_conversion(state, now);
        self.kept = Some(self.kept_of(state.tracked(now)));
    }

    /// What is kept of a state is kept of a copy of it from now on ([`State::converted`]).
    pub(crate) fn follow_copy(&mut self, copy: &mut State, now: Time) {
        if let Some(kept) = &mut self.kept {
            kept.conversion = copy.tracked(now).conversion.clone();
        }
    }

    /// Takes over what another one keeps, and leaves to it what was kept so far.
    pub(crate) fn go_on_with(&mut self, other: &mut Decider) {
        std::mem::swap(&mut self.kept, &mut other.kept);
        other.gone = self.gone.take();
        self.is_stale = false;
    }

    // `None` where Reservations are to be placed first.
    fn bind_at_once(
        &mut self,
        tracked: Tracked<'_>,
        options: &Options,
        (asked, of_volumes): (&BTreeSet<Arc<str>>, &BTreeSet<RowId>),
    ) -> Option<(Existing, bool)> {
        let cluster = tracked.cluster;
        self.is_stale = false;
        if cluster.reservations.iter().any(is_to_be_bound) {
            return None;
        }
        let reservations = waiting_reservations(cluster);
        let mut names = reservations.iter().flat_map(|(_, row)| &row.members).map(|run| &run.name);
        if names.any(|name| !asked.contains(name)) {
            return None;
        }
        if !cluster
            .pending
            .iter()
            .any(|row| row.kind == MemberKind::Pod && row.members.iter().any(|run| !run.is_empty()))
        {
            return Some((Existing::default(), reservations.is_empty()));
        }
        let with_volumes = of_volumes.iter().filter_map(|id| Some((*id, cluster.row(*id)?)));
        let left_out = reservations.iter().copied().chain(with_volumes).map(|(at, row)| {
            let n_waiting = row.members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
            (at, n_waiting)
        });
        let mut waiting = waiting(cluster, &options.expected, &options.waited_for);
        waiting.left.extend(left_out);
        let have_nodes = waiting.have_nodes.clone();
        let kept = self.kept_if_current(tracked);
        self.is_stale = kept.is_none();
        let kept = kept?;
        let Kept { classes, scheduler, .. } = kept;
        let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
        scheduler.expect(ExpectedRows::on_nodes_that_are_up(cluster, &options.expected).to_schedule());
        scheduler.let_come_first(come_first::rows_of(cluster, &options.come_first));
        scheduler.let_wait(waiting);
        let trial = scheduler.try_out(Queue { preempts: false, ..QUEUE });
        let scheduler = scheduler.pause();
        let preempting =
            trial.as_ref().map(|trial| preempting(cluster, classes.universe(), (&trial.left, &have_nodes)));
        self.kept = Some(Kept { classes, scheduler, ..kept });
        let (Trial { mut placements, .. }, mut preempting) = (trial?, preempting?);
        let may_preempt = !preempting.is_empty();
        // Those whose volumes are shared out are decided later. What is less important leaves them their room.
        preempting.extend(of_volumes.iter().filter_map(|id| cluster.spec(cluster.row(*id)?.spec)));
        leave_room(cluster, &preempting, &mut placements);
        let mut existing = Existing::default();
        for placement in placements {
            existing.on_nodes.entry(placement.node).or_default().push(placement);
        }
        Some((existing, reservations.is_empty() && of_volumes.is_empty() && !may_preempt))
    }
}

/// The pending rows of Reservations, with their index.
pub(crate) fn waiting_reservations(cluster: &Cluster) -> Vec<(RowId, &PendingRow)> {
    let rows = cluster.rows();
    rows.filter(|(_, row)| row.kind == MemberKind::Reservation && row.members.iter().any(|run| !run.is_empty()))
        .collect()
}

/// Those who found no place and for whom others might give way: of no spec is one less important is told at once.
fn preempting<'c>(
    cluster: &'c Cluster,
    universe: &Universe,
    (left, have_nodes): (&[(ClassId, u32)], &BTreeMap<RowId, u32>),
) -> Vec<&'c PodSpec> {
    let left = left.iter().filter_map(|(id, count)| {
        let class = universe.class(*id)?;
        let of_rows = class.rows.iter().filter_map(|row| have_nodes.get(row));
        let n_with_node = of_rows.fold(0_u32, |sum, n| sum.saturating_add(*n));
        cluster.spec(class.spec).filter(|_| *count > n_with_node)
    });
    let mut left: Vec<&PodSpec> = left.filter(|spec| !spec.never_preempts).collect();
    if !left.is_empty() {
        let least = cluster.specs.iter().map(|known| known.priority).min();
        left.retain(|spec| least.is_some_and(|least| least < spec.priority));
    }
    left
}

/// Drops the first placement on a node where pods of lower priority may give way to one that found no place, and whose priority
/// is higher than that of the pod placed. All that were decided after it are dropped, too: the queue has the other pod first, unless
/// the pod placed may go to that node alone.
fn leave_room(cluster: &Cluster, preempting: &[&PodSpec], placements: &mut Vec<Placement>) {
    placements.sort_by_key(|placement| placement.nth);
    let gives_way = |placement: &Placement| {
        let spec = placement.spec.and_then(|spec| cluster.spec(spec));
        let (Some(spec), Some(node)) = (spec, cluster.nodes.get(placement.node)) else { return false };
        if is_of_one_node(cluster, spec) {
            return false;
        }
        let priority = spec.priority;
        let fits_instead = |spec: &PodSpec| {
            if before_load(cluster, node, spec).is_some() || volumes(cluster, node, spec).is_some() {
                return false;
            }
            let mut room = node.free.clone();
            let pods = node.pods.iter().filter_map(|pod| cluster.spec(pod.spec));
            pods.filter(|pod| pod.priority < spec.priority).for_each(|pod| room.add(&pod.requests));
            spec.requests.fits(&room)
        };
        let mut before = preempting.iter().filter(|spec| spec.priority > priority);
        // Of more it is taken for granted.
        before.clone().nth(MOST_ASKED).is_some() || before.any(|spec| fits_instead(spec))
    };
    if let Some(first) = placements.iter().position(gives_way) {
        placements.truncate(first);
    }
}
