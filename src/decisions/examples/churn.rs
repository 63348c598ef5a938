//! Measures what a state and its decisions take of memory while pods, Jobs and nodes with names of their own come and go and
//! the cluster's size stays.
//!
//! `cargo run --release -p berth-decisions --example churn -- [nodes] [pods] [events]`, 5000, 100000 and 1000000 where nothing
//! is said. Linux only: memory is read from /proc.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use berth_decisions::{Decider, Options};
use berth_state::{Event, Key, Kind, Object, ObjectRef, Outcome, Patch, State, Time};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Time = Time::UNIX_EPOCH;
/// Events of pods between two decisions.
const BATCH: usize = 50;
/// Jobs to one node that comes in place of another.
const JOBS_PER_NODE: usize = 200;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let n_nodes = arguments.next().transpose()?.unwrap_or(5_000);
    let n_pods = arguments.next().transpose()?.unwrap_or(100_000);
    let n_events = arguments.next().transpose()?.unwrap_or(1_000_000);
    let mut churn = Churn::new(n_nodes, n_pods)?;
    churn.decide()?;
    let first = resident()?;
    println!("{n_nodes} nodes, {n_pods} pods: {first} MiB after the first decision");
    let start = Instant::now();
    let (mut most, mut next) = (first, n_events / 10);
    while churn.n_events < n_events {
        churn.turn()?;
        if churn.n_events >= next {
            let now = resident()?;
            most = most.max(now);
            let made = (churn.state.conversions(), churn.decider.n_made_anew(), churn.decider.n_whole());
            println!(
                "{} events: {now} MiB, {} pods; conversions and decisions anew {made:?}",
                churn.n_events,
                churn.on_nodes.len()
            );
            next += (n_events / 10).max(1);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let share = f64::from(most) / f64::from(first.max(1));
    println!("{} events in {seconds:.0} s: at most {most} MiB, {share:.2} of the first build", churn.n_events);
    Ok(())
}

/// Memory in use, MiB.
fn resident() -> Result<u32, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u32>()? / 1024)
}

struct Churn {
    state: State,
    decider: Decider,
    templates: (Pod, Job, Node),
    /// The oldest first.
    on_nodes: VecDeque<ObjectRef>,
    nodes: VecDeque<usize>,
    /// The number of the next Job, and of the next node.
    next: (usize, usize),
    n_events: usize,
    version: u64,
}

impl Churn {
    fn new(n_nodes: usize, n_pods: usize) -> Result<Self, Failure> {
        let mut churn = Churn {
            state: State::new(berth_state::Options::default()),
            decider: Decider::new(),
            templates: templates()?,
            on_nodes: VecDeque::new(),
            nodes: (0..n_nodes).collect(),
            next: (0, n_nodes),
            n_events: 0,
            version: 1,
        };
        // Page by page: what was read and let go would count as if it was in use.
        for &kind in Kind::ALL {
            let n_objects = match kind {
                Kind::Node => n_nodes,
                Kind::Pod => n_pods,
                _ => 0,
            };
            let mut keys = BTreeSet::new();
            for i in 0..n_objects {
                let object = if kind == Kind::Node { churn.node(i) } else { churn.bound(i % n_nodes) };
                keys.extend(Key::of(&object));
                if kind == Kind::Pod {
                    churn.on_nodes.extend(object.reference());
                }
                churn.state.apply(Event::Applied(object))?;
            }
            churn.state.apply(Event::Listed { kind, keys, resource_version: None })?;
        }
        let catalogue = berth_catalogue::read(b"[]", "none")?;
        churn.state.apply(Event::Offered { catalogue: catalogue.into(), seen: None })?;
        Ok(churn)
    }

    /// A Job with its pod: names, labels and owners that nobody had before.
    fn job(&mut self) -> (Job, Pod) {
        let number = self.next.0;
        self.next.0 += 1;
        self.version += 1;
        let (mut pod, mut job, _) = self.templates.clone();
        let name = format!("job-{number}");
        let labels = BTreeMap::from([
            ("job-name".to_owned(), name.clone()),
            ("app".to_owned(), format!("app-{}", number % 100)),
        ]);
        job.metadata.name = Some(name.clone());
        job.metadata.uid = Some(format!("uid-of-{name}"));
        pod.metadata.name = Some(format!("{name}-x"));
        pod.metadata.uid = Some(format!("pod-of-{name}"));
        pod.metadata.resource_version = Some(self.version.to_string());
        pod.metadata.labels = Some(labels);
        for owner in pod.metadata.owner_references.iter_mut().flatten() {
            (owner.name, owner.uid) = (name.clone(), format!("uid-of-{name}"));
        }
        (job, pod)
    }

    /// The pod of a new Job, on a node.
    fn bound(&mut self, node: usize) -> Object {
        let (_, mut pod) = self.job();
        pod.spec.get_or_insert_default().node_name = Some(format!("node-{node}"));
        Object::from(pod)
    }

    fn node(&self, number: usize) -> Object {
        let mut node = self.templates.2.clone();
        let name = format!("node-{number}");
        let labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), name.clone()),
            ("unique".to_owned(), format!("u-{number}")),
            ("topology.kubernetes.io/zone".to_owned(), format!("zone-{}", number % 3)),
        ]);
        (node.metadata.name, node.metadata.uid, node.metadata.labels) = (Some(name.clone()), Some(name), Some(labels));
        for image in node.status.iter_mut().flat_map(|status| status.images.iter_mut().flatten()) {
            image.names = Some(vec![format!("own-{number}")]);
        }
        Object::from(node)
    }

    fn apply(&mut self, event: Event) -> Result<(), Failure> {
        self.n_events += 1;
        self.state.apply(event)?;
        Ok(())
    }

    fn gone(&mut self, object: ObjectRef) -> Result<(), Failure> {
        self.version += 1;
        let resource_version = Some(self.version.to_string());
        self.apply(Event::Deleted { object, resource_version })
    }

    /// As many Jobs come as go; now and then a node goes with its pods, and another comes.
    fn turn(&mut self) -> Result<(), Failure> {
        let mut new = 0;
        for _ in 0..BATCH {
            let (job, pod) = self.job();
            let (job, pod) = (Object::from(job), Object::from(pod));
            let of_job = job.reference();
            self.apply(Event::Applied(job))?;
            self.apply(Event::Applied(pod))?;
            new += 1;
            if let Some(pod) = self.on_nodes.pop_front() {
                self.gone(pod)?;
            }
            if let Some(job) = of_job {
                self.gone(job)?;
            }
        }
        if (self.next.0 / BATCH).is_multiple_of((JOBS_PER_NODE / BATCH).max(1))
            && let Some(old) = self.nodes.pop_front()
        {
            let name = format!("node-{old}");
            let pods: Vec<ObjectRef> = self.state.pods_on(&name).map(|pod| pod.reference()).collect();
            self.on_nodes.retain(|pod| !pods.contains(pod));
            for pod in pods {
                self.gone(pod)?;
                let (_, pod) = self.job();
                self.apply(Event::Applied(Object::from(pod)))?;
                new += 1;
            }
            self.gone(Key::new(Kind::Node, "", &name).with_uid(Some(&name)))?;
            let number = self.next.1;
            self.next.1 += 1;
            self.nodes.push_back(number);
            let node = self.node(number);
            self.apply(Event::Applied(node))?;
        }
        let bound = self.decide()?;
        if bound == new { Ok(()) } else { Err(format!("bound {bound} of {new} pods").into()) }
    }

    /// Binds who can be bound; how many.
    fn decide(&mut self) -> Result<usize, Failure> {
        let decision = self.decider.decide(&mut self.state, &Options::default(), NOW)?;
        let n_bound = decision.bindings.len();
        for binding in decision.bindings {
            let seen = self.state.get(&binding.object.key);
            let Some(Object::Pod(mut seen)) = seen else { continue };
            self.version += 1;
            let version = Some(self.version.to_string());
            let changed = Arc::make_mut(&mut seen);
            changed.spec.get_or_insert_default().node_name = Some(binding.node.key.name.to_string());
            changed.metadata.resource_version.clone_from(&version);
            let patch = Patch::Bind { node: Arc::clone(&binding.node.key.name), annotations: binding.annotations };
            let write = self.state.assume(&binding.object, patch).ok_or("nothing to bind")?;
            let outcome = Outcome::Written { resource_version: version, uid: None };
            self.apply(Event::Settled { assumption: write.assumption, outcome })?;
            self.apply(Event::Applied(Object::Pod(seen)))?;
            self.on_nodes.push_back(binding.object);
        }
        Ok(n_bound)
    }
}

fn templates() -> Result<(Pod, Job, Node), Failure> {
    let room = json!({"cpu": "32", "memory": "128Gi", "pods": "250"});
    let spec = json!({"containers": [{"name": "app", "image": "app", "resources": {
        "requests": {"cpu": "100m", "memory": "128Mi"}}}]});
    let pod = json!({"metadata": {"name": "", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "", "uid": "", "controller": true}]},
        "spec": spec});
    let job = json!({"metadata": {"name": "", "namespace": "default"}, "spec": {"template": {"spec": spec}}});
    let node = json!({"metadata": {"name": ""}, "status": {"allocatable": room, "capacity": room,
        "images": [{"names": [""], "sizeBytes": 100_000_000}]}});
    Ok((serde_json::from_value(pod)?, serde_json::from_value(job)?, serde_json::from_value(node)?))
}
