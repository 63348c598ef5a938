//! What controllers keep of the objects that they watch: whole objects of most kinds, and lean records of pods and Leases,
//! of which there are many.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_surplus::Standing;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaimTemplate, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

use crate::key::NamespacedName;

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// The metadata that every kind has, by reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'o> {
    pub(crate) name: &'o str,
    pub(crate) namespace: &'o str,
    pub(crate) uid: &'o str,
    pub(crate) version: &'o str,
    pub(crate) labels: &'o Labels,
    pub(crate) owners: &'o [OwnerReference],
    pub(crate) finalizers: &'o [String],
    pub(crate) is_deleted: bool,
}

static NO_LABELS: Labels = Labels::new();

impl<'o> View<'o> {
    /// Of the metadata of k8s-openapi.
    pub(crate) fn of(meta: &'o ObjectMeta) -> Self {
        Self {
            name: meta.name.as_deref().unwrap_or_default(),
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            version: meta.resource_version.as_deref().unwrap_or_default(),
            labels: meta.labels.as_ref().unwrap_or(&NO_LABELS),
            owners: meta.owner_references.as_deref().unwrap_or_default(),
            finalizers: meta.finalizers.as_deref().unwrap_or_default(),
            is_deleted: meta.deletion_timestamp.is_some(),
        }
    }

    pub(crate) fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace, self.name)
    }

    /// The owner that controls the object.
    pub(crate) fn controller(&self) -> Option<&'o OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }
}

/// The metadata of a lean record.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    #[serde(deserialize_with = "shared")]
    pub(crate) labels: Arc<Labels>,
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "shared_list")]
    pub(crate) owner_references: Arc<[OwnerReference]>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) creation_timestamp: Option<Time>,
    pub(crate) deletion_timestamp: Option<Time>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
}

fn shared<'de, T: Deserialize<'de>, D: Deserializer<'de>>(reader: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(reader).map(Arc::new)
}

fn shared_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(reader: D) -> Result<Arc<[T]>, D::Error> {
    Vec::deserialize(reader).map(Arc::from)
}

/// Takes over what another has the same, so that both share it.
fn share<T: PartialEq + ?Sized>(own: &mut Arc<T>, other: &Arc<T>) {
    if **own == **other {
        own.clone_from(other);
    }
}

impl Meta {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            name: &self.name,
            namespace: &self.namespace,
            uid: &self.uid,
            version: &self.resource_version,
            labels: &self.labels,
            owners: &self.owner_references,
            finalizers: &self.finalizers,
            is_deleted: self.deletion_timestamp.is_some(),
        }
    }
}

/// Any object, of which the metadata is kept.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct AnyObject {
    pub(crate) metadata: Meta,
}

/// What is kept of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "WrittenSpec")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Option<Box<str>>,
    pub(crate) hostname: Option<Box<str>>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) template: Arc<PodTemplate>,
}

/// What the pods of one workload have in common, and share.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PodTemplate {
    pub(crate) subdomain: Option<Box<str>>,
    pub(crate) priority_class_name: Option<Box<str>>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Vec<Container>,
    /// Those that use a claim.
    pub(crate) volumes: Vec<Volume>,
    pub(crate) overhead: BTreeMap<String, Quantity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenSpec {
    node_name: Option<Box<str>>,
    hostname: Option<Box<str>>,
    subdomain: Option<Box<str>>,
    priority_class_name: Option<Box<str>>,
    active_deadline_seconds: Option<i64>,
    tolerations: Vec<Toleration>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    volumes: Vec<Volume>,
    overhead: BTreeMap<String, Quantity>,
    affinity: Option<Affinity>,
}

impl From<WrittenSpec> for PodSpec {
    fn from(spec: WrittenSpec) -> Self {
        let mut volumes = spec.volumes;
        volumes.retain(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
        let template = PodTemplate {
            subdomain: spec.subdomain,
            priority_class_name: spec.priority_class_name,
            active_deadline_seconds: spec.active_deadline_seconds,
            tolerations: spec.tolerations,
            containers: spec.containers,
            init_containers: spec.init_containers,
            volumes,
            overhead: spec.overhead,
        };
        Self {
            node_name: spec.node_name,
            hostname: spec.hostname,
            affinity: spec.affinity,
            template: Arc::new(template),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) ports: Vec<ContainerPort>,
    pub(crate) resources: Requirements,
    pub(crate) restart_policy: Option<Box<str>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: Option<Box<str>>,
    #[serde(rename = "containerPort")]
    pub(crate) port: i32,
    pub(crate) protocol: Option<Box<str>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Requirements {
    pub(crate) requests: BTreeMap<String, Quantity>,
    pub(crate) limits: BTreeMap<String, Quantity>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    name: Box<str>,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<Box<EphemeralVolumeSource>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: Box<str>,
}

/// The node affinity of a pod, of which DaemonSets write the field `metadata.name`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<k8s_openapi::api::core::v1::NodeSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "WrittenStatus")]
pub(crate) struct PodStatus {
    pub(crate) phase: Phase,
    /// Its condition `Ready`.
    pub(crate) ready: Option<Ready>,
    pub(crate) pod_ip: Option<Box<str>>,
    /// How often its containers were restarted, all together.
    pub(crate) restarts: i32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Phase {
    Running,
    Succeeded,
    Failed,
    Unknown,
    #[default]
    #[serde(other)]
    Pending,
}

/// Whether a pod is ready, and since when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ready {
    pub(crate) is_true: bool,
    pub(crate) since: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenStatus {
    phase: Option<Phase>,
    conditions: Vec<WrittenCondition>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
    container_statuses: Vec<WrittenContainer>,
    init_container_statuses: Vec<WrittenContainer>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenContainer {
    restart_count: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenCondition {
    #[serde(rename = "type")]
    type_: Box<str>,
    status: Box<str>,
    last_transition_time: Option<Time>,
}

impl From<WrittenStatus> for PodStatus {
    fn from(status: WrittenStatus) -> Self {
        let ready = status.conditions.into_iter().find(|condition| &*condition.type_ == "Ready");
        let ready = ready.map(|one| Ready { is_true: &*one.status == "True", since: one.last_transition_time });
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        let restarts = containers.fold(0_i32, |all, own| all.saturating_add(own.restart_count));
        Self { phase: status.phase.unwrap_or_default(), ready, pod_ip: status.pod_ip, restarts }
    }
}

/// What is kept of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Lease {
    pub(crate) metadata: Meta,
    pub(crate) spec: LeaseSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub(crate) renew_time: Option<MicroTime>,
}

// === impl Pod ===

impl Pod {
    pub(crate) fn view(&self) -> View<'_> {
        self.metadata.view()
    }

    /// Takes over what another pod has the same, so that both share it.
    pub(crate) fn share(&mut self, other: &Self) {
        share(&mut self.metadata.labels, &other.metadata.labels);
        share(&mut self.metadata.owner_references, &other.metadata.owner_references);
        share(&mut self.spec.template, &other.spec.template);
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.status.phase
    }

    /// Whether all its containers have ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase(), Phase::Succeeded | Phase::Failed)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it counts for its workload: it has not ended and is not terminating.
    pub(crate) fn is_active(&self) -> bool {
        !self.has_ended() && !self.is_terminating()
    }

    /// Whether it is terminating and has not ended.
    pub(crate) fn is_active_no_more(&self) -> bool {
        self.is_terminating() && !self.has_ended()
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|node| !node.is_empty())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status.ready.as_ref().is_some_and(|ready| ready.is_true)
    }

    /// When it will have been ready for so many seconds; `None` if it is not ready.
    pub(crate) fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        let ready = self.status.ready.as_ref().filter(|ready| ready.is_true)?;
        let since = ready.since.as_ref().map_or(Timestamp::MIN, |time| time.0);
        if min_ready_seconds <= 0 {
            return Some(Timestamp::MIN);
        }
        since.saturating_add(jiff::SignedDuration::from_secs(min_ready_seconds.into())).ok()
    }

    /// The claims that its volumes name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = String> + '_ {
        self.spec.template.volumes.iter().filter_map(|volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => Some(source.claim_name.to_string()),
                (None, Some(_)) => Some(format!("{}-{}", self.metadata.name, volume.name)),
                (None, None) => None,
            }
        })
    }

    /// The claims that its ephemeral volumes stand for, by name, with their templates.
    pub(crate) fn ephemeral_claims(&self) -> impl Iterator<Item = (String, &PersistentVolumeClaimTemplate)> + '_ {
        self.spec.template.volumes.iter().filter_map(|volume| {
            let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
            Some((format!("{}-{}", self.metadata.name, volume.name), template))
        })
    }

    /// The node that it is bound to, or that its DaemonSet means it for.
    pub(crate) fn target_node(&self) -> Option<&str> {
        self.node().or_else(|| {
            let affinity = self.spec.affinity.as_ref()?.node_affinity.as_ref()?;
            let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
            let field = required.node_selector_terms.first()?.match_fields.as_ref()?.first()?;
            field.values.as_ref()?.first().map(String::as_str)
        })
    }

    /// What decides when its workload gives it up, but for what its annotations say.
    pub(crate) fn standing(&self) -> Standing {
        let phase = match self.phase() {
            Phase::Running => berth_surplus::Phase::Running,
            Phase::Unknown => berth_surplus::Phase::Unknown,
            _ => berth_surplus::Phase::Pending,
        };
        let ready = self.status.ready.as_ref().filter(|ready| ready.is_true).and_then(|ready| ready.since.as_ref());
        Standing {
            is_bound: self.node().is_some(),
            phase,
            is_ready: self.is_ready(),
            since: ready.or(self.metadata.creation_timestamp.as_ref()).map(|since| since.0),
            ..Standing::default()
        }
    }

    /// The name or hash of the revision whose template it is of.
    pub(crate) fn revision_label(&self) -> Option<&str> {
        self.metadata.labels.get("controller-revision-hash").map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, app: &str, cpu: &str) -> Pod {
        let object = json!({
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "1", "controller": true}]},
            "spec": {"nodeName": name, "containers": [{"resources": {"requests": {"cpu": cpu}}}],
                     "volumes": [{"name": "token"}, {"name": "data", "persistentVolumeClaim": {"claimName": "a"}}]},
            "status": {"phase": "Running", "conditions": [
                {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn pods_share_what_they_have_the_same() {
        let (first, mut same, mut other) = (pod("a", "web", "1"), pod("b", "web", "1"), pod("c", "db", "2"));
        same.share(&first);
        other.share(&first);
        let shared = |pod: &Pod| {
            let labels = Arc::ptr_eq(&pod.metadata.labels, &first.metadata.labels);
            let owners = Arc::ptr_eq(&pod.metadata.owner_references, &first.metadata.owner_references);
            [labels, owners, Arc::ptr_eq(&pod.spec.template, &first.spec.template)]
        };
        assert_eq!((shared(&same), shared(&other)), ([true; 3], [false; 3]));
        assert_eq!(same, pod("b", "web", "1"));
    }

    #[test]
    fn of_a_pod_is_kept_what_controllers_read() {
        let pod = pod("a", "web", "1");
        assert_eq!(
            (pod.phase(), pod.is_ready(), pod.claims().collect::<Vec<_>>()),
            (Phase::Running, false, vec!["a".to_owned()])
        );
        assert_eq!(pod.spec.template.volumes.len(), 1);
        let strange: Pod = serde_json::from_value(json!({"metadata": {}, "status": {"phase": "Odd"}})).unwrap();
        assert_eq!((strange.phase(), strange.has_ended()), (Phase::Pending, false));
    }
}
