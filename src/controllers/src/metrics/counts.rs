//! Counters and distributions.

use std::collections::BTreeMap;

use super::{Histogram, Labels, Metric, Values};

/// Upper bounds of buckets, in seconds: from what a decision takes to what a slow boot does.
const BOUNDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0, 600.0, f64::INFINITY];

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
    }
}

/// What was counted and measured since the process started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counters: BTreeMap<(Counter, Labels), u64>,
    measured: BTreeMap<(Measured, Labels), Histogram>,
}

// === impl Counts ===

impl Counts {
    pub(crate) fn add(&mut self, counter: Counter, labels: &[(&'static str, &str)]) {
        *self.counters.entry((counter, owned(labels))).or_default() += 1;
    }

    /// Takes in a duration in seconds.
    pub(crate) fn measure(&mut self, what: Measured, labels: &[(&'static str, &str)], seconds: f64) {
        let empty = || Histogram { sum: 0.0, buckets: BOUNDS.iter().map(|&bound| (bound, 0)).collect() };
        let histogram = self.measured.entry((what, owned(labels))).or_insert_with(empty);
        histogram.sum += seconds;
        if let Some((_, n)) = histogram.buckets.iter_mut().find(|(bound, _)| seconds <= *bound) {
            *n += 1;
        }
    }

    /// All of it. What has not happened yet has no value.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
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
        counters.chain(measured).filter(|metric| !metric.is_empty()).collect()
    }
}

impl Metric {
    pub(crate) fn is_empty(&self) -> bool {
        match &self.values {
            Values::Gauge(values) => values.is_empty(),
            Values::Counter(values) => values.is_empty(),
            Values::Histogram(values) => values.is_empty(),
        }
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
        let mut counts = Counts::default();
        for seconds in [0.02, 0.025, 7000.0] {
            counts.measure(Measured::Scheduling, &[("controller", "provisioner")], seconds);
        }
        counts.add(Counter::NodesCreated, &[("nodepool", "web")]);
        counts.add(Counter::NodesCreated, &[("nodepool", "web")]);
        let metrics = counts.metrics();
        let [created, scheduling] = &metrics[..] else { panic!("{metrics:?}") };
        assert_eq!(created.values, Values::Counter(vec![(vec![("nodepool", "web".to_owned())], 2)]));
        let Values::Histogram(all) = &scheduling.values else { panic!("{scheduling:?}") };
        let filled: Vec<(f64, u64)> = all[0].1.buckets.iter().copied().filter(|(_, n)| *n > 0).collect();
        assert_eq!(filled, [(0.025, 2), (f64::INFINITY, 1)]);
        assert!((all[0].1.sum - 7000.045).abs() < 1e-9);
    }
}
