//! Capacity reservations: what EC2 says of one, and what a plan may make of it.

use std::collections::BTreeMap;

use berth_catalogue::{Availability, CapacityType, Money, OfferingEntry, RequirementEntry, ReservationDetails, label};
use jiff::{SignedDuration, Timestamp};

use crate::labels::{RESERVATION_ID, ZONE_ID, is_label_value};

/// EC2 begins to take a capacity block's instances back 30 minutes before its end; Karpenter stops launching ten minutes
/// earlier, and so does a plan.
const BLOCK_CLOSES: SignedDuration = SignedDuration::from_mins(40);

/// The kind of a reservation that is for a time agreed on.
const CAPACITY_BLOCK: &str = "capacity-block";

/// A capacity reservation as `DescribeCapacityReservations` describes it. Words are EC2's own; absent ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapacityReservation {
    /// The id, `cr-…`.
    pub id: String,
    /// The account that owns it.
    pub owner_id: String,
    /// The instance type that is reserved.
    pub instance_type: String,
    /// What runs on it: `Linux/UNIX`, `Windows` and others.
    pub platform: String,
    /// The zone's name in this account.
    pub zone: String,
    /// The zone's id.
    pub zone_id: String,
    /// `default` or `dedicated`.
    pub tenancy: String,
    /// How many instances were reserved.
    pub total: u32,
    /// How many are free.
    pub available: u32,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether its owner may take instances back.
    pub is_interruptible: bool,
    /// `active`, `scheduled`, `expired` and so on.
    pub state: String,
    /// When it begins.
    pub start: Option<Timestamp>,
    /// When it ends; `None` is never.
    pub end: Option<Timestamp>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The Outpost that it is on.
    pub outpost: String,
    /// The placement group that its instances must be in.
    pub placement_group: String,
}

/// What a plan may make of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// So many instances can be launched.
    Offered(u32),
    /// It has none to offer now, but it is there or will be.
    Later,
    /// It is none for these nodes.
    Never(Skipped),
}

/// Why a reservation is none for these nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// It has ended, failed, or was cancelled.
    Over,
    /// It is for another operating system, or one that bills by its own rules.
    Platform,
    /// Its instances are on dedicated hardware.
    Tenancy,
    /// It is on an Outpost.
    Outpost,
    /// Its instances must be in a placement group.
    PlacementGroup,
    /// The catalogue does not have its instance type in its zone.
    UnknownType,
    /// Its id cannot be a label's value, which nodes carry.
    Id,
}

// === impl CapacityReservation ===

impl CapacityReservation {
    /// What a plan made at `now` may make of it, for nodes of this operating system (`linux` or `windows`).
    pub fn use_at(&self, now: Timestamp, os: &str) -> Use {
        const OVER: [&str; 5] = ["expired", "cancelled", "failed", "payment-failed", "unsupported"];
        let state = self.state.as_str();
        if OVER.contains(&state) || self.end.is_some_and(|end| end <= now) {
            return Use::Never(Skipped::Over);
        }
        let platform = if os == "windows" { "Windows" } else { "Linux/UNIX" };
        if self.platform != platform {
            return Use::Never(Skipped::Platform);
        }
        if !["", "default"].contains(&self.tenancy.as_str()) {
            return Use::Never(Skipped::Tenancy);
        }
        if !self.outpost.is_empty() {
            return Use::Never(Skipped::Outpost);
        }
        if !self.placement_group.is_empty() {
            return Use::Never(Skipped::PlacementGroup);
        }
        if !is_label_value(&self.id) {
            return Use::Never(Skipped::Id);
        }
        let closes = |end: Timestamp| self.kind == CAPACITY_BLOCK && end.duration_since(now) <= BLOCK_CLOSES;
        // States that are new to us offer nothing, but are listed.
        if state != "active" || self.end.is_some_and(closes) { Use::Later } else { Use::Offered(self.available) }
    }

    /// Its offering with `free` instances, at the on-demand price of its type. `account` is the one whose catalogue it
    /// is; empty where that is not known.
    pub(crate) fn offering(&self, free: u32, price: Money, zone_id: Option<&str>, account: &str) -> OfferingEntry {
        let mut requirements = vec![
            RequirementEntry::is(label::CAPACITY_TYPE, CapacityType::Reserved.as_str()),
            RequirementEntry::is(label::ZONE, &self.zone),
            RequirementEntry::is(RESERVATION_ID, &self.id),
            RequirementEntry::is(label::RESERVATION_INTERRUPTIBLE, self.is_interruptible.to_string()),
        ];
        let kind = if self.kind.is_empty() { "default" } else { &self.kind };
        if is_label_value(kind) {
            requirements.push(RequirementEntry::is(label::RESERVATION_TYPE, kind));
        }
        let zone_id = zone_id.or(Some(self.zone_id.as_str())).filter(|id| is_label_value(id));
        requirements.extend(zone_id.map(|id| RequirementEntry::is(ZONE_ID, id)));
        let is_shared = !account.is_empty() && !self.owner_id.is_empty() && account != self.owner_id;
        let criteria = ["open", "targeted"].into_iter().find(|known| *known == self.match_criteria);
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        OfferingEntry {
            price,
            availability: Availability::Unlimited,
            reservation_capacity: Some(free),
            requirements,
            reservation: Some(Box::new(ReservationDetails {
                total_instances: Some(self.total),
                owner_id: self.owner_id.clone(),
                shared_with: if is_shared { account.to_owned() } else { String::new() },
                instance_match_criteria: criteria.unwrap_or_default().to_owned(),
                state: self.state.clone(),
                start: text(self.start),
                end: text(self.end),
                tags: self.tags.clone(),
            })),
        }
    }
}

/// Why no instance of an offering's reservation can be launched at `now`, as the catalogue's details of it tell; `None` where
/// nothing tells so. A catalogue counts what was free when it was made.
pub fn closed_at(offering: &OfferingEntry, now: Timestamp) -> Option<String> {
    let details = offering.reservation.as_deref()?;
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let (start, end) = (time(&details.start), time(&details.end));
    if let Some(end) = end.filter(|end| *end <= now) {
        return Some(format!("it ended at {end}"));
    }
    if let Some(start) = start.filter(|start| *start > now) {
        return Some(format!("it begins at {start}"));
    }
    let has_begun = start.is_some() && details.state == "scheduled";
    if !has_begun && !["", "active"].contains(&details.state.as_str()) {
        return Some(format!("it is {}", details.state));
    }
    let is_block = offering.single_value(label::RESERVATION_TYPE) == Some(CAPACITY_BLOCK);
    let closes = end.filter(|end| is_block && end.duration_since(now) <= BLOCK_CLOSES);
    closes.map(|end| format!("it ends at {end}, and a capacity block takes no more instances 40 minutes before"))
}

// === impl Skipped ===

impl Skipped {
    /// Why, after "left out: 3 ".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Over => "that are over",
            Self::Platform => "for other operating systems",
            Self::Tenancy => "on dedicated hardware",
            Self::Outpost => "on Outposts",
            Self::PlacementGroup => "in placement groups",
            Self::UnknownType => "of types that their zone does not offer",
            Self::Id => "with an id that no label can carry",
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn reservation(change: impl FnOnce(&mut CapacityReservation)) -> CapacityReservation {
        let mut reservation = CapacityReservation {
            id: "cr-1".to_owned(),
            platform: "Linux/UNIX".to_owned(),
            tenancy: "default".to_owned(),
            total: 5,
            available: 3,
            state: "active".to_owned(),
            ..CapacityReservation::default()
        };
        change(&mut reservation);
        reservation
    }

    fn at(text: &str) -> Option<Timestamp> {
        text.parse().ok()
    }

    #[rstest]
    #[case::active(reservation(|_| ()), Use::Offered(3))]
    #[case::ends_later(reservation(|r| r.end = at("2026-01-01T00:00:01Z")), Use::Offered(3))]
    #[case::ended(reservation(|r| r.end = at("2026-01-01T00:00:00Z")), Use::Never(Skipped::Over))]
    #[case::cancelled(reservation(|r| r.state = "cancelled".into()), Use::Never(Skipped::Over))]
    #[case::scheduled(reservation(|r| r.state = "scheduled".into()), Use::Later)]
    #[case::new_state(reservation(|r| r.state = "dreaming".into()), Use::Later)]
    #[case::block(reservation(|r| {
        r.kind = "capacity-block".into();
        r.end = at("2026-01-01T00:40:01Z");
    }), Use::Offered(3))]
    #[case::block_that_closes(reservation(|r| {
        r.kind = "capacity-block".into();
        r.end = at("2026-01-01T00:40:00Z");
    }), Use::Later)]
    #[case::windows(reservation(|r| r.platform = "Windows".into()), Use::Never(Skipped::Platform))]
    #[case::dedicated(reservation(|r| r.tenancy = "dedicated".into()), Use::Never(Skipped::Tenancy))]
    #[case::outpost(reservation(|r| r.outpost = "arn:aws:outposts:x".into()), Use::Never(Skipped::Outpost))]
    #[case::group(reservation(|r| r.placement_group = "arn:aws:ec2:x".into()), Use::Never(Skipped::PlacementGroup))]
    #[case::no_id(reservation(|r| r.id = String::new()), Use::Never(Skipped::Id))]
    fn state_kind_and_place_decide_the_use(#[case] reservation: CapacityReservation, #[case] expected: Use) {
        assert_eq!(reservation.use_at("2026-01-01T00:00:00Z".parse().unwrap(), "linux"), expected);
    }
}
