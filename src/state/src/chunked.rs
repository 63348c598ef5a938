//! A sorted map in chunks that copies share: a copy costs as much as there are chunks, and who changes an entry afterwards
//! copies its chunk alone.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a chunk at most.
const MOST: usize = 64;
/// Room for so many more that a chunk keeps where entries go.
const SPARE: usize = 8;

/// A sorted map.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<K, V> {
    /// By a key that is at most the first of the chunk, and more than the last of the one before. None is empty.
    chunks: BTreeMap<K, Arc<Vec<(K, V)>>>,
}

// === impl Chunked ===

impl<K, V> Default for Chunked<K, V> {
    fn default() -> Self {
        Chunked { chunks: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Chunked<K, V> {
    /// The value of a key.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (_, chunk) = self.chunks.range::<Q, _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        let at = find(chunk, key).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    /// The same, to change.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (_, chunk) = self.chunks.range_mut::<Q, _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        let at = find(chunk, key).ok()?;
        Arc::make_mut(chunk).get_mut(at).map(|(_, value)| value)
    }

    /// Puts a value in, where the key has none.
    pub(crate) fn insert_new(&mut self, key: K, value: V) {
        let before = self.chunks.range_mut(..=&key).next_back();
        let Some((_, chunk)) = before else {
            self.insert_first(key, value);
            return;
        };
        let Err(at) = find(chunk, &key) else { return };
        let chunk = Arc::make_mut(chunk);
        chunk.insert(at, (key, value));
        if chunk.len() <= MOST {
            return;
        }
        // Those that come in order leave full chunks behind.
        let keep = if at + 1 == chunk.len() { MOST } else { MOST / 2 };
        let rest = chunk.split_off(keep);
        chunk.shrink_to_fit();
        if let Some((first, _)) = rest.first() {
            self.chunks.insert(first.clone(), Arc::new(rest));
        }
    }

    /// Puts a value before all others.
    fn insert_first(&mut self, key: K, value: V) {
        let mut chunk = vec![(key.clone(), value)];
        if let Some((_, next)) = self.chunks.pop_first() {
            chunk.extend(Arc::unwrap_or_clone(next));
            if chunk.len() > MOST {
                let rest = chunk.split_off(MOST / 2);
                if let Some((first, _)) = rest.first() {
                    self.chunks.insert(first.clone(), Arc::new(rest));
                }
            }
        }
        self.chunks.insert(key, Arc::new(chunk));
    }

    /// Takes a key out.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (first, chunk) = self.chunks.range_mut::<Q, _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        let at = find(chunk, key).ok()?;
        let first = first.clone();
        let entries = Arc::make_mut(chunk);
        let (_, value) = entries.remove(at);
        let n_left = entries.len();
        if entries.capacity() > 2 * n_left + SPARE {
            entries.shrink_to(n_left + SPARE);
        }
        if n_left < MOST / 4 {
            self.join(&first);
        }
        Some(value)
    }

    /// Joins a small chunk with the one before it, where there is room.
    fn join(&mut self, first: &K) {
        let Some(small) = self.chunks.remove(first) else { return };
        if small.is_empty() {
            return;
        }
        let before = self.chunks.range_mut(..first).next_back().map(|(_, before)| before);
        match before.filter(|before| before.len() + small.len() <= MOST / 2) {
            Some(before) => Arc::make_mut(before).extend(Arc::unwrap_or_clone(small)),
            None => {
                self.chunks.insert(first.clone(), small);
            }
        }
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.values().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    /// Those from a key on, in order.
    pub(crate) fn from<'s>(&'s self, key: &K) -> impl Iterator<Item = (&'s K, &'s V)> + use<'s, K, V> {
        let within = self.chunks.range(..=key).next_back().map(|(first, chunk)| {
            let at = find(chunk, key).unwrap_or_else(|at| at);
            (first, chunk.get(at..).unwrap_or_default())
        });
        let after = match within {
            Some((first, _)) => self.chunks.range((Bound::Excluded(first), Bound::Unbounded)),
            None => self.chunks.range::<K, _>(..),
        };
        let rest = after.flat_map(|(_, chunk)| chunk.iter());
        let within = within.map_or(&[][..], |(_, entries)| entries);
        within.iter().chain(rest).map(|(key, value)| (key, value))
    }
}

fn find<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized>(chunk: &[(K, V)], key: &Q) -> Result<usize, usize> {
    chunk.binary_search_by(|(known, _)| Borrow::<Q>::borrow(known).cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Numbers in an order that looks like none.
    fn shuffled(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |i| i.wrapping_mul(7_919) % count)
    }

    #[test]
    fn a_chunked_map_holds_what_a_plain_one_does() {
        for count in [1, 2, 64, 65, 1_009, 10_007] {
            let (mut chunked, mut plain) = (Chunked::default(), BTreeMap::new());
            for i in shuffled(count) {
                chunked.insert_new(i * 2, i);
                plain.insert(i * 2, i);
                if i % 3 == 0 {
                    let gone = i / 2 * 2;
                    assert_eq!(chunked.remove(&gone), plain.remove(&gone));
                }
                if let Some(value) = chunked.get_mut(&(i * 2)) {
                    *value += 1;
                    *plain.get_mut(&(i * 2)).unwrap() += 1;
                }
            }
            assert!(chunked.iter().eq(plain.iter()));
            for i in 0..=count * 2 {
                assert_eq!(chunked.get(&i), plain.get(&i));
                assert!(chunked.from(&i).take(3).eq(plain.range(i..).take(3)), "from {i}");
            }
            let copy = chunked.clone();
            for i in shuffled(count) {
                assert_eq!(chunked.remove(&(i * 2)), plain.get(&(i * 2)).copied());
            }
            assert_eq!((chunked.iter().count(), chunked.chunks.len()), (0, 0), "no chunk is left empty");
            assert!(copy.iter().eq(plain.iter()), "a copy stays as it was");
        }
    }

    #[test]
    fn what_comes_in_order_fills_chunks() {
        let mut chunked = Chunked::default();
        for i in 0..6_400 {
            chunked.insert_new(i, i);
        }
        assert_eq!(chunked.chunks.len(), 100);
    }

    #[test]
    fn chunks_give_the_room_back_of_those_who_went() {
        let mut chunked = Chunked::default();
        for i in shuffled(10_007) {
            chunked.insert_new(i, i);
        }
        for i in (0..10_007).filter(|i| i % 3 > 0) {
            chunked.remove(&i);
        }
        let capacity: usize = chunked.chunks.values().map(|chunk| chunk.capacity()).sum();
        assert!(capacity <= 3 * 10_007 / 3, "{capacity}");
    }

    #[test]
    fn copies_share_the_chunks_that_neither_changes() {
        let mut chunked: Chunked<u32, u32> = Chunked::default();
        for i in 0..1_000 {
            chunked.insert_new(i, i);
        }
        let copy = chunked.clone();
        *chunked.get_mut(&500).unwrap() = 0;
        let shared = chunked
            .chunks
            .iter()
            .filter(|(first, chunk)| copy.chunks.get(first).is_some_and(|other| Arc::ptr_eq(chunk, other)));
        assert_eq!((shared.count(), chunked.chunks.len()), (15, 16));
        assert_eq!((copy.get(&500), chunked.get(&500)), (Some(&500), Some(&0)));
    }
}
