//! From files to a simulation that can be run.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_api::GoDuration;
use berth_catalogue::{Catalogue, MAX_PRICE, Money};
use berth_cloudprovider::ReservationAdoption;
use berth_cloudprovider_fake::cloud::{CloudConfig, CloudFaults};
use berth_controllers::{Ceilings, Effort, MaxShare, Options as Controllers, SolveOptions, Timings, parse_max_share};
use berth_manifests::{Input, ManifestError, Object, Problem, SchedulerConfig, Settings as File, Validate};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::act::keys;
use crate::check::{drop_repeated, is_price, reservation_id, unreadable_behaviour};
use crate::error::{SimulateError, shown};
use crate::population::{self, TooMany};
use crate::scenario::{self, API_VERSION, Adoption, Consolidation, Event, KIND, Scenario};
use crate::step::{Action, MOST_PODS, MOST_STEPS, Origin, Propagation, Step, offering};
use crate::trace;
use crate::vary::Count;
use crate::world::NEVER;

/// What happens by itself does not happen more often.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// So much consolidation and drift look in a second: about a minute of a processor's time for each day.
const LOOK_PACE: u32 = 100;
/// The longest simulation.
const LONGEST: Duration = Duration::from_secs(400 * 86_400);

/// A scenario with all that it refers to, ready to be run.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// What it is called in a comparison; empty for the scenario as it is written.
    pub(crate) name: String,
    pub(crate) file: File,
    pub(crate) start: Timestamp,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) objects: Vec<Object>,
    pub(crate) catalogue: Catalogue,
    pub(crate) reservation_prices: BTreeMap<String, Money>,
    /// Counts that take the place of those in catalogue and objects.
    pub(crate) counts: BTreeMap<String, Count>,
    pub(crate) cloud: CloudConfig,
    pub(crate) controllers: Controllers,
    pub(crate) consolidation: Consolidation,
    pub(crate) steps: Arc<Vec<Step>>,
    pub(crate) traces: Arc<Vec<String>>,
    /// Whether a NodePool is made where there is none.
    pub(crate) may_make_pool: bool,
    pub(crate) warnings: Vec<String>,
}

// === impl Simulation ===

impl Simulation {
    /// How long it lasts.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// Reads a scenario, and all that it refers to; or a trace, which is its own scenario.
    ///
    /// # Errors
    /// Names the file, the field, its line and what was expected.
    pub fn read(path: &Path) -> Result<Self, SimulateError> {
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        if trace::is_one(path) {
            let file = File::new(&path.display().to_string(), KIND, "");
            return Loader { file, folder, warnings: Vec::new() }.load_trace(path);
        }
        let file = File::open(path, KIND)?;
        let loader = Loader { file, folder, warnings: Vec::new() };
        let scenario: Scenario = loader.file.parse(API_VERSION)?;
        let duration = loader.length("duration", &scenario.duration)?;
        loader.load(&scenario, duration, None)
    }

    /// What was passed over.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The reservations of catalogue and objects, those that are applied later among them.
    pub(crate) fn reservation_ids(&self) -> BTreeSet<String> {
        let later = self.steps.iter().flat_map(|step| match &step.action {
            Action::Apply(objects) => objects.as_slice(),
            _ => &[],
        });
        let of_objects = self.objects.iter().chain(later).filter_map(reservation_id);
        self.catalogue.reservations().keys().cloned().chain(of_objects).collect()
    }

    /// Where a step is said.
    pub(crate) fn place(&self, origin: Origin) -> String {
        match origin {
            Origin::Event(index) => {
                let path = format!("events[{index}]");
                format!("{}: {path}", self.file.place(&path))
            }
            Origin::Trace(file, line) => {
                format!("{}:{line}", self.traces.get(file).map_or("trace", String::as_str))
            }
            Origin::Exported(file, event) => {
                format!("{}: events[{event}]", self.traces.get(file).map_or("trace", String::as_str))
            }
        }
    }
}

struct Loader {
    file: File,
    folder: PathBuf,
    warnings: Vec<String>,
}

// === impl Loader ===

impl Loader {
    /// A trace alone: what was recorded with it, or else an empty cluster, and no longer than it takes.
    fn load_trace(self, path: &Path) -> Result<Simulation, SimulateError> {
        let mut steps = Vec::new();
        let read = trace::read(path, 0, &mut steps)?;
        let duration = Duration::from_millis(read.end);
        let message = if duration.is_zero() {
            "expected something that happens, or an end, after second 0".to_owned()
        } else if duration > LONGEST {
            format!("found that it lasts {} seconds, expected at most {}", duration.as_secs(), LONGEST.as_secs())
        } else {
            String::new()
        };
        if !message.is_empty() {
            let (file, place) = (path.display().to_string(), "the whole file".to_owned());
            return Err(SimulateError::Trace { file, place, message });
        }
        let scenario = match &read.recorded {
            Some(recorded) => recorded.scenario.clone(),
            None => Scenario::default(),
        };
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        self.load(&scenario, duration, Some((name, steps, read)))
    }

    fn load(
        mut self,
        scenario: &Scenario,
        duration: Duration,
        alone: Option<(String, Vec<Step>, trace::Read)>,
    ) -> Result<Simulation, SimulateError> {
        let start = match &scenario.start {
            None => "2026-01-01T00:00:00Z".parse(),
            Some(text) => text.parse(),
        };
        let mut start: Timestamp = start.map_err(|_| {
            let found = scenario.start.as_deref().unwrap_or_default();
            self.wrong("start", format!("found {found:?}, expected a time such as 2026-01-31T12:00:00Z"))
        })?;
        if duration.is_zero() || duration > LONGEST {
            let found = duration.as_secs_f64();
            let message = format!("found {found} seconds, expected more than 0s, and at most 9600h");
            return Err(self.wrong("duration", message).into());
        }
        let mut objects = self.files("manifests", &scenario.manifests)?;
        objects.extend(self.inline("objects", &scenario.objects)?);
        let mut catalogue = match &scenario.instance_types {
            None => berth_cloudprovider_fake::catalogue(),
            Some(name) => self.catalogue(name)?,
        };
        let mut reservation_prices = BTreeMap::new();
        for (id, price) in &scenario.reservation_prices {
            reservation_prices.insert(id.clone(), self.money(&format!("reservationPrices.{id}"), *price)?);
        }
        let mut steps = Vec::new();
        self.check_offers(scenario, &catalogue)?;
        for (index, event) in scenario.events.iter().enumerate() {
            self.event(index, event, duration, &mut steps)?;
        }
        for (index, name) in scenario.traces.iter().enumerate() {
            let path = self.folder.join(name);
            if !path.exists() {
                let problem = format!("found {name:?}, expected a file: there is no {}", path.display());
                return Err(self.wrong(&format!("traces[{index}]"), problem).into());
            }
            self.warnings.extend(trace::read(&path, index, &mut steps)?.warnings);
        }
        let mut traces = scenario.traces.clone();
        let mut is_recorded = false;
        if let Some((name, of_trace, read)) = alone {
            start = read.start.unwrap_or(start);
            self.warnings.extend(read.warnings);
            if let Some(of_cloud) = read.recorded.as_ref().and_then(|recorded| recorded.catalogue.as_ref()) {
                let place = format!("{name}: line 1: catalogue");
                catalogue = berth_catalogue::read(of_cloud.to_string().as_bytes(), &place)?;
            }
            is_recorded = read.recorded.is_some();
            traces = vec![name];
            steps = of_trace;
        }
        if SignedDuration::try_from(duration).ok().and_then(|length| start.checked_add(length).ok()).is_none() {
            let message = format!("found {start}, expected a start from which the days end before the year 10000");
            return Err(self.wrong("start", message).into());
        }
        if steps.len() > MOST_STEPS {
            let message = format!("found {} things that happen, expected at most {MOST_STEPS}", steps.len());
            return Err(self.wrong("events", message).into());
        }
        // Stable: what happens at the same time happens in the order in which it is written.
        steps.sort_by_key(|step| step.at);
        self.warnings.extend(too_late(&steps, duration, &traces));
        if is_recorded {
            objects = objects_of_the_start(&mut steps);
        }
        self.warnings.extend(drop_repeated(&mut objects));
        self.warnings.extend(unreadable_behaviour(&objects, &steps));
        let cloud = self.cloud(scenario)?;
        let controllers = self.controllers(scenario)?;
        let mut simulation = Simulation {
            name: String::new(),
            file: self.file,
            start,
            duration,
            seed: scenario.seed,
            objects,
            catalogue,
            reservation_prices,
            counts: BTreeMap::new(),
            cloud,
            controllers,
            consolidation: scenario.settings.consolidation,
            steps: Arc::new(steps),
            traces: Arc::new(traces),
            may_make_pool: !is_recorded,
            warnings: self.warnings,
        };
        simulation.check_steps()?;
        let known = simulation.reservation_ids();
        for id in scenario.reservation_prices.keys().filter(|id| !known.contains(*id)) {
            let place = simulation.file.place(&format!("reservationPrices.{id}"));
            let warning = format!("{place}: reservationPrices.{id}: there is no reservation of this id");
            simulation.warnings.push(warning);
        }
        population::check(&simulation.objects, &simulation.steps).map_err(|TooMany { origin, pods }| {
            let place = origin.map_or_else(|| simulation.file.place("objects"), |origin| simulation.place(origin));
            let message = format!("found {pods} pods at the same time, expected at most {MOST_PODS}");
            SimulateError::Step { place, message }
        })?;
        simulation.check_names()?;
        Ok(simulation)
    }

    /// Events name what the catalogue offers.
    fn check_offers(&self, scenario: &Scenario, catalogue: &Catalogue) -> Result<(), SimulateError> {
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
        }
        Ok(())
    }

    fn wrong(&self, path: &str, message: impl Into<String>) -> ManifestError {
        self.file.fault(vec![Problem::new(path, message)])
    }

    fn length(&self, path: &str, duration: &GoDuration) -> Result<Duration, ManifestError> {
        duration
            .to_std()
            .ok_or_else(|| self.wrong(path, format!("found {}, expected a duration of 0s or more", duration.as_str())))
    }

    fn money(&self, path: &str, dollars: f64) -> Result<Money, ManifestError> {
        Money::from_f64(dollars).filter(|price| is_price(*price)).ok_or_else(|| {
            let found = shown(dollars);
            self.wrong(path, format!("found {found}, expected dollars an hour, 0 to {MAX_PRICE}"))
        })
    }

    fn chance(&self, path: &str, chance: Option<f64>) -> Result<f64, ManifestError> {
        let chance = chance.unwrap_or(0.0);
        if (0.0..=1.0).contains(&chance) {
            return Ok(chance);
        }
        Err(self.wrong(path, format!("found {chance}, expected a probability from 0 to 1")))
    }

    fn files(&mut self, path: &str, names: &[String]) -> Result<Vec<Object>, SimulateError> {
        for (index, name) in names.iter().enumerate() {
            if !self.folder.join(name).exists() {
                let problem = format!("found {name:?}, expected a file or folder: there is none beside the scenario");
                return Err(self.wrong(&format!("{path}[{index}]"), problem).into());
            }
        }
        let inputs: Vec<Input> = names.iter().map(|name| Input::Path(self.folder.join(name))).collect();
        let (objects, _, warnings) = berth_sandbox::read_inputs(&inputs, None, Validate::Strict)?;
        self.warnings.extend(warnings);
        Ok(objects)
    }

    fn inline(&self, path: &str, values: &[Value]) -> Result<Vec<Object>, SimulateError> {
        let mut objects = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let path = format!("{path}[{index}]");
            objects.extend(self.object(&path, value)?);
        }
        Ok(objects)
    }

    /// The objects of one value: one, or those of a List.
    fn object(&self, path: &str, value: &Value) -> Result<Vec<Object>, SimulateError> {
        let mut objects = Vec::new();
        let text = value.to_string();
        let read =
            berth_manifests::read_from(path, text.as_bytes(), &berth_manifests::Options::default(), |_, object| {
                objects.push(object);
                Ok::<(), ManifestError>(())
            });
        let summary = read.map_err(|fault| self.file.fault_at(path, &fault))?;
        if let Some((_, kind)) = summary.skipped.keys().next() {
            return Err(self.wrong(path, format!("found an object of kind {kind}, which nothing here needs")).into());
        }
        Ok(objects)
    }

    fn catalogue(&mut self, name: &str) -> Result<Catalogue, SimulateError> {
        let path = self.folder.join(name);
        let text = berth_manifests::read_file(&path)
            .map_err(|error| self.wrong("instanceTypes", format!("found {name:?}, which cannot be read: {error}")))?;
        let catalogue = berth_catalogue::read(&text, &path.display().to_string())?;
        self.warnings.extend(catalogue.warnings().iter().map(|warning| warning.message.clone()));
        Ok(catalogue)
    }

    fn cloud(&self, scenario: &Scenario) -> Result<CloudConfig, SimulateError> {
        let cloud = &scenario.cloud;
        let length = |field: &str, value: &Option<GoDuration>, default: Duration| match value {
            None => Ok(default),
            Some(value) => self.length(&format!("cloud.{field}"), value),
        };
        let usual = CloudConfig::default();
        let chance = |field: &str, chance| self.chance(&format!("cloud.{field}"), chance);
        Ok(CloudConfig {
            boot_delay: length("bootDelay", &cloud.boot_delay, Duration::from_secs(45))?,
            boot_jitter: length("bootJitter", &cloud.boot_jitter, Duration::ZERO)?,
            shutdown_delay: length("shutdownDelay", &cloud.shutdown_delay, usual.shutdown_delay)?,
            spot_notice: length("spotNotice", &cloud.spot_notice, usual.spot_notice)?,
            faults: CloudFaults {
                interrupted_within_an_hour: chance(
                    "spotInterruptionWithinAnHour",
                    cloud.spot_interruption_within_an_hour,
                )?,
                dies_within_an_hour: chance("deathWithinAnHour", cloud.death_within_an_hour)?,
                ..CloudFaults::default()
            },
            adoption: match cloud.reservation_adoption {
                Adoption::Never => ReservationAdoption::Never,
                Adoption::Relabel => ReservationAdoption::Relabel,
                Adoption::Group => ReservationAdoption::Group,
            },
            ..usual
        })
    }

    fn controllers(&self, scenario: &Scenario) -> Result<Controllers, SimulateError> {
        let settings = &scenario.settings;
        let mut controllers = Controllers::default();
        if let Some(gates) = &settings.feature_gates {
            controllers
                .convert
                .set_gates(gates)
                .map_err(|error| self.wrong("settings.featureGates", error.to_string()))?;
        }
        let node_cost = self.money("settings.nodeCost", settings.node_cost.unwrap_or(0.0))?;
        controllers.solve = SolveOptions {
            effort: effort(settings.effort),
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
        let mut timings = Timings { look_pace, drift_period: None, pod_event_grain: NEVER, ..Timings::default() };
        for (field, value, of) in [
            ("offersPeriod", &settings.offers_period, &mut timings.offers_period),
            ("exhaustedFor", &settings.exhausted_for, &mut timings.exhausted_for),
            ("launchTimeout", &settings.launch_timeout, &mut timings.launch_timeout),
            ("registrationTimeout", &settings.registration_timeout, &mut timings.registration_timeout),
        ] {
            if let Some(value) = value {
                *of = self.length(&format!("settings.{field}"), value)?.max(SHORTEST_PERIOD);
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

    /// The steps of an event: one, or one for each time that it happens.
    fn event(
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
            let (namespace, name) = (scale.namespace.as_str().into(), scale.name.as_str().into());
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
                namespace: delete.namespace.as_str().into(),
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

/// A sentence where a trace's last moments have something that would begin then: what goes at its end is no loss.
fn too_late(steps: &[Step], duration: Duration, traces: &[String]) -> Option<String> {
    let is_late = |step: &&Step| {
        u128::from(step.at) >= duration.as_millis()
            && !matches!(step.origin, Origin::Event(_))
            && !matches!(step.action, Action::Delete { .. })
    };
    let n = steps.iter().filter(is_late).count();
    let first = steps.iter().find(is_late)?;
    let (Origin::Trace(file, _) | Origin::Exported(file, _)) = first.origin else { return None };
    let (name, at) = (traces.get(file).map_or("trace", String::as_str), Duration::from_millis(first.at));
    let what = if n == 1 { "1 thing happens".to_owned() } else { format!("{n} things happen") };
    Some(format!("{name}: {what} at the end or after it, at {} s, so nothing comes of it", at.as_secs_f64()))
}

/// Takes the objects out of the steps that were there when a recording began.
fn objects_of_the_start(steps: &mut Vec<Step>) -> Vec<Object> {
    let mut objects = Vec::new();
    steps.retain(|step| match &step.action {
        Action::Apply(applied) if step.at == 0 => {
            objects.extend(applied.iter().cloned());
            false
        }
        _ => true,
    });
    objects
}

pub(crate) const fn effort(effort: scenario::Effort) -> Effort {
    match effort {
        scenario::Effort::Low => Effort::Low,
        scenario::Effort::Default => Effort::Default,
        scenario::Effort::High => Effort::High,
    }
}
