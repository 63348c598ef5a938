//! The built-in story: what there is to see, one scene after the other.

use std::time::Duration;

use berth_api::{FakeCapacityReservation, NodePool, Reservation, ReservationPhase, labels};
use berth_catalogue::{CapacityType, Catalogue, CatalogueError};
use berth_cloudprovider::OfferingKey;
use berth_cloudprovider_fake::cloud::FakeCloud;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// What the story plays on.
const CATALOGUE: &str = include_str!("../../../examples/catalogues/four-slots.yaml");
/// How often a scene looks whether it has come to its end.
const LOOK: Duration = Duration::from_millis(200);
/// The longest that a scene may take.
const LONGEST: Duration = Duration::from_secs(120);
/// A moment for who reads.
const PAUSE: Duration = Duration::from_secs(2);

/// The catalogue of the built-in story: three types in two zones, and four instances that have been paid for.
///
/// # Errors
/// None; the catalogue is read as any other.
pub fn story_catalogue() -> Result<Catalogue, CatalogueError> {
    berth_catalogue::read(CATALOGUE.as_bytes(), "the story's catalogue")
}

/// Where the story is played, and to whom it is told.
pub(crate) struct Stage {
    client: Client,
    cloud: FakeCloud,
    told: UnboundedSender<String>,
}

/// Plays all scenes. What the sandbox tells beside is what comes of them.
pub(crate) async fn play(stage: Stage) {
    // An error is of a request that the server of this process refused: it is told, and the story ends.
    if let Err(error) = scenes(&stage).await {
        stage.say(format!("the story ends here: {error}"));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn scenes(stage: &Stage) -> kube::Result<()> {
    stage.say("── Four instances of m5.xlarge are paid for (cr-web). A NodePool uses them first, then buys.");
    stage.create::<NodePool>(pool()).await?;
    stage.say("── A Deployment of 12 pods, three to an m5.xlarge: the slots take them all.");
    stage.create_in_default::<Deployment>(deployment("web", 12, "1200m")).await?;
    stage.all_run(12).await?;

    stage.say("── Two pods more: the slots have run out, so one node is bought.");
    stage.scale("web", 14).await?;
    stage.all_run(14).await?;

    stage.say("── Down to six: what was bought makes way, and its pods move to the slots, which are paid for anyway.");
    stage.scale("web", 6).await?;
    stage.nodes_go(4).await?;
    stage.say("── Down to none: empty nodes go, and their slots come back.");
    stage.scale("web", 0).await?;
    stage.nodes_go(0).await?;

    stage.say("── The cloud has no m5.xlarge left to sell. Up to 20: slots first, and the rest on another type.");
    for zone in ["port-1a", "port-1b"] {
        stage.cloud.set_stock(&on_demand("m5.xlarge", zone), Some(0));
    }
    stage.scale("web", 20).await?;
    stage.all_run(20).await?;

    stage.say("── Three m5.xlarge more are paid for: what was bought makes way, and its pods move there.");
    let slots = Api::<FakeCapacityReservation>::all(stage.client.clone());
    let more = Patch::Merge(json!({"spec": {"count": 7}}));
    slots.patch("cr-web", &PatchParams::default(), &more).await?;
    stage.until(Wanted::OnSlots(20)).await?;

    stage.say("── A Reservation holds room for a release that comes later. It gets a node before its pods exist.");
    stage.create::<Reservation>(reservation()).await?;
    stage.until(Wanted::Room).await?;
    stage.say("── The release comes: its pod lands in the room that is held for it, at once.");
    stage.create_in_default::<Deployment>(deployment("release", 1, "2")).await?;
    stage.all_run(21).await?;

    stage.say("── A rollout of web: new pods in place of the old ones.");
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "registry.example/web:2"}]}}}});
    stage.patch("web", &image).await?;
    tokio::time::sleep(PAUSE).await;
    stage.all_run(21).await?;

    stage.say("── The work is done. Everything goes, and nothing is paid for any more.");
    stage.scale("web", 0).await?;
    stage.scale("release", 0).await?;
    let reservations = Api::<Reservation>::all(stage.client.clone());
    // It may be over already.
    drop(reservations.delete("release-room", &kube::api::DeleteParams::default()).await);
    stage.nodes_go(0).await?;
    stage.say("── The end. `berth sandbox -f FILE --kubeconfig FILE` plays your own.");
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new(client: Client, cloud: FakeCloud, told: UnboundedSender<String>) -> Self {
        Self { client, cloud, told }
    }

    fn say(&self, message: impl Into<String>) {
        // Nobody listens any more once the sandbox ends.
        drop(self.told.send(message.into()));
    }

    async fn create<K>(&self, object: Value) -> kube::Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope> + Object,
    {
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        Api::<K>::all(self.client.clone()).create(&PostParams::default(), &object).await.map(drop)
    }

    async fn create_in_default<K>(&self, object: Value) -> kube::Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Object,
    {
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        Api::<K>::default_namespaced(self.client.clone()).create(&PostParams::default(), &object).await.map(drop)
    }

    async fn scale(&self, deployment: &str, replicas: u32) -> kube::Result<()> {
        self.patch(deployment, &json!({"spec": {"replicas": replicas}})).await
    }

    async fn patch(&self, deployment: &str, patch: &Value) -> kube::Result<()> {
        let api = Api::<Deployment>::default_namespaced(self.client.clone());
        api.patch(deployment, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }

    /// Waits until `n` pods run, and no other is there.
    async fn all_run(&self, n: usize) -> kube::Result<()> {
        self.until(Wanted::Run(n)).await
    }

    /// Waits until `n` nodes are left at most.
    async fn nodes_go(&self, n: usize) -> kube::Result<()> {
        self.until(Wanted::Nodes(n)).await
    }

    async fn is_so(&self, wanted: Wanted) -> kube::Result<bool> {
        let all = ListParams::default();
        Ok(match wanted {
            Wanted::Run(n) => {
                let pods = Api::<Pod>::all(self.client.clone()).list(&all).await?.items;
                let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
                pods.len() == n && pods.iter().all(|pod| phase(pod).as_deref() == Some("Running"))
            }
            Wanted::OnSlots(n) => {
                let nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
                let own = |node: &Node| node.metadata.labels.as_ref()?.get(labels::CAPACITY_TYPE).cloned();
                let is_on_slot = |node: &Node| own(node).as_deref() == Some(labels::RESERVED);
                nodes.iter().all(is_on_slot) && Box::pin(self.is_so(Wanted::Run(n))).await?
            }
            Wanted::Nodes(n) => Api::<Node>::all(self.client.clone()).list(&all).await?.items.len() <= n,
            Wanted::Room => {
                let reservation = Api::<Reservation>::all(self.client.clone()).get("release-room").await?;
                reservation.status.unwrap_or_default().phase == ReservationPhase::Available
            }
        })
    }

    async fn until(&self, wanted: Wanted) -> kube::Result<()> {
        let start = Instant::now();
        while !self.is_so(wanted).await? {
            if start.elapsed() > LONGEST {
                self.say("   (this takes longer than it should; the story goes on)");
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// What a scene waits for.
#[derive(Clone, Copy)]
enum Wanted {
    /// So many pods, and all of them run.
    Run(usize),
    /// So many pods, all of them run, and every node is on a slot.
    OnSlots(usize),
    /// So many nodes at most.
    Nodes(usize),
    /// The Reservation has its room.
    Room,
}

/// What can be created from JSON.
trait Object: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned {}

impl<K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned> Object for K {}

fn on_demand(of_type: &str, zone: &str) -> OfferingKey {
    let (instance_type, zone) = (of_type.to_owned(), Some(zone.to_owned()));
    OfferingKey { instance_type, zone, capacity_type: CapacityType::OnDemand }
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "prefer-reserved"}, "spec": {
    "disruption": {"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]},
    "template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "reserved"]}],
    }}}})
}

fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{
            "name": name, "image": format!("registry.example/{name}"),
            "resources": {"requests": {"cpu": cpu, "memory": "3Gi"}}}]}}}})
}

fn reservation() -> Value {
    json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "release-room"}, "spec": {
            "ttl": "1h", "allocateOnce": false,
            "owners": [{"labelSelector": {"matchLabels": {"app": "release"}}}],
            "template": {"spec": {"containers": [{
                "name": "room", "image": "registry.example/pause",
                "resources": {"requests": {"cpu": "2", "memory": "3Gi"}}}]}}}})
}

#[cfg(test)]
mod tests;
