//! How long slots of capacity reservations were paid for, how long they were used, and by pods of which namespaces.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_model::{Cluster, Node, ResourceId};
use jiff::Timestamp;

use super::Core;
use super::gauges::{SlotsNow, count};
use crate::clock::elapsed;
use crate::metrics::Metric;

/// Namespaces that are told by name, the longest users first: a cluster may have any number of them.
const NAMED: usize = 100;
/// What those are called together that are not.
const OTHERS: &str = "(others)";

/// Milliseconds times slots since the process started.
#[derive(Debug, Default)]
pub(super) struct SlotTime {
    /// Until when it is counted.
    until: Option<Timestamp>,
    /// By reservation.
    paid: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    by_namespace: BTreeMap<String, u64>,
}

// === impl SlotTime ===

impl SlotTime {
    /// It was so from the last call until now.
    fn count(&mut self, slots: &[SlotsNow], shares: &BTreeMap<String, u64>, now: Timestamp) {
        let Some(before) = self.until.replace(now) else { return };
        let passed = u64::try_from(elapsed(before, now).as_millis()).unwrap_or(u64::MAX);
        let add = |to: &mut BTreeMap<String, u64>, name: &str, times: u64| {
            let sum = to.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(times);
        };
        for known in slots {
            add(&mut self.paid, &known.id, passed.saturating_mul(known.total.into()));
            // More instances than slots use no more than there are.
            add(&mut self.used, &known.id, passed.saturating_mul(known.used.min(known.total).into()));
        }
        for (namespace, millionths) in shares {
            add(&mut self.by_namespace, namespace, passed.saturating_mul(*millionths) / MILLION);
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let seconds = |sums: &BTreeMap<String, u64>, label: &'static str| -> Vec<_> {
            sums.iter().map(|(name, ms)| (vec![(label, name.clone())], ms / 1000)).collect()
        };
        let mut users: Vec<(&String, &u64)> = self.by_namespace.iter().collect();
        users.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let others: u64 = users.iter().skip(NAMED).map(|(_, ms)| **ms).sum();
        let mut named: BTreeMap<String, u64> =
            users.iter().take(NAMED).map(|(name, ms)| ((*name).clone(), **ms)).collect();
        if others > 0 {
            named.insert(OTHERS.to_owned(), others);
        }
        vec![
            count(
                "berth_reserved_slot_paid_seconds",
                "Slots of capacity reservations times how long they were paid for",
                seconds(&self.paid, "reservation_id"),
            ),
            count(
                "berth_reserved_slot_used_seconds",
                "Slots of capacity reservations times how long instances used them",
                seconds(&self.used, "reservation_id"),
            ),
            count(
                "berth_reserved_slot_namespace_seconds",
                "Slots times how long pods of a namespace used them, by their share of the node's requested CPUs",
                seconds(&named, "namespace"),
            ),
        ]
    }
}

const MILLION: u64 = 1_000_000;

/// Millionths of a slot that pods of each namespace use now.
fn shares(cluster: &Cluster) -> BTreeMap<String, u64> {
    let mut shares = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|node| is_on_slot(cluster, node)) {
        let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in &node.pods {
            let spec = cluster.spec(pod.spec);
            let cpu = spec.map_or(0, |spec| spec.requests.get(ResourceId::CPU));
            *asked.entry(cluster.symbols.text(pod.namespace)).or_default() += u64::try_from(cpu).unwrap_or(0);
        }
        let all: u64 = asked.values().sum();
        for (namespace, cpu) in asked.into_iter().filter(|(_, cpu)| *cpu > 0) {
            *shares.entry(namespace.to_owned()).or_default() += cpu.saturating_mul(MILLION) / all;
        }
    }
    shares
}

fn is_on_slot(cluster: &Cluster, node: &Node) -> bool {
    node.labels.iter().any(|(key, value)| {
        cluster.symbols.text(key) == labels::CAPACITY_TYPE && cluster.symbols.text(value) == labels::RESERVED
    })
}

impl Core {
    /// Takes in how slots were used until now.
    pub(super) fn count_slot_time(&mut self, now: Timestamp) {
        let slots = self.slots_now();
        if slots.is_empty() && self.slot_time.paid.is_empty() {
            return;
        }
        let shares = shares(self.state.cluster(now));
        self.slot_time.count(&slots, &shares, now);
    }

    pub(super) fn slot_time_metrics(&self) -> Vec<Metric> {
        self.slot_time.metrics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Values;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn values(metrics: &[Metric], name: &str) -> Vec<(String, u64)> {
        let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
        let Values::Counter(values) = &metric.values else { panic!("{metric:?}") };
        values.iter().map(|(labels, n)| (labels[0].1.clone(), *n)).collect()
    }

    #[test]
    fn slots_are_paid_for_while_they_are_idle_and_shared_by_namespaces() {
        let mut time = SlotTime::default();
        let slots = |used| [SlotsNow { id: "cr".to_owned(), total: 4, used }];
        let shares = BTreeMap::from([("a".to_owned(), 1_500_000), ("b".to_owned(), 500_000)]);
        time.count(&slots(2), &shares, at(100));
        let before = values(&time.metrics(), "berth_reserved_slot_paid_seconds");
        assert!(before.is_empty(), "nobody knows what was before");
        time.count(&slots(2), &shares, at(3700));
        // Six instances on four slots use four.
        time.count(&slots(6), &BTreeMap::new(), at(3800));
        let metrics = time.metrics();
        assert_eq!(values(&metrics, "berth_reserved_slot_paid_seconds"), [("cr".to_owned(), 4 * 3700)]);
        assert_eq!(values(&metrics, "berth_reserved_slot_used_seconds"), [("cr".to_owned(), 2 * 3600 + 4 * 100)]);
        let of_namespaces = values(&metrics, "berth_reserved_slot_namespace_seconds");
        assert_eq!(of_namespaces, [("a".to_owned(), 5400), ("b".to_owned(), 1800)]);
    }

    #[test]
    fn namespaces_beyond_a_hundred_are_summed_up() {
        let mut time = SlotTime::default();
        let shares = (0..150).map(|n| (format!("n{n:03}"), MILLION * (150 - n))).collect();
        time.count(&[], &shares, at(0));
        time.count(&[], &shares, at(1));
        let told = values(&time.metrics(), "berth_reserved_slot_namespace_seconds");
        assert_eq!((told.len(), &told[0].0[..], told[0].1), (101, OTHERS, (1..=50).sum::<u64>()));
    }
}
