//! Termination: taint, drain, wait for volumes, delete the instance, take the finalizers off. In this order, and
//! whatever was done before is found again by a process that remembers nothing.

use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::{LaunchToken, ProviderId};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::conditions::{self, Status};
use super::drain::{Drain, Eviction, Manner, drain, is_waited_for};
use super::initialize::is_ready;
use super::launch::token_text;
use super::memory::{InstanceEnd, Launch, Memory};
use super::{Facts, Question, Todo, has_finalizer, on, without_finalizer};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::{PodName, PodRecord};
use crate::write::{Op, Write};

/// Load balancers leave a node with this label alone.
const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// How often the cloud is asked whether an instance is gone.
const POLL: Duration = Duration::from_secs(2);
/// Volumes of a node with this taint are detached without its kubelet having unmounted them, and its pods are deleted by
/// force: its machine is gone.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// How long the node of a machine that is gone stays for its volumes to be detached.
const DETACHED_WITHIN: Duration = Duration::from_secs(60);
/// How long a NodeClaim stays for pods of its machine that is gone.
const LEFT_BEHIND_FOR: Duration = Duration::from_secs(60);
/// How often the cloud is asked about the instance of a node that is not ready.
const ASK_ABOUT_LOST: Duration = Duration::from_secs(10);

/// The next step of a NodeClaim that is being deleted.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    let deletion = facts.claim.metadata.deletion_timestamp.as_ref().map_or(facts.now, |time| time.0);
    let annotations = facts.claim.metadata.annotations.as_ref();
    let written = annotations.and_then(|all| all.get(labels::TERMINATION_TIMESTAMP));
    let deadline = written.and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(write) = super::interrupt::end_in_time(facts, deadline) {
        return Todo::write(write);
    }
    let grace = facts.claim.spec.termination_grace_period.as_ref().and_then(berth_api::GoDuration::to_std);
    if let (Some(grace), None) = (grace, deadline) {
        let deadline = conditions::whole_seconds(after(deletion, grace));
        return Todo::write(facts.merge(json!({"metadata": {
            "annotations": {labels::TERMINATION_TIMESTAMP: deadline.to_string()},
        }})));
    }
    let instance = facts.provider_id().or_else(|| match &facts.memory.launch {
        Launch::Done(instance) => Some(instance.provider_id.clone()),
        _ => None,
    });
    let Some(id) = instance else { return without_instance(facts) };
    if let Some(node) = facts.nodes.iter().find(|node| node.metadata.deletion_timestamp.is_none()) {
        return Todo::write(on(Kind::Node, &node.metadata, Op::Delete { grace: None }));
    }
    if is_gone(facts) {
        return out_of_service(facts).unwrap_or_else(|| finish(facts));
    }
    let is_over = deadline.is_some_and(|deadline| deadline <= facts.now);
    let was_asked = conditions::is_true(&facts.status().conditions, conditions::INSTANCE_TERMINATING);
    match facts.node() {
        Some(node) if !is_over && !was_asked => {
            leave(facts, node, deadline, &id).unwrap_or_else(|| end_instance(facts, id))
        }
        _ => end_instance(facts, id),
    }
}

/// No instance is known: either none was asked for, or a call's outcome is not known.
fn without_instance(facts: &Facts<'_>) -> Todo {
    let token = token_text(facts);
    let is_own = token.is_some() && facts.memory.own_token.as_deref() == token;
    match &facts.memory.launch {
        Launch::Failed(_) => finish(facts),
        // What is no token was never used for a call.
        _ if token.is_none_or(|token| token.parse::<LaunchToken>().is_err()) => finish(facts),
        Launch::Unknown if is_own => finish(facts),
        Launch::Absent { since, looked } if *looked >= after(*since, facts.lag) => finish(facts),
        Launch::Absent { since, .. } if facts.now < after(*since, facts.lag) => Todo::wait(after(*since, facts.lag)),
        Launch::Done(_) => Todo::default(),
        Launch::Unknown | Launch::Lost(_) | Launch::Again(_) | Launch::Absent { .. } => {
            Todo::ask(Question::Find { uid: facts.uid() })
        }
    }
}

/// Taint, drain, volumes; `None` once nothing holds the instance any more.
fn leave(facts: &Facts<'_>, node: &Node, deadline: Option<Timestamp>, id: &ProviderId) -> Option<Todo> {
    if let Some(patch) = cordon(node) {
        return Some(Todo::write(on(Kind::Node, &node.metadata, Op::Merge(patch))));
    }
    let is_drained = conditions::is_true(&facts.status().conditions, conditions::DRAINED);
    let drain =
        (!is_drained).then(|| drain(facts.pods.iter().map(|pod| &***pod), &facts.unplaced, deadline, facts.now));
    let mut todo = match drain.filter(|drain| drain.n_waiting > 0) {
        Some(drain) => draining(facts, node, drain),
        None => match n_awaited_volumes(facts) {
            0 => return emptied(facts, 0).map(Todo::write),
            n_attached => emptied(facts, n_attached).map_or_else(Todo::default, Todo::write),
        },
    };
    if let Some(deadline) = deadline {
        todo = super::earlier(todo, deadline);
    }
    // A node that does not answer may have lost its machine: then nothing will ever leave it.
    if !is_ready(node) && !matches!(todo.next, super::Next::Write(_)) {
        let ask_at = facts.memory.asked_at.map_or(facts.now, |asked| after(asked, ASK_ABOUT_LOST));
        if ask_at <= facts.now {
            todo.next = super::Next::Ask(Box::new(Question::Get(id.clone())));
        } else {
            todo = super::earlier(todo, ask_at);
        }
    }
    Some(todo)
}

/// Says that no pod is waited for any more, nor a volume where none is left: then the instance ends, all in one write.
fn emptied(facts: &Facts<'_>, n_attached: usize) -> Option<Write> {
    let generation = facts.claim.metadata.generation;
    facts.change_status(|status| {
        let mut set = |type_: &str, is: Status, reason: &str, message: &str| {
            conditions::set(&mut status.conditions, (type_, is), (reason, message), generation, facts.now);
        };
        set(conditions::DRAINED, Status::True, conditions::DRAINED, "");
        if n_attached == 0 {
            set(conditions::VOLUMES_DETACHED, Status::True, conditions::VOLUMES_DETACHED, "");
            set(conditions::INSTANCE_TERMINATING, Status::True, conditions::INSTANCE_TERMINATING, "");
        } else {
            let message = format!("{n_attached} volume(s) are still attached");
            set(conditions::VOLUMES_DETACHED, Status::Unknown, "AwaitingVolumeDetachment", &message);
        }
    })
}

/// The volumes that are waited for; none once they were said to be detached.
fn n_awaited_volumes(facts: &Facts<'_>) -> usize {
    let are_detached = conditions::is_true(&facts.status().conditions, conditions::VOLUMES_DETACHED);
    if are_detached { 0 } else { n_attached(facts) }
}

fn draining(facts: &Facts<'_>, node: &Node, drain: Drain) -> Todo {
    let message = format!("waiting for {} pod(s) to leave", drain.n_waiting);
    let mut todo = match facts.condition(conditions::DRAINED, Status::Unknown, "Draining", &message) {
        Some(write) => Todo::write(write),
        None => drain.wake.map_or_else(Todo::default, Todo::wait),
    };
    todo.evictions = drain.evictions;
    todo.telling(Notice::about(Kind::Node, &node.metadata, "FailedDraining", message))
}

/// The taint and the label that a node which goes has; `None` if it has them.
pub(crate) fn cordon(node: &Node) -> Option<serde_json::Value> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let has_label = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(EXCLUDE_BALANCERS));
    if has_label && taints.iter().any(is_disruption) {
        return None;
    }
    let mut wanted: Vec<Taint> = taints.into_iter().filter(|taint| !is_disruption(taint)).collect();
    wanted.push(Taint { key: labels::DISRUPTED_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
    Some(json!({
        "metadata": {
            "resourceVersion": node.metadata.resource_version, "labels": {EXCLUDE_BALANCERS: "karpenter"},
        },
        "spec": {"taints": wanted},
    }))
}

/// Whether a taint says that the node is being disrupted.
pub(crate) fn is_disruption(taint: &Taint) -> bool {
    taint.key == labels::DISRUPTED_TAINT && taint.effect == "NoSchedule"
}

/// Whether a node has that taint: pods are not compared with it.
pub(crate) fn is_disrupted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(is_disruption)
}

/// The volumes that must be detached: those of pods that stay until the end are not waited for.
fn n_attached(facts: &Facts<'_>) -> usize {
    let staying = facts.pods.iter().filter(|pod| pod.is_active() && !is_waited_for(pod, facts.now));
    let claims = staying.flat_map(|pod| {
        pod.volume_claims.iter().map(|claim| PodName { namespace: pod.name.namespace.clone(), name: claim.clone() })
    });
    let kept: Vec<&String> = claims.filter_map(|claim| facts.volumes.get(&claim)).collect();
    let name = |attachment: &k8s_openapi::api::storage::v1::VolumeAttachment| {
        attachment.spec.source.persistent_volume_name.clone()
    };
    facts.attachments.iter().filter(|known| name(known).is_none_or(|volume| !kept.contains(&&volume))).count()
}

/// The machine is gone and volumes are still attached to its node: that says so, and is waited for a little. Without it they
/// would stay attached for minutes, and pods that use them elsewhere would wait for as long.
fn out_of_service(facts: &Facts<'_>) -> Option<Todo> {
    let (node, InstanceEnd::Gone(since)) = (facts.node()?, &facts.memory.end) else { return None };
    if facts.attachments.is_empty() {
        return None;
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    if taints.iter().any(|taint| taint.key == OUT_OF_SERVICE) {
        let until = after(*since, DETACHED_WITHIN);
        return (until > facts.now).then(|| Todo::wait(until));
    }
    let taint = Taint {
        key: OUT_OF_SERVICE.to_owned(),
        value: Some("nodeshutdown".to_owned()),
        effect: "NoExecute".to_owned(),
        ..Taint::default()
    };
    let wanted: Vec<Taint> = taints.into_iter().chain([taint]).collect();
    let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": wanted}});
    Some(Todo::write(on(Kind::Node, &node.metadata, Op::Merge(patch))))
}

fn end_instance(facts: &Facts<'_>, id: ProviderId) -> Todo {
    let reason = conditions::INSTANCE_TERMINATING;
    if facts.provider_id().is_some()
        && let Some(write) = facts.condition(conditions::INSTANCE_TERMINATING, Status::True, reason, "")
    {
        return Todo::write(write);
    }
    match facts.memory.end {
        InstanceEnd::Asked(at) if after(at, POLL) > facts.now => Todo::wait(after(at, POLL)),
        // It cannot be trusted yet that the instance does not show.
        InstanceEnd::Gone(_) if shows_at(facts.claim, facts.memory, facts.lag) > facts.now => {
            Todo::wait(shows_at(facts.claim, facts.memory, facts.lag))
        }
        _ => Todo::ask(Question::Delete(id)),
    }
}

/// Whether the cloud does not have the instance any more, said after it would have shown.
fn is_gone(facts: &Facts<'_>) -> bool {
    has_ended(facts.claim, facts.memory, facts.lag)
}

/// The instance of a NodeClaim, where the cloud does not have it any more.
pub(crate) fn ended_instance(claim: &NodeClaim, memory: &Memory, lag: Duration) -> Option<ProviderId> {
    let written = || claim.status.as_ref()?.provider_id.clone().filter(|id| !id.is_empty()).map(ProviderId);
    let launched = || match &memory.launch {
        Launch::Done(instance) => Some(instance.provider_id.clone()),
        _ => None,
    };
    has_ended(claim, memory, lag).then(|| written().or_else(launched)).flatten()
}

fn has_ended(claim: &NodeClaim, memory: &Memory, lag: Duration) -> bool {
    matches!(memory.end, InstanceEnd::Gone(at) if at >= shows_at(claim, memory, lag))
}

/// When the launch of the instance shows at the latest.
fn shows_at(claim: &NodeClaim, memory: &Memory, lag: Duration) -> Timestamp {
    let written = || conditions::true_since(&claim.status.as_ref()?.conditions, conditions::LAUNCHED);
    let launched = match &memory.launch {
        Launch::Done(instance) => Some(instance.launched_at),
        _ => written(),
    };
    // Conditions are kept in whole seconds.
    let lag = SignedDuration::try_from(lag).unwrap_or(SignedDuration::MAX).saturating_add(SignedDuration::from_secs(1));
    launched.map_or(Timestamp::MIN, |launched| launched.saturating_add(lag).unwrap_or(Timestamp::MAX))
}

/// Pods that were not waited for, as those that tolerate the taint, are bound to a node that is gone. They are deleted: their
/// controllers would make others only once the garbage collector of pods has found them, the better part of a minute later.
fn left_behind(facts: &Facts<'_>) -> Option<Todo> {
    let InstanceEnd::Gone(since) = facts.memory.end else { return None };
    let until = after(since, LEFT_BEHIND_FOR);
    let left = facts.left_behind.iter().filter(|pod| !pod.was_given(0));
    let tell = |pod: &Arc<PodRecord>| Eviction {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        manner: Manner::Delete { grace: 0 },
    };
    let evictions: Vec<Eviction> = left.map(tell).collect();
    let waits = until > facts.now && !evictions.is_empty();
    waits.then(|| Todo { next: super::Next::Wait(after(facts.now, POLL).min(until)), evictions, ..Todo::default() })
}

/// The finalizers come off: the node's first, as its NodeClaim is what leads to it.
fn finish(facts: &Facts<'_>) -> Todo {
    if let Some(node) = facts.nodes.iter().find(|node| has_finalizer(&node.metadata)) {
        return Todo::write(without_finalizer(Kind::Node, &node.metadata));
    }
    if let Some(todo) = left_behind(facts) {
        return todo;
    }
    Todo::write(without_finalizer(Kind::NodeClaim, &facts.claim.metadata))
}
