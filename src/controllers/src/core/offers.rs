//! What node classes offer: asked for again and again, and learnt from launches in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
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

    pub(super) fn pool_changed(&mut self, name: &str, now: Timestamp) {
        let class = self.view.pools.get(name).and_then(|pool| pool.spec.template.spec.node_class_ref.clone());
        let Some(class) = class.filter(|class| self.provider.serves(class)) else {
            if self.told_offers.is_some() || !self.awaits_offers() {
                self.tell_offers(now);
            }
            return;
        };
        let key = class_key(&class);
        if self.node_classes.insert(key.clone(), class).is_none() {
            self.queue.add(Job::Offers(key.clone()));
            self.queue.add(Job::ClassStatus(key));
        }
        self.queue.add(Job::Pool(name.to_owned()));
        self.look_at_overlays();
        self.look_at_replicas(name, None);
        self.look_for_drift(name);
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
        if !self.node_classes.contains_key(&class) {
            return self.queue.succeed(job);
        }
        let is_known = self.class_status.get(&class) == Some(&status);
        if !is_known {
            self.ask_for_drift_of(&class);
        }
        let wait = match &status {
            // Files often have NodePools before their node classes.
            Err(CloudError::NotFound { .. }) => Duration::from_secs(1),
            // Somebody may be about to mend it.
            Ok(NodeClassStatus::NotReady { .. }) => Duration::from_secs(5),
            Ok(NodeClassStatus::Ready { .. }) => PERIOD,
            Err(_) => Duration::ZERO,
        };
        if wait.is_zero() {
            // One failed call does not make a node class unusable.
            self.class_status.entry(class).or_insert(status);
            return self.queue.fail(job, Duration::from_secs(1), now);
        }
        let changed = class.clone();
        self.class_status.insert(class, status);
        self.queue.put_off(job, after(now, wait));
        if !is_known {
            // What kept its machines from joining may be mended.
            self.zones.forget(&changed);
            self.leave_zones_alone(&changed, now);
            let pools: Vec<String> = self.view.pools.iter().map(|(name, _)| name.clone()).collect();
            for pool in pools {
                self.queue.add(Job::Pool(pool));
            }
            self.tell_offers(now);
            self.replan_at_once(now);
        }
    }

    pub(super) fn offered(&mut self, class: &str, types: Result<InstanceTypes, CloudError>, now: Timestamp) {
        let job = Job::Offers(class.to_owned());
        if !self.node_classes.contains_key(class) {
            return self.queue.succeed(job);
        }
        let is_first = self.asked_classes.insert(class.to_owned());
        match types {
            Ok(types) => {
                self.count_slot_time(now);
                // What is known to be empty is so for each node class.
                let known = self.offers.values().flat_map(|offers| &offers.exhausted);
                let exhausted = known.filter(|(_, until)| **until > now).map(|(key, until)| (key.clone(), *until));
                let exhausted = exhausted.collect();
                let ends_as_before = self.offers.get(class).is_some_and(|known| known.ends_as(&types));
                let full = self.being_reclaimed(now);
                let left_alone = self.zones.left_alone(class, now);
                self.offers.insert(class.to_owned(), Offers { types, exhausted, full, left_alone, at: now });
                self.forget_ends();
                self.look_for_lost_slots(class);
                self.tell_offers(now);
                self.look_at_overlays();
                if !ends_as_before {
                    self.look_at_claims_of(class);
                }
                self.queue.put_off(job, after(now, self.options.timings.offers_period));
            }
            Err(error) => {
                tracing::warn!(class, %error, "unable to read what the node class offers");
                if is_first {
                    // Others need not wait for it.
                    self.tell_offers(now);
                }
                self.queue.fail(job, Duration::from_secs(1), now);
            }
        }
    }

    /// Reservations whose owners take instances back just now: what would be launched there would go next.
    fn being_reclaimed(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let mut reclaimed = BTreeMap::new();
        for offers in self.offers.values() {
            let full = offers.full.iter().filter(|(id, until)| **until > now && offers.is_interruptible(id));
            reclaimed.extend(full.map(|(id, until)| (id.clone(), *until)));
        }
        reclaimed
    }

    /// NodeClaims of a node class are looked at.
    fn look_at_claims_of(&mut self, class: &str) {
        let claims: Vec<String> = self.claims_of(class).filter_map(|claim| claim.metadata.name.clone()).collect();
        for claim in claims {
            self.queue.add(Job::Claim(claim));
        }
    }

    /// A node class asks for something else than before: where that is not asked for again and again, it is now.
    fn ask_for_drift_of(&mut self, class: &str) {
        if self.options.timings.drift_period.is_some() {
            return;
        }
        let uids: Vec<String> = self.claims_of(class).filter_map(|claim| claim.metadata.uid.clone()).collect();
        for uid in uids {
            if let Some(memory) = self.memories.get_mut(&uid) {
                memory.drift_asked_at = None;
            }
        }
        self.look_at_claims_of(class);
    }

    fn claims_of<'a>(&'a self, class: &str) -> impl Iterator<Item = &'a NodeClaim> {
        let is_its =
            move |claim: &&NodeClaim| claim.spec.node_class_ref.as_ref().map(class_key).as_deref() == Some(class);
        self.view.claims.values().map(|claim| &**claim).filter(is_its)
    }

    /// Offerings that a launch found empty are left alone for a while, by all node classes.
    pub(super) fn learn_from_launch(&mut self, answer: &Result<Launched, CloudError>, now: Timestamp) {
        let exhausted = match answer {
            Ok(launched) => &launched.exhausted[..],
            Err(CloudError::InsufficientCapacity { offerings }) => offerings,
            Err(CloudError::ReservationFull { reservation, .. }) => return self.is_full(reservation, now),
            Err(_) => return,
        };
        let exhausted_for = self.options.timings.exhausted_for;
        for offering in exhausted {
            tracing::info!(%offering, "no instance left; left alone for {exhausted_for:?}");
            for offers in self.offers.values_mut() {
                offers.exhausted.insert(offering.clone(), after(now, exhausted_for));
            }
        }
        if !exhausted.is_empty() {
            self.tell_offers(now);
        }
    }

    /// A reservation had no slot left: the cloud is asked again.
    fn is_full(&mut self, reservation: &str, now: Timestamp) {
        self.distrust_ends(reservation);
        for (class, offers) in &mut self.offers {
            if offers.knows(reservation) {
                offers.full.insert(reservation.to_owned(), after(now, PERIOD));
                self.queue.add(Job::Offers(class.clone()));
            }
        }
        self.tell_offers(now);
    }

    /// Node classes that neither a NodePool nor a NodeClaim names any more are not asked for.
    pub(super) fn forget_unused_classes(&mut self, now: Timestamp) {
        let pools = self.view.pools.values().filter_map(|pool| pool.spec.template.spec.node_class_ref.as_ref());
        let claims = self.view.claims.values().filter_map(|claim| claim.spec.node_class_ref.as_ref());
        // Few, of many NodeClaims.
        let mut used: Vec<&NodeClassRef> = Vec::new();
        for class in pools.chain(claims) {
            if !used.contains(&class) {
                used.push(class);
            }
        }
        let used: BTreeSet<String> = used.into_iter().map(class_key).collect();
        let unused: Vec<String> = self.node_classes.keys().filter(|class| !used.contains(*class)).cloned().collect();
        for class in &unused {
            self.node_classes.remove(class);
            self.offers.remove(class);
            self.class_status.remove(class);
            self.zones.forget(class);
            self.asked_classes.remove(class);
            self.queue.forget(&Job::Offers(class.clone()));
            self.queue.forget(&Job::ClassStatus(class.clone()));
        }
        if !unused.is_empty() {
            self.tell_offers(now);
        }
    }
}
