//! The cluster as it changes: events in, one state, what-ifs that roll back.
//!
//! [`State`] owns the cluster that decisions are made from. [`State::apply`] takes in one observation: an object that was
//! created, changed or deleted, a list, what the cloud offers, or what became of a write. Events may come in any order
//! and twice; after any history the state decides as one that was told only what there is. A decision's own writes are
//! *assumed* ([`State::assume`], [`Fork::commit`]) until an event shows them. [`State::fork`] tries changes out and rolls
//! them back when dropped.
//!
//! The crate never decides where a pod goes, writes nothing, and knows no clock: the time is an argument.
//!
//! # What holds
//! - An older event never undoes a newer one (by resourceVersion, where both are numbers), nor a write of one's own.
//! - The same name with another uid is another object: a deletion and a creation.
//! - An object that cannot be used is refused with its reasons and counts as not there, whatever it was before; all
//!   else stands. A pod on a node of which only annotations are unreadable takes its room without them.
//! - Pods are the pods that exist: a Deployment in the state makes none.
//! - Ties go by priority, creation time, namespace and name, never by the order of events.
//!
//! ```
//! use berth_state::{Event, Object, State, Time};
//! use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
//!
//! let mut pod = Pod::default();
//! pod.metadata.name = Some("web".to_owned());
//! pod.spec = Some(PodSpec { containers: vec![Container::default()], ..PodSpec::default() });
//! let mut state = State::new(berth_state::Options::default());
//! let touched = state.apply(Event::Applied(Object::from(pod)))?;
//! assert!(touched.waiting);
//! assert_eq!(state.cluster(Time::UNIX_EPOCH).pending[0].members[0].name.as_ref(), "web");
//! assert!(!state.is_synced(), "nothing was listed yet");
//! # Ok::<(), berth_state::Refused>(())
//! ```

mod assume;
mod built;
mod chunked;
mod counted;
mod doubts;
mod entry;
mod event;
mod fork;
mod kept;
mod known;
mod links;
mod node;
mod object;
mod packed;
mod patch;
mod patched;
mod pod;
mod rebuild;
mod relevant;
mod replica;
mod shapes;
mod slot_use;
mod slots;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod told;

pub use assume::{AssumptionId, Write};
pub use berth_convert::{
    Change, OfferedVolumes, Options, PodChange, Problem, StayingPods, VolumeOn, allowed_disruptions, phase,
};
pub use built::{Conversion, Tracked};
pub use event::{CountsAs, Event, Outcome, Refused, RefusedObject, SlotCount, Touched};
pub use fork::{Fork, ForkError, is_remade};
pub use node::NodeRecord;
pub use object::{Key, Kind, Object, ObjectRef, Typed, Whole};
pub use patch::Patch;
pub use pod::{PodRecord, selects};

pub use state::State;
pub use told::Update;

/// A point in time, as the caller's clock has it.
pub type Time = jiff::Timestamp;
