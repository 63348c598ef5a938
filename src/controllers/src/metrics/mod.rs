//! What controllers count and measure, in plain numbers: whoever exports them knows the format.
//!
//! Where Karpenter has a metric of the same meaning, name and labels are its own. No label has more values than a cluster
//! has NodePools, zones, instance types and capacity reservations: pods and nodes are summed up.

mod counts;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_state::State;
use tokio::sync::{mpsc, oneshot};

pub(crate) use counts::{Counter, Counts, Measured};

/// How long whoever asks waits for the controllers, which may be amid a decision.
const PATIENCE: Duration = Duration::from_secs(5);

/// Label names and values, in order.
pub type Labels = Vec<(&'static str, String)>;

/// One metric, with a value for each set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The name, without the suffix `_total` of counters.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// The values.
    pub values: Values,
}

/// The values of a metric, in order of their labels.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// They go up and down.
    Gauge(Vec<(Labels, f64)>),
    /// They only grow, as long as the process lives.
    Counter(Vec<(Labels, u64)>),
    /// How observations are distributed.
    Histogram(Vec<(Labels, Histogram)>),
}

/// How observations are distributed.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The sum of all that was observed.
    pub sum: f64,
    /// How many fell into each bucket that its upper bound does not reach below; the last is without bound.
    pub buckets: Vec<(f64, u64)>,
}

/// Where running controllers are asked for their metrics, and for what they know. Clones are the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    asks: mpsc::Sender<Ask>,
    health: Arc<Health>,
}

/// Where controllers are asked for their metrics, and say how they are.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) asks: mpsc::Receiver<Ask>,
    pub(crate) health: Arc<Health>,
}

/// What controllers are asked for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Their metrics.
    Metrics(oneshot::Sender<Vec<Metric>>),
    /// A copy of the state that they decide by.
    State(oneshot::Sender<Box<State>>),
}

/// How controllers are.
#[derive(Debug, Default)]
pub(crate) struct Health {
    leads: AtomicBool,
    is_ready: AtomicBool,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> (Self, Reporter) {
        let (sender, asks) = mpsc::channel(4);
        let health = Arc::new(Health::default());
        (Self { asks: sender, health: Arc::clone(&health) }, Reporter { asks, health })
    }

    /// Whether the controllers lead, or need no lease.
    pub fn leads(&self) -> bool {
        self.health.leads.load(Ordering::Relaxed)
    }

    /// Whether they do what they are for: they have seen the whole cluster, or stand by while another process leads.
    pub fn is_ready(&self) -> bool {
        self.health.is_ready.load(Ordering::Relaxed)
    }

    /// The metrics as they are now; `None` where the controllers do not lead, or do not answer within five seconds.
    pub async fn read(&self) -> Option<Vec<Metric>> {
        self.ask(Ask::Metrics).await
    }

    /// A copy of the state that the controllers decide by, which shares its objects; `None` where they do not lead, have not seen the
    /// whole cluster yet, or do not answer within five seconds.
    pub async fn state(&self) -> Option<Box<State>> {
        self.ask(Ask::State).await
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
        if !self.leads() {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let asked = async {
            self.asks.send(ask(sender)).await.ok()?;
            answer.await.ok()
        };
        tokio::time::timeout(PATIENCE, asked).await.ok().flatten()
    }
}

// === impl Health ===

impl Health {
    /// Another process leads, or none that is known.
    pub(crate) fn stand_by(&self) {
        self.leads.store(false, Ordering::Relaxed);
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// This process leads, and has seen the whole cluster or not yet.
    pub(crate) fn lead(&self, is_synced: bool) {
        self.leads.store(true, Ordering::Relaxed);
        self.is_ready.store(is_synced, Ordering::Relaxed);
    }
}
