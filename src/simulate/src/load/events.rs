//! What a scenario says will happen: the field `events`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_catalogue::Catalogue;
use berth_manifests::ManifestError;

use super::Loader;
use crate::act::{keys, no_type};
use crate::error::SimulateError;
use crate::scenario::{self, Event, Machines, Scenario, namespace_of};
use crate::step::{Action, MOST_PODS, MOST_STEPS, Origin, Propagation, Step, offering};

// === impl Loader ===

impl Loader {
    /// Events name what the catalogue offers.
    pub(super) fn check_offers(&mut self, scenario: &Scenario, catalogue: &Catalogue) -> Result<(), SimulateError> {
        for (index, event) in scenario.events.iter().enumerate() {
            let stock = event.stock.as_ref();
            let stock = stock.map(|own| ("stock", offering(&own.instance_type, own.zone.as_ref(), own.capacity_type)));
            let price = event.price.as_ref();
            let price = price.map(|own| ("price", offering(&own.instance_type, own.zone.as_ref(), own.capacity_type)));
            for (action, offering) in stock.into_iter().chain(price) {
                let is_known = catalogue.types().iter().any(|entry| entry.name == offering.instance_type);
                let field = if is_known { "" } else { ".instanceType" };
                keys(catalogue, &offering)
                    .map_err(|problem| self.wrong(&format!("events[{index}].{action}{field}"), problem))?;
            }
            let interrupted = event.interrupt.as_ref().map(|machines| ("interrupt", machines));
            let killed = event.kill.as_ref().map(|machines| ("kill", machines));
            for (action, machines) in interrupted.into_iter().chain(killed) {
                self.check_machines(&format!("events[{index}].{action}"), machines, catalogue);
            }
        }
        Ok(())
    }

    /// Says where no instance type or zone of the catalogue is meant: a node class may have a catalogue of its own.
    fn check_machines(&mut self, path: &str, machines: &Machines, catalogue: &Catalogue) {
        let types = catalogue.types();
        let is_of = |name: &str| machines.instance_type.as_deref().is_none_or(|own| own == name);
        if let Some(name) = machines.instance_type.as_ref().filter(|_| !types.iter().any(|own| is_of(&own.name))) {
            let problem = no_type(name, types.iter().map(|own| own.name.as_str()));
            self.warnings.push(format!("{path}.instanceType: {problem}"));
            return;
        }
        let Some(zone) = &machines.zone else { return };
        let offerings = types.iter().filter(|own| is_of(&own.name)).flat_map(|own| &own.offerings);
        let zones: BTreeSet<&str> = offerings.filter_map(|own| own.zone()).collect();
        if !zones.contains(zone.as_str()) {
            let known: Vec<&str> = zones.into_iter().collect();
            let known = known.join(", ");
            self.warnings.push(format!("{path}.zone: found {zone:?}, expected one that the catalogue offers: {known}"));
        }
    }

    /// The steps of an event: one, or one for each time that it happens.
    pub(super) fn event(
        &mut self,
        index: usize,
        event: &Event,
        duration: Duration,
        steps: &mut Vec<Step>,
    ) -> Result<(), SimulateError> {
        let path = format!("events[{index}]");
        let at = self.length(&format!("{path}.at"), &event.at)?;
        let action = self.action(&path, event)?;
        if at >= duration {
            self.warnings.push(format!("{path} is at the end or after it, so nothing comes of it"));
        }
        let every = match &event.every {
            None => None,
            Some(every) => {
                let length = self.length(&format!("{path}.every"), every)?;
                if length < Duration::from_secs(1) {
                    let message = format!("found {}, expected 1s or more", every.as_str());
                    return Err(self.wrong(&format!("{path}.every"), message).into());
                }
                Some(length)
            }
        };
        let mut until = duration;
        if let Some(text) = &event.until {
            let field = format!("{path}.until");
            let own = self.length(&field, text)?;
            if every.is_none() {
                return Err(self.wrong(&field, "expected together with every").into());
            }
            // An event after the end of the days is warned of above, whatever its own end is.
            if own < at {
                return Err(self.wrong(&field, format!("found {}, expected a time after at", text.as_str())).into());
            }
            until = until.min(own);
        }
        let mut time = at;
        // What is later than the end does not happen.
        while time <= until {
            if steps.len() >= MOST_STEPS {
                let message = format!("found more than {MOST_STEPS} things that happen, expected at most as many");
                return Err(self.wrong(&format!("{path}.every"), message).into());
            }
            let at = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            steps.push(Step { at, origin: Origin::Event(index), action: action.clone() });
            match every {
                Some(every) => time = time.saturating_add(every),
                None => break,
            }
        }
        Ok(())
    }

    /// Nothing of another kind can be there to be deleted.
    fn known_kind(&self, path: &str, delete: &scenario::Delete) -> Result<(), ManifestError> {
        let of_kind: Vec<&str> = berth_manifests::known_kinds()
            .filter(|(_, kind)| *kind == delete.kind)
            .map(|(api_version, _)| api_version)
            .collect();
        if of_kind.contains(&delete.api_version.as_str()) {
            return Ok(());
        }
        if !of_kind.is_empty() {
            let (found, expected) = (&delete.api_version, of_kind.join(" or "));
            let message = format!("found {found:?}, expected {expected} for kind {}", delete.kind);
            return Err(self.wrong(&format!("{path}.apiVersion"), message));
        }
        let hint = match berth_manifests::nearest(&delete.kind, berth_manifests::known_kinds().map(|(_, kind)| kind)) {
            Some(near) => format!(": did you mean {near}?"),
            None => String::new(),
        };
        let message =
            format!("found {:?}, expected a kind that is read, such as Deployment or NodePool{hint}", delete.kind);
        Err(self.wrong(&format!("{path}.kind"), message))
    }

    fn action(&mut self, path: &str, event: &Event) -> Result<Action, SimulateError> {
        let mut actions = Vec::new();
        if let Some(scale) = &event.scale {
            let most = u32::try_from(MOST_PODS).unwrap_or(u32::MAX);
            if scale.replicas > most {
                let message = format!("found {}, expected at most {most} pods", scale.replicas);
                return Err(self.wrong(&format!("{path}.scale.replicas"), message).into());
            }
            let (namespace, name) = (namespace_of(&scale.namespace).into(), scale.name.as_str().into());
            actions.push(Action::Scale { kind: scale.kind, namespace, name, replicas: scale.replicas });
        }
        if let Some(apply) = &event.apply {
            let mut objects = self.files(&format!("{path}.apply.manifests"), &apply.manifests)?;
            objects.extend(self.inline(&format!("{path}.apply.objects"), &apply.objects)?);
            if objects.is_empty() {
                return Err(self.wrong(&format!("{path}.apply"), "expected manifests or objects").into());
            }
            actions.push(Action::Apply(Arc::new(objects)));
        }
        if let Some(delete) = &event.delete {
            self.known_kind(&format!("{path}.delete"), delete)?;
            actions.push(Action::Delete {
                api_version: delete.api_version.as_str().into(),
                kind: delete.kind.as_str().into(),
                namespace: namespace_of(&delete.namespace).into(),
                name: delete.name.as_str().into(),
                may_be_gone: false,
                propagation: Propagation::Background,
            });
        }
        if let Some(reservation) = &event.reservation {
            if reservation.count.is_none() && reservation.used_by_others.is_none() {
                return Err(self.wrong(&format!("{path}.reservation"), "expected count or usedByOthers").into());
            }
            let (id, count) = (reservation.id.as_str().into(), reservation.count);
            actions.push(Action::Reservation { id, count, used_by_others: reservation.used_by_others });
        }
        if let Some(stock) = &event.stock {
            actions.push(Action::Stock(
                offering(&stock.instance_type, stock.zone.as_ref(), stock.capacity_type),
                stock.left,
            ));
        }
        if let Some(change) = &event.price {
            let price = self.money(&format!("{path}.price.dollars"), change.dollars)?;
            let offering = offering(&change.instance_type, change.zone.as_ref(), change.capacity_type);
            actions.push(Action::Price(offering, price));
        }
        if let Some(machines) = &event.interrupt {
            actions.push(Action::Interrupt(Arc::new(machines.clone())));
        }
        if let Some(machines) = &event.kill {
            actions.push(Action::Kill(Arc::new(machines.clone())));
        }
        let expected = "scale, apply, delete, reservation, stock, interrupt, kill or price";
        match actions.len() {
            1 => actions.pop().ok_or_else(|| self.wrong(path, expected).into()),
            0 => Err(self.wrong(path, format!("found no action, expected one of {expected}")).into()),
            n => Err(self.wrong(path, format!("found {n} actions, expected one of {expected}")).into()),
        }
    }
}
