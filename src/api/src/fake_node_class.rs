//! FakeNodeClass, `berth.sh/v1alpha1`: how the cloud in memory makes nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::object::cluster_object;

cluster_object! {
    /// How the cloud in memory makes nodes: from which instance types, in which zones, how fast.
    FakeNodeClass {
        group: "berth.sh", version: "v1alpha1", plural: "fakenodeclasses",
        spec: FakeNodeClassSpec, status: FakeNodeClassStatus,
    }
}

/// From which instance types, in which zones and how fast nodes are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FakeNodeClassSpec {
    /// Where the instance types are listed; unset is the built-in catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_types: Option<CatalogueReference>,
    /// The zones that nodes may be launched in; all zones of the catalogue where there are none. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Zones where machines boot and never register as nodes, as in a subnet without a route. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable_zones: Vec<String>,
    /// How long a launched instance takes to register as a node; unset is at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_delay: Option<GoDuration>,
    /// The image that nodes run; a node that runs another one has drifted. At most 63 characters, as a label's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// A key of a ConfigMap that holds an instance catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct CatalogueReference {
    /// The namespace of the ConfigMap.
    pub namespace: String,
    /// The name of the ConfigMap.
    pub name: String,
    /// The key in the ConfigMap.
    #[serde(default = "default_catalogue_key")]
    pub key: String,
}

fn default_catalogue_key() -> String {
    "instance-types.yaml".to_owned()
}

/// What was observed of a FakeNodeClass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct FakeNodeClassStatus {
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
