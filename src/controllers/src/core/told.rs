//! What the state is told of the cloud: a catalogue for each node class, less what launches found empty since, and counts
//! of slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::NodeClassRef;
use berth_catalogue::{Catalogue, InstanceTypeEntry, OfferingEntry};
use berth_cloudprovider::{
    CapacityReservation, CloudError, NodeClassStatus, OfferingKey, ProviderId, ReservationState,
};
use berth_state::{Event, SlotCount, Touched};
use jiff::Timestamp;

use super::{Core, Job, class_key};
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

    /// The same, with the catalogue that was told before where only counts of slots differ, which are told by themselves:
    /// then the catalogue need not be read anew.
    fn beside(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let counted: BTreeSet<&str> = self.counts.iter().map(|count| count.reservation_id.as_str()).collect();
        let was_counted = before.counts.iter().all(|count| counted.contains(count.reservation_id.as_str()));
        if was_counted
            && before.counts.len() == self.counts.len()
            && differ_in_counts_alone(&before.common, &self.common, &counted)
        {
            return Self { common: Arc::clone(&before.common), ..self };
        }
        self
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

/// Whether nothing differs but how many slots of these reservations are free.
fn differ_in_counts_alone(a: &Catalogue, b: &Catalogue, counted: &BTreeSet<&str>) -> bool {
    let is_same_offering = |(a, b): (&OfferingEntry, &OfferingEntry)| {
        let is_counted = a.reservation_id().is_some_and(|id| counted.contains(id));
        a == b || is_counted && OfferingEntry { reservation_capacity: b.reservation_capacity, ..a.clone() } == *b
    };
    let is_same_type = |(a, b): (&Arc<InstanceTypeEntry>, &Arc<InstanceTypeEntry>)| {
        if Arc::ptr_eq(a, b) {
            return true;
        }
        let InstanceTypeEntry { name, architecture, operating_systems, resources, labels, machine, notes, offerings } =
            &**a;
        *name == b.name
            && *architecture == b.architecture
            && *operating_systems == b.operating_systems
            && *resources == b.resources
            && *labels == b.labels
            && *machine == b.machine
            && *notes == b.notes
            && offerings.len() == b.offerings.len()
            && offerings.iter().zip(&b.offerings).all(is_same_offering)
    };
    a.types().len() == b.types().len()
        && a.types().iter().zip(b.types()).all(is_same_type)
        && a.warnings() == b.warnings()
}

impl Core {
    /// Tells the state what is to be had: what the cloud said, less what launches found empty since.
    pub(super) fn tell_offers(&mut self, now: Timestamp) {
        // What is not known yet may come before all that is.
        if self.told_offers.is_none() && self.node_classes.keys().any(|class| !self.asked_classes.contains(class)) {
            return;
        }
        let served = self.node_classes.iter().map(|(key, class)| (class.clone(), self.catalogue_of(key)));
        // Nodes of these are another autoscaler's to launch.
        let nothing = Arc::new(Catalogue::default());
        let classes = served.chain(self.foreign_classes().into_values().map(|class| (class, Arc::clone(&nothing))));
        let told =
            Told::new(classes.collect(), counts(&self.offers, &self.ended, now)).beside(self.told_offers.as_ref());
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
        let all = self.offers.values();
        let ends = all
            .flat_map(|offers| offers.exhausted.values().chain(offers.full.values()).chain(offers.left_alone.values()));
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
            offers.left_alone.retain(|_, until| *until > now);
        }
        self.tell_offers(now);
    }

    /// The node classes that NodePools name and the cloud does not serve.
    fn foreign_classes(&self) -> BTreeMap<String, NodeClassRef> {
        let all = self.view.pools.values().filter_map(|pool| pool.spec.template.spec.node_class_ref.as_ref());
        all.filter(|class| !self.provider.serves(class)).map(|class| (class_key(class), class.clone())).collect()
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
        if offers.exhausted.is_empty() && offers.left_alone.is_empty() {
            return Arc::clone(catalogue);
        }
        Arc::new(without(catalogue, offers))
    }
}

/// The free slots of each reservation, by id: several node classes may use one, and the newest answer counts.
fn counts(offers: &BTreeMap<String, Offers>, ended: &BTreeSet<ProviderId>, now: Timestamp) -> Vec<SlotCount> {
    let mut newest: BTreeMap<&str, (Timestamp, SlotCount)> = BTreeMap::new();
    for offers in offers.values() {
        for known in &offers.types.reservations {
            // Nobody moves into a capacity block that is being vacated.
            let is_over = vacated_at(known).is_some_and(|time| time <= now);
            let serves_nobody = is_over || offers.full.contains_key(&known.id) || offers.leaves_alone(&known.zones);
            let counted = || (offers.at, count(known, serves_nobody, ended));
            let entry = newest.entry(&known.id).or_insert_with(counted);
            if entry.0 < offers.at {
                *entry = counted();
            }
        }
    }
    newest.into_values().map(|(_, count)| count).collect()
}

/// A catalogue in which some offerings have no instance left. How many slots are free is told by itself.
fn without(catalogue: &Catalogue, offers: &Offers) -> Catalogue {
    let is_gone = |entry: &InstanceTypeEntry, offering: &OfferingEntry| {
        let zone = offering.zone().map(str::to_owned);
        if offering.reservation_id().is_none() && zone.as_ref().is_some_and(|zone| offers.left_alone.contains_key(zone))
        {
            return true;
        }
        offering.capacity_type().is_some_and(|capacity_type| {
            offers.exhausted.contains_key(&OfferingKey { instance_type: entry.name.clone(), zone, capacity_type })
        })
    };
    catalogue.clone().without(is_gone)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One type on demand at this price, and with so many free slots of a reservation.
    fn catalogue(price: f64, free: u32) -> Catalogue {
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let offering = |price: f64, kind: &str, more: Vec<Value>| {
            let mut all =
                vec![requirement("karpenter.sh/capacity-type", kind), requirement("topology.kubernetes.io/zone", "a")];
            all.extend(more);
            json!({"Price": price, "Requirements": all})
        };
        let mut slots = offering(1.0, "reserved", vec![requirement("berth.sh/capacity-reservation-id", "cr-1")]);
        slots["ReservationCapacity"] = free.into();
        let types = json!([{"name": "small", "resources": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "offerings": [offering(price, "on-demand", Vec::new()), slots]}]);
        berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap()
    }

    fn told(catalogue: Catalogue, free: u32) -> Told {
        let count = SlotCount { reservation_id: "cr-1".to_owned(), free, seen: BTreeSet::default() };
        Told { common: Arc::new(catalogue), classes: Vec::new(), counts: vec![count] }
    }

    #[test]
    fn a_catalogue_is_told_anew_where_more_than_counts_of_slots_differs() {
        let before = told(catalogue(1.0, 3), 3);
        let fewer = told(catalogue(1.0, 2), 2).beside(Some(&before));
        assert!(Arc::ptr_eq(&fewer.common, &before.common));
        assert_ne!(fewer, before, "its counts are told");
        let dearer = told(catalogue(2.0, 2), 2).beside(Some(&before));
        assert!(!Arc::ptr_eq(&dearer.common, &before.common));
        let not_counted = Told { counts: Vec::new(), ..told(catalogue(1.0, 2), 2) }.beside(Some(&before));
        assert!(!Arc::ptr_eq(&not_counted.common, &before.common), "the catalogue alone says how many are free");
    }
}
