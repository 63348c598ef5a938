//! The cluster: API server, built-in controllers, stand-in kubelets and a fake cloud, all on one thread of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use berth_api::{NodeClaim, NodePool};
use berth_apiserver::{ApiServer, Body, Config};
use berth_cloudprovider_fake::cloud::{CloudConfig, CloudEvent, FakeCloud};
use berth_controller_manager::ControllerManager;
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::workload::{DEPLOYMENTS, catalogue, deployment_of, name_of, namespace_of, planned, spec_of, zone_of};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What pods are of that come for a while.
const VISITS: &str = "visits";

/// Requests under way while the cluster is made.
const AT_A_TIME: usize = 64;

/// A cluster. What is done to it is done on its thread.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) cloud: FakeCloud,
    client: Client,
    /// The uid of what visits are of. A pod without a controller keeps its node.
    owner_of_visits: OnceLock<String>,
}

// === impl Cluster ===

impl Cluster {
    /// An empty one.
    pub(crate) async fn start(epoch: Timestamp) -> Result<Self, Failure> {
        let server = ApiServer::new(Config { epoch, ..Config::default() });
        let client = Client::new(server.clone(), "default");
        for (_, text) in berth_api::CRDS {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(text)?;
            Api::all(client.clone()).create(&PostParams::default(), &definition).await?;
        }
        let types = berth_catalogue::read(catalogue().to_string().as_bytes(), "types.json")?;
        let cloud = FakeCloud::new(CloudConfig { epoch, any_node_class: true, ..CloudConfig::default() }, types);
        let (events, happened) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(cloud.clone().run(events));
        tokio::spawn(play_machines(client.clone(), epoch, happened));
        Ok(Self { server, cloud, client, owner_of_visits: OnceLock::new() })
    }

    /// The NodePool, and nodes as the workload has them: whoever launches must be there.
    pub(crate) async fn launch(&self, n_nodes: usize, per_node: usize) -> Result<(), Failure> {
        create::<NodePool>(
            &Api::all(self.client.clone()),
            json!({"metadata": {"name": "pool"}, "spec": {
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]},
            "template": {"spec": {"expireAfter": "Never", "requirements": [],
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}}),
        )
        .await?;
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let made = (0..n_nodes).map(|at| {
            let (size, family, _) = planned(at, per_node);
            let among = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
            let claim = json!({"metadata": {"name": claim_name(at), "labels": {"karpenter.sh/nodepool": "pool"}}, "spec": {
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}, "expireAfter": "Never",
                "requirements": [among("karpenter.sh/capacity-type", "on-demand"),
                    among("karpenter.sh/nodepool", "pool"),
                    among("node.kubernetes.io/instance-type", &name_of(size, family)),
                    among("topology.kubernetes.io/zone", &zone_of(at))],
                "resources": {"requests": {"cpu": "1", "pods": "1"}}}});
            let claims = claims.clone();
            async move { create(&claims, claim).await.map(drop) }
        });
        all(made).await?;
        while self.n_initialized().await? < n_nodes {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    async fn n_initialized(&self) -> Result<usize, Failure> {
        let is_initialized = |claim: &&NodeClaim| {
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|own| own.type_ == "Initialized" && own.status == "True")
        };
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        Ok(claims.list(&ListParams::default()).await?.items.iter().filter(is_initialized).count())
    }

    /// The pods of the workload, each of a ReplicaSet, on their nodes; how many there are. The built-in controllers begin then.
    pub(crate) async fn fill(&self, n_nodes: usize, per_node: usize) -> Result<usize, Failure> {
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&ListParams::default()).await?;
        let node_of = |claim: NodeClaim| Some((claim.metadata.name?, claim.status?.node_name?));
        let nodes: BTreeMap<String, String> = claims.items.into_iter().filter_map(node_of).collect();
        let on_nodes = (0..n_nodes).flat_map(|at| planned(at, per_node).2.into_iter().map(move |pod| (pod, at)));
        let on_nodes: Vec<(usize, usize)> = on_nodes.collect();
        let mut replicas = vec![0_usize; DEPLOYMENTS];
        for (pod, _) in &on_nodes {
            replicas[deployment_of(*pod)] += 1;
        }
        let namespaces = (0..50).map(|n| {
            let api: Api<Namespace> = Api::all(self.client.clone());
            async move { create(&api, json!({"metadata": {"name": namespace_of(n)}})).await.map(drop) }
        });
        all(namespaces).await?;
        // Nobody makes a visit anew, as it goes soon.
        let visits: Namespace = create(&Api::all(self.client.clone()), json!({"metadata": {"name": VISITS}})).await?;
        self.owner_of_visits.get_or_init(|| visits.metadata.uid.unwrap_or_default());
        let mut owners = Vec::with_capacity(DEPLOYMENTS);
        for (deployment, replicas) in replicas.iter().enumerate() {
            let labels = json!({"app": format!("app-{deployment}"), "pod-template-hash": "abc"});
            // A pod of it, for its spec: all of a Deployment's are alike but for their number.
            let spec = on_nodes.iter().find(|(pod, _)| deployment_of(*pod) == deployment).map(|(pod, _)| spec_of(*pod));
            let Some(spec) = spec else {
                owners.push(String::new());
                continue;
            };
            let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace_of(deployment));
            let made = create(
                &api,
                json!({"metadata": {"name": format!("app-{deployment}")}, "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec}}}),
            )
            .await?;
            owners.push(made.metadata.uid.unwrap_or_default());
        }
        let n_pods = on_nodes.len();
        let pods = on_nodes.into_iter().filter_map(|(pod, at)| {
            let deployment = deployment_of(pod);
            let mut spec = spec_of(pod);
            spec["nodeName"] = nodes.get(&claim_name(at))?.as_str().into();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace_of(deployment));
            let pod = json!({"metadata": {"name": format!("app-{deployment}-{pod}"),
                "labels": {"app": format!("app-{deployment}"), "pod-template-hash": "abc"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{deployment}"),
                    "uid": owners[deployment], "controller": true}]},
                "spec": spec});
            Some(async move { create(&api, pod).await.map(drop) })
        });
        all(pods).await?;
        let running = ListParams::default().fields("status.phase=Running");
        let everywhere: Api<Pod> = Api::all(self.client.clone());
        while everywhere.list_metadata(&running).await?.items.len() < n_pods {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let timed = self.server.clone();
        let options = berth_controller_manager::Options::new(berth_controller_manager::Clock::new(move || timed.now()));
        tokio::spawn(ControllerManager::new(self.client.clone(), options).run(std::future::pending()));
        Ok(n_pods)
    }

    /// Nodes may make way from now on, so many at a time.
    pub(crate) async fn consolidate(&self, nodes: &str) -> Result<(), Failure> {
        let pools: Api<NodePool> = Api::all(self.client.clone());
        let patch = json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]}}});
        pools.patch("pool", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// A pod comes, as one of the workload, and goes a while later.
    pub(crate) fn visit(&self, n: usize, stays: Duration, bindings: &Bindings) {
        let (client, bindings) = (self.client.clone(), bindings.clone());
        let owner = self.owner_of_visits.get().cloned().unwrap_or_default();
        tokio::spawn(async move {
            let (name, deployment) = (format!("visit-{n}"), deployment_of(n));
            let api: Api<Pod> = Api::namespaced(client, &namespace_of(deployment));
            let pod = json!({"metadata": {"name": name, "labels": {"app": format!("app-{deployment}"), "visits": "true"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Namespace", "name": VISITS, "uid": owner, "controller": true}]},
                "spec": spec_of(n)});
            bindings.comes(&name);
            if let Err(error) = create(&api, pod).await {
                eprintln!("{name}: {error}");
            }
            tokio::time::sleep(stays).await;
            drop(api.delete(&name, &DeleteParams::default()).await);
        });
    }

    /// How many nodes there are, and how many of them have the taint of a disruption: they are about to go, or on their way out.
    pub(crate) async fn n_nodes(&self) -> Result<(usize, usize), Failure> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?.items;
        let goes = |node: &&Node| {
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            taints.into_iter().any(|taint| taint.key == berth_api::labels::DISRUPTED_TAINT)
        };
        Ok((nodes.len(), nodes.iter().filter(goes).count()))
    }
}

fn claim_name(at: usize) -> String {
    format!("pool-{at:05}")
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<K, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let mut object = object;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

async fn all(requests: impl Iterator<Item = impl Future<Output = Result<(), Failure>>>) -> Result<(), Failure> {
    let mut done = futures::stream::iter(requests).buffer_unordered(AT_A_TIME);
    while let Some(outcome) = done.next().await {
        outcome?;
    }
    Ok(())
}

/// Kubelets for machines that boot.
async fn play_machines(
    client: Client,
    epoch: Timestamp,
    mut happened: tokio::sync::mpsc::UnboundedReceiver<CloudEvent>,
) {
    let kubelets = Kubelets::start(client, KubeletConfig { epoch, ..KubeletConfig::default() });
    while let Some(event) = happened.recv().await {
        match event {
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
            CloudEvent::Stopped { node_name, .. } => kubelets.power_off(&node_name),
            _ => {}
        }
    }
}

/// When pods came, and how long it took until their bindings were asked for. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    inner: Arc<Mutex<Visits>>,
}

#[derive(Debug, Default)]
struct Visits {
    waiting: BTreeMap<String, Instant>,
    took: Vec<Duration>,
    /// Of all pods.
    n_all: usize,
}

// === impl Bindings ===

impl Bindings {
    fn comes(&self, pod: &str) {
        self.inner.lock().waiting.insert(pod.to_owned(), Instant::now());
    }

    fn asked(&self, pod: &str) {
        let mut visits = self.inner.lock();
        visits.n_all += 1;
        if let Some(came) = visits.waiting.remove(pod) {
            visits.took.push(came.elapsed());
        }
    }

    /// How long those took that were asked for since the last call, in order, how many others there were, and how many pods wait.
    pub(crate) fn take(&self) -> (Vec<Duration>, usize, usize) {
        let mut visits = self.inner.lock();
        let mut took = std::mem::take(&mut visits.took);
        took.sort_unstable();
        let others = std::mem::take(&mut visits.n_all).saturating_sub(took.len());
        (took, others, visits.waiting.len())
    }
}

/// The API server as another process sees it: what it does is done on its own thread.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) server: ApiServer,
    pub(crate) thread: Handle,
    pub(crate) bindings: Bindings,
}

// === impl Remote ===

impl tower_service::Service<Request<kube::client::Body>> for Remote {
    type Response = Response<Body>;
    type Error = tokio::task::JoinError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        if request.method() == Method::POST
            && let Some(path) = request.uri().path().strip_suffix("/binding")
        {
            self.bindings.asked(path.rsplit('/').next().unwrap_or_default());
        }
        let mut server = self.server.clone();
        Box::pin(self.thread.spawn(async move {
            let answer: Result<_, std::convert::Infallible> = tower_service::Service::call(&mut server, request).await;
            match answer {
                Ok(answer) => answer,
            }
        }))
    }
}
