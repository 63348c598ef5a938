//! The way from a Berth to the API server. What passes it is known to come from that Berth, so a write by one who does not
//! lead is seen; and it can be closed for the Lease alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use berth_listen::Server;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected};
use hyper::body::Incoming;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Requests of one Berth at a time: its watches and its writes.
const CONNECTIONS: usize = 1024;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Who led at which version of the server, and what was written. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Reigns(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Whom each write of the Lease made the leader, by its version. An empty name: nobody.
    holders: BTreeMap<u64, String>,
    /// Writes that nobody has judged yet.
    writes: Vec<Written>,
}

/// A write that took effect.
struct Written {
    /// The name that the process gives itself in the Lease.
    by: Option<String>,
    what: String,
    version: u64,
}

/// What becomes of a Berth's requests for its Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LeaseWay {
    /// They pass.
    Open,
    /// They fail.
    Closed,
    /// They seem to succeed, but reach nobody: the Berth goes on like one that keeps no fence.
    Pretended,
}

/// The way of one Berth. It is closed for good once this is dropped.
pub(crate) struct Way {
    /// What the Berth is to be started with.
    pub(crate) kubeconfig: PathBuf,
    shared: Arc<Shared>,
    _server: Server,
}

struct Shared {
    client: Client,
    reigns: Reigns,
    lease: AtomicU8,
    /// Who the Berth is, once it has said so.
    identity: Mutex<Option<String>>,
    /// The Lease as the Berth held it last.
    held: Mutex<Option<Value>>,
}

// === impl Reigns ===

impl Reigns {
    /// The version of the last change of the leader.
    fn version(&self) -> u64 {
        self.0.lock().unwrap().holders.last_key_value().map_or(0, |(version, _)| *version)
    }

    fn note_holder(&self, lease: &Value) {
        let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
        if let Some(version) = version_of(lease) {
            self.0.lock().unwrap().holders.insert(version, holder.to_owned());
        }
    }

    fn note_write(&self, by: Option<String>, what: String, version: u64) {
        self.0.lock().unwrap().writes.push(Written { by, what, version });
    }

    /// Writes by those who did not lead as they took effect. Who has given the Lease back may have writes under way, until
    /// another takes it.
    pub(crate) fn judge(&self) -> Vec<String> {
        let mut known = self.0.lock().unwrap();
        let writes = std::mem::take(&mut known.writes);
        let led = |write: &Written| {
            let mut before = known.holders.range(..=write.version).rev().map(|(_, holder)| holder);
            before.find(|holder| !holder.is_empty()).cloned()
        };
        let wrong = writes.iter().filter_map(|write| {
            let leader = led(write);
            let is_right = leader.is_some() && leader == write.by;
            (!is_right).then(|| format!("{:?} does not lead and writes ({}): {leader:?} does", write.by, write.what))
        });
        wrong.collect()
    }
}

fn version_of(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

// === impl Way ===

impl Way {
    /// A way that ends at `client`'s server; its kubeconfig is written to `folder`.
    pub(crate) async fn open(client: Client, reigns: Reigns, folder: &Path) -> Self {
        let lease = AtomicU8::new(LeaseWay::Open as u8);
        let shared = Arc::new(Shared { client, reigns, lease, identity: Mutex::default(), held: Mutex::default() });
        let passes = Arc::clone(&shared);
        let pass = move |request| {
            let shared = Arc::clone(&passes);
            async move { shared.pass(request).await }
        };
        let server = Server::start(([127, 0, 0, 1], 0).into(), CONNECTIONS, pass).await.unwrap();
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "way",
            "clusters": [{"name": "way", "cluster": {"server": format!("http://{}", server.address())}}],
            "contexts": [{"name": "way", "context": {"cluster": "way", "user": "way"}}],
            "users": [{"name": "way", "user": {}}]});
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        Self { kubeconfig, shared, _server: server }
    }

    pub(crate) fn set_lease(&self, lease: LeaseWay) {
        self.shared.lease.store(lease as u8, Ordering::Relaxed);
    }
}

// === impl Shared ===

impl Shared {
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        head.headers.remove(header::HOST);
        let path = head.uri.path().to_owned();
        let is_lease = path.starts_with(LEASE);
        let is_read = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_lease && self.lease.load(Ordering::Relaxed) != LeaseWay::Open as u8 {
            return self.without_lease();
        }
        if is_read {
            return self.send(Request::from_parts(head, Body::empty())).await;
        }
        let Ok(bytes) = body.collect().await.map(Collected::to_bytes) else {
            return refused(StatusCode::BAD_REQUEST, "the request broke off");
        };
        if is_lease && let Some(own) = named_in(&bytes) {
            *self.identity.lock().unwrap() = Some(own);
        }
        let (what, led_from) = (format!("{} {path}", head.method), self.reigns.version());
        let answer = self.send(Request::from_parts(head, Body::from(bytes))).await;
        let (mut head, body) = answer.into_parts();
        let Ok(bytes) = body.collect_bytes().await else {
            return refused(StatusCode::BAD_GATEWAY, "the answer broke off");
        };
        head.headers.remove(header::TRANSFER_ENCODING);
        if head.status.is_success() {
            let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            if is_lease {
                self.reigns.note_holder(&object);
                *self.held.lock().unwrap() = Some(object);
            } else if !is_question(&path) {
                // What changes nothing, or tells no version, is as new as the Lease was when it was sent.
                let version = version_of(&object).unwrap_or(0).max(led_from);
                self.reigns.note_write(self.identity.lock().unwrap().clone(), what, version);
            }
        }
        Response::from_parts(head, Body::from(bytes))
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        match self.client.send(request).await {
            Ok(mut answer) => {
                answer.headers_mut().remove(header::TRANSFER_ENCODING);
                answer
            }
            Err(error) => refused(StatusCode::BAD_GATEWAY, &error.to_string()),
        }
    }

    /// What a Berth is told whose Lease is out of reach.
    fn without_lease(&self) -> Response<Body> {
        let held = self.held.lock().unwrap().clone();
        match held.filter(|_| self.lease.load(Ordering::Relaxed) == LeaseWay::Pretended as u8) {
            Some(held) => Response::new(Body::from(held.to_string().into_bytes())),
            None => refused(StatusCode::GATEWAY_TIMEOUT, "the Lease is out of reach"),
        }
    }
}

/// Who a Lease names as its holder.
fn named_in(lease: &[u8]) -> Option<String> {
    let lease: Value = serde_json::from_slice(lease).ok()?;
    let holder = lease.pointer("/spec/holderIdentity")?.as_str()?;
    (!holder.is_empty()).then(|| holder.to_owned())
}

/// Whether a POST to this path only asks something.
fn is_question(path: &str) -> bool {
    path.starts_with("/apis/authorization.k8s.io/") || path.starts_with("/apis/authentication.k8s.io/")
}

fn refused(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message,
        "reason": "Timeout", "code": code.as_u16()});
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}
