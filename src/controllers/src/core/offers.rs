//! What node classes offer: asked for again and again, and learnt from launches in between.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_cloudprovider::{CloudError, InstanceTypes, Launched, NodeClassStatus};
use jiff::Timestamp;

use super::{Core, Job, class_key};
use crate::claim::{Offers, Question};
use crate::clock::after;

/// How often the cloud is asked whether a node class can be used.
const PERIOD: Duration = Duration::from_secs(60);

impl Core {
    pub(super) fn ask_offers(&mut self, class: String) {
        let Some(reference) = self.node_classes.get(&class).cloned() else { return };
        self.ask(Job::Offers(class), Question::Types(reference));
    }

    pub(super) fn pool_changed(&mut self, name: &str) {
        let class =
            self.view.pools.get(&name.to_owned()).and_then(|pool| pool.spec.template.spec.node_class_ref.clone());
        let Some(class) = class.filter(|class| self.provider.serves(class)) else { return };
        let key = class_key(&class);
        if self.node_classes.insert(key.clone(), class).is_none() {
            self.queue.add(Job::Offers(key.clone()));
            self.queue.add(Job::ClassStatus(key));
        }
        self.queue.add(Job::Pool(name.to_owned()));
    }

    pub(super) fn ask_status(&mut self, class: String) {
        let Some(reference) = self.node_classes.get(&class).cloned() else { return };
        self.ask(Job::ClassStatus(class), Question::Status(reference));
    }

    /// The cloud said whether a node class can be used.
    pub(super) fn class_answered(
        &mut self,
        class: String,
        status: Result<NodeClassStatus, CloudError>,
        now: Timestamp,
    ) {
        let job = Job::ClassStatus(class.clone());
        let is_known = self.class_status.get(&class) == Some(&status);
        let wait = match &status {
            // Somebody may be about to mend it.
            Ok(NodeClassStatus::NotReady { .. }) | Err(CloudError::NotFound { .. }) => Duration::from_secs(5),
            Ok(NodeClassStatus::Ready { .. }) => PERIOD,
            Err(_) => Duration::ZERO,
        };
        if wait.is_zero() {
            // One failed call does not make a node class unusable.
            self.class_status.entry(class).or_insert(status);
            return self.queue.fail(job, Duration::from_secs(1), now);
        }
        self.class_status.insert(class, status);
        self.queue.put_off(job, after(now, wait));
        if !is_known {
            let pools: Vec<String> = self.view.pools.iter().map(|(name, _)| name.clone()).collect();
            for pool in pools {
                self.queue.add(Job::Pool(pool));
            }
            self.replan_at_once();
        }
    }

    pub(super) fn offered(&mut self, class: String, types: Result<InstanceTypes, CloudError>, now: Timestamp) {
        let job = Job::Offers(class.clone());
        match types {
            Ok(types) => {
                let before = self.offers.remove(&class);
                let exhausted = before.map(|before| before.exhausted).unwrap_or_default();
                let exhausted = exhausted.into_iter().filter(|(_, until)| *until > now).collect();
                self.offers.insert(class, Offers { types, exhausted, full: BTreeMap::new() });
                self.tell_offers(now);
                let claims: Vec<String> = self.view.claims.iter().map(|(name, _)| name.clone()).collect();
                for claim in claims {
                    self.queue.add(Job::Claim(claim));
                }
                self.queue.put_off(job, after(now, self.options.timings.offers_period));
            }
            Err(error) => {
                tracing::warn!(class, %error, "unable to read what the node class offers");
                self.queue.fail(job, Duration::from_secs(1), now);
            }
        }
    }

    /// Offerings that a launch found empty are left alone for a while.
    pub(super) fn learn_from_launch(&mut self, class: &str, answer: &Result<Launched, CloudError>, now: Timestamp) {
        let Some(offers) = self.offers.get_mut(class) else { return };
        let exhausted = match answer {
            Ok(launched) => &launched.exhausted[..],
            Err(CloudError::InsufficientCapacity { offerings }) => offerings,
            Err(CloudError::ReservationFull { reservation, .. }) => {
                offers.full.insert(reservation.clone(), after(now, PERIOD));
                self.tell_offers(now);
                self.queue.add(Job::Offers(class.to_owned()));
                return;
            }
            Err(_) => return,
        };
        let exhausted_for = self.options.timings.exhausted_for;
        for offering in exhausted {
            tracing::info!(%offering, "no instance left; left alone for {exhausted_for:?}");
            offers.exhausted.insert(offering.clone(), after(now, exhausted_for));
        }
        if !exhausted.is_empty() {
            self.tell_offers(now);
        }
    }
}
