//! What of the cluster the lifecycle of nodes needs: NodeClaims, nodes, pods by node, attachments, NodePools.
//!
//! A later version of an object takes the place of an earlier one, wherever it was read: from a watch, from a list or
//! from the answer to a write. What was seen deleted does not come back by a late answer.

mod pod;
mod sums;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{NodeClaim, NodePool, Reservation};
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::claim::{is_disrupted, is_ready};
use crate::guarded::Unreadable;
use crate::kind::{Kind, NamedObject};
use crate::observed::{Object, Observed, WATCHED};
use sums::{Sums, is_counted_alike};

pub(crate) use berth_decisions::pool_of;
pub(crate) use pod::{PodName, PodRecord, Protected};
pub(crate) use sums::Has;
#[cfg(test)]
pub(crate) use table::n_visits;
pub(crate) use table::{Put, Table};

/// The cluster, as far as it was seen.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) claims: Table<String, Arc<NodeClaim>>,
    pub(crate) nodes: Table<String, Arc<Node>>,
    pub(crate) pools: Table<String, Arc<NodePool>>,
    pub(crate) reservations: Table<String, Arc<Reservation>>,
    pub(crate) pods: Table<PodName, Arc<PodRecord>>,
    /// The volumes of PersistentVolumeClaims.
    pub(crate) volumes: Table<PodName, String>,
    attachments: Table<String, Arc<VolumeAttachment>>,
    /// Kinds that were listed once.
    listed: BTreeSet<Kind>,
    /// Objects that exist and cannot be read. Such a Reservation counts as not there.
    unreadable: BTreeMap<(Kind, String), Unreadable>,
    pods_by_node: BTreeMap<String, BTreeSet<PodName>>,
    /// By node: how many of its pods would have to move.
    n_moving: BTreeMap<String, usize>,
    /// Nodes without such pods.
    idle_nodes: BTreeSet<String>,
    nodes_by_provider_id: BTreeMap<String, BTreeSet<String>>,
    claims_by_provider_id: BTreeMap<String, BTreeSet<String>>,
    sums: Sums,
    attachments_by_node: BTreeMap<String, BTreeSet<String>>,
    reservations_by_node: BTreeMap<String, BTreeSet<String>>,
    /// By node: the pods there that are Reservations.
    rooms_by_node: BTreeMap<String, BTreeSet<PodName>>,
    /// Nodes that are not ready.
    pub(crate) not_ready: BTreeSet<String>,
    /// Nodes with the taint of a disruption.
    pub(crate) tainted: BTreeSet<String>,
}

/// What a change concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concerns {
    /// A NodeClaim.
    Claim(String),
    /// A node.
    Node(String),
    /// The pods of a node: one came or left.
    PodsOn(String),
    /// A NodePool.
    Pool(String),
    /// The NodeClaims of a NodePool: what it has.
    ClaimsOf(String),
    /// A Reservation.
    Reservation(String),
    /// NodeOverlays: what is wrong with one depends on the others.
    Overlays,
    /// A pod.
    Pod(PodName),
    /// A PersistentVolumeClaim, or a volume that names it.
    VolumeClaim(PodName),
}

// === impl View ===

impl View {
    /// Whether every kind was listed once.
    pub(crate) fn is_synced(&self) -> bool {
        self.listed.len() >= WATCHED.len()
    }

    /// What is known of a node or a NodeClaim of this uid.
    pub(crate) fn metadata_of(&self, object: &NamedObject, uid: &str) -> Option<&ObjectMeta> {
        let metadata = match object.kind {
            Kind::Node => self.nodes.get(&object.name).map(|node| &node.metadata),
            Kind::NodeClaim => self.claims.get(&object.name).map(|claim| &claim.metadata),
            _ => None,
        };
        metadata.filter(|metadata| metadata.uid.as_deref() == Some(uid))
    }

    /// Takes in what a watch told.
    pub(crate) fn observe(&mut self, observed: Observed) -> BTreeSet<Concerns> {
        let mut concerned = BTreeSet::new();
        match observed {
            Observed::Applied(object) => self.apply(object, &mut concerned),
            Observed::Deleted(kind, metadata) => {
                let uid = metadata.uid.as_deref().unwrap_or_default();
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                let name = metadata.name.as_deref().unwrap_or_default();
                if self.unreadable.remove(&(kind, name.to_owned())).is_some() && kind == Kind::Reservation {
                    concerned.insert(Concerns::Reservation(name.to_owned()));
                }
                self.remove(kind, namespace, name, uid, &mut concerned);
            }
            Observed::Listed { kind, objects, unreadable, .. } => {
                self.listed.insert(kind);
                self.unreadable.retain(|(known, _), _| *known != kind);
                let listed: BTreeSet<(String, String)> =
                    objects.iter().map(|object| names(object.metadata())).collect();
                for (namespace, name, uid) in self.names(kind) {
                    if !listed.contains(&(namespace.clone(), name.clone())) {
                        // Not buried: it may be newer than the list, and then the watch tells.
                        self.drop_one(kind, &namespace, &name, &uid, &mut concerned);
                    }
                }
                for object in objects {
                    self.apply(object, &mut concerned);
                }
                for object in unreadable {
                    self.note_unreadable(kind, object, &mut concerned);
                }
            }
            Observed::Unreadable(kind, object) => self.note_unreadable(kind, object, &mut concerned),
            Observed::SetBack => {}
        }
        concerned
    }

    /// Takes in an object unless a newer version of it is known, or that it is gone.
    pub(crate) fn apply(&mut self, object: Object, concerned: &mut BTreeSet<Concerns>) {
        let metadata = object.metadata();
        let (namespace, name) = names(metadata);
        self.unreadable.remove(&(object.kind(), name.clone()));
        let (uid, version) = (metadata.uid.clone().unwrap_or_default(), version(metadata));
        match object {
            Object::Pod(pod) => {
                let Some(record) = PodRecord::new(&pod) else { return };
                let id = PodName { namespace, name };
                let record = Arc::new(record);
                if let Put::Taken(before) = self.pods.put(id.clone(), &uid, version, record.clone()) {
                    // Most changes of a pod are of its status, and concern nobody here.
                    if before.as_ref() == Some(&record) {
                        return;
                    }
                    self.count_moving(before.as_deref(), Some(&record));
                    let was_room = before.as_deref().and_then(room_on);
                    move_index(&mut self.rooms_by_node, was_room, room_on(&record), &id);
                    let before = before.and_then(|before| before.node.clone());
                    move_index(&mut self.pods_by_node, before.as_ref(), record.node.as_ref(), &id);
                    // Those of DaemonSets come and go with their DaemonSet, not with what the node is for.
                    if !record.is_of_daemon_set && (before != record.node || record.is_finished) {
                        concerned.extend(before.iter().chain(&record.node).cloned().map(Concerns::PodsOn));
                    }
                    concerned.extend([before, record.node.clone()].into_iter().flatten().map(Concerns::Node));
                    concerned.insert(Concerns::Pod(id));
                }
            }
            Object::PersistentVolumeClaim(claim) => {
                let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
                let id = PodName { namespace, name };
                if let Put::Taken(_) = self.volumes.put(id.clone(), &uid, version, volume) {
                    concerned.insert(Concerns::VolumeClaim(id));
                }
            }
            Object::PersistentVolume(volume) => concerned.extend(claim_of(&volume).map(Concerns::VolumeClaim)),
            Object::Node(node) => {
                let now = provider_id(&node).cloned();
                let (is_ready, is_tainted) = (is_ready(&node), is_disrupted(&node));
                if let Put::Taken(before) = self.nodes.put(name.clone(), &uid, version, node) {
                    keep_where(&mut self.not_ready, &name, !is_ready);
                    keep_where(&mut self.tainted, &name, is_tainted);
                    if !self.n_moving.contains_key(&name) {
                        self.idle_nodes.insert(name.clone());
                    }
                    let before = before.as_deref().and_then(provider_id).cloned();
                    move_index(&mut self.nodes_by_provider_id, before.as_ref(), now.as_ref(), &name);
                    concerned.extend(self.claims_of(before.as_ref()));
                    concerned.insert(Concerns::Node(name));
                }
            }
            Object::NodeClaim(claim) => {
                let now = claim_provider_id(&claim).cloned();
                let pool = pool_of(&claim.metadata).map(str::to_owned);
                if let Put::Taken(before) = self.claims.put(name.clone(), &uid, version, Arc::clone(&claim)) {
                    let is_counted_alike = before.as_ref().is_some_and(|before| is_counted_alike(before, &claim));
                    if !is_counted_alike {
                        if let Some(before) = &before {
                            self.sums.subtract(before);
                        }
                        self.sums.add(&claim);
                    }
                    let pool = pool.filter(|_| !is_counted_alike);
                    let before = before.as_deref().and_then(claim_provider_id).cloned();
                    move_index(&mut self.claims_by_provider_id, before.as_ref(), now.as_ref(), &name);
                    concerned.extend(self.nodes_of(now.as_deref()).map(|node| Concerns::Node(node.to_owned())));
                    concerned.extend(pool.map(Concerns::ClaimsOf));
                    concerned.insert(Concerns::Claim(name));
                }
            }
            Object::VolumeAttachment(attachment) => {
                let node = attachment.spec.node_name.clone();
                if let Put::Taken(before) = self.attachments.put(name.clone(), &uid, version, attachment) {
                    let before = before.map(|before| before.spec.node_name.clone());
                    move_index(&mut self.attachments_by_node, before.as_ref(), Some(&node), &name);
                    concerned.insert(Concerns::Node(node));
                }
            }
            Object::NodePool(pool) => {
                if let Put::Taken(_) = self.pools.put(name.clone(), &uid, version, pool) {
                    concerned.insert(Concerns::Pool(name));
                }
            }
            Object::Reservation(reservation) => {
                let node = reservation_node(&reservation).cloned();
                if let Put::Taken(before) = self.reservations.put(name.clone(), &uid, version, reservation) {
                    let before = before.as_deref().and_then(reservation_node);
                    move_index(&mut self.reservations_by_node, before, node.as_ref(), &name);
                    concerned.extend(node.map(Concerns::Node));
                    concerned.insert(Concerns::Reservation(name));
                }
            }
            Object::NodeOverlay(_) => {
                concerned.insert(Concerns::Overlays);
            }
            // Only decisions depend on these.
            _ => {}
        }
    }

    /// The object of this uid is gone for good: no answer brings it back.
    pub(crate) fn remove(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        concerned: &mut BTreeSet<Concerns>,
    ) {
        self.drop_one(kind, namespace, name, uid, concerned);
        match kind {
            Kind::Pod => self.pods.bury(uid),
            Kind::Node => self.nodes.bury(uid),
            Kind::PersistentVolumeClaim => self.volumes.bury(uid),
            Kind::NodeClaim => self.claims.bury(uid),
            Kind::NodePool => self.pools.bury(uid),
            Kind::Reservation => self.reservations.bury(uid),
            Kind::VolumeAttachment => self.attachments.bury(uid),
            _ => {}
        }
    }

    fn note_unreadable(&mut self, kind: Kind, object: Unreadable, concerned: &mut BTreeSet<Concerns>) {
        let (namespace, name) = names(&object.metadata);
        tracing::warn!(kind = kind.as_str(), namespace, name, error = object.error, "an object cannot be read");
        if kind == Kind::Reservation {
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            self.drop_one(kind, &namespace, &name, uid, concerned);
            concerned.insert(Concerns::Reservation(name.clone()));
        }
        self.unreadable.insert((kind, name), object);
    }

    /// The object of a kind without namespaces, if it cannot be read.
    pub(crate) fn unreadable(&self, kind: Kind, name: &str) -> Option<&Unreadable> {
        self.unreadable.get(&(kind, name.to_owned()))
    }

    fn drop_one(&mut self, kind: Kind, namespace: &str, name: &str, uid: &str, concerned: &mut BTreeSet<Concerns>) {
        let name = name.to_owned();
        match kind {
            Kind::Pod => {
                let id = PodName { namespace: namespace.to_owned(), name };
                if let Some(pod) = self.pods.take(&id, uid) {
                    self.count_moving(Some(&pod), None);
                    move_index(&mut self.pods_by_node, pod.node.as_ref(), None, &id);
                    move_index(&mut self.rooms_by_node, room_on(&pod), None, &id);
                    concerned.extend(pod.node.clone().filter(|_| !pod.is_of_daemon_set).map(Concerns::PodsOn));
                    concerned.extend(pod.node.clone().map(Concerns::Node));
                    concerned.insert(Concerns::Pod(id));
                }
            }
            Kind::PersistentVolumeClaim => {
                let id = PodName { namespace: namespace.to_owned(), name };
                if self.volumes.take(&id, uid).is_some() {
                    concerned.insert(Concerns::VolumeClaim(id));
                }
            }
            Kind::Node => {
                if let Some(node) = self.nodes.take(&name, uid) {
                    self.not_ready.remove(&name);
                    self.tainted.remove(&name);
                    self.idle_nodes.remove(&name);
                    let id = provider_id(&node);
                    move_index(&mut self.nodes_by_provider_id, id, None, &name);
                    concerned.extend(self.claims_of(id));
                    concerned.insert(Concerns::Node(name));
                }
            }
            Kind::NodeClaim => {
                if let Some(claim) = self.claims.take(&name, uid) {
                    self.sums.subtract(&claim);
                    let id = claim_provider_id(&claim);
                    move_index(&mut self.claims_by_provider_id, id, None, &name);
                    concerned.extend(self.nodes_of(id.map(String::as_str)).map(|node| Concerns::Node(node.to_owned())));
                    concerned.extend(pool_of(&claim.metadata).map(|pool| Concerns::ClaimsOf(pool.to_owned())));
                    concerned.insert(Concerns::Claim(name));
                }
            }
            Kind::NodeOverlay => {
                concerned.insert(Concerns::Overlays);
            }
            Kind::VolumeAttachment => {
                if let Some(attachment) = self.attachments.take(&name, uid) {
                    move_index(&mut self.attachments_by_node, Some(&attachment.spec.node_name), None, &name);
                    concerned.insert(Concerns::Node(attachment.spec.node_name.clone()));
                }
            }
            Kind::NodePool => {
                concerned.extend(self.pools.take(&name, uid).map(|_| Concerns::Pool(name)));
            }
            Kind::Reservation => {
                if let Some(reservation) = self.reservations.take(&name, uid) {
                    let node = reservation_node(&reservation);
                    move_index(&mut self.reservations_by_node, node, None, &name);
                    concerned.extend(node.cloned().map(Concerns::Node));
                    concerned.insert(Concerns::Reservation(name));
                }
            }
            _ => {}
        }
    }

    fn names(&self, kind: Kind) -> Vec<(String, String, String)> {
        fn plain<T>(table: &Table<String, T>) -> Vec<(String, String, String)> {
            table.uids().map(|(name, uid)| (String::new(), name.clone(), uid.to_owned())).collect()
        }
        fn namespaced<T>(table: &Table<PodName, T>) -> Vec<(String, String, String)> {
            table.uids().map(|(id, uid)| (id.namespace.clone(), id.name.clone(), uid.to_owned())).collect()
        }
        match kind {
            Kind::Pod => namespaced(&self.pods),
            Kind::PersistentVolumeClaim => namespaced(&self.volumes),
            Kind::Node => plain(&self.nodes),
            Kind::NodeClaim => plain(&self.claims),
            Kind::NodePool => plain(&self.pools),
            Kind::Reservation => plain(&self.reservations),
            Kind::VolumeAttachment => plain(&self.attachments),
            _ => Vec::new(),
        }
    }

    /// A pod is another than before, came or went.
    fn count_moving(&mut self, before: Option<&PodRecord>, now: Option<&PodRecord>) {
        let node_of =
            |record: Option<&PodRecord>| record.filter(|pod| pod.has_to_move()).and_then(|pod| pod.node.clone());
        let (before, now) = (node_of(before), node_of(now));
        if before == now {
            return;
        }
        if let Some(node) = now {
            self.idle_nodes.remove(&node);
            *self.n_moving.entry(node).or_default() += 1;
        }
        if let Some(node) = before
            && let Some(count) = self.n_moving.get_mut(&node)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.n_moving.remove(&node);
                if self.nodes.get(&node).is_some() {
                    self.idle_nodes.insert(node);
                }
            }
        }
    }

    /// Whether a node has pods that would have to move, were it to go.
    pub(crate) fn has_moving_pods(&self, node: &str) -> bool {
        self.n_moving.contains_key(node)
    }

    /// What the launched nodes of a NodePool have.
    pub(crate) fn has(&self, pool: &str) -> Has {
        let count = || sums::count(self.claims.values().map(|claim| &**claim), pool);
        let has = self.sums.of(pool);
        debug_assert!(has.as_ref().is_none_or(|has| *has == count()), "of NodePool {pool}");
        has.unwrap_or_else(count)
    }

    /// The nodes that have none.
    pub(crate) fn idle_nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.idle_nodes.iter().filter_map(|name| self.nodes.get(name))
    }

    /// The pods on a node that are Reservations.
    pub(crate) fn rooms_on(&self, node: &str) -> impl Iterator<Item = &PodName> {
        self.rooms_by_node.get(node).into_iter().flatten()
    }

    /// The pods on a node, by name.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<PodRecord>> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|id| self.pods.get(id))
    }

    /// The names of the Reservations on a node.
    pub(crate) fn reservations_on(&self, node: &str) -> impl Iterator<Item = &String> {
        self.reservations_by_node.get(node).into_iter().flatten()
    }

    /// The volumes that are attached to a node.
    pub(crate) fn attachments_on(&self, node: &str) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments_by_node.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }

    /// The names of the nodes of an instance: one, unless something is very wrong.
    pub(crate) fn nodes_of(&self, provider_id: Option<&str>) -> impl Iterator<Item = &str> {
        let nodes = provider_id.and_then(|id| self.nodes_by_provider_id.get(id));
        nodes.into_iter().flatten().map(String::as_str)
    }

    /// The NodeClaims of a node's instance.
    pub(crate) fn claims_of_node(&self, node: &Node) -> impl Iterator<Item = &Arc<NodeClaim>> {
        let names = provider_id(node).and_then(|id| self.claims_by_provider_id.get(id));
        names.into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Whether some NodeClaim cannot be read.
    pub(crate) fn has_unreadable_claims(&self) -> bool {
        self.unreadable.keys().any(|(kind, _)| *kind == Kind::NodeClaim)
    }

    /// Whether a NodeClaim of this uid or name exists, readable or not.
    pub(crate) fn has_claim(&self, name: &str, uid: &str) -> bool {
        let is_unreadable =
            || self.unreadable(Kind::NodeClaim, name).is_some_and(|known| known.metadata.uid.as_deref() == Some(uid));
        self.claims.uid(name) == Some(uid) || is_unreadable()
    }

    fn claims_of(&self, provider_id: Option<&String>) -> Vec<Concerns> {
        let names = provider_id.and_then(|id| self.claims_by_provider_id.get(id));
        names.into_iter().flatten().cloned().map(Concerns::Claim).collect()
    }
}

/// The claim that a volume names.
fn claim_of(volume: &PersistentVolume) -> Option<PodName> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(PodName { namespace: claim.namespace.clone()?, name: claim.name.clone()? })
}

fn names(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The resourceVersion as a number; 0 where it is none, which then never counts as older.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn provider_id(node: &Node) -> Option<&String> {
    node.spec.as_ref()?.provider_id.as_ref().filter(|id| !id.is_empty())
}

/// The node on which a pod is a Reservation.
fn room_on(pod: &PodRecord) -> Option<&String> {
    pod.node.as_ref().filter(|_| pod.room.is_some())
}

fn reservation_node(reservation: &Reservation) -> Option<&String> {
    reservation.status.as_ref()?.node_name.as_ref()
}

fn claim_provider_id(claim: &NodeClaim) -> Option<&String> {
    claim.status.as_ref()?.provider_id.as_ref().filter(|id| !id.is_empty())
}

fn move_index<K: Ord + Clone, V: Ord + Clone>(
    index: &mut BTreeMap<K, BTreeSet<V>>,
    from: Option<&K>,
    to: Option<&K>,
    value: &V,
) {
    if from == to {
        return;
    }
    if let Some(from) = from {
        let is_empty = index.get_mut(from).is_some_and(|values| {
            values.remove(value);
            values.is_empty()
        });
        if is_empty {
            index.remove(from);
        }
    }
    if let Some(to) = to {
        index.entry(to.clone()).or_default().insert(value.clone());
    }
}

/// A set has a name, or does not any more.
fn keep_where(names: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if is_in {
        names.insert(name.to_owned());
    } else {
        names.remove(name);
    }
}

#[cfg(test)]
mod tests;
