//! Pods that come and go.

use std::sync::Arc;

use berth_model::{MemberRun, RowId, Sym};

use super::known::{Entry, Known};
use super::{Change, Live, Patched, PodChange, Rooms, sizes};
use crate::ConvertError;
use crate::daemons;
use crate::fate::Fate;
use crate::fates::fates;
use crate::options::Expansion;
use crate::place::{PodLocation, place_pods};
use crate::pod_record::PodParts;

// === impl Live ===

impl Live {
    /// Notes a pod that is there, with what others have to do with it.
    pub(super) fn keep(&mut self, known: Known, place: PodLocation) {
        let Known { namespace, name, created, more } = known;
        if let Some(more) = &more {
            for node in more.named.iter().flatten() {
                self.naming.entry(*node).or_default().insert((namespace, name.clone()));
            }
            for claim in &more.claims {
                self.by_claim.entry((namespace, *claim)).or_default().insert(name.clone());
            }
            if let Some(daemon_set) = more.daemon_set {
                let of_set = self.by_daemon_set.entry(daemon_set).or_default();
                of_set.insert((daemons::age(created), name.clone(), namespace));
                self.has_other_daemons = true;
            }
        }
        self.pods.insert((namespace, name), Entry { created, place, more });
    }

    /// A pod was created or changed, and is there with no older version of it.
    ///
    /// # Errors
    /// A field that cannot be understood; the cluster is of no use then.
    pub fn add_pod(&mut self, pod: &PodParts<'_>) -> Result<Patched, ConvertError> {
        let mut error = None;
        let read = self.read_asking(|reader| reader.read_pod(pod).inspect_err(|found| error = Some(found.clone())));
        if let Some(error) = error {
            return Err(error);
        }
        let Some(Some(record)) = read else { return Ok(Patched::NeedsRebuild) };
        if self.is_named_owner(&(record.namespace, Arc::clone(&record.name))) {
            return Ok(Patched::NeedsRebuild);
        }
        let Rooms { owners, workloads, daemons, existing, resolver, ownership, .. } = &mut self.rooms;
        let fate = fates(std::slice::from_ref(&record), owners, workloads, existing, Expansion::PodsThatExist);
        let Some(&fate) = fate.first() else { return Ok(Patched::NeedsRebuild) };
        let known = Known::of(&record, fate, resolver, (owners, workloads, daemons), &mut self.cluster);
        if known.more.as_ref().is_some_and(|more| more.concerns_others) || fate == Fate::Holds {
            return Ok(Patched::NeedsRebuild);
        }
        existing.swap_nodes(&mut self.cluster);
        // Who of DaemonSets is where is counted below.
        let no_daemon = |_| None;
        let kind_of = |owner: u32| owners.get_index(owner as usize).map(|owner| owner.kind);
        let pods = std::iter::once((record, fate));
        let rules = (no_daemon, kind_of);
        let places = place_pods(pods, rules, existing, resolver, ownership, &mut self.cluster, &mut self.warnings);
        self.rooms.existing.swap_nodes(&mut self.cluster);
        let Some(&place) = places.first() else { return Ok(Patched::NeedsRebuild) };
        if let PodLocation::Row(row) = place {
            self.is_untidy = true;
            self.unsorted.insert(row);
        }
        let daemon = known.more.as_ref().and_then(|more| more.daemon);
        let draws = known.more.as_ref().is_some_and(|more| more.draws_from.is_some());
        self.keep(known, place);
        if let PodLocation::Node(name) = place
            && let Some(position) = self.rooms.existing.position(name)
        {
            self.sort_last(position);
            if draws {
                self.settle_holdings(position);
            }
        }
        if let Some(daemon) = daemon {
            self.count_daemon(daemon, place, true);
        }
        Ok(if self.has_left_over_much() { Patched::NeedsRebuild } else { Patched::Done })
    }

    /// Whether a pod that is a Reservation holds its room or does not by whether this one is there.
    fn is_named_owner(&self, pod: &(Sym, Arc<str>)) -> bool {
        !self.rooms.named_owners.is_empty() && self.rooms.named_owners.contains(pod)
    }

    /// A pod is gone, or about to be added anew.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> Patched {
        let Some(namespace) = self.cluster.symbols.get(namespace) else { return Patched::Done };
        self.take_out(namespace, name)
    }

    pub(super) fn take_out(&mut self, namespace: Sym, name: &str) -> Patched {
        let key = (namespace, Arc::from(name));
        let Some(Entry { place, more, created }) = self.pods.remove(&key) else { return Patched::Done };
        let more = more.map(|more| *more).unwrap_or_default();
        let turn = (more.named[0].is_some(), created);
        if more.concerns_others || self.is_named_owner(&key) {
            return Patched::NeedsRebuild;
        }
        for node in more.named.iter().flatten() {
            if let Some(naming) = self.naming.get_mut(node) {
                naming.remove(&key);
                if naming.is_empty() {
                    self.naming.remove(node);
                }
            }
        }
        for claim in more.claims {
            if let Some(users) = self.by_claim.get_mut(&(namespace, claim)) {
                users.remove(name);
                if users.is_empty() {
                    self.by_claim.remove(&(namespace, claim));
                }
            }
        }
        if let Some(of) = more.daemon_set
            && let Some(users) = self.by_daemon_set.get_mut(&of)
        {
            users.remove(&(daemons::age(created), key.1.clone(), namespace));
            if users.is_empty() {
                self.by_daemon_set.remove(&of);
            }
            self.has_other_daemons = true;
        }
        if let Some(daemon) = more.daemon {
            self.count_daemon(daemon, place, false);
        }
        let was_there = match place {
            PodLocation::Nowhere => true,
            PodLocation::Row(row) => self.take_member(row, name, turn),
            PodLocation::Node(node) => self.rooms.existing.position(node).is_some_and(|position| {
                let was_there = self.take_off(position, namespace, name);
                if more.draws_from.is_some() {
                    self.settle_holdings(position);
                }
                was_there
            }),
        };
        if was_there { Patched::Done } else { Patched::NeedsRebuild }
    }

    /// Takes pods out and adds them again, where they are still there: what they mean may be something else now.
    pub(super) fn again(&mut self, pods: &[(Sym, Arc<str>)], objects: &impl super::Objects) -> Patched {
        for (namespace, name) in pods {
            let text = self.cluster.symbols.shared(*namespace);
            let Some(pod) = objects.pod(&text, name) else { continue };
            if self.take_out(*namespace, name) == Patched::NeedsRebuild || self.add_pod(&pod) != Ok(Patched::Done) {
                return Patched::NeedsRebuild;
            }
        }
        Patched::Done
    }

    /// A pod of a DaemonSet is on a node or on its way there, or is not any more.
    fn count_daemon(&mut self, daemon: usize, place: PodLocation, comes: bool) {
        for position in self.expected_on(place) {
            if self.rooms.existing.count_daemon(position, daemon, comes) {
                self.room_changed(position);
            }
        }
    }

    /// The nodes that a pod is on, or on its way to as it names them.
    pub(super) fn expected_on(&self, place: PodLocation) -> Vec<usize> {
        let existing = &self.rooms.existing;
        match place {
            PodLocation::Node(name) => existing.position(name).into_iter().collect(),
            PodLocation::Row(row) => {
                let row = self.cluster.row(row);
                row.map_or_else(Vec::new, |row| existing.expected_on(row.spec, &self.cluster))
            }
            PodLocation::Nowhere => Vec::new(),
        }
    }

    /// What is left of a node is counted anew.
    pub(super) fn room_changed(&mut self, position: usize) {
        self.rooms.existing.settle_room(position, &mut self.cluster);
        self.log.push(Change::Room(position));
    }

    /// The pending pods of DaemonSets that name a node: their DaemonSets.
    pub(super) fn daemons_expected_on(&self, position: usize) -> Vec<usize> {
        let existing = &self.rooms.existing;
        let mut expected = Vec::new();
        for row in &self.cluster.pending {
            // Few rows name a node, and of those that do not nobody is looked up: each node that is launched asks.
            if !existing.expected_on(row.spec, &self.cluster).contains(&position) {
                continue;
            }
            let records = row.members.iter().filter_map(|member| self.pods.get(&(row.namespace, member.name.clone())));
            expected.extend(records.filter_map(|record| record.more.as_ref()?.daemon));
        }
        expected
    }

    fn take_member(&mut self, id: RowId, name: &str, own: (bool, i64)) -> bool {
        let is_sorted = !self.unsorted.contains(&id);
        let Some(row) = self.cluster.row(id) else { return false };
        let is_it = |member: &MemberRun| member.numbers.is_none() && *member.name == *name;
        // Rows may be long: those of thousands of replicas.
        let turn = |member: &MemberRun| self.turn(row.namespace, &member.name);
        let is_older = |member: &MemberRun| *member.name != *name && (turn(member), &*member.name) < (own, name);
        let guess = if is_sorted { row.members.partition_point(is_older) } else { usize::MAX };
        let at =
            if row.members.get(guess).is_some_and(is_it) { Some(guess) } else { row.members.iter().position(is_it) };
        self.is_untidy = true;
        let row = self.cluster.row_mut(id);
        at.zip(row).is_some_and(|(at, row)| {
            row.members.remove(at);
            true
        })
    }

    fn take_off(&mut self, position: usize, namespace: Sym, name: &str) -> bool {
        let Some(node) = self.cluster.nodes.get_mut(position) else { return false };
        let at = node.pods.iter().position(|pod| pod.namespace == namespace && *pod.name == *name);
        let Some((at, pod)) = at.map(|at| (at, node.pods.remove(at))) else { return false };
        if let Some(spec) = self.cluster.specs.get(pod.spec.index()) {
            node.free.add(&spec.requests);
        }
        self.log.push(Change::Pod(PodChange { node: position, at, pod, comes: false }));
        true
    }

    /// Brings the pod that came to a node last to its place by age.
    fn sort_last(&mut self, position: usize) {
        let Some(mut pods) = self.cluster.nodes.get_mut(position).map(|node| std::mem::take(&mut node.pods)) else {
            return;
        };
        if let Some(last) = pods.pop() {
            let at = pods.partition_point(|pod| {
                self.by_age((pod.namespace, &pod.name), (last.namespace, &last.name)) == std::cmp::Ordering::Less
            });
            self.log.push(Change::Pod(PodChange { node: position, at, pod: last.clone(), comes: true }));
            pods.insert(at, last);
        }
        if let Some(node) = self.cluster.nodes.get_mut(position) {
            node.pods = pods;
        }
    }

    pub(super) fn has_left_over_much(&self) -> bool {
        let now = sizes(&self.cluster);
        now.iter()
            .zip(&self.at_first)
            .any(|(now, first)| *now > first.saturating_add(first / 4).saturating_add(super::MOST_LEFT_OVER))
    }
}
