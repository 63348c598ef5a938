//! What a pod asks of Reservations, by its annotations and labels.

use std::collections::BTreeMap;

use berth_api::ReservationReference;
use berth_api::labels::koordinator;
use berth_model::{Cluster, OwnerReference, ReservationAffinity, ReservationAsk, Sym};
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::pod::tolerations;
use crate::quantities::{Named, resource_id};
use crate::terms::{node_selector, node_terms};
use crate::{Options, Problem, annotations};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    name: String,
    required_during_scheduling_ignored_during_execution: Option<Terms>,
    reservation_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Terms {
    reservation_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExactMatch {
    resource_names: Vec<String>,
}

/// Whether labels or annotations may say anything of Reservations, or of CPUs of the pod's own.
pub(crate) fn may_ask(metadata: &ObjectMeta) -> bool {
    metadata.annotations.is_some()
        || metadata.labels.as_ref().is_some_and(|labels| {
            let keys = [koordinator::RESERVATION_IGNORED, koordinator::QOS_CLASS, koordinator::OPERATING_MODE];
            keys.iter().any(|key| labels.contains_key(*key))
        })
}

/// What a pod of this metadata asks for. Problems are relative to the object with that metadata.
pub(crate) fn read_ask(metadata: &ObjectMeta, cluster: &mut Cluster) -> Result<ReservationAsk, Problem> {
    let notes = metadata.annotations.as_ref();
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let mut ask = ReservationAsk {
        ignores: label(koordinator::RESERVATION_IGNORED).is_some_and(|value| value == "true"),
        operates: koordinator::is_operating(metadata),
        ..ReservationAsk::default()
    };
    let key = koordinator::RESERVATION_AFFINITY;
    if let Some(text) = notes.and_then(|notes| notes.get(key)) {
        // Even without a value it asks for a Reservation, any.
        let affinity: Affinity = if text.is_empty() {
            Affinity::default()
        } else {
            annotations::read(notes, key, r#"{"reservationSelector":{"app":"web"}}"#)?.unwrap_or_default()
        };
        ask.affinity = Some(affinity_of(&affinity, cluster).map_err(|p| annotations::at(key, p.to_string()))?);
    }
    let key = koordinator::EXACT_MATCH_RESERVATION;
    if notes.and_then(|notes| notes.get(key)).is_some_and(|text| !text.is_empty()) {
        let exact: ExactMatch = annotations::read(notes, key, r#"{"resourceNames":["cpu"]}"#)?.unwrap_or_default();
        for name in &exact.resource_names {
            ask.exact.extend(resource_id(name, Named::Asked, cluster));
        }
        ask.exact.sort_unstable();
        ask.exact.dedup();
    }
    Ok(ask)
}

fn affinity_of(affinity: &Affinity, cluster: &mut Cluster) -> Result<ReservationAffinity, Problem> {
    let terms = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    Ok(ReservationAffinity {
        name: (!affinity.name.is_empty()).then(|| cluster.symbols.intern(&affinity.name)),
        terms: match terms {
            Some(terms) => {
                node_terms(&terms.reservation_selector_terms, "reservationSelectorTerms", &mut cluster.symbols)
                    .map_err(|problem| problem.under("requiredDuringSchedulingIgnoredDuringExecution"))?
            }
            None => Vec::new(),
        },
        selector: node_selector(Some(&affinity.reservation_selector), &mut cluster.symbols),
        tolerations: tolerations(&affinity.tolerations, cluster)?,
    })
}

/// The Reservation that a pod draws from: its name, and its uid where it has one.
pub(crate) fn read_allocated(
    metadata: &ObjectMeta,
    cluster: &mut Cluster,
) -> Result<Option<(Sym, Option<Sym>)>, Problem> {
    let key = koordinator::RESERVATION_ALLOCATED;
    let allocated: Option<ReservationReference> =
        annotations::read(metadata.annotations.as_ref(), key, r#"{"name":"r","uid":"…"}"#)?;
    Ok(allocated.filter(|allocated| !allocated.name.is_empty()).map(|allocated| {
        let uid = (!allocated.uid.is_empty()).then(|| cluster.symbols.intern(&allocated.uid));
        (cluster.symbols.intern(&allocated.name), uid)
    }))
}

/// Set where the cluster's label says that Reservations may be bound to a pod: its priority among such pods, 0 where it
/// has none that is a number.
pub(crate) fn pre_allocatable(metadata: &ObjectMeta, options: &Options) -> Option<i64> {
    let config = &options.reservations.pre_allocation_config;
    let label = metadata.labels.as_ref()?.get(&config.cluster_label_key)?;
    let note = metadata.annotations.as_ref().and_then(|notes| notes.get(&config.cluster_priority_annotation_key));
    (label == "true").then(|| note.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// The owner references of an object.
pub(crate) fn read_references(metadata: &ObjectMeta, cluster: &mut Cluster) -> Vec<OwnerReference> {
    let symbols = &mut cluster.symbols;
    let references = metadata.owner_references.iter().flatten();
    let read = references.map(|reference| OwnerReference {
        api_version: symbols.intern(&reference.api_version),
        kind: symbols.intern(&reference.kind),
        name: symbols.intern(&reference.name),
        uid: (!reference.uid.is_empty()).then(|| symbols.intern(&reference.uid)),
        is_controller: reference.controller == Some(true),
    });
    read.collect()
}
