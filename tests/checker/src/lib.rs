//! An independent, slow, obvious checker of plans.
//!
//! It reads the same raw objects and the same instance catalogue as `berth plan`, and the plan that came out, and
//! checks every constraint of every placement the long way round: it builds each node that a claim leaves open and
//! asks, pod by pod, what the Kubernetes documentation asks. It shares no code with Berth's own crates, so that a
//! misunderstanding there is not repeated here. It never judges preferences, NodePool weights or cost beyond what
//! the plan itself claims.
//!
//! The crate also makes random clusters to plan for ([`random_case`]).
//!
//! ```
//! use berth_checker::{Options, Size, check, random_case};
//!
//! let case = random_case(7, Size::Tiny);
//! let nothing_planned = serde_json::json!({});
//! assert!(!check(&case.objects, &case.catalogue, &nothing_planned, &Options::default()).is_empty());
//! ```

mod catalogue;
mod generate;
mod launch;
mod load;
mod plan;
mod pool;
mod quantity;
mod requests;
mod rules;
mod selectors;
mod sites;
mod taints;
mod violation;
mod volumes;
mod workloads;
mod world;

pub use generate::{Case, Size, random_case, random_standing_case};
pub use launch::{launched_nodes, n_launches};
pub use violation::Violation;

use plan::Plan;
use serde::Deserialize;
use serde_json::Value;
use world::World;

/// How the plan was made, where that changes what is right.
#[derive(Clone, Debug)]
pub struct Options {
    /// The feature gate `ReservedCapacity`; off, no claim may land on reserved capacity.
    pub reserved_capacity: bool,
    /// `--node-cost`, in the catalogue's currency per hour and claim.
    pub node_cost: f64,
    /// `--max-share`.
    pub max_shares: Vec<MaxShare>,
    /// `--gpu-types-for-any-pod`.
    pub gpu_types_for_any_pod: bool,
}

/// How much of the plan may be in one value of a key.
#[derive(Clone, Debug)]
pub struct MaxShare {
    /// `zone`, `instanceType` or `capacityType`.
    pub key: String,
    /// The value; `None` for each.
    pub value: Option<String>,
    /// The share, in billionths.
    pub billionths: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { reserved_capacity: true, node_cost: 0.0, max_shares: Vec::new(), gpu_types_for_any_pod: false }
    }
}

/// Checks a plan (the object of `berth plan -o json`) against the objects and the catalogue that it was made for.
///
/// `objects` are single Kubernetes objects, Lists already taken apart. What cannot be read is a violation of its
/// own, never a panic. The answer is sorted and has no duplicates; empty means that nothing wrong was found.
pub fn check(objects: &[Value], catalogue: &Value, plan: &Value, options: &Options) -> Vec<Violation> {
    let mut world = World::read(objects, catalogue);
    let mut found = world.unread.clone();
    let plan = match Plan::deserialize(plan) {
        Ok(plan) => plan,
        Err(error) => {
            found.push(Violation::new("plan", "plan", format!("is not of the contract: {error}")));
            return found;
        }
    };
    if plan.kind != "Plan" || plan.api_version != "berth.sh/v1alpha1" {
        let detail = format!("is {} {}", plan.api_version, plan.kind);
        found.push(Violation::new("plan", "plan", detail));
    }
    found.extend(world.add_daemons_of(&plan));
    let (sites, unknown) = sites::sites(&world, &plan);
    found.extend(unknown);
    found.extend(rules::coverage::check(&world, &plan));
    found.extend(rules::money::check(&plan, &sites, options));
    found.extend(rules::claims::check(&world, &sites));
    found.extend(rules::nodes::check(&world, &sites));
    found.extend(rules::ports::check(&world, &sites));
    found.extend(rules::disks::check(&world, &sites));
    found.extend(rules::ports::check_exclusive_volumes(&world, &sites));
    found.extend(rules::allocations::check(&world, &sites));
    found.extend(rules::affinity::check(&world, &sites));
    found.extend(rules::spread::check(&world, &sites));
    found.extend(rules::units::check(&world, &plan));
    found.extend(rules::limits::check(&world, &sites));
    found.extend(rules::min_values::check(&world, &sites));
    found.extend(rules::ledger::check(&world, &plan, &sites, options));
    found.extend(rules::shares::check(&world, &plan, &sites, &options.max_shares));
    if !options.gpu_types_for_any_pod {
        found.extend(rules::shares::check_accelerators(&world, &sites));
    }
    if options.reserved_capacity {
        found.extend(rules::matching::check(&world, &sites, &options.max_shares));
    }
    found.sort();
    found.dedup();
    found
}
