//! What the state is told of the cloud: a catalogue for each node class, less what launches found empty since, and counts
//! of slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::NodeClassRef;
use berth_catalogue::{Availability, Catalogue};
use berth_cloudprovider::{
    CapacityReservation, CloudError, NodeClassStatus, OfferingKey, ProviderId, ReservationState,
};
use berth_state::{Event, SlotCount, Touched};
use jiff::Timestamp;

use super::{Core, Job};
use crate::claim::Offers;
use crate::claim::drift::vacated_at;

/// What the state was told last.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// What NodePools of other node classes may launch.
    common: Arc<Catalogue>,
    /// What NodePools of these may.
    classes: Vec<(NodeClassRef, Arc<Catalogue>)>,
    counts: Vec<SlotCount>,
}

// === impl Told ===

impl Told {
    /// Node classes that all offer the same share one catalogue: to a decision each further one is as much work as the
    /// first.
    fn new(mut classes: Vec<(NodeClassRef, Arc<Catalogue>)>, counts: Vec<SlotCount>) -> Self {
        let nothing = || Arc::new(Catalogue::default());
        let Some((_, first)) = classes.first() else {
            return Self { common: nothing(), classes, counts };
        };
        let first = Arc::clone(first);
        if classes.iter().all(|(_, own)| is_same(own, &first)) {
            classes.clear();
            return Self { common: first, classes, counts };
        }
        Self { common: nothing(), classes, counts }
    }

    fn has_classes_of(&self, other: &Self) -> bool {
        let mut pairs = self.classes.iter().zip(&other.classes);
        self.classes.len() == other.classes.len()
            && pairs.all(|((class, own), (of_other, others))| class == of_other && is_same(own, others))
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.common, &other.common) && self.has_classes_of(other) && self.counts == other.counts
    }
}

/// Whether two catalogues are the same; most of the time nothing has changed, and nothing is compared.
fn is_same(a: &Arc<Catalogue>, b: &Arc<Catalogue>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl Core {
    /// Tells the state what is to be had: what the cloud said, less what launches found empty since.
    pub(super) fn tell_offers(&mut self, now: Timestamp) {
        // What is not known yet may come before all that is.
        if self.told_offers.is_none() && self.node_classes.keys().any(|class| !self.asked_classes.contains(class)) {
            return;
        }
        let classes = self.node_classes.iter().map(|(key, class)| (class.clone(), self.catalogue_of(key))).collect();
        let told = Told::new(classes, counts(&self.offers, &self.ended, now));
        if self.told_offers.as_ref() != Some(&told) {
            if self.told_offers.as_ref().is_none_or(|known| !known.has_classes_of(&told)) {
                self.state.set_class_catalogues(told.classes.clone());
            }
            self.apply(Event::Offered { catalogue: Arc::clone(&told.common), seen: None }, now);
            if !told.counts.is_empty() {
                self.apply(Event::Counted(told.counts.clone()), now);
            }
            self.told_offers = Some(told);
            self.wake(&Touched { room: true, ..Touched::default() }, now);
        }
        let ends = self.offers.values().flat_map(|offers| offers.exhausted.values().chain(offers.full.values()));
        let blocks = self.offers.values().flat_map(|offers| &offers.types.reservations).filter_map(vacated_at);
        if let Some(ends) = ends.copied().chain(blocks.filter(|time| *time > now)).min() {
            self.queue.add_at(Job::Restock, ends);
        }
    }

    /// What was left alone for a while may be there again.
    pub(super) fn restock(&mut self, now: Timestamp) {
        for offers in self.offers.values_mut() {
            offers.exhausted.retain(|_, until| *until > now);
            offers.full.retain(|_, until| *until > now);
        }
        self.tell_offers(now);
    }

    /// What may be launched of a node class: nothing where it cannot be used, so that pods go to other NodePools.
    fn catalogue_of(&self, class: &str) -> Arc<Catalogue> {
        let is_unusable = matches!(
            self.class_status.get(class),
            Some(Ok(NodeClassStatus::NotReady { .. }) | Err(CloudError::NotFound { .. }))
        );
        let Some(offers) = self.offers.get(class).filter(|_| !is_unusable) else {
            return Arc::new(Catalogue::default());
        };
        let catalogue = &offers.types.catalogue;
        let exhausted: BTreeSet<&OfferingKey> = offers.exhausted.keys().collect();
        if exhausted.is_empty() {
            return Arc::clone(catalogue);
        }
        without(catalogue, &exhausted).unwrap_or_else(|| Arc::clone(catalogue))
    }
}

/// The free slots of each reservation, by id: several node classes may use one, and the newest answer counts.
fn counts(offers: &BTreeMap<String, Offers>, ended: &BTreeSet<ProviderId>, now: Timestamp) -> Vec<SlotCount> {
    let mut newest: BTreeMap<&str, (Timestamp, SlotCount)> = BTreeMap::new();
    for offers in offers.values() {
        for known in &offers.types.reservations {
            // Nobody moves into a capacity block that is being vacated.
            let is_over = vacated_at(known).is_some_and(|time| time <= now);
            let counted = || (offers.at, count(known, is_over || offers.full.contains_key(&known.id), ended));
            let entry = newest.entry(&known.id).or_insert_with(counted);
            if entry.0 < offers.at {
                *entry = counted();
            }
        }
    }
    newest.into_values().map(|(_, count)| count).collect()
}

/// A catalogue in which some offerings have no instance left.
fn without(catalogue: &Catalogue, exhausted: &BTreeSet<&OfferingKey>) -> Option<Arc<Catalogue>> {
    let mut types = catalogue.types().to_vec();
    for of_type in &mut types {
        let name = of_type.name.clone();
        for offering in &mut of_type.offerings {
            let Some(capacity_type) = offering.capacity_type() else { continue };
            let zone = offering.zone().map(str::to_owned);
            if exhausted.contains(&OfferingKey { instance_type: name.clone(), zone, capacity_type }) {
                offering.availability = Availability::Count(0);
            }
        }
    }
    Catalogue::new(types).ok().map(Arc::new)
}

/// The free slots of a reservation, and whom the count has seen. Instances that have ended use none, whether the count is
/// older than their end or their NodeClaims are not gone yet.
pub(super) fn count(known: &CapacityReservation, is_full: bool, ended: &BTreeSet<ProviderId>) -> SlotCount {
    let serves = known.state == ReservationState::Active && !is_full;
    SlotCount {
        reservation_id: known.id.clone(),
        free: if serves { known.total.saturating_sub(known.used_without(ended)) } else { 0 },
        seen: known.includes.union(ended).map(|id| id.0.clone()).collect(),
    }
}
