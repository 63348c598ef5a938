//! What came of a simulation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::load::Simulation;
use crate::meter::Meter;
use crate::waits::{Reason, Waits};

/// What came of a simulation. Serialised, it is the JSON of `berth simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The variant; empty for the scenario as it is written.
    pub variant: String,
    /// When the clocks began.
    pub start: String,
    /// How many hours passed.
    pub hours: f64,
    /// Dollars.
    pub cost: Cost,
    /// What became of each reservation.
    pub reservations: Vec<ReservationUse>,
    /// Pods.
    pub pods: Pods,
    /// Nodes.
    pub nodes: Nodes,
    /// What has no place at the end.
    pub unplaced: Vec<Unplaced>,
    /// What whoever reads this should know.
    pub notes: Vec<String>,
    /// How it went, at equal distances and at the end.
    pub samples: Vec<Sample>,
}

/// What was paid over the whole time, in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// `nodes` and `reservations`.
    pub total: f64,
    /// Nodes that use no slot, at their price.
    pub nodes: f64,
    /// Slots, used or not, at the price of a slot.
    pub reservations: f64,
    /// All nodes at the on-demand price, without any reservation.
    pub list_price: f64,
    /// The same nodes without reservations: those on slots at the on-demand price, others at their own.
    pub without_reservations: f64,
}

/// What became of a reservation, in hours of slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationUse {
    /// Its id.
    pub id: String,
    /// Slots that there were.
    pub slot_hours: f64,
    /// Those that this cluster's nodes used.
    pub used: f64,
    /// Those that others used.
    pub used_by_others: f64,
    /// Those that nobody used.
    pub idle: f64,
    /// What a slot costs an hour.
    pub price: f64,
    /// What all of it cost.
    pub cost: f64,
    /// The most slots that were used at a time.
    pub most_used: u32,
}

/// Pods, those of DaemonSets aside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// How many there were.
    pub total: u64,
    /// Days that they ran, added up.
    pub pod_days: f64,
    /// Evictions, those of consolidation, interruption and preemption included.
    pub evictions: u64,
    /// Evictions by day that a pod ran.
    pub evictions_per_pod_day: f64,
    /// The most that waited at a time.
    pub most_pending: u32,
    /// The most that ran at a time.
    pub most_running: u32,
    /// How long those waited that came to have a node: all of them, then by reason.
    pub waited: Vec<WaitRow>,
    /// How long those waited that went without ever having had one, by what was said last.
    #[serde(default)]
    pub in_vain: Vec<WaitRow>,
    /// Hours that pods waited, added up: those that came to have a node, went without one, or wait still.
    #[serde(default)]
    pub waiting_hours: f64,
}

/// How long pods waited for a node, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRow {
    /// Why; `all` for all of them.
    pub reason: String,
    /// How many.
    pub pods: usize,
    /// Half of them waited at most so long.
    pub median: f64,
    /// 99 of 100 waited at most so long.
    pub p99: f64,
    /// The longest.
    pub longest: f64,
}

/// Nodes that were launched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many were launched.
    pub launched: u64,
    /// Launches that the cloud refused.
    pub refused: u64,
    /// Instances that the cloud took back.
    pub interrupted: u64,
    /// Machines that died.
    pub died: u64,
    /// The most at a time.
    pub most: u32,
    /// Hours of on-demand nodes.
    pub on_demand_hours: f64,
    /// Hours of spot nodes.
    pub spot_hours: f64,
    /// Hours of nodes on slots.
    pub reserved_hours: f64,
}

/// Pods that have no node at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// What was said last.
    pub reason: String,
    /// How many.
    pub pods: u64,
    /// How long the first of them has waited, in seconds.
    pub longest: f64,
}

/// How things stand at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Seconds after the start.
    pub seconds: i64,
    /// Nodes: on-demand, spot, reserved.
    pub nodes: [u32; 3],
    /// What is paid an hour, slots included.
    pub dollars_an_hour: f64,
    /// What all nodes would cost an hour at the list price.
    pub list_dollars_an_hour: f64,
    /// Slots that are used here.
    pub slots_used: u32,
    /// Slots that there are.
    pub slots: u32,
    /// Pods that wait for a node.
    pub pending: u32,
    /// Pods that have one.
    pub running: u32,
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn new(
        simulation: &Simulation,
        now: Timestamp,
        meter: &Meter,
        waits: &Waits,
        samples: Vec<Sample>,
    ) -> Self {
        let reservations: Vec<ReservationUse> = meter
            .reservations
            .iter()
            .map(|(id, slots)| ReservationUse {
                id: id.clone(),
                slot_hours: hours(slots.total_ms),
                used: hours(slots.used_ms),
                used_by_others: hours(slots.others_ms),
                idle: hours(slots.total_ms.saturating_sub(slots.used_ms + slots.others_ms)),
                price: slots.price(),
                cost: slots.cost.dollars(),
                most_used: slots.most_used,
            })
            .collect();
        let slots = meter.reservations.values().fold(crate::meter::Bill::default(), |sum, slots| sum.plus(slots.cost));
        let pod_days = hours(waits.running_ms) / 24.0;
        let [on_demand, spot, reserved] = meter.node_ms;
        let seconds = |millis: u64| rounded(in_f64(u128::from(millis)) / 1e3);
        let waited = waits.summary().into_iter().map(|row| WaitRow {
            reason: match row.reason {
                None => "all".to_owned(),
                Some(Reason::ExistingNode) => "a node that was there".to_owned(),
                Some(Reason::NewNode) => "a new node".to_owned(),
                Some(Reason::Refused(why)) => format!("no node could be had: {why}"),
            },
            pods: row.pods,
            median: seconds(row.median),
            p99: seconds(row.p99),
            longest: seconds(row.longest),
        });
        let in_vain = waits.in_vain().map(|row| WaitRow {
            reason: row.reason,
            pods: row.pods,
            median: seconds(row.median),
            p99: seconds(row.p99),
            longest: seconds(row.longest),
        });
        let unplaced = waits.left(now).into_iter().map(|(reason, (pods, longest))| Unplaced {
            reason,
            pods,
            longest: seconds(longest),
        });
        Self {
            variant: simulation.name.clone(),
            start: simulation.start.to_string(),
            hours: rounded(simulation.duration.as_secs_f64() / 3600.0),
            cost: Cost {
                total: meter.paid.plus(slots).dollars(),
                nodes: meter.paid.dollars(),
                reservations: slots.dollars(),
                list_price: meter.list.dollars(),
                without_reservations: meter.unreserved.dollars(),
            },
            reservations,
            pods: Pods {
                total: waits.n_pods,
                pod_days,
                evictions: waits.n_evicted,
                evictions_per_pod_day: if pod_days > 0.0 {
                    rounded(in_f64(u128::from(waits.n_evicted)) / pod_days)
                } else {
                    0.0
                },
                most_pending: waits.most_pending,
                most_running: waits.most_running,
                waited: waited.collect(),
                in_vain: in_vain.collect(),
                waiting_hours: hours(waits.pending_ms),
            },
            nodes: Nodes {
                launched: meter.n_launched,
                refused: 0,
                interrupted: 0,
                died: 0,
                most: meter.most_nodes,
                on_demand_hours: hours(on_demand),
                spot_hours: hours(spot),
                reserved_hours: hours(reserved),
            },
            unplaced: unplaced.collect(),
            notes: Vec::new(),
            samples,
        }
    }

    /// Adds what happened to nodes: interruptions, deaths and refused launches.
    pub(crate) fn with_counts(mut self, notes: Vec<String>, [interrupted, died, refused]: [u64; 3]) -> Self {
        self.notes = notes;
        self.nodes = Nodes { refused, interrupted, died, ..self.nodes };
        self
    }

    /// Pods that were asked for and never made have no node either.
    pub(crate) fn with_not_made(mut self, not_made: Vec<Unplaced>) -> Self {
        self.unplaced.extend(not_made);
        self
    }

    /// Whether every pod has a node at the end.
    pub fn is_complete(&self) -> bool {
        self.unplaced.is_empty()
    }
}

fn hours(millis: u128) -> f64 {
    rounded(in_f64(millis) / 3.6e6)
}

/// To millionths, so that no digit is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[allow(clippy::cast_precision_loss)]
const fn in_f64(count: u128) -> f64 {
    count as f64
}
