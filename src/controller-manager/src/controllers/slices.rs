//! EndpointSlices: where the pods of a Service are, a hundred to a slice.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustc_hash::FxHashMap;

use crate::addresses::{KnownEndpoint, KnownSlice, PodAddress, PodEndpoint, SliceText};
use crate::core::{Core, controlled_by};
use crate::key::NamespacedName;
use crate::objects::{Labels, Pod, PodTemplate, View};
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
/// The endpoints of one slice.
type Content<'p> = Vec<(KnownEndpoint, PodEndpoint<'p>)>;

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
    let mut present: Vec<&Arc<KnownSlice>> = present
        .filter(|slice| slice.metadata.deletion_timestamp.is_none())
        .filter(|slice| slice.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MANAGED_BY.0)))
        .collect();
    let labels = labels(&service, &[(SERVICE_NAME, &key.name), MANAGED_BY]);
    let mut wanted: Vec<(Vec<EndpointPort>, Vec<PodEndpoint<'_>>)> = Vec::new();
    for (ports, pods) in groups(spec, &pods) {
        wanted.push((ports, pods.iter().map(|pod| endpoint(core, key, spec, pod)).collect()));
    }
    if wanted.is_empty() {
        // Readers tell a Service without endpoints from one that nobody looked at.
        wanted.push((Vec::new(), Vec::new()));
    }
    let all_ports: Vec<Vec<EndpointPort>> = wanted.iter().map(|(ports, _)| ports.clone()).collect();
    let mut writes = Vec::new();
    for (ports, endpoints) in wanted {
        let mut slices: Vec<&Arc<KnownSlice>> = present.extract_if(.., |slice| slice.ports == ports).collect();
        if slices.is_empty() {
            // One whose ports nobody has any more is as good as a new one.
            slices.extend(
                present.iter().position(|slice| !all_ports.contains(&slice.ports)).map(|at| present.remove(at)),
            );
        }
        let contents = distribute(slices.iter().map(|slice| slice.endpoints.as_slice()), endpoints);
        let is_empty = contents.iter().all(Vec::is_empty);
        let mut kept = slices.into_iter();
        for content in contents {
            let Some(slice) = kept.next() else {
                let prefix = format!("{}-", key.name);
                let metadata = ObjectMeta {
                    generate_name: Some(prefix.clone()),
                    labels: Some(labels.clone()),
                    owner_references: Some(vec![controlled_by(&SERVICES, view)]),
                    ..ObjectMeta::default()
                };
                writes.push(Write::create(&SLICES, &key.beside(&prefix), &made(&metadata, &ports, &content)));
                continue;
            };
            if content.is_empty() && !is_empty {
                present.push(slice);
                continue;
            }
            let is_same = slice.metadata.labels.as_ref() == Some(&labels)
                && slice.ports == ports
                && slice.endpoints.iter().eq(content.iter().map(|(known, _)| known));
            if !is_same {
                let metadata = ObjectMeta { labels: Some(labels.clone()), ..slice.metadata.clone() };
                let key = View::of(&slice.metadata).key();
                writes.push(Write::replace(&SLICES, &key, &made(&metadata, &ports, &content)));
            }
        }
    }
    for slice in present {
        let view = View::of(&slice.metadata);
        writes.push(Write::delete(&SLICES, &view.key(), view.uid));
    }
    Effect::of(writes)
}

fn made<'s>(metadata: &'s ObjectMeta, ports: &'s [EndpointPort], content: &'s Content<'_>) -> SliceText<'s> {
    SliceText::new(metadata, ports, content.iter().map(|(_, endpoint)| endpoint))
}

/// What each slice holds: first those that there are, then new ones. As upstream, an endpoint stays in its slice, so that
/// the change of one writes one slice. New endpoints fill slices that are written anyway, then the fullest of the others
/// that has room for all that are left, then new slices.
fn distribute<'s, 'p>(
    present: impl Iterator<Item = &'s [KnownEndpoint]>,
    wanted: Vec<PodEndpoint<'p>>,
) -> Vec<Content<'p>> {
    let mut left: Vec<Option<(KnownEndpoint, PodEndpoint<'p>)>> =
        wanted.into_iter().map(|endpoint| Some((KnownEndpoint::from(&endpoint), endpoint))).collect();
    let uids = left.iter().flatten().map(|(known, _)| known.uid.clone());
    let at: FxHashMap<Box<str>, usize> = uids.enumerate().map(|(at, uid)| (uid, at)).collect();
    let mut is_written = Vec::new();
    let mut slices: Vec<Content<'p>> = Vec::new();
    for old in present {
        let places = old.iter().filter_map(|known| at.get(&known.uid).copied());
        let new: Content<'p> = places.filter_map(|at| left.get_mut(at)?.take()).collect();
        is_written.push(old.is_empty() || !old.iter().eq(new.iter().map(|(known, _)| known)));
        slices.push(new);
    }
    let mut left: Content<'p> = left.into_iter().flatten().collect();
    for slice in slices.iter_mut().zip(&is_written).filter_map(|(slice, is_written)| is_written.then_some(slice)) {
        slice.extend(left.drain(..left.len().min(MOST.saturating_sub(slice.len()))));
    }
    while left.len() >= MOST {
        slices.push(left.drain(..MOST).collect());
    }
    if !left.is_empty() {
        let with_room = slices.iter_mut().filter(|slice| slice.len() + left.len() <= MOST);
        match with_room.max_by_key(|slice| slice.len()) {
            Some(fullest) => fullest.append(&mut left),
            None => slices.push(left),
        }
    }
    if slices.is_empty() {
        slices.push(Vec::new());
    }
    slices
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

fn address(pod: &Pod) -> Option<&str> {
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
    let mut groups: Vec<(Vec<PortOrder>, Group<'p>)> = Vec::new();
    // Pods of one workload mostly share their template, and with it their group.
    let mut last: Option<(&Arc<PodTemplate>, Option<usize>)> = None;
    for pod in pods {
        let known = last.filter(|(template, _)| Arc::ptr_eq(template, &pod.spec.template));
        let at = known.map_or_else(|| group_of(given, pod, &mut groups), |(_, at)| at);
        last = Some((&pod.spec.template, at));
        if let Some((_, group)) = at.and_then(|at| groups.get_mut(at)) {
            group.1.push(pod);
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.cmp(b));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Which group a pod belongs to; none where it names none of the ports.
fn group_of(given: &[ServicePort], pod: &Pod, groups: &mut Vec<(Vec<PortOrder>, Group<'_>)>) -> Option<usize> {
    let ports: Vec<EndpointPort> = given.iter().filter_map(|port| resolved(port, pod)).collect();
    if ports.is_empty() && !given.is_empty() {
        return None;
    }
    let order = ports.iter().map(|port| (port.name.clone(), port.port, port.protocol.clone())).collect();
    Some(groups.iter().position(|(known, _)| *known == order).unwrap_or_else(|| {
        groups.push((order, (ports, Vec::new())));
        groups.len() - 1
    }))
}

fn resolved(port: &ServicePort, pod: &Pod) -> Option<EndpointPort> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let number = match &port.target_port {
        Some(IntOrString::String(name)) => {
            let sidecars = pod.spec.template.init_containers.iter();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let mut ports = pod.spec.template.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
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

fn endpoint<'p>(core: &'p Core, key: &NamespacedName, spec: &ServiceSpec, pod: &'p Pod) -> PodEndpoint<'p> {
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let zone = pod.node().and_then(|node| core.caches.nodes.get(&NamespacedName::new("", node)));
    let zone = zone.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).map(String::as_str));
    PodEndpoint {
        address: pod_address(key, pod),
        zone,
        ready: publishes_all(spec) || (serving && !terminating),
        serving,
        terminating,
    }
}

/// A pod as an address of a Service.
pub(crate) fn pod_address<'p>(service: &NamespacedName, pod: &'p Pod) -> PodAddress<'p> {
    PodAddress {
        ip: address(pod).unwrap_or_default(),
        hostname: hostname(service, pod),
        node: pod.node(),
        namespace: &pod.metadata.namespace,
        name: &pod.metadata.name,
        uid: &pod.metadata.uid,
    }
}

/// A pod's own name below that of a Service.
fn hostname<'p>(service: &NamespacedName, pod: &'p Pod) -> Option<&'p str> {
    let is_below = pod.spec.template.subdomain.as_deref() == Some(&*service.name);
    pod.spec.hostname.as_deref().filter(|name| is_below && !name.is_empty())
}
