//! Nodes as the state keeps them: what is alike on many is there once, and what nobody reads is dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as MetaTime};

use crate::packed::{Moment, Uid, Version};
use crate::pod::{More, same};
use crate::{Key, Kind, ObjectRef, Time};

/// A node, as far as decisions read one: labels, annotations, taints, its machine, what it has for pods, its images, and of its
/// conditions type, status and reason.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    pub(crate) name: Arc<str>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// What others may have, too: annotations and owners.
    pub(crate) metadata: Arc<ObjectMeta>,
    /// The same, without the machine.
    pub(crate) spec: Option<Arc<NodeSpec>>,
    pub(crate) provider_id: Option<Box<str>>,
    /// The same, without the images.
    pub(crate) status: Option<Arc<NodeStatus>>,
    pub(crate) images: Option<Box<[Arc<ContainerImage>]>>,
    pub(crate) uid: Option<Uid>,
    pub(crate) version: Option<Version>,
    pub(crate) created: Moment,
    pub(crate) more: Option<Box<More>>,
}

// === impl NodeRecord ===

impl NodeRecord {
    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The uid that the API server gave it; `None` before that, and in manifests.
    pub fn uid(&self) -> Option<Cow<'_, str>> {
        self.uid.as_ref().map(Uid::text)
    }

    /// The node as others refer to it.
    pub fn reference(&self) -> ObjectRef {
        Key::new(Kind::Node, "", &self.name).with_uid(self.uid().as_deref())
    }

    /// Its labels.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels()?.get(key).map(String::as_str)
    }

    /// Its annotations.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.annotations.as_ref()
    }

    /// When it was created.
    pub fn created(&self) -> Option<Time> {
        self.created.time().or_else(|| Some(self.more.as_ref()?.created.as_ref()?.0))
    }

    /// Since when it is being deleted, if it is.
    pub fn deletion(&self) -> Option<Time> {
        Some(self.more.as_ref()?.deletion.as_ref()?.0)
    }

    /// Its taints.
    pub fn taints(&self) -> &[Taint] {
        self.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    /// Its machine, as the cloud knows it.
    pub fn provider_id(&self) -> Option<&str> {
        self.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Its conditions: type, status and reason.
    pub fn conditions(&self) -> &[NodeCondition] {
        self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }

    /// Whether it has an image, by one of its names.
    pub(crate) fn has_image(&self, image: &str) -> bool {
        let mut names = self.images.iter().flatten().flat_map(|known| known.names.iter().flatten());
        names.any(|name| name == image)
    }

    /// Whether taints, cordon and machine are those of another version.
    pub fn has_spec_of(&self, other: &NodeRecord) -> bool {
        same(self.spec.as_ref(), other.spec.as_ref()) && self.provider_id == other.provider_id
    }

    /// As an object, without what was dropped.
    pub fn to_node(&self) -> Node {
        let metadata = ObjectMeta {
            name: Some(self.name.to_string()),
            uid: self.uid.as_ref().map(|uid| uid.text().into_owned()),
            resource_version: self.version.as_ref().map(Version::text),
            creation_timestamp: self.created().map(MetaTime),
            deletion_timestamp: self.deletion().map(MetaTime),
            deletion_grace_period_seconds: self.more.as_ref().and_then(|more| more.grace),
            labels: self.labels.clone(),
            ..(*self.metadata).clone()
        };
        let provider_id = || self.provider_id.as_deref().map(str::to_owned);
        let spec = self.spec.as_ref().map(|spec| NodeSpec { provider_id: provider_id(), ..(**spec).clone() });
        let images = || self.images.as_ref().map(|all| all.iter().map(|image| (**image).clone()).collect());
        let status = self.status.as_ref().map(|status| NodeStatus { images: images(), ..(**status).clone() });
        Node { metadata, spec, status }
    }

    /// Whether all but the resourceVersion is the same.
    pub(crate) fn is_same_but_for_version(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.metadata, &other.metadata) || self.metadata == other.metadata)
            && self.has_spec_of(other)
            && same(self.status.as_ref(), other.status.as_ref())
            && self.has_images_of(other)
            && self.name == other.name
            && self.labels == other.labels
            && self.uid == other.uid
            && self.created == other.created
            && self.more == other.more
    }

    /// Whether two versions count for the same in every decision.
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        let (mine, theirs) = (&self.metadata, &other.metadata);
        let shares_metadata = || {
            let none_is_empty =
                |a: Option<&Vec<_>>, b: Option<&Vec<_>>| a.is_none_or(Vec::is_empty) && b.is_none_or(Vec::is_empty);
            let (my_owners, their_owners) = (mine.owner_references.as_ref(), theirs.owner_references.as_ref());
            mine.annotations == theirs.annotations
                && (my_owners == their_owners || none_is_empty(my_owners, their_owners))
        };
        self.name == other.name
            && self.labels == other.labels
            && (Arc::ptr_eq(mine, theirs) || shares_metadata())
            && self.uid == other.uid
            && self.created() == other.created()
            && self.deletion() == other.deletion()
            && self.has_spec_of(other)
            && self.room() == other.room()
            && self.has_images_of(other)
    }

    /// What pods may use, and what it has.
    pub(crate) fn room(&self) -> [Option<&BTreeMap<String, Quantity>>; 2] {
        let status = self.status.as_ref();
        [status.and_then(|status| status.allocatable.as_ref()), status.and_then(|status| status.capacity.as_ref())]
    }

    fn has_images_of(&self, other: &Self) -> bool {
        match (&self.images, &other.images) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b) || a == b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl PartialEq for NodeRecord {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.is_same_but_for_version(other)
    }
}
