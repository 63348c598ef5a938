//! From files to a simulation that can be run.

mod events;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_api::GoDuration;
use berth_catalogue::{Catalogue, MAX_PRICE, Money};
use berth_cloudprovider::ReservationAdoption;
use berth_cloudprovider_fake::cloud::{CloudConfig, CloudFaults};
use berth_controllers::Options as Controllers;
use berth_kubelet::KubeletConfig;
use berth_manifests::{Input, ManifestError, Object, Problem, Settings as File};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::check::{drop_repeated, is_price, over_used, reservation_id, unreadable_behaviour};
use crate::error::{SimulateError, shown};
use crate::population::{self, Asked, TooMany};
use crate::scenario::{API_VERSION, Adoption, Consolidation, KIND, Scenario};
use crate::step::{Action, MOST_PODS, MOST_STEPS, Origin, Step};
use crate::trace;
use crate::vary::Count;

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
    /// What the catalogue is called.
    pub(crate) catalogue_name: String,
    /// The files and folders of its objects, as the scenario names them.
    pub(crate) manifests: Vec<String>,
    pub(crate) reservation_prices: BTreeMap<String, Money>,
    /// Counts that take the place of those in catalogue and objects.
    pub(crate) counts: BTreeMap<String, Count>,
    pub(crate) cloud: CloudConfig,
    /// How long pods take to stop that do not say so.
    pub(crate) stop_delay: Duration,
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

// === impl Simulation ===

impl Simulation {
    /// That too many pods are asked for: by which field, where it is one of the scenario's own.
    fn too_many(&self, TooMany { origin, object, pods }: &TooMany, scenario: &Scenario) -> SimulateError {
        let within = |list: &str, values: &[Value]| {
            let object = object.as_ref()?;
            let index = values.iter().rposition(|value| object.is(value))?;
            Some(format!("{list}[{index}].{}", object.field))
        };
        let field = match origin {
            None => within("objects", &scenario.objects),
            Some(Origin::Event(index)) => {
                scenario.events.get(*index).and_then(|event| match (&event.scale, &event.apply) {
                    (Some(_), _) => Some(format!("events[{index}].scale.replicas")),
                    (_, Some(apply)) => within(&format!("events[{index}].apply.objects"), &apply.objects),
                    _ => None,
                })
            }
            Some(_) => None,
        };
        let asked = object.as_ref().map_or(*pods, |object| object.pods);
        let of = match object {
            Some(Asked { kind, namespace, name, field: own, .. }) if field.is_none() => {
                format!(" as {own} of {kind} {namespace}/{name}")
            }
            _ => String::new(),
        };
        let all = if asked < *pods { format!(", which makes {pods} pods at the same time") } else { String::new() };
        let message = format!("found {asked}{of}{all}, expected at most {MOST_PODS} pods at the same time");
        match (field, origin) {
            (Some(field), _) => self.file.fault(vec![Problem::new(field, message)]).into(),
            (None, Some(origin)) => SimulateError::Step { place: self.place(*origin), message },
            // Of files, or of what was recorded.
            (None, None) => SimulateError::Step { place: self.file.place("manifests"), message },
        }
    }
}

/// Reads one scenario; its faults name the file and the field.
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
        let mut start = self.start(scenario)?;
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
        let mut catalogue_name =
            scenario.instance_types.clone().unwrap_or_else(|| "the fake provider's (invented prices)".to_owned());
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
                catalogue_name = format!("recorded in {name}");
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
        self.warnings.extend(over_used(&objects, &steps));
        let cloud = self.cloud(scenario)?;
        let stop_delay = match &scenario.cloud.pod_stop_delay {
            None => KubeletConfig::default().stop_delay,
            Some(own) => self.length("cloud.podStopDelay", own)?,
        };
        let controllers = self.controllers(scenario)?;
        let mut simulation = Simulation {
            name: String::new(),
            file: self.file,
            start,
            duration,
            seed: scenario.seed,
            objects,
            catalogue,
            catalogue_name,
            manifests: scenario.manifests.clone(),
            reservation_prices,
            counts: BTreeMap::new(),
            cloud,
            stop_delay,
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
        population::check(&simulation.objects, &simulation.steps)
            .map_err(|too_many| simulation.too_many(&too_many, scenario))?;
        simulation.check_names()?;
        Ok(simulation)
    }

    fn start(&self, scenario: &Scenario) -> Result<Timestamp, SimulateError> {
        let text = scenario.start.as_deref().unwrap_or("2026-01-01T00:00:00Z");
        let wrong = format!("found {text:?}, expected a time such as 2026-01-31T12:00:00Z");
        text.parse().map_err(|_| self.wrong("start", wrong).into())
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
        let (objects, _, warnings) = berth_sandbox::read_inputs(&inputs, None, berth_sandbox::Reading::default())?;
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
