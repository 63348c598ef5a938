//! The part of a pod that admission looks at, kept until all LimitRanges and ResourceQuotas are known.

use berth_model::{Cluster, Resources};
use k8s_openapi::api::core::v1 as core;
use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::quantities::Amounts;
use crate::requests::{assumed, limited, pod_requests, reserved_requests};

/// Containers and what else decides whether a pod is let in.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct AdmissionSpec {
    /// No more than names, resources and restart policies of containers, pod-level resources, overhead, the priority
    /// class and the deadline; with a runtime class also that and the node selector.
    pub(crate) spec: core::PodSpec,
    /// Whether an affinity term names other namespaces.
    pub(crate) crosses_namespaces: bool,
}

impl AdmissionSpec {
    /// Of a pod's spec, as text: alike shapes are one.
    pub(crate) fn text_of(spec: &core::PodSpec) -> String {
        let container = |container: &core::Container| core::Container {
            name: container.name.clone(),
            resources: container.resources.clone(),
            restart_policy: container.restart_policy.clone(),
            ..core::Container::default()
        };
        let stripped = core::PodSpec {
            containers: spec.containers.iter().map(container).collect(),
            init_containers: spec.init_containers.as_ref().map(|all| all.iter().map(container).collect()),
            resources: spec.resources.clone(),
            overhead: spec.overhead.clone(),
            node_selector: spec.runtime_class_name.as_ref().and(spec.node_selector.clone()),
            runtime_class_name: spec.runtime_class_name.clone(),
            priority_class_name: spec.priority_class_name.clone(),
            active_deadline_seconds: spec.active_deadline_seconds,
            ..core::PodSpec::default()
        };
        AdmissionSpec { spec: stripped, crosses_namespaces: crosses_namespaces(spec) }.text()
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Back from its text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut shape: AdmissionSpec = serde_json::from_str(text).ok()?;
        // As the API server does before any admission: a container's limit is its request where it has none.
        for container in shape.containers_mut() {
            let resources = container.resources.get_or_insert_default();
            let limits = resources.limits.clone().unwrap_or_default();
            let requests = resources.requests.get_or_insert_default();
            for (name, limit) in limits {
                requests.entry(name).or_insert(limit);
            }
        }
        Some(shape)
    }

    pub(crate) fn containers_mut(&mut self) -> impl Iterator<Item = &mut core::Container> {
        self.spec.containers.iter_mut().chain(self.spec.init_containers.iter_mut().flatten())
    }

    pub(crate) fn containers(&self) -> impl Iterator<Item = &core::Container> {
        self.spec.containers.iter().chain(self.spec.init_containers.iter().flatten())
    }

    /// What the scheduler counts, what its scores assume beyond that, and whether a resource is beyond the limit.
    pub(crate) fn scheduled(&self, cluster: &mut Cluster) -> Result<(Resources, [i64; 2], bool), Problem> {
        let (requests, is_beyond_limit) = pod_requests(&self.spec, cluster)?;
        let assumed = assumed(&self.spec, &requests, cluster)?;
        Ok((requests, assumed, is_beyond_limit))
    }

    /// What the pod requests in all, to the nano-unit.
    pub(crate) fn requests(&self, cluster: &mut Cluster) -> Result<Amounts, Problem> {
        reserved_requests(&self.spec, cluster)
    }

    /// What the pod is limited to in all.
    pub(crate) fn limits(&self, cluster: &mut Cluster) -> Result<Amounts, Problem> {
        reserved_requests(&limited(&self.spec), cluster)
    }

    /// Whether no container, nor the pod, has a request or limit of CPU or memory: the QoS class BestEffort.
    pub(crate) fn is_best_effort(&self) -> bool {
        let of_containers = self.containers().filter_map(|container| container.resources.as_ref());
        let lists = of_containers.chain(&self.spec.resources).flat_map(|all| [&all.requests, &all.limits]);
        let is_zero = |quantity: &str| quantity.bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
        !lists.flatten().flatten().any(|(name, quantity)| (name == "cpu" || name == "memory") && !is_zero(&quantity.0))
    }
}

fn crosses_namespaces(spec: &core::PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let crosses = |term: &core::PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let affine = affinity.pod_affinity.iter().flat_map(|terms| {
        let required = terms.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term))
    });
    let anti_affine = affinity.pod_anti_affinity.iter().flat_map(|terms| {
        let required = terms.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term))
    });
    affine.chain(anti_affine).any(crosses)
}
