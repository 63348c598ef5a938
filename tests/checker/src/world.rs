//! The cluster as its raw objects say it is.

use std::collections::BTreeMap;
use std::rc::Rc;

use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod as RawPod, PodSpec,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::plan::Plan;
use crate::pool::{Pool, Reservation};
use crate::quantity::{self, Resources};
use crate::requests::{self, HostPort};
use crate::selectors::{Labels, selects};
use crate::violation::Violation;
use crate::workloads::{self, Workload};

/// A pod, running or to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    /// `namespace/name`.
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) meta: Rc<ObjectMeta>,
    pub(crate) labels: Rc<Labels>,
    pub(crate) spec: Rc<PodSpec>,
    pub(crate) requests: Rc<Resources>,
    pub(crate) host_ports: Rc<Vec<HostPort>>,
    /// Pods of one shape are alike in namespace, labels and spec.
    pub(crate) shape: usize,
    pub(crate) node: Option<String>,
    /// The node on which room was made for it.
    pub(crate) nominated: Option<String>,
    /// Claims that a StatefulSet makes for this pod, not in the input: name and spec.
    pub(crate) own_claims: Vec<(String, PersistentVolumeClaimSpec)>,
    pub(crate) workload: Option<usize>,
    /// May be planned or left out: terminating, or a DaemonSet's own.
    pub(crate) is_optional: bool,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) name: String,
    namespace: String,
    selector: Option<LabelSelector>,
    /// How many more pods it lets go now.
    pub(crate) allowed: i64,
    /// Pods whose going is counted already.
    disrupted: Vec<String>,
}

impl Budget {
    /// Whether a pod's eviction counts against it.
    pub(crate) fn protects(&self, pod: &Pod) -> bool {
        let is_counted = self.disrupted.iter().any(|name| pod.name == format!("{}/{name}", self.namespace));
        self.namespace == pod.namespace && !is_counted && selects(self.selector.as_ref(), &pod.labels)
    }
}

impl Pod {
    /// Whether a controller makes another pod, for any node, in place of this one if it goes.
    pub(crate) fn is_replaced(&self) -> bool {
        let is_static = self.meta.annotations.as_ref().is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
        let controller = self.meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        !is_static && controller.is_some_and(|owner| owner.kind != "DaemonSet" && owner.kind != "Node")
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) catalogue: Catalogue,
    pub(crate) pods: Vec<Pod>,
    pub(crate) pod_index: BTreeMap<String, usize>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) daemons: Vec<Pod>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) reservations: BTreeMap<String, Reservation>,
    pub(crate) volume_claims: BTreeMap<String, PersistentVolumeClaim>,
    pub(crate) volumes: BTreeMap<String, PersistentVolume>,
    pub(crate) storage_classes: BTreeMap<String, StorageClass>,
    pub(crate) csi_nodes: BTreeMap<String, CSINode>,
    pub(crate) budgets: Vec<Budget>,
    /// NodeResourceTopologies by node, as they are written.
    pub(crate) topologies: BTreeMap<String, Value>,
    pub(crate) namespaces: BTreeMap<String, Labels>,
    pub(crate) priorities: BTreeMap<String, i32>,
    pub(crate) default_priority: Option<i32>,
    only_the_open_pool: bool,
    shapes: BTreeMap<String, usize>,
    /// What of the input could not be read.
    pub(crate) unread: Vec<Violation>,
}

fn name_of(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

pub(crate) fn namespace_of(meta: &ObjectMeta) -> String {
    meta.namespace.clone().unwrap_or_else(|| "default".to_owned())
}

impl World {
    pub(crate) fn read(objects: &[Value], catalogue: &Value) -> Self {
        let mut world = Self { catalogue: Catalogue::read(catalogue), ..Self::default() };
        let mut owners = Vec::new();
        for object in objects {
            world.read_object(object, &mut owners);
        }
        workloads::expand(&mut world, &owners);
        workloads::add_untold_daemons(&mut world, &owners);
        if world.pools.is_empty() {
            world.only_the_open_pool = true;
            world.pools.insert("default".to_owned(), Pool::open());
        }
        world
    }

    /// Adds the pods of DaemonSets that are not there yet and that the plan tells of, as their node has no room: each is named
    /// after its DaemonSet and its node. Those that are planned elsewhere break a rule.
    pub(crate) fn add_daemons_of(&mut self, plan: &Plan) -> Vec<Violation> {
        let mut found = Vec::new();
        let on_claims = plan.node_claims.iter().flat_map(|c| c.pods.iter().map(move |p| (Some(&c.name), p)));
        let on_nodes = plan.nodes.iter().flat_map(|n| n.pods.iter().map(move |p| (Some(&n.name), p)));
        let refused = plan.unschedulable.iter().map(|refusal| (None, &refusal.object));
        for (place, name) in on_claims.chain(on_nodes).chain(refused) {
            if self.pod_index.contains_key(name) {
                continue;
            }
            let of_name = |daemon: &&Pod| name.strip_prefix(&daemon.name).is_some_and(|rest| rest.starts_with('-'));
            let own = self.daemons.iter().filter(of_name).find_map(|daemon| {
                let node = name.get(daemon.name.len() + 1..).filter(|node| self.nodes.contains_key(*node))?;
                Some((daemon.clone(), node.to_owned()))
            });
            let Some((daemon, node)) = own else { continue };
            if place.is_some_and(|place| *place != node) {
                let detail = format!("placed on {}, and runs on {node} alone", place.map_or("", String::as_str));
                found.push(Violation::new("coverage", name, detail));
            }
            self.pod_index.insert(name.clone(), self.pods.len());
            self.pods.push(Pod { name: name.clone(), is_optional: true, ..daemon });
        }
        found
    }

    fn typed<T: for<'de> Deserialize<'de>>(&mut self, object: &Value) -> Option<T> {
        match T::deserialize(object) {
            Ok(value) => Some(value),
            Err(error) => {
                let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                self.unread.push(Violation::new("input", name, format!("cannot be read: {error}")));
                None
            }
        }
    }

    fn read_object(&mut self, object: &Value, owners: &mut Vec<Value>) {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let plain = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind {
            "List" => {
                for item in object.get("items").and_then(Value::as_array).into_iter().flatten() {
                    self.read_object(item, owners);
                }
            }
            "Pod" => {
                if let Some(pod) = self.typed::<RawPod>(object) {
                    self.add_raw_pod(pod);
                }
            }
            "Node" => {
                if let Some(node) = self.typed::<Node>(object) {
                    self.nodes.insert(plain, node);
                }
            }
            "NodePool" => {
                self.pools.insert(plain, Pool::read(object));
            }
            "Reservation" => {
                self.reservations.insert(plain, Reservation::read(object));
            }
            "PersistentVolumeClaim" => {
                if let Some(claim) = self.typed::<PersistentVolumeClaim>(object) {
                    let name = format!("{}/{}", namespace_of(&claim.metadata), name_of(&claim.metadata));
                    self.volume_claims.insert(name, claim);
                }
            }
            "PersistentVolume" => {
                if let Some(volume) = self.typed::<PersistentVolume>(object) {
                    self.volumes.insert(plain, volume);
                }
            }
            "StorageClass" => {
                if let Some(class) = self.typed::<StorageClass>(object) {
                    self.storage_classes.insert(plain, class);
                }
            }
            "CSINode" => {
                if let Some(node) = self.typed::<CSINode>(object) {
                    self.csi_nodes.insert(plain, node);
                }
            }
            "Namespace" => {
                if let Some(namespace) = self.typed::<Namespace>(object) {
                    self.namespaces.insert(plain, namespace.metadata.labels.unwrap_or_default());
                }
            }
            "NodeResourceTopology" => {
                self.topologies.insert(plain, object.clone());
            }
            "PodDisruptionBudget" => {
                let at = |path: &str| object.pointer(path);
                let disrupted = at("/status/disruptedPods").and_then(Value::as_object);
                self.budgets.push(Budget {
                    name: plain,
                    namespace: at("/metadata/namespace").and_then(Value::as_str).unwrap_or("default").to_owned(),
                    selector: at("/spec/selector").and_then(|selector| LabelSelector::deserialize(selector).ok()),
                    allowed: at("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0),
                    disrupted: disrupted.map(|pods| pods.keys().cloned().collect()).unwrap_or_default(),
                });
            }
            "PriorityClass" => {
                let value = object.get("value").and_then(Value::as_i64).and_then(|v| i32::try_from(v).ok());
                if object.get("globalDefault").and_then(Value::as_bool) == Some(true) {
                    self.default_priority = value;
                }
                self.priorities.insert(plain, value.unwrap_or_default());
            }
            "Deployment" | "StatefulSet" | "ReplicaSet" | "Job" | "CronJob" | "DaemonSet" => {
                owners.push(object.clone());
            }
            _ => {}
        }
    }

    /// A pod in the world's own form; pods alike in namespace, labels and spec share a shape.
    pub(crate) fn make_pod(&mut self, meta: ObjectMeta, spec: PodSpec) -> Pod {
        let namespace = namespace_of(&meta);
        let labels = meta.labels.clone().unwrap_or_default();
        let written = serde_json::to_string(&(&namespace, &labels, &spec)).unwrap_or_default();
        let next = self.shapes.len();
        let shape = *self.shapes.entry(written).or_insert(next);
        Pod {
            name: format!("{namespace}/{}", name_of(&meta)),
            namespace,
            labels: Rc::new(labels),
            requests: Rc::new(requests::of_pod(&spec)),
            host_ports: Rc::new(requests::host_ports(&spec)),
            node: spec.node_name.clone().filter(|n| !n.is_empty()),
            meta: Rc::new(meta),
            spec: Rc::new(spec),
            shape,
            nominated: None,
            own_claims: Vec::new(),
            workload: None,
            is_optional: false,
        }
    }

    pub(crate) fn push_pod(&mut self, pod: Pod) {
        self.pod_index.insert(pod.name.clone(), self.pods.len());
        self.pods.push(pod);
    }

    fn add_raw_pod(&mut self, raw: RawPod) {
        let nominated = raw.status.as_ref().and_then(|s| s.nominated_node_name.clone());
        let phase = raw.status.and_then(|s| s.phase).unwrap_or_default();
        if phase == "Succeeded" || phase == "Failed" {
            return;
        }
        let is_optional = raw.metadata.deletion_timestamp.is_some()
            || raw.metadata.owner_references.iter().flatten().any(|o| o.kind == "DaemonSet");
        let mut pod = self.make_pod(raw.metadata, raw.spec.unwrap_or_default());
        pod.is_optional = is_optional;
        pod.nominated = nominated;
        self.push_pod(pod);
    }

    /// The NodePool of a claim; without any NodePool in the input every name is the open pool's.
    pub(crate) fn pool(&self, name: &str) -> Option<Pool> {
        if self.only_the_open_pool {
            return Some(Pool::open());
        }
        self.pools.get(name).cloned()
    }

    /// Labels of a namespace, the one that every namespace has of its own name included.
    pub(crate) fn namespace_labels(&self, name: &str) -> Labels {
        let mut labels = self.namespaces.get(name).cloned().unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        labels
    }

    /// The pod's priority: its own, else its class's, else the default class's, else 0.
    pub(crate) fn priority(&self, pod: &Pod) -> i32 {
        let class = pod.spec.priority_class_name.as_ref().and_then(|name| self.priorities.get(name));
        let default = || self.default_priority.unwrap_or_default();
        pod.spec.priority.or(class.copied()).unwrap_or_else(default)
    }

    /// The node's allocatable resources.
    pub(crate) fn allocatable(node: &Node) -> Resources {
        quantity::from_list(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))
    }
}
