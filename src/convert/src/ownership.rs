//! Which Reservations a pending pod is an owner of, and what follows of who owns the pod.

use std::collections::BTreeSet;

use berth_model::{
    Cluster, Identity, LabelsId, OwnerReference, Phase, PreAllocationMode, Reservation, ReservationId, SpecId, Sym,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::maps::FxIndexSet;
use crate::selecting::Selecting;
use crate::spreading::Spreading;

/// A pod, as far as owners of Reservations look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) namespace: Sym,
    pub(crate) name: &'a str,
    pub(crate) uid: Option<&'a str>,
    /// Index of the label set.
    pub(crate) labels: LabelsId,
    /// Index of the owner references.
    pub(crate) references: u32,
}

/// Finds the Reservations that a pod is an owner of, once for pods that no Reservation can tell apart.
#[derive(Clone)]
pub(crate) struct Ownership {
    pub(crate) references: FxIndexSet<Vec<OwnerReference>>,
    spreading: Spreading,
    /// Reservations, by index, whose owners name no pod, and the others.
    by_shape: Vec<ReservationId>,
    by_name: Vec<ReservationId>,
    shapes: FxHashMap<(Sym, LabelsId, u32), Vec<ReservationId>>,
    specs: FxHashMap<(SpecId, Vec<ReservationId>), SpecId>,
}

impl Ownership {
    /// Of the cluster's Reservations.
    pub(crate) fn new(references: FxIndexSet<Vec<OwnerReference>>, selecting: Selecting, cluster: &Cluster) -> Self {
        let indexes = cluster.reservations_with_ids();
        let (by_name, by_shape): (Vec<_>, Vec<_>) = indexes.partition(|(_, reservation)| reservation.names_pods());
        let numbers = |list: Vec<(ReservationId, _)>| list.into_iter().map(|(index, _)| index).collect();
        Ownership {
            references,
            spreading: Spreading::new(selecting),
            by_shape: numbers(by_shape),
            by_name: numbers(by_name),
            shapes: FxHashMap::default(),
            specs: FxHashMap::default(),
        }
    }

    /// A Reservation has other owners, or none any more.
    pub(crate) fn owners_changed(&mut self, index: ReservationId, reservation: Option<&Reservation>) {
        for list in [&mut self.by_shape, &mut self.by_name] {
            list.retain(|known| *known != index);
        }
        if let Some(reservation) = reservation {
            let list = if reservation.names_pods() { &mut self.by_name } else { &mut self.by_shape };
            list.insert(list.partition_point(|known| *known < index), index);
        }
        self.shapes.clear();
    }

    /// The numbers N of pods `name-N` of the namespace that some Reservation may name: these are looked at one by one.
    pub(crate) fn named_members(&self, namespace: Sym, name: &str, cluster: &Cluster) -> BTreeSet<u32> {
        let reservations = self.by_name.iter().filter_map(|&index| cluster.reservation(index));
        let owners = reservations.flat_map(|reservation| reservation.owners.iter().flatten());
        let objects = owners.filter_map(|owner| owner.object.as_ref());
        let objects = objects.filter(|object| object.namespace.is_none_or(|named| named == namespace));
        objects
            .filter_map(|object| object.name.as_deref()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok())
            .collect()
    }

    /// The spec of a pod that has this one but for the Reservations that it is an owner of.
    pub(crate) fn spec_for(&mut self, spec: SpecId, who: Who<'_>, cluster: &mut Cluster) -> SpecId {
        let owned = self.owned(who, cluster);
        if owned.is_empty() {
            return spec;
        }
        if let Some(&known) = self.specs.get(&(spec, owned.clone())) {
            return known;
        }
        let Some(mut owning) = cluster.spec(spec).cloned() else { return spec };
        owning.reservation.owner_of.clone_from(&owned);
        let owning = cluster.intern_spec(owning);
        self.specs.insert((spec, owned), owning);
        owning
    }

    /// The label set of a pod that says from whom it is spread by default, beside its labels.
    pub(crate) fn labels_for(&mut self, who: Who<'_>, cluster: &mut Cluster) -> LabelsId {
        let references = self.references.get_index(who.references as usize).map_or(&[][..], Vec::as_slice);
        self.spreading.labels_for(who.namespace, (who.labels, who.references), references, cluster)
    }

    /// Services or controllers select others: the label sets that pods have no more.
    pub(crate) fn selectors_changed(
        &mut self,
        before: &Selecting,
        after: Selecting,
        cluster: &mut Cluster,
    ) -> FxHashSet<LabelsId> {
        let all = &self.references;
        let references = |index: u32| all.get_index(index as usize).map_or(&[][..], Vec::as_slice);
        self.spreading.replace(before, after, references, cluster)
    }

    /// The pre-allocating Reservations that are to be bound to running pods of their owners, or wait for these to go, where this
    /// is one.
    pub(crate) fn pre_allocating(&mut self, who: Who<'_>, cluster: &Cluster) -> Vec<ReservationId> {
        let binds = |&index: &ReservationId| {
            let known = cluster.reservation(index);
            known.is_some_and(|known| {
                matches!(known.phase, Phase::Pending | Phase::Waiting)
                    && known.pre_allocation.is_some_and(|p| p.mode == PreAllocationMode::Owners)
            })
        };
        if !cluster.reservations_with_ids().any(|(index, _)| binds(&index)) {
            return Vec::new();
        }
        self.owned(who, cluster).into_iter().filter(binds).collect()
    }

    fn owned(&mut self, who: Who<'_>, cluster: &Cluster) -> Vec<ReservationId> {
        if cluster.reservations.is_empty() {
            return Vec::new();
        }
        let Some(labels) = cluster.labels(who.labels) else { return Vec::new() };
        let identity = Identity {
            namespace: who.namespace,
            name: Some(who.name),
            uid: who.uid,
            labels,
            references: self.references.get_index(who.references as usize).map_or(&[], Vec::as_slice),
        };
        let owns = |&index: &ReservationId| {
            cluster.reservation(index).is_some_and(|known| known.owns(&identity, &cluster.symbols))
        };
        let by_name: Vec<ReservationId> = self.by_name.iter().copied().filter(owns).collect();
        let key = (who.namespace, who.labels, who.references);
        let by_shape = self.shapes.entry(key).or_insert_with(|| self.by_shape.iter().copied().filter(owns).collect());
        let mut owned: Vec<ReservationId> = by_shape.iter().copied().chain(by_name).collect();
        owned.sort_unstable();
        owned
    }
}
