//! Requests that change objects, and what becomes of them.

use futures::future::BoxFuture;
use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::events::Telling;
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::Resource;

/// The field manager of all that is written.
const MANAGER: &str = "kube-controller-manager";
/// Requests of one burst that are under way at a time.
const BURST: usize = 16;

/// One request that changes an object.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Result<Vec<u8>, String>,
    resource: Resource,
    key: NamespacedName,
    /// The UID of what is to be deleted.
    deletes: Option<Box<str>>,
    /// Whether a refusal to create because of the name is what was expected.
    may_exist: bool,
    /// What is sent before it: where that fails, it is not sent.
    first: Option<Box<Write>>,
    /// What is told of it as an Event.
    tells: Option<Box<Telling>>,
}

/// What a write left.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object as it is now.
    Object { resource: Resource, text: String, tells: Option<Box<Telling>> },
    /// The object is gone.
    Gone { resource: Resource, key: NamespacedName, uid: Box<str>, tells: Option<Box<Telling>> },
    /// Nothing that is worth knowing.
    Nothing,
}

/// Why work failed, or could not be done yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{verb} {resource} {key}: {source}")]
    Request {
        verb: Method,
        resource: String,
        key: NamespacedName,
        source: Box<kube::Error>,
        tells: Option<Box<Telling>>,
    },
    #[error("write {resource} {key}: {reason}")]
    Body { resource: String, key: NamespacedName, reason: String },
    #[error("{0}")]
    NotYet(String),
}

/// What a controller wants done for a piece of work.
pub(crate) enum Effect {
    /// Nothing.
    Done,
    /// These writes, each after the one before; the first failure ends them.
    InOrder(Vec<Write>),
    /// The first writes side by side, then, whatever came of them, the others in order.
    Burst(Vec<Write>, Vec<Write>),
    /// Something that has to look before it writes.
    Task(BoxFuture<'static, Result<Vec<Written>, Failure>>),
    /// The same work again later, with a growing wait.
    Retry(String),
}

// === impl Failure ===

impl Failure {
    /// What the server said to a request that is of no use as it is.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status)
                    if (400..500).contains(&status.code) && ![404, 409, 429].contains(&status.code) =>
                {
                    Some(status.message.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What is told of the write that failed.
    pub(crate) fn take_telling(&mut self) -> Option<Box<Telling>> {
        if let Self::Request { tells, .. } = self { tells.take() } else { None }
    }

    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => code(source),
            _ => None,
        }
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}

/// The namespace is being deleted: nothing can be created in it any more, and trying again is of no use.
fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 403
        && status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

// === impl Write ===

impl Write {
    fn new(
        method: Method,
        resource: &Resource,
        key: &NamespacedName,
        path: String,
        body: Result<Vec<u8>, String>,
    ) -> Self {
        let content_type = "application/json";
        let (resource, key) = (resource.clone(), key.clone());
        Self {
            method,
            path,
            content_type,
            body,
            resource,
            key,
            deletes: None,
            may_exist: false,
            first: None,
            tells: None,
        }
    }

    fn at(resource: &Resource, key: &NamespacedName, subresource: &str) -> String {
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{subresource}?fieldManager={MANAGER}", resource.path(&key.namespace), key.name)
    }

    /// Creates an object.
    pub(crate) fn create(resource: &Resource, key: &NamespacedName, object: &impl Serialize) -> Self {
        let path = format!("{}?fieldManager={MANAGER}", resource.path(&key.namespace));
        Self::new(Method::POST, resource, key, path, bytes(object))
    }

    /// The same; that there is an object of its name already is no failure.
    pub(crate) fn ensure(resource: &Resource, key: &NamespacedName, object: &impl Serialize) -> Self {
        Self { may_exist: true, ..Self::create(resource, key, object) }
    }

    /// Replaces an object, if it still has the version of the body.
    pub(crate) fn replace(resource: &Resource, key: &NamespacedName, object: &impl Serialize) -> Self {
        Self::new(Method::PUT, resource, key, Self::at(resource, key, ""), bytes(object))
    }

    /// Replaces the status of an object, if it still has the version of the body.
    pub(crate) fn replace_status(resource: &Resource, key: &NamespacedName, object: &impl Serialize) -> Self {
        Self::new(Method::PUT, resource, key, Self::at(resource, key, "status"), bytes(object))
    }

    /// Replaces a subresource of an object.
    pub(crate) fn replace_subresource(
        resource: &Resource,
        key: &NamespacedName,
        name: &str,
        object: &impl Serialize,
    ) -> Self {
        Self::new(Method::PUT, resource, key, Self::at(resource, key, name), bytes(object))
    }

    /// Changes an object by a merge patch.
    pub(crate) fn merge(resource: &Resource, key: &NamespacedName, patch: &Value) -> Self {
        let content_type = "application/merge-patch+json";
        let own = Self::at(resource, key, "");
        Self { content_type, ..Self::new(Method::PATCH, resource, key, own, bytes(patch)) }
    }

    /// Changes an object by a strategic merge patch.
    pub(crate) fn strategic(resource: &Resource, key: &NamespacedName, patch: &Value) -> Self {
        let content_type = "application/strategic-merge-patch+json";
        Self { content_type, ..Self::merge(resource, key, patch) }
    }

    /// Changes the status of an object by a strategic merge patch, which keeps other conditions.
    pub(crate) fn patch_status(resource: &Resource, key: &NamespacedName, patch: &Value) -> Self {
        let content_type = "application/strategic-merge-patch+json";
        let status = Self::at(resource, key, "status");
        Self { content_type, ..Self::new(Method::PATCH, resource, key, status, bytes(patch)) }
    }

    /// Deletes an object, if it still is the one of this UID.
    pub(crate) fn delete(resource: &Resource, key: &NamespacedName, uid: &str) -> Self {
        Self::delete_with(resource, key, uid, json!({}))
    }

    /// The same at once, without a grace period.
    pub(crate) fn delete_now(resource: &Resource, key: &NamespacedName, uid: &str) -> Self {
        Self::delete_with(resource, key, uid, json!({"gracePeriodSeconds": 0}))
    }

    /// The same with more options.
    pub(crate) fn delete_with(resource: &Resource, key: &NamespacedName, uid: &str, mut options: Value) -> Self {
        if let Some(map) = options.as_object_mut() {
            let conditions = map.entry("preconditions").or_insert_with(|| json!({}));
            if let Some(conditions) = conditions.as_object_mut() {
                conditions.insert("uid".to_owned(), uid.into());
            }
            map.insert("kind".to_owned(), "DeleteOptions".into());
            map.insert("apiVersion".to_owned(), "v1".into());
        }
        let path = format!("{}/{}", resource.path(&key.namespace), key.name);
        let deletes = Some(uid.into());
        Self { deletes, ..Self::new(Method::DELETE, resource, key, path, bytes(&options)) }
    }

    /// Sets the owners of an object, if it still has a version.
    pub(crate) fn set_owners(resource: &Resource, view: View<'_>, owners: &[OwnerReference]) -> Self {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        let patch = json!({"metadata": {"uid": view.uid, "resourceVersion": view.version, "ownerReferences": owners}});
        Self::merge(resource, &view.key(), &patch)
    }

    /// Tells of it as an Event, once it was answered.
    pub(crate) fn telling(self, telling: Telling) -> Self {
        Self { tells: Some(Box::new(telling)), ..self }
    }

    /// Sends another one before it, and it only where that does not fail.
    pub(crate) fn after(self, first: Write) -> Self {
        Self { first: Some(Box::new(first)), ..self }
    }

    /// Sends the request.
    pub(crate) async fn send(mut self, client: &Client) -> Result<Written, Failure> {
        if let Some(first) = self.first.take() {
            Box::pin(first.send(client)).await?;
        }
        let name = self.resource.plural.to_string();
        let body =
            self.body.map_err(|reason| Failure::Body { resource: name.clone(), key: self.key.clone(), reason })?;
        let request = Request::builder().method(self.method.clone()).uri(&self.path);
        let request = request.header(http::header::CONTENT_TYPE, self.content_type).body(body);
        let answer = match request {
            Ok(request) => client.request_text(request).await,
            Err(error) => Err(kube::Error::HttpError(error)),
        };
        match (answer, self.deletes) {
            (Ok(text), Some(uid)) if is_gone(&text) => {
                Ok(Written::Gone { resource: self.resource, key: self.key, uid, tells: self.tells })
            }
            (Ok(text), _) => Ok(Written::Object { resource: self.resource, text, tells: self.tells }),
            (Err(error), Some(uid)) if code(&error) == Some(404) => {
                Ok(Written::Gone { resource: self.resource, key: self.key, uid, tells: None })
            }
            // What is to be changed is gone: the watch will tell.
            (Err(error), None) if code(&error) == Some(404) && self.method != Method::POST => Ok(Written::Nothing),
            (Err(error), _) if self.may_exist && code(&error) == Some(409) => Ok(Written::Nothing),
            (Err(error), _) if is_namespace_terminating(&error) => Ok(Written::Nothing),
            (Err(error), _) => {
                let source = Box::new(error);
                Err(Failure::Request { verb: self.method, resource: name, key: self.key, source, tells: self.tells })
            }
        }
    }
}

fn bytes(object: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(object).map_err(|error| error.to_string())
}

/// Whether the answer to a deletion tells that the object is gone: it is a Status, or the object as it ended.
fn is_gone(text: &str) -> bool {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer {
        kind: String,
        metadata: Meta,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Meta {
        finalizers: Vec<String>,
        deletion_grace_period_seconds: i64,
    }
    let answer: Answer = serde_json::from_str(text).unwrap_or_default();
    answer.kind == "Status"
        || (answer.metadata.finalizers.is_empty() && answer.metadata.deletion_grace_period_seconds == 0)
}

// === impl Effect ===

impl Effect {
    /// These writes in order, if there are any.
    pub(crate) fn of(writes: Vec<Write>) -> Self {
        if writes.is_empty() { Self::Done } else { Self::InOrder(writes) }
    }

    /// Does what is wanted.
    pub(crate) async fn carry_out(self, client: Client) -> (Vec<Written>, Option<Failure>) {
        match self {
            Self::Done => (Vec::new(), None),
            Self::Retry(why) => (Vec::new(), Some(Failure::NotYet(why))),
            Self::Task(task) => match task.await {
                Ok(written) => (written, None),
                Err(failure) => (Vec::new(), Some(failure)),
            },
            Self::InOrder(writes) => send_all(&client, writes, 1).await,
            Self::Burst(first, then) => {
                let (mut written, failure) = send_all(&client, first, BURST).await;
                let (more, second) = send_all(&client, then, 1).await;
                written.extend(more);
                (written, failure.or(second))
            }
        }
    }
}

/// Sends writes in batches that grow up to a size, as upstream's slow start does: if the first is refused, so are the
/// others most likely.
async fn send_all(client: &Client, writes: Vec<Write>, at_most: usize) -> (Vec<Written>, Option<Failure>) {
    let mut written = Vec::new();
    let mut writes = writes.into_iter().peekable();
    let mut size = 1;
    while writes.peek().is_some() {
        let batch: Vec<_> = writes.by_ref().take(size).map(|write| write.send(client)).collect();
        let mut failure = None;
        for answer in futures::future::join_all(batch).await {
            match answer {
                Ok(one) => written.push(one),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_some() {
            return (written, failure);
        }
        size = (size * 2).min(at_most);
    }
    (written, None)
}
