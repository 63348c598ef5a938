//! Kubernetes and Karpenter objects to the model.
//!
//! This crate decides what an object means for placement: what a pod requests, which claims its volumes stand for,
//! how many pods a workload still needs, what is left of a node, which labels an instance type has. It reads no file,
//! talks to no cluster, knows no clock, and places nothing.
//!
//! ```
//! use berth_convert::{Builder, Options};
//! use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
//!
//! let mut pod = Pod::default();
//! pod.metadata.name = Some("web".to_owned());
//! pod.spec = Some(PodSpec { containers: vec![Container::default()], ..PodSpec::default() });
//! let mut builder = Builder::new(Options::default());
//! builder.add_pod(&pod)?;
//! let converted = builder.finish()?;
//! assert_eq!(converted.cluster.pending[0].members[0].name.as_ref(), "web");
//! # Ok::<(), berth_convert::ConvertError>(())
//! ```

mod add_admission;
mod add_pod;
mod add_selectors;
mod add_workload;
mod admission;
mod annotations;
mod ask;
mod autoscalers;
mod budgets;
mod builder;
mod capacity;
mod catalogue;
mod claims;
mod controller_labels;
mod daemons;
mod draft;
mod drivers;
mod error;
mod existing;
mod expand;
mod fate;
mod fates;
mod finish;
mod in_flight;
mod live;
mod maps;
mod memo;
mod metadata;
mod names;
mod never_made;
mod node;
mod node_record;
mod node_reservation;
mod operating;
mod options;
mod overlaid;
mod overlay;
mod ownership;
mod place;
mod pod;
mod pod_record;
mod pool;
mod quantities;
mod requests;
mod reservation;
mod resize;
mod resolve;
mod rollout;
mod selecting;
mod spreading;
mod stand_ins;
mod taints;
mod terms;
#[cfg(test)]
mod tests;
mod units;
mod volume_counts;
mod workloads;

pub use budgets::allowed_disruptions;
pub use builder::{Builder, Converted, REPEATED};
pub use claims::VolumeOn;
pub use error::{ConvertError, Problem};
pub use existing::StayingPods;
pub use live::{Change, Live, Objects, OfferedVolumes, Offers, Other, Patched, PodChange};
pub use options::{Expansion, Options, Replicas, UnknownGate};
pub use overlaid::{Overlaid, overlaid};
pub use overlay::OverlayFault;
pub use pod_record::PodParts;
pub use requests::requests_and_limits;
pub use reservation::phase;
