//! The one task of all stand-ins: commands, the watch of bound pods, timers and writes.

mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event as Watched};
use kube::{Api, Client};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::{Clock, later};
use crate::node::{Hosted, Registration};
use crate::pod::{DEADLINE_EXCEEDED, Record, Stage, Templates};
use crate::requests::{self, Amounts};
use crate::writes::{WriteTarget, Writes};
use crate::{Command, KubeletConfig, NodeSpec};

/// How long a failed write or watch waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Changes of pods that are taken in with each write that has ended: neither keeps the other waiting, however many come.
const CHANGES: usize = 4;

/// What is due later.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Timer {
    NodeReady(String),
    NodeReport(String),
    LeaseRenewal(String),
    Pod(String),
    Retry(WriteTarget),
}

pub(crate) struct Loop {
    client: Client,
    config: KubeletConfig,
    clock: Clock,
    nodes: BTreeMap<String, Hosted>,
    pods: FxHashMap<String, Record>,
    templates: Templates,
    /// The UIDs of pods by the node that they are bound to, hosted here or not.
    by_node: FxHashMap<String, BTreeSet<String>>,
    /// The UIDs that a relist has shown so far.
    listed: Option<FxHashSet<String>>,
    timers: BTreeMap<(Timestamp, u64), Timer>,
    writes: Writes,
    addresses: FxHashSet<u32>,
    last_address: u32,
    n_nodes: u32,
    /// Numbers timers, events and pods in their order of arrival.
    count: u64,
}

/// A watch that fails is tried again after a fixed time.
struct Fixed;

impl Iterator for Fixed {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(RETRY)
    }
}

impl Backoff for Fixed {
    fn reset(&mut self) {}
}

impl Loop {
    pub(crate) fn new(client: Client, config: KubeletConfig) -> Self {
        Self {
            clock: Clock::starting_at(config.epoch),
            client,
            config,
            nodes: BTreeMap::new(),
            pods: FxHashMap::default(),
            templates: Templates::default(),
            by_node: FxHashMap::default(),
            listed: None,
            timers: BTreeMap::new(),
            writes: Writes::default(),
            addresses: FxHashSet::default(),
            last_address: 0,
            n_nodes: 0,
            count: 0,
        }
    }

    pub(crate) async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let pods = watcher::watcher(Api::<Pod>::all(self.client.clone()), bound).backoff(Fixed);
        let mut pods = std::pin::pin!(pods);
        loop {
            // Heartbeats first: there may always be pods to see to.
            self.fire();
            self.begin_writes();
            let due = self.timers.first_key_value().map(|(&(due, _), _)| self.clock.instant(due));
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some((key, outcome)) = self.writes.in_flight.next(), if !self.writes.in_flight.is_empty() => {
                    self.writes.end(&key);
                    self.written(&key, outcome);
                    for _ in 0..CHANGES {
                        match pods.next().now_or_never() {
                            Some(Some(Ok(event))) => self.observe(event),
                            // The watch is taken up again by itself.
                            Some(Some(Err(_))) => {}
                            Some(None) | None => break,
                        }
                    }
                }
                event = pods.next() => match event {
                    Some(Ok(event)) => self.observe(event),
                    // The watch is taken up again by itself.
                    Some(Err(_)) => {}
                    None => return,
                },
                () = sleep_until(due), if due.is_some() => {}
            }
        }
    }

    fn at(&mut self, due: Timestamp, timer: Timer) {
        self.count += 1;
        self.timers.insert((due, self.count), timer);
    }

    fn fire(&mut self) {
        let now = self.clock.now();
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Timer::NodeReady(name) => self.set_ready(&name, true),
                Timer::NodeReport(name) => {
                    if let Some(node) = self.nodes.get_mut(&name) {
                        node.is_dirty = true;
                        self.writes.want(WriteTarget::Node(name.clone()));
                        self.at(later(now, self.config.status_report), Timer::NodeReport(name));
                    }
                }
                Timer::LeaseRenewal(name) => {
                    if let Some(node) = self.nodes.get_mut(&name) {
                        node.lease_due = true;
                        self.writes.want(WriteTarget::Lease(name.clone()));
                        self.at(later(now, self.config.lease_renewal), Timer::LeaseRenewal(name));
                    }
                }
                Timer::Pod(uid) => self.advance(&uid),
                Timer::Retry(key) => self.writes.want(key),
            }
        }
    }

    // === Nodes ===

    fn obey(&mut self, command: Command) {
        match command {
            Command::Join(spec) => self.join(*spec),
            Command::PowerOff(name) => {
                self.nodes.remove(&name);
            }
            Command::Ready(name, is_ready) => self.set_ready(&name, is_ready),
        }
    }

    fn join(&mut self, spec: NodeSpec) {
        let now = self.clock.now();
        self.n_nodes += 1;
        let name = spec.name.clone();
        self.nodes.insert(name.clone(), Hosted::new(spec, self.n_nodes, now));
        self.writes.want(WriteTarget::Node(name));
    }

    fn set_ready(&mut self, name: &str, is_ready: bool) {
        let now = self.clock.now();
        let Some(node) = self.nodes.get_mut(name) else { return };
        if node.is_ready == is_ready {
            return;
        }
        node.is_ready = is_ready;
        node.ready_since = now;
        node.is_dirty = true;
        self.writes.want(WriteTarget::Node(name.to_owned()));
        if is_ready {
            self.admit_waiting(name);
        }
    }

    fn registered(&mut self, name: &str, uid: Option<String>) {
        let now = self.clock.now();
        let Some(node) = self.nodes.get_mut(name) else { return };
        match node.registration {
            Registration::Wanted => {
                node.registration = Registration::Registered;
                node.uid = uid;
                node.lease_due = true;
                let first = |period| later(now, node.first_after(period));
                let (report, renewal) = (first(self.config.status_report), first(self.config.lease_renewal));
                self.writes.want(WriteTarget::Lease(name.to_owned()));
                self.at(later(now, self.config.ready_delay), Timer::NodeReady(name.to_owned()));
                self.at(report, Timer::NodeReport(name.to_owned()));
                self.at(renewal, Timer::LeaseRenewal(name.to_owned()));
            }
            Registration::Registered | Registration::Leased => {}
        }
    }

    // === Pods ===

    fn observe(&mut self, event: Watched<Pod>) {
        match event {
            Watched::Init => self.listed = Some(FxHashSet::default()),
            Watched::InitApply(pod) => {
                if let (Some(listed), Some(uid)) = (&mut self.listed, &pod.metadata.uid) {
                    listed.insert(uid.clone());
                }
                self.upsert(&pod);
            }
            Watched::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: BTreeSet<String> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in &gone {
                    self.forget(uid);
                }
            }
            Watched::Apply(pod) => self.upsert(&pod),
            Watched::Delete(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.forget(uid);
                }
            }
        }
    }

    fn upsert(&mut self, pod: &Pod) {
        let now = self.clock.now();
        let Some(uid) = pod.metadata.uid.clone() else { return };
        if !self.pods.contains_key(&uid) {
            self.count += 1;
            let Some((record, problems)) = Record::read(pod, &self.config, self.count, &mut self.templates) else {
                return;
            };
            if !problems.is_empty() {
                self.tell(&record, "Warning", "InvalidAnnotation", problems.join("; "));
            }
            self.by_node.entry(record.node.clone()).or_default().insert(uid.clone());
            self.pods.insert(uid.clone(), record);
        }
        if let Some(record) = self.pods.get_mut(&uid) {
            record.observe_deadline(pod, &self.config);
            record.observe_deletion(pod, &self.config, now);
        }
        self.admit(&uid);
        self.advance(&uid);
    }

    fn forget(&mut self, uid: &str) {
        let Some(record) = self.pods.remove(uid) else { return };
        if let Some(ip) = record.ip {
            self.addresses.remove(&ip);
        }
        if let Some(pods) = self.by_node.get_mut(&record.node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_node.remove(&record.node);
            }
        }
    }

    /// Admits what was bound before the node could take it, in order of arrival.
    fn admit_waiting(&mut self, node: &str) {
        let mut waiting: Vec<(u64, String)> = self
            .by_node
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|uid| Some((self.pods.get(uid)?.sequence, uid.clone())))
            .collect();
        waiting.sort_unstable();
        for (_, uid) in waiting {
            self.admit(&uid);
            self.advance(&uid);
        }
    }

    /// Admits or rejects a pod that its node's kubelet sees for the first time.
    fn admit(&mut self, uid: &str) {
        let now = self.clock.now();
        let Some(record) = self.pods.get(uid).filter(|record| record.stage == Stage::Bound) else { return };
        let Some(node) = self.nodes.get(&record.node).filter(|node| node.is_ready) else { return };
        if record.stops_at.is_some() {
            return;
        }
        let mut used = Amounts::new();
        let mut n_pods = 0;
        let mut ports_clash = false;
        for other in self.by_node.get(&record.node).into_iter().flatten().filter_map(|other| self.pods.get(other)) {
            if other.uid != record.uid && other.uses_node() {
                requests::add(&mut used, &other.template.requests);
                n_pods += 1;
                ports_clash |= requests::ports_clash(&other.template.host_ports, &record.template.host_ports);
            }
        }
        let verdict = requests::fits(&record.template.requests, &used, n_pods, &node.allocatable);
        let verdict = verdict.and(if ports_clash { Err(requests::Rejection::NodePorts) } else { Ok(()) });
        let needs_address = !record.template.host_network && verdict.is_ok();
        let address = needs_address.then(|| self.new_address());
        let Some(record) = self.pods.get_mut(uid) else { return };
        match verdict {
            Ok(()) => {
                record.ip = address;
                record.admit(now);
                record.is_dirty &= self.config.tells_starting;
            }
            Err(rejection) => {
                let message = format!("Pod was rejected: {rejection}");
                record.reject(rejection.reason(), message.clone(), now);
                let record = record.clone();
                self.tell(&record, "Warning", &rejection.reason(), message);
            }
        }
    }

    /// Lets a pod do what is due, and sees to what comes next.
    fn advance(&mut self, uid: &str) {
        let now = self.clock.now();
        let Some(record) = self.pods.get_mut(uid) else { return };
        if !self.nodes.contains_key(&record.node) {
            return;
        }
        let had_exceeded = record.has_exceeded_deadline();
        record.advance(&self.config, now);
        let exceeds = (!had_exceeded && record.has_exceeded_deadline()).then(|| record.clone());
        let is_due = record.is_dirty || (record.is_stopped && !record.is_deleted);
        let due = record.due(&self.config).filter(|_| record.timer != record.due(&self.config));
        record.timer = due.or(record.timer);
        if is_due {
            self.writes.want(WriteTarget::Pod(uid.to_owned()));
        }
        // An earlier timer that has become idle does nothing when it fires.
        if let Some(due) = due {
            self.at(due, Timer::Pod(uid.to_owned()));
        }
        if let Some(record) = exceeds {
            let (reason, message) = DEADLINE_EXCEEDED;
            self.tell(&record, "Normal", reason, message.to_owned());
        }
    }

    fn new_address(&mut self) -> u32 {
        // 2^24 addresses: more than pods of any cluster.
        loop {
            self.last_address = (self.last_address + 1) & 0x00ff_ffff;
            let is_host = !matches!(self.last_address & 0xff, 0 | 255);
            if is_host && self.addresses.insert(self.last_address) {
                return self.last_address;
            }
        }
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}
