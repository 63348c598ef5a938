//! The plan: from manifests and an instance catalogue to an answer that people and programs read.
//!
//! This crate decides how inputs become one cluster, who exactly of a class goes where, and how a plan is printed: as
//! the JSON contract, streamed, as tables, or as a page. It decides no placement (that is `berth-provisioning`) and talks to no
//! cluster. It is the one place of planning that reads a clock, and a clock changes nothing but the printed times.
//!
//! ```
//! use serde_json::json;
//!
//! let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
//!     "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}});
//! let plan = berth_plan::plan_documents(&[pod], None, &berth_plan::Options::default())?;
//! assert_eq!(plan["summary"]["placed"], 1);
//! assert_eq!(plan["nodeClaims"][0]["pods"][0], "default/web");
//! # Ok::<(), berth_plan::PlanError>(())
//! ```

mod applied;
mod closed;
mod compare;
mod decimal;
mod disrupt;
mod error;
mod explain;
mod gather;
mod hints;
mod html;
mod json;
mod max_share;
mod options;
mod outcome;
mod plan;
mod pool_hints;
mod provenance;
mod repack;
mod replicas;
mod restrictions;
mod skipped;
mod summary;
mod table;
mod terminal;

pub use berth_convert::{Options as FeatureGates, Replicas, UnknownGate};
pub use berth_manifests::{Input, Validate, known_kinds, read_scheduler_config};
pub use berth_model::{Money, PreferencePolicy};
pub use berth_provisioning::{Effort, MaxShare, ParseShareError, ShareKey, parse_max_share};
pub use decimal::{ParseMoneyError, exact as dollars, parse_money};
pub use error::PlanError;
pub use explain::{ExplainError, Explanation, Kind, ObjectRef, ParseObjectError};
pub use html::STYLE as PAGE_STYLE;
pub use max_share::UnkeepableShares;
pub use options::Options;
pub use plan::{Plan, Timings, plan_change, plan_documents, plan_objects, plan_offers, plan_state};
pub use summary::Summary;
pub use terminal::{Terminal, printable};

/// The catalogue that plans use without another: the fake provider's.
pub fn default_catalogue() -> berth_catalogue::Catalogue {
    berth_cloudprovider_fake::catalogue()
}
