//! What controllers are started with.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_model::Money;

use crate::lease::LeaseOptions;

/// How the controllers act.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Feature gates, and what is read of objects.
    pub convert: berth_state::Options,
    /// How nodes are planned.
    pub solve: berth_decisions::SolveOptions,
    /// The schedulers whose pods are bound here; `None`: those of all. Pods of others are planned once they are marked
    /// unschedulable.
    pub scheduler_names: Option<BTreeSet<String>>,
    /// Whether pods are bound and nodes are planned at all; without, only NodeClaims are cared for.
    pub only_lifecycle: bool,
    /// How consolidation chooses nodes.
    pub consolidation: berth_disruption::Methods,
    /// Dollars an hour that a removal must save for each unit of disruption (a pod of priority 0) to be worth it.
    pub eviction_price: Money,
    /// The guard against runaways.
    pub ceilings: Ceilings,
    /// Decides the names of NodeClaims.
    pub seed: u64,
    /// How long things may take.
    pub timings: Timings,
    /// Whether no Events are written.
    pub without_events: bool,
    /// What takes long is decided elsewhere where there are threads. In a simulation, where there are none, it is decided so long
    /// after it was asked, while all else goes on; `None`: at once.
    pub answers_after: Option<Duration>,
    /// How the lead is found; `None` where there is no other process.
    pub lease: Option<LeaseOptions>,
}

/// How much may be launched, by NodePool and in all. What is over a ceiling waits, with an event on its NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceilings {
    /// Of each NodePool.
    pub of_each_pool: Ceiling,
    /// Of all NodePools together.
    pub in_all: Ceiling,
}

/// How much may be launched; `None` is without end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// How many nodes are launched within an hour; after a restart, those count of which the NodeClaim still exists.
    pub launches_per_hour: Option<u32>,
    /// What the nodes may cost an hour, those that run included. Reserved instances count nothing.
    pub dollars_per_hour: Option<Money>,
}

impl Default for Ceilings {
    /// More launches than a large cluster needs; no end to their cost.
    fn default() -> Self {
        let launches = |n| Ceiling { launches_per_hour: Some(n), dollars_per_hour: None };
        Self { of_each_pool: launches(5_000), in_all: launches(10_000) }
    }
}

impl Ceilings {
    /// Of each NodePool, and in all: in the order of flags.
    pub fn both_mut(&mut self) -> [&mut Ceiling; 2] {
        [&mut self.of_each_pool, &mut self.in_all]
    }

    /// The same.
    pub fn both(&self) -> [&Ceiling; 2] {
        [&self.of_each_pool, &self.in_all]
    }
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timings {
    /// How old a NodeClaim may be without having been launched.
    pub launch_timeout: Duration,
    /// How old a NodeClaim may be without its node having registered.
    pub registration_timeout: Duration,
    /// How long provisioning waits for more pods after the last that came.
    pub batch_idle: Duration,
    /// How long provisioning waits at most after the first pod that came.
    pub batch_max: Duration,
    /// How often the cloud is asked what it offers.
    pub offers_period: Duration,
    /// For how long an offering that had no instance left is left alone.
    pub exhausted_for: Duration,
    /// How often the cloud's instances are compared with the NodeClaims.
    pub garbage_period: Duration,
    /// How young an instance without a NodeClaim may be and is not yet garbage.
    pub garbage_age: Duration,
    /// How often the cloud is asked of each instance whether it is still what its node class asks for; `None`: once, and
    /// again where the digest of its node class changes. In virtual time that tells of every change.
    pub drift_period: Option<Duration>,
    /// How coarsely the time of the last pod event of a node is written where no decision asks for it, as the node need not
    /// be left alone (`consolidateAfter: 0s`). Else it is 10 seconds.
    pub pod_event_grain: Duration,
    /// How long a watch may say nothing before its connection is taken for lost, where the server sends no bookmarks. Servers
    /// are asked to end watches sooner. In virtual time, where no watch breaks, nothing is gained by taking them up again.
    pub longest_silence: Duration,
    /// How much consolidation and drift may look in a second: what-ifs times the nodes and pods that each looks at. After a
    /// look nodes rest until as much time has passed, a quarter of an hour at most; only empty ones are looked for meanwhile.
    /// One that saves a twentieth of what nodes cost does not put off the next. `None`: no more than the processor holds. In
    /// virtual time, where looking takes no time, this stands for it.
    pub look_pace: Option<std::num::NonZeroU32>,
}

impl Default for Timings {
    /// Karpenter's.
    fn default() -> Self {
        Self {
            launch_timeout: Duration::from_secs(5 * 60),
            registration_timeout: Duration::from_secs(15 * 60),
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            offers_period: Duration::from_secs(60),
            exhausted_for: Duration::from_secs(3 * 60),
            garbage_period: Duration::from_secs(2 * 60),
            garbage_age: Duration::from_secs(30),
            drift_period: Some(Duration::from_secs(5 * 60)),
            pod_event_grain: Duration::from_secs(10),
            longest_silence: Duration::from_secs(295),
            look_pace: None,
        }
    }
}
