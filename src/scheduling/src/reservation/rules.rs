//! What the scheduler's configuration says of Reservations.

use berth_model::ResourceId;

use super::pre_allocation::Settings;

/// What of Koordinator's `ReservationArgs` decides where pods and Reservations go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `enablePreemption`: whether pending Reservations may evict pods of lower priority.
    pub preempts: bool,
    /// `preAllocationConfig`.
    pub pre_allocation: Settings,
    /// `ignoredResources` and `ignoredResourceGroups`: extended resources that pods that draw are not refused for.
    pub ignored: Vec<ResourceId>,
}
