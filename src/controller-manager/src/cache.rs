//! The caches of all resources that controllers read, with their indexes.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController, ResourceQuota, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;

use crate::addresses::{KnownEndpoints, KnownSlice};
use crate::core::Core;
use crate::index::{Index, SelectorIndex};
use crate::key::NamespacedName;
use crate::objects::{AnyObject, Lease, Pod, View};
use crate::observe;
use crate::options::Controller;
use crate::resource::{self, Resource};
use crate::store::{Delta, Kept, Store};
use crate::watches::{Message, Told};

/// A kind that has a cache of its own.
pub(crate) trait Cached: Kept + DeserializeOwned {
    fn resource() -> &'static Resource;
    fn store(caches: &mut Caches) -> &mut Store<Self>;
    /// Keeps the indexes, and turns a change into work.
    fn changed(core: &mut Core, delta: &Delta<Self>);
}

/// A ServiceAccount, of which the metadata is kept.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct ServiceAccount(pub(crate) AnyObject);

impl Kept for Pod {
    fn view(&self) -> View<'_> {
        self.metadata.view()
    }

    fn sharing(mut self, caches: &Caches) -> Self {
        let view = self.view();
        let before = caches.pods.get(&view.key());
        let beside = || {
            let mut of_owner = caches.indexes.pods_of.get(view.controller()?.uid.as_str());
            of_owner.next().and_then(|key| caches.pods.get(key))
        };
        if let Some(other) = before.or_else(beside).cloned() {
            self.share(&other);
        }
        self
    }
}

impl Kept for Lease {
    fn view(&self) -> View<'_> {
        self.metadata.view()
    }
}

impl Kept for AnyObject {
    fn view(&self) -> View<'_> {
        self.metadata.view()
    }
}

impl Kept for ServiceAccount {
    fn view(&self) -> View<'_> {
        self.0.metadata.view()
    }
}

macro_rules! whole {
    ($($kind:ty),*) => {
        $(impl Kept for $kind {
            fn view(&self) -> View<'_> {
                View::of(&self.metadata)
            }
        })*
    };
}

whole!(
    Node,
    Namespace,
    Service,
    KnownEndpoints,
    ResourceQuota,
    PersistentVolumeClaim,
    PersistentVolume,
    ReplicationController,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    CronJob,
    KnownSlice,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    StorageClass
);

macro_rules! caches {
    ($($field:ident: $kind:ty = $resource:ident, $changed:path, [$($controller:ident)*];)*) => {
        /// The caches and their indexes.
        #[derive(Debug, Default)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Store<$kind>,)*
            pub(crate) indexes: Indexes,
        }

        $(impl Cached for $kind {
            fn resource() -> &'static Resource {
                &resource::$resource
            }

            fn store(caches: &mut Caches) -> &mut Store<Self> {
                &mut caches.$field
            }

            fn changed(core: &mut Core, delta: &Delta<Self>) {
                $changed(core, delta);
            }
        })*

        impl Core {
            /// Starts the watches of what the controllers read.
            pub(crate) fn watch_caches(&mut self) {
                $(if [$(Controller::$controller),*].iter().any(|controller| self.has(*controller)) {
                    self.spawn_watch::<$kind>();
                })*
            }

            /// Whether all that a controller reads has been listed.
            pub(crate) fn is_synced(&self, controller: Controller) -> bool {
                true $(&& (![$(Controller::$controller),*].contains(&controller) || self.caches.$field.is_synced()))*
            }

            /// Takes in an object that we wrote. Gives whether its resource has a cache here.
            pub(crate) fn wrote(&mut self, resource: &Resource, text: &str) -> bool {
                $(if resource == <$kind as Cached>::resource() {
                    self.wrote_kind::<$kind>(text);
                    return true;
                })*
                false
            }

            /// Takes in that an object which we deleted is gone.
            pub(crate) fn deleted(&mut self, resource: &Resource, key: &NamespacedName, uid: &str) -> bool {
                $(if resource == <$kind as Cached>::resource() {
                    let delta = self.caches.$field.deleted(key, uid);
                    self.take(delta);
                    return true;
                })*
                false
            }

            /// The resources that are watched with a cache of their own.
            pub(crate) fn has_cache(&self, group: &str, plural: &str) -> bool {
                false $(|| (resource::$resource.is(group, plural)
                    && [$(Controller::$controller),*].iter().any(|controller| self.has(*controller))))*
            }
        }
    };
}

caches! {
    namespaces: Namespace = NAMESPACES, observe::namespace, [Namespace ServiceAccount];
    nodes: Node = NODES, observe::node::node, [NodeLifecycle TaintEviction PodGarbageCollector DaemonSet EndpointSlice PersistentVolumeBinder];
    leases: Lease = LEASES, observe::node::lease, [NodeLifecycle];
    deployments: Deployment = DEPLOYMENTS, observe::workload::deployment, [Deployment Disruption HorizontalPodAutoscaler];
    replica_sets: ReplicaSet = REPLICA_SETS, observe::workload::replica_set, [ReplicaSet Deployment Disruption HorizontalPodAutoscaler];
    replication_controllers: ReplicationController = REPLICATION_CONTROLLERS, observe::workload::replication_controller, [ReplicationController Disruption HorizontalPodAutoscaler];
    stateful_sets: StatefulSet = STATEFUL_SETS, observe::workload::stateful_set, [StatefulSet Disruption HorizontalPodAutoscaler];
    daemon_sets: DaemonSet = DAEMON_SETS, observe::workload::daemon_set, [DaemonSet];
    revisions: ControllerRevision = REVISIONS, observe::workload::revision, [StatefulSet DaemonSet];
    jobs: Job = JOBS, observe::workload::job, [Job CronJob];
    cron_jobs: CronJob = CRON_JOBS, observe::workload::cron_job, [CronJob];
    services: Service = SERVICES, observe::service, [Endpoints EndpointSlice ResourceQuota];
    endpoints: KnownEndpoints = ENDPOINTS, observe::endpoints, [Endpoints];
    slices: KnownSlice = SLICES, observe::slice, [EndpointSlice];
    autoscalers: HorizontalPodAutoscaler = AUTOSCALERS, observe::autoscaler, [HorizontalPodAutoscaler];
    budgets: PodDisruptionBudget = BUDGETS, observe::budget, [Disruption];
    quotas: ResourceQuota = QUOTAS, observe::quota, [ResourceQuota];
    service_accounts: ServiceAccount = SERVICE_ACCOUNTS, observe::service_account, [ServiceAccount];
    classes: StorageClass = CLASSES, observe::volume::class, [PersistentVolumeBinder];
    claims: PersistentVolumeClaim = CLAIMS, observe::volume::claim, [PersistentVolumeBinder StatefulSet ResourceQuota EphemeralVolume];
    volumes: PersistentVolume = VOLUMES, observe::volume::volume, [PersistentVolumeBinder];
    pods: Pod = PODS, observe::pod::pod, [Deployment ReplicaSet ReplicationController StatefulSet DaemonSet Job Endpoints EndpointSlice Disruption ResourceQuota NodeLifecycle TaintEviction PodGarbageCollector PersistentVolumeBinder EphemeralVolume];
}

/// Keys of cached objects by what controllers ask for.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// Pods by the UID of their controller.
    pub(crate) pods_of: Index<Box<str>>,
    /// Pods of DaemonSets by the UID of their controller and the node that they are for.
    pub(crate) daemons_on: Index<(Box<str>, Box<str>)>,
    pub(crate) pods_on: Index<Box<str>>,
    /// HorizontalPodAutoscalers by what they scale: its kind and its name.
    pub(crate) autoscalers_of: Index<(Box<str>, NamespacedName)>,
    /// Pods by the claims that they use.
    pub(crate) pods_using: Index<NamespacedName>,
    pub(crate) sets_of: Index<Box<str>>,
    pub(crate) jobs_of: Index<Box<str>>,
    pub(crate) revisions_of: Index<Box<str>>,
    pub(crate) slices_of: Index<Box<str>>,
    /// Which pods Services and budgets select.
    pub(crate) selected: SelectorIndex,
    /// Pods without a controller, by namespace: few among many, and a new workload looks through all of them.
    pub(crate) orphans_in: Index<Arc<str>>,
    /// Which pods without a controller workloads select.
    pub(crate) orphans: SelectorIndex,
    /// Which ReplicaSets without a controller Deployments select.
    pub(crate) orphan_sets: SelectorIndex,
    /// Which ControllerRevisions without a controller workloads select.
    pub(crate) orphan_revisions: SelectorIndex,
}

impl Core {
    fn spawn_watch<T: Cached>(&mut self) {
        self.unsynced += 1;
        self.watch(T::resource().clone(), false, |told: Told<T>| -> Message {
            Box::new(move |core: &mut Core| core.told(told))
        });
    }

    fn told<T: Cached>(&mut self, told: Told<T>) {
        match told {
            Told::Page(items) => {
                for item in items {
                    let item = item.sharing(&self.caches);
                    let delta = T::store(&mut self.caches).page(item);
                    self.take(delta);
                }
            }
            Told::Listed(keys, version) => {
                let store = T::store(&mut self.caches);
                self.unsynced -= usize::from(!store.is_synced());
                for delta in store.listed(&keys, version) {
                    self.take(Some(delta));
                }
                self.unpark();
            }
            Told::Changed(object) => {
                let object = object.sharing(&self.caches);
                let delta = T::store(&mut self.caches).upsert(object);
                self.take(delta);
            }
            Told::Deleted(object) => {
                let delta = T::store(&mut self.caches).remove(&object);
                self.take(delta);
            }
            Told::Bookmark(version) => T::store(&mut self.caches).advance(version),
        }
    }

    fn wrote_kind<T: Cached>(&mut self, text: &str) {
        // What cannot be read here comes by the watch, which reports it.
        if let Ok(object) = serde_json::from_str::<T>(text) {
            let object = object.sharing(&self.caches);
            let delta = T::store(&mut self.caches).wrote(object);
            self.take(delta);
        }
    }

    /// Takes in a change of a cache.
    pub(crate) fn take<T: Cached>(&mut self, delta: Option<Delta<T>>) {
        let Some(delta) = delta else { return };
        // Another object of the same name: one has ended and one has begun.
        let is_another = match (&delta.old, &delta.new) {
            (Some(old), Some(new)) => old.view().uid != new.view().uid,
            _ => false,
        };
        if is_another {
            self.take_one(&Delta { key: delta.key.clone(), old: delta.old, new: None });
            self.take_one(&Delta { key: delta.key, old: None, new: delta.new });
        } else {
            self.take_one(&delta);
        }
    }

    fn take_one<T: Cached>(&mut self, delta: &Delta<T>) {
        let view = |object: &'_ Option<Arc<T>>| object.clone();
        let (old, new) = (view(&delta.old), view(&delta.new));
        self.observe_graph(T::resource(), old.as_deref().map(Kept::view), new.as_deref().map(Kept::view));
        T::changed(self, delta);
    }
}
