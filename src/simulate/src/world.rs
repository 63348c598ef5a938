//! The cluster in virtual time: what happens is done when its time comes, and watched.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{FakeCapacityReservation, FakeNodeClass, NodePool, labels};
use berth_cloudprovider::ProviderId;
use berth_cloudprovider_fake::cloud::{CloudEvent, FakeCloud, FakeReservation};
use berth_kubelet::KubeletConfig;
use berth_sandbox::{Bridge, Parts, PartsOptions, PriceSeen};
use berth_slim::PodStatus;
use futures::stream::{BoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, Object};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::act;
use crate::check::missing_namespaces;
use crate::error::SimulateError;
use crate::kept_out::{self, KeptOut};
use crate::load::Simulation;
use crate::lost;
use crate::meter::{Meter, SlotPrices};
use crate::names;
use crate::not_made;
use crate::outcome::{Outcome, Sample};
use crate::record::merge;
use crate::scenario::Consolidation;
use crate::step::{Action, Arrival};
use crate::waits::{Told, Waits};

/// Longer than any simulation: what healthy nodes would write is implied.
pub(crate) const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// So many points a plot has.
const SAMPLES: u32 = 480;
/// The shortest time between two of them.
const SHORTEST_SAMPLE: Duration = Duration::from_secs(10);

/// The little of a pod that is looked at.
type SeenPod = Object<SeenSpec, PodStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenSpec {
    node_name: Option<String>,
}

/// A pod of a trace that is there.
#[derive(Debug, Clone)]
pub(crate) struct TracePod {
    arrival: Arrival,
    /// One that came again has the name of the one before, of which a watch may still tell.
    uid: String,
    bound_at: Option<Instant>,
}

/// A pod of a trace whose time is over, or that has lost its place and comes again with the time that it had left.
#[derive(Debug)]
struct Over {
    namespace: String,
    name: String,
    is_gone: bool,
    again: Option<Arrival>,
}

// === impl TracePod ===

impl TracePod {
    pub(crate) const fn new(arrival: Arrival, uid: String) -> Self {
        Self { arrival, uid, bound_at: None }
    }

    /// What is left of it to run.
    fn left(self, now: Instant) -> Arrival {
        let ran = self.bound_at.map_or(0, |since| u64::try_from((now - since).as_millis()).unwrap_or(u64::MAX));
        let runs_for = self.arrival.runs_for.map(|time| time.saturating_sub(ran).max(1));
        Arrival { runs_for, ..self.arrival }
    }
}

/// Who looks on while the time of a scenario passes. It is called on the simulation's own runtime, whose clock is virtual.
pub trait Onlooker {
    /// The cluster is there, with the objects that it begins with.
    fn begin(&mut self, client: &Client, cloud: &FakeCloud);

    /// Something happened in the cloud, which is what decisions come to.
    fn happened(&mut self, at: Timestamp, event: &CloudEvent);

    /// An event of the scenario has its effect, in words.
    fn step(&mut self, what: &str);

    /// The time is over.
    fn end(&mut self);
}

/// Nobody.
struct NoOne;

impl Onlooker for NoOne {
    fn begin(&mut self, _: &Client, _: &FakeCloud) {}
    fn happened(&mut self, _: Timestamp, _: &CloudEvent) {}
    fn step(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// Something that a watch has seen.
enum Seen {
    Pod(Event<SeenPod>),
    Class(Event<FakeNodeClass>),
    Slots(Event<FakeCapacityReservation>),
    Price(PriceSeen),
}

impl Simulation {
    /// Lets the time of the scenario pass, on a thread of its own runtime. Time costs nothing where nothing happens.
    ///
    /// # Errors
    /// An object is refused, or something is to be done to what is not there.
    pub fn run(&self) -> Result<Outcome, SimulateError> {
        self.run_watched(&mut NoOne)
    }

    /// As [`run`](Self::run), while somebody looks on. That changes nothing of the outcome.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(&self, onlooker: &mut dyn Onlooker) -> Result<Outcome, SimulateError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(SimulateError::Runtime)?;
        runtime.block_on(World::play(self, onlooker))
    }
}

/// The cluster, and what is known of it.
pub(crate) struct World<'s> {
    simulation: &'s Simulation,
    pub(crate) parts: Parts,
    pub(crate) bridge: Bridge,
    start: Instant,
    pub(crate) meter: Meter,
    pub(crate) waits: Waits,
    /// When machines were launched, by the names of their nodes.
    launched_at: FxHashMap<String, Timestamp>,
    /// Machines that died and are not terminated yet.
    pub(crate) dead: BTreeSet<ProviderId>,
    /// Machines without power: when their silence is noticed, and their nodes.
    silent: BTreeSet<(Instant, String)>,
    /// Pods of traces, by namespace and name.
    pub(crate) of_trace: FxHashMap<(String, String), TracePod>,
    /// Reservations that have begun with another count than what is written.
    pub(crate) varied: BTreeSet<String>,
    /// Pods of traces that have ended, or have gone before they did.
    over: Vec<Over>,
    /// Pods of traces that a quota keeps out.
    pub(crate) kept_out: KeptOut,
    samples: Vec<Sample>,
    /// What could not be done as the scenario says, and is no error.
    pub(crate) notes: Vec<String>,
    pub(crate) n_interrupted: u64,
    pub(crate) n_died: u64,
    pub(crate) n_refused: u64,
}

// === impl World ===

impl<'s> World<'s> {
    async fn play(simulation: &'s Simulation, onlooker: &mut dyn Onlooker) -> Result<Outcome, SimulateError> {
        let mut world = Self::start(simulation).await?;
        onlooker.begin(&world.parts.client, &world.parts.cloud);
        let mut watches = watch_all(&world.parts.client, world.has_overlays());
        let end = world.start + simulation.duration;
        let interval = (simulation.duration / SAMPLES).max(SHORTEST_SAMPLE);
        let mut next_sample = world.start;
        let mut steps = simulation.steps.iter().peekable();
        loop {
            let due = steps.peek().map(|step| world.start + Duration::from_millis(step.at));
            let noticed = world.silent.first().map(|(at, _)| *at);
            let tried = world.kept_out.try_at();
            let wake = [due, noticed, tried].into_iter().flatten().fold(next_sample, Instant::min).min(end);
            tokio::select! {
                biased;
                Some(event) = world.parts.happened.recv() => {
                    onlooker.happened(world.parts.cloud.now(), &event);
                    world.happened(event);
                }
                Some(seen) = watches.next() => world.seen(seen).await,
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    world.advance();
                    if now >= end {
                        break;
                    }
                    if noticed.is_some_and(|noticed| noticed <= now) {
                        world.notice_silence(now).await;
                    }
                    if tried.is_some_and(|tried| tried <= now) {
                        kept_out::try_again(&mut world).await;
                    }
                    while let Some(step) = steps.next_if(|step| world.start + Duration::from_millis(step.at) <= now) {
                        if let Some(what) = step.in_words() {
                            onlooker.step(&what);
                        }
                        act::perform(&mut world, step).await.map_err(|message| {
                            SimulateError::Step { place: simulation.place(step.origin), message }
                        })?;
                    }
                    if next_sample <= now {
                        world.sample();
                        next_sample = now + interval;
                    }
                }
            }
            // What came together is taken in together.
            for over in std::mem::take(&mut world.over) {
                world.end(over).await;
            }
        }
        world.sample();
        world.notes.extend(world.kept_out.note());
        let not_made = not_made::all(&world.parts.client, world.parts.cloud.now()).await;
        let not_made = not_made
            .map_err(|error| SimulateError::Step { place: "the end".to_owned(), message: error.to_string() })?;
        onlooker.end();
        Ok(Outcome::new(simulation, world.parts.cloud.now(), &world.meter, &world.waits, world.samples)
            .with_counts(world.notes, [world.n_interrupted, world.n_died, world.n_refused])
            .with_not_made(not_made))
    }

    async fn start(simulation: &'s Simulation) -> Result<Self, SimulateError> {
        let kubelets = KubeletConfig {
            lease_renewal: NEVER,
            status_report: NEVER,
            tells_starting: false,
            stop_delay: simulation.stop_delay,
            ..KubeletConfig::default()
        };
        let built_in = berth_controller_manager::Timings {
            node_monitor_grace_period: NEVER,
            ..berth_controller_manager::Timings::default()
        };
        let parts = Parts::start(PartsOptions {
            seed: simulation.seed,
            catalogue: simulation.catalogue.clone(),
            cloud: simulation.cloud.clone(),
            kubelets,
            built_in,
            controllers: simulation.controllers_as_varied(),
            is_lean: true,
            ..PartsOptions::new(simulation.start)
        })
        .await?;
        for (id, definition) in parts.cloud.reservation_definitions() {
            if let Some(count) = simulation.counts.get(&id) {
                let total = count.instead_of(definition.total);
                parts.cloud.set_reservation(&id, FakeReservation { total, ..definition });
            }
        }
        // Node classes are read with their catalogues, and both are there from the start.
        for step in simulation.steps.iter().take_while(|step| step.at == 0) {
            if let Action::Catalogue(map) = &step.action {
                act::write_catalogue(&parts.client, map)
                    .await
                    .map_err(|message| SimulateError::Step { place: simulation.place(step.origin), message })?;
            }
        }
        let mut varied = BTreeSet::new();
        let objects = act::as_varied(simulation, &simulation.objects, &mut varied);
        let later = names::applied_later(&simulation.steps);
        let is_applied_again = |object: &_| later.contains(&names::id_of(object));
        let begun = parts.begin_applying(&objects, simulation.may_make_pool, &is_applied_again).await?;
        if begun.made_pool {
            vary_made_pool(&parts.client, simulation.consolidation).await.map_err(|error| SimulateError::Step {
                place: "NodePool default".to_owned(),
                message: error.to_string(),
            })?;
        }
        berth_sandbox::apply_objects(&parts.client, &missing_namespaces(simulation)).await?;
        let mut notes = Vec::new();
        for passed_over in begun.passed_over {
            notes.push(format!("{passed_over} is passed over: the cluster has no such resource"));
        }
        notes.extend(begun.disagreements);
        notes.extend(nodes_without_instances(&simulation.objects));
        if begun.made_pool {
            notes.push(
                "no NodePool is among the objects: NodePool default is made, which is open to linux on amd64"
                    .to_owned(),
            );
        }
        let bridge = Bridge::new(parts.client.clone(), parts.cloud.clone(), true);
        let mut world = Self {
            simulation,
            bridge,
            start: Instant::now(),
            meter: Meter::new(simulation.start),
            waits: Waits::default(),
            launched_at: FxHashMap::default(),
            dead: BTreeSet::new(),
            silent: BTreeSet::new(),
            varied,
            of_trace: FxHashMap::default(),
            over: Vec::new(),
            kept_out: KeptOut::default(),
            samples: Vec::new(),
            notes,
            n_interrupted: 0,
            n_died: 0,
            n_refused: 0,
            parts,
        };
        if world.has_overlays() {
            world.bridge.begin_prices(&simulation.objects);
        }
        world.define_reservations();
        Ok(world)
    }

    /// Whether NodeOverlays change prices.
    const fn has_overlays(&self) -> bool {
        self.simulation.controllers.convert.node_overlay
    }

    pub(crate) const fn simulation(&self) -> &'s Simulation {
        self.simulation
    }

    /// Adds up what went on until now.
    pub(crate) fn advance(&mut self) {
        let now = self.parts.cloud.now();
        self.meter.advance(now);
        self.waits.advance(now);
    }

    /// Takes in what reservations there are.
    pub(crate) fn define_reservations(&mut self) {
        self.advance();
        let definitions = self.parts.cloud.reservation_definitions();
        let catalogue = self.parts.cloud.overlaid_catalogue();
        // What was cancelled holds nothing any more.
        let gone: Vec<String> =
            self.meter.reservations.keys().filter(|id| !definitions.contains_key(*id)).cloned().collect();
        for id in gone {
            self.meter.define(&id, FakeReservation::default(), SlotPrices::default());
        }
        for (id, definition) in definitions {
            let prices = act::slot_prices(self.simulation, &catalogue, (&id, &definition));
            let is_new = !self.meter.reservations.contains_key(&id);
            if is_new && definition.total > 0 && !prices.are_known() {
                self.notes.push(format!(
                    "reservation {id}: the catalogue knows no price of {}: its slots cost nothing until one is launched",
                    definition.instance_types.join(", ")
                ));
            }
            self.meter.define(&id, definition, prices);
        }
    }

    fn happened(&mut self, event: CloudEvent) {
        self.advance();
        let cloud = &self.parts.cloud;
        match event {
            CloudEvent::Launched { instance, .. } => {
                if let Some(prices) = cloud.prices(&instance.provider_id) {
                    self.meter.launched(&instance, prices);
                }
            }
            CloudEvent::Refused { .. } => self.n_refused += 1,
            CloudEvent::Booted(machine) => {
                self.launched_at.insert(machine.node_name.clone(), machine.instance.launched_at);
                self.parts.kubelets.join(berth_sandbox::node_spec(*machine));
            }
            CloudEvent::Interrupted { .. } => self.n_interrupted += 1,
            CloudEvent::Relabelled { instance, .. } => {
                if let Some(prices) = cloud.prices(&instance.provider_id) {
                    self.meter.relabelled(&instance, prices);
                }
            }
            CloudEvent::Stopped { provider_id, node_name, died } => {
                self.parts.kubelets.power_off(&node_name);
                if died {
                    self.n_died += 1;
                    self.dead.insert(provider_id);
                }
                self.silent.insert((Instant::now() + lost::GRACE, node_name));
            }
            CloudEvent::Terminated(id) => {
                self.dead.remove(&id);
                self.meter.stop(&id);
            }
        }
    }

    async fn seen(&mut self, seen: Seen) {
        match seen {
            Seen::Pod(Event::Apply(pod) | Event::InitApply(pod)) => self.pod(&pod, false),
            Seen::Pod(Event::Delete(pod)) => {
                // Its last state may tell more than the one before.
                self.pod(&pod, true);
                self.waits.gone(pod.metadata.uid.as_deref().unwrap_or_default(), self.parts.cloud.now());
            }
            Seen::Class(Event::Apply(class) | Event::InitApply(class)) => self.bridge.class_applied(&class).await,
            Seen::Class(Event::Delete(class)) => self.bridge.class_deleted(&class.name_any()),
            Seen::Slots(Event::Apply(own) | Event::InitApply(own)) => {
                self.bridge.reservation_applied(&own);
                self.define_reservations();
            }
            Seen::Slots(Event::Delete(own)) => {
                self.bridge.reservation_deleted(&own.name_any());
                self.define_reservations();
            }
            Seen::Price(seen) => {
                self.bridge.price_changed(seen);
                act::reprice(self);
            }
            // The watches are of this process and miss nothing.
            Seen::Pod(Event::Init | Event::InitDone)
            | Seen::Class(Event::Init | Event::InitDone)
            | Seen::Slots(Event::Init | Event::InitDone) => {}
        }
    }

    fn pod(&mut self, pod: &SeenPod, is_gone: bool) {
        self.advance();
        let status = pod.status.as_ref();
        let is_ended = status.is_some_and(PodStatus::has_ended);
        let node = pod.spec.node_name.as_deref();
        let told = Told {
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            node,
            is_ended,
            is_evicted: status.is_some_and(PodStatus::is_evicted),
            is_daemon: pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet"),
            unschedulable: status.and_then(PodStatus::unschedulable),
        };
        let launched_at = node.and_then(|node| self.launched_at.get(node)).copied();
        self.waits.pod(told, launched_at, self.parts.cloud.now());
        if is_ended || is_gone {
            self.kept_out.one_left();
        }
        if self.of_trace.is_empty() {
            return;
        }
        let name = (pod.namespace().unwrap_or_default(), pod.name_any());
        let now = Instant::now();
        let of_this = self.of_trace.get_mut(&name).filter(|known| pod.metadata.uid.as_ref() == Some(&known.uid));
        let Some(known) = of_this else { return };
        if node.is_some() && known.bound_at.is_none() {
            known.bound_at = Some(now);
        }
        let has_failed = status.and_then(|status| status.phase.as_deref()) == Some("Failed");
        if (is_ended || is_gone)
            && let Some(known) = self.of_trace.remove(&name)
        {
            let again = (has_failed || !is_ended).then(|| known.left(now));
            let (namespace, name) = name;
            self.over.push(Over { namespace, name, is_gone, again });
        }
    }

    /// A pod of a trace is changed, wherever it is.
    pub(crate) fn change_pod(&mut self, namespace: &str, name: &str, fields: &Value) {
        let of_trace = self.of_trace.get_mut(&(namespace.to_owned(), name.to_owned())).map(|known| &mut known.arrival);
        for arrival in of_trace.into_iter().chain(self.kept_out.named(namespace, name)) {
            merge(&mut Arc::make_mut(&mut arrival.template).pod, fields);
        }
    }

    /// Deletes a pod of a trace that has ended, or creates one again that has lost its place.
    async fn end(&mut self, over: Over) {
        if !over.is_gone {
            let api = Api::<Pod>::namespaced(self.parts.client.clone(), &over.namespace);
            // It may have gone with its node.
            drop(api.delete(&over.name, &kube::api::DeleteParams::default().grace_period(0)).await);
        }
        if let Some(arrival) = over.again {
            kept_out::create(self, arrival).await;
        }
    }

    /// Marks the nodes whose machines have been silent for long enough.
    async fn notice_silence(&mut self, now: Instant) {
        while self.silent.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, node)) = self.silent.pop_first()
        {
            self.launched_at.remove(&node);
            lost::mark(&self.parts.client, &node, self.parts.cloud.now()).await;
        }
    }

    fn sample(&mut self) {
        self.advance();
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        let (used, total) = self.meter.slots();
        self.samples.push(Sample {
            seconds: elapsed.as_secs(),
            nodes: self.meter.counts,
            dollars_an_hour: self.meter.dollars_an_hour(),
            list_dollars_an_hour: self.meter.list_dollars_an_hour(),
            slots_used: used,
            slots: total,
            pending: self.waits.n_pending,
            running: self.waits.n_running,
        });
    }
}

/// The NodePool that is made where there is none consolidates as the variant says, too. Its status is being written
/// meanwhile.
async fn vary_made_pool(client: &Client, consolidation: Consolidation) -> kube::Result<()> {
    if matches!(consolidation, Consolidation::AsWritten | Consolidation::KarpentersMethods) {
        return Ok(());
    }
    let api = Api::<NodePool>::all(client.clone());
    for mut pool in api.list(&ListParams::default()).await?.items {
        crate::vary::set_consolidation(&mut pool, consolidation);
        let patch = json!({"spec": {"disruption": pool.spec.disruption}});
        api.patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

fn watch_all(client: &Client, has_overlays: bool) -> BoxStream<'static, Seen> {
    let resource = ApiResource::erase::<Pod>(&());
    let pods = Api::<SeenPod>::all_with(client.clone(), &resource);
    let pods = watcher(pods, watcher::Config::default());
    let mut streams = vec![
        pods.filter_map(|event| async move { event.ok().map(Seen::Pod) }).boxed(),
        watch::<FakeNodeClass>(client, Seen::Class),
        watch::<FakeCapacityReservation>(client, Seen::Slots),
    ];
    if has_overlays {
        streams.push(PriceSeen::watch(client).map(Seen::Price).boxed());
    }
    futures::stream::select_all(streams).boxed()
}

fn watch<K>(client: &Client, seen: fn(Event<K>) -> Seen) -> BoxStream<'static, Seen>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let stream = watcher(Api::<K>::all(client.clone()), watcher::Config::default());
    stream.filter_map(move |event| async move { event.ok().map(seen) }).boxed()
}

/// A sentence where objects have nodes of NodePools: what they cost nobody knows, and no slot is theirs.
fn nodes_without_instances(objects: &[berth_manifests::Object]) -> Option<String> {
    let is_of_pool = |object: &&berth_manifests::Object| matches!(object, berth_manifests::Object::Node(node) if node.labels().contains_key(labels::NODEPOOL));
    let n = objects.iter().filter(is_of_pool).count();
    let (what, they, have) = if n == 1 { ("1 node", "it", "has") } else { ("nodes", "they", "have") };
    let what = if n == 1 { what.to_owned() } else { format!("{n} {what}") };
    (n > 0).then(|| {
        format!(
            "{what} of NodePools {have} no instance in the cloud, being among the objects of the start: {they} cost nothing \
             here, and use no slot of a reservation"
        )
    })
}
