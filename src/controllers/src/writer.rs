//! Sends one write and tells its outcome.

use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fence::Fence;
use crate::write::{Op, Outcome, Write};

/// How long an answer may take before the outcome counts as unknown.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a call that waits for the fence looks whether it is open.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Who writes, in `managedFields` and in the server's log.
const FIELD_MANAGER: &str = "berth";

/// Sends writes while the fence is open.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    fence: Fence,
}

// === impl Writer ===

impl Writer {
    pub(crate) fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// Sends a write. An answer that comes after the fence may have closed is not waited for.
    pub(crate) async fn send(&self, write: &Write) -> Outcome {
        let request = match request(write) {
            Ok(request) => request,
            Err(error) => return Outcome::Refused(error.to_string()),
        };
        let Ok(passage) = self.fence.pass() else {
            return Outcome::Fenced;
        };
        let timeout = Instant::now() + TIMEOUT;
        let deadline = passage.deadline.map_or(timeout, |fence| fence.min(timeout));
        let outcome = match tokio::time::timeout_at(deadline, self.client.request_text(request)).await {
            Ok(answer) => {
                let outcome = Outcome::from_answer(answer);
                // One whose answer was lost may take effect yet.
                if matches!(write.op, Op::Read) || !matches!(outcome, Outcome::Unknown(_)) {
                    passage.answered();
                }
                outcome
            }
            Err(_) => Outcome::Unknown("no answer in time".to_owned()),
        };
        tracing::debug!(object = %write.key, verb = write.op.verb(), outcome = outcome.word(), "wrote");
        outcome
    }

    /// Makes a call of the cloud while the fence is open. Where it is closed, either whoever waits is dropped soon, or the lease
    /// is renewed late and the fence opens again.
    pub(crate) async fn fenced<T>(&self, call: impl Future<Output = T>) -> T {
        let passage = loop {
            match self.fence.pass() {
                Ok(passage) => break passage,
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        };
        let answer = call.await;
        passage.answered();
        answer
    }
}

/// The request of a write.
fn request(write: &Write) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    let key = &write.key;
    let objects = Request::new(key.kind.url_path(&key.namespace));
    let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let body = |value: &Value| serde_json::to_vec(value).map_err(kube::core::request::Error::SerializeBody);
    let about = json!({"name": key.name, "namespace": key.namespace});
    match &write.op {
        Op::Create(object) => objects.create(&post, body(object)?),
        Op::Merge(patch) => objects.patch(&key.name, &PatchParams::apply(FIELD_MANAGER), &merge(patch, write)),
        Op::MergeStatus(patch) => {
            objects.patch_subresource("status", &key.name, &PatchParams::apply(FIELD_MANAGER), &merge(patch, write))
        }
        Op::MergeConditions(conditions) => {
            let patch = json!({"metadata": {"uid": write.uid}, "status": {"conditions": conditions}});
            let patch = Patch::Strategic(patch);
            objects.patch_subresource("status", &key.name, &PatchParams::apply(FIELD_MANAGER), &patch)
        }
        Op::Delete { grace } => {
            let grace = grace.and_then(|seconds| u32::try_from(seconds.max(0)).ok());
            let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
            objects.delete(&key.name, &params.preconditions(of_uid(write)))
        }
        Op::Evict => {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": about,
                "deleteOptions": {"preconditions": {"uid": write.uid}},
            });
            objects.create_subresource("eviction", &key.name, &post, body(&eviction)?)
        }
        Op::Bind(binding) => {
            let mut binding = binding.clone();
            if let (Some(binding), Some(about)) = (binding.as_object_mut(), about.as_object()) {
                let metadata = binding.entry("metadata").or_insert_with(|| json!({}));
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.extend(about.clone());
                    // The server refuses to bind another pod of the same name.
                    metadata.insert("uid".to_owned(), json!(write.uid));
                }
                binding.insert("apiVersion".to_owned(), json!("v1"));
                binding.insert("kind".to_owned(), json!("Binding"));
            }
            objects.create_subresource("binding", &key.name, &post, body(&binding)?)
        }
        Op::Read => objects.get(&key.name, &GetParams::default()),
    }
}

/// A merge patch that the server refuses where another object has the name now.
fn merge(patch: &Value, write: &Write) -> Patch<Value> {
    let mut patch = patch.clone();
    if let Some(patch) = patch.as_object_mut() {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(write.uid));
        }
    }
    Patch::Merge(patch)
}

fn of_uid(write: &Write) -> Preconditions {
    Preconditions { uid: Some(write.uid.clone()), resource_version: None }
}

#[cfg(test)]
mod tests;
