//! Which nodes do we launch? First-fit decreasing by class: existing nodes, then nodes being planned, then new ones,
//! with reserved capacity first.
//!
//! [`solve`] reduces a [`Cluster`] to classes, packs them, matches planned nodes to capacity reservations so that no
//! slot which saves money stays free, and says why anything is left over. It knows no clock, no network and no
//! randomness: the same input gives the same [`Solution`].
//!
//! ```
//! let mut cluster = berth_model::Cluster::new();
//! let (universe, solution) = berth_provisioning::solve(&mut cluster, &berth_provisioning::Options::default());
//! assert!(universe.classes.is_empty() && solution.claims.is_empty());
//! ```

mod accelerators;
mod below;
mod bound;
mod buy;
mod caches;
mod claims;
mod combinations;
mod commit;
mod consider;
mod domains;
mod domains_left;
mod even;
mod feasible;
mod fill;
mod fill_nodes;
mod floor;
mod frontier;
mod given_back;
mod home;
mod hosts;
mod join;
mod launch_domains;
mod launchable;
mod ledger;
mod limits;
mod listing;
mod matching;
mod max_share;
mod min_values;
mod options;
mod pack;
mod packing;
mod parse_share;
mod pin;
mod place;
mod planner;
mod pool_limits;
mod portfolio;
mod prepared;
mod refusals;
mod restriction_costs;
mod restrictions;
mod rounds;
mod score;
mod search;
mod share_tally;
mod shares;
mod shrink;
mod slots;
mod solution;
mod sparing;
mod strategy;
mod tables;
mod taken;
mod trials;
mod within_shares;
mod world;

use berth_model::{Cluster, Resources, Universe};

pub use berth_packing::StopReason;
pub use consider::{Considered, Raised, Smaller, consider, nearest_room};
pub use feasible::{InfeasibleShares, check_shares};
pub use floor::Floor;
pub use launchable::{Launching, launchable};
pub use max_share::{MaxShare, ShareKey, ValueShare};
pub use options::{Effort, Options};
pub use parse_share::{ParseShareError, parse_max_share};
pub use restrictions::{Restricted, Restriction, RestrictionCost};
pub use solution::{Bound, Came, Claims, NodePlan, Refusal, Solution, Unschedulable};
pub use taken::Taken;
pub use trials::{NewNodes, Trials};

/// Pods of a plan above which it is not asked whether all plans can be tried.
const MOST_PROVED: u64 = 1_000;

/// Plans a cluster: which pods and Reservations go where, and which nodes are launched for them.
pub fn solve(cluster: &mut Cluster, options: &Options) -> (Universe, Solution) {
    let launching = Launching::new(cluster);
    solve_with(cluster, options, &launching)
}

/// Does the same with what is known of the cluster's NodePools and catalogue.
pub fn solve_with(cluster: &mut Cluster, options: &Options, launching: &Launching) -> (Universe, Solution) {
    solve_giving_back(cluster, options, launching, |_, _, _| Vec::new())
}

/// Does the same where launched nodes may have more room later than at first: `gives_back` says, by entry of a solution's
/// claims, how much more each node of it has then. Who finds no place takes that room.
pub fn solve_giving_back(
    cluster: &mut Cluster,
    options: &Options,
    launching: &Launching,
    gives_back: impl FnOnce(&Cluster, &Universe, &Solution) -> Vec<Resources>,
) -> (Universe, Solution) {
    let universe = Universe::new(cluster);
    let mut planner = planner::Planner::of(cluster, &universe, options, launching);
    let n_pending: u64 = universe.classes.iter().map(|class| u64::from(class.count)).sum();
    let may_be_whole = options.proves && options.effort != Effort::Low && n_pending <= MOST_PROVED;
    let fresh = (options.bound || may_be_whole).then(|| planner.ledger.state.mark());
    let search = planner.pack_best(options.effort);
    let made = restriction_costs::Made::of(planner.world());
    let mut solution = planner.solution();
    if !solution.unschedulable.is_empty() {
        let given = gives_back(cluster, &universe, &solution);
        if given.iter().any(|given| *given != Resources::new()) && planner.fill_given_back(&given) {
            solution = planner.solution();
        }
    }
    solution.search = search;
    match fresh {
        Some(fresh) if options.bound => solution.bound = Some(planner.bound(fresh)),
        // What was tried keeps to more than a plan has to.
        Some(fresh) if search == Some(StopReason::Solved) => solution.least = planner.least(fresh),
        _ => {}
    }
    solution.restrictions = restriction_costs::restricted(cluster, &universe, options, &made);
    (universe, solution)
}
