//! Endpoints and EndpointSlices: where the pods of a Service are.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::FxHasher;
use serde_json::{Value, json};

use super::world::{World, controlled_by, has_ended, is_ready, key};
use crate::meta::{self, at, list_at, text_at};
use crate::selector::LabelSelector;
use crate::server::ApiServer;
use crate::store::Range;

const SLICES: &str = "endpointslices.discovery.k8s.io";
const SERVICE: &str = "kubernetes.io/service-name";
const SLICE_MANAGER: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const MANAGER: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Endpoints of one slice.
const MOST: usize = 100;

/// The pods of a Service that have the same ports, as a text in order of the ports.
type Groups<'p> = BTreeMap<String, (Vec<Value>, Vec<&'p Value>)>;

impl ApiServer {
    pub(super) fn reconcile_endpoints(&self, world: &World) {
        let services = self.inner.store.list("services", &Range::default()).unwrap_or_default();
        for object in &services.items {
            let prefix = format!("{}/", object.namespace());
            let page =
                self.inner.store.list("pods", &Range { prefix: &prefix, ..Range::default() }).unwrap_or_default();
            let service = object.value();
            let Some(selected) = selector(&service) else { continue };
            let pods: Vec<_> = page.items.into_iter().filter(|pod| selected.matches_stored(pod)).collect();
            let mut hash = FxHasher::default();
            let told = self.inner.store.get("endpoints", &object.key).map_or(0, |endpoints| endpoints.revision);
            let seen = [world.fingerprint(object, told)];
            for revision in pods.iter().map(|pod| pod.revision).chain(seen) {
                hash.write_u64(revision);
            }
            if self.is_settled(&object.selectable.uid, hash.finish()) || meta::has(&service, "deletionTimestamp") {
                continue;
            }
            let pods: Vec<Value> = pods.iter().map(|pod| pod.value()).filter(|pod| !has_ended(pod)).collect();
            let pods: Vec<&Value> = pods.iter().filter(|pod| !text_at(pod, &["status", "podIP"]).is_empty()).collect();
            self.write_endpoints(&service, &pods);
            self.write_slices(world, &service, &pods);
        }
        self.forget_endpoints();
    }

    fn write_endpoints(&self, service: &Value, pods: &[&Value]) {
        let publishes = publishes_all(service);
        let mut listed = pods.to_vec();
        listed.retain(|pod| publishes || !meta::has(pod, "deletionTimestamp"));
        let mut subsets = Vec::new();
        for (ports, pods) in groups(service, &listed).into_values() {
            let (ready, waiting): (Vec<&Value>, Vec<&Value>) = pods.into_iter().partition(|p| publishes || is_ready(p));
            let mut subset = json!({});
            for (field, pods) in [("addresses", ready), ("notReadyAddresses", waiting)] {
                let mut addresses: Vec<Value> = pods.iter().map(|pod| address(service, pod)).collect();
                addresses.sort_by_key(|address| text_at(address, &["ip"]).to_owned());
                if let Some(map) = subset.as_object_mut().filter(|_| !addresses.is_empty()) {
                    map.insert(field.to_owned(), addresses.into());
                }
            }
            if let Some(map) = subset.as_object_mut().filter(|_| !ports.is_empty()) {
                let ports = ports.into_iter().map(without_empty_name);
                map.insert("ports".to_owned(), ports.collect());
            }
            subsets.push(subset);
        }
        let labels = labels(service, &[MANAGER]);
        let path = key(service);
        if self.inner.store.get("endpoints", &path).is_none() {
            let mut made = json!({"metadata": {"name": meta::name(service), "labels": labels}});
            if let Some(map) = made.as_object_mut().filter(|_| !subsets.is_empty()) {
                map.insert("subsets".to_owned(), subsets.into());
            }
            self.make("endpoints", meta::namespace(service), made, "kube-controller-manager");
            return;
        }
        self.change_object("endpoints", &path, |endpoints| {
            meta::set(endpoints, "labels", labels);
            if let Some(map) = endpoints.as_object_mut() {
                map.insert("subsets".to_owned(), subsets.into());
            }
        });
    }

    fn write_slices(&self, world: &World, service: &Value, pods: &[&Value]) {
        let labels = labels(service, &[(SERVICE, meta::name(service)), SLICE_MANAGER]);
        let is_ours = |slice: &Value| at(slice, &["metadata", "labels", SLICE_MANAGER.0]).is_some();
        let mut present = world.controlled(SLICES, meta::text(service, "uid"));
        present.retain(|slice| is_ours(slice) && !meta::has(slice, "deletionTimestamp"));
        let mut wanted: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        for (ports, pods) in groups(service, pods).into_values() {
            let endpoints: Vec<Value> = pods.iter().map(|pod| self.endpoint(service, pod)).collect();
            wanted.extend(endpoints.chunks(MOST).map(|chunk| (ports.clone(), chunk.to_vec())));
        }
        if wanted.is_empty() {
            // Readers tell a Service without endpoints from one that nobody looked at.
            wanted.push((Vec::new(), Vec::new()));
        }
        let all_ports: Vec<Vec<Value>> = wanted.iter().map(|(ports, _)| ports.clone()).collect();
        for (ports, endpoints) in wanted {
            let of = |slice: &Value| list_at(slice, &["ports"]).to_vec();
            let same = present.iter().position(|slice| of(slice) == ports);
            // One whose ports nobody has any more is as good as a new one.
            let free = || present.iter().position(|slice| !all_ports.contains(&of(slice)));
            if let Some(slice) = same.or_else(free).map(|at| present.remove(at)) {
                self.change_object(SLICES, &key(&slice), |slice| {
                    meta::set(slice, "labels", labels.clone());
                    fill_slice(slice, ports, endpoints);
                });
                continue;
            }
            let mut slice = json!({"metadata": {"generateName": format!("{}-", meta::name(service)),
                "labels": labels, "ownerReferences": [controlled_by(service)]}, "addressType": "IPv4"});
            fill_slice(&mut slice, ports, endpoints);
            self.make(SLICES, meta::namespace(service), slice, "kube-controller-manager");
        }
        for slice in present {
            self.remove_object(SLICES, &key(&slice), None);
        }
    }

    fn endpoint(&self, service: &Value, pod: &Value) -> Value {
        let serving = is_ready(pod);
        let terminating = meta::has(pod, "deletionTimestamp");
        let ready = publishes_all(service) || (serving && !terminating);
        let mut out = json!({"addresses": [text_at(pod, &["status", "podIP"])],
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating}, "targetRef": reference(pod)});
        let node = text_at(pod, &["spec", "nodeName"]);
        let zone = self.value("nodes", node).filter(|_| !node.is_empty());
        let zone = zone.as_ref().and_then(|node| at(node, &["metadata", "labels", ZONE])).and_then(Value::as_str);
        for (field, value) in
            [("nodeName", node), ("zone", zone.unwrap_or_default()), ("hostname", hostname(service, pod))]
        {
            if let Some(map) = out.as_object_mut().filter(|_| !value.is_empty()) {
                map.insert(field.to_owned(), value.into());
            }
        }
        out
    }

    /// Endpoints go with their Service; slices are owned by it.
    fn forget_endpoints(&self) {
        let page = self.inner.store.list("endpoints", &Range::default()).unwrap_or_default();
        for object in page.items {
            let is_ours = object.selectable.labels.iter().any(|(key, by)| (&**key, &**by) == MANAGER);
            if is_ours && self.inner.store.get("services", &object.key).is_none() {
                self.remove_object("endpoints", &object.key, None);
            }
        }
    }
}

/// What a Service selects; `None` if its endpoints are made by others.
fn selector(service: &Value) -> Option<LabelSelector> {
    let given = at(service, &["spec", "selector"]).filter(|_| text_at(service, &["spec", "type"]) != "ExternalName")?;
    Some(LabelSelector::from_object(Some(&json!({"matchLabels": given}))))
}

fn publishes_all(service: &Value) -> bool {
    at(service, &["spec", "publishNotReadyAddresses"]) == Some(&Value::Bool(true))
}

fn is_headless(service: &Value) -> bool {
    text_at(service, &["spec", "clusterIP"]) == "None"
}

/// The labels of a Service with those of its endpoints.
fn labels(service: &Value, own: &[(&str, &str)]) -> Value {
    let mut labels = at(service, &["metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
    if let Some(map) = labels.as_object_mut() {
        map.remove(HEADLESS);
        if is_headless(service) {
            map.insert(HEADLESS.to_owned(), "".into());
        }
        for (key, value) in own {
            map.insert((*key).to_owned(), (*value).into());
        }
    }
    labels
}

/// The pods of a Service by the ports under which they serve it. A port that a pod does not name is passed over.
fn groups<'p>(service: &Value, pods: &[&'p Value]) -> Groups<'p> {
    let mut out = Groups::new();
    let given = list_at(service, &["spec", "ports"]);
    if given.is_empty() && !is_headless(service) {
        return out;
    }
    for pod in pods {
        let ports: Vec<Value> = given.iter().filter_map(|port| resolved(port, pod)).collect();
        if ports.is_empty() && !given.is_empty() {
            continue;
        }
        let text = Value::Array(ports.clone()).to_string();
        out.entry(text).or_insert_with(|| (ports, Vec::new())).1.push(pod);
    }
    out
}

fn resolved(port: &Value, pod: &Value) -> Option<Value> {
    let protocol = text_at(port, &["protocol"]);
    let number = match port.get("targetPort") {
        Some(Value::String(name)) => {
            let restarts = |container: &&Value| text_at(container, &["restartPolicy"]) == "Always";
            let sidecars = list_at(pod, &["spec", "initContainers"]).iter().filter(restarts);
            let containers = list_at(pod, &["spec", "containers"]).iter().chain(sidecars);
            let ports = containers.flat_map(|container| list_at(container, &["ports"]));
            let mut same =
                ports.filter(|own| text_at(own, &["name"]) == name && text_at(own, &["protocol"]) == protocol);
            same.next()?.get("containerPort")?.as_i64()?
        }
        Some(number) => number.as_i64()?,
        None => port.get("port")?.as_i64()?,
    };
    let mut out = json!({"name": text_at(port, &["name"]), "port": number, "protocol": protocol});
    if let (Some(map), Some(of_app)) = (out.as_object_mut(), port.get("appProtocol")) {
        map.insert("appProtocol".to_owned(), of_app.clone());
    }
    Some(out)
}

/// Endpoints leave an empty name of a port out, slices do not.
fn without_empty_name(mut port: Value) -> Value {
    if text_at(&port, &["name"]).is_empty()
        && let Some(map) = port.as_object_mut()
    {
        map.remove("name");
    }
    port
}

fn reference(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": meta::namespace(pod), "name": meta::name(pod), "uid": meta::text(pod, "uid")})
}

/// A pod's own name below that of a Service.
fn hostname<'p>(service: &Value, pod: &'p Value) -> &'p str {
    let is_below = text_at(pod, &["spec", "subdomain"]) == meta::name(service);
    if is_below { text_at(pod, &["spec", "hostname"]) } else { "" }
}

fn address(service: &Value, pod: &Value) -> Value {
    let mut out = json!({"ip": text_at(pod, &["status", "podIP"]), "targetRef": reference(pod)});
    for (field, value) in [("nodeName", text_at(pod, &["spec", "nodeName"])), ("hostname", hostname(service, pod))] {
        if let Some(map) = out.as_object_mut().filter(|_| !value.is_empty()) {
            map.insert(field.to_owned(), value.into());
        }
    }
    out
}

fn fill_slice(slice: &mut Value, ports: Vec<Value>, endpoints: Vec<Value>) {
    if let Some(map) = slice.as_object_mut() {
        map.insert("ports".to_owned(), ports.into());
        map.insert("endpoints".to_owned(), endpoints.into());
    }
}
