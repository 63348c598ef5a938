//! A Kubernetes API server in memory.
//!
//! It decides what the real kube-apiserver decides about requests: who may write over whom, what a patch leaves, which
//! fields an object gets, what is invalid and in which words, which events a watch sees. It knows every built-in kind of
//! the groups that a scheduler or an autoscaler touches, from the OpenAPI documents of one version of Kubernetes, and custom
//! resources from the moment their definition is created. It never reads a clock, a file or randomness of its own: a start,
//! a seed and tokio's time decide every byte of an answer.
//!
//! [`ApiServer`] is a `tower::Service`, which `kube::Client::new` takes as it is:
//!
//! ```
//! # tokio_test();
//! # fn tokio_test() { tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use berth_apiserver::{ApiServer, Config};
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! let server = ApiServer::new(Config::default());
//! let client = kube::Client::new(server, "default");
//! let namespaces: kube::Api<Namespace> = kube::Api::all(client);
//! assert_eq!(namespaces.list(&Default::default()).await.unwrap().items.len(), 4);
//! # }) }
//! ```
//!
//! With the feature `listener`, the module `listener` serves it over HTTPS on loopback, for kubectl and others.
//!
//! # Deliberately different from kube-apiserver
//!
//! `tests/differential` plays the same requests to this server and to the real one, and compares codes, bodies, warnings and
//! watches, of scenes and of random sequences; `tests/kubectl` does so with scripts of stock kubectl. README.md has the figures,
//! which the tests hold. What differs is listed here:
//!
//! - Answers are JSON or YAML, and bodies are protobuf, too; CBOR is answered 415 or 406. What an `Accept` header could have
//!   is said without protobuf and without the forms of watches.
//! - Who owned a field of a HorizontalPodAutoscaler in one version still owns it after a write in the other.
//! - Bodies that are no JSON or no YAML, rules that are no CEL, and continue tokens that are none are refused with the same
//!   code, in the words of the parsers that are used here. Answers in YAML quote other texts than Go's printer.
//! - An apply that is refused for its fields names all of them, elsewhere one or two by chance.
//! - In bodies of YAML `yEs` is `true` as `yes` is, and a key that is such a word stays as it is written.
//! - Messages that print a whole object print it as JSON and not as Go's structs, and without a comparison of two.
//! - The texts below the heads of tables are those of Name and Age alone, and rows of DaemonSets show their annotations.
//! - A pod of a RuntimeClass that is not there is let in, and so is an overhead without a class: nothing is run here.
//! - Lists of resources name no hash of a storage version, and no subresource that needs a kubelet.
//! - The published schemas do not tell the values that a text may have.
//! - A custom resource of another kind is refused under the kind that was asked for, its rules unchecked.
//! - Everyone may do everything unless [`Config::authorization`] says otherwise. With RBAC, escalation by roles is not
//!   checked, and the ClusterRoles of the control plane's own parts are not there. There is no audit, no priority and
//!   fairness.
//! - Webhook configurations and admission policies are kept and not asked, which a warning says at every write of one, and
//!   their CEL is not checked. There is no conversion webhook: versions of a custom resource differ in their `apiVersion`
//!   alone. Pod security and the certificate plugins do not exist.
//! - Tokens of ServiceAccounts are signed by a key that only this server has (HS256), and nothing publishes it. Pods get none.
//! - Subresources that need a kubelet or a cloud (log, exec, attach, portforward, proxy) are not served. Those of
//!   pods are answered 500 with a message that says so.
//! - `resourceVersion` counts the writes of the whole server from 1; a continue token shows the state of its version for as
//!   long as the history of the resource is kept ([`Config::history`] changes), not for five minutes.
//! - New nodes are not tainted, and volumes and claims get no protection finalizer, unless [`Admission`] says so: without
//!   controllers (those of berth-controller-manager, a client as any other) nobody would undo that. There is no
//!   ServiceAccount in a namespace without them, and no root certificate.
//! - Quota is counted when something is admitted, under a lock, so it is exact whatever its status says.
//! - A CustomResourceDefinition is established by the request that creates it, and the request that deletes it deletes its
//!   objects, too. It goes with the last of them, which finalizers may hold.
//! - Conversion webhooks are refused with the definition that names one. Formats of ISBNs are not checked.
//! - A rule that is evaluated pays for the lists that it joins, and texts are counted in bytes: it can run out of its budget
//!   a little sooner.
//! - OpenAPI v2 is served without paths and without custom resources.
//! - APIServices are kept and not acted on: there is no aggregation. HorizontalPodAutoscalers of `autoscaling/v1` keep what
//!   v1 has no field for in the annotations of the real server, in the form of v2.
//!
//! # Not there yet
//!
//! - ResourceClaims and the other kinds of `resource.k8s.io`, Ingress, NetworkPolicy, HorizontalPodAutoscaler and
//!   EndpointSlice are checked by their schema alone.
//! - Pods: resize and ephemeral containers are taken as plain updates; security contexts and volume sources are checked by
//!   their schema alone.

mod admission;
mod apply;
mod cel;
mod clock;
mod convert;
mod crd;
mod defaults;
mod discovery;
mod expiry;
mod fault;
mod impersonation;
mod latest;
#[cfg(feature = "listener")]
pub mod listener;
mod meta;
mod observe;
mod patch;
mod rbac;
mod reply;
mod request;
mod resource;
mod schema;
mod selector;
mod server;
mod service;
mod snapshot;
mod status;
mod store;
mod table;
#[cfg(test)]
mod testing;
mod tokens;
mod validation;
mod verbs;
mod watch;

pub use clock::Clock;
pub use fault::{FaultRates, Faults, Faulty, Gone};
pub use observe::{RequestLine, RequestLog};
pub use reply::Body;
pub use selector::{FieldSelector, LabelSelector};
pub use server::{Admission, ApiServer, Authorization, Config, User};
pub use snapshot::RestoreError;
pub use status::{ApiError, Cause};
