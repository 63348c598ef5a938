//! A cluster in which controllers can be killed: server, cloud and kubelets live on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, labels};
use berth_apiserver::{Admission, ApiServer, Config};
use berth_catalogue::Catalogue;
use berth_cloudprovider::{CloudError, CloudProvider, Instance, tag};
use berth_cloudprovider_fake::cloud::{CloudConfig, CloudEvent, CloudFaults, FakeCloud};
use berth_controllers::{Clock, Controllers, LeaseOptions, Options, Timings};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cloud::CloudInTrouble;
use crate::guard::Guard;
use crate::planted::{Plant, Spoilt};
use crate::trouble::{Rates, Trouble, Troubled};

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) cloud: FakeCloud,
    pub(crate) trouble: Trouble,
    /// What controllers are started with.
    pub(crate) options: Options,
    /// What was seen that may never be seen.
    violations: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
    n_starts: Arc<Mutex<u32>>,
    /// A bug of the controllers, played by what stands between them and the world.
    pub(crate) plant: Option<Plant>,
    /// How often a launch found its reservation full.
    n_full: Arc<Mutex<u32>>,
    /// How many slots reservations had until counts changed.
    had_slots: HadSlots,
}

/// Until when which reservation had how many slots.
type HadSlots = Arc<Mutex<Vec<(Instant, String, u32)>>>;

/// How long decisions take where they are made elsewhere.
const ANSWERS_AFTER: Duration = Duration::from_millis(300);

/// For how long a process may go by a count that has changed: counts are asked for every five seconds, and in trouble some
/// are not answered.
const KNOWN_LATE: Duration = Duration::from_secs(60);

fn epoch() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl World {
    pub(crate) async fn new(seed: u64, rates: Rates, faults: CloudFaults) -> Self {
        Self::with(seed, rates, faults, berth_cloudprovider_fake::catalogue()).await
    }

    pub(crate) async fn with(seed: u64, rates: Rates, faults: CloudFaults, catalogue: Catalogue) -> Self {
        let config = CloudConfig { seed, faults, ..CloudConfig::default() };
        Self::beside(config, rates, catalogue).await
    }

    /// One whose cloud is so.
    pub(crate) async fn beside(config: CloudConfig, rates: Rates, catalogue: Catalogue) -> Self {
        let seed = config.seed;
        let admission = Admission { taint_new_nodes: true, storage_protection: true, ..Admission::default() };
        let server = ApiServer::new(Config { epoch: epoch(), seed, admission, ..Config::default() });
        let client = Client::new(server.clone(), "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for (_, text) in berth_api::CRDS {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(text).unwrap();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let config = CloudConfig { epoch: epoch(), any_node_class: true, ..config };
        let cloud = FakeCloud::new(config, catalogue);
        let mut tasks = JoinSet::new();
        let timed = server.clone();
        let built_in =
            berth_controller_manager::Options::new(berth_controller_manager::Clock::new(move || timed.now()));
        let manager = berth_controller_manager::ControllerManager::new(client.clone(), built_in);
        tasks.spawn(manager.run(std::future::pending()));
        let violations = Arc::new(Mutex::new(Vec::new()));
        let n_full = Arc::new(Mutex::new(0));
        tasks.spawn(play_machines(client.clone(), cloud.clone(), Arc::clone(&violations), Arc::clone(&n_full)));
        tasks.spawn(observe_claims(client.clone(), cloud.clone(), Arc::clone(&violations)));
        tasks.spawn(observe_pods(client.clone(), Arc::clone(&violations)));
        let had_slots = HadSlots::default();
        tasks.spawn(observe_slots(client.clone(), cloud.clone(), Arc::clone(&violations), Arc::clone(&had_slots)));
        let trouble = Trouble::new(seed, rates);
        let n_starts = Arc::new(Mutex::new(0));
        // Counts are looked at as often as the sandbox does.
        let timings = Timings { offers_period: Duration::from_secs(5), ..Timings::default() };
        // Half of all seeds decide as processes with threads do: while a decision is made, all else goes on.
        let answers_after = (seed % 2 == 1).then_some(ANSWERS_AFTER);
        let options = Options { timings, seed, answers_after, ..Options::default() };
        Self { server, client, cloud, trouble, options, violations, tasks, n_starts, plant: None, n_full, had_slots }
    }

    /// Runs controllers that are started anew, with nothing remembered, whenever they crash.
    pub(crate) fn start_controllers(&mut self, with_lease: bool) {
        self.start_process(with_lease, self.trouble.clone());
    }

    /// Two processes of which one leads, and now and then the one that does cannot reach its Lease for a while.
    pub(crate) fn start_two(&mut self) {
        let both = [self.trouble.clone(), self.trouble.of_another()];
        for trouble in both.clone() {
            self.start_process(true, trouble);
        }
        self.tasks.spawn(async move {
            for trouble in both.iter().cycle() {
                tokio::time::sleep(Duration::from_secs(25)).await;
                trouble.cut_lease(true);
                tokio::time::sleep(Duration::from_secs(30)).await;
                trouble.cut_lease(false);
            }
        });
    }

    fn start_process(&mut self, with_lease: bool, trouble: Trouble) {
        let (server, cloud) = (self.server.clone(), self.cloud.clone());
        let (client, violations, plant) = (self.client.clone(), Arc::clone(&self.violations), self.plant);
        let clock = Clock::starting_at(epoch());
        let begun = Instant::now();
        let n_starts = Arc::clone(&self.n_starts);
        let own = self.options.clone();
        self.tasks.spawn(async move {
            loop {
                let n = {
                    let mut n_starts = n_starts.lock();
                    *n_starts += 1;
                    *n_starts
                };
                let identity = format!("berth-{n}");
                let guard =
                    Guard::new(client.clone(), with_lease.then(|| identity.clone()), Arc::clone(&violations), plant);
                let troubled = Troubled { server: server.clone(), trouble: trouble.clone(), guard };
                let client = Client::new(troubled, "default");
                let lease = LeaseOptions { identity, ..LeaseOptions::default() };
                let options = Options { lease: with_lease.then_some(lease), ..own.clone() };
                let cloud: Arc<dyn CloudProvider> = match plant {
                    Some(plant) => Arc::new(Spoilt::new(cloud.clone(), plant)),
                    None => Arc::new(CloudInTrouble::new(cloud.clone(), trouble.clone())),
                };
                let mut own_clock = clock.clone();
                if trouble.is_on() && n > 1 && trouble.roll(2) == 0 {
                    // A process goes by its own clock, which does not jump; the next one may go by another.
                    let off = jiff::SignedDuration::from_secs(i64::try_from(trouble.roll(240)).unwrap() - 120);
                    let now = epoch().checked_add(begun.elapsed()).unwrap();
                    own_clock = Clock::starting_at(now.checked_add(off).unwrap());
                    trouble.note("start", "clock jumps");
                }
                let controllers = Controllers::new(client, cloud, own_clock, options);
                let process = tokio::spawn(controllers.run(std::future::pending()));
                trouble.crashed().await;
                process.abort();
                let _ = process.await;
            }
        });
    }

    /// Kills the controllers: they are started anew at once.
    pub(crate) fn kill(&self) {
        self.trouble.crash();
    }

    /// How often the controllers were started.
    pub(crate) fn n_starts(&self) -> u32 {
        *self.n_starts.lock()
    }

    pub(crate) async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// A Deployment in the namespace `default`.
    pub(crate) async fn deploy(&self, deployment: Value) {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    /// How many pods run, where all that there are do.
    pub(crate) async fn all_run(&self) -> Option<usize> {
        let pods = self.pods().await;
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        pods.iter().all(runs).then_some(pods.len())
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    /// How many instances of each type run on which capacity: the reservation's id, or the capacity type.
    pub(crate) fn fleet(&self) -> BTreeMap<(String, String), usize> {
        let mut fleet = BTreeMap::new();
        for instance in self.alive() {
            let label = |key: &str| instance.labels.get(key).cloned();
            let on = label(labels::RESERVATION_ID).or_else(|| label(labels::CAPACITY_TYPE)).unwrap_or_default();
            *fleet.entry((label(labels::INSTANCE_TYPE).unwrap_or_default(), on)).or_default() += 1;
        }
        fleet
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        Api::<NodeClaim>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn delete_claims(&self) {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        for claim in self.claims().await {
            let _ = api.delete(claim.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await;
        }
    }

    pub(crate) fn alive(&self) -> Vec<Instance> {
        self.cloud.instances().into_iter().filter(|instance| instance.state.is_alive()).collect()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// How often a launch found its reservation full. Where nobody else uses it, and its count stays, that is one launch
    /// too many.
    pub(crate) fn n_full(&self) -> u32 {
        *self.n_full.lock()
    }

    /// A reservation has this many slots until now.
    pub(crate) fn had_slots(&self, id: &str, n: u32) {
        self.had_slots.lock().push((Instant::now(), id.to_owned(), n));
    }

    /// Waits until `done`, for at most that many minutes; whether it came to that.
    pub(crate) async fn settles(&self, minutes: u64, mut done: impl AsyncFnMut(&Self) -> bool) -> bool {
        for _ in 0..minutes * 12 {
            if done(self).await {
                return true;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        false
    }
}

/// A NodeClaim as a user may write it.
pub(crate) fn claim(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}, "spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
        "resources": {"requests": {"cpu": "1", "pods": "1"}}, "expireAfter": "Never"}})
}

pub(crate) fn is_initialized(claim: &NodeClaim) -> bool {
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == "Initialized" && condition.status == "True")
}

/// Kubelets for machines that boot; and no NodeClaim may have two instances at a time.
async fn play_machines(client: Client, cloud: FakeCloud, violations: Arc<Mutex<Vec<String>>>, n_full: Arc<Mutex<u32>>) {
    let (events, mut happened) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(cloud.clone().run(events));
    let kubelets = Kubelets::start(client, KubeletConfig { epoch: epoch(), ..KubeletConfig::default() });
    while let Some(event) = happened.recv().await {
        match event {
            CloudEvent::Launched { node_claim, .. } => {
                let own = |instance: &Instance| {
                    instance.state.is_alive() && instance.tags.get(tag::NODE_CLAIM_UID) == Some(&node_claim.uid)
                };
                let n = cloud.instances().iter().filter(|instance| own(instance)).count();
                if n > 1 {
                    violations.lock().push(format!("{} has {n} instances", node_claim.name));
                }
            }
            CloudEvent::Booted(machine) => {
                kubelets.join(NodeSpec {
                    name: machine.node_name,
                    provider_id: machine.instance.provider_id.0.clone(),
                    labels: machine.labels,
                    taints: machine.taints,
                    capacity: berth_api::as_written(&machine.instance.capacity),
                    allocatable: berth_api::as_written(&machine.instance.allocatable),
                });
            }
            CloudEvent::Refused { error: CloudError::ReservationFull { .. }, .. } => *n_full.lock() += 1,
            CloudEvent::Stopped { node_name, .. } => kubelets.power_off(&node_name),
            _ => {}
        }
    }
}

/// No pod may be on a second node, nor be bound to one that has no room for it.
async fn observe_pods(client: Client, violations: Arc<Mutex<Vec<String>>>) {
    let stream = watcher(Api::<Pod>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { continue };
        let Some(node) = pod.spec.and_then(|spec| spec.node_name) else { continue };
        let uid = pod.metadata.uid.unwrap_or_default();
        let rejected = pod.status.and_then(|status| status.reason).filter(|reason| reason.starts_with("OutOf"));
        if let Some(reason) = rejected {
            let name = pod.metadata.name.clone().unwrap_or_default();
            violations.lock().push(format!("{name} was bound to {node} before there was room: {reason}"));
        }
        let before = bound.insert(uid, node.clone());
        if before.is_some_and(|before| before != node) {
            violations.lock().push(format!("{} is on a second node", pod.metadata.name.unwrap_or_default()));
        }
    }
}

/// No NodeClaim may go before its instance.
async fn observe_claims(client: Client, cloud: FakeCloud, violations: Arc<Mutex<Vec<String>>>) {
    let stream = watcher(Api::<NodeClaim>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    while let Some(event) = stream.next().await {
        if let Ok(watcher::Event::Delete(claim)) = event {
            let uid = claim.metadata.uid.unwrap_or_default();
            let left = cloud
                .instances()
                .into_iter()
                .find(|instance| instance.state.is_alive() && instance.tags.get(tag::NODE_CLAIM_UID) == Some(&uid));
            if let Some(left) = left {
                let name = claim.metadata.name.unwrap_or_default();
                violations.lock().push(format!("{name} is gone and {} still runs", left.provider_id));
            }
        }
    }
}

/// No NodeClaim may be made for a capacity reservation whose slots are all taken by others. A count that is lowered later
/// leaves more of them, and those that are relabelled have no slot any more.
async fn observe_slots(client: Client, cloud: FakeCloud, violations: Arc<Mutex<Vec<String>>>, had_slots: HadSlots) {
    let stream = watcher(Api::<NodeClaim>::all(client), watcher::Config::default());
    futures::pin_mut!(stream);
    let mut pinned: BTreeMap<String, String> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Apply(claim) | watcher::Event::InitApply(claim)) => {
                let name = claim.metadata.name.clone().unwrap_or_default();
                let mut pins = claim.spec.requirements.iter().filter(|own| own.key == labels::RESERVATION_ID);
                let id = pins.find_map(|own| own.values.first());
                let own = claim.metadata.labels.as_ref().and_then(|own| own.get(labels::CAPACITY_TYPE));
                let is_paid = own.is_some_and(|own| own != "reserved");
                let Some(id) = id.filter(|_| claim.metadata.deletion_timestamp.is_none() && !is_paid) else {
                    pinned.remove(&name);
                    continue;
                };
                if pinned.insert(name, id.clone()).is_some() {
                    continue;
                }
                let n = pinned.values().filter(|known| *known == id).count();
                let slots = cloud.reservation_definitions().get(id).map_or(0, |own| own.total);
                let had = had_slots.lock();
                let lately = had.iter().filter(|(until, of, _)| of == id && until.elapsed() < KNOWN_LATE);
                let slots = lately.map(|(_, _, n)| *n).fold(slots, u32::max);
                if n > usize::try_from(slots).unwrap() {
                    violations.lock().push(format!("{n} NodeClaims are for the {slots} slots of {id}"));
                }
            }
            Ok(watcher::Event::Delete(claim)) => {
                pinned.remove(&claim.metadata.name.unwrap_or_default());
            }
            _ => {}
        }
    }
}
