//! PodDisruptionBudgets: which pods may not be evicted now.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use berth_api::labels::DO_NOT_DISRUPT;
use berth_state::{PodRecord, State, allowed_disruptions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::pods::{self, Protection};
use crate::reason::Cause;

/// How long before pods are deleted that nothing else lets leave, as their node has to be gone, places are planned for them: nodes may have
/// to come up.
const LEAD: SignedDuration = SignedDuration::from_mins(5);

/// The PodDisruptionBudgets of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Limits<'a> {
    by_namespace: BTreeMap<&'a str, Vec<Limit<'a>>>,
}

#[derive(Debug)]
struct Limit<'a> {
    name: &'a str,
    selector: &'a LabelSelector,
    allowed: i32,
    /// Whether it would allow none were all of its pods healthy.
    is_closed: bool,
    /// Whether its controller counts none: there are none yet that somebody makes anew.
    expects_none: bool,
    /// Whether pods that are not ready may go whatever is allowed.
    frees_unhealthy: bool,
}

// === impl Limits ===

impl<'a> Limits<'a> {
    /// The budgets, with what each allows now: what its controller says; else, as in manifests that no controller has
    /// seen, what follows from its pods.
    pub(crate) fn of(budgets: impl Iterator<Item = &'a PodDisruptionBudget>, all_pods: &[&PodRecord]) -> Self {
        let mut limits = Limits::default();
        for budget in budgets {
            let Some(spec) = &budget.spec else { continue };
            let Some(selector) = &spec.selector else { continue };
            let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
            let allowed = match &budget.status {
                Some(status) => status.disruptions_allowed,
                None => derived(budget, selector, namespace, all_pods),
            };
            limits.by_namespace.entry(namespace).or_default().push(Limit {
                name: budget.metadata.name.as_deref().unwrap_or_default(),
                selector,
                allowed,
                is_closed: budget.status.as_ref().is_some_and(|status| wants_all(budget, status)),
                expects_none: budget.status.as_ref().is_some_and(|status| status.expected_pods == 0),
                frees_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
            });
        }
        limits
    }

    /// Why a pod cannot be evicted now; `None` where it can, or is not evicted at all. The API server evicts no pod of
    /// two budgets.
    pub(crate) fn refusal(&self, pod: &PodRecord) -> Option<(String, Cause)> {
        let namespace = pod.namespace();
        match self.of_pod(pod).as_slice() {
            [] => None,
            [limit] if limit.allowed > 0 || limit.frees(pod) => None,
            [limit] => Some((format!("pdb {namespace}/{} prevents pod evictions", limit.name), Cause::BudgetInUse)),
            [first, ..] => {
                let text =
                    format!("pdb {namespace}/{} and another select one pod, which cannot be evicted", first.name);
                Some((text, Cause::Other))
            }
        }
    }
}

impl Limits<'_> {
    /// Why a pod is not told to leave now, in Karpenter's words: it must not be disrupted, or its budgets do not let it go.
    pub(crate) fn why_kept(&self, pod: &PodRecord, now: Timestamp) -> Option<(String, Cause)> {
        let annotation = match pods::protection(pod, now) {
            Some(Protection::Annotation) => format!("pod has {DO_NOT_DISRUPT:?} annotation"),
            Some(Protection::Unreadable(found)) => {
                format!(
                    "pod has {DO_NOT_DISRUPT:?} annotation: expected \"true\" or a time such as 1h, found {found:?}"
                )
            }
            None => return self.refusal(pod),
        };
        Some((annotation, Cause::Other))
    }

    /// See [`WhoStays::on`].
    pub(crate) fn who_stays<'p>(
        &self,
        pods: &[&'p PodRecord],
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) -> (Vec<&'p PodRecord>, Option<Timestamp>) {
        let shortly_before = |time: Timestamp, grace: SignedDuration| {
            time.checked_sub(grace.saturating_add(LEAD)).unwrap_or(Timestamp::MIN)
        };
        // Who is not told to leave has until the end.
        let until = |pod: &PodRecord| {
            let grace = if pods::is_evicted(pod) { pods::grace(pod) } else { SignedDuration::ZERO };
            let by_node = deadline.map(|deadline| shortly_before(deadline, grace));
            let is_freed = pods::is_evicted(pod) && !self.keep_always(pod);
            let freed = pods::freed_at(pod).filter(|_| is_freed);
            by_node.into_iter().chain(freed.map(|freed| shortly_before(freed, SignedDuration::ZERO))).min()
        };
        let waits = |pod: &&&PodRecord| pods::is_moved(pod) && until(pod).is_none_or(|until| until > now);
        let (evicted, others): (Vec<&PodRecord>, Vec<&PodRecord>) =
            pods.iter().filter(waits).partition(|pod| pods::is_evicted(pod));
        let mut staying: Vec<&PodRecord> =
            evicted.into_iter().filter(|pod| self.keep_always(pod) || pods::freed_at(pod).is_some()).collect();
        if !staying.is_empty() {
            // Those who tolerate its taint end with the machine, which waits for the others.
            staying.extend(others);
        }
        let next = staying.iter().filter_map(|pod| until(pod)).min();
        (staying, next)
    }

    /// Whether a pod is told to leave at no time, but where its node has to be gone.
    fn keep_always(&self, pod: &PodRecord) -> bool {
        pods::protection(pod, Timestamp::MAX).is_some() || self.keep_for_good(pod)
    }

    /// The budgets of a pod that is evicted when its node goes.
    fn of_pod(&self, pod: &PodRecord) -> Vec<&Limit<'_>> {
        let of_pod = self.by_namespace.get(pod.namespace()).filter(|_| pods::is_evicted(pod)).into_iter().flatten();
        of_pod.filter(|limit| pod.is_selected_by(limit.selector)).collect()
    }

    /// Whether a pod is not evicted, whoever gets ready.
    fn keep_for_good(&self, pod: &PodRecord) -> bool {
        match self.of_pod(pod).as_slice() {
            [] => false,
            [limit] => limit.is_closed && !limit.frees(pod) && (!limit.expects_none || pod.controller().is_none()),
            _ => true,
        }
    }
}

// === impl Limit ===

impl Limit<'_> {
    /// Whether it lets go of a pod as it is not ready.
    fn frees(&self, pod: &PodRecord) -> bool {
        self.frees_unhealthy && !is_ready(pod)
    }
}

/// Who stays on nodes that go away. What budgets say is read once, where somebody asks.
#[derive(Debug)]
pub struct WhoStays<'s> {
    state: &'s State,
    limits: OnceCell<Limits<'s>>,
}

impl<'s> WhoStays<'s> {
    /// By what there is now.
    pub fn of(state: &'s State) -> Self {
        WhoStays { state, limits: OnceCell::new() }
    }

    /// Those of a node's pods that nothing lets leave it: they must not be disrupted, or their budgets let them go neither now nor once all
    /// others are healthy. Where the node has to be gone by some time, they stay until shortly before they are deleted, and who is kept for
    /// a time until shortly before that is over. What comes second is when the first of them does not any more.
    pub fn on(
        &self,
        node: &str,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) -> (Vec<&'s PodRecord>, Option<Timestamp>) {
        let pods: Vec<&PodRecord> = self.state.pods_on(node).map(|pod| &**pod).collect();
        let limits = || Limits::of(self.state.all::<PodDisruptionBudget>().map(|budget| &**budget), &[]);
        self.limits.get_or_init(limits).who_stays(&pods, deadline, now)
    }
}

/// Of each of these pods: why it is not told to leave now.
pub fn why_kept<'p>(
    state: &State,
    pods: impl IntoIterator<Item = &'p PodRecord>,
    now: Timestamp,
) -> Vec<Option<String>> {
    let limits = Limits::of(state.all::<PodDisruptionBudget>().map(|budget| &**budget), &[]);
    pods.into_iter().map(|pod| Some(limits.why_kept(pod, now)?.0)).collect()
}

/// Whether a budget wants all of its pods to be healthy, as far as its controller has counted. Of pods without a controller it may expect
/// none, and let none go.
fn wants_all(budget: &PodDisruptionBudget, status: &PodDisruptionBudgetStatus) -> bool {
    status.expected_pods <= status.desired_healthy
        && budget.metadata.generation.is_none_or(|generation| status.observed_generation >= Some(generation))
}

/// What a budget allows that no controller has counted: of all pods that it selects, as if all of them were healthy.
fn derived(budget: &PodDisruptionBudget, selector: &LabelSelector, namespace: &str, all: &[&PodRecord]) -> i32 {
    let Some(spec) = &budget.spec else { return 0 };
    let selected =
        all.iter().filter(|pod| pod.namespace() == namespace && pod.is_selected_by(selector) && pods::is_moved(pod));
    allowed_disruptions(spec, i32::try_from(selected.count()).unwrap_or(i32::MAX))
}

fn is_ready(pod: &PodRecord) -> bool {
    pod.conditions().iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pods_stay_where_their_budget_wants_all_of_them_and_where_they_have_two() {
        let budget = |name: &str, expected: i32, desired: i32, observed: i64| -> PodDisruptionBudget {
            let metadata = json!({"name": name, "namespace": "shop", "generation": 2});
            let spec = json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}});
            let status = json!({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": desired,
                                "expectedPods": expected, "observedGeneration": observed});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
        };
        let keeps = |budgets: &[PodDisruptionBudget]| {
            let limits = Limits::of(budgets.iter(), &[]);
            let owner =
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]);
            limits.keep_for_good(&pod("web-0", &owner))
        };
        assert!(keeps(&[budget("web", 3, 3, 2)]));
        assert!(!keeps(&[budget("web", 4, 3, 2)]), "one may go once all are healthy");
        assert!(!keeps(&[budget("web", 3, 3, 1)]), "its spec has changed since");
        assert!(!keeps(&[budget("web", 0, 0, 2)]), "nobody was counted yet");
        let bare = Limits::of([budget("web", 0, 0, 2)].iter(), &[]).keep_for_good(&pod("bare", &json!([])));
        assert!(bare, "pods without a controller are not expected, and none may go");
        assert!(keeps(&[budget("web", 4, 3, 2), budget("other", 4, 3, 2)]), "nobody evicts a pod of two");
    }

    #[test]
    fn a_pod_that_is_kept_for_a_time_stays_until_shortly_before_that_is_over() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let started = |mark: &str| {
            let metadata =
                json!({"name": "a", "namespace": "shop", "annotations": {"karpenter.sh/do-not-disrupt": mark}});
            let status = json!({"startTime": "2026-01-01T00:00:00Z"});
            let pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": status});
            PodRecord::from(&serde_json::from_value::<Pod>(pod).unwrap())
        };
        let limits = Limits::of(std::iter::empty(), &[]);
        let stays = |mark: &str, deadline: Option<&str>, now: &str| {
            let pod = started(mark);
            let (staying, until) = limits.who_stays(&[&pod], deadline.map(at), at(now));
            (!staying.is_empty()).then(|| until.map(|until| until.to_string()))
        };
        let (early, late) = ("2026-01-01T01:00:00Z", "2026-01-01T01:56:00Z");
        assert_eq!(stays("2h", None, early), Some(Some("2026-01-01T01:55:00Z".to_owned())));
        assert_eq!(stays("2h", None, late), None, "its place is planned");
        assert_eq!(stays("2h", Some("2026-01-01T01:30:00Z"), early), Some(Some("2026-01-01T01:24:30Z".to_owned())));
        assert_eq!(stays("true", None, late), Some(None));
        assert_eq!(stays("0s", None, late), Some(None), "it means nothing, and keeps until it is mended");
        assert_eq!(stays("false", None, early), None);
    }

    fn pods(count: usize) -> Vec<PodRecord> {
        (0..count).map(|i| pod(&format!("web-{i}"), &json!([]))).collect()
    }

    fn pod(name: &str, owners: &Value) -> PodRecord {
        let metadata = json!({"name": name, "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owners});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        PodRecord::from(&pod)
    }

    fn refusal(budgets: &[Value], pods: &[PodRecord]) -> Option<(String, Cause)> {
        let budgets: Vec<PodDisruptionBudget> =
            budgets.iter().map(|b| serde_json::from_value(b.clone()).unwrap()).collect();
        let all: Vec<&PodRecord> = pods.iter().collect();
        Limits::of(budgets.iter(), &all).refusal(&pods[0])
    }

    fn budget(name: &str, spec: &Value, status: &Value) -> Value {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status})
    }

    #[rstest]
    #[case::as_its_controller_says(json!({"maxUnavailable": 1}), json!({"disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1}), false)]
    #[case::max_unavailable(json!({"maxUnavailable": 1}), Value::Null, true)]
    #[case::none_unavailable(json!({"maxUnavailable": 0}), Value::Null, false)]
    #[case::min_available(json!({"minAvailable": 2}), Value::Null, true)]
    #[case::all_available(json!({"minAvailable": 3}), Value::Null, false)]
    #[case::percent_available(json!({"minAvailable": "66%"}), Value::Null, true)]
    #[case::percent_rounds_up(json!({"minAvailable": "67%"}), Value::Null, false)]
    #[case::unreadable(json!({"minAvailable": "most"}), Value::Null, false)]
    fn a_budget_lets_pods_go_or_not(#[case] spec: Value, #[case] status: Value, #[case] goes: bool) {
        let expected = (!goes).then(|| ("pdb shop/web prevents pod evictions".to_owned(), Cause::BudgetInUse));
        assert_eq!(refusal(&[budget("web", &spec, &status)], &pods(3)), expected);
    }

    #[test]
    fn a_pod_of_two_budgets_cannot_be_evicted() {
        let of = |name| budget(name, &json!({"maxUnavailable": 1}), &Value::Null);
        let (text, cause) = refusal(&[of("a"), of("b")], &pods(3)).unwrap();
        assert!(text.contains("shop/a and another"), "{text}");
        assert_eq!(cause, Cause::Other, "it does not pass");
    }

    #[test]
    fn a_pod_that_is_not_ready_may_go_where_its_budget_says_so() {
        let spec = json!({"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        assert_eq!(refusal(&[budget("web", &spec, &Value::Null)], &pods(3)), None);
    }
}
