//! What could be launched beside the nodes that exist, for a scheduler that binds to these first.

use berth_model::{Cluster, Constraint, CounterId, Universe};
use berth_scheduling::Launchable;

use crate::Options;
use crate::planner::Planner;

/// The domains that NodePools could launch nodes in, by spread constraint: a pod that a spread keeps off the nodes that
/// exist may be the first of a new one.
pub fn launchable(cluster: &Cluster, universe: &Universe, options: &Options) -> Launchable {
    let mut launchable = Launchable::default();
    if cluster.node_pools.iter().all(|pool| pool.refusal.is_some()) {
        return launchable;
    }
    let mut planner = Planner::new(cluster, universe, options);
    let spread = |constraint: &Constraint| matches!(constraint, Constraint::Spread { .. });
    let constraints = universe.classes.iter().flat_map(|class| class.required.iter().chain(&class.preferred.spread));
    let mut counters: Vec<CounterId> = constraints.filter(|c| spread(c)).map(Constraint::counter).collect();
    counters.sort_unstable();
    counters.dedup();
    for counter in counters {
        let Some(key) = universe.counters.get(counter.index()).map(|counter| counter.key) else { continue };
        if key == cluster.well_known.hostname {
            if planner.may_launch(counter) {
                launchable.hosts.insert(counter);
            }
        } else {
            launchable.domains.insert(counter, planner.domains(counter).to_vec());
            launchable.keys.insert(counter, key);
        }
    }
    launchable
}
