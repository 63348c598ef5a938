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

mod generate;
mod violation;

pub use generate::{Case, Size, random_case};
pub use violation::Violation;

use serde_json::Value;

/// How the plan was made, where that changes what is right.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The feature gate `ReservedCapacity`; off, no claim may land on reserved capacity.
    pub reserved_capacity: bool,
    /// `--node-cost`, in the catalogue's currency per hour and claim.
    pub node_cost: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reserved_capacity: true,
            node_cost: 0.0,
        }
    }
}

/// Checks a plan (the object of `berth plan -o json`) against the objects and the catalogue that it was made for.
///
/// `objects` are single Kubernetes objects, Lists already taken apart. What cannot be read is a violation of its
/// own, never a panic. The answer is sorted and has no duplicates; empty means that nothing wrong was found.
pub fn check(
    objects: &[Value],
    catalogue: &Value,
    plan: &Value,
    options: &Options,
) -> Vec<Violation> {
    let _ = (objects, catalogue, plan, options);
    vec![Violation::new("plan", "plan", "not checked yet")]
}
