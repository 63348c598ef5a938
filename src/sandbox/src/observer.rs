//! What a watcher of pods and nodes sees happen.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{NodeClaim, PlannedFor, Reservation, ReservationPhase, labels};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use crate::story::{Happened, Moment};

/// The taint that a node gets when it is to be emptied.
const DISRUPTED: &str = labels::DISRUPTED_TAINT;

/// How a message begins that says what a pod waits for that has a node already.
const WAITING: &str = "waiting for ";

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Without a node, and why.
    Pending(String),
    Bound,
    Running,
    Succeeded,
    Failed(String),
}

#[derive(Debug)]
struct SeenPod {
    name: String,
    of: String,
    stage: Stage,
    is_terminating: bool,
    /// Whether someone makes another in its place.
    is_controlled: bool,
    /// The node that a DaemonSet has it for, once it is there.
    daemon_on: Option<String>,
}

#[derive(Debug)]
struct SeenNode {
    name: String,
    is_ready: Option<bool>,
    is_draining: bool,
}

/// A Reservation as it was seen last.
#[derive(Debug)]
struct SeenReservation {
    phase: ReservationPhase,
    node: String,
    n_owners: usize,
}

/// Pods, nodes and NodeClaims as they were seen last, by UID; Reservations by name.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pods: BTreeMap<String, SeenPod>,
    /// What has no place, and why, by name and UID: few of a large cluster, which are asked for several times a second.
    left: BTreeMap<(String, String), String>,
    /// How often the above changed.
    n_changes: u64,
    /// How many pods, nodes and NodeClaims are on their way in or out.
    n_moving: usize,
    nodes: BTreeMap<String, SeenNode>,
    /// Names of nodes that are there and stay.
    staying: BTreeSet<String>,
    /// Whether they are as they are meant to be.
    claims: BTreeMap<String, bool>,
    /// NodeClaims that have no instance yet, by UID.
    unlaunched: BTreeSet<String>,
    /// By name of the NodeClaim: its UID, and how many it is for.
    planned: BTreeMap<String, (String, PlannedFor)>,
    reservations: BTreeMap<String, SeenReservation>,
}

// === impl SeenPod ===

impl SeenPod {
    /// Why it has no place, as far as that is known.
    fn why_left(&self) -> Option<&str> {
        match &self.stage {
            Stage::Pending(why) if !self.is_terminating => Some(why),
            Stage::Failed(why) if !self.is_controlled && !self.is_terminating => Some(why),
            _ => None,
        }
    }

    /// Whether it is on its way in or out.
    fn is_moving(&self) -> bool {
        self.is_terminating || self.stage == Stage::Bound
    }
}

// === impl SeenNode ===

impl SeenNode {
    /// Whether it is on its way in or out.
    fn is_moving(&self) -> bool {
        self.is_draining || self.is_ready == Some(false)
    }
}

// === impl Observer ===

impl Observer {
    pub(crate) fn pod(&mut self, pod: &Pod, moment: &mut Moment) {
        let (uid, stage, of) = (pod.uid().unwrap_or_default(), stage(pod), workload(pod));
        let before = self.pods.get(&uid).map(|seen| seen.stage.clone());
        let daemon_on = daemon_on(pod);
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        if before.as_ref() != Some(&stage) {
            if let Some(Stage::Pending(why)) = &before
                && !matches!(stage, Stage::Pending(_))
            {
                let claim = claim_to_come_up(why).map_or("", |(claim, _)| claim);
                moment.waits_no_more(&of, &[&name, claim]);
            }
            let of = of.clone();
            let happened = match (&before, &stage) {
                (None | Some(Stage::Bound), Stage::Pending(_)) => Some(Happened::PodsPending { of }),
                (Some(Stage::Pending(known)), Stage::Pending(why)) if kind_of(known) != kind_of(why) => {
                    match (why.starts_with(WAITING), chief_reason(why)) {
                        (true, _) => waits(of, why),
                        (false, "") => None,
                        (false, why) => Some(Happened::PodsStay { of, why: why.to_owned() }),
                    }
                }
                (_, Stage::Pending(_) | Stage::Bound) => None,
                (_, Stage::Running) => Some(Happened::PodsRunning { of }),
                (_, Stage::Succeeded) => Some(Happened::PodsSucceeded { of }),
                (_, Stage::Failed(_)) if self.goes_with_its_node(daemon_on.as_deref()) => None,
                (_, Stage::Failed(why)) => Some(Happened::PodsFailed { of, why: why.clone() }),
            };
            if let Some(happened) = happened {
                // Of alike pods each may wait for another NodeClaim.
                let claim = match &stage {
                    Stage::Pending(why) => claim_to_come_up(why).map(|(claim, _)| claim),
                    _ => None,
                };
                moment.add(happened, claim.unwrap_or(&name));
            }
        }
        let is_terminating = pod.metadata.deletion_timestamp.is_some();
        let is_controlled = pod.owner_references().iter().any(|owner| owner.controller == Some(true));
        let seen = SeenPod { name, of, stage, is_terminating, is_controlled, daemon_on };
        self.place(format!("pod {}", seen.name), &uid, seen.why_left().map(str::to_owned));
        self.n_moving += usize::from(seen.is_moving());
        if let Some(before) = self.pods.insert(uid, seen) {
            self.n_moving -= usize::from(before.is_moving());
        }
    }

    /// Whether a daemon is on a node that goes or is gone: the node's end tells of both.
    fn goes_with_its_node(&self, daemon_on: Option<&str>) -> bool {
        daemon_on.is_some_and(|node| !self.staying.contains(node))
    }

    /// Remembers why something has no place; `None` where it has one.
    fn place(&mut self, label: String, uid: &str, why_left: Option<String>) {
        let key = (label, uid.to_owned());
        if self.left.get(&key) == why_left.as_ref() {
            return;
        }
        self.n_changes += 1;
        match why_left {
            Some(why) => drop(self.left.insert(key, why)),
            None => drop(self.left.remove(&key)),
        }
    }

    pub(crate) fn pod_gone(&mut self, uid: &str, moment: &mut Moment) {
        if let Some(pod) = self.pods.remove(uid) {
            self.n_moving -= usize::from(pod.is_moving());
            self.place(format!("pod {}", pod.name), uid, None);
            moment.waits_no_more(&pod.of, &[&pod.name]);
            if !self.goes_with_its_node(pod.daemon_on.as_deref()) {
                moment.add(Happened::PodsGone { of: pod.of }, pod.name);
            }
        }
    }

    pub(crate) fn node(&mut self, node: &Node, moment: &mut Moment) {
        let (uid, name) = (node.uid().unwrap_or_default(), node.name_any());
        let ready = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = ready.filter(|own| own.type_ == "Ready").find_map(|own| match own.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        });
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let is_draining = node.metadata.deletion_timestamp.is_some() || taints.any(|taint| taint.key == DISRUPTED);
        let before = self.nodes.get(&uid);
        let was_ready = before.and_then(|seen| seen.is_ready) == Some(true);
        let was_draining = before.is_some_and(|seen| seen.is_draining);
        if is_ready == Some(true) && !was_ready {
            moment.add(Happened::NodesReady, &name);
        } else if is_ready.is_none() && was_ready {
            moment.add(Happened::NodesLost, &name);
        }
        if is_draining && !was_draining {
            moment.add(Happened::NodesDraining, &name);
        }
        if is_draining {
            self.staying.remove(&name);
        } else {
            self.staying.insert(name.clone());
        }
        let seen = SeenNode { name, is_ready, is_draining };
        self.n_moving += usize::from(seen.is_moving());
        if let Some(before) = self.nodes.insert(uid, seen) {
            self.n_moving -= usize::from(before.is_moving());
        }
    }

    pub(crate) fn node_gone(&mut self, uid: &str, moment: &mut Moment) {
        if let Some(node) = self.nodes.remove(uid) {
            self.n_moving -= usize::from(node.is_moving());
            self.staying.remove(&node.name);
            moment.add(Happened::NodesGone, node.name);
        }
    }

    pub(crate) fn claim(&mut self, claim: &NodeClaim) {
        let conditions = claim.status.iter().flat_map(|status| &status.conditions);
        let is_up = conditions.into_iter().any(|own| own.type_ == "Initialized" && own.status == "True");
        let is_steady = is_up && claim.metadata.deletion_timestamp.is_none();
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let name = claim.metadata.name.clone().unwrap_or_default();
        let note = claim.metadata.annotations.as_ref().and_then(|all| all.get(labels::PLANNED_FOR));
        let planned = note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default();
        self.planned.insert(name, (uid.clone(), planned));
        let is_launched = claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
        if is_launched || claim.metadata.deletion_timestamp.is_some() {
            self.unlaunched.remove(&uid);
        } else {
            self.unlaunched.insert(uid.clone());
        }
        self.n_moving += usize::from(!is_steady);
        if let Some(was_steady) = self.claims.insert(uid, is_steady) {
            self.n_moving -= usize::from(!was_steady);
        }
    }

    pub(crate) fn claim_gone(&mut self, name: &str, uid: &str) {
        if let Some(was_steady) = self.claims.remove(uid) {
            self.n_moving -= usize::from(!was_steady);
        }
        self.unlaunched.remove(uid);
        if self.planned.get(name).is_some_and(|(known, _)| known == uid) {
            self.planned.remove(name);
        }
    }

    pub(crate) fn reservation(&mut self, reservation: &Reservation, moment: &mut Moment) {
        let name = reservation.metadata.name.clone().unwrap_or_default();
        let status = reservation.status.clone().unwrap_or_default();
        let known = self.reservations.get(&name);
        let (phase, n_owners) = (status.phase, status.current_owners.len());
        let node = status.node_name.unwrap_or_default();
        let is_news = known.is_none_or(|known| known.phase != phase);
        let moves = known.is_some_and(|known| known.node != node) && phase == ReservationPhase::Available;
        if is_news || moves {
            let comes_to = |one: &str, several: &str| Happened::Reservations([one, several].map(str::to_owned));
            let on_node = |one: &str, several: &str| comes_to(&format!("{one} {node}"), &format!("{several} {node}"));
            let happened = match phase {
                ReservationPhase::Pending => match reservation.validate().first() {
                    Some(fault) => Happened::Said {
                        event: "Unusable",
                        message: format!("Reservation {name} cannot be used: {}: {}", fault.path, fault.message),
                    },
                    None => Happened::ReservationsPending,
                },
                ReservationPhase::Available if is_news => on_node("holds room on", "hold room on"),
                ReservationPhase::Available => on_node("moves to", "move to"),
                ReservationPhase::Waiting => on_node("waits for its room on", "wait for their room on"),
                ReservationPhase::Succeeded => comes_to("has served its owner", "have served their owners"),
                ReservationPhase::Failed => comes_to("is over", "are over"),
            };
            moment.add(happened, &name);
        }
        let before = known.map_or(0, |known| known.n_owners);
        if n_owners > before {
            let owners = status.current_owners.iter().filter_map(|owner| owner.name.as_deref());
            let owners: Vec<&str> = owners.collect();
            let message = format!("Reservation {name} serves {} of its owners: {}", owners.len(), owners.join(", "));
            moment.add(Happened::Said { event: "Owners", message }, &name);
        }
        let scheduled = status.conditions.into_iter().find(|own| own.type_ == "Scheduled");
        let why = scheduled.map(|own| own.message).unwrap_or_default();
        self.place(format!("Reservation {name}"), "", (phase == ReservationPhase::Pending).then_some(why));
        self.reservations.insert(name, SeenReservation { phase, node, n_owners });
    }

    pub(crate) fn reservation_gone(&mut self, name: &str) {
        self.place(format!("Reservation {name}"), "", None);
        self.reservations.remove(name);
    }

    /// How many pods and Reservations these NodeClaims were planned for.
    pub(crate) fn planned_for<'a>(&self, claims: impl Iterator<Item = &'a str>) -> PlannedFor {
        let known = claims.filter_map(|claim| self.planned.get(claim));
        known.fold(PlannedFor::default(), |sum, (_, own)| PlannedFor {
            pods: sum.pods + own.pods,
            reservations: sum.reservations + own.reservations,
        })
    }

    /// Forgets the pods that a new list does not show.
    pub(crate) fn keep_pods(&mut self, listed: &BTreeSet<String>, moment: &mut Moment) {
        let gone: Vec<String> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        for uid in &gone {
            self.pod_gone(uid, moment);
        }
    }

    /// Forgets the nodes that a new list does not show.
    pub(crate) fn keep_nodes(&mut self, listed: &BTreeSet<String>, moment: &mut Moment) {
        let gone: Vec<String> = self.nodes.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        for uid in &gone {
            self.node_gone(uid, moment);
        }
    }

    /// What has no place, with the reason where one is known.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.left.iter().map(|((label, _), why)| (label.as_str(), why.as_str()))
    }

    /// Another number each time that what has no place, or why, changes.
    pub(crate) fn n_changes(&self) -> u64 {
        self.n_changes
    }

    /// Whether a NodeClaim waits for its instance.
    pub(crate) fn is_launching(&self) -> bool {
        !self.unlaunched.is_empty()
    }

    /// How many pods, nodes and NodeClaims are on their way in or out.
    pub(crate) fn n_moving(&self) -> usize {
        self.n_moving
    }
}

fn stage(pod: &Pod) -> Stage {
    let status = pod.status.as_ref();
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Running") => Stage::Running,
        Some("Succeeded") => Stage::Succeeded,
        Some("Failed") => Stage::Failed(status.and_then(|status| status.message.clone()).unwrap_or_default()),
        _ if is_bound => Stage::Bound,
        _ => {
            let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
            let unscheduled = conditions.find(|own| own.type_ == "PodScheduled" && own.status == "False");
            Stage::Pending(unscheduled.and_then(|own| own.message.clone()).unwrap_or_default())
        }
    }
}

/// The node of a DaemonSet's pod.
fn daemon_on(pod: &Pod) -> Option<String> {
    let mut owners = pod.owner_references().iter().filter(|owner| owner.controller == Some(true));
    owners.find(|owner| owner.kind == "DaemonSet")?;
    pod.spec.as_ref()?.node_name.clone()
}

/// What no new node can do about it, where the message says so; else what the nodes say.
fn chief_reason(why: &str) -> &str {
    why.split_once("No new node: ").map_or(why, |(_, reason)| reason)
}

/// A reason without its numbers, which change with every node that comes.
fn kind_of(why: &str) -> String {
    // Those who wait for NodeClaims wait for alike ones.
    let why = claim_to_come_up(why).map_or_else(|| chief_reason(why), |(_, why)| why);
    why.chars().filter(|char| !char.is_ascii_digit()).collect()
}

/// The NodeClaim that a pod waits for to come up, and why it has not.
fn claim_to_come_up(why: &str) -> Option<(&str, &str)> {
    why.strip_prefix(WAITING)?.strip_prefix("nodeclaim ")?.split_once(" to come up: ")
}

/// What happened where a pod says now what it waits for.
fn waits(of: String, why: &str) -> Option<Happened> {
    if let Some((_, why)) = claim_to_come_up(why) {
        return Some(Happened::PodsWaitForClaims { of, why: why.to_owned() });
    }
    why.strip_prefix(WAITING).map(|what| Happened::PodsWait { of, what: what.to_owned() })
}

/// The workload that a pod is of, as a person calls it: the Deployment rather than its ReplicaSet.
fn workload(pod: &Pod) -> String {
    let Some(owner) = pod.owner_references().iter().find(|owner| owner.controller == Some(true)) else {
        return pod.name_any();
    };
    let hash = pod.labels().get("pod-template-hash");
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    deployment.unwrap_or(&owner.name).to_owned()
}
