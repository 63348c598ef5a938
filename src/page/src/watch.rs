//! Watches of a cluster, told to the view; and the ticks at which whoever looks is told what is different.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{FakeCapacityReservation, NodeClaim, Reservation, labels};
use berth_slim::PodStatus;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::core::v1::{self, Event as Told};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::frames::Frames;
use crate::model::{Node, Room, Said, Slots};
use crate::pod::{self, Amounts, SeenPod};
use crate::view::{PodRecord, View};

/// How often people who look on are told what is different, at most.
pub const TICK: Duration = Duration::from_millis(200);
/// Differences that wait for a slow reader; whoever is slower is told everything anew.
pub(crate) const WAITING: usize = 64;

/// What an instance costs, by its provider id, in dollars an hour: as it is paid, and without reservations.
pub type Price = Arc<dyn Fn(&str) -> Option<[f64; 2]> + Send + Sync>;

/// How often prices may have changed of instances that run: while it stays, each costs what it did.
pub type PriceChanges = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Slots of a capacity reservation: its id, how many are used, and how many there are.
pub type SlotsNow = Arc<dyn Fn() -> Vec<(String, u32, u32)> + Send + Sync>;

/// Tells why an object goes where it goes, or nowhere, from the cluster as it is now: asked with `node/NAME`,
/// `pod/NAMESPACE/NAME` or `reservation/NAME`, it answers in words, or says why it cannot.
pub type Explain = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// What a page is started with.
#[derive(Clone)]
pub struct PageOptions {
    /// What the page is called.
    pub title: String,
    /// What instances cost.
    pub price: Price,
    /// When that may have changed of instances that run.
    pub price_changes: PriceChanges,
    /// The cloud's slots, where the statuses of FakeCapacityReservations do not tell them.
    pub slots: Option<SlotsNow>,
    /// Who tells the story of an object; without one, the page tells what was said of it.
    pub explain: Option<Explain>,
    /// Whether the cluster's Events about nodes are part of the story.
    pub with_events: bool,
    /// Whether all that happens is kept, to be written by [`write_recording`](crate::write_recording).
    pub records: bool,
    /// The shortest time between two differences: [`TICK`] for people who look on.
    pub tick: Duration,
}

impl std::fmt::Debug for PageOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageOptions").field("title", &self.title).finish_non_exhaustive()
    }
}

/// A cluster that is watched for a page. Clones are the same; it ends with the last one.
#[derive(Debug, Clone)]
pub struct Page {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) title: String,
    start: Instant,
    pub(crate) view: Mutex<View>,
    pub(crate) differences: broadcast::Sender<Arc<str>>,
    pub(crate) frames: Option<Mutex<Frames>>,
    pub(crate) explain: Option<Explain>,
    /// A story may take a whole plan: one is told at a time.
    pub(crate) telling: tokio::sync::Semaphore,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("title", &self.title).finish_non_exhaustive()
    }
}

/// A watch that fails is tried again after a fixed time: a kind may be defined later.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(10))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Seen {
    Pod(Event<SeenPod>),
    Node(Event<v1::Node>),
    Claim(Event<NodeClaim>),
    Slots(Event<FakeCapacityReservation>),
    Room(Event<Reservation>),
    Told(Event<Told>),
}

// === impl Page ===

impl Page {
    /// Watches the cluster of a client.
    pub fn start(client: &Client, options: PageOptions) -> Self {
        let shared = Arc::new(Shared {
            title: options.title.clone(),
            start: Instant::now(),
            view: Mutex::default(),
            differences: broadcast::Sender::new(WAITING),
            frames: options.records.then(Mutex::default),
            explain: options.explain.clone(),
            telling: tokio::sync::Semaphore::new(1),
            tasks: Mutex::default(),
        });
        let watches = watch_all(client, options.with_events);
        let (listed, claims) = (<[BTreeSet<String>; 3]>::default(), BTreeSet::new());
        let (shared_with, n_price_changes) = (Arc::downgrade(&shared), (options.price_changes)());
        let instances = BTreeMap::new();
        let follower = Follower { shared: shared_with, options, listed, claims, instances, n_price_changes };
        let task = tokio::spawn(follower.run(watches));
        shared.tasks.lock().push(task);
        Self { shared }
    }

    /// Tells a sentence of the story.
    pub fn say(&self, event: &str, message: &str) {
        let at = self.shared.at();
        self.shared.view.lock().say(Said { at, event: event.to_owned(), message: message.to_owned() });
    }
}

// === impl Shared ===

impl Shared {
    /// Milliseconds since the page began.
    pub(crate) fn at(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells whoever looks what is different.
    pub(crate) fn tick(&self) {
        // The lock is held until it is sent, so that nobody begins between the two.
        self.tick_with(&mut self.view.lock());
    }

    pub(crate) fn tick_with(&self, view: &mut View) {
        let Some(difference) = view.difference(self.at()) else { return };
        let Ok(text) = serde_json::to_string(&difference) else { return };
        if let Some(frames) = &self.frames {
            frames.lock().push(&text);
        }
        // Nobody may look.
        drop(self.differences.send(text.into()));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

/// Takes in what watches see.
struct Follower {
    /// It ends when the page does.
    shared: std::sync::Weak<Shared>,
    options: PageOptions,
    /// What lists under way have shown: pods, nodes and claims.
    listed: [BTreeSet<String>; 3],
    claims: BTreeSet<String>,
    /// The provider ids of nodes that are shown, by name.
    instances: BTreeMap<String, String>,
    n_price_changes: u64,
}

// === impl Follower ===

impl Follower {
    async fn run(mut self, mut watches: BoxStream<'static, Seen>) {
        let mut ticks = tokio::time::interval(self.options.tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(seen) = watches.next() => {
                    let Some(shared) = self.shared.upgrade() else { return };
                    let at = shared.at();
                    self.take(seen, &mut shared.view.lock(), at);
                }
                _ = ticks.tick() => {
                    let Some(shared) = self.shared.upgrade() else { return };
                    self.count_slots(&mut shared.view.lock());
                    self.reprice(&mut shared.view.lock());
                    shared.tick();
                }
            }
        }
    }

    /// Asks anew what nodes cost, where that may have changed: no object says so.
    fn reprice(&mut self, view: &mut View) {
        let n_changes = (self.options.price_changes)();
        if std::mem::replace(&mut self.n_price_changes, n_changes) == n_changes {
            return;
        }
        let price = &self.options.price;
        self.instances.retain(|name, id| {
            let prices = price(id);
            view.reprice(name, |known| prices.unwrap_or(known))
        });
    }

    /// What an instance costs that is shown by this name.
    fn price_of(&mut self, name: &str, provider_id: Option<&str>) -> [f64; 2] {
        let Some(id) = provider_id else { return [0.0; 2] };
        self.instances.insert(name.to_owned(), id.to_owned());
        (self.options.price)(id).unwrap_or_default()
    }

    /// Asks the cloud for its slots, if it is to be asked.
    fn count_slots(&self, view: &mut View) {
        for (id, used, total) in self.options.slots.iter().flat_map(|slots| slots()) {
            let slots = Slots { used: used.into(), total: total.into(), state: String::new() };
            view.slots(&id, Some(slots));
        }
    }

    fn take(&mut self, seen: Seen, view: &mut View, at: u64) {
        let [pods, nodes, claims] = &mut self.listed;
        match seen {
            Seen::Pod(Event::Init) => pods.clear(),
            Seen::Pod(Event::InitApply(own)) => {
                pods.extend(own.uid());
                apply_pod(view, &own);
            }
            Seen::Pod(Event::InitDone) => {
                for uid in view.pod_uids().iter().filter(|uid| !pods.contains(*uid)) {
                    view.pod(uid, None);
                }
            }
            Seen::Pod(Event::Apply(own)) => apply_pod(view, &own),
            Seen::Pod(Event::Delete(own)) => view.pod(&own.uid().unwrap_or_default(), None),
            Seen::Node(Event::Init) => nodes.clear(),
            Seen::Node(Event::InitApply(own)) => {
                nodes.insert(own.name_any());
                let node = self.node(&own);
                view.node(&own.name_any(), Some(node));
            }
            Seen::Node(Event::InitDone) => {
                for name in view.node_names() {
                    if !nodes.contains(&name) && !self.claims.contains(&name) {
                        view.node(&name, None);
                    }
                }
            }
            Seen::Node(Event::Apply(own)) => {
                let node = self.node(&own);
                view.node(&own.name_any(), Some(node));
            }
            Seen::Node(Event::Delete(own)) => view.node(&own.name_any(), None),
            Seen::Claim(Event::Init) => claims.clear(),
            Seen::Claim(Event::InitApply(own)) => {
                claims.insert(shown_claim(&own));
                self.claim(view, &own);
            }
            Seen::Claim(Event::InitDone) => {
                let gone: Vec<String> = self.claims.difference(claims).cloned().collect();
                for name in gone {
                    self.claims.remove(&name);
                    view.node(&name, None);
                }
            }
            Seen::Claim(Event::Apply(own)) => self.claim(view, &own),
            Seen::Claim(Event::Delete(own)) => {
                let name = shown_claim(&own);
                if self.claims.remove(&name) {
                    view.node(&name, None);
                }
            }
            Seen::Slots(Event::Apply(_) | Event::InitApply(_)) if self.options.slots.is_some() => {}
            Seen::Slots(Event::Apply(own) | Event::InitApply(own)) => {
                let status = own.status.clone().unwrap_or_default();
                view.slots(own.id(), Some(Slots { used: status.used, total: status.total, state: status.state }));
            }
            Seen::Slots(Event::Delete(own)) => view.slots(own.id(), None),
            Seen::Room(Event::Apply(own) | Event::InitApply(own)) => {
                let status = own.status.clone().unwrap_or_default();
                let room = Room {
                    phase: format!("{:?}", status.phase),
                    node: status.node_name.unwrap_or_default(),
                    owners: status.current_owners.len(),
                };
                view.room(&own.name_any(), Some(room));
            }
            Seen::Room(Event::Delete(own)) => view.room(&own.name_any(), None),
            Seen::Told(Event::Apply(own)) => {
                let object = own.involved_object.name.unwrap_or_default();
                let message = format!("{object}: {}", own.message.unwrap_or_default());
                view.say(Said { at, event: own.reason.unwrap_or_default(), message });
            }
            // What is listed again is shown already, and old Events are no news.
            Seen::Slots(Event::Init | Event::InitDone) | Seen::Room(Event::Init | Event::InitDone) | Seen::Told(_) => {}
        }
    }

    fn node(&mut self, node: &v1::Node) -> Node {
        let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let spec = node.spec.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|own| own.type_ == "Ready");
        let is_disrupted = spec.taints.iter().flatten().any(|taint| taint.key == labels::DISRUPTED_TAINT);
        let state = match ready.map(|own| own.status.as_str()) {
            _ if node.metadata.deletion_timestamp.is_some() || is_disrupted => "leaving",
            Some("True") => "ready",
            Some("Unknown") => "silent",
            _ => "joining",
        };
        let room = allocatable(status.allocatable.iter().flatten());
        let capacity_type = label(labels::CAPACITY_TYPE);
        let [price, unreserved] = self.price_of(&node.name_any(), spec.provider_id.as_deref());
        Node {
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            pool: label(labels::NODEPOOL),
            reservation: reservation(|key| node.labels().get(key)),
            capacity_type,
            state,
            cpu: room.cpu,
            memory: room.memory,
            price,
            unreserved,
            ..Node::default()
        }
    }

    /// A NodeClaim stands for its node until that is there.
    fn claim(&mut self, view: &mut View, claim: &NodeClaim) {
        let name = shown_claim(claim);
        let status = claim.status.clone().unwrap_or_default();
        let has_joined = status.node_name.as_deref().is_some_and(|node| !node.is_empty());
        if has_joined || claim.metadata.deletion_timestamp.is_some() {
            if self.claims.remove(&name) {
                view.node(&name, None);
            }
            return;
        }
        let label = |key: &str| claim.labels().get(key).cloned().unwrap_or_default();
        let [price, unreserved] = self.price_of(&name, status.provider_id.as_deref());
        let room = status.allocatable.iter().map(|(name, amount)| (name.clone(), amount.to_string()));
        let room: Vec<(String, String)> = room.collect();
        let room = Amounts::of(room.iter().map(|(name, text)| (name, text)));
        let node = Node {
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
            pool: label(labels::NODEPOOL),
            reservation: reservation(|key| claim.labels().get(key)),
            state: if price > 0.0 || unreserved > 0.0 { "joining" } else { "launching" },
            cpu: room.cpu,
            memory: room.memory,
            price,
            unreserved,
            ..Node::default()
        };
        self.claims.insert(name.clone());
        view.node(&name, Some(node));
    }
}

/// How a NodeClaim is called among nodes.
fn shown_claim(claim: &NodeClaim) -> String {
    format!("NodeClaim {}", claim.name_any())
}

fn reservation<'l>(label: impl Fn(&str) -> Option<&'l String>) -> String {
    labels::RESERVATION_IDS.iter().find_map(|key| label(key).cloned()).unwrap_or_default()
}

fn allocatable<'q>(list: impl Iterator<Item = (&'q String, &'q Quantity)>) -> Amounts {
    Amounts::of(list.map(|(name, amount)| (name, &amount.0)))
}

fn apply_pod(view: &mut View, own: &SeenPod) {
    let status = own.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
    let uid = own.uid().unwrap_or_default();
    if status.is_some_and(PodStatus::has_ended) {
        view.pod(&uid, None);
        return;
    }
    let node = own.spec.node_name.clone().unwrap_or_default();
    let refused = status.and_then(PodStatus::unschedulable).filter(|_| node.is_empty());
    let why = refused.unwrap_or_default().to_owned();
    let record = PodRecord {
        name: format!("{}/{}", own.namespace().unwrap_or_default(), own.name_any()),
        of: pod::workload(own),
        node,
        amounts: pod::requests(own),
        phase,
        why,
    };
    view.pod(&uid, Some(record));
}

fn watch_all(client: &Client, with_events: bool) -> BoxStream<'static, Seen> {
    let resource = ApiResource::erase::<v1::Pod>(&());
    let pods = watcher(Api::<SeenPod>::all_with(client.clone(), &resource), watcher::Config::default());
    let mut streams = vec![
        pods.backoff(Pause).filter_map(|event| async move { event.ok().map(Seen::Pod) }).boxed(),
        watch::<v1::Node>(client, Seen::Node, ""),
        watch::<NodeClaim>(client, Seen::Claim, ""),
        watch::<FakeCapacityReservation>(client, Seen::Slots, ""),
        watch::<Reservation>(client, Seen::Room, ""),
    ];
    if with_events {
        for kind in ["Node", "NodeClaim", "NodePool"] {
            streams.push(watch::<Told>(client, Seen::Told, &format!("involvedObject.kind={kind}")));
        }
    }
    futures::stream::select_all(streams).boxed()
}

fn watch<K>(client: &Client, seen: fn(Event<K>) -> Seen, fields: &str) -> BoxStream<'static, Seen>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = if fields.is_empty() { watcher::Config::default() } else { watcher::Config::default().fields(fields) };
    let stream = watcher(Api::<K>::all(client.clone()), config).backoff(Pause);
    stream.filter_map(move |event| async move { event.ok().map(seen) }).boxed()
}
