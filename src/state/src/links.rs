//! Which pods are on a node, and which NodeClaims it is of: found by name, where a what-if would look through all objects.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::NodeClaim;

use crate::Key;
use crate::chunked::Chunked;
use crate::kept::Kept;
use crate::pod::PodRecord;

/// What a NodeClaim says that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    /// It has this node.
    ClaimOf(Box<str>),
    /// It has the machine of this provider id.
    ClaimBy(Box<str>),
}

/// Objects by what they say that they belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// By node: its pods as they count now, by namespace and name.
    pods: Chunked<Arc<str>, Vec<Arc<PodRecord>>>,
    claims: BTreeMap<Link, BTreeSet<Key>>,
}

// === impl Links ===

impl Links {
    /// An object is another one now.
    pub(crate) fn changed(&mut self, key: &Key, before: Option<&Kept>, after: Option<&Kept>) {
        let pods = (before.and_then(Kept::pod), after.and_then(Kept::pod));
        if pods.0.is_some() || pods.1.is_some() {
            self.pod_changed(pods.0, pods.1);
            return;
        }
        let (before, after) = (links(before), links(after));
        if before == after {
            return;
        }
        for link in before {
            if let Some(keys) = self.claims.get_mut(&link) {
                keys.remove(key);
                if keys.is_empty() {
                    self.claims.remove(&link);
                }
            }
        }
        for link in after {
            self.claims.entry(link).or_default().insert(key.clone());
        }
    }

    fn pod_changed(&mut self, before: Option<&Arc<PodRecord>>, after: Option<&Arc<PodRecord>>) {
        if let Some(before) = before
            && let Some(node) = before.node()
            && after.and_then(|after| after.node()) != Some(node)
            && let Some(pods) = self.pods.get_mut(node)
        {
            if let Ok(at) = position(pods, before) {
                pods.remove(at);
            }
            let is_empty = pods.is_empty();
            if is_empty {
                self.pods.remove(node);
            }
        }
        let Some((after, node)) = after.and_then(|after| Some((after, after.node.as_ref()?))) else { return };
        if node.is_empty() {
            return;
        }
        let Some(pods) = self.pods.get_mut(node) else {
            self.pods.insert_new(Arc::clone(node), vec![Arc::clone(after)]);
            return;
        };
        match position(pods, after) {
            Ok(at) => {
                if let Some(known) = pods.get_mut(at) {
                    *known = Arc::clone(after);
                }
            }
            Err(at) => pods.insert(at, Arc::clone(after)),
        }
    }

    /// The pods of a node, by namespace and name.
    pub(crate) fn pods_on(&self, node: &str) -> &[Arc<PodRecord>] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// The first NodeClaim by name that has this node, or its machine.
    pub(crate) fn claim_of(&self, node: &str, provider: Option<&str>) -> Option<&Key> {
        let first = |link: Link| self.claims.get(&link).and_then(BTreeSet::first);
        let by_name = first(Link::ClaimOf(node.into()));
        let by_provider = provider.and_then(|id| first(Link::ClaimBy(id.into())));
        by_name.into_iter().chain(by_provider).min()
    }
}

/// Where a pod is among others by namespace and name, or would be.
fn position(pods: &[Arc<PodRecord>], pod: &PodRecord) -> Result<usize, usize> {
    let place = |known: &PodRecord| -> Ordering {
        known.key_namespace().cmp(pod.key_namespace()).then_with(|| known.name().cmp(pod.name()))
    };
    pods.binary_search_by(|known| place(known))
}

fn links(object: Option<&Kept>) -> Vec<Link> {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(Box::from);
    let Some(claim) = object.and_then(Kept::whole::<NodeClaim>) else { return Vec::new() };
    let status = claim.status.as_ref();
    let node = text(status.and_then(|status| status.node_name.as_deref())).map(Link::ClaimOf);
    let provider = text(status.and_then(|status| status.provider_id.as_deref())).map(Link::ClaimBy);
    node.into_iter().chain(provider).collect()
}
