//! Subresources of pods that only a kubelet could answer: there is none behind the nodes of this server, and it says so.

use super::Scope;
use crate::meta::text_at;
use crate::status::ApiError;

/// What `kubectl logs`, `exec`, `attach` and `port-forward` ask for.
const NEED_KUBELET: [&str; 4] = ["attach", "exec", "log", "portforward"];

impl Scope<'_> {
    /// Why a subresource that is not served cannot be.
    pub(super) fn not_served(&self, name: &str) -> ApiError {
        if !self.resource.is("pods") || !NEED_KUBELET.contains(&self.subresource.as_str()) {
            return ApiError::no_resource();
        }
        let Some(pod) = self.server.inner.store.get("pods", &self.key(name)) else { return self.not_found(name) };
        let node = text_at(&pod.value(), &["spec", "nodeName"]).to_owned();
        if node.is_empty() {
            return ApiError::new(400, "BadRequest", format!("pod {name} does not have a host assigned"));
        }
        let what = &self.subresource;
        let message = format!("unable to get {what} of pod {name:?}: its node {node:?} has no kubelet endpoint");
        ApiError::new(500, "InternalError", message)
    }
}
