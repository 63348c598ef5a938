//! Which pods come to which launched node, until they are there. They are not planned again meanwhile, and bound there first:
//! otherwise whoever is bound first takes the room that others were given by the plan, and more nodes are launched for those.
//!
//! A decision asks for them each time, so they are kept by NodeClaim: a set of pods is lent as it is, and what a decision costs
//! here grows with the nodes that come up, not with their pods.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::NodeClaim;
use berth_decisions::{Binding, ExpectedDrawers, ExpectedNodes, Launch, Nomination, WaitedFor, Waits};
use berth_state::ObjectRef;
use jiff::Timestamp;

use super::awaited::{Bound, OfClaim, Progress, Waiting, place_in, reservation_name, reservation_of};
use super::schedule::pod_name;
use super::{Core, Job};
use crate::claim::conditions;
use crate::clock::{after, before, elapsed};
use crate::view::PodName;

/// For how long a pod is expected on its node once that is up, and once the last one of its batch was bound: it may have to
/// wait for another one's, and where a machine is slow or a batch large, binding all takes longer than a moment.
const GRACE: Duration = Duration::from_secs(10);
/// For how long at most, while other nodes of its batch come up; and for how long pods with preferences wait for a node that comes up
/// once another one did, or took a pod, and once it takes longer than others did.
const MOST: Duration = Duration::from_secs(60);
/// For how long at most, while pods of its batch are being bound: bindings that fail again and again are no progress.
const LONGEST: Duration = Duration::from_secs(600);
/// For how long nobody gives way for pods with preferences, once their node takes longer than others did.
const SPARING: Duration = Duration::from_secs(180);

/// A NodeClaim that pods wait for: the name of its node, or its own while that is not there, and for how long it has been up.
struct Coming<'a> {
    claim: &'a str,
    of_claim: &'a OfClaim,
    node: &'a str,
    up: Duration,
}

impl Core {
    /// Pods whose node comes up, or did a moment ago, by its name or its NodeClaim's, and those whose own node makes way.
    pub(super) fn expected_pods(&self, now: Timestamp) -> ExpectedNodes {
        self.expected_on(&self.coming(now), now)
    }

    /// The same, and how pods with preferences wait for those of the nodes that come up. Otherwise these pods would all go to the
    /// first node that is up, and their own would stand empty.
    pub(super) fn expected_and_waited_for(&mut self, now: Timestamp) -> (ExpectedNodes, WaitedFor) {
        let coming = self.coming(now);
        let mut progress = self.awaited.progress;
        for Coming { of_claim, up, .. } in coming.iter().filter(|known| !known.up.is_zero()) {
            let age = elapsed(of_claim.launched, now);
            Progress::note(&mut progress, before(now, *up), age.saturating_sub(*up));
        }
        if let Some(progress) = &mut progress {
            let bound = coming.iter().filter_map(|known| self.awaited.bound.get(&known.of_claim.launched));
            progress.at = bound.copied().chain([progress.at]).max().unwrap_or(progress.at);
        }
        let mut waited_for = WaitedFor::new();
        let mut next: Option<Timestamp> = None;
        for Coming { of_claim, node, .. } in coming.iter().filter(|known| known.up.is_zero()) {
            let Some((waits, until)) = waits_until(progress, of_claim.launched, now) else { continue };
            waited_for.insert((*node).into(), waits);
            next = Some(next.map_or(until, |next| next.min(until)));
        }
        let expected = self.expected_on(&coming, now);
        self.awaited.progress = progress;
        if let Some(next) = next {
            self.queue.add_at(Job::Schedule, next);
        }
        (expected, waited_for)
    }

    fn expected_on(&self, coming: &[Coming<'_>], now: Timestamp) -> ExpectedNodes {
        let claims: BTreeSet<&str> = coming.iter().map(|known| known.claim).collect();
        let mut expected = self.places_held(&claims, now);
        for known in coming {
            match expected.entry(known.node.into()) {
                Entry::Vacant(entry) => drop(entry.insert(Arc::clone(&known.of_claim.names))),
                Entry::Occupied(mut entry) => {
                    Arc::make_mut(entry.get_mut()).extend(known.of_claim.names.iter().cloned());
                }
            }
        }
        expected
    }

    /// Pods that are to draw from Reservations whose node comes up, or did a moment ago.
    pub(super) fn expected_drawers(&self, now: Timestamp) -> ExpectedDrawers {
        // Most often there are none, and who comes need not be looked at.
        if !self.awaited.claims.keys().any(|place| reservation_of(place).is_some()) {
            return ExpectedDrawers::new();
        }
        let coming = self.reservations_coming(&self.coming(now));
        let drawers = coming.into_iter().filter_map(|name| {
            let pods = &self.awaited.claims.get(&place_in(name))?.names;
            Some((name.into(), Arc::clone(pods)))
        });
        drawers.collect()
    }

    /// The Reservations that others are to draw from, among those that come to these nodes.
    fn reservations_coming<'a>(&'a self, coming: &[Coming<'_>]) -> Vec<&'a str> {
        let places = self.awaited.claims.keys().filter_map(|place| reservation_of(place));
        let is_coming = |name: &&str| coming.iter().any(|known| known.of_claim.names.contains(*name));
        places.filter(is_coming).collect()
    }

    /// A NodeClaim was launched for pods and Reservations: they come there, and are planned for no other one meanwhile.
    pub(super) fn await_claim(&mut self, launch: &Launch, claim: &str, now: Timestamp) {
        let draws = launch.draws.iter().filter(|draw| launch.reservations.contains(&draw.reservation));
        let draws: BTreeMap<&ObjectRef, &str> = draws.map(|draw| (&draw.pod, &*draw.reservation.key.name)).collect();
        // Who draws from one that is there finds it by itself.
        let elsewhere: BTreeSet<&ObjectRef> = launch.draws.iter().map(|draw| &draw.pod).collect();
        for object in launch.pods.iter().chain(&launch.reservations) {
            let Some(uid) = object.uid.as_deref() else { continue };
            let name = pod_name(object);
            self.awaited.remove(&name);
            let owner = self.owner_of(&name);
            match draws.get(object) {
                Some(reservation) => self.awaited.put(&name, uid, &owner, (&place_in(reservation), now)),
                None if elsewhere.contains(object) => {}
                None => self.awaited.put(&name, uid, &owner, (claim, now)),
            }
        }
    }

    /// Pods that are to draw from a Reservation whose node comes up wait for it, too.
    pub(super) fn await_rooms(&mut self, nominations: &[Nomination]) {
        for nomination in nominations {
            let (object, Some(reservation)) = (&nomination.object, &nomination.draws_from) else { continue };
            let (pod, name) = (pod_name(object), &reservation.key.name);
            let known = self.awaited.of_pod.get(&reservation_name(name)).map(|known| known.launched);
            if let (Some(launched), Some(uid), false) =
                (known, object.uid.as_deref(), self.awaited.of_pod.contains_key(&pod))
            {
                let owner = self.owner_of(&pod);
                self.awaited.put(&pod, uid, &owner, (&place_in(name), launched));
            }
        }
    }

    /// Whether there are any.
    pub(super) fn expects_pods(&self, now: Timestamp) -> bool {
        !self.coming(now).is_empty()
    }

    fn coming(&self, now: Timestamp) -> Vec<Coming<'_>> {
        let claims = self.awaited.claims.iter();
        let mut coming: Vec<Coming<'_>> = claims
            .filter_map(|(claim, of_claim)| {
                let (node, up) = self.node_coming(claim, now)?;
                Some(Coming { claim, of_claim, node, up })
            })
            .collect();
        let of_batches = coming.iter().filter(|known| known.up.is_zero()).map(|known| known.of_claim.launched);
        let batches: BTreeSet<Timestamp> = of_batches.collect();
        coming.retain(|Coming { up, of_claim, .. }| {
            let idle = self.awaited.idle(of_claim.launched, now);
            is_expected(*up, batches.contains(&of_claim.launched), idle)
        });
        coming
    }

    // The name of a NodeClaim's node, or its own while that is not there, and for how long the node has been up.
    pub(super) fn node_coming<'a>(&'a self, claim: &'a str, now: Timestamp) -> Option<(&'a str, Duration)> {
        let Some(known) = self.view.claims.get(claim) else {
            // Its creation was not seen yet, or it is gone.
            let is_new = self.queue.is_running(&Job::Launch(claim.to_owned()));
            return is_new.then_some((claim, Duration::ZERO));
        };
        if known.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = known.status.as_ref();
        let node = status.and_then(|status| status.node_name.as_deref()).filter(|node| !node.is_empty());
        let node = node.filter(|node| self.view.nodes.get(*node).is_some()).unwrap_or(claim);
        Some((node, up_for(known, now)))
    }

    /// A pod changed: one that is bound or gone waits for no node.
    pub(super) fn forget_awaited(&mut self, pod: &PodName) {
        let Some(waiting) = self.awaited.of_pod.get(pod) else { return };
        let known = self.view.pods.get(pod);
        if known.is_none_or(|known| known.node.is_some() || known.uid != waiting.uid) {
            self.awaited.remove(pod);
        }
    }

    /// A Reservation changed: one that has its node, or is gone, waits for none.
    pub(super) fn forget_awaited_reservation(&mut self, name: &str) {
        let known_as = reservation_name(name);
        let Some(waiting) = self.awaited.of_pod.get(&known_as) else { return };
        let known = self.view.reservations.get(name);
        let waits = known.is_some_and(|known| {
            let node = known.status.as_ref().and_then(|status| status.node_name.as_deref());
            known.metadata.uid.as_deref() == Some(&waiting.uid) && node.is_none_or(str::is_empty)
        });
        if !waits {
            self.awaited.remove(&known_as);
        }
    }

    /// Pods that are alike stand in for each other: whoever is bound where another was expected leaves it its own place.
    pub(super) fn swap_expected(&mut self, bindings: &[Binding], now: Timestamp) {
        if bindings.is_empty() || self.awaited.claims.is_empty() {
            return;
        }
        let coming = self.coming(now);
        let claims: BTreeMap<&str, &str> = coming.iter().map(|known| (known.node, known.claim)).collect();
        let bound = bindings.iter().filter_map(|binding| {
            let pod = pod_name(&binding.object);
            let uid = binding.object.uid.as_deref()?.to_owned();
            let claim = match &binding.draws_from {
                // It takes no room but the Reservation's.
                Some(reservation) => Some(place_in(&reservation.key.name)),
                None => claims.get(&*binding.node.key.name).map(|claim| (*claim).to_owned()),
            };
            let known = self.awaited.of_pod.get(&pod).filter(|known| known.uid == uid);
            let owner = known.map_or_else(|| self.owner_of(&pod), |known| known.owner.clone());
            Some(Bound { pod, uid, owner, claim })
        });
        let bound: Vec<Bound> = bound.collect();
        let reservations = self.reservations_coming(&coming).into_iter().map(place_in);
        let alive: BTreeSet<String> = claims.into_values().map(str::to_owned).chain(reservations).collect();
        for (pod, place) in self.awaited.take_places(&bound, &alive, now) {
            self.give_place(&pod, place);
        }
    }

    /// Lets a pod whose place was taken wait for another one; where there is none, a node is to be launched for it instead.
    fn give_place(&mut self, pod: &PodName, place: Option<(String, Timestamp)>) {
        let Some(before) = self.awaited.of_pod.get(pod).cloned() else { return };
        let planned = self.planned.get_mut(&before.uid);
        if let Some((claim, launched)) = place {
            if let Some(planned) = planned {
                let of = reservation_of(&claim).and_then(|name| self.awaited.of_pod.get(&reservation_name(name)));
                (planned.claim, planned.last) = (of.map_or(&claim, |known| &known.claim).clone(), launched);
            }
            self.awaited.insert(pod.clone(), Waiting { claim, launched, ..before });
        } else {
            if let Some(planned) = planned {
                planned.claim = String::new();
                planned.n_launches = planned.n_launches.saturating_sub(1);
            }
            self.awaited.remove(pod);
        }
    }

    /// The uid of a pod's controller, or what a Reservation's template says: those that are alike have the same.
    pub(super) fn owner_of(&self, pod: &PodName) -> String {
        if pod.namespace.is_empty() {
            let known = self.view.reservations.get(&pod.name);
            return known.and_then(|known| serde_json::to_string(&known.spec.template).ok()).unwrap_or_default();
        }
        let owner = self.state.pod(&pod.namespace, &pod.name).and_then(|pod| pod.controller());
        owner.map(|owner| owner.uid.clone()).unwrap_or_default()
    }
}

// Whether pods are still expected on a node: it has been up for so long, others of its batch may come up yet, and no pod of the
// batch was bound for so long.
fn is_expected(up: Duration, others_come: bool, idle: Duration) -> bool {
    up <= GRACE || (idle <= GRACE && up <= LONGEST) || (others_come && up <= MOST)
}

// How pods with preferences wait for a node that was launched then and comes up, and until when that may stay so.
fn waits_until(progress: Option<Progress>, launched: Timestamp, now: Timestamp) -> Option<(Waits, Timestamp)> {
    let slowest = progress.map_or(Duration::ZERO, |known| known.slowest);
    let others_come = progress.map(|known| after(known.at, MOST).min(after(launched, slowest + MOST)));
    if let Some(until) = others_come.filter(|until| *until > now) {
        return Some((Waits::ForTheirNode, until));
    }
    let until = after(launched, slowest + SPARING);
    (until > now).then_some((Waits::Sparing, until))
}

fn up_for(claim: &NodeClaim, now: Timestamp) -> Duration {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if !conditions::is_true(all, conditions::INITIALIZED) {
        return Duration::ZERO;
    }
    let since = conditions::get(all, conditions::INITIALIZED).map_or(now, |known| known.last_transition_time.0);
    // At least something, to be told from one that comes up.
    elapsed(since, now).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::super::awaited::Awaited;
    use super::*;

    fn pod(name: &str) -> PodName {
        PodName { namespace: "default".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn pods_with_preferences_wait_while_other_nodes_come_up_but_not_for_one_that_takes_much_longer() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seconds = Duration::from_secs;
        let waits = |progress, launched, now| waits_until(progress, at(launched), at(now)).map(|(waits, _)| waits);
        assert_eq!(waits(None, 0, 179), Some(Waits::Sparing));
        assert_eq!(waits(None, 0, 180), None);
        // Nodes that were launched one after the other.
        let mut progress = None;
        for n in 0..4 {
            Progress::note(&mut progress, at(60 + 20 * n), seconds(60));
            assert_eq!(waits(progress, 20 * (n + 1), 60 + 20 * n + 19), Some(Waits::ForTheirNode), "{n}");
        }
        // One that was launched with the first does not join, while others always do.
        assert_eq!(waits(progress, 0, 119), Some(Waits::ForTheirNode));
        assert_eq!(waits(progress, 0, 120), Some(Waits::Sparing));
        assert_eq!(waits(progress, 0, 240), None);
        assert_eq!(waits_until(progress, at(0), at(100)), Some((Waits::ForTheirNode, at(120))));
        // Nothing came up for a while, then a slow one.
        Progress::note(&mut progress, at(500), seconds(200));
        assert_eq!(waits(progress, 300, 559), Some(Waits::ForTheirNode));
        assert_eq!(waits(progress, 300, 560), Some(Waits::Sparing));
        Progress::note(&mut progress, at(800), seconds(30));
        assert_eq!(progress.map(|known| known.slowest), Some(seconds(30)), "of those that came up lately");
    }

    #[test]
    fn pods_stay_expected_for_as_long_as_others_of_their_batch_are_being_bound() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seconds = Duration::from_secs;
        let mut awaited = Awaited::default();
        for (name, claim, launched) in [("a", "one", 0), ("b", "one", 0), ("c", "two", 5)] {
            awaited.put(&pod(name), name, "web", (claim, at(launched)));
        }
        assert_eq!(awaited.idle(at(0), at(30)), Duration::MAX);
        awaited.note_bound(&pod("a"), at(25));
        assert_eq!((awaited.idle(at(0), at(30)), awaited.idle(at(5), at(30))), (seconds(5), Duration::MAX));
        assert!(is_expected(seconds(90), false, seconds(5)), "a slow machine binds others of the batch yet");
        assert!(!is_expected(seconds(11), false, seconds(11)), "nothing was bound for longer than the grace");
        assert!(is_expected(seconds(11), true, Duration::MAX) && !is_expected(seconds(61), true, Duration::MAX));
        assert!(is_expected(seconds(10), false, Duration::MAX) && !is_expected(seconds(601), false, seconds(1)));
        awaited.remove(&pod("a"));
        awaited.remove(&pod("b"));
        assert!(awaited.bound.is_empty(), "nothing is kept of a batch that is done");
    }
}
