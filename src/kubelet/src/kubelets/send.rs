//! What the stand-ins write: Nodes, Leases, statuses, last deletions and events.

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client};
use serde_json::json;

use super::{Loop, RETRY, Timer};
use crate::clock::later;
use crate::node::{Hosted, LEASES, Registration};
use crate::pod::Record;
use crate::status;
use crate::writes::{Outcome, WriteTarget, outcome};

/// As every kubelet: nothing is forced.
const PARAMS: PatchParams = PatchParams { dry_run: false, force: false, field_manager: None, field_validation: None };

/// Sends a write whose answer nobody reads: to make an object of it would cost as much as the write.
fn unread(
    client: Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        match request {
            Ok(request) => outcome(client.request_text(request).await, |_| None),
            Err(_) => Outcome::Refused,
        }
    })
}

impl Loop {
    pub(super) fn begin_writes(&mut self) {
        while let Some(key) = self.writes.next(self.config.writes) {
            match &key {
                WriteTarget::Node(name) => self.write_node(&name.clone()),
                WriteTarget::Lease(name) => self.write_lease(&name.clone()),
                WriteTarget::Pod(uid) => self.write_pod(&uid.clone()),
                WriteTarget::Event(_) => {}
            }
        }
    }

    fn write_node(&mut self, name: &str) {
        let now = self.clock.now();
        let Some(node) = self.nodes.get_mut(name) else { return };
        let api = Api::<Node>::all(self.client.clone());
        let name = name.to_owned();
        let key = WriteTarget::Node(name.clone());
        let uid = |node: &Node| node.metadata.uid.clone();
        if node.registration == Registration::Wanted {
            let (object, labels) = (node.node(now), node.reconciled());
            self.writes.begin(
                key,
                Box::pin(async move {
                    match api.create(&PostParams::default(), &object).await {
                        // A kubelet that starts anew finds its Node.
                        Err(kube::Error::Api(status)) if status.code == 409 => {
                            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await;
                            // Between the two it may have gone: then it is created next time.
                            match outcome(patched, uid) {
                                Outcome::Gone => Outcome::Again,
                                other => other,
                            }
                        }
                        answer => outcome(answer, uid),
                    }
                }),
            );
        } else if std::mem::take(&mut node.is_dirty) {
            let patch = Patch::Strategic(json!({"status": node.status(now)}));
            let request = Request::new(api.resource_url()).patch_subresource("status", &name, &PARAMS, &patch);
            self.writes.begin(key, unread(self.client.clone(), request));
        }
    }

    fn write_lease(&mut self, name: &str) {
        let now = self.clock.now();
        let Some(node) = self.nodes.get_mut(name) else { return };
        if !std::mem::take(&mut node.lease_due) {
            return;
        }
        let api = Api::<Lease>::namespaced(self.client.clone(), LEASES);
        let name = name.to_owned();
        let key = WriteTarget::Lease(name.clone());
        let lease = node.lease(&self.config, now);
        if node.registration == Registration::Leased {
            let client = self.client.clone();
            self.writes.begin(
                key,
                Box::pin(async move {
                    let renewal = Patch::Merge(Hosted::renewal(now));
                    let request = Request::new(api.resource_url()).patch(&name, &PARAMS, &renewal);
                    match unread(client, request).await {
                        // Someone deleted it: kubelet makes another.
                        Outcome::Gone => outcome(api.create(&PostParams::default(), &lease).await, |_| None),
                        other => other,
                    }
                }),
            );
        } else {
            self.writes.begin(
                key,
                Box::pin(async move {
                    match api.create(&PostParams::default(), &lease).await {
                        Err(kube::Error::Api(status)) if status.code == 409 => {
                            let renewal = Patch::Merge(Hosted::renewal(now));
                            outcome(api.patch(&name, &PatchParams::default(), &renewal).await, |_| None)
                        }
                        answer => outcome(answer, |_| None),
                    }
                }),
            );
        }
    }

    fn write_pod(&mut self, uid: &str) {
        let now = self.clock.now();
        let Some(record) = self.pods.get_mut(uid) else { return };
        let Some(node) = self.nodes.get(&record.node) else { return };
        let api = Api::<Pod>::namespaced(self.client.clone(), &record.namespace);
        let (name, key) = (record.name.clone(), WriteTarget::Pod(uid.to_owned()));
        if std::mem::take(&mut record.is_dirty) {
            let status = status::patch_of_pod(record, &node.address(), now);
            let patch = Patch::Strategic(json!({"metadata": {"uid": record.uid}, "status": status}));
            let request = Request::new(api.resource_url()).patch_subresource("status", &name, &PARAMS, &patch);
            self.writes.begin(key, unread(self.client.clone(), request));
        } else if record.is_stopped && !std::mem::replace(&mut record.is_deleted, true) {
            let preconditions = Preconditions { uid: Some(record.uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }.grace_period(0);
            self.writes.begin(key, Box::pin(async move { outcome(api.delete(&name, &params).await, |_| None) }));
        }
    }

    pub(super) fn written(&mut self, key: &WriteTarget, result: Outcome) {
        let retry = later(self.clock.now(), RETRY);
        match (key, result) {
            (WriteTarget::Node(name), Outcome::Done(uid)) => self.registered(name, uid),
            (WriteTarget::Node(name), Outcome::Again) => {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.is_dirty = true;
                    self.at(retry, Timer::Retry(key.clone()));
                }
            }
            (WriteTarget::Lease(name), Outcome::Done(_)) => {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.registration = Registration::Leased;
                }
            }
            (WriteTarget::Pod(uid), Outcome::Done(_)) => {
                let Some(record) = self.pods.get(uid) else { return };
                // The status is written: what is left of a stopped pod is to delete it.
                if record.is_stopped && !record.is_deleted {
                    self.writes.want(key.clone());
                }
            }
            (WriteTarget::Pod(uid), Outcome::Again) => {
                if let Some(record) = self.pods.get_mut(uid) {
                    record.is_dirty |= !record.is_deleted;
                    record.is_deleted = false;
                    self.at(retry, Timer::Retry(key.clone()));
                }
            }
            // A renewal is tried again when the next one is due; nothing waits for an event.
            (WriteTarget::Lease(_) | WriteTarget::Event(_), _) | (_, Outcome::Gone | Outcome::Refused) => {}
        }
    }

    /// Writes an event about a pod, `Normal` or `Warning`.
    pub(super) fn tell(&mut self, record: &Record, type_: &str, reason: &str, message: String) {
        self.count += 1;
        let now = self.clock.now();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", record.name, self.count)),
                namespace: Some(record.namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(record.name.clone()),
                namespace: Some(record.namespace.clone()),
                uid: Some(record.uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some(type_.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            source: Some(EventSource { component: Some("kubelet".to_owned()), host: Some(record.node.clone()) }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let api = Api::<Event>::namespaced(self.client.clone(), &record.namespace);
        let key = WriteTarget::Event(self.count);
        self.writes
            .begin(key, Box::pin(async move { outcome(api.create(&PostParams::default(), &event).await, |_| None) }));
    }
}
