//! The cluster of the figures.
#![allow(dead_code, reason = "each example uses some of it")]

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::Reservation;
use berth_state::{Event, Key, Kind, Object, State, Time};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) const NOW: Time = Time::UNIX_EPOCH;
pub(crate) const DEPLOYMENTS: usize = 2_000;

/// The numbers that the command names; those that it leaves out are these.
pub(crate) fn arguments<const N: usize>(otherwise: [usize; N]) -> Result<[usize; N], Failure> {
    let mut found = otherwise;
    for (number, text) in found.iter_mut().zip(std::env::args().skip(1)) {
        *number = text.parse()?;
    }
    Ok(found)
}

// Nodes with images and a label of their own and distinct room, Deployments of which 30% have rules, five DaemonSets, and
// 200 Reservations.
pub(crate) fn filled(n_nodes: usize, n_pods: usize, n_sets: usize) -> Result<State, Failure> {
    let mut state = State::new(berth_state::Options::default());
    for &kind in Kind::ALL {
        let pod_at = |i| pod(i, i % DEPLOYMENTS, 0, Some((i + i / DEPLOYMENTS * 7) % n_nodes));
        let objects: Box<dyn Iterator<Item = Result<Object, Failure>>> = match kind {
            Kind::Node => Box::new((0..n_nodes).map(node)),
            Kind::Pod => Box::new((0..n_pods).map(pod_at)),
            Kind::ReplicaSet => Box::new((0..n_sets).map(replica_set)),
            Kind::DaemonSet => Box::new((0..5).map(daemon_set)),
            Kind::Reservation => Box::new((0..200.min(n_nodes)).map(reservation)),
            _ => Box::new(std::iter::empty()),
        };
        list(&mut state, kind, objects)?;
    }
    let catalogue = berth_catalogue::read(b"[]", "types.json")?;
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None })?;
    Ok(state)
}

/// Tells a state all objects of a kind, page by page: nobody holds all of them as they were read.
pub(crate) fn list(
    state: &mut State,
    kind: Kind,
    objects: impl Iterator<Item = Result<Object, Failure>>,
) -> Result<(), Failure> {
    let mut keys = BTreeSet::new();
    for object in objects {
        let object = object?;
        keys.extend(Key::of(&object));
        state.apply(Event::Applied(object))?;
    }
    state.apply(Event::Listed { kind, keys, resource_version: None })?;
    Ok(())
}

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> Result<Object, Failure>
where
    Object: From<T>,
{
    Ok(Object::from(serde_json::from_value::<T>(value)?))
}

pub(crate) fn node(i: usize) -> Result<Object, Failure> {
    node_with(i, i % 3, 32_000 + i % 997)
}

pub(crate) fn node_with(i: usize, zone: usize, milli_cpu: usize) -> Result<Object, Failure> {
    let room = json!({"cpu": format!("{milli_cpu}m"), "memory": "128Gi", "pods": "250"});
    object::<Node>(json!({
        "metadata": {"name": format!("node-{i}"), "uid": format!("node-{i}"), "labels": {
            "kubernetes.io/hostname": format!("node-{i}"), "unique": format!("u{i}"),
            "topology.kubernetes.io/zone": format!("zone-{}", zone % 3)}},
        "status": {"allocatable": room, "capacity": room, "images": [
            {"names": [format!("own-{i}:latest")], "sizeBytes": 100_000_000},
            {"names": [format!("app-{}:latest", i % DEPLOYMENTS)], "sizeBytes": 200_000_000}]}}))
}

pub(crate) fn daemon_set(i: usize) -> Result<Object, Failure> {
    object::<DaemonSet>(json!({
        "metadata": {"name": format!("agent-{i}"), "namespace": "kube-system", "uid": format!("agent-{i}")},
        "spec": {"selector": {"matchLabels": {"agent": i.to_string()}}, "template": {
            "metadata": {"labels": {"agent": i.to_string()}}, "spec": {"containers": [
                {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": "50m"}}}]}}}}))
}

pub(crate) fn replica_set(deployment: usize) -> Result<Object, Failure> {
    let labels = json!({"app": format!("app-{deployment}"), "pod-template-hash": "abc"});
    object::<ReplicaSet>(json!({
        "metadata": {"name": format!("app-{deployment}"), "namespace": format!("ns-{}", deployment % 50),
            "uid": format!("rs-{deployment}")},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app"}]}}}}))
}

pub(crate) fn reservation(i: usize) -> Result<Object, Failure> {
    reservation_on(i, Some(&node_name_of(i)))
}

/// A Reservation, which is on a node already or is to get one.
pub(crate) fn reservation_on(i: usize, node: Option<&str>) -> Result<Object, Failure> {
    let status = node.map(|node| json!({"phase": "Available", "nodeName": node, "allocatable": {"cpu": "500m"}}));
    object::<Reservation>(json!({
        "metadata": {"name": format!("room-{i}"), "uid": format!("room-{i}")},
        "spec": {"ttl": "0s", "owners": [{"labelSelector": {"matchLabels": {"owner": i.to_string()}}}],
            "template": {"spec": {"containers": [
                {"name": "app", "image": "app", "resources": {"requests": {"cpu": "500m"}}}]}}},
        "status": status}))
}

pub(crate) fn node_name_of(i: usize) -> String {
    format!("node-{i}")
}

/// A pod by itself, which waits.
pub(crate) fn pod_with(name: &str, spec: &Value) -> Result<Object, Failure> {
    object::<Pod>(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "large"},
            "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": spec}))
}

pub(crate) fn pod(i: usize, deployment: usize, version: u64, on: Option<usize>) -> Result<Object, Failure> {
    let app = json!({"matchLabels": {"app": format!("app-{deployment}")}});
    let mut spec = json!({"containers": [{"name": "app", "image": format!("app-{deployment}"), "resources": {
        "requests": {"cpu": format!("{}m", 50 + deployment % 10 * 10), "memory": "128Mi"}}}]});
    match deployment % 10 {
        1 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app}]);
        }
        2 => {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}]}});
        }
        3 => {
            spec["affinity"] = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {
                    "topologyKey": "topology.kubernetes.io/zone", "labelSelector": app}}]}});
        }
        _ => {}
    }
    if let Some(node) = on {
        spec["nodeName"] = format!("node-{node}").into();
    }
    object::<Pod>(json!({
        "metadata": {"name": format!("app-{deployment}-{i}"), "namespace": format!("ns-{}", deployment % 50),
            "uid": format!("00000000-0000-4000-8000-{i:012x}"), "resourceVersion": (version + 1).to_string(),
            "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", i / 60 % 60, i % 60),
            "labels": {"app": format!("app-{deployment}"), "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{deployment}"),
                "uid": format!("rs-{deployment}"), "controller": true}]},
        "spec": spec}))
}

/// CPU time of this thread: what others do meanwhile does not count.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Memory in use now and at most so far, MiB, as Linux counts it; nothing where that is not to be had.
pub(crate) fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mebibytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
    };
    (mebibytes("VmRSS:"), mebibytes("VmHWM:"))
}
