//! What stands between a process and the API server: it looks at each write for what may never be, and plays bugs that are
//! planted.

use std::sync::Arc;

use http::{Method, Request};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::SelectorExt;
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::planted::Plant;

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

    /// Looks at a write that is about to take effect.
    pub(crate) async fn look_at(&self, method: &Method, path: &str) {
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
