//! What the cloud is started with, and the faults that can be changed while it runs.

use std::time::Duration;

use berth_cloudprovider::ReservationAdoption;
use jiff::Timestamp;

/// What a fake cloud is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudConfig {
    /// Decides delays and faults.
    pub seed: u64,
    /// Part of each id and node name. Clouds that a cluster meets one after the other, or at a time, need different ones,
    /// since each counts its machines from 1: else a NodeClaim's instance would seem to live on as another one's. Empty
    /// where there is one cloud.
    pub incarnation: String,
    /// What the clock shows at the start; it goes with tokio's time.
    pub epoch: Timestamp,
    /// The value of the tag [`tag::CLUSTER`](berth_cloudprovider::tag::CLUSTER).
    pub cluster: String,
    /// How long a machine takes from its launch until it runs. Its node joins after the node class's registration delay.
    pub boot_delay: Duration,
    /// The most that a boot takes beyond that; each machine draws its own.
    pub boot_jitter: Duration,
    /// How long a machine takes to shut down. Its slot is used until then.
    pub shutdown_delay: Duration,
    /// How long before the end a spot interruption is announced.
    pub spot_notice: Duration,
    /// How long before the end of a capacity block its instances get notice and it serves no more launches.
    pub block_notice: Duration,
    /// How a running instance comes under a reservation. All reservations are one group.
    pub adoption: ReservationAdoption,
    /// What becomes of instances that a reservation has no slot for any more, as its count was lowered or others use more.
    pub excess: Excess,
    /// What [`CloudProvider::consistency_lag`](berth_cloudprovider::CloudProvider::consistency_lag) promises; no fault
    /// exceeds it.
    pub consistency_lag: Duration,
    /// Whether a node class that nobody defined has the default settings instead of being unknown.
    pub any_node_class: bool,
    /// The faults at the start.
    pub faults: CloudFaults,
}

impl Default for CloudConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            incarnation: String::new(),
            epoch: Timestamp::UNIX_EPOCH,
            cluster: "berth".to_owned(),
            boot_delay: Duration::from_secs(2),
            boot_jitter: Duration::ZERO,
            shutdown_delay: Duration::from_secs(1),
            spot_notice: Duration::from_secs(120),
            block_notice: Duration::from_secs(600),
            adoption: ReservationAdoption::Never,
            excess: Excess::default(),
            consistency_lag: Duration::from_secs(4),
            any_node_class: false,
            faults: CloudFaults::default(),
        }
    }
}

/// What becomes of instances that a reservation has no slot for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Excess {
    /// Those that were launched last run on demand from then on, and are paid so.
    #[default]
    Released,
    /// Nobody says which they are: all of them stay under the reservation, which shows more than it has.
    Untold,
}

/// What goes wrong, each as a probability from 0 to 1 of a call, a machine or an hour; all 0 by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CloudFaults {
    /// A call is throttled.
    pub throttled: f64,
    /// A call is answered "unavailable", and nothing is done.
    pub unavailable: f64,
    /// A call is refused for want of rights, and nothing is done.
    pub unauthorized: f64,
    /// A launch or deletion is lost on its way: nothing is done, and the caller does not know.
    pub lost_request: f64,
    /// A launch or deletion is carried out, and its answer is lost.
    pub lost_answer: f64,
    /// A launch or deletion is carried out after the caller gave up, up to half the consistency lag later.
    pub late: f64,
    /// A launch or deletion is delivered twice.
    pub doubled: f64,
    /// The most that a change takes to show in `get`, `list` and counts; at most half the consistency lag counts.
    pub lag: Duration,
    /// The most that a call takes.
    pub latency: Duration,
    /// A machine stays Pending for ever.
    pub never_boots: f64,
    /// A machine runs, and its node never joins.
    pub never_joins: f64,
    /// A machine dies without a word within its first hour.
    pub dies_within_an_hour: f64,
    /// A spot instance is interrupted within its first hour.
    pub interrupted_within_an_hour: f64,
}
