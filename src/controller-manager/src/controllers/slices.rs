//! EndpointSlices: where the pods of a Service are, a hundred to a slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::core::{Core, controlled_by};
use crate::key::NamespacedName;
use crate::objects::{Labels, Pod, View};
use crate::resource::{SERVICES, SLICES};
use crate::work::Work;
use crate::write::{Effect, Write};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Endpoints of one slice.
const MOST: usize = 100;

/// Name, number and protocol of a port, by which groups are in order.
type PortOrder = (Option<String>, Option<i32>, Option<String>);
/// Pods that serve on the same ports, with these.
type Group<'p> = (Vec<EndpointPort>, Vec<&'p Arc<Pod>>);

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(service) = core.caches.services.get(key).cloned() else { return Effect::Done };
    if service.metadata.deletion_timestamp.is_some() || !has_selector(&service) {
        return Effect::Done;
    }
    let Some(spec) = &service.spec else { return Effect::Done };
    let pods = serving(core, key);
    let view = View::of(&service.metadata);
    let caches = &core.caches;
    let present = caches.indexes.slices_of.get(view.uid).filter_map(|key| caches.slices.get(key));
    let mut present: Vec<&Arc<EndpointSlice>> = present
        .filter(|slice| slice.metadata.deletion_timestamp.is_none())
        .filter(|slice| slice.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MANAGED_BY.0)))
        .collect();
    let labels = labels(&service, &[(SERVICE_NAME, &key.name), MANAGED_BY]);
    let mut wanted: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
    for (ports, pods) in groups(spec, &pods) {
        let endpoints: Vec<Endpoint> = pods.iter().map(|pod| endpoint(core, key, spec, pod)).collect();
        wanted.extend(endpoints.chunks(MOST).map(|chunk| (ports.clone(), chunk.to_vec())));
    }
    if wanted.is_empty() {
        // Readers tell a Service without endpoints from one that nobody looked at.
        wanted.push((Vec::new(), Vec::new()));
    }
    let all_ports: Vec<Vec<EndpointPort>> = wanted.iter().map(|(ports, _)| ports.clone()).collect();
    let mut writes = Vec::new();
    for (ports, endpoints) in wanted {
        let of = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
        let same = present.iter().position(|slice| of(slice) == ports);
        // One whose ports nobody has any more is as good as a new one.
        let free = || present.iter().position(|slice| !all_ports.contains(&of(slice)));
        let (ports, labels) = (Some(ports), Some(labels.clone()));
        let Some(slice) = same.or_else(free).map(|at| present.remove(at)) else {
            let prefix = format!("{}-", key.name);
            let metadata = ObjectMeta {
                generate_name: Some(prefix.clone()),
                labels,
                owner_references: Some(vec![controlled_by(&SERVICES, view)]),
                ..ObjectMeta::default()
            };
            let slice = EndpointSlice { metadata, address_type: "IPv4".to_owned(), endpoints, ports };
            writes.push(Write::create(&SLICES, &key.beside(&prefix), &slice));
            continue;
        };
        let mut new = (**slice).clone();
        (new.endpoints, new.ports, new.metadata.labels) = (endpoints, ports, labels);
        if is_other(&new, slice) {
            writes.push(Write::replace(&SLICES, &View::of(&slice.metadata).key(), &new));
        }
    }
    for slice in present {
        let view = View::of(&slice.metadata);
        writes.push(Write::delete(&SLICES, &view.key(), view.uid));
    }
    Effect::of(writes)
}

/// Whether two states of a slice differ; absent and empty lists are the same.
fn is_other(new: &EndpointSlice, old: &EndpointSlice) -> bool {
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    new.endpoints != old.endpoints || ports(new) != ports(old) || new.metadata.labels != old.metadata.labels
}

/// Whether a Service has endpoints of our making.
pub(crate) fn has_selector(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() != Some("ExternalName") && spec.selector.as_ref().is_some_and(|labels| !labels.is_empty())
    })
}

/// The pods that a Service selects and that have an address.
pub(crate) fn serving(core: &Core, key: &NamespacedName) -> Vec<Arc<Pod>> {
    let members = core.caches.indexes.selected.members(&Work::EndpointSlices(key.clone()));
    let pods = members.filter_map(|key| core.caches.pods.get(key));
    pods.filter(|pod| !pod.has_ended() && address(pod).is_some()).cloned().collect()
}

pub(crate) fn address(pod: &Pod) -> Option<&str> {
    pod.status.pod_ip.as_deref().filter(|ip| !ip.is_empty())
}

pub(crate) fn publishes_all(spec: &ServiceSpec) -> bool {
    spec.publish_not_ready_addresses == Some(true)
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None")
}

/// The labels of a Service with those of its endpoints.
pub(crate) fn labels(service: &Service, own: &[(&str, &str)]) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if service.spec.as_ref().is_some_and(is_headless) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    labels
}

/// The pods of a Service by the ports under which they serve it. A port that a pod does not name is passed over.
pub(crate) fn groups<'p>(spec: &ServiceSpec, pods: &'p [Arc<Pod>]) -> Vec<Group<'p>> {
    let given = spec.ports.as_deref().unwrap_or_default();
    if given.is_empty() && !is_headless(spec) {
        return Vec::new();
    }
    let mut groups: BTreeMap<Vec<PortOrder>, Group<'p>> = BTreeMap::new();
    for pod in pods {
        let ports: Vec<EndpointPort> = given.iter().filter_map(|port| resolved(port, pod)).collect();
        if ports.is_empty() && !given.is_empty() {
            continue;
        }
        let order = ports.iter().map(|port| (port.name.clone(), port.port, port.protocol.clone())).collect();
        groups.entry(order).or_insert_with(|| (ports, Vec::new())).1.push(pod);
    }
    groups.into_values().collect()
}

fn resolved(port: &ServicePort, pod: &Pod) -> Option<EndpointPort> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let number = match &port.target_port {
        Some(IntOrString::String(name)) => {
            let sidecars = pod.spec.init_containers.iter();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let mut ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
            let same = ports
                .find(|own| own.name.as_deref() == Some(name) && own.protocol.as_deref().unwrap_or("TCP") == protocol);
            same?.port
        }
        Some(IntOrString::Int(number)) if *number != 0 => *number,
        _ => port.port,
    };
    Some(EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(number),
        protocol: Some(protocol.to_owned()),
        app_protocol: port.app_protocol.clone(),
    })
}

fn endpoint(core: &Core, key: &NamespacedName, spec: &ServiceSpec, pod: &Pod) -> Endpoint {
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let node = pod.node();
    let zone = node.and_then(|node| core.caches.nodes.get(&NamespacedName::new("", node)));
    let zone = zone.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).cloned());
    Endpoint {
        addresses: address(pod).map(str::to_owned).into_iter().collect(),
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all(spec) || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(key, pod).map(str::to_owned),
        node_name: node.map(str::to_owned),
        target_ref: Some(reference(pod)),
        zone,
        ..Endpoint::default()
    }
}

pub(crate) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.metadata.namespace.to_string()),
        name: Some(pod.metadata.name.to_string()),
        uid: Some(pod.metadata.uid.to_string()),
        ..ObjectReference::default()
    }
}

/// A pod's own name below that of a Service.
pub(crate) fn hostname<'p>(service: &NamespacedName, pod: &'p Pod) -> Option<&'p str> {
    let is_below = pod.spec.subdomain.as_deref() == Some(&*service.name);
    pod.spec.hostname.as_deref().filter(|name| is_below && !name.is_empty())
}
