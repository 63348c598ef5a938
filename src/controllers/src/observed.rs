//! What watches tell: objects as they are now, deletions, and whole lists.

use std::sync::Arc;

use berth_api::{NodeClaim, NodePool, Reservation};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::kind::Kind;

macro_rules! objects {
    ($($kind:ident($type:ty),)*) => {
        /// An object of a kind that is watched.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Object { $($kind(Arc<$type>),)* }

        impl Object {
            /// The kind.
            pub(crate) const fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// Name, uid, version and the like.
            pub(crate) fn metadata(&self) -> &ObjectMeta {
                match self { $(Self::$kind(object) => &object.metadata,)* }
            }

            /// An object as a write was answered with it; `None` for kinds that are not watched.
            pub(crate) fn from_answer(kind: Kind, value: Value) -> Option<Result<Self, serde_json::Error>> {
                match kind {
                    $(Kind::$kind => Some(serde_json::from_value::<$type>(value).map(Self::from)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$type> for Object {
            fn from(mut object: $type) -> Self {
                // Large, and nobody here reads it.
                object.metadata.managed_fields = None;
                Self::$kind(Arc::new(object))
            }
        })*
    };
}

objects! {
    Pod(Pod),
    Node(Node),
    PersistentVolumeClaim(PersistentVolumeClaim),
    VolumeAttachment(VolumeAttachment),
    NodePool(NodePool),
    NodeClaim(NodeClaim),
    Reservation(Reservation),
}

/// One thing that a watch told.
#[derive(Debug, Clone)]
pub(crate) enum Observed {
    /// It is so now.
    Applied(Object),
    /// It is gone.
    Deleted(Kind, Box<ObjectMeta>),
    /// All of a kind. What is known and not among them is gone.
    Listed(Kind, Vec<Object>),
    /// An object that cannot be read.
    Unreadable {
        /// Its kind.
        kind: Kind,
        /// Its name and the like.
        metadata: Box<ObjectMeta>,
        /// What is wrong with it.
        error: String,
    },
}
