//! NodePool, `karpenter.sh/v1`: a template of nodes to launch, with limits and disruption settings.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::object::cluster_object;
use crate::{GoDuration, NillableDuration, NodeClassRef, Requirement, ResourceList};

/// 30 days, the age at which nodes are replaced unless a NodePool says otherwise.
const EXPIRE_AFTER_SECONDS: i64 = 720 * 3600;

cluster_object! {
    /// Which nodes may be launched for pending pods, and how they may be disrupted.
    NodePool {
        group: "karpenter.sh", version: "v1", plural: "nodepools", spec: NodePoolSpec, status: NodePoolStatus,
    }
}

/// Which nodes a pool launches, how many at most, and how they are disrupted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// What every node of the pool has in common; what is launched is often narrower.
    #[serde(default)]
    pub template: NodeClaimTemplate,
    /// When nodes of the pool may be replaced or removed.
    #[serde(default)]
    pub disruption: Disruption,
    /// The most that all nodes of the pool may have, by resource, and their number under `nodes`.
    /// Only `nodes` is allowed together with replicas.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub limits: ResourceList,
    /// A fixed number of nodes to keep, whatever pods need. Such a static pool has no weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Pools of higher weight are used first, 1 to 100; unset counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

impl NodePoolSpec {
    /// The weight that pools are ordered by, highest first.
    pub fn weight(&self) -> i32 {
        self.weight.unwrap_or(0)
    }

    /// Whether the pool keeps a fixed number of nodes.
    pub const fn is_static(&self) -> bool {
        self.replicas.is_some()
    }
}

/// Metadata and spec of the NodeClaims that a pool launches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the nodes.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// What is required of the nodes.
    #[serde(default)]
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct TemplateMetadata {
    /// Labels that every node of the pool gets, at most 100.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that every node of the pool gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What is required of the nodes of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that every node gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that every node starts with and that something else removes soon; pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// Conditions on the labels of the nodes, at most 100.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// The node class of the nodes. The API server demands it; a plan can do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_ref: Option<NodeClassRef>,
    /// How long a node may drain before its pods are deleted, whatever their disruption budgets say;
    /// unset waits for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// The age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

pub(crate) fn default_expire_after() -> NillableDuration {
    // Written in hours as in the schema's default.
    "720h".parse().unwrap_or_else(|_| NillableDuration::after_secs(EXPIRE_AFTER_SECONDS))
}

impl Default for NodeClaimTemplateSpec {
    fn default() -> Self {
        Self {
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Vec::new(),
            node_class_ref: None,
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

/// When nodes of a pool may be replaced or removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must be left alone by pods before consolidation considers it, or `Never`.
    #[serde(default = "default_consolidate_after")]
    pub consolidate_after: NillableDuration,
    /// Which nodes consolidation considers.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at a time; of those that are active the strictest counts. At most 50.
    #[serde(default = "default_budgets")]
    pub budgets: Vec<Budget>,
}

fn default_consolidate_after() -> NillableDuration {
    NillableDuration::after_secs(0)
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget::default()]
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: default_consolidate_after(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

/// Which nodes consolidation considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ConsolidationPolicy {
    /// Nodes without pods that need a node.
    WhenEmpty,
    /// Those and nodes whose pods fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Those, where the saving is in proportion to the disruption.
    Balanced,
}

/// How many nodes of a pool may be disrupted at a time, and when that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct Budget {
    /// A number of nodes, or a share of the pool such as `10%`.
    #[serde(default = "default_budget_nodes")]
    pub nodes: String,
    /// The reasons for disruption that it holds for; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<DisruptionReason>,
    /// When it begins to hold: five cron fields or a macro such as `@daily`, in UTC. Needs a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long it holds from each time of the schedule, in whole minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: default_budget_nodes(), reasons: Vec::new(), schedule: None, duration: None }
    }
}

/// Why a node is disrupted, as budgets tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum DisruptionReason {
    /// Its pods fit elsewhere or on something cheaper.
    Underutilized,
    /// It has no pods that need a node.
    Empty,
    /// It no longer is as its pool or node class says.
    Drifted,
}

/// What was observed of a NodePool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What all nodes of the pool have together.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resources: ResourceList,
    /// The number of nodes of the pool.
    #[serde(default)]
    pub nodes: i64,
    /// The generation of the node class that the condition NodeRegistrationHealthy speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
