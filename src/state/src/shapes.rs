//! What many pods or nodes have the same, kept once: found by a keyed hash and compared by value. What nobody has any more is let go
//! a little at a time, as others come.

use std::sync::Arc;

use berth_api::labels;
use berth_model::Keyed;
use k8s_openapi::api::core::v1::{
    Container, ContainerImage, ContainerStatus, Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodCondition, PodSpec,
    PodStatus, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as MetaTime};

use crate::node::NodeRecord;
use crate::packed::{Moment, Uid, Version};
use crate::pod::{More, PodRecord};
use crate::table::Table;

/// What pods share, and nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    metadata: Table<ObjectMeta>,
    specs: Table<PodSpec>,
    statuses: Table<PodStatus>,
    node_specs: Table<NodeSpec>,
    node_statuses: Table<NodeStatus>,
    images: Table<ContainerImage>,
    texts: Table<str>,
}

// === impl Shapes ===

impl Shapes {
    /// None yet; found by hashes with this key.
    pub(crate) fn new(keyed: &Keyed) -> Self {
        Shapes {
            metadata: Table::new(keyed),
            specs: Table::new(keyed),
            statuses: Table::new(keyed),
            node_specs: Table::new(keyed),
            node_statuses: Table::new(keyed),
            images: Table::new(keyed),
            texts: Table::new(keyed),
        }
    }

    /// A pod as a record.
    pub(crate) fn pod(&mut self, pod: Pod) -> PodRecord {
        self.pod_like(pod, None, None)
    }

    /// The same, where an earlier version of it is known: most of it is as it was. `name` is its name.
    pub(crate) fn pod_like(&mut self, pod: Pod, known: Option<&PodRecord>, name: Option<&Arc<str>>) -> PodRecord {
        let Pod { mut metadata, spec, status } = pod;
        let own = metadata.name.take().unwrap_or_default();
        let name = known.map(|known| &known.name).or(name).filter(|name| ***name == *own);
        let name = name.cloned().unwrap_or_else(|| own.into());
        let uid = metadata.uid.take().map(|uid| Uid::of(&uid));
        let version = metadata.resource_version.take().map(|version| Version::of(&version));
        let mut more = More {
            deletion: metadata.deletion_timestamp.take(),
            grace: metadata.deletion_grace_period_seconds.take(),
            ..More::default()
        };
        let (created, other) = packed(metadata.creation_timestamp.take());
        more.created = other;
        metadata.generation = None;
        metadata.managed_fields = None;
        metadata.self_link = None;
        let node = spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.map(|node| match known.and_then(|known| known.node.as_ref()) {
            Some(known) if **known == *node => Arc::clone(known),
            _ => self.texts.text(node),
        });
        let is_bound = node.as_ref().is_some_and(|node| !node.is_empty());
        if is_bound && let Some(labels) = &mut metadata.labels {
            labels.retain(|key, _| !labels::OF_NODE.contains(&key.as_str()));
        }
        let status = status.map(|status| trimmed_status(status, is_bound));
        let (status, started) = match status {
            Some(mut status) => {
                let started = status.start_time.take();
                (Some(self.statuses.like(known.and_then(|known| known.status.as_ref()), status)), started)
            }
            None => (None, None),
        };
        let (started, other) = packed(started);
        more.started = other;
        let spec = spec.map(|spec| self.specs.like(known.and_then(|known| known.spec.as_ref()), trimmed_spec(spec)));
        let metadata = self.metadata.like(known.map(|known| &known.metadata), metadata);
        let more = (more != More::default()).then(|| Box::new(more));
        PodRecord { name, metadata, spec, status, node, uid, version, created, started, more }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let Shapes { metadata, specs, statuses, texts, .. } = self;
        metadata.len() + specs.len() + statuses.len() + texts.len()
    }

    /// A node as a record, where an earlier version of it may be known. `name` is its name.
    pub(crate) fn node(&mut self, node: Node, known: Option<&NodeRecord>, name: Option<&Arc<str>>) -> NodeRecord {
        let Node { mut metadata, spec, status } = node;
        let own = metadata.name.take().unwrap_or_default();
        let name = known.map(|known| &known.name).or(name).filter(|name| ***name == *own);
        let name = name.cloned().unwrap_or_else(|| own.into());
        let uid = metadata.uid.take().map(|uid| Uid::of(&uid));
        let version = metadata.resource_version.take().map(|version| Version::of(&version));
        let labels = metadata.labels.take();
        let mut more = More {
            deletion: metadata.deletion_timestamp.take(),
            grace: metadata.deletion_grace_period_seconds.take(),
            ..More::default()
        };
        let (created, other) = packed(metadata.creation_timestamp.take());
        more.created = other;
        metadata.generation = None;
        metadata.managed_fields = None;
        metadata.self_link = None;
        let provider_id = spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).map(Box::from);
        let spec = spec.map(|spec| {
            let NodeSpec { taints, unschedulable, .. } = spec;
            let spec = NodeSpec { taints, unschedulable, ..NodeSpec::default() };
            self.node_specs.like(known.and_then(|known| known.spec.as_ref()), spec)
        });
        let (status, images) = match status {
            Some(NodeStatus { allocatable, capacity, conditions, images, .. }) => {
                let conditions = conditions.map(|all| all.into_iter().map(trimmed_node_condition).collect());
                let status = NodeStatus { allocatable, capacity, conditions, ..NodeStatus::default() };
                let status = self.node_statuses.like(known.and_then(|known| known.status.as_ref()), status);
                (Some(status), images.map(|images| self.images_like(known, images)))
            }
            None => (None, None),
        };
        let metadata = self.metadata.like(known.map(|known| &known.metadata), metadata);
        let more = (more != More::default()).then(|| Box::new(more));
        NodeRecord { name, labels, metadata, spec, provider_id, status, images, uid, version, created, more }
    }

    fn images_like(&mut self, known: Option<&NodeRecord>, images: Vec<ContainerImage>) -> Box<[Arc<ContainerImage>]> {
        let known = known.and_then(|known| known.images.as_deref()).unwrap_or_default();
        images.into_iter().enumerate().map(|(at, image)| self.images.like(known.get(at), image)).collect()
    }

    /// A text that others have, too: the name of a node or a namespace.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.text(text)
    }
}

impl From<&Pod> for PodRecord {
    fn from(pod: &Pod) -> Self {
        Shapes::default().pod(pod.clone())
    }
}

impl From<&Node> for NodeRecord {
    fn from(node: &Node) -> Self {
        Shapes::default().node(node.clone(), None, None)
    }
}

fn packed(time: Option<MetaTime>) -> (Moment, Option<MetaTime>) {
    match time.as_ref().map(|time| Moment::of(time.0)) {
        Some(Some(moment)) => (moment, None),
        _ => (Moment::NONE, time),
    }
}

/// What is read of a spec, the node aside.
fn trimmed_spec(spec: PodSpec) -> PodSpec {
    let trimmed = |all: Vec<Container>| all.into_iter().map(trimmed_container).collect();
    let volumes: Vec<Volume> = spec.volumes.into_iter().flatten().filter(is_read).collect();
    PodSpec {
        affinity: spec.affinity,
        containers: trimmed(spec.containers),
        host_network: spec.host_network,
        init_containers: spec.init_containers.map(trimmed),
        node_selector: spec.node_selector,
        overhead: spec.overhead,
        preemption_policy: spec.preemption_policy,
        priority: spec.priority,
        priority_class_name: spec.priority_class_name,
        resource_claims: spec.resource_claims,
        resources: spec.resources,
        restart_policy: spec.restart_policy,
        runtime_class_name: spec.runtime_class_name,
        scheduler_name: spec.scheduler_name,
        scheduling_gates: spec.scheduling_gates,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        tolerations: spec.tolerations,
        topology_spread_constraints: spec.topology_spread_constraints,
        volumes: (!volumes.is_empty()).then_some(volumes),
        ..PodSpec::default()
    }
}

fn trimmed_container(container: Container) -> Container {
    Container {
        name: container.name,
        image: container.image,
        ports: container.ports,
        resources: container.resources,
        restart_policy: container.restart_policy,
        ..Container::default()
    }
}

/// Whether a volume is a claim or a disk. Others, such as the token that each pod has under a name of its own, are on any
/// node.
fn is_read(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some()
        || volume.ephemeral.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.iscsi.is_some()
        || volume.rbd.is_some()
}

/// What is read of a status. Of conditions of a pod on a node nobody reads when they came to be, nor their messages: with these
/// each pod would have a status of its own.
fn trimmed_status(status: PodStatus, is_bound: bool) -> PodStatus {
    let conditions =
        status.conditions.map(|all| if is_bound { all.into_iter().map(trimmed_condition).collect() } else { all });
    PodStatus {
        phase: status.phase,
        nominated_node_name: status.nominated_node_name,
        start_time: status.start_time,
        resize: status.resize,
        conditions,
        container_statuses: trimmed_statuses(status.container_statuses),
        init_container_statuses: trimmed_statuses(status.init_container_statuses),
        ..PodStatus::default()
    }
}

fn trimmed_node_condition(condition: NodeCondition) -> NodeCondition {
    let NodeCondition { type_, status, reason, .. } = condition;
    NodeCondition { type_, status, reason, ..NodeCondition::default() }
}

fn trimmed_condition(condition: PodCondition) -> PodCondition {
    let PodCondition { type_, status, reason, .. } = condition;
    PodCondition { type_, status, reason, ..PodCondition::default() }
}

/// What containers have been given.
fn trimmed_statuses(statuses: Option<Vec<ContainerStatus>>) -> Option<Vec<ContainerStatus>> {
    let given = statuses?.into_iter().filter(|of| of.allocated_resources.is_some() || of.resources.is_some());
    let given = given.map(|of| ContainerStatus {
        name: of.name,
        allocated_resources: of.allocated_resources,
        resources: of.resources,
        ..ContainerStatus::default()
    });
    let given: Vec<ContainerStatus> = given.collect();
    (!given.is_empty()).then_some(given)
}
