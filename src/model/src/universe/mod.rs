//! The universe of one decision: what the cluster's pods reduce to.
//!
//! Pods that no rule can tell apart are one [`PodClass`]; work is done per class. A class is made of the spec, the
//! counters in which its pods count (so that labels which no selector asks for make no new classes) and the
//! constraints that bind it, those that other pods' anti-affinity puts on it included.

mod classes;
mod classifier;
mod columns;
mod constraints;
mod live;
mod offers;
mod reduce;
mod selectors;
mod topology;

pub use classes::{ClassId, PodClass, Preferences, Universe};
pub use columns::{Column, ColumnId, ColumnTable, PoolId};
pub use live::LiveUniverse;
pub use topology::{Constraint, Counter, CounterId, FilterId, NodeFilter, SelectorId};
