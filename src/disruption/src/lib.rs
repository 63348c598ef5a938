//! Which nodes are removed or replaced, in which order, and why every other node stays.
//!
//! The crate decides who is a candidate (PodDisruptionBudgets, `karpenter.sh/do-not-disrupt`, budgets of NodePools and
//! their schedules), what a removal is worth, and the order of commands: emptiness, drift, and consolidation of several
//! nodes or one, as in Karpenter, with any number of replacements. Where the pods of a node that goes find their place it
//! does not decide: a what-if is a fork of the [`State`](berth_state::State), and the provisioner and the scheduler
//! answer it. So on-demand and spot nodes move to slots of capacity reservations as these appear: slots are used first
//! and cost nothing. It writes nothing and knows no clock.
//!
//! ```
//! let mut state = berth_state::State::new(berth_state::Options::default());
//! let now = berth_state::Time::UNIX_EPOCH;
//! let refused = berth_disruption::disrupt(&mut state, &berth_disruption::Options::default(), now);
//! assert!(refused.is_err(), "nothing was listed yet");
//! ```

mod admitted;
mod batches;
mod budget;
mod candidate;
mod command;
mod drift;
mod expiring;
mod hash;
mod pdb;
mod pending;
mod play;
mod pods;
mod prices;
mod program;
mod reason;
mod recheck;
mod removal;
mod replicas;
mod rooms;
mod search;
mod simulate;
mod slot_kind;
mod slot_users;
mod survey;
#[cfg(test)]
mod tests;
mod verdict;
mod worth;

pub use berth_decisions::DecideError;
pub use budget::{BUDGET_TIME_ZONE, BudgetError, Budgets, PoolNodes};
pub use candidate::{KEEP_EMPTY_RESERVED, REPLACE_IN_SLOT, check_do_not_disrupt_on_node};
pub use command::{Command, Disruption, Kept, Method, Places, Why};
pub use drift::static_drift;
pub use hash::{HASH_VERSION, rehash, template_hash};
pub use pdb::{WhoStays, why_kept};
pub use pods::{DisruptionCost, check_do_not_disrupt};
pub use reason::{Cause, Reason};
pub use recheck::{Renewed, confirm, needs_all, renew};
pub use removal::{Removal, removal};
pub use replicas::surplus;
pub use search::{disrupt, disrupt_with};
pub use verdict::{Verdict, Verdicts, verdicts, what_if_of};

use std::collections::{BTreeMap, BTreeSet};

use berth_api::labels;
use berth_model::Money;

/// How consolidation chooses nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// Any set of nodes makes way for any set of others.
    #[default]
    Berth,
    /// Karpenter's: empty nodes, a first part of a ranking, or one node, with one replacement at most. To be compared with.
    Karpenter,
}

/// What a caller may set.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct Options {
    /// How pods and nodes are planned in what-ifs.
    pub decisions: berth_decisions::Options,
    /// How consolidation chooses nodes.
    pub methods: Methods,
    /// Dollars an hour that a removal must save for each unit of disruption (a pod of priority 0) to be worth it, and
    /// less the sooner the node expires. Zero, the default, moves pods for any saving.
    pub eviction_price: Money,
    /// Whether to prove what any consolidation leaves at least.
    pub bound: bool,
    /// `SpotToSpotConsolidation`: whether spot nodes may make way for spot.
    pub spot_to_spot: bool,
    /// `ReservedCapacity`: without, nodes on reservations do not drift for being on them.
    pub reserved_capacity: bool,
    /// `StaticCapacity`: without, nodes of static NodePools stay.
    pub static_capacity: bool,
    /// How many what-ifs may be asked. What was found by then stands.
    pub most_what_ifs: usize,
    /// Whether only what budgets let begin now is looked for, as by a process that disrupts and asks again.
    pub only_now: bool,
    /// Whether only empty nodes are looked for, which takes no what-if while nobody waits for a place.
    pub only_empty: bool,
    /// Nodes that are not disrupted, by name, and why.
    pub kept: BTreeMap<String, String>,
    /// Nodes, by name, of other commands that have begun and are yet to be decided anew: their pods stay for now, and no
    /// others come. What one command launches is for its own pods alone.
    pub undecided: BTreeSet<String>,
    /// Nodes, by name, of other commands that go at the same time: where pods find no place while theirs stay, it is asked whether all
    /// would find one together, as spreads may want.
    pub together: BTreeSet<String>,
    /// Whether the budgets of NodePools are not asked: those of a command let it begin, and what takes the place of its nodes has been
    /// launched.
    pub has_passed_budgets: bool,
    /// Nodes that were asked about before, by name, while nothing has changed since: they are not asked about again, nor
    /// are several nodes together.
    pub asked: BTreeSet<String>,
}

impl Options {
    /// The same without what makes each what-if dearer and tells nothing: bounds, and what restrictions cost.
    pub(crate) fn for_what_ifs(&self) -> Self {
        let mut options = self.clone();
        options.decisions.solve.bound = false;
        options.decisions.solve.what_restrictions_cost = false;
        options
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            decisions: berth_decisions::Options {
                launches: true,
                spares_others: true,
                ..berth_decisions::Options::default()
            },
            methods: Methods::default(),
            eviction_price: Money::ZERO,
            bound: false,
            spot_to_spot: false,
            reserved_capacity: true,
            static_capacity: false,
            most_what_ifs: 10_000,
            only_now: false,
            only_empty: false,
            kept: BTreeMap::new(),
            undecided: BTreeSet::new(),
            together: BTreeSet::new(),
            has_passed_budgets: false,
            asked: BTreeSet::new(),
        }
    }
}
