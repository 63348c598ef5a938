//! Who comes to nodes that are up, and when: at once, or once others have gone or come.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use berth_scheduling::Placement;
use berth_state::{Kind, ObjectRef};

use crate::answer::Answer;
use crate::awaited::{Awaited, Rule};
use crate::leaving::Leaving;
use crate::stand_ins::are_alike;

/// Who is placed on a node that is up.
pub(crate) struct Placed<'p> {
    pub(crate) object: ObjectRef,
    pub(crate) node: ObjectRef,
    pub(crate) placement: &'p Placement,
    pub(crate) comes: Comes,
    /// What it waits for, where it comes later.
    pub(crate) waits_for: Option<Box<str>>,
}

/// How many places of others are tried for a pod that would wait for them, each in other domains.
const PLACES_TO_TRY: usize = 8;

/// The domains in which a pod was tried: the values of the topology keys of its rules.
type Domains<'s> = Vec<Option<&'s str>>;

/// What another place has to differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// The domains of the pod's rules.
    Domains,
    /// The node.
    Node,
}

/// When one comes to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// Once it is made anew: it runs yet, on a node that goes away.
    Next { after_evictions: bool },
    /// When its own scheduler says so.
    ByAnother,
    /// Once others have made way there.
    AfterEvictions,
    /// Once others have stopped elsewhere, or have come.
    Later,
    /// At once.
    Now,
}

impl Answer<'_> {
    /// The same placements, in which alike pods have changed names so that each comes where it is expected; `None` where all do already.
    pub(crate) fn named_as_expected(&self, on_nodes: &[(usize, &[Placement])]) -> Option<Vec<(usize, Vec<Placement>)>> {
        if self.options.expected.is_empty() {
            return None;
        }
        let placed: Vec<&Placement> = on_nodes.iter().flat_map(|(_, placements)| *placements).collect();
        let mut names: Vec<&str> = placed.iter().map(|own| &*own.name).collect();
        // By pod: the places on the node where it is expected.
        let mut homes: BTreeMap<&str, Range<usize>> = BTreeMap::new();
        let mut start = 0;
        for (node, placements) in on_nodes {
            let on_it = start..start + placements.len();
            start = on_it.end;
            let node = self.cluster.nodes.get(*node).map_or("", |node| self.cluster.symbols.text(node.name));
            let expected = self.options.expected.get(node).into_iter().flat_map(|names| names.iter());
            homes.extend(expected.map(|name| (&**name, on_it.clone())));
        }
        let record = |name: &str| name.split_once('/').and_then(|(namespace, name)| self.state.pod(namespace, name));
        let is_free = |at: usize| placed.get(at).is_some_and(|own| own.draws_from.is_none());
        let is_at_home = |at: usize, name: &str| homes.get(name).is_some_and(|home| home.contains(&at));
        let mut has_changed = false;
        for at in 0..names.len() {
            // Who comes instead may be expected elsewhere, too.
            while let Some(name) = names.get(at).copied().filter(|name| is_free(at) && !is_at_home(at, name))
                && let Some(home) = homes.get(name)
                && let Some(own) = record(name)
                && let Some(other) = home.clone().find(|other| {
                    let name = names.get(*other).filter(|name| is_free(*other) && !is_at_home(*other, name));
                    name.and_then(|name| record(name)).is_some_and(|other| are_alike(own, other))
                })
            {
                names.swap(at, other);
                has_changed = true;
            }
        }
        let mut names = names.into_iter().map(Box::from);
        let mut rename = |own: &Placement| Placement { name: names.next().unwrap_or_default(), ..own.clone() };
        has_changed.then(|| on_nodes.iter().map(|(node, own)| (*node, own.iter().map(&mut rename).collect())).collect())
    }

    /// Gives a pod that would wait until others have left the place that is meant for the next of one that is alike and runs yet: that one
    /// may be whom it would wait for, and a budget may keep it there until this one has come.
    pub(crate) fn come_where_nobody_leaves(&self, placed: &mut [Placed<'_>], leaving: Option<&Leaving<'_>>) {
        let mut tried = BTreeMap::new();
        for at in 0..placed.len() {
            let Some(own) = placed.get_mut(at).filter(|own| own.comes == Comes::Later) else { continue };
            let waits_for = own.waits_for.take();
            own.comes = Comes::Now;
            if !self.take_place_of_next(placed, at, (&mut tried, Tried::Node), leaving)
                && let Some(own) = placed.get_mut(at)
            {
                (own.comes, own.waits_for) = (Comes::Later, waits_for);
            }
        }
    }

    /// Lets a pod wait where its place is kept for an alike one that runs yet, on a node that goes away. Otherwise that node could not go:
    /// its pod would have no place.
    pub(crate) fn leave_places_of_next(&self, placed: &mut [Placed<'_>], leaving: Option<&Leaving<'_>>) {
        let on_nodes = leaving.map_or(&[][..], Leaving::on_nodes);
        if on_nodes.is_empty() || self.options.expected.is_empty() {
            return;
        }
        let running: BTreeSet<(&str, &str)> =
            on_nodes.iter().map(|(pod, _)| (pod.namespace(), &**pod.name())).collect();
        let names: BTreeSet<&str> = placed.iter().map(|placed| &*placed.placement.name).collect();
        let record = |name: &str| name.split_once('/').and_then(|(namespace, name)| self.state.pod(namespace, name));
        let runs_yet =
            |name: &&str| !names.contains(name) && name.split_once('/').is_some_and(|name| running.contains(&name));
        // By node: those who have no place in this decision.
        let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for placed in &*placed {
            let node = &*placed.node.key.name;
            if let Some(expected) = self.options.expected.get(node).filter(|_| !next.contains_key(node)) {
                next.insert(node, expected.iter().map(|name| &**name).filter(runs_yet).collect());
            }
        }
        let mut kept: Vec<(usize, &str)> = Vec::new();
        // Those that were placed last.
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(placed.get(*at).map(|placed| placed.placement.nth)));
        for at in order {
            let Some(own) = placed.get(at).filter(|own| own.comes == Comes::Now) else { continue };
            let (node, name) = (&*own.node.key.name, &*own.placement.name);
            let is_expected = self.options.expected.get(node).is_some_and(|names| names.contains(name));
            let Some(next) = next.get_mut(node).filter(|_| !is_expected && own.placement.draws_from.is_none()) else {
                continue;
            };
            let Some(record_of_own) = record(name) else { continue };
            let is_alike = |other: &&str| record(other).is_some_and(|other| are_alike(record_of_own, other));
            if let Some(found) = next.iter().position(is_alike) {
                kept.push((at, next.swap_remove(found)));
            }
        }
        let kept: Vec<(usize, Box<str>)> = kept
            .into_iter()
            .map(|(at, pod)| {
                (at, format!("its room is kept for pod {pod}, which runs yet on a node that goes away").into())
            })
            .collect();
        for (at, words) in kept {
            if let Some(own) = placed.get_mut(at) {
                (own.comes, own.waits_for) = (Comes::Later, Some(words));
            }
        }
    }

    /// Lets pods wait whose rules hold only once others have come that wait.
    pub(crate) fn await_others(&self, placed: &mut [Placed<'_>], leaving: Option<&Leaving<'_>>) {
        let mut tried: BTreeMap<ObjectRef, BTreeSet<Domains<'_>>> = BTreeMap::new();
        loop {
            let is_pod = |placed: &Placed<'_>| placed.object.key.kind == Kind::Pod;
            // Who runs on a node that goes away may stay there for long.
            let waits = |placed: &&Placed<'_>| {
                matches!(placed.comes, Comes::AfterEvictions | Comes::Later | Comes::Next { .. })
            };
            let name = |placed: &'_ Placed<'_>| {
                let (object, node) = (&placed.object.key, &placed.node.key);
                [&object.namespace, &object.name, &node.name].map(ToString::to_string)
            };
            let coming: Vec<[String; 3]> =
                placed.iter().filter(|placed| placed.object.key.kind == Kind::Pod).filter(waits).map(name).collect();
            let coming = coming.iter().map(|[namespace, name, node]| (&**namespace, &**name, &**node));
            let mut awaited = Awaited::of(self.state, coming, leaving.map_or(&[], Leaving::on_nodes));
            if awaited.is_empty() {
                return;
            }
            let comes_now = |placed: &Placed<'_>| is_pod(placed) && placed.comes == Comes::Now;
            let now = placed.iter().enumerate().filter(|(_, placed)| comes_now(placed));
            let mut left: Vec<(usize, Option<String>)> = now.map(|(at, _)| (at, None)).collect();
            // One may need another that comes now.
            loop {
                let n_left = left.len();
                left.retain_mut(|(at, waits_for)| {
                    let Some(placed) = placed.get(*at) else { return false };
                    let (object, node) = (&placed.object.key, &placed.node.key);
                    *waits_for = awaited.let_come((&object.namespace, &object.name), &node.name).err();
                    waits_for.is_some()
                });
                if left.len() == n_left {
                    break;
                }
            }
            if left.is_empty() {
                return;
            }
            let mut has_changed = false;
            for (at, _) in &left {
                has_changed |= self.take_place_of_next(placed, *at, (&mut tried, Tried::Domains), leaving);
            }
            if has_changed {
                continue;
            }
            for (at, waits_for) in left {
                if let Some(placed) = placed.get_mut(at) {
                    (placed.comes, placed.waits_for) = (Comes::Later, waits_for.map(Into::into));
                }
            }
        }
    }

    /// Gives a pod that would wait for others the place that is meant for the next of one that is alike and runs yet, on a node
    /// that goes away: a budget may keep that one there until this one has come.
    fn take_place_of_next<'s>(
        &'s self,
        placed: &mut [Placed<'_>],
        at: usize,
        (tried, of): (&mut BTreeMap<ObjectRef, BTreeSet<Domains<'s>>>, Tried),
        leaving: Option<&Leaving<'_>>,
    ) -> bool {
        let pod = |placed: &Placed<'_>| self.state.pod(&placed.object.key.namespace, &placed.object.key.name);
        let Some((own, record)) = placed.get(at).and_then(|own| Some((own, pod(own)?))) else { return false };
        let keys: Vec<&str> = Rule::of(record).map(Rule::topology_key).collect();
        let domains = |placed: &Placed<'_>| -> Domains<'s> {
            let node = self.state.node(&placed.node.key.name);
            if of == Tried::Node {
                return vec![node.map(|node| &**node.name())];
            }
            keys.iter().map(|key| node.and_then(|node| node.label(key))).collect()
        };
        let tried = tried.entry(own.object.clone()).or_default();
        tried.insert(domains(own));
        if tried.len() > PLACES_TO_TRY {
            return false;
        }
        let (namespace, name) = (&own.object.key.namespace, &own.object.key.name);
        let is_free = |other: &Placed<'_>| {
            other.comes == Comes::Next { after_evictions: false }
                && !tried.contains(&domains(other))
                && pod(other).is_some_and(|other| are_alike(record, other))
                && leaving.and_then(|pods| pods.keeps_off(namespace, name, &other.node.key.name)).is_none()
        };
        let Some(next) = placed.iter().position(is_free) else { return false };
        let Ok([own, next]) = placed.get_disjoint_mut([at, next]) else { return false };
        std::mem::swap(&mut own.object, &mut next.object);
        std::mem::swap(&mut own.comes, &mut next.comes);
        std::mem::swap(&mut own.waits_for, &mut next.waits_for);
        true
    }
}
