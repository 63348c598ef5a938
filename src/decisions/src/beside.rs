//! New nodes for pods that no node takes, planned as if there were no nodes: where these have no say in it, that costs what is
//! planned, not the size of the cluster.

use berth_model::{ClassId, Cluster, MemberRun, PodSpec, Resources, Universe, Volumes};
use berth_provisioning::Launching;
use berth_state::State;

use crate::deal::Deal;
use crate::decide::{Answer, Options};
use crate::decision::Launch;
use crate::drawing;
use crate::expected::{ExpectedDrawers, ExpectedNodes};

/// Pods that find no place on nodes, by row of the cluster's pending ones.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The rows in order, each with members that are left.
    pub(crate) rows: Vec<(usize, Vec<MemberRun>)>,
}

// === impl Rest ===

impl Rest {
    /// Whether new nodes for these may be planned as if there were no others. `left` are their classes, and `free` is what is
    /// left on nodes that planned pods may still come to: those that come up, and those where pods are expected.
    pub(crate) fn is_separable<'f>(
        cluster: &Cluster,
        universe: &Universe,
        left: &[(ClassId, u32)],
        options: &Options,
        mut free: impl Iterator<Item = &'f Resources>,
    ) -> bool {
        let specs: Vec<&PodSpec> = left.iter().filter_map(|(id, _)| spec_of(cluster, universe, *id)).collect();
        options.solve.max_shares.is_empty()
            && specs.len() == left.len()
            && left.iter().all(|(id, _)| is_plain(cluster, universe, *id))
            // Room was made for those that are nominated, and who is refused is told why by all nodes.
            && specs.iter().all(|spec| spec.nominated_node.is_none() && spec.refusal.is_none())
            && !free.any(|free| specs.iter().any(|spec| spec.requests.fits(free)))
    }

    /// Plans new nodes for them; `None` where some find no place there either.
    pub(crate) fn plan(self, state: &State, options: &Options, launching: &Launching) -> Option<Vec<Launch>> {
        let cluster = state.last_cluster()?;
        let mut supply = cluster.without_nodes();
        for (row, members) in self.rows {
            let row = cluster.pending.get(row)?;
            supply.pending_row(row.kind, row.namespace, row.spec, row.labels)?.members = members;
        }
        plan(state, options, &mut supply, launching)
    }
}

/// New nodes for who is pending in a cluster without nodes; `None` where some find no place.
pub(crate) fn plan(
    state: &State,
    options: &Options,
    supply: &mut Cluster,
    launching: &Launching,
) -> Option<Vec<Launch>> {
    let (universe, solution, drawing) =
        drawing::solve_beside(supply, &options.solve, launching, (&ExpectedNodes::new(), &ExpectedDrawers::new()));
    if solution.unschedulable.iter().any(|left| left.count > 0) {
        return None;
    }
    let answer = Answer { state, options, cluster: supply, drawing: &drawing };
    let deal = Deal::new(supply, &universe, &solution);
    let mut launches = Vec::new();
    for (at, (claims, shares)) in solution.claims.iter().zip(&deal.claims).enumerate() {
        launches.extend((0..claims.count).map(|copy| answer.launch(&deal, claims, shares, (at, copy))));
    }
    Some(launches)
}

/// Whether new nodes for pods of a class do not depend on who is on others.
pub(crate) fn is_plain(cluster: &Cluster, universe: &Universe, id: ClassId) -> bool {
    let (Some(class), Some(spec)) = (universe.class(id), spec_of(cluster, universe, id)) else { return false };
    let hostname = cluster.well_known.hostname;
    let is_of_host = |counter: &berth_model::CounterId| {
        universe.counters.get(counter.index()).is_some_and(|counter| counter.key == hostname)
    };
    let is_free = class.required.is_empty()
        && class.preferred.together.is_empty()
        && class.preferred.apart.is_empty()
        && class.preferred.spread.is_empty()
        && class.counts_in.iter().all(is_of_host);
    is_free && spec.volumes == Volumes::default() && spec.reservation == berth_model::ReservationAsk::default()
}

fn spec_of<'c>(cluster: &'c Cluster, universe: &Universe, id: ClassId) -> Option<&'c PodSpec> {
    cluster.specs.get(universe.class(id)?.spec as usize)
}
