//! Zones in which machines do not join: a subnet without a route, a firewall between it and the API server. Launches for pods that
//! prefer such a zone, or that find it the cheapest, would come to nothing again and again, though other zones have room.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{after, back_off};

/// So many machines in a row that did not join make a zone one where they do not.
const ENOUGH: u32 = 2;
/// The first and the longest time for which it is left alone; then one more that does not join is enough.
const WAIT: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(30 * 60));
/// For how long after its last round nothing is expected of a zone.
const LATELY: Duration = Duration::from_secs(60 * 60);
/// The same for what disruption launches: that can wait.
const COMMANDS_WAIT: (Duration, Duration) = (WAIT.0, Duration::from_secs(4 * 60 * 60));

/// What became of the last machines of each node class in each zone, where they did not join.
#[derive(Debug, Default)]
pub(super) struct Zones(BTreeMap<String, BTreeMap<String, Failing>>);

/// A zone whose last machine did not join.
#[derive(Debug)]
struct Failing {
    /// How many in a row did not.
    n: u32,
    /// In how many rounds: what fails while the zone is left alone belongs to the round that began that.
    rounds: u32,
    /// When the last one began.
    since: Timestamp,
    /// Whether machines may join elsewhere.
    has_others: bool,
}

// === impl Failing ===

impl Failing {
    /// Whether a round began lately: one machine alone may be chance, and what was long ago may be mended.
    fn has_failed_lately(&self, now: Timestamp) -> bool {
        self.rounds > 0 && after(self.since, LATELY) > now
    }

    /// Until when the zone waits for its next round.
    fn until(&self, wait: (Duration, Duration)) -> Option<Timestamp> {
        Some(after(self.since, back_off(wait, self.rounds.checked_sub(1)?)))
    }
}

// === impl Zones ===

impl Zones {
    /// A machine joined: its zone is as good as any.
    pub(super) fn joined(&mut self, class: &str, zone: &str) {
        if let Some(zones) = self.0.get_mut(class) {
            zones.remove(zone);
        }
    }

    /// A machine did not join, where node classes may use all these zones. How many did not, and until when the zone is left alone,
    /// where that begins now. One that may be the only zone where machines join is not left alone: perhaps none of them is to blame.
    pub(super) fn did_not_join(
        &mut self,
        class: &str,
        zone: &str,
        all: &BTreeSet<&str>,
        now: Timestamp,
    ) -> Option<(u32, Timestamp)> {
        let zones = self.0.entry(class.to_owned()).or_default();
        let fails = |zone: &str| zones.get(zone).is_some_and(|failing| failing.has_failed_lately(now));
        let has_others = all.iter().any(|other| *other != zone && !fails(other));
        let new = Failing { n: 0, rounds: 0, since: now, has_others };
        let failing = zones.entry(zone.to_owned()).or_insert(new);
        failing.n = failing.n.saturating_add(1);
        if failing.n < ENOUGH || failing.until(WAIT).is_some_and(|until| until > now) {
            return None;
        }
        (failing.rounds, failing.since) = (failing.rounds.saturating_add(1), now);
        failing.has_others = has_others;
        failing.until(WAIT).filter(|_| has_others).map(|until| (failing.n, until))
    }

    /// The node class is another one than before.
    pub(super) fn forget(&mut self, class: &str) {
        self.0.remove(class);
    }

    /// The zones that a node class leaves alone, and until when.
    pub(super) fn left_alone(&self, class: &str, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let zones = self.0.get(class).into_iter().flatten().filter(|(_, failing)| failing.has_others);
        let waits = zones.filter_map(|(zone, failing)| Some((zone.clone(), failing.until(WAIT)?)));
        waits.filter(|(_, until)| *until > now).collect()
    }

    /// Until when disruption launches nothing in a zone, where that is to come yet.
    pub(super) fn not_for_commands_until(&self, class: &str, zone: &str, now: Timestamp) -> Option<Timestamp> {
        let failing = self.0.get(class)?.get(zone).filter(|failing| failing.has_others)?;
        failing.until(COMMANDS_WAIT).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn minutes((n, until): (u32, Timestamp)) -> (u32, i64) {
        (n, until.as_second() / 60)
    }

    #[test]
    fn a_zone_where_machines_do_not_join_is_left_alone_for_longer_and_longer() {
        let all = BTreeSet::from(["a", "b"]);
        let mut zones = Zones::default();
        let mut fails = |minute| zones.did_not_join("main", "b", &all, at(minute)).map(minutes);
        assert_eq!(fails(0), None, "one may be chance");
        assert_eq!(fails(0), Some((2, 5)));
        assert_eq!(fails(4), None, "it was launched before");
        assert_eq!(fails(5), Some((4, 15)), "one is enough by then");
        assert_eq!([15, 35, 65].map(|minute| fails(minute).unwrap().1), [35, 65, 95]);
        assert_eq!(zones.left_alone("main", at(94)), BTreeMap::from([("b".to_owned(), at(95))]));
        assert!(zones.left_alone("main", at(95)).is_empty());
        assert!(zones.left_alone("other", at(94)).is_empty());
        let for_commands =
            |minute| zones.not_for_commands_until("main", "b", at(minute)).map(|until| until.as_second() / 60);
        assert_eq!([144, 145].map(for_commands), [Some(145), None], "5 rounds: 80 minutes after the last");
        zones.joined("main", "b");
        assert!(zones.left_alone("main", at(94)).is_empty());
        assert_eq!(zones.did_not_join("main", "b", &all, at(95)), None, "it begins anew");
        zones.did_not_join("main", "b", &all, at(95));
        zones.forget("main");
        assert!(zones.left_alone("main", at(95)).is_empty());
    }

    #[test]
    fn the_last_zone_that_may_do_is_not_left_alone() {
        let mut zones = Zones::default();
        let mut fails = |zone, all: &[&str], minute| {
            let all = all.iter().copied().collect();
            (0..2).find_map(|_| zones.did_not_join("main", zone, &all, at(minute))).map(minutes)
        };
        assert_eq!(fails("a", &["a"], 0), None, "there is no other");
        let all = &["a", "b", "c"];
        assert_eq!(fails("a", all, 5), Some((3, 15)));
        assert_eq!(fails("b", all, 5), Some((2, 10)));
        assert_eq!(fails("c", all, 5), None);
        // What was long ago keeps no other zone from being tried.
        assert_eq!(fails("c", all, 70), Some((3, 80)));
    }
}
