//! The parts put together, and the loop that watches and tells.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use berth_api::{FakeCapacityReservation, FakeNodeClass, NodeClaim, Reservation};
use berth_apiserver::ApiServer;
use berth_apiserver::listener::Listener;
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use berth_kubelet::{KubeletConfig, NodeSpec};
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::core;
use k8s_openapi::api::core::v1::{ConfigMap, Node, ObjectReference, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::MissedTickBehavior;

use crate::bridge::Bridge;
use crate::observer::Observer;
use crate::overlays::PriceSeen;
use crate::parts::{Base, Parts, PartsOptions};
use crate::quiet::Quiet;
use crate::story::{Happened, Line, Moment};
use crate::{Options, SandboxError, machines, script};

/// What watches have seen is taken in so many at a time.
const SEEN: usize = 64;

/// Alike things within this time become one line.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);

/// How a sandbox came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Interrupted,
    /// Everything has its place.
    Settled,
    /// Nothing changes any more, and these have no place: name and reason.
    LeftOver(Vec<String>),
}

/// Something that a watch has seen.
pub(crate) enum Seen {
    Pod(Event<Pod>),
    Node(Event<Node>),
    Class(Event<FakeNodeClass>),
    /// Metadata alone: the data are read where a node class wants them.
    ConfigMap(Event<PartialObjectMeta<ConfigMap>>),
    Slots(Event<FakeCapacityReservation>),
    Claim(Event<NodeClaim>),
    Room(Event<Reservation>),
    Told(Event<core::v1::Event>),
    Price(PriceSeen),
}

/// Runs a sandbox until `shutdown`, or until it has settled where the options say so. Each thing that happens is one
/// call of `tell`. Nothing is left behind: no task, no socket, no kubeconfig.
///
/// # Errors
/// Where an object is refused, the kubeconfig cannot be written, or nothing can be listened on.
pub async fn run(
    mut options: Options,
    mut tell: impl FnMut(&Line),
    shutdown: impl Future<Output = ()>,
) -> Result<Ended, SandboxError> {
    tokio::pin!(shutdown);
    let base = Base::new(PartsOptions {
        seed: options.seed,
        catalogue: options.catalogue.clone(),
        cloud: CloudConfig { boot_delay: options.boot_delay, adoption: options.adoption, ..CloudConfig::default() },
        kubelets: KubeletConfig { stop_delay: options.stop_delay, ..KubeletConfig::default() },
        request_delay: options.request_delay,
        controllers: options.controllers.clone(),
        without_berth: options.without_berth,
        on_metrics: options.on_metrics.clone(),
        ..PartsOptions::new(options.now)
    })
    .await?;
    let mut moment = Moment::default();
    let nodes = tokio::select! {
        biased;
        () = &mut shutdown => return Ok(Ended::Interrupted),
        nodes = Box::pin(begin(&base, &options, &mut moment)) => nodes?,
    };
    // They are in the server now, and a large cluster need not be in memory twice.
    options.objects = Vec::new();
    let parts = base.run();
    for node in nodes {
        parts.kubelets.join(node);
    }
    // Whatever runs beside ends when this function does.
    let Parts { server, client, cloud, kubelets, mut happened, mut tasks } = parts;
    if let Some(on_begun) = &options.on_begun {
        // Whoever wanted to know may have gone.
        drop(on_begun.send((client.clone(), cloud.clone())));
    }
    let _kubectl = match &options.kubeconfig {
        Some(path) => {
            let kubectl = Served::start(server, path).await?;
            let message = format!("kubectl --kubeconfig {} get pods,nodes", path.display());
            moment.add(Happened::Said { event: "Serving", message }, "");
            Some(kubectl)
        }
        None => None,
    };

    let has_overlays = !options.without_berth && options.controllers.convert.node_overlay;
    let mut watches = watch_all(&client, has_overlays);
    let stage_client = client.clone();
    let mut known = State {
        bridge: Bridge::new(client, cloud.clone(), !options.without_berth),
        is_cloud: !options.without_berth,
        observer: Observer::default(),
        replacements: BTreeSet::new(),
        not_created: BTreeSet::new(),
        listed: <[BTreeSet<String>; 2]>::default(),
        moment,
    };
    let mut quiet = Quiet::new(options.quiet);
    let (said, mut story) = unbounded_channel();
    if options.story {
        tasks.spawn(script::play(script::Stage::new(stage_client, cloud.clone(), said)));
    }
    let mut ticks = tokio::time::interval(MOMENT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(Ended::Interrupted),
            Some(event) = happened.recv() => machines::follow(event, &kubelets, &mut known.moment),
            told = story.recv(), if options.story => {
                // Scenes come in their order, after what happened before.
                known.tell(&cloud, &mut tell);
                let Some(message) = told else { return Ok(Ended::Settled) };
                tell(&Line { time: cloud.now(), event: "Story", message });
            },
            _ = ticks.tick() => {
                known.bridge.write_counts().await.into_iter().for_each(|count| known.moment.add_slots(count));
                if !known.moment.is_empty() {
                    quiet.stir();
                }
                if known.moment.is_over(known.observer.is_launching()) {
                    known.tell(&cloud, &mut tell);
                }
                quiet.observe(known.observer.n_changes(), known.observer.n_moving() + cloud.n_moving());
                if options.settle && !options.story && let Some(left) = quiet.settled(known.observer.left()) {
                    return Ok(if left.is_empty() { Ended::Settled } else { Ended::LeftOver(left) });
                }
            }
            // Last, as of a large cluster there may always be something.
            Some(seen) = watches.next() => {
                Box::pin(known.take(seen)).await;
                for _ in 1..SEEN {
                    let Some(Some(seen)) = watches.next().now_or_never() else { break };
                    Box::pin(known.take(seen)).await;
                }
            }
        }
    }
}

/// Makes the objects to begin with. Gives the nodes among them.
async fn begin(base: &Base, options: &Options, moment: &mut Moment) -> Result<Vec<NodeSpec>, SandboxError> {
    let (begun, nodes) = base.begin(&options.objects, !options.story).await?;
    for passed_over in begun.passed_over {
        let message = format!("{passed_over} is passed over: the cluster has no such resource");
        moment.add(Happened::Said { event: "PassedOver", message }, passed_over);
    }
    for message in begun.disagreements {
        let of = message.clone();
        moment.add(Happened::Said { event: "Disagreement", message }, of);
    }
    if begun.made_pool {
        let message =
            "no NodePool is among the objects: NodePool default is made, which is open to linux on amd64".to_owned();
        moment.add(Happened::Said { event: "NodePool", message }, "default");
    }
    Ok(nodes)
}

/// What the loop knows.
struct State {
    bridge: Bridge,
    /// Whether the cloud is the sandbox's own.
    is_cloud: bool,
    observer: Observer,
    /// NodeClaims that are to be launched in place of nodes that go.
    replacements: BTreeSet<String>,
    /// UIDs of those of which it was told that what they want cannot be created.
    not_created: BTreeSet<String>,
    /// UIDs of pods and of nodes that a list under way has shown.
    listed: [BTreeSet<String>; 2],
    moment: Moment,
}

// === impl State ===

impl State {
    /// Tells what happened up to now.
    fn tell(&mut self, cloud: &FakeCloud, tell: impl FnMut(&Line)) {
        self.moment.note_replacements(&mut self.replacements);
        let for_whom = self.observer.planned_for(self.moment.launched());
        self.moment.tell(cloud.now(), for_whom, &machines::cost(cloud)).iter().for_each(tell);
    }

    /// Takes a node's instance back where the node says so.
    fn interrupt(&mut self, node: &Node) {
        if self.is_cloud
            && let Some(message) = self.bridge.node_applied(node)
        {
            self.moment.add(Happened::Said { event: "Unusable", message }, node.name_any());
        }
    }

    async fn take(&mut self, seen: Seen) {
        let [pods, nodes] = &mut self.listed;
        match seen {
            Seen::Pod(Event::Init) => pods.clear(),
            Seen::Pod(Event::InitApply(pod)) => {
                pods.extend(pod.uid());
                self.observer.pod(&pod, &mut self.moment);
            }
            Seen::Pod(Event::InitDone) => self.observer.keep_pods(pods, &mut self.moment),
            Seen::Pod(Event::Apply(pod)) => self.observer.pod(&pod, &mut self.moment),
            Seen::Pod(Event::Delete(pod)) => {
                self.observer.pod_gone(&pod.uid().unwrap_or_default(), &mut self.moment);
            }
            Seen::Node(Event::Init) => nodes.clear(),
            Seen::Node(Event::InitApply(node)) => {
                nodes.extend(node.uid());
                self.interrupt(&node);
                self.observer.node(&node, &mut self.moment);
            }
            Seen::Node(Event::InitDone) => self.observer.keep_nodes(nodes, &mut self.moment),
            Seen::Node(Event::Apply(node)) => {
                self.interrupt(&node);
                self.observer.node(&node, &mut self.moment);
            }
            Seen::Node(Event::Delete(node)) => {
                self.bridge.node_deleted(&node.name_any());
                self.observer.node_gone(&node.uid().unwrap_or_default(), &mut self.moment);
            }
            seen @ (Seen::Class(_) | Seen::ConfigMap(_) | Seen::Slots(_) | Seen::Price(_)) if self.is_cloud => {
                self.bridge.take(seen).await;
            }
            Seen::Claim(Event::Apply(claim) | Event::InitApply(claim)) => self.observer.claim(&claim),
            Seen::Claim(Event::Delete(claim)) => {
                self.replacements.remove(&claim.name_any());
                self.observer.claim_gone(&claim.name_any(), claim.metadata.uid.as_deref().unwrap_or_default());
            }
            Seen::Room(Event::Apply(own) | Event::InitApply(own)) => self.observer.reservation(&own, &mut self.moment),
            Seen::Room(Event::Delete(own)) => self.observer.reservation_gone(&own.name_any()),
            Seen::Told(Event::Apply(told) | Event::InitApply(told)) => {
                // What disruption does, as its controllers put it.
                match (told.reason.as_deref(), told.message) {
                    (Some("Disrupting"), Some(message)) => {
                        let name = told.metadata.name.unwrap_or_default();
                        self.moment.add(Happened::Said { event: "Disrupting", message }, name);
                    }
                    // Their nodes are told which ones they are, too, in other words.
                    (Some("DisruptionLaunching"), Some(message)) if message.starts_with("Launching NodeClaim: ") => {
                        self.replacements.extend(told.involved_object.name);
                    }
                    (Some("FailedCreate"), Some(message)) => {
                        let of = told.involved_object;
                        if self.not_created.insert(of.uid.clone().unwrap_or_default()) {
                            let message = not_created(&of, &message);
                            self.moment
                                .add(Happened::Said { event: "NotCreated", message }, of.name.unwrap_or_default());
                        }
                    }
                    _ => {}
                }
            }
            // The watches are of this process and miss nothing: only a list that is told anew would.
            Seen::Claim(Event::Init | Event::InitDone)
            | Seen::Room(Event::Init | Event::InitDone)
            | Seen::Told(Event::Init | Event::InitDone | Event::Delete(_))
            | Seen::Class(_)
            | Seen::ConfigMap(_)
            | Seen::Slots(_)
            | Seen::Price(_) => {}
        }
    }
}

/// Why what an object wants is not created, without the name of the one that was tried.
fn not_created(of: &ObjectReference, message: &str) -> String {
    let (kind, name) = (of.kind.as_deref().unwrap_or_default(), of.name.as_deref().unwrap_or_default());
    let why = [" is invalid: ", " is forbidden: "].iter().find_map(|before| message.split_once(before));
    let what = if kind == "NodePool" { "NodeClaims" } else { "pods" };
    format!("{what} of {kind} {name} cannot be created: {}", why.map_or(message, |(_, why)| why))
}

/// Watches of all that the loop looks at. A watch that fails is taken up again by itself.
fn watch_all(client: &Client, has_overlays: bool) -> BoxStream<'static, Seen> {
    let mut streams = vec![
        watch::<Pod, _>(client, Seen::Pod),
        watch::<Node, _>(client, Seen::Node),
        watch::<FakeNodeClass, _>(client, Seen::Class),
        watch::<PartialObjectMeta<ConfigMap>, _>(client, Seen::ConfigMap),
        watch::<FakeCapacityReservation, _>(client, Seen::Slots),
        watch::<NodeClaim, _>(client, Seen::Claim),
        watch::<Reservation, _>(client, Seen::Room),
        watch::<core::v1::Event, _>(client, Seen::Told),
    ];
    if has_overlays {
        streams.push(PriceSeen::watch(client).map(Seen::Price).boxed());
    }
    futures::stream::select_all(streams).boxed()
}

pub(crate) fn watch<K, S: 'static>(client: &Client, seen: fn(Event<K>) -> S) -> BoxStream<'static, S>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let stream = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).backoff(Pause);
    stream.filter_map(move |event| async move { event.ok().map(seen) }).boxed()
}

/// A watch that fails is tried again after a second: an API server that is gone is not asked without a pause.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// A listener and its kubeconfig, which goes with it.
struct Served<'a> {
    path: &'a Path,
    _listener: Listener,
}

impl<'a> Served<'a> {
    async fn start(server: ApiServer, path: &'a Path) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::Kubeconfig { path: path.to_owned(), source };
        // Nobody's own kubeconfig is overwritten by mistake.
        match berth_manifests::read_text(path) {
            Ok(text) if !is_ours(&text) => {
                return Err(failed(std::io::Error::other("the file exists and is no sandbox's")));
            }
            _ => {}
        }
        let listener = Listener::start(server, ([127, 0, 0, 1], 0).into()).await?;
        write_private(path, listener.kubeconfig().as_bytes()).map_err(failed)?;
        Ok(Self { path, _listener: listener })
    }
}

/// Writes a file that nobody else may read: a kubeconfig holds what lets its reader in.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // One that was there keeps its mode.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(content)
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // Someone may have removed it already.
        drop(std::fs::remove_file(self.path));
    }
}

/// Whether a kubeconfig is one that a listener of ours has made.
fn is_ours(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|config| config["current-context"] == "berth")
}
