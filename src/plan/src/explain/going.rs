//! What a plan passes over, or knows in part: it has ended, or goes away, or is on a node that does. That is told as the objects say it.

use std::sync::Arc;

use berth_api::ReservationPhase;
use berth_disruption::why_kept;
use berth_model::{Reservation, Sym};
use berth_provisioning::Options;
use berth_state::{PodRecord, State, is_remade};

use super::subject::{self, find_bound, where_it_is};
use super::{Explanation, Kind, ObjectRef};
use crate::Plan;
use crate::outcome::Outcome;

/// Pods that a line names.
const LISTED: usize = 10;

/// What is told of such an object.
pub(super) enum Going {
    /// A pod or a Reservation that holds nothing any more: what became of it.
    Ended(String),
    /// A pod that is on a node which goes away, or is gone.
    OnNode {
        node: String,
        /// Whether there is that node.
        is_there: bool,
        pod: Arc<PodRecord>,
        /// Why it is not told to leave.
        kept: Option<String>,
    },
    /// A node, and its pods.
    Node(Vec<OnNode>),
}

/// A pod on a node that goes away.
pub(super) struct OnNode {
    pod: Arc<PodRecord>,
    kept: Option<String>,
}

impl Going {
    /// Nothing of what stays.
    pub(super) fn of(plan: &Plan, state: &State, object: &ObjectRef) -> Option<Self> {
        match object.kind {
            Kind::Reservation => {
                let text = |known: &Reservation| plan.cluster.symbols.text(known.name) == object.name;
                let is_known = plan.cluster.reservations.iter().any(text);
                let known = state.get_as::<berth_api::Reservation>("", &object.name).filter(|_| !is_known)?;
                let phase = known.status.as_ref().map(|status| status.phase).unwrap_or_default();
                let what = match phase {
                    ReservationPhase::Succeeded | ReservationPhase::Failed => format!("is {phase:?}"),
                    _ => "has expired, or is being deleted".to_owned(),
                };
                Some(Going::Ended(format!("{what}, and holds nothing any more")))
            }
            Kind::Node => {
                state.node(&object.name).filter(|_| !stands(plan, &object.name))?;
                let pods: Vec<Arc<PodRecord>> =
                    state.pods_on(&object.name).filter(|pod| !pod.has_ended()).cloned().collect();
                let kept = why_kept(state, pods.iter().map(|pod| &**pod), plan.now);
                Some(Going::Node(pods.into_iter().zip(kept).map(|(pod, kept)| OnNode { pod, kept }).collect()))
            }
            Kind::Pod | Kind::Workload => {
                let pod = state.pod(&object.namespace, &object.name)?;
                if pod.has_ended() {
                    let phase = pod.phase().unwrap_or("Unknown");
                    return Some(Going::Ended(format!("has ended ({phase}){}", on_its_node(pod))));
                }
                let Some(node) = pod.node() else {
                    let is_going = pod.deletion().is_some();
                    return is_going.then(|| Going::Ended("is being deleted, and has come to no node".to_owned()));
                };
                let is_there = state.node(node).is_some();
                if is_there && stands(plan, node) {
                    return None;
                }
                let kept = why_kept(state, [&**pod], plan.now).pop().flatten();
                Some(Going::OnNode { node: node.to_owned(), is_there, pod: Arc::clone(pod), kept })
            }
        }
    }

    pub(super) fn explain(self, mut plan: Plan, options: &Options, object: &ObjectRef) -> Explanation {
        match self {
            Going::Ended(how) => {
                let name = match object.kind {
                    Kind::Reservation => format!("Reservation {}", object.name),
                    _ => format!("Pod {}/{}", object.namespace, object.name),
                };
                Explanation { has_place: true, outcome: how, ..Explanation::of(name) }
            }
            Going::OnNode { node, is_there, pod, kept } => {
                let of_node = if is_there { "which goes away" } else { "which is gone" };
                let begins = if pod.deletion().is_some() { "is being deleted on" } else { "runs on" };
                let bound = find_bound(&plan.cluster, object).and_then(|(at, _)| plan.cluster.nodes.get(at));
                let stays = bound.is_some_and(|node| node.is_leaving);
                let ends_there = pod.deletion().is_some() || pod.controller().is_none() || !is_remade(&pod);
                let story = if ends_there && !stays { None } else { subject::pod(plan, options, object).ok() };
                let mut story =
                    story.unwrap_or_else(|| Explanation::of(format!("Pod {}/{}", object.namespace, object.name)));
                let next = match kept {
                    _ if pod.deletion().is_some() => String::new(),
                    Some(why) => format!(", and is not told to leave: {why}"),
                    None if ends_there => ", and ends with it".to_owned(),
                    None if stays => String::new(),
                    None => format!("; the pod that is made in its place {}", story.outcome),
                };
                story.outcome = format!("{begins} node {node}, {of_node}{next}");
                story.has_place = true;
                story
            }
            Going::Node(pods) => {
                let mut story = Explanation::of(format!("Node {}", object.name));
                (story.has_place, story.outcome) = (true, "is going away".to_owned());
                let outcome = Outcome::of(&mut plan);
                let name = |on: &OnNode| on.pod.reference().key.full_name();
                let place = |on: &OnNode| {
                    let (namespace, name) = (on.pod.namespace().to_owned(), on.pod.name().to_string());
                    let (at, pod) = find_bound(&plan.cluster, &ObjectRef { kind: Kind::Pod, namespace, name })?;
                    Some(where_it_is(&plan, &outcome, at, plan.cluster.nodes.get(at)?.pods.get(pod)?))
                };
                story.add("Pods that run here", pods.len().to_string());
                let (stopping, others): (Vec<_>, Vec<_>) = pods.iter().partition(|on| on.pod.deletion().is_some());
                let (kept, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|on| on.kept.is_some());
                let (remade, others): (Vec<_>, Vec<_>) =
                    others.into_iter().partition(|on| on.pod.controller().is_some() && is_remade(&on.pod));
                let waits = kept.iter().filter_map(|on| Some(format!("{}: {}", name(on), on.kept.as_ref()?)));
                story.add("Waits for", listed(waits.collect()));
                story.add("Stop now", listed(stopping.iter().map(|on| name(on)).collect()));
                let comes = remade.iter().map(|on| {
                    let place = place(on).unwrap_or_else(|| "has no place".to_owned());
                    format!("{} {place}", name(on))
                });
                story.add("Are made anew elsewhere", listed(comes.collect()));
                story.add("End with it", listed(others.iter().map(|on| name(on)).collect()));
                story
            }
        }
    }
}

/// Whether a node is capacity, and stays.
fn stands(plan: &Plan, name: &str) -> bool {
    let name: Option<Sym> = plan.cluster.symbols.get(name);
    name.is_some_and(|name| plan.cluster.nodes.iter().any(|node| node.name == name && !node.is_leaving))
}

fn on_its_node(pod: &PodRecord) -> String {
    pod.node().map(|node| format!(" on node {node}")).unwrap_or_default()
}

fn listed(mut names: Vec<String>) -> String {
    names.sort_unstable();
    let rest = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    format!("{}{rest}", names.join("; "))
}
