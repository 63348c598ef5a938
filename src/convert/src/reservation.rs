//! Koordinator's Reservations: those that are pending are planned like pods, those that are there hold room.

use std::collections::BTreeMap;

use berth_api::labels::koordinator;
use berth_api::{PreAllocationMode as ApiMode, Reservation as Object, ReservationArgs, ReservationPhase};
use berth_model::{
    AllocatePolicy, Cluster, ControllerMatch, Labels, LabelsId, Lifetime, ObjectMatch, Phase, PreAllocation,
    PreAllocationMode, Requirement, Reservation, ReservationOwner, ResourceId, Resources, Sym, Symbols,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::draft::{Draft, Priority};
use crate::node_reservation::Kept;
use crate::pod::draft;
use crate::quantities::{Amounts, Named, resource_id};
use crate::requests::reserved_requests;
use crate::taints::read_taints;
use crate::terms::{labels_of, selector};
use crate::{Problem, annotations, units};

/// A Reservation as it is read.
#[derive(Clone, PartialEq)]
pub(crate) struct ReservationRecord {
    /// Everything but what volumes and priority classes add.
    pub(crate) reservation: Reservation,
    /// The namespace of its pods.
    pub(crate) namespace: Sym,
    /// Index of the draft of the pod that stands in for it.
    pub(crate) draft: u32,
    /// Index of that pod's labels.
    pub(crate) labels: LabelsId,
    /// What owners draw from it by its status, `pods` their number; for where they are not in the input.
    pub(crate) allocated: Resources,
    /// How long it lives; `None` for a pod that is one.
    pub(crate) lifetime: Option<Lifetime>,
}

impl ReservationRecord {
    /// Whether it is to be placed.
    pub(crate) fn is_pending(&self) -> bool {
        let reservation = &self.reservation;
        reservation.phase == Phase::Pending && !reservation.is_terminating && reservation.pre_allocation.is_none()
    }

    /// When it expired, in seconds of Unix time, if it has by `now` and is not over otherwise.
    pub(crate) fn expired(&self, now: Option<Timestamp>) -> Option<i64> {
        let now = now?.as_second();
        let lifetime = self.lifetime.filter(|_| !self.reservation.phase.is_terminal())?;
        // One without a creation time is made now.
        lifetime.ends(now).filter(|end| now > *end)
    }

    /// When it ends, in seconds of Unix time, if it is not over otherwise and is there already: it counts until then.
    pub(crate) fn ends(&self, now: i64) -> Option<i64> {
        let lifetime = self.lifetime.filter(|_| !self.reservation.phase.is_terminal())?;
        // One without a creation time is made now, whenever that is.
        if lifetime.expires.is_none() && lifetime.created.is_none() { None } else { lifetime.ends(now) }
    }

    /// Whether it counts for anything: one that is over, or pending and going away, does not.
    pub(crate) fn counts(&self, now: Option<Timestamp>) -> bool {
        let reservation = &self.reservation;
        if self.expired(now).is_some() {
            return false;
        }
        match reservation.phase {
            Phase::Pending => !reservation.is_terminating,
            Phase::Available | Phase::Waiting => reservation.node.is_some(),
            Phase::Succeeded | Phase::Failed => false,
        }
    }
}

/// Resource names, as in `reservation-restricted-options` and with amounts in `reservation-resize-allocatable`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RestrictedOptions {
    resources: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResizeAllocatable {
    resources: berth_api::ResourceList,
}

pub(crate) fn read_reservation(
    name: Sym,
    object: &Object,
    cluster: &mut Cluster,
    intern: &mut impl FnMut(Draft) -> u32,
) -> Result<ReservationRecord, Problem> {
    let (spec, metadata) = (&object.spec, &object.metadata);
    let status = object.status.clone().unwrap_or_default();
    let template = spec.template.spec.clone().unwrap_or_default();
    let labels = labels_over(metadata, spec.template.metadata.as_ref());
    let mut reservation = Reservation::new(name);
    reservation.phase = phase(status.phase);
    let pinned = template.node_name.as_deref();
    let node = if reservation.phase == Phase::Pending { pinned } else { status.node_name.as_deref() };
    reservation.node = node.filter(|node| !node.is_empty()).map(|node| cluster.symbols.intern(node));
    reservation.owners = Some(owners(&spec.owners, "spec.owners", cluster)?);
    reservation.allocate_once = spec.allocate_once;
    reservation.policy = match spec.allocate_policy {
        None => AllocatePolicy::Unset,
        Some(berth_api::AllocatePolicy::Aligned) => AllocatePolicy::Aligned,
        Some(berth_api::AllocatePolicy::Restricted) => AllocatePolicy::Restricted,
    };
    read_amounts(object, &template, &mut reservation, cluster)?;
    reservation.is_unschedulable = spec.unschedulable;
    reservation.is_terminating = metadata.deletion_timestamp.is_some();
    reservation.taints =
        read_taints(&spec.taints, &mut cluster.symbols).map_err(|problem| problem.under("spec.taints"))?;
    add_identity(metadata, &mut reservation, cluster);
    let is_required = labels.get(koordinator::PRE_ALLOCATION_REQUIRED).is_some_and(|value| value == "true");
    if spec.pre_allocation || is_required {
        let policy = spec.pre_allocation_policy.clone().unwrap_or_default();
        reservation.pre_allocation = Some(PreAllocation {
            mode: match policy.mode {
                ApiMode::Default => PreAllocationMode::Owners,
                ApiMode::Cluster => PreAllocationMode::Cluster,
            },
            is_multiple: policy.enable_multiple,
            is_required,
        });
    }
    let mut allocated = Amounts::read_exact(&status.allocated, Named::Asked, cluster)
        .map_err(|problem| problem.under("status.allocated"))?
        .rounded_up();
    allocated.set(ResourceId::PODS, i64::try_from(status.current_owners.len()).unwrap_or(i64::MAX));
    let mut stand_in = draft(&template, cluster).map_err(|problem| problem.under("spec.template.spec"))?;
    stand_in.spec.requests = reservation.allocatable.clone();
    stand_in.spec.requests.set(ResourceId::PODS, reservation.allocatable.get(ResourceId::PODS).max(1));
    stand_in.spec.assumed = [0, 0];
    stand_in.spec.units.devices = units::devices_asked(&stand_in.spec.requests, cluster);
    let mut annotations = spec.template.metadata.as_ref().and_then(|template| template.annotations.clone());
    annotations.get_or_insert_default().extend(metadata.annotations.clone().unwrap_or_default());
    let of_pod = ObjectMeta { labels: Some(labels.clone()), annotations, ..ObjectMeta::default() };
    units::add_ask(&of_pod, &mut stand_in)?;
    reservation.assigned = units::read_assigned(metadata, cluster)?;
    if stand_in.priority == Priority::Default {
        // Without a priority of its own nothing may preempt a Reservation.
        let label = labels.get(koordinator::PRIORITY).and_then(|text| text.parse().ok());
        stand_in.priority = Priority::Set(label.unwrap_or(i32::MAX));
    }
    if let Some(node) = reservation.node.filter(|_| reservation.phase == Phase::Pending) {
        pin(&mut stand_in, node, &mut cluster.symbols);
    }
    let label_set: Labels = labels_of(Some(&labels), &mut cluster.symbols);
    let namespace = spec.template.metadata.as_ref().and_then(|template| template.namespace.as_deref());
    Ok(ReservationRecord {
        namespace: cluster.symbols.intern(namespace.filter(|name| !name.is_empty()).unwrap_or("default")),
        draft: intern(stand_in),
        labels: cluster.intern_labels(label_set),
        allocated,
        lifetime: Some(Lifetime {
            created: reservation.created,
            expires: spec.expires.as_ref().map(|time| time.0.as_second()),
            ttl: spec.ttl.to_std().unwrap_or_default(),
        }),
        reservation,
    })
}

/// What metadata says of a Reservation by itself.
pub(crate) fn add_identity(metadata: &ObjectMeta, reservation: &mut Reservation, cluster: &mut Cluster) {
    reservation.uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty()).map(|uid| cluster.symbols.intern(uid));
    reservation.labels = labels_of(metadata.labels.as_ref(), &mut cluster.symbols);
    let order = metadata.labels.as_ref().and_then(|labels| labels.get(koordinator::RESERVATION_ORDER));
    reservation.order = order.and_then(|order| order.parse().ok()).filter(|order| *order != 0);
    reservation.created = metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
}

/// The labels of the template with those of the Reservation over them.
fn labels_over(metadata: &ObjectMeta, template: Option<&ObjectMeta>) -> BTreeMap<String, String> {
    let mut labels = template.and_then(|template| template.labels.clone()).unwrap_or_default();
    labels.extend(metadata.labels.clone().unwrap_or_default());
    labels
}

/// The phase of a Reservation in the model's terms.
pub const fn phase(phase: ReservationPhase) -> Phase {
    match phase {
        ReservationPhase::Pending => Phase::Pending,
        ReservationPhase::Available => Phase::Available,
        ReservationPhase::Waiting => Phase::Waiting,
        ReservationPhase::Succeeded => Phase::Succeeded,
        ReservationPhase::Failed => Phase::Failed,
    }
}

/// Keeps the stand-in off every other node.
fn pin(stand_in: &mut Draft, node: Sym, symbols: &mut Symbols) {
    let field = symbols.intern("metadata.name");
    stand_in.spec.node_selector.add(field, Requirement::value(node), symbols);
}

/// What is reserved: by the status, else by the template and what the Reservation is resized to; and what of it is kept.
fn read_amounts(
    object: &Object,
    template: &k8s_openapi::api::core::v1::PodSpec,
    reservation: &mut Reservation,
    cluster: &mut Cluster,
) -> Result<(), Problem> {
    let notes = object.metadata.annotations.as_ref();
    let status = object.status.as_ref().map(|status| &status.allocatable).filter(|amounts| !amounts.is_empty());
    let requests = reserved_requests(template, cluster).map_err(|problem| problem.under("spec.template.spec"))?;
    let key = koordinator::RESERVATION_RESIZE_ALLOCATABLE;
    let resized: ResizeAllocatable = annotations::read(notes, key, r#"{"resources":{"cpu":"4"}}"#)?.unwrap_or_default();
    let resized = Amounts::read_exact(&resized.resources, Named::Asked, cluster)
        .map_err(|problem| annotations::at(key, problem.under("resources").to_string()))?;
    let mut asked = requests;
    for (id, nanos) in resized.iter() {
        asked.set(id, nanos);
    }
    reservation.asked = asked.rounded_up();
    reservation.allocatable = match status {
        Some(amounts) => Amounts::read_exact(amounts, Named::Asked, cluster)
            .map_err(|problem| problem.under("status.allocatable"))?
            .rounded_up(),
        None => reservation.asked.clone(),
    };
    reservation.kept = Kept::read(notes, cluster)?.amounts;
    let key = koordinator::RESERVATION_RESTRICTED_OPTIONS;
    let options: RestrictedOptions = annotations::read(notes, key, r#"{"resources":["cpu"]}"#)?.unwrap_or_default();
    for name in &options.resources {
        reservation.restricted.extend(resource_id(name, Named::Asked, cluster));
    }
    Ok(())
}

/// Who may draw; problems are below `path`.
pub(crate) fn owners(
    owners: &[berth_api::ReservationOwner],
    path: &str,
    cluster: &mut Cluster,
) -> Result<Vec<ReservationOwner>, Problem> {
    let symbols = &mut cluster.symbols;
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let mut read = Vec::with_capacity(owners.len());
    for (i, owner) in owners.iter().enumerate() {
        let object = owner.object.as_ref().map(|object| ObjectMatch {
            namespace: given(object.namespace.as_deref()).map(|namespace| symbols.intern(&namespace)),
            name: given(object.name.as_deref()).map(Into::into),
            uid: given(object.uid.as_deref()).map(Into::into),
            api_version: given(object.api_version.as_deref()).map(Into::into),
        });
        let controller = owner.controller.as_ref().map(|controller| {
            let mut sym = |text: &str| (!text.is_empty()).then(|| symbols.intern(text));
            ControllerMatch {
                namespace: sym(&controller.namespace),
                api_version: sym(&controller.api_version),
                kind: sym(&controller.kind),
                name: sym(&controller.name),
                uid: sym(&controller.uid),
                is_controller: controller.controller,
            }
        });
        let by_labels = owner.label_selector.as_ref().map(|labels| {
            let path = format!("{path}[{i}].labelSelector");
            selector(Some(labels), symbols).map_err(|problem| problem.under(path))
        });
        read.push(ReservationOwner { object, controller, selector: by_labels.transpose()? });
    }
    Ok(read)
}

/// The resources that the scheduler's configuration says Reservations do not hold.
pub(crate) fn ignored(args: &ReservationArgs, cluster: &Cluster) -> Vec<ResourceId> {
    let is_ignored = |name: &str| {
        args.ignored_resources.iter().any(|ignored| ignored == name)
            || name.split_once('/').is_some_and(|(group, _)| args.ignored_resource_groups.iter().any(|g| g == group))
    };
    let names = cluster.resource_names.iter();
    names.filter(|(_, name)| is_ignored(cluster.symbols.text(*name))).map(|(id, _)| id).collect()
}
