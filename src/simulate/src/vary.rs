//! Variants of a scenario: the same days with something else in one place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::{ConsolidationPolicy, NillableDuration, NodePool};
use berth_controllers::{ConsolidationMethods, Effort, Options as Controllers, PreferencePolicy};
use berth_manifests::nearest;

use crate::check::is_price;
use crate::error::SimulateError;
use crate::load::Simulation;
use crate::outcome::Outcome;
use crate::scenario::Consolidation;

/// What can be varied, beside reservations and gates.
const KEYS: [&str; 6] = ["effort", "consolidation", "seed", "nodeCost", "evictionPrice", "preferencePolicy"];
/// The most variants that run at a time.
const MOST: usize = 64;

/// What is varied, as `KEY=VALUE,VALUE…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variation {
    text: String,
    key: Setting,
    values: Vec<String>,
}

/// How many instances a capacity reservation holds in a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many, at the start and in objects that are applied later.
    Of(u32),
    /// So many hundredths of what is written, rounded down, whenever that changes.
    Percent(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Setting {
    /// The count of a reservation.
    Reservation(String),
    /// A feature gate.
    Gate(String),
    Effort,
    Consolidation,
    Seed,
    NodeCost,
    EvictionPrice,
    PreferencePolicy,
}

// === impl Variation ===

impl std::str::FromStr for Variation {
    type Err = SimulateError;

    fn from_str(text: &str) -> Result<Self, SimulateError> {
        let wrong = |message: String| SimulateError::Vary { text: text.to_owned(), message };
        let Some((key, values)) = text.split_once('=') else {
            return Err(wrong("expected KEY=VALUE,VALUE, such as reservation.cr-web=0,20,40".to_owned()));
        };
        let key = match (key, key.split_once('.')) {
            (_, Some(("reservation", id))) if !id.is_empty() => Setting::Reservation(id.to_owned()),
            (_, Some(("gate", name))) if !name.is_empty() => Setting::Gate(name.to_owned()),
            ("effort", _) => Setting::Effort,
            ("consolidation", _) => Setting::Consolidation,
            ("seed", _) => Setting::Seed,
            ("nodeCost", _) => Setting::NodeCost,
            ("evictionPrice", _) => Setting::EvictionPrice,
            ("preferencePolicy", _) => Setting::PreferencePolicy,
            (other, _) => {
                let hint = nearest(other, KEYS).map_or(String::new(), |known| format!(": did you mean {known}?"));
                let message = format!(
                    "found {other:?}, expected reservation.ID, gate.NAME, effort, consolidation, seed, nodeCost, \
                     evictionPrice or preferencePolicy{hint}"
                );
                return Err(wrong(message));
            }
        };
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(wrong("expected a value after each comma".to_owned()));
        }
        let is_again = |(at, value): (usize, &String)| values.iter().take(at).any(|known| known == value);
        if let Some((_, value)) = values.iter().enumerate().find(|(at, value)| is_again((*at, value))) {
            return Err(wrong(format!("found {value} twice, expected each value once")));
        }
        Ok(Self { text: text.to_owned(), key, values })
    }
}

// === impl Count ===

impl Count {
    /// The most instances, and the most hundredths.
    const MOST: (u32, u32) = (1_000_000, 10_000);

    fn read(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(percent) => percent.parse::<u32>().ok().filter(|percent| *percent <= Self::MOST.1).map(Self::Percent),
            None => text.parse::<u32>().ok().filter(|count| *count <= Self::MOST.0).map(Self::Of),
        }
    }

    /// In place of what is written.
    pub(crate) fn instead_of(self, written: u32) -> u32 {
        match self {
            Self::Of(count) => count,
            Self::Percent(_) => self.part_of(written),
        }
    }

    /// What an event says, which a count leaves as it is.
    pub(crate) fn part_of(self, written: u32) -> u32 {
        match self {
            Self::Of(_) => written,
            Self::Percent(percent) => {
                let part = u64::from(written) * u64::from(percent) / 100;
                u32::try_from(part).map_or(Self::MOST.0, |part| part.min(Self::MOST.0))
            }
        }
    }
}

impl Variation {
    /// The simulation with one of the values.
    fn with(&self, simulation: &Simulation, value: &str) -> Result<Simulation, SimulateError> {
        let wrong = |message: String| SimulateError::Vary { text: self.text.clone(), message };
        let expected = |what: &str| wrong(format!("found {value:?}, expected {what}"));
        let money = || {
            let money = value.parse::<berth_catalogue::Money>().ok().filter(|money| is_price(*money));
            money.ok_or_else(|| expected("dollars an hour, 0 to 1000000"))
        };
        let mut varied = simulation.clone();
        let label = match &self.key {
            Setting::Reservation(id) => {
                let known = simulation.reservation_ids();
                if !known.contains(id) {
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let known =
                        if known.is_empty() { "none, as there is no reservation".to_owned() } else { known.join(", ") };
                    return Err(wrong(format!("there is no reservation {id}, expected one of {known}")));
                }
                let count = Count::read(value)
                    .ok_or_else(|| expected("a count, 0 to 1000000, or a percentage of what it is, 0% to 10000%"))?;
                varied.counts.insert(id.clone(), count);
                format!("{id}={value}")
            }
            Setting::Gate(name) => {
                let gates = format!("{name}={value}");
                varied.controllers.convert.set_gates(&gates).map_err(|error| wrong(error.to_string()))?;
                gates
            }
            Setting::PreferencePolicy => {
                varied.controllers.convert.preferences = match value {
                    "Respect" => PreferencePolicy::Respect,
                    "Ignore" => PreferencePolicy::Ignore,
                    _ => return Err(expected("Respect or Ignore")),
                };
                format!("preferencePolicy={value}")
            }
            Setting::Effort => {
                varied.controllers.solve.effort = match value {
                    "low" => Effort::Low,
                    "default" => Effort::Default,
                    "high" => Effort::High,
                    _ => return Err(expected("low, default or high")),
                };
                format!("effort={value}")
            }
            Setting::Consolidation => {
                varied.consolidation = match value {
                    "AsWritten" => Consolidation::AsWritten,
                    "Never" => Consolidation::Never,
                    "WhenEmpty" => Consolidation::WhenEmpty,
                    "WhenEmptyOrUnderutilized" => Consolidation::WhenEmptyOrUnderutilized,
                    "KarpentersMethods" => Consolidation::KarpentersMethods,
                    _ => {
                        let all = "AsWritten, Never, WhenEmpty, WhenEmptyOrUnderutilized or KarpentersMethods";
                        return Err(expected(all));
                    }
                };
                format!("consolidation={value}")
            }
            Setting::Seed => {
                varied.seed = value.parse().map_err(|_| expected("a whole number, 0 or more"))?;
                format!("seed={value}")
            }
            Setting::NodeCost => {
                varied.controllers.solve.node_cost = money()?;
                format!("nodeCost={value}")
            }
            Setting::EvictionPrice => {
                varied.controllers.eviction_price = money()?;
                format!("evictionPrice={value}")
            }
        };
        varied.name = if varied.name.is_empty() { label } else { format!("{} {label}", varied.name) };
        Ok(varied)
    }
}

/// Every combination of the variations' values; the simulation alone where nothing is varied.
///
/// # Errors
/// A value that its key does not take, a reservation that is not there, a key that is varied twice, or too many combinations.
pub fn variants(simulation: &Simulation, variations: &[Variation]) -> Result<Vec<Simulation>, SimulateError> {
    let mut all = vec![simulation.clone()];
    for (at, variation) in variations.iter().enumerate() {
        // The later of two would undo the earlier one, in variants of both names.
        if let Some(before) = variations.iter().take(at).find(|before| before.key == variation.key) {
            let message = format!("varies the same as --vary {}, expected all values in one list", before.text);
            return Err(SimulateError::Vary { text: variation.text.clone(), message });
        }
        let mut next = Vec::new();
        for base in &all {
            for value in &variation.values {
                next.push(variation.with(base, value)?);
            }
        }
        if next.len() > MOST {
            let message =
                format!("found {} variants together with what is before it, expected at most {MOST}", next.len());
            return Err(SimulateError::Vary { text: variation.text.clone(), message });
        }
        all = next;
    }
    Ok(all)
}

/// Runs simulations, so many at a time, each on a thread of its own. The outcomes are in the order of the simulations.
///
/// # Errors
/// The first error in this order.
pub fn run_all(simulations: &[Simulation], threads: usize) -> Result<Vec<Outcome>, SimulateError> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<OnceLock<_>> = simulations.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, simulations.len().max(1)) {
            scope.spawn(|| {
                while let Some((simulation, slot)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    simulations.get(index).zip(outcomes.get(index))
                } {
                    // Each index is taken once.
                    let _ = slot.set(simulation.run());
                }
            });
        }
    });
    outcomes.into_iter().filter_map(OnceLock::into_inner).collect()
}

impl Simulation {
    /// How the controllers act in this variant.
    pub(crate) fn controllers_as_varied(&self) -> Controllers {
        let mut controllers = self.controllers.clone();
        if self.consolidation == Consolidation::KarpentersMethods {
            controllers.consolidation = ConsolidationMethods::Karpenter;
        }
        controllers
    }
}

/// Sets what a NodePool says of consolidation.
pub(crate) fn set_consolidation(pool: &mut NodePool, consolidation: Consolidation) {
    let disruption = &mut pool.spec.disruption;
    match consolidation {
        Consolidation::AsWritten | Consolidation::KarpentersMethods => {}
        Consolidation::Never => disruption.consolidate_after = NillableDuration::Never,
        Consolidation::WhenEmpty => disruption.consolidation_policy = ConsolidationPolicy::WhenEmpty,
        Consolidation::WhenEmptyOrUnderutilized => {
            disruption.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_say_what_was_expected() {
        for (text, expected) in [
            ("efort=low", "did you mean effort?"),
            ("effort", "expected KEY=VALUE,VALUE"),
            ("effort=low,", "expected a value after each comma"),
            ("seed=1,2,1", "found 1 twice"),
        ] {
            let error = text.parse::<Variation>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("--vary {text}: ")) && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_percentage_is_of_what_is_written_and_a_count_in_place_of_it() {
        let count = |text: &str| Count::read(text).map(|count| (count.instead_of(7), count.part_of(7)));
        assert_eq!(["2", "50%", "0%", "100%"].map(count), [Some((2, 7)), Some((3, 3)), Some((0, 0)), Some((7, 7))]);
        for wrong in ["", "%", "-1", "-1%", "1.5", "1000001", "10001%", "50 %"] {
            assert_eq!(Count::read(wrong), None, "{wrong}");
        }
        assert_eq!(Count::Percent(10_000).part_of(u32::MAX), 1_000_000);
    }
}
