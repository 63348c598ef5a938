//! What could be launched beside the nodes that exist, for a scheduler that binds to these first.

use berth_model::{Cluster, Constraint, CounterId, Sym, Universe};
use berth_scheduling::Launchable;
use rustc_hash::FxHashMap;

use crate::Options;
use crate::planner::Planner;

/// The domains that NodePools could launch nodes in, by spread constraint: a pod that a spread keeps off the nodes that
/// exist may be the first of a new one.
pub fn launchable(cluster: &Cluster, universe: &Universe, options: &Options) -> Launchable {
    let mut launchable = Launchable::default();
    if cluster.node_pools.iter().all(|pool| pool.refusal.is_some()) {
        return launchable;
    }
    let spread = |constraint: &Constraint| matches!(constraint, Constraint::Spread { .. });
    let constraints = universe.classes.iter().flat_map(|class| class.required.iter().chain(&class.preferred.spread));
    let mut counters: Vec<CounterId> = constraints.filter(|c| spread(c)).map(Constraint::counter).collect();
    counters.sort_unstable();
    counters.dedup();
    if counters.is_empty() {
        return launchable;
    }
    let mut planner = Planner::new(cluster, universe, options);
    // What can be launched is the same for all counters of one key and filter.
    let mut known: FxHashMap<(Sym, Option<u32>), Vec<Sym>> = FxHashMap::default();
    for counter in counters {
        let Some((key, filter)) = universe.counters.get(counter.index()).map(|known| (known.key, known.filter)) else {
            continue;
        };
        if key == cluster.well_known.hostname {
            if planner.may_launch(counter) {
                launchable.hosts.insert(counter);
            }
        } else {
            let domains = known.entry((key, filter)).or_insert_with(|| planner.domains(counter).to_vec());
            launchable.domains.insert(counter, domains.clone());
            launchable.keys.insert(counter, key);
        }
    }
    launchable
}
