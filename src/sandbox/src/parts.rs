//! The parts of a cluster: started, connected, and on tokio's time.

use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{Admission, ApiServer, Config, FaultRates, Faults};
use berth_catalogue::Catalogue;
use berth_cloudprovider_fake::cloud::{CloudConfig, CloudEvent, FakeCloud, NodeClass};
use berth_controller_manager::{Clock, ControllerManager, Timings};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use berth_manifests::Object;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::bridge::{class_among, definition};
use crate::{SandboxError, apply};

/// What the parts of a cluster are started with.
#[derive(Debug, Clone)]
pub struct PartsOptions {
    /// What every clock shows at the start; they go with tokio's time.
    pub now: Timestamp,
    /// Decides names, ids and chance.
    pub seed: u64,
    /// What the cloud offers.
    pub catalogue: Catalogue,
    /// How the cloud behaves; its seed and epoch are those above.
    pub cloud: CloudConfig,
    /// How the stand-in kubelets behave; their epoch is the one above.
    pub kubelets: KubeletConfig,
    /// Grace periods of the built-in controllers.
    pub built_in: Timings,
    /// How Berth plans and acts; its seed is the one above.
    pub controllers: berth_controllers::Options,
    /// Neither Berth nor the cloud runs: another Berth is to be pointed at the cluster.
    pub without_berth: bool,
    /// Where Berth's counters go.
    pub on_metrics: Option<tokio::sync::mpsc::UnboundedSender<berth_controllers::metrics::Metrics>>,
    /// The most that a request takes to reach the API server, by chance.
    pub request_delay: Duration,
    /// Whether what only people read is left out: Events, and who wrote which field. Watches are endless and without
    /// bookmarks then, as virtual time wants them.
    pub is_lean: bool,
}

/// A cluster in which nobody acts yet.
pub(crate) struct Base {
    server: ApiServer,
    client: Client,
    cloud: FakeCloud,
    options: PartsOptions,
}

/// A cluster that runs: API server, built-in controllers, a cloud in memory, stand-in kubelets and Berth. It ends when this
/// is dropped.
pub struct Parts {
    /// The API server.
    pub server: ApiServer,
    /// A client of it.
    pub client: Client,
    /// The cloud.
    pub cloud: FakeCloud,
    /// The kubelets. Whoever has this tells them of the cloud's machines.
    pub kubelets: Kubelets,
    /// What happens in the cloud, in order.
    pub happened: UnboundedReceiver<CloudEvent>,
    /// Whatever runs beside.
    pub(crate) tasks: JoinSet<()>,
}

/// What [`Parts::begin`] did beside making the objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begun {
    /// Objects that the cluster has no resource for, as kind and name.
    pub passed_over: Vec<String>,
    /// Whether a NodePool was made because there was none.
    pub made_pool: bool,
    /// Reservations of which an object and the catalogue say different counts, a sentence each.
    pub disagreements: Vec<String>,
}

impl PartsOptions {
    /// The built-in catalogue, and everything else as it is by default.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            seed: 0,
            catalogue: berth_cloudprovider_fake::catalogue(),
            cloud: CloudConfig::default(),
            kubelets: KubeletConfig::default(),
            built_in: Timings::default(),
            controllers: berth_controllers::Options::default(),
            without_berth: false,
            on_metrics: None,
            request_delay: Duration::ZERO,
            is_lean: false,
        }
    }
}

// === impl Base ===

impl Base {
    /// The server with Berth's definitions, and the cloud; nobody looks or acts yet.
    ///
    /// # Errors
    /// The API server refused a definition.
    pub(crate) async fn new(options: PartsOptions) -> Result<Self, SandboxError> {
        let (now, seed) = (options.now, options.seed);
        let admission = Admission {
            taint_new_nodes: true,
            service_account: true,
            storage_protection: true,
            ..Admission::default()
        };
        let server = ApiServer::new(Config {
            epoch: now,
            seed,
            admission,
            quiet_watches: options.is_lean,
            tracks_all_managers: !options.is_lean,
            ..Config::default()
        });
        let client = match options.request_delay {
            Duration::ZERO => Client::new(server.clone(), "default"),
            latency_max => {
                let rates = FaultRates { latency: 1000, latency_max, ..FaultRates::default() };
                Client::new(Faults::seeded(seed, rates).around(server.clone()), "default")
            }
        };
        let cloud = CloudConfig { seed, epoch: now, ..options.cloud.clone() };
        let cloud = FakeCloud::new(cloud, options.catalogue.clone());
        apply::definitions(&client).await?;
        Ok(Self { server, client, cloud, options })
    }

    /// As [`Parts::begin`], before anybody looks: whoever does then sees all of it at once, which costs a fraction of
    /// being told of each object. Gives the nodes that want a kubelet, too.
    pub(crate) async fn begin(
        &self,
        objects: &[Object],
        may_make_pool: bool,
    ) -> Result<(Begun, Vec<NodeSpec>), SandboxError> {
        let begun = begin(&self.client, &self.cloud, objects, may_make_pool, &|_| false).await?;
        Ok((begun, objects.iter().filter_map(node_of).collect()))
    }

    /// Starts all that runs.
    pub(crate) fn run(self) -> Parts {
        let Self { server, client, cloud, options } = self;
        let PartsOptions { now, seed, built_in, kubelets, is_lean, .. } = options;
        let mut tasks = JoinSet::new();
        let timed = server.clone();
        let clock = Clock::new(move || timed.now());
        let built_in = berth_controller_manager::Options {
            seed,
            timings: built_in,
            without_events: is_lean,
            ..berth_controller_manager::Options::new(clock)
        };
        tasks.spawn(ControllerManager::new(client.clone(), built_in).run(std::future::pending()));
        let (events, happened) = unbounded_channel();
        if !options.without_berth {
            tasks.spawn(cloud.clone().run(events));
            let clock = berth_controllers::Clock::starting_at(now);
            let without_events = options.controllers.without_events || is_lean;
            let own = berth_controllers::Options { seed, without_events, ..options.controllers };
            let berth = berth_controllers::Controllers::new(client.clone(), Arc::new(cloud.clone()), clock, own);
            let (berth, metrics) = berth.with_metrics();
            if let Some(on_metrics) = &options.on_metrics {
                // Whoever wanted them may have gone.
                drop(on_metrics.send(metrics));
            }
            tasks.spawn(berth.run(std::future::pending()));
        }
        let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch: now, ..kubelets });
        Parts { server, client, cloud, kubelets, happened, tasks }
    }
}

// === impl Parts ===

impl Parts {
    /// Starts everything, with Berth's definitions and no other object.
    ///
    /// # Errors
    /// The API server refused a definition.
    pub async fn start(options: PartsOptions) -> Result<Self, SandboxError> {
        Ok(Base::new(options).await?.run())
    }

    /// Makes the objects to begin with, and what they need and lack: node classes, namespaces, and with `may_make_pool` a
    /// NodePool where something wants nodes. Nodes among them get a kubelet.
    ///
    /// # Errors
    /// The API server refused an object.
    pub async fn begin(&self, objects: &[Object], may_make_pool: bool) -> Result<Begun, SandboxError> {
        self.begin_applying(objects, may_make_pool, &|_| false).await
    }

    /// As [`begin`](Self::begin), for a cluster in which some of the objects are applied again. That takes away what they had
    /// and no longer say only if they were applied before, which costs more than to create them. Nodes are always created,
    /// since only that gives them a status.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_applying(
        &self,
        objects: &[Object],
        may_make_pool: bool,
        is_applied_again: &(dyn Fn(&Object) -> bool + Sync),
    ) -> Result<Begun, SandboxError> {
        let is_applied = |object: &Object| !matches!(object, Object::Node(_)) && is_applied_again(object);
        let begun = begin(&self.client, &self.cloud, objects, may_make_pool, &is_applied).await?;
        for spec in objects.iter().filter_map(node_of) {
            self.kubelets.join(spec);
        }
        Ok(begun)
    }
}

async fn begin(
    client: &Client,
    cloud: &FakeCloud,
    objects: &[Object],
    may_make_pool: bool,
    is_applied: apply::IsApplied<'_>,
) -> Result<Begun, SandboxError> {
    for class in apply::missing_node_classes(objects) {
        // As the object will say, but at once.
        cloud.set_node_class(&class, NodeClass::default());
        apply::node_class(client, &class).await?;
    }
    for object in objects {
        if let Object::FakeNodeClass(object) = object
            && let Some(class) = class_among(objects, object)
        {
            // Else NodePools that come with it would wait until the cloud is asked again, and warn of it.
            cloud.set_node_class(&object.name_any(), class);
        }
    }
    let mut definitions = cloud.reservation_definitions();
    let mut disagreements = Vec::new();
    for object in objects {
        if let Object::FakeCapacityReservation(own) = object
            // It says itself how many it holds.
            && let Some(known) = definitions.remove(own.id())
            && i64::from(known.total) != own.spec.count
        {
            disagreements.push(format!(
                "reservation {}: spec.count of FakeCapacityReservation {} is {}, the instance catalogue has {}: the object's counts",
                own.id(),
                own.name_any(),
                own.spec.count,
                known.total
            ));
        }
    }
    apply::missing_reservations(client, &definitions).await?;
    for object in objects {
        if let Object::FakeCapacityReservation(own) = object
            && own.validate().is_empty()
        {
            // Else what is planned first would not know its slots.
            cloud.set_reservation(own.id(), definition(own));
        }
    }
    if !objects.iter().any(|object| matches!(object, Object::StorageClass(_))) {
        apply::storage_class(client).await?;
    }
    let passed_over = apply::objects(client, objects, is_applied).await?;
    let has_pool = objects.iter().any(|object| matches!(object, Object::NodePool(_)));
    // Whoever starts with nothing but kubectl wants to see nodes, too.
    let wants_pool = objects.is_empty() || objects.iter().any(wants_nodes);
    let made_pool = !has_pool && may_make_pool && wants_pool;
    if made_pool {
        apply::open_pool(client).await?;
    }
    Ok(Begun { passed_over, made_pool, disagreements })
}

/// Whether a node may have to be launched for an object.
fn wants_nodes(object: &Object) -> bool {
    match object {
        Object::Pod(pod) => pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()),
        object => matches!(
            object.kind(),
            "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" | "CronJob" | "Reservation"
        ),
    }
}

/// The kubelet of a node that was among the manifests.
fn node_of(object: &Object) -> Option<NodeSpec> {
    let Object::Node(node) = object else { return None };
    Some(NodeSpec::from((**node).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lean_cluster_does_the_same_without_what_only_people_read() {
        use k8s_openapi::api::core::v1::{Event, Pod};
        use kube::Api;
        use kube::api::{ListParams, PostParams};

        let mut bound = Vec::new();
        for is_lean in [false, true] {
            let parts =
                Parts::start(PartsOptions { is_lean, ..PartsOptions::new(Timestamp::UNIX_EPOCH) }).await.unwrap();
            parts.begin(&[], true).await.unwrap();
            let Parts { client, mut happened, kubelets, tasks: _tasks, .. } = parts;
            let pods = Api::<Pod>::default_namespaced(client.clone());
            let pod = serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
            let mut pod = pods.get("p").await.unwrap();
            for _ in 0..300 {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                while let Ok(event) = happened.try_recv() {
                    if let CloudEvent::Booted(machine) = event {
                        kubelets.join(crate::machines::node_spec(*machine));
                    }
                }
                pod = pods.get("p").await.unwrap();
            }
            let events = Api::<Event>::all(client).list(&ListParams::default()).await.unwrap();
            assert_eq!(events.items.is_empty(), is_lean);
            assert_eq!(pod.metadata.managed_fields.is_none(), is_lean);
            bound.push((pod.spec.unwrap().node_name, pod.status.unwrap().phase));
        }
        assert_eq!(bound[0].1.as_deref(), Some("Running"));
        assert_eq!(bound[0], bound[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_cluster_gets_a_pool_only_where_it_may() {
        let now = Timestamp::UNIX_EPOCH;
        for may in [true, false] {
            let parts = Parts::start(PartsOptions::new(now)).await.unwrap();
            assert_eq!(parts.begin(&[], may).await.unwrap().made_pool, may);
        }
    }
}
