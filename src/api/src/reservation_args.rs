//! ReservationArgs: what a kube-scheduler configuration says of Reservations.

use serde::{Deserialize, Serialize};

use crate::labels::koordinator;
use crate::{Cause, FieldError};

/// The arguments of the plugin `Reservation` in a kube-scheduler configuration, with Koordinator's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationArgs {
    /// Any version.
    pub api_version: String,
    /// `ReservationArgs`.
    pub kind: String,
    /// Whether pending Reservations may evict pods of lower priority.
    pub enable_preemption: bool,
    /// Of nodes, the part that is looked at for preemption; Berth looks at all.
    pub min_candidate_nodes_percentage: i32,
    /// And the least number of them.
    pub min_candidate_nodes_absolute: i32,
    /// How many Reservations are looked after at the same time.
    pub controller_workers: i64,
    /// Seconds after which those that are over are deleted.
    pub gc_duration_seconds: i64,
    /// Seconds between looking for those.
    pub gc_interval_seconds: i64,
    /// Whether none is deleted.
    pub disable_garbage_collection: bool,
    /// Seconds between looking at all of them.
    pub resync_interval_seconds: i64,
    /// Where pre-allocation may take room.
    pub pre_allocation_config: PreAllocationConfig,
    /// Extended resources that owners are not refused for.
    pub ignored_resources: Vec<String>,
    /// Prefixes of such resources, the part before the slash.
    pub ignored_resource_groups: Vec<String>,
    /// An index that Berth has no need of.
    pub reservation_selector_index: ReservationSelectorIndex,
}

/// Where pre-allocation may take room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreAllocationConfig {
    /// Whether Reservations may use mode Cluster.
    pub enable_cluster_mode: bool,
    /// The label that marks pods that Reservations in mode Cluster may be bound to, if it is `true`.
    pub cluster_label_key: String,
    /// The annotation with their priority.
    pub cluster_priority_annotation_key: String,
    /// Whether free room comes before running pods where it is enough.
    pub prefer_no_pre_allocated_pods: bool,
}

/// An index that Berth has no need of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationSelectorIndex {
    /// Whether it is kept.
    pub enabled: bool,
    /// Of labels with these prefixes.
    pub key_prefixes: Vec<String>,
    /// And of these labels.
    pub keys: Vec<String>,
}

impl Default for PreAllocationConfig {
    fn default() -> Self {
        PreAllocationConfig {
            enable_cluster_mode: false,
            cluster_label_key: koordinator::IS_PRE_ALLOCATABLE.to_owned(),
            cluster_priority_annotation_key: koordinator::PRE_ALLOCATABLE_PRIORITY.to_owned(),
            prefer_no_pre_allocated_pods: false,
        }
    }
}

impl Default for ReservationArgs {
    fn default() -> Self {
        ReservationArgs {
            api_version: String::new(),
            kind: "ReservationArgs".to_owned(),
            enable_preemption: false,
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
            controller_workers: 1,
            gc_duration_seconds: 86_400,
            gc_interval_seconds: 60,
            disable_garbage_collection: false,
            resync_interval_seconds: 60,
            pre_allocation_config: PreAllocationConfig::default(),
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            reservation_selector_index: ReservationSelectorIndex::default(),
        }
    }
}

impl ReservationArgs {
    /// What is wrong with it; paths are relative to it.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut error = |path: &str, message: String| {
            errors.push(FieldError { path: path.to_owned(), message, cause: Cause::Invalid });
        };
        if self.kind != "ReservationArgs" {
            error("kind", format!("found {:?}, expected ReservationArgs", self.kind));
        }
        if !(0..=100).contains(&self.min_candidate_nodes_percentage) {
            let found = self.min_candidate_nodes_percentage;
            error("minCandidateNodesPercentage", format!("found {found}, expected 0 to 100"));
        }
        for (path, value, least) in [
            ("minCandidateNodesAbsolute", i64::from(self.min_candidate_nodes_absolute), 0),
            ("controllerWorkers", self.controller_workers, 1),
            ("gcDurationSeconds", self.gc_duration_seconds, 1),
            ("gcIntervalSeconds", self.gc_interval_seconds, 1),
            ("resyncIntervalSeconds", self.resync_interval_seconds, 1),
        ] {
            if value < least {
                error(path, format!("found {value}, expected {least} or more"));
            }
        }
        let is_extended = |name: &String| name.contains('/') && !name.starts_with("kubernetes.io/");
        for (i, name) in self.ignored_resources.iter().enumerate().filter(|(_, name)| !is_extended(name)) {
            let message = format!("found {name:?}, expected an extended resource such as example.com/license");
            error(&format!("ignoredResources[{i}]"), message);
        }
        for (i, group) in self.ignored_resource_groups.iter().enumerate() {
            if group.is_empty() || group.contains('/') {
                let message = format!("found {group:?}, expected a prefix without a slash such as example.com");
                error(&format!("ignoredResourceGroups[{i}]"), message);
            }
        }
        for (path, key) in [
            ("clusterLabelKey", &self.pre_allocation_config.cluster_label_key),
            ("clusterPriorityAnnotationKey", &self.pre_allocation_config.cluster_priority_annotation_key),
        ] {
            if key.is_empty() {
                error(&format!("preAllocationConfig.{path}"), "found none, expected a key".to_owned());
            }
        }
        errors
    }
}
