//! The garbage collector: dependents follow their owners, are waited for, or are orphaned.
//!
//! As upstream, a graph of all objects says what may have to be done, and a live read of the dependent and of each of its
//! owners decides: the graph is made of many watches, of which each may lag behind the others.

mod collect;
mod discovery;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::Resource;
use crate::work::Work;

pub(crate) use collect::{attempt_to_delete, attempt_to_orphan, missing_owner};
pub(crate) use discovery::{Dynamic, RestMap, discover, empty_namespace};

/// Waits for the dependents that block it.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Waits until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// Objects as far as ownership goes.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: FxHashMap<Arc<str>, Node>,
    /// Dependents by the UID of their owner.
    dependents: FxHashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// How many objects a namespace has of a resource.
    counts: FxHashMap<Arc<str>, BTreeMap<Arc<Resource>, usize>>,
    resources: BTreeSet<Arc<Resource>>,
    /// The resources that are there, once they have been discovered.
    pub(crate) rest: Option<Arc<RestMap>>,
    /// Owners that nobody has seen and whose kind no resource serves: they are looked up again and again until one does.
    of_no_kind: FxHashSet<Arc<str>>,
    pub(crate) dynamic: BTreeMap<(String, String), Dynamic>,
}

#[derive(Debug, Clone)]
struct Node {
    resource: Arc<Resource>,
    key: NamespacedName,
    owners: Arc<[OwnerReference]>,
    is_deleted: bool,
    waits: bool,
    orphans: bool,
}

impl Node {
    /// Whether it is being deleted and waits for its dependents.
    fn is_waiting(&self) -> bool {
        self.is_deleted && self.waits
    }
}

impl Node {
    /// Whether a dependent's reference says of it what it is. One that says something else may be to an object that is not
    /// there: an owner in another namespace is none.
    fn is_named_by(&self, owner: &OwnerReference, dependent: &View<'_>) -> bool {
        *self.key.name == *owner.name
            && *self.resource.kind == *owner.kind
            && self.resource.api_version() == owner.api_version
            && (self.key.namespace.is_empty() || *self.key.namespace == *dependent.namespace)
    }
}

impl Graph {
    fn intern(&mut self, resource: &Resource) -> Arc<Resource> {
        if let Some(known) = self.resources.get(resource) {
            return known.clone();
        }
        let new = Arc::new(resource.clone());
        self.resources.insert(new.clone());
        new
    }

    /// Owners as another dependent of theirs has them, or anew.
    fn shared(&self, owners: &[OwnerReference]) -> Arc<[OwnerReference]> {
        let beside = owners.first().and_then(|owner| self.dependents(&owner.uid).next());
        match beside {
            Some((_, node)) if *node.owners == *owners => node.owners.clone(),
            _ => owners.into(),
        }
    }

    fn count(&mut self, resource: &Arc<Resource>, namespace: &Arc<str>, more: bool) -> usize {
        let of = self.counts.entry(namespace.clone()).or_default();
        let count = of.entry(resource.clone()).or_insert(0);
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        let left = *count;
        if left == 0 {
            of.remove(resource);
        }
        if of.is_empty() {
            self.counts.remove(namespace);
        }
        left
    }

    /// How many objects of a resource a namespace has.
    pub(crate) fn count_of(&self, namespace: &str, group: &str, plural: &str) -> usize {
        let of = self.counts.get(namespace).into_iter().flatten();
        of.filter(|(resource, _)| resource.is(group, plural)).map(|(_, count)| count).sum()
    }

    /// Whether a namespace has nothing any more.
    fn is_empty(&self, namespace: &str) -> bool {
        !self.counts.contains_key(namespace)
    }

    fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| Some((uid, self.nodes.get(uid)?)))
    }

    fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// Whether no resource serves the kind of an owner.
    fn is_of_no_kind(&self, owner: &OwnerReference) -> bool {
        let known = self.rest.as_ref();
        known.is_some_and(|rest| rest.resource_of(&owner.api_version, &owner.kind).is_none())
    }

    /// Whether an owner that nobody has seen is looked up again for all of its dependents in any case.
    fn is_looked_up(&self, owner: &OwnerReference) -> bool {
        self.of_no_kind.contains(owner.uid.as_str()) && self.is_of_no_kind(owner)
    }
}

impl Core {
    /// Takes in a change of any object.
    pub(crate) fn observe_graph(&mut self, resource: &Resource, old: Option<View<'_>>, new: Option<View<'_>>) {
        match (old, new) {
            (_, Some(new)) => self.graph_changed(resource, &new),
            (Some(old), None) => self.graph_removed(&old),
            (None, None) => {}
        }
    }

    fn graph_changed(&mut self, resource: &Resource, view: &View<'_>) {
        let has = |finalizer: &str| view.finalizers.iter().any(|own| own == finalizer);
        let (waits, orphans) = (has(FOREGROUND), has(ORPHAN));
        let old = self.graph.nodes.get(view.uid);
        // A heartbeat, a status: nothing that ownership knows of.
        if old.is_some_and(|old| {
            *old.owners == *view.owners && (old.is_deleted, old.waits, old.orphans) == (view.is_deleted, waits, orphans)
        }) {
            return;
        }
        let before = old.cloned();
        let uid: Arc<str> = view.uid.into();
        let node = Node {
            resource: self.graph.intern(resource),
            key: view.key(),
            owners: self.graph.shared(view.owners),
            is_deleted: view.is_deleted,
            waits,
            orphans,
        };
        let old_owners = before.as_ref().map(|old| old.owners.clone()).unwrap_or_default();
        for owner in old_owners.iter().filter(|owner| !view.owners.iter().any(|new| new.uid == owner.uid)) {
            self.graph_unlink(&owner.uid, &uid);
        }
        let mut has_news = false;
        for owner in view.owners {
            if !old_owners.iter().any(|old| old.uid == owner.uid) {
                let owner_uid = self.graph.nodes.get_key_value(owner.uid.as_str()).map(|(uid, _)| uid.clone());
                let is_known = owner_uid.is_some();
                let owner_uid = owner_uid.unwrap_or_else(|| owner.uid.as_str().into());
                self.graph.dependents.entry(owner_uid.clone()).or_default().insert(uid.clone());
                if is_known {
                    let known = self.graph.nodes.get(&owner_uid);
                    has_news |= known.is_some_and(|known| known.is_waiting() || !known.is_named_by(owner, view));
                } else if !self.graph.is_looked_up(owner) {
                    self.add(Work::MissingOwner(owner_uid));
                }
            }
            // It does not block its owner any more.
            let blocked = |owners: &[OwnerReference]| {
                owners.iter().any(|one| one.uid == owner.uid && one.block_owner_deletion == Some(true))
            };
            if blocked(&old_owners) && !blocked(view.owners) {
                self.wake_waiting(&owner.uid);
            }
        }
        let was_waiting = before.as_ref().is_some_and(Node::is_waiting);
        let was_orphaning = before.as_ref().is_some_and(|old| old.is_deleted && old.orphans);
        if before.is_none() {
            let resource = node.resource.clone();
            self.graph.count(&resource, &node.key.namespace, true);
            self.counted(&resource, &node.key.namespace);
        }
        let (is_waiting, is_orphaning) = (node.is_waiting(), node.is_deleted && node.orphans);
        let changed_owners = before.is_some() && *old_owners != *view.owners;
        self.graph.nodes.insert(uid.clone(), node);
        if is_orphaning && !was_orphaning {
            self.add(Work::AttemptToOrphan(uid));
        } else if is_waiting && !was_waiting {
            self.add_dependents(&uid);
            self.add(Work::AttemptToDelete(uid));
        } else if has_news || changed_owners {
            self.add(Work::AttemptToDelete(uid));
        }
    }

    fn graph_removed(&mut self, view: &View<'_>) {
        let Some((uid, node)) = self.graph.nodes.remove_entry(view.uid) else { return };
        for owner in node.owners.iter() {
            self.graph_unlink(&owner.uid, &uid);
        }
        self.add_dependents(&uid);
        self.graph.count(&node.resource, &node.key.namespace, false);
        self.counted(&node.resource, &node.key.namespace);
        let namespace = &node.key.namespace;
        if !namespace.is_empty() && self.graph.is_empty(namespace) {
            let key = NamespacedName::new("", namespace);
            let is_ending = self.caches.namespaces.get(&key);
            if is_ending.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
                self.add(Work::Namespace(namespace.clone()));
            }
        }
    }

    /// A dependent is gone, or does not name its owner any more.
    fn graph_unlink(&mut self, owner: &str, dependent: &Arc<str>) {
        if let Some(dependents) = self.graph.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.graph.dependents.remove(owner);
            }
        }
        self.wake_waiting(owner);
    }

    fn wake_waiting(&mut self, owner: &str) {
        if let Some((uid, _)) = self.graph.nodes.get_key_value(owner).filter(|(_, node)| node.is_waiting()) {
            let uid = uid.clone();
            self.add(Work::AttemptToDelete(uid));
        }
    }

    fn add_dependents(&mut self, owner: &str) {
        let dependents: Vec<_> = self.graph.dependents.get(owner).into_iter().flatten().cloned().collect();
        for dependent in dependents {
            self.add(Work::AttemptToDelete(dependent));
        }
    }
}
