//! What stands between a process and the API server: it looks at each write for what may never be, and plays bugs that are
//! planted.

use std::sync::Arc;

use berth_api::{NodeClaim, labels};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::SelectorExt;
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::planted::Plant;

/// How far the clocks of processes may be from the server's.
const CLOCKS: SignedDuration = SignedDuration::from_secs(125);

/// The guard of one process.
#[derive(Clone)]
pub(crate) struct Guard {
    client: Client,
    /// Who the process is, where it needs a Lease.
    identity: Option<String>,
    violations: Arc<Mutex<Vec<String>>>,
    plant: Option<Plant>,
    /// The Lease as a process believes it to be that keeps no fence.
    believed: Arc<Mutex<Option<Lease>>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Guard {
    pub(crate) fn new(
        client: Client,
        identity: Option<String>,
        violations: Arc<Mutex<Vec<String>>>,
        plant: Option<Plant>,
    ) -> Self {
        Self { client, identity, violations, plant, believed: Arc::default() }
    }

    /// Says what was seen that may never be.
    pub(crate) fn saw(&self, what: String) {
        self.violations.lock().push(what);
    }

    /// Looks at a write that is about to take effect now.
    pub(crate) async fn look_at(&self, method: &Method, path: &str, now: Timestamp) {
        if let Some(identity) = &self.identity {
            let holder = self.lease().await.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            if holder != *identity {
                self.violations.lock().push(format!("{identity} writes ({method} {path}) and {holder:?} leads"));
            }
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        // What a plant makes of an eviction is looked at as that.
        let is_deletion =
            *method == Method::DELETE || (self.plant == Some(Plant::NoBudget) && path.ends_with("/eviction"));
        if let ["api", "v1", "namespaces", namespace, "pods", name, ..] = parts[..]
            && is_deletion
            && self.is_held(namespace, name).await
            && !self.is_at_end_of_grace(namespace, name, now).await
            && !self.is_node_lost(namespace, name).await
        {
            self.violations.lock().push(format!("{namespace}/{name} is deleted against its PodDisruptionBudget"));
        }
    }

    /// The Lease in truth.
    async fn lease(&self) -> Option<Lease> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), "kube-system");
        leases.get_opt("karpenter-leader-election").await.unwrap()
    }

    /// What a process that keeps no fence takes for the answer while its Lease is out of reach: it leads, as before.
    pub(crate) async fn believed_lease(&self) -> Option<Lease> {
        if self.plant != Some(Plant::NoFence) {
            return None;
        }
        let lease = self.lease().await?;
        let mut believed = self.believed.lock();
        if believed.is_none()
            && lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == self.identity.as_ref()
        {
            *believed = Some(lease);
        }
        believed.clone()
    }

    /// The Lease is within reach.
    pub(crate) fn sees_lease(&self) {
        *self.believed.lock() = None;
    }

    /// Whether a PodDisruptionBudget lets a pod not go now.
    async fn is_held(&self, namespace: &str, name: &str) -> bool {
        let pod = Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await.unwrap();
        let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else { return false };
        let labels = pod.metadata.labels.unwrap_or_default();
        let budgets = Api::<PodDisruptionBudget>::namespaced(self.client.clone(), namespace);
        budgets.list(&ListParams::default()).await.unwrap().items.into_iter().any(|budget| {
            let selector = budget.spec.and_then(|spec| spec.selector).unwrap_or_default();
            let selector: kube::core::Selector = selector.try_into().unwrap();
            let allowed = budget.status.map_or(0, |status| status.disruptions_allowed);
            selector.matches(&labels) && allowed < 1
        })
    }

    /// Whether a pod's node is gone: what was sent at the end of its grace may take effect after that.
    async fn is_node_lost(&self, namespace: &str, name: &str) -> bool {
        let pod = Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await.unwrap();
        let Some(node) = pod.and_then(|pod| pod.spec).and_then(|spec| spec.node_name) else { return false };
        Api::<Node>::all(self.client.clone()).get_opt(&node).await.unwrap().is_none()
    }

    /// Whether the grace period of a pod's node ends before the pod's own would, by the clock of whoever says so.
    async fn is_at_end_of_grace(&self, namespace: &str, name: &str, now: Timestamp) -> bool {
        let pod = Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await.unwrap();
        let Some(spec) = pod.and_then(|pod| pod.spec) else { return false };
        let grace = SignedDuration::from_secs(spec.termination_grace_period_seconds.unwrap_or(30)) + CLOCKS;
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        let of_node = claims.items.into_iter().filter(|claim| {
            claim.status.as_ref().is_some_and(|status| status.node_name.is_some() && status.node_name == spec.node_name)
        });
        let deadlines = of_node.filter_map(|claim| {
            let written = claim.metadata.annotations?.get(labels::TERMINATION_TIMESTAMP)?.parse::<Timestamp>().ok()?;
            written.checked_sub(grace).ok()
        });
        deadlines.into_iter().any(|begins| begins <= now)
    }

    /// A request as the planted bug makes it.
    pub(crate) fn spoil(&self, request: Request<kube::client::Body>) -> Request<kube::client::Body> {
        let path = request.uri().path().to_owned();
        match self.plant {
            Some(Plant::NoBudget) if path.ends_with("/eviction") => {
                let pod = path.trim_end_matches("/eviction").to_owned();
                Request::builder().method(Method::DELETE).uri(pod).body(kube::client::Body::empty()).unwrap()
            }
            _ => request,
        }
    }
}
