//! The server: its parts, and how it is set up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use crate::clock::{Clock, Entropy};
use crate::expiry::Expiries;
use crate::observe::{Metrics, RequestLog};
use crate::resource::{Registry, Resource};
use crate::store::{HistoryLimit, Store};
use crate::tokens::Tokens;

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the clock shows at the start.
    pub epoch: Timestamp,
    /// Decides uids and generated names.
    pub seed: u64,
    /// Changes that each resource remembers for watches, before an older version is answered 410.
    pub history: usize,
    /// Bytes that the remembered changes of each resource may hold beside the objects that are there; the last change
    /// stays, however large it is.
    pub history_bytes: usize,
    /// How long an Event lives after its last write, by the server's clock.
    pub event_ttl: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// Whether watches send no bookmarks and end after a year, whatever their clients ask for. In virtual time nothing
    /// breaks a connection, and bookmarks and resumed watches would be most of what happens in a quiet hour.
    pub quiet_watches: bool,
    /// Whether every write says in `managedFields` who owns what. Without, that is kept of objects alone that somebody has
    /// applied: nothing else asks for it, and it is half of what a pod is stored as.
    pub tracks_all_managers: bool,
    /// Which admission plugins act.
    pub admission: Admission,
    /// Who may do what.
    pub authorization: Authorization,
    /// Hears of every request.
    pub log: Option<RequestLog>,
    /// The identity of requests that do not say who they are.
    pub user: User,
}

/// Who decides what users may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Everyone may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and ClusterRoles with their bindings. The group `system:masters`, in which the default user is, may do everything;
    /// others come by impersonation (`kubectl --as`).
    Rbac,
}

/// The admission plugins that can be switched. All but `service_account` act by default, as in the real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Admission {
    /// Objects need a namespace that exists and is not being deleted.
    pub namespace_lifecycle: bool,
    /// Pods get the value of their PriorityClass.
    pub priority: bool,
    /// LimitRanges default and bound containers.
    pub limit_ranger: bool,
    /// ResourceQuotas bound namespaces.
    pub resource_quota: bool,
    /// Pods tolerate a lost node for five minutes.
    pub default_toleration_seconds: bool,
    /// Pods get the zone and region labels of the node that they are bound to.
    pub pod_topology_labels: bool,
    /// New nodes are tainted not-ready until a controller says otherwise. Off by default: nobody would untaint them.
    pub taint_new_nodes: bool,
    /// Volumes and claims are kept while they are used. Off by default: it needs a controller that ends it.
    pub storage_protection: bool,
    /// Claims without a class get the default StorageClass.
    pub default_storage_class: bool,
    /// Pods that mount a token of an account and name none get the account `default`. Off by default, as no tokens are made.
    pub service_account: bool,
}

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// What tells users of one name apart; may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known of the user, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            epoch: Timestamp::UNIX_EPOCH,
            seed: 0,
            history: 32_768,
            history_bytes: 64 * 1024 * 1024,
            event_ttl: Duration::from_secs(60 * 60),
            body_timeout: Duration::from_secs(60),
            max_body: 3 * 1024 * 1024,
            quiet_watches: false,
            tracks_all_managers: true,
            admission: Admission::default(),
            authorization: Authorization::default(),
            log: None,
            user: User::default(),
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            namespace_lifecycle: true,
            priority: true,
            limit_ranger: true,
            resource_quota: true,
            pod_topology_labels: true,
            default_toleration_seconds: true,
            taint_new_nodes: false,
            storage_protection: false,
            default_storage_class: true,
            service_account: false,
        }
    }
}

impl Default for User {
    fn default() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            uid: String::new(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            extra: BTreeMap::new(),
        }
    }
}

/// A Kubernetes API server in memory. Clones are the same server.
///
/// It is a `tower::Service` over HTTP requests, so `kube::Client::new` takes it as it is.
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    registry: RwLock<Arc<Registry>>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) config: Config,
    /// Held while quota is counted and the object that it admits is written.
    pub(crate) quota: Mutex<crate::admission::Ledger>,
    /// Held while a Service is given addresses and ports, and written.
    pub(crate) services: Mutex<()>,
    pub(crate) tokens: Mutex<Tokens>,
    pub(crate) expiries: Expiries,
    pub(crate) metrics: Metrics,
    /// The roles as they were asked last.
    pub(crate) policy: Mutex<Arc<crate::rbac::Policy>>,
}

// === impl ApiServer ===

impl ApiServer {
    /// A server with the namespaces and priority classes that every cluster has.
    ///
    /// The clock goes with tokio's time, so this must be called within a tokio runtime if its time is paused.
    pub fn new(config: Config) -> Self {
        let seed = config.seed;
        let server = Self::empty(config, seed);
        server.bootstrap();
        server
    }

    /// A server without any object.
    pub(crate) fn empty(config: Config, seed: u64) -> Self {
        let inner = Inner {
            store: Store::new(HistoryLimit { changes: config.history, bytes: config.history_bytes }),
            registry: RwLock::new(Arc::new(Registry::builtin())),
            clock: Clock::starting_at(config.epoch),
            entropy: Entropy::seeded(seed),
            expiries: Expiries::after(config.event_ttl),
            config,
            quota: Mutex::default(),
            services: Mutex::default(),
            tokens: Mutex::new(Tokens::seeded(seed)),
            metrics: Metrics::default(),
            policy: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    fn bootstrap(&self) {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.seed("", "v1", "namespaces", &json!({"metadata": {"name": name}}));
        }
        for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)] {
            let about = if name.contains("node") {
                "Used for system critical pods that must not be moved from their current node."
            } else {
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
            };
            let class = json!({"metadata": {"name": name}, "value": value, "description": about});
            self.seed("scheduling.k8s.io", "v1", "priorityclasses", &class);
        }
        for (plural, object) in self.bootstrap_roles() {
            self.seed("rbac.authorization.k8s.io", "v1", plural, &object);
        }
        // Pods reach the server by it. It has no endpoints: there is nobody to reach.
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let service = json!({"metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {"clusterIP": "10.96.0.1", "ports": [
                {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]}});
        self.seed("", "v1", "services", &service);
    }

    /// Creates an object as the server itself. Its own objects are valid, so there is nothing to report.
    fn seed(&self, group: &str, version: &str, plural: &str, object: &Value) {
        if let Some(resource) = self.registry().get(group, version, plural).cloned() {
            let namespace = crate::meta::namespace(object).to_owned();
            let _ = self.create_internal(&resource, &namespace, object.clone(), "kube-apiserver");
        }
    }

    /// Forgets the history of all resources: watches that are not up to date, and lists that are not finished, end in 410.
    pub fn compact(&self) {
        self.inner.store.compact();
    }

    /// The resourceVersion of the last write.
    pub fn resource_version(&self) -> u64 {
        self.inner.store.revision()
    }

    /// The present instant by the server's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.inner.registry.read().clone()
    }

    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.inner.registry.write();
        let mut next = (**registry).clone();
        change(&mut next);
        *registry = Arc::new(next);
    }

    /// The objects of a built-in collection, as values; those of one namespace, or all if it is empty.
    pub(crate) fn values(&self, storage: &str, namespace: &str) -> Vec<Value> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let range = crate::store::Range { prefix: &prefix, ..crate::store::Range::default() };
        let page = self.inner.store.list(storage, &range).unwrap_or_default();
        page.items.iter().map(|object| object.value()).collect()
    }

    /// The objects of a built-in collection whose text has something in it, as values.
    pub(crate) fn values_with(&self, storage: &str, needle: &str) -> Vec<Value> {
        let page = self.inner.store.list(storage, &crate::store::Range::default()).unwrap_or_default();
        page.items.iter().filter(|object| object.says(needle)).map(|object| object.value()).collect()
    }

    /// The value of one object of a collection.
    pub(crate) fn value(&self, storage: &str, key: &str) -> Option<Value> {
        self.inner.store.get(storage, key).map(|object| object.value())
    }

    /// The resource that serves a collection.
    pub(crate) fn resource_of(&self, storage: &str) -> Option<Arc<Resource>> {
        self.registry().by_storage(storage).cloned()
    }
}
