//! Pods of traces that the server does not take now: by the quota of their namespace, or for whatever else keeps one out that has
//! lost its node and comes again. As their controller would, the simulation tries them again while others go.

use std::time::Duration;

use kube::core::Status;
use tokio::time::Instant;

use crate::act;
use crate::step::Arrival;
use crate::world::World;

/// How long after a pod has gone the others are tried again: the quota is counted anew meanwhile. Twice as long each time after
/// that, since quotas are changed, too.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// Whether the server refused a pod for its namespace's quota.
pub(crate) fn is_quota(status: &Status) -> bool {
    status.code == 403 && status.message.contains("exceeded quota")
}

/// Who waits outside, in the order of their arrival, with what the server said last.
#[derive(Debug, Default)]
pub(crate) struct KeptOut {
    pods: Vec<(Arrival, String)>,
    try_at: Option<Instant>,
    pause: Duration,
}

// === impl KeptOut ===

impl KeptOut {
    pub(crate) fn add(&mut self, arrival: Arrival, said: String) {
        self.pods.push((arrival, said));
        if self.try_at.is_none() {
            self.pause = (self.pause * 2).clamp(SHORTEST, LONGEST);
            self.try_at = Some(Instant::now() + self.pause);
        }
    }

    /// The pod of this name, if it is one of them.
    pub(crate) fn named(&mut self, namespace: &str, name: &str) -> Option<&mut Arrival> {
        let pods = self.pods.iter_mut().map(|(pod, _)| pod);
        pods.into_iter().find(|pod| pod.template.namespace == namespace && &*pod.name == name)
    }

    /// A pod of the trace is deleted. Says whether it was one of them.
    pub(crate) fn forget(&mut self, namespace: &str, name: &str) -> bool {
        let n_before = self.pods.len();
        self.pods.retain(|(pod, _)| pod.template.namespace != namespace || &*pod.name != name);
        self.pods.len() < n_before
    }

    /// Some pod has gone, or has ended.
    pub(crate) fn one_left(&mut self) {
        self.pause = Duration::ZERO;
        let soon = Instant::now() + SHORTEST;
        if !self.pods.is_empty() && self.try_at.is_none_or(|at| at > soon) {
            self.try_at = Some(soon);
        }
    }

    /// When those outside are to be tried again.
    pub(crate) fn try_at(&self) -> Option<Instant> {
        self.try_at
    }

    /// What is said of those who are outside to the end.
    pub(crate) fn note(&self) -> Option<String> {
        let (first, said) = self.pods.first()?;
        let (namespace, name, n_pods) = (&first.template.namespace, &first.name, self.pods.len());
        let noun = if n_pods == 1 { "pod of a trace was" } else { "pods of traces were" };
        Some(format!("{n_pods} {noun} kept out to the end: {namespace}/{name}: {said}"))
    }
}

/// Tries those again who were kept out.
pub(crate) async fn try_again(world: &mut World<'_>) {
    world.kept_out.try_at = None;
    for (arrival, _) in std::mem::take(&mut world.kept_out.pods) {
        create(world, arrival).await;
    }
}

/// Creates a pod of a trace that was there before, or keeps it out.
pub(crate) async fn create(world: &mut World<'_>, arrival: Arrival) {
    if let Err(said) = act::create(world, &arrival).await {
        world.kept_out.add(arrival, said);
    }
}
