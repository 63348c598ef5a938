//! What would be written, in words: a dry run decides, and leaves everything as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{PlannedFor, PlannedOffering, labels};
use berth_cloudprovider::CloudError;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::claim::Question;
use crate::core::{Answer, Begun};
use crate::kind::{Kind, NamedObject};
use crate::write::{Op, Outcome, Write};

/// For how long what would be written counts as if it were on its way; then it is decided anew.
const HOLD: Duration = Duration::from_secs(30);
/// What comes up again within this time is not said again.
const REPEAT_AFTER: Duration = Duration::from_secs(120);
/// How many names a line lists.
const NAMES: usize = 4;

/// Says what would be, and gives answers that change nothing.
#[derive(Clone)]
pub(crate) struct DryRun {
    say: Arc<dyn Fn(&str) + Send + Sync>,
    /// When each line came up last.
    said: Arc<Mutex<BTreeMap<String, Instant>>>,
}

// === impl DryRun ===

impl DryRun {
    pub(crate) fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { say: Arc::new(say), said: Arc::default() }
    }

    /// Says what these would do, unless it was said before and has come up again and again since.
    pub(crate) fn tell(&self, writes: &[Write]) {
        self.tell_lines(lines(writes));
    }

    /// Says which nodes would go, likewise.
    pub(crate) fn tell_commands(&self, begun: &[Begun]) {
        self.tell_lines(
            begun.iter().map(|begun| format!("would disrupt {}: {}", listed("node", &begun.nodes), begun.text)),
        );
    }

    fn tell_lines(&self, lines: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        let mut said = self.said.lock();
        said.retain(|_, last| now.duration_since(*last) < REPEAT_AFTER);
        for line in lines {
            if said.insert(line.clone(), now).is_none() {
                (self.say)(&line);
            }
        }
    }

    /// What becomes of a write.
    pub(crate) async fn outcome(&self) -> Outcome {
        tokio::time::sleep(HOLD).await;
        Outcome::Fenced
    }

    /// What becomes of a launch or a deletion.
    pub(crate) async fn answer(&self, question: Question) -> Answer {
        tokio::time::sleep(HOLD).await;
        let refused = || CloudError::Unavailable { message: "this is a dry run".to_owned() };
        match question {
            Question::Create(request) => Answer::Created(request, Err(refused())),
            Question::Delete(id) => Answer::Deleted(id, Err(refused())),
            Question::Get(_) => Answer::Instance(Err(refused())),
            Question::Types(_) => Answer::Types(Err(refused())),
            Question::Drift(_) => Answer::Drift(Err(refused())),
            Question::Status(_) => Answer::Status(Err(refused())),
            Question::Find { .. } | Question::Interrupted => Answer::Instances(Err(refused())),
            Question::All => Answer::All(Err(refused())),
        }
    }
}

/// Nodes that would be launched alike: how many, and for whom.
#[derive(Default)]
struct Launches {
    n: usize,
    for_whom: PlannedFor,
}

/// A line for each thing that these writes would do, launches of one kind together.
fn lines(writes: &[Write]) -> Vec<String> {
    let mut launches: BTreeMap<(String, String), Launches> = BTreeMap::new();
    let mut bindings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut others = Vec::new();
    for write in writes {
        match (write.key.kind, &write.op) {
            (Kind::NodeClaim, Op::Create(claim)) => {
                let (what, for_whom) = launch(claim);
                let launches = launches.entry(what).or_default();
                launches.n += 1;
                launches.for_whom.pods += for_whom.pods;
                launches.for_whom.reservations += for_whom.reservations;
            }
            (Kind::Pod, Op::Bind(binding)) => {
                let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
                bindings.entry(node.to_owned()).or_default().push(name_of(&write.key));
            }
            _ => others.extend(line(write)),
        }
    }
    let launches = launches.into_iter().map(|((pool, offering), Launches { n, for_whom })| {
        let whom = match for_whom {
            PlannedFor { pods, reservations: 0 } => format!("{} pending", counted(pods, "pod")),
            PlannedFor { pods: 0, reservations } => format!("{} pending", counted(reservations, "Reservation")),
            PlannedFor { pods, reservations } => {
                format!("{} and {} pending", counted(pods, "pod"), counted(reservations, "Reservation"))
            }
        };
        format!("{whom} → would launch {}: {n} × {offering} of NodePool {pool}", counted(n, "node"))
    });
    let bindings =
        bindings.into_iter().map(|(node, pods)| format!("would bind {} to node {node}", listed("pod", &pods)));
    launches.chain(bindings).chain(others).collect()
}

fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn listed(noun: &str, names: &[String]) -> String {
    match names {
        [name] => format!("{noun} {name}"),
        _ if names.len() <= NAMES => format!("{noun}s {}", names.join(", ")),
        _ => {
            let first: Vec<&str> = names.iter().take(NAMES - 1).map(String::as_str).collect();
            format!("{} {noun}s, {} among them,", names.len(), first.join(", "))
        }
    }
}

/// NodePool and offering of a NodeClaim, and for whom it is.
fn launch(claim: &Value) -> ((String, String), PlannedFor) {
    let text = |of: &str, key: &str| {
        let value = claim.get("metadata").and_then(|metadata| metadata.get(of)?.get(key)).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let for_whom = serde_json::from_str(&text("annotations", labels::PLANNED_FOR)).unwrap_or_default();
    let planned: Option<PlannedOffering> = serde_json::from_str(&text("annotations", labels::PLANNED_OFFERING)).ok();
    let offering = planned.map_or_else(String::new, |planned| match (planned.reservation_id, planned.zone) {
        (Some(id), _) => format!("{} on {id}", planned.instance_type),
        (None, Some(zone)) => format!("{} {} in {zone}", planned.instance_type, planned.capacity_type),
        (None, None) => format!("{} {}", planned.instance_type, planned.capacity_type),
    });
    ((text("labels", labels::NODEPOOL), offering), for_whom)
}

/// What another write would do; nothing where nobody would miss it.
fn line(write: &Write) -> Option<String> {
    let (kind, name) = (write.key.kind.as_str(), name_of(&write.key));
    match &write.op {
        Op::Evict => Some(format!("would evict pod {name}")),
        Op::Delete { .. } => Some(format!("would delete {kind} {name}")),
        Op::MergeStatus(patch) if write.key.kind == Kind::Reservation => {
            let node = patch.pointer("/status/nodeName").and_then(Value::as_str)?;
            Some(format!("would hold room for Reservation {name} on node {node}"))
        }
        Op::Create(event) if write.key.kind == Kind::Event => {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if text("/type") != "Warning" {
                return None;
            }
            let namespace = text("/involvedObject/namespace");
            let slash = if namespace.is_empty() { "" } else { "/" };
            let (kind, name) = (text("/involvedObject/kind"), text("/involvedObject/name"));
            Some(format!("{kind} {namespace}{slash}{name}: {}: {}", text("/reason"), text("/message")))
        }
        _ => None,
    }
}

fn name_of(key: &NamedObject) -> String {
    if key.namespace.is_empty() { key.name.clone() } else { format!("{}/{}", key.namespace, key.name) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(kind: Kind, name: &str, op: Op) -> Write {
        Write { key: NamedObject::namespaced(kind, "", name), uid: String::new(), op }
    }

    fn claim(name: &str, offering: &str, pods: usize) -> Write {
        let body = json!({"metadata": {"name": name, "labels": {labels::NODEPOOL: "web"}, "annotations": {
            labels::PLANNED_OFFERING: offering, labels::PLANNED_FOR: json!({"pods": pods}).to_string()}}});
        write(Kind::NodeClaim, name, Op::Create(body))
    }

    #[test]
    fn launches_of_one_offering_are_one_line() {
        let slot = r#"{"instanceType":"m5.xlarge","capacityType":"reserved","reservationID":"cr-web"}"#;
        let paid = r#"{"instanceType":"m5.large","zone":"a","capacityType":"spot"}"#;
        let evicted = write(Kind::Pod, "old", Op::Evict);
        let writes = [claim("a", slot, 3), claim("b", paid, 1), claim("c", slot, 2), evicted];
        let expected = [
            "1 pod pending → would launch 1 node: 1 × m5.large spot in a of NodePool web",
            "5 pods pending → would launch 2 nodes: 2 × m5.xlarge on cr-web of NodePool web",
            "would evict pod old",
        ];
        assert_eq!(lines(&writes), expected);
    }

    #[test]
    fn nodes_that_would_go_are_named() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let dry = DryRun::new(move |line| to.lock().push(line.to_owned()));
        let begun = |text: &str, nodes: &[&str]| Begun {
            text: text.to_owned(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let one = begun("1 node → other nodes: $0.1920/h saved, 1 pod moves", &["a"]);
        dry.tell_commands(&[one, begun("2 nodes without pods: $0.3840/h saved", &["b", "c"])]);
        let expected = [
            "would disrupt node a: 1 node → other nodes: $0.1920/h saved, 1 pod moves",
            "would disrupt nodes b, c: 2 nodes without pods: $0.3840/h saved",
        ];
        assert_eq!(*said.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_up_again_and_again_is_said_once() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let dry = DryRun::new(move |line| to.lock().push(line.to_owned()));
        for _ in 0..10 {
            dry.tell(&[write(Kind::Pod, "old", Op::Evict)]);
            tokio::time::sleep(HOLD).await;
        }
        assert_eq!(*said.lock(), ["would evict pod old"]);
        tokio::time::sleep(REPEAT_AFTER).await;
        dry.tell(&[write(Kind::Pod, "old", Op::Evict)]);
        assert_eq!(said.lock().len(), 2, "it is news again");
    }
}
