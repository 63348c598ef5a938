//! What a caller of the planner may set.

use berth_convert::Options as FeatureGates;
use berth_manifests::Validate;
use berth_model::Money;
use berth_provisioning::{Effort, MaxShare};

/// Options of a plan.
#[derive(Clone, Debug, Default)]
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
    /// Whether types with GPUs or other accelerators may be launched for pods that ask for none.
    pub gpu_types_for_any_pod: bool,
    /// Feature gates.
    pub gates: FeatureGates,
    /// What becomes of unknown fields.
    pub validate: Validate,
}

impl Options {
    /// What the solve is told.
    pub(crate) fn solving(&self) -> berth_provisioning::Options {
        berth_provisioning::Options {
            node_cost: self.node_cost,
            effort: self.effort,
            bound: self.bound,
            max_shares: self.max_shares.clone(),
            what_restrictions_cost: self.what_restrictions_cost,
            gpu_types_for_any_pod: self.gpu_types_for_any_pod,
        }
    }
}
