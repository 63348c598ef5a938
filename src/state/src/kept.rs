//! An object as the state keeps it: pods and nodes as records, all others whole.

use std::borrow::Cow;
use std::sync::Arc;

use berth_convert::{Builder, ConvertError};

use crate::node::NodeRecord;
use crate::packed::Version;
use crate::pod::PodRecord;
use crate::shapes::Shapes;
use crate::{Object, Whole};

/// An object that is kept.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Pod(Arc<PodRecord>),
    Node(Arc<NodeRecord>),
    /// Of any other kind.
    Whole(Object),
}

// === impl Kept ===

impl Kept {
    /// Keeps an object, which has a name; `known` is an earlier version of it.
    pub(crate) fn new(object: Object, known: Option<&Kept>, name: Option<&Arc<str>>, shapes: &mut Shapes) -> Self {
        match object {
            Object::Pod(pod) => {
                let pod = Arc::unwrap_or_clone(pod);
                Kept::Pod(Arc::new(shapes.pod_like(pod, known.and_then(Kept::pod).map(|known| &**known), name)))
            }
            Object::Node(node) => {
                let node = Arc::unwrap_or_clone(node);
                let known = known.and_then(Kept::node).map(|known| &**known);
                Kept::Node(Arc::new(shapes.node(node, known, name)))
            }
            other => Kept::Whole(other),
        }
    }

    /// As it is told to others.
    pub(crate) fn to_object(&self) -> Object {
        match self {
            Kept::Pod(pod) => Object::from(pod.to_pod()),
            Kept::Node(node) => Object::from(node.to_node()),
            Kept::Whole(object) => object.clone(),
        }
    }

    /// The pod, if it is one.
    pub(crate) fn pod(&self) -> Option<&Arc<PodRecord>> {
        match self {
            Kept::Pod(pod) => Some(pod),
            Kept::Node(_) | Kept::Whole(_) => None,
        }
    }

    /// The node, if it is one.
    pub(crate) fn node(&self) -> Option<&Arc<NodeRecord>> {
        match self {
            Kept::Node(node) => Some(node),
            Kept::Pod(_) | Kept::Whole(_) => None,
        }
    }

    /// The object of this type, if it is one.
    pub(crate) fn whole<T: Whole>(&self) -> Option<&Arc<T>> {
        match self {
            Kept::Pod(_) | Kept::Node(_) => None,
            Kept::Whole(object) => T::of(object),
        }
    }

    pub(crate) fn uid(&self) -> Option<Cow<'_, str>> {
        let uid = match self {
            Kept::Pod(pod) => pod.uid(),
            Kept::Node(node) => node.uid(),
            Kept::Whole(object) => object.uid().map(Cow::Borrowed),
        };
        uid.filter(|uid| !uid.is_empty())
    }

    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Kept::Pod(pod) => pod.version.as_ref().and_then(Version::number),
            Kept::Node(node) => node.version.as_ref().and_then(Version::number),
            Kept::Whole(object) => object.version(),
        }
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        match self {
            Kept::Pod(pod) => pod.deletion().is_some(),
            Kept::Node(node) => node.deletion().is_some(),
            Kept::Whole(object) => object.metadata().deletion_timestamp.is_some(),
        }
    }

    /// Whether all but the resourceVersion is as in another.
    pub(crate) fn is_same_but_for_version(&self, other: &Kept) -> bool {
        match (self, other) {
            (Kept::Pod(a), Kept::Pod(b)) => a.is_same_but_for_version(b),
            (Kept::Node(a), Kept::Node(b)) => a.is_same_but_for_version(b),
            (Kept::Whole(a), Kept::Whole(b)) => {
                let mut a = a.clone();
                a.metadata_mut().resource_version.clone_from(&b.metadata().resource_version);
                a == *b
            }
            _ => false,
        }
    }

    /// Folds it into a cluster.
    pub(crate) fn add_to(&self, builder: &mut Builder) -> Result<(), ConvertError> {
        match self {
            Kept::Pod(pod) => builder.add_pod_parts(&pod.parts()),
            Kept::Node(node) => builder.add_node(&node.to_node()),
            Kept::Whole(object) => object.add_to(builder),
        }
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Kept::Pod(a), Kept::Pod(b)) => Arc::ptr_eq(a, b) || a == b,
            (Kept::Node(a), Kept::Node(b)) => Arc::ptr_eq(a, b) || a == b,
            (Kept::Whole(a), Kept::Whole(b)) => a == b,
            _ => false,
        }
    }
}
