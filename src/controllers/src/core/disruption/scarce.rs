//! Offerings of which no instance was left when a command launched its replacements. What else it had launched went again, so the next
//! command that wants one waits, each time for longer: nodes that are alike would try in turn, and each launch a node and end it again.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_cloudprovider::OfferingKey;
use berth_decisions::Launch;
use jiff::Timestamp;

use crate::clock::{after, back_off};

/// The first and the longest wait.
const WAIT: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(4 * 60 * 60));

/// By offering: how often there was none, and until when it is not tried.
#[derive(Debug, Default)]
pub(super) struct Scarce(BTreeMap<OfferingKey, (u32, Timestamp)>);

// === impl Scarce ===

impl Scarce {
    /// There was no instance of these. Replacements of one command that find none together count once. One that is wanted again long
    /// after its wait counts anew.
    pub(super) fn note(&mut self, offerings: &[OfferingKey], now: Timestamp) {
        self.0.retain(|_, (_, until)| after(*until, WAIT.1) > now);
        for offering in offerings {
            let (times, until) = self.0.entry(offering.clone()).or_insert((0, now));
            if *until <= now {
                (*times, *until) = (times.saturating_add(1), after(now, back_off(WAIT, *times)));
            }
        }
    }

    /// There are instances of one again.
    pub(super) fn found(&mut self, offering: &OfferingKey) {
        self.0.remove(offering);
    }

    /// Until when an offering is not tried, where that is to come yet.
    pub(super) fn until(&self, offering: &OfferingKey, now: Timestamp) -> Option<Timestamp> {
        self.0.get(offering).map(|(_, until)| *until).filter(|until| *until > now)
    }

    /// The first offering of these launches that is not tried now, and until when.
    pub(super) fn first_of(&self, launches: &[Launch], now: Timestamp) -> Option<(&OfferingKey, Timestamp)> {
        launches.iter().find_map(|launch| {
            let is_meant = |key: &OfferingKey| {
                let offering = &launch.offering;
                (&key.instance_type, &key.zone) == (&offering.instance_type, &offering.zone)
                    && key.capacity_type.to_string() == offering.capacity_type
            };
            self.0.keys().filter(|key| is_meant(key)).find_map(|key| Some((key, self.until(key, now)?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_catalogue::CapacityType;

    use super::*;

    #[test]
    fn what_was_not_to_be_had_is_tried_after_longer_and_longer_waits() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let zone = Some("a".to_owned());
        let keys = [OfferingKey { instance_type: "t2".to_owned(), zone, capacity_type: CapacityType::OnDemand }];
        let mut scarce = Scarce::default();
        let wait =
            |scarce: &Scarce, now: i64| scarce.until(&keys[0], at(now)).map_or(0, |until| until.as_second() / 60 - now);
        let mut waits = Vec::new();
        let mut now = 0;
        for _ in 0..8 {
            scarce.note(&keys, at(now));
            scarce.note(&keys, at(now));
            waits.push(wait(&scarce, now));
            now += wait(&scarce, now);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 240, 240]);
        assert_eq!(wait(&scarce, now), 0);
        scarce.note(&[], at(now + 239));
        scarce.note(&keys, at(now + 239));
        assert_eq!(wait(&scarce, now + 239), 240);
        now += 239 + 240;
        scarce.note(&keys, at(now + 240));
        assert_eq!(wait(&scarce, now + 240), 5, "it is forgotten once nobody wanted it for long");
        scarce.note(&keys, at(now + 245));
        assert_eq!(wait(&scarce, now + 245), 10);
        scarce.found(&keys[0]);
        assert_eq!(wait(&scarce, now + 245), 0);
        scarce.note(&keys, at(now + 245));
        assert_eq!(wait(&scarce, now + 245), 5, "there were some meanwhile");
    }
}
