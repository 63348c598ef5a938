//! Who leads: a Lease, with client-go's semantics.
//!
//! A candidate trusts no clock but its own: it measures from when it *saw* the last renewal, never from the time that
//! is written in the Lease. The fence ends when the lease of this process could first be taken by another, counted from
//! before the last successful renewal was sent.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::fence::Fence;

/// How leadership is found and kept.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who this process is; unique among all candidates.
    pub identity: String,
    /// How long others wait after a renewal that they saw before they take over.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up. Less than `duration`.
    pub renew_deadline: Duration,
    /// How often the Lease is looked at or renewed. Less than `renew_deadline`.
    pub retry_period: Duration,
}

impl Default for LeaseOptions {
    /// Karpenter's name, client-go's times.
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "karpenter-leader-election".to_owned(),
            identity: String::new(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A candidate for the lead.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    clock: Clock,
    options: LeaseOptions,
    fence: Fence,
    observed: Option<Observed>,
}

/// A Lease, and when this process first saw it so.
#[derive(Debug, Clone)]
struct Observed {
    lease: Lease,
    at: Instant,
}

/// What to do about a Lease that was seen.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// There is none: create it.
    Create(Box<Lease>),
    /// It is ours, or nobody renewed it for long enough: write this over it.
    Replace(Box<Lease>),
    /// Somebody else holds it.
    Wait,
}

// === impl Candidate ===

impl Candidate {
    /// A candidate that opens and closes `fence`.
    pub fn new(client: Client, clock: Clock, options: LeaseOptions, fence: Fence) -> Self {
        let api = Api::namespaced(client, &options.namespace);
        Self { api, clock, options, fence, observed: None }
    }

    /// Returns once this process leads.
    pub async fn acquire(&mut self) {
        loop {
            let sent = Instant::now();
            if self.attempt().await {
                self.fence.extend(sent + self.options.duration);
                // An answer that took longer than the Lease lasts opens nothing: another may have it by now.
                if self.fence.deadline().is_ok() {
                    tracing::info!(identity = self.options.identity, "became the leader");
                    return;
                }
            }
            tokio::time::sleep(self.options.retry_period).await;
        }
    }

    /// Renews until that fails for too long, or somebody else holds the Lease; then the fence is closed.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.options.renew_deadline {
            tokio::time::sleep(self.options.retry_period).await;
            let sent = Instant::now();
            let left = self.options.renew_deadline.saturating_sub(renewed.elapsed());
            if tokio::time::timeout(left, self.attempt()).await == Ok(true) {
                renewed = sent;
                self.fence.extend(sent + self.options.duration);
            } else if self.is_another_s() {
                break;
            }
        }
        self.fence.close();
        tracing::warn!(identity = self.options.identity, "lost the lead");
    }

    /// Gives the lead up, so that another candidate need not wait.
    pub async fn release(&mut self) {
        self.fence.close();
        let Some(observed) = self.observed.take().filter(|observed| holder(&observed.lease) == self.options.identity)
        else {
            return;
        };
        let mut lease = observed.lease;
        let now = MicroTime(self.clock.now());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(now.clone()),
            acquire_time: Some(now),
            lease_transitions: lease.spec.and_then(|spec| spec.lease_transitions),
            ..LeaseSpec::default()
        });
        let params = PostParams::default();
        let given_up = self.api.replace(&self.options.name, &params, &lease);
        if !matches!(tokio::time::timeout(self.options.retry_period, given_up).await, Ok(Ok(_))) {
            tracing::info!("the Lease could not be given up; others wait until it is over");
        }
    }

    fn is_another_s(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| {
            let holder = holder(&observed.lease);
            !holder.is_empty() && holder != self.options.identity
        })
    }

    /// One attempt to take or renew the Lease.
    async fn attempt(&mut self) -> bool {
        let found = match self.api.get_opt(&self.options.name).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "unable to read the Lease");
                return false;
            }
        };
        if let Some(lease) = &found {
            self.observe(lease.clone());
        }
        let age = self.observed.as_ref().map_or(Duration::ZERO, |observed| observed.at.elapsed());
        let written = match step(found.as_ref(), age, &self.options, self.clock.now()) {
            Step::Create(lease) => self.api.create(&PostParams::default(), &lease).await,
            Step::Replace(lease) => self.api.replace(&self.options.name, &PostParams::default(), &lease).await,
            Step::Wait => return false,
        };
        match written {
            Ok(lease) => {
                self.observe(lease);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "unable to write the Lease");
                false
            }
        }
    }

    fn observe(&mut self, lease: Lease) {
        let same = |known: &Observed| known.lease.spec == lease.spec;
        match &mut self.observed {
            // Its version counts for the next write even where a renewal it is not.
            Some(known) if same(known) => known.lease = lease,
            observed => *observed = Some(Observed { lease, at: Instant::now() }),
        }
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// What to do about a Lease of which nothing new was seen for `age`.
fn step(found: Option<&Lease>, age: Duration, options: &LeaseOptions, now: Timestamp) -> Step {
    let Some(found) = found else {
        let metadata = ObjectMeta {
            namespace: Some(options.namespace.clone()),
            name: Some(options.name.clone()),
            ..ObjectMeta::default()
        };
        return Step::Create(Box::new(Lease { metadata, spec: Some(spec(options, now, now, 0)) }));
    };
    let known = found.spec.as_ref();
    let is_ours = holder(found) == options.identity;
    let duration = known.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    // The holder's own duration counts, as client-go's: it may have been started with another.
    let duration = duration.map_or(options.duration, Duration::from_secs);
    if !is_ours && !holder(found).is_empty() && age <= duration {
        return Step::Wait;
    }
    let transitions = known.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let acquired = known.and_then(|spec| spec.acquire_time.as_ref()).filter(|_| is_ours).map_or(now, |time| time.0);
    let transitions = if is_ours { transitions } else { transitions.saturating_add(1) };
    Step::Replace(Box::new(Lease {
        metadata: found.metadata.clone(),
        spec: Some(spec(options, acquired, now, transitions)),
    }))
}

fn spec(options: &LeaseOptions, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> LeaseSpec {
    let seconds = SignedDuration::try_from(options.duration).map_or(i64::MAX, |duration| duration.as_secs());
    LeaseSpec {
        holder_identity: Some(options.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(acquired)),
        renew_time: Some(MicroTime(renewed)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests;
