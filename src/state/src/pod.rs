//! Pods as the state keeps them: what pods of one owner have the same is there once, and what nobody reads is dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_convert::PodParts;
use berth_model::Insists;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time as MetaTime};

use crate::packed::{Moment, Uid, Version};
use crate::{Key, Kind, ObjectRef, Time};

/// The annotation that marks the mirror of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod, as far as decisions, conditions and Events read one. Of its containers it has what they ask for, their images and
/// ports; of its volumes those that are claims or disks; of its status what [`PodRecord::status`] says.
#[derive(Clone, Debug)]
pub struct PodRecord {
    pub(crate) name: Arc<str>,
    /// What others may have, too: the labels, annotations and owners, with the namespace.
    pub(crate) metadata: Arc<ObjectMeta>,
    /// The same, without the node.
    pub(crate) spec: Option<Arc<PodSpec>>,
    /// The same, without when it started.
    pub(crate) status: Option<Arc<PodStatus>>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) uid: Option<Uid>,
    pub(crate) version: Option<Version>,
    pub(crate) created: Moment,
    pub(crate) started: Moment,
    pub(crate) more: Option<Box<More>>,
}

/// What few pods have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct More {
    pub(crate) deletion: Option<MetaTime>,
    pub(crate) grace: Option<i64>,
    /// Times that are no [`Moment`].
    pub(crate) created: Option<MetaTime>,
    pub(crate) started: Option<MetaTime>,
    /// In what-ifs, the preferences that it asks for as if they were required.
    pub(crate) insists: Insists,
}

// === impl PodRecord ===

impl PodRecord {
    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The namespace, as the object has it.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The namespace that it is known by.
    pub(crate) fn key_namespace(&self) -> &str {
        match self.namespace() {
            "" => "default",
            namespace => namespace,
        }
    }

    /// The uid that the API server gave it; `None` before that, and in manifests.
    pub fn uid(&self) -> Option<Cow<'_, str>> {
        self.uid.as_ref().map(Uid::text)
    }

    /// The resourceVersion.
    pub fn resource_version(&self) -> Option<String> {
        self.version.as_ref().map(Version::text)
    }

    /// The pod as others refer to it.
    pub fn reference(&self) -> ObjectRef {
        let key = Key::new(Kind::Pod, self.namespace(), &self.name);
        key.with_uid(self.uid().as_deref())
    }

    /// Its labels.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }

    /// Its annotations.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.annotations.as_ref()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations()?.get(key).map(String::as_str)
    }

    /// Who owns it.
    pub fn owner_references(&self) -> &[OwnerReference] {
        self.metadata.owner_references.as_deref().unwrap_or_default()
    }

    /// Who controls it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references().iter().find(|owner| owner.controller == Some(true))
    }

    /// When it was created.
    pub fn created(&self) -> Option<Time> {
        self.created.time().or_else(|| Some(self.more.as_ref()?.created.as_ref()?.0))
    }

    /// Since when it is being deleted, if it is.
    pub fn deletion(&self) -> Option<Time> {
        Some(self.more.as_ref()?.deletion.as_ref()?.0)
    }

    /// What it asks for. The node that it is bound to is not in it: [`PodRecord::node`].
    pub fn spec(&self) -> Option<&PodSpec> {
        self.spec.as_deref()
    }

    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref().filter(|name| !name.is_empty())
    }

    /// Its status: the phase, the node on which room was made for it, what its containers have been given, and its conditions.
    /// Of the conditions of a pod on a node there are type, status and reason alone. When it started is not in it.
    pub fn status(&self) -> Option<&PodStatus> {
        self.status.as_deref()
    }

    /// The phase.
    pub fn phase(&self) -> Option<&str> {
        self.status()?.phase.as_deref()
    }

    /// Whether its containers have ended and are not started again.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase(), Some("Succeeded" | "Failed"))
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[PodCondition] {
        self.status().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }

    /// What a scheduler said last of why it has no node, where one did.
    pub fn unscheduled(&self) -> Option<&PodCondition> {
        self.conditions().iter().find(|own| own.type_ == "PodScheduled" && own.status == "False")
    }

    /// When it started.
    pub fn started(&self) -> Option<Time> {
        self.started.time().or_else(|| Some(self.more.as_ref()?.started.as_ref()?.0))
    }

    /// In what-ifs, the preferences that it asks for as if they were required while it is on no node.
    pub(crate) fn insists(&self) -> Insists {
        self.more.as_ref().map_or(Insists::default(), |more| more.insists)
    }

    /// The node on which room was made for it.
    pub fn nominated_node(&self) -> Option<&str> {
        self.status()?.nominated_node_name.as_deref()
    }

    /// The scheduler that it asks for: `default-scheduler` where it does not say.
    pub fn scheduler_name(&self) -> &str {
        let name = self.spec().and_then(|spec| spec.scheduler_name.as_deref());
        name.filter(|name| !name.is_empty()).unwrap_or("default-scheduler")
    }

    /// Whether a selector selects it, as [`selects`] has it.
    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selects(selector, self.labels())
    }

    /// Whether it is the mirror of a static pod.
    pub fn is_mirror(&self) -> bool {
        self.annotation(MIRROR).is_some()
    }

    /// As an object, without what was dropped.
    pub fn to_pod(&self) -> Pod {
        let metadata = ObjectMeta {
            name: Some(self.name.to_string()),
            uid: self.uid.as_ref().map(|uid| uid.text().into_owned()),
            resource_version: self.resource_version(),
            creation_timestamp: self.created().map(MetaTime),
            deletion_timestamp: self.deletion().map(MetaTime),
            deletion_grace_period_seconds: self.more.as_ref().and_then(|more| more.grace),
            ..(*self.metadata).clone()
        };
        let node_name = || self.node.as_deref().map(str::to_owned);
        let spec = self.spec.as_ref().map(|spec| PodSpec { node_name: node_name(), ..(**spec).clone() });
        let start_time = || self.started().map(MetaTime);
        let status = self.status.as_ref().map(|status| PodStatus { start_time: start_time(), ..(**status).clone() });
        Pod { metadata, spec, status }
    }

    /// As it is read into a cluster.
    pub(crate) fn parts(&self) -> PodParts<'_> {
        PodParts {
            metadata: &self.metadata,
            name: Some(Arc::clone(&self.name)),
            uid: self.uid(),
            created: self.created(),
            is_terminating: self.deletion().is_some(),
            spec: self.spec(),
            node: self.node.as_deref(),
            status: self.status(),
            started: self.started(),
            insists: self.insists(),
            shared: self.spec.as_ref().map(|spec| (&self.metadata, spec)),
        }
    }

    /// The same without annotations, but for that of mirrors.
    pub(crate) fn without_annotations(&self) -> Self {
        let mut metadata = (*self.metadata).clone();
        if let Some(annotations) = &mut metadata.annotations {
            annotations.retain(|key, _| key == MIRROR);
        }
        PodRecord { metadata: Arc::new(metadata), ..self.clone() }
    }

    /// Whether all but the resourceVersion is the same.
    pub(crate) fn is_same_but_for_version(&self, other: &Self) -> bool {
        let is_same = |a: &Arc<ObjectMeta>, b: &Arc<ObjectMeta>| Arc::ptr_eq(a, b) || a == b;
        self.name == other.name
            && is_same(&self.metadata, &other.metadata)
            && same(self.spec.as_ref(), other.spec.as_ref())
            && same(self.status.as_ref(), other.status.as_ref())
            && self.node == other.node
            && self.uid == other.uid
            && self.created == other.created
            && self.started == other.started
            && self.more == other.more
    }
}

impl PartialEq for PodRecord {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.is_same_but_for_version(other)
    }
}

/// Whether both are the same; where they are one, nothing needs to be compared.
pub(crate) fn same<T: PartialEq>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Whether a selector selects these labels; an empty one selects all. An operator that does not exist holds always: what a
/// selector protects must not be free because of it.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let has_labels = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    let mut terms = selector.match_expressions.iter().flatten();
    has_labels
        && terms.all(|term| {
            let values = term.values.as_deref().unwrap_or_default();
            let found = value(&term.key);
            match term.operator.as_str() {
                "In" => found.is_some_and(|found| values.contains(found)),
                "NotIn" => found.is_none_or(|found| !values.contains(found)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => true,
            }
        })
}
