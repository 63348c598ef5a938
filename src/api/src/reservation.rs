//! Reservation, `scheduling.koordinator.sh/v1alpha1`: room on a node, held for pods that come later.

use k8s_openapi::api::core::v1::{ObjectReference, PodTemplateSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Deserializer, Serialize};

use crate::object::cluster_object;
use crate::{GoDuration, ResourceList};

cluster_object! {
    /// Room on a node, held for pods that come later. Its pods' namespace is that of the template.
    Reservation {
        group: "scheduling.koordinator.sh", version: "v1alpha1", plural: "reservations",
        spec: ReservationSpec, status: ReservationStatus,
    }
}

/// What is reserved, for whom, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationSpec {
    /// What is reserved, written as a pod: its requests, affinities, ports and so on. A `nodeName` pins it.
    #[cfg_attr(feature = "crd", schemars(with = "crate::crd::AnyObject"))]
    pub template: PodTemplateSpec,
    /// Who may draw from it: any pod that one of these describes.
    #[serde(default)]
    pub owners: Vec<ReservationOwner>,
    /// How long it lives from its creation; 0 is for ever. Counts only where `expires` is not set.
    #[serde(default = "default_ttl")]
    pub ttl: GoDuration,
    /// When it expires, whatever the ttl says.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "far_time")]
    pub expires: Option<Time>,
    /// Whether it is bound to pods that already run, to inherit the room that they free.
    #[serde(default)]
    pub pre_allocation: bool,
    /// How running pods are chosen for pre-allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_allocation_policy: Option<PreAllocationPolicy>,
    /// Whether only the first owner may draw from it.
    #[serde(default = "default_true")]
    pub allocate_once: bool,
    /// How owners that need more than is reserved are treated; unset behaves as Aligned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_policy: Option<AllocatePolicy>,
    /// Whether new owners are kept out.
    #[serde(default)]
    pub unschedulable: bool,
    /// Taints that owners must tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

fn default_ttl() -> GoDuration {
    // Written in hours as in the schema's default.
    "24h".parse().unwrap_or_else(|_| GoDuration::from_secs(24 * 3600))
}

/// A time, of which `9999-12-31T23:59:59Z` is often written for never. Clocks here end some hours before that: then it is
/// their last second.
fn far_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let time = text.parse::<Timestamp>().or_else(|error| {
        let pieces = Pieces::parse(&text).ok().filter(|pieces| pieces.time().is_some() && pieces.offset().is_some());
        let is_last = pieces.is_some_and(|pieces| pieces.date().year() == 9999);
        if is_last { Timestamp::from_second(Timestamp::MAX.as_second()) } else { Err(error) }
    });
    time.map(|time| Some(Time(time))).map_err(serde::de::Error::custom)
}

const fn default_true() -> bool {
    true
}

impl Default for ReservationSpec {
    fn default() -> Self {
        Self {
            template: PodTemplateSpec::default(),
            owners: Vec::new(),
            ttl: default_ttl(),
            expires: None,
            pre_allocation: false,
            pre_allocation_policy: None,
            allocate_once: default_true(),
            allocate_policy: None,
            unschedulable: false,
            taints: Vec::new(),
        }
    }
}

/// Which pods may draw from a Reservation: those that fit every part that is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationOwner {
    /// The pod itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// A controller of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<ReservationControllerReference>,
    /// Labels of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// A controller in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationControllerReference {
    /// The API group and version of the controller.
    #[serde(default)]
    pub api_version: String,
    /// The kind of the controller.
    #[serde(default)]
    pub kind: String,
    /// The name of the controller.
    #[serde(default)]
    pub name: String,
    /// The uid of the controller.
    #[serde(default)]
    pub uid: String,
    /// The namespace of the controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Whether it is the managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the pod must be gone before the controller can be deleted in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// How owners that need more than is reserved are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum AllocatePolicy {
    /// They draw from the Reservation first and take the rest from the node.
    Aligned,
    /// For the resources that are reserved they draw from the Reservation alone.
    Restricted,
}

/// How running pods are chosen for pre-allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PreAllocationPolicy {
    /// Where the candidates come from.
    #[serde(default)]
    pub mode: PreAllocationMode,
    /// Whether the room of several pods may be taken together.
    #[serde(default)]
    pub enable_multiple: bool,
}

/// Where the candidates for pre-allocation come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum PreAllocationMode {
    /// The pods that the Reservation's owners describe.
    #[default]
    Default,
    /// The pods that the cluster's label marks, by their priority annotation.
    Cluster,
}

/// What was observed of a Reservation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationStatus {
    /// How far it has come.
    #[serde(default)]
    pub phase: ReservationPhase,
    /// Scheduled and Ready, with their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ReservationCondition>,
    /// The pods that draw from it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_owners: Vec<ObjectReference>,
    /// The node that the room is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// What is reserved.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// What owners draw from it now.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocated: ResourceList,
}

/// What an annotation of a pod names: the Reservation that it draws from, or, between it and a pod that is a Reservation, the other one.
/// What is not said is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReservationReference {
    /// Empty for a Reservation, and for a pod of the same namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: one that has only its name is another one.
    pub uid: String,
}

/// How far a Reservation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ReservationPhase {
    /// No node yet.
    #[default]
    #[serde(alias = "")]
    Pending,
    /// Owners may draw from it.
    Available,
    /// It has a node, but pods that still run hold its room.
    Waiting,
    /// It is spent.
    Succeeded,
    /// It expired, or its node is gone.
    Failed,
}

impl ReservationReference {
    /// As an annotation has it; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether it names the Reservation, or the pod, of this name and UID.
    pub fn names(&self, name: &str, uid: &str) -> bool {
        if self.uid.is_empty() || uid.is_empty() { self.name == name } else { self.uid == uid }
    }
}

impl ReservationPhase {
    /// Whether the Reservation holds nothing any more and never will.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// One thing observed of a Reservation, and since when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationCondition {
    /// Scheduled or Ready.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
    pub status: String,
    /// One word: Scheduled, Unschedulable, Available, Succeeded or Expired.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When its status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
