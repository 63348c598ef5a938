//! What a scenario sets of the autoscaler: the field `settings`.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_controllers::{
    Ceilings, Effort, MaxShare, Options as Controllers, PreferencePolicy, SolveOptions, Timings, parse_max_share,
};
use berth_manifests::{ManifestError, SchedulerConfig};
use serde_json::Value;

use super::Loader;
use crate::error::SimulateError;
use crate::scenario::{self, Scenario};
use crate::world::NEVER;

/// What happens by itself does not happen more often.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// So much consolidation and drift look in a second: about a minute of a processor's time for each day.
const LOOK_PACE: u32 = 100;

// === impl Loader ===

impl Loader {
    pub(super) fn controllers(&self, scenario: &Scenario) -> Result<Controllers, SimulateError> {
        let settings = &scenario.settings;
        let mut controllers = Controllers::default();
        if let Some(gates) = &settings.feature_gates {
            controllers
                .convert
                .set_gates(gates)
                .map_err(|error| self.wrong("settings.featureGates", error.to_string()))?;
        }
        controllers.convert.preferences = settings.preference_policy.into();
        let node_cost = self.money("settings.nodeCost", settings.node_cost.unwrap_or(0.0))?;
        controllers.eviction_price = self.money("settings.evictionPrice", settings.eviction_price.unwrap_or(0.0))?;
        controllers.solve = SolveOptions {
            effort: settings.effort.into(),
            node_cost,
            gpu_types_for_any_pod: settings.gpu_types_for_any_pod,
            max_shares: self.max_shares(&settings.max_share)?,
            ..SolveOptions::default()
        };
        if let Some(written) = &settings.scheduler_config {
            let config = self.scheduler_config(written)?;
            (controllers.convert.reservations, controllers.convert.pod_topology_spread) =
                (config.reservations, config.spread);
        }
        controllers.ceilings = self.ceilings(settings)?;
        let look_pace = NonZeroU32::new(settings.look_pace.unwrap_or(LOOK_PACE));
        // What a cloud in memory says of an instance, and when pods came to a node that may go at once, does not change by
        // itself.
        let mut timings = Timings {
            look_pace,
            drift_period: None,
            pod_event_grain: NEVER,
            longest_silence: NEVER,
            ..Timings::default()
        };
        for (field, value, of) in [
            ("offersPeriod", &settings.offers_period, &mut timings.offers_period),
            ("exhaustedFor", &settings.exhausted_for, &mut timings.exhausted_for),
            ("launchTimeout", &settings.launch_timeout, &mut timings.launch_timeout),
            ("registrationTimeout", &settings.registration_timeout, &mut timings.registration_timeout),
        ] {
            if let Some(value) = value {
                let path = format!("settings.{field}");
                let length = self.length(&path, value)?;
                if length < SHORTEST_PERIOD {
                    let problem = format!("found {}, expected {SHORTEST_PERIOD:?} or more", value.as_str());
                    return Err(self.wrong(&path, problem).into());
                }
                *of = length;
            }
        }
        controllers.timings = timings;
        Ok(controllers)
    }

    fn max_shares(&self, written: &[String]) -> Result<Vec<MaxShare>, ManifestError> {
        let read = |(index, text): (usize, &String)| {
            let place = format!("settings.maxShare[{index}]");
            parse_max_share(text).map_err(|error| self.wrong(&place, error.to_string()))
        };
        written.iter().enumerate().map(read).collect()
    }

    fn scheduler_config(&self, written: &Value) -> Result<SchedulerConfig, SimulateError> {
        let field = "settings.schedulerConfig";
        if let Some(name) = written.as_str() {
            let path = self.folder.join(name);
            if !path.exists() {
                let problem = format!("found {name:?}, expected a file: there is none beside the scenario");
                return Err(self.wrong(field, problem).into());
            }
            return Ok(berth_manifests::read_scheduler_config(&path)?);
        }
        Ok(SchedulerConfig::of_value(field, written).map_err(|fault| self.file.fault_at(field, &fault))?)
    }

    fn ceilings(&self, settings: &scenario::Settings) -> Result<Ceilings, ManifestError> {
        let mut ceilings = Ceilings::default();
        for (field, n) in [("maxCost", settings.max_cost.len()), ("maxLaunches", settings.max_launches.len())] {
            if n > 2 {
                let message = format!("found {n} numbers, expected at most two: of each NodePool, and in all");
                return Err(self.wrong(&format!("settings.{field}"), message));
            }
        }
        for (index, (ceiling, most)) in ceilings.both_mut().into_iter().zip(&settings.max_cost).enumerate() {
            ceiling.dollars_per_hour = Some(self.money(&format!("settings.maxCost[{index}]"), *most)?);
        }
        for (ceiling, most) in ceilings.both_mut().into_iter().zip(&settings.max_launches) {
            ceiling.launches_per_hour = Some(*most);
        }
        Ok(ceilings)
    }
}

impl From<scenario::Effort> for Effort {
    fn from(effort: scenario::Effort) -> Self {
        match effort {
            scenario::Effort::Low => Self::Low,
            scenario::Effort::Default => Self::Default,
            scenario::Effort::High => Self::High,
        }
    }
}

impl From<scenario::PreferencePolicy> for PreferencePolicy {
    fn from(policy: scenario::PreferencePolicy) -> Self {
        match policy {
            scenario::PreferencePolicy::Respect => Self::Respect,
            scenario::PreferencePolicy::Ignore => Self::Ignore,
        }
    }
}
