//! The instance catalogue file: which instance types a cloud offers, where, how many and at what price.
//!
//! This crate decides what a catalogue file means. It reads JSON or YAML in the shape that Karpenter's KWOK provider
//! reads, checks every field, splits offerings of several zones, and books reserved offerings into one count per
//! reservation id. It opens no file, knows no NodePool and chooses nothing.
//!
//! ```
//! let text = r#"[{"name": "m5.large", "resources": {"cpu": "1930m", "memory": "7Gi"}, "offerings": [
//!   {"Price": 0.096, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
//!                                     {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]},
//!   {"Price": 0.096, "Available": 3, "Requirements": [
//!     {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
//!     {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]}]}]"#;
//! let catalogue = berth_catalogue::read(text.as_bytes(), "types.json")?;
//! assert_eq!(catalogue.types()[0].offerings.len(), 3); // on-demand in a, in b, and the reservation
//! assert_eq!(catalogue.reservations()["cr-1"].instances, 3);
//! # Ok::<(), berth_catalogue::CatalogueError>(())
//! ```
//!
//! # Beyond KWOK's fields
//! A type may have `labels` of all its nodes, its `machine` and `notes` that a plan tells; a reserved offering may say of
//! its `Reservation` whose it is, what it is tagged with and when it ends. KWOK passes these over.
//!
//! # What is read leniently
//! - The first letter of a key may be of either case (`Price`, `price`); `null` is the same as an absent key.
//! - `architecture` defaults to `amd64`, `operatingSystems` to `[linux]`, and the resource `pods` to 110, as KWOK has it.
//! - Offerings of Karpenter before v1, with `CapacityType` and `Zone` beside `Price`, are read as requirements.
//! - What Karpenter writes and KWOK ignores (`CapacityOverride` and `OverheadOverride` of `null`, `ReservationCapacity`
//!   of 0 on an offering that is not reserved) is ignored here too. Every other unknown key is an error.

mod catalogue;
mod check;
mod error;
mod instance_type;
mod machine;
mod offering;
mod read;
mod read_details;
mod syntax;

pub use berth_quantity::{Money, Operator, ParseMoneyError};
pub use catalogue::{Catalogue, OfferingIndex, ReservationEntry};
pub use check::MAX_PRICE;
pub use error::{CatalogueError, CataloguePath, Warning};
pub use instance_type::InstanceTypeEntry;
pub use machine::{Machine, ReservationDetails};
pub use offering::{Availability, CapacityType, OfferingEntry, RequirementEntry, label};
pub use read::read;
