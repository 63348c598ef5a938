//! Which pods are on a node, and which NodeClaims it is of: found by name, where a what-if would look through all objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::patch::node_of;
use crate::{Key, Object};

/// What an object says that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    /// A pod is on this node.
    Pod(Box<str>),
    /// A NodeClaim has this node.
    ClaimOf(Box<str>),
    /// A NodeClaim has the machine of this provider id.
    ClaimBy(Box<str>),
}

/// Objects by what they say that they belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(BTreeMap<Link, BTreeSet<Key>>);

// === impl Links ===

impl Links {
    /// An object is another one now.
    pub(crate) fn changed(&mut self, key: &Key, before: Option<&Object>, after: Option<&Object>) {
        let (before, after) = (links(before), links(after));
        if before == after {
            return;
        }
        for link in before {
            if let Some(keys) = self.0.get_mut(&link) {
                keys.remove(key);
                if keys.is_empty() {
                    self.0.remove(&link);
                }
            }
        }
        for link in after {
            self.0.entry(link).or_default().insert(key.clone());
        }
    }

    /// The pods of a node, by namespace and name.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.0.get(&Link::Pod(node.into())).into_iter().flatten()
    }

    /// The first NodeClaim by name that has this node, or its machine.
    pub(crate) fn claim_of(&self, node: &str, provider: Option<&str>) -> Option<&Key> {
        let first = |link: Link| self.0.get(&link).and_then(BTreeSet::first);
        let by_name = first(Link::ClaimOf(node.into()));
        let by_provider = provider.and_then(|id| first(Link::ClaimBy(id.into())));
        by_name.into_iter().chain(by_provider).min()
    }
}

fn links(object: Option<&Object>) -> Vec<Link> {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(Box::from);
    match object {
        Some(Object::Pod(pod)) => node_of(pod).map(|node| Link::Pod(node.into())).into_iter().collect(),
        Some(Object::NodeClaim(claim)) => {
            let status = claim.status.as_ref();
            let node = text(status.and_then(|status| status.node_name.as_deref())).map(Link::ClaimOf);
            let provider = text(status.and_then(|status| status.provider_id.as_deref())).map(Link::ClaimBy);
            node.into_iter().chain(provider).collect()
        }
        _ => Vec::new(),
    }
}
