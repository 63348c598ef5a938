//! Indexes over the caches: by owner, node, claim, and by the selectors of workloads, Services and budgets.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use rustc_hash::FxHashMap;

use crate::key::NamespacedName;
use crate::objects::Labels;
use crate::work::Work;

/// Keys of objects by something that several of them may have in common.
#[derive(Debug)]
pub(crate) struct Index<K>(FxHashMap<K, BTreeSet<NamespacedName>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Eq> Index<K> {
    pub(crate) fn insert(&mut self, by: K, key: &NamespacedName) {
        self.0.entry(by).or_default().insert(key.clone());
    }

    pub(crate) fn remove<Q>(&mut self, by: &Q, key: &NamespacedName)
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(keys) = self.0.get_mut(by) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(by);
            }
        }
    }

    pub(crate) fn get<Q>(&self, by: &Q) -> impl Iterator<Item = &NamespacedName> + use<'_, K, Q>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get(by).into_iter().flatten()
    }
}

/// One of the labels that a selector needs.
type Anchor = (Arc<str>, Box<str>, Box<str>);

#[derive(Debug)]
struct Entry {
    selector: Selector,
    anchor: Option<Anchor>,
    members: BTreeSet<NamespacedName>,
}

/// Who selects which objects, kept as labels and selectors change. A change of an object asks only the selectors of its
/// namespace that need one of its labels.
#[derive(Debug, Default)]
pub(crate) struct SelectorIndex {
    entries: FxHashMap<Work, Entry>,
    anchored: FxHashMap<Anchor, BTreeSet<Work>>,
    /// Selectors that need no label of a certain value, by namespace.
    loose: FxHashMap<Arc<str>, BTreeSet<Work>>,
}

impl SelectorIndex {
    /// Whether a work's selector is this one.
    pub(crate) fn is(&self, work: &Work, selector: &Selector) -> bool {
        self.entries.get(work).is_some_and(|entry| entry.selector == *selector)
    }

    /// Sets the selector of a work, and finds its members among the objects of its namespace.
    pub(crate) fn set<'o>(
        &mut self,
        work: &Work,
        namespace: &Arc<str>,
        selector: Selector,
        objects: impl Iterator<Item = (&'o NamespacedName, &'o Labels)>,
    ) {
        self.unset(work, namespace);
        let members = objects.filter(|(_, labels)| selector.matches(labels)).map(|(key, _)| key.clone()).collect();
        let anchor = selector.clone().into_iter().find_map(|expression| match expression {
            kube::core::Expression::Equal(label, value) => {
                Some((namespace.clone(), label.into_boxed_str(), value.into_boxed_str()))
            }
            kube::core::Expression::In(label, values) if values.len() == 1 => {
                let value = values.into_iter().next()?;
                Some((namespace.clone(), label.into_boxed_str(), value.into_boxed_str()))
            }
            _ => None,
        });
        match &anchor {
            Some(anchor) => self.anchored.entry(anchor.clone()).or_default().insert(work.clone()),
            None => self.loose.entry(namespace.clone()).or_default().insert(work.clone()),
        };
        self.entries.insert(work.clone(), Entry { selector, anchor, members });
    }

    pub(crate) fn unset(&mut self, work: &Work, namespace: &Arc<str>) {
        let Some(entry) = self.entries.remove(work) else { return };
        let is_empty = |set: &mut BTreeSet<Work>| {
            set.remove(work);
            set.is_empty()
        };
        match entry.anchor {
            Some(anchor) => {
                if self.anchored.get_mut(&anchor).is_some_and(is_empty) {
                    self.anchored.remove(&anchor);
                }
            }
            None => {
                if self.loose.get_mut(namespace).is_some_and(is_empty) {
                    self.loose.remove(namespace);
                }
            }
        }
    }

    /// Takes in that an object's labels changed; none where it does not count. Gives who selected it or does now.
    pub(crate) fn change(
        &mut self,
        key: &NamespacedName,
        old: Option<&Labels>,
        new: Option<&Labels>,
    ) -> BTreeSet<Work> {
        let mut concerned = BTreeSet::new();
        for labels in [old, new].into_iter().flatten() {
            for (label, value) in labels {
                let anchor = (key.namespace.clone(), label.as_str().into(), value.as_str().into());
                concerned.extend(self.anchored.get(&anchor).into_iter().flatten().cloned());
            }
            concerned.extend(self.loose.get(&key.namespace).into_iter().flatten().cloned());
        }
        concerned.retain(|work| {
            let Some(entry) = self.entries.get_mut(work) else { return false };
            let is_member = new.is_some_and(|labels| entry.selector.matches(labels));
            let was = if is_member { !entry.members.insert(key.clone()) } else { entry.members.remove(key) };
            was || is_member
        });
        concerned
    }

    /// The objects that a work's selector matches.
    pub(crate) fn members(&self, work: &Work) -> impl Iterator<Item = &NamespacedName> + use<'_> {
        self.entries.get(work).into_iter().flat_map(|entry| &entry.members)
    }
}

/// A selector that matches nothing where it is absent or invalid, and everything where it is empty.
pub(crate) fn selector(given: Option<&LabelSelector>) -> Option<Selector> {
    Selector::try_from(given?.clone()).ok()
}

/// The selector of a workload, which must not select everything.
pub(crate) fn workload_selector(given: Option<&LabelSelector>) -> Option<Selector> {
    selector(given).filter(|selector| !selector.selects_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn selecting(pairs: &[(&str, &str)]) -> Selector {
        labels(pairs).into_iter().collect()
    }

    #[test]
    fn who_selects_an_object_follows_labels_and_selectors() {
        let mut index = SelectorIndex::default();
        let (web, any) = (Work::Budget(NamespacedName::new("a", "web")), Work::Budget(NamespacedName::new("a", "any")));
        let namespace: Arc<str> = "a".into();
        let (pod, own) = (NamespacedName::new("a", "pod"), labels(&[("app", "web"), ("x", "y")]));
        index.set(&any, &namespace, Selector::default(), std::iter::empty());
        assert_eq!(index.change(&pod, None, Some(&own)), [any.clone()].into());
        index.set(&web, &namespace, selecting(&[("app", "web")]), [(&pod, &own)].into_iter());
        assert_eq!(index.members(&web).collect::<Vec<_>>(), [&pod]);
        let other = labels(&[("app", "db")]);
        assert_eq!(index.change(&pod, Some(&own), Some(&other)), [any.clone(), web.clone()].into());
        assert_eq!(index.members(&web).count(), 0);
        assert_eq!(index.change(&pod, Some(&other), None), [any.clone()].into());
        index.unset(&any, &namespace);
        assert!(index.change(&NamespacedName::new("b", "pod"), None, Some(&own)).is_empty());
        assert!(index.loose.is_empty());
    }
}
