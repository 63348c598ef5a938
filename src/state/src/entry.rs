//! One object of the state: as it was observed, what is assumed of it, and what it counts for.

use std::sync::Arc;

use berth_api::labels::koordinator::OPERATING_MODE;
use berth_convert::{Builder, Options};

use crate::assume::{Assumption, Progress};
use crate::event::{CountsAs, RefusedObject};
use crate::kept::Kept;
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
    pub(crate) fn refresh(&mut self, key: &Key, check: &Check, shapes: &mut Shapes) -> bool {
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
    fn refresh(&mut self, key: &Key, observed: Option<&Kept>, check: &Check, shapes: &mut Shapes) -> bool {
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
            Some(object) => check.usable(key, object),
            None => (None, None),
        };
        let changed = counted != self.counted || refused != self.refused;
        (self.current, self.counted, self.refused) = (current, counted, refused);
        changed
    }
}

/// What tells whether an object can be used: a conversion of nothing, of which each object gets a copy. What it begins with is
/// shared until then.
pub(crate) struct Check(Builder);

// === impl Check ===

impl Check {
    pub(crate) fn new(options: Options) -> Self {
        Check(Builder::new(options))
    }

    /// What of an object can be used, and what is wrong with it.
    fn usable(&self, key: &Key, object: &Kept) -> (Option<Kept>, Option<RefusedObject>) {
        let fault = |object: &Kept| object.add_to(&mut self.0.clone()).err();
        let Some(error) = fault(object) else { return (Some(object.clone()), None) };
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
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").finish_non_exhaustive()
    }
}

/// Whether an object can be used because another version of it can: all is the same that may be wrong with it.
fn reads_as(object: &Kept, known: &Kept) -> bool {
    let (Some(pod), Some(known)) = (object.pod(), known.pod()) else { return false };
    // On a node annotations say what it has there, and it may be a Reservation.
    let says_nothing_of_nodes =
        || pod.annotations().is_none() && pod.labels().is_none_or(|labels| !labels.contains_key(OPERATING_MODE));
    let given = |pod: &PodRecord| {
        let status = pod.status();
        status.is_some_and(|all| all.container_statuses.is_some() || all.init_container_statuses.is_some())
    };
    let are_statuses_alike = || match (&pod.status, &known.status) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    Arc::ptr_eq(&pod.metadata, &known.metadata)
        && pod.spec.as_ref().zip(known.spec.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        && !known.has_ended()
        && (pod.node == known.node || says_nothing_of_nodes())
        && (are_statuses_alike() || !(given(pod) || given(known)))
}
