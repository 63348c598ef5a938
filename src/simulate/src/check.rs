//! Mistakes that show only once all that a scenario refers to has been read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_catalogue::{MAX_PRICE, Money};
use berth_manifests::{Object, nearest};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::act::keys;
use crate::error::SimulateError;
use crate::load::Simulation;
use crate::step::{Action, Origin, Step};

// === impl Simulation ===

impl Simulation {
    /// What steps name is there, as far as that can be told before they happen: a mistake on the last day of a month is
    /// told at once.
    pub(crate) fn check_steps(&self) -> Result<(), SimulateError> {
        let ids = self.reservation_ids();
        let catalogue = self.catalogue.reservations().iter();
        let mut counts: BTreeMap<String, i64> =
            catalogue.map(|(id, entry)| (id.clone(), i64::from(entry.instances))).collect();
        counts.extend(self.objects.iter().filter_map(reservation_count));
        for step in &*self.steps {
            let wrong = |message| Err(SimulateError::Step { place: self.place(step.origin), message });
            match &step.action {
                Action::Apply(objects) => counts.extend(objects.iter().filter_map(reservation_count)),
                // Those of events are told with their field, and are checked before.
                Action::Stock(offering, _) | Action::Price(offering, _) if !matches!(step.origin, Origin::Event(_)) => {
                    if let Err(problem) = keys(&self.catalogue, offering) {
                        return wrong(problem);
                    }
                }
                Action::Reservation { id, .. } if !ids.contains(&**id) => {
                    let hint = match nearest(id, ids.iter().map(String::as_str)) {
                        Some(near) => format!(": did you mean {near}?"),
                        None => String::new(),
                    };
                    let known = "one of the catalogue, or of a FakeCapacityReservation";
                    return wrong(format!("reservation.id: found {id:?}, expected {known}{hint}"));
                }
                Action::Reservation { id, count, used_by_others } => {
                    if let Some(count) = count {
                        counts.insert(id.to_string(), i64::from(*count));
                    }
                    // Fewer slots than others use are possible: its owner makes it smaller under them.
                    if let (Some(used), Some(count)) = (used_by_others, counts.get(&**id))
                        && i64::from(*used) > *count
                    {
                        let expected = format!("expected at most count, which is {count} then");
                        return wrong(format!("reservation.usedByOthers: found {used}, {expected}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The id of a capacity reservation.
pub(crate) fn reservation_id(object: &Object) -> Option<String> {
    match object {
        Object::FakeCapacityReservation(own) => Some(own.id().to_owned()),
        _ => None,
    }
}

/// The id of a capacity reservation, and how many instances it holds.
fn reservation_count(object: &Object) -> Option<(String, i64)> {
    match object {
        Object::FakeCapacityReservation(own) => Some((own.id().to_owned(), own.spec.count)),
        _ => None,
    }
}

/// Reservations of which others use more than there is; a sentence for each. In a cluster it is their condition.
pub(crate) fn over_used(objects: &[Object], steps: &[Step]) -> Vec<String> {
    let applied = steps.iter().filter_map(|step| match &step.action {
        Action::Apply(objects) => Some(objects.as_slice()),
        _ => None,
    });
    let mut told = BTreeSet::new();
    for object in objects.iter().chain(applied.flatten()) {
        let Object::FakeCapacityReservation(own) = object else { continue };
        let (used, count) = (own.spec.used_by_others, own.spec.count);
        if used > count {
            let why = format!("is {used}, more than spec.count, {count}: no slot is free until it is less");
            told.insert(format!("FakeCapacityReservation {}: spec.usedByOthers: {why}", own.id()));
        }
    }
    told.into_iter().collect()
}

/// Leaves the last of each object that is given more than once, as plans do; a sentence for each.
pub(crate) fn drop_repeated(objects: &mut Vec<Object>) -> Vec<String> {
    let name_of = |object: &Object| {
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().filter(|namespace| namespace != "default").unwrap_or_default();
        (object.kind(), namespace, metadata.name.clone().unwrap_or_default())
    };
    let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
    let mut kept: Vec<Object> = Vec::with_capacity(objects.len());
    for object in objects.drain(..).rev() {
        let name = name_of(&object);
        // What has a name of the server's making is another one each time.
        if name.2.is_empty() || seen.insert(name.clone()) {
            kept.push(object);
        } else {
            told.insert(name);
        }
    }
    kept.reverse();
    *objects = kept;
    let sentence = |(kind, namespace, name): (&str, String, String)| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name}: given more than once; the last counts")
    };
    told.into_iter().map(sentence).collect()
}

/// Where an object has the annotations of pods that are made of it: of a Pod, of what has a template, of a CronJob.
const ANNOTATIONS: [&str; 3] = [
    "/metadata/annotations",
    "/spec/template/metadata/annotations",
    "/spec/jobTemplate/spec/template/metadata/annotations",
];

/// What pods are to do and cannot, as their annotations are no durations; a sentence for each object. In a cluster their
/// kubelets tell, in Events, which are not written here.
pub(crate) fn unreadable_behaviour(objects: &[Object], steps: &[Step]) -> Vec<String> {
    let mut told = BTreeSet::new();
    let applied = steps.iter().filter_map(|step| match &step.action {
        Action::Apply(objects) => Some(objects.as_slice()),
        _ => None,
    });
    for object in objects.iter().chain(applied.flatten()) {
        let paths = match object.kind() {
            "Pod" => &ANNOTATIONS[..1],
            "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => &ANNOTATIONS[1..2],
            "CronJob" => &ANNOTATIONS[2..],
            _ => continue,
        };
        let metadata = object.metadata();
        let name = metadata.name.as_deref().or(metadata.generate_name.as_deref()).unwrap_or_default();
        let value = object.to_value().unwrap_or_default();
        let of_object = paths.iter().flat_map(|path| problems_at(&value, path));
        told.extend(of_object.map(|problem| format!("{} {name}: {problem}", object.kind())));
    }
    // Alike pods share one template, and come together or not.
    let mut templates = BTreeSet::new();
    for step in steps {
        if let Action::Pod(arrival) = &step.action
            && templates.insert(Arc::as_ptr(&arrival.template))
        {
            let problems = problems_at(&arrival.template.pod, ANNOTATIONS[0]);
            told.extend(problems.into_iter().map(|problem| format!("pod {}: {problem}", arrival.name)));
        }
    }
    told.into_iter().map(|problem| format!("{problem}; it is passed over")).collect()
}

fn problems_at(object: &Value, path: &str) -> Vec<String> {
    let Some(Value::Object(annotations)) = object.pointer(path) else { return Vec::new() };
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    berth_kubelet::annotation::problems(&annotations.iter().filter_map(text).collect::<BTreeMap<_, _>>())
}

/// The namespaces of pods of traces that no object makes, as objects.
pub(crate) fn missing_namespaces(simulation: &Simulation) -> Vec<Object> {
    let of_objects = simulation.objects.iter().filter(|object| object.kind() == "Namespace");
    let mut known: BTreeSet<String> = of_objects.filter_map(|object| object.metadata().name.clone()).collect();
    known.extend(["default", "kube-system"].map(str::to_owned));
    let mut missing = Vec::new();
    for step in &*simulation.steps {
        if let Action::Pod(arrival) = &step.action
            && !known.contains(&arrival.template.namespace)
        {
            let name = arrival.template.namespace.clone();
            known.insert(name.clone());
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            missing.push(Object::from(Namespace { metadata, ..Namespace::default() }));
        }
    }
    missing
}

/// Whether it is a price an hour as a catalogue has them.
pub(crate) fn is_price(price: Money) -> bool {
    !price.is_negative() && price <= MAX_PRICE
}
