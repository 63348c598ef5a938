//! One object of the state: as it was observed, what is assumed of it, and what it counts for.

use std::sync::Arc;

use berth_convert::{Builder, Options};
use k8s_openapi::api::core::v1::Pod;

use crate::assume::Assumption;
use crate::event::{CountsAs, RefusedObject};
use crate::patch::node_of;
use crate::relevant::counts_alike;
use crate::{Key, Object};

/// The annotation that marks the mirror of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is known of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The newest version that was observed.
    pub(crate) observed: Option<Object>,
    /// What is assumed of it, in the order in which it was decided.
    pub(crate) assumed: Vec<Assumption>,
    /// The observed version with what is assumed.
    pub(crate) current: Option<Object>,
    /// What counts: the current version, or what of it can be used.
    pub(crate) counted: Option<Object>,
    /// Why the current version cannot be used, if so.
    pub(crate) refused: Option<RefusedObject>,
}

// === impl Entry ===

impl Entry {
    /// What has a slot as far as is known: one that is assumed to be removed has it until it is gone.
    pub(crate) fn on_slot(&self) -> Option<&Object> {
        if self.current.is_some() { self.counted.as_ref() } else { self.observed.as_ref() }
    }

    /// Brings what counts up to date; whether that is something else now.
    pub(crate) fn refresh(&mut self, key: &Key, options: &Options) -> bool {
        let mut current = self.observed.clone();
        for assumption in &self.assumed {
            current = assumption.patch.applied_to(current);
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
        let (counted, refused) = match &current {
            Some(object) => usable(key, object, options),
            None => (None, None),
        };
        let changed = counted != self.counted || refused != self.refused;
        (self.current, self.counted, self.refused) = (current, counted, refused);
        changed
    }

    /// Something new was told of the object: what is assumed of it may be out of date.
    pub(crate) fn told(&mut self, version: Option<u64>) {
        for known in &mut self.assumed {
            known.told(version);
        }
    }

    /// Whether nothing is known of the name any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.observed.is_none() && self.assumed.is_empty()
    }
}

/// What of an object can be used, and what is wrong with it.
fn usable(key: &Key, object: &Object, options: &Options) -> (Option<Object>, Option<RefusedObject>) {
    let fault = |object: &Object| object.add_to(&mut Builder::new(options.clone())).err();
    let Some(error) = fault(object) else { return (Some(object.clone()), None) };
    if let Object::Pod(pod) = object
        && node_of(pod).is_some()
        && pod.metadata.annotations.is_some()
    {
        let bare = Object::Pod(Arc::new(without_annotations(pod)));
        if fault(&bare).is_none() {
            return (Some(bare), Some(RefusedObject::new(key.clone(), &error, CountsAs::WithoutAnnotations)));
        }
    }
    (None, Some(RefusedObject::new(key.clone(), &error, CountsAs::Absent)))
}

fn without_annotations(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key == MIRROR);
    }
    pod
}
