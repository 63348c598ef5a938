//! What a caller of the planner may set.

use berth_convert::Options as FeatureGates;
use berth_manifests::Validate;
use berth_model::Money;
use berth_provisioning::Effort;

/// Options of a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much work the solve does.
    pub effort: Effort,
    /// Dollars an hour that every new node costs beyond its price.
    pub node_cost: Money,
    /// Whether to prove what any plan costs at least.
    pub bound: bool,
    /// Feature gates.
    pub gates: FeatureGates,
    /// What becomes of unknown fields.
    pub validate: Validate,
}
