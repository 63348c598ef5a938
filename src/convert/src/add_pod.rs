//! Pods that are folded in.

use std::hash::BuildHasher;
use std::sync::Arc;

use berth_api::labels::{self, koordinator};
use berth_model::{Cluster, Labels, LabelsId, Refusal};
use hashbrown::hash_table::Entry;
use jiff::Timestamp;
use k8s_openapi::api::core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::builder::Builder;
use crate::draft::Draft;
use crate::maps::index;
use crate::memo::Alike;
use crate::metadata::{named, namespace_of};
use crate::options::Expansion;
use crate::pod_record::{Deletion, PodParts, PodRecord};
use crate::{ConvertError, Problem, ask, memo, operating, pod, resize, terms, units};

/// Koordinator's reason where a pod asks for a Reservation and none matches.
const NO_RESERVATION: &str = "node(s) no reservations match reservation affinity";

impl Builder {
    /// A pod. One that is bound takes room on its node until it is gone, one that is not is planned unless it is being
    /// deleted; one that has ended counts for nothing.
    pub fn add_pod(&mut self, object: &core::v1::Pod) -> Result<(), ConvertError> {
        self.add_pod_parts(&PodParts::of(object))
    }

    /// The same of its parts.
    pub fn add_pod_parts(&mut self, object: &PodParts<'_>) -> Result<(), ConvertError> {
        let metadata = object.metadata;
        let own = object.name.as_ref().filter(|name| !name.is_empty());
        let name: Arc<str> = match (own, metadata.generate_name.as_deref()) {
            (Some(name), _) => Arc::clone(name),
            (None, Some(prefix)) => {
                self.n_generated += 1;
                format!("{prefix}{}", self.n_generated - 1).into()
            }
            (None, None) => named("Pod", None)?.into(),
        };
        let namespace = self.cluster.symbols.intern(namespace_of(metadata));
        let phase = object.status.and_then(|status| status.phase.as_deref());
        let mut record = PodRecord {
            namespace,
            name,
            draft: 0,
            labels: LabelsId(0),
            node: None,
            nominated_node: None,
            insists: object.insists,
            owner: None,
            is_gone: matches!(phase, Some("Succeeded" | "Failed")),
            deletion: object.is_terminating.then(|| deletion_at(self.options.now, metadata)),
            started: nanoseconds(object.started),
            created: nanoseconds(object.created),
            standing: None,
            draws_from: None,
            references: 0,
            uid: None,
            pre_allocatable: None,
            assigned: None,
            operating: None,
            has_held_room: false,
            is_static: metadata.annotations.as_ref().is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        };
        if !record.is_gone {
            record.standing = self.expects_change.then(|| Box::new(object.standing()));
            let default;
            let resized;
            let mut shared = object.shared.filter(|_| self.may_be_alike(metadata));
            let spec = if let Some(spec) = object.spec {
                resized = resize::resized(object);
                shared = shared.filter(|_| resized.is_none());
                resized.as_ref().unwrap_or(spec)
            } else {
                default = core::v1::PodSpec::default();
                &default
            };
            let alike = shared.and_then(|shared| self.alike.get(shared));
            record.draft = match alike {
                Some(alike) => alike.draft,
                None => self.draft_of(object, spec, &record)?,
            };
            let node = object.node.filter(|name| !name.is_empty());
            record.node = node.map(|name| self.cluster.symbols.intern(name));
            let nominated = object.status.and_then(|status| status.nominated_node_name.as_deref());
            record.nominated_node =
                nominated.filter(|name| !name.is_empty()).map(|name| self.cluster.symbols.intern(name));
            record.uid = object.uid.as_deref().map(Into::into);
            record.pre_allocatable = record.node.and_then(|_| ask::pre_allocatable(metadata, &self.options));
            if let Some(Alike { labels, references, owner, .. }) = alike {
                (record.labels, record.references, record.owner) = (labels, references, owner);
            } else {
                self.read_metadata(object, &mut record)?;
                if let Some(shared) = shared {
                    let PodRecord { draft, labels, references, owner, .. } = record;
                    self.alike.insert(shared, Alike { draft, labels, references, owner });
                }
            }
        }
        self.keep_pod(record);
        Ok(())
    }

    // Whether what is read of metadata and spec says the same of every pod that has them.
    fn may_be_alike(&self, metadata: &ObjectMeta) -> bool {
        self.expansion == Expansion::PodsThatExist && !ask::may_ask(metadata)
    }

    // Labels, what Koordinator asks for, and owners.
    fn read_metadata(&mut self, object: &PodParts<'_>, record: &mut PodRecord) -> Result<(), ConvertError> {
        let metadata = object.metadata;
        let mut labels = terms::labels_of(metadata.labels.as_ref(), &mut self.cluster.symbols);
        if object.node.is_some_and(|node| !node.is_empty()) {
            let of_node = labels::OF_NODE.map(|key| self.cluster.symbols.get(key));
            if of_node.iter().flatten().any(|key| labels.get(*key).is_some()) {
                labels = Labels::new(labels.iter().filter(|(key, _)| !of_node.contains(&Some(*key))));
            }
        }
        record.labels = self.cluster.intern_labels(labels);
        if ask::may_ask(metadata) {
            self.add_extensions(object, record).map_err(|problem| {
                let name = format!("{}/{}", namespace_of(metadata), record.name);
                ConvertError::new("Pod", name, vec![problem])
            })?;
        }
        record.references = self.intern_references(metadata);
        let owner = self.owner_of(metadata, record.namespace);
        record.owner = owner.map(|owner| index(self.owners.insert_full(owner).0));
        Ok(())
    }

    // What Koordinator's annotations and labels say of a pod beside its spec.
    fn add_extensions(&mut self, object: &PodParts<'_>, record: &mut PodRecord) -> Result<(), Problem> {
        let metadata = object.metadata;
        let assigned = units::read_assigned(metadata, &mut self.cluster)?;
        record.assigned = (record.node.is_some() && !assigned.is_empty()).then(|| Box::new(assigned));
        record.draws_from = ask::read_allocated(metadata, &mut self.cluster)?;
        if record.node.is_some() && koordinator::is_operating(metadata) {
            record.operating = Some(Box::new(operating::read_operating(object, record, &mut self.cluster)?));
        }
        Ok(())
    }

    fn draft_of(
        &mut self,
        object: &PodParts<'_>,
        spec: &core::v1::PodSpec,
        record: &PodRecord,
    ) -> Result<u32, ConvertError> {
        let metadata = object.metadata;
        // Annotations and labels may change the draft.
        let fingerprint = (!ask::may_ask(metadata)).then(|| memo::fingerprint(spec));
        if let Some(known) = fingerprint.and_then(|fingerprint| self.memo.get(fingerprint, spec)) {
            return Ok(known);
        }
        let wrong = |problem| {
            let name = format!("{}/{}", namespace_of(metadata), record.name);
            ConvertError::new("Pod", name, vec![problem])
        };
        let mut draft = pod::draft(spec, &mut self.cluster).map_err(|problem| wrong(problem.under("spec")))?;
        add_ask(metadata, &mut draft, &mut self.cluster).map_err(wrong)?;
        // Pods that exist have been let in, and count in quotas.
        if self.expansion == Expansion::Workloads {
            draft.shape = self.shape_of(spec);
        }
        let draft = self.intern_draft(draft);
        if let Some(fingerprint) = fingerprint {
            self.memo.insert(fingerprint, spec, draft);
        }
        Ok(draft)
    }

    /// Reads a pod without keeping it.
    pub(crate) fn read_pod(&mut self, object: &PodParts<'_>) -> Result<Option<PodRecord>, ConvertError> {
        self.add_pod_parts(object)?;
        self.pod_ids.clear();
        Ok(self.pods.pop())
    }

    fn keep_pod(&mut self, record: PodRecord) {
        let (pods, names) = (&self.pods, &self.names);
        let hash_of = |pod: &PodRecord| names.hash_one((pod.namespace, &pod.name));
        let is_it = |at: &u32| {
            let known = pods.get(*at as usize);
            known.is_some_and(|pod| pod.namespace == record.namespace && pod.name == record.name)
        };
        let hash_at = |at: &u32| pods.get(*at as usize).map_or(0, hash_of);
        let at = match self.pod_ids.entry(hash_of(&record), is_it, hash_at) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(index(pods.len()));
                self.pods.push(record);
                return;
            }
        };
        let namespace = self.cluster.symbols.text(record.namespace);
        let name = format!("{namespace}/{}", record.name);
        if let Some(pod) = self.pods.get_mut(at as usize) {
            *pod = record;
        }
        self.warn_of_repeat("Pod", &name);
    }
}

/// What a pod of this metadata asks of Reservations becomes part of its draft. One that must draw from a Reservation
/// has no place where none is matched.
pub(crate) fn add_ask(metadata: &ObjectMeta, draft: &mut Draft, cluster: &mut Cluster) -> Result<(), Problem> {
    units::add_ask(metadata, draft)?;
    draft.spec.reservation = ask::read_ask(metadata, cluster)?;
    if draft.spec.reservation.affinity.is_some() {
        draft.spec.refusal.get_or_insert(Refusal(NO_RESERVATION.to_owned()));
    }
    Ok(())
}

/// How far the deletion of a pod that is being deleted has come by a time.
fn deletion_at(now: Option<Timestamp>, metadata: &ObjectMeta) -> Deletion {
    let (time, grace) = (metadata.deletion_timestamp.as_ref(), metadata.deletion_grace_period_seconds);
    let ends = time.zip(grace).map(|(time, grace)| time.0.as_second().saturating_add(grace));
    match ends.zip(now) {
        Some((end, now)) if end < now.as_second() => Deletion::Overdue,
        _ => Deletion::Begun,
    }
}

fn nanoseconds(time: Option<Timestamp>) -> i64 {
    time.and_then(|time| i64::try_from(time.as_nanosecond()).ok()).unwrap_or(i64::MAX)
}
