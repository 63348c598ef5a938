//! The cache of one resource, kept by its watch and by the answers to our own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cache::Caches;
use crate::key::NamespacedName;
use crate::objects::View;

/// An object with the metadata that all have.
pub(crate) trait Kept: Clone + PartialEq + Send + Sync + 'static {
    fn view(&self) -> View<'_>;

    /// The same, which shares with what is known already.
    fn sharing(self, _: &Caches) -> Self {
        self
    }
}

/// What changed in a cache.
#[derive(Debug)]
pub(crate) struct Delta<T> {
    pub(crate) key: NamespacedName,
    pub(crate) old: Option<Arc<T>>,
    pub(crate) new: Option<Arc<T>>,
}

/// The objects of a resource as far as they are known.
///
/// Our own writes are seen at once: a controller that has just created pods must not create them again because the watch
/// lags. Versions decide which of the two knows more.
#[derive(Debug)]
pub(crate) struct Store<T> {
    objects: FxHashMap<NamespacedName, Arc<T>>,
    /// The names of all, in order.
    names: BTreeSet<NamespacedName>,
    /// The version up to which the watch has told everything.
    position: u64,
    /// UIDs that we deleted and of which the watch may still tell older states.
    gone: FxHashSet<Box<str>>,
    synced: bool,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: FxHashMap::default(),
            names: BTreeSet::new(),
            position: 0,
            gone: FxHashSet::default(),
            synced: false,
        }
    }
}

impl<T: Kept> Store<T> {
    pub(crate) fn get(&self, key: &NamespacedName) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &Arc<T>)> {
        self.names.iter().filter_map(|key| self.objects.get_key_value(key))
    }

    /// The objects of a namespace, in order of their names.
    pub(crate) fn namespace<'s>(
        &'s self,
        namespace: &'s str,
    ) -> impl Iterator<Item = (&'s NamespacedName, &'s Arc<T>)> {
        let first = NamespacedName::new(namespace, "");
        let names = self.names.range(first..).take_while(move |key| &*key.namespace == namespace);
        names.filter_map(|key| self.objects.get_key_value(key))
    }

    /// Whether the resource has been listed once.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Takes in an object of a list that is under way.
    pub(crate) fn page(&mut self, object: T) -> Option<Delta<T>> {
        self.put(object)
    }

    /// Takes in which objects a whole list of a version had. The others are gone, unless we wrote them later.
    pub(crate) fn listed(&mut self, keys: &BTreeSet<NamespacedName>, version: u64) -> Vec<Delta<T>> {
        self.synced = true;
        self.gone.clear();
        let missing = self.iter();
        let missing = missing.filter(|(key, object)| !keys.contains(*key) && number(object.view().version) <= version);
        let missing: Vec<NamespacedName> = missing.map(|(key, _)| key.clone()).collect();
        self.position = self.position.max(version);
        missing.into_iter().map(|key| Delta { old: self.take_out(&key), key, new: None }).collect()
    }

    /// Takes in an object that a watch added or modified.
    pub(crate) fn upsert(&mut self, object: T) -> Option<Delta<T>> {
        self.position = self.position.max(number(object.view().version));
        self.put(object)
    }

    /// Takes in that a watch told the end of an object.
    pub(crate) fn remove(&mut self, last: &T) -> Option<Delta<T>> {
        let view = last.view();
        self.position = self.position.max(number(view.version));
        self.gone.remove(view.uid);
        self.forget(&view.key(), view.uid)
    }

    /// Takes in a bookmark.
    pub(crate) fn advance(&mut self, version: u64) {
        self.position = self.position.max(version);
    }

    /// Takes in the answer to our own write.
    pub(crate) fn wrote(&mut self, object: T) -> Option<Delta<T>> {
        // The watch has told this and perhaps more, such as its end.
        if number(object.view().version) <= self.position { None } else { self.put(object) }
    }

    /// Takes in that we deleted an object and it is gone.
    pub(crate) fn deleted(&mut self, key: &NamespacedName, uid: &str) -> Option<Delta<T>> {
        let delta = self.forget(key, uid)?;
        self.gone.insert(uid.into());
        Some(delta)
    }

    fn put(&mut self, object: T) -> Option<Delta<T>> {
        let view = object.view();
        if self.gone.contains(view.uid) {
            return None;
        }
        let key = view.key();
        let old = self.objects.get(&key);
        if old.is_some_and(|old| number(old.view().version) >= number(view.version)) {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), new.clone());
        if old.is_none() {
            self.names.insert(key.clone());
        }
        Some(Delta { key, old, new: Some(new) })
    }

    fn take_out(&mut self, key: &NamespacedName) -> Option<Arc<T>> {
        self.names.remove(key);
        self.objects.remove(key)
    }

    fn forget(&mut self, key: &NamespacedName, uid: &str) -> Option<Delta<T>> {
        // An object of the same name that was created later stays.
        self.objects.get(key).filter(|known| known.view().uid == uid)?;
        let old = self.take_out(key);
        Some(Delta { key: key.clone(), old, new: None })
    }
}

/// Versions of Kubernetes are numbers that grow (KEP-5504); what is none is older than all.
pub(crate) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{AnyObject, Meta};

    fn object(name: &str, uid: &str, version: u64) -> AnyObject {
        let version = version.to_string().into();
        AnyObject {
            metadata: Meta { name: name.into(), uid: uid.into(), resource_version: version, ..Meta::default() },
        }
    }

    fn list(store: &mut Store<AnyObject>, items: Vec<AnyObject>, version: u64) -> usize {
        let keys = items.iter().map(|item| item.view().key()).collect();
        for item in items {
            store.page(item);
        }
        store.listed(&keys, version).len()
    }

    fn versions(store: &Store<AnyObject>) -> Vec<(String, u64)> {
        store.iter().map(|(key, object)| (key.to_string(), number(object.view().version))).collect()
    }

    #[test]
    fn our_own_write_is_seen_at_once_and_older_states_do_not_undo_it() {
        let mut store = Store::default();
        list(&mut store, vec![object("a", "1", 5)], 5);
        assert!(store.wrote(object("a", "1", 9)).is_some());
        assert!(store.upsert(object("a", "1", 7)).is_none());
        assert_eq!(versions(&store), [("a".to_owned(), 9)]);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_the_watch_has_told_to_be_gone() {
        let mut store = Store::default();
        store.upsert(object("a", "1", 7));
        store.remove(&object("a", "1", 8));
        assert!(store.wrote(object("a", "1", 7)).is_none());
        assert!(versions(&store).is_empty());
    }

    #[test]
    fn what_we_deleted_is_not_brought_back_by_a_watch_that_lags() {
        let mut store = Store::default();
        store.upsert(object("a", "1", 5));
        assert!(store.deleted(&NamespacedName::new("", "a"), "1").is_some());
        assert!(store.upsert(object("a", "1", 6)).is_none());
        store.remove(&object("a", "1", 7));
        assert!(store.upsert(object("a", "2", 8)).is_some());
    }

    #[test]
    fn a_list_ends_what_it_does_not_name_but_not_what_was_written_later() {
        let mut store = Store::default();
        list(&mut store, vec![object("a", "1", 1), object("b", "2", 2)], 2);
        store.wrote(object("c", "3", 9));
        assert_eq!(list(&mut store, vec![object("b", "2", 2)], 5), 1);
        assert_eq!(versions(&store), [("b".to_owned(), 2), ("c".to_owned(), 9)]);
    }

    #[test]
    fn the_end_of_an_object_does_not_take_its_successor_of_the_same_name() {
        let mut store = Store::default();
        store.wrote(object("a", "2", 9));
        assert!(store.remove(&object("a", "1", 8)).is_none());
        assert_eq!(versions(&store), [("a".to_owned(), 9)]);
    }
}
