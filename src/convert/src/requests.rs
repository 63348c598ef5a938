//! What a pod requests, as kubelet and scheduler count it.
//!
//! Follows k8s.io/component-helpers `resource.PodRequests` and the defaults that the API server sets before it.

use berth_model::{Cluster, ResourceId, Resources};
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use crate::Problem;
use crate::quantities::{Amounts, resource_id};

/// The requests of a pod, one `pods` included: the larger of what its containers need together and what each init
/// container needs beside the sidecars that started before it, or the pod-level request where there is one; plus
/// overhead.
pub(crate) fn pod_requests(spec: &PodSpec, cluster: &mut Cluster) -> Result<Resources, Problem> {
    let mut total = container_requests(spec, cluster)?;
    if let Some(resources) = &spec.resources {
        raise_to_pod_level(resources, &mut total, cluster).map_err(|problem| problem.under("resources"))?;
    }
    if let Some(overhead) = &spec.overhead {
        let overhead = Amounts::read(overhead, cluster).map_err(|problem| problem.under("overhead"))?;
        total.add(&overhead);
    }
    let mut requests = total.rounded_up();
    requests.set(ResourceId::PODS, 1);
    Ok(requests)
}

/// All containers together, before the pod's own requests and overhead.
fn container_requests(spec: &PodSpec, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    let mut together = Amounts::default();
    for (i, container) in spec.containers.iter().enumerate() {
        let own =
            requests_of(container, cluster).map_err(|problem| problem.under(format!("containers[{i}].resources")))?;
        together.add(&own);
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut own = requests_of(container, cluster)
            .map_err(|problem| problem.under(format!("initContainers[{i}].resources")))?;
        if is_sidecar(container) {
            together.add(&own);
            sidecars.add(&own);
            starting.raise_to(&sidecars);
        } else {
            own.add(&sidecars);
            starting.raise_to(&own);
        }
    }
    together.raise_to(&starting);
    Ok(together)
}

/// Whether an init container keeps running beside the containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// A container's requests; where it has only a limit, the limit is the request.
fn requests_of(container: &Container, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    match &container.resources {
        Some(resources) => with_limits(resources, cluster),
        None => Ok(Amounts::default()),
    }
}

fn with_limits(resources: &ResourceRequirements, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    let mut requests = match &resources.requests {
        Some(list) => Amounts::read(list, cluster).map_err(|problem| problem.under("requests"))?,
        None => Amounts::default(),
    };
    if let Some(list) = &resources.limits {
        let limits = Amounts::read(list, cluster).map_err(|problem| problem.under("limits"))?;
        for (id, limit) in limits.iter() {
            if requests.get(id).is_none() {
                requests.set(id, limit);
            }
        }
    }
    Ok(requests)
}

/// Pod-level requests take the place of what the containers need. Where the pod has only a limit, the containers'
/// requests count, and where they have none of that resource, the limit does.
fn raise_to_pod_level(
    resources: &ResourceRequirements,
    total: &mut Amounts,
    cluster: &mut Cluster,
) -> Result<(), Problem> {
    for (list, field) in [(&resources.requests, "requests"), (&resources.limits, "limits")] {
        let Some(list) = list else { continue };
        let amounts = Amounts::read(list, cluster).map_err(|problem| problem.under(field))?;
        for name in list.keys().filter(|name| may_be_pod_level(name)) {
            let id = resource_id(name, cluster)?;
            let is_explicit = field == "requests";
            let is_set = resources.requests.as_ref().is_some_and(|requests| requests.contains_key(name));
            // Huge pages cannot be overcommitted, so their limit is their request.
            let is_default = !is_set && (total.get(id).is_none() || name.starts_with("hugepages-"));
            if is_explicit || is_default {
                total.set(id, amounts.get(id).unwrap_or(0));
            }
        }
    }
    Ok(())
}

fn may_be_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}
