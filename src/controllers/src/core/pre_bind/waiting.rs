//! The pods that wait for their volumes, found by pod, node and claim. Thousands may wait at once, and an event concerns few.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::Binding;
use jiff::Timestamp;

use crate::view::PodName;

/// Pods that wait for their volumes. The write of each is under way as far as the queue and the state know.
#[derive(Debug, Default)]
pub(in crate::core) struct PreBinding {
    pods: BTreeMap<PodName, Waiting>,
    by_node: BTreeMap<String, BTreeSet<PodName>>,
    by_claim: BTreeMap<PodName, BTreeSet<PodName>>,
}

/// A pod that waits for its volumes on a node.
#[derive(Debug)]
pub(in crate::core) struct Waiting {
    pub(super) binding: Binding,
    /// Its claims, by name.
    claims: Vec<String>,
    pub(super) until: Timestamp,
    /// Claims for which the provisioner was seen to be told the node.
    pub(super) told: BTreeSet<String>,
}

impl Waiting {
    pub(super) fn new(binding: Binding, claims: Vec<String>, until: Timestamp) -> Self {
        Waiting { binding, claims, until, told: BTreeSet::new() }
    }

    pub(super) fn node(&self) -> &str {
        &self.binding.node.key.name
    }
}

impl PreBinding {
    pub(super) fn insert(&mut self, pod: PodName, waiting: Waiting) {
        self.remove(&pod);
        self.by_node.entry(waiting.node().to_owned()).or_default().insert(pod.clone());
        for claim in claims(&pod, &waiting) {
            self.by_claim.entry(claim).or_default().insert(pod.clone());
        }
        self.pods.insert(pod, waiting);
    }

    pub(super) fn remove(&mut self, pod: &PodName) -> Option<Waiting> {
        let waiting = self.pods.remove(pod)?;
        forget(&mut self.by_node, waiting.node(), pod);
        for claim in claims(pod, &waiting) {
            forget(&mut self.by_claim, &claim, pod);
        }
        Some(waiting)
    }

    pub(in crate::core) fn get(&self, pod: &PodName) -> Option<&Waiting> {
        self.pods.get(pod)
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = (&PodName, &Waiting)> {
        self.pods.iter()
    }

    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &PodName> {
        self.by_node.get(node).into_iter().flatten()
    }

    pub(super) fn users_of(&self, claim: &PodName) -> impl Iterator<Item = &PodName> {
        self.by_claim.get(claim).into_iter().flatten()
    }
}

fn claims<'a>(pod: &'a PodName, waiting: &'a Waiting) -> impl Iterator<Item = PodName> + 'a {
    let name = |claim: &String| PodName { namespace: pod.namespace.clone(), name: claim.clone() };
    waiting.claims.iter().map(name)
}

fn forget<K, Q>(pods: &mut BTreeMap<K, BTreeSet<PodName>>, key: &Q, pod: &PodName)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
{
    if let Some(own) = pods.get_mut(key) {
        own.remove(pod);
        if own.is_empty() {
            pods.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::volumes::tests::{now, to_n1};
    use super::*;

    fn name(name: &str) -> PodName {
        PodName { namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn pods_that_wait_are_found_by_node_and_claim_as_long_as_they_do() {
        let mut pods = PreBinding::default();
        for pod in ["a", "b"] {
            pods.insert(name(pod), Waiting::new(to_n1(pod), vec!["shared".into(), format!("own-{pod}")], now()));
        }
        assert_eq!(pods.on_node("n1").collect::<Vec<_>>(), [&name("a"), &name("b")]);
        assert_eq!(pods.users_of(&name("shared")).count(), 2);
        assert_eq!(pods.users_of(&name("own-b")).collect::<Vec<_>>(), [&name("b")]);

        // In place of what it had before.
        pods.insert(name("a"), Waiting::new(to_n1("a"), vec!["other".into()], now()));
        assert_eq!(pods.users_of(&name("own-a")).count() + pods.users_of(&name("shared")).count(), 1);

        assert!(
            pods.remove(&name("a")).is_some() && pods.remove(&name("b")).is_some() && pods.remove(&name("b")).is_none()
        );
        assert!(pods.by_node.is_empty() && pods.by_claim.is_empty(), "{pods:?}");
    }
}
