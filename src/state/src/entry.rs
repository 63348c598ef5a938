//! One object of the state: as it was observed, what is assumed of it, and what it counts for.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use berth_api::labels::koordinator::OPERATING_MODE;
use berth_api::{NodeClaim, ResourceList};
use berth_convert::{Builder, Options};
use k8s_openapi::api::core::v1::{PodSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::assume::{Assumption, Progress};
use crate::event::{CountsAs, RefusedObject};
use crate::kept::Kept;
use crate::node::NodeRecord;
use crate::relevant::counts_alike;
use crate::shapes::Shapes;
use crate::{Key, PodRecord};

/// What is known of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The newest version that was observed.
    observed: Option<Kept>,
    /// What few objects have. Without it what was observed is current, and counts.
    more: Option<Box<More>>,
}

/// What is known of an object of which something is assumed, or that cannot be used as it is.
#[derive(Clone, Debug, Default)]
struct More {
    /// What is assumed of it, in the order in which it was decided.
    assumed: Vec<Assumption>,
    /// The observed version with what is assumed.
    current: Option<Kept>,
    /// What counts: the current version, or what of it can be used.
    counted: Option<Kept>,
    /// Why the current version cannot be used, if so.
    refused: Option<RefusedObject>,
}

// === impl Entry ===

impl Entry {
    /// The newest version that was observed.
    pub(crate) fn observed(&self) -> Option<&Kept> {
        self.observed.as_ref()
    }

    /// The observed version with what is assumed.
    pub(crate) fn current(&self) -> Option<&Kept> {
        self.more.as_ref().map_or(&self.observed, |more| &more.current).as_ref()
    }

    /// What counts: the current version, or what of it can be used.
    pub(crate) fn counted(&self) -> Option<&Kept> {
        self.more.as_ref().map_or(&self.observed, |more| &more.counted).as_ref()
    }

    /// Why the current version cannot be used, if so.
    pub(crate) fn refused(&self) -> Option<&RefusedObject> {
        self.more.as_ref()?.refused.as_ref()
    }

    /// What is assumed of it, in the order in which it was decided.
    pub(crate) fn assumed(&self) -> &[Assumption] {
        self.more.as_ref().map_or(&[], |more| &more.assumed)
    }

    /// Whether nobody can tell what became of something that is assumed of it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.assumed().iter().any(|known| known.progress == Progress::Unknown)
    }

    pub(crate) fn assumed_mut(&mut self) -> impl Iterator<Item = &mut Assumption> {
        self.more.iter_mut().flat_map(|more| &mut more.assumed)
    }

    /// Drops what is not to be kept of what is assumed.
    pub(crate) fn retain_assumed(&mut self, mut keep: impl FnMut(&Assumption, Option<&Kept>) -> bool) {
        let observed = self.observed.as_ref();
        if let Some(more) = &mut self.more {
            more.assumed.retain(|known| keep(known, observed));
        }
    }

    /// Another version was observed, or there is none any more. [`Entry::refresh`] brings the rest up to date.
    pub(crate) fn observe(&mut self, observed: Option<Kept>) {
        self.more();
        self.observed = observed;
    }

    /// One more is assumed.
    pub(crate) fn assume(&mut self, assumption: Assumption) {
        self.more().assumed.push(assumption);
    }

    fn more(&mut self) -> &mut More {
        let observed = &self.observed;
        self.more.get_or_insert_with(|| {
            Box::new(More { current: observed.clone(), counted: observed.clone(), ..More::default() })
        })
    }

    /// What has a slot as far as is known: one that is assumed to be removed has it until it is gone.
    pub(crate) fn on_slot(&self) -> Option<&Kept> {
        if self.current().is_some() { self.counted() } else { self.observed() }
    }

    /// Brings what counts up to date; whether that is something else now.
    pub(crate) fn refresh(&mut self, key: &Key, check: &mut Check, shapes: &mut Shapes) -> bool {
        let Some(mut more) = self.more.take() else { return false };
        let changed = more.refresh(key, self.observed.as_ref(), check, shapes);
        if !more.assumed.is_empty() || more.refused.is_some() {
            self.more = Some(more);
        }
        changed
    }

    /// Something new was told of the object: what is assumed of it may be out of date.
    pub(crate) fn told(&mut self, version: Option<u64>) {
        for known in self.assumed_mut() {
            known.told(version);
        }
    }

    /// Whether nothing is known of the name any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.observed.is_none() && self.assumed().is_empty()
    }
}

// === impl More ===

impl More {
    fn refresh(&mut self, key: &Key, observed: Option<&Kept>, check: &mut Check, shapes: &mut Shapes) -> bool {
        let mut current = observed.cloned();
        for assumption in &self.assumed {
            current = assumption.patch.applied_to(current, shapes);
        }
        let is_alike = match (&current, &self.current) {
            (Some(now), Some(before)) => counts_alike(now, before),
            (now, before) => now.is_none() && before.is_none(),
        };
        if is_alike {
            // One copy is kept where what counts is all of it: bound pods would be kept as assumed and as observed.
            if self.refused.is_none() {
                self.counted.clone_from(&current);
            }
            self.current = current;
            return false;
        }
        let known = self.counted.as_ref().filter(|_| self.refused.is_none());
        let (counted, refused) = match &current {
            Some(object) if known.is_some_and(|known| reads_as(object, known)) => (current.clone(), None),
            Some(object) if check.knows(object) => (current.clone(), None),
            Some(object) => check.usable(key, object),
            None => (None, None),
        };
        let changed = counted != self.counted || refused != self.refused;
        (self.current, self.counted, self.refused) = (current, counted, refused);
        changed
    }
}

/// Pods that are remembered as usable at most.
const MOST_USABLE: usize = 1_024;

/// What tells whether an object can be used: a conversion of nothing, of which each object gets a copy. What it begins with is
/// shared until then.
pub(crate) struct Check {
    nothing: Builder,
    /// Metadata and specs that pods can have, by where these are: nothing else comes there as long as this is known of them.
    usable: BTreeMap<[usize; 2], (Weak<ObjectMeta>, Weak<PodSpec>)>,
    #[cfg(test)]
    pub(crate) n_looked_at: usize,
}

// === impl Check ===

impl Check {
    pub(crate) fn new(options: Options) -> Self {
        Check {
            nothing: Builder::new(options),
            usable: BTreeMap::new(),
            #[cfg(test)]
            n_looked_at: 0,
        }
    }

    /// Whether a pod that shares metadata and spec with this object can be used, and so it can, too.
    fn knows(&self, object: &Kept) -> bool {
        object.pod().and_then(|pod| shared_by(pod)).is_some_and(|shared| self.usable.contains_key(&places(shared)))
    }

    /// What of an object can be used, and what is wrong with it.
    fn usable(&mut self, key: &Key, object: &Kept) -> (Option<Kept>, Option<RefusedObject>) {
        #[cfg(test)]
        {
            self.n_looked_at += 1;
        }
        let fault = |object: &Kept| object.add_to(&mut self.nothing.clone()).err();
        let Some(error) = fault(object) else {
            self.note(object);
            return (Some(object.clone()), None);
        };
        if let Kept::Pod(pod) = object
            && pod.node().is_some()
            && pod.annotations().is_some()
        {
            let bare = Kept::Pod(Arc::new(pod.without_annotations()));
            if fault(&bare).is_none() {
                return (Some(bare), Some(RefusedObject::new(key.clone(), &error, CountsAs::WithoutAnnotations)));
            }
        }
        (None, Some(RefusedObject::new(key.clone(), &error, CountsAs::Absent)))
    }

    /// Remembers of a pod that it can be used.
    fn note(&mut self, object: &Kept) {
        let pod = object.pod().filter(|pod| !pod.has_ended());
        let Some(shared) = pod.and_then(|pod| shared_by(pod)) else { return };
        if self.usable.len() >= MOST_USABLE {
            self.usable.clear();
        }
        self.usable.insert(places(shared), (Arc::downgrade(shared.0), Arc::downgrade(shared.1)));
    }
}

/// The metadata and the spec of a pod, where nothing else of it is read that may be wrong.
fn shared_by(pod: &PodRecord) -> Option<(&Arc<ObjectMeta>, &Arc<PodSpec>)> {
    let spec = pod.spec.as_ref().filter(|_| says_nothing_of_nodes(pod) && !is_given_room(pod))?;
    Some((&pod.metadata, spec))
}

fn places((metadata, spec): (&Arc<ObjectMeta>, &Arc<PodSpec>)) -> [usize; 2] {
    [Arc::as_ptr(metadata).addr(), Arc::as_ptr(spec).addr()]
}

/// Annotations of a pod on a node say what it has there, and it may be a Reservation.
fn says_nothing_of_nodes(pod: &PodRecord) -> bool {
    pod.annotations().is_none() && pod.labels().is_none_or(|labels| !labels.contains_key(OPERATING_MODE))
}

/// Whether its status says what its containers have been given.
fn is_given_room(pod: &PodRecord) -> bool {
    let status = pod.status();
    status.is_some_and(|all| all.container_statuses.is_some() || all.init_container_statuses.is_some())
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").finish_non_exhaustive()
    }
}

/// Whether an object can be used because another version of it can: all is the same that may be wrong with it.
fn reads_as(object: &Kept, known: &Kept) -> bool {
    match (object, known) {
        (Kept::Pod(pod), Kept::Pod(known)) => pod_reads_as(pod, known),
        (Kept::Node(node), Kept::Node(known)) => node_reads_as(node, known),
        (object, known) => {
            let claims = object.whole::<NodeClaim>().zip(known.whole::<NodeClaim>());
            claims.is_some_and(|(claim, known)| claim_reads_as(claim, known))
        }
    }
}

/// What of a node is read and may be wrong: the effects of its taints, its amounts, and what its annotations keep.
fn node_reads_as(node: &NodeRecord, known: &NodeRecord) -> bool {
    let same = |a: Option<&Arc<_>>, b: Option<&Arc<_>>| a.zip(b).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
    let has_effect = |taint: &Taint| matches!(&*taint.effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
    node.name() == known.name()
        && node.annotations() == known.annotations()
        && (same(node.status.as_ref(), known.status.as_ref()) || node.room() == known.room())
        && node.taints().iter().all(has_effect)
}

/// What of a NodeClaim is read and may be wrong: its spec, its amounts, what its annotations keep, and as long as it has no
/// instance its labels.
fn claim_reads_as(claim: &NodeClaim, known: &NodeClaim) -> bool {
    fn amounts(claim: &NodeClaim) -> [Option<&ResourceList>; 2] {
        let status = claim.status.as_ref();
        [status.map(|status| &status.allocatable), status.map(|status| &status.capacity)]
    }
    fn is_launched(claim: &NodeClaim) -> bool {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        id.is_some_and(|id| !id.is_empty())
    }
    let is_read_alike = || !is_launched(known) && claim.metadata.labels == known.metadata.labels;
    claim.metadata.name == known.metadata.name
        && claim.metadata.annotations == known.metadata.annotations
        && claim.spec == known.spec
        && amounts(claim) == amounts(known)
        && (is_launched(claim) || is_read_alike())
}

fn pod_reads_as(pod: &PodRecord, known: &PodRecord) -> bool {
    let are_statuses_alike = || match (&pod.status, &known.status) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    Arc::ptr_eq(&pod.metadata, &known.metadata)
        && pod.spec.as_ref().zip(known.spec.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        && !known.has_ended()
        && (pod.node == known.node || says_nothing_of_nodes(pod))
        && (are_statuses_alike() || !(is_given_room(pod) || is_given_room(known)))
}
