//! Objects of one kind, each in its newest version.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashSet;

/// How many uids of deleted objects are remembered: a late answer comes within seconds.
const BURIED: usize = 16_384;

/// Objects by name, with uid and version.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    objects: BTreeMap<K, Known<T>>,
    buried: FxHashSet<String>,
    buried_order: VecDeque<String>,
}

/// What became of a version of an object.
#[derive(Debug)]
pub(crate) enum Put<T> {
    /// It says nothing new.
    Stale,
    /// It is known now, in place of an earlier one.
    Taken(Option<T>),
}

#[derive(Debug)]
struct Known<T> {
    uid: String,
    version: u64,
    object: T,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), buried: FxHashSet::default(), buried_order: VecDeque::new() }
    }
}

// === impl Table ===

impl<K: Ord + Clone, T> Table<K, T> {
    /// Takes in a version of an object, unless it is older than what is known or its object is gone.
    pub(crate) fn put(&mut self, key: K, uid: &str, version: u64, object: T) -> Put<T> {
        if self.buried.contains(uid) {
            return Put::Stale;
        }
        if let Some(known) = self.objects.get(&key)
            && version != 0
            && known.version >= version
            // Versions count over all objects of a kind, so this holds for another uid, too.
            && (known.uid == uid || known.version > version)
        {
            return Put::Stale;
        }
        let before = self.objects.insert(key, Known { uid: uid.to_owned(), version, object });
        Put::Taken(before.map(|before| before.object))
    }

    /// Removes an object of this uid.
    pub(crate) fn take(&mut self, key: &K, uid: &str) -> Option<T> {
        if self.objects.get(key).is_none_or(|known| known.uid != uid) {
            return None;
        }
        self.objects.remove(key).map(|known| known.object)
    }

    /// No version of the object of this uid is taken in any more.
    pub(crate) fn bury(&mut self, uid: &str) {
        if !uid.is_empty() && self.buried.insert(uid.to_owned()) {
            self.buried_order.push_back(uid.to_owned());
            if self.buried_order.len() > BURIED
                && let Some(oldest) = self.buried_order.pop_front()
            {
                self.buried.remove(&oldest);
            }
        }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        self.objects.get(key).map(|known| &known.object)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn uid<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&str>
    where
        K: Borrow<Q>,
    {
        self.objects.get(key).map(|known| known.uid.as_str())
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = (&K, &str)> {
        self.objects.iter().inspect(|_| visit()).map(|(key, known)| (key, known.uid.as_str()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.objects.iter().inspect(|_| visit()).map(|(key, known)| (key, &known.object))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values().inspect(|_| visit()).map(|known| &known.object)
    }
}

/// One more object was come to by going through a table. Only tests count: what happens often must not go through any.
fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many objects this thread has come to by going through tables.
#[cfg(test)]
pub(crate) fn n_visits() -> usize {
    VISITS.with(std::cell::Cell::get)
}
