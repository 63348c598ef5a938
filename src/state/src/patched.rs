//! The converted cluster, brought up to date by the change of one object: what it cannot take in has everything converted
//! anew.

use berth_api::{NodeClaim, NodeOverlay};
use berth_convert::{Live, Offers, Other, Patched};

use crate::built::Built;
use crate::counted::Counted;
use crate::kept::Kept;
use crate::slots::{is_launched, reservation_of};
use crate::{Key, Kind, Object, State, Whole};

impl State {
    /// Brings the converted cluster up to date with the change of one object, or forgets it.
    pub(crate) fn patch(&mut self, key: &Key, before: Option<&Kept>, after: Option<&Kept>) {
        let Some(built) = &mut self.built else { return };
        let objects = Counted { entries: &self.entries, cloud: &self.cloud };
        let is_done = built.patch(key, (before, after), objects) == Patched::Done
            && built.live.show_images(&objects) == Patched::Done;
        built.note_change();
        if !is_done {
            self.forget(key.kind.name());
        }
    }

    /// Free instances of finite supplies are others now.
    pub(crate) fn supplies_changed(&mut self) {
        let Some(built) = &mut self.built else { return };
        let objects = Counted { entries: &self.entries, cloud: &self.cloud };
        let in_flight = objects.claims().filter(|claim| !is_launched(claim));
        let names = in_flight.filter_map(|claim| claim.metadata.name.clone());
        let is_done = built.live.supplies_changed(&objects, names) == Patched::Done;
        built.note_change();
        if !is_done {
            self.forget("supplies");
        }
    }
}

impl State {
    /// Other pods stay on nodes that go away.
    pub(crate) fn staying_changed(&mut self) {
        let Some(built) = &mut self.built else { return };
        let objects = Counted { entries: &self.entries, cloud: &self.cloud };
        let is_done = built.live.staying_changed(&self.cloud.staying, &objects) == Patched::Done;
        built.note_change();
        if !is_done {
            self.forget("staying");
        }
    }

    /// The catalogue is another one, or that of some node classes.
    pub(crate) fn offers_changed(&mut self) {
        let Some(built) = &mut self.built else { return };
        let objects = Counted { entries: &self.entries, cloud: &self.cloud };
        // One that could not be used with the catalogue may be usable with this one.
        let is_done = built.refused.is_empty() && built.offers_changed(objects) == Patched::Done;
        built.note_change();
        if !is_done {
            self.forget("offers");
        }
    }
}

impl Built {
    fn offers_changed(&mut self, objects: Counted<'_>) -> Patched {
        let Some(catalogue) = &objects.cloud.catalogue else { return Patched::NeedsRebuild };
        let classes = objects.cloud.classes.iter().map(|(class, catalogue)| (class, &**catalogue)).collect();
        let overlays = objects.of_kind(Kind::NodeOverlay).filter_map(|(_, object)| object.whole::<NodeOverlay>());
        let offers = Offers { catalogue, classes, overlays: overlays.map(|overlay| &**overlay).collect() };
        let claims = objects.claims().filter_map(|claim| claim.metadata.name.clone());
        self.live.offers_changed(&offers, &objects, claims)
    }

    /// Takes in the change of one object.
    fn patch(&mut self, key: &Key, (before, after): (Option<&Kept>, Option<&Kept>), objects: Counted<'_>) -> Patched {
        // What is refused beside others may be usable once these are gone.
        if !self.refused.is_empty() && before.is_some() {
            return Patched::NeedsRebuild;
        }
        let live = &mut self.live;
        let name = &*key.name;
        match key.kind {
            Kind::Pod => pod_changed(live, key, before, after),
            Kind::Node => {
                let node = |kept: Option<&Kept>| kept.and_then(Kept::node).map(|node| node.to_node());
                live.node_changed(name, || node(before), node(after).as_ref(), &objects)
            }
            Kind::NodeClaim => {
                let (before, after): (Option<&NodeClaim>, _) = (typed(before), typed(after));
                let supplies: Vec<&str> =
                    before.into_iter().chain(after).filter_map(|claim| reservation_of(claim)).collect();
                live.node_claim_changed(name, &supplies, before, after, &objects)
            }
            Kind::CSINode => live.csi_node_changed(name, typed(before), typed(after), &objects),
            Kind::Device => live.device_changed(name, typed(before), typed(after), &objects),
            Kind::NodeResourceTopology => {
                live.node_resource_topology_changed(name, typed(before), typed(after), &objects)
            }
            Kind::PersistentVolume => live.volume_changed(name, typed(before), typed(after), &objects),
            Kind::PersistentVolumeClaim => {
                live.claim_changed((&key.namespace, name), typed(before), typed(after), &objects)
            }
            Kind::PodDisruptionBudget => live.budget_changed(objects.position(key), typed(before), typed(after)),
            Kind::NodePool => live.node_pool_changed(typed(before), typed(after)),
            Kind::NodeOverlay if live.is_other_overlay(typed(before), typed(after)) => self.offers_changed(objects),
            Kind::NodeOverlay => Patched::Done,
            Kind::Namespace => live.namespace_changed(objects.position(key), typed(before), typed(after)),
            Kind::PriorityClass => live.priority_class_changed(typed(before), typed(after)),
            Kind::StorageClass => live.storage_class_changed(name, typed(before), typed(after), &objects),
            Kind::DaemonSet => live.daemon_set_changed(typed(before), typed(after)),
            Kind::Reservation => live.reservation_changed(typed(before), typed(after), &objects),
            Kind::Service => live.service_changed(typed(before), typed(after), &objects),
            Kind::CronJob
            | Kind::Deployment
            | Kind::Job
            | Kind::ReplicaSet
            | Kind::ReplicationController
            | Kind::StatefulSet => live.other_changed(before.and_then(other), after.and_then(other), &objects),
        }
    }
}

fn typed<T: Whole>(object: Option<&Kept>) -> Option<&T> {
    object.and_then(Kept::whole::<T>).map(|object| &**object)
}

fn other(object: &Kept) -> Option<Other<'_>> {
    let Kept::Whole(object) = object else { return None };
    Some(match object {
        Object::CronJob(object) => Other::CronJob(object),
        Object::Deployment(object) => Other::Deployment(object),
        Object::Job(object) => Other::Job(object),
        Object::ReplicaSet(object) => Other::ReplicaSet(object),
        Object::ReplicationController(object) => Other::ReplicationController(object),
        Object::StatefulSet(object) => Other::StatefulSet(object),
        _ => return None,
    })
}

fn pod_changed(live: &mut Live, key: &Key, before: Option<&Kept>, after: Option<&Kept>) -> Patched {
    if before.is_some() && live.remove_pod(&key.namespace, &key.name) == Patched::NeedsRebuild {
        return Patched::NeedsRebuild;
    }
    match after {
        Some(Kept::Pod(pod)) => live.add_pod(&pod.parts()).unwrap_or(Patched::NeedsRebuild),
        _ => Patched::Done,
    }
}
