//! Counters and distributions.

use std::collections::BTreeMap;

use super::{Histogram, Labels, Metric, Values};

/// Upper bounds of buckets, in seconds: from what a decision takes to what a slow boot does.
const BOUNDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0, 600.0, f64::INFINITY];
/// Karpenter's of most durations.
const DURATION_BOUNDS: [f64; 46] = [
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    1.0,
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    4.5,
    5.0,
    6.0,
    7.0,
    8.0,
    9.0,
    10.0,
    15.0,
    20.0,
    25.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    150.0,
    300.0,
    450.0,
    600.0,
    f64::INFINITY,
];
/// Its of calls of the cloud.
const CALL_BOUNDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, f64::INFINITY];
/// Its of how long NodeClaims take to end, up to 34 minutes.
const END_BOUNDS: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, f64::INFINITY];
/// And instances, up to 17 minutes.
const INSTANCE_BOUNDS: [f64; 12] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, f64::INFINITY];
/// The same of what lasts as long as nodes do: from a quarter of an hour to a month.
const LONG_BOUNDS: [f64; 22] = [
    900.0,
    1800.0,
    2700.0,
    3600.0,
    7200.0,
    14_400.0,
    21_600.0,
    28_800.0,
    36_000.0,
    43_200.0,
    57_600.0,
    72_000.0,
    86_400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    1_728_000.0,
    2_160_000.0,
    2_592_000.0,
    f64::INFINITY,
];

macro_rules! names {
    ($(#[$doc:meta])* $of:ident { $($variant:ident $name:literal $help:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $of { $(#[doc = $help] $variant,)* }

        impl $of {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
        }
    };
}

names! {
    /// What is counted.
    Counter {
        NodeClaimsCreated "karpenter_nodeclaims_created" "NodeClaims created",
        NodeClaimsTerminated "karpenter_nodeclaims_terminated" "NodeClaims that are gone",
        NodeClaimsDisrupted "karpenter_nodeclaims_disrupted" "NodeClaims deleted to disrupt their node",
        NodesCreated "karpenter_nodes_created" "Nodes of NodePools that joined",
        NodesTerminated "karpenter_nodes_terminated" "Nodes of NodePools that are gone",
        NodesDrained "karpenter_nodes_drained" "Nodes that all their pods have left, as their NodeClaim is deleted",
        NodeClaimsUnhealthy "karpenter_nodeclaims_unhealthy_disrupted" "NodeClaims deleted as their node is broken",
        ClaimTransitions "operator_nodeclaim_status_condition_transitions" "Conditions of NodeClaims that changed their status",
        EvictionRequests "karpenter_pods_eviction_requests" "Requests to evict a pod, by the answer's code",
        PodsDrained "karpenter_pods_drained" "Pods that were told to leave their node, by why the node goes",
        PodsDisrupted "karpenter_pods_disruption_initiated" "Pods that have to move as the NodeClaim of their node is deleted",
        Disruptions "karpenter_voluntary_disruption_decisions" "Disruptions that were decided",
        DisruptionsByPool "karpenter_voluntary_disruption_decisions_by_nodepool" "Disruptions that were decided, by NodePool",
        DisruptionsFailed "karpenter_voluntary_disruption_queue_failures" "Disruptions that were decided and came to nothing",
        DisruptionsInvalid "karpenter_voluntary_disruption_failed_validations" "Nodes that were chosen to be disrupted, and were not when all was looked at anew",
        LooksCutOff "karpenter_voluntary_disruption_consolidation_timeouts" "Looks for consolidation that ended before all was looked at",
        CloudErrors "karpenter_cloudprovider_errors" "Calls of the cloud that failed",
        Writes "berth_writes" "Requests to the API server: changes, and reads after changes of unknown outcome",
        LaunchesPutOff "berth_launches_put_off" "Planned nodes that were not launched, by reason",
    }
}

names! {
    /// What is measured, in seconds.
    Measured {
        Scheduling "karpenter_scheduler_scheduling_duration_seconds" "Duration of decisions",
        CloudCalls "karpenter_cloudprovider_duration_seconds" "Duration of calls of the cloud",
        PodsScheduled "scheduler_pod_scheduling_sli_duration_seconds" "From the event of a pod without a node until its binding is sent",
        PodsBound "karpenter_pods_bound_duration_seconds" "From a pod's creation until it is bound",
        PodsStarted "karpenter_pods_startup_duration_seconds" "From a pod's creation until it runs",
        PodsDecided "karpenter_pods_scheduling_decision_duration_seconds" "From the event of a pod without a node until the first decision about it",
        ProvidedPodsBound "karpenter_pods_provisioning_bound_duration_seconds" "From the decision that gave a pod a place until it is bound",
        ProvidedPodsStarted "karpenter_pods_provisioning_startup_duration_seconds" "From the decision that gave a pod a place until it runs",
        NodesEnded "karpenter_nodes_termination_duration_seconds" "From the deletion of a node until it is gone",
        NodesLived "karpenter_nodes_lifetime_duration_seconds" "From a node's creation until it is gone",
        ClaimsEnded "karpenter_nodeclaims_termination_duration_seconds" "From the deletion of a NodeClaim until it is gone",
        InstancesEnded "karpenter_nodeclaims_instance_termination_duration_seconds" "From the request to end an instance until its NodeClaim is gone",
        ClaimsStayed "operator_nodeclaim_status_condition_transition_seconds" "How long conditions of NodeClaims had a status until they changed it",
        Looks "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" "Duration of looks for nodes to be disrupted",
    }
}

// === impl Measured ===

impl Measured {
    const fn bounds(self) -> &'static [f64] {
        match self {
            Self::NodesLived => &LONG_BOUNDS,
            Self::CloudCalls => &CALL_BOUNDS,
            Self::ClaimsEnded => &END_BOUNDS,
            Self::InstancesEnded => &INSTANCE_BOUNDS,
            // Those are summaries in Karpenter, and kube-scheduler's has no bucket below ten milliseconds.
            Self::PodsScheduled | Self::PodsStarted | Self::NodesEnded => &BOUNDS,
            _ => &DURATION_BOUNDS,
        }
    }
}

/// What was counted and measured since the process started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    counters: BTreeMap<(Counter, Labels), u64>,
    measured: BTreeMap<(Measured, Labels), Histogram>,
}

// === impl Counts ===

impl Counts {
    pub(crate) fn add(&mut self, counter: Counter, labels: &[(&'static str, &str)]) {
        self.add_many(counter, labels, 1);
    }

    /// So many at a time. None at all shows that there could be some.
    pub(crate) fn add_many(&mut self, counter: Counter, labels: &[(&'static str, &str)], n: usize) {
        let count = self.counters.entry((counter, owned(labels))).or_default();
        *count = count.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
    }

    /// Takes in a duration in seconds.
    pub(crate) fn measure(&mut self, what: Measured, labels: &[(&'static str, &str)], seconds: f64) {
        let empty = || Histogram { sum: 0.0, buckets: what.bounds().iter().map(|&bound| (bound, 0)).collect() };
        let histogram = self.measured.entry((what, owned(labels))).or_insert_with(empty);
        histogram.sum += seconds;
        if let Some((_, n)) = histogram.buckets.iter_mut().find(|(bound, _)| seconds <= *bound) {
            *n += 1;
        }
    }

    /// All that these and others have counted. What has not happened yet has a name and no value.
    pub(crate) fn metrics_with(&self, others: &Self) -> Vec<Metric> {
        let mut all = self.clone();
        for ((counter, labels), n) in &others.counters {
            *all.counters.entry((*counter, labels.clone())).or_default() += n;
        }
        // Each is measured in one place.
        all.measured.extend(others.measured.clone());
        all.metrics()
    }

    fn metrics(&self) -> Vec<Metric> {
        let counters = Counter::ALL.iter().map(|&counter| {
            let own = self.counters.iter().filter(|((known, _), _)| *known == counter);
            let values = own.map(|((_, labels), n)| (labels.clone(), *n)).collect();
            Metric { name: counter.name(), help: counter.help(), values: Values::Counter(values) }
        });
        let measured = Measured::ALL.iter().map(|&what| {
            let own = self.measured.iter().filter(|((known, _), _)| *known == what);
            let values = own.map(|((_, labels), histogram)| (labels.clone(), histogram.clone())).collect();
            Metric { name: what.name(), help: what.help(), values: Values::Histogram(values) }
        });
        counters.chain(measured).collect()
    }
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_falls_into_one_bucket() {
        let (mut counts, mut others) = (Counts::default(), Counts::default());
        for seconds in [0.02, 0.025, 7000.0] {
            counts.measure(Measured::Scheduling, &[("controller", "provisioner")], seconds);
        }
        counts.measure(Measured::NodesLived, &[("nodepool", "web")], 7000.0);
        counts.add(Counter::NodesCreated, &[("nodepool", "web")]);
        others.add(Counter::NodesCreated, &[("nodepool", "web")]);
        let metrics = counts.metrics_with(&others);
        let named = |name: &str| metrics.iter().find(|metric| metric.name == name).map(|metric| &metric.values);
        let created = Values::Counter(vec![(vec![("nodepool", "web".to_owned())], 2)]);
        assert_eq!(named("karpenter_nodes_created"), Some(&created));
        assert_eq!(named("karpenter_nodes_terminated"), Some(&Values::Counter(vec![])), "its name is known before");
        let filled = |name: &str| -> Vec<(f64, u64)> {
            let Some(Values::Histogram(all)) = named(name) else { panic!("{metrics:?}") };
            all[0].1.buckets.iter().copied().filter(|(_, n)| *n > 0).collect()
        };
        assert_eq!(filled("karpenter_scheduler_scheduling_duration_seconds"), [(0.025, 2), (f64::INFINITY, 1)]);
        assert_eq!(filled("karpenter_nodes_lifetime_duration_seconds"), [(7200.0, 1)]);
    }
}
