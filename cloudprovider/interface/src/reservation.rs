//! Capacity reservations, as a cloud shows them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ProviderId;

/// A capacity reservation and who uses it.
///
/// Free slots are `total - used - launches that the observation did not see`, and the ends that it did not see give theirs
/// back: see [`CapacityReservation::free_after`] and [`CapacityReservation::used_without`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityReservation {
    /// Its id.
    pub id: String,
    /// The instance types that it can hold; one at least.
    pub instance_types: Vec<String>,
    /// The zones that it is in; empty where the cloud has none.
    pub zones: Vec<String>,
    /// How many instances it can hold.
    pub total: u32,
    /// How many instances use it, whoever launched them. More than `total` where it was made smaller under its instances:
    /// nobody says which of them are without a slot.
    pub used: u32,
    /// The instances of this account that `used` counts. A provider that cannot read both at once lists instances first
    /// and counts afterwards, so that an instance that is listed here is counted, unless it ended in between: then a slot may
    /// be promised twice, and the cloud refuses the second launch.
    pub includes: BTreeSet<ProviderId>,
    /// The account that owns it, where reservations are shared.
    pub owner: Option<String>,
    /// How its time ends.
    pub kind: ReservationKind,
    /// Which launches it serves.
    pub matching: ReservationMatching,
    /// Whether it serves launches.
    pub state: ReservationState,
    /// When it begins, or began.
    pub start: Option<Timestamp>,
    /// When it ends; `None` if it is kept until it is cancelled.
    pub end: Option<Timestamp>,
}

/// What happens to the instances of a reservation when it ends or is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum ReservationKind {
    /// They run on, as on-demand instances that are paid for.
    #[default]
    OnDemand,
    /// They are shut down, some minutes before the end.
    CapacityBlock,
    /// They are shut down with a notice of some minutes: at the end, and whenever the owner wants slots back.
    Interruptible,
}

/// Which launches a reservation serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum ReservationMatching {
    /// Those that name it.
    #[default]
    Targeted,
    /// Any on-demand launch of its type in its zone, too: free slots can go without Berth having asked.
    Open,
}

/// Whether a reservation serves launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum ReservationState {
    /// It has not begun.
    Scheduled,
    /// It serves launches.
    #[default]
    Active,
    /// It serves no more launches, and its end is near.
    Expiring,
    /// It has ended or was cancelled.
    Ended,
}

/// How a running instance can come under a reservation that begins, or gets free slots, after its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum ReservationAdoption {
    /// It cannot: it must be replaced by an instance that is launched into the reservation.
    #[default]
    Never,
    /// The cloud counts it by itself ([`ReservationMatching::Open`]); [`Instance::reservation`](crate::Instance) then
    /// names the reservation, and Berth relabels the node.
    Relabel,
    /// One that was [launched into the group](crate::LaunchRequest::joins_group) of reservations uses whichever of them has a
    /// free slot; [`Instance::reservation`](crate::Instance) then names it, and Berth relabels the node.
    Group,
}

// === impl CapacityReservation ===

impl CapacityReservation {
    /// Slots that are free now, given the instances that Berth knows to have been launched into the reservation: those
    /// that the observation did not see are taken off. 0 where the reservation serves no launches.
    ///
    /// ```
    /// # use berth_cloudprovider::*;
    /// let id = |n: u32| ProviderId(format!("fake:///a/i-{n}"));
    /// let observed = CapacityReservation { total: 5, used: 2, includes: [id(1), id(2)].into(), ..CapacityReservation::new("cr-1") };
    /// // i-2 is counted already, i-3 was launched after the count.
    /// assert_eq!(observed.free_after(&[id(2), id(3)]), 2);
    /// ```
    pub fn free_after<'a>(&self, launched: impl IntoIterator<Item = &'a ProviderId>) -> u32 {
        if self.state != ReservationState::Active {
            return 0;
        }
        let unseen: BTreeSet<&ProviderId> = launched.into_iter().filter(|id| !self.includes.contains(id)).collect();
        let unseen = u32::try_from(unseen.len()).unwrap_or(u32::MAX);
        self.total.saturating_sub(self.used).saturating_sub(unseen)
    }

    /// How many instances use it, without those that have ended since: a count that was made before shows them still. Only
    /// instances that [`includes`](Self::includes) names are taken off, each once, so that a newer count loses nothing.
    ///
    /// ```
    /// # use std::collections::BTreeSet;
    /// # use berth_cloudprovider::*;
    /// let id = |n: u32| ProviderId(format!("fake:///a/i-{n}"));
    /// let observed = CapacityReservation { total: 5, used: 3, includes: [id(1), id(2)].into(), ..CapacityReservation::new("cr-1") };
    /// // i-2 has ended, i-3 never counted.
    /// assert_eq!(observed.used_without(&BTreeSet::from([id(2), id(3)])), 2);
    /// ```
    pub fn used_without(&self, ended: &BTreeSet<ProviderId>) -> u32 {
        let counted = self.includes.intersection(ended).count();
        self.used.saturating_sub(u32::try_from(counted).unwrap_or(u32::MAX))
    }

    /// How many more instances than slots it has.
    pub const fn over_allocated(&self) -> u32 {
        self.used.saturating_sub(self.total)
    }

    /// A reservation with this id and nothing else: no types, no slots, active, targeted.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            instance_types: Vec::new(),
            zones: Vec::new(),
            total: 0,
            used: 0,
            includes: BTreeSet::new(),
            owner: None,
            kind: ReservationKind::default(),
            matching: ReservationMatching::default(),
            state: ReservationState::default(),
            start: None,
            end: None,
        }
    }
}
