//! The loop that turns changes into work, and work into writes.

use std::fmt;
use std::future::Future;
use std::pin::pin;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::Client;
use tokio::time::Instant;

use crate::core::{Core, Metrics};
use crate::intake::{Intake, SLICE};
use crate::options::Options;

/// Events that are being sent at a time. What becomes of them is nobody's concern.
const TELLING: usize = 4;
/// A summary is seen to when nothing else has come for so many turns of the other tasks: whoever has just changed something
/// waits for several hops between tasks, and at none of them for a summary of something else.
const CALM: usize = 16;
/// Rounds after which a summary is seen to although there was no calm.
const PATIENCE: usize = 128;
/// Without anything due, something else is waited for.
const FAR: std::time::Duration = std::time::Duration::from_secs(3600);

/// The built-in controllers of a cluster.
///
/// They run where [`run`](Self::run) is polled, in the caller's tokio runtime and on its time, paused or not. On a
/// current-thread runtime with paused time, the same objects, seed and clock give the same requests in the same order.
pub struct ControllerManager {
    client: Client,
    options: Options,
    metrics: Metrics,
}

impl ControllerManager {
    /// Controllers of the cluster that a client speaks to.
    pub fn new(client: Client, options: Options) -> Self {
        Self { client, options, metrics: Metrics::default() }
    }

    /// Counts what the controllers do.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Runs the controllers until `shutdown` ends. Errors of the API server are met by trying again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let (senders, mut intake) = Intake::new();
        let limit = self.options.concurrent_syncs.max(1);
        let client = self.client.clone();
        let mut core = Core::new(self.client, self.options, self.metrics, senders);
        core.watch_caches();
        core.start_discovery();
        let mut running = FuturesUnordered::new();
        // A request that sums up others may be a large one, so it is seen to when nothing else is there.
        let mut summing = FuturesUnordered::new();
        // Turns in which nothing else came, and rounds that summaries have waited.
        let (mut calm, mut waited) = (0, 0);
        let mut telling = FuturesUnordered::new();
        let mut batch = Vec::with_capacity(SLICE);
        loop {
            let due = core.queue.next_due().unwrap_or_else(|| Instant::now() + FAR);
            let under_way = running.len() + summing.len();
            let has_summary = core.queue.has_next_summary() && under_way < limit;
            waited = if has_summary || !summing.is_empty() { waited + 1 } else { 0 };
            if waited > PATIENCE
                && let Some(Some((work, (written, failure)))) = summing.next().now_or_never()
            {
                core.finish(work, written, failure);
                waited = 0;
            }
            let is_calm = calm >= CALM || waited > PATIENCE;
            let can_start = core.queue.has_next(is_calm) && under_way < limit;
            let wants_calm = !is_calm && (has_summary || !summing.is_empty());
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some((work, (written, failure))) = running.next(), if !running.is_empty() => {
                    calm = 0;
                    core.finish(work, written, failure);
                    // Whoever waits for this does not wait for a summary, too.
                    if !summing.is_empty() {
                        tokio::task::yield_now().await;
                    }
                }
                () = intake.next(&mut batch) => {
                    calm = 0;
                    let is_full = batch.len() == SLICE;
                    for message in batch.drain(..) {
                        message(&mut core);
                    }
                    if is_full {
                        tokio::task::yield_now().await;
                    }
                }
                () = std::future::ready(()), if can_start => {
                    intake.others_had_a_turn();
                    calm = 0;
                    for _ in 0..SLICE.min(limit.saturating_sub(under_way)) {
                        let Some((is_summary, started)) = core.start(is_calm) else { break };
                        if let Some((work, effect)) = started {
                            let client = client.clone();
                            let done = async move { (work, effect.carry_out(client).await) }.boxed();
                            if is_summary { summing.push(done) } else { running.push(done) }
                        }
                        // One at a time, even if there is nothing to write: to find that out takes as long as much else.
                        if is_summary {
                            waited = 0;
                            break;
                        }
                    }
                    tokio::task::yield_now().await;
                }
                () = std::future::ready(()), if intake.is_others_turn() => intake.others_had_a_turn(),
                () = std::future::ready(()), if wants_calm => {
                    calm += 1;
                    tokio::task::yield_now().await;
                }
                Some((work, (written, failure))) = summing.next(), if !summing.is_empty() => {
                    (calm, waited) = (0, 0);
                    core.finish(work, written, failure);
                    tokio::task::yield_now().await;
                }
                Some(_) = telling.next(), if !telling.is_empty() => {}
                () = std::future::ready(()), if core.events.has_next() && telling.len() < TELLING => {
                    if let Some(write) = core.events.next() {
                        let client = client.clone();
                        telling.push(async move { write.send(&client).await });
                    }
                }
                () = tokio::time::sleep_until(due) => core.queue.wake(Instant::now()),
            }
        }
    }
}

impl fmt::Debug for ControllerManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerManager").field("options", &self.options).finish_non_exhaustive()
    }
}
