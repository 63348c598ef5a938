//! What `sandbox` and `run` share: flags of the controllers, and how they are told to end.

use std::time::Duration;

use berth_plan::{Money, parse_money};

/// The guard against runaways, and what a disruption must save.
#[derive(Clone, clap::Args)]
pub(crate) struct ControllerArgs {
    /// What nodes may cost an hour, in dollars, of each NodePool and in all; what is over it waits
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', num_args = 1, allow_negative_numbers = true, value_parser = parse_money)]
    max_cost: Vec<Money>,
    /// How many nodes may be launched within an hour, of each NodePool and in all; what is over it waits
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', num_args = 1)]
    max_launches: Vec<u32>,
    /// Dollars an hour that a removal must save for each node that goes and each pod that it evicts; one that has begun goes on
    /// for half of it
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = parse_money)]
    eviction_price: Money,
    /// How long a NodeClaim may take until its instance is launched (default: 300)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    launch_timeout: Option<u64>,
    /// How long an instance may take until its node has joined (default: 900)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    registration_timeout: Option<u64>,
}

impl ControllerArgs {
    /// The options of the controllers, with those of a solve, and with these timings where no flag says otherwise.
    pub(crate) fn options(
        &self,
        solve: &berth_plan::Options,
        timings: berth_controllers::Timings,
    ) -> berth_controllers::Options {
        let mut options = berth_controllers::Options {
            solve: solve.solving(),
            convert: solve.gates.clone(),
            eviction_price: self.eviction_price,
            timings,
            ..berth_controllers::Options::default()
        };
        if let Some(seconds) = self.launch_timeout {
            options.timings.launch_timeout = Duration::from_secs(seconds);
        }
        if let Some(seconds) = self.registration_timeout {
            options.timings.registration_timeout = Duration::from_secs(seconds);
        }
        for (ceiling, most) in options.ceilings.both_mut().into_iter().zip(&self.max_cost) {
            ceiling.dollars_per_hour = Some(*most);
        }
        for (ceiling, most) in options.ceilings.both_mut().into_iter().zip(&self.max_launches) {
            ceiling.launches_per_hour = Some(*most);
        }
        options
    }
}

/// Ctrl-C, or the polite signal to end.
pub(crate) async fn stopped() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    drop(tokio::signal::ctrl_c().await);
}
