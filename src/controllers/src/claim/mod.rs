//! The life of a NodeClaim: launched, registered, initialised, and in the end drained and terminated.
//!
//! [`step`] looks at one NodeClaim and what was observed around it, and says the one thing to do next. It sends nothing
//! and remembers nothing: what a process must remember between two steps is in [`Memory`], and every step is safe to
//! repeat by a process that remembers nothing.

pub(crate) mod conditions;
mod consistent;
mod consolidate;
mod drain;
pub(crate) mod drift;
mod hydrate;
pub(crate) mod initialize;
mod interrupt;
mod launch;
mod memory;
mod register;
pub(crate) mod repair;
pub(crate) mod target;
mod terminate;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use berth_api::{NodeClaim, NodeClaimStatus, NodeClassRef, NodePool, labels};
use berth_cloudprovider::{Interruption, LaunchRequest, ProviderId, RepairPolicy, ReservationAdoption};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::clock::after;
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::options::Timings;
use crate::view::{PodName, PodRecord, Table};
use crate::write::{Op, Write};

pub(crate) use drain::{Eviction, Manner};
pub(crate) use hydrate::has_foreign_hash;
pub(crate) use initialize::is_ready;
pub(crate) use launch::{TOKEN_ANNOTATION, admit_reserved};
pub(crate) use memory::{Launch, Memory, Verdict};
pub(crate) use repair::fault;
pub(crate) use target::{Offers, planned_offering};
pub(crate) use terminate::{cordon, ended_instance, is_disrupted, is_disruption};

/// A NodeClaim and what was observed around it.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) claim: &'a NodeClaim,
    /// The nodes with its provider id.
    pub(crate) nodes: Vec<&'a Arc<Node>>,
    /// The pods on these nodes.
    pub(crate) pods: Vec<&'a Arc<PodRecord>>,
    /// Where its node is gone: pods that are bound to it yet, and that their controllers make anew.
    pub(crate) left_behind: Vec<Arc<PodRecord>>,
    /// The volumes that are attached to these nodes.
    pub(crate) attachments: Vec<&'a Arc<VolumeAttachment>>,
    /// The PersistentVolumes of PersistentVolumeClaims.
    pub(crate) volumes: &'a Table<PodName, String>,
    /// Its NodePool, if that exists.
    pub(crate) pool: Option<&'a NodePool>,
    /// When this process last saw a pod come to its node or leave it.
    pub(crate) last_pod_event: Option<Timestamp>,
    /// What is to be had of its node class now; `None` while that is not known.
    pub(crate) offers: Option<&'a Offers>,
    /// Resources that NodeOverlays add to instance types, while it is not launched.
    pub(crate) overlaid: BTreeSet<&'a str>,
    pub(crate) memory: &'a Memory,
    /// Since when it has had no node although it was registered; `None` while many nodes are gone at once.
    pub(crate) nodeless_since: Option<Timestamp>,
    /// That the cloud will take its instance back, if it said so.
    pub(crate) interruption: Option<&'a Interruption>,
    /// Where its instance will be taken back: pods of its node whose next place is not ready.
    pub(crate) unplaced: BTreeSet<PodName>,
    /// How an instance can come under a reservation later.
    pub(crate) adoption: ReservationAdoption,
    /// The gate `ReservedCapacity`.
    pub(crate) with_reserved: bool,
    /// With the gate `NodeRepair`, and where its node is broken: the nodes of its NodePool.
    pub(crate) health: Option<repair::Health>,
    /// Which conditions say that a node is broken.
    pub(crate) repair_policies: &'a [RepairPolicy],
    pub(crate) timings: &'a Timings,
    /// How long the cloud may take to show a launch.
    pub(crate) lag: Duration,
    pub(crate) now: Timestamp,
}

/// What to do next, and what to tell.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Todo {
    pub(crate) next: Next,
    pub(crate) notices: Vec<Notice>,
    /// Pods that must leave the node; asked for side by side with all else.
    pub(crate) evictions: Vec<Eviction>,
}

/// The next step.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Next {
    /// Nothing until something changes.
    #[default]
    Idle,
    /// Nothing until something changes, or until then.
    Wait(Timestamp),
    /// Write this.
    Write(Box<Write>),
    /// Ask the cloud this.
    Ask(Box<Question>),
}

/// A call of the cloud.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "boxed by whoever keeps it")]
pub(crate) enum Question {
    /// Which instances carry the NodeClaim's uid?
    Find {
        /// The uid.
        uid: String,
    },
    /// Launch this.
    Create(LaunchRequest),
    /// Is it still there?
    Get(ProviderId),
    /// Shut it down.
    Delete(ProviderId),
    /// Which instances are there?
    All,
    /// Which of them will the cloud take back?
    Interrupted,
    /// Is it still what its node class asks for?
    Drift(Box<NodeClaim>),
    /// What does a node class offer?
    Types(NodeClassRef),
    /// Can a node class be used?
    Status(NodeClassRef),
}

// === impl Todo ===

impl Todo {
    pub(crate) fn write(write: Write) -> Self {
        Self { next: Next::Write(Box::new(write)), ..Self::default() }
    }

    pub(crate) fn ask(question: Question) -> Self {
        Self { next: Next::Ask(Box::new(question)), ..Self::default() }
    }

    pub(crate) fn wait(until: Timestamp) -> Self {
        Self { next: Next::Wait(until), ..Self::default() }
    }

    pub(crate) fn telling(mut self, notice: Notice) -> Self {
        self.notices.push(notice);
        self
    }
}

/// The one thing to do next for a NodeClaim.
pub(crate) fn step(facts: &Facts<'_>) -> Todo {
    let claim = facts.claim;
    if claim.metadata.deletion_timestamp.is_some() {
        return if has_finalizer(&claim.metadata) { terminate::step(facts) } else { Todo::default() };
    }
    if !has_finalizer(&claim.metadata) {
        return Todo::write(facts.merge(json!({"metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "finalizers": with_finalizer(&claim.metadata),
        }})));
    }
    if let Some(write) = hydrate::step(facts) {
        return Todo::write(write);
    }
    // Whoever deletes the node means its instance.
    if facts.nodes.iter().any(|node| node.metadata.deletion_timestamp.is_some()) {
        return Todo::write(facts.delete());
    }
    if let Some(todo) = interrupt::step(facts) {
        return todo;
    }
    let todo = match facts.nodeless_since.map(|since| after(since, facts.timings.garbage_age)) {
        // So does who has taken the finalizer off it first.
        Some(due) if due <= facts.now => {
            let message = "its node is gone, and does not come again";
            return Todo::write(facts.delete()).telling(facts.notice("NodeVanished", message));
        }
        Some(due) => earlier(in_time(facts), due),
        None => in_time(facts),
    };
    match interrupt::begins(facts) {
        Some(begins) => earlier(todo, begins),
        None => todo,
    }
}

fn in_time(facts: &Facts<'_>) -> Todo {
    let claim = facts.claim;
    if let Some(expires) = expiry(claim) {
        if expires <= facts.now {
            let message = "the NodeClaim is older than its expireAfter";
            return Todo::write(facts.delete()).telling(facts.notice("Expired", message));
        }
        return earlier(repair::step(facts, live(facts)), expires);
    }
    repair::step(facts, live(facts))
}

fn live(facts: &Facts<'_>) -> Todo {
    let status = facts.status();
    if !conditions::is_true(&status.conditions, conditions::LAUNCHED) {
        return launch::step(facts);
    }
    if !conditions::is_true(&status.conditions, conditions::REGISTERED) {
        return register::step(facts);
    }
    if !conditions::is_true(&status.conditions, conditions::INITIALIZED) {
        return initialize::step(facts);
    }
    let todo = consistent::step(facts, consolidate::step(facts));
    if matches!(todo.next, Next::Write(_)) { todo } else { drift::step(facts, todo) }
}

/// The same, looked at again at `time` at the latest.
fn earlier(mut todo: Todo, time: Timestamp) -> Todo {
    todo.next = match todo.next {
        Next::Idle => Next::Wait(time),
        Next::Wait(known) => Next::Wait(known.min(time)),
        other => other,
    };
    todo
}

/// When a NodeClaim is too old.
pub(crate) fn expiry(claim: &NodeClaim) -> Option<Timestamp> {
    let age = claim.spec.expire_after.duration()?.to_std()?;
    Some(after(created(&claim.metadata)?, age))
}

/// When an object was created.
pub(crate) fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Whether the object waits for its node's end before it goes.
pub(crate) fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|known| known == labels::TERMINATION_FINALIZER)
}

fn with_finalizer(metadata: &ObjectMeta) -> Vec<String> {
    let mut all = metadata.finalizers.clone().unwrap_or_default();
    all.push(labels::TERMINATION_FINALIZER.to_owned());
    all
}

/// A write that takes the termination finalizer off an object, over the version that was seen alone.
pub(crate) fn without_finalizer(kind: Kind, metadata: &ObjectMeta) -> Write {
    let kept: Vec<&String> =
        metadata.finalizers.iter().flatten().filter(|known| *known != labels::TERMINATION_FINALIZER).collect();
    let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "finalizers": kept}});
    on(kind, metadata, Op::Merge(patch))
}

/// A write of an object without a namespace that was seen.
pub(crate) fn on(kind: Kind, metadata: &ObjectMeta, op: Op) -> Write {
    Write {
        key: NamedObject::cluster(kind, metadata.name.clone().unwrap_or_default()),
        uid: metadata.uid.clone().unwrap_or_default(),
        op,
    }
}

// === impl Facts ===

impl Facts<'_> {
    fn status(&self) -> &NodeClaimStatus {
        static NONE: LazyLock<NodeClaimStatus> = LazyLock::new(NodeClaimStatus::default);
        self.claim.status.as_ref().unwrap_or(&NONE)
    }

    fn node(&self) -> Option<&Node> {
        self.nodes.first().map(|node| &***node)
    }

    fn provider_id(&self) -> Option<ProviderId> {
        let id = self.claim.status.as_ref()?.provider_id.clone().filter(|id| !id.is_empty())?;
        Some(ProviderId(id))
    }

    fn uid(&self) -> String {
        self.claim.metadata.uid.clone().unwrap_or_default()
    }

    fn merge(&self, patch: Value) -> Write {
        on(Kind::NodeClaim, &self.claim.metadata, Op::Merge(patch))
    }

    fn delete(&self) -> Write {
        on(Kind::NodeClaim, &self.claim.metadata, Op::Delete { grace: None })
    }

    fn notice(&self, reason: &'static str, message: impl Into<String>) -> Notice {
        Notice::about(Kind::NodeClaim, &self.claim.metadata, reason, message)
    }

    /// Writes the status over the version that was seen, if `change` changes it.
    fn change_status(&self, change: impl FnOnce(&mut NodeClaimStatus)) -> Option<Write> {
        let before = self.status();
        let mut status = before.clone();
        change(&mut status);
        let parts = [conditions::LAUNCHED, conditions::REGISTERED, conditions::INITIALIZED];
        conditions::summarise(&mut status.conditions, &parts, self.claim.metadata.generation, self.now);
        if status == *before {
            return None;
        }
        // What stays as it is goes unsaid.
        for (now, before) in [(&mut status.capacity, &before.capacity), (&mut status.allocatable, &before.allocatable)]
        {
            if now == before {
                now.clear();
            }
        }
        let patch = json!({"metadata": {"resourceVersion": self.claim.metadata.resource_version}, "status": status});
        Some(on(Kind::NodeClaim, &self.claim.metadata, Op::MergeStatus(patch)))
    }

    /// Sets a condition; `None` if it is so already.
    fn condition(&self, type_: &str, status: conditions::Status, reason: &str, message: &str) -> Option<Write> {
        let generation = self.claim.metadata.generation;
        self.change_status(|known| {
            conditions::set(&mut known.conditions, (type_, status), (reason, message), generation, self.now);
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
