//! Names in steps that cannot be used when their time comes, told before anything runs: of what is not there, or of pods that
//! are. What controllers make and delete by themselves is not known here, and shows at its time.

use std::collections::{BTreeMap, BTreeSet};

use berth_manifests::{Object, nearest};

use crate::error::SimulateError;
use crate::load::Simulation;
use crate::scenario::Scaled;
use crate::step::{Action, Origin, Step};

/// Kinds that people make, and no controller.
const MADE_BY_PEOPLE: [&str; 6] =
    ["Deployment", "StatefulSet", "DaemonSet", "CronJob", "PodDisruptionBudget", "Reservation"];

/// Namespace and name.
type Name = (String, String);

/// Kind, namespace and name.
pub(crate) type Id<'o> = (&'o str, &'o str, &'o str);

#[derive(Default)]
struct Known<'s> {
    /// Of those kinds: what is there.
    made: BTreeMap<&'static str, BTreeSet<Name>>,
    /// Pods that came by themselves: where that is said, and until when each is there at least.
    pods: BTreeMap<(&'s str, &'s str), (Origin, Option<u64>)>,
}

// === impl Simulation ===

impl Simulation {
    /// Names of steps are those of what is there, and of pods that are not.
    pub(crate) fn check_names(&self) -> Result<(), SimulateError> {
        let mut known = Known::default();
        known.apply(&self.objects);
        for step in &*self.steps {
            if let Err(message) = known.step(step, |origin| self.place(origin)) {
                return Err(SimulateError::Step { place: self.place(step.origin), message });
            }
        }
        Ok(())
    }
}

// === impl Known ===

impl<'s> Known<'s> {
    fn step(&mut self, step: &'s Step, place: impl Fn(Origin) -> String) -> Result<(), String> {
        match &step.action {
            Action::Apply(objects) => self.apply(objects),
            Action::Scale { kind: Scaled::Deployment, namespace, name, .. } => {
                return self.expect("scale", "Deployment", namespace, name);
            }
            Action::Scale { kind: Scaled::StatefulSet, namespace, name, .. } => {
                return self.expect("scale", "StatefulSet", namespace, name);
            }
            Action::Patch { kind, namespace, name, may_be_gone: false, .. } => {
                return self.expect("change", kind, namespace, name);
            }
            Action::Delete { kind, namespace, name, may_be_gone, .. } => {
                match &**kind {
                    "Pod" => drop(self.pods.remove(&(&**namespace, &**name))),
                    "Namespace" => {
                        self.made.values_mut().for_each(|names| names.retain(|(namespace, _)| **namespace != **name));
                        self.pods.retain(|(namespace, _), _| **namespace != **name);
                    }
                    _ => {}
                }
                if !may_be_gone {
                    self.expect("delete", kind, namespace, name)?;
                }
                if let Some(names) = self.made.get_mut(&**kind) {
                    names.remove(&full_name(kind, Some(namespace), name));
                }
            }
            Action::Pod(arrival) => {
                let key = (&*arrival.template.namespace, &*arrival.name);
                let ends = arrival.runs_for.map(|runs_for| step.at.saturating_add(runs_for));
                let before = self.pods.insert(key, (step.origin, ends));
                if let Some((origin, _)) = before.filter(|(_, ends)| ends.is_none_or(|ends| ends > step.at)) {
                    let (namespace, name) = key;
                    let before = place(origin);
                    return Err(format!("found pod {namespace}/{name}, which came before ({before}) and is there yet"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(&mut self, objects: &[Object]) {
        for object in objects {
            let Some(kind) = MADE_BY_PEOPLE.into_iter().find(|kind| *kind == object.kind()) else { continue };
            let metadata = object.metadata();
            let name = metadata.name.as_deref().unwrap_or_default();
            self.made.entry(kind).or_default().insert(full_name(kind, metadata.namespace.as_deref(), name));
        }
    }

    /// What a step of this action names is there.
    fn expect(&self, action: &str, kind: &str, namespace: &str, name: &str) -> Result<(), String> {
        if !MADE_BY_PEOPLE.contains(&kind) {
            return Ok(());
        }
        let key = full_name(kind, Some(namespace), name);
        let none = BTreeSet::new();
        let there = self.made.get(kind).unwrap_or(&none);
        if there.contains(&key) {
            return Ok(());
        }
        let of_namespace = there.iter().filter(|(known, _)| *known == key.0).map(|(_, name)| name.as_str());
        let hint = match nearest(name, of_namespace) {
            Some(near) => format!(": did you mean {near}?"),
            None => String::new(),
        };
        let within = if key.0.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        Err(format!("{action}.name: found {name:?}, expected a {kind} that is there{within} at that time{hint}"))
    }
}

/// The id of an object.
pub(crate) fn id_of(object: &Object) -> Id<'_> {
    let metadata = object.metadata();
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    (object.kind(), namespace.unwrap_or("default"), metadata.name.as_deref().unwrap_or_default())
}

/// The objects that events and traces apply.
pub(crate) fn applied_later(steps: &[Step]) -> BTreeSet<Id<'_>> {
    let applied = steps.iter().filter_map(|step| match &step.action {
        Action::Apply(objects) => Some(objects.iter().map(id_of)),
        _ => None,
    });
    applied.flatten().collect()
}

/// Namespace and name as one object has them, however it is written.
fn full_name(kind: &str, namespace: Option<&str>, name: &str) -> Name {
    let namespace = match namespace {
        _ if kind == "Reservation" => "",
        None | Some("") => "default",
        Some(namespace) => namespace,
    };
    (namespace.to_owned(), name.to_owned())
}
