//! Runs the core: feeds it what watches and answers tell, and carries out its effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_cloudprovider::{CloudProvider, tag};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::Client;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::claim::Question;
use crate::clock::Clock;
use crate::core::{Answer, Core, Effect, Input, Job};
use crate::fence::Fence;
use crate::kind::Key;
use crate::lanes::Lanes;
use crate::lease::Candidate;
use crate::observed::watch_all;
use crate::options::Options;
use crate::write::Write;
use crate::writer::Writer;

/// Events that wait for the core; watches wait when it is full.
const CHANNEL: usize = 4096;
/// Writes under way at a time.
const WRITES: usize = 256;
/// Calls of the cloud under way at a time.
const CALLS: usize = 128;

/// The controllers, not yet running.
#[derive(Clone)]
pub struct Controllers {
    client: Client,
    provider: Arc<dyn CloudProvider>,
    clock: Clock,
    options: Options,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").field("options", &self.options).finish_non_exhaustive()
    }
}

// === impl Controllers ===

impl Controllers {
    /// Controllers of one cluster and one cloud.
    pub fn new(client: Client, provider: Arc<dyn CloudProvider>, clock: Clock, options: Options) -> Self {
        Self { client, provider, clock, options }
    }

    /// Runs until `shutdown`. Where there is a lease, nothing is written but by its holder; whoever loses it starts
    /// again as a candidate, with nothing remembered.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let Some(lease) = self.options.lease.clone() else {
            tokio::select! {
                biased;
                () = &mut shutdown => {}
                () = self.lead(Fence::open()) => {}
            }
            return;
        };
        let fence = Fence::closed();
        let mut candidate = Candidate::new(self.client.clone(), self.clock.clone(), lease, fence.clone());
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = candidate.acquire() => {}
            }
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    candidate.release().await;
                    return;
                }
                () = candidate.hold() => {}
                () = self.lead(fence.clone()) => {}
            }
        }
    }

    /// Watches, decides and writes while the fence is open.
    async fn lead(&self, fence: Fence) {
        let (sender, mut events) = mpsc::channel(CHANNEL);
        let mut watches = JoinSet::new();
        watch_all(&self.client, &sender, &mut watches);
        drop(sender);
        let core = Core::new(self.options.clone(), Arc::clone(&self.provider));
        let mut outside = Outside::new(Writer::new(self.client.clone(), fence), Arc::clone(&self.provider));
        let mut core = core;
        loop {
            let now = self.clock.now();
            for effect in aside(|| core.work(now)) {
                outside.push(effect);
            }
            outside.start();
            let wake = core.next_time().map(|time| self.clock.instant(time));
            let input = tokio::select! {
                biased;
                Some(input) = outside.next() => input,
                observed = events.recv() => match observed {
                    Some(observed) => Input::Observed(observed),
                    None => return,
                },
                () = until(wake) => Input::Tick,
            };
            core.handle(input, self.clock.now());
            // What came together is taken in together, before anything is done about it.
            for _ in 0..CHANNEL {
                match events.try_recv() {
                    Ok(observed) => core.handle(Input::Observed(observed), self.clock.now()),
                    Err(_) => break,
                }
            }
        }
    }
}

/// Does what may take long, such as a decision over a large cluster, without holding up what else this thread runs:
/// watches, the lease and answers go on.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        // In simulations everything takes turns.
        _ => work(),
    }
}

async fn until(wake: Option<tokio::time::Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Requests under way.
struct Outside {
    writer: Writer,
    provider: Arc<dyn CloudProvider>,
    writes: Lanes<Key, (Option<Job>, Box<Write>)>,
    calls: Lanes<Job, Box<Question>>,
    under_way: FuturesUnordered<BoxFuture<'static, Input>>,
}

// === impl Outside ===

impl Outside {
    fn new(writer: Writer, provider: Arc<dyn CloudProvider>) -> Self {
        Self {
            writer,
            provider,
            writes: Lanes::new(WRITES),
            calls: Lanes::new(CALLS),
            under_way: FuturesUnordered::new(),
        }
    }

    fn push(&mut self, effect: Effect) {
        match effect {
            Effect::Write(job, write) => self.writes.push(write.key.clone(), (job, write)),
            Effect::Ask(job, question) => self.calls.push(job, question),
        }
    }

    /// Starts what may go now.
    fn start(&mut self) {
        while let Some((_, (job, write))) = self.writes.next() {
            let writer = self.writer.clone();
            self.under_way.push(Box::pin(async move {
                let outcome = writer.send(&write).await;
                Input::Written(job, write, outcome)
            }));
        }
        while let Some((job, question)) = self.calls.next() {
            let (provider, writer) = (Arc::clone(&self.provider), self.writer.clone());
            self.under_way.push(Box::pin(async move {
                let answer = writer.fenced(ask(&*provider, *question)).await;
                Input::Answered(job, Box::new(answer))
            }));
        }
    }

    /// The next answer; `None` where nothing is under way.
    async fn next(&mut self) -> Option<Input> {
        let input = self.under_way.next().await?;
        match &input {
            Input::Written(_, write, _) => self.writes.finish(write.key.clone()),
            Input::Answered(job, _) => self.calls.finish(job.clone()),
            Input::Observed(_) | Input::Tick => {}
        }
        Some(input)
    }
}

/// Asks the cloud.
async fn ask(provider: &dyn CloudProvider, question: Question) -> Answer {
    let method = question.method();
    let answer = match question {
        Question::Find { uid } => {
            let tags = BTreeMap::from([(tag::NODE_CLAIM_UID.to_owned(), uid)]);
            Answer::Instances(provider.list(&tags).await)
        }
        Question::All => Answer::Instances(provider.list(&BTreeMap::new()).await),
        Question::Create(request) => {
            let launched = provider.create(&request).await;
            Answer::Created(request, launched)
        }
        Question::Get(id) => Answer::Instance(provider.get(&id).await),
        Question::Delete(id) => {
            let deleted = provider.delete(&id).await;
            Answer::Deleted(id, deleted)
        }
        Question::Drift(claim) => Answer::Drift(provider.drift(&claim).await),
        Question::Status(class) => Answer::Status(provider.node_class_status(&class).await),
        Question::Types(class) => {
            let types = provider.instance_types(&class).await;
            Answer::Types(types)
        }
    };
    tracing::debug!(method, "asked the cloud");
    answer
}
