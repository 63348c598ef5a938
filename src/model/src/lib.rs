//! The pure model of Berth: resources, requirements, taints, selectors, instance types with integer availability,
//! pods and the classes they fall into, and the snapshot of a cluster with mark and rollback.
//!
//! This crate decides nothing, does no I/O, and knows neither a clock nor Kubernetes' client types.
//!
//! ```
//! use berth_model::{Operator, Requirement, Symbols};
//!
//! let mut symbols = Symbols::default();
//! let (a, b, c) = (symbols.intern("a"), symbols.intern("b"), symbols.intern("c"));
//! let pool = Requirement::new(Operator::In, [a, b], &symbols);
//! let pod = Requirement::new(Operator::NotIn, [b], &symbols);
//! let both = pool.intersect(&pod, &symbols);
//! assert_eq!(both.single(), Some(a));
//! assert!(!both.has(c, &symbols));
//! ```

mod allocate_policy;
mod cluster;
mod cpu_set;
mod holding;
mod ids;
mod insists;
mod instance_type;
mod keyed;
mod labels;
mod node;
mod pod;
mod requirement;
mod reservation;
mod reservation_ask;
mod resources;
mod room;
mod shared;
mod snapshot;
mod symbol;
mod taint;
mod units;
mod universe;

pub use allocate_policy::AllocatePolicy;
pub use berth_quantity::{Money, Operator};
pub use cluster::{Cluster, WellKnown};
pub use cpu_set::{CpuSet, CpuSetError};
pub use holding::{Holding, StandIn};
pub use ids::{LabelsId, ReservationId, RowId, SpecId};
pub use insists::{Insisting, Insists, PreferencePolicy};
pub use instance_type::{CapacityType, InstanceType, Offering, SlotId, Slots};
pub use keyed::{Keyed, KeyedMap, KeyedSet};
pub use labels::{Labels, Selector};
pub use node::{Cordon, Daemon, Node, NodePool};
pub use pod::{
    BoundPod, DefaultConstraint, DefaultSpread, Disk, DiskId, DisruptionBudget, HostPort, Images, MemberKind,
    MemberRun, Namespace, PendingRow, PodSpec, PodStage, PodTerm, PreAllocatable, Refusal, SpreadConstraint, Volumes,
};
pub use requirement::{Requirement, Requirements};
pub use reservation::{
    ControllerMatch, Identity, Lifetime, ObjectMatch, OwnerReference, Phase, PreAllocation, PreAllocationMode,
    PreAllocationSettings, Reservation, ReservationOwner, ReservationRules, Template,
};
pub use reservation_ask::{ReservationAffinity, ReservationAsk};
pub use resources::{ResourceId, ResourceLimit, ResourceNames, Resources};
pub use room::{NodeRoom, Room};
pub use shared::Shared;
pub use snapshot::{Bin, HostCounts, Mark, NodeEdit, NodeState, Site, Snapshot, host_allowance, host_allowance_above};
pub use symbol::{Sym, Symbols};
pub use taint::{Effect, Taint, Toleration, TolerationOperator, first_untolerated};
pub use units::{
    Assigned, Cpu, CpuBinding, Device, DeviceAsk, HeldUnits, NumaNode, NumaPolicy, Units, UnitsAsk, UnitsState,
};
pub use universe::{
    ClassId, Column, ColumnId, ColumnTable, Constraint, Counter, CounterId, FilterId, LiveUniverse, NodeFilter,
    PodClass, PoolId, Preferences, SelectorId, Universe,
};
