//! Work in order for each key, side by side for different keys, and not more than so much at a time.

use std::collections::{BTreeMap, VecDeque};

/// Items that wait for those before them of the same key, and for a free place.
#[derive(Debug)]
pub(crate) struct Lanes<K, T> {
    /// Items by key; the first of a key that is busy is under way and not in here.
    waiting: BTreeMap<K, VecDeque<T>>,
    /// Keys of which an item may go, in order of arrival.
    ready: VecDeque<K>,
    busy: usize,
    limit: usize,
}

// === impl Lanes ===

impl<K: Ord + Clone, T> Lanes<K, T> {
    /// Lanes of which `limit` items are under way at most.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: BTreeMap::new(), ready: VecDeque::new(), busy: 0, limit: limit.max(1) }
    }

    /// One more item, after all others of its key.
    pub(crate) fn push(&mut self, key: K, item: T) {
        if let Some(lane) = self.waiting.get_mut(&key) {
            lane.push_back(item);
        } else {
            self.waiting.insert(key.clone(), VecDeque::from([item]));
            self.ready.push_back(key);
        }
    }

    /// The next item that may go; its key is busy until [`Lanes::finish`].
    pub(crate) fn next(&mut self) -> Option<(K, T)> {
        if self.busy >= self.limit {
            return None;
        }
        let key = self.ready.pop_front()?;
        let item = self.waiting.get_mut(&key)?.pop_front()?;
        self.busy += 1;
        Some((key, item))
    }

    /// The item of `key` that was under way is done.
    pub(crate) fn finish(&mut self, key: K) {
        self.busy = self.busy.saturating_sub(1);
        match self.waiting.get(&key) {
            Some(lane) if !lane.is_empty() => self.ready.push_back(key),
            _ => drop(self.waiting.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_in_order_and_others_pass_it() {
        let mut lanes = Lanes::new(8);
        for (key, item) in [("a", 1), ("a", 2), ("b", 3)] {
            lanes.push(key, item);
        }
        assert_eq!(lanes.next(), Some(("a", 1)));
        assert_eq!(lanes.next(), Some(("b", 3)));
        assert_eq!(lanes.next(), None);
        lanes.push("a", 4);
        lanes.finish("a");
        assert_eq!(lanes.next(), Some(("a", 2)));
        lanes.finish("a");
        assert_eq!(lanes.next(), Some(("a", 4)));
        lanes.finish("a");
        lanes.finish("b");
        assert!(lanes.waiting.is_empty());
    }

    #[test]
    fn no_more_than_the_limit_is_under_way() {
        let mut lanes = Lanes::new(1);
        lanes.push("a", 1);
        lanes.push("b", 2);
        assert_eq!(lanes.next(), Some(("a", 1)));
        assert_eq!(lanes.next(), None);
        lanes.finish("a");
        assert_eq!(lanes.next(), Some(("b", 2)));
    }
}
