//! Values that are kept once: found by a keyed hash and compared by value.
//!
//! Each value that comes has a few others looked at, in turn, and those that nobody has any more are let go. So what is left over
//! stays a small part of what is in use, and no event waits for a sweep of all.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;

use berth_model::Keyed;
use hashbrown::HashTable;
use serde::Serialize;

/// How many values are looked at for each that comes. While as many go as come, some `1 / LOOKED_AT` of the values are left over.
const LOOKED_AT: usize = 8;
/// Room for so many more is not given back.
const SPARE: usize = 1_024;

/// Values by their hash. No answer depends on their order.
#[derive(Debug)]
pub(crate) struct Table<T: ?Sized> {
    values: Vec<(u64, Arc<T>)>,
    /// Positions among the values, by hash.
    places: HashTable<u32>,
    keyed: Keyed,
    /// The position that is looked at next.
    next: usize,
}

// === impl Table ===

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Self::new(&Keyed::default())
    }
}

impl<T: ?Sized> Clone for Table<T> {
    fn clone(&self) -> Self {
        Table { values: self.values.clone(), places: self.places.clone(), keyed: self.keyed.clone(), next: self.next }
    }
}

impl<T: ?Sized> Table<T> {
    pub(crate) fn new(keyed: &Keyed) -> Self {
        Table { values: Vec::new(), places: HashTable::new(), keyed: keyed.clone(), next: 0 }
    }

    /// How many there are, those that nobody has any more among them.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    fn find(&self, hash: u64, is_same: impl Fn(&T) -> bool) -> Option<&Arc<T>> {
        let at = |place: u32| self.values.get(place as usize);
        let is_meant = |place: &u32| at(*place).is_some_and(|(known, value)| *known == hash && is_same(value));
        at(*self.places.find(hash, is_meant)?).map(|(_, value)| value)
    }

    fn insert(&mut self, hash: u64, value: Arc<T>) {
        for _ in 0..LOOKED_AT {
            self.look_at_next();
        }
        // More than four billion different values do not fit any memory; they would be kept by those who have them alone.
        let Ok(place) = u32::try_from(self.values.len()) else { return };
        self.values.push((hash, value));
        let values = &self.values;
        self.places.insert_unique(hash, place, |place| hash_at(values, *place));
    }

    /// Lets the next value go where nobody has it any more.
    fn look_at_next(&mut self) {
        if self.next >= self.values.len() {
            self.next = 0;
            self.give_room_back();
        }
        let Some((hash, value)) = self.values.get(self.next) else { return };
        if Arc::strong_count(value) > 1 {
            self.next += 1;
            return;
        }
        let (gone, last) = (self.next, self.values.len() - 1);
        remove_place(&mut self.places, *hash, gone);
        self.values.swap_remove(gone);
        // The last one came here: it is looked at next.
        if let Some((hash, _)) = self.values.get(gone) {
            let is_last = |place: &u32| *place as usize == last;
            if let (Some(place), Ok(gone)) = (self.places.find_mut(*hash, is_last), u32::try_from(gone)) {
                *place = gone;
            }
        }
    }

    /// Where much more room is kept than is used.
    fn give_room_back(&mut self) {
        let most = self.values.len().saturating_mul(2).saturating_add(SPARE);
        if self.values.capacity() > most.saturating_mul(2) {
            self.values.shrink_to(most);
            let values = &self.values;
            self.places.shrink_to(most, |place| hash_at(values, *place));
        }
    }
}

fn hash_at<T: ?Sized>(values: &[(u64, Arc<T>)], place: u32) -> u64 {
    values.get(place as usize).map_or(0, |(hash, _)| *hash)
}

fn remove_place(places: &mut HashTable<u32>, hash: u64, gone: usize) {
    if let Ok(entry) = places.find_entry(hash, |place| *place as usize == gone) {
        entry.remove();
    }
}

impl<T: Serialize + PartialEq> Table<T> {
    /// The value that is kept for this one: `known` where that is equal.
    pub(crate) fn like(&mut self, known: Option<&Arc<T>>, value: T) -> Arc<T> {
        if let Some(known) = known.filter(|known| ***known == value) {
            return Arc::clone(known);
        }
        let mut hashing = Hashing(self.keyed.build_hasher());
        // Writing to a hasher does not fail; what cannot be serialized is compared with all of that kind.
        let _ = serde_json::to_writer(&mut hashing, &value);
        let hash = hashing.0.finish();
        if let Some(found) = self.find(hash, |found| *found == value) {
            return Arc::clone(found);
        }
        let value = Arc::new(value);
        self.insert(hash, Arc::clone(&value));
        value
    }
}

impl Table<str> {
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        let hash = self.keyed.hash_one(text);
        if let Some(found) = self.find(hash, |found| *found == *text) {
            return Arc::clone(found);
        }
        let value: Arc<str> = text.into();
        self.insert(hash, Arc::clone(&value));
        value
    }
}

/// Hashes what is written to it.
struct Hashing<H>(H);

impl<H: Hasher> io::Write for Hashing<H> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn what_comes_and_goes_leaves_little_over() {
        let mut table: Table<str> = Table::default();
        let (mut held, size) = (VecDeque::new(), 10_000);
        for i in 0..10 * size {
            held.push_back(table.text(&i.to_string()));
            if held.len() > size {
                held.pop_front();
            }
            let most = held.len() + held.len() / 4 + LOOKED_AT;
            assert!(table.len() <= most, "{} of {} are kept after {i}", table.len(), held.len());
        }
        for (i, value) in held.iter().enumerate() {
            let known = table.text(&(9 * size + i).to_string());
            assert!(Arc::ptr_eq(&known, value), "what somebody has is found");
        }
    }

    #[test]
    fn a_table_gives_room_back_that_is_not_used_any_more() {
        let mut table: Table<str> = Table::default();
        let held: Vec<Arc<str>> = (0..100_000).map(|i| table.text(&i.to_string())).collect();
        assert_eq!(table.len(), held.len());
        let kept = held.last().cloned();
        drop(held);
        let mut others: Vec<Arc<str>> = (0..30_000).map(|i| table.text(&format!("other-{i}"))).collect();
        others.truncate(10);
        others.extend((0..30_000).map(|i| table.text(&format!("more-{i}"))));
        assert!(table.values.capacity() < 100_000, "{}", table.values.capacity());
        assert!(kept.is_some_and(|kept| Arc::ptr_eq(&table.text("99999"), &kept)));
        for (i, value) in others.iter().skip(10).enumerate() {
            assert!(Arc::ptr_eq(&table.text(&format!("more-{i}")), value));
        }
    }

    #[test]
    fn values_of_one_hash_are_told_apart() {
        let mut table: Table<str> = Table::default();
        let values: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        for value in &values {
            table.insert(7, Arc::clone(value));
        }
        for value in &values {
            assert!(table.find(7, |found| *found == **value).is_some_and(|found| Arc::ptr_eq(found, value)));
        }
        let kept = values.last().cloned();
        drop(values);
        table.insert(7, Arc::from("d"));
        assert!(table.find(7, |found| *found == *"a").is_none());
        assert!(table.find(7, |found| *found == *"c").zip(kept).is_some_and(|(a, b)| Arc::ptr_eq(a, &b)));
    }
}
