//! Nodes whose command came to nothing are left alone for a while: for how long depends on why.

use std::time::Duration;

use berth_cloudprovider::OfferingKey;
use jiff::Timestamp;

use crate::clock::{after, back_off, elapsed};

/// The first and the longest time for which nodes are left alone whose command came to nothing.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30 * 60));

/// A node whose command came to nothing.
#[derive(Debug, Clone)]
pub(super) struct PutBack {
    /// How often that was for something about the node.
    pub(super) times: u32,
    pub(super) until: Timestamp,
    /// The offering that it waits for: once an instance of it is launched it is tried again.
    scarce: Option<OfferingKey>,
    pub(super) why: String,
}

/// Why a command was rolled back.
#[derive(Debug)]
pub(super) enum Fault {
    /// Something about its nodes: that may last, and they are left alone for longer each time.
    Lasting,
    /// Others were under way just then.
    Passing,
    /// No instance was left of what it launched. It is not offered now: something else may do.
    RanOut,
    /// It wants what is not launched for disruptions before then.
    NotBefore(Timestamp),
    /// It wants an offering that ran out lately, and that is not tried again before then.
    Scarce(OfferingKey, Timestamp),
}

// === impl PutBack ===

impl PutBack {
    /// Whether it still counts how often its commands came to nothing.
    pub(super) fn counts(&self, now: Timestamp) -> bool {
        after(self.until, BACKOFF.1) > now
    }

    /// An instance of an offering was launched.
    pub(super) fn was_launched(&mut self, offering: &OfferingKey, now: Timestamp) {
        if self.scarce.as_ref() == Some(offering) {
            self.until = self.until.min(now);
        }
    }
}

// === impl Fault ===

impl Fault {
    /// For how long a node is left alone whose commands have failed so often before.
    pub(super) fn put_back(&self, before: u32, why: &str, exhausted_for: Duration, now: Timestamp) -> PutBack {
        let (times, wait, scarce) = match self {
            Fault::Lasting => (before.saturating_add(1), back_off(BACKOFF, before), None),
            Fault::Passing => (before, back_off(BACKOFF, before.saturating_sub(1)), None),
            // Before what ran out is offered again.
            Fault::RanOut => (before, BACKOFF.0.min(exhausted_for / 2), None),
            Fault::NotBefore(until) => (before, elapsed(now, *until).min(BACKOFF.1), None),
            Fault::Scarce(offering, until) => (before, elapsed(now, *until).min(BACKOFF.1), Some(offering.clone())),
        };
        PutBack { times, until: after(now, wait), scarce, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use berth_catalogue::CapacityType;

    use super::*;

    #[test]
    fn only_what_lasts_is_held_against_a_node_and_what_was_scarce_is_tried_once_there_is_some() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = |name: &str| OfferingKey {
            instance_type: name.to_owned(),
            zone: None,
            capacity_type: CapacityType::OnDemand,
        };
        let put_back = |fault: Fault, before| fault.put_back(before, "", Duration::from_secs(90), at(0));
        let seen = |fault, before| {
            let PutBack { times, until, .. } = put_back(fault, before);
            (times, until.as_second())
        };
        assert_eq!([0, 1, 9].map(|before| seen(Fault::Lasting, before)), [(1, 60), (2, 120), (10, 1800)]);
        assert_eq!([0, 1, 2].map(|before| seen(Fault::Passing, before)), [(0, 60), (1, 60), (2, 120)]);
        assert_eq!(seen(Fault::RanOut, 3), (3, 45), "while it is not offered");
        assert_eq!(seen(Fault::Scarce(key("of-2"), at(300)), 3), (3, 300));
        assert_eq!(seen(Fault::Scarce(key("of-2"), at(14_400)), 0), (0, 1800), "something else may do then");
        let mut known = put_back(Fault::Scarce(key("of-2"), at(300)), 0);
        known.was_launched(&key("of-4"), at(10));
        assert_eq!(known.until, at(300));
        known.was_launched(&key("of-2"), at(10));
        assert_eq!(known.until, at(10));
        assert!(known.counts(at(1809)) && !known.counts(at(1810)));
    }
}
