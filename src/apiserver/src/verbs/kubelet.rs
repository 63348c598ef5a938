//! Subresources of pods that only a kubelet could answer: there is none behind the nodes of this server, and it says so.

use super::Scope;
use crate::meta::text_at;
use crate::reply::Answer;
use crate::status::{ApiError, Result};

/// What `kubectl logs`, `exec`, `attach` and `port-forward` ask for.
const NEED_KUBELET: [&str; 4] = ["attach", "exec", "log", "portforward"];

impl Scope<'_> {
    /// What is answered for a subresource that is not served: why it cannot be, and no log of a pod without a node.
    pub(super) fn not_served(&self, name: &str) -> Result<Answer> {
        if self.resource.custom().is_some() {
            return Err(self.not_found(name));
        }
        if !self.resource.is("pods") || !NEED_KUBELET.contains(&self.subresource.as_str()) {
            return Err(ApiError::no_resource());
        }
        let Some(pod) = self.server.inner.store.get("pods", &self.key(name)) else { return Err(self.not_found(name)) };
        let node = text_at(&pod.value(), &["spec", "nodeName"]).to_owned();
        if node.is_empty() && self.subresource == "log" {
            return Ok(Answer::Nothing);
        }
        if node.is_empty() {
            return Err(ApiError::new(400, "BadRequest", format!("pod {name} does not have a host assigned")));
        }
        let what = &self.subresource;
        let message = format!("unable to get {what} of pod {name:?}: its node {node:?} has no kubelet endpoint");
        Err(ApiError::new(500, "InternalError", message))
    }
}
