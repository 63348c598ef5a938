//! Listens to the spans of the core: how often it did what in one go, and how long the longest took.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What one kind of step took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    pub(crate) times: u64,
    pub(crate) cpu: Duration,
    /// The longest, by the clock and by its CPU time.
    pub(crate) longest: Duration,
    pub(crate) longest_cpu: Duration,
    /// How many took more CPU time than a binding is to wait for.
    pub(crate) n_long: u64,
}

/// More than this is long.
const LONG: Duration = Duration::from_millis(5);

/// Steps by kind, since they were taken last. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    n_spans: AtomicU64,
    named: Mutex<BTreeMap<u64, String>>,
    took: Mutex<BTreeMap<String, Took>>,
}

thread_local! {
    /// The spans that this thread is in.
    static ENTERED: RefCell<Vec<(Instant, Duration)>> = const { RefCell::new(Vec::new()) };
}

// === impl Steps ===

impl Steps {
    /// What there was since this was asked last.
    pub(crate) fn take(&self) -> BTreeMap<String, Took> {
        std::mem::take(&mut self.inner.took.lock())
    }
}

impl Subscriber for Steps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().ends_with("::step")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.inner.n_spans.fetch_add(1, Ordering::Relaxed) + 1;
        let mut name = Name(span.metadata().name().to_owned());
        span.record(&mut name);
        self.inner.named.lock().insert(id, name.0);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push((Instant::now(), cpu_time())));
    }

    fn exit(&self, id: &Id) {
        let Some((since, cpu)) = ENTERED.with_borrow_mut(Vec::pop) else { return };
        let (clock, cpu) = (since.elapsed(), cpu_time().saturating_sub(cpu));
        let name = self.inner.named.lock().get(&id.into_u64()).cloned().unwrap_or_default();
        let mut took = self.inner.took.lock();
        let took = took.entry(name).or_default();
        took.times += 1;
        took.cpu += cpu;
        took.longest = took.longest.max(clock);
        took.longest_cpu = took.longest_cpu.max(cpu);
        took.n_long += u64::from(cpu > LONG);
    }

    fn try_close(&self, id: Id) -> bool {
        // No span of a step is cloned.
        self.inner.named.lock().remove(&id.into_u64());
        true
    }
}

/// The name of a span and what it is of.
struct Name(String);

impl Visit for Name {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0 = format!("{}: {value}", self.0);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
