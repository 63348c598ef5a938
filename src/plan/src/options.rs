//! What a caller of the planner may set.

use berth_convert::Options as FeatureGates;
use berth_manifests::Validate;
use berth_model::Money;
use berth_provisioning::{Effort, MaxShare};
use jiff::Timestamp;

/// Options of a plan.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct Options {
    /// How much work the solve does.
    pub effort: Effort,
    /// Dollars an hour that every new node costs beyond its price.
    pub node_cost: Money,
    /// Whether to prove what any plan costs at least.
    pub bound: bool,
    /// How much of the plan may be in one zone, of one instance type or of one capacity type.
    pub max_shares: Vec<MaxShare>,
    /// Whether to say what each restriction costs, which takes a plan for each.
    pub what_restrictions_cost: bool,
    /// Whether to plan the cluster from scratch, too, as if it had no nodes yet.
    pub repack: bool,
    /// Whether types with GPUs or other accelerators may be launched for pods that ask for none.
    pub gpu_types_for_any_pod: bool,
    /// Whether to say which nodes would be disrupted.
    pub disrupt: bool,
    /// Dollars an hour that a removal must save for each node that goes and each pod that it evicts.
    pub eviction_price: Money,
    /// A node of which to say what would come of removing it.
    pub without_node: Option<String>,
    /// Whether to keep what objects say of themselves, for [`Plan::explain`](crate::Plan::explain) to tell of those that have ended or go
    /// away.
    pub keeps_objects: bool,
    /// Feature gates.
    pub gates: FeatureGates,
    /// Whether to read the folders in folders, too.
    pub recursive: bool,
    /// What becomes of unknown fields.
    pub validate: Validate,
    /// The time of the plan, at which Reservations have expired or not; the clock's where there is none.
    pub now: Option<Timestamp>,
}

impl Options {
    /// Whether something is asked of the cluster as it stands, beside the plan.
    pub(crate) fn asks_state(&self) -> bool {
        self.disrupt || self.without_node.is_some() || self.keeps_objects
    }

    /// The same with a time: its own, or the clock's, in whole seconds.
    pub(crate) fn at_a_time(&self) -> (Self, Timestamp) {
        let now = self.now.unwrap_or_else(Timestamp::now);
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut options = self.clone();
        (options.now, options.gates.now) = (Some(now), Some(now));
        (options, now)
    }

    /// What the solve is told.
    pub fn solving(&self) -> berth_provisioning::Options {
        berth_provisioning::Options {
            node_cost: self.node_cost,
            effort: self.effort,
            bound: self.bound,
            proves: true,
            max_shares: self.max_shares.clone(),
            what_restrictions_cost: self.what_restrictions_cost,
            gpu_types_for_any_pod: self.gpu_types_for_any_pod,
        }
    }
}
