//! What a state knows: objects, pods and nodes as they count, and as they were observed.

use std::borrow::Cow;
use std::sync::Arc;

use berth_model::{Keyed, KeyedMap};

use crate::entry::Entry;
use crate::event::RefusedObject;
use crate::kept::Kept;
use crate::object::{Name, Named};
use crate::{Key, Kind, NodeRecord, Object, PodRecord, State, Whole};

impl State {
    /// The object of a key as it counts: the newest version that was observed with what is assumed of it. A pod or a
    /// node is made from its record ([`State::pod`], [`State::node`]), without what was dropped.
    pub fn get(&self, key: &Key) -> Option<Object> {
        Some(self.entries.get(key)?.current()?.to_object())
    }

    /// Whether there is an object of a key, as it counts.
    pub fn has(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.current().is_some())
    }

    /// The uid of an object as it counts.
    pub fn uid_of(&self, key: &Key) -> Option<Cow<'_, str>> {
        self.entries.get(key)?.current()?.uid()
    }

    /// The uid of an object as it was observed.
    pub fn observed_uid(&self, key: &Key) -> Option<Cow<'_, str>> {
        self.entries.get(key)?.observed()?.uid()
    }

    /// The newest version of an object that was observed, whatever is assumed of it, as [`State::get`] has it.
    pub fn observed(&self, key: &Key) -> Option<Object> {
        Some(self.entries.get(key)?.observed()?.to_object())
    }

    /// Why an object cannot be used, if so.
    pub fn refused_as(&self, key: &Key) -> Option<&RefusedObject> {
        self.entries.get(key)?.refused()
    }

    /// The object of a type, namespace and name as it counts.
    pub fn get_as<T: Whole>(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.entries.get(&Name::new(T::KIND, namespace, name) as &dyn Named)?.current()?.whole()
    }

    /// The pod of a namespace and name as it counts.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<PodRecord>> {
        self.entries.get(&Name::new(Kind::Pod, namespace, name) as &dyn Named)?.current()?.pod()
    }

    /// The newest version of a pod that was observed, whatever is assumed of it.
    pub fn observed_pod(&self, namespace: &str, name: &str) -> Option<&Arc<PodRecord>> {
        self.entries.get(&Name::new(Kind::Pod, namespace, name) as &dyn Named)?.observed()?.pod()
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Entry)> {
        let from = Key { kind, namespace: "".into(), name: "".into() };
        self.entries.from(&from).take_while(move |(key, _)| key.kind == kind)
    }

    /// The node of a name as it counts.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeRecord>> {
        self.entries.get(&Name::new(Kind::Node, "", name) as &dyn Named)?.current()?.node()
    }

    /// All nodes as they count, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeRecord>> {
        self.of_kind(Kind::Node).filter_map(|(_, entry)| entry.current()?.node())
    }

    /// All nodes, each with the newest version that was observed, whatever is assumed of it.
    pub fn nodes_with_observed(&self) -> impl Iterator<Item = (&Arc<NodeRecord>, Option<&Arc<NodeRecord>>)> {
        let of_kind = self.of_kind(Kind::Node);
        of_kind.filter_map(|(_, entry)| Some((entry.current()?.node()?, entry.observed().and_then(Kept::node))))
    }

    /// The node of a name, with the newest version that was observed, whatever is assumed of it.
    pub fn node_with_observed(&self, name: &str) -> Option<(&Arc<NodeRecord>, Option<&Arc<NodeRecord>>)> {
        let entry = self.entries.get(&Name::new(Kind::Node, "", name) as &dyn Named)?;
        Some((entry.current()?.node()?, entry.observed().and_then(Kept::node)))
    }

    /// All objects of a kind as they count, by namespace and name. Pods are made from their records ([`State::pods`]).
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = (&Key, Object)> {
        self.of_kind(kind).filter_map(|(key, entry)| Some((key, entry.current()?.to_object())))
    }

    /// All objects of a type as they count, by namespace and name.
    pub fn all<T: Whole>(&self) -> impl Iterator<Item = &Arc<T>> {
        self.of_kind(T::KIND).filter_map(|(_, entry)| entry.current()?.whole())
    }

    /// All pods as they count, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodRecord>> {
        self.of_kind(Kind::Pod).filter_map(|(_, entry)| entry.current()?.pod())
    }

    /// All pods, each with the newest version that was observed, whatever is assumed of it.
    pub fn pods_with_observed(&self) -> impl Iterator<Item = (&Arc<PodRecord>, Option<&Arc<PodRecord>>)> {
        let of_kind = self.of_kind(Kind::Pod);
        of_kind.filter_map(|(_, entry)| Some((entry.current()?.pod()?, entry.observed().and_then(Kept::pod))))
    }

    /// An empty map of names, which hashes with the key of the state's options.
    pub fn keyed_map<K, V>(&self) -> KeyedMap<K, V> {
        KeyedMap::with_hasher(Keyed::with_key(self.options.hash_key))
    }

    /// The pods that are bound to a node, by namespace and name.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<PodRecord>> {
        self.links.pods_on(node).iter()
    }
}
