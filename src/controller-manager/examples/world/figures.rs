//! How long things take: on the clock, and of the one thread that does everything.

use std::fs::read_to_string;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest that a task which sleeps a millisecond had to wait, since it was last asked, in microseconds.
pub(crate) struct Lateness(Arc<AtomicU64>);

impl Lateness {
    pub(crate) fn watch() -> Self {
        let worst = Arc::new(AtomicU64::new(0));
        let out = worst.clone();
        tokio::spawn(async move {
            loop {
                let start = Instant::now();
                tokio::time::sleep(Duration::from_millis(1)).await;
                let late = start.elapsed().saturating_sub(Duration::from_millis(2));
                worst.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self(out)
    }

    pub(crate) fn told(&self) -> String {
        format!("executor held for {:.1} ms at most", self.0.swap(0, Ordering::Relaxed) as f64 / 1000.0)
    }
}

/// What something took on the clock, and of the thread's CPU time: other programs add to the first alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) clock: Duration,
    pub(crate) cpu: Duration,
}

/// From when on something is timed.
pub(crate) struct Since {
    clock: Instant,
    cpu: Duration,
}

impl Since {
    pub(crate) fn now() -> Self {
        let cpu = thread_cpu();
        Self { clock: Instant::now(), cpu }
    }

    pub(crate) fn taken(&self) -> Taken {
        let clock = self.clock.elapsed();
        Taken { clock, cpu: thread_cpu().saturating_sub(self.cpu) }
    }
}

/// CPU time of this thread; nothing where the kernel does not tell it.
fn thread_cpu() -> Duration {
    // What is told is brought up to date when the kernel looks at who runs next.
    std::thread::yield_now();
    let told = read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Prints the quantiles of what a change took.
pub(crate) fn show(what: &str, taken: &[Taken], lateness: &Lateness) {
    let quantiles = |of: fn(&Taken) -> Duration| {
        let mut times: Vec<Duration> = taken.iter().map(of).collect();
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        format!("p50 {:.2?}, p99 {:.2?}, max {:.2?}", at(50), at(99), at(100))
    };
    println!(
        "{what}: {}; CPU time of the thread meanwhile: {}; {} times, {}",
        quantiles(|taken| taken.clock),
        quantiles(|taken| taken.cpu),
        taken.len(),
        lateness.told()
    );
}
