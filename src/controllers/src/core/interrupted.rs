//! Which instances the cloud will take back: asked every few seconds while there are any on spot or in interruptible
//! reservations, as their notice is short; of others with every comparison of instances and NodeClaims.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::{CloudError, Instance, InterruptionReason, tag};
use berth_decisions::{Decision, Nomination};
use jiff::Timestamp;

use super::{Core, Job};
use crate::claim::Question;
use crate::clock::after;
use crate::view::PodName;

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(15);
/// How often places are looked for that were not found.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Who holds the places of pods whose instance is taken back; commands count from 0.
const HOLDER: u64 = u64::MAX;

impl Core {
    /// A NodeClaim changed: if its instance may be taken back soon, that is asked about.
    pub(super) fn expect_interruptions(&mut self, claim: &str, now: Timestamp) {
        let may_go_soon = self.view.claims.get(claim).is_some_and(|claim| self.may_go_soon(claim));
        if may_go_soon && !self.queue.is_running(&Job::Interrupted) {
            self.queue.add_at(Job::Interrupted, after(now, PERIOD));
        }
    }

    pub(super) fn look_for_interruptions(&mut self) {
        if self.view.claims.values().any(|claim| self.may_go_soon(claim)) {
            self.ask(Job::Interrupted, Question::Interrupted);
        } else {
            self.queue.forget(&Job::Interrupted);
        }
    }

    pub(super) fn told_interruptions(&mut self, told: Result<Vec<Instance>, CloudError>, now: Timestamp) {
        match told {
            Ok(instances) => {
                self.note_interruptions(instances.iter(), now);
                self.queue.put_off(Job::Interrupted, after(now, PERIOD));
            }
            Err(error) => {
                tracing::warn!(%error, "unable to ask which instances will be taken back");
                self.queue.fail(Job::Interrupted, Duration::from_secs(1), now);
            }
        }
    }

    /// Takes in which of these instances will be taken back: all that will be are among them. What the cloud says no more of,
    /// as of a retirement that was called off, holds no more.
    pub(super) fn note_interruptions<'i>(&mut self, instances: impl Iterator<Item = &'i Instance>, now: Timestamp) {
        let mut is_news = false;
        let before = std::mem::take(&mut self.interrupted);
        for instance in instances.filter(|instance| instance.state.is_alive()) {
            let Some(interruption) = &instance.interruption else { continue };
            self.interrupted.insert(instance.provider_id.0.clone(), interruption.clone());
            if before.get(&instance.provider_id.0) == Some(interruption) {
                continue;
            }
            tracing::info!(instance = instance.provider_id.0, ?interruption, "the cloud takes an instance back");
            if let Some(claim) = instance.tags.get(tag::NODE_CLAIM) {
                self.queue.add(Job::Claim(claim.clone()));
            }
            is_news |= interruption.reason.is_on_short_notice();
            // What takes its place would be taken back next.
            match (interruption.reason, &instance.reservation) {
                (InterruptionReason::Spot, _) => {
                    let until = after(now, self.options.timings.exhausted_for);
                    for offers in self.offers.values_mut() {
                        offers.exhausted.insert(instance.offering.clone(), until);
                    }
                }
                (InterruptionReason::Reclaimed, Some(reservation)) => {
                    for offers in self.offers.values_mut().filter(|offers| offers.knows(reservation)) {
                        offers.full.insert(reservation.clone(), interruption.at);
                    }
                }
                _ => {}
            }
        }
        if is_news {
            self.tell_offers(now);
        }
        if self.interrupted != before {
            self.look_who_stays_soon(now);
        }
    }

    /// The pods of an instance that is taken back come where a decision has found a place for them. That is held for them until
    /// they are told to leave, and then for whoever is made in their stead.
    pub(super) fn hold_for_interrupted(&mut self, decision: &Decision, now: Timestamp) {
        self.looked_for_places = Some(now);
        if self.interrupted.is_empty() {
            return;
        }
        let mut places: Vec<(berth_state::Key, String)> = Vec::new();
        for Nomination { object, node, .. } in &decision.moves {
            if self.is_taken_back(object) {
                places.push((object.key.clone(), node.key.name.to_string()));
            }
        }
        for object in decision.launches.iter().flat_map(|launch| &launch.pods).filter(|pod| self.is_taken_back(pod)) {
            let uid = object.uid.as_deref().unwrap_or_default();
            let claim = self.planned.get(uid).map(|planned| planned.claim.clone());
            places.extend(claim.map(|claim| (object.key.clone(), claim)));
        }
        self.hold_places(HOLDER, places.iter().map(|(pod, place)| (pod, place.as_str())));
        let going: Vec<String> =
            self.view.claims.values().filter(|claim| self.is_interrupted(claim)).filter_map(name_of).collect();
        for claim in going {
            self.queue.add_at(Job::Claim(claim), now);
        }
    }

    /// Pods on the node of a NodeClaim whose instance is taken back, and which have no place yet that is ready. Those of
    /// DaemonSets never have one.
    pub(super) fn unplaced(&self, claim: &NodeClaim) -> BTreeSet<PodName> {
        let mut unplaced = BTreeSet::new();
        // Without decisions of its own nobody here finds them a place.
        if self.options.only_lifecycle || !self.is_interrupted(claim) {
            return unplaced;
        }
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        for pod in self.view.nodes_of(id).flat_map(|node| self.view.pods_on(node)).filter(|pod| !pod.is_of_daemon_set) {
            let place = self.places.next_of(&pod.name, &pod.uid);
            if !place.is_some_and(|place| self.is_ready_place(place)) {
                unplaced.insert(pod.name.clone());
            }
        }
        unplaced
    }

    /// Plans for pods that run yet on an instance which is taken back: no other change tells of them before they are gone.
    pub(super) fn look_for_places(&mut self, claim: &NodeClaim, unplaced: &BTreeSet<PodName>, now: Timestamp) {
        let Some(deletion) = &claim.metadata.deletion_timestamp else { return };
        let has_none = |pod: &&PodName| {
            let known = self.view.pods.get(pod);
            known.is_some_and(|known| known.deletion.is_none() && self.places.next_of(pod, &known.uid).is_none())
        };
        if !unplaced.iter().any(|pod| has_none(&pod)) {
            return;
        }
        let due = match self.looked_for_places {
            Some(at) if at >= deletion.0 => after(at, LOOK_AGAIN),
            _ => after(now, self.options.timings.batch_idle),
        };
        self.queue.add_at(Job::Provision, due);
    }

    /// Whether a node, or the node of a NodeClaim, takes pods now.
    pub(super) fn is_ready_place(&self, place: &str) -> bool {
        let place = place.to_owned();
        match (self.view.claims.get(&place), self.view.nodes.get(&place)) {
            (Some(claim), _) => Self::initialized(claim),
            (None, Some(node)) => {
                !self.makes_way(node) && self.view.claims_of_node(node).all(|claim| Self::initialized(claim))
            }
            (None, None) => false,
        }
    }

    /// Whether the cloud may take the instance of a NodeClaim back with a notice of minutes.
    fn may_go_soon(&self, claim: &NodeClaim) -> bool {
        let id = claim.metadata.labels.as_ref().and_then(labels::reservation_id);
        is_on_spot(claim) || id.is_some_and(|id| self.offers.values().any(|offers| offers.is_interruptible(id)))
    }

    fn is_interrupted(&self, claim: &NodeClaim) -> bool {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
        id.is_some_and(|id| self.interrupted.contains_key(id))
    }

    /// Whether a pod runs on an instance that is taken back.
    fn is_taken_back(&self, pod: &berth_state::ObjectRef) -> bool {
        let node = self.view.pods.get(&super::schedule::pod_name(pod)).and_then(|known| known.node.as_ref());
        let node = node.and_then(|node| self.view.nodes.get(node));
        node.is_some_and(|node| self.view.claims_of_node(node).any(|claim| self.is_interrupted(claim)))
    }
}

fn name_of(claim: &std::sync::Arc<NodeClaim>) -> Option<String> {
    claim.metadata.name.clone()
}

fn is_on_spot(claim: &NodeClaim) -> bool {
    let all = claim.metadata.labels.as_ref();
    all.and_then(|all| all.get(labels::CAPACITY_TYPE)).is_some_and(|kind| kind == "spot")
}
