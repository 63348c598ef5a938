//! The recorder: what people and their tools do to a cluster, as a trace that can be played again.
//!
//! It watches what is asked for (workloads, pods without an owner, NodePools, Reservations, …) and what the fake cloud is
//! told, and writes a line for each change. What controllers make of it is no part of the trace: a replay makes its own.

mod changes;
mod kinds;
mod memory;
mod redact;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use berth_catalogue::{Catalogue, Money};
use berth_cloudprovider::{OfferingKey, ReservationAdoption};
use berth_cloudprovider_fake::cloud::{FakeCloud, MarketChange};
use berth_controllers::{Effort, Options as Controllers, PreferencePolicy};
use berth_manifests::SchedulerConfig;
use futures::stream::{BoxStream, SelectAll, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::trace::Lines;
pub(crate) use changes::merge;
use kinds::{CONFIG_MAP, KINDS, Kind};
use memory::{Memory, Noted};

/// What a recording begins with, and what a replay needs to know beside objects.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Decides names, ids and chance.
    pub seed: u64,
    /// How nodes are planned and how often the cloud is asked.
    pub controllers: Controllers,
    /// How long a machine takes to boot.
    pub boot_delay: Duration,
    /// How long pods take to stop that do not say so, where it is known.
    pub stop_delay: Option<Duration>,
    /// How running instances come under a reservation.
    pub adoption: ReservationAdoption,
    /// What it offers.
    pub catalogue: Catalogue,
}

impl From<&berth_sandbox::Options> for RecordOptions {
    fn from(options: &berth_sandbox::Options) -> Self {
        Self {
            seed: options.seed,
            controllers: options.controllers.clone(),
            boot_delay: options.boot_delay,
            stop_delay: Some(options.stop_delay),
            adoption: options.adoption,
            catalogue: options.catalogue.clone(),
        }
    }
}

/// What came of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Lines that were written.
    pub lines: u64,
}

/// A watch that fails is tried again after a while; one of a kind that the server does not know, too, since definitions
/// may be installed later.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// Records what is done to a cluster until `until`. What is there at the start is at second 0 of the trace.
///
/// # Errors
/// What the writer says; nothing more is recorded then.
pub async fn record(
    client: Client,
    cloud: FakeCloud,
    options: RecordOptions,
    writer: impl Write,
    until: impl Future<Output = ()>,
) -> io::Result<Recorded> {
    let (start, began) = (Instant::now(), cloud.now());
    let lines = Lines::begin_with(writer, &header(&options, began))?;
    let mut recorder = Recorder {
        client,
        cloud,
        lines,
        began,
        n_lines: 1,
        n_changes: 0,
        memory: Memory::default(),
        catalogues: BTreeMap::new(),
        to_watch: Vec::new(),
    };
    let mut watches = watch_all(&recorder.client);
    tokio::pin!(until);
    loop {
        tokio::select! {
            biased;
            Some((kind, event)) = watches.next() => {
                let at = start.elapsed();
                recorder.market()?;
                recorder.take(kind, event, at).await?;
                for map in recorder.to_watch.drain(..) {
                    watches.push(watch_map(&recorder.client, &map));
                }
                recorder.lines.flush()?;
            }
            () = &mut until => break,
        }
    }
    recorder.market()?;
    recorder.line(&json!({"at": seconds(start.elapsed()), "end": true}))?;
    recorder.lines.flush()?;
    Ok(Recorded { lines: recorder.n_lines })
}

/// What happens to objects.
type Watch = BoxStream<'static, (Kind, Event<DynamicObject>)>;

fn watch_all(client: &Client) -> SelectAll<Watch> {
    let watch = |kind: &Kind| watch(*kind, Api::all_with(client.clone(), &kind.resource()), watcher::Config::default());
    futures::stream::select_all(KINDS.iter().map(watch))
}

/// One ConfigMap of a node class.
fn watch_map(client: &Client, map: &MapName) -> Watch {
    let (namespace, name) = map;
    let api = Api::namespaced_with(client.clone(), namespace, &CONFIG_MAP.resource());
    watch(CONFIG_MAP, api, watcher::Config::default().fields(&format!("metadata.name={name}")))
}

fn watch(kind: Kind, api: Api<DynamicObject>, config: watcher::Config) -> Watch {
    let stream = watcher(api, config).backoff(Pause);
    stream.filter_map(move |event| async move { event.ok().map(|event| (kind, event)) }).boxed()
}

/// Namespace and name of a ConfigMap.
type MapName = (String, String);

/// A ConfigMap from which node classes take their instance types.
#[derive(Debug, Default)]
struct OfClasses {
    /// Those that node classes name.
    keys: BTreeSet<String>,
    /// As it was written.
    written: Option<BTreeMap<String, String>>,
}

struct Recorder<W> {
    client: Client,
    cloud: FakeCloud,
    lines: Lines<W>,
    /// What the cloud's clock showed at the start.
    began: Timestamp,
    n_lines: u64,
    /// How many changes of the market were written.
    n_changes: usize,
    memory: Memory,
    catalogues: BTreeMap<MapName, OfClasses>,
    /// Those of them that are not watched yet.
    to_watch: Vec<MapName>,
}

// === impl Recorder ===

impl<W: Write> Recorder<W> {
    fn line(&mut self, line: &Value) -> io::Result<()> {
        self.n_lines += 1;
        self.lines.line(line)
    }

    /// Writes what the cloud was told of stocks and prices.
    fn market(&mut self) -> io::Result<()> {
        let changes = self.cloud.market_changes(self.n_changes);
        self.n_changes += changes.len();
        for (time, key, change) in changes {
            let since = Duration::try_from(time.duration_since(self.began)).unwrap_or_default();
            let mut fields = offering(&key);
            let word = match change {
                MarketChange::Stock(left) => {
                    fields.extend(left.map(|left| ("left".to_owned(), left.into())));
                    "stock"
                }
                MarketChange::Price(price) => {
                    fields.insert("dollars".to_owned(), dollars(price));
                    "price"
                }
            };
            self.line(&json!({"at": seconds(since), word: fields}))?;
        }
        Ok(())
    }

    async fn take(&mut self, kind: Kind, event: Event<DynamicObject>, at: Duration) -> io::Result<()> {
        if kind == CONFIG_MAP {
            return match event {
                Event::InitApply(map) | Event::Apply(map) => {
                    let name = (map.namespace().unwrap_or_default(), map.name_any());
                    let data = map.data.get("data").cloned().map(serde_json::from_value).and_then(Result::ok);
                    self.write_map(&seconds(at), &name, data.unwrap_or_default())
                }
                Event::Delete(map) => {
                    let name = (map.namespace().unwrap_or_default(), map.name_any());
                    self.write_map(&seconds(at), &name, BTreeMap::new())
                }
                Event::Init | Event::InitDone => Ok(()),
            };
        }
        let mut noted = Vec::new();
        match event {
            Event::Init => self.memory.list_begins(kind),
            Event::InitApply(object) => self.memory.listed(kind, &object, &mut noted),
            Event::InitDone => self.memory.list_ends(kind, &mut noted),
            Event::Apply(object) => self.memory.applied(kind, &object, &mut noted),
            Event::Delete(object) => self.memory.deleted(kind, &object, &mut noted),
        }
        for one in noted {
            // What was there when the recording began was there at its start.
            let at = if one.is_of_the_start() { 0.0.into() } else { seconds(at) };
            self.write(at, one).await?;
        }
        Ok(())
    }

    async fn write(&mut self, at: Value, noted: Noted) -> io::Result<()> {
        match noted {
            Noted::Applied { object, .. } => {
                self.write_catalogue_of(&object, &at).await?;
                self.line(&json!({"at": at, "apply": object}))
            }
            Noted::Scaled { kind, namespace, name, replicas } => {
                let scale = json!({"kind": kind, "namespace": namespace, "name": name, "replicas": replicas});
                self.line(&json!({"at": at, "scale": scale}))
            }
            Noted::Template { name, pod } => self.lines.template(&name, &pod),
            Noted::Created { template, name, .. } => self.line(&json!({"at": at, "create": template, "name": name})),
            Noted::Patched { kind, namespace, name, patch } => {
                let fields = json!({"apiVersion": kind.api_version, "kind": kind.kind, "namespace": namespace, "name": name,
                    "ifThere": true, "fields": patch});
                self.line(&json!({"at": at, "patch": fields}))
            }
            Noted::Deleted { kind, namespace, name, orphans } => {
                let mut fields =
                    json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "ifThere": true});
                if let Some(fields) = fields.as_object_mut().filter(|_| !namespace.is_empty()) {
                    fields.insert("namespace".to_owned(), namespace.into());
                }
                if let Some(fields) = fields.as_object_mut().filter(|_| orphans) {
                    fields.insert("propagationPolicy".to_owned(), "Orphan".into());
                }
                self.line(&json!({"at": at, "delete": fields}))
            }
            Noted::Ran { kind, namespace, name, millis } => {
                let seconds = seconds(Duration::from_millis(millis));
                let ran = json!({"kind": kind, "namespace": namespace, "name": name, "seconds": seconds});
                self.line(&json!({"at": at, "ran": ran}))
            }
        }
    }

    /// Writes the ConfigMap with the catalogue of a node class, and follows it from now on.
    async fn write_catalogue_of(&mut self, object: &Value, at: &Value) -> io::Result<()> {
        let reference = object.pointer("/spec/instanceTypes");
        let Some(reference) = reference.filter(|_| object.get("kind").is_some_and(|kind| kind == "FakeNodeClass"))
        else {
            return Ok(());
        };
        let text = |field: &str| reference.get(field).and_then(Value::as_str).map(str::to_owned);
        let (Some(namespace), Some(name), Some(key)) = (text("namespace"), text("name"), text("key")) else {
            return Ok(());
        };
        let of_map = (namespace, name);
        if !self.catalogues.contains_key(&of_map) {
            self.to_watch.push(of_map.clone());
        }
        self.catalogues.entry(of_map.clone()).or_default().keys.insert(key);
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &of_map.0);
        match api.get_opt(&of_map.1).await {
            Ok(Some(map)) => self.write_map(at, &of_map, map.data.unwrap_or_default()),
            // It may come later.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Writes what node classes take from a ConfigMap, where that has changed.
    fn write_map(&mut self, at: &Value, of_map: &MapName, mut data: BTreeMap<String, String>) -> io::Result<()> {
        let Some(known) = self.catalogues.get_mut(of_map) else { return Ok(()) };
        data.retain(|key, _| known.keys.contains(key));
        let was_there = known.written.as_ref().is_some_and(|written| !written.is_empty());
        if known.written.as_ref() == Some(&data) || (data.is_empty() && !was_there) {
            return Ok(());
        }
        known.written = Some(data.clone());
        let (namespace, name) = of_map;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": data});
        self.line(&json!({"at": at, "apply": map}))
    }
}

fn header(options: &RecordOptions, start: Timestamp) -> Value {
    let RecordOptions { seed, controllers, boot_delay, stop_delay, adoption, catalogue } = options;
    let gates = &controllers.convert;
    let gates = [
        ("ReservedCapacity", gates.reserved_capacity),
        ("NodeOverlay", gates.node_overlay),
        ("StaticCapacity", gates.static_capacity),
        ("SpotToSpotConsolidation", gates.spot_to_spot_consolidation),
        ("NodeRepair", gates.node_repair),
    ];
    let gates: Vec<String> = gates.iter().map(|(name, is_on)| format!("{name}={is_on}")).collect();
    let effort = match controllers.solve.effort {
        Effort::Low => "low",
        Effort::High => "high",
        Effort::Default => "default",
    };
    let mut settings = json!({
        "effort": effort,
        "nodeCost": dollars(controllers.solve.node_cost),
        "gpuTypesForAnyPod": controllers.solve.gpu_types_for_any_pod,
        "featureGates": gates.join(","),
        "offersPeriod": length(controllers.timings.offers_period),
        "exhaustedFor": length(controllers.timings.exhausted_for),
    });
    if let Some(settings) = settings.as_object_mut() {
        settings.extend(where_not_usual(controllers));
    }
    let mut cloud = json!({"bootDelay": length(*boot_delay), "reservationAdoption": adoption});
    if let (Some(stop_delay), Some(cloud)) = (stop_delay, cloud.as_object_mut()) {
        cloud.insert("podStopDelay".to_owned(), length(*stop_delay).into());
    }
    // It was read from such a text.
    let catalogue: Value =
        catalogue.to_json().ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    json!({"start": start.to_string(), "scenario": {"seed": seed, "settings": settings, "cloud": cloud},
        "catalogue": catalogue})
}

/// Settings that most clusters leave as they are.
fn where_not_usual(controllers: &Controllers) -> Map<String, Value> {
    let (usual, mut settings) = (Controllers::default(), Map::new());
    let mut set = |field: &str, value: Value| settings.insert(field.to_owned(), value);
    if controllers.eviction_price != usual.eviction_price {
        set("evictionPrice", dollars(controllers.eviction_price));
    }
    let (ceilings, of_usual) = (controllers.ceilings.both(), usual.ceilings.both());
    let costs: Vec<Value> = ceilings.iter().map_while(|own| own.dollars_per_hour.map(dollars)).collect();
    if !costs.is_empty() {
        set("maxCost", costs.into());
    }
    if ceilings.iter().zip(of_usual).any(|(own, usual)| own.launches_per_hour != usual.launches_per_hour) {
        let launches: Vec<u32> = ceilings.iter().map_while(|own| own.launches_per_hour).collect();
        set("maxLaunches", launches.into());
    }
    if controllers.convert.preferences == PreferencePolicy::Ignore {
        set("preferencePolicy", "Ignore".into());
    }
    if !controllers.solve.max_shares.is_empty() {
        let shares: Vec<String> = controllers.solve.max_shares.iter().map(ToString::to_string).collect();
        set("maxShare", shares.into());
    }
    let (reservations, spread) = (&controllers.convert.reservations, &controllers.convert.pod_topology_spread);
    let config = SchedulerConfig { reservations: reservations.clone(), spread: spread.clone() };
    if let Some(config) = config.to_value() {
        set("schedulerConfig", config);
    }
    let (timings, of_usual) = (&controllers.timings, &usual.timings);
    for (field, own, usual) in [
        ("launchTimeout", timings.launch_timeout, of_usual.launch_timeout),
        ("registrationTimeout", timings.registration_timeout, of_usual.registration_timeout),
    ] {
        if own != usual {
            set(field, length(own).into());
        }
    }
    settings
}

fn length(length: Duration) -> String {
    format!("{}ms", length.as_millis())
}

fn offering(key: &OfferingKey) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("instanceType".to_owned(), key.instance_type.as_str().into());
    fields.extend(key.zone.as_ref().map(|zone| ("zone".to_owned(), zone.as_str().into())));
    fields.insert("capacityType".to_owned(), key.capacity_type.as_str().into());
    fields
}

fn dollars(money: Money) -> Value {
    money.dollars().into()
}

/// Seconds, to the millisecond.
fn seconds(duration: Duration) -> Value {
    (Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()).into()
}
