//! The pods and Reservations that wait for NodeClaims, by NodeClaim: a set of them is lent to decisions as it is. Pods that are
//! to draw from a Reservation that waits itself are kept under that one, in place of a NodeClaim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{after, elapsed};
use crate::view::PodName;

/// Pods that wait for the node of a NodeClaim that was launched for them.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// By NodeClaim, or by [`place_in`] a Reservation.
    pub(super) claims: BTreeMap<String, OfClaim>,
    pub(super) of_pod: BTreeMap<PodName, Waiting>,
    /// By batch, which is when its NodeClaims were launched: when one of its pods was bound last.
    pub(super) bound: BTreeMap<Timestamp, Timestamp>,
    pub(super) progress: Option<Progress>,
}

/// How nodes that pods waited for have come up lately.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// When one came up last, or took a pod.
    pub(super) at: Timestamp,
    /// The longest that one took from its launch, of those that came up within minutes.
    pub(super) slowest: Duration,
}

/// The pods of a NodeClaim.
#[derive(Debug)]
pub(super) struct OfClaim {
    /// When it was launched, together with others.
    pub(super) launched: Timestamp,
    /// Pods by `namespace/name`, Reservations by name.
    pub(super) names: Arc<BTreeSet<Box<str>>>,
    /// By what is the same of those that are alike.
    by_owner: BTreeMap<String, BTreeSet<PodName>>,
}

/// A pod that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) uid: String,
    /// The uid of a pod's controller, or what a Reservation's template says: those that are alike have the same.
    pub(super) owner: String,
    /// The NodeClaim, or [`place_in`] a Reservation.
    pub(super) claim: String,
    pub(super) launched: Timestamp,
    /// Whether it was bound already, though that was not seen yet: it can't take the place of another one any more.
    pub(super) is_bound: bool,
}

/// A pod that is bound now.
pub(super) struct Bound {
    pub(super) pod: PodName,
    pub(super) uid: String,
    /// As it is known of those that wait.
    pub(super) owner: String,
    /// The NodeClaim of the node, or [`place_in`] the Reservation that it draws from, where others are expected there.
    pub(super) claim: Option<String>,
}

/// The places of alike pods at a NodeClaim that change hands while some of them are bound.
#[derive(Default)]
struct Places {
    /// How many of them are bound there.
    n_taken: usize,
    /// How many of those that are bound, there or elsewhere, were expected there, and when that was launched.
    n_left: usize,
    launched: Option<Timestamp>,
}

// === impl Progress ===

impl Progress {
    /// How long after the last one another one counts by itself.
    const APART: Duration = Duration::from_secs(120);

    /// A node came up then, so long after its launch.
    pub(super) fn note(known: &mut Option<Progress>, at: Timestamp, took: Duration) {
        *known = Some(match *known {
            Some(known) if after(known.at, Self::APART) > at => {
                Progress { at: known.at.max(at), slowest: known.slowest.max(took) }
            }
            _ => Progress { at, slowest: took },
        });
    }
}

// === impl Awaited ===

impl Awaited {
    /// A NodeClaim was launched for a pod.
    pub(super) fn put(&mut self, pod: &PodName, uid: &str, owner: &str, (claim, launched): (&str, Timestamp)) {
        let (uid, owner, claim) = (uid.to_owned(), owner.to_owned(), claim.to_owned());
        self.insert(pod.clone(), Waiting { uid, owner, claim, launched, is_bound: false });
    }

    pub(super) fn insert(&mut self, pod: PodName, waiting: Waiting) {
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
    pub(super) fn note_bound(&mut self, pod: &PodName, now: Timestamp) {
        if let Some(waiting) = self.of_pod.get_mut(pod) {
            waiting.is_bound = true;
            self.bound.insert(waiting.launched, now);
        }
    }

    /// Pods are bound. Says who of the others finds its place taken, and which it has instead: one that somebody alike leaves at
    /// a NodeClaim whose node comes up, if there is one. Who comes where is looked at together: where three pass their places
    /// on in a circle, nobody loses one.
    pub(super) fn take_places(
        &mut self,
        bound: &[Bound],
        alive: &BTreeSet<String>,
        now: Timestamp,
    ) -> Vec<(PodName, Option<(String, Timestamp)>)> {
        let mut by_owner: BTreeMap<&str, BTreeMap<String, Places>> = BTreeMap::new();
        for Bound { pod, uid, owner, claim } in bound {
            let places = by_owner.entry(owner).or_default();
            if let Some(own) = self.of_pod.get(pod).filter(|own| own.uid == *uid && !own.is_bound) {
                let left = places.entry(own.claim.clone()).or_default();
                left.n_left += 1;
                left.launched = Some(own.launched);
            }
            if let Some(claim) = claim {
                places.entry(claim.clone()).or_default().n_taken += 1;
            }
        }
        for Bound { pod, .. } in bound {
            self.note_bound(pod, now);
        }
        let mut given = Vec::new();
        for (owner, claims) in by_owner {
            let (mut without, mut free) = (Vec::new(), Vec::new());
            for (claim, places) in claims {
                let mut waiting = self.alike(&claim, owner);
                let n_places = (waiting.len() + places.n_left).saturating_sub(places.n_taken);
                let n_free = n_places.saturating_sub(waiting.len());
                if let Some(launched) = places.launched.filter(|_| alive.contains(&claim)) {
                    free.extend((0..n_free).map(|_| (claim.clone(), launched)));
                }
                without.extend(waiting.drain(n_places.min(waiting.len())..));
            }
            let mut free = free.into_iter();
            given.extend(without.into_iter().map(|pod| (pod, free.next())));
        }
        given
    }

    /// For how long no pod of a batch was bound.
    pub(super) fn idle(&self, launched: Timestamp, now: Timestamp) -> Duration {
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
    pub(super) fn alike(&self, claim: &str, owner: &str) -> Vec<PodName> {
        let alike = self.claims.get(claim).and_then(|known| known.by_owner.get(owner));
        let waits = |pod: &&PodName| self.of_pod.get(*pod).is_some_and(|known| !known.is_bound);
        alike.into_iter().flatten().filter(waits).cloned().collect()
    }
}

/// What those wait for who are to draw from a Reservation: no NodeClaim is called so.
pub(super) fn place_in(reservation: &str) -> String {
    format!("reservation/{reservation}")
}

/// The Reservation that such a place is in.
pub(super) fn reservation_of(place: &str) -> Option<&str> {
    place.strip_prefix("reservation/")
}

/// How a Reservation is known among those that wait.
pub(super) fn reservation_name(name: &str) -> PodName {
    PodName { namespace: String::new(), name: name.to_owned() }
}

pub(super) fn text(PodName { namespace, name }: &PodName) -> Box<str> {
    if namespace.is_empty() { name.as_str().into() } else { format!("{namespace}/{name}").into() }
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
    fn places_that_are_passed_on_in_a_row_go_to_who_has_none() {
        let (start, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1).unwrap());
        let mut awaited = Awaited::default();
        for (name, claim) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four"), ("e", "four")] {
            awaited.put(&pod(name), name, "web", (claim, start));
        }
        let alive: BTreeSet<String> = ["one", "two", "three"].map(str::to_owned).into();
        let bound = |name: &str, claim: Option<&str>| Bound {
            pod: pod(name),
            uid: name.to_owned(),
            owner: "web".to_owned(),
            claim: claim.map(str::to_owned),
        };
        // `a` takes the place of `b`, and that one the place of `c`, who is left: the first place is free.
        let given = awaited.take_places(&[bound("a", Some("two")), bound("b", Some("three"))], &alive, later);
        assert_eq!(given, [(pod("c"), Some(("one".to_owned(), start)))]);
        awaited.insert(pod("c"), Waiting { claim: "one".to_owned(), ..awaited.of_pod[&pod("c")].clone() });
        // Where one comes who had no place, one has none in the end.
        let given = awaited.take_places(&[bound("new", Some("one"))], &alive, later);
        assert_eq!(given, [(pod("c"), None)]);
        // Who comes where nobody is expected takes nobody's place, and a place that will never be is given to nobody.
        assert_eq!(awaited.take_places(&[bound("d", None)], &alive, later), []);
        let given = awaited.take_places(&[bound("e", Some("one"))], &alive, later);
        assert_eq!(given, [(pod("c"), None)]);
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
