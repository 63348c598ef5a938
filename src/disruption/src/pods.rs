//! What a node's pods say about its disruption: who moves, what moving costs, and who may not be moved.

use berth_api::GoDuration;
use berth_api::labels::DO_NOT_DISRUPT;
use berth_model::Money;
use berth_state::{PodRecord, is_remade};
use jiff::{SignedDuration, Timestamp};

/// What it costs to disrupt something, as Karpenter counts it (`RescheduleDisruptionCost`): 1 for a pod of priority 0
/// without a deletion cost. Exact, in parts of 2⁻²⁷.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisruptionCost(i64);

/// Why a pod keeps its node from being disrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protection {
    /// `karpenter.sh/do-not-disrupt`.
    Annotation,
    /// A value of that annotation that means nothing: it protects until it is mended.
    Unreadable(String),
}

const ONE: i64 = 1 << 27;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

// === impl DisruptionCost ===

impl DisruptionCost {
    /// That of a pod of priority 0 without a deletion cost.
    pub const ONE: DisruptionCost = DisruptionCost(ONE);

    /// In units of [`DisruptionCost::ONE`], for people.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn in_pods(self) -> f64 {
        self.0 as f64 / ONE as f64
    }

    /// As an integer in parts of 2⁻²⁷, for exact comparisons.
    pub(crate) const fn parts(self) -> i64 {
        self.0
    }

    /// The parts in one.
    pub(crate) const fn parts_in_one() -> i64 {
        ONE
    }

    /// Of one pod: 1, more by its deletion cost (2²⁷ count as one) and its priority (2²⁵ count as one); from -10 to 10.
    pub(crate) fn of(pod: &PodRecord) -> Self {
        let deletion = pod.annotation(DELETION_COST).and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
        let priority = pod.spec().and_then(|spec| spec.priority).unwrap_or(0);
        let cost = ONE + i64::from(deletion) + i64::from(priority) * 4;
        DisruptionCost(cost.clamp(-10 * ONE, 10 * ONE))
    }

    /// Of a pod that moves: it never makes its node cheaper.
    pub(crate) fn of_move(pod: &PodRecord) -> Self {
        DisruptionCost(Self::of(pod).0.max(0))
    }

    /// What is left of it without these.
    pub(crate) fn without(self, others: impl Iterator<Item = Self>) -> Self {
        DisruptionCost(others.map(|cost| cost.0).fold(self.0, i64::saturating_sub).max(0))
    }

    /// The part of it that counts where so much is left of a lifetime, as Karpenter's `LifetimeRemaining`: the pods of a node that
    /// expires soon are evicted soon in any case. At least a part of 2⁻²⁷, so that something is always disrupted.
    pub(crate) fn over(self, left: SignedDuration, lifetime: SignedDuration) -> Self {
        let lifetime = lifetime.as_nanos().max(1);
        let left = left.as_nanos().clamp(0, lifetime);
        // No more than what it is of.
        let part = i64::try_from(i128::from(self.0).saturating_mul(left) / lifetime).unwrap_or(self.0);
        DisruptionCost(part.max(1))
    }

    /// Of a node with these pods that move: 1, and what each of them costs above 0.
    pub(crate) fn of_node<'p>(pods: impl Iterator<Item = &'p PodRecord>) -> Self {
        DisruptionCost(pods.map(|pod| Self::of_move(pod).0).fold(ONE, i64::saturating_add))
    }
}

impl std::iter::Sum for DisruptionCost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        DisruptionCost(costs.map(|cost| cost.0).fold(0, i64::saturating_add))
    }
}

/// Whether another pod comes in its place when its node goes: it has not ended, is not going, and does not run for its node,
/// as those of DaemonSets and static ones do.
pub(crate) fn is_moved(pod: &PodRecord) -> bool {
    is_remade(pod)
}

/// Whether it is evicted when its node goes, and a PodDisruptionBudget has a say in that.
pub(crate) fn is_evicted(pod: &PodRecord) -> bool {
    let taints = pod.spec().and_then(|spec| spec.tolerations.as_ref()).into_iter().flatten();
    // Who tolerates the taint of a disruption stays until the node is gone, and is not evicted.
    let mut tolerates = taints.filter(|toleration| {
        let is_exists = toleration.operator.as_deref() == Some("Exists");
        let has_key = match toleration.key.as_deref().unwrap_or_default() {
            "" => is_exists,
            key => key == berth_api::labels::DISRUPTED_TAINT,
        };
        let has_effect = matches!(toleration.effect.as_deref(), None | Some("" | "NoSchedule"));
        has_key && has_effect && (is_exists || toleration.value.as_deref().unwrap_or_default().is_empty())
    });
    is_moved(pod) && tolerates.next().is_none()
}

/// How long a pod is given to stop.
pub(crate) fn grace(pod: &PodRecord) -> SignedDuration {
    let seconds = pod.spec().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    SignedDuration::from_secs(seconds.max(0))
}

/// What is wrong with a pod's `karpenter.sh/do-not-disrupt`, if it means nothing: it protects until it is mended.
pub fn check_do_not_disrupt(pod: &PodRecord) -> Option<String> {
    match protection(pod, Timestamp::MIN)? {
        Protection::Unreadable(found) => Some(format!(
            "metadata.annotations[{DO_NOT_DISRUPT}]: expected \"true\" or a time such as 1h, found {found:?}: its node is \
             not disrupted"
        )),
        Protection::Annotation => None,
    }
}

/// Whether the pod, of whatever owner, keeps its node as it is.
pub(crate) fn protection(pod: &PodRecord, now: Timestamp) -> Option<Protection> {
    if pod.has_ended() || pod.deletion().is_some() {
        return None;
    }
    let text = pod.annotation(DO_NOT_DISRUPT)?;
    match text {
        "true" => Some(Protection::Annotation),
        "false" => None,
        _ => {
            let duration = text.parse::<GoDuration>().ok().and_then(|duration| duration.to_std());
            let Some(duration) = duration.filter(|duration| !duration.is_zero()) else {
                return Some(Protection::Unreadable(text.to_owned()));
            };
            // A pod that has not begun is protected for all of its time.
            after_start(pod, duration).is_none_or(|over| now < over).then_some(Protection::Annotation)
        }
    }
}

/// When a pod that its annotation keeps for a time is free to go; `None` for all others.
pub(crate) fn freed_at(pod: &PodRecord) -> Option<Timestamp> {
    protection(pod, Timestamp::MIN)?;
    after_start(pod, pod.annotation(DO_NOT_DISRUPT)?.parse::<GoDuration>().ok()?.to_std()?)
}

fn after_start(pod: &PodRecord, duration: std::time::Duration) -> Option<Timestamp> {
    pod.started().or(pod.created())?.checked_add(SignedDuration::try_from(duration).ok()?).ok()
}

/// A price for each unit of disruption.
pub(crate) fn disrupted(price: Money, cost: DisruptionCost) -> Money {
    let parts = price.pico().saturating_mul(i128::from(cost.parts()));
    Money::from_pico(parts / i128::from(DisruptionCost::parts_in_one()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: &Value, priority: i32) -> PodRecord {
        tolerant_pod(metadata, priority, &Value::Null)
    }

    fn tolerant_pod(metadata: &Value, priority: i32, tolerations: &Value) -> PodRecord {
        let spec = json!({"containers": [], "priority": priority, "tolerations": tolerations});
        let pod = json!({"metadata": metadata, "spec": spec, "status": {"startTime": "2026-01-01T00:00:00Z"}});
        PodRecord::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    fn annotated(key: &str, value: &str) -> Value {
        json!({"annotations": {key: value}})
    }

    // Karpenter's EvictionCost: 1 + deletion cost / 2^27 + priority / 2^25, from -10 to 10.
    #[rstest]
    #[case::plain(pod(&json!({}), 0), 1.0)]
    #[case::deletion_cost(pod(&annotated(DELETION_COST, "100"), 0), 1.0 + 100.0 / 134_217_728.0)]
    #[case::negative_deletion_cost(pod(&annotated(DELETION_COST, "-2147483647"), 0), -15.0 + 1.0 / 134_217_728.0)]
    #[case::unreadable_deletion_cost(pod(&annotated(DELETION_COST, "a lot"), 0), 1.0)]
    #[case::priority(pod(&json!({}), 1 << 25), 2.0)]
    #[case::system_critical(pod(&json!({}), 2_000_001_000), 10.0)]
    fn a_pods_cost_follows_deletion_cost_and_priority(#[case] pod: PodRecord, #[case] expected: f64) {
        let cost = DisruptionCost::of(&pod).in_pods();
        assert!((cost - expected.clamp(-10.0, 10.0)).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn a_nodes_cost_is_one_and_its_pods_which_never_make_it_cheaper() {
        let pods = [pod(&json!({}), 0), pod(&json!({}), 1 << 25), pod(&annotated(DELETION_COST, "-2147483647"), 0)];
        assert!((DisruptionCost::of_node(pods.iter()).in_pods() - 4.0).abs() < 1e-12);
        assert_eq!(DisruptionCost::of_node(std::iter::empty()), DisruptionCost::ONE);
    }

    // Karpenter's LifetimeRemaining, from 0 to 1.
    #[rstest]
    #[case::new(10, 3.0)]
    #[case::half_way(5, 1.5)]
    #[case::over(-1, 1.0 / 134_217_728.0)]
    #[case::by_another_clock(11, 3.0)]
    fn a_node_that_expires_soon_costs_less_to_disrupt(#[case] hours: i64, #[case] expected: f64) {
        let whole = DisruptionCost::of_node([pod(&json!({}), 0), pod(&json!({}), 0)].iter());
        let cost = whole.over(SignedDuration::from_hours(hours), SignedDuration::from_hours(10)).in_pods();
        assert!((cost - expected).abs() < 1e-12, "{cost}");
    }

    #[rstest]
    #[case("true", "2026-01-02T00:00:00Z", Some(Protection::Annotation))]
    #[case("false", "2026-01-02T00:00:00Z", None)]
    #[case("1h", "2026-01-01T00:59:59Z", Some(Protection::Annotation))]
    #[case("1h", "2026-01-01T01:00:00Z", None)]
    #[case("soon", "2026-01-02T00:00:00Z", Some(Protection::Unreadable("soon".to_owned())))]
    #[case("0s", "2026-01-02T00:00:00Z", Some(Protection::Unreadable("0s".to_owned())))]
    fn do_not_disrupt_is_true_or_a_time(#[case] value: &str, #[case] now: &str, #[case] expected: Option<Protection>) {
        let pod = pod(&annotated(DO_NOT_DISRUPT, value), 0);
        assert_eq!(protection(&pod, now.parse().unwrap()), expected);
    }

    #[rstest]
    #[case::of_a_replica_set("ReplicaSet", true)]
    #[case::of_a_daemon_set("DaemonSet", false)]
    #[case::static_("Node", false)]
    fn owners_decide_who_moves(#[case] kind: &str, #[case] expected: bool) {
        let owner = json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "a", "uid": "u", "controller": true}]});
        assert_eq!(is_moved(&pod(&owner, 0)), expected);
    }

    #[test]
    fn who_tolerates_the_disruption_is_not_evicted() {
        assert!(is_evicted(&pod(&json!({}), 0)));
        let tolerations = json!([{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}]);
        let tolerant = tolerant_pod(&json!({}), 0, &tolerations);
        assert!(!is_evicted(&tolerant) && is_moved(&tolerant));
    }
}
