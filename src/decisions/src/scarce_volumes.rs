//! Volumes that are there and too few: those who wait in a running cluster share them out as those of a plan do.

use std::collections::BTreeSet;

use berth_model::{Cluster, Universe};
use berth_provisioning::Solution;
use berth_state::{OfferedVolumes, State, Time};

use crate::assignment::Assignment;
use crate::options::Options;

/// The cluster in which each pod that waits asks for what it is offered, with who is offered something; `None` where there are
/// enough volumes for all. To those of `left` what they were offered before was of no use.
pub(crate) fn shared_out(
    state: &mut State,
    options: &Options,
    left: &OfferedVolumes,
    now: Time,
) -> Option<(Cluster, OfferedVolumes)> {
    let expected = options.expected.iter().map(|(node, pods)| (&**node, &**pods));
    state.with_volumes_shared_out(expected, left, now)
}

/// Of those who were offered volumes, who found no place.
pub(crate) fn left_with(
    mut offered: OfferedVolumes,
    cluster: &Cluster,
    universe: &Universe,
    solution: &Solution,
) -> OfferedVolumes {
    if offered.is_empty() {
        return offered;
    }
    let assignment = Assignment::new(cluster, universe, solution);
    let left = assignment.unschedulable.iter().flat_map(|share| assignment.members(*share));
    let left: BTreeSet<String> = left.map(|member| member.to_string()).collect();
    offered.retain(|pod| left.contains(pod));
    offered
}
