//! Mistakes that show only once all that a scenario refers to has been read.

use std::collections::BTreeSet;

use berth_catalogue::{MAX_PRICE, Money};
use berth_manifests::{Object, nearest};

use crate::act::keys;
use crate::error::SimulateError;
use crate::load::Simulation;
use crate::step::{Action, Origin};

// === impl Simulation ===

impl Simulation {
    /// What steps name is there, as far as that can be told before they happen: a mistake on the last day of a month is
    /// told at once.
    pub(crate) fn check_steps(&self) -> Result<(), SimulateError> {
        let mut ids = self.reservation_ids();
        for step in &*self.steps {
            if let Action::Apply(objects) = &step.action {
                ids.extend(objects.iter().filter_map(reservation_id));
            }
        }
        for step in &*self.steps {
            let wrong = |message| Err(SimulateError::Step { place: self.place(step.origin), message });
            match &step.action {
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

/// A sentence for each object that is given more than once.
pub(crate) fn repeated(objects: &[Object]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut told = BTreeSet::new();
    for object in objects {
        let metadata = object.metadata();
        let name = metadata.name.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let key = (object.kind(), if namespace == "default" { String::new() } else { namespace }, name);
        if !seen.insert(key.clone()) {
            told.insert(key);
        }
    }
    let sentence = |(kind, namespace, name): (&str, String, String)| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name}: given more than once; the last counts")
    };
    told.into_iter().map(sentence).collect()
}

/// Whether it is a price an hour as a catalogue has them.
pub(crate) fn is_price(price: Money) -> bool {
    !price.is_negative() && price <= MAX_PRICE
}
