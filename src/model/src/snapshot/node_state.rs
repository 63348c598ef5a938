//! A node that exists, as it is in a decision.

use smallvec::SmallVec;

use super::host_counts::HostCounts;
use crate::{Assigned, ClassId, Disk, Holding, HostPort, ReservationId, Resources, Room, Sym, UnitsState};

/// What a decision has changed of an existing node.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// What is neither used nor held.
    pub free: Resources,
    /// What Reservations hold; off `free`.
    pub holdings: Vec<Holding>,
    /// CPU (milli) and memory (bytes) that scores assume beyond what is requested, see [`crate::PodSpec::assumed`].
    pub assumed: [i64; 2],
    /// The pods that the decision binds to it, and the Reservations that it places on it by their class.
    pub added: SmallVec<[(ClassId, u32); 2]>,
    /// Those of the added pods that draw, in the order in which they came: class, and the Reservation by index into
    /// [`crate::Cluster::reservations`].
    pub draws: Vec<(ClassId, ReservationId)>,
    /// The Reservations that the decision places on it, by index into [`crate::Cluster::reservations`].
    pub placed: Vec<ReservationId>,
    /// Pods per hostname counter, running ones included.
    pub host_counts: HostCounts,
    /// Host ports in use, and those held by Reservations: once for each.
    pub ports: Vec<HostPort>,
    /// CPUs and devices that pods and Reservations have to themselves.
    pub units: UnitsState,
    /// What added pods and Reservations got of them, in the order in which they came, and from which Reservation pods
    /// draw.
    pub assigned: Vec<(ClassId, Option<ReservationId>, Assigned)>,
    /// Volumes attached, and those that Reservations hold: (driver, volume), sorted, once for each.
    pub attached: Vec<(Sym, Sym)>,
    /// Disks in use, and those held by Reservations: once for each.
    pub disks: Vec<Disk>,
}

impl NodeState {
    /// What is not used.
    pub fn room(&self) -> Room<'_> {
        Room { free: &self.free, holdings: &self.holdings }
    }

    /// The holding of a Reservation.
    pub fn holding(&self, reservation: ReservationId) -> Option<&Holding> {
        self.holdings.iter().find(|holding| holding.reservation == reservation)
    }
}
