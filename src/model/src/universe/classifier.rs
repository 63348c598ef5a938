//! Classes of shapes, by what they ask for and what asks for them.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use super::classes::{ClassId, PodClass, Preferences, SpecAndLabels, labels_of};
use super::constraints::{Asked, Builder, OwnConstraints};
use super::topology::{Constraint, Counter, CounterId, SelectorId};
use crate::{Cluster, MemberKind, SpecId};

/// What makes a class: see [`PodClass`].
pub(super) type ClassKey =
    (MemberKind, SpecId, Vec<CounterId>, Vec<Constraint>, Preferences, Vec<CounterId>, Vec<(CounterId, i64)>);

/// What makes classes of shapes, once all selectors are known.
#[derive(Debug)]
pub(super) struct Classifier {
    pub(super) builder: Builder,
    /// By selector, so that what a shape matches becomes counters.
    pub(super) by_selector: FxHashMap<SelectorId, Vec<CounterId>>,
    /// See [`Builder::needed_owner_counters`].
    pub(super) needed: FxHashSet<CounterId>,
    pub(super) ids: FxHashMap<ClassKey, ClassId>,
}

impl Classifier {
    /// The class of a shape with what it asks for and matches; a new one comes last.
    pub(super) fn class_of(
        &mut self,
        (kind, _, spec, _): SpecAndLabels,
        own: &OwnConstraints,
        matched: &[SelectorId],
        is_asking: bool,
        classes: &mut Vec<PodClass>,
    ) -> ClassId {
        let Classifier { builder, by_selector, needed, ids } = self;
        let known = |id: CounterId| builder.counters.get(id.index());
        let reached = || matched.iter().filter_map(|selector| by_selector.get(selector)).flatten().copied();
        let is_owner = |id: CounterId| known(id).is_some_and(|c| c.counts_owners);
        let mut counts_in: Vec<CounterId> = reached().filter(|&id| !is_owner(id)).collect();
        counts_in.extend(own.owner_counters.iter().copied().filter(|id| needed.contains(id)));
        counts_in.sort_unstable();
        counts_in.dedup();
        let pull = |id: CounterId| known(id).map_or(0, |c| i64::from(c.pull));
        let pulls = reached().filter(|&id| is_asking && pull(id) != 0).map(|id| (id, pull(id)));
        let drawn = if builder.has_scores { own.drawn(pulls) } else { Vec::new() };
        let inverse = reached().filter(|&id| is_asking && is_owner(id) && needed.contains(&id));
        let inverse = inverse.map(|id| Asked::AntiAffinity(id).resolve(&counts_in)).collect();
        let (required, preferred) = own.resolve(&counts_in, inverse);
        let next = ClassId(u32::try_from(classes.len()).unwrap_or(u32::MAX));
        match ids.entry((kind, spec, counts_in, required, preferred, own.pulls.clone(), drawn)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let (kind, spec, counts_in, required, preferred, weighs_in, drawn) = new.key().clone();
                let (count, rows) = (0, Vec::new());
                classes.push(PodClass { kind, spec, count, rows, counts_in, required, preferred, weighs_in, drawn });
                *new.insert(next)
            }
        }
    }

    /// Takes in the counters that a shape which came later asks for first, from these positions on: of selectors, counters and
    /// filters. Whether they are about no other shape that is known; else classes are not what they were.
    pub(super) fn extend<'s>(
        &mut self,
        cluster: &Cluster,
        own: &OwnConstraints,
        of_own: SpecAndLabels,
        first: usize,
        mut known: impl Iterator<Item = &'s SpecAndLabels>,
    ) -> bool {
        let Classifier { builder, by_selector, needed, .. } = self;
        let new: Vec<(CounterId, &Counter)> = (0..).map(CounterId).zip(&builder.counters).skip(first).collect();
        let mut selectors: Vec<SelectorId> = new.iter().map(|(_, counter)| counter.selector).collect();
        selectors.sort_unstable();
        selectors.dedup();
        let is_matched = |selector: SelectorId, (_, namespace, _, labels): SpecAndLabels| {
            builder.selectors.matches(selector, namespace, labels_of(cluster, labels), &cluster.symbols)
        };
        if known.any(|shape| selectors.iter().any(|selector| is_matched(*selector, *shape))) {
            return false;
        }
        for (id, counter) in new {
            by_selector.entry(counter.selector).or_default().push(id);
            // See `Builder::needed_owner_counters`: who owns it is alone so far.
            let is_owned = counter.counts_owners && counter.pull == 0 && own.owner_counters.contains(&id);
            if is_owned && !is_matched(counter.selector, of_own) {
                needed.insert(id);
            }
        }
        true
    }

    /// Whether a shape that came later leaves the counters of others as they are: it asks for none that is not counted yet,
    /// and each owner counter that it makes tell something is needed already.
    pub(super) fn leaves_others(&self, own: &OwnConstraints, matched: &[SelectorId]) -> bool {
        let Classifier { builder, by_selector, needed, .. } = self;
        let is_told = |id: &CounterId| {
            let counter = builder.counters.get(id.index());
            counter.is_some_and(|c| c.pull != 0 || needed.contains(id))
        };
        let unmatched = own.owner_counters.iter().filter(|id| {
            let selector = builder.counters.get(id.index()).map(|counter| counter.selector);
            selector.is_none_or(|selector| matched.binary_search(&selector).is_err())
        });
        let reached = matched.iter().filter_map(|selector| by_selector.get(selector)).flatten();
        let is_owner = |id: &&CounterId| builder.counters.get(id.index()).is_some_and(|c| c.counts_owners);
        let unowned = reached.filter(is_owner).filter(|id| !own.owner_counters.contains(id));
        unmatched.chain(unowned).all(is_told)
    }
}

impl Builder {
    // An owner counter says nothing new where every pod that its selector matches is itself an owner, and every owner
    // is matched: the counter of matched pods then keeps them apart. This is the common self anti-affinity.
    pub(super) fn needed_owner_counters(
        &self,
        own: &[OwnConstraints],
        matched: &[Vec<SelectorId>],
    ) -> FxHashSet<CounterId> {
        let mut needed = FxHashSet::default();
        let mut owners_by_selector: FxHashMap<SelectorId, Vec<CounterId>> = FxHashMap::default();
        for (index, counter) in self.counters.iter().enumerate().filter(|(_, c)| c.counts_owners && c.pull == 0) {
            let id = CounterId(u32::try_from(index).unwrap_or(u32::MAX));
            owners_by_selector.entry(counter.selector).or_default().push(id);
        }
        for (own, matched) in own.iter().zip(matched) {
            for &id in &own.owner_counters {
                let selector = self.counters.get(id.index()).map(|c| c.selector);
                if selector.is_none_or(|selector| matched.binary_search(&selector).is_err()) {
                    needed.insert(id);
                }
            }
            for id in matched.iter().filter_map(|selector| owners_by_selector.get(selector)).flatten() {
                if !own.owner_counters.contains(id) {
                    needed.insert(*id);
                }
            }
        }
        needed
    }
}
