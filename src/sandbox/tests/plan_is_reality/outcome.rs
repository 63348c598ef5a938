//! What becomes of a cluster: what `plan` says beforehand, and what the sandbox ends up with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::{NodeClaim, Reservation, ReservationPhase, labels};
use berth_cloudprovider_fake::cloud::CloudEvent;
use berth_kubelet::KubeletConfig;
use berth_manifests::Object;
use berth_sandbox::{Parts, PartsOptions, SandboxError, node_spec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

/// Longer than any test: what healthy nodes would write is implied.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What can be compared of a plan and of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Nodes by NodePool, type, zone, and reservation or capacity type.
    pub(crate) nodes: BTreeMap<String, usize>,
    /// Pods that have a place, by workload.
    pub(crate) placed: BTreeMap<String, usize>,
    /// Reservations that have a place, or had one until their owner came.
    pub(crate) reservations: BTreeSet<String>,
    /// Millionths of a dollar an hour.
    pub(crate) cost: i64,
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn n_placed(&self) -> usize {
        self.placed.values().sum()
    }
}

/// Nodes, a line each, with who is on them: for people who look at a difference.
pub(crate) type Nodes = Vec<String>;

fn counted<'a>(workloads: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    workloads.for_each(|workload| *counts.entry(workload).or_default() += 1);
    counts.iter().map(|(workload, n)| format!("{n} {workload}")).collect::<Vec<_>>().join(", ")
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[expect(clippy::cast_possible_truncation, reason = "a few dollars")]
fn micros(dollars: f64) -> i64 {
    (dollars * 1e6).round() as i64
}

/// What `plan` says.
pub(crate) fn planned(objects: &[Value], catalogue: &Value) -> (Outcome, Nodes) {
    let options = berth_plan::Options { now: Some(now()), ..berth_plan::Options::default() };
    let plan = berth_plan::plan_documents(objects, Some(catalogue), &options).unwrap();
    let mut outcome = Outcome { cost: micros(plan["summary"]["hourlyCost"].as_f64().unwrap()), ..Outcome::default() };
    for place in plan["nodeClaims"].as_array().unwrap().iter().chain(plan["nodes"].as_array().unwrap()) {
        for pod in place["pods"].as_array().unwrap() {
            let (_, name) = pod.as_str().unwrap().split_once('/').unwrap();
            let (workload, _) = name.rsplit_once('-').unwrap();
            *outcome.placed.entry(workload.to_owned()).or_default() += 1;
        }
        let names = place["reservations"].as_array().unwrap().iter();
        outcome.reservations.extend(names.map(|name| name.as_str().unwrap().to_owned()));
    }
    let mut nodes = Vec::new();
    for claim in plan["nodeClaims"].as_array().unwrap() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let offering = &claim["offering"];
        let on =
            if offering["reservationID"].is_null() { &offering["capacityType"] } else { &offering["reservationID"] };
        let node = [&claim["nodePool"], &offering["instanceType"], &offering["zone"], on].map(text).join(" ");
        let pods = claim["pods"].as_array().unwrap().iter().filter_map(|pod| pod.as_str()?.split_once('/'));
        let pods = counted(pods.filter_map(|(_, name)| Some(name.rsplit_once('-')?.0)));
        nodes.push(format!("{node}: {pods}; {}", claim["reservations"]));
        *outcome.nodes.entry(node).or_default() += 1;
    }
    nodes.sort_unstable();
    (outcome, nodes)
}

/// What the sandbox ends up with, and what its pods say that have no place.
pub(crate) async fn played(
    seed: u64,
    objects: &[Value],
    catalogue: &Value,
) -> (Outcome, BTreeMap<String, String>, Nodes) {
    let mut parts = start(seed, catalogue, berth_controllers::Options::default()).await;
    make(&parts, objects).await;
    // Whoever is refused is planned again every half minute: twice that without a change is the end.
    settle(&mut parts, 7).await
}

/// Makes the objects to begin with.
pub(crate) async fn make(parts: &Parts, objects: &[Value]) {
    let list = serde_json::to_vec(&json!({"apiVersion": "v1", "kind": "List", "items": objects})).unwrap();
    let mut all: Vec<Object> = Vec::new();
    let options = berth_manifests::Options::default();
    berth_manifests::read_from("objects", list.as_slice(), &options, |_, object| {
        all.push(object);
        Ok::<(), SandboxError>(())
    })
    .unwrap();
    parts.begin(&all, false).await.unwrap();
}

/// What there is once nothing has changed for so many times ten seconds.
pub(crate) async fn settle(parts: &mut Parts, times: usize) -> (Outcome, BTreeMap<String, String>, Nodes) {
    let (mut before, mut quiet) = (Outcome::default(), 0);
    for _ in 0..120 * times {
        let tick = tokio::time::sleep(Duration::from_secs(10));
        tokio::pin!(tick);
        loop {
            tokio::select! {
                biased;
                Some(event) = parts.happened.recv() => match event {
                    CloudEvent::Booted(machine) => parts.kubelets.join(node_spec(*machine)),
                    CloudEvent::Stopped { node_name, .. } => parts.kubelets.power_off(&node_name),
                    _ => {}
                },
                () = &mut tick => break,
            }
        }
        let (outcome, left, nodes) = look_at(parts).await;
        quiet = if outcome == before { quiet + 1 } else { 0 };
        if quiet == times {
            return (outcome, left, nodes);
        }
        before = outcome;
    }
    panic!("the cluster does not settle: {before:#?}");
}

pub(crate) async fn start(seed: u64, catalogue: &Value, controllers: berth_controllers::Options) -> Parts {
    let text = serde_json::to_vec(catalogue).unwrap();
    let options = PartsOptions {
        seed,
        catalogue: berth_catalogue::read(&text, "catalogue.json").unwrap(),
        kubelets: KubeletConfig { lease_renewal: NEVER, status_report: NEVER, ..KubeletConfig::default() },
        built_in: berth_controller_manager::Timings {
            node_monitor_grace_period: NEVER,
            ..berth_controller_manager::Timings::default()
        },
        is_lean: true,
        controllers,
        ..PartsOptions::new(now())
    };
    Parts::start(options).await.unwrap()
}

/// What there is, and what pods say that have no place.
async fn look_at(parts: &Parts) -> (Outcome, BTreeMap<String, String>, Nodes) {
    let all = ListParams::default();
    let claims = Api::<NodeClaim>::all(parts.client.clone()).list(&all).await.unwrap();
    let pods = Api::<Pod>::all(parts.client.clone()).list(&all).await.unwrap();
    let label = |pod: &Pod| pod.metadata.labels.as_ref().and_then(|labels| labels.get("app")).cloned();
    // By provider id: the NodePool, who is on the node, and how long after the start it was wanted.
    let about: BTreeMap<&str, (&str, String)> = claims
        .iter()
        .filter_map(|claim| {
            let pool = claim.metadata.labels.as_ref()?.get(labels::NODEPOOL)?;
            let status = claim.status.as_ref()?;
            let on = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name == status.node_name);
            let on: Vec<String> = pods.iter().filter(on).filter_map(label).collect();
            let wanted = claim.metadata.creation_timestamp.as_ref()?.0.duration_since(now()).as_secs();
            let on = format!("{}; after {wanted} s", counted(on.iter().map(String::as_str)));
            Some((status.provider_id.as_deref()?, (pool.as_str(), on)))
        })
        .collect();
    let mut nodes = Vec::new();
    let mut outcome = Outcome { cost: micros(parts.cloud.hourly_cost().dollars()), ..Outcome::default() };
    for instance in parts.cloud.instances().iter().filter(|instance| instance.state.is_alive()) {
        let offering = &instance.offering;
        let (pool, on_it) = about.get(instance.provider_id.as_str()).cloned().unwrap_or(("nobody's", String::new()));
        let on = instance.reservation.clone().unwrap_or_else(|| offering.capacity_type.as_str().to_owned());
        let zone = offering.zone.as_deref().unwrap_or_default();
        let node = format!("{pool} {} {zone} {on}", offering.instance_type);
        nodes.push(format!("{node}: {on_it}"));
        *outcome.nodes.entry(node).or_default() += 1;
    }
    nodes.sort_unstable();
    let mut left = BTreeMap::new();
    for pod in &pods {
        let Some(workload) = label(pod) else { continue };
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            *outcome.placed.entry(workload).or_default() += 1;
        } else {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let why = conditions.filter(|known| known.type_ == "PodScheduled").find_map(|known| known.message.clone());
            left.insert(workload, why.unwrap_or_default());
        }
    }
    for reservation in Api::<Reservation>::all(parts.client.clone()).list(&all).await.unwrap() {
        let phase = reservation.status.as_ref().map(|status| status.phase).unwrap_or_default();
        if matches!(phase, ReservationPhase::Available | ReservationPhase::Succeeded) {
            outcome.reservations.extend(reservation.metadata.name);
        }
    }
    (outcome, left, nodes)
}
