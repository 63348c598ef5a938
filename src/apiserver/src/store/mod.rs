//! What is stored: objects by resource and key, one monotonic version over all, and the history that watches read.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

mod charges;
mod frozen;
mod object;
#[cfg(test)]
mod tests;
mod texts;

use charges::Charges;
use frozen::Frozen;
pub(crate) use object::{Draft, Object, member, text_of, without_type};
pub(crate) use texts::{FieldPaths, Fields};

use crate::latest::{Follower, Latest};

/// So many objects that were written last keep their values.
const FRESH: usize = 512;
/// So many of the last changes are looked through for those that a watch has not seen, before all are.
const FEW: usize = 8;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One write, as watches see it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    /// The object after the write; of a deletion its last state, at the version of the deletion.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
}

impl Change {
    /// What it alone keeps in memory: the text before it. The text after it is that of the object that is there, or the text
    /// before a later change, unless it is the last.
    fn bytes(&self) -> usize {
        let last = if self.kind == ChangeKind::Deleted { self.object.body.len() } else { 0 };
        self.previous.as_ref().map_or(0, |previous| previous.body.len()).saturating_add(last)
    }
}

/// Why a write did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    Exists,
    Missing,
    /// The object is at another version.
    Moved,
}

/// A version of which no history is kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest version after which a watch could start.
    pub(crate) oldest: u64,
}

/// A consistent part of a collection.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The version at which this is the state.
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Object>>,
    /// How many objects follow, and the key of the last one returned, where there are any.
    pub(crate) rest: Option<Rest>,
}

/// What a page leaves out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) after: String,
    pub(crate) remaining: usize,
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Range<'a> {
    /// Only keys that begin so.
    pub(crate) prefix: &'a str,
    /// Only keys after this one.
    pub(crate) after: Option<&'a str>,
    /// The state at this version, where not the present one.
    pub(crate) at: Option<u64>,
    /// At most so many; 0 is all.
    pub(crate) limit: usize,
}

/// What a collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) objects: u64,
    pub(crate) history_bytes: u64,
    pub(crate) watches: u64,
}

/// The objects of a server.
#[derive(Debug)]
pub(crate) struct Store {
    inner: RwLock<Inner>,
    history_limit: HistoryLimit,
}

/// How much each collection remembers: whichever bound is reached first decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryLimit {
    /// Changes; at least one is kept.
    pub(crate) changes: usize,
    /// Bytes of the texts that only the changes hold.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    /// No collection has a history up to this version.
    compacted: u64,
    collections: BTreeMap<String, Collection>,
    charges: Charges,
    /// Objects whose values are kept, oldest first.
    fresh: VecDeque<Arc<Object>>,
}

#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    history: VecDeque<Change>,
    /// The sum of [`Change::bytes`] over the history.
    history_bytes: usize,
    /// Changes up to this version are no longer in the history.
    compacted: u64,
    latest: Latest,
    /// States that lists in pages are reading.
    frozen: Mutex<Frozen>,
}

/// The first text after all that begin with a prefix; none where nothing comes after them.
fn after_all(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    loop {
        let next = u32::from(end.pop()?) + 1;
        // Between the halves of the range of characters are numbers that are none.
        if let Some(next) = (next..=u32::from(char::MAX)).find_map(char::from_u32) {
            end.push(next);
            return Some(end);
        }
    }
}

// === impl Store ===

impl Store {
    /// An empty store.
    pub(crate) fn new(history_limit: HistoryLimit) -> Self {
        let inner = Inner { revision: 1, ..Inner::default() };
        Self { inner: RwLock::new(inner), history_limit }
    }

    /// The version of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.inner.read().revision
    }

    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<Arc<Object>> {
        self.inner.read().collections.get(resource)?.objects.get(key).cloned()
    }

    /// Adds an object.
    pub(crate) fn create(&self, resource: &str, key: &str, draft: Draft) -> Result<Arc<Object>, Refused> {
        let mut inner = self.inner.write();
        let revision = inner.revision + 1;
        let (collection, charges) = inner.collection(resource);
        if collection.objects.contains_key(key) {
            return Err(Refused::Exists);
        }
        let object = Arc::new(draft.at(key, revision, |charge| charges.share(charge, None)));
        collection.objects.insert(key.to_owned(), object.clone());
        collection.record(ChangeKind::Added, object.clone(), None, self.history_limit);
        let latest = collection.latest.clone();
        inner.keep_fresh(&object);
        Self::finish(inner, revision, &latest);
        Ok(object)
    }

    /// Replaces an object that is at the version `expected`.
    pub(crate) fn update(
        &self,
        resource: &str,
        key: &str,
        expected: u64,
        draft: Draft,
    ) -> Result<Arc<Object>, Refused> {
        let mut inner = self.inner.write();
        let revision = inner.revision + 1;
        let (collection, charges) = inner.collection(resource);
        let slot = collection.objects.get_mut(key).ok_or(Refused::Missing)?;
        if slot.revision != expected {
            return Err(Refused::Moved);
        }
        let object = Arc::new(draft.at(key, revision, |charge| charges.share(charge, slot.charge.as_ref())));
        let previous = std::mem::replace(slot, object.clone());
        collection.record(ChangeKind::Modified, object.clone(), Some(previous), self.history_limit);
        let latest = collection.latest.clone();
        inner.keep_fresh(&object);
        Self::finish(inner, revision, &latest);
        Ok(object)
    }

    /// Removes an object that is at the version `expected`; `last` is its state as watches see it.
    pub(crate) fn delete(&self, resource: &str, key: &str, expected: u64, last: Draft) -> Result<Arc<Object>, Refused> {
        let mut inner = self.inner.write();
        let revision = inner.revision + 1;
        let (collection, charges) = inner.collection(resource);
        let slot = collection.objects.get(key).ok_or(Refused::Missing)?;
        if slot.revision != expected {
            return Err(Refused::Moved);
        }
        let object = Arc::new(last.at(key, revision, |charge| charges.share(charge, slot.charge.as_ref())));
        let previous = collection.objects.remove(key);
        collection.record(ChangeKind::Deleted, object.clone(), previous, self.history_limit);
        let latest = collection.latest.clone();
        Self::finish(inner, revision, &latest);
        Ok(object)
    }

    /// Ends a write. Those who wait for it are woken once the lock is free again: all of them want it at once.
    fn finish(mut inner: RwLockWriteGuard<'_, Inner>, revision: u64, latest: &Latest) {
        inner.revision = revision;
        drop(inner);
        latest.raise(revision);
    }

    /// The objects of a range, in order of key.
    pub(crate) fn list(&self, resource: &str, range: &Range<'_>) -> Result<Page, Compacted> {
        let inner = self.inner.read();
        let mut page = Page { revision: range.at.unwrap_or(inner.revision), ..Page::default() };
        let Some(collection) = inner.collections.get(resource) else {
            let is_known = range.at.is_none_or(|at| at >= inner.compacted);
            return if is_known { Ok(page) } else { Err(Compacted { oldest: inner.compacted }) };
        };
        if let Some(at) = range.at.filter(|at| *at < inner.revision) {
            if at < collection.compacted {
                return Err(Compacted { oldest: collection.compacted });
            }
            let mut frozen = collection.frozen.lock();
            let state = if let Some(state) = frozen.at(at) {
                state
            } else {
                let state = collection.past(at)?;
                // Who asks for a page goes on, most likely.
                if range.limit > 0 {
                    frozen.keep(at, state.clone());
                }
                state
            };
            frozen::fill(&mut page, &state, range);
            return Ok(page);
        }
        if range.limit > 0 {
            collection.present_page(&mut page, range);
            return Ok(page);
        }
        let start = range.after.map_or(Bound::Included(range.prefix), Bound::Excluded);
        let end = after_all(range.prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        page.items.extend(collection.objects.range::<str, _>((start, end)).map(|(_, object)| object.clone()));
        Ok(page)
    }

    /// The present objects of a prefix that are selected, in order of key; at most `limit`, unless it is 0. What is beyond
    /// them is not counted.
    pub(crate) fn select(&self, resource: &str, prefix: &str, limit: usize, selects: impl Fn(&Object) -> bool) -> Page {
        let inner = self.inner.read();
        let mut page = Page { revision: inner.revision, ..Page::default() };
        let Some(collection) = inner.collections.get(resource) else { return page };
        let following = collection.objects.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let inside = following.take_while(|(key, _)| key.starts_with(prefix)).map(|(_, object)| object);
        for object in inside.filter(|object| selects(object)) {
            if limit > 0 && page.items.len() == limit {
                let after = page.items.last().map(|last| last.key.to_string()).unwrap_or_default();
                page.rest = Some(Rest { after, remaining: 1 });
                break;
            }
            page.items.push(object.clone());
        }
        page
    }

    /// The changes after a version, oldest first, at most `limit`.
    pub(crate) fn changes_after(&self, resource: &str, revision: u64, limit: usize) -> Result<Vec<Change>, Compacted> {
        let inner = self.inner.read();
        let Some(collection) = inner.collections.get(resource) else {
            return if revision < inner.compacted {
                Err(Compacted { oldest: inner.compacted })
            } else {
                Ok(Vec::new())
            };
        };
        if revision < collection.compacted {
            return Err(Compacted { oldest: collection.compacted });
        }
        // Most who ask have seen all, or all but the last few.
        let n_news = collection.history.iter().rev().take(FEW).take_while(|change| change.object.revision > revision);
        let from = match n_news.count() {
            FEW => collection.history.partition_point(|change| change.object.revision <= revision),
            n_news => collection.history.len() - n_news,
        };
        Ok(collection.history.iter().skip(from).take(limit).cloned().collect())
    }

    /// Tells of the last version of a collection, from now on.
    pub(crate) fn subscribe(&self, resource: &str) -> Follower {
        if let Some(collection) = self.inner.read().collections.get(resource) {
            return collection.latest.follow();
        }
        self.inner.write().collection(resource).0.latest.follow()
    }

    /// Forgets the history up to the present: a watch or a list from an older version is answered 410.
    pub(crate) fn compact(&self) {
        let mut inner = self.inner.write();
        let revision = inner.revision;
        for collection in inner.collections.values_mut() {
            collection.history.clear();
            collection.history_bytes = 0;
            collection.compacted = revision;
            collection.frozen.get_mut().forget_before(revision);
        }
    }

    /// The version of the last change of any of some collections.
    pub(crate) fn last_change(&self, resources: &[&str]) -> u64 {
        let inner = self.inner.read();
        let found = resources.iter().filter_map(|resource| inner.collections.get(*resource));
        found.map(|c| c.history.back().map_or(c.compacted, |change| change.object.revision)).max().unwrap_or_default()
    }

    /// How much each collection holds.
    pub(crate) fn counts(&self) -> BTreeMap<String, Counts> {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let inner = self.inner.read();
        let counts = inner.collections.iter().map(|(name, collection)| {
            let counts = Counts {
                objects: count(collection.objects.len()),
                history_bytes: count(collection.history_bytes),
                watches: count(collection.latest.n_followers()),
            };
            (name.clone(), counts)
        });
        counts.collect()
    }

    /// All objects by their collections, and the version at which this is the state.
    pub(crate) fn all(&self) -> (u64, Vec<(String, Arc<Object>)>) {
        let inner = self.inner.read();
        let objects = inner
            .collections
            .iter()
            .flat_map(|(name, collection)| collection.objects.values().map(|object| (name.clone(), object.clone())));
        (inner.revision, objects.collect())
    }

    /// Puts an object back as it was at a version, without a history; `None` if there is one already.
    pub(crate) fn put_back(&self, resource: &str, key: &str, revision: u64, draft: Draft) -> Option<Arc<Object>> {
        let mut inner = self.inner.write();
        let (collection, charges) = inner.collection(resource);
        if collection.objects.contains_key(key) {
            return None;
        }
        let object = Arc::new(draft.at(key, revision, |charge| charges.share(charge, None)));
        collection.objects.insert(key.to_owned(), object.clone());
        Some(object)
    }

    /// Goes on at a version, with no history up to it.
    pub(crate) fn continue_at(&self, revision: u64) {
        let mut inner = self.inner.write();
        inner.revision = revision;
        inner.compacted = revision;
        for collection in inner.collections.values_mut() {
            collection.compacted = revision;
        }
    }
}

// === impl Inner ===

impl Inner {
    fn collection(&mut self, resource: &str) -> (&mut Collection, &mut Charges) {
        let compacted = self.compacted;
        let new = || Collection { compacted, ..Collection::default() };
        (self.collections.entry(resource.to_owned()).or_insert_with(new), &mut self.charges)
    }

    /// An object was written. What is kept beside the texts of others ends with those that were written long ago.
    fn keep_fresh(&mut self, object: &Arc<Object>) {
        if !object.is_fresh() {
            return;
        }
        self.fresh.push_back(object.clone());
        if self.fresh.len() > FRESH
            && let Some(oldest) = self.fresh.pop_front()
        {
            oldest.age();
        }
    }
}

// === impl Collection ===

impl Collection {
    fn record(&mut self, kind: ChangeKind, object: Arc<Object>, previous: Option<Arc<Object>>, limit: HistoryLimit) {
        let change = Change { kind, object, previous };
        self.history_bytes += change.bytes();
        self.history.push_back(change);
        // The last change stays, however large it is: the watches that are up to date must see it.
        while self.history.len() > limit.changes.max(1) || (self.history_bytes > limit.bytes && self.history.len() > 1)
        {
            if let Some(gone) = self.history.pop_front() {
                self.history_bytes -= gone.bytes();
                self.compacted = gone.object.revision;
                self.frozen.get_mut().forget_before(self.compacted);
            }
        }
    }

    /// A page of the present state. A list that has only begun freezes nothing: many are never gone on with, and what has
    /// changed when one is can be undone.
    fn present_page(&self, page: &mut Page, range: &Range<'_>) {
        if range.after.is_some() {
            let changed = self.history.back().map_or(self.compacted, |change| change.object.revision);
            let frozen = self.frozen.lock().freeze(page.revision, changed, || self.objects.values().cloned().collect());
            frozen::fill(page, &frozen, range);
            return;
        }
        let end = after_all(range.prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut inside = self.objects.range::<str, _>((Bound::Included(range.prefix), end));
        page.items.extend(inside.by_ref().take(range.limit).map(|(_, object)| object.clone()));
        let remaining = inside.count();
        if remaining > 0 {
            let after = page.items.last().map(|last| last.key.to_string()).unwrap_or_default();
            page.rest = Some(Rest { after, remaining });
        }
    }

    /// The whole state at a past version.
    fn past(&self, revision: u64) -> Result<frozen::State, Compacted> {
        let overlay = self.undo_to(revision)?;
        let mut past = overlay.iter().peekable();
        let mut state = Vec::with_capacity(self.objects.len());
        for (key, object) in &self.objects {
            while let Some((_, gone)) = past.next_if(|(other, _)| *other < key) {
                state.extend(gone.clone());
            }
            match past.next_if(|(other, _)| *other == key) {
                Some((_, was)) => state.extend(was.clone()),
                None => state.push(object.clone()),
            }
        }
        state.extend(past.filter_map(|(_, object)| object.clone()));
        Ok(state.into())
    }

    /// What must be laid over the present state to see that of a past version: `None` hides a key.
    fn undo_to(&self, revision: u64) -> Result<BTreeMap<String, Option<Arc<Object>>>, Compacted> {
        if revision < self.compacted {
            return Err(Compacted { oldest: self.compacted });
        }
        let mut overlay = BTreeMap::new();
        for change in self.history.iter().rev().take_while(|change| change.object.revision > revision) {
            overlay.insert(change.object.key.to_string(), change.previous.clone());
        }
        Ok(overlay)
    }
}
