//! Stand-in kubelets: nodes that register, admit pods and run them through their phases, thousands in one task.
//!
//! A stand-in does what a cluster sees of a kubelet: it registers its Node, says that it is ready, renews its Lease,
//! admits or rejects the pods that are bound to it, and moves them from Pending to Running to their end, deletions with
//! their grace period included. It runs nothing. It speaks to an API server through [`kube`] alone and knows no cloud:
//! whoever owns machines tells [`Kubelets`] which have booted and which have lost their power. Its time is tokio's, so
//! that a test can pause it; its work is by event, not by node or pod.
//!
//! What a pod does is said by its annotations: see [`annotation`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
//! use k8s_openapi::api::core::v1::Node;
//!
//! let server = berth_apiserver::ApiServer::new(berth_apiserver::Config::default());
//! let client = kube::Client::new(server, "default");
//! let kubelets = Kubelets::start(client.clone(), KubeletConfig::default());
//! kubelets.join(NodeSpec { name: "a".into(), ..NodeSpec::default() });
//! tokio::time::sleep(std::time::Duration::from_secs(5)).await;
//! let node = kube::Api::<Node>::all(client).get("a").await.unwrap();
//! let is_ready = node.status.unwrap().conditions.unwrap().iter().any(|c| c.type_ == "Ready" && c.status == "True");
//! assert!(is_ready);
//! # });
//! ```

pub mod annotation;
mod clock;
mod kubelets;
mod node;
mod pod;
mod requests;
mod status;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// How the stand-ins behave. Durations are of tokio's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletConfig {
    /// What the clock shows at the start: the same as the API server's.
    pub epoch: Timestamp,
    /// How long a node takes from its registration until it is ready.
    pub ready_delay: Duration,
    /// How often a Lease is renewed, as kubelet's default; it lasts four times as long.
    pub lease_renewal: Duration,
    /// How often a node reports its status although nothing changed, as kubelet's default.
    pub status_report: Duration,
    /// How long a pod takes from its admission until its containers run.
    pub start_delay: Duration,
    /// Whether it is told that containers are being created, before they run.
    pub tells_starting: bool,
    /// How long the containers of a deleted pod take to stop; at most its grace period.
    pub stop_delay: Duration,
    /// How long a pod of a Job runs that does not say so itself.
    pub job_duration: Duration,
    /// The most writes at a time.
    pub writes: usize,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        Self {
            epoch: Timestamp::UNIX_EPOCH,
            ready_delay: Duration::from_secs(1),
            lease_renewal: Duration::from_secs(10),
            status_report: Duration::from_secs(300),
            start_delay: Duration::from_secs(1),
            tells_starting: true,
            stop_delay: Duration::from_secs(1),
            job_duration: Duration::from_secs(10),
            writes: 64,
        }
    }
}

/// A node as its kubelet registers it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeSpec {
    /// The name of the Node.
    pub name: String,
    /// The value of `spec.providerID`; none where it is empty.
    pub provider_id: String,
    /// Its labels; the host name is added.
    pub labels: BTreeMap<String, String>,
    /// Its taints, startup taints included.
    pub taints: Vec<Taint>,
    /// What it has in all.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods may use of it. Resources that it does not name are unlimited on a node that names none, else absent.
    pub allocatable: BTreeMap<String, Quantity>,
}

impl From<Node> for NodeSpec {
    /// As a Node that somebody else made describes itself; where it names no capacity, that is what is allocatable.
    fn from(node: Node) -> Self {
        let (name, labels) = (node.name_any(), node.labels().clone());
        let (spec, status) = (node.spec.unwrap_or_default(), node.status.unwrap_or_default());
        let allocatable = status.allocatable.unwrap_or_default();
        Self {
            name,
            provider_id: spec.provider_id.unwrap_or_default(),
            labels,
            taints: spec.taints.unwrap_or_default(),
            capacity: status.capacity.unwrap_or_else(|| allocatable.clone()),
            allocatable,
        }
    }
}

#[derive(Debug)]
enum Command {
    Join(Box<NodeSpec>),
    PowerOff(String),
    Ready(String, bool),
}

/// The kubelets of a cluster. They end when this is dropped.
#[derive(Debug)]
pub struct Kubelets {
    commands: UnboundedSender<Command>,
    task: JoinHandle<()>,
}

// === impl Kubelets ===

impl Kubelets {
    /// Starts with no node, in a task of its own.
    pub fn start(client: Client, config: KubeletConfig) -> Self {
        let (commands, receiver) = unbounded_channel();
        let task = tokio::spawn(kubelets::Loop::new(client, config).run(receiver));
        Self { commands, task }
    }

    /// A machine has booted: its kubelet registers, or takes up its work where a Node of that name is there already.
    pub fn join(&self, node: NodeSpec) {
        self.send(Command::Join(Box::new(node)));
    }

    /// A machine has lost its power: its kubelet says nothing any more. The Node object stays for others to remove.
    pub fn power_off(&self, node: &str) {
        self.send(Command::PowerOff(node.to_owned()));
    }

    /// Says whether a node is ready; one that is not runs on and admits nothing.
    pub fn set_ready(&self, node: &str, is_ready: bool) {
        self.send(Command::Ready(node.to_owned(), is_ready));
    }

    fn send(&self, command: Command) {
        // The task ends only with this handle.
        drop(self.commands.send(command));
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}
