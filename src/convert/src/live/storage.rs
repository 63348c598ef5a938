//! Claims and volumes that change: pods that wait for them look again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Cluster, Requirements, RowId, Sym};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::{Live, Objects, Patched};
use crate::builder::Builder;
use crate::claims::{VolumeOn, VolumeRecord, Want};
use crate::metadata::namespace_of;
use crate::place::PodLocation;
use crate::volume_counts::{Beside, FirstPlace, Scarce};

/// Pods, by `namespace/name`, and the first place in which each was offered a volume. It is of use as long as no object changes.
#[derive(Clone, Debug, Default)]
pub struct OfferedVolumes(BTreeMap<Box<str>, FirstPlace>);

// === impl OfferedVolumes ===

impl OfferedVolumes {
    /// Those of them for whom this holds, by `namespace/name`.
    pub fn retain(&mut self, mut holds: impl FnMut(&str) -> bool) {
        self.0.retain(|pod, _| holds(pod));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Live {
    /// A claim was created, changed or deleted.
    pub fn claim_changed(
        &mut self,
        (namespace, name): (&str, &str),
        before: Option<&PersistentVolumeClaim>,
        after: Option<&PersistentVolumeClaim>,
        objects: &impl Objects,
    ) -> Patched {
        let symbols = &mut self.cluster.symbols;
        let id = (symbols.intern(namespace), symbols.intern(name));
        let read = |reader: &mut Builder, object: Option<&PersistentVolumeClaim>| {
            let Some(object) = object else { return Ok(None) };
            debug_assert_eq!(namespace_of(&object.metadata), namespace);
            reader.add_persistent_volume_claim(object)?;
            Ok(reader.storage.take_claim(id))
        };
        let Some((before, after)) = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?))) else {
            return Patched::NeedsRebuild;
        };
        if before == after {
            return Patched::Done;
        }
        self.rooms.resolver.storage.set_claim(id, after);
        self.look_again(&[id], objects)
    }

    /// A volume was created, changed or deleted.
    pub fn volume_changed(
        &mut self,
        name: &str,
        before: Option<&PersistentVolume>,
        after: Option<&PersistentVolume>,
        objects: &impl Objects,
    ) -> Patched {
        let name = self.cluster.symbols.intern(name);
        let read = |reader: &mut Builder, object: Option<&PersistentVolume>| {
            let Some(object) = object else { return Ok(None) };
            reader.add_persistent_volume(object)?;
            Ok(reader.storage.take_volume(name))
        };
        let Some((before, after)) = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?))) else {
            return Patched::NeedsRebuild;
        };
        if before == after {
            return Patched::Done;
        }
        let storage = &mut self.rooms.resolver.storage;
        let both = || before.iter().chain(&after);
        let classes: Vec<Sym> = both().filter_map(|volume| storage.class_to_bind(volume)).collect();
        let named: Vec<(Sym, Sym)> = both().filter_map(VolumeRecord::claim).collect();
        let matters = storage.change_volume(name, after, &classes, &self.cluster.symbols);
        // Claims of its class that are not bound yet may come to it, or do so no more.
        let may_come =
            |id: (Sym, Sym)| storage.is_unbound(id) && classes.iter().any(|class| storage.may_be_of(id, *class));
        let is_about =
            |id: (Sym, Sym)| storage.is_bound_to(id, name) || named.contains(&id) || (matters && may_come(id));
        let claims: Vec<(Sym, Sym)> = self.by_claim.keys().copied().filter(|id| is_about(*id)).collect();
        self.look_again(&claims, objects)
    }

    /// What a claim is to be bound to on a node, the volumes in `taken` aside.
    pub fn volume_on(&mut self, (namespace, name): (&str, &str), node: &str, taken: &BTreeSet<String>) -> VolumeOn {
        let symbols = &self.cluster.symbols;
        let node = self.position_of(node).and_then(|at| self.cluster.nodes.get(at));
        let (Some(namespace), Some(name)) = (symbols.get(namespace), symbols.get(name)) else { return VolumeOn::Made };
        let reaches = |terms: &[Requirements]| {
            let satisfies = |one| node.is_some_and(|node| node.satisfies(one, symbols, |key| node.labels.get(key)));
            terms.iter().any(satisfies)
        };
        let storage = &mut self.rooms.resolver.storage;
        storage.volume_on((namespace, name), reaches, |name| taken.contains(symbols.text(name)), symbols)
    }

    /// Whether the volume that a claim is bound to, if it is, can be mounted on a node; `None` where that volume is not known.
    pub fn reaches_volume_of(&self, (namespace, name): (&str, &str), node: &str) -> Option<bool> {
        let symbols = &self.cluster.symbols;
        let Some(node) = self.position_of(node).and_then(|at| self.cluster.nodes.get(at)) else { return Some(false) };
        let claim = symbols.get(namespace).zip(symbols.get(name))?;
        let satisfies = |one: &Requirements| node.satisfies(one, symbols, |key| node.labels.get(key));
        self.rooms.resolver.storage.reaches_volume_of(claim, satisfies)
    }

    /// A copy of the cluster as [`Live::cluster`] left it, in which pods that wait are offered volumes one by one, as in a plan;
    /// `None` where there are enough for all.
    ///
    /// `expected` has the pods, by `namespace/name`, that are to come to a node or a NodeClaim in flight: they are offered what
    /// is there. The pods of `left` found no place with what they were offered before.
    pub fn with_volumes_shared_out<'e>(
        &mut self,
        expected: impl Iterator<Item = (&'e str, &'e BTreeSet<Box<str>>)>,
        left: &OfferedVolumes,
    ) -> Option<(Cluster, OfferedVolumes)> {
        let scarce = self.scarce_volumes(expected, left)?;
        let mut cluster = self.cluster.clone();
        let offers = scarce.share_out(&mut cluster);
        let text = |sym| cluster.symbols.text(sym);
        let offers = offers.into_iter().map(|((namespace, pod), at)| (format!("{}/{pod}", text(namespace)).into(), at));
        let offers = OfferedVolumes(offers.collect());
        Some((cluster, offers))
    }

    /// The rows of the cluster with pods that want volumes of which there are too few, as [`Live::cluster`] left them.
    pub fn rows_that_want_scarce_volumes(&mut self) -> BTreeSet<RowId> {
        let scarce = self.scarce_volumes(std::iter::empty(), &OfferedVolumes::default());
        let rows = scarce.map(|scarce| scarce.rows().collect::<BTreeSet<usize>>()).unwrap_or_default();
        self.cluster.rows().filter(|(id, _)| rows.contains(&id.index())).map(|(id, _)| id).collect()
    }

    /// What of the volumes that are there is too little for those who wait.
    fn scarce_volumes<'e>(
        &mut self,
        expected: impl Iterator<Item = (&'e str, &'e BTreeSet<Box<str>>)>,
        left: &OfferedVolumes,
    ) -> Option<Scarce> {
        let symbols = &self.cluster.symbols;
        let storage = &mut self.rooms.resolver.storage;
        let (mut wanting, mut taken) = (BTreeMap::<_, Vec<Want>>::new(), BTreeSet::new());
        for id in storage.unbound().collect::<Vec<_>>() {
            let Some(users) = self.by_claim.get(&id) else { continue };
            let Some(want) = storage.want_of(id, symbols) else { continue };
            let location = |pod: &Arc<str>| self.pods.get(&(id.0, Arc::clone(pod))).map(|entry| entry.place);
            // One that waits for its volumes on a node will have the smallest there.
            let node = users.iter().find_map(|pod| match location(pod) {
                Some(PodLocation::Node(node)) => Some(node),
                _ => None,
            });
            if let Some(node) = node.and_then(|node| self.rooms.existing.position(node)) {
                let node = self.cluster.nodes.get(node);
                let satisfies = |one: &Requirements| {
                    node.is_some_and(|node| node.satisfies(one, symbols, |key| node.labels.get(key)))
                };
                let reaches = |terms: &[Requirements]| terms.iter().any(satisfies);
                if let VolumeOn::Free(name) = storage.volume_on(id, reaches, |name| taken.contains(&name), symbols) {
                    taken.extend(symbols.get(&name));
                }
                continue;
            }
            for pod in users.iter().filter(|pod| matches!(location(pod), Some(PodLocation::Row(_)))) {
                wanting.entry((id.0, Box::<str>::from(&**pod))).or_default().push(want.clone());
            }
        }
        if wanting.is_empty() {
            return None;
        }
        let wanting = wanting.into_iter().map(|(pod, wants)| (pod, wants.into())).collect();
        let id_of = |pod: &str| {
            let (namespace, name) = pod.split_once('/')?;
            Some((symbols.get(namespace)?, name.into()))
        };
        let mut beside = Beside { taken, ..Beside::default() };
        for (node, pods) in expected {
            let Some(node) = self.position_of(node) else { continue };
            beside.homes.extend(pods.iter().filter_map(|pod| Some((id_of(pod)?, node))));
        }
        beside.left = left.0.iter().filter_map(|(pod, first)| Some((id_of(pod)?, *first))).collect();
        Scarce::of(&wanting, &beside, &mut self.rooms.resolver.storage, &self.cluster)
    }

    /// The pods of claims mean something else now.
    pub(super) fn look_again(&mut self, claims: &[(Sym, Sym)], objects: &impl Objects) -> Patched {
        self.rooms.resolver.forget_specs();
        // Stand-ins may name these claims as pods do.
        if self.rooms.reservations.have_claims(&self.rooms.resolver) {
            return Patched::NeedsRebuild;
        }
        if self.daemons_have_claims() {
            self.keep_room_again();
        }
        let of_claim = |id: &(Sym, Sym)| {
            let users = self.by_claim.get(id).into_iter().flatten();
            users.map(|pod| (id.0, pod.clone())).collect::<Vec<_>>()
        };
        let mut pods: Vec<(Sym, Arc<str>)> = claims.iter().flat_map(of_claim).collect();
        pods.sort_unstable();
        pods.dedup();
        self.again(&pods, objects)
    }
}
