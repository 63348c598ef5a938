//! A cloud in memory: its catalogue, and with the feature `cloud` the cloud itself (module `cloud`).
//!
//! This crate decides which instance types the fake cloud has, and what they cost. The types are made up after those of
//! large clouds: families by memory per vCPU, three generations, Intel-like, Arm and GPU machines, three zones, spot and
//! on-demand. It has no reservations: those are a user's own, so that examples bring them.
//!
//! ```
//! let catalogue = berth_cloudprovider_fake::catalogue();
//! let m5_large = catalogue.types().iter().find(|t| t.name == "m5.large").unwrap();
//! assert_eq!(m5_large.resources["cpu"].to_string(), "1920m");
//! assert_eq!(m5_large.offerings.len(), 6);
//! assert!(catalogue.reservations().is_empty());
//! ```

mod catalogue;
#[cfg(feature = "cloud")]
pub mod cloud;
mod family;
mod overhead;

pub use catalogue::{ZONES, catalogue, label};
