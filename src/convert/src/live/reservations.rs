//! Reservations that come, change and go: what they hold on nodes, which pods own them, and which are to be placed.

use std::sync::Arc;

use berth_api::Reservation as Object;
use berth_model::{Cluster, Labels, LabelsId, MemberKind, Phase, Reservation, ReservationId, ReservationOwner, Sym};
use rustc_hash::FxHashMap;

use super::{Change, Live, Objects, Patched};
use crate::existing::{drawn_from, settle_holdings};
use crate::maps::{FxIndexMap, Texts};
use crate::reservation::ReservationRecord;
use crate::resolve::Resolver;
use crate::stand_ins::{Alike, valid_seconds, with_stand_in};

/// The records behind the cluster's Reservations.
#[derive(Clone, Default)]
pub(crate) struct Reservations {
    /// All, whether they count or not.
    given: FxIndexMap<Sym, ReservationRecord>,
    /// Those that count, by id; `None` where one went: no other gets its id.
    records: Vec<Option<ReservationRecord>>,
    /// Pods that are Reservations aside.
    ids: FxHashMap<Sym, ReservationId>,
    /// By node: those that hold room there, in order.
    on_node: FxHashMap<Sym, Vec<ReservationId>>,
}

// === impl Reservations ===

impl Reservations {
    /// Of all that were given, and those that count in the cluster's order.
    pub(crate) fn new(given: FxIndexMap<Sym, ReservationRecord>, counting: Vec<ReservationRecord>) -> Self {
        let mut reservations = Reservations { given, ..Reservations::default() };
        for (record, id) in counting.into_iter().zip((0..).map(ReservationId)) {
            reservations.set(id, Some(record));
        }
        reservations
    }

    /// Whether Reservations hold room on a node.
    pub(super) fn are_on(&self, node: Sym) -> bool {
        self.on_node.contains_key(&node)
    }

    /// Whether the pods that stand in for some of them have claims.
    pub(super) fn have_claims(&self, resolver: &Resolver) -> bool {
        self.records.iter().flatten().any(|record| resolver.has_claims(record.draft))
    }

    fn record(&self, id: ReservationId) -> Option<&ReservationRecord> {
        self.records.get(id.index())?.as_ref()
    }

    /// The index of a Reservation is for this one, or for none.
    fn set(&mut self, id: ReservationId, record: Option<ReservationRecord>) {
        let at = id.index();
        if at >= self.records.len() {
            self.records.resize(at + 1, None);
        }
        let Some(place) = self.records.get_mut(at) else { return };
        let before = std::mem::replace(place, record);
        let after = place.as_ref();
        if let Some(node) = before.as_ref().and_then(holds_on)
            && let Some(ids) = self.on_node.get_mut(&node)
        {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.on_node.remove(&node);
            }
        }
        if let Some(node) = after.and_then(holds_on) {
            let ids = self.on_node.entry(node).or_default();
            ids.insert(ids.partition_point(|known| *known < id), id);
        }
        let is_object = |record: &&ReservationRecord| record.lifetime.is_some();
        if let Some(before) = before.as_ref().filter(is_object) {
            self.ids.remove(&before.reservation.name);
        }
        if let Some(after) = after.filter(is_object) {
            self.ids.insert(after.reservation.name, id);
        }
    }
}

/// The node that a Reservation holds room on.
fn holds_on(record: &ReservationRecord) -> Option<Sym> {
    record.reservation.node.filter(|_| record.reservation.phase.holds_room())
}

/// One that counts for nothing any more, at the index of one that did.
fn gone(cluster: &Cluster) -> Reservation {
    // No object has this name.
    let mut reservation = Reservation::new(cluster.well_known.hostname);
    reservation.phase = Phase::Succeeded;
    reservation
}

impl Live {
    /// A Reservation was created, changed or deleted.
    pub fn reservation_changed(
        &mut self,
        before: Option<&Object>,
        after: Option<&Object>,
        objects: &impl Objects,
    ) -> Patched {
        let known = self.read(|reader| {
            let mut read = |object: Option<&Object>| {
                object.map_or(Ok(()), |object| reader.add_reservation(object))?;
                Ok(reader.reservations.pop().map(|(_, record)| record))
            };
            Ok((read(before)?, read(after)?))
        });
        let Some((before, after)) = known else { return Patched::NeedsRebuild };
        if before == after {
            return Patched::Done;
        }
        let given = &mut self.rooms.reservations.given;
        if let Some(before) = &before {
            given.swap_remove(&before.reservation.name);
        }
        given.extend(after.clone().map(|after| (after.reservation.name, after)));
        let now = self.reader.options.now;
        self.valid = valid_seconds(given.values(), now);
        let counts = |record: Option<ReservationRecord>| record.filter(|record| record.counts(now));
        match (counts(before), counts(after)) {
            (None, None) => Patched::Done,
            (before, after) => self.counting_changed(before.as_ref(), after, objects),
        }
    }

    /// One that counts came, changed or went.
    fn counting_changed(
        &mut self,
        before: Option<&ReservationRecord>,
        after: Option<ReservationRecord>,
        objects: &impl Objects,
    ) -> Patched {
        let both = || before.into_iter().chain(&after);
        // Running pods that it would be bound to, and claims of its own, are looked at together with others.
        let has_claims = |record: &ReservationRecord| self.rooms.resolver.has_claims(record.draft);
        if both().any(|record| record.reservation.pre_allocation.is_some() || has_claims(record)) {
            return Patched::NeedsRebuild;
        }
        let known = before.map(|before| self.rooms.reservations.ids.get(&before.reservation.name).copied());
        let id = match known {
            Some(Some(id)) => id,
            Some(None) => return Patched::NeedsRebuild,
            None => ReservationId::new(self.cluster.reservations.len()),
        };
        let owners = |record: Option<&ReservationRecord>| record.and_then(|known| known.reservation.owners.clone());
        let (owned_before, owned_after) = (owners(before), owners(after.as_ref()));
        let has_other_owners = before.is_none() || after.is_none() || owned_before != owned_after;
        let users = if has_other_owners {
            let owners = [owned_before, owned_after].into_iter().flatten().flatten().collect::<Vec<_>>();
            let Some(users) = self.who_may_own(&owners) else { return Patched::NeedsRebuild };
            users
        } else {
            Vec::new()
        };
        let nodes: Vec<Sym> = both().filter_map(holds_on).collect();
        let is_pending = both().any(ReservationRecord::is_pending);
        let was = self.cluster.reservations.get(id.index()).cloned();
        self.rooms.reservations.set(id, after.clone());
        match after {
            Some(_) if is_pending => self.place_again(Some(id)),
            Some(record) => {
                let reservation = self.stand_in(id, &record, &mut Alike::default());
                self.set_reservation(id, reservation);
            }
            None => {
                let reservation = gone(&self.cluster);
                self.set_reservation(id, reservation);
                if is_pending {
                    self.place_again(None);
                }
            }
        }
        let reservation = self.cluster.reservation(id);
        if has_other_owners {
            let counting = reservation.filter(|_| self.rooms.reservations.record(id).is_some());
            self.rooms.ownership.owners_changed(id, counting);
        }
        let is_alike =
            |(was, now): (&Reservation, &Reservation)| was.template == now.template && was.phase == now.phase;
        if has_other_owners || is_pending || !was.as_ref().zip(reservation).is_some_and(is_alike) {
            self.log.push(Change::Reservations);
        }
        for node in nodes {
            if let Some(position) = self.rooms.existing.position(node) {
                self.settle_holdings(position);
            }
        }
        if self.again(&users, objects) == Patched::Done && !self.has_left_over_much() {
            Patched::Done
        } else {
            Patched::NeedsRebuild
        }
    }

    fn stand_in(&mut self, id: ReservationId, record: &ReservationRecord, alike: &mut Alike) -> Reservation {
        let mut warnings = Texts::with_hasher(self.cluster.symbols.hasher().clone());
        with_stand_in(record, id, alike, &mut self.rooms.resolver, &mut self.cluster, &mut warnings)
    }

    fn set_reservation(&mut self, id: ReservationId, reservation: Reservation) {
        match self.cluster.reservations.get_mut(id.index()) {
            Some(known) => *known = reservation,
            None => self.cluster.reservations.push(reservation),
        }
    }

    /// Which Reservations are to be placed is looked at again, by name: those that are alike are one row.
    fn place_again(&mut self, new: Option<ReservationId>) {
        for row in self.cluster.pending.iter_mut().filter(|row| row.kind == MemberKind::Reservation) {
            row.members.clear();
        }
        self.is_untidy = true;
        let records = (0..).map(ReservationId).zip(&self.rooms.reservations.records);
        let pending = |(id, record): (ReservationId, &Option<ReservationRecord>)| {
            let record = record.as_ref().filter(|record| record.is_pending() || new == Some(id))?;
            Some((id, record.clone()))
        };
        let mut pending: Vec<(ReservationId, ReservationRecord)> = records.filter_map(pending).collect();
        let text = |record: &ReservationRecord| self.cluster.symbols.shared(record.reservation.name);
        pending.sort_by_cached_key(|(_, record)| text(record));
        let mut alike = Alike::default();
        for (id, record) in pending {
            let reservation = self.stand_in(id, &record, &mut alike);
            self.set_reservation(id, reservation);
        }
    }

    /// The pods that any of these owners may describe, by labels and namespace; `None` where that is as good as all.
    fn who_may_own(&self, owners: &[ReservationOwner]) -> Option<Vec<(Sym, Arc<str>)>> {
        let cluster = &self.cluster;
        if owners.iter().any(|owner| owner.selector.is_none() && owner.object.is_none()) {
            return None;
        }
        let may_be = |owner: &ReservationOwner, labels: &Labels| {
            owner.selector.as_ref().is_none_or(|selector| selector.matches(labels, &cluster.symbols))
        };
        // By owner, the label sets that it may be about.
        let sets: Vec<Vec<bool>> = owners
            .iter()
            .map(|owner| cluster.label_sets.iter().map(|labels| may_be(owner, labels)).collect())
            .collect();
        let is_meant = |namespace: Sym, name: &str, labels: LabelsId| {
            owners.iter().zip(&sets).any(|(owner, sets)| {
                let is_object = owner.object.as_ref().is_none_or(|object| {
                    object.namespace.is_none_or(|named| named == namespace)
                        && object.name.as_deref().is_none_or(|named| named == name)
                });
                is_object && sets.get(labels.index()).is_some_and(|is_meant| *is_meant)
            })
        };
        let mut found = Vec::new();
        for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
            let members = row.members.iter().filter(|member| is_meant(row.namespace, &member.name, row.labels));
            found.extend(members.map(|member| (row.namespace, member.name.clone())));
        }
        for pod in cluster.nodes.iter().flat_map(|node| &node.pods) {
            if is_meant(pod.namespace, &pod.name, pod.labels) {
                found.push((pod.namespace, pod.name.clone()));
            }
        }
        Some(found)
    }

    /// What Reservations hold on a node, from who is on it: what is left, and who draws from which.
    pub(super) fn settle_holdings(&mut self, position: usize) {
        let (cluster, reservations) = (&self.cluster, &self.rooms.reservations);
        let Some(node) = cluster.nodes.get(position).filter(|node| !node.is_leaving) else { return };
        let ids = reservations.on_node.get(&node.name).into_iter().flatten();
        let known = ids.filter_map(|id| Some((*id, cluster.reservation(*id)?)));
        let mut known: Vec<(ReservationId, &Reservation)> = known.collect();
        // By name, whichever came first.
        known.sort_by(|(_, a), (_, b)| cluster.symbols.text(a.name).cmp(cluster.symbols.text(b.name)));
        let mut holdings: Vec<_> = known.into_iter().map(|(id, known)| berth_model::Holding::new(id, known)).collect();
        let named = |pod: &berth_model::BoundPod| {
            let known = self.pods.get(&(pod.namespace, pod.name.clone()))?;
            known.more.as_ref()?.draws_from
        };
        let mut draws = Vec::with_capacity(node.pods.len());
        for pod in &node.pods {
            let id = if holdings.is_empty() { None } else { drawn_from(&holdings, named(pod), cluster) };
            let holding = holdings.iter_mut().find(|holding| Some(holding.reservation) == id);
            if let Some((holding, spec)) = holding.zip(cluster.spec(pod.spec)) {
                holding.draw_in_sum(&spec.requests);
            }
            draws.push(id);
        }
        settle_holdings(&mut holdings, |id| reservations.record(id));
        let Some(node) = self.cluster.nodes.get_mut(position) else { return };
        let mut pods = std::mem::take(&mut node.pods);
        let was = Box::new(node.clone());
        for (pod, draws_from) in pods.iter_mut().zip(draws) {
            pod.draws_from = draws_from;
        }
        (node.pods, node.holdings) = (pods, holdings);
        self.rooms.existing.settle_room(position, &mut self.cluster);
        self.log.push(Change::NodeChanged(position, was));
    }
}
