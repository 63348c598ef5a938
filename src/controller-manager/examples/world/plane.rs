//! The control planes that are measured, and what they cost.

use std::fs::read_to_string;

use berth_apiserver::{ApiServer, Config, RequestLog};
use berth_controller_manager::{Clock, ControllerManager, Metrics, Options, Timings};
use kube::Client;
use tokio::task::JoinHandle;

use crate::real;

/// A control plane with its controllers.
pub(crate) enum Plane {
    /// In this process, with kubelets and clients.
    Ours { server: ApiServer, manager: JoinHandle<()>, metrics: Metrics },
    /// Processes of their own; kubelets and clients are not counted.
    Real { real: real::Real },
}

impl Plane {
    pub(crate) fn ours() -> (Self, Client) {
        let log = crate::trace::is_wanted().then(|| RequestLog::new(|line| crate::trace::tell(|| line.to_string())));
        let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), log, ..Config::default() });
        let client = Client::new(server.clone(), "default");
        let (manager, metrics) = start(&server);
        (Self::Ours { server, manager, metrics }, client)
    }

    /// `None` without Go, which it is built with.
    pub(crate) async fn real() -> Option<(Self, Client)> {
        let flags = ["--controller-manager", "--node-lifecycle", "--service-account-admission=false"];
        let real = real::Real::start(&flags)?;
        let client = real.client().await.inner().clone();
        Some((Self::Real { real }, client))
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ours { .. } => "in memory",
            Self::Real { .. } => "kube-apiserver",
        }
    }

    fn pids(&self) -> Vec<String> {
        match self {
            Self::Ours { .. } => vec!["self".to_owned()],
            Self::Real { real } => real.pids.iter().map(u32::to_string).collect(),
        }
    }

    /// CPU seconds so far.
    pub(crate) fn cpu(&self) -> f64 {
        let of = |pid: &String| {
            let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
            (ticks(11) + ticks(12)) / 100.0
        };
        self.pids().iter().map(of).sum()
    }

    /// Resident memory in MiB: now, and at most so far.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let of = |pid: &String, field: &str| {
            let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
            line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
        };
        let sum = |field: &str| self.pids().iter().map(|pid| of(pid, field)).sum();
        (sum("VmRSS:"), sum("VmHWM:"))
    }

    /// Waits until our controllers have nothing to do but heartbeats, of so many nodes.
    pub(crate) async fn settle(&self, nodes: usize) {
        // A node's health is looked at every 40 s or so: 125 times in 50 ms with 100,000 nodes, and in bursts.
        let usual = 5 + nodes as u64 / 200;
        let Self::Ours { metrics, .. } = self else {
            return tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        };
        let mut quiet = 0;
        let mut seen = metrics.syncs();
        while quiet < 20 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let now = metrics.syncs();
            quiet = if now.saturating_sub(seen) < usual { quiet + 1 } else { 0 };
            seen = now;
        }
    }

    /// Our controllers anew, as after a restart; they are taken away before `between`.
    pub(crate) async fn restart_controllers<T>(&mut self, between: impl AsyncFnOnce(&Self) -> T) -> Option<T> {
        let Self::Ours { manager, .. } = self else { return None };
        manager.abort();
        let _ = manager.await;
        let told = between(self).await;
        let Self::Ours { server, manager, metrics } = self else { return None };
        (*manager, *metrics) = start(server);
        Some(told)
    }
}

fn start(server: &ApiServer) -> (JoinHandle<()>, Metrics) {
    let client = Client::new(server.clone(), "default");
    let clock = server.clone();
    // As upstream has it in its tests of large clusters.
    let endpoint_updates_batch_period = std::time::Duration::from_millis(500);
    let timings = Timings { endpoint_updates_batch_period, ..Timings::default() };
    let options = Options { timings, ..Options::new(Clock::new(move || clock.now())) };
    let manager = ControllerManager::new(client, options);
    let metrics = manager.metrics();
    (tokio::spawn(manager.run(std::future::pending())), metrics)
}
