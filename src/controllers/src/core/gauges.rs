//! The numbers of the moment.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_disruption::{Budgets, PoolNodes};
use berth_quantity::Quantity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;

use super::Core;
use super::disruption::REASONS;
use crate::claim::{conditions, is_ready};
use crate::clock::elapsed;
use crate::metrics::{Counts, Labels, Metric, Values};
use crate::view::pool_of;

/// Sums by labels.
pub(super) type Sums = BTreeMap<Labels, f64>;

impl Core {
    /// All that is counted, measured and known now.
    pub(crate) fn metrics(&mut self, others: &Counts, now: Timestamp) -> Vec<Metric> {
        let mut all = self.counts.metrics_with(others);
        let is_synced = f64::from(u8::from(self.view.is_synced()));
        all.push(gauge(
            "karpenter_cluster_state_synced",
            "1 once everything was listed",
            one(Labels::new(), is_synced),
        ));
        let unsynced = self.unsynced_since.filter(|_| !self.view.is_synced()).map_or(0.0, |since| age(since, now));
        all.push(gauge(
            "karpenter_cluster_state_unsynced_time_seconds",
            "For how long not everything was listed",
            one(Labels::new(), unsynced),
        ));
        if !self.view.is_synced() {
            return all;
        }
        all.extend(self.pool_metrics());
        all.extend(self.disruption_metrics(now));
        all.extend(self.node_metrics(now));
        all.extend(self.pod_metrics(now));
        all.extend(self.scheduler_metrics(now));
        all.extend(self.peer_metrics());
        all.extend(self.slot_metrics());
        self.count_slot_time(now);
        all.extend(self.slot_time_metrics());
        all
    }

    fn pool_metrics(&mut self) -> Vec<Metric> {
        let (mut usage, mut limits, mut cost, mut claims) = (Sums::new(), Sums::new(), Sums::new(), Sums::new());
        for (name, pool) in self.view.pools.iter() {
            let of = |resource: &str| vec![("nodepool", name.clone()), ("resource_type", resource_type(resource))];
            let used = pool.status.iter().flat_map(|status| &status.resources);
            usage.extend(used.map(|(resource, amount)| (of(resource), number(*amount))));
            limits.extend(pool.spec.limits.iter().map(|(resource, amount)| (of(resource), number(*amount))));
        }
        for (pool, spent) in self.spend() {
            cost.insert(vec![("nodepool", pool)], spent.dollars());
        }
        for claim in self.view.claims.values() {
            let pool = pool_of(&claim.metadata).unwrap_or_default().to_owned();
            let all = claim.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
            let is = |condition| conditions::is_true(all, condition);
            let state = if claim.metadata.deletion_timestamp.is_some() {
                "terminating"
            } else if is(conditions::INITIALIZED) {
                "initialized"
            } else if is(conditions::REGISTERED) {
                "registered"
            } else if is(conditions::LAUNCHED) {
                "launched"
            } else {
                "created"
            };
            *claims.entry(vec![("nodepool", pool), ("state", state.to_owned())]).or_default() += 1.0;
        }
        vec![
            gauge("karpenter_nodepools_usage", "What the nodes of a NodePool have", usage),
            gauge("karpenter_nodepools_limit", "What the nodes of a NodePool may have at most", limits),
            gauge(
                "karpenter_nodepools_cost_total",
                "What the nodes of a NodePool cost in dollars an hour, as berth_nodepools_cost_dollars_per_hour",
                cost.clone(),
            ),
            gauge(
                "berth_nodepools_cost_dollars_per_hour",
                "What the nodes of a NodePool cost; reserved instances are paid for anyhow and count nothing",
                cost,
            ),
            gauge("berth_nodeclaims", "NodeClaims by how far they are", claims),
        ]
    }

    fn node_metrics(&self, now: Timestamp) -> Vec<Metric> {
        let n_nodes = f64::from(u32::try_from(self.view.nodes.len()).unwrap_or(u32::MAX));
        let mut oldest = Sums::new();
        for node in self.view.nodes.values() {
            let own = node.metadata.creation_timestamp.as_ref().map_or(0.0, |created| age(created.0, now));
            let known: &mut f64 = oldest.entry(node_labels(node)).or_default();
            *known = (*known).max(own);
        }
        let nodes = "karpenter_cluster_state_node_count";
        vec![
            gauge(nodes, "Nodes that there are", one(Labels::new(), n_nodes)),
            gauge("karpenter_nodes_current_lifetime_seconds", "The age of the oldest node", oldest),
        ]
    }

    fn pod_metrics(&self, now: Timestamp) -> Vec<Metric> {
        let (mut sums, mut waiting, mut gated, mut longest) = (Sums::new(), 0.0, 0.0, [0.0_f64; 2]);
        for pod in self.state.pods_with_observed().filter_map(|(_, observed)| observed) {
            let phase = pod.phase().unwrap_or("Pending").to_owned();
            let node = pod.node();
            let waits = [node.is_none() && phase == "Pending", phase == "Pending"];
            waiting += f64::from(u8::from(waits[0]));
            let held_by = pod.spec().and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
            gated += f64::from(u8::from(waits[0] && !held_by.is_empty()));
            for (longest, waits) in longest.iter_mut().zip(waits) {
                *longest = (*longest).max(pod.created().filter(|_| waits).map_or(0.0, |since| age(since, now)));
            }
            let node = node.and_then(|name| self.view.nodes.get(name));
            let known = node.and_then(|node| node.metadata.labels.as_ref());
            let value = |key: &str| known.and_then(|all| all.get(key)).cloned().unwrap_or_default();
            let mut labels: Labels = POD_LABELS.iter().map(|(name, key)| (*name, value(key))).collect();
            let is_ready = |known: &PodCondition| known.type_ == "Ready" && known.status == "True";
            labels.push(("managed", is_managed(Some(&value(labels::NODEPOOL)))));
            labels.push(("phase", phase));
            labels.push(("ready", pod.conditions().iter().any(is_ready).to_string()));
            labels.push(("scheduled", pod.node().is_some().to_string()));
            labels.sort_unstable();
            *sums.entry(labels).or_default() += 1.0;
        }
        let refused = f64::from(u32::try_from(self.n_refused).unwrap_or(u32::MAX));
        let provisioner = || vec![("controller", "provisioner".to_owned())];
        let [unbound, unstarted] = longest.map(|seconds| one(Labels::new(), seconds));
        let [undecided, placed, provided] = self.pod_times.longest(now).map(|seconds| one(Labels::new(), seconds));
        let queue = |name: &str| vec![("queue", name.to_owned())];
        let refused_there = refused.min(waiting - gated);
        let queues = Sums::from([
            (queue("active"), waiting - gated - refused_there),
            (queue("backoff"), number_of(self.unbindable.values().filter(|(_, until)| *until > now).count())),
            (queue("gated"), gated),
            (queue("unschedulable"), refused_there),
        ]);
        vec![
            gauge("karpenter_pods_state", "Pods by phase and by what their node is, summed up", sums),
            gauge(
                "karpenter_pods_unbound_time_seconds",
                "How long the pod has waited for a node that has waited longest, since its creation",
                unbound,
            ),
            gauge(
                "karpenter_pods_unstarted_time_seconds",
                "How long the pod has not run that has waited longest, since its creation",
                unstarted,
            ),
            gauge(
                "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
                "How long the pod has waited for a first decision that has waited longest",
                undecided,
            ),
            gauge(
                "karpenter_pods_provisioning_unbound_time_seconds",
                "How long the pod has waited for its node that has waited longest, since it was given a place",
                placed,
            ),
            gauge(
                "karpenter_pods_provisioning_unstarted_time_seconds",
                "How long the pod has not run that has waited longest, since it was given a place",
                provided,
            ),
            gauge("scheduler_pending_pods", "Pods without a node, by what they wait for", queues),
            gauge("karpenter_scheduler_queue_depth", "Pods without a node", one(provisioner(), waiting)),
            gauge(
                "karpenter_scheduler_unschedulable_pods_count",
                "Pods for which the last decision knew no node",
                one(provisioner(), refused),
            ),
        ]
    }

    fn scheduler_metrics(&self, now: Timestamp) -> Vec<Metric> {
        let unfinished = self.unfinished(now);
        let unfinished = [("provisioner", true), ("scheduler", false)].map(|(controller, launches)| {
            let own = unfinished.filter(|(known, _)| *known == launches);
            (vec![("controller", controller.to_owned())], own.map_or(0.0, |(_, since)| since.as_secs_f64()))
        });
        let ignored = self.state.refused().filter(|known| known.key.kind == berth_state::Kind::Pod).count();
        vec![
            gauge(
                "karpenter_scheduler_unfinished_work_seconds",
                "How long the decision takes already that is being made",
                unfinished.into(),
            ),
            gauge(
                "karpenter_scheduler_ignored_pods_count",
                "Pods that cannot be used as they are written",
                one(Labels::new(), number_of(ignored)),
            ),
        ]
    }

    /// What budgets let be disrupted, and what could be.
    fn disruption_metrics(&self, now: Timestamp) -> Vec<Metric> {
        let mut nodes: BTreeMap<&str, PoolNodes> = BTreeMap::new();
        for claim in self.view.claims.values().filter(|claim| Self::initialized(claim)) {
            let all = claim.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
            let Some(pool) = pool_of(&claim.metadata) else { continue };
            if conditions::is_true(all, conditions::INSTANCE_TERMINATING) {
                continue;
            }
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let own = nodes.entry(pool).or_default();
            own.total += 1;
            let is_off = claim.metadata.deletion_timestamp.is_some()
                || self.disrupting.takes(name)
                || self.node_of(claim).is_none_or(|node| !is_ready(node));
            own.off += usize::from(is_off);
        }
        let (mut allowed, mut off) = (Sums::new(), Sums::new());
        for (name, pool) in self.view.pools.iter() {
            let own = nodes.get(name.as_str()).copied().unwrap_or_default();
            // Budgets that cannot be read allow nothing.
            let budgets = Budgets::of(pool).ok();
            for (reason, _) in REASONS {
                let labels = vec![("nodepool", name.clone()), ("reason", format!("{reason:?}"))];
                let n = budgets.as_ref().map_or(0, |budgets| budgets.allowed(reason, PoolNodes { off: 0, ..own }, now));
                allowed.insert(labels.clone(), number_of(n));
                off.insert(labels, number_of(own.off));
            }
        }
        let eligible = self.disrupting.eligible().iter();
        let eligible = eligible.map(|(reason, n)| (vec![("reason", (*reason).to_owned())], number_of(*n))).collect();
        vec![
            gauge(
                "karpenter_nodepools_allowed_disruptions",
                "How many nodes of a NodePool its budgets let be disrupted at a time, those included that are",
                allowed,
            ),
            gauge(
                "karpenter_nodepools_nodes_consuming_budgets",
                "How many nodes of a NodePool are being disrupted or not ready",
                off,
            ),
            gauge(
                "karpenter_voluntary_disruption_eligible_nodes",
                "Nodes that may be disrupted for a reason, as they were last looked at",
                eligible,
            ),
        ]
    }

    /// The slots of each reservation, as the cloud counted them and with what was launched since.
    pub(super) fn slots_now(&self) -> Vec<SlotsNow> {
        let mut slots = BTreeMap::new();
        let holders: Vec<(&str, &str)> = self
            .view
            .claims
            .values()
            .filter_map(|claim| {
                let id = claim.metadata.labels.as_ref()?.get(labels::RESERVATION_ID)?;
                Some((id.as_str(), claim.status.as_ref()?.provider_id.as_deref()?))
            })
            .collect();
        for known in self.offers.values().flat_map(|offers| &offers.types.reservations) {
            // What the cloud counted, and what was launched since.
            let includes = |id: &str| known.includes.iter().any(|own| own.0 == id);
            let unseen = holders.iter().filter(|(on, id)| *on == known.id && !includes(id)).count();
            let used = known.used.saturating_add(u32::try_from(unseen).unwrap_or(u32::MAX));
            // Several node classes may know it, and it is one.
            slots.insert(known.id.clone(), SlotsNow { id: known.id.clone(), total: known.total, used });
        }
        slots.into_values().collect()
    }

    fn slot_metrics(&self) -> Vec<Metric> {
        let mut slots = Sums::new();
        for SlotsNow { id, total, used } in self.slots_now() {
            for (state, n) in [("total", total), ("used", used), ("idle", total.saturating_sub(used))] {
                slots.insert(vec![("reservation_id", id.clone()), ("state", state.to_owned())], f64::from(n));
            }
        }
        vec![gauge("berth_reserved_slots", "Slots of capacity reservations", slots)]
    }
}

/// The slots of a reservation.
pub(super) struct SlotsNow {
    pub(super) id: String,
    pub(super) total: u32,
    /// More than `total` where the reservation was made smaller under its instances.
    pub(super) used: u32,
}

/// A counter with these values.
pub(super) fn count(name: &'static str, help: &'static str, values: Vec<(Labels, u64)>) -> Metric {
    Metric { name, help, values: Values::Counter(values) }
}

/// How Karpenter names what the node of a pod is.
const POD_LABELS: [(&str, &str); 5] = [
    ("arch", labels::ARCH),
    ("capacity_type", labels::CAPACITY_TYPE),
    ("instance_type", labels::INSTANCE_TYPE),
    ("nodepool", labels::NODEPOOL),
    ("zone", labels::ZONE),
];

/// How it names what a node is.
const NODE_LABELS: [(&str, &str); 8] = [
    ("arch", labels::ARCH),
    ("capacity_type", labels::CAPACITY_TYPE),
    ("instance_type", labels::INSTANCE_TYPE),
    ("nodepool", labels::NODEPOOL),
    ("os", labels::OS),
    ("region", labels::REGION),
    ("windows_build", labels::WINDOWS_BUILD),
    ("zone", labels::ZONE),
];

/// Labels as Karpenter has them of each node, but for its name. Its phase is nobody's any more.
fn labels_with<'v>(value: impl Fn(&str) -> Option<&'v str>) -> Labels {
    let own = |(name, key): &(&'static str, &str)| (*name, value(key).unwrap_or_default().to_owned());
    let mut labels: Labels = NODE_LABELS.iter().map(own).collect();
    labels.push(("managed", is_managed(value(labels::NODEPOOL))));
    labels.sort_unstable();
    labels
}

/// Whether a node is of a NodePool, as Karpenter says it.
fn is_managed(pool: Option<&str>) -> String {
    pool.is_some_and(|pool| !pool.is_empty()).to_string()
}

pub(super) fn node_labels(node: &k8s_openapi::api::core::v1::Node) -> Labels {
    labels_with(|key| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str))
}

/// The name of a resource as Karpenter has it in labels.
pub(super) fn resource_type(resource: &str) -> String {
    resource.to_lowercase().replace('-', "_")
}

pub(super) fn gauge(name: &'static str, help: &'static str, values: Sums) -> Metric {
    Metric { name, help, values: Values::Gauge(values.into_iter().collect()) }
}

fn one(labels: Labels, value: f64) -> Sums {
    Sums::from([(labels, value)])
}

/// Seconds since then.
fn age(since: Timestamp, now: Timestamp) -> f64 {
    elapsed(since, now).as_secs_f64()
}

/// So many, at most those of 31 bits, as Karpenter's where there is no limit.
fn number_of(n: usize) -> f64 {
    f64::from(i32::try_from(n).unwrap_or(i32::MAX))
}

/// An amount in its base unit: CPUs, bytes, pieces.
pub(super) fn number(amount: Quantity) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a chart needs no more than 52 bits")]
    let milli = amount.milli_ceil().unwrap_or(i64::MAX) as f64;
    milli / 1000.0
}
