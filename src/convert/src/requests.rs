//! What a pod requests, as kubelet and scheduler count it.
//!
//! Follows k8s.io/component-helpers `resource.PodRequests` and the defaults that the API server sets before it.

use std::collections::BTreeSet;

use berth_model::{Cluster, ResourceId, Resources};
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use crate::Problem;
use crate::quantities::{Amounts, Named, resource_id};

/// The requests of a pod, one `pods` included: the larger of what its containers need together and what each init
/// container needs beside the sidecars that started before it, or the pod-level request where there is one; plus
/// overhead. Also tells whether a resource is left out of it, as [`Amounts::is_beyond_limit`].
pub(crate) fn pod_requests(spec: &PodSpec, cluster: &mut Cluster) -> Result<(Resources, bool), Problem> {
    let total = total_requests(spec, false, cluster)?;
    Ok((total.rounded_up_with_pod(), total.is_beyond_limit()))
}

/// What a pod requests, and what it is limited to, without the one of `pods` that it takes.
///
/// # Errors
/// An amount that is none.
pub fn requests_and_limits(spec: &PodSpec, cluster: &mut Cluster) -> Result<[Resources; 2], Problem> {
    let requests = total_requests(spec, false, cluster)?.rounded_up();
    Ok([requests, total_requests(&limited(spec), false, cluster)?.rounded_up()])
}

/// What a Reservation of this template reserves: as [`pod_requests`], but `pods` only where they are asked for.
pub(crate) fn reserved_requests(spec: &PodSpec, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    total_requests(spec, false, cluster)
}

/// The spec with its limits in place of its requests, for what a pod is limited to in all. Overhead counts only where the
/// pod has a limit.
pub(crate) fn limited(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    let swap = |resources: &mut ResourceRequirements| resources.requests = resources.limits.take();
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    containers.filter_map(|container| container.resources.as_mut()).for_each(swap);
    spec.resources.iter_mut().for_each(swap);
    let of_containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let lists = of_containers.filter_map(|container| container.resources.as_ref()).chain(&spec.resources);
    let limited: BTreeSet<String> =
        lists.flat_map(|all| all.requests.iter().flatten()).map(|(name, _)| name.clone()).collect();
    if let Some(overhead) = &mut spec.overhead {
        overhead.retain(|name, _| limited.contains(name));
    }
    spec
}

/// CPU (milli) and memory (bytes) that scores assume beyond the requests: kube-scheduler's non-zero requests, where a
/// container that states none of a resource counts with 100m or 200 MiB.
pub(crate) fn assumed(spec: &PodSpec, requests: &Resources, cluster: &mut Cluster) -> Result<[i64; 2], Problem> {
    let states_all = |container: &Container| {
        let resources = container.resources.as_ref();
        let states = |name: &str| {
            let lists = resources.into_iter().flat_map(|r| [r.requests.as_ref(), r.limits.as_ref()]);
            lists.flatten().any(|list| list.contains_key(name))
        };
        states("cpu") && states("memory")
    };
    if spec.containers.iter().chain(spec.init_containers.iter().flatten()).all(states_all) {
        return Ok([0, 0]);
    }
    let scored = total_requests(spec, true, cluster)?.rounded_up_with_pod();
    Ok([ResourceId::CPU, ResourceId::MEMORY].map(|id| scored.get(id).saturating_sub(requests.get(id))))
}

fn total_requests(spec: &PodSpec, assumes: bool, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    let mut total = container_requests(spec, assumes, cluster)?;
    if let Some(resources) = &spec.resources {
        raise_to_pod_level(resources, &mut total, cluster).map_err(|problem| problem.under("resources"))?;
    }
    if let Some(overhead) = &spec.overhead {
        let overhead = Amounts::asked(overhead, cluster).map_err(|problem| problem.under("overhead"))?;
        total.add(&overhead);
    }
    Ok(total)
}

/// All containers together, before the pod's own requests and overhead.
fn container_requests(spec: &PodSpec, assumes: bool, cluster: &mut Cluster) -> Result<Amounts, Problem> {
    const ASSUMED: [(ResourceId, i128); 2] =
        [(ResourceId::CPU, 100_000_000), (ResourceId::MEMORY, 200 * 1024 * 1024 * 1_000_000_000)];
    let assume = |own: &mut Amounts| {
        for (id, nanos) in ASSUMED.into_iter().filter(|_| assumes) {
            if own.get(id).is_none() {
                own.set(id, nanos);
            }
        }
    };
    let mut together = Amounts::default();
    for (i, container) in spec.containers.iter().enumerate() {
        let mut own =
            requests_of(container, cluster).map_err(|problem| problem.under(format!("containers[{i}].resources")))?;
        assume(&mut own);
        together.add(&own);
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut own = requests_of(container, cluster)
            .map_err(|problem| problem.under(format!("initContainers[{i}].resources")))?;
        assume(&mut own);
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
        Some(list) => Amounts::asked(list, cluster).map_err(|problem| problem.under("requests"))?,
        None => Amounts::default(),
    };
    if let Some(list) = &resources.limits {
        let limits = Amounts::asked(list, cluster).map_err(|problem| problem.under("limits"))?;
        requests.leave_out(&limits);
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
        let amounts = Amounts::asked(list, cluster).map_err(|problem| problem.under(field))?;
        total.leave_out(&amounts);
        for name in list.keys().filter(|name| may_be_pod_level(name)) {
            let Some(id) = resource_id(name, Named::Asked, cluster) else { continue };
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
