//! Where the pods of nodes that make way come next. Each has a place from when its command begins: on a node that is up, or on
//! one that replaces its own. The place is held while the pod runs yet, and then it is for the pod that its controller makes in
//! its stead: of another name, mostly, and always of another uid.
//!
//! A place is preferred, not promised: who may not come there goes elsewhere, and whoever else is bound there may have it. A
//! process that starts anew knows of none; pods of nodes that go are planned with all others then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::Reservation;
use berth_decisions::{Binding, ExpectedNodes};
use jiff::Timestamp;

use super::Core;
use super::awaited::text;
use super::schedule::pod_name;
use crate::clock::after;
use crate::view::PodName;

/// For how long a place waits for the next pod once the one before is gone.
const GRACE: Duration = Duration::from_secs(10);
/// For how much longer a place waits for a pod of a StatefulSet, which makes one after the other.
const ONE_BY_ONE: Duration = Duration::from_secs(600);
/// For how long that one has it while it is bound to no node.
const MOST: Duration = Duration::from_secs(60);

/// The places that pods of nodes which go have elsewhere.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: BTreeMap<u64, Place>,
    n_held: u64,
    /// Who has which place.
    of_pod: BTreeMap<PodName, u64>,
    /// By owner and node: a pod that is bound there may take the place of one that is alike.
    at: BTreeMap<(String, String), BTreeSet<u64>>,
    /// By owner: places that nobody has now.
    vacant: BTreeMap<String, BTreeSet<u64>>,
    /// Pods, by uid, whose binding was taken in before it was seen.
    bound: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    command: u64,
    /// A node, or the NodeClaim that it is to be of.
    node: String,
    /// The uid of the pod's controller: its pods are alike.
    owner: String,
    /// Whether that is a StatefulSet.
    is_of_set: bool,
    /// The pod that has it, or had it last, and its uid.
    pod: (PodName, String),
    held: HeldBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBy {
    /// The pod that is to move, which runs yet.
    WhoMoves,
    /// The one that came in its stead, until then.
    WhoCame(Timestamp),
    /// Nobody, until then.
    Nobody(Timestamp),
}

/// A pod that is bound now.
pub(super) struct Bound<'a> {
    pub(super) pod: &'a PodName,
    pub(super) uid: &'a str,
    pub(super) owner: &'a str,
    /// The node, and the NodeClaim that it is of.
    pub(super) at: [Option<&'a str>; 2],
}

// === impl Places ===

impl Places {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A command holds a place for a pod that is to move, in place of what it held for it before.
    pub(super) fn hold(
        &mut self,
        command: u64,
        (pod, uid): (&PodName, &str),
        (owner, is_of_set): (&str, bool),
        node: &str,
    ) {
        if let Some(before) = self.of_pod.get(pod) {
            self.remove(*before);
        }
        let id = self.n_held;
        self.n_held = id.wrapping_add(1);
        let (owner, node) = (owner.to_owned(), node.to_owned());
        self.at.entry((owner.clone(), node.clone())).or_default().insert(id);
        self.of_pod.insert(pod.clone(), id);
        let pod = (pod.clone(), uid.to_owned());
        self.all.insert(id, Place { command, node, owner, is_of_set, pod, held: HeldBy::WhoMoves });
    }

    /// Nothing comes of a command.
    pub(super) fn give_up(&mut self, command: u64) {
        let of_command = self.all.iter().filter(|(_, place)| place.command == command);
        let ids: Vec<u64> = of_command.map(|(id, _)| *id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// A pod ends, or is gone: its place is for the next that is alike.
    pub(super) fn left(&mut self, pod: &PodName, until: Timestamp) {
        let Some(id) = self.of_pod.remove(pod) else { return };
        let Some(place) = self.all.get_mut(&id) else { return };
        place.held = HeldBy::Nobody(if place.is_of_set { after(until, ONE_BY_ONE) } else { until });
        let owner = place.owner.clone();
        if owner.is_empty() {
            // Nobody makes another.
            return self.remove(id);
        }
        self.vacant.entry(owner).or_default().insert(id);
    }

    /// A pod waits for a node: it takes a place that one of its kind has left, that of its own name before others.
    pub(super) fn came(&mut self, pod: &PodName, uid: &str, owner: &str, now: Timestamp) {
        let known = self.of_pod.get(pod).and_then(|id| self.all.get(id));
        if known.is_some_and(|place| place.pod.1 == uid) {
            return;
        }
        self.left(pod, after(now, GRACE));
        let Some(vacant) = self.vacant.get(owner) else { return };
        let is_own = |id: &&u64| self.all.get(*id).is_some_and(|place| place.pod.0 == *pod);
        if let Some(id) = vacant.iter().find(is_own).or_else(|| vacant.first()).copied() {
            self.give(id, (pod.clone(), uid.to_owned()), HeldBy::WhoCame(after(now, MOST)));
        }
    }

    /// A pod is bound. Where it took the place of one that is alike, that one has its place instead, or one that is left.
    pub(super) fn bound(&mut self, bound: &Bound<'_>) {
        let own = self.of_pod.get(bound.pod).copied();
        let own = own.filter(|id| self.all.get(id).is_some_and(|place| place.pod.1 == bound.uid));
        let of_own = own.and_then(|id| self.all.get(&id)).map(|place| place.node.as_str());
        let comes_as_expected = of_own.is_some_and(|node| bound.at.contains(&Some(node)));
        let taken = || {
            let mut names = bound.at.into_iter().flatten();
            names.find_map(|node| {
                let there = self.at.get(&(bound.owner.to_owned(), node.to_owned()))?.iter().copied();
                // One that nobody has before others.
                there.min_by_key(|id| self.all.get(id).is_none_or(|place| !matches!(place.held, HeldBy::Nobody(_))))
            })
        };
        let taken = if comes_as_expected { own } else { taken() };
        let Some(place) = taken.and_then(|id| self.all.get(&id)).cloned() else {
            return own.into_iter().for_each(|id| self.remove(id));
        };
        if let Some(id) = taken {
            self.remove(id);
        }
        if taken == own {
            return;
        }
        let mut free = own.into_iter().chain(self.vacant.get(bound.owner).and_then(|ids| ids.first().copied()));
        let next = free.next();
        if let Some(own) = own {
            self.of_pod.remove(bound.pod);
            self.vacant.entry(bound.owner.to_owned()).or_default().insert(own);
        }
        let has_holder = !matches!(place.held, HeldBy::Nobody(_));
        match next {
            Some(id) if has_holder => self.give(id, place.pod, place.held),
            // The place that was taken was nobody's, and so is the one that is left.
            Some(id) if Some(id) == own => {
                self.all.get_mut(&id).into_iter().for_each(|known| known.held = place.held);
            }
            _ => {}
        }
    }

    /// Where a pod that is to move comes next.
    pub(super) fn next_of(&self, pod: &PodName, uid: &str) -> Option<&str> {
        let place = self.of_pod.get(pod).and_then(|id| self.all.get(id))?;
        (place.held == HeldBy::WhoMoves && place.pod.1 == uid).then_some(place.node.as_str())
    }

    /// Nodes, or NodeClaims that they are to be of, with places for pods that are yet to be made.
    pub(super) fn of_nobody(&self) -> BTreeSet<&str> {
        self.vacant.values().flatten().filter_map(|id| Some(&*self.all.get(id)?.node)).collect()
    }

    /// Drops places that were held for long enough; says when the next pod that waits has its place no longer.
    pub(super) fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let (mut over, mut next) = (Vec::new(), None);
        for (id, place) in &self.all {
            match place.held {
                HeldBy::WhoCame(until) | HeldBy::Nobody(until) if until <= now => over.push(*id),
                HeldBy::WhoCame(until) => next = Some(next.map_or(until, |next: Timestamp| next.min(until))),
                HeldBy::WhoMoves | HeldBy::Nobody(_) => {}
            }
        }
        for id in over {
            self.remove(id);
        }
        next
    }

    /// The pods that have places, by node; those on nodes that `node_of` does not know are left out.
    pub(super) fn expected(
        &self,
        node_of: impl Fn(&str) -> Option<Arc<str>>,
        has_own_node: impl Fn(&PodName) -> bool,
    ) -> ExpectedNodes {
        let mut nodes: BTreeMap<&str, Option<Arc<str>>> = BTreeMap::new();
        let mut expected: BTreeMap<Arc<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for id in self.of_pod.values() {
            let Some(place) = self.all.get(id).filter(|place| !has_own_node(&place.pod.0)) else { continue };
            if let Some(node) = nodes.entry(&place.node).or_insert_with(|| node_of(&place.node)) {
                expected.entry(Arc::clone(node)).or_default().insert(text(&place.pod.0));
            }
        }
        expected.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect()
    }

    fn give(&mut self, id: u64, pod: (PodName, String), held: HeldBy) {
        let Some(place) = self.all.get_mut(&id) else { return };
        remove_from(&mut self.vacant, &place.owner, id);
        self.of_pod.insert(pod.0.clone(), id);
        (place.pod, place.held) = (pod, held);
    }

    fn remove(&mut self, id: u64) {
        let Some(Place { node, owner, pod, .. }) = self.all.remove(&id) else { return };
        if self.of_pod.get(&pod.0) == Some(&id) {
            self.of_pod.remove(&pod.0);
        }
        remove_from(&mut self.vacant, &owner, id);
        remove_from(&mut self.at, &(owner, node), id);
    }
}

fn remove_from<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, id: u64) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

/// In place of a pod's controller: no other is alike.
fn owner_of_room(reservation: &str) -> String {
    format!("reservation/{reservation}")
}

impl Core {
    /// Holds places for pods and Reservations that are to move by a command: nodes, or NodeClaims that they are to be of.
    pub(super) fn hold_places<'p>(
        &mut self,
        command: u64,
        places: impl IntoIterator<Item = (&'p berth_state::Key, &'p str)>,
    ) {
        for (pod, node) in places {
            let name = PodName { namespace: pod.namespace.to_string(), name: pod.name.to_string() };
            if pod.kind == berth_state::Kind::Reservation {
                let uid = self.view.reservations.uid(&name.name).map(str::to_owned);
                if let Some(uid) = uid {
                    self.places.hold(command, (&name, &uid), (&owner_of_room(&name.name), false), node);
                }
                continue;
            }
            // Who is on no node yet is planned like any other.
            let known = self.view.pods.get(&name).filter(|known| known.node.is_some() && known.deletion.is_none());
            let Some(uid) = known.map(|known| known.uid.clone()) else { continue };
            let owner = self.owner_of(&name);
            let controller = self.state.pod(&pod.namespace, &pod.name).and_then(|pod| pod.controller());
            let is_of_set = controller.is_some_and(|owner| owner.kind == "StatefulSet");
            self.places.hold(command, (&name, &uid), (&owner, is_of_set), node);
        }
    }

    /// The pods of nodes that go that have a place elsewhere, by its node. Those that one of these NodeClaims was launched for since come
    /// to that one.
    pub(super) fn places_held(&self, coming: &BTreeSet<&str>, now: Timestamp) -> ExpectedNodes {
        let node_of = |place: &str| {
            if let Some(node) = self.view.nodes.get(place) {
                return (!self.makes_way(node)).then(|| place.into());
            }
            self.node_coming(place, now).map(|(node, _)| node.into())
        };
        let waits_for = |pod: &PodName| self.awaited.of_pod.get(pod).map(|waiting| waiting.claim.as_str());
        self.places.expected(node_of, |pod| waits_for(pod).is_some_and(|claim| coming.contains(claim)))
    }

    /// A pod changed that may have a place, or take one.
    pub(super) fn follow_places(&mut self, pod: &PodName, now: Timestamp) {
        if self.places.is_empty() {
            return;
        }
        let Some(known) = self.view.pods.get(pod).map(Arc::clone) else {
            return self.places.left(pod, after(now, GRACE));
        };
        if let Some(end) = known.deletion {
            return self.places.left(pod, after(end.max(now), GRACE));
        }
        let Some(node) = &known.node else {
            let owner = self.owner_of(pod);
            if !owner.is_empty() {
                self.places.came(pod, &known.uid, &owner, now);
            }
            return;
        };
        let place = self.places.of_pod.get(pod).and_then(|id| self.places.all.get(id));
        let is_yet_to_move = place.is_some_and(|place| place.held == HeldBy::WhoMoves && place.pod.1 == known.uid);
        if !is_yet_to_move && !self.places.bound.remove(&known.uid) {
            self.comes_to(pod, &known.uid, node);
        }
    }

    /// A Reservation changed that may have a place. It moves itself: nobody is made in its stead.
    pub(super) fn follow_room(&mut self, reservation: &str, now: Timestamp) {
        let name = PodName { namespace: String::new(), name: reservation.to_owned() };
        let Some(id) = self.places.of_pod.get(&name).copied() else { return };
        let Some(place) = self.places.all.get_mut(&id) else { return };
        let is_its = |known: &&Arc<Reservation>| {
            let is_over = known.status.as_ref().is_some_and(|status| status.phase.is_terminal());
            known.metadata.uid.as_deref() == Some(&*place.pod.1)
                && known.metadata.deletion_timestamp.is_none()
                && !is_over
        };
        let known = self.view.reservations.get(reservation).filter(is_its);
        let held_on = known.and_then(|known| known.status.as_ref()?.node_name.as_deref());
        let has_come = || {
            let node = self.view.nodes.get(held_on?)?;
            let claim = self.view.claims_of_node(node).next().and_then(|claim| claim.metadata.name.as_deref());
            Some(held_on == Some(&*place.node) || claim == Some(&*place.node))
        };
        let goes_elsewhere = held_on.is_some() && place.held != HeldBy::WhoMoves;
        if known.is_none() || goes_elsewhere || has_come() == Some(true) {
            return self.places.remove(id);
        }
        if held_on.is_none() && place.held == HeldBy::WhoMoves {
            place.held = HeldBy::WhoCame(after(now, MOST));
        }
    }

    /// Pods are bound, which shows later.
    pub(super) fn take_places(&mut self, bindings: &[Binding]) {
        if self.places.is_empty() {
            return self.places.bound.clear();
        }
        for binding in bindings.iter().filter(|binding| binding.draws_from.is_none()) {
            let Some(uid) = binding.object.uid.as_deref() else { continue };
            if binding.object.key.kind == berth_state::Kind::Pod && self.places.bound.insert(uid.to_owned()) {
                self.comes_to(&pod_name(&binding.object), uid, &binding.node.key.name);
            }
        }
    }

    fn comes_to(&mut self, pod: &PodName, uid: &str, node: &str) {
        let owner = self.owner_of(pod);
        let known = self.view.nodes.get(node);
        let claim = known.and_then(|node| self.view.claims_of_node(node).next());
        let claim = claim.and_then(|claim| claim.metadata.name.as_deref());
        self.places.bound(&Bound { pod, uid, owner: &owner, at: [Some(node), claim] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(name: &str) -> PodName {
        PodName { namespace: "default".to_owned(), name: name.to_owned() }
    }

    /// Pods of `web`, each with its place.
    fn held(places: &[(&str, &str)]) -> Places {
        let mut held = Places::default();
        for (name, node) in places {
            held.hold(7, (&pod(name), name), ("web", false), node);
        }
        held
    }

    /// `node: pods`, a line each.
    fn told(places: &Places) -> Vec<String> {
        let expected = places.expected(|node| Some(node.into()), |pod| pod.name.starts_with("launched-for"));
        let names = |pods: &BTreeSet<Box<str>>| pods.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        expected.iter().map(|(node, pods)| format!("{node}: {}", names(pods)).replace("default/", "")).collect()
    }

    fn bind(places: &mut Places, name: &str, owner: &str, node: &str) {
        places.bound(&Bound { pod: &pod(name), uid: name, owner, at: [Some(node), None] });
    }

    #[test]
    fn who_comes_in_place_of_a_pod_has_its_place() {
        let mut places = held(&[("a", "one"), ("b", "two")]);
        assert_eq!(told(&places), ["one: a", "two: b"]);
        places.came(&pod("new"), "new", "web", at(0));
        assert_eq!(told(&places), ["one: a", "two: b"], "one more has no place while nobody has left one");
        places.left(&pod("b"), at(30));
        assert_eq!(told(&places), ["one: a"]);
        places.came(&pod("other"), "other", "other", at(1));
        places.came(&pod("c"), "c", "web", at(1));
        places.came(&pod("d"), "d", "web", at(1));
        assert_eq!(told(&places), ["one: a", "two: c"]);
        bind(&mut places, "c", "web", "two");
        assert_eq!(told(&places), ["one: a"]);
        places.give_up(8);
        assert_eq!(told(&places), ["one: a"], "another command's");
        places.give_up(7);
        assert!(places.is_empty() && places.of_pod.is_empty() && places.at.is_empty() && places.vacant.is_empty());
    }

    #[test]
    fn one_of_the_same_name_has_its_own_place() {
        let mut places = held(&[("db-0", "one"), ("db-1", "two")]);
        places.left(&pod("db-0"), at(30));
        places.left(&pod("db-1"), at(30));
        places.came(&pod("db-1"), "new", "web", at(1));
        assert_eq!(told(&places), ["two: db-1"]);
        // Made again before its end was seen.
        let mut places = held(&[("db-0", "one")]);
        places.came(&pod("db-0"), "new", "web", at(1));
        assert_eq!((told(&places), places.vacant.len()), (vec!["one: db-0".to_owned()], 0));
    }

    #[test]
    fn those_who_are_alike_pass_their_places_on() {
        // `c` comes where `a` was to come: `a` has the place of `c`.
        let mut places = held(&[("a", "one"), ("b", "two"), ("x", "three")]);
        places.left(&pod("x"), at(30));
        places.came(&pod("c"), "c", "web", at(0));
        assert_eq!(told(&places), ["one: a", "three: c", "two: b"]);
        bind(&mut places, "c", "web", "one");
        assert_eq!(told(&places), ["three: a", "two: b"]);
        // Who has no place and comes to one leaves nobody a place, and who comes elsewhere leaves its own.
        bind(&mut places, "new", "web", "two");
        assert_eq!(told(&places), ["three: a"]);
        bind(&mut places, "of-another", "other", "three");
        assert_eq!(told(&places), ["three: a"], "those of others are not alike");
        // A place that is left is for who lost its own.
        let mut places = held(&[("a", "one"), ("b", "two")]);
        places.left(&pod("b"), at(30));
        bind(&mut places, "new", "web", "one");
        assert_eq!((told(&places), places.vacant.len()), (vec!["two: a".to_owned()], 0));
        // Nobody's place was taken by one that had another: that one is nobody's then.
        let mut places = held(&[("a", "one"), ("b", "two")]);
        places.left(&pod("b"), at(30));
        places.left(&pod("a"), at(30));
        places.came(&pod("c"), "c", "web", at(0));
        bind(&mut places, "c", "web", "two");
        assert_eq!((told(&places), places.all.len()), (Vec::new(), 1));
        places.came(&pod("d"), "d", "web", at(1));
        assert_eq!(told(&places), ["one: d"]);
        bind(&mut places, "d", "web", "elsewhere");
        assert!(places.is_empty() && places.of_pod.is_empty() && places.at.is_empty() && places.vacant.is_empty());
    }

    #[test]
    fn places_are_held_while_a_pod_is_to_move_and_not_for_ever_afterwards() {
        let mut places = held(&[("a", "one"), ("b", "two"), ("c", "three")]);
        places.left(&pod("b"), at(30));
        places.left(&pod("c"), at(50));
        places.came(&pod("d"), "d", "web", at(0));
        assert_eq!(places.expire(at(49)), Some(at(60)), "then `d` is to be decided about anew");
        assert_eq!((told(&places), places.vacant.len()), (vec!["one: a".to_owned(), "two: d".to_owned()], 1));
        places.expire(at(50));
        assert_eq!(places.vacant.len(), 0);
        places.expire(at(60));
        assert_eq!(told(&places), ["one: a"], "a pod that a budget keeps for long");
        let places = held(&[("launched-for", "one"), ("b", "two")]);
        assert_eq!(told(&places), ["two: b"], "the other one comes to its own node");
        let mut nobodys = Places::default();
        nobodys.hold(1, (&pod("bare"), "u"), ("", false), "one");
        nobodys.left(&pod("bare"), at(30));
        assert!(nobodys.is_empty(), "nobody makes another");
    }

    #[test]
    fn the_places_of_a_set_wait_for_pods_that_are_made_one_after_the_other() {
        let mut places = Places::default();
        for (name, node, is_of_set) in [("db-0", "one", true), ("db-1", "two", true), ("web", "three", false)] {
            places.hold(7, (&pod(name), name), (name.split('-').next().unwrap(), is_of_set), node);
            places.left(&pod(name), at(10));
        }
        assert_eq!(Vec::from_iter(places.of_nobody()), ["one", "three", "two"]);
        places.expire(at(10));
        assert_eq!(Vec::from_iter(places.of_nobody()), ["one", "two"]);
        places.came(&pod("db-0"), "db-0", "db", at(11));
        assert_eq!((Vec::from_iter(places.of_nobody()), told(&places)), (vec!["two"], vec!["one: db-0".to_owned()]));
        bind(&mut places, "db-0", "db", "one");
        places.expire(at(609));
        places.came(&pod("db-1"), "new", "db", at(609));
        assert_eq!(told(&places), ["two: db-1"]);
        places.left(&pod("db-1"), at(620));
        places.expire(at(1220));
        assert!(places.is_empty(), "it is not made again");
    }
}
