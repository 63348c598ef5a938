//! Cells that a class cannot tell apart, together: those whose domains have as many pods of all that its rules and scores count.
//! Domains of keys that have few, as zones are, are told apart: a pod there changes no bucket.
//! Where a key has many domains, as racks are, a decision then takes as many steps as there are different counts, and what has
//! changed since the last one is all that is looked at.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use berth_model::{ClassId, Snapshot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cell::CellKey;
use super::index::Index;
use super::shape::{ABSENT, Counts, Shape};

/// Cells that an index has at least before they are kept in buckets.
const LEAST_CELLS: usize = 64;
/// So many classes that asked last are remembered.
const ASKED: usize = 4;
/// Classes of an index whose buckets are kept, at most, and cells of all of them together.
const MOST_CLASSES: usize = 8;
const MOST_CELLS: usize = 1 << 19;

/// The buckets of the classes that asked an index last.
#[derive(Clone, Debug, Default)]
pub(super) struct BucketCache {
    /// Who asked last, the latest last. A class that asks once is not worth the work.
    asked: SmallVec<[ClassId; 4]>,
    /// The latest last.
    kept: Vec<Buckets>,
}

/// What cells of a bucket have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BucketKey {
    /// Domains of keys that are told apart are what they are; of others it is only known whether there is one.
    cell: CellKey,
    /// Pods of each counter in their domains, where these are not told apart.
    counts: SmallVec<[u32; 4]>,
}

/// Cells alike for the class but for the best of their own scores.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    key: BucketKey,
    pub(super) nodes: u64,
    /// By the own score of their best, then by its rank; the cell.
    cells: BTreeSet<(Reverse<i64>, u64, u32)>,
}

/// Where a cell is.
#[derive(Clone, Debug)]
struct Placed {
    bucket: u32,
    nodes: u64,
    best: (Reverse<i64>, u64),
    domains: SmallVec<[u32; 2]>,
}

/// The cells of an index in the eyes of a class.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    class: ClassId,
    /// What the class asked when they were made.
    version: Version,
    pub(super) counts: Counts,
    /// By counter: how often it had changed when it was looked at.
    seen: Vec<usize>,
    /// By key: whether domains with as many pods are alike.
    is_merged: SmallVec<[bool; 2]>,
    list: Vec<Bucket>,
    ids: FxHashMap<BucketKey, u32>,
    /// Buckets without cells, to be used again.
    spare: Vec<u32>,
    of_cell: Vec<Option<Placed>>,
    /// By key and domain: the cells there.
    in_domain: Vec<Vec<SmallVec<[u32; 2]>>>,
    /// How often cells had changed when they were looked at.
    seen_cells: usize,
}

/// What buckets are of: with another one, all are to be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// [`super::groups::Groups::version`].
    pub(super) nodes: u64,
    /// What could be launched; none where nobody else shares the index.
    pub(super) launchable: Option<u64>,
    /// [`Index::generation`].
    pub(super) generation: u64,
}

/// A class does well without buckets.
struct NotWorthIt;

// === impl BucketCache ===

impl BucketCache {
    /// The cells of an index as a class sees them, in buckets; to be given back by [`BucketCache::keep`]. `None` where they would
    /// not be worth their while. `version` is another one whenever the class asks for something else.
    pub(super) fn take_for(
        &mut self,
        shape: &Shape,
        version: Version,
        index: &Index,
        state: &Snapshot,
    ) -> Option<Buckets> {
        if index.cells.len() < LEAST_CELLS || !shape.counts_by_key() || !shape.discount.total.is_empty() {
            return None;
        }
        self.kept.retain(|kept| kept.version.generation == version.generation);
        let known = self.take(shape.class, version).ok()?;
        let followed = known.and_then(|mut known| known.catch_up(shape, index, state).then_some(known));
        Some(followed.unwrap_or_else(|| Buckets::new(shape, version, index, state)))
    }

    // The buckets of a class, as they were; `Err` where it is not worth its while to make some.
    fn take(&mut self, class: ClassId, version: Version) -> Result<Option<Buckets>, NotWorthIt> {
        let has_asked = self.asked.contains(&class);
        self.asked.retain(|known| *known != class);
        self.asked.push(class);
        if self.asked.len() > ASKED {
            self.asked.remove(0);
        }
        let known = self.kept.iter().position(|kept| kept.class == class);
        let known = known.map(|at| self.kept.remove(at)).filter(|kept| kept.version == version);
        if known.is_some() || has_asked { Ok(known) } else { Err(NotWorthIt) }
    }

    /// Whether nobody asked yet.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.kept.is_empty()
    }

    /// Keeps the buckets of a class.
    pub(super) fn keep(&mut self, buckets: Option<Buckets>) {
        let Some(buckets) = buckets else { return };
        let mut n_cells = buckets.of_cell.len();
        self.kept.push(buckets);
        let mut n_kept = 0;
        for kept in self.kept.iter().rev().skip(1).take(MOST_CLASSES - 1) {
            n_cells += kept.of_cell.len();
            if n_cells > MOST_CELLS {
                break;
            }
            n_kept += 1;
        }
        self.kept.drain(..self.kept.len() - 1 - n_kept);
    }
}

// === impl Buckets ===

impl Buckets {
    // The cells of an index as a class sees them now.
    fn new(shape: &Shape, version: Version, index: &Index, state: &Snapshot) -> Self {
        let counts = Counts::new(shape, state);
        let mut buckets = Buckets {
            class: shape.class,
            version,
            seen: counts.counters.iter().map(|(counter, _)| state.n_changes(*counter)).collect(),
            counts,
            is_merged: shape.merges_domains(),
            list: Vec::new(),
            ids: FxHashMap::default(),
            spare: Vec::new(),
            of_cell: Vec::new(),
            in_domain: shape.n_domains().map(|domains| vec![SmallVec::new(); domains]).collect(),
            seen_cells: index.n_changes(),
        };
        for cell in 0..index.cells.len() {
            buckets.refresh(u32::try_from(cell).unwrap_or(u32::MAX), index);
        }
        buckets
    }

    // Looks again at what has changed. Whether that is known: else all is to be made anew.
    fn catch_up(&mut self, shape: &Shape, index: &Index, state: &Snapshot) -> bool {
        let Some(changed) = index.changed_since(self.seen_cells) else { return false };
        let mut cells: Vec<u32> = changed.to_vec();
        self.seen_cells = index.n_changes();
        for at in 0..self.seen.len() {
            let (Some(&(counter, key)), Some(seen)) = (self.counts.counters.get(at), self.seen.get_mut(at)) else {
                return false;
            };
            let Some(changed) = state.changed_since(counter, *seen) else { return false };
            *seen = state.n_changes(counter);
            for &name in changed {
                let Some(domain) = shape.domain(key, name) else { continue };
                // Cells of a domain that is told apart stay where they are, however many pods it has.
                if self.counts.set(at, domain, state.count(counter, name))
                    && self.is_merged.get(key) == Some(&true)
                    && let Some(there) = self.in_domain.get(key).and_then(|domains| domains.get(domain as usize))
                {
                    cells.extend(there);
                }
            }
        }
        cells.sort_unstable();
        cells.dedup();
        for cell in cells {
            self.refresh(cell, index);
        }
        true
    }

    // Puts a cell where it belongs now.
    fn refresh(&mut self, cell: u32, index: &Index) {
        self.forget(cell);
        let Some(known) = index.cells.get(cell as usize) else { return };
        let Some((own, rank)) = known.best() else { return };
        let best = (Reverse(own), rank);
        let key = self.key_of(&known.key);
        let bucket = self.ids.get(&key).copied().unwrap_or_else(|| {
            let bucket = Bucket { key: key.clone(), nodes: 0, cells: BTreeSet::new() };
            let spare = self.spare.pop().and_then(|id| Some((id, self.list.get_mut(id as usize)?)));
            let id = if let Some((id, spare)) = spare {
                *spare = bucket;
                id
            } else {
                self.list.push(bucket);
                u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
            };
            self.ids.insert(key, id);
            id
        });
        if let Some(into) = self.list.get_mut(bucket as usize) {
            into.nodes += known.nodes;
            into.cells.insert((best.0, best.1, cell));
        }
        for (domains, &domain) in self.in_domain.iter_mut().zip(&known.key.domains) {
            if let Some(there) = domains.get_mut(domain as usize) {
                there.push(cell);
            }
        }
        let at = cell as usize;
        if at >= self.of_cell.len() {
            self.of_cell.resize(at + 1, None);
        }
        if let Some(placed) = self.of_cell.get_mut(at) {
            *placed = Some(Placed { bucket, nodes: known.nodes, best, domains: known.key.domains.clone() });
        }
    }

    fn forget(&mut self, cell: u32) {
        let Some(placed) = self.of_cell.get_mut(cell as usize).and_then(Option::take) else { return };
        for (domains, &domain) in self.in_domain.iter_mut().zip(&placed.domains) {
            if let Some(there) = domains.get_mut(domain as usize) {
                there.retain(|known| *known != cell);
            }
        }
        let Some(bucket) = self.list.get_mut(placed.bucket as usize) else { return };
        bucket.cells.remove(&(placed.best.0, placed.best.1, cell));
        bucket.nodes = bucket.nodes.saturating_sub(placed.nodes);
        if bucket.cells.is_empty() {
            self.ids.remove(&bucket.key);
            self.spare.push(placed.bucket);
        }
    }

    fn key_of(&self, cell: &CellKey) -> BucketKey {
        let domains = cell.domains.iter().zip(&self.is_merged);
        let domains = domains.map(|(&domain, is_merged)| if *is_merged { domain.max(ABSENT - 1) } else { domain });
        let counts = self.counts.in_domains(&cell.domains, &self.is_merged);
        BucketKey { cell: CellKey { domains: domains.collect(), ..cell.clone() }, counts: counts.collect() }
    }

    /// All buckets with a cell, each with one of its cells.
    pub(super) fn iter<'b>(&'b self, index: &'b Index) -> impl Iterator<Item = (u32, &'b Bucket, &'b CellKey)> {
        (0..).zip(&self.list).filter_map(|(at, bucket)| {
            let (_, _, cell) = bucket.cells.first()?;
            Some((at, bucket, &index.cells.get(*cell as usize)?.key))
        })
    }

    /// The bucket that a cell is in.
    pub(super) fn bucket_of(&self, cell: usize) -> Option<u32> {
        Some(self.of_cell.get(cell)?.as_ref()?.bucket)
    }
}

// === impl Bucket ===

impl Bucket {
    /// The best of its nodes: own score and rank. `instead` says which is the best of a cell that is not as the index has it.
    pub(super) fn best(&self, instead: impl Fn(u32) -> Option<Option<(i64, u64)>>) -> Option<(i64, u64)> {
        let mut best: Option<(Reverse<i64>, u64)> = None;
        for &(own, rank, cell) in &self.cells {
            if best.is_some_and(|best| best <= (own, rank)) {
                break;
            }
            let found = match instead(cell) {
                Some(found) => found.map(|(own, rank)| (Reverse(own), rank)),
                None => Some((own, rank)),
            };
            best = best.into_iter().chain(found).min();
        }
        best.map(|(Reverse(own), rank)| (own, rank))
    }
}
