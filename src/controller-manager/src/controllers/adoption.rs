//! Adoption: a workload adopts objects that it selects and that have no controller, and releases what it selects no more.

use std::sync::Arc;

use kube::core::{Selector, SelectorExt};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::core::{Core, controlled_by};
use crate::key::NamespacedName;
use crate::objects::{Meta, Pod, View};
use crate::resource::Resource;
use crate::store::Kept;
use crate::work::Work;
use crate::write::{Effect, Failure, Write};

/// A workload that adopts.
pub(crate) struct Owner<'o> {
    pub(crate) resource: &'static Resource,
    pub(crate) view: View<'o>,
    pub(crate) selector: Option<Selector>,
}

/// What a workload owns of one resource, or what has to be done before that can be said.
pub(crate) enum Claimed<T> {
    Owned(Vec<T>),
    First(Effect),
}

impl Owner<'_> {
    /// The pods that a workload controls. `may_adopt` says which others it takes.
    pub(crate) fn pods(&self, core: &Core, work: &Work, may_adopt: impl Fn(&Pod) -> bool) -> Claimed<Arc<Pod>> {
        let caches = &core.caches;
        let own = caches.indexes.pods_of.get(self.view.uid).filter_map(|key| caches.pods.get(key)).cloned();
        let free = caches.indexes.orphans.members(work).filter_map(|key| caches.pods.get(key));
        let free = free.filter(|pod| !pod.is_terminating() && may_adopt(pod));
        self.claim(core, &crate::resource::PODS, own.collect(), free)
    }

    /// By node, how many pods run there of a ReplicaSet and of others that have the same controller.
    pub(crate) fn beside(&self, core: &Core) -> FxHashMap<Box<str>, usize> {
        let caches = &core.caches;
        let sets: Vec<&str> = match self.view.controller() {
            Some(above) => {
                let sets =
                    caches.indexes.sets_of.get(above.uid.as_str()).filter_map(|key| caches.replica_sets.get(key));
                sets.filter_map(|set| set.metadata.uid.as_deref()).collect()
            }
            None => vec![self.view.uid],
        };
        let mut beside: FxHashMap<Box<str>, usize> = FxHashMap::default();
        for set in sets {
            let pods = caches.indexes.pods_of.get(set).filter_map(|key| caches.pods.get(key));
            for node in pods.filter(|pod| pod.is_active()).filter_map(|pod| pod.node()) {
                match beside.get_mut(node) {
                    Some(count) => *count += 1,
                    None => drop(beside.insert(node.into(), 1)),
                }
            }
        }
        beside
    }

    /// Of what it controls, keeps what it selects and releases the rest; adopts what is free.
    pub(crate) fn claim<'f, T: Kept>(
        &self,
        core: &Core,
        resource: &'static Resource,
        own: Vec<Arc<T>>,
        free: impl Iterator<Item = &'f Arc<T>>,
    ) -> Claimed<Arc<T>> {
        let mut writes = Vec::new();
        let mut kept = Vec::with_capacity(own.len());
        for object in own {
            let view = object.view();
            let is_selected = self.selector.as_ref().is_none_or(|selector| selector.matches(view.labels));
            if is_selected || view.is_deleted {
                kept.push(object);
            } else {
                let left: Vec<_> = view.owners.iter().filter(|owner| owner.uid != self.view.uid).cloned().collect();
                writes.push(Write::set_owners(resource, view, &left));
            }
        }
        let mut adopts = Vec::new();
        for object in free {
            let view = object.view();
            let mut owners = view.owners.to_vec();
            owners.push(controlled_by(self.resource, self.view));
            adopts.push(Write::set_owners(resource, view, &owners));
        }
        if adopts.is_empty() {
            return if writes.is_empty() {
                Claimed::Owned(kept)
            } else {
                Claimed::First(Effect::Burst(writes, Vec::new()))
            };
        }
        Claimed::First(self.adopt(core, writes, adopts))
    }

    /// Adopts, if a live read says that the workload is not being deleted: else what its deletion has just orphaned would
    /// be adopted again, and deleted with it.
    fn adopt(&self, core: &Core, releases: Vec<Write>, adopts: Vec<Write>) -> Effect {
        #[derive(Deserialize)]
        struct Live {
            metadata: Meta,
        }
        let (client, key, uid) = (core.client.clone(), self.view.key(), self.view.uid.to_owned());
        let resource = self.resource;
        Effect::Task(Box::pin(async move {
            let failure = |key: &NamespacedName, source: kube::Error| Failure::Request {
                verb: http::Method::GET,
                resource: resource.plural.to_string(),
                key: key.clone(),
                source: Box::new(source),
                tells: None,
            };
            let request = http::Request::get(format!("{}/{}", resource.path(&key.namespace), key.name));
            let request = request.body(Vec::new()).map_err(|error| failure(&key, kube::Error::HttpError(error)))?;
            let live: Live = client.request(request).await.map_err(|error| failure(&key, error))?;
            let may = *live.metadata.uid == *uid && live.metadata.deletion_timestamp.is_none();
            let mut written = Vec::new();
            for write in releases.into_iter().chain(adopts.into_iter().filter(|_| may)) {
                written.push(write.send(&client).await?);
            }
            Ok(written)
        }))
    }
}
