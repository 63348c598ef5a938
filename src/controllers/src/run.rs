//! Runs the core: feeds it what watches and answers tell, and carries out its effects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_cloudprovider::{CloudProvider, tag};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use kube::Client;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claim::Question;
use crate::clock::Clock;
use crate::core::{Answer, Asked, Core, Effect, Input, Job, Look, LooksFor};
use crate::dry::DryRun;
use crate::fence::Fence;
use crate::kind::{Kind, NamedObject};
use crate::lanes::Lanes;
use crate::lease::Candidate;
use crate::metrics::{Ask, Counter, Counts, Measured, Metrics, Reporter};
use crate::observed::{Observed, watch_all};
use crate::options::Options;
use crate::write::{Op, Write};
use crate::writer::Writer;

/// Events that wait for the core; watches wait when it is full.
const CHANNEL: usize = 4096;
/// Writes under way at a time.
const WRITES: usize = 256;
/// And of Events.
const EVENTS: usize = 32;
/// How long the answers to requests are waited for before the Lease is given up: who stops it expects it to end within a second.
const PATIENCE: Duration = Duration::from_millis(500);
/// Calls of the cloud under way at a time.
const CALLS: usize = 128;

/// The controllers, not yet running.
#[derive(Clone)]
pub struct Controllers {
    client: Client,
    provider: Arc<dyn CloudProvider>,
    clock: Clock,
    options: Options,
    reporter: Option<Arc<Mutex<Reporter>>>,
    dry: Option<DryRun>,
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
        Self { client, provider, clock, options, reporter: None, dry: None }
    }

    /// The same, and where to ask for their metrics while they run.
    #[must_use]
    pub fn with_metrics(self) -> (Self, Metrics) {
        let (metrics, reporter) = Metrics::new();
        (Self { reporter: Some(Arc::new(Mutex::new(reporter))), ..self }, metrics)
    }

    /// The same, but nothing is written to the cluster and nothing is launched or shut down: `say` is told what would be,
    /// a line at a time, and again only where it comes up anew. They need no lease.
    #[must_use]
    pub fn dry(self, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let options = Options { lease: None, ..self.options };
        Self { dry: Some(DryRun::new(say)), options, ..self }
    }

    /// Runs until `shutdown`. Where there is a lease, nothing is written but by its holder; whoever loses it starts
    /// again as a candidate, with nothing remembered.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let Some(lease) = self.options.lease.clone() else {
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return,
                    // What it knew does not hold any more.
                    () = self.lead(Fence::open()) => {}
                }
            }
        };
        let (fence, duration) = (Fence::closed(), lease.duration);
        let mut candidate = Candidate::new(self.client.clone(), self.clock.clone(), lease, fence.clone());
        loop {
            if let Some(reporter) = &self.reporter {
                reporter.lock().await.health.stand_by();
            }
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = candidate.acquire() => {}
            }
            let mut lead = Box::pin(self.lead(fence.clone()));
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    fence.close();
                    // What is on its way may take effect under the next leader, who would not know of it.
                    let is_settled = tokio::select! {
                        biased;
                        is_settled = fence.is_settled(PATIENCE, duration) => is_settled,
                        () = &mut lead => false,
                    };
                    if is_settled {
                        candidate.release().await;
                    } else {
                        tracing::info!("requests are not answered yet: the Lease is not given up, others wait until it is over");
                    }
                    return;
                }
                () = candidate.hold() => {}
                () = &mut lead => {}
            }
        }
    }

    /// Watches, decides and writes while the fence is open, until the server is set back to an earlier state: whoever leads
    /// begins anew then, with nothing remembered.
    async fn lead(&self, fence: Fence) {
        let (sender, mut events) = mpsc::channel(CHANNEL);
        let mut watches = JoinSet::new();
        let longest_silence = self.options.timings.longest_silence;
        watch_all(&self.client, (&self.clock, longest_silence), &sender, &mut watches);
        drop(sender);
        let mut core = Core::new(self.options.clone(), Arc::clone(&self.provider));
        let answers_after = self.options.answers_after;
        if has_threads() || answers_after.is_some() {
            core.decide_aside();
        }
        let writer = Writer::new(self.client.clone(), fence);
        let mut outside = Outside::new(writer, Arc::clone(&self.provider), self.dry.clone(), answers_after);
        let mut reporter = match &self.reporter {
            Some(reporter) => Some(reporter.lock().await),
            None => None,
        };
        loop {
            let (now, start) = (self.clock.now(), std::time::Instant::now());
            let effects = aside(|| core.work(now));
            core.measure_bindings(&effects, self.clock.now());
            let begun = core.take_begun();
            if let Some(dry) = &self.dry {
                dry.tell_commands(&begun);
            }
            for effect in effects {
                outside.push(effect);
            }
            if let Some(launches) = core.take_decided() {
                core.measure_decision(launches, start.elapsed().as_secs_f64());
            }
            if let Some(look) = core.take_look() {
                outside.look(look, core.looks_for());
            }
            if let Some(asked) = core.take_asked(self.clock.now()) {
                outside.solve(asked);
            }
            outside.start();
            if let Some(reporter) = &reporter {
                reporter.health.lead(core.is_synced());
            }
            let wake = core.next_time().map(|time| self.clock.instant(time));
            let input = tokio::select! {
                biased;
                Some(asked) = asked(&mut reporter) => {
                    // Whoever asked may have gone.
                    match asked {
                        Ask::Metrics(answer) => {
                            drop(answer.send(aside(|| core.metrics(&outside.counts, self.clock.now()))));
                        }
                        Ask::State(answer) => drop(core.state().map(|state| answer.send(state))),
                    }
                    continue;
                }
                Some(input) = outside.next() => input,
                observed = events.recv() => match observed {
                    Some((_, Observed::SetBack)) | None => return,
                    Some((at, observed)) => {
                        core.note_arrival(&observed, at);
                        Input::Observed(observed)
                    }
                },
                () = until(wake) => Input::Tick,
            };
            take_in(&mut core, input, self.clock.now());
            // What came together is taken in together, before anything is done about it: a decision may take long, and who
            // waits for its turn with each answer binds a pod a decision.
            for _ in 0..CHANNEL {
                let Some(Some(answered)) = outside.next().now_or_never() else { break };
                core.handle(answered, self.clock.now());
                outside.start();
            }
            for _ in 0..CHANNEL {
                match events.try_recv() {
                    Ok((_, Observed::SetBack)) => return,
                    Ok((at, observed)) => {
                        core.note_arrival(&observed, at);
                        take_in(&mut core, Input::Observed(observed), self.clock.now());
                    }
                    Err(_) => break,
                }
            }
        }
    }
}

/// Takes in an input; a list of a large cluster takes long.
fn take_in(core: &mut Core, input: Input, now: Timestamp) {
    if matches!(input, Input::Observed(Observed::Listed { .. })) {
        aside(|| core.handle(input, now));
    } else {
        core.handle(input, now);
    }
}

/// Does what may take long, such as a decision over a large cluster, without holding up what else this thread runs:
/// watches, the lease and answers go on.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    if has_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// Does what takes long in another thread, or, where there is none, once so much time has passed; `None` where it broke off.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static, after: Option<Duration>) -> Option<T> {
    if has_threads() {
        return tokio::task::spawn_blocking(work).await.ok();
    }
    if let Some(after) = after {
        tokio::time::sleep(after).await;
    }
    Some(work())
}

/// Whether there are other threads to work in. In simulations everything takes turns.
fn has_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// What is asked for next.
async fn asked(reporter: &mut Option<MutexGuard<'_, Reporter>>) -> Option<Ask> {
    match reporter {
        Some(reporter) => reporter.asks.recv().await,
        None => None,
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
    writes: Lanes<NamedObject, (Option<Job>, Box<Write>)>,
    /// Writes of Events, which go after all others.
    events: Lanes<NamedObject, (Option<Job>, Box<Write>)>,
    calls: Lanes<Job, Box<Question>>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    dry: Option<DryRun>,
    counts: Counts,
    /// As the options have it.
    answers_after: Option<Duration>,
}

/// What was answered: how long it took, and which call of the cloud it was, or what a look at the nodes was for.
struct Done {
    input: Input,
    seconds: f64,
    method: &'static str,
}

// === impl Outside ===

impl Outside {
    fn new(
        writer: Writer,
        provider: Arc<dyn CloudProvider>,
        dry: Option<DryRun>,
        answers_after: Option<Duration>,
    ) -> Self {
        // What a dry run would write waits for nobody.
        let at_a_time = |most| if dry.is_some() { usize::MAX } else { most };
        Self {
            writer,
            provider,
            writes: Lanes::new(at_a_time(WRITES)),
            events: Lanes::new(at_a_time(EVENTS)),
            calls: Lanes::new(CALLS),
            under_way: FuturesUnordered::new(),
            dry,
            counts: Counts::default(),
            answers_after,
        }
    }

    fn push(&mut self, effect: Effect) {
        match effect {
            Effect::Write(job, write) => self.lanes_of(write.key.kind).push(write.key.clone(), (job, write)),
            Effect::Ask(job, question) => self.calls.push(job, question),
        }
    }

    /// What writes of such objects go through. Thousands of Events may come at once, as where a look finds why nodes stay: a
    /// binding does not wait until they are written.
    fn lanes_of(&mut self, kind: Kind) -> &mut Lanes<NamedObject, (Option<Job>, Box<Write>)> {
        if kind == Kind::Event { &mut self.events } else { &mut self.writes }
    }

    /// Has a look at the nodes, in a thread of its own.
    fn look(&mut self, look: Box<Look>, looks_for: LooksFor) {
        let after = self.answers_after;
        self.under_way.push(Box::pin(async move {
            let start = Instant::now();
            let found = elsewhere(move || look.run(), after).await;
            let seconds = start.elapsed().as_secs_f64();
            Done { input: Input::Found(Box::new(found)), seconds, method: looks_for.as_str() }
        }));
    }

    /// Answers what takes long, in a thread of its own.
    fn solve(&mut self, asked: Box<Asked>) {
        let after = self.answers_after;
        self.under_way.push(Box::pin(async move {
            let answered = elsewhere(move || asked.answer(), after).await.map(Box::new);
            Done { input: Input::Solved(answered), seconds: 0.0, method: "" }
        }));
    }

    /// Starts what may go now.
    fn start(&mut self) {
        let mut would = Vec::new();
        while let Some((_, (job, write))) = self.writes.next().or_else(|| self.events.next()) {
            let (writer, dry) = (self.writer.clone(), self.dry.clone());
            if dry.is_some() {
                would.push((*write).clone());
            }
            self.under_way.push(Box::pin(async move {
                let start = Instant::now();
                let outcome = match dry {
                    Some(dry) if !matches!(write.op, Op::Read) => dry.outcome().await,
                    _ => writer.send(&write).await,
                };
                Done { input: Input::Written(job, write, outcome), seconds: start.elapsed().as_secs_f64(), method: "" }
            }));
        }
        if let Some(dry) = &self.dry {
            dry.tell(&would);
        }
        while let Some((job, question)) = self.calls.next() {
            let (provider, writer, dry) = (Arc::clone(&self.provider), self.writer.clone(), self.dry.clone());
            self.under_way.push(Box::pin(async move {
                let (start, method) = (Instant::now(), question.method());
                let answer = match dry {
                    Some(dry) if question.changes() => dry.answer(*question).await,
                    _ => writer.fenced(ask(&*provider, *question)).await,
                };
                Done { input: Input::Answered(job, Box::new(answer)), seconds: start.elapsed().as_secs_f64(), method }
            }));
        }
    }

    /// The next answer; `None` where nothing is under way.
    async fn next(&mut self) -> Option<Input> {
        let Done { input, seconds, method } = self.under_way.next().await?;
        match &input {
            Input::Written(_, write, outcome) => {
                let labels =
                    [("kind", write.key.kind.as_str()), ("outcome", outcome.word()), ("verb", write.op.verb())];
                self.counts.add(Counter::Writes, &labels);
                self.lanes_of(write.key.kind).finish(write.key.clone());
            }
            Input::Answered(job, answer) => {
                let labels = [("controller", job.controller()), ("method", method), ("provider", self.provider.name())];
                self.counts.measure(Measured::CloudCalls, &labels, seconds);
                if let Some(error) = answer.error() {
                    let [controller, method, provider] = labels;
                    let error = ("error", error.category().as_str());
                    self.counts.add(Counter::CloudErrors, &[controller, error, method, provider]);
                }
                self.calls.finish(job.clone());
            }
            Input::Found(_) => {
                let labels = [("consolidation_type", method), ("reason", method)];
                self.counts.measure(Measured::Looks, &labels, seconds);
            }
            Input::Observed(_) | Input::Solved(_) | Input::Tick => {}
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
        Question::Interrupted => Answer::Instances(provider.interrupted().await),
        Question::All => Answer::All(provider.list_all().await),
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
