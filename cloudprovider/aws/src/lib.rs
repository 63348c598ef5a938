//! EC2: the catalogue of an account.
//!
//! This crate decides what EC2's answers mean: what pods may use of each instance type, which labels its nodes have, what
//! an hour costs, which capacity reservations have instances free, and what an `EC2NodeClass` changes of all that. It
//! launches nothing. All of it is plain functions of records, apart from the module `sdk`, which asks AWS, is behind the feature
//! of that name, and takes minutes to compile.
//!
//! ```
//! use berth_cloudprovider_aws::{NodeSettings, snapshot};
//!
//! let catalogue = snapshot::catalogue("us-east-1", &["us-east-1a".to_owned()], &NodeSettings::default()).unwrap();
//! let m5 = catalogue.types().iter().find(|known| known.name == "m5.xlarge").unwrap();
//! assert_eq!(m5.resources["memory"].to_string(), "14162Mi");
//! assert_eq!(m5.labels["karpenter.k8s.aws/instance-family"], "m5");
//! assert!(m5.notes[0].contains("2026-07-20"));
//! ```

mod account;
mod allocatable;
mod ami;
mod instance;
mod labels;
mod node_class;
mod policy;
mod refresh;
mod reservation;
#[cfg(feature = "sdk")]
pub mod sdk;
mod settings;
pub mod snapshot;

pub use account::{Account, OnDemandPrices, Report};
pub use ami::AmiFamily;
pub use instance::{Accelerator, InstanceFacts, NeuronDevice};
pub use node_class::{ClassView, NodeClass, read_class};
pub use policy::{ACTIONS, iam_policy, statement_for};
pub use refresh::{RefreshError, Refreshed, refresh};
pub use reservation::{CapacityReservation, Skipped, Use, closed_at};
pub use settings::{EvictionThreshold, NodeSettings, SettingsError, VmMemoryOverhead};

#[cfg(test)]
mod tests;
