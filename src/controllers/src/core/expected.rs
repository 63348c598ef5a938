//! Which pods come to which launched node, until they are there. They are not planned again meanwhile, and bound there first:
//! otherwise whoever is bound first takes the room that others were given by the plan, and more nodes are launched for those.
//!
//! A decision asks for them each time, so they are kept by NodeClaim: a set of pods is lent as it is, and what a decision costs
//! here grows with the nodes that come up, not with their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::NodeClaim;
use berth_decisions::{Binding, ExpectedNodes};
use jiff::Timestamp;

use super::Core;
use super::schedule::pod_name;
use crate::claim::conditions;
use crate::clock::elapsed;
use crate::view::PodName;

/// For how long a pod is expected on its node once that is up, and once the last one of its batch was bound: it may have to
/// wait for another one's, and where a machine is slow or a batch large, binding all takes longer than a moment.
const GRACE: Duration = Duration::from_secs(10);
/// For how long at most, while other nodes of its batch come up.
const MOST: Duration = Duration::from_secs(60);
/// For how long at most, while pods of its batch are being bound: bindings that fail again and again are no progress.
const LONGEST: Duration = Duration::from_secs(600);

/// Pods that wait for the node of a NodeClaim that was launched for them.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    claims: BTreeMap<String, OfClaim>,
    of_pod: BTreeMap<PodName, Waiting>,
    /// By batch, which is when its NodeClaims were launched: when one of its pods was bound last.
    bound: BTreeMap<Timestamp, Timestamp>,
}

/// The pods of a NodeClaim.
#[derive(Debug)]
struct OfClaim {
    /// When it was launched, together with others.
    launched: Timestamp,
    /// By `namespace/name`.
    names: Arc<BTreeSet<Box<str>>>,
    /// By the uid of their controller: those are alike.
    by_owner: BTreeMap<String, BTreeSet<PodName>>,
}

/// A pod that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Waiting {
    uid: String,
    /// The uid of its controller.
    owner: String,
    claim: String,
    launched: Timestamp,
    /// Whether it was bound already, though that was not seen yet: it can't take the place of another one any more.
    is_bound: bool,
}

/// A NodeClaim that pods wait for: the name of its node, or its own while that is not there, and for how long it has been up.
struct Coming<'a> {
    claim: &'a str,
    of_claim: &'a OfClaim,
    node: &'a str,
    up: Duration,
}

// === impl Awaited ===

impl Awaited {
    /// A NodeClaim was launched for a pod.
    pub(super) fn put(&mut self, pod: &PodName, uid: &str, owner: &str, (claim, launched): (&str, Timestamp)) {
        let (uid, owner, claim) = (uid.to_owned(), owner.to_owned(), claim.to_owned());
        self.insert(pod.clone(), Waiting { uid, owner, claim, launched, is_bound: false });
    }

    fn insert(&mut self, pod: PodName, waiting: Waiting) {
        self.remove(&pod);
        let of_claim = self.claims.entry(waiting.claim.clone()).or_insert_with(|| OfClaim {
            launched: waiting.launched,
            names: Arc::default(),
            by_owner: BTreeMap::new(),
        });
        of_claim.launched = waiting.launched;
        Arc::make_mut(&mut of_claim.names).insert(text(&pod));
        of_claim.by_owner.entry(waiting.owner.clone()).or_default().insert(pod.clone());
        self.of_pod.insert(pod, waiting);
    }

    /// A pod was bound. The batch that it waited for is not done yet.
    fn note_bound(&mut self, pod: &PodName, now: Timestamp) {
        if let Some(waiting) = self.of_pod.get_mut(pod) {
            waiting.is_bound = true;
            self.bound.insert(waiting.launched, now);
        }
    }

    /// For how long no pod of a batch was bound.
    fn idle(&self, launched: Timestamp, now: Timestamp) -> Duration {
        self.bound.get(&launched).map_or(Duration::MAX, |last| elapsed(*last, now))
    }

    /// A pod waits for no node any more.
    pub(super) fn remove(&mut self, pod: &PodName) {
        let Some(Waiting { owner, claim, .. }) = self.of_pod.remove(pod) else { return };
        let Some(of_claim) = self.claims.get_mut(&claim) else { return };
        Arc::make_mut(&mut of_claim.names).remove(&text(pod));
        if let Some(alike) = of_claim.by_owner.get_mut(&owner) {
            alike.remove(pod);
            if alike.is_empty() {
                of_claim.by_owner.remove(&owner);
            }
        }
        if of_claim.names.is_empty() {
            let launched = of_claim.launched;
            self.claims.remove(&claim);
            if self.claims.values().all(|other| other.launched != launched) {
                self.bound.remove(&launched);
            }
        }
    }

    /// The pods of an owner that wait for a NodeClaim and are not bound yet.
    fn alike(&self, claim: &str, owner: &str) -> Vec<PodName> {
        let alike = self.claims.get(claim).and_then(|known| known.by_owner.get(owner));
        let waits = |pod: &&PodName| self.of_pod.get(*pod).is_some_and(|known| !known.is_bound);
        alike.into_iter().flatten().filter(waits).cloned().collect()
    }
}

fn text(PodName { namespace, name }: &PodName) -> Box<str> {
    format!("{namespace}/{name}").into()
}

impl Core {
    /// Pods whose node comes up, or did a moment ago, by its name or its NodeClaim's.
    pub(super) fn expected_pods(&self, now: Timestamp) -> ExpectedNodes {
        self.coming(now).into_iter().map(|known| (known.node.into(), Arc::clone(&known.of_claim.names))).collect()
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
    fn node_coming<'a>(&'a self, claim: &'a str, now: Timestamp) -> Option<(&'a str, Duration)> {
        let Some(known) = self.view.claims.get(&claim.to_owned()) else {
            // Its creation was not seen yet, or it is gone.
            let is_new = self.queue.is_running(&super::Job::Launch(claim.to_owned()));
            return is_new.then_some((claim, Duration::ZERO));
        };
        if known.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = known.status.as_ref();
        let node = status.and_then(|status| status.node_name.as_deref()).filter(|node| !node.is_empty());
        let node = node.filter(|node| self.view.nodes.get(&(*node).to_owned()).is_some()).unwrap_or(claim);
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

    /// Pods that are alike stand in for each other: whoever is bound where another was expected leaves it its own place.
    pub(super) fn swap_expected(&mut self, bindings: &[Binding], now: Timestamp) {
        if bindings.is_empty() || self.awaited.claims.is_empty() {
            return;
        }
        for binding in bindings {
            self.awaited.note_bound(&pod_name(&binding.object), now);
        }
        let claims: BTreeMap<String, String> =
            self.coming(now).iter().map(|known| (known.node.to_owned(), known.claim.to_owned())).collect();
        // By NodeClaim and owner: those who are still to come.
        let mut left: BTreeMap<(String, String), Vec<PodName>> = BTreeMap::new();
        for binding in bindings {
            let Some(uid) = binding.object.uid.as_deref() else { continue };
            let name = pod_name(&binding.object);
            let Some(there) = claims.get(&*binding.node.key.name) else { continue };
            let own = self.awaited.of_pod.get(&name).filter(|own| own.uid == uid).cloned();
            if own.as_ref().is_some_and(|own| own.claim == *there) {
                continue;
            }
            let owner = own.as_ref().map_or_else(|| self.owner_of(&name), |own| own.owner.clone());
            let left_there =
                left.entry((there.clone(), owner.clone())).or_insert_with(|| self.awaited.alike(there, &owner));
            let Some(other) = left_there.pop() else { continue };
            let place = own.map(|own| (own.claim, own.launched));
            if let Some((claim, _)) = &place
                && let Some(left) = left.get_mut(&(claim.clone(), owner))
            {
                // A third may be bound to the place that is its now.
                left.push(other.clone());
            }
            self.give_place(&other, place);
        }
    }

    /// Lets a pod whose node was taken wait for the one that its taker was expected on; where there is none, one is to be
    /// launched for it instead.
    fn give_place(&mut self, pod: &PodName, place: Option<(String, Timestamp)>) {
        let Some(before) = self.awaited.of_pod.get(pod).cloned() else { return };
        let planned = self.planned.get_mut(&before.uid);
        if let Some((claim, launched)) = place {
            if let Some(planned) = planned {
                (planned.claim, planned.last) = (claim.clone(), launched);
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

    /// The uid of a pod's controller.
    pub(super) fn owner_of(&self, pod: &PodName) -> String {
        let known = self.state.get_as::<k8s_openapi::api::core::v1::Pod>(&pod.namespace, &pod.name);
        let owners = known.and_then(|pod| pod.metadata.owner_references.as_deref()).unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone()).unwrap_or_default()
    }
}

// Whether pods are still expected on a node: it has been up for so long, others of its batch may come up yet, and no pod of the
// batch was bound for so long.
fn is_expected(up: Duration, others_come: bool, idle: Duration) -> bool {
    up <= GRACE || (idle <= GRACE && up <= LONGEST) || (others_come && up <= MOST)
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
    use super::*;

    fn pod(name: &str) -> PodName {
        PodName { namespace: "default".to_owned(), name: name.to_owned() }
    }

    fn names(awaited: &Awaited, claim: &str) -> Vec<String> {
        let of_claim = awaited.claims.get(claim);
        of_claim.into_iter().flat_map(|known| known.names.iter()).map(ToString::to_string).collect()
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

    #[test]
    fn a_pod_waits_for_the_last_claim_that_was_launched_for_it_and_no_claim_is_kept_without_pods() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let mut awaited = Awaited::default();
        for name in ["a", "b"] {
            awaited.put(&pod(name), name, "web", ("one", first));
        }
        let lent = awaited.claims.get("one").map(|known| Arc::clone(&known.names)).unwrap();
        awaited.put(&pod("a"), "a", "web", ("two", second));
        assert_eq!(
            (names(&awaited, "one"), names(&awaited, "two")),
            (vec!["default/b".into()], vec!["default/a".into()])
        );
        assert_eq!(lent.len(), 2, "what a decision was lent stays as it was");
        assert_eq!((awaited.alike("one", "web"), awaited.alike("one", "other")), (vec![pod("b")], Vec::new()));
        awaited.note_bound(&pod("b"), first);
        assert_eq!(awaited.alike("one", "web"), [], "who was bound, if unseen yet, takes no other place");
        awaited.remove(&pod("a"));
        awaited.remove(&pod("b"));
        awaited.remove(&pod("b"));
        assert!(awaited.claims.is_empty() && awaited.of_pod.is_empty());
    }
}
