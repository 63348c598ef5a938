//! New nodes for pods that no node takes, planned as if there were no others than those that come up, or none: where the others
//! have no say in it, that costs what is planned, not the size of the cluster.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, MemberRun, PodSpec, Resources, RowId, Universe, Volumes};
use berth_provisioning::Launching;
use berth_state::State;

use crate::allocation;
use crate::answer::Answer;
use crate::assignment::Assignment;
use crate::decision::{Decision, Launch, Nomination};
use crate::options::{ExpectedDrawers, ExpectedNodes, Options, Placing};
use crate::plans::Plans;
use crate::rest::{FreeRooms, Rest};

/// Where those come who were left.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) launches: Vec<Launch>,
    /// Who joins nodes that come up.
    pub(crate) nominations: Vec<Nomination>,
    /// And of those who run yet.
    pub(crate) moves: Vec<Nomination>,
}

// === impl Rest ===

impl Rest {
    /// Whether new nodes for these may be planned as if there were no others than those that come up. `left` are their classes,
    /// and `rooms` what is left on other nodes that planned pods may still come to.
    pub(crate) fn is_separable(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        left: &[(ClassId, u32)],
        options: &Options,
        rooms: &FreeRooms,
    ) -> bool {
        let specs: Vec<&PodSpec> = left.iter().filter_map(|(id, _)| spec_of(cluster, universe, *id)).collect();
        let fit = |free: &Resources| specs.iter().any(|spec| spec.requests.fits(free));
        self.may_join = rooms.coming_up.iter().any(fit);
        options.solve.max_shares.is_empty()
            && specs.len() == left.len()
            && left.iter().all(|(id, _)| is_plain(cluster, universe, *id))
            // Room was made for those that are nominated, and who is refused is told why by all nodes.
            && specs.iter().all(|spec| spec.nominated_node.is_none() && spec.refusal.is_none())
            && !rooms.expected.iter().any(fit)
    }

    /// Plans new nodes for them; `None` where some find no place there either.
    pub(crate) fn plan(
        mut self,
        state: &State,
        options: &Options,
        (launching, plans): (&Launching, &mut Plans),
    ) -> Option<Planned> {
        let cluster = state.last_cluster()?;
        let mut supply = cluster.without_nodes();
        if !self.may_join {
            supply.add_pending(cluster, self.rows)?;
            let launches = plan(state, options, &mut supply, (launching, plans))?;
            return Some(Planned { launches, ..Planned::default() });
        }
        supply.nodes = cluster.nodes.iter().filter(|node| node.is_coming_up).cloned().collect();
        supply.sort_nodes();
        // Those who are expected take their places there first, as where the whole is decided.
        let mut rows: BTreeMap<RowId, Vec<MemberRun>> = self.expected.drain(..).collect();
        for (row, members) in self.rows {
            rows.entry(row).or_default().extend(members);
        }
        supply.add_pending(cluster, rows)?;
        let mut planned = Decision::default();
        solve(state, options, &mut supply, (launching, plans), options.placing(), &mut planned)?;
        let Decision { launches, nominations, moves, .. } = planned;
        Some(Planned { launches, nominations, moves })
    }
}

trait Pending {
    /// Adds who is pending in another cluster, by its rows; `None` where there is no such row.
    fn add_pending(&mut self, of: &Cluster, rows: impl IntoIterator<Item = (RowId, Vec<MemberRun>)>) -> Option<()>;
}

impl Pending for Cluster {
    fn add_pending(&mut self, of: &Cluster, rows: impl IntoIterator<Item = (RowId, Vec<MemberRun>)>) -> Option<()> {
        for (row, members) in rows {
            let row = of.row(row)?;
            self.pending_row(row.kind, row.namespace, row.spec, row.labels)?.members = members;
        }
        Some(())
    }
}

/// New nodes for who is pending in a cluster without nodes; `None` where some find no place.
pub(crate) fn plan(
    state: &State,
    options: &Options,
    supply: &mut Cluster,
    with: (&Launching, &mut Plans),
) -> Option<Vec<Launch>> {
    let mut planned = Decision::default();
    let (expected, drawers) = (ExpectedNodes::new(), ExpectedDrawers::new());
    let none = Placing { expected: &expected, drawers: &drawers, ..options.placing() };
    solve(state, options, supply, with, none, &mut planned)?;
    Some(planned.launches)
}

/// Decides who joins nodes that come up, and what is launched for others; `None` where some find no place.
fn solve(
    state: &State,
    options: &Options,
    supply: &mut Cluster,
    (launching, plans): (&Launching, &mut Plans),
    placing: Placing<'_>,
    decision: &mut Decision,
) -> Option<()> {
    let (universe, solution, allocation) =
        allocation::solve_beside(supply, &options.solve, launching, placing, Some(plans));
    if solution.unschedulable.iter().any(|left| left.count > 0) {
        return None;
    }
    let answer = Answer { state, options, cluster: supply, allocation: &allocation };
    let assignment = Assignment::new(supply, &universe, &solution);
    answer.planned_on_nodes(&assignment, &solution, decision);
    for (at, (claims, shares)) in solution.claims.iter().zip(&assignment.claims).enumerate() {
        decision.launches.extend((0..claims.count).map(|copy| answer.launch(&assignment, claims, shares, (at, copy))));
    }
    Some(())
}

/// Whether new nodes for pods of a class do not depend on who is on others.
pub(crate) fn is_plain(cluster: &Cluster, universe: &Universe, id: ClassId) -> bool {
    let (Some(class), Some(spec)) = (universe.class(id), spec_of(cluster, universe, id)) else { return false };
    let hostname = cluster.well_known.hostname;
    let is_of_host = |counter: &berth_model::CounterId| {
        let counter = universe.counter(*counter);
        counter.is_some_and(|counter| counter.key == hostname || counter.scores_only)
    };
    let is_free = class.required.is_empty()
        && class.preferred.affinity.is_empty()
        && class.preferred.anti_affinity.is_empty()
        && class.preferred.spread.is_empty()
        && class.counts_in.iter().all(is_of_host);
    is_free && spec.volumes == Volumes::default() && spec.reservation == berth_model::ReservationAsk::default()
}

fn spec_of<'c>(cluster: &'c Cluster, universe: &Universe, id: ClassId) -> Option<&'c PodSpec> {
    cluster.spec(universe.class(id)?.spec)
}
