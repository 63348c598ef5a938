//! Endpoints: where the pods of a Service are, in one object.

use k8s_openapi::api::core::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::slices::{groups, has_selector, labels, pod_address, publishes_all, serving};
use crate::addresses::{EndpointsText, PodAddress, PodSubset};
use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::ENDPOINTS;
use crate::write::{Effect, Write};

const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Addresses of one object; the others are left out, and an annotation says so.
const MOST: usize = 1000;

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let present = core.caches.endpoints.get(key).cloned();
    let Some(service) = core.caches.services.get(key).cloned() else {
        let ours = present.filter(|endpoints| {
            endpoints
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(MANAGED_BY.0))
                .is_some_and(|by| by == MANAGED_BY.1)
        });
        let gone = ours.map(|endpoints| Write::delete(&ENDPOINTS, key, View::of(&endpoints.metadata).uid));
        return Effect::of(gone.into_iter().collect());
    };
    if service.metadata.deletion_timestamp.is_some() || !has_selector(&service) {
        return Effect::Done;
    }
    let Some(spec) = &service.spec else { return Effect::Done };
    let mut pods = serving(core, key);
    pods.retain(|pod| publishes_all(spec) || !pod.is_terminating());
    let is_over = pods.len() > MOST;
    // Ready ones are the last to be left out.
    if is_over {
        pods.sort_by_key(|pod| !pod.is_ready());
        pods.truncate(MOST);
    }
    let mut subsets = Vec::new();
    for (ports, pods) in groups(spec, &pods) {
        let addresses = |ready: bool| {
            let of = pods.iter().filter(|pod| (publishes_all(spec) || pod.is_ready()) == ready);
            let mut addresses: Vec<PodAddress<'_>> = of.map(|pod| pod_address(key, pod)).collect();
            addresses.sort_by_key(|address| address.ip);
            addresses
        };
        let ports = ports.into_iter().map(|port| EndpointPort {
            app_protocol: port.app_protocol,
            // An empty name is left out here.
            name: port.name.filter(|name| !name.is_empty()),
            port: port.port.unwrap_or_default(),
            protocol: port.protocol,
        });
        subsets.push(PodSubset { ports: ports.collect(), ready: addresses(true), not_ready: addresses(false) });
    }
    let labels = labels(&service, &[MANAGED_BY]);
    let mut metadata = match &present {
        Some(present) => present.metadata.clone(),
        None => ObjectMeta { name: Some(key.name.to_string()), ..ObjectMeta::default() },
    };
    metadata.labels = Some(labels);
    note_capacity(&mut metadata, is_over);
    let digest = Some(PodSubset::digest(&subsets));
    if present.as_ref().is_some_and(|present| present.metadata == metadata && present.subsets == digest) {
        return Effect::Done;
    }
    let wanted = EndpointsText::new(&metadata, &subsets);
    let write = if present.is_some() { Write::replace } else { Write::create };
    Effect::InOrder(vec![write(&ENDPOINTS, key, &wanted)])
}

fn note_capacity(meta: &mut ObjectMeta, is_over: bool) {
    if is_over {
        super::template::annotate(meta, OVER_CAPACITY, "truncated");
    } else if let Some(annotations) = &mut meta.annotations {
        annotations.remove(OVER_CAPACITY);
    }
}
