//! What a pod asks of Reservations.

use crate::{Requirements, ReservationId, ResourceId, Resources, Sym, Toleration};

/// From which Reservations a pod must draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationAffinity {
    /// The very Reservation; `terms` and `selector` do not count then.
    pub name: Option<Sym>,
    /// One of these must hold for the labels of the node with those of the Reservation over them; none is no
    /// constraint. `metadata.name` is the Reservation's name.
    pub terms: Vec<Requirements>,
    /// What the labels of the Reservation, over those of the node, must satisfy.
    pub selector: Requirements,
    /// Tolerations of a Reservation's taints, beside the pod's own.
    pub tolerations: Vec<Toleration>,
}

/// What a pod asks of Reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationAsk {
    /// Set where the pod must draw from a Reservation, even if from any.
    pub affinity: Option<ReservationAffinity>,
    /// Resources of which a Reservation must reserve exactly what the pod requests.
    pub exact: Vec<ResourceId>,
    /// The Reservations whose owners describe the pod, by index into [`crate::Cluster::reservations`], ascending.
    pub owner_of: Vec<ReservationId>,
    /// Of the pod that stands in for a pending Reservation: the first that is like it in all but name and age, by index
    /// into [`crate::Cluster::reservations`].
    pub reserves: Option<ReservationId>,
    /// Of the pod that stands in for a Reservation together with its first owners: what these request of all there is.
    pub owners_request: Resources,
    /// It is a Reservation itself once it has a node (operating mode `Reservation`).
    pub operates: bool,
    /// Draw from none, and take unallocated room of all as if it were free (`reservation-ignored`).
    pub ignores: bool,
}
