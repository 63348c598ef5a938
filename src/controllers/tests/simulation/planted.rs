//! Bugs that are planted, to see that the observers find them. They are played by what stands between the controllers and
//! the world, so that nothing of them is in the product.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CapacityReservation, CloudError, CloudProvider, Drift, Instance, InstanceTypes, LaunchRequest, LaunchToken,
    Launched, NodeClassStatus, ProviderId, Result,
};
use berth_cloudprovider_fake::cloud::FakeCloud;
use berth_controllers::Effort;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;

use crate::world::World;
use crate::{RATES, cloud_faults, scenarios};

/// A bug of the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Each call of the cloud has a token of its own, and nobody looks for what an earlier one launched.
    NoToken,
    /// The finalizer comes off before the instance is gone.
    LostFinalizer,
    /// Pods are deleted rather than evicted.
    NoBudget,
    /// Who leads goes on although its Lease is out of reach and has run out.
    NoFence,
    /// A process knows of the slots that it has used itself, and of no others.
    LedgerInMemory,
}

/// A cloud as controllers with a planted bug use it.
pub(crate) struct Spoilt {
    cloud: FakeCloud,
    plant: Plant,
    n_calls: Arc<AtomicU32>,
    /// What this process has launched.
    own: Arc<Mutex<BTreeSet<ProviderId>>>,
}

impl Spoilt {
    pub(crate) fn new(cloud: FakeCloud, plant: Plant) -> Self {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        // Tokens differ between processes, too.
        let n_calls = Arc::new(AtomicU32::new(CALLS.fetch_add(1_000_000, Ordering::Relaxed)));
        Self { cloud, plant, n_calls, own: Arc::default() }
    }

    /// The counts as a process has them that keeps its ledger in memory alone: what others used is free.
    fn as_remembered(&self, reservations: &mut [CapacityReservation]) {
        if self.plant != Plant::LedgerInMemory {
            return;
        }
        let own = self.own.lock();
        for known in reservations {
            known.used = u32::try_from(known.includes.intersection(&own).count()).unwrap();
        }
    }
}

impl CloudProvider for Spoilt {
    fn name(&self) -> &str {
        self.cloud.name()
    }

    fn serves(&self, node_class: &NodeClassRef) -> bool {
        self.cloud.serves(node_class)
    }

    fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>> {
        if self.plant == Plant::LedgerInMemory {
            return Box::pin(async move {
                let launched = self.cloud.create(request).await?;
                self.own.lock().insert(launched.instance.provider_id.clone());
                Ok(launched)
            });
        }
        if self.plant != Plant::NoToken {
            return self.cloud.create(request);
        }
        let token = LaunchToken::new("planted", self.n_calls.fetch_add(1, Ordering::Relaxed)).unwrap();
        let request = LaunchRequest { token, ..request.clone() };
        Box::pin(async move { self.cloud.create(&request).await })
    }

    fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>> {
        if self.plant != Plant::LostFinalizer {
            return self.cloud.delete(id);
        }
        Box::pin(async move { Err(CloudError::NotFound { what: format!("instance {id}") }) })
    }

    fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>> {
        self.cloud.get(id)
    }

    fn list<'a>(&'a self, tags: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>> {
        if self.plant == Plant::NoToken && !tags.is_empty() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.cloud.list(tags)
    }

    fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>> {
        Box::pin(async move {
            let mut types = self.cloud.instance_types(node_class).await?;
            self.as_remembered(&mut types.reservations);
            Ok(types)
        })
    }

    fn reservations<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>> {
        Box::pin(async move {
            let mut reservations = self.cloud.reservations(node_class).await?;
            self.as_remembered(&mut reservations);
            Ok(reservations)
        })
    }

    fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>> {
        self.cloud.node_class_status(node_class)
    }

    fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>> {
        self.cloud.drift(node_claim)
    }

    fn consistency_lag(&self) -> Duration {
        self.cloud.consistency_lag()
    }
}

/// Pods come, are scaled, and lose nodes, while trouble lasts: what was seen that may never be seen.
async fn play(seed: u64, plant: Option<Plant>) -> Vec<String> {
    let mut world = World::with(seed, RATES, cloud_faults(), scenarios::catalogue()).await;
    world.options.solve.effort = Effort::Low;
    world.plant = plant;
    world.start_two();
    world.create::<berth_api::NodePool>(scenarios::pool("web", &["on-demand", "reserved"])).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets =
        kube::Api::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&kube::api::PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    world.deploy(scenarios::web(6)).await;
    for replicas in [11, 8, 14] {
        tokio::time::sleep(Duration::from_secs(20 + (seed * 7 + replicas * 5) % 30)).await;
        let replicas = u32::try_from(replicas).unwrap();
        world.scale("web", replicas).await;
        if replicas == 8 {
            // Their pods are drained.
            world.delete_claims().await;
        }
    }
    tokio::time::sleep(Duration::from_secs(90)).await;
    let mut found = world.violations();
    if world.n_full() > 0 {
        found.push(format!("{} launches found no slot that was planned for them", world.n_full()));
    }
    found
}

async fn is_found(plant: Plant, by: &str) {
    for seed in 0..500 {
        let seen = play(seed, Some(plant)).await;
        if let Some(found) = seen.iter().find(|seen| seen.contains(by)) {
            println!("{plant:?} is found by seed {seed}: {found}");
            return;
        }
    }
    panic!("{plant:?} is not found by 500 seeds");
}

#[tokio::test(start_paused = true)]
async fn without_a_planted_bug_the_same_is_never_seen() {
    for seed in crate::seeds(0..2) {
        assert_eq!(play(seed, None).await, Vec::<String>::new(), "{}", crate::repeat(seed));
    }
}

#[tokio::test(start_paused = true)]
async fn launches_without_a_token_are_found() {
    is_found(Plant::NoToken, "instances").await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_comes_off_too_early_is_found() {
    is_found(Plant::LostFinalizer, "still runs").await;
}

#[tokio::test(start_paused = true)]
async fn deletions_past_a_budget_are_found() {
    is_found(Plant::NoBudget, "PodDisruptionBudget").await;
}

#[tokio::test(start_paused = true)]
async fn a_process_without_a_fence_is_found() {
    is_found(Plant::NoFence, "leads").await;
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_kept_in_memory_alone_is_found() {
    is_found(Plant::LedgerInMemory, "slot").await;
}
