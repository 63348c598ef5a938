//! Berth's scheduler over one cluster, a pod at a time, with all that it says on the way.

use std::collections::{BTreeMap, VecDeque};

use berth_model::{ClassId, Cluster, Universe};
use berth_scheduling::filter::Obstacle;
use berth_scheduling::score::{self, Scores};
use berth_scheduling::{Launchable, Scheduler, Verdict};
use serde_json::{Value, json};

use crate::read;

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The pod is bound to a node.
    Bound(String),
    /// Room is made on a node and held for it.
    Nominated {
        /// The node.
        node: String,
        /// Who goes, most important first.
        victims: Vec<String>,
    },
    /// It stays pending.
    Left,
}

/// What a node says.
#[derive(Clone, Debug)]
pub enum NodeVerdict {
    /// The plugin that refuses, and its reasons, sorted.
    Refused(&'static str, Vec<String>),
    /// Weighted scores by plugin.
    Feasible(BTreeMap<&'static str, i64>),
}

/// One attempt of one pod.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// `namespace/name`.
    pub pod: String,
    /// Why the pod is not tried at all, if so.
    pub refusal: Option<String>,
    /// By node.
    pub nodes: BTreeMap<String, NodeVerdict>,
    /// The nodes with the highest total.
    pub best: Vec<String>,
    /// What became of it.
    pub decision: Decision,
}

impl Decision {
    /// The decision as the oracle reads it.
    pub(super) fn to_json(&self, pod: &str) -> Value {
        match self {
            Decision::Bound(node) => json!({"pod": pod, "node": node}),
            Decision::Nominated { node, victims } => json!({"pod": pod, "nominatedNode": node, "victims": victims}),
            Decision::Left => json!({"pod": pod}),
        }
    }
}

struct Waiting {
    pod: String,
    class: ClassId,
    priority: i32,
    nominated: Option<usize>,
}

/// Schedules the pending pods of a cluster in the order of the queue.
///
/// # Errors
/// The objects cannot be read.
pub fn drive(objects: &[Value]) -> anyhow::Result<Vec<Evaluation>> {
    let mut cluster = read::cluster(objects, None)?;
    let universe = Universe::with_scores(&mut cluster);
    let cluster = &cluster;
    let mut scheduler = Scheduler::new(cluster, &universe, Launchable::default());
    let mut queue: VecDeque<Waiting> = queued(objects, cluster, &universe).into();
    let mut evaluations = Vec::new();
    while let Some(waiting) = queue.pop_front() {
        if let Some(node) = waiting.nominated {
            scheduler.withdraw(waiting.class, node);
        }
        let mut evaluation = evaluate(&mut scheduler, cluster, &waiting);
        let spec = universe.class(waiting.class).and_then(|class| cluster.spec(class.spec));
        evaluation.refusal = spec.and_then(|spec| spec.refusal.as_ref()).map(|refusal| refusal.0.clone());
        let name = |node: usize| cluster.nodes.get(node).map_or("", |node| cluster.symbols.text(node.name)).to_owned();
        let on_nominated = waiting
            .nominated
            .filter(|node| matches!(evaluation.nodes.get(&name(*node)), Some(NodeVerdict::Feasible(_))));
        if let Some(node) = on_nominated {
            evaluation.best = vec![name(node)];
        }
        let chosen = on_nominated.or_else(|| scheduler.choose(waiting.class));
        evaluation.decision = if let Some(node) = chosen {
            scheduler.bind(waiting.class, node);
            Decision::Bound(name(node))
        } else if let Some((node, victims)) = preempt(&mut scheduler, cluster, waiting.class) {
            scheduler.nominate(waiting.class, node);
            let again = Waiting { nominated: Some(node), pod: waiting.pod.clone(), ..waiting };
            let place = queue.iter().position(|other| other.priority < again.priority).unwrap_or(queue.len());
            queue.insert(place, again);
            Decision::Nominated { node: name(node), victims }
        } else {
            Decision::Left
        };
        evaluations.push(evaluation);
    }
    Ok(evaluations)
}

fn preempt(scheduler: &mut Scheduler<'_>, cluster: &Cluster, class: ClassId) -> Option<(usize, Vec<String>)> {
    let before = scheduler.evicted().len();
    let node = scheduler.preempt(class)?;
    let victims = scheduler.evicted_since(before).iter().filter_map(|eviction| {
        let pod = cluster.nodes.get(eviction.node)?.pods.get(eviction.pod)?;
        Some(format!("{}/{}", cluster.symbols.text(pod.namespace), pod.name))
    });
    Some((node, victims.collect()))
}

fn queued(objects: &[Value], cluster: &Cluster, universe: &Universe) -> Vec<Waiting> {
    let mut classes: BTreeMap<String, ClassId> = BTreeMap::new();
    for (class, id) in universe.classes.iter().zip((0..).map(ClassId)) {
        for row in class.rows.iter().filter_map(|row| cluster.row(*row)) {
            let namespace = cluster.symbols.text(row.namespace);
            classes.extend(row.members.iter().map(|run| (format!("{namespace}/{}", run.name), id)));
        }
    }
    let pods = objects.iter().filter(|object| object["kind"] == "Pod");
    let names = pods.filter_map(|pod| {
        let of = |field: &str| pod["metadata"][field].as_str();
        Some(format!("{}/{}", of("namespace")?, of("name")?))
    });
    let waiting = names.filter_map(|pod| {
        let class = *classes.get(&pod)?;
        let spec = cluster.spec(universe.class(class)?.spec)?;
        Some(Waiting { pod, class, priority: spec.priority, nominated: None })
    });
    let mut waiting: Vec<Waiting> = waiting.collect();
    waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.priority));
    waiting
}

fn evaluate(scheduler: &mut Scheduler<'_>, cluster: &Cluster, waiting: &Waiting) -> Evaluation {
    let mut nodes = BTreeMap::new();
    let mut best: (i64, Vec<String>) = (i64::MIN, Vec::new());
    for assessment in scheduler.assess(waiting.class) {
        let Some(node) = cluster.nodes.get(assessment.node) else { continue };
        let name = cluster.symbols.text(node.name).to_owned();
        let verdict = match assessment.verdict {
            Verdict::Feasible(scores) => {
                let total = scores.total();
                if total > best.0 {
                    best = (total, Vec::new());
                }
                if total == best.0 {
                    best.1.push(name.clone());
                }
                NodeVerdict::Feasible(weighted(&scores))
            }
            Verdict::Refused(obstacle) => refused(&obstacle, cluster),
            Verdict::ComingUp => continue,
        };
        nodes.insert(name, verdict);
    }
    best.1.sort();
    Evaluation { pod: waiting.pod.clone(), refusal: None, nodes, best: best.1, decision: Decision::Left }
}

fn refused(obstacle: &Obstacle, cluster: &Cluster) -> NodeVerdict {
    let mut reasons = match obstacle {
        // Which taint it is, kube-scheduler 1.35 does not say.
        Obstacle::Taint(_) => vec!["node(s) had untolerated taint(s)".to_owned()],
        _ => obstacle.in_words(cluster),
    };
    reasons.sort();
    NodeVerdict::Refused(obstacle.plugin().name(), reasons)
}

fn weighted(scores: &Scores) -> BTreeMap<&'static str, i64> {
    BTreeMap::from([
        ("TaintToleration", score::TAINT_TOLERATION * scores.taint_toleration),
        ("NodeAffinity", score::NODE_AFFINITY * scores.node_affinity),
        ("NodeResourcesFit", scores.node_resources_fit),
        ("PodTopologySpread", score::POD_TOPOLOGY_SPREAD * scores.pod_topology_spread),
        ("InterPodAffinity", score::INTER_POD_AFFINITY * scores.inter_pod_affinity),
        ("NodeResourcesBalancedAllocation", scores.balanced_allocation),
        ("ImageLocality", scores.image_locality),
    ])
}
